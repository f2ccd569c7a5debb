"""Two sets of records side by side: as a table, and as markdown for a pull request."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from spgraph_bench.report.text import Column, clean, fit, milliseconds, to_text
from spgraph_bench.results.comparison import Cell, Comparison, Verdict
from spgraph_bench.results.record import Record
from spgraph_bench.units import quantity

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["comparison_json", "comparison_markdown", "comparison_table", "conclusion"]

_STYLE: dict[str, str] = {
    "slower": "red",
    "broken": "bold red",
    "lost": "yellow",
    "faster": "green",
    "repaired": "green",
    "unsure": "yellow",
}
_ORDER: tuple[Verdict, ...] = ("broken", "slower", "lost", "unsure", "faster", "repaired", "same", "not timed")
_COLUMNS = ("variant", "matrix", "dtype", "base ms", "new ms", "change", "95 % interval", "verdict")


def _change(cell: Cell) -> str:
    return "-" if cell.times is None else f"{(cell.times.value - 1) * 100:+.1f} %"


def _interval(cell: Cell) -> str:
    if cell.times is None:
        return "-"
    low, high = ((end - 1) * 100 for end in (cell.times.low, cell.times.high))
    return f"{low:+.1f} to {high:+.1f} %" if math.isfinite(high) else f"{low:+.1f} % and up"


def _sorted(comparison: Comparison) -> list[Cell]:
    """Worst first."""
    return sorted(
        comparison.cells,
        key=lambda c: (_ORDER.index(c.verdict), -abs(math.log(c.times.value)) if c.times and c.times.value > 0 else 0),
    )


def _name(record: Record) -> str:
    order = "" if record.reorder == "none" else f", {record.reorder}"
    problem = "" if record.problem == "spmv" else f"{record.problem} "
    return clean(f"{problem}{record.variant}{order}")


def _cells(cell: Cell) -> tuple[str, ...]:
    reason = f": {cell.new.reason}" if cell.verdict in ("broken", "lost") else ""
    return (
        _name(cell.new),
        clean(cell.new.matrix.get("name", "-")),
        cell.new.dtype,
        milliseconds(cell.base_ms),
        milliseconds(cell.new_ms),
        _change(cell),
        _interval(cell),
        clean(cell.verdict + reason)[:120],
    )


def conclusion(comparison: Comparison) -> str:
    """One sentence: "2 slower, 1 unsure, 37 same of 40 cells; the threshold is 3 %"."""
    counts = ", ".join(f"{n} {v}" for v in _ORDER if (n := comparison.count(v)))
    cells = quantity(len(comparison.cells), "cell")
    text = f"{counts or 'nothing compared'} of {cells}; threshold {comparison.threshold:.1%}"
    for side, records in (("base", comparison.only_base), ("new", comparison.only_new)):
        if records:
            text += f"; {len(records)} only in {side}"
    return text


def _notes(comparison: Comparison) -> list[str]:
    notes = [f"{_name(cell.new)}: {clean(note)}" for cell in comparison.cells for note in cell.notes]
    for side, records in (("base", comparison.only_base), ("new", comparison.only_new)):
        notes += [f"only in {side}: {_name(r)} on {clean(r.matrix.get('name', '-'))}, {r.dtype}" for r in records]
    return list(dict.fromkeys(notes))


_MOST_NOTES = 20


def comparison_table(comparison: Comparison, width: int, terminal: bool) -> str:
    """A table, worst cells first, its conclusion last. Change: time of the new over the base, less 1."""
    from rich.text import Text

    cells = _sorted(comparison)
    rows = [_cells(cell) for cell in cells]
    parts: list[RenderableType] = []
    if rows:
        keep = (9, 5, 4, 6, 6, 9, 8, 9)
        columns = [
            Column(title, [row[i] for row in rows], "left" if i in (0, 1, 2, 7) else "right", keep[i], fold=i == 0)
            for i, title in enumerate(_COLUMNS)
        ]
        parts.append(fit(columns, [_STYLE.get(cell.verdict, "") for cell in cells], width, terminal))
        parts.append("")
    notes = _notes(comparison)
    parts += [Text(note) for note in notes[:_MOST_NOTES]]
    if len(notes) > _MOST_NOTES:
        parts.append(Text(f"... and {len(notes) - _MOST_NOTES} more notes (--format json has all)"))
    parts.append(Text(conclusion(comparison)))
    return to_text(parts, width, terminal)


def _markdown_row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def comparison_markdown(comparison: Comparison) -> str:
    """For a pull request's comment: what changed in a table, the rest folded away."""
    changed = [c for c in _sorted(comparison) if c.verdict not in ("same", "not timed")]
    rest = [c for c in _sorted(comparison) if c.verdict in ("same", "not timed")]
    head = [_markdown_row(_COLUMNS), _markdown_row(["---"] * 3 + ["---:"] * 4 + ["---"])]
    lines = ["### spgraph compare", "", conclusion(comparison) + ".", ""]
    if changed:
        lines += [*head, *(_markdown_row(_cells(c)) for c in changed), ""]
    if rest:
        lines += [f"<details><summary>{len(rest)} cells without a change</summary>", "", *head]
        lines += [*(_markdown_row(_cells(c)) for c in rest), "", "</details>", ""]
    if notes := _notes(comparison):
        lines += ["<details><summary>Notes</summary>", "", *(f"- {note}" for note in notes), "", "</details>", ""]
    return "\n".join(lines)


def comparison_json(comparison: Comparison) -> dict[str, Any]:
    """Plain data: the verdicts with their figures, cells of one side, what was refused."""

    def cell_of(record: Record) -> dict[str, Any]:
        plain = record.to_json()
        names = ("problem", "variant", "format", "where", "dtype", "offsets", "reorder", "params", "options", "status")
        return {name: plain[name] for name in names} | {
            "matrix": plain["matrix"].get("name"),
            "sha256": plain["matrix"].get("sha256"),
        }

    return {
        "threshold": comparison.threshold,
        "conclusion": conclusion(comparison),
        "refused": comparison.refused,
        "cells": [
            {
                **cell_of(c.new),
                "verdict": c.verdict,
                "base_ms": c.base_ms,
                "new_ms": c.new_ms,
                "ratio": c.times.value if c.times else None,
                "ratio_low": c.times.low if c.times else None,
                "ratio_high": c.times.high if c.times and math.isfinite(c.times.high) else None,
                "reason": c.new.reason,
                "notes": list(c.notes),
            }
            for c in _sorted(comparison)
        ],
        "only_base": [cell_of(r) for r in comparison.only_base],
        "only_new": [cell_of(r) for r in comparison.only_new],
    }
