"""What is in front of the edges of an edge list: headers of KONECT and SNAP, other comments, the first lines.

KONECT's header is ``% FORMAT WEIGHTS`` and ``% EDGES ROWS COLUMNS`` (konect.cc, "Handbook of Network
Analysis"): format sym (undirected), asym (directed) or bip (bipartite: two sets of ids, a rectangular matrix).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from spgraph_bench.readers.tokens import Text, parse_integer

__all__ = ["COMMENT", "FIELD", "DataLine", "Head", "has_banner", "scan_head"]

COMMENT = (b"#", b"%", b"//")
"""What comments begin with."""
FIELD = re.compile(rb"[^\s,;]+")
_KONECT = re.compile(rb"%\s*(sym|asym|bip|undirected|directed)\b\s*([a-z]*)", re.IGNORECASE)
_KONECT_SIZES = re.compile(rb"%\s*(\d{1,18})(?:\s+(\d{1,18}))?(?:\s+(\d{1,18}))?\s*")
_SNAP = re.compile(rb"#\s*(undirected|directed) graph", re.IGNORECASE)
_SNAP_NODES = re.compile(rb"#.*\bnodes:\s*(\d{1,18})\b", re.IGNORECASE)
_SNAP_EDGES = re.compile(rb"#.*\bedges:\s*(\d{1,18})\b", re.IGNORECASE)


@dataclass(frozen=True)
class DataLine:
    """A line that is neither empty nor a comment: 1-based number, first byte, fields."""

    number: int
    offset: int
    fields: list[bytes]

    def integers(self) -> list[int] | None:
        """The fields as non-negative integers, None if one is something else."""
        values = [parse_integer(f) for f in self.fields]
        return None if any(v is None or v < 0 for v in values) else [v for v in values if v is not None]


@dataclass
class Head:
    """What is in front of the edges, and the first data lines (at most three)."""

    lines: list[DataLine] = field(default_factory=list)
    directed: bool | None = None
    """What a header of KONECT or SNAP says."""
    konect: tuple[str, str] | None = None
    """KONECT's format and weights: ("sym", "unweighted")."""
    nodes: tuple[int, int] | None = None
    """Vertices that a header of SNAP promises, and its line."""
    edges: tuple[int, int] | None = None
    """Edges that a header promises, and its line."""
    sides: tuple[int, int] | None = None
    """KONECT's numbers of row and column vertices."""
    banner: bool = False
    """The first line is Matrix Market's."""

    def comment(self, text: bytes, number: int) -> None:
        """Take what comment `text` (line `number`, from 1) says about the graph."""
        if number == 1 and has_banner(text):
            self.banner, self.directed = True, False if text.lower().endswith(b" symmetric") else None
        elif match := _KONECT.match(text):
            kind, weights = match[1].decode().lower(), match[2].decode().lower()
            self.directed = kind in ("asym", "directed")
            if not kind.endswith("directed"):
                self.konect = (kind, weights)
        elif self.konect and self.edges is None and (match := _KONECT_SIZES.fullmatch(text)):
            self.edges = (int(match[1]), number)
            self.sides = (int(match[2] or 0), int(match[3] or match[2] or 0))
        elif match := _SNAP.match(text):
            self.directed = match[1].lower() == b"directed"
        else:
            if match := _SNAP_EDGES.match(text):
                self.edges = (int(match[1]), number)
            if match := _SNAP_NODES.match(text):
                self.nodes = (int(match[1]), number)


def scan_head(content: Text, stop: int, wanted: int = 3) -> Head:
    """The header comments and the first `wanted` data lines of ``content[:stop]``."""
    head, offset, number = Head(), 0, 0
    while offset < stop and len(head.lines) < wanted:
        end = content.find(b"\n", offset, stop)
        end = stop if end < 0 else end
        text, number = content[offset:end].strip(), number + 1
        if text.startswith(COMMENT):
            if not head.lines:
                head.comment(text[:1000], number)
        elif text:
            fields = FIELD.findall(text)
            for i, token in enumerate(fields):
                if token.startswith(COMMENT):
                    del fields[i:]
                    break
            head.lines.append(DataLine(number, offset, fields))
        offset = end + 1
    return head


def has_banner(head: bytes) -> bool:
    """Whether a text begins as Matrix Market's files do."""
    return head.lstrip()[:14].lower() == b"%%matrixmarket"
