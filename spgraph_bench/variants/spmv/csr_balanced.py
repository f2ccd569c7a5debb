"""SpMV from CSR, the same work to each block or warp: y = A x. The contract of each is in its kernel file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from spgraph_bench.errors import SkipError
from spgraph_bench.parameters import Parameter
from spgraph_bench.units import human_bytes
from spgraph_bench.variants.base import Job, Launch, variant
from spgraph_bench.variants.grids import blocks_for

__all__ = ["ADAPTIVE", "adaptive", "tile_of"]

# The products of a tile take 13 kB: L1, which gathers need, gets what is left.
ADAPTIVE = {
    "block": Parameter(128, "threads per block", (128, 256, 512), macro="SPG_BLOCK"),
    "tile": Parameter(
        "auto",
        "rows and entries per block; auto: 2048, of 8-byte values 1024",
        ("auto", 512, 1024, 2048),
        macro="SPG_TILE",
    ),
    "threads": Parameter(1024, "threads per SM to leave registers for", (1024, 1280, 1536, 2048), macro="SPG_THREADS"),
}


def tile_of(job: Job) -> int:
    """The tunable "tile" of a kernel made of adaptive.cuh (SPG_TILE)."""
    return int(job.decide("tile", 8192 // job.dtype.itemsize))


_DEPTH = 2
"""SPG_DEPTH of SpMV's kernels made of adaptive.cuh: quads that a thread works on at a time."""


def adaptive(job: Job, kernel: str, entries: Sequence[Any]) -> Launch:
    """`kernel`, which is made of adaptive.cuh; `entries` are its arguments between row_ptr and x. The tunables of
    its variant are ADAPTIVE's, with defaults of their own."""
    a, device, row_ptr = job.packed, job.device, job.arrays["row_ptr"]
    block = job.params["block"]
    tile = tile_of(job)
    blocks = blocks_for(a.rows + a.nnz, tile)
    table = [device.empty(blocks + 1, kind) for kind in (np.dtype(np.int32), a.offsets, np.dtype(np.int32))]
    # Two blocks an SM, which are a quarter of those that are resident on an H200: such a block starts soon.
    defines = {"SPG_DEPTH": _DEPTH, "SPG_FAR": 2 * device.info().gpu.multiprocessors}
    fill = job.kernel(f"{kernel}_table", **defines).bind(
        blocks_for(blocks + 1, 256) if blocks else 0, 256, np.int32(a.rows), np.int32(blocks), row_ptr, *table
    )
    partial, arrived = device.empty(2 * blocks, a.dtype), device.empty(blocks, np.uint32)
    device.fill(arrived, 0)
    return job.launch(
        job.kernel(kernel, **defines).bind(
            blocks,
            block,
            a.offsets.type(a.nnz),
            *table,
            partial,
            arrived,
            row_ptr,
            *entries,
            job.buffers["x"],
            job.buffers["y"],
        ),
        preprocess_ms=job.timed_ms(fill),
        extra_bytes=sum(b.nbytes for b in (*table, partial, arrived)),
        keep=(table, partial, arrived),
    )


@variant(
    "spmv",
    "csr-adaptive",
    format="csr",
    source="spmv/csr_adaptive.cu",
    tunables=ADAPTIVE,
    about="blocks of equal work: products to shared memory, rows summed there",
)
def csr_adaptive(job: Job) -> Launch:
    return adaptive(job, "csr_adaptive", [job.arrays["col"], job.arrays["val"]])


_SEGMENTED = {
    "block": Parameter(256, "threads per block", (64, 128, 256, 512), macro="SPG_BLOCK"),
    "steps": Parameter(4, "entries per lane of the segmented sum", (4, 8), macro="SPG_STEPS"),
    "resident": Parameter(
        "auto", "threads per SM to leave registers for", ("auto", 1024, 1280, 1536, 2048), macro="SPG_PER_SM"
    ),
    "launches": Parameter(
        "auto",
        "2: y is zeroed first; 1: tiles pass on their parts of cut rows; auto: 1 up to 2^20 nonzeros",
        ("auto", 1, 2),
    ),
    "order": Parameter(
        "ticket",
        "numbers of tiles with launches=1: as blocks start, or by index (unsafe: shows the ticket's cost)",
        ("ticket", "index"),
    ),
}


def _one_launch(row_ptr: np.ndarray, tile: int) -> bool:
    """Whether not to zero y first: where that is a good part of the time, and no tile has many to zero."""
    nnz = int(row_ptr[-1])
    if not 0 < nnz <= 1 << 20:
        return False
    first = np.searchsorted(row_ptr[:-1], np.arange(0, nnz, tile))
    return int(np.diff(first, append=len(row_ptr) - 1).max()) <= 4 * tile


