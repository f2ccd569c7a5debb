"""cuSPARSE's SpMVOp to compare with: SpMV by a plan, in cuSPARSE from CUDA 13.1 on. Its functions are called by ctypes.

nvmath-python 1.0.0 declares them as they were before cuSPARSE 12.8, without the algorithm, and would hand a later
library wrong arguments. Handles and descriptors come from its bindings as for the other routines; the library is the
one that these have loaded. Workspace, descriptor and plan are made once and their time is kept as preprocessing.
z = 1 A x + 0 y, where z and y are one vector, scalars in host memory.
"""

from __future__ import annotations

import ctypes
import functools
import time
from pathlib import Path
from typing import Any

import numpy as np

from spgraph_bench.device.base import Device
from spgraph_bench.errors import SkipError
from spgraph_bench.variants.base import Job, Launch, variant
from spgraph_bench.variants.cusparse_library import VALUE_TYPES, csr, handle, missing, refusal
from spgraph_bench.variants.spmv.cusparse import Descriptors

__all__: list[str] = []

_TAKES_ALGORITHM = (12, 8)
"""The cuSPARSE from which on the caller names the algorithm; before, the second one was all there was."""


def _maps() -> list[str]:
    """What this process has mapped, a line each."""
    return Path("/proc/self/maps").read_text().splitlines()


@functools.cache
def _library() -> tuple[ctypes.CDLL, tuple[int, ...]]:
    """The cuSPARSE that the bindings have loaded, and its version. Raises OSError where none is loaded."""
    from nvmath.bindings import cusparse

    version = tuple(int(cusparse.get_property(part)) for part in range(3))  # loads it, if that was not done
    mapped = (line.split(maxsplit=5)[-1] for line in _maps())
    paths = [path for path in mapped if Path(path).name.startswith("libcusparse.so")]
    if not paths:
        raise OSError("libcusparse.so is not loaded")
    return ctypes.CDLL(paths[0]), version


def _missing_op(device: Device) -> str | None:
    """Why SpMVOp cannot be used on `device`, or None."""
    if reason := missing(device):
        return reason
    try:
        library, version = _library()
    except OSError as cause:
        return f"no SpMVOp: {cause}"
    if not hasattr(library, "cusparseSpMVOp_bufferSize"):
        return f"cuSPARSE {'.'.join(map(str, version))} has no SpMVOp with a workspace: that of CUDA 13.1 Update 1 has"
    return None


class _Plan:
    """A plan, destroyed with the launch that uses it, and then what it was made of."""

    def __init__(self, library: ctypes.CDLL, parts: Descriptors) -> None:
        self.descriptor, self.plan = ctypes.c_void_p(), ctypes.c_void_p()
        self.workspace: Any = None
        self._library, self._parts = library, parts

    def __del__(self) -> None:
        if self.plan:
            self._library.cusparseSpMVOp_destroyPlan(self.plan)
        if self.descriptor:
            self._library.cusparseSpMVOp_destroyDescr(self.descriptor)


def _checked(status: int) -> None:
    """Raises SkipError or LaunchError for a status that is not 0."""
    if status:
        from nvmath.bindings import cusparse

        raise refusal(cusparse.cuSPARSEError(status))


def _op(job: Job, number: int) -> Launch:
    """y = A x by SpMVOp's algorithm `number`."""
    from nvmath.bindings import cusparse

    library, version = _library()
    with_algorithm = version[:2] >= _TAKES_ALGORITHM
    if not with_algorithm and number != 2:
        raise SkipError(f"SpMVOp has no ALG{number} before cuSPARSE 12.8, this is {'.'.join(map(str, version))}")
    device: Any = job.device
    x, y, kind, pointer = job.buffers["x"], job.buffers["y"], VALUE_TYPES[job.dtype], ctypes.c_void_p
    one, zero = np.ones(1, job.dtype), np.zeros(1, job.dtype)
    try:
        stream = pointer(handle(int(device.stream.handle)))
        descriptors = Descriptors(
            int(csr(job)(cusparse)),
            int(cusparse.create_dn_vec(x.shape[0], x.ptr, kind)),
            int(cusparse.create_dn_vec(y.shape[0], y.ptr, kind)),
        )
    except cusparse.cuSPARSEError as cause:
        raise refusal(cause) from None
    matrix = pointer(descriptors.matrix)
    x_vector, y_vector = (pointer(vector) for vector in descriptors.vectors)
    operands = (int(cusparse.Operation.NON_TRANSPOSE), matrix, x_vector, y_vector, y_vector, kind)
    algorithm = (number,) * with_algorithm
    made, size = _Plan(library, descriptors), ctypes.c_size_t()
    device.synchronize()
    start = time.perf_counter()
    _checked(library.cusparseSpMVOp_bufferSize(stream, *operands, *algorithm, ctypes.byref(size)))
    made.workspace = device.empty(size.value, np.uint8)
    place = pointer(made.workspace.ptr)
    descriptor, plan = ctypes.byref(made.descriptor), ctypes.byref(made.plan)
    _checked(library.cusparseSpMVOp_createDescr(stream, descriptor, *operands, *algorithm, place))
    _checked(library.cusparseSpMVOp_createPlan(stream, made.descriptor, plan, None, ctypes.c_size_t(0)))
    device.synchronize()
    preprocess_ms = (time.perf_counter() - start) * 1e3
    scalars = (pointer(one.ctypes.data), pointer(zero.ctypes.data))
    multiply = functools.partial(library.cusparseSpMVOp, stream, made.plan, *scalars, x_vector, y_vector, y_vector)

    def run() -> None:
        _checked(multiply())

    return job.launch(
        run,
        operations=8,  # as for the other routines: how many kernels it launches is the library's affair
        preprocess_ms=preprocess_ms,
        extra_bytes=size.value,
        keep=(made, one, zero),
    )


@variant(
    "spmv",
    "cusparse-op-1",
    format="csr",
    library="cuSPARSE",
    missing=_missing_op,
    about="CUSPARSE_SPMVOP_ALG1, planned",
)
def cusparse_op_1(job: Job) -> Launch:
    return _op(job, 1)


@variant(
    "spmv",
    "cusparse-op-2",
    format="csr",
    library="cuSPARSE",
    missing=_missing_op,
    about="CUSPARSE_SPMVOP_ALG2, planned",
)
def cusparse_op_2(job: Job) -> Launch:
    return _op(job, 2)
