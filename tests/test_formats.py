"""Formats: round trips, byte predictions, layout, refusals."""

from __future__ import annotations

import dataclasses
import pickle
import re
import tracemalloc
from itertools import product
from typing import Any

import numpy as np
import pytest
from battery import battery, csr, random_rows
from hypothesis import given, settings
from hypothesis import strategies as st
from proportion import FULL

from spgraph_bench.errors import UsageError
from spgraph_bench.formats import Format, formats, get_format
from spgraph_bench.formats.common import VALUES_DIFFER, OfLastMatrix, offset_type, offsets_for
from spgraph_bench.formats.dia import choose_group
from spgraph_bench.formats.hyb import choose_slots
from spgraph_bench.formats.sell import choose_sigma
from spgraph_bench.matrix import CSR
from spgraph_bench.recipes import make
from spgraph_bench.stats import row_ranges, row_stats

HUGE = 64_000_000  # bytes; padded formats of larger matrices are left to their refusals


def _params(form: Format) -> list[dict[str, object]]:
    if form.name == "hyb":
        return [{}, {"hyb_k": "median"}, {"hyb_k": 0}, {"hyb_k": 3}, {"hyb_k": "1000000"}]
    if form.name == "sell":
        return [{}, {"sell_sigma": 1}, {"sell_sigma": 7}, {"sell_sigma": "64"}, {"sell_sigma": 10**6}]
    if form.name == "binned":
        return [{}, {"tile_width": 7, "bin_entries": 64}, {"tile_width": "1000", "bin_entries": 200}]
    if form.name == "binned-chunks":
        return [{}, {"tiles": 5, "bin_entries": 40, "chunk_bins": 3}, {"tiles": "9", "chunk_bins": 1}]
    if form.name == "dia":
        return [{}, {"group": 2}, {"group": "3"}, {"group": 8}]
    if form.name.startswith("bsr"):
        return [{}, {"block_size": 3}, {"block_size": "2x4"}, {"block_size": "5x1"}]
    return [{}]


def _with_values_formats() -> list[Format]:
    return [form for form in formats().values() if form.keeps_values]


def _without_zeros(a: CSR) -> CSR:
    if a.values is None:
        return a
    mask = a.values != 0
    row = np.repeat(np.arange(a.rows), a.row_lengths())[mask]
    row_ptr = np.concatenate(([0], np.cumsum(np.bincount(row, minlength=a.rows)))).astype(np.int64)
    return CSR(a.rows, a.cols, row_ptr, a.col_idx[mask], a.values[mask])


def _types(form: Format, a: CSR, number: int) -> list[tuple[type, type]]:
    """Types of values and offsets: one pair for each setting, so that each format and each matrix meets all four; in
    full all four."""
    pairs = list(product((np.float32, np.float64), (np.int32, np.int64)))
    turn = list(formats()).index(form.name) + a.rows + a.nnz + number
    return pairs if FULL else [pairs[turn % 4]]


def _check_round_trip(form: Format, a: CSR) -> None:
    stats = row_stats(a)
    for number, params in enumerate(_params(form)):
        if form.predict_bytes(stats, 8, 8, **params) > HUGE:
            continue
        why = None if form.packs_all else form.refuse(stats, None, force=True, **params)
        if why and why != VALUES_DIFFER:
            with pytest.raises(UsageError, match=re.escape(why)):
                form.pack(a, **params)
            continue
        for dtype, offsets in _types(form, a, number):
            packed = form.pack(a, dtype, offsets, **params)
            value, offset = np.dtype(dtype).itemsize, np.dtype(offsets).itemsize
            predicted = form.predict_bytes(stats, value, offset, **params)
            assert packed.stored_bytes <= predicted
            assert packed.stored_bytes == predicted or not form.predicts_exactly
            assert packed.compulsory_bytes <= packed.stored_bytes
            assert (packed.rows, packed.cols, packed.nnz) == (a.rows, a.cols, a.nnz)
            assert packed.dtype == dtype
            assert packed.offsets == offsets
            assert packed.pattern == (a.values is None)
            for array in packed.arrays.values():
                assert array.flags.c_contiguous
                assert array.dtype in {np.dtype(t) for t in (np.uint8, np.uint16, np.uint32, np.int32, offsets, dtype)}
            back = form.unpack(packed)
            rounded = a if form.keeps_values else dataclasses.replace(a, values=None)
            if rounded.values is not None:
                with np.errstate(over="ignore"):
                    rounded = dataclasses.replace(a, values=a.values.astype(dtype).astype(np.float64))
            assert back.row_ptr.dtype == np.int64
            assert back.col_idx.dtype == np.int32
            if form.keeps_zeros:
                assert back.equals(rounded)
            else:
                assert _without_zeros(back).equals(_without_zeros(rounded))


