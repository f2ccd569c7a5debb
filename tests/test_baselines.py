"""CPU baselines come after the kernels, and have seconds of their own: docs/measuring.md."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from commands import in_a_terminal, spgraph

from spgraph_bench.parameters import Parameter
from spgraph_bench.results.record import Record
from spgraph_bench.runner import baselines
from spgraph_bench.runner.plan import Cell, Outcome

REASON = "the {} s of all CPU baselines are not enough to {} it too: --baseline-seconds"
PLUGIN = Path(__file__).parent / "plugins" / "slow.py"


def _records(*args: str) -> list[Record]:
    """Of a run with the slow variants, in the order in which they ended."""
    words = ["bench", "spmv", "grid:n=12", "--device", "host", "--no-save", "--json", "--time-limit", "0.1", *args]
    done = subprocess.run(
        [sys.executable, "-m", "spgraph_bench", *words],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "SPGRAPH_PLUGINS": str(PLUGIN)},
    )
    assert done.returncode == 0, done.stderr
    return [Record.from_json(json.loads(line)) for line in done.stdout.splitlines()]


def test_a_slow_baseline_is_skipped_and_costs_the_others_nothing() -> None:
    names = ("--variant", "csr-scalar", "--variant", "scipy", "--variant", "slow-check")
    kernel, *others = _records(*names, "--baseline-seconds", "8")
    assert (kernel.variant, kernel.status) == ("csr-scalar", "ok")
    by_name = {r.variant: r for r in others}
    assert by_name["scipy"].status == "ok"
    assert all(len(s.times_ms) >= 6 for s in by_name["scipy"].samples)
    assert by_name["slow-check"].status == "skipped"
    assert by_name["slow-check"].reason == REASON.format(8, "check")


def test_a_baseline_without_time_for_samples_is_skipped() -> None:
    names = ("--variant", "csr-scalar", "--variant", "slow-runs", "--warmup", "1000")
    kernel, slow = _records(*names, "--baseline-seconds", "2")
    assert kernel.status == "ok"
    assert (slow.status, slow.samples) == ("skipped", ())
    assert slow.reason == REASON.format(2, "time")


def _statuses(monkeypatch: pytest.MonkeyPatch, *args: str) -> dict[str, str]:
    """Of variants of spmv, where baselines have no time by default."""
    monkeypatch.setattr(baselines, "BASELINE_SECONDS", Parameter(0.0, "", between=(0.0, 1.0)))
    words = ("bench", "spmv", "grid:n=12", "--device", "host", "--no-save", "--json", "--time-limit", "0.01")
    done = spgraph(*words, "--in-process", *args)
    return {r["variant"]: r["status"] for r in map(json.loads, done.stdout.splitlines())}


def test_baselines_alone_have_no_limit_unless_one_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    both = ("--variant", "csr-scalar", "--variant", "scipy")
    assert _statuses(monkeypatch, *both) == {"csr-scalar": "ok", "scipy": "skipped"}
    assert _statuses(monkeypatch, *both, "--baseline-seconds", "5") == {"csr-scalar": "ok", "scipy": "ok"}
    assert _statuses(monkeypatch, "--variant", "scipy") == {"scipy": "ok"}
    assert _statuses(monkeypatch, "--variant", "scipy", "--baseline-seconds", "0") == {"scipy": "skipped"}


def test_baselines_that_should_end_in_time_are_timed_together_and_before_the_others() -> None:
    cells = [Cell(name, "float32") for name in ("minute", "fast", "slow", "fair")]
    seconds = {"minute": 60.0, "fast": 0.01, "slow": 2.0, "fair": 0.2}
    records: Any = SimpleNamespace(outcomes={c.key: Outcome("ok", run_s=seconds[c.variant]) for c in cells})
    groups = [[c.variant for c in group] for group in baselines._in_turn(cells, records, 10.0)]
    assert groups == [["fast", "fair"], ["slow"], ["minute"]]
    assert baselines._in_turn(cells, records, float("inf")) == [cells]


BOTH = (
    "bench",
    "spmv",
    "grid:n=12",
    "--device",
    "host",
    "--no-save",
    "--variant",
    "csr-scalar",
    "--variant",
    "slow-check",
)


def test_an_interrupted_baseline_leaves_the_kernels_their_rows() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "spgraph_bench", *BOTH, "--baseline-seconds", "1k"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "SPGRAPH_PLUGINS": str(PLUGIN)},
    )
    assert process.stderr
    assert "kernels are done; CPU baselines take up to 1000 s more" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert out.count("csr-scalar  csr     ok ") == 1
    assert "interrupted before it was checked" in out


def test_a_terminal_shows_the_kernels_while_baselines_run(tmp_path: Path) -> None:
    words = (*BOTH, "--baseline-seconds", "3")
    status, text = in_a_terminal(*words, cwd=tmp_path, SPGRAPH_PLUGINS=str(PLUGIN))
    assert status == 0
    assert "kernels are done" not in text  # which the table shows
    first, last = text.split("\x1b[1A\x1b[2K")[0], text.rpartition("\x1b[1A\x1b[2K")[2]
    assert "slow-check (test)" not in first  # its row is the last
    assert "slow-check (test)" in last
    for table in (first, last):
        assert table.count("csr-scalar  csr     ok ") == 1
