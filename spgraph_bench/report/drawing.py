"""What a picture shows, apart from how it is drawn: panels of lines, dots and bars, from arrays and records.

``picture.py`` draws one with matplotlib, ``braille.py`` in a terminal.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.results.record import Record
from spgraph_bench.results.tidy import Cache, paired, tables, tidy

__all__ = [
    "Bars",
    "Dots",
    "Drawing",
    "Line",
    "Panel",
    "boxes",
    "curves",
    "levels",
    "points_and_boxes",
    "roofline",
    "times",
]

Floats = npt.NDArray[np.float64]

_MOST_CURVES = 36
_MOST_DOTS = 20_000
"""Points of a quadtree's picture; more only make a larger file."""


@dataclass(frozen=True)
class Line:
    """Connected points, float64 ``[n]`` each; a NaN breaks the line."""

    x: Floats
    y: Floats
    label: str = ""
    marks: bool = False


@dataclass(frozen=True)
class Dots:
    """Single points."""

    x: Floats
    y: Floats
    label: str = ""


@dataclass(frozen=True)
class Bars:
    """Horizontal bars, the first on top; ``low`` and ``high`` are the ends of each one's interval (NaN: none)."""

    names: tuple[str, ...]
    values: Floats
    low: Floats | None = None
    high: Floats | None = None
    label: str = ""


@dataclass(frozen=True)
class Panel:
    """One pair of axes."""

    title: str
    x: str = ""
    y: str = ""
    parts: tuple[Line | Dots | Bars, ...] = ()
    log_x: bool = False
    log_y: bool = False
    equal: bool = False
    """Both axes have the same scale, and no ticks: a map, not a chart."""


@dataclass(frozen=True)
class Drawing:
    """A picture."""

    title: str
    panels: tuple[Panel, ...]
    notes: tuple[str, ...] = field(default=())
    """What the reader has to know: sentences below."""


# ---- maps ----------------------------------------------------------------------------------------------------


