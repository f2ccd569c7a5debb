"""What each format costs on one matrix: bytes, padding, and what its plainest kernels do with a warp.

Bytes, padding and conversion times are those of the packed matrix. The rest is a model: accesses of a kernel with a
stated mapping of lanes to entries, counted from the row lengths and pointers of the packed arrays (Bell and Garland, SC
2009, discuss these mappings). Reads of x are not in it: they depend on columns alone and are about the same for every
format. The trace counts the accesses of the real kernels instead (:mod:`spgraph_bench.runner.tracing`).
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.device.trace import SECTOR_BYTES, added
from spgraph_bench.errors import SpgraphError
from spgraph_bench.formats.base import Format, Packed, formats
from spgraph_bench.formats.common import offsets_for
from spgraph_bench.matrix import CSR, Matrix
from spgraph_bench.memory import available_memory
from spgraph_bench.runner.figures import conversion_bytes
from spgraph_bench.runner.tracing import trace_variant
from spgraph_bench.stats import row_stats
from spgraph_bench.units import human_bytes
from spgraph_bench.variants.base import variants

__all__ = ["Traced", "Tradeoff", "Walk", "recommendation", "tradeoffs", "walks"]

WARP = 32
RESIDENT_WARPS = 4096
"""About how many warps run side by side on a large GPU: a warp with more steps than its share outlasts them."""
_PART = 2048
"""Entries of an equal part."""
_SAMPLE = 1 << 20
"""Entries whose sectors are counted one by one; of more, those of every n-th warp."""
_SLOW = 1.0
"""Seconds from which a conversion is timed once, not three times."""

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Walk:
    """How a plain kernel walks through a format, on one matrix."""

    mapping: str
    coalescing: float
    """Sectors of 32 bytes that could hold what warps ask for, over those that they move: 1 is best. Of the values, or
    of the columns where no values are stored."""
    lanes: float
    """Lanes of 32 that have an entry to work on, on average over the steps of all warps."""
    longest: float
    """Steps of the longest warp over the mean: 1 is best."""
    atomics: int
    """Atomic additions to global memory in one product."""
    outlasts: bool = False
    """Whether the longest warp takes longer than all others side by side."""


@dataclass(frozen=True)
class Traced:
    """What the trace counted of a kernel's accesses to global memory."""

    kernel: str
    requests: int
    sectors: float
    """For each request, on average."""
    ideal: float
    lanes: float
    bytes: int
    """Moved: sectors times 32."""
    atomics: int
    refused: str | None = None


@dataclass(frozen=True)
class Tradeoff:
    """One format on one matrix."""

    format: str
    bytes: int
    """Of all arrays; predicted where the format refuses."""
    padding: float | None
    """Share of those bytes that holds no entry; None where it refuses."""
    conversion_s: float | None
    """From CSR, on this machine's CPU: the median of three."""
    walks: tuple[Walk, ...] = ()
    refused: str | None = None
    kernels: tuple[str, ...] = ()
    """spgraph's own SpMV kernels that read it; none where it drops values that the product needs."""
    values: bool = True
    """Whether the matrix could be recovered: False for a pattern of a matrix with values of its own."""
    traced: tuple[Traced, ...] = field(default=())


# ---- the model ---------------------------------------------------------------------------------------------


