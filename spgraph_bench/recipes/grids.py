"""Recipes on grids: discretised operators, bands, and graphs without hubs."""

from __future__ import annotations

from itertools import product

import numpy as np

from spgraph_bench.parameters import MAX_INDEX, Parameter
from spgraph_bench.readers.common import Progress
from spgraph_bench.recipes.base import Pattern, Size, recipe
from spgraph_bench.recipes.patterns import CHUNK, Step, grid_entries, grid_pattern
from spgraph_bench.stats import row_ptr_of, row_ranges


def _neighbours(dimensions: int, center: bool) -> list[Step]:
    """Steps of Manhattan length 1, and the one of length 0 if `center`."""
    steps = product((-1, 0, 1), repeat=dimensions)
    return [step for step in steps if sum(map(abs, step)) == 1 or (center and not any(step))]


def _pattern_size(dims: tuple[int, ...], steps: list[Step]) -> Size:
    points = int(np.prod(dims, dtype=object))
    return Size(points, points, grid_entries(dims, steps), scratch=8 * points)


def _symmetric(pattern: Pattern) -> Pattern:
    return Pattern(pattern.rows, pattern.cols, pattern.row_ptr, pattern.col_idx, symmetric=True)


def _poisson2d_size(n: int) -> Size:
    return _pattern_size((n, n), _neighbours(2, True))


@recipe(
    "poisson2d",
    {"n": Parameter(2048, "points along each side", between=(1, MAX_INDEX))},
    about="5-point Poisson operator on an n x n grid, Dirichlet boundaries",
    short="poisson2d-{n}",
    size=_poisson2d_size,
    values="stencil",
    stencil=4.0,
)
def poisson2d(n: int, progress: Progress) -> Pattern:
    return _symmetric(grid_pattern((n, n), _neighbours(2, True), progress))


def _poisson3d_size(n: int) -> Size:
    return _pattern_size((n, n, n), _neighbours(3, True))


@recipe(
    "poisson3d",
    {"n": Parameter(128, "points along each side", between=(1, MAX_INDEX))},
    about="7-point Poisson operator on an n x n x n grid, Dirichlet boundaries",
    short="poisson3d-{n}",
    size=_poisson3d_size,
    values="stencil",
    stencil=6.0,
)
def poisson3d(n: int, progress: Progress) -> Pattern:
    return _symmetric(grid_pattern((n, n, n), _neighbours(3, True), progress))


def _band(n: int, diagonals: int) -> list[Step]:
    if diagonals > 2 * n - 1:
        raise ValueError(f"{diagonals} diagonals, but {n} x {n} has only {2 * n - 1}")
    return [(offset,) for offset in range(-((diagonals - 1) // 2), diagonals // 2 + 1)]


def _banded_size(n: int, diagonals: int) -> Size:
    return _pattern_size((n,), _band(n, diagonals))


@recipe(
    "banded",
    {
        "n": Parameter(4_000_000, "rows and columns", between=(1, MAX_INDEX)),
        "diagonals": Parameter(
            27, "diagonals, all full, around the main one (an even count: one more above)", between=(1, 4095)
        ),
    },
    about="band of full diagonals around the main one",
    short="banded-{n}-{diagonals}",
    size=_banded_size,
)
def banded(n: int, diagonals: int, progress: Progress) -> Pattern:
    return grid_pattern((n,), _band(n, diagonals), progress)


def _blocks_size(n: int, block: int) -> Size:
    coarse = _poisson2d_size(n)
    rows = coarse.rows * block
    return Size(rows, rows, coarse.entries * block**2, scratch=8 * rows + 12 * coarse.entries)


@recipe(
    "blocks",
    {
        "n": Parameter(900, "points along each side", between=(1, MAX_INDEX)),
        "block": Parameter(3, "rows and columns of each dense block", between=(1, 64)),
    },
    about="5-point Poisson pattern on an n x n grid, a dense block in place of each entry",
    short="blocks-{n}-{block}",
    size=_blocks_size,
)
def blocks(n: int, block: int, progress: Progress) -> Pattern:
    coarse = grid_pattern((n, n), _neighbours(2, True), progress)
    lengths = np.repeat(np.diff(coarse.row_ptr) * block, block)
    row_ptr = row_ptr_of(lengths)
    col_idx = np.empty(int(row_ptr[-1]), np.int32)
    within = np.arange(block, dtype=np.int32)
    for first, last in row_ranges(coarse.row_ptr, CHUNK // block**2):
        entries = slice(int(coarse.row_ptr[first]), int(coarse.row_ptr[last]))
        widened = (coarse.col_idx[entries, None] * np.int32(block) + within).ravel()
        # The rows of a block row are alike: each starts where its block row starts in `widened`.
        rows = slice(first * block, last * block)
        starts = np.repeat(coarse.row_ptr[first:last] - coarse.row_ptr[first], block) * block
        out = slice(int(row_ptr[rows.start]), int(row_ptr[rows.stop]))
        shift = np.repeat(starts - row_ptr[rows] + out.start, lengths[rows])
        col_idx[out] = widened[np.arange(out.stop - out.start) + shift]
        progress("widening entries to blocks", out.stop / len(col_idx))
    return Pattern(coarse.rows * block, coarse.cols * block, row_ptr, col_idx, symmetric=True)


def _grid_size(n: int) -> Size:
    return _pattern_size((n, n), _neighbours(2, False))


@recipe(
    "grid",
    {"n": Parameter(1000, "vertices along each side", between=(1, MAX_INDEX))},
    about="n x n grid graph, undirected: 2 n - 1 levels from a corner, no hubs",
    short="grid-{n}",
    size=_grid_size,
    values="none",
)
def grid(n: int, progress: Progress) -> Pattern:
    return _symmetric(grid_pattern((n, n), _neighbours(2, False), progress))


def _chain_size(n: int) -> Size:
    return _pattern_size((n,), _neighbours(1, False))


@recipe(
    "chain",
    {"n": Parameter(10_000, "vertices", between=(1, MAX_INDEX))},
    about="path graph, undirected: the most levels a traversal can have",
    short="chain-{n}",
    size=_chain_size,
    values="none",
)
def chain(n: int, progress: Progress) -> Pattern:
    return _symmetric(grid_pattern((n,), _neighbours(1, False), progress))
