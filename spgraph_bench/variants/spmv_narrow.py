"""SpMV with fewer bytes per nonzero: 16-bit columns, or no values. The contracts are in the kernel files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from spgraph_bench.errors import SkipError
from spgraph_bench.formats.base import Tunable
from spgraph_bench.formats.common import VALUES_DIFFER
from spgraph_bench.variants.base import Job, Launch, variant

__all__: list[str] = []

# Defaults as in cuda/spmv/adaptive.cuh: what nobody changed needs no module of its own.
_ADAPTIVE = {
    "block": Tunable(128, "threads per block", (64, 128, 256)),
    "tile": Tunable(512, "work of a warp: an entry counts 1, a row a 32nd of this", (256, 512, 1024)),
    "threads": Tunable(1280, "threads per SM to leave registers for", (1024, 1280, 1536, 2048)),
}
_SELL = {
    "block": Tunable(256, "threads per block", (64, 128, 256, 512, 1024)),
    "ahead": Tunable(8, "slots of a row read before the first is used", (2, 4, 6, 8, 14)),
}


def _changed(job: Job, tunables: dict[str, Tunable], **macros: str) -> dict[str, str]:
    return {m: str(job.params[t]) for m, t in macros.items() if job.params[t] != tunables[t].default}


def _adaptive(job: Job, kernel: str, entries: Sequence[Any]) -> Launch:
    """`kernel`, which is made of adaptive.cuh; `entries` are its arguments between row_ptr and x."""
    a, device, row_ptr = job.packed, job.device, job.arrays["row_ptr"]
    block, tile = job.params["block"], job.params["tile"]
    defines = _changed(job, _ADAPTIVE, SPG_BLOCK="block", SPG_TILE="tile", SPG_THREADS="threads")
    tiles = -(-(a.rows * (tile // 32) + a.nnz) // tile)
    table = [device.empty(tiles + 1, kind) for kind in (np.dtype(np.int32), a.offsets, np.dtype(np.int32))]
    fill = job.kernel(f"{kernel}_table", **defines).bind(
        -(-(tiles + 1) // 256) if tiles else 0, 256, np.int32(a.rows), np.int32(tiles), row_ptr, *table
    )
    partial, arrived = device.empty(2 * tiles, a.dtype), device.empty(tiles, np.uint32)
    device.fill(arrived, 0)
    room = tile + tile // 2  # ROOM in the kernel: products of a tile and a row of half a tile, with gaps
    return job.launch(
        job.kernel(kernel, **defines).bind(
            -(-32 * tiles // block), block,
            np.int64(tiles), *table, partial, arrived, row_ptr, *entries, job.buffers["x"], job.buffers["y"],
            shared=block // 32 * (room + room // 32 + 1) * a.dtype.itemsize,
        ),
        preprocess_ms=job.timed_ms(fill), extra_bytes=sum(b.nbytes for b in (*table, partial, arrived)),
        keep=(table, partial, arrived),
    )  # fmt: skip


def _value(job: Job) -> Any:
    """The one value of the matrix, in the run's type; SkipError where there is none."""
    value = job.packed.value
    with np.errstate(over="ignore"):
        one = None if value is None else job.dtype.type(value)
    if one is None or not np.isfinite(one):
        raise SkipError(VALUES_DIFFER if one is None else f"its one value is beyond {job.dtype}")
    return one


@variant("spmv", "csr-16", format="csr-16", source="spmv/csr_16.cu", tunables=_ADAPTIVE,
         about="columns in 16 bits, warps of equal work")  # fmt: skip
def csr_16(job: Job) -> Launch:
    return _adaptive(job, "csr_16", [job.arrays[name] for name in ("offset", "base", "val")])


@variant("spmv", "pattern-csr", format="pattern-csr", source="spmv/pattern_csr.cu", tunables=_ADAPTIVE,
         about="one value for all entries, warps of equal work")  # fmt: skip
def pattern_csr(job: Job) -> Launch:
    value = _value(job)
    if job.packed.reorder != "none":
        raise SkipError("the rows of this pattern are renumbered for traversals: --param reorder=none")
    return _adaptive(job, "pattern_csr", [job.arrays["col"], value])


@variant("spmv", "pattern-sell", format="pattern-sell", source="spmv/pattern_sell.cu", tunables=_SELL,
         about="as sell, one value for all entries")  # fmt: skip
def pattern_sell(job: Job) -> Launch:
    a, arrays, block = job.packed, job.arrays, job.params["block"]
    value = _value(job)
    return job.launch(
        job.kernel("pattern_sell", **_changed(job, _SELL, SPG_AHEAD="ahead")).bind(
            -(-a.rows // block), block,
            np.int32(a.rows), arrays["slice_ptr"], arrays.get("perm"), arrays["col"], value,
            job.buffers["x"], job.buffers["y"],
        )
    )  # fmt: skip
