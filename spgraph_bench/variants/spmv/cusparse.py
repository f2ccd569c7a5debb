"""cuSPARSE's SpMV routines to compare with, through nvmath-python's bindings, on the same stream, buffers and clock.

Each algorithm is prepared as its documentation advises: workspace allocated once, ``cusparseSpMV_preprocess``
called once and its time kept as preprocessing. y = 1 A x + 0 y, scalars in host memory.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from spgraph_bench.errors import SkipError
from spgraph_bench.formats import get_format
from spgraph_bench.stats import row_stats
from spgraph_bench.variants.base import Job, Launch, variant
from spgraph_bench.variants.cusparse_library import OFFSET_TYPES, VALUE_TYPES, coo, csr, handle, missing, refusal

__all__ = ["Descriptors"]


class Descriptors:
    """Destroys cuSPARSE's descriptors with the launch that uses them."""

    def __init__(self, matrix: int, *vectors: int) -> None:
        self.matrix, self.vectors = matrix, vectors

    def __del__(self) -> None:
        from nvmath.bindings import cusparse

        cusparse.destroy_sp_mat(self.matrix)
        for vector in self.vectors:
            cusparse.destroy_dn_vec(vector)


def _spmv(job: Job, create: Callable[[Any], int], algorithm: str, transpose: bool = False) -> Launch:
    """y = A x (or A^T x) by `algorithm`; `create` makes the matrix descriptor from the bindings module."""
    from nvmath.bindings import cusparse

    device: Any = job.device
    x, y = job.buffers["x"], job.buffers["y"]
    kind = VALUE_TYPES[job.dtype]
    one, zero = np.ones(1, job.dtype), np.zeros(1, job.dtype)
    try:
        library = handle(int(device.stream.handle))
        matrix = int(create(cusparse))
        x_vector = int(cusparse.create_dn_vec(x.shape[0], x.ptr, kind))
        y_vector = int(cusparse.create_dn_vec(y.shape[0], y.ptr, kind))
        descriptors = Descriptors(matrix, x_vector, y_vector)
        operation = int(cusparse.Operation.TRANSPOSE if transpose else cusparse.Operation.NON_TRANSPOSE)
        if not hasattr(cusparse.SpMVAlg, algorithm):
            raise SkipError(f"this cuSPARSE has no {algorithm}")
        number = int(getattr(cusparse.SpMVAlg, algorithm))
        scalars = (library, operation, one.ctypes.data, matrix, x_vector, zero.ctypes.data, y_vector, kind, number)
        size = int(cusparse.sp_mv_buffer_size(*scalars))
        workspace = device.empty(size, np.uint8)
        device.synchronize()
        start = time.perf_counter()
        try:
            cusparse.sp_mv_preprocess(*scalars, workspace.ptr)
        except cusparse.cuSPARSEError as cause:
            if cause.status != cusparse.Status.NOT_SUPPORTED:  # some formats have nothing to preprocess
                raise
        device.synchronize()
        preprocess_ms = (time.perf_counter() - start) * 1e3
    except cusparse.cuSPARSEError as cause:
        raise refusal(cause) from None

    run = functools.partial(cusparse.sp_mv, *scalars, workspace.ptr)
    return job.launch(
        run,
        # How many kernels the library launches is its own affair; no algorithm is known to launch over eight.
        operations=8,
        preprocess_ms=preprocess_ms,
        extra_bytes=size,
        keep=(descriptors, workspace, one, zero, create),
    )


@variant(
    "spmv",
    "cusparse-csr-1",
    format="csr",
    library="cuSPARSE",
    missing=missing,
    about="CUSPARSE_SPMV_CSR_ALG1, preprocessed",
)
def cusparse_csr_1(job: Job) -> Launch:
    return _spmv(job, csr(job), "CSR_ALG1")


@variant(
    "spmv",
    "cusparse-csr-2",
    format="csr",
    library="cuSPARSE",
    missing=missing,
    about="CUSPARSE_SPMV_CSR_ALG2 (deterministic), preprocessed",
)
def cusparse_csr_2(job: Job) -> Launch:
    return _spmv(job, csr(job), "CSR_ALG2")


@variant(
    "spmv",
    "cusparse-coo-1",
    format="coo",
    library="cuSPARSE",
    missing=missing,
    about="CUSPARSE_SPMV_COO_ALG1, preprocessed",
)
def cusparse_coo_1(job: Job) -> Launch:
    return _spmv(job, coo(job), "COO_ALG1")


@variant(
    "spmv",
    "cusparse-coo-2",
    format="coo",
    library="cuSPARSE",
    missing=missing,
    about="CUSPARSE_SPMV_COO_ALG2 (deterministic), preprocessed",
)
def cusparse_coo_2(job: Job) -> Launch:
    return _spmv(job, coo(job), "COO_ALG2")


def _csc(job: Job) -> Callable[[Any], int]:
    a, arrays = job.packed, job.arrays

    def create(cusparse: Any) -> int:
        offsets = int(getattr(cusparse.IndexType, OFFSET_TYPES[arrays["col_ptr"].dtype]))
        return int(
            cusparse.create_csc(
                a.rows,
                a.cols,
                a.nnz,
                arrays["col_ptr"].ptr,
                arrays["row"].ptr,
                arrays["val"].ptr,
                offsets,
                int(cusparse.IndexType.INDEX_32I),
                int(cusparse.IndexBase.ZERO),
                VALUE_TYPES[a.dtype],
            )
        )

    return create


