"""No format: what variants of problems without a matrix read."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.formats.base import Format, Packed, register
from spgraph_bench.matrix import CSR
from spgraph_bench.stats import MatrixStats

__all__ = ["NoMatrix"]


@register
class NoMatrix(Format):
    """Nothing is packed: the problem's inputs are all there is.

    No arrays. Invariant: it holds the matrix of 0 x 0 and no other.
    """

    name = "none"
    title = "no matrix"
    holds_matrix = False

    def pack(
        self, csr: CSR, dtype: npt.DTypeLike = np.float32, offsets: npt.DTypeLike = np.int32, **params: Any
    ) -> Packed:
        """No arrays. Raises ValueError for a matrix that has rows or columns."""
        if csr.shape != (0, 0):
            raise ValueError(f"a matrix of {csr.rows} x {csr.cols} cannot be packed as nothing")
        return Packed(self.name, 0, 0, 0, np.dtype(dtype), {}, pattern=True, offsets=np.dtype(offsets))

    def unpack(self, packed: Packed) -> CSR:
        """The matrix of 0 x 0."""
        return CSR(0, 0, np.zeros(1, np.int64), np.empty(0, np.int32), None)

    def predict_bytes(self, stats: MatrixStats, value_bytes: int = 4, offset_bytes: int = 4, **params: Any) -> int:
        """0."""
        return 0
