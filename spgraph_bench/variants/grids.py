"""Grids of kernels whose blocks wait for each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spgraph_bench.device.base import Device, Kernel
from spgraph_bench.formats.base import Tunable

__all__ = ["GRID", "cooperative_shape"]

GRID = {
    "block": Tunable(
        0, "threads per block; 0: 1024, on the host device 128", (0, 32, 64, 128, 256, 512, 1024)
    ),
    "blocks_per_multiprocessor": Tunable(
        0, "blocks that a multiprocessor gets; 0: as many as fit", between=(0, 64)
    ),
}
_EMULATED_BLOCKS = 4
"""More would only make the host device slower."""


def cooperative_shape(
    device: Device, kernel: Kernel, params: Mapping[str, Any], items: int, shared: int = 0
) -> tuple[int, int]:
    """Blocks and threads per block of a cooperative launch by the tunables GRID: as many blocks as fit on the
    device at once with `shared` bytes of dynamic shared memory each, but no more than have one of `items`."""
    emulated = device.kind == "host"
    block = int(params["block"]) or (128 if emulated else 1024)
    fitting = kernel.resident_blocks(block, shared)
    each = int(params["blocks_per_multiprocessor"])
    if emulated:
        fitting = min(fitting, _EMULATED_BLOCKS)
    elif each:
        fitting = min(fitting, each * device.info().multiprocessors)
    return max(1, min(fitting, -(-items // block))), block
