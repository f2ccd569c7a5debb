"""Pajek networks (``.net``): vertices with names, directed ("arcs") and undirected edges, as lines, lists or a matrix.

``*Vertices N`` comes before lines ``number "name" ...``; then ``*Arcs`` (directed) and ``*Edges``
(undirected) with lines ``u v [weight ...]``, ``*Arcslist`` and ``*Edgeslist`` with lines ``u v1 v2 ...``, and
``*Matrix``, row by row (Pajek manual, "Network"; vertices count from 1). Where edges are beside arcs, they
go both ways. What follows the weight, and other sections (partitions, vectors), is omitted.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator

import numpy as np

from spgraph_bench.matrix import Finding
from spgraph_bench.readers.common import CERTAIN, NO, Input, Progress, RawEntries, ReadOptions, reader, require_memory
from spgraph_bench.readers.edge_table import MAX_VERTICES, no_edges
from spgraph_bench.readers.tokens import parse_integer, parse_number, shorten, with_line_feeds

__all__ = ["sniff"]

NAME = "pajek"
_SECTION = re.compile(rb"\*\s*([A-Za-z]+)")
_VERTEX = re.compile(rb'([0-9]{1,10})(?:\s+(?:"([^"]*)"|(\S+)))?')
_FIRST = re.compile(rb"\s*(?:%[^\n]*\n\s*)*\*\s*(network|vertices|arcs|edges|matrix)", re.IGNORECASE)
_LINKS = ("arcs", "edges", "arcslist", "edgeslist", "matrix")


def sniff(head: bytes, name: str) -> int:
    """The first line that is not a comment is a section's."""
    return CERTAIN if _FIRST.match(head) else NO


def _lines(data: Input) -> Iterator[tuple[int, bytes]]:
    """(1-based number, content) of the lines that are neither empty nor comments."""
    offset, number, size = 0, 0, len(data.data)
    while offset < size:
        end = data.data.find(b"\n", offset)
        end = size if end < 0 else end
        line, number, offset = data.data[offset:end].strip(), number + 1, end + 1
        if line and not line.startswith(b"%"):
            yield number, line


class _Network:
    """What has been read so far."""

    def __init__(self, data: Input) -> None:
        self.data = data
        self.vertices = 0
        self.names: dict[int, str] = {}
        self.u, self.v, self.w, self.line = array("i"), array("i"), array("d"), array("q")
        self.directed = bytearray()
        self.weighted = False
        self.relations = 0
        self.skipped: list[str] = []
        self.matrix_row = 0
        self.columns = 0

    def vertex(self, word: bytes, number: int) -> int:
        vertex = parse_integer(word)
        if vertex is None:
            raise self.data.error(
                f"vertex {shorten(word)} is not an integer", line=number, remedy="vertices are called 1, 2, 3, ..."
            )
        if not 1 <= vertex <= self.vertices:
            raise self.data.error(
                f"vertex {shorten(word)} is not in 1..{self.vertices:,}",
                line=number,
                remedy="correct it, or the number behind *Vertices",
            )
        return vertex - 1

    def link(self, u: int, v: int, w: float, number: int, directed: bool) -> None:
        self.u.append(u)
        self.v.append(v)
        self.w.append(w)
        self.line.append(number)
        self.directed.append(directed)

    def sized(self, line: bytes, number: int) -> None:
        words = line.split()[1:]
        sizes = [parse_integer(word) for word in words]
        if not 1 <= len(words) <= 2 or any(s is None or s < 0 for s in sizes):
            raise self.data.error(
                f"{shorten(line)} is not '*Vertices N'", line=number, remedy="write how many vertices there are"
            )
        self.vertices = sizes[0] or 0
        if self.vertices > MAX_VERTICES:
            raise self.data.error(
                f"{self.vertices:,} vertices: more than {MAX_VERTICES:,} have no 32-bit index",
                line=number,
                remedy="correct the number, or split the graph",
            )
        require_memory(32 * self.vertices, f"a graph of {self.vertices:,} vertices", self.data.place)

    def named(self, line: bytes, number: int) -> None:
        match = _VERTEX.match(line)
        if match is None:
            raise self.data.error(f"{shorten(line)} is not 'number \"name\"'", line=number, remedy="correct the line")
        vertex = self.vertex(match[1], number)
        name = match[2] if match[2] is not None else match[3]
        if name is not None:
            self.names[vertex] = name.decode("utf-8", "replace")

    def linked(self, section: str, line: bytes, number: int) -> None:
        words = line.split()
        if section == "matrix":
            self.row(words, number)
            return
        if len(words) < 2:
            raise self.data.error(
                f"one vertex ({shorten(words[0])}) where a line needs two", line=number, remedy="correct the line"
            )
        directed = section.startswith("arcs")
        u = self.vertex(words[0], number)
        if section.endswith("list"):
            for word in words[1:]:
                self.link(u, self.vertex(word, number), 1.0, number, directed)
            return
        weight = 1.0
        if len(words) > 2:
            value = parse_number(words[2])
            if value is not None:
                weight, self.weighted = value, True
            elif not (words[2][:1].isalpha() or words[2][:1] in b'["'):  # else the name of an attribute
                raise self.data.error(
                    f"weight {shorten(words[2])} is not a number", line=number, remedy="correct it or omit it"
                )
        self.link(u, self.vertex(words[1], number), weight, number, directed)

    def row(self, words: list[bytes], number: int) -> None:
        values = [parse_number(word) for word in words]
        if any(value is None for value in values):
            raise self.data.error("a value that is not a number", line=number, remedy="correct the line")
        if self.matrix_row >= self.vertices or len(words) != self.vertices:
            raise self.data.error(
                f"{len(words)} values in row {self.matrix_row + 1} of a matrix of {self.vertices} vertices",
                line=number,
                remedy="one line for each vertex, with a value for each",
            )
        for v, value in enumerate(values):
            if value:
                self.link(self.matrix_row, v, value, number, True)
                self.weighted = self.weighted or value != 1
        self.matrix_row += 1


