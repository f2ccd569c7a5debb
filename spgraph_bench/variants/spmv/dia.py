"""SpMV from diagonals: y = A x. The contracts are in cuda/spmv/dia.cu."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from spgraph_bench.errors import SkipError
from spgraph_bench.parameters import Parameter
from spgraph_bench.variants.base import Job, Launch, variant
from spgraph_bench.variants.grids import blocks_for

__all__ = ["lines_of", "stride_of"]

_DIA_BLOCK = Parameter(
    "auto", "threads per block; auto: 512, with less than a million rows 256", ("auto", 64, 128, 256, 512, 1024)
)
_DIA_AHEAD = Parameter(14, "diagonals read before the first is used", (2, 4, 8, 14, 28), macro="SPG_AHEAD")
_DIA = {
    "block": _DIA_BLOCK,
    "rows": Parameter(1, "neighbouring rows per thread", (1, 2, 4), macro="SPG_ROWS"),
    "ahead": _DIA_AHEAD,
}
_DIA_JIT = {
    "block": _DIA_BLOCK,
    "ahead": _DIA_AHEAD,
    "lines": Parameter(
        "auto",
        "runs of rows a block takes, as far apart as the farthest diagonal; auto: up to 8, as many as leave "
        "all multiprocessors the same",
        ("auto",),
        (1, 64),
    ),
    "from": Parameter(
        100_000, "nonzeros from which a kernel is compiled for the matrix; fewer: skipped", None, (0, 2**31 - 1)
    ),
}
_MOST_DIAGONALS = 64
"""That dia-jit compiles in: more would not fit in the registers that ask for them."""


def stride_of(diag: npt.NDArray[np.int32], block: int) -> int:
    """How far the farthest of the diagonals `diag` (rising) is, to the nearest multiple of `block`."""
    far = max(abs(int(diag[0])), abs(int(diag[-1])))
    return (far + block // 2) // block * block


def lines_of(rows: int, stride: int, block: int, resident: int) -> int:
    """How many runs of `block` rows, `stride` rows apart, a block takes; `resident` blocks run at the same time."""
    if stride == 0 or rows < 12 * resident * block:
        return 1
    side_by_side, lines = stride // block, blocks_for(rows, stride)
    steps = {n: blocks_for(blocks_for(lines, n) * side_by_side, resident) * n for n in range(1, 9)}
    return max(n for n in steps if steps[n] <= 1.03 * min(steps.values()))


def _dia_block(job: Job) -> int:
    return int(job.decide("block", 512 if job.packed.rows >= 1_000_000 else 256))


@variant(
    "spmv",
    "dia",
    format="dia",
    source="spmv/dia.cu",
    tunables=_DIA,
    about="by diagonals, a thread per row, no column indices",
)
def dia(job: Job) -> Launch:
    a, arrays, block = job.packed, job.arrays, _dia_block(job)
    # A large block must not want more registers than there are.
    bounds = {"SPG_BLOCK": block} if block > 256 else {}
    lowest, highest = (a.diag[0], a.diag[-1]) if a.diagonals else (0, 0)
    return job.launch(
        job.kernel("dia", SPG_GROUP=a.group, **bounds).bind(
            blocks_for(blocks_for(a.rows, job.params["rows"]), block),
            block,
            np.int32(a.rows),
            np.int32(a.cols),
            np.int32(a.diagonals),
            np.int32(lowest),
            np.int32(highest),
            arrays["diag"],
            arrays["data"],
            job.buffers["x"],
            job.buffers["y"],
        )
    )


@variant(
    "spmv",
    "dia-jit",
    format="dia",
    source="spmv/dia.cu",
    tunables=_DIA_JIT,
    for_matrix=True,
    about="as dia, compiled for this matrix: its diagonals are constants of the kernel",
)
def dia_jit(job: Job) -> Launch:
    a, block = job.packed, _dia_block(job)
    if not 0 < a.diagonals <= _MOST_DIAGONALS:
        raise SkipError(f"{a.diagonals:,} diagonals; 1 to {_MOST_DIAGONALS} can be compiled in")
    if a.nnz < job.params["from"]:
        raise SkipError(f"{a.nnz:,} nonzeros; a compile is worth it from {job.params['from']:,} on: --param from=0")
    stride = stride_of(a.diag, block)
    info = job.device.info()
    resident = info.multiprocessors * max(1, info.gpu.threads_per_sm // block)
    lines = int(job.decide("lines", lines_of(a.rows, stride, block, resident))) if stride else 1
    blocks = blocks_for(a.rows, block)
    if lines > 1:
        blocks = blocks_for(blocks_for(a.rows, stride), lines) * (stride // block)
    else:
        stride = 0
    shape = {"SPG_ROWS": 1, "SPG_GROUP": a.group, "SPG_LINES": lines, "SPG_STRIDE": stride}
    diagonals = "".join(f"D({d})" for d in a.diag)
    return job.launch(
        job.kernel_for_matrix("dia_fixed", SPG_DIAGS=diagonals, **shape).bind(
            blocks, block, np.int32(a.rows), np.int32(a.cols), job.arrays["data"], job.buffers["x"], job.buffers["y"]
        )
    )
