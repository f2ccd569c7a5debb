"""Every SpMV variant against the battery: on the host always, on a GPU where there is one.

Variants come from the registry, so a new one is covered by being registered. The Makefile runs this file a
second time under AddressSanitizer.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from battery import battery, csr, matrix, random_rows
from hypothesis import given, settings
from hypothesis import strategies as st
from proportion import in_turn, pairwise, some

from spgraph_bench.device import open_device
from spgraph_bench.device.base import Device
from spgraph_bench.errors import SkipError, UsageError
from spgraph_bench.formats import get_format
from spgraph_bench.matrix import CSR
from spgraph_bench.parameters import Parameter
from spgraph_bench.problems import CheckResult, get_problem
from spgraph_bench.recipes import make
from spgraph_bench.runner.prepare import Prepared, filled_params, prepare
from spgraph_bench.stats import MatrixStats, row_stats
from spgraph_bench.variants import Variant, get_variant, variants
from spgraph_bench.variants.marked_rows import busiest_columns
from spgraph_bench.variants.spmv.csr import subwarp_shape
from spgraph_bench.variants.spmv.dia import lines_of, stride_of
from spgraph_bench.variants.spmv.gathers import scattered

SPMV = get_problem("spmv")
VARIANTS = variants("spmv")
HUGE = 64_000_000
FLOAT = {"SPG_VALUE": "float", "SPG_OFFSET": "int"}


@functools.cache
def _answer(name: str, dtype: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Inputs and oracle: the same for all variants."""
    whole = matrix(battery()[name])
    inputs = SPMV.inputs(whole, np.dtype(dtype), 1)
    return inputs, SPMV.oracle(whole, inputs, np.dtype(dtype))


def _prepare(device: Device, variant: Variant, a: CSR, dtype: str, offsets: str = "int32", **params: Any) -> Prepared:
    if variant.missing and (reason := variant.missing(device)):
        pytest.skip(reason)
    if dtype not in variant.dtypes:
        pytest.skip(f"{variant.name} has no {dtype}")
    form = get_format(variant.format)
    stats = row_stats(a)
    own = {k: v for k, v in params.items() if k in form.tunables}
    if form.predict_bytes(stats, 8, 8, **own) > HUGE:
        pytest.skip(str(form.refuse(stats, HUGE, 8, **own)))
    if not form.packs_all and (why := form.refuse(stats, None, 8, True, **own)):
        pytest.skip(why)
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


@functools.cache
def _stats(name: str) -> MatrixStats:
    return row_stats(battery()[name])


def _fits(variant: Variant, name: str) -> bool:
    """Whether it and its format take the matrix: what they refuse is not collected."""
    form, stats = get_format(variant.format), _stats(name)
    if form.predict_bytes(stats, 8, 8) > HUGE or (variant.refuse and variant.refuse(stats)):
        return False
    return not form.refuse(stats, None, 8, True)


BATTERY = [
    pytest.param(*case, id="-".join((case[0].name, *case[1:])))
    for number, v in enumerate(VARIANTS)
    for case in in_turn([(v, name) for name in battery() if _fits(v, name)], v.dtypes, number)
]
"""Every kernel, every matrix that its format takes; value types in turn."""


@pytest.mark.parametrize(("variant", "name", "dtype"), BATTERY)
def test_battery(device: Device, variant: Variant, name: str, dtype: str) -> None:
    result = _check(device, variant, name, dtype)
    assert result.ok, result.message


WIDE = ("0x0", "every-length-to-70", "around-2048", "random-257", "pattern")


@pytest.mark.parametrize(
    ("variant", "name"),
    [pytest.param(v, name, id=f"{v.name}-{name}") for v in VARIANTS for name in WIDE if _fits(v, name)],
)
def test_int64_offsets(device: Device, variant: Variant, name: str) -> None:
    for dtype in some(variant.dtypes, 2 if name == "every-length-to-70" else 1):
        result = _check(device, variant, name, dtype, "int64")
        assert result.ok, result.message


def _settings(variant: Variant) -> list[dict[str, Any]]:
    """Settings of the tunables with choices, every pair of choices among them."""
    chosen = {name: t for name, t in variant.tunables.items() if t.choices}
    if not chosen:
        return []
    return pairwise({n: t.choices for n, t in chosen.items()}, {n: t.default for n, t in chosen.items()})


