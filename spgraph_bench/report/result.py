"""What one mode found out and how long it took: `spgraph bfs`, `spgraph pagerank`, ..."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from spgraph_bench.report.table import Group
from spgraph_bench.report.text import Column, clean, fit, to_text
from spgraph_bench.report.traversal_table import TraversalGroup, shown_places
from spgraph_bench.results.record import Record

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["render_result"]

_BAR = 24
_MOST_STEPS = 60


def render_result(record: Record, width: int, terminal: bool) -> str:
    """The record's table, then the table of its result and its steps, where it has them."""
    kind = TraversalGroup if record.cases else Group
    parts = kind([record], width, terminal, "cold").parts(with_head=True)
    table = record.result.get("table")
    if isinstance(table, Mapping) and table.get("rows"):
        parts += ["", *_table(table, width, terminal)]
    if record.problem != "bfs" and record.trace:  # its levels have a chart of their own
        parts += ["", *_steps(record.trace, width, terminal)]
    return to_text(parts, width, terminal)


def _cell(value: Any) -> str:
    """Numbers with the digits a reader wants: of floats six, of vertices all."""
    if value is None:
        return "-"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return f"{value:.6g}" if isinstance(value, float) else clean(value)


def _label(value: Any) -> str:
    """A vertex as the input calls it: no commas, so that it can be copied."""
    return "-" if value is None else clean(str(value))


def _title(text: object) -> RenderableType:
    from rich.text import Text

    return Text(clean(text), style="bold")


def _table(table: Mapping[str, Any], width: int, terminal: bool) -> list[RenderableType]:
    rows = table["rows"]
    columns = [
        Column(
            clean(name),
            [_label(row[i]) if name.endswith("vertex") else _cell(row[i]) for row in rows],
            fold=i == 0,
            justify="right",
        )
        for i, name in enumerate(table["columns"])
    ]
    return [_title(table.get("title", "")), fit(columns, [""] * len(rows), width, terminal)]


def _steps(steps: Sequence[Mapping[str, Any]], width: int, terminal: bool) -> list[RenderableType]:
    """A line for each step: what it tells of itself, and a bar of the last number on a logarithmic scale."""
    shown = shown_places(len(steps), _MOST_STEPS)
    # No ms where none is taken.
    names = [name for name in steps[0] if any(step.get(name) is not None for step in steps)]

    def cells(name: str) -> list[str]:
        return ["..." if k is None else _cell(steps[k].get(name)) for k in shown]

    columns = [Column("step", ["..." if k is None else f"{k + 1:,}" for k in shown])]
    columns += [Column(clean(name), cells(name)) for name in names]
    last = names[-1]
    bars = _bars([None if k is None else steps[k].get(last) for k in shown])
    columns.append(Column(f"{last} (log)", bars, "left", fold=True))
    parts: list[RenderableType] = [_title("steps"), fit(columns, [""] * len(shown), width, terminal)]
    if None in shown:
        parts.append(f"...: {len(steps) - len(shown) + 1:,} steps between are hidden (--json has them)")
    return parts


def _bars(values: Sequence[Any]) -> list[str]:
    """The least positive value is a sliver, the largest is full."""
    logs = [math.log(v) if isinstance(v, int | float) and v > 0 and math.isfinite(v) else None for v in values]
    known = [x for x in logs if x is not None]
    if not known:
        return ["" for _ in values]
    low, span = min(known), max(known) - min(known) or 1.0
    return ["" if x is None else "#" * max(1, round(_BAR * (x - low) / span)) for x in logs]
