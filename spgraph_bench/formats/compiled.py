"""Conversions of large matrices in compiled code and on all cores, where there is a C++ compiler.

``convert.cpp`` is compiled once, into the cache of the host device. A function here returns None where the matrix is
small, or where there is no compiler; then the format converts by numpy, which is also the plainer text: what both
store is the same, bit by bit. Threads take ranges of rows, slices or bins, several each, since some hold more than
others.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench import threads
from spgraph_bench.cores import usable_cores
from spgraph_bench.formats.base import Packed
from spgraph_bench.matrix import CSR
from spgraph_bench.stats import row_ptr_of
from spgraph_bench.structure.compiled import block_rows, places_of_columns
from spgraph_bench.threads import Ints, call, cuts, even_cuts, matrix_of, over, rows_and_entries, worth_it
from spgraph_bench.toolchain.library import address_of, compiled_library, in_threads

__all__ = [
    "Buckets",
    "binned",
    "binned_buckets",
    "blocks",
    "by_column",
    "by_length",
    "chunked",
    "chunked_buckets",
    "diagonal_bits",
    "diagonal_values",
    "elements",
    "jagged",
    "padded_blocks",
    "sliced_blocks",
    "slices",
    "slots",
    "tail",
    "whole_parts",
]

_SOURCE = Path(__file__).with_name("convert.cpp")
_TYPES = {np.dtype(np.float32): "float", np.dtype(np.float64): "double"}


class _Parts(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in ("bin_part", "start", "length")]


class _Blocks(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int64) for name in ("block_rows", "elements", "wide", "rest", "w")]
    _fields_ += [(name, ctypes.c_void_p) for name in ("block_ptr", "slice_ptr", "base", "block_col")]
    _fields_ += [("narrow", ctypes.c_int64)]


class _Bins(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in ("entry", "first", "end")]
    _fields_ += [("share", ctypes.c_int64), ("spare", ctypes.c_int64)]


class _ChunkPlaces(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_void_p)
        for name in ("tile_of", "tile_col", "multiply_group", "bin_group", "chunk_group", "extra_ptr", "groups")
    ]


def _usable(csr: CSR, dtype: np.dtype[Any] | None = None) -> ctypes.CDLL | None:
    return _library() if (dtype is None or dtype in _TYPES) and worth_it(csr) else None


@functools.cache
def _library() -> ctypes.CDLL | None:
    return compiled_library(_SOURCE)


def slots(csr: CSR, width: int, dtype: np.dtype[Any]) -> tuple[npt.NDArray[np.int32], npt.NDArray[Any]] | None:
    """ELL's ``col``, ``val`` ``[width][rows]``: the first `width` entries of each row, padded; or None."""
    library = _usable(csr, dtype)
    if library is None:
        return None
    function, matrix = library[f"spg_ell_{_TYPES[dtype]}"], matrix_of(csr)
    col, val = np.empty((width, csr.rows), np.int32), np.empty((width, csr.rows), dtype)
    over(cuts(rows_and_entries(csr)), lambda thread, first, last: call(function, matrix, first, last, width, col, val))
    return col, val


def tail(
    csr: CSR, slots: int, place: Ints, dtype: np.dtype[Any]
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], npt.NDArray[Any]] | None:
    """HYB's ``coo_row``, ``coo_col``, ``coo_val``: what rows have after their first `slots` entries, or None.

    `place`: how much that is in all rows before, int64 ``[rows + 1]``.
    """
    library = _usable(csr, dtype)
    if library is None:
        return None
    function, matrix, count = library[f"spg_tail_{_TYPES[dtype]}"], matrix_of(csr), int(place[-1])
    row, col, val = np.empty(count, np.int32), np.empty(count, np.int32), np.empty(count, dtype)
    over(
        cuts(rows_and_entries(csr)),
        lambda thread, first, last: call(function, matrix, first, last, slots, place, row, col, val),
    )
    return row, col, val


