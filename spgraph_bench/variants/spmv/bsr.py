"""SpMV on blocks: y = A x from BSR. The contracts are in cuda/spmv/bsr.cu and bsr_sliced.cu."""

from __future__ import annotations

import dataclasses

import numpy as np

from spgraph_bench.parameters import Parameter
from spgraph_bench.variants.base import Job, Launch, variant

__all__: list[str] = []

_BLOCK = {"block": Parameter(64, "threads per block", (64, 128, 256, 512))}


@variant("spmv", "bsr", format="bsr", source="spmv/bsr.cu", tunables=_BLOCK, about="blocks of r x c, a thread per row")
def bsr(job: Job) -> Launch:
    a, arrays, block = job.packed, job.arrays, job.params["block"]
    return job.launch(
        job.kernel("bsr", SPG_ROWS=a.block_rows, SPG_COLS=a.block_cols).bind(
            -(-a.rows // block),
            block,
            np.int32(a.rows),
            np.int32(a.cols),
            arrays["block_ptr"],
            arrays["block_col"],
            arrays["block_val"],
            job.buffers["x"],
            job.buffers["y"],
        )
    )


@variant(
    "spmv",
    "bsr-sliced",
    format="bsr-sliced",
    source="spmv/bsr_sliced.cu",
    tunables={
        "block": dataclasses.replace(_BLOCK["block"], macro="SPG_BLOCK"),
        "ahead": Parameter(1, "blocks a thread reads before it uses one", (1, 2, 3, 4), macro="SPG_AHEAD"),
    },
    about="blocks interleaved over 32 block rows, a thread per block row, no padding",
)
def bsr_sliced(job: Job) -> Launch:
    a, arrays, block = job.packed, job.arrays, job.params["block"]
    types = {
        "SPG_COLUMN": "unsigned short" if a.block_col.dtype == np.uint16 else "int",
        "SPG_LENGTH": "unsigned char" if a.length.dtype == np.uint8 else "int",
    }
    return job.launch(
        job.kernel("bsr_sliced", SPG_ROWS=a.block_rows, SPG_COLS=a.block_cols, **types).bind(
            -(-a.rows // (a.block_rows * block)),
            block,
            np.int32(a.rows),
            np.int32(a.cols),
            arrays["slice_ptr"],
            arrays["length"],
            arrays["base"],
            arrays["block_col"],
            arrays["wide_val"],
            arrays["rest_val"],
            job.buffers["x"],
            job.buffers["y"],
        )
    )
