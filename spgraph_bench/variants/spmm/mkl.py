"""Intel's MKL as the multi-threaded CPU reference for SpMM: its inspector-executor routines.

``mkl_sparse_optimize`` gets a hint of many calls, and is counted as preprocessing.
"""

from __future__ import annotations

import functools
import time

import numpy as np

from spgraph_bench.variants.base import Job, Launch, variant
from spgraph_bench.variants.mkl_library import CALLS, GENERAL, NOT_TRANSPOSED, Matrix, address, checked, missing

__all__: list[str] = []

_LAYOUTS = {"row": 101, "column": 102}


@variant(
    "spmm",
    "mkl",
    format="csr",
    library="MKL",
    where="cpu",
    missing=missing,
    about="mkl_sparse_?_mm, optimised for many calls, all cores",
)
def mkl_csr(job: Job) -> Launch:
    a, x, k = job.packed, np.ascontiguousarray(job.inputs["x"]), job.options["k"]
    by_column, layout = job.options["layout"] == "column", _LAYOUTS[job.options["layout"]]
    y = np.empty((k, a.rows) if by_column else (a.rows, k), a.dtype)
    start = time.perf_counter()
    matrix = Matrix(a)
    # A hint that it cannot use is not a failure.
    matrix.library.mkl_sparse_set_mm_hint(matrix.pointer, NOT_TRANSPOSED, GENERAL, layout, k, CALLS)
    matrix.library.mkl_sparse_optimize(matrix.pointer)
    preprocess_ms = (time.perf_counter() - start) * 1e3
    pitches = (a.cols, a.rows) if by_column else (k, k)
    call = functools.partial(
        matrix.routine("mm"),
        NOT_TRANSPOSED,
        matrix.scalar(1),
        matrix.pointer,
        GENERAL,
        layout,
        address(x),
        k,
        pitches[0],
        matrix.scalar(0),
        address(y),
        pitches[1],
    )

    def run() -> None:
        checked(call(), "mm")

    return Launch(
        run=run,
        reset=lambda: y.view(np.uint8).fill(0xFF),
        output=y.copy,
        preprocess_ms=preprocess_ms,
        keep=(matrix, x, y),
    )
