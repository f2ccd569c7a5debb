"""The distribution-free confidence interval of a median, from order statistics.

Of n independent samples of any one distribution, the number that fall below its median is binomial(n, 1/2)
(for a continuous distribution; with ties the interval only covers more). So the interval between the l-th
smallest and the l-th largest sample holds the median with probability 1 - 2 P(B <= l - 1). Nothing is assumed
about the shape: no mean, no variance, no normality.

Source: H. A. David and H. N. Nagaraja, *Order Statistics*, 3rd ed., 2003, section 7.1; W. J. Conover,
*Practical Nonparametric Statistics*, section 3.2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

__all__ = ["SMALLEST", "Interval", "interval_ranks", "median_interval", "median_of_sorted"]

SMALLEST = 6
"""Fewest samples with a 95 % interval: smallest to largest of 6 covers 96.9 %, of 5 only 93.8 %."""


@dataclass(frozen=True)
class Interval:
    """A median and its confidence interval, in the unit of the samples."""

    low: float
    median: float
    high: float
    coverage: float
    """Exact probability of covering the median, at least the confidence asked for."""

    @property
    def half_width(self) -> float:
        """The larger distance from the median to an end, as a share of the median."""
        reach = max(self.high - self.median, self.median - self.low)
        if self.median > 0:
            return reach / self.median
        return 0.0 if reach == 0 else math.inf

    def overlaps(self, other: Interval) -> bool:
        """Whether the two intervals have a point in common; ends belong to them."""
        return self.low <= other.high and other.low <= self.high

    def below(self, other: Interval) -> bool:
        """Surely smaller: the intervals are disjoint and this one is the lower."""
        return self.high < other.low


@lru_cache(maxsize=4096)
def interval_ranks(n: int, confidence: float = 0.95) -> tuple[int, int, float] | None:
    """1-based ranks (l, n + 1 - l) of the interval's ends and its exact coverage; None when n is too small.

    l is the largest rank with P(B <= l - 1) <= (1 - confidence) / 2 for B binomial(n, 1/2), summed in whole
    numbers, so that no rounding enters at any n.
    """
    if not 0 < confidence < 1:
        raise ValueError("a confidence is between 0 and 1")
    total = 1 << n
    bound = int((1 - confidence) / 2 * (1 << 53)) * total >> 53
    term, below, rank = 1, 0, 0  # term: n over rank; below: the sum of those before it
    while below + term <= bound:
        below += term
        term = term * (n - rank) // (rank + 1)
        rank += 1
    if rank == 0:
        return None
    return rank, n + 1 - rank, 1 - 2 * ((below << 64) // total) / (1 << 64)


def median_of_sorted(rising: Sequence[float]) -> float:
    """Median of a rising, non-empty sequence."""
    n = len(rising)
    return rising[n // 2] if n % 2 else (rising[n // 2 - 1] + rising[n // 2]) / 2


def median_interval(values: Sequence[float], confidence: float = 0.95, *, is_sorted: bool = False) -> Interval | None:
    """Median of `values` with its interval; None for fewer samples than `confidence` needs (6 for 95 %)."""
    ranks = interval_ranks(len(values), confidence)
    if ranks is None:
        return None
    rising = values if is_sorted else sorted(values)
    low, high, coverage = ranks
    return Interval(rising[low - 1], median_of_sorted(rising), rising[high - 1], coverage)
