"""SpMV by propagation blocking in one launch. The contract is in cuda/spmv/binned_fused.cu."""

from __future__ import annotations

import numpy as np

from spgraph_bench.errors import SkipError
from spgraph_bench.parameters import Parameter
from spgraph_bench.units import human_bytes
from spgraph_bench.variants.base import Job, Launch, variant
from spgraph_bench.variants.grids import needs_cooperative

__all__: list[str] = []

_TUNABLES = {
    "block": Parameter(1024, "threads per block", (64, 256, 512, 1024)),
    "multipliers": Parameter(
        "auto", "threads of a block that multiply; auto: three of eight", ("auto", 32, 256, 512, 640)
    ),
    "stages": Parameter("auto", "loads a multiplying thread has in flight", ("auto", 2, 3, 4, 6), macro="SPG_STAGES"),
    "depth": Parameter(
        "auto",
        "loads an adding thread has in flight; auto: 3, of 8-byte values 2",
        ("auto", 1, 2, 3, 4),
        macro="SPG_DEPTH",
    ),
    "buffers": Parameter(2, "chunks whose products are kept at a time", (1, 2, 3, 4, 6)),
}


@variant(
    "spmv",
    "binned-fused",
    format="binned-chunks",
    source="spmv/binned_fused.cu",
    tunables=_TUNABLES,
    missing=needs_cooperative,
    about="as binned in one launch: some warps multiply, others add up the chunk before",
)
def binned_fused(job: Job) -> Launch:
    a, arrays, device = job.packed, job.arrays, job.device
    size = a.dtype.itemsize
    emulated = device.kind == "host"
    block = 64 if emulated and job.params["block"] == 1024 else job.params["block"]
    room = device.info().gpu.shared_per_block - 1024
    # A tile, two sets of sums; for each multiplying thread and stage four values and columns, a destination.
    multipliers = job.params["multipliers"]
    if multipliers == "auto" or multipliers >= block:
        multipliers = max(32, block * 3 // 8 // 32 * 32)
    sums = 2 * a.most_sums * size
    fixed, staged = 16 * -(-a.widest * size // 16) + sums, multipliers * (4 * size + 8 + 4)
    stages = job.decide("stages", max((s for s in (4, 3, 2) if fixed + s * staged <= room), default=2))
    if (need := fixed + stages * staged) > room:
        fewer = [s for s in (4, 3, 2) if fixed + s * staged <= room]
        tiles = max(a.tiles + 1, -(-a.cols * size // max(room - 2 * staged - sums, 4096)))
        remedy = f"stages={fewer[0]}" if fewer else f"tiles={tiles}"
        if not fewer and job.params["multipliers"] != "auto":
            remedy = "multipliers=auto"
        raise SkipError(
            f"needs {human_bytes(need)} of shared memory a block, this GPU has {human_bytes(room)}: --param {remedy}"
        )
    # Three loads of 8-byte values would need more registers than a thread of 1,024 has.
    job.decide("depth", 2 if size == 8 else 3)
    buffers = max(1, min(job.params["buffers"], a.chunks))
    product = device.empty(buffers * a.most_groups * 8, a.dtype)
    flags = device.empty(2 * a.chunks + 1, np.uint32)
    device.fill(flags, 0)
    kernel = job.kernel("binned_fused", SPG_BLOCK=block)
    bins = int(np.diff(a.chunk_bin).max(initial=0))
    most = 4 if emulated else kernel.resident_blocks(block, need)
    grid = min(most, max(a.tiles, bins)) if a.chunks else 0
    run = kernel.bind(
        grid,
        block,
        np.int32(a.chunks),
        np.int32(a.tiles),
        np.int32(buffers),
        np.int32(a.most_groups),
        np.int32(-(-a.widest * size // 16) * 16 // size),
        np.int32(a.most_sums),
        np.uint32(multipliers),
        arrays["tile_col"],
        arrays["start"],
        arrays["val"],
        arrays["col"],
        arrays["dest"],
        arrays["chunk_bin"],
        arrays["bin_group"],
        arrays["bin_row"],
        arrays["sum"],
        arrays["extra_ptr"],
        arrays["extra_row"],
        arrays["split_row"],
        np.int32(len(a.split_row)),
        job.buffers["x"],
        product,
        flags,
        job.buffers["y"],
        shared=need,
        cooperative=True,
    )
    return job.launch(run, extra_bytes=product.nbytes + flags.nbytes, keep=(product, flags))
