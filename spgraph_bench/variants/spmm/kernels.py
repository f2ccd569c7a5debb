"""spgraph's own SpMM kernels: Y = A X. The contract of each is in its kernel file."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from spgraph_bench.device.base import Buffer
from spgraph_bench.parameters import Parameter
from spgraph_bench.variants.base import Job, Launch, variant
from spgraph_bench.variants.grids import BLOCK

__all__ = ["Pieces", "pieces"]

_BLOCK = {"block": Parameter(64, "threads per block", (64, 128, 256, 512), macro="SPG_BLOCK")}
_COLUMNS = {
    "columns": Parameter(
        "auto", "columns of X at a time, A being read anew for the next ones", ("auto", 8, 16, 32, 64, 128, 256)
    )
}
_WIDTH = {"width": Parameter(8, "columns that a thread adds up at a time (column-major)", (1, 2, 4, 8, 16))}


class Pieces(NamedTuple):
    """How the lanes of a warp share the columns of a row of X: see cuda/spmm/dense.cuh."""

    vec: int
    """Values of one load."""
    lanes: int
    vecs: int
    """Loads of one lane for each row of X."""
    tiles: int
    """Passes over the columns."""

    @property
    def defines(self) -> dict[str, int]:
        """What ``-D`` gives the compiler."""
        return {"SPG_VEC": self.vec, "SPG_LANES": self.lanes, "SPG_VECS": self.vecs}


def pieces(k: int, value_bytes: int, columns: int | str = "auto", most: int = 4) -> Pieces:
    """Pieces for `k` columns, `columns` of them at a time ("auto": all), at most `most` pieces for a lane.

    Loads are as wide as k allows; among the numbers of lanes (powers of 2 up to 32) the one that leaves the
    fewest lanes idle is taken, of equal ones the largest.
    """
    vec = next(v for v in (4, 2, 1) if k % v == 0 and v * value_bytes <= 16)
    wanted = min(k, k if columns == "auto" else int(columns))
    count = -(-wanted // vec)

    def held(lanes: int) -> int:
        return min(most, -(-count // lanes))

    def idle(lanes: int) -> float:
        return -(-k // (vec * lanes * held(lanes))) * lanes * held(lanes) * vec / k

    fitting = [lanes for lanes in (32, 16, 8, 4, 2, 1) if lanes * most >= min(count, 32 * most)]
    lanes = min((n for n in fitting if n < 2 * count), key=lambda n: (idle(n), -n))
    return Pieces(vec, lanes, held(lanes), -(-k // (vec * lanes * held(lanes))))


def _blocks(threads: int, block: int) -> int:
    return -(-threads // block)


def _power(at_least: float, most: int) -> int:
    """The least power of 2 from 1 to `most` that reaches `at_least`, else `most`."""
    return next((n for n in (1, 2, 4, 8, 16, 32) if n >= at_least or n >= most), most)


class _RowMajor(NamedTuple):
    """X and Y as a row-major kernel takes them, and what must be done around it for column-major ones."""

    x: Buffer
    y: Buffer
    launch: Callable[..., Launch]
    """``launch([kernels], **details)``: the Launch of these, one after another."""


def _row_major(job: Job, **defines: int) -> _RowMajor:
    a, k, device = job.packed, np.int32(job.options["k"]), job.device
    x, y = job.buffers["x"], job.buffers["y"]
    before: list[Callable[[], None]] = []
    after: list[Callable[[], None]] = []
    extra = 0
    if job.options["layout"] == "column":
        from_x, to_y = x, y
        x, y = device.empty((a.cols, int(k)), a.dtype), device.empty((a.rows, int(k)), a.dtype)
        extra = x.nbytes + y.nbytes
        transpose = job.kernel("transpose", **defines)

        def tiles(rows: int, columns: int) -> int:
            return _blocks(rows, 32) * _blocks(columns, 32)

        before = [transpose.bind(tiles(int(k), a.cols), 256, k, np.int32(a.cols), from_x, x)]
        after = [transpose.bind(tiles(a.rows, int(k)), 256, np.int32(a.rows), k, y, to_y)]

    def launch(kernels: list[Callable[[], None]], *, extra_bytes: int = 0, keep: Any = None, **details: Any) -> Launch:
        steps = [*before, *kernels, *after]

        def run() -> None:
            for step in steps:
                step()

        made = job.launch(
            steps[0] if len(steps) == 1 else run,
            operations=len(steps),
            extra_bytes=extra + extra_bytes,
            keep=(x, y, keep),
            **details,
        )
        if not after:
            return made

        def reset() -> None:
            made.reset()
            device.fill(y, 0xFF)  # what the kernel does not write must not remain from the run before

        return dataclasses.replace(made, reset=reset)

    return _RowMajor(x, y, launch)


@variant(
    "spmm",
    "csr-element",
    format="csr",
    source="spmm/csr_element.cu",
    tunables=BLOCK,
    about="a thread per element of Y: the textbook baseline",
)
def csr_element(job: Job) -> Launch:
    """Y's elements in the order they are stored."""
    a, arrays, block, k = job.packed, job.arrays, job.params["block"], int(job.options["k"])
    return job.launch(
        job.kernel("csr_element").bind(
            _blocks(a.rows * k, block),
            block,
            np.int32(a.rows),
            np.int32(a.cols),
            np.int32(k),
            np.int32(job.options["layout"] == "column"),
            arrays["row_ptr"],
            arrays["col"],
            arrays["val"],
            job.buffers["x"],
            job.buffers["y"],
        )
    )


