"""The protocol of readers: what one gets, what it produces, what a user may ask of reading.

A reader is one module of this package with one decorated function::

    def sniff(head: bytes, name: str) -> int:
        return CERTAIN if head.startswith(b"%%MatrixMarket") else NO

    @reader("matrix-market", title="Matrix Market", suffixes=(".mtx",), sniff=sniff)
    def parse(data: Input, options: ReadOptions, progress: Progress) -> RawEntries: ...

It is found automatically: no list names it.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from spgraph_bench.errors import InputError
from spgraph_bench.matrix import Duplicates, Finding, Symmetry
from spgraph_bench.memory import available_memory, require_memory
from spgraph_bench.registry import Registry

__all__ = [
    "CERTAIN",
    "LIKELY",
    "NO",
    "POSSIBLE",
    "Input",
    "Progress",
    "RawEntries",
    "ReadOptions",
    "Reader",
    "available_memory",
    "is_archive",
    "line_number",
    "reader",
    "readers",
    "require_memory",
    "whole",
    "without_false",
]

Progress = Callable[[str, float | None], None]
"""Called with what is being done and the fraction done (None: not known). Readers never print."""

NO: Final = 0
"""Sniff score: cannot be this format."""
POSSIBLE: Final = 10
"""The content fits, but it fits others too (a line of two numbers)."""
LIKELY: Final = 50
"""The content fits and the suffix says so."""
CERTAIN: Final = 100
"""The content says it itself (a banner, a magic number)."""


@dataclass(frozen=True)
class Input:
    """The bytes of one input, decompressed, in memory or mapped.

    `data` has ``find``, ``len``, slices (which are bytes) and the buffer protocol
    (``np.frombuffer(data, np.uint8)``), be it bytes or a mapped file; it is never empty.
    """

    data: bytes | mmap.mmap
    name: str
    """File name without folder and compression suffix: "west0067.mtx"; "stdin" for standard input."""
    place: str
    """What messages call it: the path as given, or "<stdin>"."""
    path: str | None = None
    """A file on disk that holds exactly these bytes, where there is one."""

    @property
    def suffix(self) -> str:
        """The name's last suffix in lower case, with its dot: ".mtx"."""
        return os.path.splitext(self.name)[1].lower()

    def head(self, size: int = 65536) -> bytes:
        """The first `size` bytes."""
        return self.data[:size]

    def error(self, cause: str, *, line: int | None = None, remedy: str | None = None) -> InputError:
        """An error at this input (and at 1-based `line`), to be raised by the caller."""
        return InputError(cause, remedy=remedy, place=f"{self.place}:{line}" if line else self.place)


@dataclass(frozen=True)
class ReadOptions:
    """How a file is to be read; None means: find out."""

    input_format: str | None = None
    """A name from the list of readers; None: by content and suffix."""
    base: Literal[0, 1] | None = None
    symmetrize: bool = False
    """Add the transpose of every entry (the diagonal once, an entry whose mirror is stored too once)."""
    duplicates: Duplicates | None = None
    """What entries at the same place become; None: as `parallel` says."""
    parallel: Literal["sum", "min"] = "sum"
    """The same where nothing was asked for: what the problem means by parallel edges."""
    drop_zeros: bool = False
    values: Literal["file", "ones", "random", "integers"] = "file"
    seed: int = 1
    relabel: bool = False
    """Close gaps in vertex ids; ids that are not numbers are taken for names."""
    weight_column: int | None = None
    """The column of an edge list that holds weights, counted from 1; 0: none does. None: the third, unless
    it holds times."""
    bipartite: bool = False
    """Take rows and columns as the two sides of an undirected graph: rows first, then columns."""
    part: Literal["real", "imag", "abs"] | None = None
    """Which part of complex values to take; complex input is refused without it."""


