"""spgraph's own SpMV kernels: y = A x. The contract of each is in its kernel file."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.formats.base import Tunable
from spgraph_bench.formats.common import ranges
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


_THREADS = {"threads": Tunable("auto", "threads per row", ("auto", 2, 4, 8, 16, 32))}


@variant("spmv", "csr-subwarp", format="csr", source="spmv/csr_subwarp.cu", tunables=_BLOCK | _THREADS,
         about="2 to 32 threads per row, by mean length")  # fmt: skip
def csr_subwarp(job: Job) -> Launch:
    a, arrays, block, threads = job.packed, job.arrays, job.params["block"], job.params["threads"]
    if threads == "auto":
        mean = a.nnz / max(a.rows, 1)
        threads = next((t for t in (2, 4, 8, 16) if 4 * t >= mean), 32)  # four entries a thread and step
    return job.launch(
        job.kernel("csr_subwarp", SPG_THREADS=str(threads)).bind(
            _blocks(threads * a.rows, block), block,
            np.int32(a.rows), a.offsets.type(a.nnz), arrays["row_ptr"], arrays["col"], arrays["val"],
            job.buffers["x"], job.buffers["y"],
        )
    )  # fmt: skip


def row_blocks(
    row_ptr: npt.NDArray[np.integer[Any]], tile: int, long: int
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """The table of csr-adaptive: ``block_row`` [blocks + 1] and ``chunk`` [blocks].

    Rows and entries count alike towards `tile`, so that empty rows cannot pile up in one block. A block of
    whole rows (chunk -1) holds at most tile + long entries; a row longer than `long` is cut into chunks of
    `tile` entries, counted from the multiple of 4 at or below its begin.
    """
    rows, lengths = len(row_ptr) - 1, np.diff(row_ptr).astype(np.int64)
    long_rows = np.flatnonzero(lengths > long)
    cost = np.ones(rows + 1, np.int64)
    cost[1:] += np.where(lengths > long, 0, lengths)
    cost[0] = 0
    cost = np.cumsum(cost)  # of all rows before row i
    cuts = np.searchsorted(cost, np.arange(0, cost[-1], tile))
    starts = np.unique(np.concatenate((cuts, long_rows, long_rows + 1)))
    starts = starts[starts < rows]
    pieces = np.ones(len(starts), np.int64)
    is_long = lengths[starts] > long
    begin, end = row_ptr[starts[is_long]].astype(np.int64), row_ptr[starts[is_long] + 1].astype(np.int64)
    pieces[is_long] = -(-(end - (begin & ~3)) // tile)
    chunk = ranges(np.zeros(len(starts), np.int64), pieces)
    chunk[np.repeat(~is_long, pieces)] = -1
    block_row = np.append(np.repeat(starts, pieces), rows)
    return block_row.astype(np.int32), chunk.astype(np.int32)


@variant("spmv", "csr-adaptive", format="csr", source="spmv/csr_adaptive.cu",
         tunables={
             "block": Tunable(256, "threads per block", (64, 128, 256, 512, 1024)),
             "tile": Tunable(2048, "entries per block", (512, 1024, 2048)),
         },
         about="blocks of equal work: products to shared memory, rows summed there")  # fmt: skip
def csr_adaptive(job: Job) -> Launch:
    a, arrays, block, tile = job.packed, job.arrays, job.params["block"], job.params["tile"]
    device = job.device
    start = time.perf_counter()
    block_row, chunk = row_blocks(a.row_ptr, tile, tile // 2)
    table = [device.upload(block_row), device.upload(chunk)]
    table.append(device.empty(len(chunk), a.dtype))
    table.append(device.upload(np.zeros(len(chunk), np.uint32)))
    device.synchronize()
    preprocess_ms = (time.perf_counter() - start) * 1e3
    return job.launch(
        job.kernel("csr_adaptive", SPG_TILE=str(tile)).bind(
            len(chunk), block,
            a.offsets.type(a.nnz), *table, arrays["row_ptr"], arrays["col"], arrays["val"],
            job.buffers["x"], job.buffers["y"],
        ),
        preprocess_ms=preprocess_ms, extra_bytes=sum(t.nbytes for t in table), keep=table,
    )  # fmt: skip


_MERGE_ITEMS = 7


@variant("spmv", "csr-merge", format="csr", source="spmv/csr_merge.cu",
         tunables={"block": Tunable(256, "threads per block", (64, 128, 256, 512))},
         about="merge path over rows and nonzeros, every thread the same work; carry-out fix-up")  # fmt: skip
def csr_merge(job: Job) -> Launch:
    a, arrays, block, device, y = job.packed, job.arrays, job.params["block"], job.device, job.buffers["y"]
    start = time.perf_counter()
    total = a.rows + a.nnz
    tiles = _blocks(total, block * _MERGE_ITEMS)
    # The end of row i is element i + row_ptr[i + 1] of the merged list.
    row_ends = a.row_ptr[1:].astype(np.int64) + np.arange(a.rows)
    borders = np.minimum(np.arange(tiles + 1, dtype=np.int64) * block * _MERGE_ITEMS, total)
    tile_row = device.upload(np.searchsorted(row_ends, borders).astype(np.int32))
    carry = device.empty(tiles, a.dtype)
    device.synchronize()
    preprocess_ms = (time.perf_counter() - start) * 1e3
    defines = {"SPG_BLOCK": str(block), "SPG_ITEMS": str(_MERGE_ITEMS)}
    tile_sums = job.kernel("csr_merge", **defines).bind(
        tiles, block,
        np.int32(a.rows), a.offsets.type(a.nnz), tile_row, carry,
        arrays["row_ptr"], arrays["col"], arrays["val"], job.buffers["x"], y,
    )  # fmt: skip
    carries = job.kernel("csr_merge_carry", **defines).bind(
        _blocks(tiles, 256), 256, np.int32(a.rows), np.int32(tiles), tile_row, carry, y
    )

    def run() -> None:
        tile_sums()
        carries()

    return job.launch(
        run, operations=2, preprocess_ms=preprocess_ms, extra_bytes=tile_row.nbytes + carry.nbytes,
        keep=(tile_row, carry),
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


@variant("spmv", "sell", format="sell", source="spmv/sell.cu", tunables=_BLOCK,
         about="a thread per row, slices of 32 rows each as wide as their longest")  # fmt: skip
def sell(job: Job) -> Launch:
    a, arrays, block = job.packed, job.arrays, job.params["block"]
    return job.launch(
        job.kernel("sell").bind(
            _blocks(a.rows, block), block,
            np.int32(a.rows), arrays["slice_ptr"], arrays.get("perm"), arrays["col"], arrays["val"],
            job.buffers["x"], job.buffers["y"],
        )
    )  # fmt: skip


@variant("spmv", "dia", format="dia", source="spmv/dia.cu", tunables=_BLOCK,
         about="by diagonals, a thread per 16 bytes of rows, no column indices")  # fmt: skip
def dia(job: Job) -> Launch:
    a, arrays, block = job.packed, job.arrays, job.params["block"]
    lowest, highest = (a.diag[0], a.diag[-1]) if a.diagonals else (0, 0)
    rows_per_thread = 16 // a.dtype.itemsize
    return job.launch(
        job.kernel("dia").bind(
            _blocks(_blocks(a.rows, rows_per_thread), block), block,
            np.int32(a.rows), np.int32(a.cols), np.int32(a.diagonals), np.int32(lowest), np.int32(highest),
            np.int64(a.pitch), arrays["diag"], arrays["data"], job.buffers["x"], job.buffers["y"],
        )
    )  # fmt: skip
