"""Weights of edges: what those of shortest paths and of random walks may not be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.cores import on_all_cores
from spgraph_bench.errors import InputError
from spgraph_bench.matrix import Matrix, called
from spgraph_bench.problems.lengths import INT32_MOST

__all__ = ["WALK_FAULTS", "check_weights", "refuse_weights"]

Values = npt.NDArray[np.float64]

_EDGES_AT_ONCE = 1 << 23
_INFINITE_FLOAT = 2.0**128 - 2.0**103
"""From here on a float64 is rounded to an infinite float32."""

Faults = tuple[tuple[str, Callable[[Values], npt.NDArray[np.bool_]], str], ...]
"""What a weight may not be, whether each is that, and the remedy."""
WALK_FAULTS: Faults = (
    ("not a number", np.isnan, "correct them, or take --values ones"),
    ("negative", lambda v: v < 0, "weights of 0 or more are needed; --values ones ignores them"),
    ("infinite", np.isinf, "omit such edges"),
)
"""Of weights that lengths or chances are made of."""
_INT_FAULTS: Faults = (
    ("not a whole number", lambda v: v != np.floor(v), "take --dtype float32"),
    (f"beyond {INT32_MOST - 1:,}", lambda v: v > INT32_MOST - 1, "take --dtype float32"),
)
_FLOAT_FAULTS: Faults = (("beyond float32", lambda v: v >= _INFINITE_FLOAT, "omit such edges, or scale all weights"),)


def check_weights(matrix: Matrix, dtype: np.dtype[Any]) -> None:
    """InputError, with the place of the first, for weights for which no shortest path exists."""
    refuse_weights(matrix, WALK_FAULTS + (_INT_FAULTS if dtype == np.int32 else _FLOAT_FAULTS))


def _where(test: Callable[[Values], npt.NDArray[np.bool_]], values: Values) -> npt.NDArray[np.int64]:
    """Which of `values` are what `test` says, on all cores."""

    def look(begin: int) -> npt.NDArray[np.int64]:
        return begin + np.flatnonzero(test(values[begin : begin + _EDGES_AT_ONCE]))

    parts = [places for _, places in on_all_cores(look, range(0, len(values), _EDGES_AT_ONCE))]
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def refuse_weights(matrix: Matrix, faults: Faults) -> None:
    """InputError, with the place of the first, for weights with one of `faults`."""
    csr = matrix.csr
    if csr.values is None:
        return
    for what, test, remedy in faults:
        bad = _where(test, csr.values)
        if not len(bad):
            continue
        entry, count = int(bad[0]), len(bad)
        u = int(np.searchsorted(csr.row_ptr, entry, side="right")) - 1
        v = int(csr.col_idx[entry])
        ids = matrix.labels()
        line = matrix.line_of(u, v)
        place = matrix.source.text + (f":{line}" if line else "")
        more = f" ({count:,} edges in all)" if count > 1 else ""
        raise InputError(
            f"the weight of the edge {called(ids, u)} -> {called(ids, v)} is {what}: {csr.values[entry]:g}{more}",
            place=place,
            remedy=remedy,
        )
