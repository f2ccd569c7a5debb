"""Variants that are right in their first run and cheat after it: none is ranked, on host and on a GPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from proportion import FULL

from spgraph_bench.results.record import Record

PLUGIN = Path(__file__).parent / "plugins" / "cheats.py"
MORE = PLUGIN.with_name("more_cheats.py")
DEVICES = ["host", pytest.param("cuda", marks=pytest.mark.gpu)]
REASONS = {
    "once": "wrong after",
    "once-without-poison": "reset() does not poison it",
    "previous": "wrong after",
    "first-runs": "wrong after",
    "counter": "wrong after",
    "in-output": "reset() does not poison it",
    "clock": "replaced time.perf_counter_ns",
    "thread": "",
    "spoils": "which other variants read too",
    "exits": "SystemExit",
    "interrupts": "KeyboardInterrupt",
    "ends": "ended with status 0",
    "exits-later": "SystemExit",
}
"""What the reason must say; "thread" and "pool" may be found in several ways."""


def bench(
    device: str,
    problem: str,
    matrix: str,
    *names: str,
    more: tuple[str, ...] = (),
    plugin: Path = PLUGIN,
    status: int = 1,
) -> dict[str, Record]:
    chosen = [word for name in names for word in ("--variant", name)]
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "spgraph_bench",
            "bench",
            problem,
            matrix,
            "--device",
            device,
            "--no-save",
            "--json",
            "--time-limit",
            "0.05",
            "--baseline-seconds",
            "100",
            *chosen,
            *more,
        ],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "NO_COLOR": "1", "SPGRAPH_PLUGINS": str(plugin)},
    )
    assert "Traceback" not in done.stderr
    assert done.returncode == status, done.stderr
    return {r.variant: r for r in (Record.from_json(json.loads(line)) for line in done.stdout.splitlines())}


def _in_turn(first: int) -> list[str]:
    """Each cheat on the device or on the CPU, in turn; in full on both. What ends a worker takes a second."""
    names = [*REASONS, "pool", "remembers"]
    both = [[f"gpu-{name}", f"cpu-{name}"] for name in names]
    return [n for pair in both for n in pair] if FULL else [pair[(first + i) % 2] for i, pair in enumerate(both)]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("problem", "matrix", "honest", "cheats", "more"),
    [
        ("spmv", "poisson2d:n=20", ("csr-scalar", "scipy"), _in_turn(0), ()),
        ("bfs", "grid:n=12", ("push", "scipy"), _in_turn(1), ("--sources", "1")),
    ],
    ids=["spmv", "bfs"],
)
def test_no_cheat_is_ranked(
    device: str, problem: str, matrix: str, honest: tuple[str, str], cheats: list[str], more: tuple[str, ...]
) -> None:
    records = bench(device, problem, matrix, *honest, *cheats, more=more)
    for name in honest:
        assert records[name].status == "ok", records[name].reason
        assert records[name].check["verified"] >= 2
    assert {name for name, record in records.items() if record.library == "cheat"} == set(cheats)
    for name in cheats:
        where, cheat = name.split("-", 1)
        if device == "host" and where == "gpu" and cheat in ("pool", "remembers"):
            continue  # kernels are not timed there, and these are right
        record = records[name]
        assert record.status in ("wrong", "failed"), name
        if (
            cheat != "spoils" or "the GPU reported" not in record.reason
        ):  # spoiled offsets may end in a segmentation fault
            assert REASONS.get(cheat, "") in record.reason, (name, record.reason)
        assert record.reason, name
        assert "no check covers" not in record.reason, name  # which would hide what the check says
        assert record.status == "failed" or not record.samples, name


def test_a_traversal_that_computes_once_is_wrong_for_its_other_sources() -> None:
    records = bench("host", "bfs", "grid:n=6", "push", "gpu-once*", more=("--sources", "4"))
    assert records["push"].status == "ok"
    assert records["gpu-once"].status == records["gpu-once-without-poison"].status == "wrong"


@pytest.mark.parametrize("device", DEVICES)
def test_what_a_reset_has_to_do_is_done_before_every_run(device: str) -> None:
    """The one that finds the results of the run before, too."""
    records = bench(device, "spmv", "poisson2d:n=20", "copied-x", plugin=PLUGIN.with_name("copied.py"), status=0)
    assert records["copied-x"].status == "ok", records["copied-x"].reason


@pytest.mark.parametrize("device", DEVICES)
def test_what_kernels_do_wrong_beside_the_first_result_is_named(device: str) -> None:
    records = bench(device, "spmv", "poisson2d:n=20", "kernel-*", "csr-vector")
    assert "bytes 1 to 4 after its last byte of y" in records["kernel-beyond"].reason
    assert "bytes 1 to 4 before its first byte of y" in records["kernel-before"].reason
    assert records["kernel-reads-outside"].status == "wrong"  # x is between NaN
    assert records["kernel-unreset"].reason.startswith("wrong after 2 runs")
    assert records["kernel-poisoned-only"].reason.startswith("wrong after ")
    if device == "host":
        assert records["kernel-in-order"].reason.startswith("wrong after 3 runs: ")
        assert records["kernel-in-order"].reason.endswith("; threads had another order than in the first run")
    assert "it changed val of the matrix" in records["kernel-spoils"].reason
    assert records["csr-vector"].status == "ok"
    records = bench(device, "bfs", "grid:n=12", "kernel-*", "push")
    assert "after its last byte of level" in records["kernel-beyond"].reason


def test_in_process_an_exit_is_a_failure_too() -> None:
    records = bench("host", "spmv", "grid:n=5", "cpu-exits*", "cpu-interrupts", "csr-scalar", more=("--in-process",))
    assert {n: r.status for n, r in records.items()} == {
        "cpu-exits": "failed",
        "cpu-exits-later": "failed",
        "cpu-interrupts": "failed",
        "csr-scalar": "ok",
    }


def test_sums_of_integers_find_one_lost_entry_of_a_long_row(tmp_path: Path) -> None:
    """The bound on rounding lets go of hundreds (see docs/measuring.md)."""
    source = tmp_path / "drop.cu"
    source.write_text(
        '#include "common/spg.cuh"\n'
        "SPG_KERNEL drop(index_t rows, const offset_t* row_ptr, const index_t* col, const value_t* val,\n"
        "                const value_t* x, value_t* y) {\n"
        "    const index_t row = blockIdx.x * blockDim.x + threadIdx.x;\n"
        "    if (row >= rows) return;\n"
        "    const offset_t end = row_ptr[row + 1] - (row_ptr[row + 1] - row_ptr[row] > 2999 ? 1 : 0);\n"
        "    value_t sum = 0;\n"
        "    for (offset_t k = row_ptr[row]; k < end; ++k) sum += val[k] * x[col[k]];\n"
        "    y[row] = sum;\n}\n"
    )
    plugin = tmp_path / "drop.py"
    plugin.write_text(
        "import numpy as np\n"
        "from spgraph_bench.variants.base import variant\n"
        f"@variant('spmv', 'drop', format='csr', source={str(source)!r}, about='drops an entry')\n"
        "def drop(job):\n"
        "    a, r = job.packed, job.arrays\n"
        "    return job.launch(job.kernel('drop').bind(-(-a.rows // 128), 128, np.int32(a.rows),\n"
        "        r['row_ptr'], r['col'], r['val'], job.buffers['x'], job.buffers['y']))\n"
    )
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "spgraph_bench",
            "bench",
            "spmv",
            "arrow:n=20000",
            "--device",
            "host",
            "--no-save",
            "--json",
            "--variant",
            "drop",
            "--variant",
            "csr-scalar",
        ],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "SPGRAPH_PLUGINS": str(plugin)},
    )
    records = {r["variant"]: r for r in map(json.loads, done.stdout.splitlines())}
    assert done.returncode == 1
    assert records["drop"]["status"] == "wrong"
    assert records["drop"]["reason"].startswith("exact pass, draw 1: 1 of 20,000 sums of integers differ")
    assert records["csr-scalar"]["status"] == "ok"
    assert records["csr-scalar"]["check"]["exact"]["draws"] == 2


@pytest.mark.parametrize("device", DEVICES)
def test_what_judges_is_not_cheated_and_the_others_are_not_spoilt(device: str) -> None:
    records = bench(device, "spmv", "poisson2d:n=20", "csr-scalar", "csr-vector", "scipy", "gpu-*", plugin=MORE)
    reasons = {
        "computes-in-output": "wrong after",
        "knows-multiples": "wrong after",
        "agrees": "rows wrong",
        "replaces-judge": "it replaced Judge.result",
        "replaces-sample": "it replaced spgraph_bench.measure.cpu_clock.perf_counter_ns",
        "changes-input": "it changed x, which is an input",
        "many-iterations": "facts() says 1000000000 iterations",
        "odd-setup": "preprocess_ms of its Launch is 'none'",
        "odd-cases": "cases of its Launch is 1000000000",
        "no-launch": "its host function gave a NoneType",
        "no-array": "output() gave a list, not an array",
        "textless": "TextlessError: its text cannot be shown",
        "leaves": "GeneratorExit",
        "moves": "it changed the working folder and environment variables",
        "leaves-process": "left 1 process",
    }
    for name, reason in reasons.items():
        record = records[f"gpu-{name}"]
        assert record.status in ("wrong", "failed"), name
        if name != "leaves-process":  # one for each draw of the exact pass, too
            assert reason in record.reason, (name, record.reason)
    assert "running" in records["gpu-leaves-process"].reason
    for name in ("csr-scalar", "csr-vector", "scipy", "gpu-states-other-bytes"):
        assert records[name].status == "ok", (name, records[name].reason)
    right, other = records["csr-scalar"], records["gpu-states-other-bytes"]
    assert other.bytes["compulsory"] == right.bytes["compulsory"]
    assert other.params == right.params


def test_a_variant_that_ends_the_worker_later_costs_no_other_its_row() -> None:
    names = ("cpu-ends-later", "cpu-knows-multiples", "cpu-changes-input")
    records = bench("host", "spmv", "poisson2d:n=20", "cpu-rows", "scipy", *names, plugin=MORE)
    reasons = {"cpu-knows-multiples": "wrong after", "cpu-changes-input": "it changed x, which is an input"}
    records.pop("cpu-ends-later")  # right, if its own timing is over by then
    assert {n: r.status for n, r in records.items() if n not in reasons} == {"cpu-rows": "ok", "scipy": "ok"}
    for name, reason in reasons.items():
        assert records[name].status in ("wrong", "failed"), name
        assert reason in records[name].reason, (name, records[name].reason)


def test_a_traversal_cannot_compute_once_its_run_is_over() -> None:
    names = ("gpu-computes-in-output", "gpu-waits-in-output", "cpu-computes-in-output", "cpu-waits-in-output")
    records = bench("host", "bfs", "grid:n=40", "push", "scipy", *names, more=("--sources", "2"), plugin=MORE)
    assert records["push"].status == records["scipy"].status == "ok"
    for name in names:
        assert records[name].status == "wrong", name


def test_an_output_that_no_check_can_read_is_described() -> None:
    from spgraph_bench.problems import get_problem
    from spgraph_bench.runner.on_device.judging import _readable
    from spgraph_bench.runner.verify import WrongOutputError

    with (
        pytest.raises(WrongOutputError, match=r"count int32 \[3\] \(KeyError: 'uniform'\)"),
        _readable({"count": np.zeros(3, np.int32)}),
    ):
        raise KeyError("uniform")
    right = np.zeros(2, np.uint32)
    for other in (right.astype(np.complex128), right[None], {"cells": right}):
        result = get_problem("refine").check(other, {"right": right}, np.dtype(np.float32))
        assert not result.ok
        assert "not uint32 [cells]" in result.message
