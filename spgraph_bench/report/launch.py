"""Tables of what launches cost: microseconds per launch, by how many there are and by what each has to do."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from spgraph_bench.report.table import Group
from spgraph_bench.report.text import Column, clean, fit, significant
from spgraph_bench.report.verdict import Timed, child_verdict
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
        named = []
        for row in self.rows:
            cost = costs(row.record, self.cache)
            if cost.us:
                named.append((self._name(row), cost))
        return sorted(named, key=lambda pair: pair[1].last or math.inf)

    def _timed_table(self) -> RenderableType:
        from rich.console import Group as Stack
        from rich.text import Text

        costs = self._costs()
        counts = sorted({tasks for _, cost in costs for tasks, items in cost.us if items == 0})
        sizes = sorted({(tasks, items) for _, cost in costs for tasks, items in cost.us if items})
        parts: list[RenderableType] = [
            Text("us per launch, by launches in a run", style="bold"),
            self._grid_of(costs, [(n, 0) for n in counts], [f"{n:,}" for n in counts]),
        ]
        if sizes:
            tasks = sizes[0][0]
            parts += [
                "",
                Text(f"us per launch of {tasks:,}, by items of the task it is for", style="bold"),
                self._grid_of(costs, sizes, [f"{items:,}" for _, items in sizes]),
            ]
        if counts and (bars := _bars(costs, counts[-1])):
            parts += ["", Text(f"us per launch of {counts[-1]:,} (logarithmic)", style="bold"), *bars]
        return Stack(*parts, *self._break_even())

    def _grid_of(
        self, costs: Sequence[tuple[str, Cost]], cases: Sequence[tuple[int, int]], titles: Sequence[str]
    ) -> RenderableType:
        columns = [Column("mechanism", [name for name, _ in costs], "left", fold=True)]
        for number, (case, title) in enumerate(zip(cases, titles, strict=True)):
            cells = [significant(cost.us.get(case)) for _, cost in costs]
            columns.append(Column(title, cells, keep=min(8, 2 + number)))
        table = fit(columns, [""] * len(costs), self.width, self.terminal)
        self.dropped += [c.title for c in columns if c.dropped]
        return table

    def _options(self) -> list[str]:
        return []  # the header gives the cases

    def _verdict(self) -> str:
        if not (self.timed or self.untimed):
            return ""
        failed = any(row.record.status in ("wrong", "failed") for row in self.lost)
        return ("of the others " if failed else "") + "every count and every sum was exact"

    def _legend(self) -> list[str]:
        """Which figures are not known well; signs are not used."""
        vague = [
            self._name(row)
            for row in self.timed
            if (samples := row.record.sampled(self.cache)) is not None and samples.stopped != "converged"
        ]
        if not vague:
            return []
        return [f"stopped by --time-limit; not all medians known within 1 %: {', '.join(vague)}"]

    def _break_even(self) -> list[RenderableType]:
        """From how much work per child launches pay, as a table with bars."""
        from rich.text import Text

        measured = next((r.record.break_even for r in self.rows if r.record.break_even), ())
        if not measured:
            return []
        columns = [
            Column("children at a time", [f"{each['children']:,}" for each in measured]),
            Column("break-even us", [significant(each["us"]) for each in measured]),
            Column("95 % interval", [f"{significant(e['low_us'])} {significant(e['high_us'])}" for e in measured]),
            Column("us per empty child", [significant(each["child_us"]) for each in measured], keep=7),
            Column("logarithmic", _log_bars([each["us"] for each in measured]), "left", fold=True),
        ]
        return [
            "",
            Text("break-even work of a task (one thread): with more work, launching a child is faster", style="bold"),
            fit(columns, [""] * len(measured), self.width, self.terminal),
        ]

    def _child_verdict(self) -> str:
        """For the largest tasks with work, as many as there are."""
        costs = self._costs()
        largest = max((case for _, cost in costs for case in cost.us if case[1]), default=None)
        if largest is None:
            return ""
        rows = []
        by_name = {self._name(row): row.record for row in self.rows}
        for name, cost in costs:
            if largest in cost.us:
                ms, span = cost.us[largest] * largest[0] / 1e3, cost.run.get(largest)
                low, high = (span.low, span.high) if span else (None, None)
                children = largest[0] if by_name[name].children is not None else 0
                rows.append(Timed(name, by_name[name], ms, low, high, children))
        verdict = child_verdict(rows)
        return verdict and f'{verdict}; "here" is {largest[0]:,} tasks of {largest[1]:,} items'


def _log_bars(values: Sequence[float]) -> list[str]:
    """Bars from the least positive of `values` on."""
    least, most = min(v for v in values if v > 0), max(values)
    span = math.log(most / least) or 1.0
    return ["#" * (1 + round((_BAR - 1) * math.log(v / least) / span)) if v > 0 else "" for v in values]


def _bars(costs: Sequence[tuple[str, Cost]], count: int) -> list[RenderableType]:
    """A bar for each mechanism, on a logarithmic scale from the cheapest on."""
    from rich.text import Text

    shown = [(name, cost.us[count, 0]) for name, cost in costs if cost.us.get((count, 0), 0) > 0]
    if len(shown) < 2:
        return []
    width = max(len(name) for name, _ in shown)
    bars = _log_bars([us for _, us in shown])
    return [
        Text(clean(f"{name:<{width}}  {bar} {significant(us)}")) for (name, us), bar in zip(shown, bars, strict=True)
    ]


def is_launch(records: Sequence[Record]) -> bool:
    """Whether `records` are of the problem `launch`."""
    return records[0].problem == "launch"
