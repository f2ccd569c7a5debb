"""Exit statuses of whole runs, as a shell or a CI job sees them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
PLUGIN = ROOT / "tests" / "plugins" / "faulty.py"
BENCH = ("bench", "spmv", "rmat:scale=6", "--device", "host", "--no-save", "--time-limit", "0.1")


def _start(*args: str, cwd: Path, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "spgraph_bench", *args],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
    )  # fmt: skip


def _spgraph(*args: str, cwd: Path, **environment: str) -> tuple[int, str, str]:
    process = _start(*args, cwd=cwd, **environment)
    out, err = process.communicate(timeout=120)
    assert "Traceback" not in err
    return process.returncode, out, err


def _records(out: str) -> dict[str, Any]:
    return {record["variant"]: record for record in map(json.loads, out.splitlines())}


def test_0_all_well_and_a_skip_is_well(tmp_path: Path) -> None:
    status, out, _ = _spgraph(*BENCH, "--variant", "csr-*", "--variant", "cusparse-*", "--json", cwd=tmp_path)
    found = {name: record["status"] for name, record in _records(out).items()}
    assert status == 0
    assert found["csr-scalar"] == "ok"
    assert found["cusparse-csr-1"] == "skipped"
    assert not list(tmp_path.iterdir()), "--no-save kept something"


def test_1_a_wrong_variant(tmp_path: Path) -> None:
    status, out, _ = _spgraph(
        *BENCH,
        "--variant",
        "csr-scalar",
        "--variant",
        "faulty-short",
        cwd=tmp_path,
        SPGRAPH_PLUGINS=str(PLUGIN),
    )
    assert status == 1
    assert "faulty-short" in out
    assert "wrong" in out


def test_1_a_variant_that_never_returns_and_the_run_goes_on(tmp_path: Path) -> None:
    status, out, _ = _spgraph(
        *BENCH, "--variant", "csr-scalar", "--variant", "faulty-hang", "--watchdog", "2", "--json",
        cwd=tmp_path, SPGRAPH_PLUGINS=str(PLUGIN),
    )  # fmt: skip
    found = _records(out)
    assert status == 1
    assert found["faulty-hang"]["status"] == "failed"
    assert "no answer in 2" in found["faulty-hang"]["reason"]
    assert found["csr-scalar"]["status"] == "ok"


def test_1_nothing_ran(tmp_path: Path) -> None:
    status, _, err = _spgraph(*BENCH, "--variant", "cusparse-*", cwd=tmp_path)
    assert status == 1
    assert "nothing ran" in err


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("bench", "spmv", "no-such-file.mtx"), "no such file"),
        (("bench", "spmw"), "Did you mean spmv?"),
        ((*BENCH, "--variant", "csr-vectr"), "csr-vector"),
        ((*BENCH, "--format", "nope"), "no variant of spmv reads a format 'nope'"),
        ((*BENCH, "--param", "blok=128"), "blok"),
        ((*BENCH, "--param", "block=3"), "block"),
        (("info", "rmat:scale=99"), "scale takes 1.."),
        (("generate", "rmta:scale=4", "-o", "x.mtx"), "did you mean rmat"),
    ],
)
def test_2_usage_and_input(args: tuple[str, ...], said: str, tmp_path: Path) -> None:
    status, out, err = _spgraph(*args, cwd=tmp_path)
    assert status == 2, err
    assert said in err
    assert out == ""


def test_2_an_index_out_of_range_is_one_line_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "bad.mtx").write_text(
        "%%MatrixMarket matrix coordinate real general\n% a comment\n3 3 2\n1 1 1.0\n4 1 1.0\n"
    )
    status, out, err = _spgraph("bench", "spmv", "bad.mtx", "--device", "host", cwd=tmp_path)
    assert status == 2
    assert "bad.mtx:5: " in err
    assert len(err.strip().splitlines()) <= 2
    assert out == ""


@pytest.mark.parametrize("device", ["cuda:99"])
def test_3_no_such_device(device: str, tmp_path: Path) -> None:
    status, out, err = _spgraph("bench", "spmv", "rmat:scale=6", "--device", device, cwd=tmp_path)
    assert status == 3
    assert err.startswith("error: ")
    assert "remedy: " in err
    assert out == ""


def test_2_results_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "results").touch()
    status, out, err = _spgraph("bench", "spmv", "rmat:scale=6", "--device", "host", cwd=tmp_path)
    assert status == 2
    assert "results" in err
    assert out == ""


def test_130_interrupted_with_the_table_of_what_was_finished(tmp_path: Path) -> None:
    """Ctrl-C while a variant hangs: the others are in the table and in the records."""
    process = _start(
        "bench", "spmv", "rmat:scale=6", "--device", "host", "--variant", "csr-scalar",
        "--variant", "faulty-late-hang", "--time-limit", "60", cwd=tmp_path, SPGRAPH_PLUGINS=str(PLUGIN),
    )  # fmt: skip
    deadline = time.monotonic() + 60
    while not any(file.stat().st_size for file in (tmp_path / "results").glob("*.jsonl")):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert "csr-scalar" in out
    assert "interrupted" in err
