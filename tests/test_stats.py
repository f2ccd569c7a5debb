"""Statistics against plain loops over dense matrices."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from spgraph_bench import recipes, stats, structure
from spgraph_bench.matrix import CSR
from spgraph_bench.stats import diagonal_entries, length_stats, row_blocks, row_ranges, row_stats
from spgraph_bench.structure import BLOCK_FILL, BlockFill, Structure, analyse, analysis

Cells = dict[tuple[int, int], float]
VALUES = [0.0, -0.0, 1.0, -1.0, 2.5, math.inf, -math.inf, math.nan]


def _csr(rows: int, cols: int, cells: Cells, pattern: bool = False) -> CSR:
    places = sorted(cells)
    row_ptr = np.zeros(rows + 1, np.int64)
    np.add.at(row_ptr[1:], [r for r, _ in places], 1)
    values = None if pattern else np.array([cells[p] for p in places], float)
    return CSR(rows, cols, np.cumsum(row_ptr), np.array([c for _, c in places], np.int32), values)


@st.composite
def _matrices(draw: st.DrawFn) -> tuple[int, int, Cells, bool]:
    rows = draw(st.integers(0, 30))
    cols = draw(st.one_of(st.just(rows), st.integers(0, 30)))
    if not rows or not cols:
        return rows, cols, {}, draw(st.booleans())
    near = st.integers(0, rows - 1).flatmap(
        lambda r: (
            st.tuples(st.just(r), st.integers(max(0, min(r, cols) - 2), min(cols - 1, r + 2)))
            if r < cols
            else st.tuples(st.just(r), st.integers(0, cols - 1))
        )
    )
    anywhere = st.tuples(st.integers(0, rows - 1), st.integers(0, cols - 1))
    cells = draw(st.dictionaries(st.one_of(near, anywhere), st.sampled_from(VALUES), max_size=60))
    if rows == cols and draw(st.booleans()):  # many mirrors, most of them with equal values
        flip = draw(st.sampled_from([1.0, -1.0]))
        cells |= {(c, r): flip * v for (r, c), v in list(cells.items())[::2]}
    return rows, cols, cells, draw(st.booleans())


def _same(a: float, b: float) -> bool:
    return a == b or (math.isnan(a) and math.isnan(b))


def _expected(rows: int, cols: int, cells: Cells, pattern: bool) -> dict[str, Any]:
    """Every field of Structure that is not a length statistic, by definition."""
    nnz = len(cells)
    values = dict.fromkeys(cells, 1.0) if pattern else cells
    away = [c - r for r, c in cells]
    per_row = {r: [c for i, c in cells if i == r] for r in range(rows)}
    spans = [max(cs) - min(cs) + 1 for cs in per_row.values() if cs]
    places = {d: sum(1 for r in range(rows) if 0 <= r + d < cols) for d in set(away)}
    held = {d: away.count(d) for d in places}
    well = [d for d in places if held[d] >= BLOCK_FILL * places[d]]
    off = [(r, c) for r, c in cells if r != c]
    both = [(r, c) for r, c in off if (c, r) in cells]

    def share(count: int) -> float:
        return count / len(off) if off else 1.0

    blocks = {s: len({(r // s, c // s) for r, c in cells}) for s in range(2, 9)}
    finite = [v for v in cells.values() if math.isfinite(v)]
    distinct = {v for v in cells.values() if not math.isnan(v)}
    return {
        "lower_bandwidth": max([0, *(-d for d in away)]),
        "upper_bandwidth": max([0, *away]),
        "mean_distance": sum(map(abs, away)) / nnz if nnz else 0.0,
        "profile": sum(max(0, r - min(cs)) for r, cs in per_row.items() if cs),
        "widest_row": max(spans, default=0),
        "wide_rows": 0,
        "diagonals": {
            "occupied": len(places),
            "fill": nnz / sum(places.values()) if nnz else 0.0,
            "full": sum(held[d] == places[d] for d in places),
            "well_filled": len(well),
            "well_filled_share": sum(held[d] for d in well) / nnz if nnz else 0.0,
            "main": held.get(0, 0),
            "main_length": min(rows, cols),
        },
        "symmetry": {
            "pattern": share(len(both)),
            "value": share(sum(_same(values[r, c], values[c, r]) for r, c in both)),
            "skew": share(sum(_same(values[r, c], -values[c, r]) for r, c in both)),
        }
        if rows == cols
        else None,
        "blocks": {s: (n, nnz / (n * s * s) if n else 0.0) for s, n in blocks.items()},
        "values": None
        if pattern
        else {
            "min": min(finite, default=math.nan),
            "max": max(finite, default=math.nan),
            "zeros": sum(v == 0 for v in cells.values()),
            "negative": sum(v < 0 for v in cells.values()),
            "nonfinite": nnz - len(finite),
            "distinct": len(distinct) + any(math.isnan(v) for v in cells.values()),
        },
    }


def _structure(s: Structure) -> dict[str, Any]:
    plain = {k: v for k, v in vars(s).items() if k not in ("columns", "blocks")}
    for name in ("diagonals", "symmetry", "values"):
        plain[name] = None if plain[name] is None else vars(plain[name])
    return plain | {"blocks": {b.size: (b.blocks, b.fill) for b in s.blocks}}


@given(_matrices())
@settings(deadline=None, max_examples=150)
def test_structure_by_definition(case: tuple[int, int, Cells, bool]) -> None:
    _, cols, cells, _ = case
    csr = _csr(*case)
    result, expected = _structure(analyse(csr)), _expected(*case)
    for name, value in expected.items():
        if isinstance(value, dict) and name != "blocks":
            assert result[name] == pytest.approx(value, nan_ok=True), name
        else:
            assert result[name] == value, name
    in_degree = [sum(c == j for _, c in cells) for j in range(cols)]
    columns = analyse(csr).columns
    assert np.repeat(columns.lengths, columns.counts).tolist() == sorted(in_degree)
    assert diagonal_entries(csr) == expected["diagonals"]["main"]


def test_structure_does_not_depend_on_blocks_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = recipes.make("rmat:scale=8,symmetrize=1").csr
    whole = _structure(analyse(matrix))
    parts = 0

    def few_rows(csr: CSR, entries: int = 0, align: int = 1) -> Any:
        nonlocal parts
        for block in row_blocks(csr, 40, align):
            parts += 1
            yield block

    monkeypatch.setattr(analysis, "row_blocks", few_rows)
    monkeypatch.setattr(analysis, "_VALUES_AT_ONCE", 100)
    assert _structure(analyse(matrix)) == whole
    assert parts > 10


@given(st.lists(st.integers(0, 50), max_size=60))
def test_length_statistics_by_definition(lengths: list[int]) -> None:
    result = length_stats(np.array(lengths, np.int64))
    if not lengths:
        assert (result.mean, result.max, result.empty, result.gini) == (0, 0, 0, 0)
        return
    assert result.mean == pytest.approx(np.mean(lengths))
    assert result.median == np.median(lengths)
    assert result.std == pytest.approx(np.std(lengths))
    assert (result.min, result.max, result.empty) == (min(lengths), max(lengths), lengths.count(0))
    apart = sum(abs(a - b) for a in lengths for b in lengths)
    gini = apart / (2 * len(lengths) ** 2 * np.mean(lengths)) if any(lengths) else 0.0
    assert result.gini == pytest.approx(gini, abs=1e-12)


def test_row_stats_of_an_arrow() -> None:
    csr = recipes.make("arrow:n=101").csr
    result = row_stats(csr)
    assert (result.rows, result.cols, result.nnz, result.pattern) == (101, 101, 301, False)
    assert (result.row_max, result.row_median) == (101, 2.0)
    assert result.row_mean == 301 / 101
    assert result.density == 301 / 101**2
    assert result.lengths.tolist() == [2, 101]
    assert result.length_counts.tolist() == [100, 1]


@given(st.lists(st.integers(0, 9), max_size=80), st.integers(1, 30), st.sampled_from([1, 2, 24]))
def test_row_ranges_cover_every_row_once(lengths: list[int], entries: int, align: int) -> None:
    row_ptr = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))
    ranges = list(row_ranges(row_ptr, entries, align))
    assert [row for first, last in ranges for row in range(first, last)] == list(range(len(lengths)))
    assert all(a[1] == b[0] for a, b in pairwise(ranges))
    assert all(first % align == 0 for first, _ in ranges)
    for first, last in ranges:
        assert last - first <= entries + 2 * align
        assert row_ptr[last] - row_ptr[first] <= entries + 2 * align * max(lengths)


def test_best_block_size() -> None:
    for size in range(2, 9):
        assert analyse(recipes.make(f"blocks:n=20,block={size}").csr).block_size == size
    assert analyse(recipes.make("dense:rows=48,cols=48").csr).block_size == 8
    assert analyse(recipes.make("poisson2d:n=20").csr).block_size is None
    assert analyse(_csr(3, 3, {})).block_size is None
    assert analyse(recipes.make("blocks:n=8,block=2").csr).blocks[0] == BlockFill(2, 5 * 64 - 4 * 8, 1.0)


def test_wide_rows() -> None:
    cells = {(0, 0): 1.0, (0, 65_535): 1.0, (1, 7): 1.0, (1, 65_543): 1.0, (2, 65_999): 1.0}
    result = analyse(_csr(3, 66_000, cells))
    assert (result.widest_row, result.wide_rows) == (65_537, 1)


def test_many_values_are_counted_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analysis, "DISTINCT_LIMIT", 5)
    for count, expected in ((5, 5), (6, None)):
        values = analysis._values(np.arange(count, dtype=float))
        assert values.distinct == expected


def test_symmetries_that_formats_ask_for() -> None:
    poisson = analyse(recipes.make("poisson2d:n=9,values=stencil").csr).symmetry
    assert poisson == structure.Symmetry(1.0, 1.0, 0.0)
    upper = sp.triu(sp.csr_array(np.ones((4, 4))), 1).tocsr()
    skew = sp.csr_array(upper - upper.T)
    csr = CSR(4, 4, skew.indptr.astype(np.int64), skew.indices.astype(np.int32), skew.data)
    assert analyse(csr).symmetry == structure.Symmetry(1.0, 0.0, 1.0)


def test_blocks_of_rows_see_their_rows() -> None:
    csr = recipes.make("rmat:scale=6").csr
    rows = np.repeat(np.arange(64), csr.row_lengths())
    seen = list(stats.row_blocks(csr, 50))
    assert len(seen) > 5
    assert np.array_equal(np.concatenate([block.row_ids() for block in seen]), rows)
    assert np.array_equal(np.concatenate([block.cols for block in seen]), csr.col_idx)
