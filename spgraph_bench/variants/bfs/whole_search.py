"""Breadth-first searches in one launch, or in one graph that is launched again: without the host between levels.

The contract of each kernel is in its file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from spgraph_bench.device.base import Arg, Buffer, Kernel
from spgraph_bench.parameters import Parameter
from spgraph_bench.variants.base import Job, Launch, variant
from spgraph_bench.variants.bfs.by_level import DTYPES, PLAIN
from spgraph_bench.variants.bfs.direction import DIRECTION, Frontiers, on_gpu, turn_cost
from spgraph_bench.variants.grids import GRID, blocks_for, needs_cooperative, needs_graphs
from spgraph_bench.variants.searches import PARENTS, Levels, cooperative

__all__: list[str] = []

_MOST = 2**31 - 1
_SMALL = {
    "small_vertices": Parameter(1024, "largest frontier for one block only", between=(0, 1024)),
    "small_edges": Parameter(4096, "most out-edges of a frontier for one block only", between=(0, _MOST)),
    "shared_bitmap": Parameter(
        1, "1: one block alone has the bitmap in shared memory, where degrees are small and it fits", (0, 1)
    ),
}
_AUTO = _SMALL | {
    "small_edges": Parameter(
        "auto",
        "most out-edges of a frontier for one block only; auto: 4,096, on a GPU 16 where degrees are uneven",
        ("auto",),
        between=(0, _MOST),
    ),
    "alone_from": Parameter(
        -1,
        "vertices from which one block goes on alone, degrees being uneven; -1: 16,384, on the host device 0",
        between=(-1, _MOST),
    ),
    "alpha": replace(DIRECTION["alpha"], default=8.0),
    "beta": replace(DIRECTION["beta"], default=1e5),
    "busiest": Parameter(
        "auto",
        "1: bottom-up levels look at each vertex's busiest neighbour first, which is found once per graph;"
        " auto: where they are likely",
        ("auto",),
        between=(0, 1),
    ),
}
_NEAR = 1024  # SPG_NEAR in graph/one_block.cuh
_STATIC_SHARED = 12 << 10  # what the kernels *_bitmap declare themselves, and a little more


def _alike(job: Job) -> bool:
    """Whether no row is long, and rows are short on average, as in meshes and roads."""
    packed = job.packed
    return bool(packed.nnz <= 8 * packed.rows and packed.rows and int(np.diff(packed.row_ptr).max()) <= 64)


def _small(job: Job) -> tuple[tuple[Arg, ...], int]:
    """Arguments that say what one block alone takes and how, and the dynamic shared memory for it in bytes.

    The bitmap of visited vertices goes there only where it should pay, since it is at the expense of L1,
    which bottom-up levels live on: where degrees are small and alike.
    """
    p, packed = job.params, job.packed
    shared = 2 * _NEAR * 4 + 4 * (-(-packed.rows // 32))
    most = job.device.info().gpu.shared_per_block - _STATIC_SHARED
    if not (p["shared_bitmap"] and shared <= most and _alike(job)):
        shared = 0
    return (np.int32(p["small_vertices"]), np.int64(p["small_edges"])), shared


def _by_grid(levels: Levels, kernel: Kernel) -> Launch:
    """All levels top-down by the whole grid, with `kernel`, that of bfs/persistent.cu."""
    f, barrier, a = Frontiers(levels, 1), levels.zeros(1, np.uint32), levels.job.arrays
    return cooperative(
        levels,
        kernel,
        lambda trace, traced: (levels.n, levels.source, a["row_ptr"], a["col"], *f.args, barrier, trace, traced),
    )


@variant(
    "bfs",
    "persistent",
    format="pattern-csr",
    source="bfs/persistent.cu",
    tunables=GRID | PARENTS,
    dtypes=DTYPES,
    missing=needs_cooperative,
    about="one cooperative launch, a grid barrier per level",
)
def persistent(job: Job) -> Launch:
    return _by_grid(Levels(job), job.kernel("bfs_persistent"))


@variant(
    "bfs",
    "one-block",
    format="pattern-csr",
    source="bfs/one_block.cu",
    tunables=GRID | _SMALL | PARENTS,
    dtypes=DTYPES,
    missing=needs_cooperative,
    about="small frontiers by a single block, larger ones by the grid, one launch",
)
def one_block(job: Job) -> Launch:
    levels, a = Levels(job), job.arrays
    f, barrier, handover = Frontiers(levels, 1), levels.zeros(1, np.uint32), levels.zeros(2, np.int64)
    small, shared = _small(job)
    return cooperative(
        levels,
        job.kernel("bfs_one_block_bitmap" if shared else "bfs_one_block"),
        lambda trace, traced: (
            levels.n,
            levels.source,
            a["row_ptr"],
            a["col"],
            *f.args,
            handover,
            barrier,
            *small,
            trace,
            traced,
        ),
        shared,
    )


def _graph(job: Job) -> tuple[Levels, Callable[[], None], Callable[[np.uint64], Callable[[], None]], Buffer]:
    """Begin, one level as graph nodes (given the condition's handle, or 0), and the tally."""
    levels, a, block = Levels(job), job.arrays, job.params["block"]
    f, depth = Frontiers(levels, 1), levels.zeros(1, np.int32)
    grid = levels.stride_blocks(job.packed.nnz)
    begin = job.kernel("graph_begin").bind(grid, block, levels.n, levels.source, a["row_ptr"], *f.args, depth)
    level = job.kernel("graph_level").bind(grid, block, levels.n, depth, a["row_ptr"], a["col"], *f.args)

    def body(more: np.uint64) -> Callable[[], None]:
        advance = job.kernel("graph_advance").bind(1, 1, f.tally, depth, more)

        def one_level() -> None:
            level()
            advance()

        return one_level

    return levels, begin, body, f.tally


_REPLAY = {"levels": Parameter(12, "levels in one graph; the host looks for the end after each", between=(1, 1024))}


@variant(
    "bfs",
    "graph",
    format="pattern-csr",
    source="bfs/graph.cu",
    tunables=PLAIN | _REPLAY,
    dtypes=DTYPES,
    missing=needs_graphs,
    about="a CUDA graph of several levels, replayed until the end",
)
def graph(job: Job) -> Launch:
    levels, begin, body, tally = _graph(job)
    one_level, each = body(np.uint64(0)), max(1, int(job.params["levels"]))

    def several() -> None:
        for _ in range(each):
            one_level()

    replay = job.device.capture(several)

    def walk() -> Iterator[str | None]:
        begin()
        yield None
        while True:
            replay()
            # Words of levels that are over are 0; the only one that is not is of the level that comes next.
            more = job.device.download(tally)[:3].any()
            yield "push"
            if not more:
                return

    launch = levels.walked(walk)
    launch.trace, launch.every_level = None, "push"  # levels are not distinguished
    return launch


@variant(
    "bfs",
    "graph-while",
    format="pattern-csr",
    source="bfs/graph.cu",
    tunables=PLAIN,
    dtypes=DTYPES,
    missing=needs_graphs,
    about="a CUDA graph with a WHILE node, no host between levels",
)
def graph_while(job: Job) -> Launch:
    levels, begin, body, _ = _graph(job)
    repeat = job.device.repeat_while(body)

    def run() -> None:
        begin()
        repeat()

    return levels.launch(run, operations=2, every_level="push")


AUTO = GRID | DIRECTION | _AUTO
"""Tunables of auto, but for parents."""


def _busiest(job: Job, levels: Levels) -> tuple[tuple[Buffer, Buffer], float]:
    """The arrays of graph/busiest.cuh, found on the device, and the time in ms that it takes."""
    n, a = job.packed.rows, job.arrays
    words = -(-n // 32)
    busiest, bare = levels.empty(n, np.int32), levels.empty(words + 1, np.uint32)
    kernel = job.kernel("bfs_find_busiest").bind(
        max(1, blocks_for(32 * words, 256)), 256, levels.n, a["row_ptr"], a["col_ptr"], a["row"], busiest, bare
    )

    def find() -> None:
        job.device.fill(bare, 0)
        kernel()

    return (busiest, bare), job.timed_ms(find)


class Auto:
    """What searches of auto share that run one after another: what was found of the graph, queues and thresholds."""

    def __init__(self, job: Job, levels: Levels) -> None:
        p, a = job.params, job.arrays
        few = not _alike(job) and job.packed.rows < on_gpu(job, "alone_from", 1 << 14)
        # In meshes frontiers stay small; where there are few edges, turning to bottom-up costs more than it saves.
        likely = not _alike(job) and job.packed.nnz > turn_cost(job)
        job.decide("busiest", int(likely))
        job.decide("small_edges", 0 if few else 4096 if _alike(job) or job.device.kind == "host" else 16)
        self._preprocess_ms = 0.0
        self._by_grid: Kernel | None = None
        if few and not likely and not p["busiest"]:
            self._by_grid = job.kernel("bfs_persistent", "bfs/persistent.cu")
            return
        f, barrier, handover = Frontiers(levels, 2), levels.zeros(1, np.uint32), levels.zeros(2, np.int64)
        marks: tuple[Buffer | None, Buffer | None] = (None, None)
        kernel = "bfs_auto"
        small, self._shared = _small(job)
        if p["busiest"]:
            marks, self._preprocess_ms = _busiest(job, levels)
            kernel, self._shared = "bfs_auto_busiest", 0
        elif self._shared:
            kernel = "bfs_auto_bitmap"
        if few:  # a barrier of few blocks costs next to nothing
            small = np.int32(0), np.int64(0)
        rule = np.float64(p["alpha"]), np.float64(p["beta"]), np.float64(turn_cost(job))
        self._graph = (a["row_ptr"], a["col"], a["col_ptr"], a["row"], *marks)
        self._own = (*f.args[1:], handover, barrier, *small, *rule, np.int32(p["probes"]))
        self._kernel = job.kernel(kernel)

    def launch(self, levels: Levels) -> Launch:
        """A Launch whose source and levels are those of `levels`."""
        if self._by_grid is not None:
            return _by_grid(levels, self._by_grid)
        made = cooperative(
            levels,
            self._kernel,
            lambda trace, traced: (levels.n, levels.source, *self._graph, levels.level, *self._own, trace, traced),
            self._shared,
        )
        made.preprocess_ms = self._preprocess_ms
        return made


@variant(
    "bfs",
    "auto",
    format="adjacency",
    source="bfs/auto.cu",
    tunables=AUTO | PARENTS,
    dtypes=DTYPES,
    missing=needs_cooperative,
    about="one launch; one block, top-down or bottom-up, chosen for each level",
)
def auto(job: Job) -> Launch:
    levels = Levels(job)
    return Auto(job, levels).launch(levels)
