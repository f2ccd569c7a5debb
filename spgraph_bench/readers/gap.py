"""The edge lists of the GAP Benchmark Suite: ``.el`` (u v) and ``.wel`` (u v weight), 0-based, nothing else.

Unlike the general reader this one takes no line for a size line and finds no base: GAP's own programs
(github.com/sbeamer/gapbs, ``src/reader.h``) read every line as an edge between ids that start at 0.
"""

from __future__ import annotations

from dataclasses import replace

from spgraph_bench.readers.common import LIKELY, NO, Input, Progress, RawEntries, ReadOptions, reader
from spgraph_bench.readers.edge_head import Head, scan_head
from spgraph_bench.readers.edge_list import interpret, weight_column
from spgraph_bench.readers.edge_table import MAX_VERTICES, read_table
from spgraph_bench.readers.tokens import with_line_feeds

__all__: list[str] = []


def _looks_like(head: bytes, columns: int) -> int:
    """Surer than the general reader if there is an id 0, the only sign of the base that a list shows."""
    lines = scan_head(head, head.rfind(b"\n") + 1, 1000).lines
    fits = bool(lines) and all(len(line.fields) == columns for line in lines)
    return LIKELY + 10 if fits and any(b"0" in line.fields[:2] for line in lines) else NO


def _sniff_el(head: bytes, name: str) -> int:
    return _looks_like(head, 2) if name.endswith(".el") else NO


def _sniff_wel(head: bytes, name: str) -> int:
    return _looks_like(head, 3) if name.endswith(".wel") else NO


def _parse(data: Input, options: ReadOptions, progress: Progress, columns: int, name: str) -> RawEntries:
    data = with_line_feeds(data)
    largest = 2**63 - 1 if options.relabel else MAX_VERTICES
    table = read_table(
        data,
        0,
        len(data.data),
        columns,
        progress,
        weight=weight_column(data, options, columns),
        largest=largest,
        commas=False,
        ragged_remedy="correct the line, or give --input-format edge-list",
    )
    given = options if options.base is not None else replace(options, base=0)
    entries = interpret(data, given, table, Head(), None, [])
    entries.format = name
    entries.base_from = "format" if options.base is None else "option"
    return entries


@reader("gap-el", title="GAP edge list", suffixes=(".el",), sniff=_sniff_el)
def parse_el(data: Input, options: ReadOptions, progress: Progress) -> RawEntries:
    """Unweighted directed edges, one a line: "u v"."""
    return _parse(data, options, progress, 2, "gap-el")


@reader("gap-wel", title="GAP weighted edge list", suffixes=(".wel",), sniff=_sniff_wel)
def parse_wel(data: Input, options: ReadOptions, progress: Progress) -> RawEntries:
    """Weighted directed edges, one a line: "u v weight"."""
    return _parse(data, options, progress, 3, "gap-wel")
