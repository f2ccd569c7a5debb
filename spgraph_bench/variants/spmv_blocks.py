"""SpMV on blocks: y = A x from BSR. The contracts are in cuda/spmv/bsr.cu and bsr_sliced.cu."""

from __future__ import annotations

import numpy as np

from spgraph_bench.formats.base import Tunable
from spgraph_bench.variants.base import Job, Launch, variant

__all__: list[str] = []

_BLOCK = {"block": Tunable(256, "threads per block", (64, 128, 256, 512))}


@variant("spmv", "bsr", format="bsr", source="spmv/bsr.cu", tunables=_BLOCK,
         about="blocks of r x c, a thread per row")  # fmt: skip
def bsr(job: Job) -> Launch:
    a, arrays, block = job.packed, job.arrays, job.params["block"]
    size = {"SPG_ROWS": str(a.block_rows), "SPG_COLS": str(a.block_cols)}
    return job.launch(
        job.kernel("bsr", **size).bind(
            -(-a.rows // block), block,
            np.int32(a.rows), np.int32(a.cols), arrays["block_ptr"], arrays["block_col"], arrays["block_val"],
            job.buffers["x"], job.buffers["y"],
        )
    )  # fmt: skip


@variant("spmv", "bsr-sliced", format="bsr-sliced", source="spmv/bsr_sliced.cu",
         tunables={
             **_BLOCK,
             "ahead": Tunable("auto", "blocks a thread reads before it uses one", ("auto", 1, 2, 3, 4)),
         },
         about="blocks interleaved over 32 block rows, a thread per block row, no padding")  # fmt: skip
def bsr_sliced(job: Job) -> Launch:
    a, arrays, block, ahead = job.packed, job.arrays, job.params["block"], job.params["ahead"]
    if ahead == "auto":  # so many as stay within 40 registers
        ahead = max(1, min(3, 160 // (a.block_rows * a.block_cols * a.dtype.itemsize)))
    defines = {
        "SPG_ROWS": str(a.block_rows), "SPG_COLS": str(a.block_cols),
        "SPG_BLOCK": str(block), "SPG_AHEAD": str(ahead),
    }  # fmt: skip
    return job.launch(
        job.kernel("bsr_sliced", **defines).bind(
            -(-a.rows // (a.block_rows * block)), block,
            np.int32(a.rows), np.int32(a.cols), arrays["block_ptr"], arrays["block_col"],
            arrays["wide_val"], arrays["rest_val"], job.buffers["x"], job.buffers["y"],
        )
    )  # fmt: skip
