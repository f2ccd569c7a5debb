"""COO: a row, a column and a value per nonzero."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.formats.base import Format, Packed, register
from spgraph_bench.formats.common import csr_from_loose, offset_type, quiet_overflow, value_type
from spgraph_bench.matrix import CSR
from spgraph_bench.stats import MatrixStats

__all__ = ["COO"]


@register
class COO(Format):
    """Coordinates.

    ``row``, ``col``: int32 ``[nnz]``; ``val``: value type ``[nnz]``. Invariants: entry e is
    A[row[e], col[e]] = val[e]; no position occurs twice; ``row`` never falls, and within a row ``col`` rises.
    `unpack` also takes entries in any order, as they are before assembly.
    """

    name = "coo"
    title = "coordinates: row, column and value per nonzero"
    wins = (
        "Wins on assembly and on matrices of mostly empty rows; every row costs the same. Loses 4 bytes a "
        "nonzero against CSR, and adds with atomics."
    )
    order = 10

    @quiet_overflow
    def pack(
        self, csr: CSR, dtype: npt.DTypeLike = np.float32, offsets: npt.DTypeLike = np.int32, **params: Any
    ) -> Packed:
        """Arrays may share memory with `csr`: they are read-only by agreement."""
        val = csr.value_array(value_type(dtype))
        row = np.repeat(np.arange(csr.rows, dtype=np.int32), csr.row_lengths())
        return Packed(
            self.name,
            csr.rows,
            csr.cols,
            csr.nnz,
            val.dtype,
            MappingProxyType({"row": row, "col": csr.col_idx, "val": val}),
            pattern=csr.values is None,
            compulsory_bytes=csr.nnz * (8 + val.itemsize),
            offsets=offset_type(offsets, csr.nnz),
        )

    def unpack(self, packed: Packed) -> CSR:
        return csr_from_loose(packed, packed.row, packed.col, packed.val)

    def predict_bytes(self, stats: MatrixStats, value_bytes: int = 4, offset_bytes: int = 4, **params: Any) -> int:
        return stats.nnz * (8 + value_bytes)
