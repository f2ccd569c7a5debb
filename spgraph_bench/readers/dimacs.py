"""DIMACS graphs, 1-based: shortest paths (``.gr``), colouring and cliques (``.col``, ``.clq``).

``c`` lines are comments. ``p sp N M`` comes before M lines ``a U V WEIGHT``, directed (ninth DIMACS challenge,
diag.uniroma1.it/challenge9/format.shtml); ``p edge N M`` (or ``p col``) before M lines ``e U V``, undirected,
perhaps with a weight (second challenge, 1993). Lines about vertices (``n``) and others are skipped. Many a
colouring file lists each edge in both directions, or counts M so.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from spgraph_bench.errors import InputError
from spgraph_bench.matrix import Finding
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
from spgraph_bench.readers.edge_table import MAX_VERTICES, Ids, close_gaps, is_mirrored, no_edges
from spgraph_bench.readers.tokens import Block, Ints, Text, blocks, parse_integer, shorten, with_line_feeds

__all__ = ["sniff"]

_SUFFIXES = (".gr", ".col", ".clq", ".dimacs")
_EDGES = (b"edge", b"edges", b"col")


@dataclass(frozen=True)
class _Kind:
    """The form of a line of a directed or undirected edge."""

    letter: bytes
    word: str
    width: int
    """Fields, the letter among them: 4 with a weight."""
    skipped: bytes
    """Letters of lines that are skipped."""


_ARCS = _Kind(b"a", "arc", 4, b"c")


def _problem_line(content: Text) -> tuple[int, int, list[bytes]]:
    """Number, following byte and fields of the first line that is neither empty nor a comment."""
    offset, number, stop = 0, 0, len(content)
    while offset < stop:
        end = content.find(b"\n", offset)
        end = stop if end < 0 else end
        number += 1
        fields = content[offset:end].split()
        offset = end + 1
        if fields and not fields[0].startswith(b"c"):
            return number, min(offset, stop), fields
    return number, stop, []


def sniff(head: bytes, name: str) -> int:
    """A line "p sp ..." or "p edge ..." behind comments."""
    fields = _problem_line(head)[2]
    if fields[:1] == [b"p"] and b"".join(fields[1:2]) in (b"sp", *_EDGES):
        return CERTAIN
    if fields[:1] == [b"p"] and len(fields) == 4:
        return LIKELY  # another DIMACS problem: the parser says which
    return POSSIBLE if name.endswith(_SUFFIXES) and b"\0" not in head else NO


@reader("dimacs", title="DIMACS graph (shortest paths, colouring, cliques)", suffixes=_SUFFIXES, sniff=sniff)
def parse(data: Input, options: ReadOptions, progress: Progress) -> RawEntries:
    """Directed or undirected edges as stored. There must be as many as promised, with ids in 1..N."""
    data = with_line_feeds(data)
    if options.base == 0:
        raise data.error("DIMACS graphs are 1-based by definition", remedy="omit --base 0")
    number, begin, fields = _problem_line(data.data)
    vertices, promised = _sizes(data, number, fields)
    kind = _ARCS if fields[1] == b"sp" else _first_edge(data, begin)
    most = promised if kind is _ARCS else 2 * promised
    parts: list[tuple[Ids, Ids, npt.NDArray[np.float64] | None]] = []
    places: list[tuple[int, int, int]] = []  # first edge, first and last byte of each block
    arcs, end = 0, len(data.data)
    for a, b in blocks(data.data, begin, end):
        progress(f"reading {kind.word}s", (a - begin) / (end - begin))
        block = Block(data, a, b)
        first = _arc_lines(block, vertices, kind)
        parts.append(_arcs(block, first, vertices, kind))
        if arcs + len(first) > most:
            raise block.error(
                int(first[most - arcs]),
                f"more {kind.word}s than the {promised:,} that line {number} promises",
                "correct that number, or delete the further ones",
            )
        if len(first):
            places.append((arcs, a, b))
        arcs += len(first)
    progress(f"reading {kind.word}s", 1.0)
    if arcs < promised and not (kind is not _ARCS and 2 * arcs == promised):
        raise data.error(
            f"{promised:,} {kind.word}s are promised, the file holds {arcs:,}",
            line=number,
            remedy="the file seems cut short: fetch it again, or correct the number",
        )
    if not arcs:
        raise no_edges(data)

    def line_of(arc: int) -> int:
        before, a, b = places[bisect.bisect_right(places, arc, key=lambda place: place[0]) - 1]
        block = Block(data, a, b)
        return block.line(int(_arc_lines(block, MAX_VERTICES, kind)[arc - before]))

    row, col = (np.concatenate([part[k] for part in parts]) for k in (0, 1))
    given = [weights for _, _, weights in parts if weights is not None]
    weights = np.concatenate(given) if given else None
    findings = []
    if arcs != promised:
        findings.append(Finding(f"{promised:,} edges are promised, the file lists {arcs:,}", number))
    undirected = kind is not _ARCS and not is_mirrored(row, col, weights)
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
        symmetry="symmetric" if undirected else "general",
        undirected=undirected,
        base=1,
        relabelled=options.relabel,
        original_ids=original,
        findings=tuple(findings),
        line_of=line_of,
    )


def _sizes(data: Input, line: int, fields: list[bytes]) -> tuple[int, int]:
    """N and M of the line "p sp N M" or "p edge N M"."""
    if fields[:1] == [b"p"] and b"".join(fields[1:2]) not in (b"sp", *_EDGES):
        kind = shorten(b"".join(fields[1:2]))
        raise data.error(
            f"a DIMACS problem of kind {kind}, not a graph (p sp N M, or p edge N M)",
            line=line,
            remedy="convert it to an edge list",
        )
    sizes = [parse_integer(f) for f in fields[2:]]
    if fields[:1] != [b"p"] or len(sizes) != 2 or any(s is None or s < 0 for s in sizes):
        text = shorten(b" ".join(fields)) if fields else "nothing"
        raise data.error(
            f"expected 'p sp VERTICES ARCS' or 'p edge VERTICES EDGES', found {text}",
            line=line,
            remedy="write that line; if each line is an edge: --input-format edge-list",
        )
    vertices, arcs = (s for s in sizes if s is not None)
    if vertices > MAX_VERTICES:
        raise data.error(
            f"{vertices:,} vertices: more than {MAX_VERTICES:,} have no 32-bit index",
            line=line,
            remedy="correct the number, or split the graph",
        )
    return vertices, arcs


def _first_edge(data: Input, begin: int) -> _Kind:
    """What edges look like: as the first of them."""
    offset, size = begin, len(data.data)
    while offset < size:
        end = data.data.find(b"\n", offset)
        end = size if end < 0 else end
        fields = data.data[offset:end].split()
        if fields[:1] == [b"e"]:
            return _Kind(b"e", "edge", 4 if len(fields) == 4 else 3, b"cndvx")
        offset = end + 1
    return _Kind(b"e", "edge", 3, b"cndvx")


def _arc_lines(block: Block, vertices: int, how: _Kind) -> Ints:
    """The first token of each edge line of `block`; comments are skipped, anything else is an InputError."""
    first: Ints
    width = how.width
    if block.is_table(width):
        first = np.arange(0, len(block), width)
        counts = np.full(len(first), width)
    else:
        counts = block.per_line()
        first = np.cumsum(counts) - counts
        first, counts = first[counts > 0], counts[counts > 0]
    kind = block.first_bytes(first)
    arc = ~np.isin(kind, np.frombuffer(how.skipped, np.uint8))
    first, counts, kind = first[arc], counts[arc], kind[arc]
    wrong = (counts != width) | (kind != how.letter[0]) | (block.end[first] - block.start[first] != 1)
    if not wrong.any():
        return first
    line = int(np.argmax(wrong))
    token, count = int(first[line]), int(counts[line])
    _arcs(block, first[:line], vertices, how)  # an error further up comes first
    form = f"{how.letter.decode()} U V" + (" WEIGHT" if width == 4 else "")
    if block.token(token) == how.letter:
        numbers = "three numbers" if width == 4 else "two numbers"
        raise block.error(token, f"an {how.word} has {numbers} ({form}), this one has {count - 1}", "correct the line")
    what = f"a line that begins with {shorten(block.token(token))}"
    raise block.error(token, f"{what} among the {how.word}s ({form})", "correct or delete the line")


def _arcs(block: Block, first: Ints, vertices: int, how: _Kind) -> tuple[Ids, Ids, npt.NDArray[np.float64] | None]:
    """0-based ends and weights of the edges whose lines begin at the tokens `first`."""
    (u, good_u), (v, good_v) = block.integers(first + 1), block.integers(first + 2)
    w, good_w = block.numbers(first + 3) if how.width == 4 else (None, np.ones(len(first), bool))
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
        return block.error(token, f"weight {shorten(text)} is not a number", "correct it")
    if parse_integer(text) is None:
        return block.error(token, f"vertex {shorten(text)} is not an integer", f"vertices are 1 to {vertices:,}")
    return block.error(
        token,
        f"vertex {shorten(text)} is not in 1..{vertices:,}",
        "correct it, or the number of vertices in the p line",
    )
