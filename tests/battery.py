"""The battery: small nasty matrices that every format and every kernel must get right.

Small enough for the emulator. ``battery()`` gives all of them by name; add a matrix here when an error is
found that none of them shows.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from spgraph_bench.matrix import CSR, Matrix, Source

__all__ = ["battery", "csr", "matrix", "random_rows"]


def csr(rows: int, cols: int, row: npt.ArrayLike, col: npt.ArrayLike, val: npt.ArrayLike | None = 1.0) -> CSR:
    """Canonical CSR of entries in any order; duplicates are added up, zeros stay, None makes a pattern."""
    row, col = np.asarray(row, np.int64), np.asarray(col, np.int64)
    values = np.broadcast_to(np.asarray(1.0 if val is None else val, np.float64), row.shape)
    a = sp.coo_array((values, (row, col)), shape=(rows, cols)).tocsr()
    a.sum_duplicates()
    pattern = None if val is None else a.data
    return CSR(rows, cols, a.indptr.astype(np.int64), a.indices.astype(np.int32), pattern)


def matrix(a: CSR, name: str = "test") -> Matrix:
    """`a` as readers would hand it over."""
    return Matrix(name, a, Source("recipe", name, "recipe"), weighted=a.values is not None)


def random_rows(lengths: Sequence[int] | npt.NDArray[np.int64], cols: int, seed: int = 1) -> CSR:
    """Rows of exactly these lengths, columns drawn without repetition, values in [-1, 1)."""
    draw = np.random.default_rng(seed)
    picked = [np.sort(draw.choice(cols, k, replace=False)) for k in lengths]
    row_ptr = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    col = np.concatenate([*picked, np.empty(0)]).astype(np.int32)
    return CSR(len(lengths), cols, row_ptr, col, draw.uniform(-1, 1, len(col)))


def _random(rows: int, cols: int, density: float, seed: int) -> CSR:
    a = sp.random_array((rows, cols), density=density, rng=np.random.default_rng(seed), format="coo")
    return csr(rows, cols, a.row, a.col, a.data - 0.5)


def _with_values(a: CSR, values: npt.NDArray[np.float64]) -> CSR:
    return CSR(a.rows, a.cols, a.row_ptr, a.col_idx, values)


@functools.cache
def battery() -> dict[str, CSR]:
    """All matrices by name."""
    n = 97
    i = np.arange(n)
    two = np.concatenate((i, i[:-1]))
    draw = np.random.default_rng(7)
    result = {
        # Nothing, or next to nothing.
        "0x0": csr(0, 0, [], []),
        "0x5": csr(0, 5, [], []),
        "5x0": csr(5, 0, [], []),
        "no-nonzeros": csr(70, 9, [], []),
        "1x1": csr(1, 1, [0], [0], [2.5]),
        "1xn": csr(1, 300, np.zeros(300), np.arange(300), draw.uniform(-1, 1, 300)),
        "nx1": csr(300, 1, np.arange(300), np.zeros(300), draw.uniform(-1, 1, 300)),
        "one-entry": csr(200, 300, [131], [299], [-3.0]),
        # Rows and columns that are empty or full.
        "first-and-last-row-empty": csr(n, n, i[1:-1], i[1:-1], i[1:-1] + 0.5),
        "one-full-row": csr(n, n, np.concatenate((i, np.full(n, 40))), np.concatenate((i, i)), 0.25),
        "one-full-column": csr(n, n, np.concatenate((i, i)), np.concatenate((i, np.full(n, 40))), 0.25),
        "last-row-only": csr(n, n, np.full(n, n - 1), i, 1.0 / (i + 1)),
        "long-empty-stretches": csr(2500, 40, np.repeat([0, 700, 701, 1999, 2499], 8), np.tile(i[:8] * 5, 5)),
        "dense": csr(40, 33, np.repeat(i[:40], 33), np.tile(i[:33], 40), draw.uniform(-1, 1, 1320)),
        "arrow": csr(n, n, np.concatenate((i, np.zeros(n), i)), np.concatenate((i, i, np.zeros(n))), 0.5),
        # Shapes.
        "wide": _random(20, 1000, 0.05, 1),
        "tall": _random(1000, 20, 0.05, 2),
        "tridiagonal": csr(
            300,
            300,
            np.concatenate((np.arange(300), np.arange(299), np.arange(1, 300))),
            np.concatenate((np.arange(300), np.arange(1, 300), np.arange(299))),
            np.concatenate((np.full(300, 2.0), np.full(598, -1.0))),
        ),
        # Row lengths.
        "every-length-to-70": random_rows(np.arange(71), 90, 3),
        "lengths-falling": random_rows(np.arange(70, -1, -1), 90, 4),
        "warps-and-one": random_rows([31, 32, 33, 0, 63, 64, 65, 1, 127, 128, 129, 0, 0, 255, 256, 257], 400, 5),
        "around-2048": random_rows([2047, 0, 2048, 2049, 1, 1, 1, 4095, 4096, 4097, 0, 3], 5000, 6),
        "hub-5000": random_rows([3] * 70 + [5000] + [0, 1, 2] * 40 + [1], 6000, 7),
        "two-hubs": random_rows([3000] + [2] * 200 + [3000], 3100, 8),
        "full-tiles-then-empty-rows": random_rows([2] * 128 + [0] * 3000, 70, 11),
        "row-beyond-65536": random_rows([2, 0, 65_600, 1], 65_700, 9),
        # What was done upstream: entries given twice are one entry.
        "duplicates-merged": csr(
            50, 50, draw.integers(0, 50, 900), draw.integers(0, 50, 900), draw.uniform(-1, 1, 900)
        ),
        "pattern": csr(64, 80, draw.integers(0, 64, 300), draw.integers(0, 80, 300), None),
        # Values.
        "explicit-zeros": csr(n, n, two, np.concatenate((i, i[1:])), 0.0),
        "some-zeros": csr(n, n, two, np.concatenate((i, i[1:])), np.arange(2 * n - 1) % 3),
        "cancelling": csr(n, 60, np.tile(i, 2), np.tile(i % 60, 2) ^ np.repeat([0, 1], n), np.repeat([1e6, -1e6], n)),
        "all-negative": csr(n, n, np.tile(i, 3), np.concatenate((i, (i + 9) % n, (i + 40) % n)), -1.5),
    }
    for size in (31, 32, 33, 255, 256, 257, 1023, 1024, 1025):
        result[f"random-{size}"] = _random(size, size, min(1.0, 6 / size), size)
    spread = random_rows([1, 2, 3, 40, 0, 100] * 12, 150, 10)
    odd = spread.value_array().copy()
    odd[::41], odd[7::53], odd[11::97] = np.nan, np.inf, -np.inf
    result["nan-and-inf"] = _with_values(spread, odd)
    result["denormals"] = _with_values(spread, draw.choice([3e-310, -5e-324, 1e-40, 1e-45, -2e-39], spread.nnz))
    # Sums of a row pass the largest float32 (and, in three rows, would pass it only in some orders).
    large = np.where(np.arange(spread.nnz) % 7 == 0, -3e38, 3e38)
    large[:6] = 1e300
    result["overflow"] = _with_values(spread, large)
    return result