@variant(
    "spmv",
    "csr-segmented",
    format="csr",
    source="spmv/csr_segmented.cu",
    tunables=_SEGMENTED,
    about="equal runs of entries to warps, segmented sums; atomics for cut rows, or none",
)
def csr_segmented(job: Job) -> Launch:
    a, arrays, device, y = job.packed, job.arrays, job.device, job.buffers["y"]
    block, steps = job.params["block"], job.params["steps"]
    launches = job.decide("launches", 1 if _one_launch(a.arrays["row_ptr"], 32 * steps) else 2)
    # The most for which a lane's entries and their x stay in registers.
    most = {16: 2048, 64: 1024}.get(steps * a.dtype.itemsize, 1536)
    if launches == 1 and a.offsets.itemsize == 8:
        most = {2048: 1536, 1536: 1280}.get(most, most)
    job.decide("resident", most)
    defines: dict[str, int] = {}
    tiles = blocks_for(a.nnz, 32 * steps)
    one = launches == 1 and tiles > 0
    parts = device.empty(1 + tiles * a.dtype.itemsize // 4 if one else 0, np.uint64)
    if one:
        defines["SPG_ONE_LAUNCH"] = 1
        if job.params["order"] == "index":
            if device.kind == "host":
                raise SkipError("order=index needs blocks to start in the order of their index; here they do not")
            defines["SPG_INDEX_ORDER"] = 1
        device.fill(parts, 0)
    tile_row = device.empty(tiles + 1, np.int32)
    table = job.kernel("csr_segmented_table", **defines).bind(
        blocks_for(tiles + 1, 256), 256, np.int32(a.rows), np.int32(tiles), arrays["row_ptr"], tile_row
    )
    preprocess_ms = job.timed_ms(table)
    add = job.kernel("csr_segmented", **defines).bind(
        blocks_for(32 * tiles, block),
        block,
        a.offsets.type(a.nnz),
        tile_row,
        arrays["row_ptr"],
        arrays["col"],
        arrays["val"],
        job.buffers["x"],
        y,
        *((parts,) if one else ()),
    )

    def run() -> None:
        device.fill(y, 0)
        add()

    return job.launch(
        add if one else run,
        operations=1 if one else 2,
        preprocess_ms=preprocess_ms,
        extra_bytes=tile_row.nbytes + parts.nbytes,
        keep=(tile_row, parts),
    )


_MERGE = {
    "block": Parameter(256, "threads per block", (64, 128, 256, 512), macro="SPG_BLOCK"),
    "items": Parameter(
        "auto", "entries and row ends per thread; auto: 7, of 8-byte values 5", ("auto", 5, 7, 9, 11), macro="SPG_ITEMS"
    ),
}


@variant(
    "spmv",
    "csr-merge",
    format="csr",
    source="spmv/csr_merge.cu",
    tunables=_MERGE,
    about="merge path over rows and nonzeros, every thread the same work; carry-out fix-up",
)
def csr_merge(job: Job) -> Launch:
    a, arrays, device, y = job.packed, job.arrays, job.device, job.buffers["y"]
    block, items = job.params["block"], job.decide("items", 5 if job.dtype.itemsize == 8 else 7)
    # A value and a row end for each element of a tile; no kernel may declare more than 48 kB.
    if (need := (block * items + 1) * (a.dtype.itemsize + 2)) > 48 * 1024:
        raise SkipError(f"needs {human_bytes(need)} of shared memory a block: --param block={block // 2}")
    tiles = blocks_for(a.rows + a.nnz, block * items)
    tile_row, carry = device.empty(tiles + 1, np.int32), device.empty(tiles, a.dtype)
    table = job.kernel("csr_merge_table").bind(
        blocks_for(tiles + 1, 256), 256, np.int32(a.rows), np.int32(tiles), arrays["row_ptr"], tile_row
    )
    preprocess_ms = job.timed_ms(table)
    tile_sums = job.kernel("csr_merge").bind(
        tiles,
        block,
        np.int32(a.rows),
        a.offsets.type(a.nnz),
        tile_row,
        carry,
        arrays["row_ptr"],
        arrays["col"],
        arrays["val"],
        job.buffers["x"],
        y,
    )
    carries = job.kernel("csr_merge_carry").bind(
        blocks_for(tiles, 256), 256, np.int32(a.rows), np.int32(tiles), tile_row, carry, y
    )

    def run() -> None:
        tile_sums()
        carries()

    return job.launch(
        run,
        operations=2,
        preprocess_ms=preprocess_ms,
        extra_bytes=tile_row.nbytes + carry.nbytes,
        keep=(tile_row, carry),
    )
