"""SpMV with x streamed through shared memory. The contract is in cuda/spmv/panels.cu."""

from __future__ import annotations

import numpy as np

from spgraph_bench.errors import SkipError
from spgraph_bench.formats.base import Tunable, human_bytes
from spgraph_bench.variants.base import Job, Launch, variant
from spgraph_bench.variants.spmv import changed

__all__: list[str] = []

_TUNABLES = {
    "block": Tunable(1024, "threads per block", (64, 256, 512, 1024)),
    "depth": Tunable(2, "groups of 128 entries that a warp has under way", (1, 2, 3, 4)),
}


@variant("spmv", "panels", format="panels", source="spmv/panels.cu", tunables=_TUNABLES,
         about="a panel of rows per SM, x streamed past in tiles that clusters share")  # fmt: skip
def panels(job: Job) -> Launch:
    a, arrays, block = job.packed, job.arrays, job.params["block"]
    need = (a.stages * a.tile + a.most_sums) * a.dtype.itemsize
    room = job.device.info().extra.get("shared_bytes_per_block", 227 * 1024) - 1024
    if need > room:
        raise SkipError(
            f"needs {human_bytes(need)} of shared memory a block, this GPU has {human_bytes(room)}: "
            f"--param panel_bytes={room}"
        )
    if job.device.kind == "host" and block == _TUNABLES["block"].default:
        block = 64  # fibers are slow, and their number changes nothing here
    defines = {} if a.cluster == 8 else {"SPG_CLUSTER": str(a.cluster)}
    defines |= changed({**job.params, "block": block}, _TUNABLES, SPG_BLOCK="block", SPG_DEPTH="depth")
    return job.launch(
        job.kernel("panels", **defines).bind(
            a.panels if a.rows else 0, block,
            np.int32(a.cols), np.int32(a.tile), np.int32(a.stages), arrays["panel_row"],
            arrays["panel_group"], arrays["extra_ptr"], arrays["extra_slot"], arrays["tile_ptr"],
            arrays["tile_id"], arrays["span"], arrays["val"], arrays["place"],
            job.buffers["x"], job.buffers["y"], shared=need,
        )
    )  # fmt: skip
