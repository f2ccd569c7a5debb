"""BSR: the choice of the block size, the layout that warps read, and the kernels with blocks of any size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from battery import battery, csr, matrix

from spgraph_bench.device.base import Device
from spgraph_bench.errors import UsageError
from spgraph_bench.formats import Packed, bsr, get_format
from spgraph_bench.formats.bsr import _counted, choose_block_size
from spgraph_bench.matrix import CSR
from spgraph_bench.problems import get_problem
from spgraph_bench.recipes import make
from spgraph_bench.runner.prepare import prepare
from spgraph_bench.stats import row_ranges, row_stats
from spgraph_bench.structure import count_blocks
from spgraph_bench.variants import Variant, get_variant

SPMV = get_problem("spmv")
SIZES = [(2, 2), (3, 3), (4, 4), (5, 5), (6, 6), (7, 7), (8, 8), (2, 4), (4, 2)]


def _blocks(places: list[tuple[int, int]], r: int, c: int, rows: int, cols: int) -> CSR:
    """Full blocks at these places (block row, block column), cut off at the matrix's edge."""
    row = np.concatenate([np.repeat(i * r + np.arange(r), c) for i, _ in places])
    col = np.concatenate([np.tile(j * c + np.arange(c), r) for _, j in places])
    inside = (row < rows) & (col < cols)
    return csr(rows, cols, row[inside], col[inside], 1.0 + np.arange(len(row))[inside])


def _multiplies_right(device: Device, entry: Variant, a: CSR, packed: Packed) -> None:
    whole, kind = matrix(a), packed.dtype
    inputs = SPMV.inputs(whole, kind, 1)
    prepared = prepare(device, entry, packed, inputs, SPMV.output_arrays(whole, kind))
    prepared.launch.reset()
    prepared.launch.run()
    device.synchronize()
    result = SPMV.check(prepared.launch.output(), SPMV.oracle(whole, inputs, kind), kind)
    assert result.ok, result.message


def _scattered(r: int, c: int, seed: int = 3) -> CSR:
    """70 block rows of up to 6 blocks, a few of them empty, the last block row and column cut off."""
    draw = np.random.default_rng(seed)
    places = {(int(i), int(j)) for i in range(70) for j in draw.integers(0, 40, draw.integers(0, 7))}
    return _blocks(sorted(places | {(69, 39)}), r, c, 70 * r - (r > 1), 40 * c - (c > 1))


@pytest.mark.parametrize("size", SIZES)
def test_size_is_found(size: tuple[int, int]) -> None:
    a = _scattered(*size)
    chosen = choose_block_size(a)
    assert (chosen.rows, chosen.cols) == size
    assert chosen.fills(a.nnz)
    assert get_format("bsr").refuse(row_stats(a), None) is None


def test_blocks_are_counted_over_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    a = _scattered(3, 3)
    whole = choose_block_size(a)
    monkeypatch.setattr(row_ranges, "__defaults__", (50, 1))
    assert choose_block_size(a) == whole
    assert choose_block_size(a, "2x4").blocks == len(set(zip(*(_places(a, 2, 4)), strict=True)))


