"""What the checks of products do with every value, entry or sum, in compiled code and on all cores.

``sums.cpp`` is compiled once, into the cache. A function here returns None where there is little to do, or where there
is no C++ compiler; then numpy does it, which is also the plainer text: the results are the same, bit by bit.
"""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench import threads
from spgraph_bench.cores import usable_cores
from spgraph_bench.matrix import CSR
from spgraph_bench.threads import call, cuts, even_cuts, matrix_of, over, rows_and_entries, worth_it
from spgraph_bench.toolchain.library import compiled_library

__all__ = ["all_within", "integer_sums", "small_values"]

_TYPES = {np.dtype(np.float32): "float", np.dtype(np.float64): "double"}


@functools.cache
def _library() -> ctypes.CDLL | None:
    # Fused multiply-adds would round otherwise than numpy.
    return compiled_library(Path(__file__).with_name("sums.cpp"), "-ffp-contract=off")


def _usable(size: int, dtype: np.dtype[Any]) -> ctypes.CDLL | None:
    return _library() if size >= threads.WORTH_ENTRIES and dtype in _TYPES else None


def small_values(flat: npt.NDArray[Any], key: int, most: int) -> npt.NDArray[Any] | None:
    """:func:`spgraph_bench.problems.exact.small_values` of a contiguous array of one dimension, or None."""
    library = _usable(len(flat), flat.dtype)
    if library is None:
        return None
    function, out = library[f"spg_small_values_{_TYPES[flat.dtype]}"], np.empty_like(flat)
    over(even_cuts(len(flat)), lambda thread, first, last: call(function, flat, first, last, key, most, out))
    return out


def integer_sums(
    csr: CSR, x: npt.NDArray[np.float64], dtype: np.dtype[Any], key: int, most: int, one: int
) -> npt.NDArray[np.float64] | None:
    """A X, float64 ``[rows, columns of x]``, with the integers of a draw for A's values in `dtype`, or `one` for all of
    a pattern; or None."""
    library = _library() if dtype in _TYPES and worth_it(csr) else None
    if library is None:
        return None
    function, matrix, factors = library[f"spg_integer_sums_{_TYPES[dtype]}"], matrix_of(csr), np.ascontiguousarray(x)
    columns = factors.shape[1]
    out = np.empty((csr.rows, columns))
    over(
        cuts(rows_and_entries(csr)),
        lambda thread, first, last: call(function, matrix, first, last, key, most, one, factors, columns, out),
    )
    return out


def all_within(
    y: npt.NDArray[Any],
    r: npt.NDArray[np.float64],
    absax: npt.NDArray[np.float64],
    lengths: npt.NDArray[np.int64],
    limits: tuple[float, float, float, float],
) -> tuple[int, float] | None:
    """The place of the largest error over its bound, counted row by row, and that ratio, where all sums are finite and
    within their bounds, and none may overflow. None where that is not so, or was not looked at.

    Parameters
    ----------
    y : sums, ``[rows]`` or ``[rows, columns]``, in any layout.
    r, absax : see :func:`spgraph_bench.problems.summation.judge`; of the shape of `y`, contiguous.
    lengths : int64 ``[rows]``.
    limits : factor, eps, what one addition may lose to underflow, and the largest value of the type.
    """
    library = _usable(y.size, y.dtype)
    if library is None or not all(a.flags.c_contiguous for a in (r, absax, lengths)):
        return None
    rows, columns = (y.shape[0], 1) if y.ndim == 1 else y.shape
    steps = [stride // y.itemsize for stride in y.strides] + [1]
    given = np.array(limits)
    # A thread takes ranges in rising order, so each keeps the first of equal ratios.
    verdicts = np.tile([1.0, 0.0, 0.0], (usable_cores(), 1))
    function = library[f"spg_judge_{_TYPES[y.dtype]}"]

    def look(thread: int, first: int, last: int) -> None:
        of_thread = verdicts[thread]
        call(function, y, steps[0], steps[1], r, absax, lengths, first, last, columns, given, of_thread)

    over(even_cuts(rows), look)
    if not verdicts[:, 0].all():
        return None
    worst = min(verdicts.tolist(), key=lambda one: (-one[2], one[1] if one[2] else np.inf))
    return int(worst[1]), worst[2]
