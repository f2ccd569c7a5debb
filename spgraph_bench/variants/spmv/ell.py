"""SpMV from ELL (also row by row), HYB, JDS and SELL, rows side by side. The contract of each is in its kernel file."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from spgraph_bench.parameters import Parameter
from spgraph_bench.variants.base import Job, Launch, variant
from spgraph_bench.variants.grids import BLOCK, blocks_for
from spgraph_bench.variants.spmv.coo import STEPS, decide_batch
from spgraph_bench.variants.spmv.gathers import scattered

__all__: list[str] = []

Run = Callable[[], None]

_AHEAD = {
    "ahead": Parameter(
        "auto",
        "slots of a row read before the first is used; auto: 6, 1 where 8-byte values of x are far apart",
        ("auto", 1, 2, 4, 6, 8, 14),
        macro="SPG_AHEAD",
    )
}


def _row_defines(job: Job, columns: str) -> dict[str, int]:
    """Decides on the tunable "ahead"; -D for a kernel made of ell_row.cuh."""
    value_bytes = job.dtype.itemsize
    far = value_bytes == 8 and scattered(job.packed.arrays[columns], value_bytes)
    job.decide("ahead", 1 if far else 6)
    return {"SPG_BLOCK": max(512, job.params["block"])}


@variant(
    "spmv",
    "ell",
    format="ell",
    source="spmv/ell.cu",
    tunables=BLOCK | _AHEAD,
    about="a thread per row, coalesced slots",
)
def ell(job: Job) -> Launch:
    a, arrays, block = job.packed, job.arrays, job.params["block"]
    return job.launch(
        job.kernel("ell", **_row_defines(job, "col")).bind(
            blocks_for(a.rows, block),
            block,
            np.int32(a.rows),
            np.int32(a.slots),
            arrays["col"],
            arrays["val"],
            job.buffers["x"],
            job.buffers["y"],
        )
    )


@variant(
    "spmv",
    "ell-rows",
    format="ell-rows",
    source="spmv/ell_rows.cu",
    tunables=BLOCK,
    about="a thread per row, rows one after another: reads are not coalesced",
)
def ell_rows(job: Job) -> Launch:
    a, arrays, block = job.packed, job.arrays, job.params["block"]
    return job.launch(
        job.kernel("ell_rows").bind(
            blocks_for(a.rows, block),
            block,
            np.int32(a.rows),
            np.int32(a.slots),
            arrays["row_col"],
            arrays["row_val"],
            job.buffers["x"],
            job.buffers["y"],
        )
    )


@variant(
    "spmv",
    "hyb",
    format="hyb",
    source="spmv/hyb.cu",
    tunables=BLOCK | STEPS | _AHEAD,
    about="ELL part by rows, COO tail by warp-segmented sums: two launches",
)
def hyb(job: Job) -> Launch:
    a, arrays, block, steps = job.packed, job.arrays, job.params["block"], job.params["steps"]
    x, y = job.buffers["x"], job.buffers["y"]
    defines = _row_defines(job, "ell_col")
    if a.tail:
        decide_batch(job, "coo_col")
    else:
        defines["SPG_BATCH"] = 1  # of a kernel that is not run
    rows = job.kernel("hyb_ell", **defines).bind(
        blocks_for(a.rows, block),
        block,
        np.int32(a.rows),
        np.int32(a.slots),
        arrays["ell_col"],
        arrays["ell_val"],
        x,
        y,
    )
    if not a.tail:
        return job.launch(rows)
    tail = job.kernel("hyb_tail", **defines).bind(
        blocks_for(blocks_for(a.tail, steps), block),
        block,
        a.offsets.type(a.tail),
        np.int32(steps),
        arrays["coo_row"],
        arrays["coo_col"],
        arrays["coo_val"],
        x,
        y,
    )

    return _rows_then_tail(job, rows, tail)


def _rows_then_tail(job: Job, rows: Run, tail: Run) -> Launch:
    def run() -> None:
        rows()
        tail()

    return job.launch(run, operations=2)


@variant(
    "spmv",
    "hyb-atomic",
    format="hyb",
    source="spmv/hyb_atomic.cu",
    tunables=BLOCK,
    about="ELL part by rows, an atomic for each entry of the COO tail: two launches",
)
def hyb_atomic(job: Job) -> Launch:
    a, arrays, block = job.packed, job.arrays, job.params["block"]
    x, y = job.buffers["x"], job.buffers["y"]
    rows = job.kernel("hyb_rows").bind(
        blocks_for(a.rows, block),
        block,
        np.int32(a.rows),
        np.int32(a.slots),
        arrays["ell_col"],
        arrays["ell_val"],
        x,
        y,
    )
    if not a.tail:
        return job.launch(rows)
    entries = job.kernel("hyb_entries").bind(
        blocks_for(a.tail, block),
        block,
        a.offsets.type(a.tail),
        arrays["coo_row"],
        arrays["coo_col"],
        arrays["coo_val"],
        x,
        y,
    )
    return _rows_then_tail(job, rows, entries)


@variant(
    "spmv",
    "jds",
    format="jds",
    source="spmv/jds.cu",
    tunables=BLOCK,
    about="a thread per row, rows sorted by length, coalesced slots without padding",
)
def jds(job: Job) -> Launch:
    a, arrays, block = job.packed, job.arrays, job.params["block"]
    return job.launch(
        job.kernel("jds").bind(
            blocks_for(a.rows, block),
            block,
            np.int32(a.rows),
            np.int32(a.slots),
            arrays["perm"],
            arrays["slot_start"],
            arrays["col"],
            arrays["val"],
            job.buffers["x"],
            job.buffers["y"],
        )
    )


@variant(
    "spmv",
    "sell",
    format="sell",
    source="spmv/sell.cu",
    tunables=BLOCK | _AHEAD,
    about="a thread per row, slices of 32 rows each as wide as their longest",
)
def sell(job: Job) -> Launch:
    a, arrays, block = job.packed, job.arrays, job.params["block"]
    return job.launch(
        job.kernel("sell", **_row_defines(job, "col")).bind(
            blocks_for(a.rows, block),
            block,
            np.int32(a.rows),
            arrays["slice_ptr"],
            arrays.get("perm"),
            arrays["col"],
            arrays["val"],
            job.buffers["x"],
            job.buffers["y"],
        )
    )
