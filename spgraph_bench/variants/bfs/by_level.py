"""Breadth-first searches of which the host launches each level: a thread or warp per vertex, edge, or entry of a queue.

The contract of each kernel is in its file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from spgraph_bench.device.base import Buffer
from spgraph_bench.errors import LaunchError, UsageError
from spgraph_bench.parameters import Parameter
from spgraph_bench.variants.base import Job, Launch, variant
from spgraph_bench.variants.grids import BLOCK
from spgraph_bench.variants.searches import PARENTS, Levels, counted, per_level

__all__ = ["DTYPES", "PLAIN", "every_level"]

_MOST = 2**31 - 1
DTYPES = ("int32",)
"""Value types of searches: that of levels."""
PLAIN = BLOCK | PARENTS
"""Tunables of the plain modes."""


def every_level(
    job: Job,
    how: str,
    bind: Callable[[Levels, int, Buffer], Callable[[], None]],
    queue: Buffer | None = None,
    levels: Levels | None = None,
) -> Launch:
    """A mode that begins with bfs_begin and is one launch per level, of ``bind(levels, k, sizes)``."""
    levels = levels or Levels(job)
    sizes = levels.zeros(3, np.int32)
    block = job.params["block"]
    begin = job.kernel("bfs_begin").bind(
        levels.stride_blocks(job.packed.rows), block, levels.n, levels.source, levels.level, queue, sizes
    )
    step = per_level(lambda k: bind(levels, k, sizes))
    return levels.walked(counted(levels, begin, step, sizes, how))


@variant(
    "bfs",
    "push",
    format="pattern-csr",
    source="bfs/push.cu",
    tunables=PLAIN,
    dtypes=DTYPES,
    about="a thread per vertex, every level",
)
def push(job: Job) -> Launch:
    kernel, a = job.kernel("bfs_push"), job.arrays

    def bind(levels: Levels, k: int, sizes: Buffer) -> Callable[[], None]:
        return kernel.bind(
            levels.blocks(job.packed.rows),
            job.params["block"],
            levels.n,
            np.int32(k),
            a["row_ptr"],
            a["col"],
            levels.level,
            sizes,
        )

    return every_level(job, "push", bind)


@variant(
    "bfs",
    "pull",
    format="adjacency",
    source="bfs/pull.cu",
    tunables=PLAIN,
    dtypes=DTYPES,
    about="a thread per unvisited vertex, stops at the first parent",
)
def pull(job: Job) -> Launch:
    kernel, a = job.kernel("bfs_pull"), job.arrays

    def bind(levels: Levels, k: int, sizes: Buffer) -> Callable[[], None]:
        return kernel.bind(
            levels.blocks(job.packed.rows),
            job.params["block"],
            levels.n,
            np.int32(k),
            a["col_ptr"],
            a["row"],
            levels.level,
            sizes,
        )

    return every_level(job, "pull", bind)


@variant(
    "bfs",
    "edge",
    format="pattern-coo",
    source="bfs/edge.cu",
    tunables=PLAIN,
    dtypes=DTYPES,
    about="a thread per edge, every level",
)
def edge(job: Job) -> Launch:
    kernel, a, nnz = job.kernel("bfs_edge"), job.arrays, job.packed.nnz

    def bind(levels: Levels, k: int, sizes: Buffer) -> Callable[[], None]:
        return kernel.bind(
            levels.blocks(nnz),
            job.params["block"],
            job.packed.offsets.type(nnz),
            np.int32(k),
            a["row"],
            a["col"],
            levels.level,
            sizes,
        )

    return every_level(job, "edge", bind)


_PLACES = 8
_PRIVATE = {
    "queue": Parameter(0, f"vertices that a block's own queue holds; 0: {_PLACES} per thread", between=(0, 1 << 15))
}


def _frontier(job: Job, name: str) -> Launch:
    kernel, a = job.kernel(name), job.arrays
    levels = Levels(job)
    queue = levels.empty(2 * job.packed.rows, np.int32)

    def bind(levels: Levels, k: int, sizes: Buffer) -> Callable[[], None]:
        return kernel.bind(
            levels.stride_blocks(job.packed.rows),
            job.params["block"],
            levels.n,
            np.int32(k),
            a["row_ptr"],
            a["col"],
            levels.level,
            queue,
            sizes,
        )

    return every_level(job, "push", bind, queue, levels)


@variant(
    "bfs",
    "frontier",
    format="pattern-csr",
    source="bfs/frontier.cu",
    tunables=PLAIN,
    dtypes=DTYPES,
    about="a queue, one global counter: an atomic per vertex found",
)
def frontier(job: Job) -> Launch:
    return _frontier(job, "bfs_frontier")


@variant(
    "bfs",
    "frontier-private",
    format="pattern-csr",
    source="bfs/frontier_private.cu",
    tunables=PLAIN | _PRIVATE,
    dtypes=DTYPES,
    about="a queue per block in shared memory, one reservation each time it is full",
)
def frontier_private(job: Job) -> Launch:
    levels, a, block = Levels(job), job.arrays, int(job.params["block"])
    places = int(job.params["queue"]) or _PLACES * block
    if places < block:
        raise UsageError(
            f"frontier-private: queue={places} holds fewer vertices than a block has threads",
            remedy=f"queue={block} or more, or a smaller block",
        )
    kernel, grid = job.kernel("bfs_frontier_private"), levels.stride_blocks(job.packed.rows)
    queue, spills = levels.empty(2 * job.packed.rows, np.int32), levels.zeros(grid, np.int32)

    def bind(levels: Levels, k: int, sizes: Buffer) -> Callable[[], None]:
        return kernel.bind(
            grid,
            block,
            levels.n,
            np.int32(k),
            a["row_ptr"],
            a["col"],
            levels.level,
            queue,
            sizes,
            np.int32(places),
            spills,
            shared=4 * places,
        )

    made = every_level(job, "push", bind, queue, levels)
    poison = made.reset

    def reset() -> None:
        poison()
        job.device.fill(spills, 0)

    made.reset = reset
    made.facts = lambda: {"places": places, "spills": int(job.device.download(spills).sum())}
    return made


@variant(
    "bfs",
    "frontier-warp",
    format="pattern-csr",
    source="bfs/frontier_warp.cu",
    tunables=PLAIN,
    dtypes=DTYPES,
    about="a queue, one reservation per warp",
)
def frontier_warp(job: Job) -> Launch:
    return _frontier(job, "bfs_frontier_warp")


_CLASSES = {
    "warp_from": Parameter(16, "least out-edges for a warp per vertex", between=(0, _MOST)),
    "block_from": Parameter(1024, "least out-edges for a block per vertex", between=(0, _MOST)),
    "grid_from": Parameter(65536, "least out-edges for all blocks per vertex", between=(0, _MOST)),
}


@variant(
    "bfs",
    "balanced",
    format="pattern-csr",
    source="bfs/balanced.cu",
    tunables=PLAIN | _CLASSES,
    dtypes=DTYPES,
    about="the frontier by degree: a thread, warp, block or all blocks per vertex",
)
def balanced(job: Job) -> Launch:
    levels, a, p = Levels(job), job.arrays, job.params
    kernel, offset, n = job.kernel("balanced_level"), job.packed.offsets.type, job.packed.rows
    queues, sizes = levels.empty(8 * n, np.int32), levels.zeros(12, np.int32)
    classes = tuple(offset(p[name]) for name in _CLASSES)
    grid = levels.stride_blocks(max(n, 32 * min(n, 1 << 16)))
    begin = job.kernel("balanced_begin").bind(
        grid, p["block"], levels.n, levels.source, *classes, a["row_ptr"], levels.level, queues, sizes
    )
    steps = [
        per_level(
            lambda k, c=c: kernel.bind(  # type: ignore[misc]
                grid,
                p["block"],
                levels.n,
                np.int32(k),
                np.int32(c),
                *classes,
                a["row_ptr"],
                a["col"],
                levels.level,
                queues,
                sizes,
            )
        )
        for c in range(4)
    ]

    def walk() -> Iterator[str | None]:
        begin()
        yield None
        k, counts = 0, job.device.download(sizes).reshape(3, 4)[0]
        while counts.any():
            for c, step in enumerate(steps):
                if c == 0 or counts[c]:  # the first also clears the sizes not in use
                    step(k)
            k += 1
            counts = job.device.download(sizes).reshape(3, 4)[k % 3]
            yield "push"
            if k > n:
                raise LaunchError("balanced does not end: more levels than vertices")

    return levels.walked(walk)
