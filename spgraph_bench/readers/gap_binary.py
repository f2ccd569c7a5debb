"""The binary graphs of the GAP Benchmark Suite: ``.sg`` and, with weights, ``.wsg``.

As GAP's converter writes them (github.com/sbeamer/gapbs, ``src/writer.h``), all little-endian: one byte that
says whether the graph is directed, the numbers of edges and of vertices as int64, ``vertices + 1`` offsets as
int64, then the neighbours as int32, each followed by its weight as int32 in a .wsg file. A directed graph has
the offsets and neighbours of its in-edges behind that. An undirected graph lists each edge at both ends.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from spgraph_bench.matrix import Finding
from spgraph_bench.readers.common import LIKELY, NO, Input, Progress, RawEntries, ReadOptions, reader, require_memory
from spgraph_bench.readers.edge_table import MAX_VERTICES, no_edges

__all__: list[str] = []

NAME = "gap-sg"
_HEAD = 17
_DAMAGED = "fetch the file again, or write it anew with GAP's converter"


def sniff(head: bytes, name: str) -> int:
    """By its name, and the first byte, which is 0 or 1."""
    return LIKELY + 10 if name.endswith((".sg", ".wsg")) and head[:1] in (b"\0", b"\1") else NO


@reader(NAME, title="GAP binary graph", suffixes=(".sg", ".wsg"), sniff=sniff)
def parse(data: Input, options: ReadOptions, progress: Progress) -> RawEntries:
    """The out-edges as stored; InputError where sizes, offsets or neighbours cannot be."""
    head = data.head(_HEAD)
    if len(head) < _HEAD or head[0] > 1:
        raise data.error("not a binary graph of GAP: its first 17 bytes are not its header", remedy=_DAMAGED)
    directed = head[0] == 1
    edges, vertices = (int(n) for n in np.frombuffer(head, "<i8", offset=1))
    sides = 2 if directed else 1
    sizes = {
        width: _HEAD + sides * (8 * (vertices + 1) + width * edges) for width in (4, 8)
    }  # Python's integers: no overflow
    size = len(data.data)
    if not (0 <= vertices <= MAX_VERTICES and edges >= 0) or size not in sizes.values():
        raise data.error(
            f"the header says {vertices:,} vertices and {edges:,} edges, which do not fit a file of {size:,} bytes",
            remedy=_DAMAGED,
        )
    if not edges:
        raise no_edges(data)
    weighted = size == sizes[8]
    require_memory(24 * edges + 16 * vertices, f"a graph of {edges:,} edges", data.place)
    progress("reading offsets", None)
    ptr = np.frombuffer(data.data, "<i8", vertices + 1, _HEAD).astype(np.int64)
    if ptr[0] != 0 or ptr[-1] != edges or (np.diff(ptr) < 0).any():
        place = int(np.argmax(np.diff(ptr) < 0)) if (np.diff(ptr) < 0).any() else 0 if ptr[0] else vertices
        raise data.error(f"offset {place} is {int(ptr[place])}: offsets rise from 0 to {edges:,}", remedy=_DAMAGED)
    progress("reading neighbours", None)
    words = np.frombuffer(data.data, "<i4", edges * (2 if weighted else 1), _HEAD + 8 * (vertices + 1))
    col: npt.NDArray[np.int32] = words[:: 2 if weighted else 1].astype(np.int32)
    wrong = (col < 0) | (col >= vertices)
    if wrong.any():
        place = int(np.argmax(wrong))
        raise data.error(
            f"neighbour {int(col[place])} (edge {place}) is not one of {vertices:,} vertices", remedy=_DAMAGED
        )
    values = words[1::2].astype(np.float64) if weighted else None
    row = np.repeat(np.arange(vertices, dtype=np.int32), np.diff(ptr))
    kind = "directed" if directed else "undirected, each edge listed at both ends"
    return RawEntries(vertices, vertices, row, col, values, NAME, base=0, findings=(Finding(kind),))
