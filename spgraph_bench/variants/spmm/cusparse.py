"""cuSPARSE's SpMM routines to compare with, through nvmath-python's bindings, on the same stream, buffers and clock.

Each algorithm is prepared as its documentation advises: workspace allocated once, ``cusparseSpMM_preprocess``
called once and its time kept as preprocessing. Y = 1 A X + 0 Y, scalars in host memory, of the type that sums
are made in: float32 where values are half precision.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.device.base import Buffer, Device
from spgraph_bench.errors import SkipError
from spgraph_bench.problems.spmm import sum_type
from spgraph_bench.variants.base import Job, Launch, variant
from spgraph_bench.variants.cusparse_library import OFFSET_TYPES, VALUE_TYPES, coo, csr, handle, missing, refusal

__all__: list[str] = []

_ALL = ("float32", "float64", "float16")


class _Descriptors:
    """Destroys cuSPARSE's descriptors with the launch that uses them."""

    def __init__(self) -> None:
        self.matrix: int | None = None
        self.dense: list[int] = []

    def __del__(self) -> None:
        from nvmath.bindings import cusparse

        if self.matrix is not None:
            cusparse.destroy_sp_mat(self.matrix)
        for matrix in self.dense:
            cusparse.destroy_dn_mat(matrix)


def _preprocess(device: Device, arguments: Sequence[Any], workspace: Buffer) -> float:
    """Let the library analyse the matrix; the time in ms."""
    from nvmath.bindings import cusparse

    device.synchronize()
    start = time.perf_counter()
    try:
        cusparse.sp_mm_preprocess(*arguments, workspace.ptr)
    except cusparse.cuSPARSEError as cause:
        if cause.status != cusparse.Status.NOT_SUPPORTED:  # some algorithms have nothing to preprocess
            raise
    device.synchronize()
    return (time.perf_counter() - start) * 1e3


def _spmm(
    job: Job,
    create: Callable[[Any], int],
    algorithm: str,
    *,
    rows: int | None = None,
    cols: int | None = None,
    y_type: np.dtype[Any] | None = None,
) -> Launch:
    """Y = A X by `algorithm`; `create` makes the matrix descriptor from the bindings module.

    Where the descriptor has more `rows` or `cols` than A (whole blocks), or Y is of another type than the
    problem's, X (zeros added) and Y are copies of their own.
    """
    from nvmath.bindings import cusparse

    a, device, k = job.packed, job.device, job.options["k"]
    if not (a.rows and a.cols and a.nnz):
        raise SkipError("cuSPARSE is not run on empty matrices")
    rows, cols = rows or a.rows, cols or a.cols
    by_column = job.options["layout"] == "column"
    compute = sum_type(a.dtype)
    y_type = y_type or compute
    x, y, own_bytes = job.buffers["x"], job.buffers["y"], 0
    own_x = cols != a.cols
    more = [(0, 0), (0, cols - a.cols)] if by_column else [(0, cols - a.cols), (0, 0)]
    if own_x:
        x = device.upload(np.pad(job.inputs["x"], more))
        own_bytes += x.nbytes
    own_y = rows != a.rows or y_type != compute
    if own_y:
        y = device.empty((k, rows) if by_column else (rows, k), y_type)
        own_bytes += y.nbytes
    one, zero = np.ones(1, compute), np.zeros(1, compute)
    order = int(cusparse.Order.COL if by_column else cusparse.Order.ROW)
    plain = int(cusparse.Operation.NON_TRANSPOSE)
    held = _Descriptors()
    try:
        held.matrix = int(create(cusparse))
        for height, buffer in ((cols, x), (rows, y)):
            pitch = height if by_column else k
            kind = VALUE_TYPES[buffer.dtype]
            held.dense.append(int(cusparse.create_dn_mat(height, k, pitch, buffer.ptr, kind, order)))
        arguments = (
            handle(int(device.stream.handle)),  # type: ignore[attr-defined]
            plain,
            plain,
            one.ctypes.data,
            held.matrix,
            held.dense[0],
            zero.ctypes.data,
            held.dense[1],
            VALUE_TYPES[compute],
            int(getattr(cusparse.SpMMAlg, algorithm)),
        )
        size = int(cusparse.sp_mm_buffer_size(*arguments))
        workspace = device.empty(max(size, 1), np.uint8)
        preprocess_ms = _preprocess(device, arguments, workspace)
    except cusparse.cuSPARSEError as cause:
        raise refusal(cause) from None

    def reset() -> None:
        device.fill(y, 0xFF)
        if own_x:  # X may have changed
            device.write(x, np.pad(device.download(job.buffers["x"]), more))

    def output() -> npt.NDArray[Any]:
        whole = device.download(y)
        return np.ascontiguousarray(whole[:, : a.rows] if by_column else whole[: a.rows])

    return Launch(
        run=functools.partial(cusparse.sp_mm, *arguments, workspace.ptr),
        reset=reset,
        output=output if own_y else lambda: device.download(y),
        # How many kernels the library launches is its own affair; none is known to launch over eight.
        operations=8,
        preprocess_ms=preprocess_ms,
        extra_bytes=size + own_bytes,
        keep=(held, workspace, one, zero, x, y, create),
    )


