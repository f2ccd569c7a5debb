"""SpMV with fewer bytes per nonzero: 16-bit columns, or no values. The contracts are in the kernel files."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from spgraph_bench.errors import SkipError
from spgraph_bench.formats.common import VALUES_DIFFER, one_value
from spgraph_bench.parameters import Parameter
from spgraph_bench.stats import MatrixStats
from spgraph_bench.variants.base import Job, Launch, get_variant, variant
from spgraph_bench.variants.spmv import coo, ell
from spgraph_bench.variants.spmv.csr_balanced import ADAPTIVE, adaptive
from spgraph_bench.variants.spmv.transposed import turned

__all__: list[str] = []

_THREADS = ADAPTIVE["threads"]
# 48 registers a thread: where this format fits, gathers are local, and more warps do better. Two quads of values of
# 8 bytes, their x and two quads more need 64.
_PATTERN_16 = {**ADAPTIVE, "threads": dataclasses.replace(_THREADS, default=1280)}
_CSR_16 = {
    **ADAPTIVE,
    "threads": dataclasses.replace(
        _THREADS,
        default="auto",
        about=f"{_THREADS.about}; auto: 1280, of 8-byte values 1024",
        choices=("auto", *(_THREADS.choices or ())),
    ),
}
_DIA = {
    "block": Parameter(256, "threads per block", (64, 128, 256, 512, 1024)),
    "ahead": Parameter(8, "diagonals whose x is read before the first is added", (1, 2, 4, 8), macro="SPG_AHEAD"),
    "slices": Parameter(2, "slices of 32 rows for each warp", (1, 2, 4), macro="SPG_SLICES"),
}
_SELL = {
    "block": Parameter(128, "threads per block", (64, 128, 256, 512, 1024)),
    "ahead": Parameter(8, "slots of a row read before the first is used", (2, 4, 6, 8, 14), macro="SPG_AHEAD"),
}


def _values_differ(stats: MatrixStats) -> str | None:
    """Why a matrix is not for a format that graphs share, which takes any pattern."""
    assert stats.csr is not None
    return VALUES_DIFFER if one_value(stats.csr) is None else None


def _value(job: Job) -> Any:
    """The one value of the matrix, in the run's type; SkipError where there is none."""
    value = job.packed.value
    with np.errstate(over="ignore"):
        one = None if value is None else job.dtype.type(value)
    if one is None or not np.isfinite(one):
        raise SkipError(VALUES_DIFFER if one is None else f"its one value is beyond {job.dtype}")
    return one


def _bare(job: Job, *names: str) -> Job:
    """`job` with the one value in place of the arrays of values `names`, for kernels with SPG_ONE_VALUE."""
    value = _value(job)
    if job.packed.meta.get("reorder", "none") != "none":
        raise SkipError("the rows of this pattern are renumbered for traversals: --param reorder=none")
    return dataclasses.replace(job, arrays={**job.arrays, **dict.fromkeys(names, value)})


def _tunables(name: str) -> Mapping[str, Parameter]:
    return get_variant("spmv", name).tunables


@variant(
    "spmv",
    "csr-16",
    format="csr-16",
    source="spmv/csr_16.cu",
    tunables=_CSR_16,
    about="columns in 16 bits, blocks of equal work",
)
def csr_16(job: Job) -> Launch:
    job.decide("threads", 1024 if job.dtype.itemsize == 8 else 1280)
    return _csr_16(job)


def _csr_16(job: Job) -> Launch:
    return adaptive(job, "csr_16", [job.arrays[name] for name in ("offset", "base", "val")])


@variant(
    "spmv",
    "pattern-csr",
    format="pattern-csr",
    source="spmv/pattern_csr.cu",
    tunables=ADAPTIVE,
    about="one value for all entries, blocks of equal work",
    refuse=_values_differ,
)
def pattern_csr(job: Job) -> Launch:
    job = _bare(job, "val")
    return adaptive(job, "pattern_csr", [job.arrays["col"], job.arrays["val"]])


@variant(
    "spmv-transposed",
    "pattern-csc",
    format="pattern-csc",
    source="spmv/pattern_csr.cu",
    tunables=ADAPTIVE,
    about="CSC as CSR of A^T: one value for all entries",
)
def pattern_csc(job: Job) -> Launch:
    return pattern_csr(turned(job))


@variant(
    "spmv",
    "pattern-csr-16",
    format="pattern-csr-16",
    source="spmv/pattern_csr_16.cu",
    tunables=_PATTERN_16,
    about="columns in 16 bits, one value for all entries",
)
def pattern_csr_16(job: Job) -> Launch:
    return _csr_16(_bare(job, "val"))


@variant(
    "spmv",
    "pattern-coo",
    format="pattern-coo",
    source="spmv/pattern_coo.cu",
    tunables=_tunables("coo-segmented"),
    about="as coo-segmented, one value for all entries",
    refuse=_values_differ,
)
def pattern_coo(job: Job) -> Launch:
    return coo.coo_segmented(_bare(job, "val"))


@variant(
    "spmv",
    "pattern-ell",
    format="pattern-ell",
    source="spmv/pattern_ell.cu",
    tunables=_tunables("ell"),
    about="as ell, one value for all entries",
)
def pattern_ell(job: Job) -> Launch:
    return ell.ell(_bare(job, "val"))


@variant(
    "spmv",
    "pattern-hyb",
    format="pattern-hyb",
    source="spmv/pattern_hyb.cu",
    tunables=_tunables("hyb"),
    about="as hyb, one value for all entries",
)
def pattern_hyb(job: Job) -> Launch:
    return ell.hyb(_bare(job, "ell_val", "coo_val"))


@variant(
    "spmv",
    "pattern-jds",
    format="pattern-jds",
    source="spmv/pattern_jds.cu",
    tunables=_tunables("jds"),
    about="as jds, one value for all entries",
)
def pattern_jds(job: Job) -> Launch:
    return ell.jds(_bare(job, "val"))


@variant(
    "spmv",
    "pattern-dia",
    format="pattern-dia",
    source="spmv/pattern_dia.cu",
    tunables=_DIA,
    about="a bit for each place on a diagonal, a warp for slices of 32 rows",
)
def pattern_dia(job: Job) -> Launch:
    a, arrays, block = job.packed, job.arrays, job.params["block"]
    value = _value(job)
    # Up to 512 threads have registers enough without bounds.
    defines = {"SPG_BLOCK": block} if block > 512 else {}
    return job.launch(
        job.kernel("pattern_dia", **defines).bind(
            -(-a.rows // (block * job.params["slices"])),
            block,
            np.int32(a.rows),
            np.int32(a.diagonals),
            arrays["diag"],
            arrays["mask"],
            value,
            job.buffers["x"],
            job.buffers["y"],
        )
    )


@variant(
    "spmv",
    "pattern-sell",
    format="pattern-sell",
    source="spmv/pattern_sell.cu",
    tunables=_SELL,
    about="as sell, one value for all entries",
)
def pattern_sell(job: Job) -> Launch:
    a, arrays, block = job.packed, job.arrays, job.params["block"]
    value = _value(job)
    return job.launch(
        job.kernel("pattern_sell").bind(
            -(-a.rows // block),
            block,
            np.int32(a.rows),
            arrays["slice_ptr"],
            arrays.get("perm"),
            arrays["col"],
            value,
            job.buffers["x"],
            job.buffers["y"],
        )
    )
