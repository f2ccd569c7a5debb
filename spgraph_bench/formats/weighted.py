"""Compressed sparse rows of a weighted graph: edges with their weights, optionally relabelled by degree."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.formats.base import Packed, register
from spgraph_bench.formats.common import csr_from_entries, quiet_overflow, value_type
from spgraph_bench.formats.graphs import PatternCSR
from spgraph_bench.matrix import CSR
from spgraph_bench.stats import MatrixStats

__all__ = ["WeightedCSR"]


def _renumbered(csr: CSR, new_id: npt.NDArray[np.int32]) -> CSR:
    """`csr` with vertex v called ``new_id[v]``."""
    import scipy.sparse as sp

    row = np.repeat(new_id, csr.row_lengths())
    turned = csr_from_entries(csr.cols, csr.rows, new_id[csr.col_idx], row, csr.value_array())
    # Turning a matrix sorts it: linear, unlike sorting each row.
    back = sp.csr_array((turned.value_array(), turned.col_idx, turned.row_ptr), shape=turned.shape).tocsc()
    row_ptr, col = back.indptr.astype(np.int64, copy=False), back.indices.astype(np.int32, copy=False)
    return CSR(csr.rows, csr.cols, row_ptr, col, back.data, csr.symmetric)


@register
class WeightedCSR(PatternCSR):
    """Out-edges by source, with their weights.

    ``row_ptr``: offset type ``[rows + 1]``; ``col``: int32 ``[nnz]``, rising within each row; ``weight``: of
    the value type ``[nnz]``. Where all weights are alike (patterns, say) there is no ``weight``: the scalar
    ``value`` is what they are, else None. With ``reorder=degree`` also ``new_id``, ``old_id``: int32
    ``[rows]``, inverse to each other.
    """

    name = "weighted-csr"
    title = "compressed sparse rows of a weighted graph, without weights where all are alike"
    wins = (
        "Wins for shortest paths; unit weights are not stored. Loses nothing to pattern-csr where all "
        "weights are equal."
    )
    order = 23
    keeps_values = True
    predicts_exactly = False

    @quiet_overflow
    def pack(
        self, csr: CSR, dtype: npt.DTypeLike = np.float32, offsets: npt.DTypeLike = np.int32, **params: Any
    ) -> Packed:
        """Weights are converted to `dtype` (float32, float64 or int32) as numpy does it."""
        if np.dtype(dtype) != np.int32:
            value_type(dtype)
        packed = super().pack(csr, dtype, offsets, **params)
        if packed.meta["value"] is not None:
            return packed
        values = csr.value_array()
        if packed.meta["reorder"] == "degree":
            values = _renumbered(csr, packed.new_id).value_array()
        weight = values.astype(dtype)
        return replace(
            packed,
            arrays=MappingProxyType({**packed.arrays, "weight": weight}),
            compulsory_bytes=packed.compulsory_bytes + weight.nbytes,
        )

    @quiet_overflow
    def unpack(self, packed: Packed) -> CSR:
        if packed.pattern:
            return super().unpack(packed)
        if packed.value is None:
            values = packed.weight.astype(np.float64)
        else:
            values = np.full(packed.nnz, packed.value).astype(packed.dtype).astype(np.float64)
        row_ptr, col = self._pattern(packed)
        csr = CSR(packed.rows, packed.cols, row_ptr, col, values)
        return csr if packed.meta["reorder"] == "none" else _renumbered(csr, packed.old_id)

    def predict_bytes(self, stats: MatrixStats, value_bytes: int = 4, offset_bytes: int = 4, **params: Any) -> int:
        """At most: where all weights are alike, which the statistics do not tell, they are not stored."""
        return super().predict_bytes(stats, value_bytes, offset_bytes, **params) + value_bytes * stats.nnz
