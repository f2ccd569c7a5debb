"""Blocked-ELL: layout, both block sizes, half precision, refusals."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from battery import battery, csr
from hypothesis import given, settings
from hypothesis import strategies as st

from spgraph_bench.errors import UsageError
from spgraph_bench.formats import get_format
from spgraph_bench.matrix import CSR
from spgraph_bench.stats import row_ranges, row_stats

FORM = get_format("blocked-ell")


def _without_zeros(a: CSR) -> CSR:
    if a.values is None:
        return a
    mask = a.values != 0
    row = np.repeat(np.arange(a.rows), a.row_lengths())[mask]
    row_ptr = np.concatenate(([0], np.cumsum(np.bincount(row, minlength=a.rows)))).astype(np.int64)
    return CSR(a.rows, a.cols, row_ptr, a.col_idx[mask], a.values[mask])


def test_layout() -> None:
    packed = FORM.pack(csr(40, 70, [0, 1, 17, 39, 39], [0, 69, 20, 3, 4], [1, 2, 3, 4, 5]))
    assert (packed.side, packed.width, packed.blocks) == (16, 2, 4)
    assert packed.block_col.tolist() == [[0, 4], [1, -1], [0, -1]]
    assert packed.block_val.shape == (3, 2, 16, 16)
    assert packed.block_val[0, 0, 0, 0] == 1
    assert packed.block_val[0, 1, 1, 5] == 2
    assert packed.block_val[1, 0, 1, 4] == 3
    assert packed.block_val[2, 0, 7, 3:5].tolist() == [4, 5]
    assert np.count_nonzero(packed.block_val) == 5
    assert packed.compulsory_bytes == 4 * 4 + 5 * 4


@pytest.mark.parametrize("side", [16, "32"])
@pytest.mark.parametrize("name", battery())
def test_round_trip_in_half_precision(name: str, side: int | str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_ranges, "__defaults__", (50, 1))  # several chunks
    a = battery()[name]
    predicted = FORM.predict_bytes(row_stats(a), 2, ell_block=side)
    if predicted > 30_000_000:
        assert FORM.refuse(row_stats(a), None, 2, ell_block=side)
        return
    packed = FORM.pack(a, np.float16, ell_block=side)
    assert packed.dtype == np.float16
    assert packed.stored_bytes == predicted
    back = FORM.unpack(packed)
    if a.values is not None:
        with np.errstate(over="ignore"):
            a = dataclasses.replace(a, values=a.values.astype(np.float16).astype(np.float64))
    assert _without_zeros(back).equals(_without_zeros(a))


@settings(max_examples=50, deadline=None)
@given(
    rows=st.integers(1, 80),
    cols=st.integers(1, 80),
    seed=st.integers(0, 1000),
    side=st.sampled_from([16, 32]),
    density=st.floats(0, 0.2),
)
def test_slots_are_filled_from_the_left(rows: int, cols: int, seed: int, side: int, density: float) -> None:
    position = np.flatnonzero(np.random.default_rng(seed).random(rows * cols) < density)
    packed = FORM.pack(csr(rows, cols, position // cols, position % cols), ell_block=side)
    for blocks, values in zip(packed.block_col, packed.block_val, strict=True):
        there = blocks[blocks >= 0]
        assert (np.diff(there) > 0).all()
        assert (blocks[len(there) :] == -1).all()
        assert (values[: len(there)] != 0).any(axis=(1, 2)).all()  # no block is empty
        assert not values[len(there) :].any()
    if len(position):
        assert (packed.block_col[:, -1] >= 0).any()  # no slot is empty everywhere


def test_refusal_says_the_figures() -> None:
    n = np.arange(3000)
    arrow = csr(3000, 3000, np.concatenate((n, n * 0)), np.concatenate((n, n)), 1.0)
    stats = row_stats(arrow)
    why = FORM.refuse(stats, None, 2)
    assert why == (
        "blocked-ell stores 1,508 slots per nonzero (limit 64), 18.2 MB: blocks of 16x16 are 6.25 % full, "
        "the widest block row has 188 of them, the mean of 188 is 1.99; --force-format overrides"
    )
    assert FORM.refuse(stats, None, 2, force=True) is None
    assert "device has 1 MB free" in str(FORM.refuse(stats, 1_000_000, 2, force=True))
    dense = csr(64, 64, np.repeat(n[:64], 64), np.tile(n[:64], 64), 1.0)
    assert FORM.refuse(row_stats(dense), None, 2) is None


@pytest.mark.parametrize("given", [8, "16x16", "auto", None, 0])
def test_other_sizes_are_usage(given: object) -> None:
    with pytest.raises(UsageError, match="ell_block cannot be"):
        FORM.pack(battery()["1x1"], ell_block=given)


def test_half_precision_is_for_those_that_have_it() -> None:
    with pytest.raises(UsageError, match="values cannot be float16"):
        get_format("ell").pack(battery()["1x1"], np.float16)
    assert get_format("csr").pack(battery()["1x1"], np.float16).val.dtype == np.float16
