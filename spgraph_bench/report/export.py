"""Records as files for other programs: all figures as CSV or Parquet, a page's as Markdown or LaTeX."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Collection, Sequence
from typing import Any

from spgraph_bench.errors import UsageError
from spgraph_bench.report.text import clean, milliseconds, percent, significant, times
from spgraph_bench.results.record import Record
from spgraph_bench.results.tidy import COLUMNS, Cache, tables, tidy

__all__ = [
    "FORMATS",
    "SHOWN",
    "SUFFIXES",
    "TEXTS",
    "csv_bytes",
    "export",
    "latex_bytes",
    "markdown_bytes",
    "parquet_bytes",
    "table_title",
]

_WHOLE = {"rows", "cols", "nnz", "samples", "rank", "stored_bytes"}
_NUMBERS = {
    "median_ms",
    "low_ms",
    "high_ms",
    "q1_ms",
    "q3_ms",
    "rate",
    "gbs",
    "ceiling_share",
    "to_best",
    "to_best_low",
    "to_best_high",
    "to_library",
    "setup_ms",
    "pays_after",
}


def csv_bytes(records: Sequence[Record], cache: Cache = "cold") -> bytes:
    """Comma-separated values, UTF-8: a header of :data:`COLUMNS`, a line a cell; empty where there is no figure."""
    out = io.StringIO()
    writer = csv.DictWriter(out, list(COLUMNS), lineterminator="\n")
    writer.writeheader()
    for row in tidy(records, cache):
        writer.writerow({k: clean(v) if isinstance(v, str) else v for k, v in row.items()})
    return out.getvalue().encode("utf-8", "backslashreplace")


def parquet_bytes(records: Sequence[Record], cache: Cache = "cold") -> bytes:
    """The same as a Parquet file, with types. Raises UsageError where pyarrow is not installed."""
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        raise UsageError(
            "Parquet is written by pyarrow, which is not installed", remedy="pip install 'spgraph[parquet]'"
        ) from None

    def type_of(name: str) -> Any:
        if name in _WHOLE:
            return pa.int64()
        return pa.float64() if name in _NUMBERS else pa.bool_() if name == "tied" else pa.string()

    rows = [{k: clean(v) if isinstance(v, str) else v for k, v in row.items()} for row in tidy(records, cache)]
    schema = pa.schema([pa.field(name, type_of(name), metadata={"about": about}) for name, about in COLUMNS.items()])
    out = io.BytesIO()
    parquet.write_table(pa.Table.from_pylist(rows, schema), out)
    return out.getvalue()


def table_title(table: Sequence[Record], options_of: Collection[str] | None = None) -> str:
    """What one table is about: "spmv: rmat18, float32, NVIDIA H200"; with the options named, or all of them."""
    first = table[0]
    options = [
        f"{name} {value}" for name, value in first.given_options.items() if options_of is None or name in options_of
    ]
    name = first.matrix.get("name", "?")
    head = first.problem if first.format == "none" else f"{first.problem}: {name}"
    offsets = [f"{first.offsets} offsets"] if first.offsets != "int32" else []
    return clean(", ".join([head, first.dtype, *offsets, *options, str(first.device.get("name", "?"))]))


def _interval(row: dict[str, Any]) -> str:
    if row["low_ms"] is None:
        return "-"
    return f"{milliseconds(row['low_ms'])} to {milliseconds(row['high_ms'])}"


SHOWN: dict[str, Callable[[dict[str, Any]], str]] = {
    "#": lambda r: "-" if r["rank"] is None else f"{r['rank']}{'=' if r['tied'] else ''}",
    "variant": lambda r: clean(r["variant"] + ("" if r["reorder"] == "none" else f" by {r['reorder']}")),
    "format": lambda r: clean(r["format"]),
    "ms": lambda r: milliseconds(r["median_ms"]),
    "95 % interval": _interval,
    "rate": lambda r: significant(r["rate"]),
    "GB/s": lambda r: significant(r["gbs"]),
    "ceiling": lambda r: percent(r["ceiling_share"]),
    "best": lambda r: times(r["to_best"]),
    "library": lambda r: times(r["to_library"]),
    "setup ms": lambda r: milliseconds(r["setup_ms"]),
    "pays after": lambda r: (
        "-" if r["pays_after"] is None else "never" if r["pays_after"] == float("inf") else f"{r['pays_after']:,.0f}"
    ),
}
"""Column of a page -> what it shows of a tidy row."""
TEXTS = {"variant", "format"}


def _page(table: Sequence[Record], cache: Cache) -> tuple[list[str], list[list[str]], list[str]]:
    """Header, timed rows, and a line for each other cell, of one table; columns without content are omitted."""
    rows = tidy(table, cache)
    timed = [r for r in rows if r["median_ms"] is not None]
    cells = {title: [show(r) for r in timed] for title, show in SHOWN.items()}
    unit = next((r["rate_unit"] for r in timed if r["rate_unit"]), "rate")
    titles = [t for t, column in cells.items() if t in TEXTS or any(c not in ("", "-") for c in column)]
    header = [clean(unit) if t == "rate" else t for t in titles]
    rest = [
        f"{r['status'] if r['status'] != 'ok' else 'checked, not timed'}: {clean(r['variant'])}"
        + (f" ({clean(r['reason'])})" if r["reason"] else "")
        for r in rows
        if r["median_ms"] is None
    ]
    return header, [list(line) for line in zip(*(cells[t] for t in titles), strict=True)], rest


def _markdown(text: str) -> str:
    return re.sub(r"([\\`*_|<>\[\]])", r"\\\1", text.replace("\n", " "))


def markdown_bytes(records: Sequence[Record], cache: Cache = "cold") -> bytes:
    """A section for each table: its timed cells, the fastest first, and the others, folded away."""
    lines = []
    for table in tables(records):
        header, rows, rest = _page(table, cache)
        lines += [f"### {_markdown(table_title(table))}", ""]
        if rows:
            rule = ["---" if title in TEXTS else "---:" for title in header]
            lines += ["| " + " | ".join(cells) + " |" for cells in ([*map(_markdown, header)], rule)]
            lines += ["| " + " | ".join(map(_markdown, cells)) + " |" for cells in rows]
            lines.append("")
        if rest:
            lines += [f"<details><summary>{len(rest)} not timed</summary>", "", *(f"- {_markdown(r)}" for r in rest)]
            lines += ["", "</details>", ""]
    return "\n".join(lines).encode("utf-8", "backslashreplace")


_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    **{c: f"\\{c}" for c in "&%$#_{}"},
}


def _latex(text: str) -> str:
    return "".join(_LATEX.get(c, c) for c in text.replace("\n", " "))


def latex_bytes(records: Sequence[Record], cache: Cache = "cold") -> bytes:
    """A ``table`` for each table of records, its timed cells only; needs the package booktabs."""
    lines = [r"% \usepackage{booktabs}"]
    for table in tables(records):
        header, rows, _ = _page(table, cache)
        if not rows:
            continue
        columns = "".join("l" if title in TEXTS else "r" for title in header)
        lines += [r"\begin{table}", rf"  \caption{{{_latex(table_title(table))}}}", r"  \centering"]
        lines += [rf"  \begin{{tabular}}{{{columns}}}", r"    \toprule"]
        lines += [f"    {' & '.join(map(_latex, header))} \\\\", r"    \midrule"]
        lines += [f"    {' & '.join(map(_latex, cells))} \\\\" for cells in rows]
        lines += [r"    \bottomrule", r"  \end{tabular}", r"\end{table}", ""]
    return "\n".join(lines).encode("utf-8", "backslashreplace")


FORMATS: dict[str, Callable[[Sequence[Record], Cache], bytes]] = {
    "md": markdown_bytes,
    "csv": csv_bytes,
    "parquet": parquet_bytes,
    "latex": latex_bytes,
}


SUFFIXES = {".csv": "csv", ".md": "md", ".tex": "latex", ".parquet": "parquet"}
"""Which of :data:`FORMATS` a file's suffix stands for."""


def export(records: Sequence[Record], form: str, cache: Cache = "cold") -> bytes:
    """`records` in one of :data:`FORMATS`."""
    return FORMATS[form](records, cache)
