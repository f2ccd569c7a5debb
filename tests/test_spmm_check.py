"""SpMM as a problem: inputs, oracle, bound, options; corrupted results must be found wrong."""

from __future__ import annotations

import hashlib
import math
from typing import Any

import numpy as np
import pytest
from battery import battery, csr, matrix, random_rows
from hypothesis import given, settings
from hypothesis import strategies as st

import spgraph_bench.problems.spmm as module
from spgraph_bench.errors import UsageError
from spgraph_bench.formats import get_format
from spgraph_bench.matrix import CSR
from spgraph_bench.problems import Problem, get_problem
from spgraph_bench.problems.spmm import SpMM, sum_type
from spgraph_bench.problems.summation import judge

F32, F64, F16 = np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.float16)


def _problem(k: int = 5, layout: str = "row") -> SpMM:
    return SpMM().configured({"k": k, "layout": layout})


def _right(problem: SpMM, a: CSR, dtype: np.dtype[Any]) -> tuple[np.ndarray, dict[str, Any]]:
    """A right answer and the oracle."""
    inputs = problem.inputs(matrix(a), dtype, 1)
    oracle = problem.oracle(matrix(a), inputs, dtype)
    with np.errstate(over="ignore"):
        y = oracle["r"].astype(sum_type(dtype))
    return (y if problem.layout == "row" else np.ascontiguousarray(y.T)), oracle


# ---- options ---------------------------------------------------------------------------------------------


def test_options_are_checked_and_have_defaults() -> None:
    assert (SpMM().k, SpMM().layout) == (32, "row")
    given_as_text = get_problem("spmm", {"k": "7", "layout": "column"})
    assert isinstance(given_as_text, SpMM)
    assert (given_as_text.k, given_as_text.layout) == (7, "column")
    for bad in ({"k": 0}, {"k": 513}, {"k": "many"}, {"k": "3.5"}, {"k": None}, {"k": True}):
        with pytest.raises(UsageError, match="k cannot be") as caught:
            _ = get_problem("spmm", bad)
        assert "from 1 to 512" in str(caught.value.remedy)
    with pytest.raises(UsageError, match="layout cannot be 'diagonal'"):
        get_problem("spmm", {"layout": "diagonal"})


def test_options_do_not_stick() -> None:
    get_problem("spmm", {"k": 7})
    result: Problem = get_problem("spmm")
    assert isinstance(result, SpMM)
    assert result.k == 32


# ---- inputs ----------------------------------------------------------------------------------------------


def test_inputs_are_the_same_everywhere_and_in_both_layouts() -> None:
    whole = matrix(csr(3, 1000, [0], [0]))
    row = _problem(7).inputs(whole, F32, 5)["x"]
    column = _problem(7, "column").inputs(whole, F32, 5)["x"]
    assert row.shape == (1000, 7)
    assert column.shape == (7, 1000)
    assert column.flags.c_contiguous
    assert np.array_equal(row, column.T)
    assert hashlib.sha256(row.tobytes()).hexdigest()[:16] == "1af2213c42b2a079"
    half = _problem(7).inputs(whole, F16, 5)["x"]
    assert half.dtype == F16
    assert hashlib.sha256(half.tobytes()).hexdigest()[:16] == "80adb7f8819e7965"
    assert not np.array_equal(row, _problem(7).inputs(whole, F32, 6)["x"])


@pytest.mark.parametrize("dtype", [F16, F32, F64])
def test_inputs_are_in_the_unit_interval(dtype: np.dtype[Any]) -> None:
    x = _problem(512).inputs(matrix(csr(1, 300, [0], [0])), dtype, 1)["x"].astype(np.float64)
    assert x.min() >= 0
    assert x.max() < 1  # half precision rounds 0.9998 up to 1
    assert abs(x.mean() - 0.5) < 0.01


def test_inputs_do_not_depend_on_the_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = matrix(csr(3, 100, [0], [0]))
    before = _problem(7).inputs(whole, F64, 5)["x"]
    monkeypatch.setattr(module, "_TERMS", 64)
    assert np.array_equal(before, _problem(7).inputs(whole, F64, 5)["x"])


# ---- oracle ----------------------------------------------------------------------------------------------


