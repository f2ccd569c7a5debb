"""Shapes of grids, of kernels whose blocks wait for each other too, and what such a kernel tells of its steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.device.base import Device, Kernel
from spgraph_bench.parameters import Parameter

__all__ = [
    "BLOCK",
    "GRID",
    "Stamps",
    "blocks_for",
    "cooperative_shape",
    "needs_cooperative",
    "needs_graphs",
    "threads_for",
]

BLOCK = {"block": Parameter(256, "threads per block", (64, 128, 256, 512, 1024))}
"""The tunable of a kernel that can be run with blocks of any size."""

GRID = {
    "block": Parameter(0, "threads per block; 0: 1024, on the host device 128", (0, 32, 64, 128, 256, 512, 1024)),
    "blocks_per_multiprocessor": Parameter(0, "blocks that a multiprocessor gets; 0: as many as fit", between=(0, 64)),
}
_EMULATED_BLOCKS = 4
"""More would only make the host device slower."""
_WATCHED = 1 << 16
"""Steps that --trace keeps at most."""
_EDGES_A_THREAD = 16
"""With fewer edges than that for a thread, more blocks cost more at each barrier than they gain."""


def blocks_for(threads: int, block: int) -> int:
    """Blocks of `block` threads that together have at least `threads`: ``ceil(threads / block)``."""
    return -(-threads // block)


def needs_cooperative(device: Device) -> str | None:
    """For ``missing=``: why `device` cannot run kernels whose blocks wait for each other, or None."""
    return device.missing("cooperative")


def needs_graphs(device: Device) -> str | None:
    """For ``missing=``: why `device` has no graphs of launches, or None."""
    return device.missing("graphs")


def threads_for(vertices: int, edges: int) -> int:
    """Threads that a graph keeps busy where a kernel divides vertices and edges evenly among them: one for
    each vertex, and one for every 16 edges. Few vertices with many edges fill a GPU, too."""
    return max(int(vertices), -(-int(edges) // _EDGES_A_THREAD))


def cooperative_shape(
    device: Device, kernel: Kernel, params: Mapping[str, Any], items: int, shared: int = 0
) -> tuple[int, int]:
    """Blocks and threads per block of a cooperative launch by the tunables GRID: as many blocks as fit on the
    device together with `shared` bytes of dynamic shared memory each, but no more than `items`, the threads
    that have something to do (see :func:`threads_for`), fill."""
    emulated = device.kind == "host"
    block = int(params["block"]) or (128 if emulated else 1024)
    fitting = kernel.resident_blocks(block, shared)
    each = int(params["blocks_per_multiprocessor"])
    if emulated:
        fitting = min(fitting, _EMULATED_BLOCKS)
    elif each:
        fitting = min(fitting, each * device.info().multiprocessors)
    return max(1, min(fitting, -(-items // block))), block


class Stamps:
    """Where a kernel leaves a time and a code for each of its steps, see ``cuda/graph/stamps.cuh``.

    Parameters
    ----------
    size : how many steps there may be; there is room for 65,536 at most, and for 0 (no --trace) no buffer.
    sides : so many rows of steps one after another (forward and back).
    """

    def __init__(self, device: Device, size: int, sides: int = 1) -> None:
        size = min(size, _WATCHED)
        self._device = device
        self.size, self._sides = np.int32(size), sides
        self.buffer = device.empty(2 * size * sides, np.int64) if size else None

    def read(self, run: Callable[[], None]) -> list[list[tuple[int, int, float | None]]]:
        """Run once; for each side the place, code and ms of its steps in the order of time (ms is None on the
        host device, whose times mean nothing), up to the end, which the kernel has marked beside them."""
        assert self.buffer is not None
        self._device.fill(self.buffer, 0xFF)
        run()
        sides = self._device.download(self.buffer).reshape(self._sides, -1, 2)
        return [self._steps(words) for words in sides]

    def _steps(self, words: npt.NDArray[Any]) -> list[tuple[int, int, float | None]]:
        emulated = self._device.kind == "host"
        there = np.flatnonzero(words[:, 0] >= 0)  # steps, and the end, unless there was no room for it
        if len(there) and words[there[0], 1] < 0:  # the end comes first: steps go down
            there = there[::-1]
        ms = np.diff(words[there, 0]) / 1e6
        return [(int(k), int(words[k, 1]), None if emulated else float(ms[i])) for i, k in enumerate(there[:-1])]
