"""Sizes that depend on the GPU, and limits of a named GPU on the host device: docs/limits.md."""

from __future__ import annotations

from pathlib import Path

import pytest

from spgraph_bench.errors import UsageError
from spgraph_bench.gpus import GPUS, H200, get_gpu, gpu_like

ROOT = Path(__file__).resolve().parent.parent


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
