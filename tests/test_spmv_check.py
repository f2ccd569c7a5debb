"""The SpMV oracle against plain Python, and the checker against outputs that are wrong."""

from __future__ import annotations

import math

import numpy as np
import pytest
from battery import battery, csr, matrix, random_rows
from hypothesis import given, settings
from hypothesis import strategies as st

from spgraph_bench.formats import get_format
from spgraph_bench.matrix import CSR
from spgraph_bench.problems import CheckResult, get_problem
from spgraph_bench.stats import row_ranges

SPMV = get_problem("spmv")
EXPECTED_X = [0.5118216247002567, 0.9504636963259353, 0.14415961271963373, 0.9486494471372439]
DTYPES = [np.dtype(np.float32), np.dtype(np.float64)]


def _inputs(a: CSR, dtype: np.dtype) -> dict[str, np.ndarray]:
    return SPMV.inputs(matrix(a), dtype, seed=1)


def _oracle(a: CSR, dtype: np.dtype, x: np.ndarray | None = None) -> dict[str, np.ndarray]:
    return SPMV.oracle(matrix(a), _inputs(a, dtype) if x is None else {"x": x}, dtype)


def _plain(a: CSR, x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """A x as a beginner would write it, in `dtype`, entry by entry."""
    y = np.zeros(a.rows, dtype)
    with np.errstate(all="ignore"):
        values = a.value_array().astype(dtype)
        for i in range(a.rows):
            for e in range(a.row_ptr[i], a.row_ptr[i + 1]):
                y[i] += values[e] * x[a.col_idx[e]]
    return y


def _check(a: CSR, y: np.ndarray, dtype: np.dtype, x: np.ndarray | None = None) -> CheckResult:
    return SPMV.check(y.astype(dtype, copy=False), _oracle(a, dtype, x), dtype)


def _poison(n: int, dtype: np.dtype) -> np.ndarray:
    return np.full(n * dtype.itemsize, 0xFF, np.uint8).view(dtype)


# ---- inputs and oracle -----------------------------------------------------------------------------------


def test_x_is_the_same_everywhere() -> None:
    x = _inputs(csr(1, 4, [], []), np.dtype(np.float64))["x"]
    assert x.tolist() == EXPECTED_X
    narrow = _inputs(csr(1, 4, [], []), np.dtype(np.float32))["x"]
    assert narrow.dtype == np.float32
    assert np.array_equal(narrow, x.astype(np.float32))
    assert not np.array_equal(x, SPMV.inputs(matrix(csr(1, 4, [], [])), np.dtype(np.float64), 2)["x"])


def test_x_stays_below_one_in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    class Top:
        def __init__(self, seed: int) -> None: ...

        def random_raw(self, n: int) -> np.ndarray:
            return np.full(n, 2**64 - 1, np.uint64)

    monkeypatch.setattr(np.random, "PCG64", Top)
    for dtype in DTYPES:
        assert _inputs(csr(1, 3, [], []), dtype)["x"].max() < 1


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", [n for n, a in battery().items() if a.nnz < 20_000])
def test_oracle_against_a_plain_loop_with_fsum(name: str, dtype: np.dtype) -> None:
    a = battery()[name]
    x = _inputs(a, dtype)["x"].astype(np.float64)
    with np.errstate(over="ignore"):
        values = a.value_array().astype(dtype).astype(np.float64)
    oracle = _oracle(a, dtype)
    for i in range(a.rows):
        terms = [values[e] * x[a.col_idx[e]] for e in range(a.row_ptr[i], a.row_ptr[i + 1])]
        assert oracle["lengths"][i] == len(terms)
        if all(math.isfinite(t) for t in terms):
            scale = math.fsum(abs(t) for t in terms)
            assert oracle["r"][i] == pytest.approx(math.fsum(terms), rel=0, abs=len(terms) * 2.3e-16 * scale)
            assert oracle["absax"][i] == pytest.approx(scale, rel=1e-12, abs=0)
        else:
            # Plain left-to-right addition gives IEEE's answer; fsum raises on Inf - Inf.
            with np.errstate(invalid="ignore"):
                np.testing.assert_equal(oracle["r"][i], sum(terms, 0.0))
            assert math.isfinite(oracle["absax"][i])


def test_oracle_in_several_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    a = battery()["every-length-to-70"]
    whole = _oracle(a, DTYPES[1])
    monkeypatch.setattr(row_ranges, "__defaults__", (50, 1))
    parts = _oracle(a, DTYPES[1])
    for key, values in whole.items():
        np.testing.assert_array_equal(parts[key], values)


# ---- right answers pass ----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", [n for n, a in battery().items() if a.nnz < 20_000])
def test_a_plain_sum_passes(name: str, dtype: np.dtype) -> None:
    a = battery()[name]
    result = _check(a, _plain(a, _inputs(a, dtype)["x"], dtype), dtype)
    assert result.ok, result.message
    assert result.message == ""
    assert result.details["wrong_rows"] == 0
    assert result.details.get("max_error_ratio", 0.0) <= 1


@settings(max_examples=150, deadline=None)
@given(
    terms=st.lists(st.tuples(st.floats(width=32), st.floats(width=32)), min_size=1, max_size=12),
    order=st.randoms(use_true_random=False),
)
def test_any_order_of_any_terms_passes(terms: list[tuple[float, float]], order) -> None:
    a = csr(1, len(terms), [0] * len(terms), range(len(terms)), [t[0] for t in terms])
    for dtype in DTYPES:
        x = np.array([t[1] for t in terms], dtype)
        y = dtype.type(0)
        places = list(range(len(terms)))
        order.shuffle(places)
        with np.errstate(all="ignore"):
            for k in places:
                y += dtype.type(terms[k][0]) * x[k]
        result = _check(a, np.array([y]), dtype, x)
        assert result.ok, result.message


def test_a_lost_term_of_the_other_sign_may_overflow_too() -> None:
    """In float64 the second product is below the rounding of the sum, in float32 both are infinite."""
    nan, inf = (np.array([value], np.float32) for value in (np.nan, np.inf))
    x = np.array([5e27, 1e19], np.float32)
    lost = csr(1, 2, [0, 0], [0, 1], [5e27, -5e19])  # 2.5e55 - 5e38
    assert _check(lost, nan, DTYPES[0], x).ok
    assert _check(lost, inf, DTYPES[0], x).ok
    alone = csr(1, 2, [0, 0], [0, 1], [5e15, 5e19])  # 2.5e43 + 5e38
    assert _check(alone, inf, DTYPES[0], x).ok
    assert not _check(alone, nan, DTYPES[0], x).ok


def test_the_bound_is_not_generous() -> None:
    """Three times the bound's own unit is wrong, and the bound grows with the row's length only."""
    a = random_rows([1, 10, 100], 200)
    for dtype in DTYPES:
        oracle = _oracle(a, dtype)
        eps = np.finfo(dtype).eps
        for row in range(3):
            y = oracle["r"].astype(dtype)
            step = (oracle["lengths"][row] + 2) * eps * oracle["absax"][row]
            y[row] = oracle["r"][row] + 0.4 * step
            assert SPMV.check(y, oracle, dtype).ok
            y[row] = oracle["r"][row] + 3 * step
            assert not SPMV.check(y, oracle, dtype).ok


# ---- wrong answers fail ----------------------------------------------------------------------------------

A = random_rows([5, 0, 17, 64, 3, 200, 1], 300, seed=3)


@pytest.fixture(params=DTYPES, ids=str)
def right(request: pytest.FixtureRequest) -> np.ndarray:
    return _plain(A, _inputs(A, request.param)["x"], request.param)


def test_one_row_wrong(right: np.ndarray) -> None:
    for row in range(A.rows):
        y = right.copy()
        y[row] += 0.01
        result = _check(A, y, y.dtype)
        assert not result.ok
        assert result.details["worst_row"] == row
        assert result.details["worst_row_length"] == A.row_lengths()[row]
        assert f"1 of 7 rows wrong, the worst is row {row} ({A.row_lengths()[row]} nonzeros)" in result.message


def test_one_row_unwritten(right: np.ndarray) -> None:
    for row in range(A.rows):
        y = right.copy()
        y[row : row + 1] = _poison(1, y.dtype)
        result = _check(A, y, y.dtype)
        assert not result.ok
        assert result.message.startswith(f"1 of 7 rows never written, the first is row {row}")
        assert result.details["unwritten_rows"] == 1


def test_nothing_written(right: np.ndarray) -> None:
    result = _check(A, _poison(A.rows, right.dtype), right.dtype)
    assert result.message.startswith("7 of 7 rows never written, the first is row 0")


def test_wrong_and_unwritten_are_distinguished(right: np.ndarray) -> None:
    y = right.copy()
    y[0:1] = _poison(1, y.dtype)
    y[3] *= 2
    result = _check(A, y, y.dtype)
    assert result.message.startswith("2 of 7 rows wrong, the worst is row 3 (64 nonzeros)")
    assert result.message.endswith("; 1 never written")
    assert (result.details["wrong_rows"], result.details["unwritten_rows"]) == (2, 1)


def test_rows_swapped(right: np.ndarray) -> None:
    y = right.copy()
    y[[2, 3]] = y[[3, 2]]
    assert not _check(A, y, y.dtype).ok


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_one_dropped_nonzero(dtype: np.dtype) -> None:
    x = _inputs(A, dtype)["x"]
    for dropped in range(A.nnz):
        values = A.value_array().copy()
        term = abs(values[dropped]) * x[A.col_idx[dropped]]
        row = int(np.searchsorted(A.row_ptr, dropped, side="right")) - 1
        values[dropped] = 0
        y = _plain_fast(CSR(A.rows, A.cols, A.row_ptr, A.col_idx, values), x, dtype)
        eps, absax = np.finfo(dtype).eps, _oracle(A, dtype)["absax"][row]
        if term > 2 * (A.row_lengths()[row] + 2) * eps * absax:  # smaller ones drown in rounding
            assert not _check(A, y, dtype).ok


def _plain_fast(a: CSR, x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    return a.to_scipy(dtype) @ x


def test_last_row_and_empty_row_count(right: np.ndarray) -> None:
    y = right.copy()
    y[1] = 1e-30  # row 1 is empty: exactly 0 or wrong
    assert not _check(A, y, y.dtype).ok
    y[1] = -0.0
    assert _check(A, y, y.dtype).ok


def test_nan_and_inf_must_be_those_of_the_oracle() -> None:
    values = np.ones(6)
    values[[0, 2, 4, 5]] = np.nan, np.inf, np.inf, -np.inf
    a = csr(3, 2, [0, 0, 1, 1, 2, 2], [0, 1] * 3, values)  # NaN, Inf, Inf - Inf = NaN
    for dtype in DTYPES:
        x = np.full(2, 0.5, dtype)
        assert _check(a, np.array([np.nan, np.inf, np.nan]), dtype, x).ok
        for bad in (
            [0.0, np.inf, np.nan],  # NaN turned to 0
            [np.nan, -np.inf, np.nan],
            [np.nan, np.nan, np.nan],
            [np.nan, 1e30, np.nan],
            [np.nan, np.inf, np.inf],
            [np.nan, np.inf, 0.0],
        ):
            result = _check(a, np.array(bad), dtype, x)
            assert not result.ok
            assert result.details["wrong_rows"] == 1


def test_nan_where_the_oracle_is_finite(right: np.ndarray) -> None:
    for odd in (np.nan, np.inf, -np.inf):
        y = right.copy()
        y[3] = odd
        result = _check(A, y, y.dtype)
        assert not result.ok
        assert result.details["max_error_ratio"] is None


def test_unwritten_where_nan_is_right() -> None:
    """The poison is a NaN, but not one that arithmetic gives: it does not pass for a computed NaN."""
    a = csr(2, 1, [0, 1], [0, 0], [np.nan, 1.0])
    for dtype in DTYPES:
        x = np.ones(1, dtype)
        y = np.array([np.nan, 1.0], dtype)
        assert _check(a, y, dtype, x).ok
        y[0:1] = _poison(1, dtype)
        assert "1 of 2 rows never written" in _check(a, y, dtype, x).message


def test_overflow_of_float32() -> None:
    a = csr(2, 3, [0, 0, 1, 1, 1], [0, 1, 0, 1, 2], [3e38, 3e38, 3e38, 3e38, -3e38])
    dtype, x = DTYPES[0], np.ones(3, np.float32)
    for y in ([np.inf, 3e38], [np.inf, np.inf], [np.inf, np.nan]):  # the second row depends on the order
        assert _check(a, np.array(y), dtype, x).ok
    for y in ([-np.inf, 3e38], [np.nan, 3e38], [3.4e38, 3e38], [np.inf, 1e38]):
        assert not _check(a, np.array(y), dtype, x).ok
    in_double = np.array([6e38, 3e38])
    assert _check(a, in_double, DTYPES[1], np.ones(3)).ok
    assert not _check(a, np.array([np.inf, 3e38]), DTYPES[1], np.ones(3)).ok


def test_float32_may_be_flushed_as_atomics_do_and_no_further() -> None:
    a = csr(1, 1, [0], [0], [1e-40])
    x = np.array([0.75], np.float32)
    for y in (7.5e-41, 0.0):
        assert _check(a, np.float32([y]), DTYPES[0], x).ok
    assert not _check(a, np.float32([1.3e-38]), DTYPES[0], x).ok
    small, one = csr(1, 1, [0], [0], [1e-310]), np.array([0.75])
    assert _check(small, np.array([7.5e-311]), DTYPES[1], one).ok
    assert not _check(small, np.array([0.0]), DTYPES[1], one).ok  # float64 atomics keep subnormals


def test_wrong_shape_or_type_is_a_failure_not_a_crash() -> None:
    oracle = _oracle(A, DTYPES[0])
    assert "y is float32 [6], not float32 [7]" in SPMV.check(np.zeros(6, np.float32), oracle, DTYPES[0]).message
    assert "y is float64 [7], not float32 [7]" in SPMV.check(np.zeros(7), oracle, DTYPES[0]).message


def test_no_rows() -> None:
    result = _check(csr(0, 4, [], []), np.zeros(0), DTYPES[0])
    assert result.ok
    assert result.details["wrong_rows"] == 0


# ---- work model ------------------------------------------------------------------------------------------


def test_work_and_rate() -> None:
    a = battery()["tridiagonal"]
    for name in ("csr", "ell"):
        packed = get_format(name).pack(a, np.float32)
        work = SPMV.work(a.shape, packed)
        assert work.operations == 2 * 898
        assert work.compulsory_bytes == packed.compulsory_bytes + 600 * 4
        assert work.gathered_bytes == 898 * 4
    assert work.stored_bytes == 900 * 8
    assert SPMV.rate(work, 1e-6) == pytest.approx(1.796)
