"""METIS graphs (``.graph``): line i lists the neighbours of vertex i, 1-based.

The first line is ``N M [FMT [NCON]]``. FMT has up to three digits: vertex sizes, vertex weights (NCON of
them), edge weights (METIS manual 5.1, section 4.1.1). An empty line is a vertex without neighbours; lines
that begin with "%" do not count. Every undirected edge is listed by both ends, so there are 2 M entries.

Others have stretched the format, and their files are read too: the tenth DIMACS challenge sets FMT to 100 for
graphs with loops or multiple edges and counts entries in M; GAP's converter also writes directed graphs and
counts entries whatever FMT says. Which it is follows from the number of entries.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from spgraph_bench.matrix import Finding
from spgraph_bench.readers.common import (
    LIKELY,
    NO,
    POSSIBLE,
    Input,
    Progress,
    RawEntries,
    ReadOptions,
    reader,
    require_memory,
)
from spgraph_bench.readers.edge_table import MAX_VERTICES, Ids, close_gaps, is_mirrored, no_edges
from spgraph_bench.readers.tokens import Block, Ints, Text, blocks, parse_integer, shorten, with_line_feeds

__all__ = ["sniff"]

_SUFFIXES = (".graph", ".metis")


@dataclass(frozen=True)
class _Header:
    line: int
    begin: int
    """First byte after the header."""
    vertices: int
    edges: int
    hundreds: bool
    """The first of FMT's three digits: vertex sizes, or a graph of the tenth DIMACS challenge."""
    vertex_weights: int
    edge_weights: bool


@dataclass(frozen=True)
class _Lines:
    """The vertex lines of a block: which lines they are, tokens in each, and the first token of each."""

    line: Ints
    count: Ints
    first: Ints

    def part(self, which: slice | npt.NDArray[np.bool_]) -> _Lines:
        return _Lines(self.line[which], self.count[which], self.first[which])


def _header_line(content: Text) -> tuple[int, int, list[bytes]]:
    """Number, following byte and fields of the first line that is neither empty nor a comment."""
    offset, number, stop = 0, 0, len(content)
    while offset < stop:
        end = content.find(b"\n", offset)
        end = stop if end < 0 else end
        number += 1
        text = content[offset:end].strip()
        offset = end + 1
        if text and not text.startswith(b"%"):
            return number, min(offset, stop), text.split()
    return number, stop, []


def sniff(head: bytes, name: str) -> int:
    """By its name: the content looks like other lines of integers."""
    if not name.endswith(_SUFFIXES) or b"\0" in head or head.lstrip()[:14].lower() == b"%%matrixmarket":
        return NO
    fields = _header_line(head)[2]
    fits = 2 <= len(fields) <= 4 and all(parse_integer(f) is not None for f in fields)
    return LIKELY + 10 if fits else POSSIBLE


@reader("metis", title="METIS graph", suffixes=_SUFFIXES, sniff=sniff)
def parse(data: Input, options: ReadOptions, progress: Progress) -> RawEntries:
    """Entries as stored, in both directions where the file has both. Vertex weights and sizes are skipped."""
    data = with_line_feeds(data)
    if options.base == 0:
        raise data.error("METIS graphs are 1-based by definition", remedy="omit --base 0")
    header = _header(data)
    n = header.vertices
    findings: list[Finding] = []
    skip = header.vertex_weights
    if header.hundreds and _has_sizes(data, header):
        skip += 1
    elif header.hundreds:
        findings.append(Finding("FMT 100: loops and multiple edges allowed, no vertex sizes", header.line))
    if skip:
        findings.append(Finding(f"{skip} weights or sizes of each vertex are skipped", header.line))
    degrees: list[Ints] = []
    cols: list[Ids] = []
    weights: list[npt.NDArray[np.float64]] = []
    seen, end = 0, len(data.data)
    for a, b in blocks(data.data, header.begin, end):
        progress("reading neighbours", (a - header.begin) / (end - header.begin))
        block = Block(data, a, b)
        lines = _vertex_lines(block)
        if seen + len(lines.count) > n:
            lines = _cut(block, lines, n - seen, header)
        length, neighbour, weight = _neighbours(block, lines, skip, header)
        seen += len(length)
        degrees.append(length)
        cols.append(neighbour)
        if weight is not None:
            weights.append(weight)
    progress("reading neighbours", 1.0)
    entries = sum(len(c) for c in cols)
    degree = np.concatenate([*degrees, np.zeros(n - seen, np.int64)])
    ends = np.cumsum(degree)
    row: Ids = np.repeat(np.arange(n, dtype=np.int32), degree)
    col: Ids = np.concatenate([np.empty(0, np.int32), *cols])
    values = np.concatenate(weights) if weights else None
    _check_count(data, header, row, col, values, n - seen, findings)
    if not entries:
        raise no_edges(data)
    original = None
    if options.relabel:
        row, col, original = close_gaps(row, col)
        n = len(original)
        original += 1

    def line_of(entry: int) -> int | None:
        return _line_of_vertex(data, header, int(np.searchsorted(ends, entry, side="right")))

    return RawEntries(
        n,
        n,
        row,
        col,
        values,
        "metis",
        base=1,
        relabelled=options.relabel,
        original_ids=original,
        findings=tuple(findings),
        line_of=line_of,
    )


