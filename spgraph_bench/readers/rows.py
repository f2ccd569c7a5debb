"""Rows in the making: entries sorted by one counting pass, transposed, mirrored, symmetrized.

Most of the time of reading goes into moving entries to their rows, one by one, all over memory (a counting pass,
10 to 20 ns an entry: for many entries on all cores by `compiled`, else scipy's COO to CSR). So there is one such
pass at most, none for a file in row-major order; a triangle in either order is mirrored in that very pass.
Where a file has no order, a pass by column comes before it; or, by scipy, the rows are sorted after it, and
those with duplicates once more, stably: sums and "first" follow the file's order. (Where these are many, two
more passes are faster.) ``symmetrize`` takes one more pass, which transposes, and merges the rows of both.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from spgraph_bench.matrix import Finding
from spgraph_bench.readers import compiled

__all__ = ["Ints", "Order", "Rows", "Values", "by_row", "mirrored", "order_of", "repeats", "sorted_rows", "symmetrized"]

_SMALL_CHUNK = 1 << 16  # stays in cache

Ints = npt.NDArray[np.integer[Any]]
Values = npt.NDArray[Any]


@dataclass
class Rows:
    """CSR in the making: columns rise within rows, duplicates may be side by side."""

    ptr: npt.NDArray[np.int64]
    col: npt.NDArray[np.int32]
    values: Values | None

    def row_of(self, entries: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The row of each of `entries`, positions in `col`."""
        return np.searchsorted(self.ptr, entries, side="right") - 1

    def row_of_all(self) -> npt.NDArray[np.int32]:
        """The row of every entry, int32 ``[nnz]``."""
        return np.repeat(np.arange(len(self.ptr) - 1, dtype=np.int32), np.diff(self.ptr))

    def keys(self, begin: int, end: int, cols: int) -> npt.NDArray[np.int64]:
        """``(row - begin) * cols + col`` of each entry in the rows from `begin` to before `end`: rising."""
        row = np.repeat(np.arange(end - begin) * cols, np.diff(self.ptr[begin : end + 1]))
        return row + self.col[self.ptr[begin] : self.ptr[end]]

    def keep(self, mask: npt.NDArray[np.bool_]) -> Rows:
        """A copy with the entries where `mask` is True."""
        gone = np.flatnonzero(~mask)
        return Rows(
            self.ptr - np.searchsorted(gone, self.ptr),
            self.col[mask],
            None if self.values is None else self.values[mask],
        )


class Order(NamedTuple):
    """How the entries of an input follow each other."""

    by_row: bool
    """Rows never fall."""
    by_col: bool
    row_major: bool
    """Rows never fall, nor columns within a row."""
    col_major: bool
    distinct: bool
    """No entry has the place of the one before it."""

    @property
    def is_canonical(self) -> bool:
        """No duplicates, and one counting pass by row sorts the entries and their mirror images."""
        return self.distinct and (self.row_major or self.col_major)


def order_of(row: Ints, col: Ints) -> Order:
    """How entries with these rows and columns follow each other."""
    by_row = by_col = row_major = col_major = distinct = True
    for begin in range(0, len(row) - 1, _SMALL_CHUNK):
        r, c = row[begin : begin + _SMALL_CHUNK + 1], col[begin : begin + _SMALL_CHUNK + 1]
        row_falls, col_falls = r[1:] < r[:-1], c[1:] < c[:-1]
        by_row = by_row and not row_falls.any()
        by_col = by_col and not col_falls.any()
        if not (by_row or by_col):
            return Order(False, False, False, False, False)
        row_stays, col_stays = r[1:] == r[:-1], c[1:] == c[:-1]
        row_major = by_row and row_major and not (col_falls & row_stays).any()
        col_major = by_col and col_major and not (row_falls & col_stays).any()
        distinct = distinct and not (row_stays & col_stays).any()
    return Order(by_row, by_col, row_major, col_major, distinct)


