"""Edge lists: SNAP, KONECT, NetworkRepository, and whatever else has an edge on each line.

A line is two vertex ids, perhaps a weight, perhaps a time (omitted, alone too), separated by blanks, tabs
or commas; "#", "%" and "//" begin comments. Beyond that files differ, and the reader finds out: a title line,
a size line ("n", "n m", "n n m"), a last line "-1", the index base, the headers of KONECT and SNAP, which say
whether edges are directed. What it found is in the findings.

An undirected edge is one edge whichever way it is written: written both ways with the same weight it counts
once, written again the same way it is a duplicate like any other.

Measured on two cores (scripts/bench_readers.py --edge-lists; edges in no order): 113 MB without weights to
canonical CSR in 0.6 s and 1.8 times the file's memory, with ``symmetrize`` in 0.8 s and 1.8 times, 1.2 s and
2.0 times without a compiler; 108 MB with weights in 0.9 s and 2.9 times, with ``symmetrize`` in 0.9 s and 3.4
times, undirected by its header in 1.0 s and 4.3 times.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from spgraph_bench.matrix import Finding, Symmetry
from spgraph_bench.readers.common import (
    LIKELY,
    NO,
    POSSIBLE,
    Input,
    Progress,
    RawEntries,
    ReadOptions,
    line_number,
    reader,
)
from spgraph_bench.readers.edge_head import COMMENT, FIELD, DataLine, Head, has_banner, scan_head
from spgraph_bench.readers.edge_table import (
    MAX_VERTICES,
    Table,
    VertexNameError,
    are_times,
    close_gaps,
    is_mirrored,
    may_be_times,
    no_edges,
    read_named,
    read_table,
    require_rows,
)
from spgraph_bench.readers.tokens import parse_integer, parse_number, shorten, with_line_feeds

__all__ = ["interpret", "sniff", "weight_column"]

_SUFFIXES = (".txt", ".edges", ".edgelist", ".el", ".wel", ".csv", ".tsv", ".snap", ".konect", ".ncol", ".net")
_TIME = re.compile(rb"['\"]?(unix_?)?(time|timestamp|time_?stamp|date|datetime|ts|t)['\"]?", re.IGNORECASE)
_DICT = re.compile(rb"\{([^{}\r\n]*)\}")
_DICT_WEIGHT = re.compile(rb"['\"]weight['\"]\s*:\s*([^,\s]+)")


def sniff(head: bytes, name: str) -> int:
    """Two to four columns, the first two integers; more sure if the name or a header says so."""
    if has_banner(head) or b"\0" in head:
        return NO
    named = name.endswith(_SUFFIXES) or name.startswith("out.")
    whole = head if len(head) < 65536 else head[: head.rfind(b"\n") + 1]
    whole = whole if b"\n" in whole else whole.replace(b"\r", b"\n")
    whole = _DICT.sub(_dict_weight, whole)
    scanned = scan_head(whole, len(whole), 6)
    if not scanned.lines:  # 64 KiB of comments
        return POSSIBLE if named or scanned.konect else NO
    sure = scanned.konect is not None or scanned.directed is not None
    edges = [line for line in scanned.lines[1:] or scanned.lines if 2 <= len(line.fields) <= 4]
    if len(edges) < len(scanned.lines[1:]):
        return POSSIBLE if named or sure else NO
    if edges and all(all(parse_integer(f) is not None for f in line.fields[:2]) for line in edges):
        return LIKELY + 20 if sure else LIKELY if named else POSSIBLE // 2 if name.endswith(".mtx") else POSSIBLE
    return POSSIBLE if named or sure else NO  # so that the parser can say what is wrong


@dataclass
class _Size:
    """A size line: vertices of the rows and the columns, edges if it tells, its line."""

    rows: int
    cols: int
    edges: int | None
    line: int
    otherwise: str = ""
    """What to do if it is an edge after all, where only its columns say that it is none."""


@reader("edge-list", title="edge list (SNAP, KONECT, NetworkRepository)", suffixes=_SUFFIXES, sniff=sniff)
def parse(data: Input, options: ReadOptions, progress: Progress) -> RawEntries:
    """See the module. Edges are directed as stored unless a header says otherwise."""
    data = with_line_feeds(data)
    findings: list[Finding] = []
    end = _end_of_edges(data, findings)
    head = scan_head(data.data, end)
    if head.banner:  # read as edges only where that was asked for
        findings.append(Finding("the Matrix Market banner says no more than symmetric or not", 1))
    lines = head.lines
    if not lines:
        raise no_edges(data)
    if any(b"{" in field for line in lines for field in line.fields):
        plain = _DICT.sub(_dict_weight, data.data[:end])
        if plain != data.data[:end]:
            findings.append(Finding("attributes as networkx writes them: only weights are kept"))
            return parse(replace(data, data=plain, path=None), options, progress)
    times = False
    if _is_title(lines):
        times = len(lines[0].fields) == 3 and bool(_TIME.fullmatch(lines[0].fields[2]))
        title = shorten(b" ".join(lines[0].fields))
        findings.append(Finding(f"{title} is neither a comment nor an edge: skipped", lines[0].number, warning=True))
        lines = lines[1:]
    columns = _columns(data, lines, options)
    weight = weight_column(data, options, columns)
    size = _plain_size(lines, columns)
    width = len(lines[0].fields)
    if size is not None:
        lines = lines[1:]
    largest = 2**63 - 1 if options.relabel else MAX_VERTICES
    try:
        table = read_table(data, lines[0].offset, end, columns, progress, weight=weight, largest=largest)
    except VertexNameError:
        if not options.relabel:
            raise
        table, names = read_named(data, _data_lines(data, lines[0], end), columns, weight)
        _omit_times(table, head, options, times, findings)
        return interpret(data, options, table, head, None, findings, names)
    if size is None:
        size = _size_among_edges(table, lines[0], columns, findings)
    elif not _is_credible(size, table):
        raise data.error(
            f"{columns} columns where line {size.line} has {width}",
            line=lines[0].number,
            remedy=f"give every line the same columns (line {size.line} does not fit as a size line either)",
        )
    if size is not None:
        _check_count(data, table, size, findings)
    _omit_times(table, head, options, times, findings)
    return interpret(data, options, table, head, size, findings)


def interpret(
    data: Input,
    options: ReadOptions,
    table: Table,
    head: Head,
    size: _Size | None,
    findings: list[Finding],
    names: list[str] | None = None,
) -> RawEntries:
    """Base, number of vertices, direction: from the columns of an edge list to entries of a matrix."""
    bipartite = head.konect is not None and head.konect[0] == "bip"
    if bipartite and options.relabel:
        raise data.error(
            "a bipartite graph has two sets of ids: --relabel cannot close their gaps", remedy="omit --relabel"
        )
    base: Literal[0, 1] | None
    base_from: Literal["format", "found", "option"]
    if names is not None:
        base, base_from = None, "format"
    else:
        base, base_from = _base(data, options, table, head, size, findings)
    original = None
    if names is not None:
        rows = cols = len(names)
    elif options.relabel:
        table.u, table.v, original = close_gaps(table.u, table.v)
        rows = cols = len(original)
        require_rows(data, table, rows, 0)
    else:
        assert base is not None
        rows, cols = _shape(data, table, base, bipartite, head, size, findings)
        if base:
            table.u -= base
            table.v -= base
        if not bipartite and rows == cols:
            _report_gaps(table, rows, head, findings)
    _compare_counts(table, head, rows, options, findings)
    weights = _weights(table, head, findings)
    symmetry: Symmetry = "general"
    if head.directed is False and not bipartite:
        if is_mirrored(table.u, table.v, weights):
            findings.append(Finding("undirected by its header, each edge stored in both directions"))
        else:
            symmetry = "symmetric"
            findings.append(Finding("undirected by its header, each edge stored once: mirrored"))
    return RawEntries(
        rows,
        cols,
        table.u,
        table.v,
        weights,
        "edge-list",
        symmetry=symmetry,
        undirected=symmetry != "general",
        base=base,
        base_from=base_from,
        has_columns=True,
        relabelled=options.relabel,
        original_ids=original,
        names=names,
        findings=tuple(findings + table.findings),
        line_of=table.line_of,
    )


def _compare_counts(table: Table, head: Head, rows: int, options: ReadOptions, findings: list[Finding]) -> None:
    """Note where the header's numbers of vertices and edges are not those of the file."""
    if options.relabel and head.nodes is not None and head.nodes[0] != rows:
        text = f"the header says {head.nodes[0]:,} vertices, {rows:,} occur in edges"
        findings.append(Finding(text, head.nodes[1], warning=True))
    if head.edges is not None and head.edges[0] != len(table):
        text = f"the header promises {head.edges[0]:,} edges, the file holds {len(table):,}"
        findings.append(Finding(text, head.edges[1]))


