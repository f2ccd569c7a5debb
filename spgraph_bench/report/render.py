"""The tables of a list of records, as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from spgraph_bench.report.launch import LaunchGroup, is_launch
from spgraph_bench.report.table import WIDEST, Group
from spgraph_bench.report.text import to_text
from spgraph_bench.report.traversal_table import TraversalGroup
from spgraph_bench.results.record import Record
from spgraph_bench.results.tidy import table_key, tables

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["render"]


def render(
    records: Sequence[Record], *, width: int = WIDEST, terminal: bool = False, cache: Literal["cold", "hot"] = "cold"
) -> str:
    """The tables of `records`, one for each problem, matrix, dtype, device and run; ranked by `cache`."""
    width = max(40, min(width, WIDEST))
    groups = tables(records)
    if not groups:
        return "no records\n"
    parts: list[RenderableType] = []
    before: tuple[Any, ...] = ()
    for group in groups:
        if parts:
            parts.append("")
        traversals = any(r.cases for r in group)
        kind = LaunchGroup if is_launch(group) else TraversalGroup if traversals else Group
        parts += kind(group, width, terminal, cache).parts(with_head=table_key(group[0])[:5] != before)
        before = table_key(group[0])[:5]
    return to_text(parts, width, terminal)
