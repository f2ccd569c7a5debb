"""Counting, transposing and components in compiled code and on all cores, where there is a C++ compiler.

``count.cpp`` is compiled once, into the cache. A function here returns None where the matrix is small, or where
there is no compiler; then numpy or scipy does it, which is also the plainer text.
"""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from spgraph_bench import threads
from spgraph_bench.cores import usable_cores
from spgraph_bench.matrix import CSR
from spgraph_bench.threads import Ints, call, cuts, equal_shares, even_cuts, matrix_of, over, rows_and_entries, worth_it
from spgraph_bench.toolchain.library import compiled_library, in_threads

__all__ = [
    "block_lengths",
    "block_rows",
    "column_counts",
    "components",
    "diagonals",
    "id_counts",
    "looks_of_levels",
    "loops",
    "mirrored",
    "places",
    "places_of_columns",
    "transposed",
]


@functools.cache
def _library() -> ctypes.CDLL | None:
    return compiled_library(Path(__file__).with_name("count.cpp"))


def _usable(csr: CSR) -> ctypes.CDLL | None:
    return _library() if worth_it(csr) else None


def places(csr: CSR) -> tuple[Ints, Ints, int] | None:
    """Entries of each column, ``[cols]``; of each diagonal, ``[rows + cols - 1]``, the lowest first; and the sum of all
    distances from the diagonal. Or None."""
    library = _usable(csr)
    if library is None:
        return None
    # Each thread has counters of its own; all together take less room than the matrix.
    threads = max(1, min(usable_cores(), csr.nnz // max(1, csr.rows + 2 * csr.cols)))
    columns = np.zeros((threads, csr.cols), np.int32)
    diagonals = np.zeros((threads, max(0, csr.rows + csr.cols - 1)), np.int32)
    distances = np.zeros((threads, 1), np.int64)
    matrix = matrix_of(csr)

    def count(thread: int, first: int, last: int) -> None:
        call(library.spg_places, matrix, first, last, columns[thread], diagonals[thread], distances[thread])

    over(cuts(rows_and_entries(csr)), count, threads)
    return columns.sum(axis=0, dtype=np.int64), diagonals.sum(axis=0, dtype=np.int64), int(distances.sum())


def diagonals(csr: CSR, group: int) -> Ints | None:
    """``col - origin`` of all diagonals that hold an entry, rising, or None; `group` rows have one origin."""
    library = _usable(csr)
    if library is None:
        return None
    matrix, occupied = matrix_of(csr), np.zeros(csr.rows + csr.cols, np.bool_)
    over(
        cuts(rows_and_entries(csr)),
        lambda thread, first, last: call(library.spg_diagonals, matrix, first, last, group, occupied),
    )
    return np.flatnonzero(occupied) - csr.rows


def block_lengths(csr: CSR, r: int, c: int, most: int | None = None) -> Ints | None:
    """The occupied blocks of r x c of each block row, ``[rows / r]`` (rounded up), or None.

    Counting ends where there are more than `most`: what is not counted then is 0.
    """
    library = _usable(csr)
    if library is None:
        return None
    matrix, lengths = matrix_of(csr), np.zeros(-(-csr.rows // r), np.int64)
    seen = [np.zeros(-(-csr.cols // c), np.uint32) for _ in range(usable_cores())]
    total, lock = 0, threading.Lock()

    def count(thread: int, first: int, last: int) -> None:
        nonlocal total
        if most is None or total <= most:
            call(library.spg_block_lengths, matrix, first, last, r, c, seen[thread], lengths)
            with lock:
                total += int(lengths[first:last].sum())

    over(block_rows(csr, r), count)
    return lengths


def block_rows(csr: CSR, r: int) -> list[tuple[int, int]]:
    """Ranges of rows of blocks, of about equal weight."""
    return cuts(np.append(rows_and_entries(csr)[:-1:r], csr.nnz + csr.rows))


def mirrored(csr: CSR) -> Ints | None:
    """Of a square matrix: entries off the diagonal, those with a mirror, with an equal one (NaN is equal to NaN),
    with an opposite one; or None."""
    library = _usable(csr)
    if library is None:
        return None
    counts, matrix = np.zeros((usable_cores(), 5), np.int64), matrix_of(csr)
    over(
        cuts(rows_and_entries(csr)),
        lambda thread, first, last: call(library.spg_mirrored, matrix, first, last, counts[thread]),
    )
    above, below, *pairs = counts.sum(axis=0)
    return np.array([above + below, *(2 * pair for pair in pairs)])


def column_counts(csr: CSR) -> Ints | None:
    """Entries of each column, ``[cols]``, or None."""
    return id_counts(csr.col_idx, csr.cols) if worth_it(csr) else None


def id_counts(ids: npt.NDArray[np.int32], below: int) -> Ints | None:
    """How often each of ``range(below)`` is among `ids`, which are all below it: int64 ``[below]``, or None."""
    library = _library() if len(ids) >= threads.WORTH_ENTRIES else None
    if library is None:
        return None
    parts = _parts(len(ids), below)
    counts: Ints = _counts_of_parts(library, ids, below, [len(ids) * k // parts for k in range(parts + 1)]).sum(axis=0)
    return counts


def _parts(entries: int, counters: int) -> int:
    """Threads that count with `counters` counters each, which take less room than entries."""
    return max(1, min(usable_cores(), entries // max(1, counters)))


def _counts_of_parts(library: ctypes.CDLL, ids: npt.NDArray[np.int32], below: int, cuts: Sequence[int]) -> Ints:
    """How often each id is in each part of `ids`: ``[parts][below]``."""
    counts = np.zeros((len(cuts) - 1, below), np.int64)
    in_threads(
        lambda part: call(library.spg_count_columns, ids, cuts[part], cuts[part + 1], counts[part]), len(cuts) - 1
    )
    return counts


def places_of_columns(csr: CSR) -> tuple[Ints, list[tuple[int, int, Ints]]] | None:
    """The offsets of the transpose, ``[cols + 1]``; and ranges of rows, a thread's each, with the places in it where
    their entries of each column begin, ``[cols]``. Or None.

    Each thread counts the columns of its rows, and so knows where its entries go among those of the others.
    """
    library = _usable(csr)
    if library is None:
        return None
    rows = equal_shares(csr.row_ptr, _parts(csr.nnz, csr.cols))
    places = _counts_of_parts(library, csr.col_idx, csr.cols, [int(csr.row_ptr[r]) for r in rows])
    ptr, ranges = np.zeros(csr.cols + 1, np.int64), even_cuts(csr.cols)

    def add_up(thread: int, first: int, last: int) -> None:
        places[:, first:last].sum(axis=0, out=ptr[1 + first : 1 + last])

    def start(thread: int, first: int, last: int) -> None:
        np.cumsum(places[:-1, first:last], axis=0, out=places[1:, first:last])
        places[0, first:last] = 0
        places[:, first:last] += ptr[first:last]

    over(ranges, add_up)
    np.cumsum(ptr, out=ptr)
    over(ranges, start)
    return ptr, [(int(rows[part]), int(rows[part + 1]), places[part]) for part in range(len(places))]


def transposed(csr: CSR) -> CSR | None:
    """The transpose, or None."""
    library, columns = _usable(csr), places_of_columns(csr)
    if library is None or columns is None:
        return None
    ptr, parts = columns
    matrix, row = matrix_of(csr), np.empty(csr.nnz, np.int32)
    values = None if csr.values is None else np.empty(csr.nnz)
    in_threads(lambda part: call(library.spg_transpose, matrix, *parts[part], row, values), len(parts))
    return CSR(csr.cols, csr.rows, ptr, row, values)


def loops(csr: CSR) -> npt.NDArray[np.bool_] | None:
    """Whether each row has an entry on the diagonal, ``[rows]``, or None."""
    library = _usable(csr)
    if library is None:
        return None
    matrix, result = matrix_of(csr), np.empty(csr.rows, np.bool_)
    over(even_cuts(csr.rows), lambda thread, first, last: call(library.spg_loops, matrix, first, last, result))
    return result


def looks_of_levels(
    level: npt.NDArray[np.int32], degree: Ints, in_ptr: Ints | None, in_row: npt.NDArray[np.int32] | None
) -> Ints | None:
    """Of a search with these levels (-1: not reached), int64 ``[4][depth + 2]``, or None: vertices of each level, their
    out-edges, their in-edges (those not reached last), and, at the level before theirs, their in-edges up to the first
    from a vertex of that level. The last two are zeros where `in_ptr` is None.

    level, degree : ``[n]``; in_ptr : ``[n + 1]``; in_row : ``[in_ptr[n]]``, all contiguous.
    """
    entries = int(degree.sum())
    library = _library() if entries >= threads.WORTH_ENTRIES else None
    if library is None:
        return None
    depth = int(level.max(initial=0)) + 1
    workers = max(1, min(usable_cores(), entries // (4 * depth)))  # counters take less room than entries
    counts = np.zeros((workers, 4, depth + 2), np.int64)
    ranges = even_cuts(len(level)) if in_ptr is None else cuts(in_ptr + np.arange(len(level) + 1))
    over(
        ranges,
        lambda thread, first, last: call(
            library.spg_level_work, level, first, last, depth, degree, in_ptr, in_row, counts[thread]
        ),
        workers,
    )
    total: Ints = counts.sum(axis=0)
    return total


def components(csr: CSR) -> npt.NDArray[np.int32] | None:
    """Of each vertex of a square matrix the least vertex of its (weakly) connected component, ``[rows]``, or None.

    A union of disjoint sets (Rem's, with halved paths), by all threads together.
    """
    library = _usable(csr)
    if library is None:
        return None
    matrix, parent = matrix_of(csr), np.arange(csr.rows, dtype=np.int32)
    symmetric = int(csr.symmetric is True)
    over(
        cuts(rows_and_entries(csr)),
        lambda thread, first, last: call(library.spg_join, matrix, first, last, symmetric, parent),
    )
    over(even_cuts(csr.rows), lambda thread, first, last: call(library.spg_roots, first, last, parent))
    return parent
