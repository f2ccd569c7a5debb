"""Recipes whose rows differ by orders of magnitude in the plainest way, and the dense one."""

from __future__ import annotations

import numpy as np

from spgraph_bench.parameters import MAX_INDEX, Parameter
from spgraph_bench.recipes.base import Pattern, Size, recipe
from spgraph_bench.stats import row_ptr_of


def _star_size(n: int) -> Size:
    return Size(n, n, 2 * (n - 1), scratch=8 * n)


@recipe(
    "star",
    {"n": Parameter(1_000_000, "vertices, the hub included", between=(1, MAX_INDEX))},
    about="star graph, undirected: vertex 0 is linked to all others",
    short="star-{n}",
    size=_star_size,
    values="none",
)
def star(n: int) -> Pattern:
    lengths = np.ones(n, np.int64)
    lengths[0] = n - 1
    col_idx = np.zeros(2 * (n - 1), np.int32)
    col_idx[: n - 1] = np.arange(1, n, dtype=np.int32)
    return Pattern(n, n, row_ptr_of(lengths), col_idx, symmetric=True)


def _arrow_size(n: int) -> Size:
    return Size(n, n, 3 * n - 2, scratch=8 * n)


@recipe(
    "arrow",
    {"n": Parameter(100_000, "rows and columns", between=(1, MAX_INDEX))},
    about="full first row, full first column, full diagonal: ELL's worst case",
    short="arrow-{n}",
    size=_arrow_size,
)
def arrow(n: int) -> Pattern:
    lengths = np.full(n, 2, np.int64)
    lengths[0] = n
    col_idx = np.zeros(3 * n - 2, np.int32)
    col_idx[:n] = np.arange(n, dtype=np.int32)
    col_idx[n + 1 :: 2] = np.arange(1, n, dtype=np.int32)
    return Pattern(n, n, row_ptr_of(lengths), col_idx, symmetric=True)


def _dense_size(rows: int, cols: int) -> Size:
    return Size(rows, cols, rows * cols, scratch=8 * rows)


@recipe(
    "dense",
    {
        "rows": Parameter(1000, "rows", between=(1, MAX_INDEX)),
        "cols": Parameter(1000, "columns", between=(1, MAX_INDEX)),
    },
    about="every entry stored: what sparse formats cost where nothing is sparse",
    short="dense-{rows}x{cols}",
    size=_dense_size,
)
def dense(rows: int, cols: int) -> Pattern:
    col_idx = np.tile(np.arange(cols, dtype=np.int32), rows)
    return Pattern(rows, cols, row_ptr_of(np.full(rows, cols, np.int64)), col_idx)
