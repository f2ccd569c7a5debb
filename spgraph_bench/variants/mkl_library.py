"""Intel's MKL, which CPU reference libraries share: the library through ctypes, and its matrix.

Why MKL: it is the CPU library that others are measured against, uses all cores, comes from PyPI as a wheel
and takes our CSR arrays as they are.
"""

from __future__ import annotations

import ctypes
import functools
import re
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.device.base import Device
from spgraph_bench.errors import LaunchError, SkipError
from spgraph_bench.formats.base import Packed
from spgraph_bench.variants.base import version_of

__all__ = ["CALLS", "GENERAL", "NOT_TRANSPOSED", "TRANSPOSED", "Matrix", "address", "checked", "missing", "version"]

NOT_TRANSPOSED, TRANSPOSED = 10, 11
_ZERO_BASED = 0
CALLS = 1000
"""How many multiplications `optimize` is asked to prepare for."""

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


GENERAL = _Description(20, 40, 50)


@functools.cache
def _load() -> ctypes.CDLL | str:
    """The library, or why there is none."""
    remedy = "pip install mkl (Intel Simplified Software License)"
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


@version_of("MKL")
def version() -> str:
    """As the library says it: "2025.2-Product Build 20250620"."""
    library = _load()
    assert isinstance(library, ctypes.CDLL)
    text = ctypes.create_string_buffer(200)
    library.MKL_Get_Version_String(text, len(text))
    match = re.search(r"Version ([^\s]+ .*?Build \d+)", text.value.decode("ascii", "replace"))
    return match[1].replace(" ", "-", 1) if match else metadata.version("mkl")


def missing(device: Device) -> str | None:
    """Why MKL cannot be used, or None."""
    loaded = _load()
    return loaded if isinstance(loaded, str) else None


def checked(status: int, doing: str) -> None:
    """Raise what the `status` of an MKL call means: SkipError or LaunchError with `doing`; nothing for success."""
    if status in _REFUSALS:
        raise SkipError(f"MKL refuses it: {doing}: {_STATUS[status]}")
    if status:
        raise LaunchError(f"MKL: {doing}: {_STATUS.get(status, f'status {status}')}")


class Matrix:
    """A CSR matrix in MKL's hands, destroyed with the launch that uses it.

    Raises SkipError for what MKL does not take, LaunchError for what fails.
    """

    def __init__(self, a: Packed) -> None:
        library = _load()
        assert isinstance(library, ctypes.CDLL)
        if a.nnz >= 2**31:
            raise SkipError("MKL with 32-bit columns takes 2^31 - 1 nonzeros at most")
        self.library = library
        self.pointer = ctypes.c_void_p()
        single = a.dtype == np.float32
        self._letter = "s" if single else "d"
        self.scalar: Any = ctypes.c_float if single else ctypes.c_double
        # C order and writable memory are asked for, though nothing is written. MKL refers to these arrays.
        row_ptr = np.ascontiguousarray(a.row_ptr, np.int32)
        col, val = np.ascontiguousarray(a.col, np.int32), np.ascontiguousarray(a.val)
        self._arrays = (row_ptr, col, val)
        ends = ctypes.c_void_p(row_ptr.ctypes.data + row_ptr.itemsize)
        created = self.routine("create_csr")(
            ctypes.byref(self.pointer), _ZERO_BASED, a.rows, a.cols, address(row_ptr), ends, address(col), address(val)
        )
        checked(created, "create_csr")

    def routine(self, name: str) -> Any:
        """``mkl_sparse_s_NAME`` or ``mkl_sparse_d_NAME``, as the values are."""
        return getattr(self.library, f"mkl_sparse_{self._letter}_{name}")

    def __del__(self) -> None:
        if getattr(self, "pointer", None):
            self.library.mkl_sparse_destroy(self.pointer)


def address(array: npt.NDArray[Any]) -> ctypes.c_void_p:
    """The address of the data of `array`, for ctypes."""
    return ctypes.c_void_p(array.ctypes.data)
