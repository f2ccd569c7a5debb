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
from spgraph_bench.variants.grids import GRID
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
        "how far the threshold rises at a time; 0: mean weight over mean degree at first, doubled while idle",
        between=(0.0, 1e30),
    ),
    "busy_edges": Tunable(
        0,
        "a delta of its own doubles where a threshold lets fewer edges be relaxed; 0: 2,048 a multiprocessor",
        between=(0, _MOST),
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
        """How far the threshold rises at first, of the weights' type.

        Found by itself: the mean weight over the mean degree, so that about one edge of a vertex is near
        (Meyer and Sanders, 2003, for random weights); never, where all weights are alike: then no length
        falls twice.
        """
        job = self.job
        kind: Any = job.dtype.type
        never: np.generic = kind(_MOST) if kind is np.int32 else kind(np.inf)
        given = float(job.params["delta"])
        if given == 0 and self.weight is None:
            return never
        if given == 0:
            degree = job.packed.nnz / max(job.packed.rows, 1)
            given = float(job.packed.arrays["weight"].mean(dtype=np.float64)) / max(degree, 1.0)
        if kind is np.int32:
            return np.int32(max(1, min(round(given), _MOST)))
        with np.errstate(over="ignore"):
            found = np.float32(given)
        # Lengths of all-zero weights never pass a threshold; any will do.
        return found if found > 0 else np.float32(np.finfo(np.float32).tiny)

    def busy(self) -> np.int64:
        """Below so many edges relaxed between splits delta doubles; 0 (never) for a delta that was given."""
        if self.job.params["delta"]:
            return np.int64(0)
        return np.int64(self.job.params["busy_edges"] or 2048 * self.device.info().multiprocessors)


def _told(delta: np.generic) -> float | None:
    """`delta` for a record; None if nothing is ever far."""
    return None if not math.isfinite(delta) or delta == _MOST else delta.item()


class _Threshold:
    """What raise_threshold of graph/relax_alone.cuh does, for a search that the host drives."""

    def __init__(self, delta: np.generic, busy: int) -> None:
        self._delta: Any = delta
        self._busy = busy
        self._relaxed = self._before = 0
        self.at = 0
        self.rise(0)

    @property
    def delta(self) -> np.generic:
        """As it is now."""
        return self._delta  # type: ignore[no-any-return]

    def relaxed(self, edges: int) -> None:
        self._relaxed += edges

    def raise_from(self, least: int) -> None:
        """The next threshold, beyond `least` (lengths are ordered integers)."""
        if self._relaxed - self._before < self._busy:
            self._delta = self._twice()
        self._before = self._relaxed
        self.rise(least)

    def rise(self, least: int) -> None:
        if self._delta.dtype == np.int32:
            self.at = min(least + int(self._delta), _MOST)
            return
        with np.errstate(over="ignore"):
            up = np.int32(least).view(np.float32) + self._delta
        self.at = max(int(np.float32(up).view(np.int32)), min(least + 1, _MOST))

    def _twice(self) -> Any:
        if self._delta.dtype == np.int32:
            return np.int32(min(2 * int(self._delta), _MOST))
        with np.errstate(over="ignore"):
            return self._delta + self._delta


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
    delta, busy = search.delta(), int(search.busy())
    told: dict[str, Any] = {"phases": 0, "splits": 0, "relaxed": 0, "delta": _told(delta), "last_delta": None}

    def walk() -> Iterator[str | None]:
        begin()
        yield None
        threshold, fresh, k, j = _Threshold(delta, busy), False, 0, 0
        relaxed = 0
        while True:
            words = job.device.download(search.words)
            tally = words[k % 3]
            if tally:
                edges = int(tally & ((np.uint64(1) << _EDGE_BITS) - np.uint64(1)))
                relaxed += edges
                threshold.relaxed(edges)
                relax(
                    grid, block, search.n, *search.edges, *search.piles, np.int32(k), np.int32(j),
                    np.int32(threshold.at),
                )  # fmt: skip
                fresh = False
            elif words[3 + j % 3]:
                lower = threshold.at
                threshold.raise_from(int(job.device.download(search.least)[j % 3]) if fresh else lower)
                split(
                    grid, block, search.n, job.arrays["row_ptr"], *search.piles, np.int32(k), np.int32(j),
                    np.int32(lower), np.int32(threshold.at),
                )  # fmt: skip
                j, fresh = j + 1, True
            else:
                break
            k += 1
            yield "push"
            if k > 4 * job.packed.rows + 4:
                raise LaunchError("near-far does not end: more phases than vertices allow")
        told.update(phases=k, splits=j, relaxed=relaxed, last_delta=_told(threshold.delta))

    launch = search.walked(walk)
    launch.trace = None
    launch.facts = lambda: dict(told)
    return launch


@variant("sssp", "auto", format=_FORMAT, source="sssp/auto.cu", tunables=GRID | _SMALL | _DELTA,
         dtypes=_DTYPES, missing=needs_cooperative,
         about="near and far piles in one launch; small phases by one block alone")  # fmt: skip
def auto(job: Job) -> Launch:
    search, p = _Search(job, far=True), job.params
    delta, busy = search.delta(), search.busy()
    handover, told = search.zeros(7, np.int64), search.zeros(4, np.int64)
    barrier = search.zeros(1, np.uint32)
    small = (np.int32(p["small_vertices"]), np.int64(p["small_edges"]), np.int64(p["small_waiting"]))

    def args(trace: Buffer | None, traced: np.int32) -> tuple[Arg, ...]:
        return (
            search.n, search.source, *search.edges, delta, busy, *search.piles, handover, told, barrier,
            *small,
        )  # fmt: skip

    def facts() -> Mapping[str, Any]:
        phases, splits, relaxed, bits = job.device.download(told).tolist()
        last = np.int32(bits).view(job.dtype)
        return {
            "phases": phases, "splits": splits, "relaxed": relaxed, "delta": _told(delta),
            "last_delta": _told(last),
        }  # fmt: skip

    launch = cooperative(search, job.kernel("sssp_auto"), args)
    launch.trace = None
    launch.facts = facts
    return launch
