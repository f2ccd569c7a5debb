"""Counting in compiled code and on all cores, where there is a C++ compiler.

``count.cpp`` is compiled once, into the cache. A function here returns None where the matrix is small, or where
there is no compiler; then numpy counts, which is also the plainer text.
"""

from __future__ import annotations

import ctypes
import functools
import threading
from pathlib import Path

import numpy as np

from spgraph_bench.cores import usable_cores
from spgraph_bench.matrix import CSR
from spgraph_bench.threads import Ints, call, cuts, matrix_of, over, rows_and_entries, worth_it
from spgraph_bench.toolchain.library import compiled_library

__all__ = ["block_lengths", "block_rows", "mirrored", "places"]


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