def elements(
    csr: CSR, turned: CSR, dtype: np.dtype[Any]
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], npt.NDArray[Any]] | None:
    """coo-unsorted's ``row``, ``col`` and ``val``, ``[2 nnz]``; or None. `turned` is the transpose."""
    library = _usable(csr, dtype)
    if library is None:
        return None
    function, a, transpose = library[f"spg_elements_{_TYPES[dtype]}"], matrix_of(csr), matrix_of(turned)
    row, col, val = (np.empty(2 * csr.nnz, t) for t in (np.int32, np.int32, dtype))
    before = [np.pad(m.row_ptr, (0, max(csr.rows, csr.cols) - m.rows), "edge") for m in (csr, turned)]
    over(
        cuts(before[0] + before[1]),
        lambda thread, first, last: call(function, a, transpose, first, last, row, col, val),
    )
    return row, col, val


def whole_parts(values: npt.NDArray[Any], in_row: Ints, in_col: Ints) -> npt.NDArray[Any] | None:
    """Whole `values` of coo-unsorted, ``[2 nnz]``, split in place into the parts that add up to them; or None.

    `in_row`, `in_col`: entries of each row and column, ``[max(rows, cols)]``.
    """
    library = _library() if len(values) >= threads.WORTH_ENTRIES and values.dtype in _TYPES else None
    if library is None:
        return None
    function, rows, columns = library[f"spg_whole_parts_{_TYPES[values.dtype]}"], row_ptr_of(in_row), row_ptr_of(in_col)
    over(cuts(rows + columns), lambda thread, first, last: call(function, first, last, rows, columns, values))
    return values