@variant(
    "spmv",
    "cusparse-csc-1",
    format="csc",
    library="cuSPARSE",
    missing=missing,
    about="CUSPARSE_SPMV_CSR_ALG1 on CSC, preprocessed",
)
def cusparse_csc_1(job: Job) -> Launch:
    return _spmv(job, _csc(job), "CSR_ALG1")


@variant(
    "spmv",
    "cusparse-csc-2",
    format="csc",
    library="cuSPARSE",
    missing=missing,
    about="CUSPARSE_SPMV_CSR_ALG2 on CSC, preprocessed",
)
def cusparse_csc_2(job: Job) -> Launch:
    return _spmv(job, _csc(job), "CSR_ALG2")


@variant(
    "spmv-transposed",
    "cusparse-csr-1",
    format="csr",
    library="cuSPARSE",
    missing=missing,
    about="CUSPARSE_SPMV_CSR_ALG1, transposed, preprocessed",
)
def cusparse_csr_1_transposed(job: Job) -> Launch:
    return _spmv(job, csr(job), "CSR_ALG1", transpose=True)


@variant(
    "spmv-transposed",
    "cusparse-csc-1",
    format="csc",
    library="cuSPARSE",
    missing=missing,
    about="CUSPARSE_SPMV_CSR_ALG1 on CSC, transposed, preprocessed",
)
def cusparse_csc_1_transposed(job: Job) -> Launch:
    return _spmv(job, _csc(job), "CSR_ALG1", transpose=True)


@variant(
    "spmv-transposed",
    "cusparse-csc-2",
    format="csc",
    library="cuSPARSE",
    missing=missing,
    about="CUSPARSE_SPMV_CSR_ALG2 on CSC, transposed, preprocessed",
)
def cusparse_csc_2_transposed(job: Job) -> Launch:
    return _spmv(job, _csc(job), "CSR_ALG2", transpose=True)


@variant(
    "spmv",
    "cusparse-sell",
    format="sell",
    library="cuSPARSE",
    missing=missing,
    about="CUSPARSE_SPMV_SELL_ALG1, slices of 32 rows, not sorted",
)
def cusparse_sell(job: Job) -> Launch:
    """cuSPARSE has SELL without a permutation, stored as spgraph's: slot-major slices, -1 for padding.

    Where spgraph's is sorted, the rows are put back in order, here and untimed.
    """
    a, arrays = job.packed, dict(job.arrays)
    if a.sigma > 1:
        form = get_format("sell")
        # As it is stored, also where the matrix had no values of its own: others may be in their place.
        back = form.unpack(replace(a, pattern=False))
        why = form.refuse(row_stats(back), job.device.free_bytes(), a.dtype.itemsize, sell_sigma=1)
        if why:
            raise SkipError(f"without sorting: {why}")
        a = form.pack(back, a.dtype, a.offsets, sell_sigma=1)
        arrays = {name: job.device.upload(array) for name, array in a.arrays.items()}

    def create(cusparse: Any) -> int:
        offsets = int(getattr(cusparse.IndexType, OFFSET_TYPES[a.offsets]))
        return int(
            cusparse.create_sliced_ell(
                a.rows,
                a.cols,
                a.nnz,
                len(a.val),
                32,
                arrays["slice_ptr"].ptr,
                arrays["col"].ptr,
                arrays["val"].ptr,
                offsets,
                int(cusparse.IndexType.INDEX_32I),
                int(cusparse.IndexBase.ZERO),
                VALUE_TYPES[a.dtype],
            )
        )

    launch = _spmv(job, create, "SELL_ALG1")
    if a is not job.packed:
        launch.extra_bytes += a.stored_bytes
    return launch


@variant(
    "spmv",
    "cusparse-bsr",
    format="bsr",
    library="cuSPARSE",
    missing=missing,
    about="CUSPARSE_SPMV_BSR_ALG1, square blocks by rows",
)
def cusparse_bsr(job: Job) -> Launch:
    a, arrays = job.packed, job.arrays
    r, c = a.block_rows, a.block_cols
    if r != c:
        raise SkipError(f"cuSPARSE multiplies with square blocks only, these are {r}x{c}")
    if a.rows % r or a.cols % c:
        raise SkipError(f"cuSPARSE takes whole blocks only, {a.rows} x {a.cols} is not a multiple of {r}")

    def create(cusparse: Any) -> int:
        offsets = int(getattr(cusparse.IndexType, OFFSET_TYPES[a.offsets]))
        return int(
            cusparse.create_bsr(
                a.rows // r,
                a.cols // c,
                a.blocks,
                r,
                c,
                arrays["block_ptr"].ptr,
                arrays["block_col"].ptr,
                arrays["block_val"].ptr,
                offsets,
                int(cusparse.IndexType.INDEX_32I),
                int(cusparse.IndexBase.ZERO),
                VALUE_TYPES[a.dtype],
                int(cusparse.Order.ROW),
            )
        )

    return _spmv(job, create, "BSR_ALG1")