@dataclass
class RawEntries:
    """Entries as a file holds them, 0-based, unsorted, not yet mirrored or merged."""

    rows: int
    cols: int
    row: npt.NDArray[np.integer[Any]]
    """Row of each entry, int32 or int64 [entries], 0-based."""
    col: npt.NDArray[np.integer[Any]]
    values: npt.NDArray[np.floating[Any]] | npt.NDArray[np.complexfloating[Any, Any]] | None
    """None for patterns."""
    format: str
    """Name of the reader, kept in the matrix's source: "matrix-market", "edge-list", ..."""
    symmetry: Symmetry = "general"
    """Unless "general", an entry stands for its mirror too; where both are stored, they must agree."""
    undirected: bool = False
    """The entries are edges of an undirected graph: either way of writing one is as good as the other."""
    base: Literal[0, 1] | None = None
    base_from: Literal["format", "found", "option"] = "format"
    has_columns: bool = False
    """The file is an edge list, whose columns ``weight_column`` chooses from."""
    relabelled: bool = False
    original_ids: npt.NDArray[np.int64] | None = None
    """If relabelled and not named: the id that vertex i has in the file, int64 [rows], rising."""
    names: Sequence[str] | None = None
    """The name that vertex i has in the file [rows], where vertices have names."""
    findings: tuple[Finding, ...] = ()
    line_of: Callable[[int], int | None] = lambda entry: None
    """The input line of entry i (slow; only for messages)."""


@dataclass(frozen=True)
class Reader:
    """One input format. See :func:`reader` for the fields."""

    name: str
    title: str
    suffixes: tuple[str, ...]
    sniff: Callable[[bytes, str], int]
    parse: Callable[[Input, ReadOptions, Progress], RawEntries]
    binary: bool = False
    """Not text: what reading takes is for the parser to say."""


_READERS: Registry[str, Reader] = Registry("reader", "spgraph_bench.readers")

Parse = Callable[[Input, ReadOptions, Progress], RawEntries]


def reader(
    name: str, *, title: str, suffixes: tuple[str, ...], sniff: Callable[[bytes, str], int], binary: bool = False
) -> Callable[[Parse], Parse]:
    """Register the decorated function as the parser of a format and return it unchanged.

    Parameters
    ----------
    name : what ``--input-format`` and a matrix's source call it: "matrix-market".
    title : what people call it: "Matrix Market".
    suffixes : usual suffixes, lower case with the dot; for lists and messages only.
    sniff : ``sniff(head, name)`` scores the first 64 KiB of the decompressed content and the file name
        (lower case, without compression suffix) from :data:`NO` to :data:`CERTAIN`; the highest score wins.
    binary : the format is not text.

    The parser raises InputError (best by ``data.error``) for anything wrong in the input, calls progress at
    least every half second or so, and leaves mirroring, merging and values to ``assemble``. ValueError at
    import if the name is taken.
    """

    def enter(parse: Parse) -> Parse:
        _READERS.enter(name, Reader(name, title, suffixes, sniff, parse, binary))
        return parse

    return enter


def readers() -> dict[str, Reader]:
    """All readers by name, in the order of their names."""
    return dict(sorted(_READERS.entries().items()))


def line_number(data: bytes | mmap.mmap, offset: int) -> int:
    """The 1-based number of the line that holds byte `offset`."""
    step = 1 << 24
    return 1 + sum(data[begin : min(begin + step, offset)].count(b"\n") for begin in range(0, offset, step))


def is_archive(head: bytes) -> bool:
    """Whether content that begins with `head` is a tar or zip file of other files (npz holds arrays)."""
    return head[257:262] == b"ustar" or (head.startswith((b"PK\3\4", b"PK\5\6")) and b".npy" not in head[:512])


def without_false(
    row: npt.NDArray[Any], col: npt.NDArray[Any], values: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[Any], npt.NDArray[Any], tuple[Finding, ...]]:
    """Row and column of the entries that are true: a pattern has no others."""
    count = len(values) - int(np.count_nonzero(values))
    if not count:
        return row, col, ()
    return row[values], col[values], (Finding("stored values that are false: no entries", count=count),)


def whole(units: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """1 to 255 out of [0, 1), each for an equal part of it: weights as graph benchmarks have them."""
    numbers: npt.NDArray[np.float64] = np.floor(units * 255.0)
    numbers += 1.0
    return numbers