def _by_warp(lengths: Ints) -> Ints:
    """`lengths` in rows of 32, filled up with 0."""
    warps = -(-len(lengths) // WARP)
    whole = np.zeros(warps * WARP, np.int64)
    whole[: len(lengths)] = lengths
    return whole.reshape(warps, WARP)


def _walk(
    mapping: str, nnz: int, steps: Ints, sectors: float = 1.0, ideal: float = 1.0, atomics: int = 0, tail: int = 0
) -> Walk:
    """From the steps of every warp; `tail`: further steps, in warps of one step each."""
    total = int(steps.sum()) + tail
    longest = int(steps.max(initial=0))
    working = int(np.count_nonzero(steps)) + tail
    mean = total / working if working else 0.0
    return Walk(
        mapping,
        ideal / sectors if sectors else 1.0,
        nnz / total if total else 0.0,
        longest / mean if mean else 1.0,
        atomics,
        longest > max(4 * mean, total / RESIDENT_WARPS),
    )


def _slot_major(mapping: str, lengths: Ints, nnz: int, item: int, atomics: int = 0, tail: int = 0) -> Walk:
    """Entry k of 32 rows side by side: lanes whose row is longer than k read."""
    by_warp, run = _by_warp(lengths), SECTOR_BYTES // item
    sectors = by_warp.reshape(len(by_warp), WARP // run, run).max(axis=2).sum()
    ideal = -np.sort(-by_warp, axis=1)[:, ::run].sum()
    return _walk(mapping, nnz, by_warp.max(axis=1, initial=0), float(sectors), float(abs(ideal)), atomics, tail)


def _scattered(
    mapping: str, lengths: Ints, nnz: int, item: int, place: Callable[[Ints, Ints], Ints], atomics: int = 0
) -> Walk:
    """A thread per row: lane l's element k is at ``place(row, k)``. Sectors are counted for all warps or a sample."""
    by_warp = _by_warp(lengths)
    every = max(1, -(-int(lengths.sum()) // _SAMPLE))
    rows = np.arange(len(lengths), dtype=np.int64)
    rows = rows[rows // WARP % every == 0]
    counts = lengths[rows]
    row = np.repeat(rows, counts)
    k = np.arange(len(row), dtype=np.int64) - np.repeat(np.cumsum(counts) - counts, counts)
    sector = place(row, k) * item // SECTOR_BYTES
    request = row // WARP * (int(lengths.max(initial=0)) + 1) + k
    order = np.lexsort((sector, request))
    request, sector = request[order], sector[order]
    new_request = np.ones(len(request), bool)
    new_request[1:] = request[1:] != request[:-1]
    new_sector = new_request.copy()
    new_sector[1:] |= sector[1:] != sector[:-1]
    lanes = np.diff(np.append(np.flatnonzero(new_request), len(request)))
    ideal = float((-(-lanes * item // SECTOR_BYTES)).sum())
    sectors = float(np.count_nonzero(new_sector))
    return _walk(mapping, nnz, by_warp.max(axis=1, initial=0), sectors, ideal, atomics)


def _by_rows(pointer: Ints, nnz: int, item: int, what: str = "row", atomics: int = 0) -> tuple[Walk, ...]:
    """CSR: a thread, a warp, or an equal part of the entries; of CSC columns, with an atomic for each entry."""
    lengths = np.diff(pointer)
    thread = _scattered(f"thread per {what}", lengths, nnz, item, lambda r, k: pointer[:-1][r] + k, atomics)
    # A warp reads a row in pieces of 32; those before the last begin 32 elements apart.
    first = pointer[:-1][lengths > 0] * item
    last = pointer[1:][lengths > 0] * item - 1
    steps = -(-lengths // WARP)
    inner = np.maximum(steps[lengths > 0] - 1, 0)
    crossed = np.where(first % SECTOR_BYTES != 0, inner, 0)  # a sector that two pieces share is moved for both
    sectors = float((last // SECTOR_BYTES - first // SECTOR_BYTES + 1 + crossed).sum())
    rest = lengths[lengths > 0] - inner * WARP
    ideal = float((inner * (WARP * item // SECTOR_BYTES) + -(-rest * item // SECTOR_BYTES)).sum())
    warp = _walk(f"warp per {what}", nnz, steps, sectors, ideal, atomics)
    if what != "row":
        return thread, warp
    return thread, warp, _equal_parts(nnz)


def _equal_parts(nnz: int) -> Walk:
    """Of the entries, whatever rows they are of: the sum of a row in two parts is put together by an atomic."""
    steps = np.full(-(-nnz // _PART), _PART // WARP, np.int64)
    if nnz % _PART:
        steps[-1] = -(-(nnz % _PART) // WARP)
    return _walk("equal parts", nnz, steps, atomics=max(0, len(steps) - 1))


def _summed(row: npt.NDArray[Any]) -> int:
    """Atomics where each warp adds up its 32 entries by row first."""
    if not len(row):
        return 0
    new = row[1:] != row[:-1]
    new |= np.arange(1, len(row)) % WARP == 0
    return 1 + int(np.count_nonzero(new))


def _csr(p: Packed, lengths: Ints) -> tuple[Walk, ...]:
    return _by_rows(p.row_ptr.astype(np.int64), p.nnz, _item(p, "val", "weight", "col", "offset"))


def _csc(p: Packed, lengths: Ints) -> tuple[Walk, ...]:
    return _by_rows(p.col_ptr.astype(np.int64), p.nnz, _item(p, "val", "row"), "col", p.nnz)


def _coo(p: Packed, lengths: Ints) -> tuple[Walk, ...]:
    entries = len(p.row)
    steps = np.ones(-(-entries // WARP), np.int64)
    plain = _walk("thread per entry", entries, steps, atomics=entries)
    return plain, _walk("sums of warps", entries, steps, atomics=_summed(p.row))


def _ell(p: Packed, lengths: Ints) -> tuple[Walk, ...]:
    return (_slot_major("thread per row", lengths, p.nnz, _item(p, "val", "col")),)


def _ell_rows(p: Packed, lengths: Ints) -> tuple[Walk, ...]:
    slots, item = int(p.slots), _item(p, "row_val", "row_col")
    return (_scattered("thread per row", lengths, p.nnz, item, lambda row, k: row * slots + k),)


def _hyb(p: Packed, lengths: Ints) -> tuple[Walk, ...]:
    tail = len(p.coo_row)
    head = np.minimum(lengths, p.ell_col.shape[0])
    item, steps = _item(p, "ell_val", "ell_col"), -(-tail // WARP)
    summed = _slot_major("rows, then tail", head, p.nnz, item, _summed(p.coo_row), steps)
    return (summed, replace(summed, mapping="tail by entries", atomics=tail)) if tail else (summed,)


def _ordered(p: Packed, lengths: Ints) -> tuple[Walk, ...]:
    """JDS and SELL: rows by ``perm``."""
    perm = p.arrays.get("perm")
    return (_slot_major("thread per row", lengths if perm is None else lengths[perm], p.nnz, _item(p, "val", "col")),)


def _dia(p: Packed, lengths: Ints) -> tuple[Walk, ...]:
    steps = np.full(-(-p.rows // WARP), len(p.diag), np.int64)
    return (_walk("thread per row", p.nnz, steps),)


def _bsr(p: Packed, lengths: Ints) -> tuple[Walk, ...]:
    pointer, r, c = p.block_ptr.astype(np.int64), int(p.block_rows), int(p.block_cols)
    own = np.repeat(np.diff(pointer) * c, r)[: p.rows]

    def place(row: Ints, k: Ints) -> Ints:
        position: Ints = (pointer[row // r] + k // c) * r * c + row % r * c + k % c
        return position

    return (_scattered("thread per row", own, p.nnz, _item(p, "block_val"), place),)


def _bsr_sliced(p: Packed, lengths: Ints) -> tuple[Walk, ...]:
    size = int(p.block_rows) * int(p.block_cols)
    blocks = p.length.astype(np.int64)
    walk = _slot_major("thread/block row", blocks, int(blocks.sum()), 16)
    full = p.nnz / (size * int(blocks.sum())) if len(blocks) and blocks.any() else 1.0
    return (Walk(walk.mapping, walk.coalescing, walk.lanes * full, walk.longest, 0, walk.outlasts),)


def _item(p: Packed, *names: str) -> int:
    """Bytes of an element of the first of these arrays that is there."""
    return next(int(p.arrays[name].itemsize) for name in names if name in p.arrays)


Model = Callable[[Packed, Ints], tuple[Walk, ...]]
_BY_ARRAYS: tuple[tuple[frozenset[str], Model], ...] = (
    (frozenset({"row_ptr", "offset", "base"}), _csr),
    (frozenset({"row_ptr", "col"}), _csr),
    (frozenset({"col_ptr", "row"}), _csc),
    (frozenset({"ell_col", "coo_row"}), _hyb),
    (frozenset({"row_col"}), _ell_rows),
    (frozenset({"slot_start", "perm", "col"}), _ordered),
    (frozenset({"slice_ptr", "col"}), _ordered),
    (frozenset({"diag"}), _dia),
    (frozenset({"block_ptr", "block_val"}), _bsr),
    (frozenset({"slice_ptr", "wide_val"}), _bsr_sliced),
    (frozenset({"row", "col"}), _coo),
)
"""What models a format, by the arrays it has; the first that fits."""


def walks(packed: Packed, lengths: Ints) -> tuple[Walk, ...]:
    """How plain kernels walk through `packed`; empty for a layout without a model (bins, dense blocks).

    `lengths`: entries of each row of the matrix, int64 ``[rows]``.
    """
    for names, model in _BY_ARRAYS:
        if names <= packed.arrays.keys():
            return model(packed, lengths)
    if "col" in packed.arrays and packed.col.ndim == 2 and packed.col.shape[1] == packed.rows:
        return _ell(packed, lengths)
    return ()


# ---- all formats -------------------------------------------------------------------------------------------


def _timed(form: Format, csr: CSR, dtype: np.dtype[Any], offsets: np.dtype[Any]) -> tuple[Packed, float]:
    seconds: list[float] = []
    while True:
        started = time.perf_counter()
        packed = form.pack(csr, dtype, offsets)
        seconds.append(time.perf_counter() - started)
        if len(seconds) == 3 or seconds[0] > _SLOW:
            return packed, statistics.median(seconds)


def _trace(name: str, matrix: Matrix, dtype: str, seed: int) -> Traced:
    chosen = next(v for v in variants("spmv") if v.name == name)
    try:
        kernels = trace_variant(chosen, matrix, dtype, seed=seed)
    except SpgraphError as error:
        return Traced(name, 0, 0.0, 0.0, 0.0, 0, 0, str(error).splitlines()[0])
    moved = added(k.total(what) for k in kernels for what in ("load", "store", "atomic"))
    atomics = added(k.total("atomic") for k in kernels).lanes
    return Traced(
        name,
        moved.requests,
        moved.sectors_per_request,
        moved.ideal_per_request,
        moved.lanes_per_request,
        moved.sectors * SECTOR_BYTES,
        atomics,
    )


def _own_kernels() -> Mapping[str, tuple[str, ...]]:
    names: dict[str, tuple[str, ...]] = {}
    for v in variants("spmv"):
        if v.where == "gpu" and v.source is not None:
            names[v.format] = (*names.get(v.format, ()), v.name)
    return names


def tradeoffs(
    matrix: Matrix,
    dtype: str = "float32",
    *,
    traced: bool = False,
    seed: int = 1,
    progress: Callable[[str, float | None], None] = lambda doing, fraction: None,
) -> list[Tradeoff]:
    """Every format on `matrix`, in the order of lists.

    Parameters
    ----------
    dtype : of the values, "float32" or "float64".
    traced : run the SpMV kernels that read each format under the memory trace of the host device, too.
    seed : of x, for the trace.
    """
    csr, value = matrix.csr, np.dtype(dtype)
    stats, lengths, kernels = row_stats(csr), csr.row_lengths().astype(np.int64), _own_kernels()
    offsets = offsets_for(csr.nnz)
    everything = formats()
    rows: list[Tradeoff] = []
    for number, (name, form) in enumerate(everything.items()):
        progress(name, number / len(everything))
        own = kernels.get(name, ())
        need = form.predict_bytes(stats, value.itemsize, offsets.itemsize)
        refused = form.refuse(stats, None, value.itemsize)
        if refused is None and (room := conversion_bytes(need, csr)) > available_memory():
            refused = f"the conversion needs {human_bytes(room)} of memory"
        if refused is not None:
            rows.append(Tradeoff(name, need, None, None, refused=refused, kernels=own))
            continue
        try:
            packed, took = _timed(form, csr, value, offsets)
        except SpgraphError as error:
            rows.append(Tradeoff(name, need, None, None, refused=str(error).splitlines()[0], kernels=own))
            continue
        size, whole = packed.stored_bytes, form.keeps_values or packed.meta.get("value") is not None
        own = own if whole else ()
        padding = max(0.0, 1 - packed.compulsory_bytes / size) if size else 0.0
        seen = tuple(_trace(kernel, matrix, dtype, seed) for kernel in own) if traced else ()
        rows.append(Tradeoff(name, size, padding, took, walks(packed, lengths), None, own, whole, seen))
    return rows


# ---- which fit ---------------------------------------------------------------------------------------------

_LEAST_LANES = WARP / 2
_LEAST_COALESCING = 0.5
_MOST_BYTES = 1.25


def _suits(walk: Walk, nnz: int) -> bool:
    return (
        walk.lanes >= min(_LEAST_LANES, nnz / 2)
        and walk.coalescing >= _LEAST_COALESCING
        and not walk.outlasts
        and walk.atomics <= nnz / 8
    )


def recommendation(rows: Sequence[Tradeoff], nnz: int) -> str:
    """One or two sentences: which formats fit, and why.

    A format fits if SpMV kernels read it, one of its walks keeps half of the lanes busy, moves at most twice the
    sectors needed, has no warp that outlasts the others and at most an atomic for eight entries, and if it stores at
    most 1.25 times the bytes of the smallest of those.
    """
    if not nnz:
        return "The matrix has no entries: any format does."
    suited = [(row, walk) for row in rows if row.kernels and not row.refused for walk in row.walks if _suits(walk, nnz)]
    if not suited:
        return "No format fits well by this model; `spgraph bench spmv` measures them all."
    least = min(row.bytes for row, _ in suited)
    fit = sorted(
        (pair for pair in suited if pair[0].bytes <= _MOST_BYTES * least), key=lambda p: (p[0].bytes, -p[1].lanes)
    )
    best: dict[str, tuple[Tradeoff, Walk]] = {}
    for row, walk in fit:
        best.setdefault(row.format, (row, walk))
    described = [
        f"{row.format} ({row.bytes / nnz:.3g} bytes per nonzero, {walk.mapping}: {walk.lanes:.3g} lanes busy)"
        for row, walk in list(best.values())[:4]
    ]
    more = "" if len(best) <= 4 else f" and {len(best) - 4} more"
    verb = "fits" if len(best) == 1 else "fit"
    text = (
        f"By this model {', '.join(described)}{more} {verb}: fewest bytes of the formats whose warps are busy and even."
    )
    seen = [t for row in rows for t in row.traced if t.refused is None and t.requests]
    if seen:
        first = min(seen, key=lambda t: t.bytes)
        text += (
            f" In the trace {first.kernel} moves the fewest bytes, {human_bytes(first.bytes)}, with {first.lanes:.3g} "
            f"lanes an access and {first.atomics:,} atomics."
        )
    return text
