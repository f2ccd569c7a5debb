"""The HTML report: one file that needs no network.

Tables are plain HTML that a few lines of script sort; Plotly draws the charts.
Its Content-Security-Policy forbids the page to load anything. Names and messages, which come from files, are escaped.
"""

from __future__ import annotations

import html
import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from spgraph_bench.report import charts
from spgraph_bench.report.export import SHOWN, TEXTS, table_title
from spgraph_bench.report.summary import by_problem, conclusion, failures, inputs_word, summary
from spgraph_bench.report.text import clean
from spgraph_bench.results.profiles import profile
from spgraph_bench.results.record import Record
from spgraph_bench.results.sweeps import Sweep, sweeps
from spgraph_bench.results.tidy import Cache, latest, tables, tidy
from spgraph_bench.units import human_bytes

__all__ = ["html_bytes", "tables_html"]

_POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
_SORTED_BY = {
    "#": "rank",
    "ms": "median_ms",
    "95 % interval": "low_ms",
    "rate": "rate",
    "GB/s": "gbs",
    "ceiling": "ceiling_share",
    "best": "to_best",
    "library": "to_library",
    "setup ms": "setup_ms",
    "pays after": "pays_after",
}
"""Column -> the figure that it is sorted by; texts sort by themselves."""
_HINTS = {
    "#": "1 + the number of variants that are clearly faster; =: tied with another",
    "ms": "median time",
    "95 % interval": "of the median, in ms",
    "rate": "operations a second",
    "GB/s": "compulsory bytes over the median",
    "ceiling": "share of the measured bandwidth",
    "best": "time over that of the fastest",
    "library": "time over that of the fastest library",
    "setup ms": "setup cost, once for each matrix",
    "pays after": "runs until setup is paid back against the best CSR variant",
}


def _esc(value: object) -> str:
    return html.escape(clean(value))


