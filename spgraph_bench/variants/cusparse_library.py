"""What cuSPARSE's routines share: the library, a handle for each stream, descriptors.

Used through nvmath-python's bindings, on the device's own stream, buffers and clock.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from importlib import metadata
from typing import Any

import numpy as np

from spgraph_bench.device.base import Device
from spgraph_bench.errors import LaunchError, SkipError
from spgraph_bench.variants.base import Job, loader, version_of

__all__ = ["OFFSET_TYPES", "VALUE_TYPES", "coo", "csr", "handle", "load", "missing", "refusal", "version"]

VALUE_TYPES = {
    np.dtype(np.float32): 0,  # CUDA_R_32F
    np.dtype(np.float64): 1,  # CUDA_R_64F
    np.dtype(np.float16): 2,  # CUDA_R_16F
}
OFFSET_TYPES = {np.dtype(np.int32): "INDEX_32I", np.dtype(np.int64): "INDEX_64I"}

_REFUSALS = ("NOT_SUPPORTED", "MATRIX_TYPE_NOT_SUPPORTED", "ARCH_MISMATCH")
"""Statuses that say: not offered. Not a failure."""


@loader("cuSPARSE")
def load() -> None:
    """Load the bindings and the library: 0.4 s."""
    from nvmath.bindings import cusparse

    cusparse.get_property(0)  # the first call loads the library


@version_of("cuSPARSE")
def version() -> str:
    """ "12.6.3 (nvmath-python 0.9.0)": of the library that is loaded, and of the bindings. Needs no GPU."""
    from nvmath.bindings import cusparse

    parts = ".".join(str(cusparse.get_property(part)) for part in range(3))
    return f"{parts} (nvmath-python {metadata.version('nvmath-python')})"


def missing(device: Device) -> str | None:
    """Why cuSPARSE cannot be used on `device`, or None."""
    if device.kind != "cuda":
        return "cuSPARSE runs on a GPU only"
    try:
        load()
    except Exception as cause:  # ImportError, or whatever the loader of the library raises
        first = str(cause).strip().splitlines()[0] if str(cause).strip() else type(cause).__name__
        return f"no cuSPARSE ({first}): pip install 'nvmath-python[cu13]' (cu12 for a CUDA 12 driver)"
    return None


@functools.cache
def handle(stream: int) -> int:
    """The library's handle for `stream`."""
    from nvmath.bindings import cusparse

    made = int(cusparse.create())
    cusparse.set_stream(made, stream)
    return made


def refusal(cause: Any) -> SkipError | LaunchError:
    """What to raise for a cuSPARSEError: what the library does not offer is skipped, the rest failed."""
    from nvmath.bindings import cusparse

    if cause.status in [int(getattr(cusparse.Status, name)) for name in _REFUSALS]:
        return SkipError(f"cuSPARSE refuses it: {cause}")
    return LaunchError(f"cuSPARSE: {cause}")


def csr(job: Job) -> Callable[[Any], int]:
    """Makes the descriptor of the job's CSR matrix from the bindings module."""
    a, arrays = job.packed, job.arrays

    def create(cusparse: Any) -> int:
        offsets = int(getattr(cusparse.IndexType, OFFSET_TYPES[arrays["row_ptr"].dtype]))
        return int(
            cusparse.create_csr(
                a.rows,
                a.cols,
                a.nnz,
                arrays["row_ptr"].ptr,
                arrays["col"].ptr,
                arrays["val"].ptr,
                offsets,
                int(cusparse.IndexType.INDEX_32I),
                int(cusparse.IndexBase.ZERO),
                VALUE_TYPES[a.dtype],
            )
        )

    return create


def coo(job: Job) -> Callable[[Any], int]:
    """Makes the descriptor of the job's COO matrix from the bindings module."""
    a, arrays = job.packed, job.arrays

    def create(cusparse: Any) -> int:
        return int(
            cusparse.create_coo(
                a.rows,
                a.cols,
                a.nnz,
                arrays["row"].ptr,
                arrays["col"].ptr,
                arrays["val"].ptr,
                int(cusparse.IndexType.INDEX_32I),
                int(cusparse.IndexBase.ZERO),
                VALUE_TYPES[a.dtype],
            )
        )

    return create
