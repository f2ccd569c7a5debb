"""COO as an assembly leaves it: entries in the order of elements, each position more than once."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.formats import compiled
from spgraph_bench.formats.base import Array, Format, Packed, Replace, register
from spgraph_bench.formats.common import csr_from_entries, offset_type, quiet_overflow, value_type
from spgraph_bench.matrix import CSR
from spgraph_bench.stats import MatrixStats
from spgraph_bench.structure import transposed
from spgraph_bench.structure.compiled import id_counts

__all__ = ["COOUnsorted"]


@register
class COOUnsorted(Format):
    """Coordinates before duplicates are summed, in the order of a loop over elements.

    ``row``, ``col``: int32 ``[2 nnz]``; ``val``: value type ``[2 nnz]``. Element k is all that row k and column k have
    in common with the rest of the matrix: it adds half of each entry of row k, then half of each entry of column k
    (of the diagonal both). So A[i, j] is the sum of two entries, one of element i and one of element j. Invariants:
    elements follow each other from 0 on; the two halves of a value add up to it exactly, in its type. Kernels must
    take any order, and any number of entries at one position.
    """

    name = "coo-unsorted"
    title = "coordinates as finite elements are assembled: in any order, duplicates not summed"
    wins = (
        "Wins where the matrix changes with every product: elements append their entries, nothing is sorted or summed. "
        "Loses against COO by its duplicates: each costs its bytes and an atomic."
    )
    order = 11

    @quiet_overflow
    def pack(
        self, csr: CSR, dtype: npt.DTypeLike = np.float32, offsets: npt.DTypeLike = np.int32, **params: Any
    ) -> Packed:
        value = value_type(dtype)
        turned = transposed(csr)  # whose rows are the columns of each element
        row, col, val = compiled.elements(csr, turned, value) or _elements(csr, turned, value)
        arrays = {"row": row, "col": col, "val": val}
        return Packed(
            self.name,
            csr.rows,
            csr.cols,
            csr.nnz,
            value,
            MappingProxyType(arrays),
            pattern=csr.values is None,
            compulsory_bytes=2 * csr.nnz * (8 + value.itemsize),
            offsets=offset_type(offsets, 2 * csr.nnz),
        )

    def unpack(self, packed: Packed) -> CSR:
        """The assembly: entries are sorted and those of one position summed."""
        first, second = _pairs(packed)
        values = None if packed.pattern else packed.val[first] + packed.val[second]
        return csr_from_entries(packed.rows, packed.cols, packed.row[first], packed.col[first], values)

    def predict_bytes(self, stats: MatrixStats, value_bytes: int = 4, offset_bytes: int = 4, **params: Any) -> int:
        return 2 * stats.nnz * (8 + value_bytes)

    def replaced(self, packed: Packed, array: Array, replace: Replace) -> Array:
        """Whole values are replaced, and split in whole numbers if they are whole."""
        least = np.finfo(array.dtype).smallest_normal
        with np.errstate(invalid="ignore"):
            if ((np.abs(array) < least) & (array != 0)).any() or not np.isfinite(array).all():
                return self._replaced_in_pairs(packed, array, replace)
        # Both halves are alike, so that each knows the whole.
        values, elements = replace(array * 2), max(packed.rows, packed.cols)
        in_row, in_col = (_counts(packed.arrays[name], elements) // 2 for name in ("row", "col"))
        if (parts := compiled.whole_parts(values, in_row, in_col)) is not None:
            return parts
        lower = np.floor(values / 2)
        return np.where(_firsts(in_row, in_col), lower, values - lower)

    def _replaced_in_pairs(self, packed: Packed, array: Array, replace: Replace) -> Array:
        """The same where the halves of a value may differ: they are looked for."""
        first, second = _pairs(packed)
        values = replace(array[first] + array[second])
        out = np.empty_like(array)
        out[first] = np.floor(values / 2)
        out[second] = values - out[first]
        return out


def _counts(ids: npt.NDArray[np.int32], below: int) -> npt.NDArray[np.int64]:
    """How often each of ``range(below)`` is among `ids`."""
    counts = id_counts(ids, below)
    return np.bincount(ids, minlength=below) if counts is None else counts


def _elements(csr: CSR, turned: CSR, value: np.dtype[Any]) -> tuple[Array, Array, Array]:
    """Rows, columns and values of all elements; `turned` is the transpose."""
    by_row = _firsts(csr.row_lengths(), turned.row_lengths())
    first, second = _halves(csr.value_array(value))[0], _halves(turned.value_array(value))[1]
    return (
        _merged(by_row, _row_ids(csr), turned.col_idx),
        _merged(by_row, csr.col_idx, _row_ids(turned)),
        _merged(by_row, first, second),
    )


def _row_ids(csr: CSR) -> npt.NDArray[np.int32]:
    return np.repeat(np.arange(csr.rows, dtype=np.int32), csr.row_lengths())


def _firsts(in_row: npt.NDArray[np.int64], in_col: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Which entries are of their element's row, ``[2 nnz]``, by the entries of each row and each column."""
    elements = max(len(in_row), len(in_col))
    counts = np.zeros((elements, 2), np.int64)
    counts[: len(in_row), 0], counts[: len(in_col), 1] = in_row, in_col
    return np.repeat(np.tile([True, False], elements), counts.reshape(-1))


def _merged(by_row: npt.NDArray[np.bool_], first: Array, second: Array) -> Array:
    """`first` where `by_row` says so, `second` elsewhere, each in its order."""
    out = np.empty(len(by_row), first.dtype)
    out[by_row], out[~by_row] = first, second
    return out


def _halves(values: npt.NDArray[np.floating[Any]]) -> tuple[Array, Array]:
    """Two arrays that add up to `values` exactly. An odd multiple of the least number has no half: one gets more."""
    half = values / 2
    return half, np.subtract(values, half, out=values.copy(), where=np.isfinite(values))


def _pairs(packed: Packed) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Where the two entries of each position are, int64 ``[nnz]`` each; positions by row, then column."""
    order = np.lexsort((packed.col, packed.row))
    return order[::2], order[1::2]
