"""Tables of what launches cost: microseconds per launch, by how many there are and by what each has to do."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from spgraph_bench.report.table import Group
from spgraph_bench.report.text import Column, clean, fit, significant
from spgraph_bench.results.launch import Cost, costs
from spgraph_bench.results.record import Record

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["LaunchGroup"]

_BAR = 32


class LaunchGroup(Group):
    """One table of the problem `launch`."""

    def _costs(self) -> list[tuple[str, Cost]]:
        """Mechanisms that were timed, the cheapest by the largest number of launches first."""
        found = []
        for row in self.rows:
            cost = costs(row.record, self.cache)
            if cost.us:
                found.append((self._name(row), cost))
        return sorted(found, key=lambda pair: pair[1].last or math.inf)

    def _timed_table(self) -> RenderableType:
        from rich.console import Group as Stack
        from rich.text import Text

        found = self._costs()
        counts = sorted({tasks for _, cost in found for tasks, items in cost.us if items == 0})
        sizes = sorted({(tasks, items) for _, cost in found for tasks, items in cost.us if items})
        parts: list[RenderableType] = [
            Text("us per launch, by launches in a run", style="bold"),
            self._grid_of(found, [(n, 0) for n in counts], [f"{n:,}" for n in counts]),
        ]
        if sizes:
            tasks = sizes[0][0]
            parts += [
                "",
                Text(f"us per launch of {tasks:,}, by items of the task it is for", style="bold"),
                self._grid_of(found, sizes, [f"{items:,}" for _, items in sizes]),
            ]
        if counts and (bars := _bars(found, counts[-1])):
            parts += ["", Text(f"us per launch of {counts[-1]:,} (logarithmic)", style="bold"), *bars]
        return Stack(*parts)

    def _grid_of(
        self, found: Sequence[tuple[str, Cost]], cases: Sequence[tuple[int, int]], titles: Sequence[str]
    ) -> RenderableType:
        columns = [Column("mechanism", [name for name, _ in found], "left", fold=True)]
        for number, (case, title) in enumerate(zip(cases, titles, strict=True)):
            cells = [significant(cost.us.get(case)) for _, cost in found]
            columns.append(Column(title, cells, keep=min(8, 2 + number)))
        table = fit(columns, [""] * len(found), self.width, self.terminal)
        self.dropped += [c.title for c in columns if c.dropped]
        return table

    def _options(self) -> list[str]:
        return []  # the head tells the cases

    def _verdict(self) -> str:
        return "empty launches: tasks without items; every count and every sum was exact"


def _bars(found: Sequence[tuple[str, Cost]], count: int) -> list[RenderableType]:
    """A bar for each mechanism, on a logarithmic scale from the cheapest on."""
    from rich.text import Text

    shown = [(name, cost.us[count, 0]) for name, cost in found if cost.us.get((count, 0), 0) > 0]
    if len(shown) < 2:
        return []
    least, most = min(us for _, us in shown), max(us for _, us in shown)
    width = max(len(name) for name, _ in shown)
    span = math.log(most / least) or 1.0
    return [
        Text(clean(f"{name:<{width}}  {'#' * (1 + round((_BAR - 1) * math.log(us / least) / span))} "
                   f"{significant(us)}"))
        for name, us in shown
    ]  # fmt: skip


def is_launch(records: Sequence[Record]) -> bool:
    """Whether `records` are of the problem `launch`."""
    return records[0].problem == "launch"
