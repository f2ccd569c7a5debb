"""Every SpMV variant against the battery: on the host always, on a GPU where there is one.

Variants come from the registry, so a new one is covered by being registered. The Makefile runs this file a
second time under AddressSanitizer.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from battery import battery, csr, matrix
from hypothesis import given, settings
from hypothesis import strategies as st

from spgraph_bench.device import open_device
from spgraph_bench.device.base import Device
from spgraph_bench.errors import DeviceError, SkipError, UsageError
from spgraph_bench.formats import Tunable, get_format
from spgraph_bench.matrix import CSR
from spgraph_bench.problems import CheckResult, get_problem
from spgraph_bench.runner.prepare import Prepared, filled_params, prepare
from spgraph_bench.stats import row_stats
from spgraph_bench.variants import Variant, get_variant, variants
from spgraph_bench.variants.spmv import row_blocks

SPMV = get_problem("spmv")
VARIANTS = variants("spmv")
HUGE = 64_000_000


@pytest.fixture(scope="module", params=["host", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> Iterator[Device]:
    try:
        opened = open_device(request.param)
    except DeviceError as cause:
        if request.param == "host":
            raise
        pytest.skip(str(cause))
    yield opened
    opened.close()


@functools.cache
def _answer(name: str, dtype: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Inputs and oracle: the same for all variants."""
    whole = matrix(battery()[name])
    inputs = SPMV.inputs(whole, np.dtype(dtype), 1)
    return inputs, SPMV.oracle(whole, inputs, np.dtype(dtype))


def _prepare(
    device: Device, variant: Variant, a: CSR, dtype: str, offsets: str = "int32", **params: Any
) -> Prepared:
    if variant.missing and (lack := variant.missing(device)):
        pytest.skip(lack)
    if dtype not in variant.dtypes:
        pytest.skip(f"{variant.name} has no {dtype}")
    form = get_format(variant.format)
    stats = row_stats(a)
    own = {k: v for k, v in params.items() if k in form.tunables}
    if form.predict_bytes(stats, 8, 8, **own) > HUGE:
        pytest.skip(str(form.refuse(stats, HUGE, 8, **own)))
    packed = form.pack(a, np.dtype(dtype), np.dtype(offsets), **own)
    whole = matrix(a)
    inputs = SPMV.inputs(whole, np.dtype(dtype), 1)
    try:
        return prepare(device, variant, packed, inputs, SPMV.output_arrays(whole, np.dtype(dtype)), params)
    except SkipError as reason:
        pytest.skip(str(reason))


def _run(device: Device, prepared: Prepared) -> np.ndarray:
    prepared.launch.reset()
    prepared.launch.run()
    device.synchronize()
    return prepared.launch.output()


def _check(
    device: Device, variant: Variant, name: str, dtype: str, offsets: str = "int32", **params: Any
) -> CheckResult:
    prepared = _prepare(device, variant, battery()[name], dtype, offsets, **params)
    return SPMV.check(_run(device, prepared), _answer(name, dtype)[1], np.dtype(dtype))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", battery())
@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: v.name)
def test_battery(device: Device, variant: Variant, name: str, dtype: str) -> None:
    result = _check(device, variant, name, dtype)
    assert result.ok, result.message


@pytest.mark.parametrize("name", ["0x0", "every-length-to-70", "around-2048", "random-257", "pattern"])
@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: v.name)
def test_int64_offsets(device: Device, variant: Variant, name: str) -> None:
    for dtype in variant.dtypes:
        result = _check(device, variant, name, dtype, "int64")
        assert result.ok, result.message


@pytest.mark.parametrize("name", ["warps-and-one", "hub-5000", "random-1025", "nan-and-inf"])
@pytest.mark.parametrize(
    ("variant", "param", "choice"),
    [
        pytest.param(v, name, choice, id=f"{v.name}-{name}-{choice}")
        for v in VARIANTS
        for name, tunable in v.tunables.items()
        for choice in tunable.choices or ()
        if choice != tunable.default
    ],
)
def test_every_choice_of_every_tunable(
    device: Device, variant: Variant, param: str, choice: Any, name: str
) -> None:
    result = _check(device, variant, name, "float32", **{param: choice})
    assert result.ok, result.message


