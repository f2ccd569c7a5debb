"""DIA: diagonals, without any column index."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.formats.base import Format, Packed, human_bytes, register
from spgraph_bench.formats.common import human_count, offset_type, quiet_overflow, value_type
from spgraph_bench.matrix import CSR
from spgraph_bench.stats import MatrixStats, row_blocks, row_stats

__all__ = ["DIA"]

LEAST_FILL = 0.5
"""Below this share of real entries 4 bytes a slot are more than CSR's 8 bytes a nonzero (float32)."""

SLICE = 128
"""Rows whose diagonals lie together. With whole diagonals one after the other, every block of threads would
read from as many far places in memory as there are diagonals."""


def _slots(rows: int) -> int:
    return -(-rows // SLICE) * SLICE


@register
class DIA(Format):
    """Diagonal storage, by slices of rows.

    ``diag``: int32 ``[diagonals]``, the occupied diagonals as ``col - row``, rising; ``data``: value type
    ``[slices][diagonals][128]``. Invariants: ``data[s][d][l]`` is A[i, i + diag[d]] for row i = 128 s + l,
    and 0 where that is no entry, no column, or no row (a 64-bit index).
    A stored zero cannot be told from fill, and fill is multiplied: an Inf or NaN in x gives NaN in rows that
    have no entry there.
    """

    name = "dia"
    title = "diagonals: values only, no column indices"
    order = 80
    keeps_zeros = False

    @quiet_overflow
    def pack(
        self,
        csr: CSR,
        dtype: npt.DTypeLike = np.float32,
        offsets: npt.DTypeLike = np.int32,
        **params: Any,
    ) -> Packed:
        value = value_type(dtype)
        diag = row_stats(csr).diagonals
        data = np.zeros((_slots(csr.rows) // SLICE, len(diag), SLICE), value)
        flat = data.reshape(-1)
        # Place of each diagonal in `diag`, so that an entry finds its own without a search.
        place = np.zeros(csr.rows + csr.cols, np.int64)
        place[diag + csr.rows] = np.arange(len(diag)) * SLICE
        for block in row_blocks(csr):
            row = block.row_ids()
            at = place[block.cols - row + csr.rows] + row // SLICE * (len(diag) * SLICE) + row % SLICE
            flat[at] = 1 if csr.values is None else csr.values[block.entries]
        return Packed(
            self.name,
            csr.rows,
            csr.cols,
            csr.nnz,
            value,
            MappingProxyType({"diag": diag.astype(np.int32), "data": data}),
            MappingProxyType({"diagonals": len(diag)}),
            pattern=csr.values is None,
            compulsory_bytes=4 * len(diag) + csr.nnz * value.itemsize,
            offsets=offset_type(offsets, csr.nnz),
        )

    def unpack(self, packed: Packed) -> CSR:
        """Zeros are left out (see :attr:`keeps_zeros`)."""
        by_row = packed.data.transpose(0, 2, 1).reshape(_slots(packed.rows), packed.diagonals)
        row, d = np.nonzero(by_row[: packed.rows])
        row_ptr = np.concatenate(([0], np.cumsum(np.bincount(row, minlength=packed.rows)))).astype(np.int64)
        col = (row + packed.diag[d]).astype(np.int32)
        values = None if packed.pattern else by_row[row, d].astype(np.float64)
        return CSR(packed.rows, packed.cols, row_ptr, col, values)

    def predict_bytes(
        self, stats: MatrixStats, value_bytes: int = 4, offset_bytes: int = 4, **params: Any
    ) -> int:
        return len(stats.diagonals) * (4 + _slots(stats.rows) * value_bytes)

    def refuse(
        self,
        stats: MatrixStats,
        free_bytes: int | None,
        value_bytes: int = 4,
        force: bool = False,
        **params: Any,
    ) -> str | None:
        need = self.predict_bytes(stats, value_bytes)
        diagonals, slots = len(stats.diagonals), len(stats.diagonals) * stats.rows
        why = f"{human_count(diagonals)} diagonals of {human_count(stats.rows)} rows hold an entry"
        if free_bytes is not None and need > free_bytes:
            return f"DIA needs {human_bytes(need)}: {why}; device has {human_bytes(free_bytes)} free"
        if stats.nnz < LEAST_FILL * slots and not force:
            return (
                f"DIA would be {stats.nnz / slots:.2g} full (least {LEAST_FILL}), {human_bytes(need)}: "
                f"{why}; --force-format overrides"
            )
        return None
