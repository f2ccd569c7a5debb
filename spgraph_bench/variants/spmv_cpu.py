"""CPU baselines of SpMV, timed with the host's clock on every device."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.variants.base import Job, Launch, variant

__all__: list[str] = []


@variant("spmv", "scipy", format="csr", library="scipy", where="cpu",
         about="scipy.sparse.csr_array @ x, one thread")  # fmt: skip
def scipy_csr(job: Job) -> Launch:
    import scipy.sparse as sp

    a, x = job.packed, job.inputs["x"]
    matrix = sp.csr_array((a.val, a.col, a.row_ptr), shape=(a.rows, a.cols), copy=False)
    results: list[npt.NDArray[Any]] = []

    def run() -> None:
        results[:] = [matrix @ x]

    def output() -> npt.NDArray[Any]:
        # Before the first run: what a kernel that never wrote leaves.
        return results[0] if results else np.full(a.rows * a.dtype.itemsize, 0xFF, np.uint8).view(a.dtype)

    return Launch(run=run, reset=results.clear, output=output)
