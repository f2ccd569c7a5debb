"""Tables of traversals: times and rates over several sources, and the levels of one of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from spgraph_bench.report.table import Group
from spgraph_bench.report.text import Column, clean, fit, milliseconds, percent, significant, times, to_text
from spgraph_bench.report.verdict import Timed, child_verdict
from spgraph_bench.results.cases import Traversal, compare_traversals
from spgraph_bench.results.record import Record
from spgraph_bench.units import quantity

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["TraversalGroup", "render_trace", "render_tuning", "shown_places"]

_EVENTS = (
    ("claims", "claims", "atomics by which one of several finders wins a vertex (atomicCAS, atomicOr)", 6),
    ("reservations", "reserved", "atomics that take places in a global queue (atomicAdd)", 6),
    ("global_atomics", "global atomics", "all atomics on global memory, arrivals at grid barriers too", 5),
    ("shared_atomics", "shared atomics", "atomics on a block's own shared memory", 9),
    ("barriers", "barriers", "threads' barriers, counted once per block", 2),
    ("kernel_launches", "launches", "kernels started by the host", 9),
)
"""Counters of a record, their column, what it counts, and how long it stays when the table gets narrow."""

_BAR = 24


def _count(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


class TraversalGroup(Group):
    """One table of records with sources."""

    def __init__(self, records: Sequence[Record], width: int, terminal: bool, cache: Literal["cold", "hot"]) -> None:
        super().__init__(records, width, terminal, cache)
        self.compared = [t for t in compare_traversals(records, cache) if t.record.status == "ok"]
        self.row_of = {id(row.record): row for row in self.rows}
        self.solved = next((r for r in records if r.cases), None)

    def _head(self) -> list[RenderableType]:
        head = super()._head()
        if self.solved is not None:
            head.append(self._line(_sources(self.solved)))
        return head

    def _options(self) -> list[str]:
        return []  # the head tells the sources

    def _mode(self, t: Traversal) -> str:
        return self._name(self.row_of[id(t.record)])

    def _levels(self, t: Traversal) -> str:
        most = max((case["levels"] for case in t.record.cases if "levels" in case), default=None)
        return _count(most)

    def _common(self, rows: Sequence[Traversal]) -> list[Column]:
        return [
            Column("levels", [self._levels(t) for t in rows], keep=5),
            Column("inspected", [_count(t.record.inspected) for t in rows], keep=6),
            Column("children", [_count((t.record.children or {}).get("launched")) for t in rows], keep=6),
        ]

    def _timed_table(self) -> RenderableType:
        rows = [t for t in self.compared if t.median is not None]

        def cells(of: Callable[[Traversal], str]) -> list[str]:
            return [of(t) for t in rows]

        ranks = [t.rank for t in rows]

        def rank(t: Traversal) -> str:
            return "?" if t.rank is None else f"{'=' if ranks.count(t.rank) > 1 else ''}{t.rank}"

        columns = [
            Column("#", cells(rank)),
            Column("mode", cells(self._mode), "left", fold=True),
            Column(f"{self.cache} ms", cells(lambda t: milliseconds(t.median))),
            Column("quartiles", cells(lambda t: f"{significant(t.q1)} {significant(t.q3)}"), keep=4),
            Column("GTEPS", cells(lambda t: significant(t.gteps))),
            Column("quartiles", cells(lambda t: f"{significant(t.gteps_q1)} {significant(t.gteps_q3)}"), keep=3),
            Column("+-", cells(lambda t: percent(t.cycle.half_width) if t.cycle else "?"), keep=2),
            *self._common(rows),
            Column("atomics", cells(lambda t: _count((t.record.counters or {}).get("global_atomics"))), keep=6),
            Column("best", cells(lambda t: times(t.to_best)), keep=8),
            Column("CPU", cells(lambda t: times(t.to_cpu)), keep=7),
            Column("!", cells(lambda t: self._signs(t)), "left"),
        ]
        return self._fit(columns, ["bold green" if t.rank == 1 else "" for t in rows])

    def _signs(self, t: Traversal) -> str:
        return self.marks(self.row_of[id(t.record)])

    def _untimed_table(self) -> list[RenderableType]:
        rows = [t for t in self.compared if t.median is None]
        columns = [
            Column("mode", [self._mode(t) for t in rows], "left", fold=True),
            Column("format", [clean(t.record.format) for t in rows], "left", keep=3),
            Column("check", ["ok" if t.record.check.get("ok") else "-" for t in rows], "left"),
            *self._common(rows),
            *(
                Column(name, [_count((t.record.counters or {}).get(key)) for t in rows], keep=keep)
                for key, name, _, keep in _EVENTS
            ),
        ]
        of_first = "edges inspected and events" if any(t.record.inspected is not None for t in rows) else "events"
        batch = any("sources" in case for t in rows for case in t.record.cases[:1])
        levels = "levels of all sources; " if any("levels" in case for t in rows for case in t.record.cases) else ""
        title = f"checked, not timed ({levels}{of_first} of the first{' batch' if batch else ''})"
        known = {key for t in rows for key in (t.record.counters or {})}
        meanings = [f"{name}: {what}" for key, name, what, _ in _EVENTS if key in known]
        if any(t.record.inspected is not None for t in rows):
            meanings.insert(0, "inspected: edges looked at")
        legend = [self._line("; ".join(meanings))] if meanings else []
        return [self._line(title, "bold"), self._fit(columns, [""] * len(rows)), *legend]

    def _child_verdict(self) -> str:
        def ends(t: Traversal) -> tuple[float | None, float | None]:
            count = max(1, len(t.record.cases))
            return (t.cycle.low / count, t.cycle.high / count) if t.cycle else (None, None)

        return child_verdict([Timed(self._mode(t), t.record, t.mean, *ends(t)) for t in self.compared if t.mean])

    def _verdict(self) -> str:
        lines = []
        if checked := next((t.record.check for t in self.compared if t.record.check), None):
            known, validated = checked.get("by_oracle", 0), checked.get("by_validator", 0)
            compared = checked.get("by_comparison", 0)  # records of before there were validators
            count = validated or known + compared
            how = [f"{validated:,} validated"] if validated else []
            how += [f"{known:,} compared with a plain search"] if known else []
            how += [f"{compared:,} between modes only"] if compared else []
            lines.append(f"checked from {quantity(count, 'source')}: {', '.join(how)}")
        most = max((len(t.record.cases) for t in self.compared), default=0)
        if fewer := [f"{self._mode(t)} {len(t.record.cases):,}" for t in self.compared if len(t.record.cases) < most]:
            lines.append(f"from fewer sources because slow: {', '.join(fewer)}")
        batches = [(t, sum(case.get("sources", 0) for case in t.record.cases)) for t in self.compared if t.mean]
        if each := [
            f"{self._mode(t)} {milliseconds(t.mean * len(t.record.cases) / total)}"
            for t, total in batches
            if total and t.mean
        ]:
            lines.append(f"ms for each source: {', '.join(each)}")
        if any(t.median is not None for t in self.compared):
            what = "batches" if batches and batches[0][1] else "sources"
            lines.append(
                f"ms: median over {what} of the median from each; GTEPS: harmonic mean over {what}; "
                "best and CPU: of the mean time"
            )
            if any(t.cycle is None and t.median is not None for t in self.compared):
                lines.append("?: fewer than 6 rounds through all sources, no interval (--time-limit)")
        ours = [t.record for t in self.compared if t.record.where == "gpu"]
        if len(ours) > 1 and not any("global_atomics" in (r.counters or {}) for r in ours):
            lines.append("atomics are not counted on a GPU (--device host counts them exactly)")
        if parts := [
            f"{self._mode(t)} {milliseconds(t.record.times['parents_ms'])}"
            for t in self.compared
            if "parents_ms" in t.record.times
        ]:
            lines.append(f"of which finding parents, ms: {', '.join(parts)}")
        return "; ".join(lines)


def _sources(record: Record) -> str:
    cases = record.cases
    edges = sorted({case["edges"] for case in cases})
    where = "of its component" if record.matrix.get("symmetry") != "general" else "it reaches"
    if len(cases) == 1 and "sources" not in cases[0]:
        c = cases[0]
        texts = [quantity(c["reached"], "vertex", "vertices")] if "reached" in c else []
        texts.append(f"{quantity(c['edges'], 'edge')} {where}")
        texts += [quantity(c["levels"], "level")] if "levels" in c else []
        return f"source {_source(c)}: {', '.join(texts)}"
    span = f"{edges[0]:,}" if len(edges) == 1 else f"{edges[0]:,} to {edges[-1]:,}"
    if "sources" in cases[0]:
        total, count = sum(case["sources"] for case in cases), len(cases)
        batches = "one batch" if count == 1 else f"{count:,} batches of up to {cases[0]['sources']}, one after another"
        which = f"source {_source(cases[0])}" if total == 1 else f"{total:,} sources (seed {record.seed})"
        return f"{which} in {batches}; edges of all searches of a batch: {span}"
    return f"{quantity(len(cases), 'source')} (seed {record.seed}), edges {where}: {span}"


def _source(case: Mapping[str, Any]) -> str:
    """The source as the input calls it."""
    return clean(str(case.get("source_id", case["source"])))


def _bar(value: float, most: float) -> str:
    """A bar on a logarithmic scale: one edge is a sliver, the largest level is full."""
    if value <= 0 or most <= 0:
        return ""
    return "#" * max(1, round(_BAR * math.log1p(value) / math.log1p(most)))


def shown_places(count: int, most: int = 40) -> list[int | None]:
    """Which of `count` rows to show: all of few, else the first and last ones with None for those between."""
    if count <= most:
        return list(range(count))
    return [*range(most // 2), None, *range(count - most // 2, count)]


_LEVEL_COLUMNS = (
    "vertices: of the frontier, found one level before; edges: their out-edges; inspected: edges that the level "
    "looked at; direction: push from the frontier, pull from unvisited vertices, or one block only"
)
_CHOOSING = {
    "auto": "frontiers of at most {small_vertices:,} vertices and {small_edges:,} edges are done by one block; pull "
    "where the frontier's edges grow and, times alpha {alpha:g}, are more than the edges that pulling would "
    "inspect, until it has fewer than 1 / {beta:g} of the vertices; else push",
    "one-block": "frontiers of at most {small_vertices:,} vertices and {small_edges:,} edges are done by one block; "
    "larger ones are pushed by the whole grid",
}
"""How a mode chooses its direction, with its tunables."""
_BUSIEST = "; pull looks at each vertex's busiest neighbour first (busiest=1), where inspected counts its list in order"


def _why(record: Record) -> str:
    """By what rule the mode chose the direction of each level, with the values it had."""
    p = record.params
    try:
        if record.variant == "direction":
            rules = {
                "edges": f"pull where the frontier's edges grow and, times alpha {p['alpha']:g}, are more than the "
                f"edges that pulling would inspect, until it has fewer than 1 / {p['beta']:g} of the vertices",
                "textbook": f"pull once the frontier's edges times alpha {p['alpha']:g} are more than the unexplored "
                f"ones, until it has fewer than 1 / {p['beta']:g} of the vertices",
                "plain": "pull while the frontier's vertices times the mean degree are more than the unvisited ones",
            }
            return f"{rules[str(p['rule'])]}; else push"
        if record.variant in _CHOOSING:
            return _CHOOSING[record.variant].format(**p) + (_BUSIEST if p.get("busiest") == 1 else "")
    except (KeyError, ValueError, TypeError):  # a record of another version
        return ""
    done = {level["how"] for level in record.trace}
    return f"{record.variant} does every level alike ({next(iter(done))})" if len(done) == 1 else ""


def _followed(record: Record, most: int) -> list[str]:
    """A line for each level of a small graph: its vertices, and who found whom."""
    levels, found_by = (record.result.get(key) for key in ("level_vertices", "found_by"))
    if not isinstance(levels, list) or not isinstance(found_by, list):
        return []
    lines = []
    for k in shown_places(len(levels), most):
        if k is None:
            lines.append("...")
            continue
        if not k:
            lines.append(f"level 0: {', '.join(clean(str(v)) for v in levels[0])}, the source")
            continue
        finders: dict[str, list[str]] = {}
        for vertex, finder in zip(levels[k], found_by[k], strict=True):
            finders.setdefault(clean(str(finder)), []).append(clean(str(vertex)))
        parts = [f"{finder} found {', '.join(vertices)}" for finder, vertices in finders.items()]
        how = record.trace[k - 1]["how"] if k <= len(record.trace) else ""
        lines.append(f"level {k}: {'; '.join(parts)}" + (f" ({how})" if how else ""))
    return lines


def render_trace(record: Record, width: int, terminal: bool, others: Sequence[Record] = ()) -> str:
    """The levels of the first source as `record`'s mode did them, with a chart of their edges.

    With `others` (traces of further modes from the same source), also which of all would have been fastest in
    each level, and the regret: the time of `record`'s levels over that of the fastest of each. Those that
    were wrong or failed take no part, and are listed with their reason.
    """
    from rich.text import Text

    trace = record.trace
    case = record.cases[0]
    if not trace:
        why = f"{record.variant} does not report its levels"
        return to_text([Text(why)], width, terminal)
    rows = shown_places(len(trace))
    lost = [r for r in others if r.status in ("wrong", "failed")]
    rivals = [r for r in (record, *others) if r not in lost and len(r.trace) == len(trace)]
    fastest = [_fastest(rivals, k) for k in range(len(trace))] if len(rivals) > 1 else []
    columns = _level_columns(trace, rows, fastest)
    parts: list[RenderableType] = [
        Text(f"levels of {record.variant} from vertex {_source(case)}", style="bold"),
        fit(columns, [""] * len(rows), width, terminal),
    ]
    if None in rows:
        hidden = len(trace) - len(rows) + 1
        parts.append(Text(f"...: {hidden:,} levels between are hidden (--json has them)"))
    parts.append(Text(_LEVEL_COLUMNS))
    if why := _why(record):
        parts.append(Text(f"why: {why}"))
    if lines := _followed(record, 40):
        parts += [Text(""), Text("who found whom", style="bold"), *map(Text, lines)]
        note = "if several vertices could have found one, the smallest number is shown"
        if record.params.get("parents") == 1:
            note = "from the kernel's parents"
        parts.append(Text(note))
    parts += map(Text, _totals(trace, fastest, len(rivals) - 1))
    if dark := [clean(r.variant) for r in others if not r.trace and r not in lost]:
        parts.append(Text(f"cannot be watched level by level: {', '.join(dark)}"))
    parts += [Text(f"{r.status}: {clean(r.variant)}: {clean(r.reason)}", style="red") for r in lost]
    return to_text(parts, width, terminal)


def _level_columns(
    trace: Sequence[Mapping[str, Any]], rows: Sequence[int | None], fastest: Sequence[Any]
) -> list[Column]:
    """A row for each of the levels `rows`, None for those between that are hidden; `fastest`: by level, or empty."""
    most = max(level["edges"] for level in trace)

    def cells(of: Callable[[Mapping[str, Any]], str]) -> list[str]:
        return ["..." if k is None else of(trace[k]) for k in rows]

    us = lambda level: "-" if level["ms"] is None else significant(level["ms"] * 1e3)  # noqa: E731
    return [
        Column("level", ["..." if k is None else f"{k:,}" for k in rows]),
        Column("vertices", cells(lambda x: f"{x['vertices']:,}")),
        Column("edges", cells(lambda x: f"{x['edges']:,}")),
        Column("inspected", cells(lambda x: f"{x['inspected']:,}"), keep=7),
        Column("direction", cells(lambda x: x["how"]), "left"),
        Column("us", cells(us)),
        Column(
            "fastest",
            ["..." if k is None else _fastest_text(fastest[k]) for k in rows] if fastest else [""] * len(rows),
            "left",
        ),
        Column("edges of the frontier (log)", cells(lambda x: _bar(x["edges"], most)), "left", fold=True),
    ]


def _totals(trace: Sequence[Mapping[str, Any]], fastest: Sequence[Any], others: int) -> list[str]:
    """Lines on the time of all levels, and what it would be with the `fastest` mode in each; `others`: how many modes
    were watched beside this one."""
    lines = []
    total = sum(level["ms"] or 0.0 for level in trace)
    if total:
        looked = sum(level["inspected"] for level in trace)
        lines.append(f"in all {significant(total)} ms (watched; not the measured time), {looked:,} edges")
    ideal = sum(mode[1] for mode in fastest if mode)
    if total and ideal:
        regret = total / ideal - 1
        lines.append(f"taking the fastest mode in each level: {significant(ideal)} ms; regret {percent(regret)}")
    if fastest and not total:
        lines.append(f"{others} other modes watched; which is fastest shows on a GPU (--json has them)")
    return lines


def _fastest(records: Sequence[Record], level: int) -> tuple[str, float] | None:
    timed = [(r.variant, r.trace[level]["ms"]) for r in records if r.trace[level]["ms"] is not None]
    return min(timed, key=lambda pair: pair[1], default=None)


def _fastest_text(fastest: tuple[str, float] | None) -> str:
    return f"{fastest[0]} {significant(fastest[1] * 1e3)}" if fastest else "-"


def _short(name: str) -> str:
    """A tunable's name as the head of a narrow column."""
    return name.removeprefix("small_").removeprefix("shared_").removesuffix("_from")


