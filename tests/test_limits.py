"""Sizes that depend on the GPU, and limits of a named GPU on the host device: docs/limits.md."""

from __future__ import annotations

import importlib.util
import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from battery import csr, matrix
from commands import spgraph

from spgraph_bench.device import host_compiler
from spgraph_bench.device.host import HostDevice
from spgraph_bench.errors import LaunchError, SkipError, UsageError
from spgraph_bench.formats import get_format
from spgraph_bench.gpus import GPU, GPUS, H200, get_gpu, gpu_like
from spgraph_bench.matrix import Matrix
from spgraph_bench.problems import problems
from spgraph_bench.recipes import make
from spgraph_bench.runner.rehearsal import NotingDevice
from spgraph_bench.variants import Variant, get_variant, variants

ROOT = Path(__file__).resolve().parent.parent
KERNELS = Path(__file__).resolve().parent / "kernels"
needs_compiler = pytest.mark.skipif(host_compiler.available() is not None, reason=str(host_compiler.available()))


def test_page_has_the_table_of_gpus() -> None:
    page = (ROOT / "docs/limits.md").read_text()
    for gpu in GPUS:
        row = (
            f"| {gpu.name} | `{gpu.arch}` | {gpu.multiprocessors} | {gpu.threads_per_sm:,} | {gpu.blocks_per_sm} | "
            f"{gpu.shared_per_sm >> 10} | {gpu.shared_per_block >> 10} | {gpu.l2_bytes >> 20} | "
            f"{gpu.memory_bytes // 10**9} | {gpu.bandwidth:,.0f} |\n"
        )
        assert row in page, row


def test_gpus_are_found_by_name_and_by_architecture() -> None:
    assert get_gpu("t4").name == get_gpu("sm_75").name == "T4"
    assert get_gpu("NVIDIA GeForce RTX 4090") is get_gpu("rtx4090")
    assert get_gpu("sm_89").name == "L4"  # the smaller one of two
    with pytest.raises(UsageError, match="no GPU is called 'V100'") as caught:
        get_gpu("V100")
    assert "T4, A100, L4" in str(caught.value.remedy)


def test_resident_blocks_follow_threads_blocks_shared_memory_and_registers() -> None:
    assert H200.resident_blocks(1024) == 2 * 132
    assert H200.resident_blocks(32) == 32 * 132
    assert H200.resident_blocks(128, 113 << 10) == 2 * 132  # 228 KiB less 1 KiB for each block
    assert H200.resident_blocks(128, 114 << 10) == 132
    assert H200.resident_blocks(128, 228 << 10) == 0  # more than a block may have
    assert H200.resident_blocks(256, registers=64) == 4 * 132
    assert get_gpu("T4").resident_blocks(1024) == 40


def test_gpu_as_its_driver_describes_it() -> None:
    gpu = gpu_like("NVIDIA H200", "sm_90", 132, 62914560, 150109880320, 232448, 233472)
    assert (gpu.threads_per_sm, gpu.shared_per_block, gpu.bandwidth) == (2048, H200.shared_per_block, 4800.0)
    unknown = gpu_like("NVIDIA X", "sm_999", 10, 1 << 20, 1 << 30)
    assert (unknown.threads_per_sm, unknown.bandwidth) == (1024, None)


# ---- every variant on every GPU ---------------------------------------------------------------------------------


