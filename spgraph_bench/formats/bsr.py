"""BSR: blocks of r x c, one column index for each, in the plain order and in one made for warps."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from spgraph_bench.errors import UsageError
from spgraph_bench.formats import compiled
from spgraph_bench.formats.base import Format, Packed, register
from spgraph_bench.formats.common import OfLastMatrix, csr_from_loose, offset_type, quiet_overflow, ranges, value_type
from spgraph_bench.matrix import CSR
from spgraph_bench.parameters import Parameter
from spgraph_bench.stats import MatrixStats, row_blocks, row_ranges, sample_blocks
from spgraph_bench.structure import BLOCK_FILL, block_places, by_alignment, count_blocks
from spgraph_bench.structure.compiled import block_lengths
from spgraph_bench.units import human_bytes

__all__ = ["BSR", "SlicedBSR", "choose_block_size"]

SIZES = ((2, 2), (3, 3), (2, 4), (4, 2), (4, 4), (5, 5), (6, 6), (7, 7), (8, 8))
"""Block sizes (rows, columns) that "auto" chooses from."""

SAMPLE = 1 << 20
"""Entries that tell which sizes are worth counting in the whole matrix; of fewer entries all are."""

PIECES = 16
"""Places that the sample is taken from, spread evenly over the rows."""

CLOSE = 1.05
"""A size is counted in the whole matrix if in the sample it needs at most this factor more bytes than the best one."""

WORTH = 0.98
"""A larger block has to save this much of the bytes: its kernels hold more in registers, in fewer threads."""

DOUBTFUL = 0.9
"""Share of the required fill that a size must reach in the sample: it may then be well filled in the matrix."""

MOST = 8
"""The most rows or columns of a block: a thread keeps a block in its registers."""

SLICE = 32
"""Block rows that a warp takes together."""

WIDE_BYTES = 16
"""Bytes of one read of a thread."""

_MASK = 0xFFFFFFFF


_Sizes = tuple[tuple[int, int], ...]


class _Size(NamedTuple):
    rows: int
    cols: int
    blocks: int

    def __str__(self) -> str:
        return f"{self.rows}x{self.cols}"

    def bytes(self, value_bytes: int) -> int:
        return self.blocks * (4 + self.rows * self.cols * value_bytes)

    def fills(self, nnz: int, share: float = 1.0) -> bool:
        return nnz >= share * BLOCK_FILL * self.blocks * self.rows * self.cols


def _given(text: Any) -> tuple[int, int] | None:
    """The size that `text` ("auto", 3, "3", "2x4") names; None for "auto"."""
    if text == "auto":
        return None
    match = re.fullmatch(r"(\d{1,2})(?:x(\d{1,2}))?", str(text))
    r, c = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
    if not (0 < r <= MOST and 0 < c <= MOST):
        raise UsageError(
            f"block_size cannot be {text!r}", remedy=f'take "auto", or rows x columns up to {MOST}: 3, 3x3, 2x4'
        )
    return r, c


def _counts(csr: CSR, sizes: _Sizes, until_none_fills: bool = False) -> list[_Size]:
    """Occupied blocks of `sizes`, exactly; sizes that cannot be the best may be missing.

    Of a large matrix a sample says which are close to the best. Where none of these turns out to be well
    filled, the others are counted too, so that a sample alone never decides that no size is. With
    `until_none_fills` only well filled sizes are wanted, and counting ends when there can be none.
    """
    likely = _likely(csr, sizes) if len(sizes) > 1 and csr.nnz > SAMPLE else sizes
    counted = _counted(csr, likely, until_none_fills)
    if not any(size.fills(csr.nnz) for size in counted):
        counted += _counted(csr, tuple(size for size in sizes if size not in likely), True)
    return counted


def _counted(csr: CSR, sizes: _Sizes, only_filled: bool) -> list[_Size]:
    """Occupied blocks of each of `sizes`; with `only_filled` of those that are well filled.

    These are given up as soon as they have so many blocks that all entries of the matrix could not fill them.
    """
    if (by_library := _counted_by_library(csr, sizes, only_filled)) is not None:
        return by_library
    counts: list[_Size] = []
    for align, group in by_alignment(sizes):
        blocks = dict.fromkeys(group, 0)
        for part in row_blocks(csr, align=align):
            for size, count in count_blocks(part.row_ids(), part.cols.astype(np.int64), [*blocks]).items():
                blocks[size] += count
            if only_filled:
                blocks = {s: n for s, n in blocks.items() if _Size(*s, n).fills(csr.nnz)}
                if not blocks:
                    break
        counts += [_Size(r, c, n) for (r, c), n in blocks.items()]
    return counts


def _counted_by_library(csr: CSR, sizes: _Sizes, only_filled: bool) -> list[_Size] | None:
    """The same in compiled code, or None."""
    counts: list[_Size] = []
    for _, group in by_alignment(sizes):
        for r, c in group:
            most = int(csr.nnz / (BLOCK_FILL * r * c)) + 1 if only_filled else None
            lengths = block_lengths(csr, r, c, most)
            if lengths is None:
                return None
            size = _Size(r, c, int(lengths.sum()))
            if not only_filled or size.fills(csr.nnz):
                counts.append(size)
    return counts


def _likely(csr: CSR, sizes: _Sizes) -> _Sizes:
    """Those of `sizes` that in a sample of rows need hardly more bytes (in either type) than the best.

    Compared are sizes whose blocks are about full enough, or all sizes if none is.
    """
    estimates: list[tuple[int, _Size]] = []
    for align, group in by_alignment(sizes):
        entries, blocks = 0, dict.fromkeys(group, 0)
        for part in sample_blocks(csr, SAMPLE, PIECES, align):
            for size, count in count_blocks(part.row_ids(), part.cols.astype(np.int64), group).items():
                blocks[size] += count
            entries += len(part.cols)
        # Groups meet other rows, so that only what is counted for each entry can be compared.
        estimates += [(max(entries, 1), _Size(r, c, n)) for (r, c), n in blocks.items()]
    good = [(entries, size) for entries, size in estimates if size.fills(entries, DOUBTFUL)] or estimates
    close = set()
    for width in (4, 8):
        bytes_of = {size: size.bytes(width) / entries for entries, size in good}
        least = min(bytes_of.values())
        close |= {(s.rows, s.cols) for s, need in bytes_of.items() if need <= CLOSE * least}
    return tuple(size for size in sizes if size in close)


_last: OfLastMatrix[list[_Size]] = OfLastMatrix()


def _remembered(csr: CSR, sizes: _Sizes, until_none_fills: bool = False) -> list[_Size]:
    """As _counts, but the matrix that was counted last is not counted again."""
    if (counts := _last.get(csr, sizes)) is not None:
        return counts if not until_none_fills or any(size.fills(csr.nnz) for size in counts) else []
    counts = _counts(csr, sizes, until_none_fills)
    if counts:
        _last.put(csr, sizes, counts)
    return counts


def choose_block_size(
    csr: CSR, block_size: Any = "auto", value_bytes: int = 4, count: Callable[[CSR, _Sizes], list[_Size]] = _counts
) -> _Size:
    """The size (rows, cols, blocks): the one given, or of those at least 60 % full the one of least bytes, or
    a smaller one that needs hardly more.

    Where none is that full: chosen from all in the same way. Raises UsageError for text that is not a size.
    """
    given = _given(block_size)
    counted = count(csr, (given,) if given else SIZES)
    good = [size for size in counted if size.fills(csr.nnz)] or counted
    least = min(size.bytes(value_bytes) for size in good)
    near = [size for size in good if WORTH * size.bytes(value_bytes) <= least]
    return min(near, key=lambda size: (size.rows * size.cols, size.bytes(value_bytes)))


@register
class BSR(Format):
    """Block compressed sparse rows.

    The matrix is cut into blocks of ``block_rows x block_cols`` elements from its upper left corner on; those
    with an entry are stored whole, fill being 0. ``block_ptr``: offset type, ``[b + 1]`` for b block rows, in
    blocks; ``block_col``: int32 ``[blocks]``, the block's first column / block_cols, rising within each
    block row; ``block_val``: value type ``[blocks][block_rows][block_cols]`` (a 64-bit index).
    A stored zero cannot be distinguished from fill, and fill is multiplied: an Inf or NaN in x gives NaN in rows that
    have no entry there.
    """

    name = "bsr"
    title = "blocks of r x c, one column index each"
    wins = (
        "Wins on matrices made of small dense blocks: one index for a block. Loses by fill where blocks are not full."
    )
    order = 84
    keeps_zeros = False
    tunables = MappingProxyType(
        {"block_size": Parameter("auto", 'rows x columns of a block: "auto", 3, 3x3, 2x4, ... up to 8x8', check=_given)}
    )

    @quiet_overflow
    def pack(
        self, csr: CSR, dtype: npt.DTypeLike = np.float32, offsets: npt.DTypeLike = np.int32, **params: Any
    ) -> Packed:
        value = value_type(dtype)
        r, c, blocks = choose_block_size(csr, params.get("block_size", "auto"), value.itemsize)
        offset = offset_type(offsets, max(blocks, csr.nnz))
        lengths = block_lengths(csr, r, c)
        block_ptr = None if lengths is None else _offsets(lengths, np.dtype(np.int64))
        if block_ptr is not None and (arrays := compiled.blocks(csr, r, c, block_ptr, value)):
            block_col, block_val = arrays
        else:
            lengths, block_col, block_val = _fill(csr, r, c, blocks, value)
        assert lengths is not None
        block_ptr = _offsets(lengths, offset)
        return self._packed(csr, value, block_ptr, {"block_col": block_col, "block_val": block_val}, (r, c))

    def _packed(
        self,
        csr: CSR | Packed,
        value: np.dtype[Any],
        block_ptr: npt.NDArray[Any],
        arrays: dict[str, npt.NDArray[Any]],
        size: tuple[int, int],
    ) -> Packed:
        blocks = len(arrays["block_col"])
        return Packed(
            self.name,
            csr.rows,
            csr.cols,
            csr.nnz,
            value,
            MappingProxyType({"block_ptr": block_ptr, **arrays}),
            MappingProxyType({"block_rows": size[0], "block_cols": size[1], "blocks": blocks}),
            pattern=csr.pattern if isinstance(csr, Packed) else csr.values is None,
            compulsory_bytes=block_ptr.nbytes + 4 * blocks + csr.nnz * value.itemsize,
            offsets=block_ptr.dtype,
        )

    def unpack(self, packed: Packed) -> CSR:
        """Zeros are omitted (see :attr:`keeps_zeros`)."""
        r, c = packed.block_rows, packed.block_cols
        block, i, j = np.nonzero(packed.block_val)
        row = np.repeat(np.arange(len(packed.block_ptr) - 1), np.diff(packed.block_ptr))[block] * r + i
        col = packed.block_col[block].astype(np.int64) * c + j
        return csr_from_loose(packed, row, col.astype(np.int32), packed.block_val[block, i, j])

    def predict_bytes(self, stats: MatrixStats, value_bytes: int = 4, offset_bytes: int = 4, **params: Any) -> int:
        """Counts the blocks, which takes a pass over the column indices."""
        assert stats.csr is not None, "the number of blocks depends on the columns"
        size = choose_block_size(stats.csr, params.get("block_size", "auto"), value_bytes, _remembered)
        return (-(-stats.rows // size.rows) + 1) * offset_bytes + size.bytes(value_bytes)

    def refuse(
        self, stats: MatrixStats, free_bytes: int | None, value_bytes: int = 4, force: bool = False, **params: Any
    ) -> str | None:
        assert stats.csr is not None
        given = _given(params.get("block_size", "auto"))
        least = stats.nnz * value_bytes
        if free_bytes is not None and least > free_bytes:
            # Known without looking at a single column.
            return f"{self.name} needs {human_bytes(least)} and more; device has {human_bytes(free_bytes)} free"
        if not force and stats.nnz and not _remembered(stats.csr, (given,) if given else SIZES, True):
            tried = f"blocks of {given[0]}x{given[1]} are not" if given else "no size of blocks is"
            return f"{tried} {BLOCK_FILL:.0%} full on average; --force-format overrides"
        return super().refuse(stats, free_bytes, value_bytes, force, **params)


def _offsets(lengths: npt.NDArray[np.int64], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    offsets = np.zeros(len(lengths) + 1, dtype)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def _fill(
    csr: CSR, r: int, c: int, blocks: int, value: np.dtype[Any]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32], npt.NDArray[Any]]:
    """The blocks of each block row, ``block_col`` and ``block_val``."""
    block_rows = -(-csr.rows // r)
    lengths = np.zeros(block_rows, np.int64)
    block_col = np.empty(blocks, np.int32)
    block_val = np.zeros((blocks, r, c), value)
    flat, done = block_val.reshape(-1), 0
    for part in row_blocks(csr, align=r):
        keys, position = block_places(part, r, c)
        first, last = part.first // r, -(-part.last // r)
        lengths[first:last] = np.bincount((keys >> 32) - first, minlength=last - first)
        block_col[done : done + len(keys)] = keys & _MASK
        position += done * r * c
        flat[position] = 1 if csr.values is None else csr.values[part.entries]
        done += len(keys)
    return lengths, block_col, block_val


_PLAIN = BSR()


@register
class SlicedBSR(BSR):
    """BSR in the order in which warps read it; a SELL of blocks, but without padding within a slice.

    A slice is 32 block rows, one for each lane of a warp. Its blocks are stored by their place k in their
    block row, and for each k by lane: a run holds the k-th blocks of all the slice's block rows that have
    one. ``slice_ptr``: offset type ``[slices + 1]``, where the blocks of each slice begin, always at a
    multiple of 8, and after the last the number of places, P. Places that no block takes are between
    slices, hold 0 and are never read. ``length``: the blocks of a block row, uint8 ``[block rows]``
    (int32 where one has more than 255 nonzeros). ``block_col``: block columns ``[P]`` in that order, less
    ``base``, int32 ``[slices]``, of their slice; uint16 where the columns of each slice are within
    65,536, else int32 and base 0. The elements of a block are numbered by rows; the first ``wide * w`` of
    them, w being the elements of 16 bytes, are in ``wide_val``: value type ``[P * wide * w]``, the last
    ``rest`` (less than w) in ``rest_val``: value type ``[P * rest]``. Of a run of n blocks that starts at
    place s, 16 bytes number q of its lane l are at ``((s * wide + q * n) + l) * w``, and element e of the
    rest at ``s * rest + e * n + l``: what a warp reads in one instruction is contiguous, and pieces are made
    of whole sectors where the block rows of a slice are equally long.
    """

    name = "bsr-sliced"
    title = "blocks of r x c, interleaved over slices of 32 block rows"
    wins = "Wins where BSR wins and block rows are short: a warp reads whole sectors. Loses its conversion time."
    order = 86
    predicts_exactly = False

    def pack(
        self, csr: CSR, dtype: npt.DTypeLike = np.float32, offsets: npt.DTypeLike = np.int32, **params: Any
    ) -> Packed:
        plain = _PLAIN.pack(csr, dtype, offsets, **params)
        slice_ptr = _slice_ptr(plain.block_ptr)
        size = plain.block_rows, plain.block_cols
        span, most = _reach(csr, *size)
        base = np.zeros(len(slice_ptr) - 1, np.int32)
        if span <= _NARROW:
            first = plain.block_ptr[:-1:SLICE]
            full = np.flatnonzero(np.diff(slice_ptr))
            if len(full):
                base[full] = np.minimum.reduceat(plain.block_col, first[full])
        narrow = span <= _NARROW
        block_col, wide_val, rest_val = compiled.sliced_blocks(
            plain, slice_ptr.astype(np.int64, copy=False), base, narrow, WIDE_BYTES
        ) or _sliced(plain, slice_ptr, base, narrow)
        length = np.diff(plain.block_ptr).astype(np.uint8 if most <= _SHORT else np.int32)
        index = {"slice_ptr": slice_ptr, "length": length, "base": base, "block_col": block_col}
        read = slice_ptr.nbytes + length.nbytes + base.nbytes + plain.blocks * block_col.itemsize
        return Packed(
            self.name,
            csr.rows,
            csr.cols,
            csr.nnz,
            plain.dtype,
            MappingProxyType({**index, "wide_val": wide_val, "rest_val": rest_val}),
            plain.meta,
            pattern=csr.values is None,
            compulsory_bytes=read + csr.nnz * plain.dtype.itemsize,
            offsets=slice_ptr.dtype,
        )

    def predict_bytes(self, stats: MatrixStats, value_bytes: int = 4, offset_bytes: int = 4, **params: Any) -> int:
        """As for BSR, and which columns and lengths are short; with all the places between slices that there
        can be."""
        assert stats.csr is not None, "the number of blocks depends on the columns"
        size = choose_block_size(stats.csr, params.get("block_size", "auto"), value_bytes, _remembered)
        block_rows = -(-stats.rows // size.rows)
        slices = -(-block_rows // SLICE)
        span, most = _reach(stats.csr, size.rows, size.cols)
        places = size.blocks + (START - 1) * min(slices, size.blocks)
        total = (slices + 1) * offset_bytes + 4 * slices + size._replace(blocks=places).bytes(value_bytes)
        total += block_rows * (1 if most <= _SHORT else 4)
        return total - (2 * places if span <= _NARROW else 0)

    def unpack(self, packed: Packed) -> CSR:
        elements, w = packed.block_rows * packed.block_cols, WIDE_BYTES // packed.dtype.itemsize
        wide, rest = divmod(elements, w)
        block_ptr = np.zeros(len(packed.length) + 1, packed.offsets)
        np.cumsum(packed.length, out=block_ptr[1:])
        block_col = np.empty(packed.blocks, np.int32)
        values = np.empty((packed.blocks, elements), packed.dtype)
        wide_val = packed.wide_val.reshape(-1, w)
        for source, slice_, start, count, rank in _runs(block_ptr, packed.slice_ptr):
            block_col[source] = packed.block_col[start + rank].astype(np.int32) + packed.base[slice_]
            position = (start * wide + rank)[:, None] + count[:, None] * np.arange(wide)
            values[source, : wide * w] = wide_val[position].reshape(len(source), wide * w)
            position = (start * rest + rank)[:, None] + count[:, None] * np.arange(rest)
            values[source, wide * w :] = packed.rest_val[position]
        block_val = values.reshape(-1, packed.block_rows, packed.block_cols)
        arrays = {"block_col": block_col, "block_val": block_val}
        return _PLAIN.unpack(
            _PLAIN._packed(packed, packed.dtype, block_ptr, arrays, (packed.block_rows, packed.block_cols))
        )


def _sliced(
    plain: Packed, slice_ptr: npt.NDArray[Any], base: npt.NDArray[np.int32], narrow: bool
) -> tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]:
    """``block_col``, ``wide_val`` and ``rest_val``."""
    elements, w = plain.block_rows * plain.block_cols, WIDE_BYTES // plain.dtype.itemsize
    wide, rest = divmod(elements, w)
    places = int(slice_ptr[-1])
    block_col = np.zeros(places, np.uint16 if narrow else np.int32)
    wide_val = np.zeros((places * wide, w), plain.dtype)
    rest_val = np.zeros(places * rest, plain.dtype)
    values = plain.block_val.reshape(plain.blocks, elements)
    for source, slice_, start, count, rank in _runs(plain.block_ptr, slice_ptr):
        block_col[start + rank] = plain.block_col[source] - base[slice_]
        block = values[source]
        position = (start * wide + rank)[:, None] + count[:, None] * np.arange(wide)
        wide_val[position] = block[:, : wide * w].reshape(len(block), wide, w)
        position = (start * rest + rank)[:, None] + count[:, None] * np.arange(rest)
        rest_val[position] = block[:, wide * w :]
    return block_col, wide_val.reshape(-1), rest_val


START = 8
"""Slices begin at multiples of so many blocks: where they begin anywhere, the pieces that warps read share
their sectors and lines, and the kernel took a tenth longer."""

_NARROW = 1 << 16
"""Columns of a slice that 16 bits tell apart."""
_SHORT = 255
"""The most blocks of a block row that a byte counts."""


def _reach(csr: CSR, r: int, c: int) -> tuple[int, int]:
    """Over how many block columns the widest slice reaches, and the nonzeros of the fullest block row (at
    least its blocks). From the ends of rows alone, so that it can be known before packing."""
    most = int(np.add.reduceat(np.diff(csr.row_ptr), np.arange(0, csr.rows, r)).max()) if csr.rows else 0
    full = np.flatnonzero(np.diff(csr.row_ptr))
    if not len(full):
        return 0, most
    starts = np.flatnonzero(np.diff(full // (r * SLICE), prepend=-1))
    low = np.minimum.reduceat(csr.col_idx[csr.row_ptr[full]] // c, starts)
    high = np.maximum.reduceat(csr.col_idx[csr.row_ptr[full + 1] - 1] // c, starts)
    return int((high.astype(np.int64) - low).max()) + 1, most


def _slice_ptr(block_ptr: npt.NDArray[np.integer[Any]]) -> npt.NDArray[Any]:
    """Where slices begin, in places; of the type of `block_ptr`, UsageError where that cannot count them."""
    blocks = np.diff(np.append(block_ptr[:-1:SLICE], block_ptr[-1:]).astype(np.int64))
    slice_ptr = np.zeros(len(blocks) + 1, np.int64)
    np.cumsum(-(-blocks // START) * START, out=slice_ptr[1:])
    return slice_ptr.astype(offset_type(block_ptr.dtype, int(slice_ptr[-1])))


_Places = npt.NDArray[np.int64]


def _runs(
    block_ptr: npt.NDArray[np.integer[Any]], slice_ptr: npt.NDArray[np.integer[Any]]
) -> Iterator[tuple[_Places, _Places, _Places, _Places, _Places]]:
    """Chunks of slices: for each of their blocks, in the sliced order, its position in the plain one, its
    slice, the place where its run starts, how many blocks the run has, and which of them it is."""
    ptr = block_ptr.astype(np.int64, copy=False)
    for first, last in row_ranges(ptr, align=SLICE):
        begin = int(ptr[first])
        lengths = np.diff(ptr[first : last + 1])
        row = np.repeat(np.arange(last - first), lengths)
        k = ranges(np.zeros(last - first, np.int64), lengths)
        key = ((row // SLICE) * (int(lengths.max(initial=0)) + 1) + k) * SLICE + row % SLICE
        order = np.argsort(key, kind="stable")
        run = key[order] // SLICE
        starts = np.flatnonzero(np.diff(run, prepend=-1))
        counts = np.diff(np.append(starts, len(run)))
        start = np.repeat(starts, counts)
        slice_ = (first + row[order]) // SLICE
        shift = slice_ptr[slice_] - ptr[slice_ * SLICE]  # by the places between the slices before
        place = np.arange(len(run)) - start
        yield order + begin, slice_, start + begin + shift, np.repeat(counts, counts), place