def _weights(table: Table, head: Head, findings: list[Finding]) -> npt.NDArray[np.float64] | None:
    """The weights of the edges: none where KONECT's header says unweighted and all are 1."""
    weights = table.weights
    if head.konect and head.konect[1] == "unweighted" and weights is not None:
        if (weights == 1).all():
            findings.append(Finding("the header says unweighted: the third column, all 1, is ignored"))
            return None
        findings.append(Finding("the header says unweighted, the third column is kept as weights"))
    return weights


def _is_title(lines: list[DataLine]) -> bool:
    """Whether the first line is words and the second numbers: names of columns, an address."""
    return (
        len(lines) > 1
        and all(parse_number(f) is None for f in lines[0].fields)
        and all(parse_number(f) is not None for f in lines[1].fields[:3])
    )


def weight_column(data: Input, options: ReadOptions, columns: int) -> int | None:
    """The column that has the weights, counted from 0, or None. InputError where there is no such column."""
    if options.weight_column is None:
        return 2 if columns > 2 else None
    if options.weight_column == 0:
        return None
    if not 2 < options.weight_column <= columns:
        raise data.error(
            f"--weight-column {options.weight_column}, but each line has {columns} columns, two of them ids",
            remedy=f"{' or '.join(map(str, range(3, columns + 1)))}, or none"
            if columns > 2
            else "omit it: edges have no weights",
        )
    return options.weight_column - 1


