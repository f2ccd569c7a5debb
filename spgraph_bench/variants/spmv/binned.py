"""SpMV by propagation blocking. The contract is in cuda/spmv/binned.cu."""

from __future__ import annotations

import numpy as np

from spgraph_bench.errors import SkipError
from spgraph_bench.parameters import Parameter
from spgraph_bench.units import human_bytes
from spgraph_bench.variants.base import Job, Launch, variant

__all__: list[str] = []


_SUM_BLOCK = 256
_TUNABLES = {
    "waves": Parameter(1, "blocks of the multiply kernel per SM that are started", (1, 2, 3, 4, 6, 8)),
    "multiply_block": Parameter(
        "auto", "threads per block of the multiply kernel; auto: 1024, or as many as fit", ("auto", 128, 256, 512, 1024)
    ),
    "stages": Parameter(4, "loads a thread of the multiply kernel has in flight", (2, 3, 4, 6), macro="SPG_STAGES"),
}


@variant(
    "spmv",
    "binned",
    format="binned",
    source="spmv/binned.cu",
    about="gathers x from shared memory, tile by tile; products summed by row bin",
    tunables=_TUNABLES,
)
def binned(job: Job) -> Launch:
    a, arrays, x, y = job.packed, job.arrays, job.buffers["x"], job.buffers["y"]
    info, block, stages = job.device.info(), job.params["multiply_block"], job.params["stages"]
    tile_bytes, bin_bytes = a.tile_width * a.dtype.itemsize, a.most_entries * a.dtype.itemsize
    most = info.gpu.shared_per_block
    # Beside the tile: four values, four columns and a destination for each thread and stage.
    per_thread = stages * (4 * a.dtype.itemsize + 8 + 4)
    if block == "auto":
        block = next((b for b in (1024, 512, 256) if b * per_thread + tile_bytes <= most), 128)
    staged = block * per_thread
    for need, beside, parameter in ((tile_bytes, staged, "tile_width"), (bin_bytes, 0, "bin_entries")):
        if need + beside > most:
            fewer = [b for b in (512, 256, 128) if b < block and b * per_thread + tile_bytes <= most]
            fits = max(most - beside, 4096) // a.dtype.itemsize // 32 * 32
            raise SkipError(
                f"needs {human_bytes(need + beside)} of shared memory a block, this GPU has {human_bytes(most)}: "
                + (f"--param multiply_block={fewer[0]}" if beside and fewer else f"--param {parameter}={fits}")
            )
    groups = a.slots // 8
    product = job.device.empty(a.slots, a.dtype)
    # No block without two rounds of work.
    blocks = max(1, min(job.params["waves"] * info.multiprocessors, -(-groups // block)))
    multiply = job.kernel("binned_multiply").bind(
        blocks,
        block,
        np.int32(groups),
        np.int32(a.cols),
        np.int32(a.tile_width),
        np.int32(a.tiles),
        arrays["tile_start"],
        arrays["val"],
        arrays["col"],
        arrays["dest"],
        x,
        product,
        arrays["split_row"],
        np.int32(len(a.split_row)),
        y,
        shared=staged + tile_bytes,
    )
    add = job.kernel("binned_sum").bind(
        a.bins,
        _SUM_BLOCK,
        arrays["bin_group"],
        arrays["bin_row"],
        arrays["bin_lanes"],
        product,
        arrays["pos"],
        arrays["row_id"],
        arrays["row_start"],
        y,
        shared=max(bin_bytes, 16),
    )

    def run() -> None:
        multiply()
        add()

    return job.launch(run, operations=2, extra_bytes=product.nbytes, keep=product)
