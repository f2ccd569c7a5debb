"""SpMV from COO: y = A x. The contract of each is in its kernel file."""

from __future__ import annotations

import numpy as np

from spgraph_bench.parameters import Parameter
from spgraph_bench.variants.base import Job, Launch, variant
from spgraph_bench.variants.defines import differing
from spgraph_bench.variants.grids import BLOCK, blocks_for
from spgraph_bench.variants.spmv.gathers import scattered

__all__ = ["STEPS", "segment_defines"]

STEPS = {
    "steps": Parameter(8, "entries per lane of the segmented sum", (1, 2, 4, 8, 16, 32)),
    "batch": Parameter(
        "auto",
        "steps of the segmented sum whose entries a lane loads together; auto: 8 (4 of 8-byte values), 1 "
        "where neighbouring entries are far apart in x",
        ("auto", 1, 2, 4, 8),
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
    add = job.kernel("coo_atomic").bind(
        blocks_for(a.nnz, block),
        block,
        a.offsets.type(a.nnz),
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


def segment_defines(job: Job, columns: str) -> dict[str, str]:
    """-D for segmented_sum.cuh; `columns` names the columns of the entries that it adds up."""
    wide = 32 // job.dtype.itemsize
    batch = job.decide("batch", 1 if scattered(job.packed.arrays[columns], job.dtype.itemsize) else wide)
    return differing({"SPG_BATCH": wide}, SPG_BATCH=batch)


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
    add = job.kernel("coo_segmented", **segment_defines(job, "col")).bind(
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