def _header(data: Input) -> _Header:
    line, begin, fields = _header_line(data.data)
    values = [parse_integer(f) for f in fields]
    if not 2 <= len(fields) <= 4 or any(v is None or v < 0 for v in values):
        text = shorten(b" ".join(fields)) if fields else "nothing"
        raise data.error(
            f"expected the header 'VERTICES EDGES [FMT [NCON]]', found {text}",
            line=line,
            remedy="write that line; for a file of another kind: another --input-format, such as edge-list",
        )
    vertices, edges, *more = (v for v in values if v is not None)
    digits = fields[2].decode().zfill(3) if more else "000"
    if len(digits) > 3 or not set(digits) <= set("01"):
        raise data.error(
            f"FMT {shorten(fields[2])} is not made of up to three digits 0 or 1",
            line=line,
            remedy="the digits say: vertex sizes, vertex weights, edge weights",
        )
    if vertices > MAX_VERTICES:
        raise data.error(
            f"{vertices:,} vertices: more than {MAX_VERTICES:,} have no 32-bit index",
            line=line,
            remedy="correct the number, or split the graph",
        )
    require_memory(24 * vertices, f"a graph of {vertices:,} vertices", data.place)
    constraints = more[1] if len(more) > 1 else 1
    return _Header(
        line, begin, vertices, edges, digits[0] == "1", constraints if digits[1] == "1" else 0, digits[2] == "1"
    )


def _vertex_lines(block: Block) -> _Lines:
    """All lines of `block` but comments."""
    count = block.per_line()
    lines = _Lines(np.arange(len(count)), count, np.cumsum(count) - count)
    if not (block.bytes == ord("%")).any():
        return lines
    keep = count == 0
    keep[~keep] = block.first_bytes(lines.first[~keep]) != ord("%")
    return lines.part(keep)


def _cut(block: Block, lines: _Lines, wanted: int, header: _Header) -> _Lines:
    """The first `wanted` lines; those behind must be empty."""
    extra = np.flatnonzero(lines.count[wanted:])
    if len(extra):
        raise block.error(
            int(lines.first[wanted + extra[0]]),
            f"more lines than the {header.vertices:,} vertices that line {header.line} promises",
            "correct that number, or delete the further lines",
        )
    return lines.part(slice(0, wanted))


def _has_sizes(data: Input, header: _Header) -> bool:
    """Whether each line begins with a vertex size: only then the tokens add up to 2 M entries."""
    tokens, lines = 0, 0
    for a, b in blocks(data.data, header.begin, len(data.data)):
        count = _vertex_lines(Block(data, a, b)).count
        tokens, lines = tokens + int(count.sum()), lines + int(np.count_nonzero(count))
    per_entry = 2 if header.edge_weights else 1
    lists = tokens - lines * header.vertex_weights
    return lists - lines == 2 * header.edges * per_entry and lines == header.vertices


def _neighbours(
    block: Block, lines: _Lines, skip: int, header: _Header
) -> tuple[Ints, Ids, npt.NDArray[np.float64] | None]:
    """Entries per line, 0-based neighbours, weights."""
    per_entry = 2 if header.edge_weights else 1
    length = lines.count - skip
    wrong = (length < 0) | (length % per_entry != 0)
    if wrong.any():
        odd = int(np.argmax(wrong))
        _neighbours(block, lines.part(slice(0, odd)), skip, header)  # an error further up comes first
        parts = [f"{skip} weights or sizes of the vertex"] * (skip > 0)
        parts.append("pairs of neighbour and weight" if header.edge_weights else "neighbours")
        raise block.line_error(
            int(lines.line[odd]),
            f"{lines.count[odd]:,} numbers; the header (line {header.line}) asks for {' and '.join(parts)}",
            "correct the line, or FMT in the header",
        )
    # The tokens of all lists, in order: each line's range, side by side.
    before = np.cumsum(length) - length
    token = np.arange(int(length.sum())) + np.repeat(lines.first + skip - before, length)
    vertex = token[::per_entry]
    col, good = block.integers(vertex)
    good &= (col >= 1) & (col <= header.vertices)
    weight, fine = block.numbers(token[1::2]) if header.edge_weights else (None, good)
    if not (good.all() and fine.all()):
        entry = int(np.argmin(good & fine))
        if good[entry]:
            place, cause = int(token[2 * entry + 1]), "edge weight {} is not a number"
        else:
            place, cause = int(vertex[entry]), f"neighbour {{}} is not in 1..{header.vertices:,}"
        remedy = f"correct it, or the header in line {header.line}"
        raise block.error(place, cause.format(shorten(block.token(place))), remedy)
    return length // per_entry, (col - 1).astype(np.int32), weight


def _check_count(
    data: Input,
    header: _Header,
    row: Ids,
    col: Ids,
    values: npt.NDArray[np.float64] | None,
    missing: int,
    findings: list[Finding],
) -> None:
    """The number of entries must be 2 M (loops may be listed once), or M where M counts entries."""
    entries, loops = len(row), int(np.count_nonzero(row == col))
    if entries not in (header.edges, 2 * header.edges, 2 * header.edges - loops):
        ends = f", and it ends {missing:,} vertices early" if missing else ""
        raise data.error(
            f"{header.edges:,} edges promised, {entries:,} entries found, not twice as many{ends}",
            line=header.line,
            remedy="the file seems cut short: fetch it again, or correct the header",
        )
    if missing:
        text = f"the file ends {missing:,} vertices early: they have no neighbours"
        findings.append(Finding(text, count=missing))
    mirrored = is_mirrored(row, col, values)
    if entries == header.edges and entries:
        kind = "each edge listed by both ends" if mirrored else "directed"
        findings.append(Finding(f"the header counts entries, not edges: {kind}, as stored", header.line))
    elif not mirrored:
        findings.append(Finding("some edges are listed by one end only: directed, as stored", header.line))


def _line_of_vertex(data: Input, header: _Header, vertex: int) -> int | None:
    for a, b in blocks(data.data, header.begin, len(data.data)):
        block = Block(data, a, b)
        line = _vertex_lines(block).line
        if vertex < len(line):
            return block.line_number(int(line[vertex]))
        vertex -= len(line)
    return None
