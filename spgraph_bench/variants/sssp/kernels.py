"""spgraph's own shortest paths. The contract of each is in its kernel file, of all but bellman-ford in
graph/relax.cuh."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from spgraph_bench.device.base import Arg
from spgraph_bench.errors import LaunchError
from spgraph_bench.parameters import Parameter
from spgraph_bench.problems.lengths import rounded_cutoff
from spgraph_bench.variants.base import Job, Launch, variant
from spgraph_bench.variants.grids import BLOCK, GRID, Stamps, cooperative_shape, needs_cooperative, threads_for
from spgraph_bench.variants.searches import EDGE_BITS, Levels, check_tally, per_level

__all__: list[str] = []

_DTYPES = ("float32", "int32")
_FORMAT = "weighted-csr"
_SPARE = 8448  # SPG_SPARE of graph/relax.cuh
_EDGE_BITS = np.uint64(EDGE_BITS)
_MOST = 2**31 - 1

_DELTA = {
    "delta": Parameter(
        0.0,
        "how far the threshold rises at a time; 0: mean weight over mean degree at first, doubled while idle",
        between=(0.0, 1e30),
    ),
    "busy_edges": Parameter(
        0,
        "a delta of its own doubles where a threshold lets fewer edges be relaxed; 0: 4,096 a multiprocessor",
        between=(0, _MOST),
    ),
}
_SMALL = {
    "small_vertices": Parameter(1024, "largest near frontier for one block only", between=(0, 1024)),
    "small_edges": Parameter(4096, "most out-edges of a near frontier for one block only", between=(0, _MOST)),
    "small_waiting": Parameter(4096, "largest far pile that one block splits alone", between=(0, _MOST)),
}


class _Lengths(Levels):
    """Lengths, and ``edges``: out-edges with their weights and the cutoff as all kernels take them."""

    def __init__(self, job: Job) -> None:
        super().__init__(job, "distance")
        packed = job.packed
        kind: Any = job.dtype.type
        self.weight = job.arrays.get("weight")
        self.uniform = kind(1 if packed.value is None else packed.value)
        self.edges: tuple[Arg, ...] = (
            job.arrays["row_ptr"],
            job.arrays["col"],
            self.weight,
            self.uniform,
            beyond(float(job.options.get("cutoff", -1.0)), job.dtype),
        )


class _Search(_Lengths):
    """Lengths and piles as graph/relax.cuh lays them out."""

    def __init__(self, job: Job, far: bool) -> None:
        super().__init__(job)
        check_tally(job, times=2)  # a block alone may queue a vertex twice
        packed, n = job.packed, job.packed.rows
        kind: Any = job.dtype.type
        self.never: np.generic = kind(_MOST) if kind is np.int32 else kind(np.inf)
        """A delta that nothing is beyond."""
        self.words, self.least = self.zeros(6, np.uint64), self.zeros(3, np.int32)
        self.piles: tuple[Arg, ...] = (
            self.level,
            self.empty(n, np.int32),  # queued
            self.empty(-(-n // 32), np.uint32),  # in_far
            self.empty(2 * (n + _SPARE), np.int32),  # queue
            self.empty(2 * (n + _SPARE), packed.offsets),  # start
            self.empty(2 * n if far else 1, np.int32),
            self.words,
            self.least,
        )

    def begin(self, grid: int) -> Callable[[], None]:
        kernel = self.job.kernel("sssp_begin")
        return kernel.bind(grid, self.job.params["block"], self.n, self.source, self.job.arrays["row_ptr"], *self.piles)

    def delta(self) -> np.generic:
        """How far the threshold rises at first, of the weights' type.

        The default: the mean weight over the mean degree, so that about one edge of a vertex is near
        (Meyer and Sanders, 2003, for random weights); never, where all weights are alike: then no length
        falls twice.
        """
        job = self.job
        kind: Any = job.dtype.type
        given = float(job.params["delta"])
        if given == 0 and self.weight is None:
            return self.never
        if given == 0:
            degree = job.packed.nnz / max(job.packed.rows, 1)
            given = float(job.packed.arrays["weight"].mean(dtype=np.float64)) / max(degree, 1.0)
        if kind is np.int32:
            return np.int32(max(1, min(round(given), _MOST)))
        with np.errstate(over="ignore"):
            value = np.float32(given)
        # Lengths of all-zero weights never pass a threshold; any will do.
        return value if value > 0 else np.float32(np.finfo(np.float32).tiny)

    def busy(self) -> np.int64:
        """Below so many edges relaxed between splits delta doubles; 0 (never) for a delta that was given."""
        if self.job.params["delta"]:
            return np.int64(0)
        return np.int64(self.job.params["busy_edges"] or 4096 * self.device.info().multiprocessors)


def beyond(cutoff: float, dtype: np.dtype[Any]) -> np.int32:
    """The first length that is not kept, as an ordered integer; a negative `cutoff` is none."""
    limit = rounded_cutoff(cutoff, dtype)
    if limit is None:
        return np.int32(_MOST)
    return np.int32(min(int(limit.view(np.int32)) + 1, _MOST))


def _or_none(delta: np.generic) -> float | None:
    """`delta` for a record; None if nothing is ever far."""
    return None if not math.isfinite(delta) or delta == _MOST else delta.item()


class _Threshold:
    """What raise_threshold of graph/relax_alone.cuh does, for a search that the host drives."""

    def __init__(self, delta: np.generic, busy: int) -> None:
        self._delta: Any = delta
        self._busy = busy
        self._relaxed = self._before = 0
        self.value = 0
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
            self.value = min(least + int(self._delta), _MOST)
            return
        with np.errstate(over="ignore"):
            up = np.int32(least).view(np.float32) + self._delta
        self.value = max(int(np.float32(up).view(np.int32)), min(least + 1, _MOST))

    def _twice(self) -> Any:
        if self._delta.dtype == np.int32:
            return np.int32(min(2 * int(self._delta), _MOST))
        with np.errstate(over="ignore"):
            return self._delta + self._delta


Step = dict[str, Any]
"""Of a trace: ``how``, ``waiting`` (vertices in the far pile, None without one) and ``edges`` relaxed, None of a
split."""


def _walked(lengths: _Lengths, walk: Callable[[], Iterator[Step]], facts: Step) -> Launch:
    """A Launch of a mode that the host drives: `walk` yields {} once everything is begun, then each step, and
    fills `facts` at the end."""

    def run() -> None:
        for _ in walk():
            pass

    def watched() -> list[Step]:
        done, before, device = [], 0.0, lengths.device
        for step in walk():
            device.synchronize()
            now = time.perf_counter()
            if step:
                ms = None if device.kind == "host" else (now - before) * 1e3
                done.append({"how": step["how"], "ms": ms, "waiting": step["waiting"], "edges": step["edges"]})
            before = time.perf_counter()
        return done

    made = lengths.launch(run, operations=1, gated=False)
    made.facts, made.steps = lambda: dict(facts), watched
    return made


@variant(
    "sssp",
    "bellman-ford",
    format=_FORMAT,
    source="sssp/bellman_ford.cu",
    tunables=BLOCK,
    dtypes=_DTYPES,
    about="a thread per vertex relaxes all its out-edges, every round",
)
def bellman_ford(job: Job) -> Launch:
    lengths, block = _Lengths(job), job.params["block"]
    grid, progress = lengths.blocks(job.packed.rows), lengths.zeros(2, np.uint64)
    begin = job.kernel("bellman_ford_begin").bind(grid, block, lengths.n, lengths.source, lengths.level, progress)
    kernel = job.kernel("bellman_ford_round")
    relax = per_level(
        lambda k: kernel.bind(grid, block, lengths.n, *lengths.edges, lengths.level, progress, np.uint64(k + 1))
    )
    facts: Step = {"phases": 0, "relaxed": 0}

    def walk() -> Iterator[Step]:
        begin()
        yield {}
        rounds, relaxed, lowered = 0, 0, True
        while lowered:
            if rounds == job.packed.rows:
                raise LaunchError(f"{job.variant.name} does not end: more rounds than vertices")
            relax(rounds)
            rounds, before = rounds + 1, relaxed
            last, relaxed = job.device.download(progress).tolist()
            lowered = last == rounds
            yield {"how": "all", "waiting": None, "edges": relaxed - before}
        facts.update(phases=rounds, relaxed=relaxed)

    return _walked(lengths, walk, facts)


def _by_host(job: Job, phase: str, far: bool) -> Launch:
    """A mode whose phases the kernel `phase` does, and which the host drives; `far`: with a far pile."""
    search = _Search(job, far)
    grid, block = search.stride_blocks(job.packed.nnz), job.params["block"]
    begin, relax = search.begin(grid), job.kernel(phase)
    split = job.kernel("sssp_split") if far else None
    delta, busy = (search.delta(), int(search.busy())) if far else (search.never, 0)
    facts: Step = {"phases": 0, "relaxed": 0}
    if far:
        facts |= {"splits": 0, "delta": _or_none(delta), "last_delta": None}
    bound: dict[tuple[int, ...], Callable[[], None]] = {}

    def launch(key: tuple[int, ...], bind: Callable[[], Callable[[], None]]) -> None:
        """Binding takes as long as launching, and runs differ little."""
        if key not in bound:
            bound[key] = bind()
        bound[key]()

    def relaxed(k: int, j: int, threshold: int) -> None:
        own = (np.int32(k), np.int32(j), np.int32(threshold)) if far else (np.int32(k),)
        launch((0, k, j, threshold), lambda: relax.bind(grid, block, search.n, *search.edges, *search.piles, *own))

    def split_off(k: int, j: int, lower: int, upper: int) -> None:
        assert split is not None
        own = (np.int32(k), np.int32(j), np.int32(lower), np.int32(upper))
        row_ptr = job.arrays["row_ptr"]
        launch((1, k, j, lower, upper), lambda: split.bind(grid, block, search.n, row_ptr, *search.piles, *own))

    def walk() -> Iterator[Step]:
        begin()
        yield {}
        threshold, fresh, k, j, edges = _Threshold(delta, busy), False, 0, 0, 0
        while True:
            words = job.device.download(search.words)
            tally, waiting = words[k % 3], int(words[3 + j % 3])
            if tally:
                count = int(tally & ((np.uint64(1) << _EDGE_BITS) - np.uint64(1)))
                edges += count
                threshold.relaxed(count)
                relaxed(k, j, threshold.value)
                fresh = False
                step = {"how": "near", "waiting": waiting if far else None, "edges": count}
            elif waiting:
                lower = threshold.value
                threshold.raise_from(int(job.device.download(search.least)[j % 3]) if fresh else lower)
                split_off(k, j, lower, threshold.value)
                j, fresh = j + 1, True
                step = {"how": "split", "waiting": waiting, "edges": None}
            else:
                break
            k += 1
            yield step
            if k > 4 * job.packed.rows + 4:
                raise LaunchError(f"{job.variant.name} does not end: more phases than vertices allow")
        facts.update(phases=k, relaxed=edges)
        if far:
            facts.update(splits=j, last_delta=_or_none(threshold.delta))

    return _walked(search, walk, facts)


@variant(
    "sssp",
    "frontier",
    format=_FORMAT,
    source="sssp/frontier.cu",
    tunables=BLOCK,
    dtypes=_DTYPES,
    about="Bellman-Ford by frontier, one launch a phase",
)
def frontier(job: Job) -> Launch:
    return _by_host(job, "sssp_frontier", far=False)


@variant(
    "sssp",
    "near-far",
    format=_FORMAT,
    source="sssp/near_far.cu",
    tunables=BLOCK | _DELTA,
    dtypes=_DTYPES,
    about="delta-stepping with a near and a far pile, the host between phases",
)
def near_far(job: Job) -> Launch:
    return _by_host(job, "sssp_relax", far=True)


_HOW = ("near", "near, one block", "split", "split, one block")


@variant(
    "sssp",
    "auto",
    format=_FORMAT,
    source="sssp/auto.cu",
    tunables=GRID | _SMALL | _DELTA,
    dtypes=_DTYPES,
    missing=needs_cooperative,
    about="near and far piles in one launch; small phases by one block alone",
)
def auto(job: Job) -> Launch:
    search, p, kernel = _Search(job, far=True), job.params, job.kernel("sssp_auto")
    delta, busy = search.delta(), search.busy()
    handover, totals = search.zeros(7, np.int64), search.zeros(4, np.int64)
    barrier = search.zeros(1, np.uint32)
    small = (np.int32(p["small_vertices"]), np.int64(p["small_edges"]), np.int64(p["small_waiting"]))
    grid, block = cooperative_shape(job.device, kernel, p, threads_for(job.packed.rows, job.packed.nnz))

    def bound(stamps: Stamps) -> Callable[[], None]:
        return kernel.bind(
            grid,
            block,
            search.n,
            search.source,
            *search.edges,
            delta,
            busy,
            *search.piles,
            handover,
            totals,
            barrier,
            *small,
            stamps.buffer,
            stamps.size,
            cooperative=True,
        )

    def watched() -> list[Step]:
        stamps = Stamps(job.device, 4 * job.packed.rows + 8)
        (stamps_read,) = stamps.read(bound(stamps))
        return [
            {
                "how": _HOW[code & 3],
                "ms": ms,
                "waiting": code >> 2 if code & 2 else None,
                "edges": None if code & 2 else code >> 2,
            }
            for _, code, ms in stamps_read
        ]

    def facts() -> Mapping[str, Any]:
        phases, splits, relaxed, bits = job.device.download(totals).tolist()
        last = np.int32(bits).view(job.dtype)
        return {
            "phases": phases,
            "splits": splits,
            "relaxed": relaxed,
            "delta": _or_none(delta),
            "last_delta": _or_none(last),
        }

    made = search.launch(bound(Stamps(job.device, 0)), operations=1)
    made.facts, made.steps = facts, watched
    return made