@pytest.mark.parametrize("form", formats().values(), ids=lambda f: f.name)
@pytest.mark.parametrize("name", battery())
def test_round_trip(form: Format, name: str) -> None:
    _check_round_trip(form, battery()[name])


@st.composite
def matrices(draw: st.DrawFn) -> CSR:
    rows, cols = draw(st.integers(0, 12)), draw(st.integers(0, 12))
    cells = draw(st.sets(st.integers(0, max(rows * cols - 1, 0)), max_size=40)) if rows * cols else set()
    position = np.array(sorted(cells), dtype=np.int64)
    values = None
    if draw(st.booleans()):
        values = draw(st.lists(st.floats(), min_size=len(position), max_size=len(position)))
    return csr(rows, cols, position // max(cols, 1), position % max(cols, 1), values)


@settings(max_examples=60, deadline=None)
@given(a=matrices())
def test_round_trip_of_anything(a: CSR) -> None:
    for form in formats().values():
        _check_round_trip(form, a)


@pytest.mark.parametrize("form", formats().values(), ids=lambda f: f.name)
def test_conversion_in_several_chunks(form: Format, monkeypatch: pytest.MonkeyPatch) -> None:
    # Chunks are half a million entries; the battery's matrices fit one, so shrink them.
    monkeypatch.setattr(row_ranges, "__defaults__", (7, 1))
    for name in ("every-length-to-70", "long-empty-stretches", "hub-5000", "first-and-last-row-empty"):
        _check_round_trip(form, battery()[name])


def test_packed_survives_pickling_and_names_a_missing_array() -> None:
    packed = get_format("ell").pack(battery()["tridiagonal"])
    assert pickle.loads(pickle.dumps(packed.arrays["col"])).shape == (3, 300)
    assert packed.slots == 3
    with pytest.raises(AttributeError, match="format ell has no array or scalar named 'row_ptr'"):
        _ = packed.row_ptr


# ---- layout: what the kernels rely on --------------------------------------------------------------------

SMALL = csr(4, 6, [0, 0, 2, 2, 2, 3], [1, 4, 0, 2, 5, 3], [1, 2, 3, 4, 5, 6])


def test_coo_is_sorted_by_row_and_unpacks_unsorted() -> None:
    packed = get_format("coo").pack(SMALL)
    assert packed.row.tolist() == [0, 0, 2, 2, 2, 3]
    shuffled = np.random.default_rng(0).permutation(6)
    loose = dataclasses.replace(packed, arrays={k: v[shuffled] for k, v in packed.arrays.items()})
    assert get_format("coo").unpack(loose).equals(SMALL)


def test_unsorted_coo_is_what_a_loop_over_elements_leaves() -> None:
    a = csr(3, 3, [0, 0, 1, 2], [0, 2, 1, 0], [1, 2, 3, np.inf])
    packed = get_format("coo-unsorted").pack(a, np.float64)
    assert list(zip(packed.row, packed.col, packed.val, strict=True)) == [
        *[(0, 0, 0.5), (0, 2, 1), (0, 0, 0.5), (2, 0, np.inf)],  # row 0, column 0
        *[(1, 1, 1.5), (1, 1, 1.5)],
        *[(2, 0, np.inf), (0, 2, 1)],
    ]
    assert packed.compulsory_bytes == packed.stored_bytes == 8 * 16
    least = np.finfo(np.float32).smallest_subnormal
    halves = get_format("coo-unsorted").pack(csr(1, 1, [0], [0], [float(least)]), np.float32).val
    assert sorted(halves) == [0, least]


def test_csc_rows_rise_within_columns() -> None:
    packed = get_format("csc").pack(csr(3, 2, [2, 0, 1, 2], [0, 0, 1, 1], [1, 2, 3, 4]))
    assert packed.col_ptr.tolist() == [0, 2, 4]
    assert packed.row.tolist() == [0, 2, 1, 2]
    assert packed.val.tolist() == [2, 1, 3, 4]


def test_ell_is_slot_major_and_padding_is_marked() -> None:
    packed = get_format("ell").pack(SMALL)
    assert packed.col.tolist() == [[1, -1, 0, 3], [4, -1, 2, -1], [-1, -1, 5, -1]]
    assert packed.val.tolist() == [[1, 0, 3, 6], [2, 0, 4, 0], [0, 0, 5, 0]]
    assert packed.compulsory_bytes == 6 * 8
    assert packed.stored_bytes == 12 * 8
    by_row = get_format("ell-rows").pack(SMALL)
    assert by_row.row_col.tolist() == [[1, 4, -1], [-1, -1, -1], [0, 2, 5], [3, -1, -1]]
    assert by_row.row_val.tolist() == [[1, 2, 0], [0, 0, 0], [3, 4, 5], [6, 0, 0]]
    assert (by_row.compulsory_bytes, by_row.stored_bytes) == (6 * 8, 12 * 8)


def test_hyb_tail_holds_what_is_beyond_the_slots() -> None:
    packed = get_format("hyb").pack(SMALL, hyb_k=1)
    assert packed.ell_col.tolist() == [[1, -1, 0, 3]]
    assert packed.coo_row.tolist() == [0, 2, 2]
    assert packed.coo_col.tolist() == [4, 2, 5]
    assert packed.coo_val.tolist() == [2, 4, 5]
    assert packed.tail == 3
    assert packed.compulsory_bytes == 3 * 8 + 3 * 12


def test_jds_is_sorted_stably_and_packed_by_slots() -> None:
    packed = get_format("jds").pack(csr(4, 6, [0, 0, 2, 2, 2, 3, 3], [1, 4, 0, 2, 5, 3, 4], range(7)))
    assert packed.perm.tolist() == [2, 0, 3, 1]  # rows 0 and 3 are equally long and keep their order
    assert packed.slot_start.tolist() == [0, 3, 6, 7]
    assert packed.col.tolist() == [0, 1, 3, 2, 4, 4, 5]


def test_sell_slices_are_as_wide_as_their_longest_row() -> None:
    a = random_rows([1] * 40 + [3] + [2] * 10, 9)  # rows 32..50 are the second slice
    packed = get_format("sell").pack(a, sell_sigma=1)
    assert packed.slice_ptr.tolist() == [0, 32, 32 + 3 * 32]
    assert "perm" not in packed.arrays
    second = packed.col[32:].reshape(3, 32)
    assert (second >= 0).sum(axis=0).tolist() == [1] * 8 + [3] + [2] * 10 + [0] * 13
    assert second[:, 8].tolist() == a.col_idx[40:43].tolist()


def test_sell_sorts_within_windows_only() -> None:
    packed = get_format("sell").pack(csr(6, 3, [1, 1, 2, 4, 5, 5, 5], [0, 1, 0, 0, 0, 1, 2]), sell_sigma=3)
    assert packed.perm.tolist() == [1, 2, 0, 5, 4, 3]
    assert packed.sigma == 3


def test_sell_sigma_auto_sorts_only_where_it_pays() -> None:
    assert choose_sigma(np.full(1000, 5)) == 1
    assert choose_sigma(np.tile([1, 64], 500)) == 256
    assert choose_sigma(np.zeros(0, np.int64)) == 1
    for bad in ("wide", 0, -3):
        with pytest.raises(UsageError, match="sell_sigma cannot be"):
            choose_sigma(np.ones(3, np.int64), bad)


def test_dia_is_stored_by_slices_of_rows() -> None:
    packed = get_format("dia").pack(csr(130, 131, [0, 1, 1, 2, 129], [0, 1, 2, 3, 130], [1, 2, 3, 4, 5]))
    assert packed.diag.tolist() == [0, 1]
    assert packed.data.shape == (2, 2, 128)
    assert packed.data[0, :, :3].tolist() == [[1, 2, 0], [0, 3, 4]]
    assert packed.data[1, 1, 1] == 5
    assert packed.data.sum() == 15


def _block_diagonals(size: int, shifts: tuple[int, ...], rows: int, cols: int) -> CSR:
    """Dense blocks of size x size on diagonals of blocks, cut off at the matrix's edge."""
    row = np.repeat(np.arange(rows), len(shifts) * size)
    col = row - row % size + np.tile((np.array(shifts)[:, None] * size + np.arange(size)).reshape(-1), rows)
    inside = (col >= 0) & (col < cols)
    return csr(rows, cols, row[inside], col[inside], 1.0 + np.arange(inside.sum()))


def test_dia_of_groups_of_rows() -> None:
    a = _block_diagonals(2, (0, 1), 5, 6)  # the last group is a single row
    packed = get_format("dia").pack(a, group="2")
    assert (packed.group, packed.diag.tolist()) == (2, [0, 1, 2, 3])
    by_row = packed.data[0].T
    assert by_row[:6].tolist() == [
        [1, 2, 3, 4],
        [5, 6, 7, 8],
        [9, 10, 11, 12],
        [13, 14, 15, 16],
        [17, 18, 0, 0],
        [0, 0, 0, 0],
    ]
    assert packed.compulsory_bytes == 4 * 4 + a.nnz * 4
    alone = get_format("dia").pack(a, group=1)
    assert (alone.group, alone.diag.tolist()) == (1, [-1, 0, 1, 2, 3])


@pytest.mark.parametrize(
    ("a", "group", "diagonals"),
    [
        (_block_diagonals(3, (-40, -1, 0, 1, 40), 300, 300), 3, 15),
        (_block_diagonals(3, (-40, -1, 0, 1, 40), 299, 310), 3, 15),
        (_block_diagonals(2, (0,), 100, 100), 2, 2),
        (_block_diagonals(4, (0, 9), 100, 100), 4, 8),
        (_block_diagonals(8, (-3, 0, 5), 200, 190), 8, 24),
        (_block_diagonals(7, (0, 1, 2, 3, 4, 5), 700, 700), 7, 42),  # 48 as single rows
        (make("poisson2d:n=30").csr, 1, 5),
        (make("banded:n=300,diagonals=27").csr, 1, 27),
        (make("blocks:n=12,block=3").csr, 3, 15),
        (make("blocks:n=12,block=5").csr, 5, 25),
        (battery()["0x0"], 1, 0),
        (battery()["no-nonzeros"], 1, 0),
    ],
)
def test_dia_groups_rows_where_that_leaves_fewer_diagonals(a: CSR, group: int, diagonals: int) -> None:
    result, diag = choose_group(a, None)
    assert (result, len(diag)) == (group, diagonals)
    packed = get_format("dia").pack(a)
    assert (packed.group, packed.diagonals) == (group, diagonals)
    assert packed.stored_bytes == get_format("dia").predict_bytes(row_stats(a))


def test_dia_is_judged_with_its_rows_grouped() -> None:
    dia, a = get_format("dia"), _block_diagonals(3, (0,), 90, 90)
    assert dia.refuse(row_stats(a), None) is None
    rows = _block_diagonals(8, (0,), 800, 800)
    mask = np.arange(rows.nnz) % 8 < 5  # 5 of 8 in each row: 0.62 of 8 diagonals, 0.42 of 12
    thin = csr(800, 800, np.repeat(np.arange(800), 5), rows.col_idx[mask], np.ones(mask.sum()))
    assert dia.refuse(row_stats(thin), None) is None
    assert "DIA would be 0.42 full" in str(dia.refuse(row_stats(thin), None, group=1))
    for bad in (0, 9, "many", "1.5"):
        with pytest.raises(UsageError, match="group cannot be"):
            dia.pack(thin, group=bad)


def test_a_matrix_of_far_too_many_diagonals_is_not_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    a = random_rows([4] * 600, 4000)
    monkeypatch.setattr("spgraph_bench.formats.dia._at_least", lambda csr: pytest.fail("looked at it"))
    assert choose_group(a, None)[0] == 1


def test_dia_refusals() -> None:
    dia = get_format("dia")
    assert dia.refuse(row_stats(battery()["tridiagonal"]), None) is None
    arrow = row_stats(battery()["arrow"])
    assert dia.refuse(arrow, None) == (
        "DIA would be 0.015 full (least 0.5), 99.6 kB: 193 diagonals of 97 rows hold an entry; --force-format overrides"
    )
    assert dia.refuse(arrow, None, force=True) is None
    assert "DIA needs 99.6 kB" in str(dia.refuse(arrow, 1000, force=True))


def test_pattern_counts_as_ones() -> None:
    for form in _with_values_formats():
        packed = form.pack(battery()["pattern"])
        values = [a for n, a in packed.arrays.items() if n.endswith(("val", "data", "weight"))]
        assert values or packed.value == 1
        stored = {0.5} if form.name == "coo-unsorted" else {0.0, 1.0}  # which stores each value as two halves
        assert all(set(np.unique(a)) <= stored for a in values)


# ---- HYB's choice of K -----------------------------------------------------------------------------------


@pytest.mark.parametrize("value_bytes", [4, 8])
@pytest.mark.parametrize("name", [n for n, a in battery().items() if a.rows])
def test_hyb_k_minimises_the_stated_cost(name: str, value_bytes: int) -> None:
    a = battery()[name]
    lengths = a.row_lengths()

    def cost(k: int) -> float:
        tail = np.maximum(lengths - k, 0).sum()
        return float(k * a.rows * (4 + value_bytes) + 2.0 * tail * (8 + value_bytes))

    longest = int(lengths.max())
    candidates = range(longest + 1) if longest < 2000 else [0, *np.unique(lengths), longest]
    best = min(candidates, key=lambda k: (cost(int(k)), k))
    chosen = choose_slots(row_stats(a), "auto", value_bytes)
    assert cost(chosen) == cost(int(best))


def test_hyb_k_of_even_rows_leaves_no_tail() -> None:
    packed = get_format("hyb").pack(battery()["tridiagonal"])
    assert packed.slots == 3
    assert packed.tail == 0


def test_hyb_k_median_and_refused_values() -> None:
    stats = row_stats(random_rows([1, 1, 2, 9, 9], 20))
    assert choose_slots(stats, "median") == 2
    assert choose_slots(stats, "4") == 4
    assert choose_slots(stats, 100) == 9
    for bad in ("third", -1, "-2"):
        with pytest.raises(UsageError, match="hyb_k cannot be"):
            choose_slots(stats, bad)


# ---- refusals --------------------------------------------------------------------------------------------


def test_ell_refusal_of_waste_gives_the_figures() -> None:
    a = random_rows([1] * 499 + [5000], 6000)
    ell = get_format("ell")
    reason = ell.refuse(row_stats(a), None)
    assert reason == (
        "ELL stores 455 slots per nonzero (limit 64), 20 MB: the longest row has 5,000 nonzeros, the mean of "
        "500 rows is 11; --force-format overrides"
    )
    assert ell.refuse(row_stats(a), None, force=True) is None
    assert get_format("hyb").refuse(row_stats(a), None) is None
    assert "HYB stores" in str(get_format("hyb").refuse(row_stats(a), None, hyb_k=5000))


def test_ell_refusal_of_memory_is_not_overridden() -> None:
    # rmat22's figures, without making it: 3.3 TB, which must be known without allocating.
    stats = dataclasses.replace(
        row_stats(random_rows([1, 2], 5)), rows=4_194_304, nnz=65_200_000, row_mean=15.6, row_max=97_913
    )
    reason = get_format("ell").refuse(stats, 139_000_000_000, force=True)
    assert reason == (
        "ELL needs 3.29 TB: the longest row has 97,913 nonzeros, the mean of 4.19 M rows is 15.6; "
        "device has 139 GB free"
    )


@pytest.mark.parametrize("form", formats().values(), ids=lambda f: f.name)
def test_every_format_refuses_what_does_not_fit(form: Format) -> None:
    a = battery()["random-1024"]
    stats = row_stats(a if form.keeps_values else dataclasses.replace(a, values=None))
    assert "device has 100 B free" in str(form.refuse(stats, 100))
    assert form.refuse(stats, 10**9) is None or not form.keeps_zeros or not form.keeps_values
    assert form.refuse(row_stats(battery()["0x0"]), 10**6) is None


@pytest.fixture(scope="module")
def four_million() -> CSR:
    return make("blocks:n=300").csr


@pytest.mark.parametrize("form", formats().values(), ids=lambda f: f.name)
def test_conversion_takes_at_most_three_times_input_and_output(form: Format, four_million: CSR) -> None:
    a = four_million if form.keeps_values else dataclasses.replace(four_million, values=None)
    tracemalloc.start()
    packed = form.pack(a)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    source = a.row_ptr.nbytes + a.col_idx.nbytes + (0 if a.values is None else a.values.nbytes)
    assert source + most <= 3 * (source + packed.stored_bytes)


@pytest.mark.parametrize("form", _with_values_formats(), ids=lambda f: f.name)
def test_types_that_no_kernel_has_are_refused(form: Format) -> None:
    with pytest.raises(UsageError, match="values cannot be int16"):
        form.pack(SMALL, np.int16)
    with pytest.raises(UsageError, match="row offsets cannot be int16"):
        form.pack(SMALL, np.float32, np.int16)


def test_binned_chunks_cut_rows_and_give_long_ones_several_sums() -> None:
    # Rows of 100, 0, 3 and 29 entries in bins of 50: the first is in two whole bins, the last in one more.
    row = np.repeat([0, 2, 3], [100, 3, 29])
    a = csr(4, 200, row, np.concatenate((np.arange(100), np.arange(3), np.arange(29))))
    packed = get_format("binned-chunks").pack(a, tiles=2, bin_entries=50, chunk_bins=2)
    assert (packed.tiles, packed.bins, packed.chunks) == (2, 3, 2)
    assert packed.bin_row.tolist() == [0, ~1, ~0, 2, 2, 4]
    assert packed.split_row.tolist() == [0]
    assert packed.chunk_bin.tolist() == [0, 2, 3]
    # With 1,024 entries in a row of a bin of 2,048 every slot has 1/512 of the bin at most.
    a = csr(2, 1024, np.repeat([0, 1], 1024), np.tile(np.arange(1024), 2))
    packed = get_format("binned-chunks").pack(a, tiles=1, bin_entries=2048)
    assert packed.extra_ptr.tolist() == [0, 510]
    assert np.bincount(packed.sum).max() == 4


def test_binned_counts_more_tiles_than_16_bits_hold() -> None:
    cols = 70_000
    a = csr(3, cols, [0, 0, 1, 2, 2], [0, 65_536, 4_463, 4_464, cols - 1], [1, 2, 3, 4, 5])
    packed = get_format("binned").pack(a, np.float64, tile_width=1)
    assert packed.tiles == cols
    assert get_format("binned").unpack(packed).equals(a)


def test_binned_with_the_largest_tile_and_bin_its_parameters_allow() -> None:
    n = 140_000  # more than two of each
    a = csr(2, n, np.repeat([0, 1], [n, 3]), np.concatenate((np.arange(n), [0, 65_534, n - 1])))
    packed = get_format("binned").pack(a, np.float64, tile_width=65_535, bin_entries="65535")
    assert (packed.tiles, packed.most_entries) == (3, 65_535)
    assert get_format("binned").unpack(packed).equals(a)


@pytest.mark.parametrize(
    ("form", "params", "remedy"),
    [
        ("binned", {"tile_width": 65_536}, "take auto or an integer from 1 to 65535 (k, M and G may follow)"),
        ("binned", {"bin_entries": "many"}, "take auto or an integer from 1 to 65535 (k, M and G may follow)"),
        ("binned-chunks", {"tiles": 0}, "take auto or an integer from 1 to 1048576 (k, M and G may follow)"),
        ("binned-chunks", {"chunk_bins": "none"}, "take auto or an integer from 1 to 1048576 (k, M and G may follow)"),
        (
            "binned-chunks",
            {"chunk_bins": float("inf")},
            "take auto or an integer from 1 to 1048576 (k, M and G may follow)",
        ),
    ],
)
def test_binned_parameters_out_of_bounds_are_usage(form: str, params: dict[str, object], remedy: str) -> None:
    with pytest.raises(UsageError, match="cannot be") as caught:
        get_format(form).pack(SMALL, **params)
    assert caught.value.remedy == remedy


def test_two_to_the_31_nonzeros_need_int64_offsets() -> None:
    # Kernels step past the end of a row before they look: the last few thousand numbers stay free for that.
    assert offset_type(np.int32, 2**31 - 2**16 - 1) == np.int32
    with pytest.raises(UsageError, match="int64"):
        offset_type(np.int32, 2**31 - 2**16)
    with pytest.raises(UsageError, match="2,147,483,648 entries are too many for int32"):
        offset_type(np.int32, 2**31)
    assert offset_type(np.int64, 2**31) == np.int64
    assert [offsets_for(2**31 - 2**16 - more).name for more in (1, 0)] == ["int32", "int64"]


def test_ell_index_passes_32_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    # k * rows + i of a matrix with 2^31 slots, in the conversion's own arithmetic.
    from spgraph_bench.formats import ell

    seen: list[int] = []
    rows, slots = 3_000_000, 800
    a = CSR(rows, 900, np.concatenate((np.zeros(rows, np.int64), [800])), np.arange(800, dtype=np.int32), np.ones(800))

    class Sink:
        def reshape(self, _: int) -> Sink:
            return self

        def __setitem__(self, position: np.ndarray, value: object) -> None:
            if position.size:
                seen.append(int(position.max()))

    monkeypatch.setattr(ell.np, "full", lambda *_: Sink())
    monkeypatch.setattr(ell.np, "zeros", lambda *_: Sink())
    ell.fill_slots(a, slots, np.dtype(np.float32))
    assert seen == [799 * rows + rows - 1] * 2
    assert seen[0] > 2**31


def test_what_was_found_of_one_matrix_is_not_given_for_another() -> None:
    """Nor where a thread looks at another one in the middle of the question."""
    last: OfLastMatrix[str] = OfLastMatrix()
    mine, other = random_rows([1, 2], 3), random_rows([2, 2], 3)
    last.put(mine, "bytes", "mine")

    class Slow:
        @property
        def col_idx(self) -> Any:
            last.put(other, "bytes", "other")
            return mine.col_idx

    question: Any = Slow()
    assert last.get(question, "bytes") == "mine"
    assert last.get(mine, "bytes") is None
    assert last.get(other, "bytes") == "other"
