"""SpMV from CSR, a row to so many threads: y = A x. The contract of each is in its kernel file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from spgraph_bench.parameters import Parameter
from spgraph_bench.variants.base import Job, Launch, variant
from spgraph_bench.variants.grids import BLOCK, blocks_for

__all__ = ["subwarp_shape"]


@variant(
    "spmv",
    "csr-scalar",
    format="csr",
    source="spmv/csr_scalar.cu",
    tunables=BLOCK,
    about="a thread per row: the textbook baseline",
)
def csr_scalar(job: Job) -> Launch:
    a, arrays, block = job.packed, job.arrays, job.params["block"]
    return job.launch(
        job.kernel("csr_scalar").bind(
            blocks_for(a.rows, block),
            block,
            np.int32(a.rows),
            arrays["row_ptr"],
            arrays["col"],
            arrays["val"],
            job.buffers["x"],
            job.buffers["y"],
        )
    )


@variant(
    "spmv",
    "csr-vector",
    format="csr",
    source="spmv/csr_vector.cu",
    tunables=BLOCK,
    about="a warp per row, shuffle reduction",
)
def csr_vector(job: Job) -> Launch:
    a, arrays, block = job.packed, job.arrays, job.params["block"]
    return job.launch(
        job.kernel("csr_vector").bind(
            blocks_for(32 * a.rows, block),
            block,
            np.int32(a.rows),
            arrays["row_ptr"],
            arrays["col"],
            arrays["val"],
            job.buffers["x"],
            job.buffers["y"],
        )
    )


_SUBWARP = {
    "block": Parameter("auto", "threads per block", ("auto", 64, 128, 256), macro="SPG_BLOCK"),
    "threads": Parameter("auto", "threads per row", ("auto", 2, 4, 8, 16, 32), macro="SPG_THREADS"),
    "rows": Parameter("auto", "rows that these threads have in flight", ("auto", 1, 2, 4), macro="SPG_ROWS"),
    "quads": Parameter(
        "auto", "times four entries of a row that a thread loads together", ("auto", 1, 2), macro="SPG_QUADS"
    ),
    "resident": Parameter(
        "auto", "threads per SM to leave registers for", ("auto", 768, 1024, 1536, 2048), macro="SPG_PER_SM"
    ),
}


def subwarp_shape(
    params: Mapping[str, Any], rows: int, nnz: int, value_bytes: int, multiprocessors: int
) -> dict[str, int]:
    """The tunables of csr-subwarp with numbers in place of "auto".

    As few threads as ask for a whole row of mean length in one step, at any alignment: three places of the
    first read may belong to the row before. Where one read a thread would leave many places empty, two reads
    of half the threads do better (in single precision). docs/tuning/csr-subwarp.md has the figures.
    """
    places = nnz / max(rows, 1) + 3
    threads, quads = params["threads"], params["quads"]
    if threads == "auto":
        most = {1: 4, 2: 8}.get(quads, 4 if places <= 32 else 8)  # places for each thread
        threads = next((t for t in (2, 4, 8, 16) if most * t >= places), 32)
        half = value_bytes == 4 and threads > 2 and places <= 0.58 * 4 * threads
        if quads == "auto" and most == 4 and half:
            threads //= 2
    if quads == "auto":
        quads = 1 if places <= 4 * threads else 2
    shape = {"threads": threads, "quads": quads}
    shape["rows"] = params["rows"]
    if shape["rows"] == "auto":
        many = rows * threads >= 32 * 4 * 8 * multiprocessors
        shape["rows"] = 1 if quads == 2 or not many else 4 if value_bytes == 4 or threads >= 8 else 2
    words = shape["rows"] * quads * value_bytes // 4
    shape["resident"], shape["block"] = params["resident"], params["block"]
    if shape["resident"] == "auto":
        shape["resident"] = 768 if words >= 8 else 1024 if words >= 4 else 2048 if shape["rows"] == 1 else 1536
    if shape["block"] == "auto":
        shape["block"] = 64 if shape["rows"] == 4 else 128
    return shape


@variant(
    "spmv",
    "csr-subwarp",
    format="csr",
    source="spmv/csr_subwarp.cu",
    tunables=_SUBWARP,
    about="2 to 32 threads per row, by mean length",
)
def csr_subwarp(job: Job) -> Launch:
    a, arrays = job.packed, job.arrays
    shape = subwarp_shape(job.params, a.rows, a.nnz, a.dtype.itemsize, job.device.info().multiprocessors)
    for name, value in shape.items():
        job.decide(name, value)
    return job.launch(
        job.kernel("csr_subwarp").bind(
            blocks_for(shape["threads"] * blocks_for(a.rows, shape["rows"]), shape["block"]),
            shape["block"],
            np.int32(a.rows),
            a.offsets.type(a.nnz),
            arrays["row_ptr"],
            arrays["col"],
            arrays["val"],
            job.buffers["x"],
            job.buffers["y"],
        )
    )
