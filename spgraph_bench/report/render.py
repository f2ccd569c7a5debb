"""The tables of a list of records, as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from spgraph_bench.report.launch import LaunchGroup, is_launch
from spgraph_bench.report.table import WIDEST, Group
from spgraph_bench.report.text import to_text
from spgraph_bench.report.traversal import TraversalGroup
from spgraph_bench.results.record import Record

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["render"]


def render(
    records: Sequence[Record],
    *,
    width: int = WIDEST,
    terminal: bool = False,
    cache: Literal["cold", "hot"] = "cold",
) -> str:
    """The tables of `records`, one for each problem, matrix, dtype, device and run; ranked by `cache`."""
    width = max(40, min(width, WIDEST))
    groups: dict[tuple[Any, ...], list[Record]] = {}
    for r in records:
        key = (r.run, r.problem, r.matrix.get("sha256"), r.device.get("uuid"), r.device.get("name"))
        groups.setdefault((*key, r.dtype, r.offsets, tuple(r.options.items())), []).append(r)
    if not groups:
        return "no records\n"
    parts: list[RenderableType] = []
    before: tuple[Any, ...] = ()
    for key, group in groups.items():
        if parts:
            parts.append("")
        traversals = any(r.cases for r in group)
        kind = LaunchGroup if is_launch(group) else TraversalGroup if traversals else Group
        parts += kind(group, width, terminal, cache).parts(with_head=key[:5] != before)
        before = key[:5]
    return to_text(parts, width, terminal)
