"""What follows from records: medians, intervals, rates, ranks, ratios, break-even. Derived, never stored."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from spgraph_bench.results.interval import Interval, median_interval, median_of_sorted
from spgraph_bench.results.record import Record, Samples

__all__ = ["FLOORS", "SETUP", "Ratio", "Row", "Timing", "break_even", "compare", "ratio", "timing"]

FLOORS = 3
"""A row under this many times the empty kernel's time is marked: the clock's own offset is part of it."""

SETUP = ("reorder", "convert", "upload", "preprocess", "matrix_compile")
"""Steps of ``Record.times`` that are paid for each matrix; compiling what serves any matrix is not."""


@dataclass(frozen=True)
class Timing:
    """Statistics of one series of samples, in ms."""

    median: float
    interval: Interval | None
    """95 % interval of the median; None below 6 samples."""
    q1: float
    q3: float
    fastest: float
    samples: Samples

    @property
    def count(self) -> int:
        """Number of samples."""
        return len(self.samples.times_ms)


def timing(samples: Samples | None) -> Timing | None:
    """Statistics of `samples`; None where there are none. Quartiles are medians of the halves (Tukey)."""
    if samples is None or not samples.times_ms:
        return None
    rising = sorted(samples.times_ms)
    half = (len(rising) + 1) // 2
    return Timing(
        median_of_sorted(rising),
        median_interval(rising, is_sorted=True),
        median_of_sorted(rising[:half]),
        median_of_sorted(rising[-half:]),
        rising[0],
        samples,
    )


@dataclass(frozen=True)
class Ratio:
    """A ratio of two medians and an interval for it.

    ``low`` divides the lower end above by the upper end below and ``high`` the other way round: it holds the
    true ratio whenever both intervals hold their medians, at least 90 % of the time (Bonferroni).
    """

    value: float
    low: float
    high: float


def ratio(a: Interval, b: Interval) -> Ratio:
    """a / b."""

    def over(x: float, y: float) -> float:
        return x / y if y > 0 else math.inf

    return Ratio(over(a.median, b.median), over(a.low, b.high), over(a.high, b.low))


@dataclass(frozen=True)
class Row:
    """One record with all that a table shows of it. `main` is the series it is ranked by."""

    record: Record
    main: Timing | None
    cold: Timing | None
    hot: Timing | None
    rate: float | None
    """In ``record.rate_unit``, which counts 1e9 or 1e6 operations per second, as its prefix says."""
    gbs: float | None
    """Effective bandwidth: compulsory bytes over the median, decimal GB/s."""
    ceiling_share: float | None
    """`gbs` over the device's measured ceiling; None for CPU rows and where no ceiling was measured."""
    cache_resident: Literal["", "working set below L2", "over 100 % of the ceiling"]
    near_floor: bool
    rank: int | None = None
    """1 + the number of rows that are clearly faster; None when not timed or below 6 samples."""
    tied: bool = False
    """Another row's interval meets this one's: the two cannot be distinguished, even if their ranks differ."""
    to_best: Ratio | None = None
    """This row's time over that of the best row."""
    to_library: Ratio | None = None
    """This row's time over that of the best row of a library; of one on the GPU, if there is any."""
    pays_after: float | None = None
    """See :func:`break_even`."""

    @property
    def setup_ms(self) -> float:
        """Setup cost, once per matrix: all of :data:`SETUP`."""
        return sum(self.record.times.get(f"{step}_ms", 0.0) for step in SETUP)


def _row(record: Record, cache: str) -> Row:
    cold, hot = timing(record.sampled("cold")), timing(record.sampled("hot"))
    main = (cold if cache == "cold" else hot) if record.status == "ok" else None
    if main is None or main.median <= 0:
        return Row(record, main, cold, hot, None, None, None, "", False)
    seconds = main.median / 1e3
    work = record.bytes.get("compulsory", 0)
    scale = 1e6 if record.rate_unit.startswith("M") else 1e9
    rate = record.operations / seconds / scale if record.operations else None
    gbs = work / seconds / 1e9 if work else None
    on_gpu = record.where == "gpu"
    ceiling = record.ceiling if on_gpu else None
    share = gbs / ceiling.gbs if gbs is not None and ceiling is not None and ceiling.gbs > 0 else None
    l2 = record.device.get("l2_bytes", 0) if on_gpu or record.device.get("kind") == "host" else 0
    resident: Literal["", "working set below L2", "over 100 % of the ceiling"] = ""
    if share is not None and share > 1:
        resident = "over 100 % of the ceiling"
    elif work and work < l2:
        resident = "working set below L2"
    near = ceiling is not None and main.median < FLOORS * ceiling.floor_ms
    return Row(record, main, cold, hot, rate, gbs, share, resident, near)


def compare(records: Sequence[Record], cache: Literal["cold", "hot"] = "cold") -> list[Row]:
    """Rows of one table (one problem with its options, matrix, dtype and device), ranked by `cache`.

    Two rows differ only if their intervals are disjoint; a rank counts the rows that are clearly faster, so
    rows that cannot be distinguished from the best are all first. Order: ranked rows by rank, then median; timed rows
    without an interval; rows that ran but were not timed; wrong, failed and skipped ones, as recorded.
    """
    rows = [_row(record, cache) for record in records]
    timed = [(r, r.main.interval) for r in rows if r.main is not None and r.main.interval is not None]
    timed.sort(key=lambda pair: pair[1].median)
    spans = [span for _, span in timed]
    best = spans[0] if spans else None
    libraries = [(r, span) for r, span in timed if r.record.library]
    library = next((span for _, span in sorted(libraries, key=lambda pair: pair[0].record.where != "gpu")), None)
    plain = [r for r, _ in timed if r.record.where == "gpu" and r.record.format == "csr"]
    csr = next((r for r in plain if r.record.reorder == "none"), plain[0] if plain else None)
    out = []
    for row in rows:
        span = row.main.interval if row.main is not None else None
        if span is not None:
            row = replace(
                row,
                rank=1 + sum(other.below(span) for other in spans),
                tied=sum(other.overlaps(span) for other in spans) > 1,  # itself is one
                to_best=ratio(span, best) if best else None,
                to_library=ratio(span, library) if library else None,
                pays_after=break_even(row, csr) if csr else None,
            )
        out.append(row)
    states = ("ok", "wrong", "failed", "skipped")
    return sorted(
        out,
        key=lambda r: (
            states.index(r.record.status),
            r.main is None,
            r.rank or math.inf,
            r.main.median if r.main is not None else 0.0,
        ),
    )


def break_even(row: Row, csr: Row) -> float | None:
    """After how many runs the format and order of `row` have paid for themselves against `csr`.

    That is the best CSR row in the matrix's own order, or the best one if all were reordered.

    ``inf``: never (not clearly faster); 0: clearly faster, with no higher setup cost; otherwise the
    least whole N with ``setup + N t <= setup_csr + N t_csr``, with medians. None for CSR rows in the same
    order (they need no conversion), CPU rows and rows without an interval.
    """
    same = row.record.format == "csr" and row.record.reorder == csr.record.reorder
    if same or row.record.where != "gpu" or row.main is None or csr.main is None:
        return None
    span, base = row.main.interval, csr.main.interval
    if span is None or base is None:
        return None
    if not span.below(base):
        return math.inf
    extra = row.setup_ms - csr.setup_ms
    # The last factor keeps 11 / (1 - 0.9) = 110.00000000000001 from costing a run.
    return 0 if extra <= 0 else math.ceil(extra / (base.median - span.median) * (1 - 1e-12))
