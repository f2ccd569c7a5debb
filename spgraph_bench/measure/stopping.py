"""When to stop sampling: when the median has settled, or the time is up."""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal

from spgraph_bench.results.interval import SMALLEST, Interval, median_interval

__all__ = ["Precision", "StopReason", "StoppingRule"]

StopReason = Literal["converged", "time limit", "sample limit"]


@dataclass(frozen=True)
class StoppingRule:
    """Stop when the 95 % interval of the median is within `precision` of it, or at a limit.

    "Within 1 %" means that neither end of the interval is farther from the median than 1 % of the median:
    ``max(high - median, median - low) <= 0.01 * median``. It is asked for the first time at `min_samples`
    samples and then each time their number has grown by 5 %: fewer looks, so that a lucky one is rarer, at a
    cost of at most 5 % more samples than needed.

    Looking more than once costs coverage: an interval that was chosen because it was narrow covers the true
    median a little less often than its nominal 95 % (92-95 % in the simulations of tests/test_stopping.py).
    """

    precision: float = 0.01
    min_samples: int = 20
    time_limit_s: float = 5.0
    """Seconds of a variant's own sampling, all its cache states together (eviction and invalid samples
    included, warm-ups and other variants' turns not)."""
    floor_samples: int = SMALLEST
    """Taken even when the time is up, so that there is an interval at all: a kernel of 6 s stops after 6."""
    max_samples: int = 500
    """Where times scatter by up to 10 % about one mode, 500 are enough. A series that has not converged by
    then has two modes of about equal weight, and thousands would not help: on an H200, a memset and a kernel
    of 6 us, cold, had their median known to 3 % after 4,000 samples."""

    def __post_init__(self) -> None:
        if not self.precision > 0 or math.isnan(self.time_limit_s) or self.time_limit_s < 0:
            raise ValueError("precision must be positive and the time limit not negative")
        if not 1 <= self.floor_samples <= self.min_samples <= self.max_samples:
            raise ValueError("need 1 <= floor_samples <= min_samples <= max_samples")

    @classmethod
    def asked_for(cls, time_limit_s: float, min_samples: int | None) -> StoppingRule:
        """The default rule, or one that takes at least `min_samples` samples, even when the time is up."""
        if min_samples is None:
            return cls(time_limit_s=time_limit_s)
        most = max(cls.max_samples, min_samples)
        return cls(time_limit_s=time_limit_s, min_samples=min_samples, floor_samples=min_samples, max_samples=most)

    def to_json(self) -> dict[str, Any]:
        """What a record keeps of the rule (an unlimited time as None)."""
        fields = asdict(self)
        return {k: None if v == math.inf else v for k, v in fields.items()}


class Precision:
    """Applies a rule to samples as they come. Each sample costs one insertion into a sorted list."""

    def __init__(self, rule: StoppingRule, values: Iterable[float] = ()) -> None:
        self.rule = rule
        self._rising = sorted(values)
        self._next_look = rule.min_samples

    def __len__(self) -> int:
        return len(self._rising)

    def add(self, value: float) -> None:
        """Count a sample, in ms."""
        insort(self._rising, value)

    def interval(self) -> Interval | None:
        """The median of the samples so far and its 95 % interval; None below 6 samples."""
        return median_interval(self._rising, is_sorted=True)

    def verdict(self, spent_s: float) -> StopReason | None:
        """Why to stop now, after `spent_s` seconds of sampling, or None to go on."""
        n = len(self._rising)
        if n >= self._next_look:
            self._next_look = max(n + 1, math.ceil(n * 1.05))
            interval = self.interval()
            if interval is not None and interval.half_width <= self.rule.precision:
                return "converged"
        if n >= self.rule.max_samples:
            return "sample limit"
        if spent_s >= self.rule.time_limit_s and n >= self.rule.floor_samples:
            return "time limit"
        return None
