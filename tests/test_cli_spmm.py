"""`spgraph bench spmm`: its own options, in the command line, the table and the records."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from battery import battery, matrix

from spgraph_bench.problems import get_problem
from spgraph_bench.report import render
from spgraph_bench.runner.on_device.service import Service
from spgraph_bench.runner.payload import Payload
from spgraph_bench.runner.plan import Cell, Task
from tests.test_cli_main import spgraph
from tests.test_results import around, record

pytestmark = pytest.mark.slow

BENCH = ("--device", "host", "--no-save", "--time-limit", "0.1", "--in-process")


def _records(*args: str) -> dict[str, Any]:
    done = spgraph("bench", "spmm", *args, *BENCH, "--json")
    assert done.returncode == 0, done.stderr
    return {data["variant"]: data for data in map(json.loads, done.stdout.splitlines())}


def test_options_are_in_the_records() -> None:
    records = _records("rmat:scale=5", "--k", "7", "--layout", "column", "--variant", "csr-*", "--variant", "scipy")
    assert {r["status"] for r in records.values()} == {"ok"}
    for entry in records.values():
        assert entry["options"] == {"k": 7, "layout": "column"}
        assert entry["operations"] == 2 * entry["matrix"]["nnz"] * 7
    assert records["csr-row"]["params"]["width"] == 8


def test_defaults_are_kept_too_and_skipped_rows_have_them() -> None:
    records = _records("rmat:scale=5", "--variant", "ell", "--variant", "blocked-ell")
    assert records["ell"]["options"] == {"k": 32, "layout": "row"}
    assert records["blocked-ell"]["status"] == "skipped"
    assert records["blocked-ell"]["reason"] == "blocked-ell has no float32, only float16"
    assert records["blocked-ell"]["options"] == {"k": 32, "layout": "row"}


def test_half_precision_runs_where_a_variant_has_it() -> None:
    records = _records("blocks:n=6", "--k", "16", "--dtype", "float16")
    assert records["blocked-ell"]["status"] == "ok"
    assert {r["status"] for name, r in records.items() if name != "blocked-ell"} == {"skipped"}


def test_the_table_says_the_options() -> None:
    done = spgraph("bench", "spmm", "rmat:scale=5", "--k", "3", "--variant", "csr-row", *BENCH)
    assert done.returncode == 0
    assert "float32, k 3, layout row, int32 offsets, seed 1" in done.stdout
    assert "csr-row" in done.stdout


@pytest.mark.parametrize(
    ("args", "message", "remedy"),
    [
        (["spmm", "--k", "0"], "'--k': cannot be '0'", "from 1 to 512."),
        (["spmm", "--k", "513"], "'--k': cannot be '513'", "from 1 to 512"),
        (["spmm", "--k", "1e3"], "'--k': cannot be '1e3'", "from 1 to 512"),
        (["spmm", "--layout", "diagonal"], "'--layout': cannot be 'diagonal'", "row, column"),
        (["spmv", "--k", "3"], "No such option", "`spgraph bench spmv --help`"),
        (["spmv", "--dtype", "float16"], "'float16' is not one of", "'float32', 'float64', 'both'"),
        (["spmm", "--param", "ell_block=8", "--dtype", "float16"], "blocked-ell: ell_block cannot be '8'", "16, 32"),
    ],
)
def test_what_cannot_be_is_usage(args: list[str], message: str, remedy: str) -> None:
    done = spgraph("bench", *args, "rmat:scale=4", *BENCH)
    assert done.returncode == 2, done.stdout
    assert message in done.stderr
    assert remedy in done.stderr
    assert "Traceback" not in done.stderr


def test_help_offers_them_without_slowing_the_start() -> None:
    shown = spgraph("bench", "spmm", "--help").stdout
    assert "--k 1..512" in shown
    printed = " ".join(shown.split())
    assert "Columns of X and Y [default: 32]" in printed
    assert "--depth" not in shown
    code = "import spgraph_bench.cli.bench, sys; sys.exit('spgraph_bench.problems' in sys.modules)"
    root = str(Path(__file__).resolve().parent.parent)
    assert subprocess.run([sys.executable, "-c", code], cwd=root).returncode == 0


def test_records_with_other_options_are_in_another_table() -> None:
    cells = [
        record("csr-row", around(1.0), problem="spmm", options={"k": k, "layout": layout})
        for k, layout in ((8, "row"), (8, "column"), (16, "row"))
    ]
    text = render(cells)
    assert text.count("csr-row") == 2 * 3  # timed and preparation, in each of three tables
    for line in ("float32, k 8, layout row", "float32, k 8, layout column", "float32, k 16, layout row"):
        assert line in text


def test_room_for_x_and_y_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """No room for X and Y, or none for the matrix beside them, is told before anything is allocated."""
    service = Service("host", lambda message: None)
    a, dtype = battery()["tridiagonal"], np.dtype(np.float32)
    problem = get_problem("spmm", {"k": 100})
    whole = matrix(a)
    outputs = {name: (shape, str(kind)) for name, (shape, kind) in problem.output_arrays(whole, dtype).items()}
    inputs = problem.inputs(whole, dtype, 1)
    oracle = problem.oracle(whole, inputs, dtype)
    payload = Payload(a, inputs={"float32": inputs}, oracles={"float32": oracle})
    task = Task("spmm", {"float32": outputs}, options={"k": 100, "layout": "row"})
    service.load(task, payload)
    cell = Cell("csr-row", "float32")
    dense, stored = 2 * 300 * 100 * 4, 301 * 4 + 898 * 8
    for free, expected in (
        (dense - 1, "inputs and outputs need 240 kB; device has 240 kB"),
        (dense + stored - 1, "csr needs 8.39 kB; device has 8.39 kB free"),
    ):
        monkeypatch.setattr(service.device, "free_bytes", lambda free=free: free)
        outcome = service.check(cell)
        assert (outcome.status, outcome.reason) == ("skipped", expected)
    monkeypatch.setattr(service.device, "free_bytes", lambda: dense + stored)
    assert service.check(cell).status == "ok"
    service.close()


@pytest.mark.parametrize(
    ("problem", "variants"), [("spmm", ("csr-tile",)), ("spmv", ("csr-adaptive", "csr-merge", "csr-segmented"))]
)
def test_what_is_emulated_has_no_time_of_preprocessing_either(problem: str, variants: tuple[str, ...]) -> None:
    chosen = [word for name in variants for word in ("--variant", name)]
    done = spgraph("bench", problem, "rmat:scale=5", *chosen, *BENCH, "--json")
    data = [json.loads(line) for line in done.stdout.splitlines()]
    assert {r["variant"]: r["times"]["preprocess_ms"] for r in data} == dict.fromkeys(variants, 0.0)
