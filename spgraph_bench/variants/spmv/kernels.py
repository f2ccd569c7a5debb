"""spgraph's own SpMV kernels: y = A x. The contract of each is in its kernel file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.errors import SkipError
from spgraph_bench.parameters import Parameter
from spgraph_bench.units import human_bytes
from spgraph_bench.variants.base import Job, Launch, variant

__all__ = ["lines_of", "scattered", "stride_of", "subwarp_shape"]

_BLOCK = {"block": Parameter(256, "threads per block", (64, 128, 256, 512, 1024))}
_STEPS = {
    "steps": Parameter(8, "entries per lane of the segmented sum", (1, 2, 4, 8, 16, 32)),
    "batch": Parameter(
        "auto",
        "steps of the segmented sum whose entries a lane asks for at once; auto: 8 (4 of 8-byte values), 1 "
        "where neighbouring entries lie far apart in x",
        ("auto", 1, 2, 4, 8),
    ),
}


_RUNS = 256
"""Reads of a warp that :func:`scattered` looks at."""


def _blocks(threads: int, block: int) -> int:
    return -(-threads // block)


def scattered(col: npt.NDArray[np.int32], value_bytes: int) -> bool:
    """Whether warps that read `col` in its order, 32 at a time, find more than every second x in a sector (32
    bytes) of its own. Seen from up to 256 reads, spread evenly; negative columns are padding.

    Such a kernel is bound by the sectors of x that an SM can wait for at a time, whatever it asks for ahead.
    """
    flat = col.reshape(-1)
    if not flat.size:
        return False
    starts = np.unique(np.linspace(0, flat.size - 1, _RUNS).astype(np.int64) // 32)
    places = np.minimum(32 * starts[:, None] + np.arange(32), flat.size - 1)
    x = np.sort(flat[places].astype(np.int64), axis=1)
    real, sector = x >= 0, x * value_bytes // 32
    first = real & (sector != np.roll(sector, 1, axis=1))  # in its sector, of the read
    first[:, 0] = real[:, 0]
    return bool(2 * first.sum() > real.sum())


@variant("spmv", "coo-atomic", format="coo", source="spmv/coo_atomic.cu", tunables=_BLOCK,
         about="a thread per nonzero, atomicAdd into y")  # fmt: skip
def coo_atomic(job: Job) -> Launch:
    a, arrays, y, block = job.packed, job.arrays, job.buffers["y"], job.params["block"]
    add = job.kernel("coo_atomic").bind(
        _blocks(a.nnz, block), block,
        a.offsets.type(a.nnz), arrays["row"], arrays["col"], arrays["val"], job.buffers["x"], y,
    )  # fmt: skip

    def run() -> None:
        job.device.fill(y, 0)
        add()

    return job.launch(run, operations=2)


def _batch(job: Job, columns: str) -> dict[str, str]:
    """-D for segmented_sum.cuh; `columns` names the columns of the entries that it adds up."""
    wide = 32 // job.dtype.itemsize
    batch = job.decide("batch", 1 if scattered(job.packed.arrays[columns], job.dtype.itemsize) else wide)
    return differing({"SPG_BATCH": wide}, SPG_BATCH=batch)


@variant("spmv", "coo-segmented", format="coo", source="spmv/coo_segmented.cu", tunables=_BLOCK | _STEPS,
         about="warp-segmented sums, one atomic per row and warp")  # fmt: skip
def coo_segmented(job: Job) -> Launch:
    a, arrays, y, block, steps = (
        job.packed,
        job.arrays,
        job.buffers["y"],
        job.params["block"],
        job.params["steps"],
    )
    add = job.kernel("coo_segmented", **_batch(job, "col")).bind(
        _blocks(_blocks(a.nnz, steps), block), block,
        a.offsets.type(a.nnz), np.int32(steps), arrays["row"], arrays["col"], arrays["val"],
        job.buffers["x"], y,
    )  # fmt: skip

    def run() -> None:
        job.device.fill(y, 0)
        add()

    return job.launch(run, operations=2)


@variant("spmv", "csr-scalar", format="csr", source="spmv/csr_scalar.cu", tunables=_BLOCK,
         about="a thread per row: the textbook baseline")  # fmt: skip
def csr_scalar(job: Job) -> Launch:
    a, arrays, block = job.packed, job.arrays, job.params["block"]
    return job.launch(
        job.kernel("csr_scalar").bind(
            _blocks(a.rows, block), block,
            np.int32(a.rows), arrays["row_ptr"], arrays["col"], arrays["val"],
            job.buffers["x"], job.buffers["y"],
        )
    )  # fmt: skip


@variant("spmv", "csr-vector", format="csr", source="spmv/csr_vector.cu", tunables=_BLOCK,
         about="a warp per row, shuffle reduction")  # fmt: skip
def csr_vector(job: Job) -> Launch:
    a, arrays, block = job.packed, job.arrays, job.params["block"]
    return job.launch(
        job.kernel("csr_vector").bind(
            _blocks(32 * a.rows, block), block,
            np.int32(a.rows), arrays["row_ptr"], arrays["col"], arrays["val"],
            job.buffers["x"], job.buffers["y"],
        )
    )  # fmt: skip


_SUBWARP = {
    "block": Parameter("auto", "threads per block", ("auto", 64, 128, 256)),
    "threads": Parameter("auto", "threads per row", ("auto", 2, 4, 8, 16, 32)),
    "rows": Parameter("auto", "rows that these threads have under way at once", ("auto", 1, 2, 4)),
    "quads": Parameter("auto", "times four entries of a row that a thread asks for at once", ("auto", 1, 2)),
    "resident": Parameter("auto", "threads per SM to leave registers for", ("auto", 768, 1024, 1536, 2048)),
}


def subwarp_shape(
    params: Mapping[str, Any], rows: int, nnz: int, value_bytes: int, multiprocessors: int
) -> dict[str, int]:
    """The tunables of csr-subwarp with numbers in place of "auto".

    As few threads as ask for a whole row of mean length at once, wherever it begins: three places of the
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
    asked = shape["rows"] * quads * value_bytes // 4
    shape["resident"], shape["block"] = params["resident"], params["block"]
    if shape["resident"] == "auto":
        shape["resident"] = (
            768 if asked >= 8 else 1024 if asked >= 4 else 2048 if shape["rows"] == 1 else 1536
        )
    if shape["block"] == "auto":
        shape["block"] = 64 if shape["rows"] == 4 else 128
    return shape