class _Page:
    """The page while it is put together: figures are numbered as they come."""

    def __init__(self, cache: Cache) -> None:
        self.cache = cache
        self.figures: list[str] = []
        self.parts: list[str] = []

    def chart(self, title: str, about: str, figure: str | None) -> None:
        """A heading, a line that says how to read it, and the chart; nothing without a figure."""
        if figure is None:
            return
        height = json.loads(figure)["layout"]["height"]  # kept free, so that nothing moves when it is drawn
        self.parts.append(
            f'<div class="block"><h3>{_esc(title)}</h3><p class="about">{_esc(about)}</p>'
            f'<div class="chart" data-figure="{len(self.figures)}" style="min-height: {height}px"></div></div>'
        )
        self.figures.append(figure)

    def table(self, rows: Sequence[Mapping[str, Any]], *, sortable: bool = True) -> None:
        timed = [r for r in rows if r["median_ms"] is not None]
        if not timed:
            return
        shown: dict[str, Callable[[dict[str, Any]], str]] = {
            t: show for t, show in SHOWN.items() if t in TEXTS or any(show(dict(r)) not in ("", "-") for r in timed)
        }
        unit = next((r["rate_unit"] for r in timed if r["rate_unit"]), "rate")

        def css(title: str) -> str:
            return ' class="text"' if title in TEXTS else ""

        def name(title: str) -> str:
            text = _esc(unit if title == "rate" else title)
            return f'<button type="button">{text}</button>' if sortable else text

        head = "".join(f'<th scope="col"{css(t)} title="{_esc(_HINTS.get(t, ""))}">{name(t)}</th>' for t in shown)
        lines = []
        for row in timed:
            cells = []
            for title, show in shown.items():
                key = _SORTED_BY.get(title)
                value = f' data-v="{_sort_value(row[key])}"' if key else ""
                cells.append(f"<td{css(title)}{value}>{_esc(show(dict(row)))}</td>")
            first = ' class="first"' if row["rank"] == 1 else ""
            lines.append(f"<tr{first}>{''.join(cells)}</tr>")
        self.parts.append(
            f'<div class="scroll"><table{" class=sortable" if sortable else ""}><thead><tr>{head}</tr></thead>'
            f"<tbody>{''.join(lines)}</tbody></table></div>"
        )

    def rest(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """What was not timed and why, folded away; open where it is wrong or failed."""
        rest = [r for r in rows if r["median_ms"] is None]
        if not rest:
            return
        bad = any(r["status"] in ("wrong", "failed") for r in rest)
        items = "".join(
            f'<tr><td class="text">{_esc(r["variant"])}</td><td class="text">'
            f"{_esc('checked, not timed' if r['status'] == 'ok' else r['status'])}</td>"
            f'<td class="text reason">{_esc(r["reason"] or "")}</td></tr>'
            for r in rest
        )
        self.parts.append(
            f"<details{' open' if bad else ''}><summary>{len(rest)} not timed</summary>"
            f'<div class="scroll"><table>{items}</table></div></details>'
        )

    def result(self, number: int, title: str, table: Sequence[Record]) -> None:
        """The section of one table."""
        rows = tidy(table, self.cache)
        timed = [r for r in rows if r["median_ms"] is not None]
        self.parts.append(f'<section><h2 id="t{number}">{_esc(title)}</h2><p>{_esc(conclusion(rows))}</p>')
        if options := ", ".join(f"{name} {value}" for name, value in table[0].given_options.items()):
            self.parts.append(f'<p class="about">{_esc(options)}</p>')
        notes = dict.fromkeys(note for r in table for note in r.notes)
        self.parts += [f'<p class="about">{_esc(note)}</p>' for note in notes]
        if len(timed) > 1:
            about = f"Median of {self.cache} runs, with its 95 % interval; the shorter the faster."
            self.chart("Times", about, charts.bars(timed))
        self.table(rows)
        self.rest(rows)
        self.chart(
            "Levels of the search",
            "What each level took; bars are the edges of its frontier. From the first source.",
            charts.levels(table),
        )
        self.chart(
            "Setup and break-even",
            "Setup and N runs together, of the variants that are the cheapest for some N. Where two lines cross, the "
            "costlier setup has paid off.",
            charts.total_time(rows) if any(r["pays_after"] is not None for r in rows) else None,
        )
        self.parts.append("</section>")

    def sweep(self, sweep: Sweep) -> None:
        """The section of one swept parameter; nothing where nothing was timed."""
        figure = charts.sweep_chart(sweep, self.cache)
        if figure is None:
            return
        self.parts.append(f"<section><h2>{_esc(sweep.title)}: along {_esc(sweep.parameter)}</h2>")
        about = f"{len(sweep.tables)} values, everything else being equal. The legend switches curves on and off."
        self.chart("Swept parameter", about, figure)
        self.parts.append("</section>")

    def overall(self, name: str, rows: Sequence[dict[str, Any]], records: Sequence[Record]) -> None:
        """What several matrices say together."""
        shares = profile(rows)
        if len(shares.matrices) < 2:
            return
        self.parts.append(f"<section><h2>{_esc(name)}: {len(shares.matrices)} {inputs_word(rows)}</h2>")
        self.chart(
            "Performance profile",
            "On how many matrices a variant takes at most so many times the fastest one's time (Dolan and More). "
            "Variants that did not run count as slower. The legend switches curves on and off.",
            charts.profile_chart(shares),
        )
        self.chart(
            "Roofline",
            "Rate over operations per compulsory byte; the line is the measured bandwidth; above it, caches helped.",
            charts.roofline(rows, records),
        )
        self.parts.append("</section>")


def _titles(tables: Sequence[Sequence[Record]]) -> list[str]:
    """A title for each table, with those options in which tables of its problem differ."""
    values: dict[tuple[str, str], set[str]] = {}
    for table in tables:
        for name, value in table[0].options.items():
            values.setdefault((table[0].problem, name), set()).add(str(value))
    differing = {key for key, seen in values.items() if len(seen) > 1}
    return [
        table_title(table, {name for problem, name in differing if problem == table[0].problem}) for table in tables
    ]


def _sort_value(value: Any) -> str:
    if value is None:
        return ""
    return "1e999" if value == math.inf else repr(value)


def _environments(records: Sequence[Record]) -> list[dict[str, str]]:
    """The distinct machines and versions that `records` were measured with."""
    facts_seen: dict[tuple[tuple[str, str], ...], None] = {}
    for r in records:
        device, env = r.device, r.environment
        memory = device.get("memory_bytes")
        facts = {
            "device": device.get("name"),
            "architecture": device.get("arch"),
            "driver": device.get("driver"),
            "toolkit": device.get("toolkit"),
            "memory": human_bytes(memory) if memory else None,
            "cpu": env.get("cpu"),
            "cores": env.get("cores"),
            "os": f"{env.get('os', '')} {env.get('kernel', '')}".strip(),
            "python": env.get("python"),
            "numpy": env.get("numpy"),
            "scipy": env.get("scipy"),
            "libraries": ", ".join(f"{k} {v}" for k, v in sorted((env.get("libraries") or {}).items())),
            "spgraph": f"{env.get('spgraph', '')} {env.get('git_commit', '')}".strip(),
        }
        facts_seen[tuple((k, str(v)) for k, v in facts.items() if v)] = None
    return [dict(facts) for facts in facts_seen]


def _environment_section(records: Sequence[Record]) -> str:
    sets = _environments(records)
    names = list(dict.fromkeys(name for facts in sets for name in facts))
    same = {n: sets[0].get(n, "") for n in names if len({facts.get(n, "") for facts in sets}) == 1}
    lines = [f'<tr><th scope="row">{_esc(n)}</th><td>{_esc(v)}</td></tr>' for n, v in same.items()]
    for name in names:
        if name not in same:
            values = dict.fromkeys(facts.get(name, "-") for facts in sets)
            lines.append(f'<tr><th scope="row">{_esc(name)}</th><td>{_esc("; ".join(values))}</td></tr>')
    ceilings = [r.ceiling.gbs for r in records if r.ceiling]
    if ceilings:
        low, high = f"{min(ceilings):,.0f}", f"{max(ceilings):,.0f}"
        span = low if low == high else f"{low} to {high}"
        lines.append(f'<tr><th scope="row">measured bandwidth</th><td>{span} GB/s</td></tr>')
    table = f'<table class="environment">{"".join(lines)}</table>'
    return f'<section><h2 id="environment">Environment</h2>{table}</section>'


def _script_json(text: str) -> str:
    """JSON that cannot end the script element it is in."""
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def html_bytes(records: Sequence[Record], cache: Cache = "cold") -> bytes:
    """The report of `records`, UTF-8. Of several runs of one table the last is shown.

    Raises UsageError where Plotly (the extra `report`) is not installed.
    """
    library = charts.plotly_js()
    runs = latest(records)
    shown = [r for table in runs for r in table]
    titles = _titles(runs)
    page = _Page(cache)
    bad = failures(runs)
    page.parts.append("<header><h1>spgraph report</h1></header><section>")
    if bad:
        items = "".join(f"<li>{_esc(text)}</li>" for text in bad)
        page.parts.append(f'<p class="bad">{len(bad)} wrong or failed:</p><ul>{items}</ul>')
    page.parts.append("<ul>" + "".join(f"<li>{_esc(text)}</li>" for text in summary(runs, cache)) + "</ul></section>")
    if len(runs) > 1:
        links = "".join(f'<li><a href="#t{i}">{_esc(title)}</a></li>' for i, title in enumerate(titles))
        page.parts.append(f'<nav><ul>{links}<li><a href="#environment">Environment</a></li></ul></nav>')
    for name, rows in by_problem(runs, cache).items():
        page.overall(name, rows, shown)
    for sweep in sweeps(runs):
        page.sweep(sweep)
    for number, (title, table) in enumerate(zip(titles, runs, strict=True)):
        page.result(number, title, table)
    page.parts.append(_environment_section(shown))
    here = Path(__file__).parent
    style, script = ((here / name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    text = "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>spgraph report</title><style>{style}</style></head><body>",
            *page.parts,
            f'<script type="application/json" id="figures">[{_script_json(",".join(page.figures))}]</script>',
            f"<script>{library}</script>",
            f"<script>{script}</script>",
            "</body></html>\n",
        ]
    )
    return text.encode("utf-8", "backslashreplace")


def tables_html(records: Sequence[Record], cache: Cache = "cold") -> str:
    """The tables alone, without charts, scripts and styles: for notebooks."""
    page = _Page(cache)
    for table in tables(records):
        rows = tidy(table, cache)
        page.parts.append(f"<h4>{_esc(table_title(table))}</h4><p>{_esc(conclusion(rows))}</p>")
        page.table(rows, sortable=False)
        page.rest(rows)
    return "".join(page.parts) or "<p>no records</p>"
