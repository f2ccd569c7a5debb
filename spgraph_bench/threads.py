"""Rows of a matrix, shared out among threads that run compiled code.

Threads take ranges of rows (or of what else is counted), several each, since some hold more than others.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.cores import usable_cores
from spgraph_bench.matrix import CSR
from spgraph_bench.toolchain.library import address_of, in_threads

__all__ = [
    "WORTH_ENTRIES",
    "Ints",
    "call",
    "cuts",
    "equal_shares",
    "even_cuts",
    "matrix_of",
    "over",
    "rows_and_entries",
    "worth_it",
]

WORTH_ENTRIES = 1 << 20
"""For fewer, loading the library (10 ms; 1 s to compile it, once) takes what it saves."""
_RANGES = 8
"""Ranges that each thread takes on average."""

Ints = npt.NDArray[np.int64]


class _Matrix(ctypes.Structure):
    _fields_ = [("rows", ctypes.c_int64), ("cols", ctypes.c_int64)]
    _fields_ += [(name, ctypes.c_void_p) for name in ("row_ptr", "col_idx", "values")]


def worth_it(csr: CSR) -> bool:
    """Whether compiled code is to be used: the matrix is large, and its arrays are as that code takes them."""
    arrays: list[tuple[npt.NDArray[Any] | None, type]] = [
        (csr.row_ptr, np.int64),
        (csr.col_idx, np.int32),
        (csr.values, np.float64),
    ]
    plain = all(a is None or (a.dtype == t and a.flags.c_contiguous) for a, t in arrays)
    return csr.nnz >= WORTH_ENTRIES and plain


def _argument(value: Any) -> Any:
    if value is None or isinstance(value, np.ndarray):
        return ctypes.c_void_p(None if value is None else address_of(value))
    return ctypes.byref(value) if isinstance(value, ctypes.Structure) else ctypes.c_int64(value)


def call(function: Any, *values: Any) -> None:
    """Call compiled code: arrays and structures by address, numbers as int64, None as null."""
    function.restype = None
    function(*(_argument(value) for value in values))


def matrix_of(csr: CSR) -> _Matrix:
    """``matrix`` of csr.hpp; `csr` must outlive it."""
    values = None if csr.values is None else address_of(csr.values)
    return _Matrix(csr.rows, csr.cols, address_of(csr.row_ptr), address_of(csr.col_idx), values)


def equal_shares(weight_before: Ints, shares: int) -> Ints:
    """Where to cut items into `shares` ranges of about equal weight: ``[shares + 1]``, first item of each and the end.

    `weight_before`: of all items before each, and of all, ``[items + 1]``. Ranges may be empty.
    """
    total = int(weight_before[-1])
    places = np.searchsorted(weight_before, [total * k // shares for k in range(shares + 1)])
    places[0], places[-1] = 0, len(weight_before) - 1
    return places.astype(np.int64)


def cuts(weight_before: Ints, step: int = 1) -> list[tuple[int, int]]:
    """Ranges of ``len(weight_before) - 1`` items, of about equal weight and beginning at multiples of `step`."""
    return _between(equal_shares(weight_before, usable_cores() * _RANGES).tolist(), len(weight_before) - 1, step)


def even_cuts(items: int, step: int = 1) -> list[tuple[int, int]]:
    """The same of `items` items that all weigh the same."""
    shares = usable_cores() * _RANGES
    return _between([items * k // shares for k in range(shares)], items, step)


def _between(places: Sequence[int], items: int, step: int) -> list[tuple[int, int]]:
    return list(itertools.pairwise(sorted({0, items, *(place // step * step for place in places if place < items)})))


def over(ranges: Sequence[tuple[int, int]], task: Callable[[int, int, int], None], threads: int | None = None) -> None:
    """``task(thread, first, last)`` for each range; a thread takes the next that is left.

    There are as many threads as cores, or `threads`, and no more than ranges. After an exception, Ctrl-C's too, none
    takes another range.
    """
    waiting, lock = iter(ranges), threading.Lock()

    def work(thread: int) -> None:
        try:
            while True:
                with lock:
                    stretch = next(waiting, None)
                if stretch is None:
                    return
                task(thread, *stretch)
        except BaseException:
            with lock:
                deque(waiting, maxlen=0)
            raise

    in_threads(work, max(1, min(threads or usable_cores(), len(ranges))))


def rows_and_entries(csr: CSR) -> Ints:
    """What rows weigh: their entries, and themselves."""
    return csr.row_ptr + np.arange(csr.rows + 1)
