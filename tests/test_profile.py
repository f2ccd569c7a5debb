"""The memory trace: counts that are known, the command that shows them, ncu's counters beside them."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from battery import csr, matrix, random_rows
from click.testing import CliRunner

from spgraph_bench.cli.main import group
from spgraph_bench.device import host_compiler
from spgraph_bench.device.host import HostDevice
from spgraph_bench.device.trace import Counts, KernelTrace
from spgraph_bench.matrix import CSR
from spgraph_bench.measure.ncu import parse
from spgraph_bench.paths import cuda_dir
from spgraph_bench.runner.tracing import advise, trace_variant
from spgraph_bench.variants import get_variant

CASES = str(Path(__file__).resolve().parent / "kernels" / "trace_cases.cu")

pytestmark = pytest.mark.skipif(host_compiler.available() is not None, reason=str(host_compiler.available()))


@pytest.fixture
def device() -> HostDevice:
    return HostDevice(traced=True)


def _trace(device: HostDevice, name: str, grid: int, block: int, *args: Any) -> KernelTrace:
    device.reset_trace()
    device.compile(CASES).kernel(name)(grid, block, *args)
    device.synchronize()
    (kernel,) = device.trace()
    return kernel


@pytest.mark.parametrize(("stride", "sectors", "ideal"), [(1, 4, 4), (2, 8, 4), (8, 32, 4), (0, 1, 1), (32, 32, 4)])
def test_sectors_of_strided_loads(device: HostDevice, stride: int, sectors: int, ideal: int) -> None:
    x, y = (device.upload(np.zeros(n, np.float32)) for n in (128 * 32 + 32, 128))
    kernel = _trace(device, "strided", 4, 32, np.int32(stride), x, y)
    loads, stores = kernel.total("load"), kernel.total("store")
    assert (loads.requests, loads.lanes, loads.bytes) == (4, 128, 512)
    assert (loads.sectors_per_request, loads.ideal_per_request) == (sectors, ideal)
    assert (stores.requests, stores.sectors_per_request) == (4, 4)
    assert kernel.warps == 4
    assert kernel.blocks == 4


def test_vector_loads_are_one_request(device: HostDevice) -> None:
    x, y = (device.upload(np.zeros(n, np.float32)) for n in (128, 32))
    loads = _trace(device, "four_at_once", 1, 32, x, y).total("load")
    assert (loads.requests, loads.sectors, loads.bytes) == (1, 16, 512)


def test_loops_of_unlike_lengths(device: HostDevice) -> None:
    """Lane i loads i times: 31 requests, of 31 lanes first and of 1 at last."""
    x, y = (device.upload(np.zeros(32, np.float32)) for _ in range(2))
    loads = _trace(device, "triangle", 1, 32, x, y).total("load")
    assert (loads.requests, loads.lanes) == (31, 31 * 32 // 2)


@pytest.mark.parametrize(("stride", "passes"), [(1, 1), (2, 2), (32, 32), (33, 1), (0, 1)])
def test_bank_conflicts(device: HostDevice, stride: int, passes: int) -> None:
    y = device.upload(np.zeros(32, np.float32))
    reads = _trace(device, "banks", 1, 32, np.int32(stride), y).total("shared load")
    assert (reads.requests, reads.passes, reads.ideal_passes) == (1, passes, 1)


def test_lanes_that_meet_at_an_address(device: HostDevice) -> None:
    count = device.upload(np.zeros(64, np.int32))
    atomics = _trace(device, "crowd", 1, 64, np.int32(8), count).total("atomic")
    assert (atomics.requests, atomics.lanes, atomics.lanes_per_address, atomics.most) == (2, 64, 4, 4)


def test_caches_are_a_model_of_two_levels(device: HostDevice) -> None:
    x, y = (device.upload(np.zeros(n, np.float32)) for n in (32 * 33, 32))
    first = _trace(device, "strided", 1, 32, np.int32(1), x, y).total("load")
    assert (first.l1_hits, first.l2_hits, first.memory_sectors) == (0, 0, 4)
    device.compile(CASES).kernel("strided")(1, 32, np.int32(1), x, y)  # L1 starts empty, L2 does not
    (both,) = device.trace()
    assert (both.total("load").l1_hits, both.total("load").l2_hits) == (0, 4)


def test_csr_scalar_and_csr_vector_on_known_rows() -> None:
    a = random_rows([16] * 256, 4096)
    (scalar,) = trace_variant(get_variant("spmv", "csr-scalar"), matrix(a))
    source = (cuda_dir() / "spmv/csr_scalar.cu").read_text().splitlines()
    by_line = {source[line - 1]: c for ((_, line), what), c in scalar.lines.items() if what == "load"}
    inner = next(c for text, c in by_line.items() if "x[" in text)
    # Each lane reads a row of its own, 16 entries apart: a sector for each lane's column, value and x.
    assert inner.requests == 3 * 16 * 8 + 8  # and where the row begins
    assert inner.sectors_per_request > 25
    assert inner.lanes_per_request == 32
    vector = trace_variant(get_variant("spmv", "csr-vector"), matrix(a))
    assert sum(k.total("load").sectors for k in vector) < scalar.total("load").sectors


def test_advice_is_what_was_seen() -> None:
    a = matrix(random_rows([32] * 512, 4096))
    chosen = get_variant("spmv", "csr-scalar")
    advice = advise(chosen, trace_variant(chosen, a), a)
    assert advice.cause == "scattered"
    assert "spmv/csr_scalar.cu:" in advice.words
    assert advice.instead is not None
    assert "sectors in place of" in advice.evidence
    one_column = matrix(csr(2000, 2000, np.zeros(2000, int), np.arange(2000)))
    atomic = get_variant("spmv", "coo-atomic")
    assert advise(atomic, trace_variant(atomic, one_column), one_column).cause == "atomics"


def test_the_command_shows_the_source(tmp_path: Path) -> None:
    runner = CliRunner()
    line = ["profile", "csr-scalar", "uniform:n=512,degree=8", "--no-measured"]
    done = runner.invoke(group, line, catch_exceptions=False)
    assert done.exit_code == 0
    assert "kernel csr_scalar: launches 1" in done.output
    assert "row_ptr[" in done.output
    assert "from a model of the caches" in done.output
    data = json.loads(runner.invoke(group, [*line, "--json"], catch_exceptions=False).stdout)
    (kernel,) = data["kernels"]
    assert kernel["loads"]["requests"] > 0
    assert kernel["measured"] is None


def test_what_cannot_be_profiled_is_shown() -> None:
    runner = CliRunner()
    for line, words in (
        (["profile", "scipy", "uniform:n=64,degree=4", "--problem", "spmv"], "no kernel of its own"),
        (["profile", "uniform", "--problem", "bezier"], "has no matrix"),
        (["profile", "csr-scaler"], "csr-scalar"),
        (["profile", "csr-scalar", "uniform:n=64,degree=4", "--dtype", "int8"], "has no int8"),
        (["profile", "csr-scalar", "uniform:n=64,degree=4", "--dtype", "nonsense"], "has no nonsense"),
    ):
        done = runner.invoke(group, line)
        assert words in str(done.exception), done.exception


def test_the_trace_costs_less_than_thirty_times() -> None:
    """Of a launch large enough that it matters: of smaller ones every block is traced, which takes up to 120 times."""
    draw, rows = np.random.default_rng(1), 1 << 16
    a = CSR(
        rows, rows, np.arange(rows + 1) * 16, draw.integers(0, rows, 16 * rows).astype(np.int32), np.ones(16 * rows)
    )
    times = {}
    for traced in (False, True):
        device = HostDevice(traced=traced)
        run = _rows_of(device, a)
        if traced:
            device.reset_trace()
        run()
        best = []
        for _ in range(3):
            begin = time.process_time()
            run()
            best.append(time.process_time() - begin)
        device.synchronize()
        times[traced] = min(best)
    assert times[True] < 30 * times[False]


def _rows_of(device: HostDevice, a: CSR) -> Any:
    val = device.upload(a.values.astype(np.float32))
    x, y = device.upload(np.ones(a.cols, np.float32)), device.upload(np.zeros(a.rows, np.float32))
    row_ptr, col = device.upload(a.row_ptr.astype(np.int32)), device.upload(a.col_idx)
    module = device.compile("spmv/csr_scalar.cu", {"SPG_VALUE": "float", "SPG_OFFSET": "int"})
    return module.kernel("csr_scalar").bind(a.rows // 128, 128, np.int32(a.rows), row_ptr, col, val, x, y)


NCU: Mapping[str, float] = {
    "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum": 100,
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": 1580,
    "l1tex__t_sector_hit_rate.pct": 60.5,
    "lts__t_sector_hit_rate.pct": 80,
    "smsp__thread_inst_executed_per_inst_executed.ratio": 17.5,
}


def test_counters_of_ncu_are_read() -> None:
    head = ["ID", "Kernel Name", *NCU]
    rows = [head, ["", "", *("" for _ in NCU)], *(["0", "csr_scalar(int)", *map(str, NCU.values())] for _ in "ab")]
    log = "==PROF== Connected\n" + "\n".join(",".join(f'"{cell}"' for cell in row) for row in rows)
    result = parse(log)["csr_scalar"]
    assert (result.launches, result.requests, result.sectors_per_request, result.l1_hit) == (2, 200, 15.8, 60.5)
    assert parse("==ERROR== ERR_NVGPUCTRPERM") == {}


def test_the_comparison_with_ncu_is_a_table_that_can_fail(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    path = Path(__file__).resolve().parents[1] / "scripts" / "profile_against_ncu.py"
    spec = importlib.util.spec_from_file_location("profile_against_ncu", path)
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    measured = {"requests": 100.0, "sectors": 1580.0}
    kernel = {"name": "csr_scalar", "loads": {"requests": 10, "sectors": 160}, "measured": measured}
    printed = {"variant": "csr-scalar", "kernels": [kernel, {**kernel, "measured": None}]}
    monkeypatch.setattr(
        script.subprocess, "run", lambda *_, **__: subprocess.CompletedProcess([], 0, json.dumps(printed))
    )
    assert script.main(["csr-scalar"]) == 0
    assert "| csr-scalar | csr_scalar | 16.00 | 15.80 | +1.3% |" in capsys.readouterr().out
    measured["sectors"] = 1400.0
    assert script.main(["csr-scalar"]) == 1
    assert "modelled as 16.00, measured as 14.00" in capsys.readouterr().err


def test_counts_add_up() -> None:
    total = Counts(requests=1, lanes=32, most=3)
    total.add(Counts(requests=2, lanes=10, most=2))
    assert (total.requests, total.lanes, total.most) == (3, 42, 3)
    assert Counts().sectors_per_request == 0
