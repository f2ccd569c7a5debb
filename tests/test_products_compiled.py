"""Compiled code checks products as numpy does, bit by bit, with any number of threads."""

from __future__ import annotations

import dataclasses
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from battery import matrix, random_rows
from hypothesis import given, settings
from hypothesis import strategies as st

from spgraph_bench import threads
from spgraph_bench.problems import compiled, get_problem
from spgraph_bench.problems.exact import row_sums, small_values, small_x
from spgraph_bench.problems.summation import judge, plainly_right

pytestmark = pytest.mark.skipif(compiled._library() is None, reason="no C++ compiler")
TYPES = [np.dtype(np.float32), np.dtype(np.float64)]
MATRICES = {
    "uneven": random_rows([0, 1, 300, 0, 7, 64, 2, 0], 1000),
    "even": random_rows([5] * 200, 90),
    "empty": random_rows([0, 0], 3),
}


@contextmanager
def _used(cores: int = 3) -> Iterator[None]:
    """Compiled code is used, however little there is to do."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threads, "WORTH_ENTRIES", 0)
        for module in (compiled, threads):
            patch.setattr(module, "usable_cores", lambda: cores)
        yield


@given(
    st.sampled_from(TYPES), st.lists(st.floats(width=32), max_size=60), st.integers(0, 2**32 - 1), st.integers(1, 64)
)
@settings(deadline=None)
def test_small_values_are_the_same(dtype: np.dtype[Any], given_values: list[float], key: int, most: int) -> None:
    values = np.array([*given_values, 0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40], dtype)
    by_numpy = small_values(values, key, most)
    with _used():
        assert np.array_equal(small_values(values, key, most), by_numpy)
    assert by_numpy.min() >= 0
    assert by_numpy.max() <= most
    assert not by_numpy[-6:-4].any()


def test_threads_share_values_without_an_array_of_their_places() -> None:
    """Of 2^31 values it took 16 GiB."""
    values = np.ones(1 << 20, np.float32)
    tracemalloc.start()
    try:
        with _used():
            drawn = small_values(values, 1, 9)
        assert tracemalloc.get_traced_memory()[1] < 1.1 * drawn.nbytes
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", MATRICES)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("columns", [1, 9])
@pytest.mark.parametrize("pattern", [False, True])
def test_integer_sums_are_the_same(name: str, dtype: np.dtype[Any], columns: int, pattern: bool) -> None:
    csr = dataclasses.replace(MATRICES[name], **({"values": None} if pattern else {}))
    x = small_x(1, (csr.cols, columns), 20, dtype)
    by_numpy = row_sums(csr, x, dtype, 77, 30)
    with _used():
        assert np.array_equal(row_sums(csr, x, dtype, 77, 30), by_numpy)


def _sums(dtype: np.dtype[Any], shape: tuple[int, ...], seed: int) -> tuple[Any, Any, Any, Any]:
    bits = np.random.default_rng(seed)
    r = bits.uniform(-1, 1, shape)
    absax = np.abs(r) + bits.uniform(0, 3, shape)
    lengths = bits.integers(0, 50, shape[0])
    y = (r + bits.uniform(-1, 1, shape) * np.finfo(dtype).eps * absax).astype(dtype)
    return y, r, absax, lengths


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(1,), (257,), (40, 7)])
@pytest.mark.parametrize("seed", range(4))
def test_right_sums_are_right_with_the_same_worst(dtype: np.dtype[Any], shape: tuple[int, ...], seed: int) -> None:
    y, r, absax, lengths = _sums(dtype, shape, seed)
    # float32 rounds y once more, for which the bound has room.
    judged = judge(y, r, absax, lengths if r.ndim == 1 else lengths[:, None])
    assert not judged.wrong.any()
    place = int(np.argmax(judged.ratio))
    for cores in (1, 3):
        with _used(cores):
            assert plainly_right(y, r, absax, lengths) == (place, judged.ratio.flat[place])
            if y.ndim == 2:  # column-major
                assert plainly_right(np.asfortranarray(y), r, absax, lengths) == (place, judged.ratio.flat[place])


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("fault", ["nan", "inf", "unwritten", "beyond", "overflow", "expected-nan"])
def test_what_is_not_plainly_right_is_left_to_numpy(dtype: np.dtype[Any], fault: str) -> None:
    y, r, absax, lengths = _sums(dtype, (300,), 5)
    if fault == "beyond":
        y[299] = r[299] + 60 * np.finfo(dtype).eps * absax[299]
    elif fault == "overflow":
        absax[7] = float(np.finfo(dtype).max)
    elif fault == "expected-nan":
        y[7] = r[7] = np.nan
    else:
        bits = {"nan": np.nan, "inf": np.inf}.get(fault)
        y[7] = np.frombuffer(b"\xff" * dtype.itemsize, dtype)[0] if bits is None else bits
    with _used():
        assert plainly_right(y, r, absax, lengths) is None


def test_halves_are_left_to_numpy() -> None:
    y, r, absax, lengths = _sums(np.dtype(np.float32), (300,), 6)
    with _used():
        assert plainly_right(y.astype(np.float16), r, absax, lengths, 2.0, np.dtype(np.float32)) is None


@pytest.mark.parametrize("problem", ["spmv", "spmm"])
def test_a_product_is_checked_as_numpy_checks_it(problem: str) -> None:
    held, dtype, product = matrix(MATRICES["uneven"]), TYPES[0], get_problem(problem, {})
    inputs = product.inputs(held, dtype, 1)
    oracle = product.oracle(held, inputs, dtype)
    output = oracle["r"].astype(dtype)
    by_numpy = product.check(output, oracle, dtype)
    with _used():
        assert product.check(output, oracle, dtype) == by_numpy
        output.flat[-1] += 1
        assert not product.check(output, oracle, dtype).ok
