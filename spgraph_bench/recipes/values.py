"""Values for the entries of a pattern."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from spgraph_bench.cores import on_all_cores
from spgraph_bench.matrix import CSR, Matrix
from spgraph_bench.readers.common import Progress, whole
from spgraph_bench.recipes import compiled
from spgraph_bench.recipes.draw import Words, unit
from spgraph_bench.stats import RowBlock, row_blocks

__all__ = ["entry_values", "integer_values", "stencil_values", "with_values"]

_VALUES = 1000  # the stream that values start from
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def _mix(z: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """The output function of SplitMix64 (Steele, Lea and Flood 2014), in place; products wrap."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        z ^= z >> np.uint64(shift)
        z *= np.uint64(factor)
    z ^= z >> np.uint64(31)
    return z


def entry_values(csr: CSR, seed: int, symmetric: bool, progress: Progress) -> npt.NDArray[np.float64]:
    """Values uniform in [0, 1), float64 [nnz]; entry (i, j) and, if `symmetric`, (j, i) have the same one.

    Entry (i, j) gets number i * cols + j of a SplitMix64 sequence that starts where `seed` says: a value
    depends on its place alone, which is what makes symmetric values cheap.
    """
    start = Words(seed, _VALUES).take(1)
    if (made := compiled.entry_values(csr, start, symmetric, progress)) is not None:
        return made
    out = np.empty(csr.nnz)

    def draw(block: RowBlock) -> None:
        i = block.row_ids().astype(np.uint64)
        j = block.cols.astype(np.uint64)
        if symmetric:
            i, j = np.minimum(i, j), np.maximum(i, j)
        i *= np.uint64(csr.cols)
        i += j
        i *= _GOLDEN
        i += start[0]
        out[block.entries] = unit(_mix(i))

    for block, _ in on_all_cores(draw, row_blocks(csr)):
        progress("drawing values", block.entries.stop / max(1, csr.nnz))
    return out


def integer_values(csr: CSR, seed: int, symmetric: bool, progress: Progress) -> npt.NDArray[np.float64]:
    """Whole numbers uniform in 1 to 255, drawn as :func:`entry_values` draws."""
    return whole(entry_values(csr, seed, symmetric, progress))


def with_values(matrix: Matrix, values: Literal["ones", "integers"], seed: int, symmetric: bool) -> Matrix:
    """`matrix` with other values: all 1 (a pattern), or those of :func:`integer_values`. `symmetric`: its
    pattern is, and the values are to be."""
    csr, drawn = matrix.csr, None
    if values == "integers":
        drawn = integer_values(csr, seed, symmetric, lambda doing, fraction: None)
    return replace(
        matrix,
        csr=replace(csr, values=drawn),
        weighted=drawn is not None,
        symmetry="symmetric" if symmetric else "general",
        policies=replace(matrix.policies, values=values, explicit_zeros=0),
    )


def stencil_values(csr: CSR, diagonal: float) -> npt.NDArray[np.float64]:
    """`diagonal` on the diagonal and -1 elsewhere, float64 [nnz]."""
    out = np.full(csr.nnz, -1.0)
    for block in row_blocks(csr):
        out[block.entries][block.row_ids() == block.cols] = diagonal
    return out