@cache
def _script() -> Any:
    spec = importlib.util.spec_from_file_location("kernel_modules", ROOT / "scripts/kernel_modules.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cache
def _graphs() -> tuple[Matrix, ...]:
    """A regular one that every format takes, and a wide one of few entries: tiles and bins are as large as may be."""
    ends = np.random.default_rng(1).integers(0, 200_000, (2, 3000))
    return make("poisson2d:n=24,values=ones"), matrix(csr(200_000, 200_000, *ends), "wide")


def _prepared(gpu: GPU, variant: Variant, dtype: str, **params: Any) -> list[str]:
    """What `variant` is refused for, of all cases."""
    of_options = [options for _, options in _script()._cases(variant)]
    options = of_options[0]
    cases = _graphs() if variant.format != "none" else [matrix for matrix, _ in _script()._cases(variant)]
    refused = []
    for case in cases:
        try:
            _script().prepared(NotingDevice(gpu=gpu), variant, case, dtype, "int32", options, params)
        except SkipError as refusal:
            refused.append(refusal.cause)
    return refused


FOR_THE_MATRIX = r"a compile is worth it from|diagonals; 1 to 64 can be compiled"


@pytest.mark.parametrize("gpu", GPUS, ids=lambda gpu: gpu.name)
def test_every_variant_launches_on_every_gpu(gpu: GPU) -> None:
    launched = 0
    for variant in (v for problem in problems() for v in variants(problem) if v.source is not None):
        for dtype in variant.dtypes:  # a launch that does not fit raises LaunchError
            refused = _prepared(gpu, variant, dtype)
            assert [why for why in refused if not re.search(FOR_THE_MATRIX, why)] == [], variant.name
            launched += 1
    assert launched > 140


@pytest.mark.parametrize(
    ("problem", "name", "params", "why"),
    [
        ("spmv", "binned", {"tile_width": 65535}, r"needs 276 kB .*has 65.5 kB: --param tile_width=12800$"),
        ("spmv", "binned", {"multiply_block": 1024}, r"this GPU has 65.5 kB: --param multiply_block=256$"),
        ("spmv", "binned-fused", {"stages": 6}, r"this GPU has 64.5 kB: --param stages=[23]$"),
        ("pagerank", "pull-hubs", {"hubs": 20_000}, r"^20,000 values do not fit into shared memory"),
    ],
)
def test_a_size_that_does_not_fit_is_refused_with_one_that_does(
    problem: str, name: str, params: dict[str, Any], why: str
) -> None:
    variant = get_variant(problem, name)
    assert not any(re.search(why, cause) for cause in _prepared(get_gpu("B200"), variant, "float32", **params))
    [*_, cause] = _prepared(get_gpu("T4"), variant, "float32", **params)
    assert re.search(why, cause), cause
    if remedy := re.search(r"--param (\w+)=(\d+)", cause):
        assert _prepared(get_gpu("T4"), variant, "float32", **{**params, remedy[1]: int(remedy[2])}) == []


def test_binned_formats_are_an_h200s_where_no_gpu_is_known() -> None:
    wide = _graphs()[1].csr
    for name in ("binned", "binned-chunks"):
        form = get_format(name)
        packed, small = form.pack(wide, np.float32), form.on(get_gpu("T4")).pack(wide, np.float32)
        for key, array in form.on(H200).pack(wide, np.float32).arrays.items():
            np.testing.assert_array_equal(packed.arrays[key], array)
        assert small.tiles > packed.tiles


@pytest.mark.parametrize("gpu", GPUS, ids=lambda gpu: gpu.name)
def test_an_sm_holds_six_bins_of_products_if_it_has_the_threads(gpu: GPU) -> None:
    for size in (4, 8):
        _, entries = get_format("binned").on(gpu)._sizes(1 << 20, 1 << 30, size, {})  # type: ignore[attr-defined]
        wanted = min(6, gpu.threads_per_sm // 256) * gpu.multiprocessors
        assert gpu.resident_blocks(256, entries * size) >= wanted


# ---- the host device with the limits of a GPU -------------------------------------------------------------------


def _kernel(device: HostDevice, file: str, name: str) -> Any:
    return device.compile(str(KERNELS / f"host_{file}.cu"), {"SPG_VALUE": "float", "SPG_OFFSET": "int"}).kernel(name)


@needs_compiler
def test_host_device_keeps_the_limits_of_a_gpu() -> None:
    device = HostDevice(limits="sm_75")
    assert device.gpu == get_gpu("T4") == device.info().gpu
    assert HostDevice().info().gpu == H200
    run, x = _kernel(device, "groups", "grid_rounds"), device.upload(np.zeros(10, np.int32))
    assert run.resident_blocks(1024) == 24
    size = np.int32(10)
    with pytest.raises(LaunchError, match=r"grid_rounds: a cooperative launch of 41 blocks; T4 holds 40 at a time"):
        run(41, 1024, size, np.int32(1), x, x, cooperative=True)
    run(24, 1024, size, np.int32(1), x, device.empty(10, np.int32), cooperative=True)
    reverse = _kernel(device, "memory", "reverse")
    with pytest.raises(LaunchError, match=r"reverse: 65,540 bytes of shared memory a block; at most 65,536 on T4"):
        reverse(1, 64, x, x, shared=65_540)
    _kernel(HostDevice(limits="A100"), "memory", "reverse").bind(1, 64, x, x, shared=65_540)
    free = device.free_bytes()
    block = device.empty(1 << 20, np.uint8)
    assert device.free_bytes() <= min(free, 16 * 10**9 - block.nbytes)


@needs_compiler
def test_static_and_dynamic_shared_memory_count_together() -> None:
    device = HostDevice(limits="T4")
    run, count = _kernel(device, "memory", "both_kinds"), device.upload(np.zeros(1, np.int32))
    run(1, 32, count, shared=24 << 10)
    assert device.download(count)[0] == 32
    with pytest.raises(LaunchError, match=r"both_kinds: 40960 bytes of static and 24577 of dynamic shared memory"):
        run(1, 32, count, shared=(24 << 10) + 1)


@needs_compiler
def test_limits_on_the_command_line() -> None:
    words = ("bench", "spmv", "poisson2d:n=12", "--no-save", "--variant", "binned*", "--time-limit", "0.01")
    done = spgraph(*words, "--device", "host", "--in-process", "--limits", "sm_75")
    assert done.returncode == 0
    assert "emulated here, with the limits of T4:" in done.stdout
    assert done.stdout.count(" ok ") == 2
    done = spgraph(*words, "--limits", "V100")
    assert (done.returncode, "one of T4, A100" in done.stderr) == (2, True)
