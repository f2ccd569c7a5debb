"""CSC: columns one after another, for in-edges and y = A^T x."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.formats import compiled
from spgraph_bench.formats.base import Format, Packed, register
from spgraph_bench.formats.common import csr_from_entries, offset_type, quiet_overflow, value_type
from spgraph_bench.matrix import CSR
from spgraph_bench.stats import MatrixStats

__all__ = ["CompressedColumns"]


@register
class CompressedColumns(Format):
    """Compressed sparse columns.

    ``col_ptr``: offset type ``[cols + 1]``; ``row``: int32 ``[nnz]``; ``val``: value type ``[nnz]``.
    Invariants: ``col_ptr`` starts at 0, never falls, ends at nnz; column j is the entries
    ``[col_ptr[j], col_ptr[j + 1])``, ``row`` rising within it. For a graph these are the in-edges of j.
    """

    name = "csc"
    title = "compressed sparse columns"
    wins = "Wins for A^T x and for bottom-up searches, which walk in-edges. Loses for A x, which must scatter."
    order = 30

    @quiet_overflow
    def pack(
        self, csr: CSR, dtype: npt.DTypeLike = np.float32, offsets: npt.DTypeLike = np.int32, **params: Any
    ) -> Packed:
        value = value_type(dtype)
        offset = offset_type(offsets, csr.nnz)
        if arrays := compiled.by_column(csr, value):
            ends, row, val = arrays
        else:
            # scipy's counting sort, one pass over the entries; it keeps row order within a column.
            csc = csr.to_scipy(value).tocsc()
            ends, row, val = csc.indptr.astype(np.int64), csc.indices.astype(np.int32, copy=False), csc.data
        col_ptr = ends.astype(offset, copy=False)
        return Packed(
            self.name,
            csr.rows,
            csr.cols,
            csr.nnz,
            value,
            MappingProxyType({"col_ptr": col_ptr, "row": row, "val": val}),
            pattern=csr.values is None,
            compulsory_bytes=col_ptr.nbytes + csr.nnz * (4 + value.itemsize),
            offsets=offset,
        )

    def unpack(self, packed: Packed) -> CSR:
        col = np.repeat(np.arange(packed.cols, dtype=np.int32), np.diff(packed.col_ptr))
        return csr_from_entries(packed.rows, packed.cols, packed.row, col, None if packed.pattern else packed.val)

    def predict_bytes(self, stats: MatrixStats, value_bytes: int = 4, offset_bytes: int = 4, **params: Any) -> int:
        return (stats.cols + 1) * offset_bytes + stats.nnz * (4 + value_bytes)
