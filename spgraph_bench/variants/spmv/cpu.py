"""CPU baselines of SpMV, timed with the host's clock on every device."""

from __future__ import annotations

import ctypes
import functools
import shlex
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.cores import usable_cores
from spgraph_bench.device.base import Device
from spgraph_bench.errors import LaunchError
from spgraph_bench.threads import equal_shares
from spgraph_bench.toolchain.library import address_of, compiled_library
from spgraph_bench.variants.base import Job, Launch, variant, version_of

__all__: list[str] = []


@version_of("scipy")
def version() -> str:
    """As installed."""
    return metadata.version("scipy")


def _scipy(job: Job, multiply: Callable[[Any, npt.NDArray[Any]], npt.NDArray[Any]], length: int) -> Launch:
    import scipy.sparse as sp

    a, x = job.packed, job.inputs["x"]
    matrix = sp.csr_array((a.val, a.col, a.row_ptr), shape=(a.rows, a.cols), copy=False)
    results: list[npt.NDArray[Any]] = []

    def run() -> None:
        results[:] = [multiply(matrix, x)]

    def output() -> npt.NDArray[Any]:
        # Until the first run: what a kernel that never writes leaves.
        return results[0] if results else np.full(length * a.dtype.itemsize, 0xFF, np.uint8).view(a.dtype)

    return Launch(run=run, reset=results.clear, output=output)


@variant("spmv", "scipy", format="csr", library="scipy", where="cpu", about="scipy.sparse.csr_array @ x, one thread")
def scipy_csr(job: Job) -> Launch:
    return _scipy(job, lambda a, x: a @ x, job.packed.rows)


@variant(
    "spmv-transposed",
    "scipy",
    format="csr",
    library="scipy",
    where="cpu",
    about="scipy.sparse.csr_array.T @ x, one thread",
)
def scipy_transposed(job: Job) -> Launch:
    return _scipy(job, lambda a, x: a.T @ x, job.packed.cols)


@version_of("OpenMP")
def openmp_version() -> str:
    """The compiler, whose OpenMP it is."""
    from spgraph_bench.toolchain.compilers import compiler_identity
    from spgraph_bench.toolchain.cxx import find_compiler

    compiler = find_compiler()
    text = compiler_identity(shlex.join(compiler)).splitlines() if compiler else []
    return text[1] if len(text) > 1 else ""  # after the line of its paths


@functools.cache
def _rows_library() -> ctypes.CDLL | None:
    return compiled_library(Path(__file__).with_name("rows.cpp"), "-fopenmp")


def _no_openmp(device: Device) -> str | None:
    if _rows_library() is not None:
        return None
    return "no C++ compiler with OpenMP: install g++"


def row_parts(row_ptr: npt.NDArray[np.integer[Any]], parts: int) -> npt.NDArray[np.int64]:
    """The first row of each of `parts` ranges of rows, and the number of all: int64 ``[parts + 1]``.

    Each has about as many entries and rows together as the others. `row_ptr`: ``[rows + 1]``.
    """
    return equal_shares(row_ptr + np.arange(len(row_ptr)), parts)


@variant(
    "spmv",
    "cpu-rows",
    format="csr",
    library="OpenMP",
    where="cpu",
    missing=_no_openmp,
    about="rows shared out among all cores by entries, plain C++ with OpenMP",
)
def cpu_rows(job: Job) -> Launch:
    """A plain program in C++ (rows.cpp), compiled here. Raises LaunchError where it cannot be."""
    library = _rows_library()
    if library is None:
        raise LaunchError("no C++ compiler with OpenMP", remedy="install g++")
    a, x = job.packed, np.ascontiguousarray(job.inputs["x"])
    function = library[f"spg_rows_{a.dtype}_{a.row_ptr.dtype}"]
    function.argtypes, function.restype = [ctypes.c_int, *[ctypes.c_void_p] * 6], None
    first = row_parts(a.row_ptr, max(1, min(usable_cores(), a.rows)))
    y = np.empty(a.rows, a.dtype)
    given = [address_of(array) for array in (first, a.row_ptr, a.col, a.val)]

    def run() -> None:
        function(len(first) - 1, *given, address_of(x), address_of(y))

    def reset() -> None:
        y.view(np.uint8)[:] = 0xFF

    reset()
    return Launch(run=run, reset=reset, output=lambda: y)