def _omit_times(table: Table, head: Head, options: ReadOptions, titled: bool, findings: list[Finding]) -> None:
    """Take times off `table`: they are not meant as weights. Tell of what may be times."""
    weights = table.weights
    if options.weight_column is not None or weights is None or (head.konect and not titled):
        return
    possible = may_be_times(weights)
    if titled or (possible and are_times(weights)):
        span = f"{weights.min():.0f} to {weights.max():.0f}"
        text = f"the third column, {span}, has times: skipped (--weight-column 3 keeps it as weights)"
        findings.append(Finding(text, table.line_of(0), warning=True))
        table.weights, table.findings = None, []
    elif possible:
        text = "the third column may have times, but in no order: kept as weights, --weight-column none"
        findings.append(Finding(text, table.line_of(0), warning=True))
    elif len(weights) >= 100 and weights[0] < weights[-1] >= 10**5 and (weights[1:] >= weights[:-1]).all():
        text = "the third column grows from line to line: if it has times, --weight-column none"
        findings.append(Finding(text, table.line_of(0), warning=True))


def _dict_weight(match: re.Match[bytes]) -> bytes:
    """What an attribute dictionary of networkx says of a weight."""
    weight = _DICT_WEIGHT.search(match[1])
    return weight[1] if weight else b""


def _data_lines(data: Input, first: DataLine, end: int) -> Iterator[tuple[int, list[bytes]]]:
    """(1-based number, fields) of the lines from `first` on that are neither empty nor comments."""
    number = first.number
    for line in data.data[first.offset : end].split(b"\n"):
        fields = FIELD.findall(line)
        for position, token in enumerate(fields):
            if token.startswith(COMMENT):
                del fields[position:]
                break
        if fields:
            yield number, fields
        number += 1