def sorted_rows(rows: int, cols: int, row: Ints, col: Ints, values: Values | None, order: Order) -> Rows:
    """Entries in row-major order, equal ones in input order; no copies if they are so already."""
    if order.row_major:
        ends = np.flatnonzero(np.append(row[1:] != row[:-1], np.ones(min(1, len(row)), np.bool_))) + 1
        ptr = np.zeros(rows + 1, np.int64)
        ptr[row[ends - 1] + 1] = ends
        np.maximum.accumulate(ptr, out=ptr)  # empty rows end where the one before does
        contiguous = None if values is None else np.ascontiguousarray(values)
        return Rows(ptr, np.ascontiguousarray(col, np.int32), contiguous)
    by_col = order.by_col
    if not by_col and (passed := compiled.by_row(cols, col, row, values)) is not None:
        ptr, row, values = passed  # a second pass takes no longer than sorting the rows, and is stable
        col, by_col = np.repeat(np.arange(cols, dtype=np.int32), np.diff(ptr)), True
    out = by_row(rows, cols, row, col, values)
    if not by_col:
        csr = _as_scipy(out, cols)
        csr.has_sorted_indices = False
        csr.sort_indices()  # not stable
        out = _from_scipy(csr, values is not None)
    if by_col or values is None or not (same := repeats(out)).any():
        return out
    mixed = np.zeros(rows, np.bool_)
    mixed[out.row_of(np.flatnonzero(same))] = True
    entry = np.flatnonzero(mixed[row])
    if len(entry) < len(row) // 4:
        assert out.values is not None
        entry = entry[np.lexsort((col[entry], row[entry]))]  # stable
        out.values[np.repeat(mixed, np.diff(out.ptr))] = values[entry]
        return out
    del out, csr, same, entry
    return _from_scipy(_as_scipy(by_row(cols, rows, col, row, values), rows).T.tocsr(), True)


def by_row(rows: int, cols: int, row: Ints, col: Ints, values: Values | None, mirror: int = 0) -> Rows:
    """The entries by one stable counting pass; columns in input order, duplicates kept.

    `mirror`: 1 puts every entry off the diagonal of a square matrix once more behind all of them, as
    (col, row); -1 with its value negated.
    """
    import scipy.sparse as sp

    if (sorted_ := compiled.by_row(rows, row, col, values, mirror)) is not None:
        return Rows(*sorted_)
    if mirror:
        off = row != col
        if values is not None:
            values = np.concatenate([values, -values[off] if mirror < 0 else values[off]])
        row, col = np.concatenate([row, col[off]]), np.concatenate([col, row[off]])
    carried = np.zeros(len(row), np.int8) if values is None else values
    coo = sp.coo_array((carried, (row, col)), shape=(rows, cols))
    coo.has_canonical_format = True  # do not merge duplicates: they are counted here
    csr = coo.tocsr()
    csr.has_canonical_format = False  # which the CSR takes over, and with it that its rows are sorted
    csr.has_sorted_indices = False
    return _from_scipy(csr, values is not None)


def _as_scipy(rows: Rows, cols: int) -> Any:
    """A scipy CSR array of the same memory; zeros of a byte as values of a pattern."""
    import scipy.sparse as sp

    carried = np.zeros(len(rows.col), np.int8) if rows.values is None else rows.values
    return sp.csr_array((carried, rows.col, rows.ptr), shape=(len(rows.ptr) - 1, cols))


def _from_scipy(csr: Any, weighted: bool) -> Rows:
    ptr, col = csr.indptr.astype(np.int64, copy=False), csr.indices.astype(np.int32, copy=False)
    return Rows(ptr, col, csr.data if weighted else None)


def repeats(rows: Rows) -> npt.NDArray[np.bool_]:
    """True where an entry has the row and column of the one before."""
    same = np.zeros(len(rows.col), np.bool_)
    np.equal(rows.col[1:], rows.col[:-1], out=same[1:])
    starts = rows.ptr[:-1]
    same[starts[starts < len(same)]] = False
    return same