def render_tuning(
    name: str,
    tried: Sequence[tuple[Mapping[str, Any], float | None]],
    width: int,
    terminal: bool,
    default: Mapping[str, Any],
) -> str:
    """The regret curve of a sweep: each setting's time over the best one's, as a table with bars.

    Settings name the same tunables, a column each; the `default` one and the best are marked.
    """
    from rich.text import Text

    best = min((ms for _, ms in tried if ms), default=None)
    regret = [ms / best - 1 if ms and best else None for _, ms in tried]
    most = max((r for r in regret if r), default=1.0)
    first = regret.index(0) if best else None  # of equal ones the one that is kept
    marks = [
        ", ".join(word for word, holds in (("default", p == default), ("best", k == first)) if holds)
        for k, (p, _) in enumerate(tried)
    ]
    swept = list(tried[0][0])

    def shown(tunable: str) -> list[str]:
        return [f"{p[tunable]:g}" if isinstance(p[tunable], float) else str(p[tunable]) for p, _ in tried]

    columns = [
        *(Column(_short(tunable), shown(tunable)) for tunable in swept),
        Column("ms", [milliseconds(ms) for _, ms in tried]),
        Column("regret", [percent(r) for r in regret]),
        Column("", marks, "left", fold=True),
        Column("", ["" if not r else "#" * max(1, round(_BAR / 2 * r / most)) for r in regret], "left", keep=5),
    ]
    styles = ["bold green" if k == first else "" for k in range(len(tried))]
    long = [tunable for tunable in swept if _short(tunable) != tunable]
    parts: list[RenderableType] = [Text(f"{name}: settings tried", style="bold"), fit(columns, styles, width, terminal)]
    if long:
        parts.append(Text(f"{', '.join(map(_short, long))}: {', '.join(long)}"))
    return to_text(parts, width, terminal)