def _columns(data: Input, lines: list[DataLine], options: ReadOptions) -> int:
    """How many columns the list has; the second line tells, for the first may be a size line."""
    line = lines[1] if len(lines) > 1 else lines[0]
    columns = len(line.fields)
    if len(lines) > 2 and columns != len(lines[0].fields) == len(lines[2].fields) in (2, 3, 4):
        return len(lines[0].fields)  # the second line is the odd one
    if 2 <= columns <= (4 if options.weight_column is None else 64):
        return columns
    if columns == 1:
        raise data.error(
            f"only one column ({shorten(line.fields[0])}) where an edge needs two vertex ids",
            line=line.number,
            remedy="delete the line, or turn it into a comment with '#'",
        )
    raise data.error(
        f"{columns} columns; an edge list has two ids, perhaps a weight and a timestamp",
        line=line.number,
        remedy="say which of them has the weights: --weight-column N, or none",
    )


def _plain_size(lines: list[DataLine], columns: int) -> _Size | None:
    """The first line as a size line, if its width is not that of an edge."""
    values = lines[0].integers()
    if values is None or len(lines) < 2:
        return None
    number = lines[0].number
    if len(values) == 1:
        return _Size(values[0], values[0], None, number)
    otherwise = f"; if it is an edge, give it {columns} columns as the others have"
    if len(values) == 2 and columns > 2:
        return _Size(values[0], values[0], values[1], number, otherwise)
    if len(values) == 3 and columns != 3:
        return _Size(values[0], values[1], values[2], number, otherwise)
    return None


def _is_credible(size: _Size, table: Table) -> bool:
    """Whether a first line of other columns than the edges may be a size line with an error in it."""
    if size.edges is None:
        return True
    counted = len(table) in (size.edges, 2 * size.edges) or size.edges == 2 * len(table)
    return min(size.rows, size.cols) > 0 and (counted or max(size.rows, size.cols) >= table.high())


def _size_among_edges(table: Table, first: DataLine, columns: int, findings: list[Finding]) -> _Size | None:
    """The first line as a size line, though it looks like an edge: if its numbers fit all other lines.

    That is "n m" in front of two columns, "n n m" in front of three, with m (or m/2) further lines and no id
    beyond n. Takes the line off `table`.
    """
    values = first.integers()
    rest = len(table) - 1
    if values is None or len(values) != columns or columns == 4 or rest < 1:
        return None
    n, m = values[0], values[-1]
    if columns == 3 and values[1] != n:
        return None
    others_high = int(max(table.u[1:].max(), table.v[1:].max()))
    others_low = int(min(table.u[1:].min(), table.v[1:].min()))
    if rest in (m, 2 * m) and n >= others_high + (others_low == 0):
        table.drop_first()
        findings.append(Finding(f"{n:,} vertices, {m:,} edges: a size line, not an edge", first.number, warning=True))
        return _Size(n, n, m, first.number)
    if n > others_high and (m > others_high or columns == 3):
        text = f"looks like a size line, but counts other than the {rest:,} that follow: taken for an edge"
        findings.append(Finding(text, first.number, warning=True))
    return None


def _check_count(data: Input, table: Table, size: _Size, findings: list[Finding]) -> None:
    if size.edges is None or size.edges == len(table):
        return
    text = f"the size line promises {size.edges:,} edges, the file holds {len(table):,}"
    if size.edges > len(table) and size.edges != 2 * len(
        table
    ):  # the header counts directed edges, the file stores undirected ones
        raise data.error(
            text,
            line=size.line,
            remedy="the file seems cut short: fetch it again, or correct the line" + size.otherwise,
        )
    one_is_twice = size.edges == 2 * len(table) or len(table) == 2 * size.edges
    findings.append(Finding(text, size.line, warning=bool(size.otherwise) and not one_is_twice))


