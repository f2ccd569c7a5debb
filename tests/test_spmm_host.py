"""Every SpMM variant against the battery: on the host always, on a GPU where there is one.

Variants come from the registry, so a new one is covered by being registered. The Makefile runs this file a
second time under AddressSanitizer. Numbers of columns and layouts go round over the matrices, so that each
variant meets all of them.
"""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from battery import battery, csr, matrix, random_rows
from hypothesis import given
from hypothesis import strategies as st
from proportion import FULL, in_turn

from spgraph_bench.device import open_device
from spgraph_bench.device.base import Device
from spgraph_bench.errors import SkipError
from spgraph_bench.formats import get_format
from spgraph_bench.matrix import CSR
from spgraph_bench.problems import CheckResult, get_problem
from spgraph_bench.problems.base import Problem
from spgraph_bench.recipes import make
from spgraph_bench.runner.prepare import Prepared, prepare
from spgraph_bench.stats import row_stats
from spgraph_bench.variants import Variant, get_variant, variants
from spgraph_bench.variants.spmm.kernels import RowSizes, line_of, pieces, row_shape, tile_items

VARIANTS = variants("spmm")
KERNELS = [v for v in VARIANTS if v.kernel]
HUGE = 30_000_000
SHAPES = (
    (32, "row"),
    (3, "column"),
    (33, "row"),
    (1, "column"),
    (128, "column"),
    (1, "row"),
    (32, "column"),
    (6, "row"),
    (33, "column"),
    (128, "row"),
    (20, "row"),
)
"""Numbers of columns that are whole pieces, odd ones, and such as no number of lanes fits."""


def _problem(k: int, layout: str) -> Problem:
    return get_problem("spmm", {"k": k, "layout": layout})


