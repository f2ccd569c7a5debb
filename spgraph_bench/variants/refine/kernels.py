"""Ways to refine the cells of a field. The contract of each is in its kernel file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.device.base import Arg, Buffer
from spgraph_bench.problems.refine import BASE
from spgraph_bench.variants.base import Job, Launch, Limits, Sizes, variant
from spgraph_bench.variants.grids import needs_cooperative

__all__: list[str] = []

_POISON = 0xFF
_DTYPES = ("float64",)
_WARPS = 8  # SPG_LEVEL_WARPS of cuda/refine/level.cuh
_COARSE = 4 ** (BASE - 1)


class _Mesh:
    """What all variants have: the field, and room for as many cells as the depth allows."""

    def __init__(self, job: Job) -> None:
        self.job, self.device = job, job.device
        self.depth = int(job.options["depth"])
        self.field: tuple[Arg, ...] = (
            np.int32(len(job.inputs["fronts"])),
            job.buffers["fronts"],
            np.float64(job.options["tolerance"]),
            np.int32(self.depth),
        )
        self.cells = self.device.empty(4**self.depth, np.uint32)
        self.cell_count = self.device.empty(1, np.int32)
        self.queued = 4 ** (self.depth - 1)
        """Cells of one level that can be split."""

    def launch(self, run: Callable[[], None], operations: int, work: tuple[Buffer, ...], **details: Any) -> Launch:
        def reset() -> None:
            for buffer in (self.cells, self.cell_count):
                self.device.fill(buffer, _POISON)

        def output() -> npt.NDArray[np.uint32]:
            count = int(self.device.download(self.cell_count)[0])
            cells: npt.NDArray[np.uint32] = self.device.download(self.cells)
            return cells[: count if count > 0 else 0]

        held = (self.cells, self.cell_count, *work)
        return Launch(
            run=run,
            reset=reset,
            output=output,
            operations=operations,
            extra_bytes=sum(b.nbytes for b in held),
            keep=(self, held),
            **details,
        )


@variant(
    "refine",
    "flattened",
    format="none",
    source="refine/flattened.cu",
    dtypes=_DTYPES,
    missing=needs_cooperative,
    about="all levels in one cooperative launch, with queues of its own",
)
def flattened(job: Job) -> Launch:
    """As many blocks as the device holds at the same time, but no more than the largest level could use."""
    mesh = _Mesh(job)
    device = mesh.device
    queue, queued = device.empty(2 * mesh.queued, np.uint32), device.empty(3, np.int32)
    barrier = device.upload(np.zeros(1, np.uint32))
    kernel = job.kernel("refine_all")
    fitting = 4 if device.kind == "host" else kernel.resident_blocks(32 * _WARPS)
    run = kernel.bind(
        max(1, min(fitting, mesh.queued // _WARPS)),
        32 * _WARPS,
        *mesh.field,
        queue,
        np.int32(mesh.queued),
        queued,
        mesh.cells,
        mesh.cell_count,
        barrier,
        cooperative=True,
    )
    return mesh.launch(run, 1, (queue, queued, barrier))


@variant(
    "refine",
    "host-driven",
    format="none",
    source="refine/host_driven.cu",
    dtypes=_DTYPES,
    about="a launch per level; the host reads how many cells the next one has",
)
def host_driven(job: Job) -> Launch:
    mesh = _Mesh(job)
    device, kernel = mesh.device, job.kernel("refine_cells")
    queue = tuple(device.empty(mesh.queued, np.uint32) for _ in range(2))
    queued = tuple(device.empty(1, np.int32) for _ in range(2))
    begin = job.kernel("begin").bind(1, 64, queue[0], queued[0], mesh.cell_count)

    def run() -> None:
        begin()
        count = _COARSE
        for k in range(mesh.depth):
            if not count:
                break
            here, there = k % 2, (k + 1) % 2
            device.fill(queued[there], 0)
            kernel(
                -(-count // _WARPS),
                32 * _WARPS,
                *mesh.field,
                queue[here],
                np.int32(count),
                queue[there],
                queued[there],
                mesh.cells,
                mesh.cell_count,
            )
            count = int(device.download(queued[there])[0])

    return mesh.launch(run, 2 * mesh.depth, (*queue, *queued), gated=False)


def _pending(sizes: Sizes) -> Limits:
    """See cuda/refine/child_launch.cu."""
    return Limits(pending_launches=max(_COARSE, 4 ** max(0, int(sizes.options["depth"]) - 2)))


@variant(
    "refine",
    "child-launch",
    format="none",
    source="refine/child_launch.cu",
    dtypes=_DTYPES,
    limits=_pending,
    about="every cell that is split launches those of its children that are, a warp each",
)
def child_launch(job: Job) -> Launch:
    mesh = _Mesh(job)
    coarse = job.kernel("refine_coarse").bind(_COARSE, 32, *mesh.field, mesh.cells, mesh.cell_count, job.children())

    def run() -> None:
        mesh.device.fill(mesh.cell_count, 0)
        coarse()

    return mesh.launch(run, 2, ())