@variant(
    "spmm",
    "csr-row",
    format="csr",
    source="spmm/csr_row.cu",
    tunables={
        **_BLOCK,
        **_COLUMNS,
        **_WIDTH,
        "share": Parameter(
            "auto", "groups of lanes that share a row of A, up to a warp (row-major)", ("auto", 1, 2, 4, 8, 16, 32)
        ),
        "team": Parameter("auto", "threads per row of A (column-major)", ("auto", 1, 2, 4, 8, 16, 32)),
    },
    about="lanes over the columns of a row (row-major) or over its entries (column-major)",
)
def csr_row(job: Job) -> Launch:
    a, arrays, params, k = job.packed, job.arrays, job.params, job.options["k"]
    block, x, y = params["block"], job.buffers["x"], job.buffers["y"]
    mean = a.nnz / max(a.rows, 1)
    if job.options["layout"] == "column":
        team = _power(mean / 2, 32) if params["team"] == "auto" else params["team"]
        defines = {"SPG_TEAM": team, "SPG_WIDTH": params["width"], "SPG_BLOCK": block}
        return job.launch(
            job.kernel("csr_row_columns", "spmm/csr_row_columns.cu", **defines).bind(
                (_blocks(a.rows * team, block), _blocks(k, params["width"])),
                block,
                np.int32(a.rows),
                np.int32(a.cols),
                np.int32(k),
                arrays["row_ptr"],
                arrays["col"],
                arrays["val"],
                x,
                y,
            )
        )
    p = pieces(k, a.dtype.itemsize, params["columns"])
    # Four entries for each group at least.
    share = _power(mean / 8, 32) if params["share"] == "auto" else params["share"]
    share = min(share, 32 // p.lanes)
    return job.launch(
        job.kernel("csr_row", **p.defines, SPG_SHARE=share).bind(
            (_blocks(a.rows * p.lanes * share, block), p.tiles),
            block,
            np.int32(a.rows),
            np.int32(k),
            arrays["row_ptr"],
            arrays["col"],
            arrays["val"],
            x,
            y,
        )
    )


@variant(
    "spmm",
    "csr-tile",
    format="csr",
    source="spmm/csr_tile.cu",
    tunables={
        "block": Parameter(128, "threads per block", (128, 256), macro="SPG_BLOCK"),
        **_COLUMNS,
        "items": Parameter("auto", "row ends and entries of a group of lanes", ("auto", 8, 16, 32, 64)),
    },
    about="rows and entries cut into equal shares, staged in shared memory",
)
def csr_tile(job: Job) -> Launch:
    a, arrays, device, k = job.packed, job.arrays, job.device, np.int32(job.options["k"])
    block = job.params["block"]
    p = pieces(int(k), a.dtype.itemsize, job.params["columns"])
    teams_of_block = block // p.lanes
    # 2,048 entries staged at most: half of the 48 kB that every GPU has.
    items = min(64 if job.params["items"] == "auto" else job.params["items"], 2048 // teams_of_block)
    defines = {**p.defines, "SPG_ITEMS": items}
    total = a.rows + a.nnz
    teams = _blocks(total, items)
    blocks = _blocks(teams, teams_of_block)
    team_row = device.empty(teams + 1, np.int32)
    preprocess_ms = job.timed_ms(
        job.kernel("csr_tile_rows", **defines).bind(
            _blocks(teams + 1, 256),
            256,
            np.int32(a.rows),
            np.int64(total),
            np.int32(teams),
            np.int32(items),
            arrays["row_ptr"],
            team_row,
        )
    )
    carry = device.empty((blocks, int(k)), a.dtype)
    dense = _row_major(job, **defines)
    tiles = job.kernel("csr_tile", **defines).bind(
        (blocks, p.tiles),
        block,
        k,
        np.int64(total),
        np.int32(teams),
        team_row,
        carry,
        arrays["row_ptr"],
        arrays["col"],
        arrays["val"],
        dense.x,
        dense.y,
    )
    carries = job.kernel("csr_tile_carry", **defines).bind(
        (_blocks(blocks, teams_of_block), p.tiles),
        block,
        np.int32(a.rows),
        k,
        np.int32(teams),
        np.int32(blocks),
        team_row,
        carry,
        dense.y,
    )
    return dense.launch(
        [tiles, carries],
        preprocess_ms=preprocess_ms,
        extra_bytes=team_row.nbytes + carry.nbytes,
        keep=(team_row, carry),
    )


@variant(
    "spmm",
    "ell",
    format="ell",
    source="spmm/ell.cu",
    tunables={**_BLOCK, **_COLUMNS, **_WIDTH},
    about="slot by slot; a row for some lanes (row-major) or for a thread (column-major)",
)
def ell(job: Job) -> Launch:
    a, arrays, params, k = job.packed, job.arrays, job.params, job.options["k"]
    block, x, y = params["block"], job.buffers["x"], job.buffers["y"]
    if job.options["layout"] == "column":
        return job.launch(
            job.kernel("ell_columns", "spmm/ell_columns.cu", SPG_WIDTH=params["width"], SPG_BLOCK=block).bind(
                (_blocks(a.rows, block), _blocks(k, params["width"])),
                block,
                np.int32(a.rows),
                np.int32(a.cols),
                np.int32(a.slots),
                np.int32(k),
                arrays["col"],
                arrays["val"],
                x,
                y,
            )
        )
    p = pieces(k, a.dtype.itemsize, params["columns"])
    return job.launch(
        job.kernel("ell_rows", **p.defines).bind(
            (_blocks(a.rows * p.lanes, block), p.tiles),
            block,
            np.int32(a.rows),
            np.int32(a.slots),
            np.int32(k),
            arrays["col"],
            arrays["val"],
            x,
            y,
        )
    )


@variant(
    "spmm",
    "bsr",
    format="bsr",
    source="spmm/bsr.cu",
    tunables={**_BLOCK, **_COLUMNS},
    about="small dense blocks, a row of X for all rows of a block",
)
def bsr(job: Job) -> Launch:
    a, arrays, block, k = job.packed, job.arrays, job.params["block"], np.int32(job.options["k"])
    # Sums and rows of X together stay within about 96 registers of 4 bytes.
    most = max(1, min(4, 384 // (16 * (a.block_rows + a.block_cols))))
    p = pieces(int(k), a.dtype.itemsize, job.params["columns"], most)
    defines = {**p.defines, "SPG_BLOCK_ROWS": a.block_rows, "SPG_BLOCK_COLS": a.block_cols}
    dense = _row_major(job, **defines)
    multiply = job.kernel("bsr", **defines).bind(
        (_blocks(_blocks(a.rows, a.block_rows) * p.lanes, block), p.tiles),
        block,
        np.int32(a.rows),
        np.int32(a.cols),
        k,
        arrays["block_ptr"],
        arrays["block_col"],
        arrays["block_val"],
        dense.x,
        dense.y,
    )
    return dense.launch([multiply])


@variant(
    "spmm",
    "blocked-ell",
    format="blocked-ell",
    source="spmm/blocked_ell.cu",
    dtypes=("float16",),
    tunables={
        "warps": Parameter(1, "warps per block", (1, 2, 4, 8), macro="SPG_WARPS"),
        "fragments": Parameter("auto", "times 16 columns for each warp", ("auto", 1, 2, 4), macro="SPG_FRAGMENTS"),
    },
    about="tensor cores: half-precision blocks, float32 sums",
)
def blocked_ell(job: Job) -> Launch:
    a, arrays, k, warps = job.packed, job.arrays, job.options["k"], job.params["warps"]
    fragments = job.decide("fragments", _power(k / 16, 4))
    by_column = job.options["layout"] == "column"
    defines = {
        "SPG_SIDE": a.side,
        "SPG_COLUMN_MAJOR": int(by_column),
        "SPG_WIDE_X": int((a.cols if by_column else k) % 8 == 0),
        "SPG_WIDE_Y": int((a.rows if by_column else k) % 8 == 0),
    }
    tiles = _blocks(a.rows, a.side) * _blocks(k, 16 * fragments)
    return job.launch(
        job.kernel("blocked_ell", **defines).bind(
            _blocks(tiles, warps),
            32 * warps,
            np.int32(a.rows),
            np.int32(a.cols),
            np.int32(k),
            np.int32(a.width),
            arrays["block_col"],
            arrays["block_val"],
            job.buffers["x"],
            job.buffers["y"],
        )
    )
