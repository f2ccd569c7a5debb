"""The fixture `spgraph_no_regression`, in a pytest of its own; and the recipes of docs/api.md."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from test_report import make_record

import spgraph_bench
from spgraph_bench import pytest_plugin
from spgraph_bench.results.record import Record

ROOT = Path(__file__).resolve().parent.parent
_Failed: Any = pytest.fail.Exception


def _check(records: list[Record], path: Path, update: bool = False, strict: bool = False, **more: Any) -> Any:
    return pytest_plugin._check(
        records, path, update, more.get("threshold", 0.03), "cold", strict, more.get("allow", ())
    )


def test_what_passes_and_what_fails(tmp_path: Path) -> None:
    path = tmp_path / "new" / "a.jsonl"
    base = [make_record("csr-vector", 1.0), make_record("sell", 2.0)]
    with pytest.raises(_Failed, match=r"there is no baseline .*--spgraph-update"):
        _check(base, path)
    assert _check(base, path, update=True) is None
    assert _check(base, path).count("same") == 2
    slower = [make_record("csr-vector", 1.05), make_record("sell", 2.0)]
    with pytest.raises(_Failed, match=r"(?s)slower than .*csr-vector"):
        _check(slower, path)
    assert _check(slower, path, threshold=0.1)
    wrong = [make_record("csr-vector", 1.0, status="wrong", reason="row 3", samples=()), base[1]]
    for update in (False, True):
        with pytest.raises(_Failed, match="wrong, row 3"):
            _check(wrong, path, update=update)
    assert _check(base, path).count("same") == 2  # the baseline is as it was
    assert _check(base[:1], path)
    with pytest.raises(_Failed, match=r"sell .* is in the baseline only"):
        _check(base[:1], path, strict=True)


def test_what_cannot_be_compared_fails(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    base = [make_record("csr-vector", 1.0)]
    _check(base, path, update=True)
    other = [replace(base[0], device={**base[0].device, "name": "another"})]
    with pytest.raises(_Failed, match="differ in device"):
        _check(other, path)
    assert _check(other, path, allow=("device",))
    with pytest.raises(_Failed, match="no cell was timed"):
        _check([replace(base[0], samples=())], path)
    with pytest.raises(_Failed, match="no cell was timed"):
        _check([], path, update=True)
    with pytest.raises(_Failed, match="no cell is in both"):
        _check([make_record("sell", 1.0)], path)
    path.write_text("not json\n")
    with pytest.raises(_Failed, match=r"a\.jsonl"):
        _check(base, path)


def test_in_a_pytest_of_its_own(tmp_path: Path) -> None:
    """Options, the name of the file, and the exit status; scipy is timed everywhere."""
    (tmp_path / "test_speed.py").write_text(
        "import spgraph_bench, pytest\n"
        "@pytest.mark.parametrize('n', [4])\n"
        "def test_it(spgraph_no_regression, n):\n"
        "    made = spgraph_bench.bench(f'poisson2d:n={n}', variants='scipy', device='host', in_process=True,\n"
        "                               time_limit=0.02)\n"
        "    spgraph_no_regression(made, threshold=50)\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "spgraph_bench.pytest_plugin", "-p", "no:cacheprovider"]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # installed or not: named once

    def pytest_(*args: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*command, *args], cwd=tmp_path, capture_output=True, text=True, timeout=120, env=environment
        )

    assert pytest_("--spgraph-update").returncode == 0
    (file,) = (tmp_path / "baselines").iterdir()
    assert file.name == "test_it-4.jsonl"
    again = pytest_()
    assert again.returncode == 0, again.stdout


def test_the_entry_point_is_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["entry-points"]["pytest11"] == {"spgraph": pytest_plugin.__name__}


def test_recipes_for_pandas_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each line of the page, on records."""
    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8").split("## Recipes for pandas")[1]
    match = re.search(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    assert match is not None
    code = re.sub(r"^(ok\.plot|plt\.).*\n", "", match[1], flags=re.MULTILINE)  # which need matplotlib
    monkeypatch.chdir(tmp_path)
    hot = make_record("csr-vector", 1.0).samples[0]
    records = [
        make_record("csr-vector", 1.0, samples=(hot, replace(hot, cache="hot"))),
        make_record("cusparse-csr", 2.0, library="cuSPARSE"),
        make_record("dia", 1.0, samples=(), status="skipped", reason="too wide"),
    ]
    (tmp_path / "results").mkdir()
    spgraph_bench.Results(records).save("results/a.jsonl")
    from spgraph_bench.results.store import to_json_lines
    from spgraph_bench.results.tidy import derived

    Path("records.jsonl").write_text(to_json_lines(records, derived(records)))
    names: dict[str, Any] = {"spgraph_bench": spgraph_bench, "np": np, "pd": pd}
    exec(compile(code, "docs/api.md", "exec"), names)
    assert list(names["best"].variant) == ["csr-vector"]
