"""What follows from records of traversals, which were timed from several sources in turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from spgraph_bench.results.interval import Interval, median_interval, median_of_sorted
from spgraph_bench.results.record import Record, Samples

__all__ = ["Traversal", "case_medians", "compare_traversals", "cycles", "traversal"]


def case_medians(samples: Samples, cases: int) -> list[float]:
    """Median time of each case in ms; cases without a sample are omitted."""
    each: list[list[float]] = [[] for _ in range(cases)]
    for i, ms in enumerate(samples.times_ms):
        each[samples.cases[i] if samples.cases else 0].append(ms)
    return [median_of_sorted(sorted(times)) for times in each if times]


def cycles(samples: Samples, cases: int) -> list[float]:
    """Times of full cycles through all cases, in ms."""
    whole = len(samples.times_ms) // cases * cases
    return [sum(samples.times_ms[i : i + cases]) for i in range(0, whole, cases)]


@dataclass(frozen=True)
class Traversal:
    """One record with all that a table of traversals shows of it."""

    record: Record
    median: float | None = None
    """Median over sources of the median time from each, in ms; None where nothing was timed."""
    q1: float | None = None
    q3: float | None = None
    """Quartiles over sources, in ms (medians of the halves)."""
    gteps: float | None = None
    """Harmonic mean over sources of edges / median time, 1e9 edges/s; sources of no edges omitted."""
    gteps_q1: float | None = None
    gteps_q3: float | None = None
    cycle: Interval | None = None
    """95 % interval of the median time of a full cycle through all sources; None below 6 cycles."""
    rank: int | None = None
    """1 + the number of rows whose cycles are clearly faster."""
    to_best: float | None = None
    """Mean time over that of the fastest row."""
    to_cpu: float | None = None
    """Mean time of the fastest CPU row over this one's: how many times faster this is."""
    mean: float | None = None
    """Mean over sources of the medians, ms: what ratios are of."""


def _quartiles(rising: Sequence[float]) -> tuple[float, float, float]:
    half = (len(rising) + 1) // 2
    return (
        median_of_sorted(list(rising[:half])),
        median_of_sorted(list(rising)),
        median_of_sorted(list(rising[-half:])),
    )


def traversal(record: Record, cache: Literal["cold", "hot"]) -> Traversal:
    """Statistics of one record, without ranks and ratios."""
    samples = record.sampled(cache)
    count = max(1, len(record.cases))
    if record.status != "ok" or samples is None or len(samples.times_ms) < count:
        return Traversal(record)
    medians = case_medians(samples, count)
    q1, median, q3 = _quartiles(sorted(medians))
    out = Traversal(record, median, q1, q3, cycle=median_interval(cycles(samples, count)), mean=sum(medians) / count)
    rates = sorted(
        case["edges"] / ms / 1e6  # launches have tasks, not edges
        for case, ms in zip(record.cases, medians, strict=True)
        if case.get("edges") and ms > 0
    )
    if not rates:
        return out
    low, _, high = _quartiles(rates)
    return replace(out, gteps=len(rates) / sum(1 / rate for rate in rates), gteps_q1=low, gteps_q3=high)


def compare_traversals(records: Sequence[Record], cache: Literal["cold", "hot"] = "cold") -> list[Traversal]:
    """Rows of one table, the fastest first; then those not timed; then wrong, failed and skipped ones.

    A rank counts the rows whose 95 % intervals (of the time for all sources) are wholly below.
    """
    rows = [traversal(r, cache) for r in records]
    timed = [r for r in rows if r.mean is not None]
    best = min((r.mean for r in timed if r.mean), default=None)
    cpu = min((r.mean for r in timed if r.mean and r.record.where == "cpu"), default=None)
    spans = [r.cycle for r in timed if r.cycle is not None]
    out = []
    for row in rows:
        if row.mean:
            span = row.cycle
            row = replace(
                row,
                to_best=row.mean / best if best else None,
                to_cpu=cpu / row.mean if cpu else None,
                rank=1 + sum(other.below(span) for other in spans) if span else None,
            )
        out.append(row)
    states = ("ok", "wrong", "failed", "skipped")
    return sorted(
        out, key=lambda r: (states.index(r.record.status), r.mean is None, r.mean if r.mean is not None else 0.0)
    )
