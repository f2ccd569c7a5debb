"""spgraph's own breadth-first searches. The contract of each is in its kernel file."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from spgraph_bench.device.base import Arg, Buffer
from spgraph_bench.errors import LaunchError, UsageError
from spgraph_bench.parameters import Parameter
from spgraph_bench.variants.base import Job, Launch, variant
from spgraph_bench.variants.grids import BLOCK, GRID, needs_cooperative, needs_graphs
from spgraph_bench.variants.searches import EDGE_BITS, PARENTS, Levels, check_tally, cooperative, counted, per_level

__all__ = ["Frontiers", "every_level"]

_MOST, _RATIO = 2**31 - 1, (0.0, 1e9)  # bounds of tunables
_EDGE_BITS = np.uint64(EDGE_BITS)
_DTYPES = ("int32",)
_PLAIN = BLOCK | PARENTS
_DIRECTION = {
    "alpha": Parameter(
        4.0, "bottom-up once frontier edges, growing, x alpha > the edges it would inspect", between=_RATIO
    ),
    "beta": Parameter(200.0, "top-down again when frontier vertices < vertices / beta", between=_RATIO),
    "turn": Parameter(
        -1, "looks that turning to bottom-up and back costs; -1: 262,144, on the host device 0", between=(-1, _MOST)
    ),
    "probes": Parameter(8, "in-edges that a lane looks at alone before its warp helps", between=(0, _MOST)),
}
_SMALL = {
    "small_vertices": Parameter(1024, "largest frontier for one block only", between=(0, 1024)),
    "small_edges": Parameter(4096, "most out-edges of a frontier for one block only", between=(0, _MOST)),
    "shared_bitmap": Parameter(
        1, "1: one block alone has the bitmap in shared memory, where degrees are small and it fits", (0, 1)
    ),
}
_ALONE = {
    "alone_from": Parameter(
        -1,
        "vertices from which one block goes on alone, degrees being uneven; -1: 16,384, on the host device 0",
        between=(-1, _MOST),
    )
}
_NEAR = 1024  # SPG_NEAR in graph/one_block.cuh
_STATIC_SHARED = 12 << 10  # what the kernels *_bitmap declare themselves, and a little more


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
    tunables=_PLAIN,
    dtypes=_DTYPES,
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
    tunables=_PLAIN,
    dtypes=_DTYPES,
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
    tunables=_PLAIN,
    dtypes=_DTYPES,
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
    tunables=_PLAIN,
    dtypes=_DTYPES,
    about="a queue, one global counter: an atomic per vertex found",
)
def frontier(job: Job) -> Launch:
    return _frontier(job, "bfs_frontier")


@variant(
    "bfs",
    "frontier-private",
    format="pattern-csr",
    source="bfs/frontier_private.cu",
    tunables=_PLAIN | _PRIVATE,
    dtypes=_DTYPES,
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
    tunables=_PLAIN,
    dtypes=_DTYPES,
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
    tunables=_PLAIN | _CLASSES,
    dtypes=_DTYPES,
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


class Frontiers:
    """Bitmap, queues and tallies as graph/levels.cuh lays them out."""

    def __init__(self, levels: Levels, copies: int) -> None:
        job, n = levels.job, levels.job.packed.rows
        check_tally(job)
        self.visited = levels.empty(copies * (-(-n // 32)), np.uint32)
        self.queue = levels.empty(2 * n, np.int32)
        self.start = levels.empty(2 * n, job.packed.offsets)
        self.tally = levels.zeros(7, np.uint64)
        self.args: tuple[Arg, ...] = (levels.level, self.visited, self.queue, self.start, self.tally)


@variant(
    "bfs",
    "edge-balanced",
    format="pattern-csr",
    source="bfs/edge_balanced.cu",
    tunables=_PLAIN,
    dtypes=_DTYPES,
    about="the frontier's edges cut into equal parts (merge-path)",
)
def edge_balanced(job: Job) -> Launch:
    levels, a, block = Levels(job), job.arrays, job.params["block"]
    f = Frontiers(levels, 1)
    kernel, grid = job.kernel("edge_balanced_level"), levels.stride_blocks(job.packed.nnz)
    begin = job.kernel("edge_balanced_begin").bind(grid, block, levels.n, levels.source, a["row_ptr"], *f.args)
    step = per_level(lambda k: kernel.bind(grid, block, levels.n, np.int32(k), a["row_ptr"], a["col"], *f.args))
    return levels.walked(counted(levels, begin, step, f.tally, "push"))


_RULE = {
    "rule": Parameter(
        "edges",
        "edges: alpha is of the edges it would inspect; textbook: bottom-up once frontier edges > unexplored"
        " edges / alpha; plain: bottom-up while frontier vertices x mean degree > unvisited ones",
        ("edges", "textbook", "plain"),
    )
}


@variant(
    "bfs",
    "direction",
    format="adjacency",
    source="bfs/direction.cu",
    tunables=_PLAIN | _DIRECTION | _RULE,
    dtypes=_DTYPES,
    about="per level top-down or bottom-up, the host decides",
)
def direction(job: Job) -> Launch:
    levels, a, p = Levels(job), job.arrays, job.params
    n, nnz, block, turn = job.packed.rows, job.packed.nnz, p["block"], _turn(job)
    f = Frontiers(levels, 2)
    grid = levels.stride_blocks(max(n, nnz))
    begin = job.kernel("direction_begin").bind(
        grid, block, levels.n, levels.source, a["row_ptr"], a["col_ptr"], *f.args
    )
    words = -(-n // 32)
    top_down, bottom_up, requeue = (job.kernel(f"direction_{x}") for x in ("push", "pull", "queue"))
    # The copy of the bitmap that is current changes with each bottom-up level; a traversal may need either.
    copies = [_Part(f.visited, 4 * words * c) for c in (0, 1)]

    def bind_push(c: int) -> Callable[[int], None]:
        return per_level(
            lambda k: top_down.bind(
                grid,
                block,
                levels.n,
                np.int32(k),
                a["row_ptr"],
                a["col"],
                levels.level,
                copies[c],
                f.queue,
                f.start,
                f.tally,
            )
        )

    def bind_pull(c: int) -> Callable[[int], None]:
        return per_level(
            lambda k: bottom_up.bind(
                grid,
                block,
                levels.n,
                np.int32(k),
                np.int32(p["probes"]),
                a["row_ptr"],
                a["col_ptr"],
                a["row"],
                levels.level,
                f.visited,
                np.int32(c),
                f.tally,
            )
        )

    def bind_queue(c: int) -> Callable[[int], None]:
        return per_level(
            lambda k: requeue.bind(
                grid, block, levels.n, np.int32(k), a["row_ptr"], f.visited, np.int32(c), f.queue, f.start, f.tally
            )
        )

    pushes, pulls, queues = ([b(0), b(1)] for b in (bind_push, bind_pull, bind_queue))

    def walk() -> Iterator[str | None]:
        begin()
        yield None
        k, copy, pulled, unexplored, unvisited, edges_before = 0, 0, False, nnz, n, 0
        while True:
            tally = job.device.download(f.tally)[k % 3]
            count, edges = (int(tally >> _EDGE_BITS), int(tally & ((np.uint64(1) << _EDGE_BITS) - np.uint64(1))))
            if not count:
                return
            unexplored, unvisited = unexplored - edges, unvisited - count
            if p["rule"] == "plain":
                pull_now = count * nnz > unvisited * n
            elif pulled:
                pull_now = count * p["beta"] >= n
            elif p["rule"] == "textbook":
                pull_now = edges * p["alpha"] > unexplored
            else:
                # As bottom_up_pays in graph/levels.cuh.
                looks = min(unexplored, unvisited * (edges + unexplored) / edges)
                pull_now = edges > edges_before and edges * p["alpha"] > looks + turn
            if pull_now:
                pulls[copy](k)
                copy = 1 - copy
            else:
                if pulled:
                    queues[copy](k)
                pushes[copy](k)
            pulled, edges_before = pull_now, edges
            k += 1
            yield "pull" if pull_now else "push"
            if k > n:
                raise LaunchError("direction does not end: more levels than vertices")

    return levels.walked(walk)


class _Part:
    """A device buffer from `offset` bytes on."""

    def __init__(self, buffer: Buffer, offset: int) -> None:
        self._whole = buffer
        self.ptr = buffer.ptr + offset
        self.dtype = buffer.dtype
        self.nbytes = buffer.nbytes - offset
        self.shape = (self.nbytes // buffer.dtype.itemsize,)

    def free(self) -> None:
        """Belongs to the whole buffer."""


@variant(
    "bfs",
    "persistent",
    format="pattern-csr",
    source="bfs/persistent.cu",
    tunables=GRID | PARENTS,
    dtypes=_DTYPES,
    missing=needs_cooperative,
    about="one cooperative launch, a grid barrier per level",
)
def persistent(job: Job) -> Launch:
    levels, a = Levels(job), job.arrays
    f, barrier = Frontiers(levels, 1), levels.zeros(1, np.uint32)
    return cooperative(
        levels,
        job.kernel("bfs_persistent"),
        lambda trace, traced: (levels.n, levels.source, a["row_ptr"], a["col"], *f.args, barrier, trace, traced),
    )


def _on_gpu(job: Job, name: str, otherwise: int) -> int:
    """The tunable `name`; where that is -1 `otherwise`, and 0 where kernels are emulated and cost no time."""
    given = int(job.params[name])
    return given if given >= 0 else 0 if job.device.kind == "host" else otherwise


def _turn(job: Job) -> int:
    return _on_gpu(job, "turn", 1 << 18)


def _small(job: Job) -> tuple[tuple[Arg, ...], int]:
    """Arguments that say what one block alone takes and how, and the dynamic shared memory for it in bytes.

    The bitmap of visited vertices goes there only where it should pay, since it is at the expense of L1,
    which bottom-up levels live on: no row long, and rows short on average, as in meshes and roads.
    """
    p, packed = job.params, job.packed
    shared = 2 * _NEAR * 4 + 4 * (-(-packed.rows // 32))
    most = job.device.info().gpu.shared_per_block - _STATIC_SHARED
    fits = p["shared_bitmap"] and shared <= most and packed.nnz <= 8 * packed.rows
    if not (fits and packed.rows and int(np.diff(packed.row_ptr).max()) <= 64):
        shared = 0
    return (np.int32(p["small_vertices"]), np.int64(p["small_edges"])), shared


@variant(
    "bfs",
    "one-block",
    format="pattern-csr",
    source="bfs/one_block.cu",
    tunables=GRID | _SMALL | PARENTS,
    dtypes=_DTYPES,
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
    tunables=_PLAIN | _REPLAY,
    dtypes=_DTYPES,
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
    tunables=_PLAIN,
    dtypes=_DTYPES,
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


@variant(
    "bfs",
    "auto",
    format="adjacency",
    source="bfs/auto.cu",
    tunables=GRID | _SMALL | _ALONE | _DIRECTION | PARENTS,
    dtypes=_DTYPES,
    missing=needs_cooperative,
    about="one launch; one block, top-down or bottom-up, chosen for each level",
)
def auto(job: Job) -> Launch:
    levels, a, p = Levels(job), job.arrays, job.params
    f, barrier, handover = Frontiers(levels, 2), levels.zeros(1, np.uint32), levels.zeros(2, np.int64)
    small, shared = _small(job)
    # A barrier of few blocks costs next to nothing.
    if not shared and job.packed.rows < _on_gpu(job, "alone_from", 1 << 14):
        small = np.int32(0), np.int64(0)
    rule = np.float64(p["alpha"]), np.float64(p["beta"]), np.float64(_turn(job))
    choice = (*small, *rule, np.int32(p["probes"]))
    return cooperative(
        levels,
        job.kernel("bfs_auto_bitmap" if shared else "bfs_auto"),
        lambda trace, traced: (
            levels.n,
            levels.source,
            a["row_ptr"],
            a["col"],
            a["col_ptr"],
            a["row"],
            *f.args,
            handover,
            barrier,
            *choice,
            trace,
            traced,
        ),
        shared,
    )
