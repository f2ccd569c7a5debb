"""Breadth-first searches whose kernels launch kernels. The contract of each is in its kernel file."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from spgraph_bench.device.base import Buffer
from spgraph_bench.parameters import Parameter
from spgraph_bench.variants.base import Job, Launch, Limits, Sizes, variant
from spgraph_bench.variants.bfs.by_level import every_level
from spgraph_bench.variants.bfs.direction import Frontiers
from spgraph_bench.variants.grids import BLOCK
from spgraph_bench.variants.searches import PARENTS, Levels

__all__: list[str] = []

_TUNABLES = BLOCK | PARENTS
_HUBS = {"hub_from": Parameter(1024, "least out-edges for a child grid", between=(1, 2**31 - 1))}


def _hubs(sizes: Sizes) -> Limits:
    """A vertex enters the queue once: no more children can wait than there are hubs."""
    return Limits(pending_launches=int((sizes.csr.row_lengths() >= sizes.params["hub_from"]).sum()))


@variant(
    "bfs",
    "child-launch",
    format="pattern-csr",
    source="bfs/child_launch.cu",
    tunables=_TUNABLES | _HUBS,
    limits=_hubs,
    dtypes=("int32",),
    about="a queue, a thread per vertex; hubs are expanded by child grids",
)
def child_launch(job: Job) -> Launch:
    kernel, a = job.kernel("child_launch_level"), job.arrays
    levels, children = Levels(job), job.children()
    queue = levels.empty(2 * job.packed.rows, np.int32)
    hub_from = job.packed.offsets.type(job.params["hub_from"])

    def bind(levels: Levels, k: int, sizes: Buffer) -> Callable[[], None]:
        return kernel.bind(
            levels.stride_blocks(job.packed.rows),
            job.params["block"],
            levels.n,
            np.int32(k),
            hub_from,
            a["row_ptr"],
            a["col"],
            levels.level,
            queue,
            sizes,
            children,
        )

    return every_level(job, "push", bind, queue, levels)


def _one_link(sizes: Sizes) -> Limits:
    return Limits(pending_launches=2)


@variant(
    "bfs",
    "tail-launch",
    format="pattern-csr",
    source="bfs/tail_launch.cu",
    tunables=_TUNABLES,
    dtypes=("int32",),
    limits=_one_link,
    about="each level tail-launches the next",
)
def tail_launch(job: Job) -> Launch:
    levels, a, block = Levels(job), job.arrays, job.params["block"]
    f, children = Frontiers(levels, 1), job.children()
    grid = levels.stride_blocks(job.packed.nnz)
    begin = job.kernel("tail_begin").bind(grid, block, levels.n, levels.source, a["row_ptr"], *f.args)
    first = job.kernel("tail_level").bind(grid, block, levels.n, np.int32(0), a["row_ptr"], a["col"], *f.args, children)

    def run() -> None:
        begin()
        first()

    return levels.launch(run, operations=2, every_level="push")