@variant("spmv", "csr-subwarp", format="csr", source="spmv/csr_subwarp.cu", tunables=_SUBWARP,
         about="2 to 32 threads per row, by mean length")  # fmt: skip
def csr_subwarp(job: Job) -> Launch:
    a, arrays = job.packed, job.arrays
    shape = subwarp_shape(job.params, a.rows, a.nnz, a.dtype.itemsize, job.device.info().multiprocessors)
    for name, value in shape.items():
        job.decide(name, value)
    names = {"threads": "SPG_THREADS", "rows": "SPG_ROWS", "quads": "SPG_QUADS", "block": "SPG_BLOCK",
             "resident": "SPG_PER_SM"}  # fmt: skip
    return job.launch(
        job.kernel("csr_subwarp", **{names[name]: str(value) for name, value in shape.items()}).bind(
            _blocks(shape["threads"] * _blocks(a.rows, shape["rows"]), shape["block"]), shape["block"],
            np.int32(a.rows), a.offsets.type(a.nnz), arrays["row_ptr"], arrays["col"], arrays["val"],
            job.buffers["x"], job.buffers["y"],
        )
    )  # fmt: skip


def changed(params: Mapping[str, Any], tunables: Mapping[str, Parameter], **names: str) -> dict[str, str]:
    """-D for the tunables in `names` (macro=tunable) that are not at their default.

    The default is written in the kernel too: what nobody changed needs no module of its own.
    """
    return {m: str(params[t]) for m, t in names.items() if params[t] != tunables[t].default}


def differing(defaults: Mapping[str, int], **macros: int) -> dict[str, str]:
    """-D for the `macros` that differ from `defaults`, the kernel's own, for the same reason."""
    return {name: str(value) for name, value in macros.items() if value != defaults[name]}


# Defaults as in cuda/spmv/adaptive.cuh.
ADAPTIVE = {
    "block": Parameter(128, "threads per block", (128, 256, 512)),
    "tile": Parameter(
        "auto", "rows and entries per block; auto: 2048, of 8-byte values 1024", ("auto", 512, 1024, 2048)
    ),
    "threads": Parameter(1024, "threads per SM to leave registers for", (1024, 1280, 1536, 2048)),
}


