"""SpMV from CSR with x of the busiest columns in shared memory. The contract is in cuda/spmv/csr_hubs.cu."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from spgraph_bench.timer import perf_counter
from spgraph_bench.variants.base import Job, Launch, variant
from spgraph_bench.variants.grids import blocks_for, needs_cooperative
from spgraph_bench.variants.marked_rows import HUBS, TILE, MarkedRows, busiest_columns, hub_shape

__all__: list[str] = []

_TUNABLES = HUBS | {"row_cost": replace(HUBS["row_cost"], default=12)}


@variant(
    "spmv",
    "csr-hubs",
    format="csr",
    source="spmv/csr_hubs.cu",
    tunables=_TUNABLES,
    missing=needs_cooperative,
    about="segmented sums; x of the busiest columns from shared memory",
)
def csr_hubs(job: Job) -> Launch:
    a, arrays, device, p = job.packed, job.arrays, job.device, job.params
    info = device.info()
    block, sums, most = hub_shape(job, a.cols)
    begin = perf_counter()
    blocks = min(4, info.multiprocessors) if device.kind == "host" else info.multiprocessors
    rows = MarkedRows(a.row_ptr, blocks * (block // 32) * int(p["chunks"]), int(p["row_cost"]))
    preprocess_ms = (perf_counter() - begin) * 1e3
    nnz, places = np.int64(a.nnz), rows.tiles * TILE
    count = device.empty(a.cols, np.uint32)

    def columns() -> None:
        device.fill(count, 0)
        job.kernel("hubs_count").bind(blocks_for(a.nnz, 256), 256, nnz, arrays["col"], count)()

    preprocess_ms += job.timed_ms(columns)
    begin = perf_counter()
    hub_col = busiest_columns(device.download(count), most, blocks, a.dtype.itemsize)
    place = np.full(a.cols, -1, np.int32)
    place[hub_col] = np.arange(len(hub_col), dtype=np.int32)
    own = {
        "hub_col": hub_col,
        "zeroed": np.concatenate((rows.bare, rows.cut)),
        "tile_begin": rows.tile_begin,
        "first_row": rows.first_row,
    }
    if len(rows.bare):
        own["row_of"] = rows.row_of
    on_device = {name: device.upload(array) for name, array in own.items()}
    place_on_device = device.upload(place)
    preprocess_ms += (perf_counter() - begin) * 1e3
    hubs, edge = np.int32(len(hub_col)), device.empty(places, np.uint32)
    fill = job.kernel("hubs_places").bind(
        blocks_for(places, 256), 256, np.int64(places), nnz, hubs, arrays["col"], place_on_device, edge
    )
    mark = job.kernel("hubs_ends").bind(blocks_for(a.rows, 256), 256, np.int32(a.rows), arrays["row_ptr"], edge)

    def edges() -> None:
        fill()
        mark()

    preprocess_ms += job.timed_ms(edges)
    place_on_device.free()
    count.free()
    hub_x, barrier = device.empty(len(hub_col), a.dtype), device.upload(np.zeros(1, np.uint32))
    size = a.dtype.itemsize
    kernel, shared = job.kernel("csr_hubs"), -(-len(hub_col) * size // 16) * 16 + sums
    grid = min(blocks, kernel.resident_blocks(block, shared))
    run = kernel.bind(
        grid,
        block,
        nnz,
        hubs,
        np.int32(rows.count),
        np.int32(len(rows.row_of)),
        on_device["hub_col"],
        edge,
        arrays["val"],
        on_device.get("row_of"),
        np.int32(len(own["zeroed"])),
        on_device["zeroed"],
        on_device["tile_begin"],
        on_device["first_row"],
        job.buffers["x"],
        hub_x,
        barrier,
        job.buffers["y"],
        shared=shared,
        cooperative=True,
    )
    return job.launch(
        run,
        preprocess_ms=preprocess_ms,
        extra_bytes=sum(b.nbytes for b in (*on_device.values(), edge, hub_x, barrier)),
        keep=(on_device, edge, hub_x, barrier),
    )
