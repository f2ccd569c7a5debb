"""SpMV with fewer bytes per nonzero: 16-bit columns, or no values. The contracts are in the kernel files."""

from __future__ import annotations

from typing import Any

import numpy as np

from spgraph_bench.errors import SkipError
from spgraph_bench.formats.base import Tunable
from spgraph_bench.formats.common import VALUES_DIFFER
from spgraph_bench.variants.base import Job, Launch, variant
from spgraph_bench.variants.spmv import ADAPTIVE, adaptive, changed

__all__: list[str] = []

# Default as in cuda/spmv/csr_16.cu.
_CSR_16 = {**ADAPTIVE, "threads": Tunable(1280, ADAPTIVE["threads"].about, ADAPTIVE["threads"].choices)}
_SELL = {
    "block": Tunable(128, "threads per block", (64, 128, 256, 512, 1024)),
    "ahead": Tunable(8, "slots of a row read before the first is used", (2, 4, 6, 8, 14)),
}


def _value(job: Job) -> Any:
    """The one value of the matrix, in the run's type; SkipError where there is none."""
    value = job.packed.value
    with np.errstate(over="ignore"):
        one = None if value is None else job.dtype.type(value)
    if one is None or not np.isfinite(one):
        raise SkipError(VALUES_DIFFER if one is None else f"its one value is beyond {job.dtype}")
    return one


@variant("spmv", "csr-16", format="csr-16", source="spmv/csr_16.cu", tunables=_CSR_16,
         about="columns in 16 bits, blocks of equal work")  # fmt: skip
def csr_16(job: Job) -> Launch:
    return adaptive(job, "csr_16", [job.arrays[name] for name in ("offset", "base", "val")], _CSR_16)


@variant("spmv", "pattern-csr", format="pattern-csr", source="spmv/pattern_csr.cu", tunables=ADAPTIVE,
         about="one value for all entries, blocks of equal work")  # fmt: skip
def pattern_csr(job: Job) -> Launch:
    value = _value(job)
    if job.packed.reorder != "none":
        raise SkipError("the rows of this pattern are renumbered for traversals: --param reorder=none")
    return adaptive(job, "pattern_csr", [job.arrays["col"], value])


@variant("spmv", "pattern-sell", format="pattern-sell", source="spmv/pattern_sell.cu", tunables=_SELL,
         about="as sell, one value for all entries")  # fmt: skip
def pattern_sell(job: Job) -> Launch:
    a, arrays, block = job.packed, job.arrays, job.params["block"]
    value = _value(job)
    return job.launch(
        job.kernel("pattern_sell", **changed(job.params, _SELL, SPG_AHEAD="ahead")).bind(
            -(-a.rows // block), block,
            np.int32(a.rows), arrays["slice_ptr"], arrays.get("perm"), arrays["col"], value,
            job.buffers["x"], job.buffers["y"],
        )
    )  # fmt: skip
