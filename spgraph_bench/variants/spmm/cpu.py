"""CPU baselines of SpMM, timed with the host's clock on every device."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.variants.base import Job, Launch, variant

__all__: list[str] = []


@variant(
    "spmm",
    "scipy",
    format="csr",
    library="scipy",
    where="cpu",
    about="scipy.sparse.csr_array @ X, one thread; it rearranges column-major X and Y",
)
def scipy_csr(job: Job) -> Launch:
    import scipy.sparse as sp

    a, x, by_column = job.packed, job.inputs["x"], job.options["layout"] == "column"
    matrix = sp.csr_array((a.val, a.col, a.row_ptr), shape=(a.rows, a.cols), copy=False)
    shape = (x.shape[0], a.rows) if by_column else (a.rows, x.shape[1])
    results: list[npt.NDArray[Any]] = []

    def run() -> None:
        results[:] = [np.ascontiguousarray((matrix @ x.T).T) if by_column else matrix @ x]

    def output() -> npt.NDArray[Any]:
        # Until the first run: what a kernel that never writes leaves.
        unwritten = np.full(shape[0] * shape[1] * a.dtype.itemsize, 0xFF, np.uint8).view(a.dtype).reshape(shape)
        return results[0] if results else unwritten

    return Launch(run=run, reset=results.clear, output=output)