def tile_of(job: Job) -> int:
    """The tunable "tile" of a kernel made of adaptive.cuh (SPG_TILE)."""
    return int(job.decide("tile", 8192 // job.dtype.itemsize))


def adaptive(
    job: Job, kernel: str, entries: Sequence[Any], tunables: Mapping[str, Parameter] = ADAPTIVE
) -> Launch:
    """`kernel`, which is made of adaptive.cuh; `entries` are its arguments between row_ptr and x, `tunables`
    those with the defaults of its source."""
    a, device, row_ptr = job.packed, job.device, job.arrays["row_ptr"]
    block = job.params["block"]
    defines = changed(job.params, tunables, SPG_BLOCK="block", SPG_TILE="tile", SPG_THREADS="threads")
    tile = tile_of(job)  # after `changed`, for which "auto" is the kernel's own default
    blocks = _blocks(a.rows + a.nnz, tile)
    table = [device.empty(blocks + 1, kind) for kind in (np.dtype(np.int32), a.offsets, np.dtype(np.int32))]
    fill = job.kernel(f"{kernel}_table", **defines).bind(
        _blocks(blocks + 1, 256) if blocks else 0, 256, np.int32(a.rows), np.int32(blocks), row_ptr, *table
    )
    partial, arrived = device.empty(2 * blocks, a.dtype), device.empty(blocks, np.uint32)
    device.fill(arrived, 0)
    return job.launch(
        job.kernel(kernel, **defines).bind(
            blocks, block,
            a.offsets.type(a.nnz), *table, partial, arrived, row_ptr, *entries,
            job.buffers["x"], job.buffers["y"],
        ),
        preprocess_ms=job.timed_ms(fill), extra_bytes=sum(b.nbytes for b in (*table, partial, arrived)),
        keep=(table, partial, arrived),
    )  # fmt: skip


@variant("spmv", "csr-adaptive", format="csr", source="spmv/csr_adaptive.cu", tunables=ADAPTIVE,
         about="blocks of equal work: products to shared memory, rows summed there")  # fmt: skip
def csr_adaptive(job: Job) -> Launch:
    return adaptive(job, "csr_adaptive", [job.arrays["col"], job.arrays["val"]])


_SEGMENTED = {
    "block": Parameter(256, "threads per block", (64, 128, 256, 512)),
    "steps": Parameter(4, "entries per lane of the segmented sum", (4, 8)),
    "resident": Parameter("auto", "threads per SM to leave registers for", ("auto", 1024, 1280, 1536, 2048)),
    "launches": Parameter(
        "auto",
        "2: y is zeroed first; 1: tiles pass on their parts of cut rows; auto: 1 up to 2^20 nonzeros",
        ("auto", 1, 2),
    ),
    "order": Parameter(
        "ticket",
        "numbers of tiles with launches=1: as blocks start, or by index (unsafe: shows the ticket's cost)",
        ("ticket", "index"),
    ),
}


def _one_launch(row_ptr: np.ndarray, tile: int) -> bool:
    """Whether not to zero y first: where that is a good part of the time, and no tile has many to zero."""
    nnz = int(row_ptr[-1])
    if not 0 < nnz <= 1 << 20:
        return False
    first = np.searchsorted(row_ptr[:-1], np.arange(0, nnz, tile))
    return int(np.diff(first, append=len(row_ptr) - 1).max()) <= 4 * tile


@variant("spmv", "csr-segmented", format="csr", source="spmv/csr_segmented.cu", tunables=_SEGMENTED,
         about="equal runs of entries to warps, segmented sums; atomics for cut rows, or none")  # fmt: skip
def csr_segmented(job: Job) -> Launch:
    a, arrays, device, y = job.packed, job.arrays, job.device, job.buffers["y"]
    block, steps = job.params["block"], job.params["steps"]
    launches = job.decide("launches", 1 if _one_launch(a.arrays["row_ptr"], 32 * steps) else 2)
    # The most for which a lane's entries and their x stay in registers.
    most = {16: 2048, 64: 1024}.get(steps * a.dtype.itemsize, 1536)
    if launches == 1 and a.offsets.itemsize == 8:
        most = {2048: 1536, 1536: 1280}.get(most, most)
    resident = job.decide("resident", most)
    defaults = {"SPG_BLOCK": 256, "SPG_STEPS": 4, "SPG_PER_SM": 2048}
    defines = differing(defaults, SPG_BLOCK=block, SPG_STEPS=steps, SPG_PER_SM=resident)
    tiles = _blocks(a.nnz, 32 * steps)
    one = launches == 1 and tiles > 0
    parts = device.empty(1 + tiles * a.dtype.itemsize // 4 if one else 0, np.uint64)
    if one:
        defines["SPG_ONE_LAUNCH"] = "1"
        if job.params["order"] == "index":
            if device.kind == "host":
                raise SkipError(
                    "order=index needs blocks to start in the order of their index; here they do not"
                )
            defines["SPG_INDEX_ORDER"] = "1"
        device.fill(parts, 0)
    tile_row = device.empty(tiles + 1, np.int32)
    table = job.kernel("csr_segmented_table", **defines).bind(
        _blocks(tiles + 1, 256), 256, np.int32(a.rows), np.int32(tiles), arrays["row_ptr"], tile_row
    )
    preprocess_ms = job.timed_ms(table)
    add = job.kernel("csr_segmented", **defines).bind(
        _blocks(32 * tiles, block), block,
        a.offsets.type(a.nnz), tile_row, arrays["row_ptr"], arrays["col"], arrays["val"], job.buffers["x"], y,
        *((parts,) if one else ()),
    )  # fmt: skip

    def run() -> None:
        device.fill(y, 0)
        add()

    return job.launch(
        add if one else run,
        operations=1 if one else 2,
        preprocess_ms=preprocess_ms,
        extra_bytes=tile_row.nbytes + parts.nbytes,
        keep=(tile_row, parts),
    )


_AHEAD = {
    "ahead": Parameter(
        "auto",
        "slots of a row read before the first is used; auto: 6, 1 where 8-byte values of x lie far apart",
        ("auto", 1, 2, 4, 6, 8, 14),
    )
}


def large(block: int) -> dict[str, str]:
    """-D for a kernel that is compiled for up to 512 threads a block."""
    return {"SPG_BLOCK": str(block)} if block > 512 else {}


def _row_defines(job: Job, columns: str) -> dict[str, str]:
    """-D for a kernel made of ell_row.cuh."""
    value_bytes = job.dtype.itemsize
    far = value_bytes == 8 and scattered(job.packed.arrays[columns], value_bytes)
    ahead = job.decide("ahead", 1 if far else 6)
    return differing({"SPG_AHEAD": 6}, SPG_AHEAD=ahead) | large(job.params["block"])


# Defaults as in cuda/spmv/csr_merge.cu.
_MERGE = {
    "block": Parameter(256, "threads per block", (64, 128, 256, 512)),
    "items": Parameter(
        "auto", "entries and row ends per thread; auto: 7, of 8-byte values 5", ("auto", 5, 7, 9, 11)
    ),
}


@variant("spmv", "csr-merge", format="csr", source="spmv/csr_merge.cu",
         tunables=_MERGE,
         about="merge path over rows and nonzeros, every thread the same work; carry-out fix-up")  # fmt: skip
def csr_merge(job: Job) -> Launch:
    a, arrays, device, y = job.packed, job.arrays, job.device, job.buffers["y"]
    block, items = job.params["block"], job.decide("items", 5 if job.dtype.itemsize == 8 else 7)
    # A value and a row end for each element of a tile; no kernel may declare more than 48 kB.
    if (need := (block * items + 1) * (a.dtype.itemsize + 2)) > 48 * 1024:
        raise SkipError(f"needs {human_bytes(need)} of shared memory a block: --param block={block // 2}")
    tiles = _blocks(a.rows + a.nnz, block * items)
    tile_row, carry = device.empty(tiles + 1, np.int32), device.empty(tiles, a.dtype)
    defines = changed(job.params, _MERGE, SPG_BLOCK="block", SPG_ITEMS="items")
    table = job.kernel("csr_merge_table", **defines).bind(
        _blocks(tiles + 1, 256), 256, np.int32(a.rows), np.int32(tiles), arrays["row_ptr"], tile_row
    )
    preprocess_ms = job.timed_ms(table)
    tile_sums = job.kernel("csr_merge", **defines).bind(
        tiles, block,
        np.int32(a.rows), a.offsets.type(a.nnz), tile_row, carry,
        arrays["row_ptr"], arrays["col"], arrays["val"], job.buffers["x"], y,
    )  # fmt: skip
    carries = job.kernel("csr_merge_carry", **defines).bind(
        _blocks(tiles, 256), 256, np.int32(a.rows), np.int32(tiles), tile_row, carry, y
    )

    def run() -> None:
        tile_sums()
        carries()

    return job.launch(
        run, operations=2, preprocess_ms=preprocess_ms, extra_bytes=tile_row.nbytes + carry.nbytes,
        keep=(tile_row, carry),
    )  # fmt: skip


@variant("spmv", "ell", format="ell", source="spmv/ell.cu", tunables=_BLOCK | _AHEAD,
         about="a thread per row, coalesced slots")  # fmt: skip
def ell(job: Job) -> Launch:
    a, arrays, block = job.packed, job.arrays, job.params["block"]
    return job.launch(
        job.kernel("ell", **_row_defines(job, "col")).bind(
            _blocks(a.rows, block), block,
            np.int32(a.rows), np.int32(a.slots), arrays["col"], arrays["val"],
            job.buffers["x"], job.buffers["y"],
        )
    )  # fmt: skip


@variant("spmv", "hyb", format="hyb", source="spmv/hyb.cu", tunables=_BLOCK | _STEPS | _AHEAD,
         about="ELL part by rows, COO tail by warp-segmented sums: two launches")  # fmt: skip
def hyb(job: Job) -> Launch:
    a, arrays, block, steps = job.packed, job.arrays, job.params["block"], job.params["steps"]
    x, y = job.buffers["x"], job.buffers["y"]
    defines = _row_defines(job, "ell_col") | (_batch(job, "coo_col") if a.tail else {})
    rows = job.kernel("hyb_ell", **defines).bind(
        _blocks(a.rows, block), block,
        np.int32(a.rows), np.int32(a.slots), arrays["ell_col"], arrays["ell_val"], x, y,
    )  # fmt: skip
    if not a.tail:
        return job.launch(rows)
    tail = job.kernel("hyb_tail", **defines).bind(
        _blocks(_blocks(a.tail, steps), block), block,
        a.offsets.type(a.tail), np.int32(steps),
        arrays["coo_row"], arrays["coo_col"], arrays["coo_val"], x, y,
    )  # fmt: skip

    def run() -> None:
        rows()
        tail()

    return job.launch(run, operations=2)


@variant("spmv", "jds", format="jds", source="spmv/jds.cu", tunables=_BLOCK,
         about="a thread per row, rows sorted by length, coalesced slots without padding")  # fmt: skip
def jds(job: Job) -> Launch:
    a, arrays, block = job.packed, job.arrays, job.params["block"]
    return job.launch(
        job.kernel("jds").bind(
            _blocks(a.rows, block), block,
            np.int32(a.rows), np.int32(a.slots), arrays["perm"], arrays["slot_start"],
            arrays["col"], arrays["val"], job.buffers["x"], job.buffers["y"],
        )
    )  # fmt: skip


@variant("spmv", "sell", format="sell", source="spmv/sell.cu", tunables=_BLOCK | _AHEAD,
         about="a thread per row, slices of 32 rows each as wide as their longest")  # fmt: skip
def sell(job: Job) -> Launch:
    a, arrays, block = job.packed, job.arrays, job.params["block"]
    return job.launch(
        job.kernel("sell", **_row_defines(job, "col")).bind(
            _blocks(a.rows, block), block,
            np.int32(a.rows), arrays["slice_ptr"], arrays.get("perm"), arrays["col"], arrays["val"],
            job.buffers["x"], job.buffers["y"],
        )
    )  # fmt: skip


_DIA_BLOCK = Parameter(
    "auto",
    "threads per block; auto: 512, with less than a million rows 256",
    ("auto", 64, 128, 256, 512, 1024),
)
_DIA_AHEAD = Parameter(14, "diagonals read before the first is used", (2, 4, 8, 14, 28))
_DIA = {
    "block": _DIA_BLOCK,
    "rows": Parameter(1, "neighbouring rows per thread", (1, 2, 4)),
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
        100_000,
        "nonzeros from which a kernel is compiled for the matrix; fewer: skipped",
        None,
        (0, 2**31 - 1),
    ),
}
_MOST_DIAGONALS = 64
"""That dia-jit compiles in: more would not fit in the registers that ask for them."""


def stride_of(diag: npt.NDArray[np.int32], block: int) -> int:
    """How far the farthest of the diagonals `diag` (rising) is, to the nearest multiple of `block`."""
    far = max(abs(int(diag[0])), abs(int(diag[-1])))
    return (far + block // 2) // block * block


def lines_of(rows: int, stride: int, block: int, resident: int) -> int:
    """How many runs of `block` rows, `stride` rows apart, a block takes; `resident` blocks run at once."""
    if stride == 0 or rows < 12 * resident * block:
        return 1
    side_by_side, lines = stride // block, _blocks(rows, stride)
    steps = {n: _blocks(_blocks(lines, n) * side_by_side, resident) * n for n in range(1, 9)}
    return max(n for n in steps if steps[n] <= 1.03 * min(steps.values()))


def _dia_block(job: Job) -> int:
    return int(job.decide("block", 512 if job.packed.rows >= 1_000_000 else 256))


def _grouped(job: Job, tunables: Mapping[str, Parameter]) -> dict[str, str]:
    """-D for dia.cu that matrices share."""
    defines = changed(job.params, tunables, **{"SPG_ROWS": "rows"} if "rows" in tunables else {},
                      SPG_AHEAD="ahead")  # fmt: skip
    return defines | ({"SPG_GROUP": str(job.packed.group)} if job.packed.group > 1 else {})


@variant("spmv", "dia", format="dia", source="spmv/dia.cu", tunables=_DIA,
         about="by diagonals, a thread per row, no column indices")  # fmt: skip
def dia(job: Job) -> Launch:
    a, arrays, block = job.packed, job.arrays, _dia_block(job)
    defines = _grouped(job, _DIA)
    lowest, highest = (a.diag[0], a.diag[-1]) if a.diagonals else (0, 0)
    if block > 256:  # a large block must not want more registers than there are
        defines["SPG_BLOCK"] = str(block)
    return job.launch(
        job.kernel("dia", **defines).bind(
            _blocks(_blocks(a.rows, job.params["rows"]), block), block,
            np.int32(a.rows), np.int32(a.cols), np.int32(a.diagonals), np.int32(lowest), np.int32(highest),
            arrays["diag"], arrays["data"], job.buffers["x"], job.buffers["y"],
        )
    )  # fmt: skip


@variant("spmv", "dia-jit", format="dia", source="spmv/dia.cu", tunables=_DIA_JIT, for_matrix=True,
         about="as dia, compiled for this matrix: its diagonals are constants of the kernel")  # fmt: skip
def dia_jit(job: Job) -> Launch:
    a, block = job.packed, _dia_block(job)
    if not 0 < a.diagonals <= _MOST_DIAGONALS:
        raise SkipError(f"{a.diagonals:,} diagonals; 1 to {_MOST_DIAGONALS} can be compiled in")
    if a.nnz < job.params["from"]:
        raise SkipError(
            f"{a.nnz:,} nonzeros; a compile is worth it from {job.params['from']:,} on: --param from=0"
        )
    stride = stride_of(a.diag, block)
    resident = job.device.info().multiprocessors * max(1, 2048 // block)
    lines = int(job.decide("lines", lines_of(a.rows, stride, block, resident))) if stride else 1
    defines = _grouped(job, _DIA_JIT) | {"SPG_DIAGS": "".join(f"D({d})" for d in a.diag)}
    blocks = _blocks(a.rows, block)
    if lines > 1:
        defines |= {"SPG_LINES": str(lines), "SPG_STRIDE": str(stride)}
        blocks = _blocks(_blocks(a.rows, stride), lines) * (stride // block)
    return job.launch(
        job.kernel_for_matrix("dia_fixed", **defines).bind(
            blocks, block, np.int32(a.rows), np.int32(a.cols), job.arrays["data"],
            job.buffers["x"], job.buffers["y"],
        )
    )  # fmt: skip
