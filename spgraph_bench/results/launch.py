"""What follows from records of the problem `launch`, whose cases are numbers and sizes of tasks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from spgraph_bench.results.interval import Interval, median_interval, median_of_sorted
from spgraph_bench.results.record import Record

__all__ = ["Cost", "break_even_at", "costs", "crossing"]


@dataclass(frozen=True)
class Cost:
    """What one mechanism takes, by case: (tasks, items of each)."""

    us: Mapping[tuple[int, int], float] = field(default_factory=dict)
    """Median time of a run over its tasks, in microseconds."""
    run: Mapping[tuple[int, int], Interval] = field(default_factory=dict)
    """95 % interval of the median time of a run, in ms; none below 6 samples."""

    @property
    def last(self) -> float | None:
        """Of the largest number of tasks without items."""
        empty = [case for case in self.us if case[1] == 0]
        return self.us[max(empty)] if empty else None


def costs(record: Record, cache: Literal["cold", "hot"] = "cold") -> Cost:
    """The costs that `record` tells; none where it was not timed."""
    samples = record.sampled(cache)
    if record.status != "ok" or samples is None:
        return Cost()
    times: dict[int, list[float]] = {}
    for i, ms in enumerate(samples.times_ms):
        times.setdefault(samples.cases[i] if samples.cases else 0, []).append(ms)
    us, run = {}, {}
    for number, series in sorted(times.items()):
        case = int(record.cases[number]["tasks"]), int(record.cases[number]["items"])
        rising = sorted(series)
        us[case] = median_of_sorted(rising) * 1e3 / case[0]
        if (span := median_interval(rising, is_sorted=True)) is not None:
            run[case] = span
    return Cost(us, run)


def crossing(spans: Sequence[tuple[Interval, Interval]], nothing: float) -> tuple[float, float, float] | None:
    """Where launching becomes the faster way, in us of work of a task, with an interval; None if nowhere.

    Parameters
    ----------
    spans : for rising sizes of the task, the 95 % intervals (ms) of the time of doing it where it was found,
        and of launching a child for it.
    nothing : time (ms) of the former for a task of no items: what is not work.

    Between two sizes both times are taken to rise straight. The interval is from where the one way is taken
    at its upper and the other at its lower end to where it is the other way round; where that is beyond the
    sizes tried, to the last of them.
    """

    def meets(gaps: Sequence[float]) -> float | None:
        """The work, interpolated, at which the gap becomes positive for good."""
        last = max((k for k, gap in enumerate(gaps) if gap <= 0), default=None)
        if last is None or last + 1 >= len(gaps):
            return None
        share = -gaps[last] / (gaps[last + 1] - gaps[last])
        here, there = spans[last][0].median, spans[last + 1][0].median
        return (here + share * (there - here) - nothing) * 1e3

    middle = meets([one.median - other.median for one, other in spans])
    if middle is None:
        return None
    low = meets([one.high - other.low for one, other in spans])
    high = meets([one.low - other.high for one, other in spans])
    first, last = ((spans[k][0].median - nothing) * 1e3 for k in (0, -1))
    return middle, first if low is None else low, last if high is None else high


def break_even_at(measured: Sequence[Mapping[str, Any]], children: int) -> dict[str, float] | None:
    """The break-even (``us``, ``low_us``, ``high_us``) for so many children, interpolated between the numbers
    that were measured; beyond them, that of the nearest. None where nothing was measured."""
    known = sorted(measured, key=lambda each: int(each["children"]))
    if not known:
        return None
    keys = ("us", "low_us", "high_us")
    below = [each for each in known if each["children"] <= children]
    above = [each for each in known if each["children"] > children]
    if not below or not above:
        nearest = above[0] if above else below[-1]
        return {key: float(nearest[key]) for key in keys}
    one, other = below[-1], above[0]
    share = math.log(children / one["children"]) / math.log(other["children"] / one["children"])
    return {key: math.exp((1 - share) * math.log(one[key]) + share * math.log(other[key])) for key in keys}
