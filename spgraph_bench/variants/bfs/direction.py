"""Breadth-first searches that balance the edges of a frontier, and that choose a direction for each level.

The contract of each kernel is in its file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from spgraph_bench.device.base import Arg
from spgraph_bench.errors import LaunchError
from spgraph_bench.parameters import Parameter
from spgraph_bench.variants.base import Job, Launch, variant
from spgraph_bench.variants.bfs.by_level import DTYPES, PLAIN
from spgraph_bench.variants.searches import EDGE_BITS, BufferPart, Levels, check_tally, counted, per_level

__all__ = ["DIRECTION", "Frontiers", "on_gpu", "turn_cost"]

_MOST, _RATIO = 2**31 - 1, (0.0, 1e9)  # bounds of tunables
_EDGE_BITS = np.uint64(EDGE_BITS)


class Frontiers:
    """Bitmap, queues and tallies as graph/levels.cuh lays them out."""

    def __init__(self, levels: Levels, copies: int) -> None:
        job, n = levels.job, levels.job.packed.rows
        check_tally(job)
        self.visited = levels.empty(copies * (-(-n // 32)), np.uint32)
        self.queue = levels.empty(2 * n, np.int32)
        self.start = levels.empty(2 * n, job.packed.offsets)
        self.tally = levels.zeros(10, np.uint64)
        self.args: tuple[Arg, ...] = (levels.level, self.visited, self.queue, self.start, self.tally)


@variant(
    "bfs",
    "edge-balanced",
    format="pattern-csr",
    source="bfs/edge_balanced.cu",
    tunables=PLAIN,
    dtypes=DTYPES,
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
DIRECTION = {
    "alpha": Parameter(
        4.0, "bottom-up once frontier edges, growing, x alpha > the edges it would inspect", between=_RATIO
    ),
    "beta": Parameter(200.0, "top-down again when frontier vertices < vertices / beta", between=_RATIO),
    "turn": Parameter(
        -1, "looks that turning to bottom-up and back costs; -1: 262,144, on the host device 0", between=(-1, _MOST)
    ),
    "probes": Parameter(8, "in-edges that a lane looks at alone before its warp helps", between=(0, _MOST)),
}


def on_gpu(job: Job, name: str, otherwise: int) -> int:
    """The tunable `name`; where that is -1 `otherwise`, and 0 where kernels are emulated and cost no time."""
    given = int(job.params[name])
    return given if given >= 0 else 0 if job.device.kind == "host" else otherwise


def turn_cost(job: Job) -> int:
    """The tunable "turn": looks that turning to bottom-up and back costs."""
    return on_gpu(job, "turn", 1 << 18)


@variant(
    "bfs",
    "direction",
    format="adjacency",
    source="bfs/direction.cu",
    tunables=PLAIN | DIRECTION | _RULE,
    dtypes=DTYPES,
    about="per level top-down or bottom-up, the host decides",
)
def direction(job: Job) -> Launch:
    levels, a, p = Levels(job), job.arrays, job.params
    n, nnz, block, turn = job.packed.rows, job.packed.nnz, p["block"], turn_cost(job)
    f = Frontiers(levels, 2)
    grid = levels.stride_blocks(max(n, nnz))
    begin = job.kernel("direction_begin").bind(
        grid, block, levels.n, levels.source, a["row_ptr"], a["col_ptr"], *f.args
    )
    words = -(-n // 32)
    top_down, bottom_up, requeue = (job.kernel(f"direction_{x}") for x in ("push", "pull", "queue"))
    # The copy of the bitmap that is current changes with each bottom-up level; a traversal may need either.
    copies = [BufferPart(f.visited, words * c, words) for c in (0, 1)]

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
