"""spgraph's own shortest paths. The contract of each is in its kernel file, of all in graph/relax.cuh."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from spgraph_bench.device.base import Arg, Buffer
from spgraph_bench.errors import LaunchError
from spgraph_bench.formats.base import Tunable
from spgraph_bench.variants.base import Job, Launch, variant
from spgraph_bench.variants.traversal import BLOCK, Levels, cooperative, counted, needs_cooperative, per_level

__all__: list[str] = []

_DTYPES = ("float32", "int32")
_FORMAT = "weighted-csr"
_SPARE = 8448  # SPG_SPARE of graph/relax.cuh
_EDGE_BITS = np.uint64(33)
_MOST = 2**31 - 1

_DELTA = {
    "delta": Tunable(
        0.0,
        "how far the threshold rises at a time; 0: found from mean weight and degree",
        between=(0.0, 1e30),
    )
}
_GRID = {
    "block": Tunable(
        0, "threads per block; 0: 1024, on the host device 128", (0, 32, 64, 128, 256, 512, 1024)
    ),
    "blocks_per_multiprocessor": Tunable(
        0, "blocks that a multiprocessor gets; 0: as many as fit", between=(0, 64)
    ),
}
_SMALL = {
    "small_vertices": Tunable(1024, "largest near frontier for one block alone", between=(0, 1024)),
    "small_edges": Tunable(4096, "most out-edges of a near frontier for one block alone", between=(0, _MOST)),
    "small_waiting": Tunable(4096, "largest far pile that one block splits alone", between=(0, _MOST)),
}


class _Search(Levels):
    """Lengths and piles as graph/relax.cuh lays them out, and the weights as kernels take them."""

    def __init__(self, job: Job, far: bool) -> None:
        super().__init__(job, "distance")
        packed, n = job.packed, job.packed.rows
        kind = job.dtype.type
        self.weight = job.arrays.get("weight")
        self.uniform = kind(1 if packed.value is None else packed.value)
        self.edges: tuple[Arg, ...] = (
            job.arrays["row_ptr"], job.arrays["col"], self.weight, self.uniform
        )  # fmt: skip
        self.words, self.least = self.zeros(6, np.uint64), self.zeros(3, np.int32)
        self.piles: tuple[Arg, ...] = (
            self.level,
            self.empty(n, np.int32),  # stamp
            self.empty(-(-n // 32), np.uint32),  # in_far
            self.empty(2 * (n + _SPARE), np.int32),  # queue
            self.empty(2 * (n + _SPARE), packed.offsets),  # start
            self.empty(2 * n if far else 1, np.int32),
            self.words,
            self.least,
        )

    def begin(self, grid: int) -> Callable[[], None]:
        kernel = self.job.kernel("sssp_begin")
        return kernel.bind(
            grid, self.job.params["block"], self.n, self.source, self.job.arrays["row_ptr"], *self.piles
        )

    def delta(self) -> np.generic:
        """How far the threshold rises at a time, of the weights' type.

        Found by itself: all that 32 lanes relax in a mean vertex's time, 32 mean weights over the mean degree
        (Davidson and others, IPDPS 2014); never, where all weights are alike: then no length falls twice.
        """
        job = self.job
        kind: Any = job.dtype.type
        never: np.generic = kind(_MOST) if kind is np.int32 else kind(np.inf)
        given = float(job.params["delta"])
        if given == 0 and self.weight is None:
            return never
        if given == 0:
            degree = job.packed.nnz / max(job.packed.rows, 1)
            given = 32 * float(job.packed.arrays["weight"].mean(dtype=np.float64)) / max(degree, 1.0)
        if kind is np.int32:
            return np.int32(max(1, min(round(given), _MOST)))
        with np.errstate(over="ignore"):
            found = np.float32(given)
        # Lengths of all-zero weights never pass a threshold; any will do.
        return found if found > 0 else np.float32(np.finfo(np.float32).tiny)


def _told(delta: np.generic) -> float | None:
    """`delta` for a record; None if nothing is ever far."""
    return None if not math.isfinite(delta) or delta == _MOST else delta.item()


@variant("sssp", "frontier", format=_FORMAT, source="sssp/frontier.cu", tunables=BLOCK, dtypes=_DTYPES,
         about="Bellman-Ford by frontier, one launch a phase")  # fmt: skip
def frontier(job: Job) -> Launch:
    search = _Search(job, far=False)
    grid, block, kernel = (
        search.stride_blocks(job.packed.nnz),
        job.params["block"],
        job.kernel("sssp_frontier"),
    )
    done: list[int] = []

    def bind(k: int) -> Callable[[], None]:
        return kernel.bind(grid, block, search.n, *search.edges, *search.piles, np.int32(k))

    walk = counted(search, search.begin(grid), per_level(bind), search.words, "push")

    def counting() -> Iterator[str | None]:
        done[:] = [0]
        for how in walk():
            done[0] += how is not None
            yield how

    launch = search.walked(counting)
    launch.trace = None  # there are phases, but no levels
    launch.facts = lambda: {"phases": done[0]}
    return launch


@variant("sssp", "near-far", format=_FORMAT, source="sssp/near_far.cu", tunables=BLOCK | _DELTA,
         dtypes=_DTYPES,
         about="delta-stepping with a near and a far pile, the host between phases")  # fmt: skip
def near_far(job: Job) -> Launch:
    search = _Search(job, far=True)
    grid, block = search.stride_blocks(job.packed.nnz), job.params["block"]
    begin, relax, split = search.begin(grid), job.kernel("sssp_relax"), job.kernel("sssp_split")
    delta = search.delta()
    told = {"phases": 0, "splits": 0, "relaxed": 0}

    def beyond(least: int) -> int:
        """threshold_beyond of graph/relax.cuh, on ordered integers."""
        if delta.dtype == np.int32:
            return min(least + int(delta), _MOST)
        with np.errstate(over="ignore"):
            up = np.int32(least).view(np.float32) + np.float32(delta)
        return max(int(np.float32(up).view(np.int32)), min(least + 1, _MOST))

    def walk() -> Iterator[str | None]:
        begin()
        yield None
        threshold, fresh, k, j, relaxed = beyond(0), False, 0, 0, 0
        while True:
            words = job.device.download(search.words)
            tally = words[k % 3]
            if tally:
                relaxed += int(tally & ((np.uint64(1) << _EDGE_BITS) - np.uint64(1)))
                relax(
                    grid, block, search.n, *search.edges, *search.piles, np.int32(k), np.int32(j),
                    np.int32(threshold),
                )  # fmt: skip
                fresh = False
            elif words[3 + j % 3]:
                lower = threshold
                threshold = beyond(int(job.device.download(search.least)[j % 3]) if fresh else threshold)
                split(
                    grid, block, search.n, job.arrays["row_ptr"], *search.piles, np.int32(k), np.int32(j),
                    np.int32(lower), np.int32(threshold),
                )  # fmt: skip
                j, fresh = j + 1, True
            else:
                break
            k += 1
            yield "push"
            if k > 4 * job.packed.rows + 4:
                raise LaunchError("near-far does not end: more phases than vertices allow")
        told.update(phases=k, splits=j, relaxed=relaxed)

    launch = search.walked(walk)
    launch.trace = None
    launch.facts = lambda: {**told, "delta": _told(delta)}
    return launch


@variant("sssp", "auto", format=_FORMAT, source="sssp/auto.cu", tunables=_GRID | _SMALL | _DELTA,
         dtypes=_DTYPES, missing=needs_cooperative,
         about="near and far piles in one launch; small phases by one block alone")  # fmt: skip
def auto(job: Job) -> Launch:
    search, p = _Search(job, far=True), job.params
    delta, handover, told = search.delta(), search.zeros(5, np.int64), search.zeros(3, np.int64)
    barrier = search.zeros(1, np.uint32)
    small = (np.int32(p["small_vertices"]), np.int64(p["small_edges"]), np.int64(p["small_waiting"]))

    def args(trace: Buffer | None, traced: np.int32) -> tuple[Arg, ...]:
        return (
            search.n, search.source, *search.edges, delta, *search.piles, handover, told, barrier, *small
        )  # fmt: skip

    def facts() -> Mapping[str, Any]:
        phases, splits, relaxed = job.device.download(told).tolist()
        return {"phases": phases, "splits": splits, "relaxed": relaxed, "delta": _told(delta)}

    launch = cooperative(search, job.kernel("sssp_auto"), args)
    launch.trace = None
    launch.facts = facts
    return launch
