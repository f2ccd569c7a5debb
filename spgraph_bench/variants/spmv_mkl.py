"""Intel's MKL as the multi-threaded CPU peer: its inspector-executor SpMV, called through ctypes.

Why MKL: it is the CPU library that others are measured against, uses all cores, comes from PyPI as a wheel
and takes our CSR arrays as they are. ``mkl_sparse_optimize`` is told to expect many calls, and is counted as
preprocessing.
"""

from __future__ import annotations

import ctypes
import functools
import time
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.device.base import Device
from spgraph_bench.errors import LaunchError, SkipError
from spgraph_bench.variants.base import Job, Launch, variant

__all__: list[str] = []

_NOT_TRANSPOSED, _TRANSPOSED = 10, 11
_ZERO_BASED = 0
_CALLS = 1000
"""How many multiplications `optimize` is told to expect."""

_STATUS = {
    1: "not initialised",
    2: "allocation failed",
    3: "invalid value",
    4: "execution failed",
    5: "internal error",
    6: "not supported",
}
_REFUSALS = (3, 6)


class _Description(ctypes.Structure):
    """struct matrix_descr: a general matrix; the other two words say nothing then."""

    _fields_ = (("type", ctypes.c_int), ("mode", ctypes.c_int), ("diag", ctypes.c_int))


_GENERAL = _Description(20, 40, 50)


@functools.cache
def _load() -> ctypes.CDLL | str:
    """The library, or why there is none."""
    remedy = "pip install mkl"
    try:
        files = metadata.files("mkl") or []
    except metadata.PackageNotFoundError:
        return f"no MKL: {remedy}"
    named = [f for f in files if f.name.startswith(("libmkl_rt.", "mkl_rt."))]
    if not named:
        return f"the mkl package has no libmkl_rt here: {remedy}"
    try:
        return ctypes.CDLL(str(Path(str(named[0].locate())).resolve()))
    except OSError as cause:
        return f"MKL cannot be loaded ({str(cause).splitlines()[0]}): {remedy}"


def _missing(device: Device) -> str | None:
    found = _load()
    return found if isinstance(found, str) else None


def _checked(status: int, doing: str) -> None:
    if status in _REFUSALS:
        raise SkipError(f"MKL refuses it: {doing}: {_STATUS[status]}")
    if status:
        raise LaunchError(f"MKL: {doing}: {_STATUS.get(status, f'status {status}')}")


class _Handle:
    """MKL's matrix, destroyed with the launch that uses it. It refers to `arrays`."""

    def __init__(self, library: ctypes.CDLL, arrays: tuple[npt.NDArray[Any], ...]) -> None:
        self.library, self.arrays = library, arrays
        self.pointer = ctypes.c_void_p()

    def __del__(self) -> None:
        if self.pointer:
            self.library.mkl_sparse_destroy(self.pointer)


def _address(array: npt.NDArray[Any]) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def _mkl(job: Job, operation: int) -> Launch:
    library, a = _load(), job.packed
    assert isinstance(library, ctypes.CDLL)
    if a.nnz >= 2**31:
        raise SkipError("MKL with 32-bit columns takes 2^31 - 1 nonzeros at most")
    letter, scalar = ("s", ctypes.c_float) if a.dtype == np.float32 else ("d", ctypes.c_double)
    # C order and writable memory are asked for, though nothing is written.
    row_ptr = np.ascontiguousarray(a.row_ptr, np.int32)
    col, val = np.ascontiguousarray(a.col, np.int32), np.ascontiguousarray(a.val)
    x = np.ascontiguousarray(job.inputs["x"])
    y = np.empty(a.rows if operation == _NOT_TRANSPOSED else a.cols, a.dtype)
    handle = _Handle(library, (row_ptr, col, val))
    start = time.perf_counter()
    create = getattr(library, f"mkl_sparse_{letter}_create_csr")
    ends = ctypes.c_void_p(row_ptr.ctypes.data + row_ptr.itemsize)
    _checked(
        create(
            ctypes.byref(handle.pointer), _ZERO_BASED, a.rows, a.cols, _address(row_ptr), ends,
            _address(col), _address(val),
        ),
        "create_csr",
    )  # fmt: skip
    # A hint it has no use for is no failure.
    library.mkl_sparse_set_mv_hint(handle.pointer, operation, _GENERAL, _CALLS)
    library.mkl_sparse_optimize(handle.pointer)
    preprocess_ms = (time.perf_counter() - start) * 1e3
    call = functools.partial(
        getattr(library, f"mkl_sparse_{letter}_mv"),
        operation, scalar(1), handle.pointer, _GENERAL, _address(x), scalar(0), _address(y),
    )  # fmt: skip

    def run() -> None:
        _checked(call(), "mv")

    return Launch(
        run=run,
        reset=lambda: y.view(np.uint8).fill(0xFF),
        output=y.copy,
        preprocess_ms=preprocess_ms,
        keep=(handle, x, y),
    )


@variant("spmv", "mkl", format="csr", library="MKL", where="cpu", missing=_missing,
         about="mkl_sparse_?_mv, optimised for many calls, all cores")  # fmt: skip
def mkl_csr(job: Job) -> Launch:
    return _mkl(job, _NOT_TRANSPOSED)


@variant("spmv-transposed", "mkl", format="csr", library="MKL", where="cpu", missing=_missing,
         about="mkl_sparse_?_mv, transposed, optimised for many calls, all cores")  # fmt: skip
def mkl_transposed(job: Job) -> Launch:
    return _mkl(job, _TRANSPOSED)
