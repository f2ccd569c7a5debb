"""Charts of the HTML report, as Plotly figures: plain JSON that plotly.js draws in the reader's browser."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from spgraph_bench.errors import UsageError
from spgraph_bench.report.text import clean
from spgraph_bench.results.profiles import Profile
from spgraph_bench.results.record import Record
from spgraph_bench.results.sweeps import FEWEST, Sweep
from spgraph_bench.results.tidy import Cache, tidy

__all__ = ["bars", "levels", "plotly_js", "profile_chart", "roofline", "sweep_chart", "total_time"]

Rows = Sequence[Mapping[str, Any]]

_KINDS = {"spgraph": "#0072B2", "GPU library": "#E69F00", "CPU library": "#8a8f98"}
_LINES = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#8a8f98", "#b8a800")
"""Colours of Wong (Nature Methods 8, 2011), which most colour-blind readers can distinguish, on white and black."""
_DASHES = ("solid", "dash", "dot", "dashdot")
_MOST_LINES = 8
"""Curves shown at first; the others are switched on in the legend."""
_MISSING = "the HTML report's charts are drawn by Plotly, which is not installed"


def plotly_js() -> str:
    """The source of plotly.js, 4.8 MB. Raises UsageError where Plotly is not installed."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise UsageError(_MISSING, remedy="pip install 'spgraph[report]'") from None
    source: str = get_plotlyjs()
    return source


def _figure(
    data: Sequence[Mapping[str, Any]], height: int, x: Mapping[str, Any], y: Mapping[str, Any], **layout: Any
) -> str:
    """A figure as JSON. Plotly checks the names and values of all attributes."""
    try:
        import plotly.graph_objects as go
    except ImportError:
        raise UsageError(_MISSING, remedy="pip install 'spgraph[report]'") from None
    plain = {
        "height": height,
        "margin": {"l": 60, "r": 20, "t": 32, "b": 50},
        "xaxis": {"automargin": True, **x},
        "yaxis": {"automargin": True, **y},
        "template": {},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "modebar": {"bgcolor": "rgba(0,0,0,0)"},
        "plot_bgcolor": "rgba(0,0,0,0)",
        "hovermode": "closest",
        **layout,
    }
    text: str = go.Figure({"data": [dict(each) for each in data], "layout": plain}).to_json()
    return text


def _text(value: object) -> str:
    """`value` as a label: Plotly takes a few HTML tags in labels for what they are."""
    return html.escape(clean(value), quote=False)


def _kind(row: Mapping[str, Any]) -> str:
    if not row["library"]:
        return "spgraph"
    return "CPU library" if row["where"] == "cpu" else "GPU library"


def labels(rows: Rows) -> list[str]:
    """A label for each of `rows` that no other has."""
    texts: list[str] = []
    for row in rows:
        label = _text(row["variant"] + ("" if row["reorder"] == "none" else f" by {row['reorder']}"))
        if label in texts:
            params = ",".join(f"{k}={v}" for k, v in json.loads(row["params"]).items())
            label = f"{label} {_text(params)}"
        while label in texts:
            label += " "
        texts.append(label)
    return texts


def bars(rows: Rows) -> str:
    """Median times of the timed `rows` of one table, a bar each, the fastest on top, with 95 % intervals."""
    names = labels(rows)
    times = [row["median_ms"] for row in rows]
    wide = max(times) > 30 * min(times) > 0
    data = []
    for kind, colour in _KINDS.items():
        mine = [i for i, row in enumerate(rows) if _kind(row) == kind]
        if not mine:
            continue
        low = [rows[i]["low_ms"] if rows[i]["low_ms"] is not None else times[i] for i in mine]
        high = [rows[i]["high_ms"] if rows[i]["high_ms"] is not None else times[i] for i in mine]
        data.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": kind,
                "marker": {"color": colour},
                "x": [times[i] for i in mine],
                "y": [names[i] for i in mine],
                "error_x": {
                    "type": "data",
                    "symmetric": False,
                    "array": [h - times[i] for h, i in zip(high, mine, strict=True)],
                    "arrayminus": [times[i] - lo for lo, i in zip(low, mine, strict=True)],
                },
                "customdata": [[lo, h] for lo, h in zip(low, high, strict=True)],
                "hovertemplate": "%{y}: %{x:.4g} ms (%{customdata[0]:.4g} to %{customdata[1]:.4g})<extra></extra>",
            }
        )
    x: dict[str, Any] = {"title": {"text": "ms, log scale" if wide else "ms"}}
    if wide:
        x |= {"type": "log", "dtick": "D2"}
    else:
        x |= {"rangemode": "tozero"}
    y = {"categoryorder": "array", "categoryarray": names[::-1]}
    return _figure(
        data,
        90 + 22 * len(rows),
        x,
        y,
        bargap=0.3,
        barmode="overlay",
        showlegend=len(data) > 1,
        legend={"orientation": "h", "y": 1.0, "yanchor": "bottom"},
    )