def _transposed(rows: Rows, keep: npt.NDArray[np.bool_] | None = None) -> Rows:
    """The transpose (of the entries in `keep`) of a square matrix, in one counting pass."""
    import scipy.sparse as sp

    part = rows if keep is None else rows.keep(keep)
    size = len(rows.ptr) - 1
    if (passed := compiled.by_row(size, part.col, part.row_of_all(), part.values)) is not None:
        return Rows(*passed)
    carried = np.zeros(len(part.col), np.int8) if part.values is None else part.values
    csc = sp.csr_array((carried, part.col, part.ptr), shape=(size, size)).tocsc()
    return _from_scipy(csc, part.values is not None)


def _side_by_side(left: Rows, right: Rows) -> Rows:
    """Each row of `left` followed by the same row of `right`."""
    lengths = np.empty(2 * (len(left.ptr) - 1), np.int64)
    lengths[0::2], lengths[1::2] = np.diff(left.ptr), np.diff(right.ptr)
    from_left = np.repeat(np.tile(np.array([True, False]), len(left.ptr) - 1), lengths)
    out = Rows(left.ptr + right.ptr, np.empty(len(from_left), np.int32), None)
    out.col[from_left], out.col[~from_left] = left.col, right.col
    if left.values is not None and right.values is not None:
        out.values = np.empty(len(from_left), left.values.dtype)
        out.values[from_left], out.values[~from_left] = left.values, right.values
    return out


def mirrored(lower: Rows, sign: int) -> Rows:
    """The whole of a matrix from its lower triangle: the columns above the diagonal follow those below."""
    upper = _transposed(lower, lower.row_of_all() != lower.col)
    if sign < 0 and upper.values is not None:
        np.negative(upper.values, out=upper.values)
    return _side_by_side(lower, upper)


def symmetrized(rows: Rows, findings: list[Finding]) -> Rows:
    """Every entry and its mirror; where both are stored, each keeps its own value.

    The rows of the matrix and those of its transpose, both sorted, are merged some at a time, right to where
    they stay, so that nothing else of that size is held.
    """
    size, back = len(rows.ptr) - 1, _transposed(rows)
    out = Rows(np.zeros(size + 1, np.int64), np.empty(2 * len(rows.col), np.int32), None)
    if rows.values is not None:
        out.values = np.empty(len(out.col), rows.values.dtype)
    begin = filled = differ = 0
    while begin < size:
        end = _part_end(rows, back, begin)
        own, other = (slice(int(r.ptr[begin]), int(r.ptr[end])) for r in (rows, back))
        keys = np.concatenate([r.keys(begin, end, size) for r in (rows, back)])
        order = np.argsort(keys, kind="stable")  # merges two runs; an own entry comes before its mirror
        keys = keys[order]
        fresh = np.append(np.ones(min(1, len(keys)), np.bool_), keys[1:] != keys[:-1])
        to = slice(filled, filled := filled + int(np.count_nonzero(fresh)))
        out.col[to] = np.concatenate([rows.col[own], back.col[other]])[order[fresh]]
        out.ptr[begin + 1 : end + 1] = to.start + np.searchsorted(keys[fresh], np.arange(1, end - begin + 1) * size)
        if rows.values is not None and back.values is not None and out.values is not None:
            values = np.concatenate([rows.values[own], back.values[other]])[order]
            out.values[to] = values[fresh]
            position = np.flatnonzero(~fresh)
            own_values, mirrored = values[position - 1], values[position]
            differ += int(np.count_nonzero((own_values != mirrored) & ~(np.isnan(own_values) & np.isnan(mirrored))))
        begin = end
    if differ:
        text = "entries whose mirror is stored with another value (each keeps its own)"
        findings.append(Finding(text, count=differ))
    return Rows(out.ptr, out.col[:filled], None if out.values is None else out.values[:filled])


def _part_end(rows: Rows, back: Rows, begin: int) -> int:
    """Where to end a part that begins at a row, so that it stays in cache: one row at least."""
    last = min(len(rows.ptr) - 1, begin + _SMALL_CHUNK)
    limit = rows.ptr[begin] + back.ptr[begin] + _SMALL_CHUNK
    fits = bisect.bisect_right(range(begin + 1, last + 1), limit, key=lambda r: rows.ptr[r] + back.ptr[r])
    return begin + max(1, fits)
