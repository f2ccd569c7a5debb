"""cuSPARSE's SpMV as peers, through nvmath-python's bindings, on the same stream, buffers and clock.

Each algorithm is prepared as its documentation advises: workspace allocated once, ``cusparseSpMV_preprocess``
called once and its time kept as preprocessing. y = 1 A x + 0 y, scalars in host memory.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from spgraph_bench.device.base import Device
from spgraph_bench.errors import LaunchError
from spgraph_bench.variants.base import Job, Launch, variant

__all__: list[str] = []

_VALUE_TYPES = {np.dtype(np.float32): 0, np.dtype(np.float64): 1}  # CUDA_R_32F, CUDA_R_64F
_OFFSET_TYPES = {np.dtype(np.int32): "INDEX_32I", np.dtype(np.int64): "INDEX_64I"}


def _missing(device: Device) -> str | None:
    if device.kind != "cuda":
        return "cuSPARSE runs on a GPU only"
    try:
        from nvmath.bindings import cusparse

        cusparse.get_property(0)  # the first call loads the library
    except Exception as cause:  # ImportError, or whatever the loader of the library raises
        first = str(cause).strip().splitlines()[0] if str(cause).strip() else type(cause).__name__
        return f"no cuSPARSE ({first}): pip install 'nvmath-python[cu13]' (cu12 for a CUDA 12 driver)"
    return None


@functools.cache
def _handle(stream: int) -> int:
    from nvmath.bindings import cusparse

    handle = int(cusparse.create())
    cusparse.set_stream(handle, stream)
    return handle


class _Descriptors:
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
    kind = _VALUE_TYPES[job.dtype]
    one, zero = np.ones(1, job.dtype), np.zeros(1, job.dtype)
    try:
        handle = _handle(int(device.stream.handle))
        matrix = int(create(cusparse))
        x_vector = int(cusparse.create_dn_vec(x.shape[0], x.ptr, kind))
        y_vector = int(cusparse.create_dn_vec(y.shape[0], y.ptr, kind))
        descriptors = _Descriptors(matrix, x_vector, y_vector)
        operation = int(cusparse.Operation.TRANSPOSE if transpose else cusparse.Operation.NON_TRANSPOSE)
        number = int(getattr(cusparse.SpMVAlg, algorithm))
        scalars = (
            handle,
            operation,
            one.ctypes.data,
            matrix,
            x_vector,
            zero.ctypes.data,
            y_vector,
            kind,
            number,
        )
        size = int(cusparse.sp_mv_buffer_size(*scalars))
        workspace = device.empty(size, np.uint8)
        device.synchronize()
        start = time.perf_counter()
        cusparse.sp_mv_preprocess(*scalars, workspace.ptr)
        device.synchronize()
        preprocess_ms = (time.perf_counter() - start) * 1e3
    except cusparse.cuSPARSEError as cause:
        raise LaunchError(f"cuSPARSE: {cause}") from None

    run = functools.partial(cusparse.sp_mv, *scalars, workspace.ptr)
    return job.launch(
        run,
        # How many kernels the library launches is its own affair; no algorithm is known to launch over eight.
        operations=8,
        preprocess_ms=preprocess_ms,
        extra_bytes=size,
        keep=(descriptors, workspace, one, zero),
    )


def _csr(job: Job) -> Callable[[Any], int]:
    a, arrays = job.packed, job.arrays

    def create(cusparse: Any) -> int:
        offsets = int(getattr(cusparse.IndexType, _OFFSET_TYPES[arrays["row_ptr"].dtype]))
        return int(
            cusparse.create_csr(
                a.rows, a.cols, a.nnz, arrays["row_ptr"].ptr, arrays["col"].ptr, arrays["val"].ptr,
                offsets, int(cusparse.IndexType.INDEX_32I), int(cusparse.IndexBase.ZERO),
                _VALUE_TYPES[a.dtype],
            )
        )  # fmt: skip

    return create


def _coo(job: Job) -> Callable[[Any], int]:
    a, arrays = job.packed, job.arrays

    def create(cusparse: Any) -> int:
        return int(
            cusparse.create_coo(
                a.rows, a.cols, a.nnz, arrays["row"].ptr, arrays["col"].ptr, arrays["val"].ptr,
                int(cusparse.IndexType.INDEX_32I), int(cusparse.IndexBase.ZERO), _VALUE_TYPES[a.dtype],
            )
        )  # fmt: skip

    return create


@variant("spmv", "cusparse-csr-1", format="csr", library="cuSPARSE", missing=_missing,
         about="CUSPARSE_SPMV_CSR_ALG1, preprocessed")  # fmt: skip
def cusparse_csr_1(job: Job) -> Launch:
    return _spmv(job, _csr(job), "CSR_ALG1")


@variant("spmv", "cusparse-csr-2", format="csr", library="cuSPARSE", missing=_missing,
         about="CUSPARSE_SPMV_CSR_ALG2 (deterministic), preprocessed")  # fmt: skip
def cusparse_csr_2(job: Job) -> Launch:
    return _spmv(job, _csr(job), "CSR_ALG2")


@variant("spmv", "cusparse-coo-1", format="coo", library="cuSPARSE", missing=_missing,
         about="CUSPARSE_SPMV_COO_ALG1, preprocessed")  # fmt: skip
def cusparse_coo_1(job: Job) -> Launch:
    return _spmv(job, _coo(job), "COO_ALG1")


@variant("spmv", "cusparse-coo-2", format="coo", library="cuSPARSE", missing=_missing,
         about="CUSPARSE_SPMV_COO_ALG2 (deterministic), preprocessed")  # fmt: skip
def cusparse_coo_2(job: Job) -> Launch:
    return _spmv(job, _coo(job), "COO_ALG2")
