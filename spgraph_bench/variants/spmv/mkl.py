"""Intel's MKL as the multi-threaded CPU reference for SpMV: its inspector-executor routines.

``mkl_sparse_optimize`` gets a hint of many calls, and is counted as preprocessing.
"""

from __future__ import annotations

import functools
import time

import numpy as np

from spgraph_bench.variants.base import Job, Launch, variant
from spgraph_bench.variants.mkl_library import (
    CALLS,
    GENERAL,
    NOT_TRANSPOSED,
    TRANSPOSED,
    Matrix,
    address,
    checked,
    missing,
)

__all__: list[str] = []


def _mkl(job: Job, operation: int) -> Launch:
    a, x = job.packed, np.ascontiguousarray(job.inputs["x"])
    y = np.empty(a.rows if operation == NOT_TRANSPOSED else a.cols, a.dtype)
    start = time.perf_counter()
    matrix = Matrix(a)
    # A hint that it cannot use is not a failure.
    matrix.library.mkl_sparse_set_mv_hint(matrix.pointer, operation, GENERAL, CALLS)
    matrix.library.mkl_sparse_optimize(matrix.pointer)
    preprocess_ms = (time.perf_counter() - start) * 1e3
    call = functools.partial(
        matrix.routine("mv"),
        operation,
        matrix.scalar(1),
        matrix.pointer,
        GENERAL,
        address(x),
        matrix.scalar(0),
        address(y),
    )

    def run() -> None:
        checked(call(), "mv")

    return Launch(
        run=run,
        reset=lambda: y.view(np.uint8).fill(0xFF),
        output=y.copy,
        preprocess_ms=preprocess_ms,
        keep=(matrix, x, y),
    )


@variant(
    "spmv",
    "mkl",
    format="csr",
    library="MKL",
    where="cpu",
    missing=missing,
    about="mkl_sparse_?_mv, optimised for many calls, all cores",
)
def mkl_csr(job: Job) -> Launch:
    return _mkl(job, NOT_TRANSPOSED)


@variant(
    "spmv-transposed",
    "mkl",
    format="csr",
    library="MKL",
    where="cpu",
    missing=missing,
    about="mkl_sparse_?_mv, transposed, optimised for many calls, all cores",
)
def mkl_transposed(job: Job) -> Launch:
    return _mkl(job, TRANSPOSED)
