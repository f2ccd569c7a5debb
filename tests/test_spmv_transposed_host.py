"""y = A^T x: the problem against numpy, and every variant against the battery."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from battery import battery, matrix
from proportion import FULL

from spgraph_bench.device import open_device
from spgraph_bench.device.base import Device
from spgraph_bench.errors import SkipError
from spgraph_bench.formats import get_format
from spgraph_bench.problems import CheckResult, get_problem
from spgraph_bench.runner.prepare import prepare
from spgraph_bench.stats import row_stats
from spgraph_bench.variants import Variant, get_variant, variants

TRANSPOSED = get_problem("spmv-transposed")
VARIANTS = variants("spmv-transposed")


def _check(
    device: Device, variant: Variant, name: str, dtype: str, offsets: str = "int32", **params: Any
) -> CheckResult:
    if variant.missing and (reason := variant.missing(device)):
        pytest.skip(reason)
    whole, kind = matrix(battery()[name]), np.dtype(dtype)
    packed = get_format(variant.format).pack(whole.csr, kind, np.dtype(offsets))
    inputs = TRANSPOSED.inputs(whole, kind, 1)
    outputs = TRANSPOSED.output_arrays(whole, kind)
    try:
        prepared = prepare(device, variant, packed, inputs, outputs, params)
    except SkipError as reason:
        pytest.skip(str(reason))
    for factor in (-1, 1):  # the second time nothing may be left over
        prepared.write_input("x", factor * inputs["x"])
        prepared.launch.run()
    device.synchronize()
    return TRANSPOSED.check(prepared.launch.output(), TRANSPOSED.oracle(whole, inputs, kind), kind)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["wide", "tall", "every-length-to-70", "pattern", "0x5", "5x0"])
def test_oracle_is_numpys(name: str, dtype: str) -> None:
    a = battery()[name]
    inputs = TRANSPOSED.inputs(matrix(a), np.dtype(dtype), 1)
    assert inputs["x"].shape == (a.rows,)
    assert TRANSPOSED.output_arrays(matrix(a), np.dtype(dtype)) == {"y": ((a.cols,), np.dtype(dtype))}
    dense = a.to_scipy(np.dtype(dtype)).toarray().astype(np.float64)
    oracle = TRANSPOSED.oracle(matrix(a), inputs, np.dtype(dtype))
    x = inputs["x"].astype(np.float64)
    np.testing.assert_allclose(oracle["r"], dense.T @ x, rtol=1e-14, atol=1e-14)
    np.testing.assert_allclose(oracle["absax"], np.abs(dense).T @ x, rtol=1e-14)
    assert oracle["lengths"].tolist() == np.bincount(a.col_idx, minlength=a.cols).tolist()


def _fits(variant: Variant, name: str) -> bool:
    return not get_format(variant.format).refuse(row_stats(battery()[name]), None, 8, True)


@pytest.mark.parametrize(
    ("variant", "name"),
    [pytest.param(v, name, id=f"{v.name}-{name}") for v in VARIANTS for name in battery() if _fits(v, name)],
)
def test_battery(device: Device, variant: Variant, name: str) -> None:
    for dtype in variant.dtypes if FULL else [variant.dtypes[len(name) % len(variant.dtypes)]]:
        result = _check(device, variant, name, dtype)
        assert result.ok, result.message


WIDE = ("0x0", "wide", "tall", "around-2048", "pattern")


@pytest.mark.parametrize(
    ("variant", "name"),
    [pytest.param(v, name, id=f"{v.name}-{name}") for v in VARIANTS for name in WIDE if _fits(v, name)],
)
def test_int64_offsets(device: Device, variant: Variant, name: str) -> None:
    for dtype in variant.dtypes if FULL else [variant.dtypes[len(name) % len(variant.dtypes)]]:
        result = _check(device, variant, name, dtype, "int64")
        assert result.ok, result.message


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
def test_every_choice_of_every_tunable(device: Device, variant: Variant, param: str, choice: Any) -> None:
    result = _check(device, variant, "one-full-row", "float32", **{param: choice})
    assert result.ok, result.message


def test_gathering_needs_no_atomics_where_scattering_needs_one_per_nonzero() -> None:
    device = open_device("host")
    a = battery()["random-257"]
    counted = {}
    for name in ("csr-scatter", "csc-adaptive"):
        device.reset_counters()
        assert _check(device, get_variant("spmv-transposed", name), "random-257", "float64").ok
        counts = device.counters()
        assert counts is not None
        counted[name] = counts["global_atomics"]
    assert counted == {"csr-scatter": 2 * a.nnz, "csc-adaptive": 0}
    device.close()


@pytest.mark.parametrize(("dtype", "tile"), [("float32", 2048), ("float64", 1024)])
@pytest.mark.parametrize("name", ["csc-adaptive", "pattern-csc"])
def test_the_tile_that_was_decided_is_shown(device: Device, name: str, dtype: str, tile: int) -> None:
    entry, whole, kind = get_variant("spmv-transposed", name), matrix(battery()["pattern"]), np.dtype(dtype)
    packed = get_format(entry.format).pack(whole.csr, kind)
    inputs, outputs = TRANSPOSED.inputs(whole, kind, 1), TRANSPOSED.output_arrays(whole, kind)
    assert prepare(device, entry, packed, inputs, outputs).job.params["tile"] == tile
