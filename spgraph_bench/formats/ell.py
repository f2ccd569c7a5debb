"""ELL: rows padded to the longest, stored slot by slot: adjacent threads read adjacent memory."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.formats import compiled
from spgraph_bench.formats.base import Format, Packed, register
from spgraph_bench.formats.common import (
    PADDING,
    csr_from_entries,
    offset_type,
    quiet_overflow,
    refuse_padding,
    value_type,
)
from spgraph_bench.matrix import CSR
from spgraph_bench.stats import MatrixStats, row_ranges

__all__ = ["ELL", "fill_slots", "slot_entries"]


def fill_slots(
    csr: CSR, slots: int, dtype: np.dtype[Any]
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.floating[Any]]]:
    """The first `slots` entries of every row as ``col``, ``val`` ``[slots][rows]``, padded."""
    if arrays := compiled.slots(csr, slots, dtype):
        return arrays
    col = np.full((slots, csr.rows), PADDING, np.int32)
    val = np.zeros((slots, csr.rows), dtype)
    flat_col, flat_val = col.reshape(-1), val.reshape(-1)
    for begin, end in row_ranges(csr.row_ptr):
        first, last = int(csr.row_ptr[begin]), int(csr.row_ptr[end])
        lengths = np.diff(csr.row_ptr[begin : end + 1])
        # Slot k of row i is at k * rows + i; k is the entry's place within its row.
        position = np.arange(first, last, dtype=np.int64)
        position -= np.repeat(csr.row_ptr[begin:end], lengths)
        fits: slice | npt.NDArray[np.bool_] = slice(None)
        if lengths.max(initial=0) > slots:
            fits = position < slots
        position *= csr.rows
        position += np.repeat(np.arange(begin, end), lengths)
        position = position[fits]
        flat_col[position] = csr.col_idx[first:last][fits]
        flat_val[position] = 1 if csr.values is None else csr.values[first:last][fits]
    return col, val


def slot_entries(
    col: npt.NDArray[np.int32], val: npt.NDArray[np.floating[Any]] | None
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32], npt.NDArray[np.floating[Any]] | None]:
    """Row, column and value (None without `val`) of every slot that is not padding, slot by slot."""
    filled = col != PADDING
    return np.nonzero(filled)[1], col[filled], None if val is None else val[filled]


@register
class ELL(Format):
    """ELLPACK, slot-major.

    ``col``: int32 ``[slots][rows]``; ``val``: value type ``[slots][rows]``; ``slots`` (K) is the longest row.
    Invariants: slot k of row i is element ``k * rows + i`` (a 64-bit index); a row's entries fill its first
    slots in column order, the rest has ``col == -1`` and ``val == 0`` and must be skipped, not multiplied.
    """

    name = "ell"
    title = "ELLPACK: rows padded to the longest, slot-major"
    wins = (
        "Wins where rows are equally long (stencils): reads are coalesced and nothing is searched. Loses by "
        "its padding where one row is long."
    )
    order = 40

    @quiet_overflow
    def pack(
        self, csr: CSR, dtype: npt.DTypeLike = np.float32, offsets: npt.DTypeLike = np.int32, **params: Any
    ) -> Packed:
        value = value_type(dtype)
        slots = int(csr.row_lengths().max(initial=0))
        col, val = fill_slots(csr, slots, value)
        return Packed(
            self.name,
            csr.rows,
            csr.cols,
            csr.nnz,
            value,
            MappingProxyType({"col": col, "val": val}),
            MappingProxyType({"slots": slots}),
            pattern=csr.values is None,
            compulsory_bytes=csr.nnz * (4 + value.itemsize),
            offsets=offset_type(offsets, csr.nnz),
        )

    def unpack(self, packed: Packed) -> CSR:
        row, col, val = slot_entries(packed.col, None if packed.pattern else packed.val)
        return csr_from_entries(packed.rows, packed.cols, row, col, val)

    def predict_bytes(self, stats: MatrixStats, value_bytes: int = 4, offset_bytes: int = 4, **params: Any) -> int:
        return stats.rows * stats.row_max * (4 + value_bytes)

    def refuse(
        self, stats: MatrixStats, free_bytes: int | None, value_bytes: int = 4, force: bool = False, **params: Any
    ) -> str | None:
        need = self.predict_bytes(stats, value_bytes)
        return refuse_padding("ELL", stats, stats.rows * stats.row_max, need, free_bytes, force)
