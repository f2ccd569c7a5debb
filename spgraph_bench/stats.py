"""Statistics of a matrix: everything that formats predict from and `spgraph info` shows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from spgraph_bench.matrix import CSR

__all__ = [
    "Lengths",
    "MatrixStats",
    "RowBlock",
    "diagonal_entries",
    "length_stats",
    "row_blocks",
    "row_ranges",
    "row_stats",
]

_CHUNK = 1 << 19
"""Entries worked on at a time: a few arrays of this many words stay in cache."""


@dataclass(frozen=True)
class MatrixStats:
    """What the row lengths alone say; cheap (one pass over row_ptr), so every run has it. More on demand."""

    rows: int
    cols: int
    nnz: int
    pattern: bool
    row_mean: float
    row_median: float
    row_max: int
    gini: float
    """Gini coefficient of the row lengths: 0 all equal, towards 1 a few rows hold everything."""
    lengths: npt.NDArray[np.int64]
    """Distinct row lengths, rising."""
    length_counts: npt.NDArray[np.int64]
    """How many rows have each."""
    csr: CSR | None = field(default=None, repr=False, compare=False)
    """The matrix itself, for what depends on the order of rows (SELL) or on columns (DIA)."""

    @property
    def density(self) -> float:
        """Stored entries over rows x columns; 0.0 for a matrix without places."""
        cells = self.rows * self.cols
        return self.nnz / cells if cells else 0.0


@dataclass(frozen=True)
class Lengths:
    """How many entries rows (or columns) hold; see MatrixStats for the fields."""

    mean: float
    median: float
    std: float
    max: int
    min: int
    empty: int
    gini: float
    lengths: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]


def length_stats(lengths: npt.NDArray[np.integer]) -> Lengths:
    """Statistics of the lengths of all rows (or columns)."""
    distinct, counts = np.unique(lengths, return_counts=True)
    distinct, counts = distinct.astype(np.int64), counts.astype(np.int64)
    rows = len(lengths)
    if rows == 0:
        return Lengths(0.0, 0.0, 0.0, 0, 0, 0, 0.0, distinct, counts)
    nnz = int(np.sum(distinct * counts))
    mean = nnz / rows
    variance = float(np.sum(counts * (distinct - mean) ** 2)) / rows
    below = np.cumsum(counts)
    low = distinct[np.searchsorted(below, (rows - 1) // 2, side="right")]
    high = distinct[np.searchsorted(below, rows // 2, side="right")]
    gini = 0.0
    if nnz:
        # Rows in rising order of length: G = (sum_i (2 i - n - 1) x_i) / (n sum x), i from 1; a run of equal
        # lengths from rank a + 1 to b contributes x * (b (b + 1) - a (a + 1) - (n + 1)(b - a)).
        b = below.astype(np.float64)
        a = b - counts
        weights = b * (b + 1) - a * (a + 1) - (rows + 1) * (b - a)
        gini = float(np.sum(distinct * weights)) / (rows * float(nnz))
    return Lengths(
        mean,
        float(low + high) / 2,
        variance**0.5,
        int(distinct[-1]),
        int(distinct[0]),
        int(counts[0]) if distinct[0] == 0 else 0,
        gini,
        distinct,
        counts,
    )


def row_stats(csr: CSR) -> MatrixStats:
    """Statistics of the row lengths of `csr`."""
    rows = length_stats(csr.row_lengths())
    return MatrixStats(
        csr.rows,
        csr.cols,
        csr.nnz,
        csr.values is None,
        rows.mean,
        rows.median,
        rows.max,
        rows.gini,
        rows.lengths,
        rows.counts,
        csr,
    )


def row_ptr_of(lengths: npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
    """Row offsets from row lengths, int64 [rows + 1]."""
    row_ptr = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=row_ptr[1:])
    return row_ptr


def row_ranges(row_ptr: npt.NDArray[np.int64], entries: int = _CHUNK, align: int = 1) -> Iterator[tuple[int, int]]:
    """Cut the rows into ranges ``first, last`` (exclusive), for work in chunks.

    A range has about `entries` entries and as many rows, or is one longer row; every row is in one range.
    Ranges start at multiples of `align`.
    """
    rows, nnz = len(row_ptr) - 1, int(row_ptr[-1])
    by_entries = np.searchsorted(row_ptr, np.arange(0, nnz, entries, dtype=np.int64))
    by_rows = np.arange(0, rows, entries, dtype=np.int64)
    starts = np.concatenate((by_entries, by_rows)) // align * align
    bounds = np.unique(np.append(starts[starts < rows], rows))
    if rows:
        yield from pairwise(int(bound) for bound in bounds)


@dataclass(frozen=True)
class RowBlock:
    """Rows ``[first, last)`` of a matrix and their entries."""

    first: int
    last: int
    row_ptr: npt.NDArray[np.int64]
    """The matrix's offsets, ``[last - first + 1]``."""
    entries: slice
    """Where the block's entries are in the matrix's arrays."""
    cols: npt.NDArray[np.int32]

    def row_ids(self) -> npt.NDArray[np.int64]:
        """The row of each entry."""
        return np.repeat(np.arange(self.first, self.last), np.diff(self.row_ptr))


def _rows(csr: CSR, first: int, last: int) -> RowBlock:
    inside = slice(int(csr.row_ptr[first]), int(csr.row_ptr[last]))
    return RowBlock(first, last, csr.row_ptr[first : last + 1], inside, csr.col_idx[inside])


def row_blocks(csr: CSR, entries: int = _CHUNK, align: int = 1) -> Iterator[RowBlock]:
    """The matrix in blocks of rows, as :func:`row_ranges` cuts it."""
    for first, last in row_ranges(csr.row_ptr, entries, align):
        yield _rows(csr, first, last)


def sample_blocks(csr: CSR, entries: int, pieces: int, align: int = 1) -> Iterator[RowBlock]:
    """About `entries` entries in `pieces` blocks of rows, spread evenly over the matrix, which has rows."""
    cut = list(row_ranges(csr.row_ptr, entries // pieces, align))
    for place in np.unique(np.linspace(0, len(cut) - 1, pieces).astype(np.int64)):
        yield _rows(csr, *cut[place])


def origins(rows: npt.NDArray[np.int64], group: int) -> npt.NDArray[np.int64]:
    """The first row of the group that each of `rows` is in; `group` rows make one, from row 0 on."""
    return rows if group == 1 else rows - rows % group


def diagonal_entries(csr: CSR) -> int:
    """How many entries are on the main diagonal (self-loops of a graph)."""
    return sum(int(np.count_nonzero(block.row_ids() == block.cols)) for block in row_blocks(csr))