@pytest.mark.parametrize(
    ("variant", "params", "name"),
    [
        pytest.param(*case, id="-".join((case[0].name, *(f"{k}={v}" for k, v in case[1].items()), case[2])))
        for v in VARIANTS
        for case in in_turn(
            [(v, setting) for setting in _settings(v)],
            [n for n in ("warps-and-one", "hub-5000", "random-1025", "nan-and-inf") if _fits(v, n)] or ["pattern"],
        )
    ],
)
def test_every_two_choices_of_two_tunables(device: Device, variant: Variant, params: dict[str, Any], name: str) -> None:
    dtype = "float64" if name in ("warps-and-one", "random-1025") else "float32"
    result = _check(device, variant, name, dtype, **params)
    assert result.ok, result.message


@pytest.mark.parametrize("name", ["hub-5000", "nan-and-inf", "random-1025"])
def test_coo_atomic_takes_entries_in_any_order(device: Device, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As they are before assembly."""
    pack = type(get_format("coo")).pack

    def loose(self: Any, *args: Any, **params: Any) -> Any:
        packed = pack(self, *args, **params)
        order = np.random.default_rng(3).permutation(packed.nnz)
        return dataclasses.replace(packed, arrays={k: v[order] for k, v in packed.arrays.items()})

    monkeypatch.setattr(type(get_format("coo")), "pack", loose)
    result = _check(device, get_variant("spmv", "coo-atomic"), name, "float32")
    assert result.ok, result.message


@pytest.mark.parametrize("buffers", [1, 2, 3])
@pytest.mark.parametrize("name", ["every-length-to-70", "hub-5000", "two-hubs", "nan-and-inf"])
def test_binned_fused_in_many_chunks(device: Device, name: str, buffers: int) -> None:
    # More tiles and bins than blocks, fewer bins in a chunk than blocks, rows in several bins.
    for tiles, bins, chunk in ((11, 50, 3), (3, 200, 9)):
        result = _check(
            device,
            get_variant("spmv", "binned-fused"),
            name,
            "float32",
            tiles=tiles,
            bin_entries=bins,
            chunk_bins=chunk,
            buffers=buffers,
        )
        assert result.ok, result.message


@pytest.mark.parametrize("launches", [1, 2])
@pytest.mark.parametrize("name", [name for name in battery() if "random" not in name])
def test_csr_segmented_in_one_launch_or_two(device: Device, name: str, launches: int) -> None:
    for dtype, steps in (("float32", 8), ("float64", 4)):
        result = _check(device, get_variant("spmv", "csr-segmented"), name, dtype, launches=launches, steps=steps)
        assert result.ok, result.message


@pytest.mark.parametrize("variant", ["hyb", "hyb-atomic"])
@pytest.mark.parametrize("k", [0, 1, "median", 10_000])
@pytest.mark.parametrize("name", ["hub-5000", "every-length-to-70", "first-and-last-row-empty", "tridiagonal"])
def test_hyb_with_any_k(device: Device, name: str, k: Any, variant: str) -> None:
    result = _check(device, get_variant("spmv", variant), name, "float64", hyb_k=k)
    assert result.ok, result.message


@pytest.mark.parametrize("lines", [1, 2, 3, 64])
@pytest.mark.parametrize(
    ("rows", "cols", "diag"),
    [
        pytest.param(1500, 1500, (-200, -1, 0, 1, 200), id="grid-graph"),
        pytest.param(1500, 1500, (0, 130, 700), id="above-only"),
        pytest.param(1300, 1500, (-700, 3), id="far-below"),
        pytest.param(900, 3000, (64, 2000), id="beyond-the-last-row"),
        pytest.param(3000, 2900, tuple(range(-90, 91, 10)), id="two-batches"),
    ],
)
def test_dia_with_far_diagonals(device: Device, rows: int, cols: int, diag: tuple[int, ...], lines: int) -> None:
    row = np.repeat(np.arange(rows), len(diag))
    col = row + np.tile(diag, rows)
    inside = (col >= 0) & (col < cols)
    a = csr(rows, cols, row[inside], col[inside], np.random.default_rng(4).uniform(-1, 1, inside.sum()))
    inputs = SPMV.inputs(matrix(a), np.dtype("float64"), 1)
    oracle = SPMV.oracle(matrix(a), inputs, np.dtype("float64"))
    for block, name in ((64, "dia-jit"), (256, "dia-jit"), (64, "dia")):
        given = {"lines": lines, "block": block, "from": 0}
        prepared = _prepare(device, get_variant("spmv", name), a, "float64", **given)
        result = SPMV.check(_run(device, prepared), oracle, np.dtype("float64"))
        assert result.ok, result.message


@pytest.mark.parametrize("group", ["auto", 1, 2, 3, 8])
@pytest.mark.parametrize(("size", "rows", "cols"), [(2, 300, 300), (3, 1000, 1003), (3, 1001, 990), (8, 260, 700)])
def test_dia_of_groups_of_rows(device: Device, size: int, rows: int, cols: int, group: int | str) -> None:
    shift = np.array([-30, -1, 0, 1, 30])
    row = np.repeat(np.arange(rows), len(shift) * size)
    col = row - row % size + np.tile((shift[:, None] * size + np.arange(size)).reshape(-1), rows)
    inside = (col >= 0) & (col < cols)
    a = csr(rows, cols, row[inside], col[inside], np.random.default_rng(4).uniform(-1, 1, inside.sum()))
    inputs = SPMV.inputs(matrix(a), np.dtype("float64"), 1)
    oracle = SPMV.oracle(matrix(a), inputs, np.dtype("float64"))
    ways: list[tuple[str, dict[str, Any]]] = [("dia", {}), ("dia", {"rows": 4, "ahead": 2})]
    if group == "auto":  # each list of diagonals is a module of its own
        ways += [("dia-jit", {"from": 0}), ("dia-jit", {"from": 0, "lines": 3, "block": 64})]
    for name, more in ways:
        prepared = _prepare(device, get_variant("spmv", name), a, "float64", group=group, **more)
        assert prepared.job.packed.group == (size if group == "auto" else group)
        result = SPMV.check(_run(device, prepared), oracle, np.dtype("float64"))
        assert result.ok, (more, result.message)


def test_what_dia_decides_is_shown(device: Device) -> None:
    assert _prepare(device, get_variant("spmv", "dia"), battery()["tridiagonal"], "float32").job.params == {
        "block": 256,
        "rows": 1,
        "ahead": 14,
    }
    large, entry = make("poisson2d:n=150").csr, get_variant("spmv", "dia-jit")
    job = _prepare(device, entry, large, "float32").job
    assert (job.params["block"], job.params["lines"]) == (256, 1)
    assert _prepare(device, entry, large, "float32", block="64").job.params["block"] == 64


def test_what_is_compiled_for_one_matrix_is_known_with_its_time(device: Device) -> None:
    large = make("poisson2d:n=150").csr
    job = _prepare(device, get_variant("spmv", "dia-jit"), large, "float32").job
    [(module, own)] = job.modules.items()
    assert own
    assert any("SPG_DIAGS=D(-150)D(-1)D(0)D(1)D(150)" in option for option in module.options)
    again = _prepare(open_device(device.kind), get_variant("spmv", "dia-jit"), large, "float32").job
    assert [m.ms for m in again.modules] == [module.ms] != [0.0]  # from the cache, and still counted
    general = _prepare(device, get_variant("spmv", "dia"), large, "float32").job
    assert list(general.modules.values()) == [False]
    with pytest.raises(ValueError, match="not declared as compiled for one matrix"):
        general.kernel_for_matrix("dia")


def test_dia_jit_leaves_what_is_not_worth_a_compile(device: Device) -> None:
    packed = get_format("dia").pack(battery()["tridiagonal"], np.dtype("float32"))
    for params, why in (({}, "--param from=0"), ({"from": 0}, None)):
        entry, outputs = get_variant("spmv", "dia-jit"), {"y": ((packed.rows,), np.dtype("float32"))}
        inputs = {"x": np.ones(packed.cols, np.float32)}
        if why is None:
            prepare(device, entry, packed, inputs, outputs, params)
        else:
            with pytest.raises(SkipError, match=why):
                prepare(device, entry, packed, inputs, outputs, params)


def test_dia_takes_as_many_lines_as_leave_multiprocessors_alike() -> None:
    assert lines_of(1 << 22, 2048, 512, 528) == 8  # 1,024 blocks, two for each place
    assert lines_of(8_000_000, 2048, 512, 1024) == 8
    assert lines_of(4_000_000, 0, 512, 528) == 1  # no diagonal is far
    assert lines_of(2_250_000, 1536, 512, 528) == 1  # few rows: measured slower


def test_the_farthest_diagonal_there_can_be() -> None:
    assert stride_of(np.array([-5, 2**31 - 2], np.int32), 512) == 2**31
    assert stride_of(np.array([2 - 2**31, 0], np.int32), 64) == 2**31
    assert stride_of(np.array([-31, 31], np.int32), 64) == 0


@pytest.mark.parametrize("launches", [1, 2])
def test_csr_segmented_with_as_many_rows_as_there_can_be(tmp_path: Path, launches: int) -> None:
    """A lane's row number goes beyond the last row, and must not wrap round to below the first.

    Row offsets and y are of 8 GiB, in sparse files; all rows but the last 1,000 are empty.
    """
    rows, used, tile = 2**31 - 1, 1000, 128
    lengths = np.arange(used) % 6
    nnz = int(lengths.sum())
    row_ptr = np.memmap(tmp_path / "row_ptr", np.int32, "w+", shape=rows + 1)
    row_ptr[rows - used + 1 :] = np.cumsum(lengths)
    y = np.memmap(tmp_path / "y", np.float32, "w+", shape=rows)
    y[rows - used :] = np.nan if launches == 1 else 0
    col, val = np.arange(nnz, dtype=np.int32) % 7, 1 + np.arange(nnz, dtype=np.float32) % 5
    x = np.arange(1, 8, dtype=np.float32)
    device = open_device("host")
    defines = {**FLOAT, "SPG_STEPS": str(tile // 32), "SPG_BLOCK": "256", "SPG_PER_SM": "2048"}
    module = device.compile("spmv/csr_segmented.cu", defines | ({"SPG_ONE_LAUNCH": "1"} if launches == 1 else {}))
    tiles = -(-nnz // tile)
    tile_row = device.empty(tiles + 1, np.int32)
    offsets, sums = (SimpleNamespace(ptr=a.ctypes.data, dtype=a.dtype) for a in (row_ptr, y))
    module.kernel("csr_segmented_table")(
        -(-(tiles + 1) // 256), 256, np.int32(rows), np.int32(tiles), offsets, tile_row
    )
    begins = device.download(tile_row)
    own = np.searchsorted(row_ptr[rows - used :], np.arange(0, nnz, tile)) + rows - used
    assert begins[1:-1].tolist() == own[1:].tolist()
    # No test waits for 2^31 empty rows to be zeroed: the first tile begins with the last 1,000 rows.
    begins[0] = rows - used
    device.write(tile_row, begins)
    parts = [device.upload(np.zeros(tiles, np.uint64))] if launches == 1 else []
    module.kernel("csr_segmented")(
        -(-32 * tiles // 256),
        256,
        np.int32(nnz),
        tile_row,
        offsets,
        device.upload(col),
        device.upload(val),
        device.upload(x),
        sums,
        *parts,
    )
    device.synchronize()
    device.close()
    ends = np.cumsum(lengths)
    products = np.concatenate(([0], np.cumsum(val.astype(float) * x[col])))
    assert y[rows - used :].tolist() == (products[ends] - products[ends - lengths]).tolist()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["around-2048", "hub-5000"])
@pytest.mark.parametrize("seed", range(1, 5))
def test_csr_segmented_leaves_no_part_to_the_next_launch(seed: int, name: str, dtype: str) -> None:
    """With another x, and in an order in which a tile may look for parts before they are there."""
    device = open_device("host", seed=seed)
    prepared = _prepare(device, get_variant("spmv", "csr-segmented"), battery()[name], dtype, launches=1)
    x = device.download(prepared.job.buffers["x"])
    for factor in (-3, 2, 1):
        device.write(prepared.job.buffers["x"], factor * x)
        prepared.launch.run()
    device.synchronize()
    result = SPMV.check(prepared.launch.output(), _answer(name, dtype)[1], np.dtype(dtype))
    device.close()
    assert result.ok, result.message


def test_csr_segmented_takes_one_launch_where_zeroing_is_a_good_part(device: Device) -> None:
    def operations(a: CSR) -> int:
        return _prepare(device, get_variant("spmv", "csr-segmented"), a, "float32").launch.operations

    assert operations(battery()["row-beyond-65536"]) == 1
    assert operations(battery()["no-nonzeros"]) == 2
    assert operations(random_rows([1] + [0] * 1000 + [5], 9, 1)) == 2  # a tile would have all rows to zero
    assert operations(random_rows([1025] * 1025, 1100, 1)) == 2  # more than 2^20 entries


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: v.name)
def test_running_again_gives_the_answer_again(device: Device, variant: Variant) -> None:
    """Nothing is left over from the run before, which had another x, whether or not outputs are poisoned in between."""
    dtype = "float64"
    prepared = _prepare(device, variant, battery()["hub-5000"], dtype)
    inputs, oracle = _answer("hub-5000", dtype)
    prepared.launch.reset()
    for factor in (1, -1, 1, -1, 1):
        prepared.write_input("x", factor * inputs["x"])
        prepared.launch.run()
        device.synchronize()
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

    def atomics(name: str, dtype: str = "float32", **params: Any) -> int:
        prepared = _prepare(device, get_variant("spmv", name), a, dtype, **params)
        device.reset_counters()
        _run(device, prepared)
        counted = device.counters()
        assert counted is not None
        memsets = name in ("coo-atomic", "coo-segmented", "coo-unsorted") or params.get("launches") == 2
        assert counted["kernel_launches"] == prepared.launch.operations - memsets
        return counted["global_atomics"]

    assert atomics("coo-atomic") == a.nnz
    assert atomics("coo-unsorted") == 2 * a.nnz
    tail = get_format("hyb").pack(a).tail
    assert atomics("hyb") < atomics("hyb-atomic") == tail
    warps = -(-a.nnz // 256)
    assert atomics("coo-segmented", steps=8) <= a.rows + warps  # one per row and warp
    assert atomics("csr-segmented", launches=2) <= 2 * -(-a.nnz // 128)  # two cut rows a tile
    assert atomics("csr-segmented", launches=1) == -(-a.nnz // (8 * 128))  # a ticket for each block, none on y
    assert atomics("csr-vector") == 0
    assert atomics("ell") == 0

    def pieces(tile: int) -> int:
        first = [(r + int(a.row_ptr[r])) // tile for r in (0, 201)]
        last = [(r + int(a.row_ptr[r + 1]) - 1) // tile for r in (0, 201)]
        return sum(e - b + 1 for b, e in zip(first, last, strict=True))

    # Arrivals at the two long rows; what a kernel takes for its tile is what the table is made for.
    assert 4 <= pieces(2048) < pieces(1024) < pieces(512)
    assert atomics("csr-adaptive") == pieces(2048)
    assert atomics("csr-adaptive", "float64") == pieces(1024)
    for dtype in ("float32", "float64"):
        for tile in (512, 1024, 2048):
            assert atomics("csr-adaptive", dtype, tile=tile) == pieces(tile)
    device.close()


def test_csr_adaptive_gives_the_same_bits_in_any_order() -> None:
    answers = set()
    for seed in (0, 1, 2, 3):
        device = open_device("host", seed=seed)
        prepared = _prepare(device, get_variant("spmv", "csr-adaptive"), battery()["row-beyond-65536"], "float32")
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


def test_a_grid_of_no_blocks_is_not_launched(device: Device) -> None:
    kernel = device.compile("spmv/csr_scalar.cu", FLOAT).kernel("csr_scalar")
    args = (np.int32(5), None, None, None, None, None)  # a launch would read from nowhere
    kernel(0, 32, *args)
    kernel.bind((4, 0), 32, *args, cooperative=True)()
    kernel.bind_packed(0, 32, *args)()
    device.synchronize()


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
    with pytest.raises(UsageError, match="csr-scalar: block cannot be 100"):
        _prepare(device, entry, a, "float32", block=100)
    with pytest.raises(UsageError, match="csr-scalar: block cannot be 'many'"):
        _prepare(device, entry, a, "float32", block="many")
    entry = get_variant("spmv", "csr-subwarp")
    given = _prepare(device, entry, a, "float32", threads="8", resident="1024").job.params
    # What was "auto" is decided by then: records show it.
    assert given == {"block": 128, "threads": 8, "rows": 1, "quads": 1, "resident": 1024}
    free = dataclasses.replace(entry, tunables={"ratio": Parameter(0.5, "any number")})
    assert filled_params(free, {"ratio": "2"}) == {"ratio": 2.0}
    with pytest.raises(UsageError, match="csr-subwarp: ratio cannot be 'half'"):
        filled_params(free, {"ratio": "half"})


# ---- the shape of csr-subwarp ----------------------------------------------------------------------------

AUTO = dict.fromkeys(("block", "threads", "rows", "quads", "resident"), "auto")


@pytest.mark.parametrize(
    ("mean", "value_bytes", "shape"),
    [
        (5, 4, {"threads": 2, "quads": 1, "rows": 4, "resident": 1024, "block": 64}),
        (5, 8, {"threads": 2, "quads": 1, "rows": 2, "resident": 1024, "block": 128}),
        (15, 4, {"threads": 4, "quads": 2, "rows": 1, "resident": 2048, "block": 128}),
        (27, 4, {"threads": 8, "quads": 1, "rows": 4, "resident": 1024, "block": 64}),
        (121, 4, {"threads": 16, "quads": 2, "rows": 1, "resident": 2048, "block": 128}),
        (15, 8, {"threads": 8, "quads": 1, "rows": 4, "resident": 768, "block": 64}),
        (5000, 8, {"threads": 32, "quads": 2, "rows": 1, "resident": 1024, "block": 128}),
    ],
)
def test_subwarp_shapes(mean: int, value_bytes: int, shape: dict[str, int]) -> None:
    rows = 1_000_000
    assert subwarp_shape(AUTO, rows, rows * mean, value_bytes, 132) == shape
    fixed = AUTO | {"rows": 2, "block": 512}
    assert subwarp_shape(fixed, rows, rows * mean, value_bytes, 132).items() >= {"rows": 2, "block": 512}.items()


def test_subwarps_of_a_small_matrix_take_a_row_each() -> None:
    assert subwarp_shape(AUTO, 10_000, 50_000, 4, 132)["rows"] == 1
    assert subwarp_shape(AUTO, 0, 0, 4, 132)["rows"] == 1


@pytest.mark.parametrize(("threads", "quads", "rows"), [(2, 1, 4), (8, 2, 1), (8, 1, 4), (32, 2, 2)])
def test_shapes_of_subwarps(device: Device, threads: int, quads: int, rows: int) -> None:
    shape: dict[str, Any] = {"threads": threads, "quads": quads, "rows": rows, "block": 64}
    for name in ("every-length-to-70", "random-1025", "around-2048"):
        result = _check(device, get_variant("spmv", "csr-subwarp"), name, "float32", **shape)
        assert result.ok, result.message


# ---- tiles of csr-segmented in which more rows begin than are looked at one by one -----------------------


@pytest.mark.parametrize("step", [40, 3000])
def test_segmented_sums_between_many_empty_rows(device: Device, step: int) -> None:
    rows = 70_000
    lengths = np.zeros(rows, np.int64)
    lengths[::step] = 1
    lengths[step // 2] = 300
    row = np.repeat(np.arange(rows), lengths)
    a = csr(rows, 400, row, (7 * np.arange(len(row))) % 400, 1.0 + np.arange(len(row)) % 5)
    whole = matrix(a)
    for dtype in (np.dtype(np.float32), np.dtype(np.float64)):
        inputs = SPMV.inputs(whole, dtype, 1)
        prepared = _prepare(device, get_variant("spmv", "csr-segmented"), a, dtype.name)
        device.write(prepared.job.buffers["x"], inputs["x"])
        result = SPMV.check(_run(device, prepared), SPMV.oracle(whole, inputs, dtype), dtype)
        assert result.ok, result.message


# ---- tiles of csr-merge and csr-adaptive -----------------------------------------------------------------


def _is_right(device: Device, name: str, a: CSR, dtype: str, **params: Any) -> None:
    whole, kind = matrix(a), np.dtype(dtype)
    prepared = _prepare(device, get_variant("spmv", name), a, dtype, **params)
    result = SPMV.check(_run(device, prepared), SPMV.oracle(whole, SPMV.inputs(whole, kind, 1), kind), kind)
    assert result.ok, result.message


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("items", [5, 7, 9, 11])
@pytest.mark.parametrize("block", [64, 128, 256, 512])
def test_merged_tiles_of_nothing_but_entries_or_row_ends(device: Device, block: int, items: int, dtype: str) -> None:
    """Products and sums share one array: all of either, and rows that end at or beside the end of a tile."""
    tile = block * items
    lengths = [1, 2 * tile + 3, *[0] * (2 * tile + 3), 1, tile - 1, 0, tile, tile - 2, *[1] * 40]
    _is_right(device, "csr-merge", random_rows(lengths, 2 * tile + 9, 12), dtype, block=block, items=items)


@settings(max_examples=40, deadline=None)
@given(
    lengths=st.lists(st.sampled_from([0, 0, 1, 2, 7, 318, 319, 320, 321, 700]), max_size=60),
    dtype=st.sampled_from(["float32", "float64"]),
)
def test_merged_tiles_of_any_rows(lengths: list[int], dtype: str) -> None:
    device = open_device("host", seed=2)
    _is_right(device, "csr-merge", random_rows(lengths, 701, 13), dtype, block=64, items=5)
    device.close()


def test_csr_merge_says_which_tiles_are_beyond_shared_memory(device: Device) -> None:
    packed = get_format("csr").pack(battery()["tridiagonal"], np.float64)
    whole, entry = matrix(battery()["tridiagonal"]), get_variant("spmv", "csr-merge")
    inputs, outputs = SPMV.inputs(whole, packed.dtype, 1), SPMV.output_arrays(whole, packed.dtype)
    with pytest.raises(SkipError, match=r"^needs 56.3 kB of shared memory a block: --param block=256$"):
        prepare(device, entry, packed, inputs, outputs, {"block": 512, "items": 11})
    prepare(device, entry, packed, inputs, outputs, {"block": 512, "items": 9})
    prepare(device, entry, packed, inputs, outputs, {"block": 256, "items": 11})


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["csr-adaptive", "csr-16"])
@pytest.mark.parametrize("tile", ["auto", 512, 1024, 2048])
@pytest.mark.parametrize("block", [128, 256, 512])
def test_adaptive_blocks_and_tiles(device: Device, block: int, tile: int | str, name: str, dtype: str) -> None:
    for matrix_name in ("every-length-to-70", "around-2048", "long-empty-stretches"):
        result = _check(device, get_variant("spmv", name), matrix_name, dtype, block=block, tile=tile)
        assert result.ok, result.message


@pytest.mark.parametrize(("dtype", "tile"), [("float32", 2048), ("float64", 1024)])
@pytest.mark.parametrize("name", ["csr-adaptive", "csr-16", "pattern-csr", "pattern-csr-16"])
def test_the_tile_that_was_decided_is_shown(device: Device, name: str, dtype: str, tile: int) -> None:
    a = dataclasses.replace(battery()["tridiagonal"], values=np.full(battery()["tridiagonal"].nnz, 0.5))
    entry = get_variant("spmv", name)
    assert entry.tunables["tile"].default == "auto"
    assert _prepare(device, entry, a, dtype).job.params["tile"] == tile
    assert _prepare(device, entry, a, dtype, tile="512").job.params["tile"] == 512


@pytest.mark.parametrize(
    ("name", "dtype", "threads"),
    [("csr-16", "float32", 1280), ("csr-16", "float64", 1024), ("pattern-csr-16", "float64", 1280)],
)
def test_the_threads_that_registers_are_left_for_are_shown(device: Device, name: str, dtype: str, threads: int) -> None:
    a = dataclasses.replace(battery()["tridiagonal"], values=np.full(battery()["tridiagonal"].nnz, 0.5))
    entry = get_variant("spmv", name)
    assert _prepare(device, entry, a, dtype).job.params["threads"] == threads
    assert _prepare(device, entry, a, dtype, threads="1536").job.params["threads"] == 1536


@pytest.mark.parametrize(
    ("col", "value_bytes", "expected"),
    [
        (np.arange(320), 4, False),  # 4 sectors a read
        (np.arange(320), 8, False),  # 8
        (np.arange(320) * 2, 8, False),  # 16 of 32: not more than every second
        (np.arange(320) * 4, 4, False),
        (np.arange(320) * 5, 4, True),
        (np.arange(320) * 8, 4, True),
        (np.arange(320)[::-1] * 8, 4, True),
        (np.full(320, 7), 4, False),
        (np.where(np.arange(320) % 4, -1, 100 * np.arange(320)), 4, True),  # padding does not count
        (np.where(np.arange(320) % 4, -1, 0), 4, False),
        (np.full(320, -1), 8, False),
        (np.empty(0), 4, False),
        (np.array([5]), 8, False),
        (np.full(32, 2**31 - 1), 8, False),
        (np.random.default_rng(1).integers(0, 1 << 20, (16, 4000)), 8, True),
        (np.arange(4000) + np.arange(16)[:, None] * 5000, 8, False),
    ],
)
def test_whether_x_is_read_here_and_there(col: np.ndarray, value_bytes: int, expected: bool) -> None:
    assert scattered(col.astype(np.int32), value_bytes) is expected


def test_how_far_ahead_kernels_read_follows_from_where_x_is(device: Device) -> None:
    scattered_rows = random_rows([4] * 600, 40_000)
    for name, tunable, near, far in (
        ("ell", "ahead", (6, 6), (6, 1)),
        ("sell", "ahead", (6, 6), (6, 1)),
        ("hyb", "ahead", (6, 6), (6, 1)),
        ("coo-segmented", "batch", (8, 4), (1, 1)),
        ("hyb", "batch", ("auto", "auto"), ("auto", "auto")),  # there is no tail
    ):
        entry = get_variant("spmv", name)
        for dtype, near_value, far_value in zip(("float32", "float64"), near, far, strict=True):
            for a, value in ((battery()["tridiagonal"], near_value), (scattered_rows, far_value)):
                assert _prepare(device, entry, a, dtype).job.params[tunable] == value, (name, dtype)
                assert _prepare(device, entry, a, dtype, **{tunable: "2"}).job.params[tunable] == 2


# ---- columns of csr-hubs in shared memory, and rows in several chunks ------------------------------------


@pytest.mark.parametrize(
    "params",
    [
        {"hubs": 0, "row_cost": 0},  # all of x from global memory
        {"hubs": 1, "chunks": 8},
        {"hubs": 5, "block": 256},
        {"hubs": 3001, "row_cost": 1024},  # no multiple of 16 bytes
        {"hubs": 6000, "row_cost": 0, "chunks": 8},  # in the smaller matrices every column that has an entry
    ],
    ids=lambda p: ",".join(f"{k}={v}" for k, v in p.items()),
)
@pytest.mark.parametrize("name", ["hub-5000", "around-2048", "every-length-to-70", "full-tiles-then-empty-rows", "1x1"])
def test_csr_hubs_with_columns_in_shared_memory_or_not(device: Device, name: str, params: dict[str, Any]) -> None:
    for dtype, offsets in (("float32", "int32"), ("float64", "int64")):
        result = _check(device, get_variant("spmv", "csr-hubs"), name, dtype, offsets, **params)
        assert result.ok, result.message


@settings(max_examples=40, deadline=None)
@given(
    lengths=st.lists(st.sampled_from([0, 0, 1, 2, 3, 125, 127, 128, 129, 256, 640]), max_size=60),
    chunks=st.sampled_from([1, 2, 4, 8]),
    hubs=st.sampled_from([-1, 0, 2]),
    dtype=st.sampled_from(["float32", "float64"]),
)
def test_csr_hubs_with_rows_that_end_where_tiles_do(lengths: list[int], chunks: int, hubs: int, dtype: str) -> None:
    device = open_device("host", seed=2)
    _is_right(device, "csr-hubs", random_rows(lengths, 700, 14), dtype, chunks=chunks, hubs=hubs)
    device.close()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("hubs", [-1, 0, 1])
def test_csr_hubs_adds_no_infinite_x_to_rows_without_that_column(device: Device, hubs: int, dtype: str) -> None:
    """The last tile is filled up with the first column in shared memory, or the first of all, times 0."""
    a = csr(3, 4, [0, 0, 0, 1, 1, 2], [0, 1, 2, 1, 2, 3], [1, 2, 3, 4, 5, 6])
    prepared = _prepare(device, get_variant("spmv", "csr-hubs"), a, dtype, hubs=hubs)
    dense = a.to_scipy(np.float64).toarray()
    for column, value in itertools.product(range(4), (np.inf, np.nan)):
        x = np.ones(4, dtype)
        x[column] = value
        device.write(prepared.job.buffers["x"], x)
        expected = np.where(dense[:, column] != 0, value, dense.sum(1))
        assert np.array_equal(_run(device, prepared), expected, equal_nan=True)


def test_the_busiest_columns_are_those_with_the_most_entries() -> None:
    def busiest(count: np.ndarray, most: int, least: int) -> np.ndarray:
        return busiest_columns(count, most, 8 * (least - 1), 4)  # 8 copies of 4 bytes are a sector

    count = np.array([3, 0, 7, 3, 9, 3, 1], np.uint32)
    assert busiest(count, 7, 1).tolist() == [0, 2, 3, 4, 5, 6]
    assert busiest(count, 7, 3).tolist() == [0, 2, 3, 4, 5]
    assert busiest(count, 2, 1).tolist() == [2, 4]
    tied = busiest(count, 3, 1)
    assert sorted(count[tied]) == [3, 7, 9]
    assert (np.diff(tied) > 0).all()
    assert busiest(count, 0, 1).tolist() == busiest(count, 7, 10).tolist() == busiest(count[:0], 5, 1).tolist() == []


# ---- the row-block table of csr-adaptive -----------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(lengths=st.lists(st.sampled_from([0, 0, 1, 7, 255, 256, 257, 511, 512, 513, 3000]), max_size=60))
def test_the_row_block_table_shares_rows_and_entries(lengths: list[int]) -> None:
    tile = 512
    row_ptr = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    rows, cost = len(lengths), np.arange(len(lengths) + 1) + row_ptr
    blocks = -(-int(cost[-1]) // tile)
    device = open_device("host")
    block_row, entry, reaches_in = (device.empty(blocks + 1, np.int32) for _ in range(3))
    defines = {
        **FLOAT,
        "SPG_TILE": str(tile),
        "SPG_BLOCK": "128",
        "SPG_THREADS": "1024",
        "SPG_DEPTH": "2",
        "SPG_FAR": "8",
    }
    table = device.compile("spmv/csr_adaptive.cu", defines).kernel("csr_adaptive_table")
    table(1, 1024, np.int32(rows), np.int32(blocks), device.upload(row_ptr), block_row, entry, reaches_in)
    first = device.download(block_row)
    assert first[-1] == rows
    for b in range(blocks):
        # Row i is the block's whose share holds cost i + row_ptr[i].
        mine = np.flatnonzero((cost[:-1] >= b * tile) & (cost[:-1] < (b + 1) * tile))
        assert list(range(first[b], first[b + 1])) == list(mine)
    assert np.array_equal(device.download(entry), row_ptr[first])
    for b, reaches in enumerate(device.download(reaches_in)):
        before = first[b] - 1
        long = before >= 0 and lengths[before] > tile // 2
        assert reaches == (long and before + row_ptr[before + 1] - 1 >= b * tile)
