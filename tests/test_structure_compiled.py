"""Compiled code counts, transposes and joins as numpy and scipy do, with any number of threads."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import scipy.sparse as sp
from battery import matrix
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.csgraph import connected_components

from spgraph_bench import recipes, threads
from spgraph_bench.formats import get_format
from spgraph_bench.matrix import CSR
from spgraph_bench.problems import sources
from spgraph_bench.problems.cc import least_labels
from spgraph_bench.structure import analyse, block_lengths, compiled, transposed

pytestmark = pytest.mark.skipif(compiled._library() is None, reason="no C++ compiler")
VALUES = [0.0, -0.0, 1.0, -1.0, 2.5, float("inf"), float("nan")]


@contextmanager
def _used(cores: int = 3) -> Iterator[None]:
    """Compiled code is used, however small a matrix is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threads, "WORTH_ENTRIES", 0)
        for module in (compiled, threads):
            patch.setattr(module, "usable_cores", lambda: cores)
        yield


@st.composite
def _matrices(draw: st.DrawFn, square: bool = False) -> CSR:
    rows = draw(st.integers(0, 40))
    cols = rows if square or draw(st.booleans()) else draw(st.integers(0, 40))
    cell = st.tuples(st.integers(0, max(rows - 1, 0)), st.integers(0, max(cols - 1, 0)))
    cells = draw(st.dictionaries(cell, st.sampled_from(VALUES), max_size=80)) if rows and cols else {}
    if rows == cols and draw(st.booleans()):  # many mirrors, of equal or opposite values
        flip = draw(st.sampled_from([1.0, -1.0]))
        cells |= {(c, r): flip * v for (r, c), v in list(cells.items())[:: draw(st.integers(1, 2))]}
    places = sorted(cells)
    row_ptr = np.zeros(rows + 1, np.int64)
    np.add.at(row_ptr[1:], [r for r, _ in places], 1)
    values = np.array([cells[p] for p in places], float) if draw(st.booleans()) else None
    return CSR(rows, cols, np.cumsum(row_ptr), np.array([c for _, c in places], np.int32), values)


@given(_matrices())
@settings(deadline=None)
def test_statistics_are_the_same(csr: CSR) -> None:
    by_numpy = repr(analyse(csr)), block_lengths(csr, 16, 16), block_lengths(csr, 3, 2)
    with _used():
        assert repr(analyse(csr)) == by_numpy[0]
        assert np.array_equal(block_lengths(csr, 16, 16), by_numpy[1])
        assert np.array_equal(block_lengths(csr, 3, 2), by_numpy[2])


def test_counts_of_many_entries_are_added_up() -> None:
    csr = recipes.make("rmat:scale=12,symmetrize=1").csr
    by_numpy = repr(analyse(csr))
    with _used(4):
        assert repr(analyse(csr)) == by_numpy


@given(_matrices())
@settings(deadline=None)
def test_the_transpose_is_the_same(csr: CSR) -> None:
    by_scipy = transposed(csr)
    with _used():
        result = transposed(csr)
    assert result.equals(by_scipy)
    assert (result.row_ptr.dtype, result.col_idx.dtype) == (by_scipy.row_ptr.dtype, by_scipy.col_idx.dtype)


@given(_matrices(square=True), st.integers(1, 4))
@settings(deadline=None)
def test_graphs_look_the_same(csr: CSR, cores: int) -> None:
    by_numpy = sources.proper_degrees(csr), sources.pattern_is_symmetric(matrix(csr))
    with _used(cores):
        assert np.array_equal(sources.proper_degrees(csr), by_numpy[0])
        assert sources.pattern_is_symmetric(matrix(csr)) == by_numpy[1]


@given(_matrices(square=True), st.integers(1, 4))
@settings(deadline=None)
def test_components_are_the_same(csr: CSR, cores: int) -> None:
    pattern = sp.csr_array((np.ones(csr.nnz, np.int8), csr.col_idx, csr.row_ptr), shape=csr.shape)
    right = least_labels(connected_components(pattern, directed=True, connection="weak")[1])
    symmetric = sources.pattern_is_symmetric(matrix(csr))
    with _used(cores):
        assert np.array_equal(compiled.components(csr), right)
        if symmetric:
            assert np.array_equal(compiled.components(dataclasses.replace(csr, symmetric=True)), right)
    if csr.rows:
        by_scipy = sources._largest_component(csr)
        with _used(cores):
            assert np.array_equal(sources._largest_component(csr), by_scipy)


@pytest.mark.parametrize("recipe", ["chain:n=5000", "star:n=5000", "rmat:scale=12,edgefactor=2", "grid:n=60"])
def test_components_of_large_graphs_by_threads_at_once(recipe: str) -> None:
    csr = recipes.make(recipe).csr
    pattern = sp.csr_array((np.ones(csr.nnz, np.int8), csr.col_idx, csr.row_ptr), shape=csr.shape)
    right = least_labels(connected_components(pattern, directed=True, connection="weak")[1])
    with _used(8):
        for _ in range(5):
            assert np.array_equal(compiled.components(csr), right)


@given(_matrices(square=True), st.integers(0, 2), st.booleans())
@settings(deadline=None)
def test_work_of_levels_is_the_same(csr: CSR, source: int, both_ways: bool) -> None:
    if csr.rows <= source:
        return
    level = sources.plain_levels(csr, source)
    back = transposed(csr)
    arrays = {"row_ptr": csr.row_ptr.astype(np.int32), "col": csr.col_idx}
    if both_ways:
        arrays |= {"col_ptr": back.row_ptr.astype(np.int32), "row": back.col_idx}
    packed = get_format("adjacency").pack(csr)
    packed = dataclasses.replace(packed, arrays=arrays)
    by_numpy = sources.level_work(packed, level)
    for cores in (1, 3):
        with _used(cores):
            assert repr(sources.level_work(packed, level)) == repr(by_numpy)
