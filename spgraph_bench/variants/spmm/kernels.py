"""spgraph's own SpMM kernels: Y = A X. The contract of each is in its kernel file."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from spgraph_bench.device.base import Buffer
from spgraph_bench.parameters import Parameter
from spgraph_bench.variants.base import Job, Launch, variant
from spgraph_bench.variants.grids import BLOCK

__all__ = ["Pieces", "RowSizes", "line_of", "pieces", "row_shape", "tile_items"]

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


_ROWS = {
    "block": Parameter("auto", "threads per block", ("auto", 64, 128, 256, 512), macro="SPG_BLOCK"),
    **_COLUMNS,
    **_WIDTH,
    "share": Parameter(
        "auto", "groups of lanes that share a row of A, up to a warp (row-major)", ("auto", 1, 2, 4, 8, 16, 32)
    ),
    "slots": Parameter("auto", "rows of X that a group of lanes has in flight (row-major)", ("auto", 1, 2, 4, 5, 6, 8)),
    "steps": Parameter("auto", "rows that a group takes one after another (row-major)", ("auto", 1, 2, 4, 8, 16, 32)),
    "lines": Parameter("auto", "1: these rows are a line of a grid apart, if A is one (row-major)", ("auto", 0, 1)),
    "prefetch": Parameter("auto", "1: ask for all of A and X first (row-major)", ("auto", 0, 1)),
}


class RowSizes(NamedTuple):
    """What :func:`row_shape` decides by."""

    rows: int
    cols: int
    nnz: int
    line: int = 0
    """Rows from one line of a grid to the next (:func:`line_of`); 0: it is no grid."""
    offset_bytes: int = 4
    """Of a position in the entries."""


def _registers(p: Pieces, slots: int, value_bytes: int, offset_bytes: int) -> int:
    """Registers of a thread of csr-row, about: rows of X in flight, their factors, the sum, entries, ends of rows."""
    words, held = value_bytes // 4, -(-slots // p.lanes)
    flying, entries = slots * (4 * p.vecs + words), 2 * held * (1 + words)
    return 26 + flying + (3 + 2 * words) * p.vecs + entries + (10 if offset_bytes == 8 else 0)


def row_shape(
    given: Mapping[str, Any], k: int, sizes: RowSizes, value_bytes: int, multiprocessors: int, l2_bytes: int
) -> dict[str, int]:
    """The tunables of csr-row and ell in row-major order with numbers in place of "auto"; ``stride``, ``per_sm``, and
    ``far``: 1 if X is read all over at a time, so that lines are worth looking for.

    *share*, *slots*: groups that are resident together have rows of X in flight together. So a small matrix gets as
    many groups a row as can all be resident, and then as many slots: up to 6 leave registers for 1,024 threads on a
    multiprocessor, 8 for 768. No more groups than a row has pairs of entries, and no more slots than it has entries.

    *steps*, *block*: what is all resident takes one step in blocks of 256. Otherwise, if X fits in half of the L2,
    all blocks are resident, each with one range of rows. If it does not, ranges all over the matrix would need more of
    X at a time than the L2 has: blocks of 64 threads take four rows a group. Of a grid blocks of 128 take a tile of
    eight lines, so that rows of X above and below come from L1.

    *prefetch*: if A and X fit in a quarter of the L2. docs/tuning/spmm-csr.md has the figures.
    """
    p = pieces(k, value_bytes, given.get("columns", "auto"))
    rows, mean = max(sizes.rows, 1), sizes.nnz / max(sizes.rows, 1)
    threads, most = rows * p.lanes * p.tiles, 32 // p.lanes

    def per_sm(slots: int) -> int:
        registers = _registers(p, max(1, slots // p.vecs), value_bytes, sizes.offset_bytes)
        return 1024 if registers <= 65 else 768 if registers <= 80 else 512

    def fit(share: int, slots: int) -> bool:
        return threads * share <= multiprocessors * per_sm(slots)

    shape = {name: value for name, value in given.items() if name in _ROWS and value != "auto"}
    if "share" not in shape:
        shape["share"] = max(n for n in (1, 2, 4, 8, 16, 32) if n == 1 or (2 * n <= mean and n <= most and fit(n, 4)))
    shape["share"] = share = min(shape["share"], most)
    if "slots" not in shape:
        wanted = next((n for n in (4, 5, 6) if n * share >= mean), 8)
        shape["slots"] = wanted if wanted < 8 or fit(share, 8) else 4
    shape["slots"] = slots = max(1, shape["slots"] // p.vecs)
    at_once, resident = fit(share, slots * p.vecs), per_sm(slots * p.vecs)
    near = sizes.cols * k * value_bytes <= l2_bytes / 2
    shape["far"] = int(not at_once and not near)
    lined = shape.get("lines", shape["far"]) and 0 < 2 * sizes.line <= rows
    shape["lines"] = int(lined)
    shape.setdefault("block", 128 if lined else 64 if shape["far"] else 256)
    shape["per_sm"] = max(resident, shape["block"])
    neighbours = max(1, shape["block"] // (p.lanes * share))
    shape["stride"] = max(sizes.line, neighbours) if lined else neighbours
    if "steps" not in shape:
        blocks = multiprocessors * (shape["per_sm"] // shape["block"])
        shape["steps"] = 8 if lined else 1 if at_once else -(-rows * p.tiles // (neighbours * blocks)) if near else 4
    shape["steps"] = min(shape["steps"], -(-rows // shape["stride"]))
    a_bytes = sizes.nnz * (4 + value_bytes)
    shape.setdefault("prefetch", int(a_bytes + sizes.cols * k * value_bytes <= l2_bytes / 4))
    return shape


_SAMPLED = 512
"""Rows that :func:`line_of` looks at, at most, and entries of each."""
_NEAR = 32
"""Rows that are no more apart than this are neighbours, not lines."""


def line_of(rows: int, columns: Callable[[int], npt.NDArray[np.integer]]) -> int:
    """Rows from one line of a grid to the next: the least distance, but of neighbours, that half of the rows have an
    entry at, above the diagonal; 0 if there is none. `columns`: those of a row; a sample of rows is looked at."""
    step = max(1, rows // _SAMPLED)
    some = range(step // 2, rows, step)
    if not some:
        return 0
    distances = np.concatenate([columns(row)[:_SAMPLED] - row for row in some])
    values, counts = np.unique(distances, return_counts=True)
    lines = values[(values > _NEAR) & (2 * counts >= len(some))]
    return int(lines[0]) if len(lines) else 0


def _shaped(
    job: Job, nnz: int, columns: Callable[[int], npt.NDArray[np.integer]]
) -> tuple[Pieces, dict[str, int], int]:
    """Pieces, the shape, which the record then shows, and the blocks of a row-major kernel that takes rows."""
    a, k, info = job.packed, int(job.options["k"]), job.device.info()
    size = a.dtype.itemsize
    p = pieces(k, size, job.params["columns"])
    sizes = RowSizes(a.rows, a.cols, nnz, 0, a.offsets.itemsize)
    shape = row_shape(job.params, k, sizes, size, info.multiprocessors, info.l2_bytes)
    if job.params["lines"] == 1 or (job.params["lines"] == "auto" and shape["far"]):
        sizes = sizes._replace(line=line_of(a.rows, columns))
        shape = row_shape(job.params, k, sizes, size, info.multiprocessors, info.l2_bytes)
    for name in ("block", "share", "slots", "steps", "lines", "prefetch"):
        job.decide(name, shape[name])
    across = _blocks(shape["stride"], shape["block"] // (p.lanes * shape["share"]))
    return p, shape, across * _blocks(a.rows, shape["stride"] * shape["steps"])


def _defines(p: Pieces, shape: Mapping[str, int]) -> dict[str, int]:
    names = {"SPG_SHARE": "share", "SPG_SLOTS": "slots", "SPG_BLOCK": "block", "SPG_PER_SM": "per_sm"}
    return {**p.defines, **{macro: shape[name] for macro, name in names.items()}}


@variant(
    "spmm",
    "csr-row",
    format="csr",
    source="spmm/csr_row.cu",
    tunables={**_ROWS, "team": Parameter("auto", "threads per row of A (column-major)", ("auto", 1, 2, 4, 8, 16, 32))},
    about="lanes over the columns of a row (row-major) or over its entries (column-major)",
)
def csr_row(job: Job) -> Launch:
    a, arrays, params, k = job.packed, job.arrays, job.params, job.options["k"]
    x, y = job.buffers["x"], job.buffers["y"]
    if job.options["layout"] == "column":
        block = job.decide("block", 64)
        team = job.decide("team", _power(a.nnz / max(a.rows, 1) / 2, 32))
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
    ends, col = a.arrays["row_ptr"], a.arrays["col"]
    p, shape, blocks = _shaped(job, a.nnz, lambda row: col[ends[row] : ends[row + 1]])
    return job.launch(
        job.kernel("csr_row", **_defines(p, shape)).bind(
            (blocks, p.tiles),
            shape["block"],
            np.int32(a.rows),
            np.int32(shape["stride"]),
            np.int32(shape["steps"]),
            np.int32(k),
            np.int64(a.nnz * shape["prefetch"]),
            np.int64(a.cols * k * shape["prefetch"]),
            arrays["row_ptr"],
            arrays["col"],
            arrays["val"],
            x,
            y,
        )
    )


def tile_items(total: int, p: Pieces, multiprocessors: int) -> int:
    """Items of each group of lanes of csr-tile, of `total`: 64, which waits least at ends, but fewer where the 768
    threads that a multiprocessor has registers for would not all have work."""
    groups = multiprocessors * 768 // p.lanes
    return next(n for n in (8, 16, 32, 64) if n == 64 or n * groups >= total)


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
    total = a.rows + a.nnz
    items = job.decide("items", tile_items(total, p, device.info().multiprocessors))
    items = min(items, 2048 // teams_of_block)  # staged: half of the 48 kB that every GPU has
    defines = {**p.defines, "SPG_ITEMS": items}
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
    tunables=_ROWS,
    about="slot by slot; a row for some lanes (row-major) or for a thread (column-major)",
)
def ell(job: Job) -> Launch:
    a, arrays, params, k = job.packed, job.arrays, job.params, job.options["k"]
    x, y = job.buffers["x"], job.buffers["y"]
    if job.options["layout"] == "column":
        block = job.decide("block", 64)
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
    col = a.arrays["col"]
    p, shape, blocks = _shaped(job, a.rows * a.slots, lambda row: col[:, row])
    return job.launch(
        job.kernel("ell_rows", **_defines(p, shape)).bind(
            (blocks, p.tiles),
            shape["block"],
            np.int32(a.rows),
            np.int32(shape["stride"]),
            np.int32(shape["steps"]),
            np.int32(a.slots),
            np.int32(k),
            np.int64(a.cols * k * shape["prefetch"]),
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