def curves(points: Floats, count: npt.NDArray[np.integer[Any]], title: str) -> Panel:
    """Curves with their points, each scaled into a cell of its own: the first 36 of them.

    Parameters
    ----------
    points : of all curves one after another, float64 ``[sum(count), 2]``.
    count : points of each curve, ``[curves]``.
    """
    across = max(1, math.ceil(math.sqrt(min(len(count), _MOST_CURVES))))
    ends = np.cumsum(count[:_MOST_CURVES].astype(np.int64))
    path, single = [], []
    for number, part in enumerate(np.split(points[: int(ends[-1])], ends[:-1]) if len(ends) else ()):
        low, span = part.min(axis=0), max(float(np.ptp(part, axis=0).max()), 1e-12)
        centred = (part - low - np.ptp(part, axis=0) / 2) / span * 0.8
        placed = centred + np.array([number % across + 0.5, across - number // across - 0.5])
        single.append(placed)
        path += [placed, np.full((1, 2), np.nan)]
    shown = f", the first {len(single)}" if len(count) > len(single) else ""
    whole, dots = (np.concatenate(parts) if parts else np.zeros((0, 2)) for parts in (path, single))
    return Panel(
        f"{title}{shown}, each in a cell of its own",
        parts=(Line(whole[:, 0], whole[:, 1]), Dots(dots[:, 0], dots[:, 1])),
        equal=True,
    )


def boxes(corner: Floats, side: Floats) -> Line:
    """Outlines of squares: `corner` (lower left) ``[n, 2]`` and `side` ``[n]``."""
    around = np.array([[0, 0], [1, 0], [1, 1], [0, 1], [0, 0], [np.nan, np.nan]])
    path = (corner[:, None, :] + side[:, None, None] * around).reshape(-1, 2)
    return Line(path[:, 0], path[:, 1])


def points_and_boxes(points: Floats | None, corner: Floats, side: Floats, title: str) -> Panel:
    """Squares, and of `points` ``[n, 2]`` (None: there are none) at most 20,000, evenly drawn."""
    parts: tuple[Line | Dots, ...] = (boxes(corner, side),)
    if points is not None:
        step = max(1, -(-len(points) // _MOST_DOTS))
        parts = (*parts, Dots(points[::step, 0], points[::step, 1]))
    return Panel(title, parts=parts, equal=True)


# ---- charts --------------------------------------------------------------------------------------------------


def _name(row: Mapping[str, Any]) -> str:
    return str(row["variant"]) + ("" if row["reorder"] == "none" else f" by {row['reorder']}")


def _column(rows: Sequence[Mapping[str, Any]], name: str) -> Floats:
    return np.array([np.nan if row[name] is None else float(row[name]) for row in rows])


def times(records: Sequence[Record], cache: Cache = "cold") -> list[Panel]:
    """Bars of median times with their 95 % intervals, a panel for each table; of kernels that were emulated, and so
    have no time, what was counted."""
    panels: list[Panel] = []
    for records_of in tables(records):
        rows = tidy(records_of, cache)
        first = rows[0]
        where = f"{first['problem']} on {first['matrix']}, {first['dtype']}"
        timed = sorted((row for row in rows if row["median_ms"]), key=lambda row: float(row["median_ms"]))
        if timed:
            medians = _column(timed, "median_ms")
            bars = Bars(
                tuple(_name(row) for row in timed), medians, _column(timed, "low_ms"), _column(timed, "high_ms")
            )
            spread = bool(medians.max() > 30 * medians.min())
            panels.append(Panel(where, f"{cache} ms, with 95 % interval", parts=(bars,), log_x=spread))
        panels += _counted(records_of, where)
    return panels


def _counted(records: Sequence[Record], where: str) -> list[Panel]:
    """Counts of the right cells that have no time."""
    emulated = [r for r in records if r.status == "ok" and r.counters is not None and not r.samples]
    if not emulated:
        return []
    panels = []
    for what in ("bytes stored", "global atomics", "launches"):
        counts = [(r.variant, float(_count(r, what))) for r in emulated]
        if len({count for _, count in counts}) > 1:
            panels.append(_bars(f"{where}: {what}", what, counts))
    return panels


def _count(record: Record, what: str) -> int:
    if what == "bytes stored":
        return record.bytes.get("stored", 0)
    return (record.counters or {}).get("global_atomics" if what == "global atomics" else "kernel_launches", 0)


def _bars(title: str, x: str, values: Sequence[tuple[str, float]]) -> Panel:
    ordered = sorted(values, key=lambda v: v[1])
    lengths = np.array([v for _, v in ordered])
    positive = lengths[lengths > 0]
    spread = len(positive) == len(lengths) and bool(positive.max() > 30 * positive.min())
    return Panel(title, x, parts=(Bars(tuple(n for n, _ in ordered), lengths),), log_x=spread)


def roofline(records: Sequence[Record], cache: Cache = "cold") -> Panel | None:
    """Rates over operations per compulsory byte below the measured bandwidth (Williams, Waterman, Patterson, CACM 52,
    2009); None where no kernel was timed or no bandwidth measured."""
    points: list[tuple[float, float, str]] = []
    roofs: list[float] = []
    unit = ""
    for record, row in paired(records, cache):
        compulsory = record.bytes.get("compulsory")
        if not (row["rate"] and row["where"] == "gpu" and record.operations and compulsory):
            continue
        points.append((record.operations / compulsory, float(row["rate"]), "library" if record.library else "spgraph"))
        unit = record.rate_unit
        if record.ceiling is not None:
            roofs.append(record.ceiling.gbs)
    if not points or not roofs:
        return None
    gbs = max(roofs) * (1e3 if unit.startswith("M") else 1.0)
    ends = np.array([min(f[0] for f in points) / 1.5, max(f[0] for f in points) * 1.5])
    parts: list[Line | Dots] = [Line(ends, ends * gbs, f"{max(roofs):,.0f} GB/s measured")]
    for kind in ("spgraph", "library"):
        mine = [f for f in points if f[2] == kind]
        if mine:
            parts.append(Dots(np.array([f[0] for f in mine]), np.array([f[1] for f in mine]), kind))
    return Panel("roofline", "operations per compulsory byte", unit, tuple(parts), log_x=True, log_y=True)


_MOST_LINES = 8


def levels(records: Sequence[Record]) -> list[Panel]:
    """Of traced searches the vertices and edges of each frontier, and where kernels were timed the time of each level,
    a line for each of the eight fastest modes, and the level reached over time."""
    traced = [r for r in records if r.trace]
    if not traced:
        return []
    longest = max(traced, key=lambda r: len(r.trace))
    number = np.arange(len(longest.trace), dtype=np.float64)

    def column(record: Record, name: str) -> Floats:
        values = [level.get(name) for level in record.trace]
        return np.array([np.nan if v is None or v <= 0 else float(v) for v in values])

    named = (("vertices", "vertices in the frontier"), ("edges", "edges of the frontier"), ("inspected", "looked at"))
    parts = [Line(number, column(longest, key), label, True) for key, label in named]
    parts = [line for line in parts if np.isfinite(line.y).any()]
    panels = [Panel(f"the frontier, {longest.variant}", "level", "number", tuple(parts), log_y=True)]
    timed = [r for r in traced if np.isfinite(column(r, "ms")).any()]
    if timed:
        timed.sort(key=lambda r: float(np.nansum(column(r, "ms"))))
        timed = timed[:_MOST_LINES]
        each = tuple(Line(np.arange(len(r.trace), dtype=np.float64), column(r, "ms"), r.variant, True) for r in timed)
        panels.append(Panel("time of each level", "level", "ms", each, log_y=True))
        over = tuple(
            Line(np.nancumsum(column(r, "ms")), np.arange(1, len(r.trace) + 1, dtype=np.float64), r.variant, True)
            for r in timed
        )
        panels.append(Panel("levels over time", "ms", "levels finished", over))
    return panels
