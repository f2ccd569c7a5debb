"""CSR: rows one after another, the canonical format."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.formats.base import Format, Packed, register
from spgraph_bench.formats.common import offset_type, quiet_overflow, value_type
from spgraph_bench.matrix import CSR
from spgraph_bench.stats import MatrixStats

__all__ = ["CompressedRows"]


@register
class CompressedRows(Format):
    """Compressed sparse rows.

    ``row_ptr``: offset type ``[rows + 1]``; ``col``: int32 ``[nnz]``; ``val``: value type ``[nnz]``.
    Invariants: ``row_ptr`` starts at 0, never falls, ends at nnz; row i is the entries
    ``[row_ptr[i], row_ptr[i + 1])``, ``col`` rising within it.
    """

    name = "csr"
    title = "compressed sparse rows"
    wins = (
        "Wins as the format every library takes: no conversion, no padding. Loses to formats that store "
        "fewer index bytes where the matrix has structure."
    )
    order = 20

    @quiet_overflow
    def pack(
        self, csr: CSR, dtype: npt.DTypeLike = np.float32, offsets: npt.DTypeLike = np.int32, **params: Any
    ) -> Packed:
        """Arrays may share memory with `csr`: they are read-only by agreement."""
        val = csr.value_array(value_type(dtype, half=True))
        row_ptr = csr.row_ptr.astype(offset_type(offsets, csr.nnz), copy=False)
        return Packed(
            self.name,
            csr.rows,
            csr.cols,
            csr.nnz,
            val.dtype,
            MappingProxyType({"row_ptr": row_ptr, "col": csr.col_idx, "val": val}),
            pattern=csr.values is None,
            compulsory_bytes=row_ptr.nbytes + csr.nnz * (4 + val.itemsize),
            offsets=row_ptr.dtype,
        )

    def unpack(self, packed: Packed) -> CSR:
        return CSR(
            packed.rows,
            packed.cols,
            packed.row_ptr.astype(np.int64, copy=False),
            packed.col,
            None if packed.pattern else packed.val.astype(np.float64, copy=False),
        )

    def predict_bytes(self, stats: MatrixStats, value_bytes: int = 4, offset_bytes: int = 4, **params: Any) -> int:
        return (stats.rows + 1) * offset_bytes + stats.nnz * (4 + value_bytes)