@pytest.mark.parametrize("k", [0, 1, "median", 10_000])
@pytest.mark.parametrize(
    "name", ["hub-5000", "every-length-to-70", "first-and-last-row-empty", "tridiagonal"]
)
def test_hyb_with_any_k(device: Device, name: str, k: Any) -> None:
    result = _check(device, get_variant("spmv", "hyb"), name, "float64", hyb_k=k)
    assert result.ok, result.message


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: v.name)
def test_running_again_gives_the_answer_again(device: Device, variant: Variant) -> None:
    """Nothing is left over from the run before, whether or not outputs are poisoned in between."""
    dtype = "float64"
    prepared = _prepare(device, variant, battery()["hub-5000"], dtype)
    prepared.launch.reset()
    for _ in range(3):
        prepared.launch.run()
    device.synchronize()
    oracle = _answer("hub-5000", dtype)[1]
    assert SPMV.check(prepared.launch.output(), oracle, np.dtype(dtype)).ok
    prepared.launch.reset()
    device.synchronize()
    assert SPMV.check(prepared.launch.output(), oracle, np.dtype(dtype)).details["unwritten_rows"] > 190
    assert SPMV.check(_run(device, prepared), oracle, np.dtype(dtype)).ok


@pytest.mark.parametrize("variant", [v for v in VARIANTS if v.kernel], ids=lambda v: v.name)
def test_infinite_x_is_not_multiplied_with_padding(device: Device, variant: Variant) -> None:
    if not get_format(variant.format).keeps_zeros:
        pytest.skip(f"{variant.format} fills in with zeros, and says so")
    a = csr(5, 4, [0, 0, 1, 3, 3, 3], [1, 2, 2, 1, 2, 3], [1, 2, 3, 4, 5, 6])
    for dtype in variant.dtypes:
        prepared = _prepare(device, variant, a, dtype)
        x = np.array([np.inf, 1, 1, 1], dtype)  # column 0 has no entry
        device.write(prepared.job.buffers["x"], x)
        y = _run(device, prepared)
        assert y.tolist() == [3, 3, 0, 15, 0]


@pytest.mark.parametrize("name", ["hub-5000", "around-2048", "two-hubs"])
@pytest.mark.parametrize("variant", [v for v in VARIANTS if v.kernel], ids=lambda v: v.name)
def test_any_order_of_blocks(variant: Variant, name: str) -> None:
    """Blocks and warps in other orders: who arrives last, who adds first must not matter."""
    for seed in (1, 2, 3):
        device = open_device("host", seed=seed)
        result = _check(device, variant, name, "float64")
        device.close()
        assert result.ok, f"schedule {seed}: {result.message}"