def _style(index: int) -> dict[str, Any]:
    return {"color": _LINES[index % len(_LINES)], "dash": _DASHES[index // len(_LINES) % len(_DASHES)], "width": 2}


def profile_chart(profile: Profile, most: float = 10.0) -> str:
    """Curves of a performance profile up to `most` times the fastest, the best ones first."""
    data = []
    for index, name in enumerate(profile.by_merit()):
        factors, shares = profile.steps(name, most)
        data.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": _text(name),
                "x": factors,
                "y": [100 * s for s in shares],
                "line": {**_style(index), "shape": "hv"},
                "visible": True if index < _MOST_LINES else "legendonly",
                "hovertemplate": "%{fullData.name}: within %{x:.3g}x on %{y:.0f} %<extra></extra>",
            }
        )
    ticks = [t for t in (1, 1.1, 1.25, 1.5, 2, 3, 5, 10) if t <= most]
    x = {
        "type": "log",
        "title": {"text": "time over that of the fastest"},
        "range": [0, math.log10(most)],
        "tickvals": ticks,
        "ticktext": [f"{t:g}" for t in ticks],
    }
    return _figure(data, 420, x, {"title": {"text": "% of matrices"}, "range": [0, 102]})


def sweep_chart(sweep: Sweep, cache: Cache) -> str | None:
    """Rate of each variant along the parameter of `sweep`, or its time where there is no rate; None where nothing was
    timed at :data:`FEWEST` values. The fastest at the last value come first."""
    points: dict[str, dict[float, Mapping[str, Any]]] = {}
    for value, table in sweep.tables.items():
        for row in tidy(table, cache):
            rows_by_value = points.setdefault(row["variant"], {})
            if row["median_ms"] and (
                value not in rows_by_value or row["median_ms"] < rows_by_value[value]["median_ms"]
            ):
                rows_by_value[value] = row
    curves = [(name, by) for name, by in points.items() if len(by) >= FEWEST]
    if not curves:
        return None
    rated = all(row["rate"] for _, by in curves for row in by.values())
    unit = next(row["rate_unit"] for row in curves[0][1].values()) if rated else "ms"
    curves.sort(key=lambda curve: (-max(curve[1]), curve[1][max(curve[1])]["median_ms"]))
    data = [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "name": _text(name),
            "line": _style(index),
            "x": list(by),
            "y": [row["rate" if rated else "median_ms"] for row in by.values()],
            "visible": True if index < _MOST_LINES else "legendonly",
            "hovertemplate": "%{fullData.name}, "
            + _text(sweep.parameter)
            + " %{x}: %{y:.4g} "
            + _text(unit)
            + "<extra></extra>",
        }
        for index, (name, by) in enumerate(curves)
    ]
    values = list(sweep.tables)
    wide = values[0] > 0 and values[-1] >= 8 * values[0]
    x = {"type": "log" if wide else "linear", "title": {"text": _text(sweep.parameter)}}
    return _figure(data, 420, x, {"type": "log", "title": {"text": _text(unit)}})