@functools.cache
def _answer(name: str, k: int, layout: str, dtype: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Inputs and oracle: the same for all variants."""
    whole, problem = matrix(battery()[name]), _problem(k, layout)
    inputs = problem.inputs(whole, np.dtype(dtype), 1)
    return inputs, problem.oracle(whole, inputs, np.dtype(dtype))


def _prepare(
    device: Device, variant: Variant, a: CSR, k: int, layout: str, dtype: str, offsets: str = "int32", **params: Any
) -> Prepared:
    if variant.missing and (reason := variant.missing(device)):
        pytest.skip(reason)
    form = get_format(variant.format)
    own = {name: value for name, value in params.items() if name in form.tunables}
    if form.predict_bytes(row_stats(a), 8, 8, **own) > HUGE:
        pytest.skip(f"{form.name} would be too large")
    packed = form.pack(a, np.dtype(dtype), np.dtype(offsets), **own)
    whole, problem = matrix(a), _problem(k, layout)
    inputs = problem.inputs(whole, np.dtype(dtype), 1)
    outputs = problem.output_arrays(whole, np.dtype(dtype))
    try:
        return prepare(device, variant, packed, inputs, outputs, params, options={"k": k, "layout": layout})
    except SkipError as reason:
        pytest.skip(str(reason))


def _run(device: Device, prepared: Prepared) -> np.ndarray:
    prepared.launch.reset()
    prepared.launch.run()
    device.synchronize()
    return prepared.launch.output()


def _check(
    device: Device, variant: Variant, name: str, k: int, layout: str, dtype: str, offsets: str = "int32", **params: Any
) -> CheckResult:
    prepared = _prepare(device, variant, battery()[name], k, layout, dtype, offsets, **params)
    oracle = _answer(name, k, layout, dtype)[1]
    return _problem(k, layout).check(_run(device, prepared), oracle, np.dtype(dtype))


def _shapes(number: int) -> list[tuple[int, str]]:
    """Two shapes for matrix `number`, few columns where it is large."""
    result = [SHAPES[(2 * number + i) % len(SHAPES)] for i in range(2)]
    a = list(battery().values())[number]
    return [(min(k, 3) if a.nnz > 4000 else k, layout) for k, layout in result]


@pytest.mark.parametrize("name", battery())
@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: v.name)
def test_battery(device: Device, variant: Variant, name: str) -> None:
    number = list(battery()).index(name)
    for turn, (k, layout) in enumerate(_shapes(number)):
        # One type for each k: loads of 1, 2 and 4 values of the first, of 1 and 2 of the second, half of the modules.
        turn = number + turn if FULL else int(k in (3, 20, 33, 128))
        dtype = variant.dtypes[turn % len(variant.dtypes)]
        result = _check(device, variant, name, k, layout, dtype)
        assert result.ok, f"k {k}, {layout}, {dtype}: {result.message}"


@pytest.mark.parametrize("layout", ["row", "column"])
@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: v.name)
def test_any_number_of_columns(device: Device, variant: Variant, layout: str) -> None:
    for number, k in enumerate((2, 5, 8, 12, 16, 24, 48, 96, 100, 160, 257, 512)):
        dtype = variant.dtypes[number % len(variant.dtypes)]
        name = "warps-and-one" if k < 30 else "duplicates-merged"
        result = _check(device, variant, name, k, layout, dtype)
        assert result.ok, f"k {k}, {dtype}: {result.message}"


@pytest.mark.parametrize("name", ["0x0", "every-length-to-70", "pattern", "random-257"])
@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: v.name)
def test_int64_offsets(device: Device, variant: Variant, name: str) -> None:
    for dtype in variant.dtypes:
        for k, layout in ((8, "row"), (5, "column")):
            result = _check(device, variant, name, k, layout, dtype, "int64")
            assert result.ok, result.message


@pytest.mark.parametrize(
    ("variant", "param", "choice", "name"),
    in_turn(
        [
            (v, name, choice)
            for v in VARIANTS
            for name, tunable in {**v.tunables, **get_format(v.format).tunables}.items()
            for choice in tunable.choices or ()
            if choice != tunable.default
        ],
        ["warps-and-one", "nan-and-inf", "random-257"],
    ),
    ids=lambda value: getattr(value, "name", None),
)
def test_every_choice_of_every_tunable(device: Device, variant: Variant, param: str, choice: Any, name: str) -> None:
    for k, layout in ((36, "row"), (12, "column")):
        result = _check(device, variant, name, k, layout, variant.dtypes[0], **{param: choice})
        assert result.ok, f"{layout}: {result.message}"


@pytest.mark.parametrize("size", ["1x1", "2x3", 5, 6, 7, "8x8", "1x8"])
@pytest.mark.parametrize("layout", ["row", "column"])
def test_bsr_with_any_block(device: Device, size: Any, layout: str) -> None:
    for name in ("every-length-to-70", "wide", "nan-and-inf"):
        result = _check(device, get_variant("spmm", "bsr"), name, 40, layout, "float64", block_size=size)
        assert result.ok, result.message


@pytest.mark.parametrize("layout", ["row", "column"])
@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: v.name)
def test_running_again_gives_the_answer_again(device: Device, variant: Variant, layout: str) -> None:
    """Nothing is left over from the run before, which had another X, whether or not outputs are poisoned in between."""
    dtype, name, k = variant.dtypes[-1], "random-257", 9
    prepared = _prepare(device, variant, battery()[name], k, layout, dtype)
    inputs, oracle = _answer(name, k, layout, dtype)
    problem = _problem(k, layout)
    prepared.launch.reset()
    for factor in (1, -1, 1):
        prepared.write_input("x", factor * inputs["x"])
        prepared.launch.run()
        device.synchronize()
    assert problem.check(prepared.launch.output(), oracle, np.dtype(dtype)).ok
    prepared.launch.reset()
    device.synchronize()
    before = problem.check(prepared.launch.output(), oracle, np.dtype(dtype))
    assert before.details["unwritten_entries"] == 257 * k
    assert problem.check(_run(device, prepared), oracle, np.dtype(dtype)).ok


@pytest.mark.parametrize("layout", ["row", "column"])
@pytest.mark.parametrize("variant", KERNELS, ids=lambda v: v.name)
def test_infinite_x_is_not_multiplied_with_padding(device: Device, variant: Variant, layout: str) -> None:
    if not get_format(variant.format).keeps_zeros:
        pytest.skip(f"{variant.format} fills in with zeros, and says so")
    a = csr(5, 4, [0, 0, 1, 3, 3, 3], [1, 2, 2, 1, 2, 3], [1, 2, 3, 4, 5, 6])
    for k in (1, 3, 8):
        for dtype in variant.dtypes:
            prepared = _prepare(device, variant, a, k, layout, dtype)
            x = np.ones((4, k), dtype)
            x[0] = np.inf  # column 0 of A has no entry
            device.write(prepared.job.buffers["x"], np.ascontiguousarray(x if layout == "row" else x.T))
            y = _run(device, prepared)
            assert (y if layout == "row" else y.T).tolist() == [[v] * k for v in (3, 3, 0, 15, 0)]


@pytest.mark.parametrize("name", ["two-hubs", "around-2048"])
@pytest.mark.parametrize("variant", KERNELS, ids=lambda v: v.name)
def test_any_order_of_blocks(variant: Variant, name: str) -> None:
    """Blocks and warps in other orders: who adds first must not matter."""
    for seed, (k, layout) in enumerate([(3, "row"), (2, "column"), (4, "row")], 1):
        device = open_device("host", seed=seed)
        result = _check(device, variant, name, k, layout, variant.dtypes[-1])
        device.close()
        assert result.ok, f"schedule {seed}: {result.message}"


@pytest.mark.parametrize(("k", "block", "items"), [(1, 256, 8), (8, 128, 8), (32, 256, 8), (512, 128, 16)])
def test_rows_across_groups_and_blocks_of_csr_tile(device: Device, k: int, block: int, items: int) -> None:
    """Every way a row can be: within a group of lanes, across groups, across blocks, over whole blocks."""
    lanes = pieces(k, 8).lanes
    staged = block // lanes * items
    lengths = [0, items - 1, 1, 0, 0, items, items + 1, staged - 1, 3, 0, staged, staged + 1, 1, 5 * staged, 0, 2]
    lengths += [0] * (2 * items + 1) + [40 * staged if k > 8 else 0, 1]
    a = random_rows(lengths, max(lengths) + 3, 5)
    whole, problem = matrix(a), _problem(k, "row")
    inputs = problem.inputs(whole, np.dtype(np.float64), 1)
    variant = get_variant("spmm", "csr-tile")
    prepared = _prepare(device, variant, a, k, "row", "float64", block=block, items=items)
    oracle = problem.oracle(whole, inputs, np.dtype(np.float64))
    result = problem.check(_run(device, prepared), oracle, np.dtype(np.float64))
    assert result.ok, result.message


@pytest.mark.parametrize("name", ["csr-row", "ell"])
@pytest.mark.parametrize("recipe", ["poisson2d:n=37", "poisson2d:n=50", "grid:n=33"])
def test_lines_of_a_grid_by_tiles(device: Device, name: str, recipe: str) -> None:
    """Lines longer than a block and not, numbers of lines that tiles fit and not."""
    a = make(recipe).csr
    whole, variant = matrix(a), get_variant("spmm", name)
    for k, params in ((32, {}), (8, {"block": 64, "share": 2}), (5, {"block": 512, "slots": 2}), (32, {"steps": 16})):
        problem = _problem(k, "row")
        prepared = _prepare(device, variant, a, k, "row", "float32", **{"lines": 1, "steps": 4, **params})
        assert prepared.job.params["lines"] == 1
        inputs = problem.inputs(whole, np.dtype(np.float32), 1)
        oracle = problem.oracle(whole, inputs, np.dtype(np.float32))
        result = problem.check(_run(device, prepared), oracle, np.dtype(np.float32))
        assert result.ok, result.message


def test_lines_are_found() -> None:
    def line(recipe: str) -> int:
        a = make(recipe).csr
        return line_of(a.rows, lambda row: a.col_idx[a.row_ptr[row] : a.row_ptr[row + 1]])

    assert line("poisson2d:n=100") == 100
    assert line("poisson3d:n=40") == 40  # the lesser of two
    assert line("poisson2d:n=20") == 0  # neighbours
    assert line("rmat:scale=8") == line("banded:n=500,diagonals=27") == 0
    assert line_of(0, lambda row: np.zeros(0, np.int32)) == 0


def _shape(rows: int, mean: float, k: int = 32, **given: Any) -> dict[str, int]:
    line = given.pop("line", 0)
    return row_shape(given, k, RowSizes(rows, rows, int(rows * mean), line), 4, 132, 60 << 20)


def test_a_small_matrix_gets_as_many_groups_as_are_resident() -> None:
    assert [_shape(n, 45)["share"] for n in (2_000, 4_000, 8_000, 16_000)] == [4, 4, 2, 1]
    assert [_shape(n, 45)["slots"] for n in (2_000, 4_000, 8_000, 12_000, 16_000)] == [8, 4, 4, 8, 4]
    assert _shape(500, 3)["share"] == 1  # a row has not two pairs
    assert [_shape(500, mean)["slots"] for mean in (3, 4.9, 5.1, 6.1)] == [4, 4, 4, 4]
    assert [_shape(20_000, mean)["slots"] for mean in (3, 4.9, 5.1)] == [4, 5, 6]
    assert _shape(2_000, 45, k=8)["share"] == 16
    assert _shape(2_000, 45, k=128)["share"] == 1


def test_ranges_of_rows_follow_the_l2() -> None:
    assert {name: _shape(10_000, 5)[name] for name in ("block", "steps", "prefetch")} == {
        "block": 256, "steps": 1, "prefetch": 1,
    }  # fmt: skip
    middle, large = _shape(150_000, 5), _shape(1_000_000, 5)
    assert (middle["block"], middle["steps"], middle["prefetch"]) == (256, 9, 0)  # 4 blocks of 32 rows on each of 132
    assert (large["block"], large["steps"], large["stride"]) == (64, 4, 8)
    grid = _shape(1_000_000, 5, line=1000)
    assert (grid["block"], grid["steps"], grid["stride"], grid["lines"]) == (128, 8, 1000, 1)
    assert _shape(1_000_000, 5, line=1000, lines=0) == large
    assert _shape(10_000, 5, line=100, lines=1)["stride"] == 100
    assert _shape(10_000, 5, line=0, lines=1)["lines"] == 0
    own = {"block": 128, "share": 4, "slots": 8, "steps": 2, "prefetch": 1}
    assert _shape(1_000_000, 45, **own).items() >= own.items()
    assert _shape(1_000_000, 45, k=512, slots=8)["slots"] == 2  # a lane has four pieces of each row
    assert _shape(0, 0)["steps"] == 1


def test_items_of_csr_tile() -> None:
    assert [tile_items(n, pieces(32, 4), 132) for n in (100_000, 200_000, 400_000, 5_000_000)] == [8, 16, 32, 64]


def test_atomics_are_as_many_as_the_kernels_say() -> None:
    device = open_device("host")
    a, k = battery()["two-hubs"], 4

    def atomics(name: str, layout: str = "row") -> int:
        variant = get_variant("spmm", name)
        prepared = _prepare(device, variant, a, k, layout, variant.dtypes[0])
        device.reset_counters()
        _run(device, prepared)
        counted = device.counters()
        assert counted is not None
        assert counted["kernel_launches"] == prepared.launch.operations
        return counted["global_atomics"]

    for name in ("csr-row", "ell", "bsr", "blocked-ell"):
        assert atomics(name) == atomics(name, "column") == 0
    # Each hub crosses some borders of blocks, each crossing is one atomic a column at most.
    prepared = _prepare(device, get_variant("spmm", "csr-tile"), a, k, "row", "float32")
    staged = prepared.job.params["items"] * (prepared.job.params["block"] // pieces(k, 4).lanes)
    borders = -(-(a.rows + a.nnz) // min(staged, 2048)) - 1
    assert 0 < atomics("csr-tile") <= k * borders
    device.close()


def test_half_precision_takes_values_as_rounded(device: Device) -> None:
    """Values that half precision cannot hold: rounded, 0, Inf, for the kernel as for the oracle."""
    a = csr(40, 40, [0, 1, 2, 3, 39, 39], [0, 1, 2, 3, 38, 39], [1 / 3, 1e-9, 1e6, 6e-8, 2049.0, -65504.0])
    whole, dtype = matrix(a), np.dtype(np.float16)
    for k, layout in ((16, "row"), (7, "column")):
        problem = _problem(k, layout)
        inputs = problem.inputs(whole, dtype, 1)
        oracle = problem.oracle(whole, inputs, dtype)
        assert np.isinf(oracle["r"][2]).all()
        prepared = _prepare(device, get_variant("spmm", "blocked-ell"), a, k, layout, "float16")
        result = problem.check(_run(device, prepared), oracle, dtype)
        assert result.ok, result.message


# ---- kernels that are wrong must be found wrong ----------------------------------------------------------


def _broken(device: Device, source: str, k: int) -> CheckResult:
    entry = get_variant("spmm", "csr-row")
    kernel = (Path(__file__).parent / "kernels" / source).resolve()
    wrong = dataclasses.replace(entry, name="broken", source=str(kernel))
    return _check(device, wrong, "every-length-to-70", k, "row", "float32")


def test_a_row_of_x_too_early_is_wrong(device: Device) -> None:
    result = _broken(device, "spmm_wrong_row.cu", 8)
    assert not result.ok
    assert result.details["wrong_columns"] == 8
    assert "exceeds its bound" in result.message


def test_an_omitted_column_is_never_written(device: Device) -> None:
    result = _broken(device, "spmm_misses_last_column.cu", 8)
    assert not result.ok
    assert result.message.startswith("71 of 568 entries never written, the first is row 0, column 7")


# ---- pieces ----------------------------------------------------------------------------------------------


@given(
    k=st.integers(1, 512),
    value_bytes=st.sampled_from([4, 8]),
    most=st.integers(1, 4),
    columns=st.sampled_from(["auto", 8, 16, 32, 64, 128, 256]),
)
def test_pieces_cover_the_columns(k: int, value_bytes: int, most: int, columns: int | str) -> None:
    p = pieces(k, value_bytes, columns, most)
    assert k % p.vec == 0  # rows of X begin on multiples of a piece
    assert p.vec * value_bytes <= 16
    assert p.lanes in (1, 2, 4, 8, 16, 32)
    assert 1 <= p.vecs <= most
    tile = p.vec * p.lanes * p.vecs
    assert p.tiles == -(-k // tile)
    if columns != "auto":
        assert tile < 2 * max(int(columns), p.vec)


def test_pieces_of_usual_sizes() -> None:
    assert pieces(32, 4) == (4, 8, 1, 1)
    assert pieces(32, 8) == (2, 16, 1, 1)
    assert pieces(128, 4) == (4, 32, 1, 1)
    assert pieces(512, 4) == (4, 32, 4, 1)
    assert pieces(96, 4) == (4, 8, 3, 1)  # no lane idles
    assert pieces(1, 4) == (1, 1, 1, 1)
    assert pieces(64, 4, columns=16) == (4, 4, 1, 4)
