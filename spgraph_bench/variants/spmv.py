"""spgraph's own SpMV kernels: y = A x. The contract of each is in its kernel file."""

from __future__ import annotations

import numpy as np

from spgraph_bench.formats.base import Tunable
from spgraph_bench.variants.base import Job, Launch, variant

__all__: list[str] = []

_BLOCK = {"block": Tunable(256, "threads per block", (64, 128, 256, 512, 1024))}
_STEPS = {"steps": Tunable(8, "entries per lane of the segmented sum", (1, 2, 4, 8, 16, 32))}


def _blocks(threads: int, block: int) -> int:
    return -(-threads // block)


@variant("spmv", "coo-atomic", format="coo", source="spmv/coo_atomic.cu", tunables=_BLOCK,
         about="a thread per nonzero, atomicAdd into y")  # fmt: skip
def coo_atomic(job: Job) -> Launch:
    a, arrays, y, block = job.packed, job.arrays, job.buffers["y"], job.params["block"]
    add = job.kernel("coo_atomic").bind(
        _blocks(a.nnz, block), block,
        a.offsets.type(a.nnz), arrays["row"], arrays["col"], arrays["val"], job.buffers["x"], y,
    )  # fmt: skip

    def run() -> None:
        job.device.fill(y, 0)
        add()

    return job.launch(run, operations=2)


@variant("spmv", "coo-segmented", format="coo", source="spmv/coo_segmented.cu", tunables=_BLOCK | _STEPS,
         about="warp-segmented sums, one atomic per row and warp")  # fmt: skip
def coo_segmented(job: Job) -> Launch:
    a, arrays, y, block, steps = (
        job.packed,
        job.arrays,
        job.buffers["y"],
        job.params["block"],
        job.params["steps"],
    )
    add = job.kernel("coo_segmented").bind(
        _blocks(_blocks(a.nnz, steps), block), block,
        a.offsets.type(a.nnz), np.int32(steps), arrays["row"], arrays["col"], arrays["val"],
        job.buffers["x"], y,
    )  # fmt: skip

    def run() -> None:
        job.device.fill(y, 0)
        add()

    return job.launch(run, operations=2)


@variant("spmv", "csr-scalar", format="csr", source="spmv/csr_scalar.cu", tunables=_BLOCK,
         about="a thread per row: the textbook baseline")  # fmt: skip
def csr_scalar(job: Job) -> Launch:
    a, arrays, block = job.packed, job.arrays, job.params["block"]
    return job.launch(
        job.kernel("csr_scalar").bind(
            _blocks(a.rows, block), block,
            np.int32(a.rows), arrays["row_ptr"], arrays["col"], arrays["val"],
            job.buffers["x"], job.buffers["y"],
        )
    )  # fmt: skip


@variant("spmv", "csr-vector", format="csr", source="spmv/csr_vector.cu", tunables=_BLOCK,
         about="a warp per row, shuffle reduction")  # fmt: skip
def csr_vector(job: Job) -> Launch:
    a, arrays, block = job.packed, job.arrays, job.params["block"]
    return job.launch(
        job.kernel("csr_vector").bind(
            _blocks(32 * a.rows, block), block,
            np.int32(a.rows), arrays["row_ptr"], arrays["col"], arrays["val"],
            job.buffers["x"], job.buffers["y"],
        )
    )  # fmt: skip


@variant("spmv", "ell", format="ell", source="spmv/ell.cu", tunables=_BLOCK,
         about="a thread per row, coalesced slots")  # fmt: skip
def ell(job: Job) -> Launch:
    a, arrays, block = job.packed, job.arrays, job.params["block"]
    return job.launch(
        job.kernel("ell").bind(
            _blocks(a.rows, block), block,
            np.int32(a.rows), np.int32(a.slots), arrays["col"], arrays["val"],
            job.buffers["x"], job.buffers["y"],
        )
    )  # fmt: skip


@variant("spmv", "hyb", format="hyb", source="spmv/hyb.cu", tunables=_BLOCK | _STEPS,
         about="ELL part by rows, COO tail by warp-segmented sums: two launches")  # fmt: skip
def hyb(job: Job) -> Launch:
    a, arrays, block, steps = job.packed, job.arrays, job.params["block"], job.params["steps"]
    x, y = job.buffers["x"], job.buffers["y"]
    rows = job.kernel("hyb_ell").bind(
        _blocks(a.rows, block), block,
        np.int32(a.rows), np.int32(a.slots), arrays["ell_col"], arrays["ell_val"], x, y,
    )  # fmt: skip
    if not a.tail:
        return job.launch(rows)
    tail = job.kernel("hyb_tail").bind(
        _blocks(_blocks(a.tail, steps), block), block,
        a.offsets.type(a.tail), np.int32(steps),
        arrays["coo_row"], arrays["coo_col"], arrays["coo_val"], x, y,
    )  # fmt: skip

    def run() -> None:
        rows()
        tail()

    return job.launch(run, operations=2)


@variant("spmv", "jds", format="jds", source="spmv/jds.cu", tunables=_BLOCK,
         about="a thread per row, rows sorted by length, coalesced slots without padding")  # fmt: skip
def jds(job: Job) -> Launch:
    a, arrays, block = job.packed, job.arrays, job.params["block"]
    return job.launch(
        job.kernel("jds").bind(
            _blocks(a.rows, block), block,
            np.int32(a.rows), np.int32(a.slots), arrays["perm"], arrays["slot_start"],
            arrays["col"], arrays["val"], job.buffers["x"], job.buffers["y"],
        )
    )  # fmt: skip