def roofline(rows: Rows, records: Sequence[Record]) -> str | None:
    """Rates over operations per compulsory byte, under the measured bandwidth; None where there is nothing to draw.

    S. Williams, A. Waterman, D. Patterson, "Roofline", CACM 52, 2009. The roof over the ridge (peak arithmetic) is not
    drawn: nothing here comes near it.
    """
    known = {(r.run, r.matrix.get("sha256"), r.variant, r.reorder, r.dtype): r for r in records}
    points = []
    for row in rows:
        record = known.get((row["run"], row["sha256"], row["variant"], row["reorder"], row["dtype"]))
        if record is None or not row["rate"] or row["where"] != "gpu" or not record.operations:
            continue
        if compulsory := record.bytes.get("compulsory"):
            points.append((record.operations / compulsory, row["rate"], row, record))
    roofs = [record.ceiling.gbs for _, _, _, record in points if record.ceiling]
    if not points or not roofs:
        return None
    unit, gbs = points[0][3].rate_unit, max(roofs)
    scale = 1e3 if unit.startswith("M") else 1.0  # rates in 1e6 a second, bandwidth in 1e9
    low, high = min(p[0] for p in points) / 1.5, max(p[0] for p in points) * 1.5
    data: list[dict[str, Any]] = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": f"{gbs:,.0f} GB/s measured",
            "x": [low, high],
            "y": [low * gbs * scale, high * gbs * scale],
            "line": {"color": "#D55E00", "width": 2},
            "hoverinfo": "name",
        }
    ]
    for kind, symbol in (("spgraph", "circle"), ("GPU library", "diamond-open")):
        mine = [p for p in points if _kind(p[2]) == kind]
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": kind,
                "x": [p[0] for p in mine],
                "y": [p[1] for p in mine],
                "marker": {"color": _KINDS[kind], "symbol": symbol, "size": 7},
                "text": [_text(f"{p[2]['variant']} on {p[2]['matrix']}") for p in mine],
                "hovertemplate": "%{text}: %{y:.3g} " + _text(unit) + "<extra></extra>",
            }
        )
    return _figure(
        data,
        420,
        {"type": "log", "title": {"text": "operations per compulsory byte"}},
        {"type": "log", "title": {"text": _text(unit)}},
    )


def levels(records: Sequence[Record]) -> str | None:
    """Time of each level of a traced search, a line a mode, over the edges of its frontier; None without traces."""
    traced = [r for r in records if r.trace and all("edges" in level for level in r.trace)]
    if not traced:
        return None
    traced.sort(key=lambda r: sum(level.get("ms") or 0.0 for level in r.trace))
    longest = max(traced, key=lambda r: len(r.trace))
    numbers = list(range(len(longest.trace)))
    data: list[dict[str, Any]] = [
        {
            "type": "bar",
            "name": "edges of the frontier",
            "x": numbers,
            "y": [level["edges"] for level in longest.trace],
            "yaxis": "y2",
            "marker": {"color": "#8a8f98", "opacity": 0.35},
        }
    ]
    for index, record in enumerate(r for r in traced if any(level.get("ms") for level in r.trace)):
        data.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": _text(record.variant),
                "line": _style(index),
                "x": list(range(len(record.trace))),
                "y": [level.get("ms") for level in record.trace],
                "text": [_text(level.get("how", "")) for level in record.trace],
                "visible": True if index < _MOST_LINES else "legendonly",
                "hovertemplate": "%{fullData.name}, level %{x}: %{y:.3g} ms, %{text}<extra></extra>",
            }
        )
    return _figure(
        data,
        420,
        {"title": {"text": "level"}},
        {"type": "log", "title": {"text": "ms"}, "dtick": 1},
        yaxis2={
            "type": "log",
            "overlaying": "y",
            "side": "right",
            "showgrid": False,
            "title": {"text": "edges"},
            "dtick": 1,
            "exponentformat": "power",
        },
        legend={"x": 1.12},
        margin={"l": 60, "r": 60, "t": 32, "b": 50},
    )


def total_time(rows: Rows, most: int = 1_000_000) -> str | None:
    """Setup and N runs together over N, of the GPU variants that are the cheapest for some N; None for one only.

    Where two lines cross, the more expensive setup has paid for itself.
    """
    able = [r for r in rows if r["median_ms"] and r["setup_ms"] is not None and r["where"] == "gpu"]
    counts = [round(10 ** (k / 8)) for k in range(8 * round(math.log10(most)) + 1)]
    cheapest: dict[int, Mapping[str, Any]] = {}
    for n in counts:
        if able:
            best = min(able, key=lambda r: r["setup_ms"] + n * r["median_ms"])
            cheapest[id(best)] = best
    if len(cheapest) < 2:
        return None
    shown = list(cheapest.values())
    data = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": name,
            "line": _style(index),
            "x": counts,
            "y": [row["setup_ms"] + n * row["median_ms"] for n in counts],
            "hovertemplate": "%{fullData.name}: %{x:,} runs take %{y:.4g} ms<extra></extra>",
        }
        for index, (name, row) in enumerate(zip(labels(shown), shown, strict=True))
    ]
    return _figure(
        data,
        360,
        {"type": "log", "title": {"text": "runs"}, "dtick": 1},
        {"type": "log", "title": {"text": "ms, setup included"}, "dtick": 1},
    )