@variant(
    "spmm",
    "cusparse-csr-1",
    format="csr",
    library="cuSPARSE",
    missing=missing,
    dtypes=_ALL,
    about="CUSPARSE_SPMM_CSR_ALG1 (made for column-major), preprocessed",
)
def cusparse_csr_1(job: Job) -> Launch:
    return _spmm(job, csr(job), "CSR_ALG1")


@variant(
    "spmm",
    "cusparse-csr-2",
    format="csr",
    library="cuSPARSE",
    missing=missing,
    dtypes=_ALL,
    about="CUSPARSE_SPMM_CSR_ALG2 (made for row-major), preprocessed",
)
def cusparse_csr_2(job: Job) -> Launch:
    return _spmm(job, csr(job), "CSR_ALG2")


@variant(
    "spmm",
    "cusparse-csr-3",
    format="csr",
    library="cuSPARSE",
    missing=missing,
    dtypes=_ALL,
    about="CUSPARSE_SPMM_CSR_ALG3 (deterministic), preprocessed",
)
def cusparse_csr_3(job: Job) -> Launch:
    return _spmm(job, csr(job), "CSR_ALG3")


@variant(
    "spmm",
    "cusparse-coo",
    format="coo",
    library="cuSPARSE",
    missing=missing,
    about="CUSPARSE_SPMM_COO_ALG4 for row-major, COO_ALG1 for column-major, preprocessed",
)
def cusparse_coo(job: Job) -> Launch:
    return _spmm(job, coo(job), "COO_ALG1" if job.options["layout"] == "column" else "COO_ALG4")


@variant(
    "spmm",
    "cusparse-bsr",
    format="bsr",
    library="cuSPARSE",
    missing=missing,
    about="CUSPARSE_SPMM_BSR_ALG1, square blocks by rows, preprocessed",
)
def cusparse_bsr(job: Job) -> Launch:
    a, arrays = job.packed, job.arrays
    side = a.block_rows
    if side != a.block_cols:
        raise SkipError(f"cuSPARSE multiplies with square blocks only, these are {side}x{a.block_cols}")
    across, down = -(-a.rows // side), -(-a.cols // side)

    def create(cusparse: Any) -> int:
        return int(
            cusparse.create_bsr(
                across,
                down,
                a.blocks,
                side,
                side,
                arrays["block_ptr"].ptr,
                arrays["block_col"].ptr,
                arrays["block_val"].ptr,
                int(getattr(cusparse.IndexType, OFFSET_TYPES[a.offsets])),
                int(cusparse.IndexType.INDEX_32I),
                int(cusparse.IndexBase.ZERO),
                VALUE_TYPES[a.dtype],
                int(cusparse.Order.ROW),
            )
        )

    return _spmm(job, create, "BSR_ALG1", rows=across * side, cols=down * side)


# Not in float32: there the library multiplies in TF32 (relative errors of 3e-4, seen with CUDA 13.0 on an
# H200), which is another computation than the one asked for.
@variant(
    "spmm",
    "cusparse-blocked-ell",
    format="blocked-ell",
    library="cuSPARSE",
    missing=missing,
    dtypes=("float64", "float16"),
    about="CUSPARSE_SPMM_BLOCKED_ELL_ALG1; float16: so is Y",
)
def cusparse_blocked_ell(job: Job) -> Launch:
    """cuSPARSE stores a block row by rows of the matrix, spgraph by blocks: rearranged here, untimed."""
    a = job.packed
    block_rows, width, side = len(a.block_col), a.width, a.side
    by_rows = job.device.upload(np.ascontiguousarray(a.block_val.transpose(0, 2, 1, 3)))
    rows, cols = block_rows * side, -(-a.cols // side) * side

    def create(cusparse: Any) -> int:
        return int(
            cusparse.create_blocked_ell(
                rows,
                cols,
                side,
                width * side,
                job.arrays["block_col"].ptr,
                by_rows.ptr,
                int(cusparse.IndexType.INDEX_32I),
                int(cusparse.IndexBase.ZERO),
                VALUE_TYPES[a.dtype],
            )
        )

    launch = _spmm(job, create, "BLOCKED_ELL_ALG1", rows=rows, cols=cols, y_type=a.dtype)
    launch.extra_bytes += by_rows.nbytes
    return launch
