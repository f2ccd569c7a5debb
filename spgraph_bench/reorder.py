"""Reordering: rows and columns permuted before packing, so that what is gathered together is together."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from spgraph_bench.errors import UsageError
from spgraph_bench.matrix import CSR, scipy_offsets
from spgraph_bench.stats import row_ranges

__all__ = ["ORDERS", "Reordered", "reorder"]

ORDERS = ("none", "degree", "rcm")


@dataclass(frozen=True)
class Reordered:
    """A matrix in a new order. Row i was ``row_order[i]``, column j was ``col_order[j]`` (int32)."""

    csr: CSR
    row_order: npt.NDArray[np.int32]
    col_order: npt.NDArray[np.int32]
    ms: float
    """Time of finding the order and permuting the matrix."""


def reorder(csr: CSR, how: str) -> Reordered:
    """`csr` with rows and columns in another order; of a square matrix both in the same.

    ``degree``: by falling number of entries (of row and column together where it is square), ties as they
    were: the columns that are gathered most often share cache lines. ``rcm``: reverse Cuthill-McKee on the
    pattern of A + A^T (Cuthill and McKee, ACM 1969; George, 1971; scipy's): a narrow band.

    Raises UsageError for rcm of a matrix that is not square.
    """
    start = time.perf_counter()
    if how == "rcm":
        row_order = col_order = _rcm(csr)
    elif how == "degree":
        rows, cols = csr.row_lengths(), np.bincount(csr.col_idx, minlength=csr.cols)
        if csr.rows == csr.cols:
            row_order = col_order = _falling(rows + cols)
        else:
            row_order, col_order = _falling(rows), _falling(cols)
    else:
        raise UsageError(f"there is no order {how!r}", remedy=f"one of {', '.join(ORDERS)}")
    permuted = _permuted(csr, row_order, col_order)
    return Reordered(permuted, row_order, col_order, (time.perf_counter() - start) * 1e3)


def _falling(counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
    return np.argsort(-counts, kind="stable").astype(np.int32)


def _rcm(csr: CSR) -> npt.NDArray[np.int32]:
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    if csr.rows != csr.cols:
        raise UsageError(
            f"rcm orders square matrices only, this one is {csr.rows:,} x {csr.cols:,}", remedy="--reorder degree"
        )
    if not csr.rows:
        return np.zeros(0, np.int32)
    pattern = csr.to_scipy(values=np.ones(csr.nnz, np.int8))
    return np.asarray(reverse_cuthill_mckee(pattern, symmetric_mode=bool(csr.symmetric)), np.int32)


def _permuted(csr: CSR, row_order: npt.NDArray[np.int32], col_order: npt.NDArray[np.int32]) -> CSR:
    import scipy.sparse as sp

    new_col = np.empty(csr.cols, np.int32)
    new_col[col_order] = np.arange(csr.cols, dtype=np.int32)
    lengths, starts = csr.row_lengths()[row_order], csr.row_ptr[:-1][row_order]
    row_ptr = np.zeros(csr.rows + 1, np.int64)
    np.cumsum(lengths, out=row_ptr[1:])
    col = np.empty(csr.nnz, np.int32)
    val = np.ones(csr.nnz, np.int8) if csr.values is None else np.empty(csr.nnz)
    for first, last in row_ranges(row_ptr):
        begin, end = int(row_ptr[first]), int(row_ptr[last])
        source = np.arange(begin, end)
        source += np.repeat(starts[first:last] - row_ptr[first:last], lengths[first:last])
        col[begin:end] = new_col[csr.col_idx[source]]
        if csr.values is not None:
            val[begin:end] = csr.values[source]
    loose = sp.csr_array((val, col, scipy_offsets(row_ptr)), shape=csr.shape)
    loose.sort_indices()
    values = None if csr.values is None else loose.data
    return CSR(csr.rows, csr.cols, row_ptr, loose.indices.astype(np.int32, copy=False), values, csr.symmetric)