@reader(NAME, title="Pajek network", suffixes=(".net", ".paj"), sniff=sniff)
def parse(data: Input, options: ReadOptions, progress: Progress) -> RawEntries:
    """Arcs as directed, edges as undirected edges; names where the file has any."""
    data = with_line_feeds(data)
    network, section, seen = _Network(data), "", 0
    for number, line in _lines(data):
        seen += len(line) + 1
        if number % 65536 == 0:
            progress("reading lines", seen / len(data.data))
        if match := _SECTION.match(line):
            section = match[1].decode().lower()
            if section == "vertices":
                if network.vertices:
                    network.skipped.append("further networks")
                    break
                network.sized(line, number)
            elif section in _LINKS:
                network.relations += 1
            elif section != "network":
                network.skipped.append(f"*{section}")
        elif section == "vertices":
            network.named(line, number)
        elif section in _LINKS:
            network.linked(section, line, number)
        elif section in ("", "network"):
            raise data.error(
                f"{shorten(line)} before *Vertices",
                line=number,
                remedy="write '*Vertices N' first, or choose another --input-format",
            )
    return _entries(data, network)


def _entries(data: Input, network: _Network) -> RawEntries:
    if not network.u:
        raise no_edges(data)
    u, v = np.array(network.u, np.int32), np.array(network.v, np.int32)
    line = np.array(network.line)
    values = np.array(network.w) if network.weighted else None
    directed = np.frombuffer(bytes(network.directed), np.bool_)
    findings = []
    if network.skipped:
        findings.append(Finding(f"skipped: {', '.join(dict.fromkeys(network.skipped))[:100]}"))
    if network.relations > 1:
        findings.append(Finding(f"{network.relations} sections of arcs and edges are joined"))
    undirected = not directed.any()
    if not undirected and not directed.all():
        back = np.flatnonzero(~directed & (u != v))
        u, v = np.concatenate([u, v[back]]), np.concatenate([v, u[back]])
        line = np.concatenate([line, line[back]])
        values = None if values is None else np.concatenate([values, values[back]])
        findings.append(Finding("edges beside arcs go both ways", count=int(np.count_nonzero(~directed))))
    names = None
    if network.names:
        names = [network.names.get(k, str(k + 1)) for k in range(network.vertices)]
    n = network.vertices
    return RawEntries(
        n,
        n,
        u,
        v,
        values,
        NAME,
        symmetry="symmetric" if undirected else "general",
        undirected=undirected,
        base=1,
        names=names,
        findings=tuple(findings),
        line_of=lambda entry: int(line[entry]),
    )
