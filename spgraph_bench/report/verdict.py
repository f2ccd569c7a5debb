"""The last line of a table with launches from the device: whether they pay here, and what to use instead."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spgraph_bench.report.text import significant, times
from spgraph_bench.results.launch import break_even_at
from spgraph_bench.results.record import Record

__all__ = ["Timed", "child_verdict"]


@dataclass(frozen=True)
class Timed:
    """One row: its name, its time and the interval of that, in ms."""

    name: str
    record: Record
    ms: float
    low: float | None = None
    high: float | None = None
    children: int | None = None
    """Child grids of one run; None: those that the record tells."""

    @property
    def launches(self) -> int:
        """Child grids of one run."""
        launched = int((self.record.children or {}).get("launched", 0))
        return launched if self.children is None else self.children

    @property
    def chain(self) -> bool:
        """Whether its launches are links of a chain (tail launches), of which one waits at a time."""
        counts = self.record.children or {}
        if "bound" not in counts:  # a record from before that was kept
            return self.record.variant.partition("-")[0] == "tail"
        return int(counts["bound"]) in (1, 2)

    def surely_faster(self, other: Timed) -> bool:
        """Whether the intervals are disjoint; medians decide where there is none."""
        if self.high is None or other.low is None:
            return self.ms < other.ms
        return self.high < other.low


def child_verdict(rows: Sequence[Timed]) -> str:
    """ "child launches pay from N us of work per child on this GPU; here: no, use flattened (3.1x)".

    "" where no row that was timed launched children, or nothing else ran on the GPU. N is the break-even that
    the run measured, for as many children as the best such row launched.
    """
    ours = [row for row in rows if row.record.where == "gpu" and row.ms > 0]
    with_children = [row for row in ours if row.launches]
    without = [row for row in ours if not row.launches]
    if not with_children:
        return ""
    best = min(with_children, key=lambda row: (row.chain, row.ms))
    parts = []
    point = None if best.chain else break_even_at(best.record.break_even, best.launches)
    if point is not None:
        span = f"{significant(point['low_us'])} to {significant(point['high_us'])}"
        parts.append(
            f"child launches pay from {significant(point['us'])} us of work per child on this GPU ({span}, "
            f"with {best.launches:,} in a run)"
        )
    elif best.chain:
        each = best.ms * 1e3 / best.launches
        parts.append(f"{best.launches:,} tail launches, one after another, {significant(each)} us each with their work")
    else:
        parts.append("from how much work per child launches pay was not measured")
    if without:
        rival = min(without, key=lambda row: row.ms)
        if rival.surely_faster(best):
            parts.append(f"here: no, use {rival.name} ({times(best.ms / rival.ms)})")
        elif best.surely_faster(rival):
            parts.append(f"here: yes, {best.name} ({times(rival.ms / best.ms)} against {rival.name})")
        else:
            parts.append(f"here: no difference between {best.name} and {rival.name} that this run could tell")
    return "; ".join(parts)
