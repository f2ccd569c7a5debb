"""Ranks, intervals and the signs behind a row of a table, and what the signs mean."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from spgraph_bench.report.text import percent, significant, unique
from spgraph_bench.results.statistics import FLOORS, Row

__all__ = ["legend_of", "marks_of", "precision_text", "rank_text"]


def rank_text(row: Row) -> str:
    """Its rank; "=2" where another row is tied with it, "?" where it has none."""
    if row.rank is None:
        return "?"
    return f"={row.rank}" if row.tied else str(row.rank)


def precision_text(row: Row) -> str:
    """The half-width of its interval in percent of the median, "?" where it has none."""
    span = row.main.interval if row.main else None
    return percent(span.half_width) if span else "?"


def _unstable(row: Row) -> bool:
    return row.main is not None and row.main.samples.stopped != "converged"


def _ungated(row: Row) -> bool:
    return row.main is not None and row.main.samples.clock == "cuda-events" and not row.main.samples.gated


def _dropped(row: Row) -> bool:
    return row.main is not None and bool(row.main.samples.dropped)


_MARKS: tuple[tuple[str, Callable[[Row], bool]], ...] = (
    ("f", lambda row: row.near_floor),
    ("t", _unstable),
    ("u", _ungated),
    ("d", _dropped),
    ("m", lambda row: row.record.for_matrix),
)


def marks_of(row: Row) -> str:
    """The signs of a row; :func:`legend_of` explains those that occur."""
    return "".join(letter for letter, holds in _MARKS if holds(row))


def legend_of(rows: Sequence[Row]) -> list[str]:
    """What the signs in `rows` mean; only those that occur."""
    lines = []
    if any(r.tied for r in rows):
        lines.append(
            "=  tied: its 95 % interval overlaps that of another row; rank is 1 + the rows that are clearly faster"
        )
    if any(r.main is not None and r.main.interval is None for r in rows):
        lines.append("?  fewer than 6 samples: no interval, no rank")
    if whys := unique(r.cache_resident for r in rows if r.cache_resident):
        lines.append(f"cache  cache-resident ({'; '.join(whys)}): its GB/s is not memory bandwidth")
    if any(r.near_floor for r in rows):
        floor = next(r.record.ceiling.floor_ms for r in rows if r.near_floor and r.record.ceiling)
        lines.append(f"f  under {FLOORS} times the empty kernel ({significant(floor * 1e3)} us): mostly launch latency")
    stops = unique(r.main.samples.stopped for r in rows if r.main is not None and _unstable(r))
    if stops:
        lines.append(f"t  stopped early; median uncertain ({', '.join(stops)})")
    if any(map(_ungated, rows)):
        lines.append("u  not gated: the time includes the host's launch")
    lost: dict[str, int] = {}
    for row in filter(_dropped, rows):
        for why, count in row.main.samples.dropped.items() if row.main else ():
            lost[why] = lost.get(why, 0) + count
    if lost:
        lines.append(f"d  samples dropped: {', '.join(f'{count:,} {why}' for why, count in lost.items())}")
    return lines
