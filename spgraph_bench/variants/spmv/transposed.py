"""SpMV across the stored order: y = A x from CSC, y = A^T x from CSC and CSR."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np

from spgraph_bench.device.base import Buffer
from spgraph_bench.parameters import Parameter
from spgraph_bench.variants.base import Job, Launch, get_variant, variant
from spgraph_bench.variants.spmv import csr, csr_balanced

__all__ = ["turned"]

_SCATTER = {
    "block": Parameter(256, "threads per block", (64, 128, 256, 512, 1024)),
    "threads": Parameter("auto", "threads per row or column", ("auto", 2, 4, 8, 16, 32), macro="SPG_THREADS"),
}


def _scatter(job: Job, lines: int, ptr: Buffer, index: Buffer) -> Launch:
    a, y, block = job.packed, job.buffers["y"], job.params["block"]
    mean = a.nnz / max(lines, 1)
    threads = job.decide("threads", next((t for t in (2, 4, 8, 16) if t >= mean), 32))
    add = job.kernel("scatter").bind(
        -(-threads * lines // block), block, np.int32(lines), ptr, index, job.arrays["val"], job.buffers["x"], y
    )

    def run() -> None:
        job.device.fill(y, 0)
        add()

    return job.launch(run, operations=2)


@variant(
    "spmv",
    "csc-scatter",
    format="csc",
    source="spmv/scatter.cu",
    tunables=_SCATTER,
    about="a few threads per column, atomicAdd into y",
)
def csc_scatter(job: Job) -> Launch:
    return _scatter(job, job.packed.cols, job.arrays["col_ptr"], job.arrays["row"])


@variant(
    "spmv-transposed",
    "csr-scatter",
    format="csr",
    source="spmv/scatter.cu",
    tunables=_SCATTER,
    about="a few threads per row, atomicAdd into y",
)
def csr_scatter(job: Job) -> Launch:
    return _scatter(job, job.packed.rows, job.arrays["row_ptr"], job.arrays["col"])


# A's columns are the rows of A^T: CSC of A is CSR of A^T, and the CSR kernels do without atomics.


def turned(job: Job) -> Job:
    """`job` with CSC read as CSR of the transpose."""
    names = {"col_ptr": "row_ptr", "row": "col", "val": "val"}
    a = job.packed
    arrays = {names[name]: array for name, array in a.arrays.items()}
    return dataclasses.replace(
        job,
        packed=dataclasses.replace(a, rows=a.cols, cols=a.rows, arrays=arrays),
        arrays={names[name]: buffer for name, buffer in job.arrays.items()},
    )


def _tunables(name: str) -> Mapping[str, Parameter]:
    return get_variant("spmv", name).tunables


@variant(
    "spmv-transposed",
    "csc-scalar",
    format="csc",
    source="spmv/csr_scalar.cu",
    tunables=_tunables("csr-scalar"),
    about="CSC as CSR of A^T: a thread per column",
)
def csc_scalar(job: Job) -> Launch:
    return csr.csr_scalar(turned(job))


@variant(
    "spmv-transposed",
    "csc-vector",
    format="csc",
    source="spmv/csr_vector.cu",
    tunables=_tunables("csr-vector"),
    about="CSC as CSR of A^T: a warp per column",
)
def csc_vector(job: Job) -> Launch:
    return csr.csr_vector(turned(job))


@variant(
    "spmv-transposed",
    "csc-subwarp",
    format="csc",
    source="spmv/csr_subwarp.cu",
    tunables=_tunables("csr-subwarp"),
    about="CSC as CSR of A^T: 2 to 32 threads a column",
)
def csc_subwarp(job: Job) -> Launch:
    return csr.csr_subwarp(turned(job))


@variant(
    "spmv-transposed",
    "csc-adaptive",
    format="csc",
    source="spmv/csr_adaptive.cu",
    tunables=_tunables("csr-adaptive"),
    about="CSC as CSR of A^T: blocks of equal work",
)
def csc_adaptive(job: Job) -> Launch:
    return csr_balanced.csr_adaptive(turned(job))


@variant(
    "spmv-transposed",
    "csc-merge",
    format="csc",
    source="spmv/csr_merge.cu",
    tunables=_tunables("csr-merge"),
    about="CSC as CSR of A^T: merge path",
)
def csc_merge(job: Job) -> Launch:
    return csr_balanced.csr_merge(turned(job))
