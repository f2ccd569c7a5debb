"""Statistics of a matrix: everything that formats predict from and `spgraph info` shows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from spgraph_bench.matrix import CSR

__all__ = ["MatrixStats", "row_stats"]


@dataclass(frozen=True)
class MatrixStats:
    """What the row lengths alone say; cheap (one pass over row_ptr), so every run has it."""

    rows: int
    cols: int
    nnz: int
    pattern: bool
    row_mean: float
    row_median: float
    row_std: float
    row_max: int
    row_min: int
    empty_rows: int
    gini: float
    """Gini coefficient of the row lengths: 0 all equal, towards 1 a few rows hold everything."""
    lengths: npt.NDArray[np.int64]
    """Distinct row lengths, rising."""
    length_counts: npt.NDArray[np.int64]
    """How many rows have each."""

    @property
    def density(self) -> float:
        cells = self.rows * self.cols
        return self.nnz / cells if cells else 0.0


def row_stats(csr: CSR) -> MatrixStats:
    """Statistics of the row lengths of `csr`."""
    lengths, counts = np.unique(csr.row_lengths(), return_counts=True)
    lengths, counts = lengths.astype(np.int64), counts.astype(np.int64)
    rows, nnz = csr.rows, csr.nnz
    if rows == 0:
        return MatrixStats(0, csr.cols, 0, csr.values is None, 0.0, 0.0, 0.0, 0, 0, 0, 0.0, lengths, counts)
    mean = nnz / rows
    variance = float(np.sum(counts * (lengths - mean) ** 2)) / rows
    below = np.cumsum(counts)
    low = lengths[np.searchsorted(below, (rows - 1) // 2, side="right")]
    high = lengths[np.searchsorted(below, rows // 2, side="right")]
    gini = 0.0
    if nnz:
        # Rows in rising order of length: G = (sum_i (2 i - n - 1) x_i) / (n sum x), i from 1; a run of equal
        # lengths from rank a + 1 to b contributes x * (b (b + 1) - a (a + 1) - (n + 1)(b - a)).
        b = below.astype(np.float64)
        a = b - counts
        gini = float(np.sum(lengths * (b * (b + 1) - a * (a + 1) - (rows + 1) * (b - a)))) / (
            rows * float(nnz)
        )
    return MatrixStats(
        rows,
        csr.cols,
        nnz,
        csr.values is None,
        mean,
        float(low + high) / 2,
        variance**0.5,
        int(lengths[-1]),
        int(lengths[0]),
        int(counts[0]) if lengths[0] == 0 else 0,
        gini,
        lengths,
        counts,
    )
