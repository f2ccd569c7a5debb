"""From entries to the canonical matrix: folding, merging, mirroring, values."""

from __future__ import annotations

import dataclasses
import pickle
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from spgraph_bench.errors import InputError
from spgraph_bench.matrix import ContentHash, Source
from spgraph_bench.problems import get_problem
from spgraph_bench.readers import compiled, read
from spgraph_bench.readers.assemble import assemble, random_values
from spgraph_bench.readers.common import RawEntries, ReadOptions
from spgraph_bench.readers.rows import Rows

SOURCE = Source("file", "x.el", "test")
INDEX: type[np.integer] = np.int64


@pytest.fixture(scope="module", params=["compiled", "python"], autouse=True)
def way(request: pytest.FixtureRequest) -> Iterator[None]:
    """Everything twice: with compiled passes for the smallest of inputs too, and with scipy's."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "compiled":
            if compiled.library() is None:
                pytest.skip("no compiler")
            patch.setattr(compiled, "WORTH_ENTRIES", 0)
            patch.setattr(compiled, "_most_threads", lambda: 3)
            patch.setattr(sys.modules[__name__], "INDEX", np.int32)
        yield


def build(rows, cols, entries, *, symmetry="general", dtype=np.float64, base=None, undirected=False, **options):
    row, col = (np.array([e[k] for e in entries], INDEX) for k in (0, 1))
    values = None if entries and len(entries[0]) == 2 else np.array([e[2] for e in entries], dtype)
    raw = RawEntries(
        rows,
        cols,
        row,
        col,
        values,
        "test",
        symmetry=symmetry,
        base=base,
        undirected=undirected,
        line_of=lambda k: k + 10,
    )
    return assemble(raw, ReadOptions(**options), "x", SOURCE)


def dense(matrix):
    return matrix.csr.to_scipy().toarray().tolist()


def canonical(csr):
    assert csr.row_ptr.dtype == np.int64
    assert csr.col_idx.dtype == np.int32
    assert csr.row_ptr[0] == 0
    assert np.all(np.diff(csr.row_ptr) >= 0)
    assert csr.row_ptr[-1] == len(csr.col_idx)
    for r in range(csr.rows):
        assert np.all(np.diff(csr.col_idx[csr.row_ptr[r] : csr.row_ptr[r + 1]]) > 0)


DOUBLE = [(0, 1, 2.0), (1, 0, 5.0), (0, 1, 3.0)]


def test_duplicates_sum_first_error():
    assert dense(build(2, 2, DOUBLE)) == [[0, 5], [5, 0]]
    assert dense(build(2, 2, DOUBLE, duplicates="first")) == [[0, 2], [5, 0]]
    assert build(2, 2, DOUBLE).policies.duplicates_found == 1
    with pytest.raises(InputError, match=r"x\.el:12: row 1, column 2 is stored more than once .*line 10"):
        build(2, 2, DOUBLE, duplicates="error", base=1)


def test_pattern_stays_a_pattern_and_merges():
    matrix = build(2, 2, [(0, 1), (0, 1), (1, 1)])
    assert matrix.csr.values is None
    assert not matrix.weighted
    assert matrix.policies.duplicates_found == 1
    assert dense(matrix) == [[0, 1], [0, 1]]


def test_zeros_kept_or_dropped_and_counted_in_the_whole_matrix():
    entries = [(0, 0, 0.0), (1, 0, 0.0), (2, 1, 4.0)]
    saved = build(3, 3, entries, symmetry="symmetric")
    assert (saved.csr.nnz, saved.policies.explicit_zeros, saved.policies.zeros_dropped) == (5, 3, 0)
    dropped = build(3, 3, entries, symmetry="symmetric", drop_zeros=True)
    assert (dropped.csr.nnz, dropped.policies.explicit_zeros, dropped.policies.zeros_dropped) == (2, 0, 3)
    assert dropped.csr.row_ptr.tolist() == [0, 0, 1, 2]


def test_duplicates_that_cancel_leave_an_explicit_zero():
    assert build(2, 2, [(0, 0, 1.0), (0, 0, -1.0)]).policies.explicit_zeros == 1
    assert build(2, 2, [(0, 0, 1.0), (0, 0, -1.0)], drop_zeros=True).csr.nnz == 0


PARALLEL = [(0, 1, 5.0), (1, 0, 1.0), (0, 1, 3.0), (0, 1, 9.0), (1, 1, -2.0), (1, 1, 4.0)]


@pytest.mark.parametrize(
    ("duplicates", "expected"),
    [
        ("sum", [[0, 17], [1, 2]]),
        ("min", [[0, 3], [1, -2]]),
        ("max", [[0, 9], [1, 4]]),
        ("first", [[0, 5], [1, -2]]),
        ("last", [[0, 9], [1, 4]]),
    ],
)
def test_duplicates_by_policy(duplicates, expected):
    for entries in (PARALLEL, sorted(PARALLEL, key=lambda e: e[:2])):  # the sort is stable
        matrix = build(2, 2, entries, duplicates=duplicates)
        assert dense(matrix) == expected
        assert (matrix.policies.duplicates, matrix.policies.duplicates_found) == (duplicates, 3)
        assert f"3 duplicates ({duplicates})" in matrix.policies.summary()
    assert dense(build(2, 2, PARALLEL, parallel="min")) == [[0, 3], [1, -2]]
    assert dense(build(2, 2, PARALLEL, parallel="min", duplicates="max")) == [[0, 9], [1, 4]]


def test_values_that_play_no_part_are_merged():
    for entries, options in ((PARALLEL, {"values": "ones"}), ([e[:2] for e in PARALLEL], {"duplicates": "sum"})):
        matrix = build(2, 2, entries, **options)
        assert matrix.csr.values is None
        assert (matrix.policies.duplicates, "3 duplicates (merged)" in matrix.policies.summary()) == ("merge", True)


def test_entries_have_a_hash_whatever_becomes_of_them():
    def ids(entries, **options):
        matrix = build(2, 2, entries, **options)
        return matrix.entries_sha256, matrix.sha256

    summed, least = ids(PARALLEL), ids(PARALLEL, duplicates="min")
    assert summed[0] == least[0]
    assert summed[1] != least[1]
    for other in (
        [*PARALLEL[:-1], (1, 1, 5.0)],
        PARALLEL[:-1],
        PARALLEL[::-1],
        [(r, 1 - c, v) for r, c, v in PARALLEL],
    ):
        assert ids(other)[0] != summed[0]
    assert ids([e[:2] for e in PARALLEL])[0] != summed[0]


@pytest.mark.parametrize(("symmetry", "mirror"), [("symmetric", 7.0), ("skew-symmetric", -7.0)])
def test_equal_mirrors_count_once(symmetry, mirror):
    both = [(0, 1, 7.0), (2, 1, 3.0), (1, 0, mirror), (2, 0, 1.0), (2, 0, 1.0)]
    matrix = build(3, 3, both, symmetry=symmetry)
    assert abs(matrix.csr.to_scipy().toarray()).tolist() == [[0, 7, 2], [7, 0, 3], [2, 3, 0]]
    assert (matrix.policies.mirrors_found, matrix.policies.duplicates_found) == (1, 1)
    assert any("both sides" in s for s in matrix.policies.summary())
    assert [(f.line, f.count) for f in matrix.findings if "both sides" in f.text] == [(10, 1)]
    assert build(3, 3, both[:3], symmetry=symmetry, duplicates="error").csr.nnz == 4  # mirrors are not duplicates
    with pytest.raises(InputError, match=r"x\.el:14: row 2, column 0 is stored more than once .*line 13"):
        build(3, 3, both, symmetry=symmetry, duplicates="error")


def test_duplicates_are_joined_on_either_side_before_both_are_compared():
    both = [(0, 1, 2.0), (1, 0, 5.0), (0, 1, 3.0), (0, 0, np.nan), (2, 1, np.nan), (1, 2, np.nan)]
    matrix = build(3, 3, both, symmetry="symmetric")
    assert (matrix.csr.to_scipy()[0, 1], matrix.csr.to_scipy()[1, 0]) == (5, 5)
    assert (matrix.policies.mirrors_found, matrix.policies.duplicates_found) == (2, 1)


CONTRARY = [(0, 1, 7.0), (1, 0, 9.0), (2, 2, 1.0), (0, 1, 8.0)]


@pytest.mark.parametrize("symmetry", ["symmetric", "skew-symmetric"])
def test_contradicting_mirrors_are_an_error_with_both_lines(symmetry):
    for options in ({}, {"duplicates": "sum"}, {"parallel": "min"}):
        with pytest.raises(InputError, match=rf"x\.el:11: declared {symmetry}, .* is 9 and .* is 7 \(line 10\)"):
            build(3, 3, CONTRARY[:2], symmetry=symmetry, **options)
    build(3, 3, CONTRARY[:2], symmetry=symmetry, values="ones")  # where the values play no part


@pytest.mark.parametrize(("duplicates", "value"), [("min", 7), ("max", 9), ("first", 7), ("last", 8)])
def test_what_was_asked_for_chooses_between_contradicting_mirrors(duplicates, value):
    matrix = build(3, 3, CONTRARY, symmetry="symmetric", duplicates=duplicates)
    assert dense(matrix) == [[0, value, 0], [value, 0, 0], [0, 0, 1]]
    if duplicates == "min":  # parallel edges, where edges have no direction
        assert dense(build(3, 3, CONTRARY, symmetry="symmetric", undirected=True, parallel="min")) == dense(matrix)


def test_two_entries_above_are_not_a_pair_across_the_diagonal():
    matrix = build(2, 2, [(0, 1, 7.0), (0, 1, 9.0)], symmetry="symmetric")
    assert not any("both sides" in f.text for f in matrix.findings)


def test_symmetrize_keeps_own_values_and_says_where_they_differ():
    matrix = build(3, 3, [(0, 1, 2.0), (1, 0, 5.0), (2, 0, 3.0), (1, 1, 4.0)], symmetrize=True)
    assert dense(matrix) == [[0, 2, 3], [5, 4, 0], [3, 0, 0]]
    assert [(f.text[:20], f.count) for f in matrix.findings if "mirror" in f.text] == [("entries whose mirror", 2)]
    assert matrix.policies.mirrored
    with pytest.raises(InputError, match="not square"):
        build(2, 3, [(0, 1, 2.0)], symmetrize=True)


@given(seed=st.integers(0, 2**31), part=st.sampled_from([1, 7, 1 << 16]), pattern=st.booleans())
@settings(max_examples=60, deadline=None)
def test_symmetrize_in_parts(seed, part, pattern):
    rng = np.random.default_rng(seed)
    size = int(rng.integers(1, 12))
    count = int(rng.integers(0, 50))
    row, col = rng.integers(0, size, (2, count))
    row[rng.random(count) < 0.3] = 0  # a hub, and its rows are long in the transpose too
    values = np.where(rng.random(count) < 0.1, np.nan, rng.integers(-2, 3, count).astype(float))
    own: dict[tuple[int, int], float] = {}
    for i, j, value in zip(row.tolist(), col.tolist(), values.tolist(), strict=True):
        own.setdefault((i, j), value)
    expected = {(j, i): value for (i, j), value in own.items()} | own
    differ = sum((j, i) in own and repr(own[j, i]) != repr(v) for (i, j), v in own.items())

    index = (row.astype(INDEX), col.astype(INDEX))
    raw = RawEntries(size, size, *index, None if pattern else values, "test")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys.modules[Rows.__module__], "_SMALL_CHUNK", part)
        matrix = assemble(raw, ReadOptions(symmetrize=True, duplicates="first"), "x", SOURCE)
    canonical(matrix.csr)
    rows = np.repeat(np.arange(size), matrix.csr.row_lengths())
    places = list(zip(rows.tolist(), matrix.csr.col_idx.tolist(), strict=True))
    assert places == sorted(expected)
    assert matrix.policies.self_loops == sum(i == j for i, j in own)
    if not pattern:
        assert repr(matrix.csr.values.tolist()) == repr([expected[place] for place in places])
        assert sum(f.count for f in matrix.findings if "mirror" in f.text) == differ


def test_values_ones_and_random():
    entries = [(1, 0, 5.0), (2, 1, 0.0)]
    assert build(3, 3, entries, values="ones").csr.values is None
    matrix = build(3, 3, entries, symmetry="symmetric", values="random", seed=3)
    full = np.array(dense(matrix))
    assert np.array_equal(full, full.T)
    assert matrix.csr.nnz == 4
    assert matrix.csr.values[0] == random_values(2, 3)[0]


def test_random_values_are_pinned():
    assert random_values(3, 1).tolist() == [0.5118216247002567, 0.9504636963259353, 0.14415961271963373]
    many = random_values(100_000, 7)
    assert many.min() >= 0
    assert many.max() < 1
    assert abs(many.mean() - 0.5) < 0.01


@pytest.mark.parametrize(
    ("entries", "base", "message"),
    [
        ([(0, 0, 1.0), (-1, 0, 1.0)], 1, r"x\.el:11: row index 0 \(indices start at 1\)"),
        ([(0, 0, 1.0), (0, 2, 1.0)], 1, r"x\.el:11: column 3 is beyond the declared 2 columns"),
        ([(0, -3, 1.0)], 0, r"x\.el:10: column index -3 \(indices start at 0\)"),
    ],
)
def test_index_out_of_range(entries, base, message):
    with pytest.raises(InputError, match=message):
        build(2, 2, entries, base=base)


def test_complex_needs_a_part_and_parts_come_after_summing():
    entries = [(0, 0, 3 + 4j), (0, 0, -3 + 0j)]
    with pytest.raises(InputError, match="complex"):
        build(1, 1, entries, dtype=np.complex128)
    matrix = build(1, 1, entries, dtype=np.complex128, part="abs")
    assert dense(matrix) == [[4]]
    assert matrix.policies.part == "abs"


def test_dimensions_beyond_32_bits_and_beyond_memory(monkeypatch):
    with pytest.raises(InputError, match="2\\^31 - 1"):
        build(2**31, 1, [(0, 0, 1.0)])
    monkeypatch.setattr("spgraph_bench.memory.available_memory", lambda: 2**30)
    with pytest.raises(InputError, match=r"needs 120 GB of memory"):
        build(2**31 - 1, 2**31 - 1, [(0, 0)])


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0), (1, 1), (5, 1), (1, 5)])
def test_no_entries(shape):
    for symmetry in ("general", "symmetric") if shape[0] == shape[1] else ("general",):
        raw = RawEntries(*shape, *(np.zeros(0, np.int32),) * 2, np.zeros(0), "test", symmetry=symmetry)
        matrix = assemble(raw, ReadOptions(), "x", SOURCE)
        assert matrix.csr.shape == shape
        assert matrix.csr.nnz == 0
        canonical(matrix.csr)


@given(
    rows=st.integers(1, 9),
    cols=st.integers(1, 9),
    seed=st.integers(0, 2**31),
    order=st.sampled_from(["none", "row", "column", "both"]),
    index=st.sampled_from([np.int32, np.int64]),
)
@settings(max_examples=80, deadline=None)
def test_same_as_scipy_in_any_order(rows, cols, seed, order, index):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(0, 40))
    row, col = rng.integers(0, rows, n), rng.integers(0, cols, n)
    values = rng.integers(-4, 5, n).astype(float)
    if order != "none":
        keys = {"row": (row,), "column": (col,), "both": (col, row)}[order]
        position = np.lexsort(keys)
        row, col, values = row[position], col[position], values[position]
    before = row.copy(), col.copy(), values.copy()
    raw = RawEntries(rows, cols, row.astype(index), col.astype(index), values, "test")
    matrix = assemble(raw, ReadOptions(), "x", SOURCE)
    canonical(matrix.csr)
    expected = sp.coo_array((values, (row, col)), shape=(rows, cols)).toarray()
    assert np.array_equal(matrix.csr.to_scipy().toarray(), expected)
    assert matrix.csr.nnz == len(set(zip(row.tolist(), col.tolist(), strict=True)))
    assert all(np.array_equal(a, b) for a, b in zip(before, (row, col, values), strict=True))


@given(
    size=st.integers(1, 9),
    seed=st.integers(0, 2**31),
    order=st.sampled_from(["none", "row", "column"]),
    symmetry=st.sampled_from(["symmetric", "skew-symmetric", "hermitian"]),
    form=st.sampled_from(["real", "pattern", "imag", "zeros"]),
)
@settings(max_examples=120, deadline=None)
def test_triangles_in_any_order_are_mirrored(size, seed, order, symmetry, form):
    rng = np.random.default_rng(seed)
    a = np.tril(rng.integers(0, 5, (size, size)), -1 if symmetry == "skew-symmetric" else 0).astype(float)
    row, col = np.nonzero(a)
    position = {"none": rng.permutation(len(row)), "row": np.lexsort((col, row)), "column": np.lexsort((row, col))}
    row, col = row[position[order]], col[position[order]]
    values = a[row, col]
    if form == "zeros":
        values[::2] = 0
        a[row, col] = values
    sign = -1 if symmetry == "skew-symmetric" or (symmetry == "hermitian" and form == "imag") else 1
    stored = {"real": values, "zeros": values, "imag": 1j * values, "pattern": None}[form]
    if form == "imag":
        a[np.diag_indices(size)] *= symmetry != "hermitian"
        stored = np.where((row == col) & (symmetry == "hermitian"), 0, stored)
    if form == "pattern":
        sign, a = 1, (a != 0).astype(float)
        symmetry = "symmetric"
    raw = RawEntries(size, size, row.astype(np.int32), col.astype(np.int32), stored, "t", symmetry=symmetry)
    options = ReadOptions(part="imag" if form == "imag" else None)
    matrix = assemble(raw, options, "x", SOURCE)
    canonical(matrix.csr)
    assert matrix.policies.mirrored
    whole = a + sign * np.tril(a, -1).T
    assert np.array_equal(matrix.csr.to_scipy().toarray(), whole)
    assert matrix.csr.nnz == 2 * len(row) - np.count_nonzero(row == col)
    assert matrix.policies.self_loops == np.count_nonzero(row == col)
    zeros = 0 if form == "pattern" else np.count_nonzero(matrix.csr.values == 0)
    assert matrix.policies.explicit_zeros == zeros


@given(seed=st.integers(0, 2**31), order=st.sampled_from(["none", "row", "column", "both"]))
@settings(max_examples=60, deadline=None)
def test_the_first_of_many_duplicates_in_any_order(seed, order):
    rng = np.random.default_rng(seed)
    row, col = rng.integers(0, 3, 200), rng.integers(0, 30, 200)
    if order != "none":
        position = np.lexsort({"row": (row,), "column": (col,), "both": (col, row)}[order])
        row, col = row[position], col[position]
    entries = list(zip(row.tolist(), col.tolist(), range(200), strict=True))
    first: dict[tuple[int, int], int] = {}
    for i, j, value in entries:
        first.setdefault((i, j), value)
    result = build(3, 30, entries, duplicates="first").csr.to_scipy().tocoo()
    assert dict(zip(zip(result.row.tolist(), result.col.tolist(), strict=True), result.data, strict=True)) == first


def test_the_hash_is_worked_out_when_asked_for(monkeypatch):
    matrix = build(2, 2, DOUBLE)
    hashed = []
    monkeypatch.setattr("spgraph_bench.matrix.CSR.sha256", lambda csr: hashed.append(csr) or "ab")
    assert not hashed
    assert (matrix.sha256, matrix.sha256, len(hashed)) == ("ab", "ab", 1)
    assert dataclasses.replace(matrix, name="y").sha256 == "ab"
    assert pickle.loads(pickle.dumps(matrix)).sha256 == "ab"
    assert len(hashed) == 1
    assert dataclasses.replace(matrix, content_hash=ContentHash("cd")).sha256 == "cd"


def test_a_copy_with_other_content_has_another_hash():
    matrix = dataclasses.replace(build(2, 2, DOUBLE), content_hash=ContentHash("given"))
    assert matrix.with_symmetry(True).sha256 == "given"
    for change in ({"values": None}, {"cols": 3}):
        csr = dataclasses.replace(matrix.csr, **change)
        assert dataclasses.replace(matrix, csr=csr).sha256 == csr.sha256()
    assert matrix.sha256 == "given"


def test_copies_do_not_work_the_hash_out(monkeypatch):
    matrix, hashed = build(2, 2, DOUBLE), []
    monkeypatch.setattr("spgraph_bench.matrix.CSR.sha256", lambda csr: hashed.append(csr) or "ab")
    copies = [dataclasses.replace(matrix, name="y"), matrix.counted_from_0(), matrix.with_symmetry(False)]
    get_problem("spmv-transposed").oracle(matrix, {"x": np.ones(2)}, np.dtype(float))
    assert not hashed
    assert [copy.sha256 for copy in copies] == ["ab"] * 3
    assert len(hashed) == 1


def test_both_infinities_are_reported_without_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "inf.mtx"
    path.write_text("%%MatrixMarket matrix coordinate real general\n2 2 2\n1 1 inf\n2 2 -inf\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        matrix = read(str(path))
    assert [(f.text, f.line, f.count) for f in matrix.findings] == [("infinite values", 3, 2)]


@pytest.mark.parametrize("share", [0.02, 0.9])
@pytest.mark.parametrize("duplicates", ["first", "sum"])
def test_duplicates_follow_the_order_of_the_file(share, duplicates):
    # In few rows or in most: these take different ways. Sums of such values depend on their order.
    rng = np.random.default_rng(5)
    size, count = 200, 6000
    row, col = np.divmod(rng.permutation(size * size)[:count], size)
    twice = np.flatnonzero(rng.random(size) < share)
    again = rng.permutation(np.flatnonzero(np.isin(row, twice)).repeat(12))
    row, col = np.append(row, row[again]), np.append(col, col[again])
    values = rng.standard_normal(len(row)) * 10.0 ** rng.integers(-9, 9, len(row))
    result = build(
        size, size, list(zip(row.tolist(), col.tolist(), values.tolist(), strict=True)), duplicates=duplicates
    ).csr
    expected: dict[tuple[int, int], float] = {}
    for i, j, value in zip(row.tolist(), col.tolist(), values.tolist(), strict=True):
        held = expected.get((i, j))
        expected[i, j] = value if held is None else held if duplicates == "first" else held + value
    assert result.values.tolist() == [expected[place] for place in sorted(expected)]
