"""Kernels with fewer bytes per nonzero: 16-bit columns at their limits, one value for all entries."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from battery import battery, csr, matrix, random_rows
from proportion import in_turn

from spgraph_bench.device import open_device
from spgraph_bench.device.base import Device
from spgraph_bench.errors import SkipError
from spgraph_bench.formats import get_format
from spgraph_bench.formats.common import VALUES_DIFFER, one_value
from spgraph_bench.matrix import CSR
from spgraph_bench.problems import CheckResult, get_problem
from spgraph_bench.recipes import make
from spgraph_bench.runner.prepare import prepare
from spgraph_bench.stats import row_stats
from spgraph_bench.variants import get_variant

SPMV = get_problem("spmv")
HUGE = 16_000_000
PATTERN = (
    "pattern-csr",
    "pattern-sell",
    "pattern-csr-16",
    "pattern-coo",
    "pattern-ell",
    "pattern-hyb",
    "pattern-jds",
    "pattern-dia",
)
REFUSED = [name for name in PATTERN if name not in ("pattern-csr", "pattern-coo")]
"""Those whose format says itself that values differ; the other two serve graph problems too."""


def _check(device: Device, name: str, a: CSR, dtype: str, offsets: str = "int32", **params: Any) -> CheckResult:
    entry, whole, kind = get_variant("spmv", name), matrix(a), np.dtype(dtype)
    form = get_format(entry.format)
    own = {k: v for k, v in params.items() if k in form.tunables}
    packed = form.pack(a, kind, np.dtype(offsets), **own)
    inputs = SPMV.inputs(whole, kind, 1)
    prepared = prepare(device, entry, packed, inputs, SPMV.output_arrays(whole, kind), params)
    for _ in range(2):  # the second time nothing may be left over
        prepared.launch.reset()
        prepared.launch.run()
    device.synchronize()
    return SPMV.check(prepared.launch.output(), SPMV.oracle(whole, inputs, kind), kind)


def _with_one_value(a: CSR, value: float) -> CSR:
    return dataclasses.replace(a, values=np.full(a.nnz, value))


def _fits(name: str, matrix_name: str) -> bool:
    form = get_format(get_variant("spmv", name).format)
    stats = row_stats(_with_one_value(battery()[matrix_name], 0.75))
    if form.predict_bytes(stats) > HUGE:
        return False  # mostly padding
    return form.packs_all or not form.refuse(stats, None, force=True)


@pytest.mark.parametrize(
    ("name", "matrix_name", "offsets"),
    in_turn([(name, other) for name in PATTERN for other in battery() if _fits(name, other)], ["int32", "int64"]),
)
def test_one_value(device: Device, name: str, matrix_name: str, offsets: str) -> None:
    a = battery()[matrix_name]
    for dtype, value in (("float32", 0.75), ("float64", -1 / 3)):
        result = _check(device, name, _with_one_value(a, value), dtype, offsets)
        assert result.ok, result.message


@pytest.mark.parametrize(
    ("name", "param", "choice", "matrix_name"),
    in_turn(
        [
            (name, param, choice)
            for name in PATTERN
            for param, tunable in get_variant("spmv", name).tunables.items()
            for choice in tunable.choices or ()
        ],
        ["warps-and-one", "around-2048", "hub-5000", "two-hubs"],
    ),
)
def test_tunables_with_one_value(device: Device, name: str, param: str, choice: Any, matrix_name: str) -> None:
    a = _with_one_value(battery()[matrix_name], 2.5)
    result = _check(device, name, a, "float32", **{param: choice})
    assert result.ok, result.message


@pytest.mark.parametrize("tile", ["auto", 512, 1024, 2048])
@pytest.mark.parametrize("name", ["pattern-csr", "pattern-csr-16"])
def test_tiles_in_double(device: Device, name: str, tile: int | str) -> None:
    for matrix_name in ("every-length-to-70", "around-2048", "two-hubs"):
        a = _with_one_value(battery()[matrix_name], 2.5)
        for block in (128, 256, 512):
            result = _check(device, name, a, "float64", tile=tile, block=block)
            assert result.ok, result.message


@pytest.mark.parametrize("sigma", [1, 7, 64, 256])
def test_sorted_slices(device: Device, sigma: int) -> None:
    a = _with_one_value(battery()["hub-5000"], 2.5)
    result = _check(device, "pattern-sell", a, "float64", sell_sigma=sigma)
    assert result.ok, result.message


@pytest.mark.parametrize("name", ["csr-16", "pattern-csr"])
def test_any_order_of_blocks(name: str) -> None:
    for seed in (1, 2, 3):
        device = open_device("host", seed=seed)
        result = _check(device, name, _with_one_value(battery()["two-hubs"], 0.5), "float64")
        device.close()
        assert result.ok, f"schedule {seed}: {result.message}"


@pytest.mark.parametrize("name", PATTERN)
def test_values_that_differ_are_refused(device: Device, name: str) -> None:
    a = battery()["tridiagonal"]
    if name in REFUSED:
        assert get_format(name).refuse(row_stats(a), None) == VALUES_DIFFER
        assert get_format(name).refuse(row_stats(_with_one_value(a, 3.0)), None) is None
    for refused in (a, _with_one_value(a, np.nan), _with_one_value(a, -np.inf)):
        with pytest.raises(SkipError, match="its values differ or are not finite"):
            _check(device, name, refused, "float32")
    with pytest.raises(SkipError, match="its one value is beyond float32"):
        _check(device, name, _with_one_value(a, 1e300), "float32")
    assert _check(device, name, _with_one_value(a, 1e300), "float64").ok


@pytest.mark.parametrize("name", ["pattern-csr", "pattern-coo"])
def test_renumbered_patterns_are_refused(device: Device, name: str) -> None:
    a = _with_one_value(battery()["tridiagonal"], 2.0)
    with pytest.raises(SkipError, match="--param reorder=none"):
        _check(device, name, a, "float32", reorder="degree")


@pytest.mark.parametrize("name", REFUSED)
def test_no_value_is_stored(name: str) -> None:
    a = _with_one_value(battery()["tridiagonal"], -0.5)
    form = get_format(name)
    for dtype in (np.float32, np.float64):
        packed = form.pack(a, dtype)
        assert packed.value == -0.5
        assert not packed.pattern
        assert {array.dtype.kind for array in packed.arrays.values()} <= {"i", "u"}
        assert packed.stored_bytes == form.predict_bytes(row_stats(a), np.dtype(dtype).itemsize)
        assert packed.compulsory_bytes == form.pack(dataclasses.replace(a, values=None)).compulsory_bytes


def test_pattern_hyb_weighs_slots_without_values() -> None:
    lengths = np.repeat([1, 9], [700, 300])  # between a third and a quarter of the rows are long
    a = _with_one_value(random_rows(lengths, 2000), 1.5)
    assert get_format("hyb").pack(a).slots == 1
    assert get_format("pattern-hyb").pack(a).slots == 9
    assert get_format("pattern-hyb").pack(a, hyb_k=3).slots == 3


# ---- diagonals as bits -----------------------------------------------------------------------------------


def test_bits_of_diagonals_are_what_the_docstring_says() -> None:
    a = csr(34, 40, [0, 1, 31, 32, 33, 33], [3, 4, 34, 35, 0, 39], 2.0)
    packed = get_format("pattern-dia").pack(a)
    assert packed.diag.tolist() == [-33, 3, 6]
    assert packed.mask.tolist() == [[0, 1 << 0 | 1 << 1 | 1 << 31, 0], [1 << 1, 1 << 0, 1 << 1]]
    assert packed.compulsory_bytes == packed.stored_bytes == 3 * 4 * 3


def test_more_bits_than_columns_are_refused() -> None:
    form = get_format("pattern-dia")
    assert form.refuse(row_stats(make("poisson2d:n=12,values=ones").csr), None) is None
    arrow = row_stats(_with_one_value(battery()["one-full-row"], 2.0))
    assert form.refuse(arrow, None) == (
        "pattern-dia stores 49 bits per nonzero (limit 32), 1.94 kB: 97 diagonals of 97 rows hold an entry; "
        "--force-format overrides"
    )
    assert form.refuse(arrow, None, force=True) is None
    assert "device has 1 kB free" in str(form.refuse(arrow, 1000, force=True))


def test_gaps_of_a_diagonal_are_not_multiplied(device: Device) -> None:
    a = csr(40, 40, np.arange(0, 40, 2), np.arange(0, 40, 2), 1.0)
    entry = get_variant("spmv", "pattern-dia")
    x = np.where(np.arange(40) % 2, np.inf, 1.0).astype(np.float32)
    outputs = SPMV.output_arrays(matrix(a), np.dtype(np.float32))
    prepared = prepare(device, entry, get_format("pattern-dia").pack(a), {"x": x}, outputs)
    prepared.launch.reset()
    prepared.launch.run()
    device.synchronize()
    assert prepared.launch.output().tolist() == [1.0, 0.0] * 20


@pytest.mark.parametrize("ahead", [1, 2, 4, 8])
@pytest.mark.parametrize("slices", [1, 2, 4])
def test_slices_of_diagonals(device: Device, slices: int, ahead: int) -> None:
    """Rows that end in any slice of a warp; one to three runs of 32 diagonals, empty in many slices."""
    rng = np.random.default_rng(7)
    for rows, cols, diagonals, share in (
        (1, 5, 5, 1.0),
        (33, 40, 31, 0.7),
        (97, 33, 32, 0.3),
        (128, 200, 33, 0.02),
        (300, 260, 75, 0.01),
    ):
        diag = np.sort(rng.choice(np.arange(1 - rows, cols), diagonals, replace=False))
        row = np.repeat(np.arange(rows), diagonals)
        col = row + np.tile(diag, rows)
        mask = (col >= 0) & (col < cols) & (rng.random(len(col)) < share)
        a = csr(rows, cols, row[mask], col[mask], -1.5)
        for dtype in ("float32", "float64"):
            for block in (64, 1024) if ahead == 8 else (64,):  # 1,024 threads: registers have to be enough
                result = _check(device, "pattern-dia", a, dtype, slices=slices, ahead=ahead, block=block)
                assert result.ok, result.message


def test_the_farthest_diagonals_of_bits() -> None:
    """Offsets near +-2^31, with which row + offset is beyond 32 bits where there is no entry."""
    device = open_device("host")
    far = 2**31 - 40
    for slices in (1, 2, 4):
        module = device.compile(
            "spmv/pattern_dia.cu",
            {"SPG_VALUE": "float", "SPG_OFFSET": "int", "SPG_AHEAD": "8", "SPG_SLICES": str(slices)},
        )
        x = np.arange(1, 129, dtype=np.float32)
        diag = np.array([-far, -70, 0, far], np.int32)
        mask = np.zeros((4, 4), np.uint32)
        mask[2, 1], mask[3, 1], mask[:, 2] = 1 << 10 | 1 << 31, 0xF, 0xFFFFFFFF
        y = device.empty(128, np.float32)
        module.kernel("pattern_dia")(
            -(-128 // (64 * slices)),
            64,
            np.int32(128),
            np.int32(4),
            device.upload(diag),
            device.upload(mask),
            np.float32(2),
            device.upload(x),
            y,
        )
        want = x.copy()
        for i in (74, 95, 96, 97, 98, 99):
            want[i] += x[i - 70]
        assert device.download(y).tolist() == (2 * want).tolist()
    device.close()


def test_one_value_transposed(device: Device) -> None:
    problem, entry = get_problem("spmv-transposed"), get_variant("spmv-transposed", "pattern-csc")
    for name in ("wide", "hub-5000", "pattern", "0x5"):
        for dtype in ("float32", "float64"):
            whole, kind = matrix(_with_one_value(battery()[name], -0.75)), np.dtype(dtype)
            packed, inputs = get_format("pattern-csc").pack(whole.csr, kind), problem.inputs(whole, kind, 1)
            prepared = prepare(device, entry, packed, inputs, problem.output_arrays(whole, kind))
            prepared.launch.reset()
            prepared.launch.run()
            device.synchronize()
            result = problem.check(prepared.launch.output(), problem.oracle(whole, inputs, kind), kind)
            assert result.ok, result.message


def test_one_value_of_a_matrix() -> None:
    a = battery()["tridiagonal"]
    assert one_value(a) is None
    assert one_value(_with_one_value(a, -2.0)) == -2
    assert one_value(dataclasses.replace(a, values=None)) == 1
    assert one_value(battery()["0x0"]) == 1
    assert one_value(_with_one_value(a, np.inf)) is None
    assert one_value(_with_one_value(a, np.nan)) is None
    long = _with_one_value(csr(1, 200_000, np.zeros(200_000), np.arange(200_000)), 4.0)
    long.values[-1] = 5  # type: ignore[index]
    assert one_value(long) is None


# ---- 16 bits ---------------------------------------------------------------------------------------------


def test_columns_as_far_apart_as_16_bits_reach(device: Device) -> None:
    # Two groups of 128 entries, each with the lowest and the highest column it may have.
    far = np.concatenate((np.arange(127), [65_535], 70_000 + np.arange(127), [70_000 + 65_535]))
    a = csr(4, 200_000, np.repeat([0, 3], 128), far, np.linspace(1, 2, 256))
    packed = get_format("csr-16").pack(a)
    assert packed.base.tolist() == [0, 70_000]
    assert packed.offset[[127, 255]].tolist() == [65_535, 65_535]
    assert get_format("csr-16").unpack(packed).col_idx.tolist() == far.tolist()
    for dtype in ("float32", "float64"):
        result = _check(device, "csr-16", a, dtype)
        assert result.ok, result.message


def test_one_column_farther_is_refused() -> None:
    a = csr(2, 200_000, [0, 1], [5, 5 + 65_536])
    form = get_format("csr-16")
    assert form.refuse(row_stats(a), None, force=True) == ("1 of 1 groups of 128 entries span more than 65,536 columns")
    assert form.refuse(row_stats(csr(2, 200_000, [0, 1], [5, 5 + 65_535])), None) is None


def test_bases_over_chunks_of_the_conversion(monkeypatch: pytest.MonkeyPatch) -> None:
    from spgraph_bench.formats import csr16

    monkeypatch.setattr(csr16, "_CHUNK", 256)
    a = battery()["around-2048"]
    assert csr16.CSR16().unpack(csr16.CSR16().pack(a, np.float64)).equals(a)