@pytest.mark.parametrize("size", SIZES)
def test_size_is_found_in_a_large_matrix_from_a_sample(size: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    a = _scattered(*size)
    exact = choose_block_size(a)
    counted = []
    monkeypatch.setattr(bsr, "SAMPLE", a.nnz // 3)
    monkeypatch.setattr(bsr, "_counted", lambda *given: counted.extend(given[1]) or _counted(*given))
    assert choose_block_size(a) == exact
    assert size in counted
    assert len(counted) <= 4
    assert get_format("bsr").refuse(row_stats(a), None) is None


def test_what_a_sample_says_of_no_size_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks where the sample does not look: the refusal would not be true."""
    a = _blocks([(i, i) for i in range(300)], 3, 3, 900, 900)
    monkeypatch.setattr(bsr, "SAMPLE", 200)
    monkeypatch.setattr(bsr, "_likely", lambda csr, sizes: ((8, 8),))
    size = choose_block_size(a)
    assert (size.rows, size.cols) == (3, 3)
    assert get_format("bsr").refuse(row_stats(a), None) is None
    assert get_format("bsr").refuse(row_stats(battery()["random-1024"]), None) is not None


def test_a_larger_block_has_to_be_worth_it() -> None:
    """On a band of 27 blocks of 7 x 7 save 1 % against 2 x 4, in float32."""
    band = make("banded:n=4000").csr
    size = choose_block_size(band)
    assert (size.rows, size.cols) == (2, 4)
    assert choose_block_size(band, "7x7").bytes(4) < size.bytes(4)


def _places(a: CSR, r: int, c: int) -> tuple[list[int], list[int]]:
    row = np.repeat(np.arange(a.rows), a.row_lengths())
    return (row // r).tolist(), (a.col_idx // c).tolist()


def test_refusals() -> None:
    form, stats = get_format("bsr"), row_stats(battery()["arrow"])
    assert form.refuse(stats, None) == "no size of blocks is 60% full on average; --force-format overrides"
    assert form.refuse(stats, None, block_size=3) == (
        "blocks of 3x3 are not 60% full on average; --force-format overrides"
    )
    assert form.refuse(stats, None, force=True) is None
    assert "needs 1.16 kB and more; device has 1 kB free" in str(form.refuse(stats, 1000, force=True))
    for bad in ("wide", 0, 9, "3x", "3x9", -2):
        with pytest.raises(UsageError, match="block_size cannot be"):
            choose_block_size(battery()["dense"], bad)


def test_a_matrix_is_counted_once_for_predictions_and_refusals(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = []
    monkeypatch.setattr(
        bsr, "count_blocks", lambda rows, cols, sizes: counted.append(sizes) or count_blocks(rows, cols, sizes)
    )
    stats, form = row_stats(_scattered(3, 3)), get_format("bsr")
    assert form.refuse(stats, None) is None
    sizes = [form.predict_bytes(stats, width) for width in (4, 8, 4)]
    assert sizes[0] == sizes[2] != sizes[1]
    assert sorted(size for sizes in counted for size in sizes) == sorted(bsr.SIZES)
    before = len(counted)
    assert form.refuse(row_stats(battery()["arrow"]), None) is not None
    assert form.predict_bytes(stats) == sizes[0]  # a refusal that stopped early is not remembered
    assert len(counted) > before
    before = len(counted)
    form.predict_bytes(stats, block_size=2)
    assert counted[before:] == [[(2, 2)]]


def test_plain_layout() -> None:
    packed = get_format("bsr").pack(csr(3, 5, [0, 1, 2, 2], [0, 3, 2, 4], [1, 2, 3, 4]), block_size=2)
    assert packed.block_ptr.tolist() == [0, 2, 4]
    assert packed.block_col.tolist() == [0, 1, 1, 2]
    assert packed.block_val.tolist() == [[[1, 0], [0, 0]], [[0, 0], [0, 2]], [[3, 0], [0, 0]], [[4, 0], [0, 0]]]
    assert packed.compulsory_bytes == 3 * 4 + 4 * 4 + 4 * 4


def test_sliced_layout_is_what_its_docstring_says() -> None:
    a = _scattered(3, 3)
    for dtype, w in ((np.float32, 4), (np.float64, 2)):
        plain = get_format("bsr").pack(a, dtype, block_size=3)
        sliced = get_format("bsr-sliced").pack(a, dtype, block_size=3)
        wide, rest = divmod(9, w)
        lengths = np.diff(plain.block_ptr)
        assert sliced.length.tolist() == lengths.tolist()
        s = 0
        for first in range(0, len(lengths), 32):
            s = -(-s // 8) * 8
            assert sliced.slice_ptr[first // 32] == s
            lanes = range(first, min(first + 32, len(lengths)))
            for k in range(int(lengths[first : first + 32].max())):
                run = [row for row in lanes if lengths[row] > k]
                n = len(run)
                for place, row in enumerate(run):
                    block = plain.block_ptr[row] + k
                    assert sliced.base[first // 32] + sliced.block_col[s + place] == plain.block_col[block]
                    flat = plain.block_val[block].reshape(-1)
                    for q in range(wide):
                        position = (s * wide + q * n + place) * w
                        assert sliced.wide_val[position : position + w].tolist() == flat[q * w : (q + 1) * w].tolist()
                    for e in range(rest):
                        assert sliced.rest_val[s * rest + e * n + place] == flat[wide * w + e]
                s += n
        assert sliced.slice_ptr[-1] == -(-s // 8) * 8 == len(sliced.block_col) > plain.blocks == sliced.blocks


@pytest.mark.parametrize(
    ("far", "longest", "column", "length"),
    [
        (1 << 16, 3, np.uint16, np.uint8),
        ((1 << 16) + 1, 3, np.int32, np.uint8),
        (400, 64, np.uint16, np.int32),  # 256 nonzeros in a block row
        (1 << 17, 70, np.int32, np.int32),
    ],
)
def test_sliced_indices_are_as_short_as_the_matrix_allows(
    device: Device, far: int, longest: int, column: Any, length: Any
) -> None:
    cols = 2 * (far + 700)
    places = [(0, 0), (40, 500), (41, 499 + far), (90, 1)]  # blocks 40 and 41 are in one slice
    places += [(70, k) for k in range(longest)]
    a = _blocks(places, 2, 2, 200, cols)
    for dtype in ("float32", "float64"):
        kind, entry = np.dtype(dtype), get_variant("spmv", "bsr-sliced")
        packed = get_format("bsr-sliced").pack(a, kind, block_size=2)
        assert (packed.block_col.dtype, packed.length.dtype) == (column, length)
        predicted = get_format("bsr-sliced").predict_bytes(row_stats(a), kind.itemsize, 4, block_size=2)
        place = np.dtype(column).itemsize + 4 * kind.itemsize
        lengths = np.diff(get_format("bsr").pack(a, block_size=2).block_ptr)
        full = -(-np.bincount(np.arange(100) // 32, lengths) // 8)
        assert packed.stored_bytes == predicted + (8 * full.sum() - packed.blocks - 7 * len(full)) * place
        _multiplies_right(device, entry, a, packed)


@pytest.mark.parametrize("size", ["1x1", "2x2", "3x3", "1x3", "5x1", "2x4", "7x2", "5x5", "6x6", "7x7", "8x8"])
@pytest.mark.parametrize("name", ["bsr", "bsr-sliced"])
def test_kernels_with_blocks_of_any_size(device: Device, name: str, size: str) -> None:
    r, c = map(int, size.split("x"))
    entry = get_variant("spmv", name)
    for dtype in ("float32", "float64"):
        for a in (_scattered(r, c), battery()["wide"], battery()["every-length-to-70"]):
            packed = get_format(entry.format).pack(a, np.dtype(dtype), block_size=size)
            _multiplies_right(device, entry, a, packed)


def test_sliced_kernel_does_not_touch_x_for_idle_lanes(device: Device) -> None:
    """An Inf at the place that idle lanes might read spreads no further than its own blocks."""
    a = _blocks([(i, 1 + i % 3) for i in range(40) if i % 5], 3, 3, 120, 12)
    entry = get_variant("spmv", "bsr-sliced")
    packed = get_format("bsr-sliced").pack(a, np.dtype(np.float32), block_size=3)
    x = np.ones(12, np.float32)
    x[0] = np.inf
    outputs = SPMV.output_arrays(matrix(a), np.dtype(np.float32))
    prepared = prepare(device, entry, packed, {"x": x}, outputs)
    prepared.launch.reset()
    prepared.launch.run()
    device.synchronize()
    assert np.isfinite(prepared.launch.output()).all()
