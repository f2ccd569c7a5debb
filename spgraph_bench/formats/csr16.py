"""CSR with 16-bit column offsets: 6 bytes per nonzero in single precision instead of 8."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.errors import UsageError
from spgraph_bench.formats.base import Format, Packed, register
from spgraph_bench.formats.common import human_count, offset_type, quiet_overflow, value_type
from spgraph_bench.matrix import CSR
from spgraph_bench.stats import MatrixStats

__all__ = ["CSR16"]

GROUP = 128
"""Entries that share a base: a warp's quads. The kernel has the same number."""

SPAN = 1 << 16
"""Columns that 16 bits reach."""

_CHUNK = GROUP << 12


def _lowest(csr: CSR) -> tuple[npt.NDArray[np.int32], int]:
    """The lowest column of each group of entries, and how many groups span more than SPAN columns."""
    if not csr.nnz:
        return np.zeros(0, np.int32), 0
    starts = np.arange(0, csr.nnz, GROUP)
    low = np.minimum.reduceat(csr.col_idx, starts)
    high = np.maximum.reduceat(csr.col_idx, starts)
    return low, int(np.count_nonzero(high - low >= SPAN))


@register
class CSR16(Format):
    """Compressed sparse rows, columns as 16-bit offsets from a base per 128 entries.

    ``row_ptr``: offset type ``[rows + 1]``; ``offset``: uint16 ``[nnz]``; ``base``: int32
    ``[ceil(nnz / 128)]``; ``val``: value type ``[nnz]``. Entries are in CSR's order; entry e is in column
    ``base[e / 128] + offset[e]``, and a base is the lowest column of its 128 entries, whatever rows they are
    in. Only matrices whose groups span at most 65,536 columns can be stored.
    """

    name = "csr-16"
    title = "compressed sparse rows with 16-bit column offsets"
    wins = (
        "Wins where columns of neighbouring entries are close (bands, meshes): 6 bytes a nonzero instead of "
        "8. Refused where 128 entries span more than 65,536 columns."
    )
    order = 21
    packs_all = False

    @quiet_overflow
    def pack(
        self, csr: CSR, dtype: npt.DTypeLike = np.float32, offsets: npt.DTypeLike = np.int32, **params: Any
    ) -> Packed:
        """Raises UsageError where 16 bits are too few."""
        val = csr.value_array(value_type(dtype))
        row_ptr = csr.row_ptr.astype(offset_type(offsets, csr.nnz), copy=False)
        base, wide = _lowest(csr)
        if wide:
            raise UsageError(f"{self.name} cannot hold it: {_why(wide, len(base))}", remedy="take csr")
        offset = np.empty(csr.nnz, np.uint16)
        for start in range(0, csr.nnz, _CHUNK):
            part = slice(start, start + _CHUNK)
            col = csr.col_idx[part]
            first = start // GROUP
            offset[part] = col - np.repeat(base[first : first + _CHUNK // GROUP], GROUP)[: len(col)]
        return Packed(
            self.name,
            csr.rows,
            csr.cols,
            csr.nnz,
            val.dtype,
            MappingProxyType({"row_ptr": row_ptr, "offset": offset, "base": base, "val": val}),
            pattern=csr.values is None,
            compulsory_bytes=row_ptr.nbytes + base.nbytes + csr.nnz * (2 + val.itemsize),
            offsets=row_ptr.dtype,
        )

    def unpack(self, packed: Packed) -> CSR:
        col = np.repeat(packed.base, GROUP)[: packed.nnz] + packed.offset
        return CSR(
            packed.rows,
            packed.cols,
            packed.row_ptr.astype(np.int64, copy=False),
            col.astype(np.int32, copy=False),
            None if packed.pattern else packed.val.astype(np.float64, copy=False),
        )

    def predict_bytes(self, stats: MatrixStats, value_bytes: int = 4, offset_bytes: int = 4, **params: Any) -> int:
        return (stats.rows + 1) * offset_bytes + stats.nnz * (2 + value_bytes) + 4 * -(-stats.nnz // GROUP)

    def refuse(
        self, stats: MatrixStats, free_bytes: int | None, value_bytes: int = 4, force: bool = False, **params: Any
    ) -> str | None:
        """Too wide is not overridden by `force`: there is no way to store it."""
        if why := super().refuse(stats, free_bytes, value_bytes, force, **params):
            return why
        assert stats.csr is not None, "the spans depend on the columns"
        base, wide = _lowest(stats.csr)
        return _why(wide, len(base)) if wide else None


def _why(wide: int, groups: int) -> str:
    return f"{human_count(wide)} of {human_count(groups)} groups of {GROUP} entries span more than {SPAN:,} columns"
