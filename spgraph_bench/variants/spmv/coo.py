"""SpMV from COO: y = A x. The contract of each is in its kernel file."""

from __future__ import annotations

import numpy as np

from spgraph_bench.parameters import Parameter
from spgraph_bench.variants.base import Job, Launch, variant
from spgraph_bench.variants.grids import BLOCK, blocks_for
from spgraph_bench.variants.spmv.gathers import scattered

__all__ = ["STEPS", "decide_batch"]

STEPS = {
    "steps": Parameter(8, "entries per lane of the segmented sum", (1, 2, 4, 8, 16, 32)),
    "batch": Parameter(
        "auto",
        "steps of the segmented sum whose entries a lane loads together; auto: 8 (4 of 8-byte values), 1 "
        "where neighbouring entries are far apart in x",
        ("auto", 1, 2, 4, 8),
        macro="SPG_BATCH",
    ),
}


@variant(
    "spmv",
    "coo-atomic",
    format="coo",
    source="spmv/coo_atomic.cu",
    tunables=BLOCK,
    about="a thread per nonzero, atomicAdd into y",
)
def coo_atomic(job: Job) -> Launch:
    a, arrays, y, block = job.packed, job.arrays, job.buffers["y"], job.params["block"]
    entries = len(a.row)
    add = job.kernel("coo_atomic").bind(
        blocks_for(entries, block),
        block,
        a.offsets.type(entries),
        arrays["row"],
        arrays["col"],
        arrays["val"],
        job.buffers["x"],
        y,
    )

    def run() -> None:
        job.device.fill(y, 0)
        add()

    return job.launch(run, operations=2)


@variant(
    "spmv",
    "coo-unsorted",
    format="coo-unsorted",
    source="spmv/coo_atomic.cu",
    tunables=BLOCK,
    about="a thread per entry of an assembly, unsorted and with duplicates, atomicAdd into y",
)
def coo_unsorted(job: Job) -> Launch:
    return coo_atomic(job)


def decide_batch(job: Job, columns: str) -> None:
    """Decide on "batch", for segmented_sum.cuh; `columns` names the columns of the entries that it adds up."""
    far = scattered(job.packed.arrays[columns], job.dtype.itemsize)
    job.decide("batch", 1 if far else 32 // job.dtype.itemsize)


@variant(
    "spmv",
    "coo-segmented",
    format="coo",
    source="spmv/coo_segmented.cu",
    tunables=BLOCK | STEPS,
    about="warp-segmented sums, one atomic per row and warp",
)
def coo_segmented(job: Job) -> Launch:
    a, arrays, y, block, steps = (job.packed, job.arrays, job.buffers["y"], job.params["block"], job.params["steps"])
    decide_batch(job, "col")
    add = job.kernel("coo_segmented").bind(
        blocks_for(blocks_for(a.nnz, steps), block),
        block,
        a.offsets.type(a.nnz),
        np.int32(steps),
        arrays["row"],
        arrays["col"],
        arrays["val"],
        job.buffers["x"],
        y,
    )

    def run() -> None:
        job.device.fill(y, 0)
        add()

    return job.launch(run, operations=2)