def test_atomics_are_as_many_as_the_kernels_say() -> None:
    device = open_device("host")
    a = battery()["two-hubs"]

    def atomics(name: str, **params: Any) -> int:
        prepared = _prepare(device, get_variant("spmv", name), a, "float32", **params)
        device.reset_counters()
        _run(device, prepared)
        counted = device.counters()
        assert counted is not None
        assert counted["kernel_launches"] == prepared.launch.operations - (name.startswith("coo"))  # a memset
        return counted["global_atomics"]

    assert atomics("coo-atomic") == a.nnz
    warps = -(-a.nnz // 256)
    assert atomics("coo-segmented", steps=8) <= a.rows + warps  # one per row and warp
    assert atomics("csr-vector") == 0
    assert atomics("ell") == 0
    pieces = sum(-(-(int(a.row_ptr[r + 1]) - int(a.row_ptr[r]) // 4 * 4) // 2048) for r in (0, 201))
    assert atomics("csr-adaptive") == pieces  # arrivals at the two long rows
    device.close()


def test_csr_adaptive_gives_the_same_bits_in_any_order() -> None:
    answers = set()
    for seed in (0, 1, 2, 3):
        device = open_device("host", seed=seed)
        prepared = _prepare(
            device, get_variant("spmv", "csr-adaptive"), battery()["row-beyond-65536"], "float32"
        )
        answers.add(_run(device, prepared).tobytes())
        device.close()
    assert len(answers) == 1


def test_device_bytes_are_what_is_held(device: Device) -> None:
    prepared = _prepare(device, get_variant("spmv", "csr-scalar"), battery()["tridiagonal"], "float32")
    assert prepared.device_bytes == prepared.job.packed.stored_bytes + 2 * 300 * 4


# ---- kernels that are wrong must be found wrong ----------------------------------------------------------


def _broken(device: Device, source: str, name: str) -> CheckResult:
    entry = get_variant("spmv", "csr-scalar")
    kernel = (Path(__file__).parent / "kernels" / source).resolve()
    wrong = dataclasses.replace(entry, name="broken", source=str(kernel))
    return _check(device, wrong, name, "float32")


def test_off_by_one_is_wrong(device: Device) -> None:
    result = _broken(device, "spmv_misses_last.cu", "every-length-to-70")
    assert not result.ok
    assert result.details["wrong_rows"] >= 60
    assert "exceeds its bound" in result.message


def test_missing_row_is_never_written(device: Device) -> None:
    result = _broken(device, "spmv_misses_last_row.cu", "tridiagonal")
    assert not result.ok
    assert result.message == "1 of 300 rows never written, the first is row 299 (2 nonzeros)"


# ---- parameters ------------------------------------------------------------------------------------------


def test_parameters_are_checked_and_take_their_type(device: Device) -> None:
    a, entry = battery()["tridiagonal"], get_variant("spmv", "csr-scalar")
    assert _prepare(device, entry, a, "float32", block="128", unknown=1).job.params == {"block": 128}
    with pytest.raises(UsageError, match="csr-scalar: block=100 is not possible"):
        _prepare(device, entry, a, "float32", block=100)
    with pytest.raises(UsageError, match="csr-scalar: block=many is not possible"):
        _prepare(device, entry, a, "float32", block="many")
    entry = get_variant("spmv", "csr-subwarp")
    assert _prepare(device, entry, a, "float32", threads="8").job.params == {"block": 256, "threads": 8}
    free = dataclasses.replace(entry, tunables={"ratio": Tunable(0.5, "any number")})
    assert filled_params(free, {"ratio": "2"}) == {"ratio": 2.0}
    with pytest.raises(UsageError, match="csr-subwarp: ratio=half is not a number"):
        filled_params(free, {"ratio": "half"})


# ---- the row-block table of csr-adaptive -----------------------------------------------------------------


@settings(max_examples=200, deadline=None)
@given(
    lengths=st.lists(st.sampled_from([0, 0, 1, 2, 7, 8, 9, 16, 17, 40, 100]), max_size=60),
    tile=st.sampled_from([8, 16, 32]),
)
def test_row_blocks_cover_every_row_once(lengths: list[int], tile: int) -> None:
    long = tile // 2
    row_ptr = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    block_row, chunk = row_blocks(row_ptr, tile, long)
    assert block_row[-1] == len(lengths)
    expected = 0
    for b, piece in enumerate(chunk):
        first, last = int(block_row[b]), int(block_row[b + 1])
        if piece < 0:
            assert first == expected
            assert last > first
            assert max(lengths[first:last]) <= long
            assert row_ptr[last] - row_ptr[first] <= tile + long
            assert last - first <= tile
            expected = last
        else:
            assert first == expected
            assert lengths[first] > long
            low = row_ptr[first] // 4 * 4 + piece * tile
            assert low < row_ptr[first + 1]  # no piece is empty
            if low + tile >= row_ptr[first + 1]:
                assert last == first + 1
                expected = last
            else:
                assert chunk[b + 1] == piece + 1
    assert expected == len(lengths)


def test_row_blocks_do_not_let_empty_rows_pile_up() -> None:
    block_row, chunk = row_blocks(np.zeros(100_001, np.int64), 2048, 1024)
    assert len(chunk) == 49
    assert np.diff(block_row).max() == 2048
