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


class _Way:
    """Which way the host takes from level to level, by the tunables DIRECTION and "rule"."""

    def __init__(self, job: Job) -> None:
        self._params, self._turn = job.params, turn_cost(job)
        self._n, self._nnz = job.packed.rows, job.packed.nnz
        self._unvisited, self._unexplored = self._n, self._nnz
        self._edges_before = 0
        self.bottom_up = False
        """Of the level at hand."""

    def choose(self, count: int, edges: int) -> None:
        """For a level whose frontier has `count` vertices with `edges` out-edges."""
        p = self._params
        self._unvisited, self._unexplored = self._unvisited - count, self._unexplored - edges
        if p["rule"] == "plain":
            self.bottom_up = count * self._nnz > self._unvisited * self._n
        elif self.bottom_up:
            self.bottom_up = count * p["beta"] >= self._n
        elif p["rule"] == "textbook":
            self.bottom_up = edges * p["alpha"] > self._unexplored
        else:
            # As bottom_up_pays in graph/levels.cuh.
            looks = min(self._unexplored, self._unvisited * (edges + self._unexplored) / edges)
            self.bottom_up = edges > self._edges_before and edges * p["alpha"] > looks + self._turn
        self._edges_before = edges


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
    levels, a, block, n = Levels(job), job.arrays, job.params["block"], job.packed.rows
    f, probes = Frontiers(levels, 2), np.int32(job.params["probes"])
    grid = levels.stride_blocks(max(n, job.packed.nnz))
    begin = job.kernel("direction_begin").bind(
        grid, block, levels.n, levels.source, a["row_ptr"], a["col_ptr"], *f.args
    )
    words = -(-n // 32)
    top_down, bottom_up, requeue = (job.kernel(f"direction_{x}") for x in ("push", "pull", "queue"))
    # The copy of the bitmap that is current changes with each bottom-up level; a traversal may need either.
    copies = [BufferPart(f.visited, words * c, words) for c in (0, 1)]
    out, into = (a["row_ptr"], a["col"]), (a["row_ptr"], a["col_ptr"], a["row"])
    frontier = (f.queue, f.start, f.tally)

    def of_copy(c: int) -> tuple[Callable[[int], None], ...]:
        """A level top-down, bottom-up, and queueing its frontier, with copy `c` of the bitmap."""
        here, own = (grid, block, levels.n), np.int32(c)
        return (
            per_level(lambda k: top_down.bind(*here, np.int32(k), *out, levels.level, copies[c], *frontier)),
            per_level(
                lambda k: bottom_up.bind(*here, np.int32(k), probes, *into, levels.level, f.visited, own, f.tally)
            ),
            per_level(lambda k: requeue.bind(*here, np.int32(k), a["row_ptr"], f.visited, own, *frontier)),
        )

    steps = [of_copy(0), of_copy(1)]

    def walk() -> Iterator[str | None]:
        begin()
        yield None
        way, copy = _Way(job), 0
        for k in range(n + 1):
            tally = job.device.download(f.tally)[k % 3]
            count, edges = (int(tally >> _EDGE_BITS), int(tally & ((np.uint64(1) << _EDGE_BITS) - np.uint64(1))))
            if not count:
                return
            push, pull, queue = steps[copy]
            pulled = way.bottom_up
            way.choose(count, edges)
            if way.bottom_up:
                pull(k)
                copy = 1 - copy
            else:
                if pulled:
                    queue(k)
                push(k)
            yield "pull" if way.bottom_up else "push"
        raise LaunchError("direction does not end: more levels than vertices")

    return levels.walked(walk)
