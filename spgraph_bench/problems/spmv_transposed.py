"""SpMV with the transpose: y = A^T x, without storing A^T."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.matrix import Matrix
from spgraph_bench.problems.base import register
from spgraph_bench.problems.spmv import SpMV
from spgraph_bench.structure import transposed

__all__ = ["TransposedSpMV"]


class TransposedSpMV(SpMV):
    """y = A^T x: input ``x`` ``[rows]``, output ``y`` ``[cols]``; oracle and bounds as for SpMV with A^T."""

    name = "spmv-transposed"
    title = "sparse matrix, transposed, times dense vector, y = A^T x"
    axes = MappingProxyType({"x": ("rows",), "y": ("cols",)})
    transposes = True

    def inputs(self, matrix: Matrix, dtype: np.dtype[Any], seed: int, **options: Any) -> dict[str, npt.NDArray[Any]]:
        # Only the number of columns counts.
        shape = dataclasses.replace(matrix.csr, cols=matrix.csr.rows)
        return super().inputs(dataclasses.replace(matrix, csr=shape), dtype, seed, **options)

    def output_arrays(self, matrix: Matrix, dtype: np.dtype[Any]) -> dict[str, tuple[tuple[int, ...], np.dtype[Any]]]:
        return {"y": ((matrix.csr.cols,), dtype)}

    def oracle(
        self, matrix: Matrix, inputs: Mapping[str, npt.NDArray[Any]], dtype: np.dtype[Any], **options: Any
    ) -> dict[str, npt.NDArray[Any]]:
        turned = dataclasses.replace(matrix, csr=transposed(matrix.csr))
        return super().oracle(turned, inputs, dtype, **options)


register(TransposedSpMV())