def by_length(lengths: Ints, sigma: int, align: int) -> tuple[Ints, Ints] | None:
    """Rows with each window of `sigma` sorted by length, longest first and stable, int64 ``[rows]``, and the longest of
    each `align` (32, a slice) of those; or None. `lengths`: int64 ``[rows]``."""
    rows = len(lengths)
    if rows < threads.WORTH_ENTRIES or (library := _library()) is None:
        return None
    places = np.empty(rows, np.int64)
    widest = np.zeros(-(-rows // align), np.int64)
    scratch = [np.empty(5 * sigma + 2, np.uint64) for _ in range(usable_cores())]
    step = int(np.lcm(sigma, align))
    over(
        even_cuts(rows, step),
        lambda thread, first, last: call(
            library.spg_order, lengths, first, last, sigma, scratch[thread], places, widest
        ),
    )
    return places, widest


def slices(
    csr: CSR, slice_ptr: Ints, order: Ints | None, dtype: np.dtype[Any]
) -> tuple[npt.NDArray[np.int32], npt.NDArray[Any]] | None:
    """SELL's ``col`` and ``val``, ``[slice_ptr[-1]]``, in slices of 32 rows of `order` (None: as they are); or None."""
    library = _usable(csr, dtype)
    if library is None:
        return None
    function, matrix = library[f"spg_sell_{_TYPES[dtype]}"], matrix_of(csr)
    col, val = np.empty(int(slice_ptr[-1]), np.int32), np.empty(int(slice_ptr[-1]), dtype)
    over(cuts(slice_ptr), lambda thread, first, last: call(function, matrix, first, last, slice_ptr, order, col, val))
    return col, val


def jagged(
    csr: CSR, perm: npt.NDArray[np.int32], slot_start: Ints, dtype: np.dtype[Any]
) -> tuple[npt.NDArray[np.int32], npt.NDArray[Any]] | None:
    """JDS's ``col`` and ``val``, ``[nnz]``, or None."""
    library = _usable(csr, dtype)
    if library is None:
        return None
    function, matrix = library[f"spg_jds_{_TYPES[dtype]}"], matrix_of(csr)
    col, val = np.empty(csr.nnz, np.int32), np.empty(csr.nnz, dtype)
    weight = np.concatenate(([0], np.cumsum(csr.row_lengths()[perm] + 1)))
    over(cuts(weight), lambda thread, first, last: call(function, matrix, first, last, perm, slot_start, col, val))
    return col, val


def blocks(
    csr: CSR, r: int, c: int, block_ptr: Ints, dtype: np.dtype[Any]
) -> tuple[npt.NDArray[np.int32], npt.NDArray[Any]] | None:
    """BSR's ``block_col`` ``[blocks]`` and ``block_val`` ``[blocks][r][c]``, or None."""
    library = _usable(csr, dtype)
    if library is None:
        return None
    count = int(block_ptr[-1])
    col, val = np.empty(count, np.int32), np.empty((count, r, c), dtype)
    _fill_blocks(library, csr, r, c, block_ptr, col, val)
    return col, val


def _fill_blocks(
    library: ctypes.CDLL, csr: CSR, r: int, c: int, block_ptr: Ints, col: npt.NDArray[np.int32], val: npt.NDArray[Any]
) -> None:
    """Writes the columns and values of blocks, those of a block row from `block_ptr` on."""
    function, matrix = library[f"spg_bsr_{_TYPES[val.dtype]}"], matrix_of(csr)
    place = [np.zeros(-(-csr.cols // c), np.int64) for _ in range(usable_cores())]
    over(
        block_rows(csr, r),
        lambda thread, first, last: call(function, matrix, first, last, r, c, block_ptr, place[thread], col, val),
    )


def padded_blocks(
    csr: CSR, side: int, width: int, dtype: np.dtype[Any]
) -> tuple[npt.NDArray[np.int32], npt.NDArray[Any]] | None:
    """blocked-ELL's ``block_col`` ``[block rows][width]`` and ``block_val`` ``[block rows][width][side][side]``, or
    None."""
    library = _usable(csr, dtype)
    if library is None:
        return None
    rows = -(-csr.rows // side)
    col, val = np.full((rows, width), -1, np.int32), np.zeros((rows, width, side, side), dtype)
    _fill_blocks(library, csr, side, side, np.arange(rows + 1) * width, col, val)
    return col, val


def diagonal_values(csr: CSR, group: int, place: Ints, data: npt.NDArray[Any]) -> bool:
    """Writes the entries into DIA's `data`, ``[slices][diagonals][128]``; False where numpy has to.

    `place`: of each diagonal, ``[rows + cols]`` (``col - origin + rows``), its first element in a slice. `group` rows
    have one origin.
    """
    library = _usable(csr, data.dtype)
    if library is None:
        return False
    function, matrix = library[f"spg_dia_{_TYPES[data.dtype]}"], matrix_of(csr)
    width = data.shape[1]
    over(
        cuts(rows_and_entries(csr)),
        lambda thread, first, last: call(function, matrix, first, last, group, place, width, data),
    )
    return True


def diagonal_bits(csr: CSR, place: Ints, mask: npt.NDArray[np.uint32]) -> bool:
    """Sets the bits of pattern-DIA's `mask`, ``[slices][diagonals]``; False where numpy has to. `place`: of each
    diagonal, ``[rows + cols]`` (``col - row + rows``), its word in a slice."""
    library = _usable(csr)
    if library is None:
        return False
    matrix, width = matrix_of(csr), mask.shape[1]
    over(
        cuts(rows_and_entries(csr), 32),
        lambda thread, first, last: call(library.spg_dia_bits, matrix, first, last, place, width, mask),
    )
    return True


def sliced_blocks(
    plain: Packed, slice_ptr: Ints, base: npt.NDArray[np.int32], narrow: bool, wide_bytes: int
) -> tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]] | None:
    """bsr-sliced's ``block_col``, ``wide_val`` and ``rest_val`` from BSR's arrays, or None.

    Parameters
    ----------
    slice_ptr, base : as in the format; `slice_ptr` int64.
    narrow : whether columns are stored in 16 bits.
    wide_bytes : bytes of one read of a thread.
    """
    library = _library() if plain.nnz >= threads.WORTH_ENTRIES else None
    if library is None:
        return None
    elements, w = plain.block_rows * plain.block_cols, wide_bytes // plain.dtype.itemsize
    wide, rest = divmod(elements, w)
    places, ptr = int(slice_ptr[-1]), plain.block_ptr.astype(np.int64)
    col = np.zeros(places, np.uint16 if narrow else np.int32)
    wide_val, rest_val = np.zeros(places * wide * w, plain.dtype), np.zeros(places * rest, plain.dtype)
    given = _Blocks(
        len(ptr) - 1, elements, wide, rest, w, *map(address_of, (ptr, slice_ptr, base, plain.block_col)), narrow
    )
    function = library[f"spg_sliced_{_TYPES[plain.dtype]}"]
    over(
        cuts(slice_ptr),
        lambda thread, first, last: call(function, given, first, last, plain.block_val, col, wide_val, rest_val),
    )
    return col, wide_val, rest_val


def by_column(csr: CSR, dtype: np.dtype[Any]) -> tuple[Ints, npt.NDArray[np.int32], npt.NDArray[Any]] | None:
    """CSC's offsets, int64 ``[cols + 1]``, rows and values, ``[nnz]``; or None."""
    library, columns = _usable(csr, dtype), places_of_columns(csr)
    if library is None or columns is None:
        return None
    ptr, parts = columns
    function, matrix = library[f"spg_csc_{_TYPES[dtype]}"], matrix_of(csr)
    row, val = np.empty(csr.nnz, np.int32), np.empty(csr.nnz, dtype)
    in_threads(lambda part: call(function, matrix, *parts[part], row, val), len(parts))
    return ptr, row, val


class Buckets:
    """The groups of 8 that tiles of columns and bins of rows have in common, ``groups`` int32 ``[bins][tiles]``.

    In sum order they come by bin, then tile; in multiply order by tile, then bin, within each chunk of bins.
    """

    def __init__(self, groups: npt.NDArray[np.int32]) -> None:
        self.groups = groups
        """Of each bucket."""
        self.bin_group: Ints = np.concatenate(([0], np.cumsum(groups.sum(axis=1, dtype=np.int64))))
        """First group of each bin in sum order, and the number of all."""

    def multiply_order(self, chunk_bin: Ints) -> tuple[Ints, Ints]:
        """Where each bucket's groups begin, int64 ``[bins][tiles]``, and the groups of each tile of each chunk,
        ``[chunks][tiles]``, with chunks of the bins between `chunk_bin`."""
        begins = np.empty(self.groups.shape, np.int64)
        totals = np.empty((len(chunk_bin) - 1, self.groups.shape[1]), np.int64)
        for chunk, (first, last) in enumerate(itertools.pairwise(chunk_bin.tolist())):
            within = np.cumsum(self.groups[first:last], axis=0, dtype=np.int64)
            totals[chunk] = within[-1] if last > first else 0
            before = self.bin_group[first] + np.cumsum(totals[chunk]) - totals[chunk]
            begins[first:last] = within - self.groups[first:last] + before
        return begins, totals


def binned_buckets(csr: CSR, bins: tuple[Ints, Ints, Ints], width: int, tiles: int) -> Buckets | None:
    """The buckets of tiles of `width` columns and bins of parts of rows, or None.

    Parameters
    ----------
    bins : first part of each bin, and the number of all, ``[bins + 1]``; first entry and length of each part.
    """
    library, count = _usable(csr), len(bins[0]) - 1
    if library is None or count * tiles > csr.nnz:  # most would be empty
        return None
    groups, matrix, parts = np.empty((count, tiles), np.int32), matrix_of(csr), _Parts(*map(address_of, bins))
    over(
        even_cuts(count),
        lambda thread, first, last: call(library.spg_binned_groups, matrix, first, last, parts, width, tiles, groups),
    )
    return Buckets(groups)


def binned(
    csr: CSR, bins: tuple[Ints, Ints, Ints], width: int, tiles: int, dtype: np.dtype[Any]
) -> tuple[dict[str, npt.NDArray[Any]], Ints] | None:
    """Binned's ``pos``, ``col``, ``val``, ``dest`` and ``tile_start``, and the first group of each bin; or None.

    Parameters as in :func:`binned_buckets`.
    """
    library = _usable(csr, dtype)
    buckets = binned_buckets(csr, bins, width, tiles) if library else None
    if library is None or buckets is None:
        return None
    count, total = len(bins[0]) - 1, int(buckets.bin_group[-1])
    begins, totals = buckets.multiply_order(np.array([0, count]))
    pos, col, val = (np.empty(8 * total, t) for t in (np.uint16, np.uint16, dtype))
    dest = np.empty(total, np.int32)
    scratch = [np.empty(2 * tiles, np.int64) for _ in range(usable_cores())]
    function, matrix, parts = library[f"spg_binned_{_TYPES[dtype]}"], matrix_of(csr), _Parts(*map(address_of, bins))

    def fill(thread: int, first: int, last: int) -> None:
        places = (buckets.groups, begins, buckets.bin_group, scratch[thread])
        call(function, matrix, first, last, parts, width, tiles, *places, pos, col, dest, val)

    over(even_cuts(count), fill)
    tile_start = np.concatenate(([0], np.cumsum(totals[0]))).astype(np.int32)
    return {"pos": pos, "col": col, "val": val, "dest": dest, "tile_start": tile_start}, buckets.bin_group


def chunked_buckets(
    csr: CSR, bins: tuple[Ints, Ints, Ints], tile_of: npt.NDArray[np.uint16], tiles: int, share: int, spare: int
) -> tuple[Buckets, Ints] | None:
    """The buckets of `tiles` tiles of columns and bins of consecutive entries, and the sums of each bin beside those of
    its rows; or None.

    Parameters
    ----------
    bins : first entry of each bin and the number of all, ``[bins + 1]``; its first row, and the one after its last.
    tile_of : the tile of each column.
    share, spare : binned_chunks.SHARE and SPARE.
    """
    library, count = _usable(csr), len(bins[1])
    if library is None or count * tiles > csr.nnz:
        return None
    groups, extras = np.empty((count, tiles), np.int32), np.empty(count, np.int64)
    matrix, given = matrix_of(csr), _Bins(*map(address_of, bins), share, spare)
    over(
        even_cuts(count),
        lambda thread, first, last: call(
            library.spg_chunked_groups, matrix, first, last, given, tile_of, tiles, groups, extras
        ),
    )
    return Buckets(groups), extras


def chunked(
    csr: CSR,
    bins: tuple[Ints, Ints, Ints],
    columns: tuple[npt.NDArray[np.uint16], Ints],
    chunk_bin: Ints,
    share: int,
    spare: int,
    dtype: np.dtype[Any],
) -> tuple[dict[str, npt.NDArray[Any]], Ints] | None:
    """Binned-chunks' ``sum``, ``col``, ``val``, ``dest``, ``start``, ``extra_ptr``, ``extra_row``; and each bin's first
    group; or None.

    Parameters
    ----------
    bins, share, spare : as in :func:`chunked_buckets`.
    columns : the tile of each column, and the first column of each tile.
    chunk_bin : first bin of each chunk, and the number of all.
    """
    tile_of, tile_col = columns
    tiles = len(tile_col) - 1
    library = _usable(csr, dtype)
    counted = chunked_buckets(csr, bins, tile_of, tiles, share, spare) if library else None
    if library is None or counted is None:
        return None
    buckets, extras = counted
    total = int(buckets.bin_group[-1])
    begins, totals = buckets.multiply_order(chunk_bin)
    extra_ptr: Ints = np.concatenate(([0], np.cumsum(extras)))
    chunk_group = np.repeat(buckets.bin_group[chunk_bin[:-1]], np.diff(chunk_bin))  # of each bin
    sums, col, val = (np.empty(8 * total, t) for t in (np.uint16, np.uint16, dtype))
    dest, extra_row = np.empty(total, np.int32), np.empty(int(extra_ptr[-1]), np.uint16)
    most = int(np.diff(bins[0]).max(initial=0))
    scratch = [
        (np.empty(most, np.int32), *(np.empty(most, np.uint64) for _ in range(2)), np.empty(65 * tiles + 1, np.int64))
        for _ in range(usable_cores())
    ]
    arrays = (tile_of, tile_col, begins, buckets.bin_group, chunk_group, extra_ptr, buckets.groups)
    places = _ChunkPlaces(*(address_of(a) for a in arrays))
    function, matrix = library[f"spg_chunked_{_TYPES[dtype]}"], matrix_of(csr)
    given = _Bins(*map(address_of, bins), share, spare)

    def fill(thread: int, first: int, last: int) -> None:
        filled = (*scratch[thread], sums, col, dest, extra_row, val)
        call(function, matrix, first, last, given, tiles, places, *filled)

    over(even_cuts(len(extras)), fill)
    start = np.concatenate(([0], np.cumsum(totals.reshape(-1)))).astype(np.int32)
    arrays_of = {"sum": sums, "col": col, "val": val, "dest": dest, "start": start}
    return {**arrays_of, "extra_ptr": extra_ptr.astype(np.int32), "extra_row": extra_row}, buckets.bin_group
