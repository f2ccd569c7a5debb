"""What follows from records of the problem `launch`, whose cases are numbers and sizes of tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from spgraph_bench.results.interval import Interval, median_interval, median_of_sorted
from spgraph_bench.results.record import Record

__all__ = ["Cost", "costs"]


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