def _plain(a: CSR, x: np.ndarray, dtype: np.dtype[Any]) -> tuple[np.ndarray, np.ndarray]:
    """A X and |A| |X| by loops with exact sums."""
    k = x.shape[1]
    r, absax = np.zeros((a.rows, k)), np.zeros((a.rows, k))
    values = a.value_array().astype(dtype).astype(np.float64)
    for i in range(a.rows):
        entries = range(int(a.row_ptr[i]), int(a.row_ptr[i + 1]))
        for c in range(k):
            terms = [values[e] * float(x[a.col_idx[e], c]) for e in entries]
            r[i, c] = math.fsum(terms)
            absax[i, c] = math.fsum(map(abs, terms))
    return r, absax


@pytest.mark.parametrize("layout", ["row", "column"])
@pytest.mark.parametrize("name", ["every-length-to-70", "pattern", "duplicates-merged", "wide", "0x5", "5x0"])
def test_oracle_is_a_plain_loop(name: str, layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_TERMS", 100)  # many pieces, some of them a few columns of one row
    a, problem = battery()[name], _problem(3, layout)
    for dtype in (F64, F32, F16):
        x = problem.inputs(matrix(a), dtype, 2)["x"]
        oracle = problem.oracle(matrix(a), {"x": x}, dtype)
        r, absax = _plain(a, x if layout == "row" else x.T, dtype)
        np.testing.assert_allclose(oracle["r"], r, rtol=1e-13, atol=1e-13)
        np.testing.assert_allclose(oracle.get("absax", oracle["r"]), absax, rtol=1e-13)
        assert np.array_equal(oracle["lengths"], a.row_lengths())


def test_absax_is_omitted_only_where_it_is_r() -> None:
    problem = _problem(2)
    for values, there in (([1.0, 2.0], False), ([1.0, -2.0], True), ([1.0, np.inf], True), ([np.nan, 1], True)):
        a = csr(2, 2, [0, 1], [0, 1], values)
        assert ("absax" in problem.oracle(matrix(a), problem.inputs(matrix(a), F64, 1), F64)) is there
    large = csr(1, 1, [0], [0], [1e6])  # Inf in half precision
    assert "absax" in problem.oracle(matrix(large), problem.inputs(matrix(large), F16, 1), F16)


# ---- check -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["row", "column"])
@pytest.mark.parametrize("dtype", [F16, F32, F64])
@pytest.mark.parametrize("name", battery())
def test_a_right_answer_passes(name: str, dtype: np.dtype[Any], layout: str) -> None:
    problem = _problem(2, layout)
    y, oracle = _right(problem, battery()[name], dtype)
    result = problem.check(y, oracle, dtype)
    assert result.ok, result.message


@settings(max_examples=60, deadline=None)
@given(
    layout=st.sampled_from(["row", "column"]),
    dtype=st.sampled_from([F16, F32, F64]),
    row=st.integers(1, 70),
    column=st.integers(0, 4),
    up=st.booleans(),
)
def test_one_entry_wrong_is_found(layout: str, dtype: np.dtype[Any], row: int, column: int, up: bool) -> None:
    problem = _problem(5, layout)
    y, oracle = _right(problem, battery()["every-length-to-70"], dtype)
    view = y if layout == "row" else y.T
    bound = 2 * (row + 2) * float(np.finfo(y.dtype).eps) * oracle["absax"][row, column]
    view[row, column] += (1 if up else -1) * 1.1 * bound
    result = problem.check(y, oracle, dtype)
    assert not result.ok
    assert result.message.startswith(f"1 of 355 entries wrong, in 1 of 5 columns, the worst is row {row}, ")
    assert f"column {column} ({row} nonzeros)" in result.message
    assert (result.details["worst_row"], result.details["worst_column"]) == (row, column)
    assert result.details["max_error_ratio"] > 1


@pytest.mark.parametrize("layout", ["row", "column"])
def test_one_column_wrong_is_found(layout: str) -> None:
    problem = _problem(5, layout)
    y, oracle = _right(problem, battery()["tridiagonal"], F32)
    (y if layout == "row" else y.T)[:, 3] *= np.float32(1.001)
    result = problem.check(y, oracle, F32)
    assert not result.ok
    assert result.details["wrong_columns"] == 1
    assert result.details["worst_column"] == 3
    assert "in 1 of 5 columns" in result.message


@pytest.mark.parametrize("layout", ["row", "column"])
def test_columns_swapped_are_found(layout: str) -> None:
    problem = _problem(5, layout)
    y, oracle = _right(problem, battery()["tridiagonal"], F32)
    view = y if layout == "row" else y.T
    view[:, [1, 4]] = view[:, [4, 1]]
    result = problem.check(y, oracle, F32)
    assert not result.ok
    assert result.details["wrong_columns"] == 2


def test_the_other_layout_is_found() -> None:
    a = battery()["random-32"]  # Y is square: only the numbers tell
    problem = _problem(32)
    y, oracle = _right(problem, a, F32)
    result = problem.check(np.ascontiguousarray(y.T), oracle, F32)
    assert not result.ok
    assert result.details["wrong_columns"] == 32


@pytest.mark.parametrize("layout", ["row", "column"])
def test_an_omitted_entry_is_found(layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_TERMS", 100)  # looked at in several pieces
    problem = _problem(5, layout)
    y, oracle = _right(problem, battery()["tridiagonal"], F64)
    (y if layout == "row" else y.T).view(np.uint64)[217, 2] = 2**64 - 1
    result = problem.check(y, oracle, F64)
    assert not result.ok
    assert result.message == "1 of 1,500 entries never written, the first is row 217, column 2 (3 nonzeros)"
    (y if layout == "row" else y.T)[11, 1] = 100.0
    result = problem.check(y, oracle, F64)
    assert "2 of 1,500 entries wrong, in 2 of 5 columns, the worst is row 11, column 1" in result.message
    assert result.message.endswith("; 1 never written")


def test_shape_and_type_are_checked() -> None:
    problem = _problem(5)
    y, oracle = _right(problem, battery()["tridiagonal"], F32)
    assert problem.check(y.T, oracle, F32).message == "y is float32 [5, 300], not float32 [300, 5]"
    assert problem.check(y.astype(F64), oracle, F32).message == "y is float64 [300, 5], not float32 [300, 5]"
    assert not problem.check(y.astype(F16), oracle, F32).ok


def test_half_precision_bound_is_that_of_its_sums() -> None:
    """float32's eps, twice; a result in half precision may be off by its own rounding, and no more."""
    problem, a = _problem(4), random_rows([20] * 30, 50, 3)
    y, oracle = _right(problem, a, F16)
    bound = 2 * 22 * 2.0**-23 * oracle["absax"]
    assert problem.check((oracle["r"] + 0.9 * bound).astype(F32), oracle, F16).ok
    assert not problem.check((oracle["r"] + 1.2 * bound).astype(F32), oracle, F16).ok
    half = y.astype(F16)
    assert problem.check(half, oracle, F16).ok
    half[3, 1] = np.nextafter(np.nextafter(half[3, 1], F16.type(9)), F16.type(9))
    assert not problem.check(half, oracle, F16).ok


def test_judge_says_what_is_wrong() -> None:
    y = np.array([1.0, 2.0, 0.0], F32)
    y.view(np.uint32)[1] = 2**32 - 1
    judged = judge(y, np.array([1.0, 2.0, 1.0]), np.ones(3), np.array([1, 1, 1]))
    assert judged.wrong.tolist() == [False, True, True]
    assert judged.unwritten.tolist() == [False, True, False]
    assert judged.ratio[1] == np.inf
    assert judged.ratio[2] == pytest.approx(1 / (3 * 2.0**-23))


# ---- work ------------------------------------------------------------------------------------------------


def test_work_counts_every_column() -> None:
    a = battery()["tridiagonal"]
    problem, form = _problem(16), get_format("csr")
    work = problem.work((300, 300), form.pack(a, F32))
    assert work.operations == 2 * 898 * 16
    assert work.compulsory_bytes == 301 * 4 + 898 * 8 + 2 * 300 * 16 * 4
    assert work.gathered_bytes == 898 * 16 * 4
    assert problem.rate(work, 1e-3) == pytest.approx(898 * 32 / 1e6)
    half = problem.work((300, 300), form.pack(a, F16))
    assert half.compulsory_bytes == 301 * 4 + 898 * 6 + 300 * 16 * (2 + 4)  # Y is float32
