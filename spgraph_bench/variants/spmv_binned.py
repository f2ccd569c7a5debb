"""SpMV by propagation blocking. The contract is in cuda/spmv/binned.cu."""

from __future__ import annotations

import numpy as np

from spgraph_bench.errors import SkipError
from spgraph_bench.formats.base import Tunable, human_bytes
from spgraph_bench.variants.base import Job, Launch, variant

__all__: list[str] = []


@variant(
    "spmv",
    "binned",
    format="binned",
    source="spmv/binned.cu",
    about="gathers x from shared memory, tile by tile; products summed by row bin",
    tunables={
        "waves": Tunable(1, "blocks of the multiply kernel per SM that are started", (1, 2, 3, 4, 6, 8)),
        "multiply_block": Tunable(1024, "threads per block of the multiply kernel", (256, 512, 1024)),
        "sum_block": Tunable(512, "threads per block of the sum kernel", (128, 256, 512)),
    },
)
def binned(job: Job) -> Launch:
    a, arrays, x, y = job.packed, job.arrays, job.buffers["x"], job.buffers["y"]
    info = job.device.info()
    tile_bytes, bin_bytes = a.tile_width * a.dtype.itemsize, a.most_entries * a.dtype.itemsize
    most = info.extra.get("shared_bytes_per_block")
    for bytes_, parameter in ((tile_bytes, "tile_width"), (bin_bytes, "bin_entries")):
        if most is not None and bytes_ > most:
            raise SkipError(
                f"needs {human_bytes(bytes_)} of shared memory a block, this GPU has {human_bytes(most)}: "
                f"--param {parameter}={most // a.dtype.itemsize // 32 * 32}"
            )
    groups = a.slots // 8
    product = job.device.empty(a.slots, a.dtype)
    block = job.params["multiply_block"]
    # No block without two rounds of work.
    blocks = max(1, min(job.params["waves"] * info.multiprocessors, -(-groups // block)))
    multiply = job.kernel("binned_multiply").bind(
        blocks, block,
        np.int32(groups), np.int32(a.cols), np.int32(a.tile_width), np.int32(a.tiles), arrays["tile_start"],
        arrays["val"], arrays["col"], arrays["dest"], x, product,
        arrays["split_row"], np.int32(len(a.split_row)), y, shared=tile_bytes,
    )  # fmt: skip
    add = job.kernel("binned_sum").bind(
        a.bins, job.params["sum_block"],
        arrays["bin_group"], arrays["bin_row"], arrays["bin_lanes"], product, arrays["pos"],
        arrays["row_id"], arrays["row_start"], y, shared=max(bin_bytes, 16),
    )  # fmt: skip

    def run() -> None:
        multiply()
        add()

    return job.launch(run, operations=2, extra_bytes=product.nbytes, keep=product)
