"""CPU baselines of SpMV, timed with the host's clock on every device."""

from __future__ import annotations

from collections.abc import Callable
from importlib import metadata
from typing import Any

import numpy as np
import numpy.typing as npt

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
