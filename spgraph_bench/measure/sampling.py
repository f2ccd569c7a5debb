"""The one timing loop: every variant of every problem is sampled here.

Variants are sampled in interleaved rounds in a seeded random order, so that drift of the machine hits all
alike. In its turn a variant gives one cold and one hot sample (of those it still owes); it leaves the
rotation when the stopping rule is content with both. What a sample is, a :class:`Clock` knows.

Whether the GPU was throttled is asked now and then, not at each sample: an answer takes the driver as long as
many a kernel. Samples wait for the next answer (:class:`_Probation`) and count when the answers before and
after them are both clean.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median_low
from typing import TYPE_CHECKING, Literal, Protocol, TypeVar

import numpy as np

from spgraph_bench.measure.stopping import Precision, StoppingRule
from spgraph_bench.results.interval import SMALLEST
from spgraph_bench.results.record import Samples, Stopped
from spgraph_bench.timer import monotonic

if TYPE_CHECKING:
    from spgraph_bench.variants.base import Launch

__all__ = ["Cache", "Clock", "Ended", "Entry", "Event", "Sample", "Taken", "sample_interleaved", "shuffled"]

Cache = Literal["cold", "hot"]


@dataclass(frozen=True)
class Sample:
    """One timed run."""

    ms: float
    valid: bool = True
    reason: str = ""
    """Why it is not valid: "throttled", "gate timeout"."""
    sm_clock_mhz: int | None = None
    throttle: tuple[str, ...] = ()
    """Throttle reasons active around it."""


class Clock(Protocol):
    """Takes one sample of a launch."""

    @property
    def name(self) -> Literal["cuda-events", "cpu"]:
        """Which clock it is, for the record."""
        ...

    @property
    def evict_bytes(self) -> int:
        """Size of the buffer that is read before a cold sample."""
        ...

    def gates(self, launch: Launch) -> bool:
        """Whether samples of `launch` are queued behind the gate."""
        ...

    def sample(self, launch: Launch, cache: Cache) -> Sample:
        """Reset, evict (cold only), time one run and wait for its end.

        A hot sample is asked for right after a run of the same launch: the loop sees to that, the clock need
        not. Raises what the launch raises.
        """
        ...


@dataclass(frozen=True)
class Taken:
    """One sample, as it was taken. Kept so that sampling can resume."""

    key: str
    cache: Cache
    sample: Sample
    spent_s: float
    """Wall time it took, everything included."""
    case: int = 0
    """Which case of the launch was run."""


@dataclass(frozen=True)
class Ended:
    """One series (variant and cache state) is over."""

    key: str
    cache: Cache
    samples: Samples
    reason: str = ""
    """Why it failed; empty unless ``samples.stopped == "failed"``."""


Event = Taken | Ended


@dataclass(frozen=True)
class Entry:
    """One variant to be sampled."""

    key: str
    launch: Launch
    clock: Clock
    caches: tuple[Cache, ...] = ("cold", "hot")
    taken: Sequence[Taken] = ()
    """Samples from before a restart, of this key; they count as if taken now."""
    watched: bool = False
    """Whether throttling would spoil its samples: it runs on what `watch` of the loop looks at."""


class _LaunchFailed(Exception):  # noqa: N818 (never leaves this module)
    def __init__(self, error: Exception) -> None:
        self.error = error


class _Series:
    """The samples of one entry in one cache state so far."""

    def __init__(self, entry: Entry, cache: Cache, rule: StoppingRule) -> None:
        self.entry, self.cache, self.rule = entry, cache, rule
        self.times: list[float] = []
        self.case = 0
        """The case to sample next."""
        self.cycle_ms = 0.0
        self.precision = Precision(rule_for_cases(rule, entry.launch.cases))
        self.dropped: Counter[str] = Counter()
        self.clocks: list[int] = []
        self.throttle: dict[str, None] = {}
        self.invalid_run = 0
        """Dropped samples in a row; samples that one bad answer voided count as one."""
        self.ahead = 0
        """Good samples on probation."""
        self.ended = False

    def next_case(self) -> int:
        return (self.case + self.ahead) % self.entry.launch.cases

    def add(self, sample: Sample) -> None:
        self.throttle.update(dict.fromkeys(sample.throttle))
        if (fault := _fault(sample)) is not None:
            self.dropped[fault] += 1
            self.invalid_run += 1
            return
        self.invalid_run = 0
        self.times.append(sample.ms)
        # What has to be known well is the time of all cases together; a dropped sample is taken again.
        self.cycle_ms += sample.ms
        self.case = (self.case + 1) % self.entry.launch.cases
        if self.case == 0:
            self.precision.add(self.cycle_ms)
            self.cycle_ms = 0.0
        if sample.sm_clock_mhz is not None:
            self.clocks.append(sample.sm_clock_mhz)

    def _cases(self) -> tuple[int, ...]:
        count = self.entry.launch.cases
        return tuple(i % count for i in range(len(self.times))) if count > 1 else ()

    def end(self, stopped: Stopped, warmups: int, reason: str = "") -> Ended:
        self.ended = True
        clocks = (min(self.clocks), median_low(self.clocks), max(self.clocks)) if self.clocks else ()
        clock = self.entry.clock
        samples = Samples(
            cache=self.cache,
            times_ms=tuple(self.times),
            clock=clock.name,
            gated=clock.gates(self.entry.launch),
            warmups=warmups,
            stopped=stopped,
            dropped=dict(self.dropped),
            sm_clock_mhz=clocks,
            throttle=tuple(self.throttle),
            evict_bytes=clock.evict_bytes if self.cache == "cold" else 0,
            cases=self._cases(),
            rule=self.precision.rule.to_json(),
        )
        return Ended(self.entry.key, self.cache, samples, reason)


def _fault(sample: Sample) -> str | None:
    """Why `sample` is to be dropped, or None."""
    if not sample.valid:
        return sample.reason or "invalid"
    return None if math.isfinite(sample.ms) and sample.ms >= 0 else "impossible time"


class _Rotation:
    """One entry with the series it still owes."""

    def __init__(self, entry: Entry, rule: StoppingRule) -> None:
        self.entry = entry
        self.series = [_Series(entry, cache, rule) for cache in entry.caches]
        self.spent_s = 0.0
        self.warmups = 0
        for taken in entry.taken:
            self.spent_s += taken.spent_s
            for series in self.series:
                if series.cache == taken.cache:
                    series.add(taken.sample)

    def owed(self) -> list[_Series]:
        return [s for s in self.series if not s.ended]

    def end_all(self, stopped: Stopped, reason: str = "") -> list[Ended]:
        return [s.end(stopped, self.warmups, reason) for s in self.owed()]

    def take(self, series: _Series, taken: Taken, max_invalid: int) -> Iterator[Event]:
        """Count a sample. One that was on probation when its series ended is not wanted any more."""
        self.spent_s += taken.spent_s
        if not series.ended:
            series.add(taken.sample)
            yield taken
            yield from self.judge(series, max_invalid)

    def judge(self, series: _Series, max_invalid: int) -> list[Ended]:
        """The end of `series`, if it has come."""
        if series.invalid_run >= max_invalid:
            worst = ", ".join(f"{n} x {why}" for why, n in series.dropped.most_common())
            why = f"{series.invalid_run} samples in a row had to be dropped ({worst})"
            return [series.end("failed", self.warmups, why)]
        stopped = series.precision.verdict(self.spent_s)
        return [] if stopped is None else [series.end(stopped, self.warmups)]

    def warm_up(self, runs: int, limit_s: float, timer: Callable[[], float]) -> None:
        begin = timer()
        while self.warmups < runs and (self.warmups == 0 or timer() - begin < limit_s):
            try:
                self.entry.launch.select(self.warmups % self.entry.launch.cases)
                self.entry.clock.sample(self.entry.launch, "hot")
            except Exception as error:
                raise _LaunchFailed(error) from error
            self.warmups += 1


Watch = Callable[[], tuple[int | None, tuple[str, ...]]]
"""The SM clock in MHz (None: unknown) and the reasons for which the GPU is throttled now."""


class _Probation:
    """Samples that wait for the next answer to the question whether the GPU is throttled.

    It is asked before the first sample, then at the first sample that ends `every_s` after the last answer.
    A sample counts when the answers before and after it are both clean; if one is not, all that were taken
    between them are dropped as "throttled". While the last answer was bad, it is asked after each sample.
    """

    def __init__(
        self,
        watch: Watch | None,
        max_invalid: int,
        timer: Callable[[], float],
        pause: Callable[[float], None],
        every_s: float = 0.02,
        most: int = 1000,
    ) -> None:
        self._watch, self._max_invalid, self._timer, self._pause = watch, max_invalid, timer, pause
        self._every_s, self._most = every_s, most
        self._waiting: list[tuple[_Rotation, _Series, Taken]] = []
        self._throttle: tuple[str, ...] = ()
        """The last answer."""
        self._watched_s: float | None = None

    def before(self, entry: Entry) -> None:
        """A sample of `entry` comes next."""
        if self._watched_s is None and entry.watched:
            self._ask()

    def _ask(self) -> int | None:
        clock: int | None = None
        if self._watch is not None:
            clock, self._throttle = self._watch()
        self._watched_s = self._timer()
        return clock

    def take(self, turn: _Rotation, series: _Series, taken: Taken) -> Iterator[Event]:
        """Count a sample immediately, or hold it until :meth:`settle`."""
        if self._watch is None or not turn.entry.watched:
            if _fault(taken.sample) and series.invalid_run >= 2:
                self._pause(0.1)
            yield from turn.take(series, taken, self._max_invalid)
            return
        self._waiting.append((turn, series, taken))
        series.ahead += _fault(taken.sample) is None
        assert self._watched_s is not None
        late = self._timer() - self._watched_s >= self._every_s
        if late or self._throttle or len(self._waiting) >= self._most:
            yield from self.settle()

    def settle(self) -> Iterator[Event]:
        """Ask, and count or drop all that wait."""
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        before = self._throttle
        clock = self._ask()
        reasons = tuple(dict.fromkeys((*before, *self._throttle)))
        runs = {id(series): series.invalid_run for _, series, _ in waiting}
        for turn, series, taken in waiting:
            series.ahead = 0
            s = taken.sample  # made anew, not by replace: there are thousands
            if reasons:
                series.invalid_run = runs[id(series)]
                sample = Sample(s.ms, False, "throttled", clock, reasons)
            else:
                sample = Sample(s.ms, s.valid, s.reason, clock)
            settled = Taken(taken.key, taken.cache, sample, taken.spent_s, taken.case)
            yield from turn.take(series, settled, self._max_invalid)
        if reasons and any(series.invalid_run > 2 for _, series, _ in waiting):
            self._pause(0.1)


_MOST_TIMES = 10_000
"""Of a series with several cases, times kept at most."""


def rule_for_cases(rule: StoppingRule, cases: int) -> StoppingRule:
    """`rule` for `cases` cases in turn, where a sample is the sum of one full cycle: at least 6 cycles before
    the median counts as known, and one even when the time is up; more of both where more samples were asked for."""
    if cases == 1:
        return rule
    floor = -(-rule.floor_samples // cases) if rule.floor_samples > SMALLEST else 1
    most = max(floor, min(rule.max_samples, max(SMALLEST, _MOST_TIMES // cases)))
    return replace(rule, min_samples=max(SMALLEST, floor), floor_samples=floor, max_samples=max(most, SMALLEST))


_T = TypeVar("_T")


def shuffled(items: Sequence[_T], bits: np.random.BitGenerator) -> list[_T]:
    """Fisher-Yates on a bit generator's raw 64-bit output: the same order with every numpy.

    An index below k is the high half of ``raw * k``; its bias is at most k / 2^64.
    """
    out = list(items)
    for last in range(len(out) - 1, 0, -1):
        pick = int(bits.random_raw()) * (last + 1) >> 64
        out[last], out[pick] = out[pick], out[last]
    return out


def _reason(error: Exception) -> str:
    return str(error).strip() or type(error).__name__


def sample_interleaved(
    entries: Sequence[Entry],
    rule: StoppingRule | None = None,
    *,
    order_seed: int = 1,
    warmups: int = 3,
    warmup_limit_s: float = 0.25,
    max_invalid: int = 20,
    should_stop: Callable[[], bool] = lambda: False,
    seconds: float = math.inf,
    fatal: Callable[[Exception], bool] = lambda error: False,
    timer: Callable[[], float] = monotonic,
    pause: Callable[[float], None] = time.sleep,
    watch: Watch | None = None,
    between: Callable[[], None] = lambda: None,
) -> Iterator[Event]:
    """Sample `entries` until the rule is content with each; yields every sample and every end as it comes.

    `watch` tells the state of the GPU's clocks; it is asked every 20 ms at most. Samples of entries that are
    ``watched`` are yielded after the answer that clears them. `between` is called before every turn of an
    entry: what is done there comes between a sample of one entry and one of another, never between the cold
    and the hot sample of one.

    Warm-ups come first: `warmups` discarded runs of each, fewer (but one) when they take `warmup_limit_s`.
    A launch with several cases is sampled one case per turn; what its rule judges is the sum over a full
    cycle of cases (:func:`rule_for_cases`). A series ends "converged", at the "time limit" or "sample limit"
    of `rule`, all of them at the "time limit" after so many `seconds`, with however few samples, "interrupted" when
    `should_stop()` turns true (both looked at before every turn), or "failed" after
    `max_invalid` dropped samples in a row or an exception of its launch. A failure ends that variant only and
    is in ``Ended.reason``; where `fatal(error)` holds (nothing on the device can go on) the exception is
    raised again after it, and what the others have so far is in the ``Taken`` events already yielded: hand
    them to ``Entry.taken`` to resume. From the third dropped sample in a row on, the loop rests 0.1 s before
    going on, so that a GPU at its power or thermal limit can recover. Samples that one bad answer voided
    count as one in a row.
    """
    rule = rule or StoppingRule()
    ends = timer() + seconds if seconds < math.inf else math.inf
    bits = np.random.PCG64(order_seed)
    rotation = [_Rotation(entry, rule) for entry in entries]
    probation = _Probation(watch, max_invalid, timer, pause)
    if len({r.entry.key for r in rotation}) < len(rotation):
        raise ValueError("two entries have the same key")

    for turn in rotation:
        for series in turn.owed():
            yield from turn.judge(series, max_invalid)
    for warm in (True, False):
        live = [turn for turn in rotation if turn.owed()]
        while live:
            for turn in shuffled(live, bits):
                if (stopped := should_stop()) or (ends < math.inf and timer() >= ends):
                    yield from probation.settle()
                    for other in rotation:
                        yield from other.end_all("interrupted" if stopped else "time limit")
                    return
                between()
                try:
                    if warm:
                        left = ends - timer() if ends < math.inf else math.inf
                        turn.warm_up(warmups, min(warmup_limit_s, left), timer)
                    else:
                        yield from _visit(turn, probation, timer)
                except _LaunchFailed as failure:
                    yield from probation.settle()
                    yield from turn.end_all("failed", _reason(failure.error))
                    if fatal(failure.error):
                        raise failure.error from None
            live = [] if warm else [turn for turn in rotation if turn.owed()]


def _visit(turn: _Rotation, probation: _Probation, timer: Callable[[], float]) -> Iterator[Event]:
    """One sample for each series that `turn` still owes."""
    launch, clock = turn.entry.launch, turn.entry.clock
    primed: int | None = None  # the case of this launch that ran last
    for series in turn.owed():
        probation.before(turn.entry)
        begin = timer()
        try:
            case = series.next_case()
            launch.select(case)
            if series.cache == "hot" and primed != case:
                clock.sample(launch, "hot")  # not kept: the caches held another variant's data
            sample = clock.sample(launch, series.cache)
        except Exception as error:
            raise _LaunchFailed(error) from error
        primed = case
        taken = Taken(turn.entry.key, series.cache, sample, timer() - begin, case)
        yield from probation.take(turn, series, taken)
