"""DIMACS shortest-path graphs (``.gr``, ninth DIMACS challenge): directed, weighted, 1-based.

``c`` lines are comments; ``p sp N M`` comes before M lines ``a U V WEIGHT``
(diag.uniroma1.it/challenge9/format.shtml).
"""

from __future__ import annotations

import bisect

import numpy as np
import numpy.typing as npt

from spgraph_bench.errors import InputError
from spgraph_bench.readers.common import (
    CERTAIN,
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
from spgraph_bench.readers.edge_table import MAX_VERTICES, Ids, close_gaps, no_edges
from spgraph_bench.readers.tokens import Block, Ints, Text, blocks, parse_integer, shorten, with_line_feeds

__all__ = ["sniff"]


def _problem_line(content: Text) -> tuple[int, int, list[bytes]]:
    """Number, following byte and fields of the first line that is neither empty nor a comment."""
    at, number, stop = 0, 0, len(content)
    while at < stop:
        end = content.find(b"\n", at)
        end = stop if end < 0 else end
        number += 1
        fields = content[at:end].split()
        at = end + 1
        if fields and not fields[0].startswith(b"c"):
            return number, min(at, stop), fields
    return number, stop, []


def sniff(head: bytes, name: str) -> int:
    """A line "p sp ..." behind comments."""
    fields = _problem_line(head)[2]
    if fields[:2] == [b"p", b"sp"]:
        return CERTAIN
    if fields[:1] == [b"p"] and len(fields) == 4:
        return LIKELY  # another DIMACS problem: the parser says which
    return POSSIBLE if name.endswith(".gr") and b"\0" not in head else NO


@reader("dimacs", title="DIMACS shortest paths", suffixes=(".gr",), sniff=sniff)
def parse(data: Input, options: ReadOptions, progress: Progress) -> RawEntries:
    """Arcs as stored. There must be as many as promised, with ids in 1..N."""
    data = with_line_feeds(data)
    if options.base == 0:
        raise data.error("DIMACS graphs are 1-based by definition", remedy="leave --base 0 away")
    number, begin, fields = _problem_line(data.data)
    vertices, promised = _sizes(data, number, fields)
    parts: list[tuple[Ids, Ids, npt.NDArray[np.float64]]] = []
    places: list[tuple[int, int, int]] = []  # first arc, first and last byte of each block
    arcs, end = 0, len(data.data)
    for a, b in blocks(data.data, begin, end):
        progress("reading arcs", (a - begin) / (end - begin))
        block = Block(data, a, b)
        first = _arc_lines(block, vertices)
        parts.append(_arcs(block, first, vertices))
        if arcs + len(first) > promised:
            raise block.error(
                int(first[promised - arcs]),
                f"more arcs than the {promised:,} that line {number} promises",
                "correct that number, or delete the further arcs",
            )
        if len(first):
            places.append((arcs, a, b))
        arcs += len(first)
    progress("reading arcs", 1.0)
    if arcs < promised:
        raise data.error(
            f"{promised:,} arcs are promised, the file holds {arcs:,}",
            line=number,
            remedy="the file seems cut short: fetch it again, or correct the number",
        )
    if not arcs:
        raise no_edges(data)

    def line_of(arc: int) -> int:
        before, a, b = places[bisect.bisect_right(places, arc, key=lambda place: place[0]) - 1]
        block = Block(data, a, b)
        return block.line(int(_arc_lines(block, MAX_VERTICES)[arc - before]))

    row, col, weights = (np.concatenate(column) for column in zip(*parts, strict=True))
    original = None
    if options.relabel:
        row, col, original = close_gaps(row, col)
        vertices = len(original)
        original += 1
    require_memory(8 * vertices, f"a graph of {vertices:,} vertices", data.place)
    return RawEntries(
        vertices,
        vertices,
        row,
        col,
        weights,
        "dimacs",
        base=1,
        relabelled=options.relabel,
        original_ids=original,
        line_of=line_of,
    )


def _sizes(data: Input, line: int, fields: list[bytes]) -> tuple[int, int]:
    """N and M of the line "p sp N M"."""
    if fields[:1] == [b"p"] and fields[1:2] != [b"sp"]:
        kind = shorten(b"".join(fields[1:2]))
        raise data.error(
            f"a DIMACS problem of kind {kind}, not a shortest-path graph (p sp N M)",
            line=line,
            remedy="convert it to an edge list",
        )
    sizes = [parse_integer(f) for f in fields[2:]]
    if fields[:1] != [b"p"] or len(sizes) != 2 or any(s is None or s < 0 for s in sizes):
        found = shorten(b" ".join(fields)) if fields else "nothing"
        raise data.error(
            f"expected 'p sp VERTICES ARCS', found {found}",
            line=line,
            remedy="give --input-format if this is no DIMACS graph",
        )
    vertices, arcs = (s for s in sizes if s is not None)
    if vertices > MAX_VERTICES:
        raise data.error(
            f"{vertices:,} vertices: more than {MAX_VERTICES:,} have no 32-bit index",
            line=line,
            remedy="correct the number, or split the graph",
        )
    return vertices, arcs


def _arc_lines(block: Block, vertices: int) -> Ints:
    """The first token of each arc line of `block`; comments are left out, anything else is an InputError."""
    first: Ints
    if block.is_table(4):
        first = np.arange(0, len(block), 4)
        counts = np.full(len(first), 4)
    else:
        counts = block.per_line()
        first = np.cumsum(counts) - counts
        first, counts = first[counts > 0], counts[counts > 0]
    kind = block.first_bytes(first)
    arc = kind != ord("c")
    first, counts, kind = first[arc], counts[arc], kind[arc]
    wrong = (counts != 4) | (kind != ord("a")) | (block.end[first] - block.start[first] != 1)
    if not wrong.any():
        return first
    line = int(np.argmax(wrong))
    at, count = int(first[line]), int(counts[line])
    _arcs(block, first[:line], vertices)  # a fault further up comes first
    if block.token(at) == b"a":
        raise block.error(
            at, f"an arc has three numbers (a U V WEIGHT), this one has {count - 1}", "correct the line"
        )
    what = f"a line that begins with {shorten(block.token(at))}"
    raise block.error(at, f"{what} among the arcs (a U V WEIGHT)", "correct or delete the line")


def _arcs(block: Block, first: Ints, vertices: int) -> tuple[Ids, Ids, npt.NDArray[np.float64]]:
    """0-based ends and weights of the arcs whose lines begin at the tokens `first`."""
    (u, good_u), (v, good_v) = block.integers(first + 1), block.integers(first + 2)
    w, good_w = block.numbers(first + 3)
    good_u &= (u >= 1) & (u <= vertices)
    good_v &= (v >= 1) & (v <= vertices)
    if not (good_u.all() and good_v.all() and good_w.all()):
        arc = int(np.argmin(good_u & good_v & good_w))
        column = 1 if not good_u[arc] else 2 if not good_v[arc] else 3
        raise _bad_token(block, int(first[arc]) + column, column, vertices)
    return (u - 1).astype(np.int32), (v - 1).astype(np.int32), w


def _bad_token(block: Block, token: int, column: int, vertices: int) -> InputError:
    text = block.token(token)
    if column == 3:
        return block.error(token, f"weight {shorten(text)} is no number", "correct it")
    if parse_integer(text) is None:
        return block.error(token, f"vertex {shorten(text)} is no integer", f"vertices are 1 to {vertices:,}")
    return block.error(
        token,
        f"vertex {shorten(text)} is not in 1..{vertices:,}",
        "correct it, or the number of vertices in the p line",
    )