def _end_of_edges(data: Input, findings: list[Finding]) -> int:
    """Where the edges end: in front of a last line "-1", which some programs write as an end mark."""
    tail = data.data[-64:]
    if tail.rstrip()[-3:] not in (b"\n-1", b"\r-1"):
        return len(data.data)
    end = len(data.data) - len(tail) + len(tail.rstrip()) - 2
    findings.append(Finding("the last line is -1: taken for an end mark", line_number(data.data, end)))
    return end


def _base(
    data: Input, options: ReadOptions, table: Table, head: Head, size: _Size | None, findings: list[Finding]
) -> tuple[Literal[0, 1], Literal["format", "found", "option"]]:
    low = table.low()
    if options.base is not None:
        if low < options.base:
            raise data.error(
                "vertex id 0 in a list that is to be 1-based",
                line=table.line_of_id(0),
                remedy="give --base 0, or omit --base",
            )
        return options.base, "option"
    if low == 0:
        return 0, "found"
    if head.konect or head.banner:
        return 1, "format"
    counted = size is not None and table.high() == size.rows == size.cols
    if low == 1 or counted or (head.nodes is not None and table.high() == head.nodes[0]):
        return 1, "found"
    if not options.relabel:
        text = f"the smallest id is {low:,}: taken for 0-based (--base 1 says otherwise)"
        findings.append(Finding(text, warning=True))
    return 0, "found"


def _shape(
    data: Input, table: Table, base: int, bipartite: bool, head: Head, size: _Size | None, findings: list[Finding]
) -> tuple[int, int]:
    """Rows and columns, from the highest ids and from what the file says itself."""
    rows, cols = int(table.u.max()) + 1 - base, int(table.v.max()) + 1 - base
    if size is not None:
        if rows > size.rows or cols > size.cols:
            vertex = (rows if rows > size.rows else cols) - 1 + base
            shifts = base == 0 < table.low() and rows <= size.rows + 1 and cols <= size.cols + 1
            raise data.error(
                f"the size line promises {size.rows:,} vertices, line {table.line_of_id(vertex):,} names "
                f"vertex {vertex:,} ({base}-based)",
                line=size.line,
                remedy="correct or delete the size line" + (", or give --base 1" if shifts else "") + size.otherwise,
            )
        rows, cols = size.rows, size.cols
    elif not bipartite:
        rows = cols = max(rows, cols)
    if head.nodes is not None and size is None and not bipartite and head.nodes[0] > rows:
        nodes, line = head.nodes
        text = f"the header says {nodes:,} vertices, ids end at {rows - 1 + base:,}: "
        if nodes <= MAX_VERTICES:
            findings.append(Finding(f"{text}{nodes - rows:,} more without edges", line, warning=True))
            rows = cols = nodes
        else:
            findings.append(Finding(f"{text}more vertices than can be indexed are not added", line, warning=True))
    if head.sides is not None:
        sides = head.sides if bipartite else (head.sides[0], head.sides[0])
        if sides[0] < rows or sides[1] < cols:
            text = f"the header promises {sides[0]:,} x {sides[1]:,} vertices, the ids need {rows:,} x {cols:,}"
            findings.append(Finding(text, head.edges[1] if head.edges else None))
        rows, cols = max(rows, sides[0]), max(cols, sides[1])
    require_rows(data, table, max(rows, cols), base)
    return rows, cols


def _report_gaps(table: Table, vertices: int, head: Head, findings: list[Finding]) -> None:
    """Vertices without any edge, counted where that costs little; whether more have one than a header says."""
    if vertices > 8 * len(table) + (1 << 20):
        unused, word = vertices - 2 * len(table), "at least "
    else:
        used = np.zeros(vertices, bool)
        used[table.u] = True
        used[table.v] = True
        unused, word = vertices - int(np.count_nonzero(used)), ""
        if head.nodes is not None and head.nodes[0] < vertices - unused:
            text = f"the header says {head.nodes[0]:,} vertices, {vertices - unused:,} occur in edges"
            findings.append(Finding(text, head.nodes[1], warning=True))
    if unused:
        text = f"{word}{unused:,} of {vertices:,} ids occur in no edge: kept (--relabel closes gaps)"
        findings.append(Finding(text, count=unused))
