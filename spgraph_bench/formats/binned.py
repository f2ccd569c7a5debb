"""Binned: nonzeros by column tile, products by row bin, so that no gather leaves an SM."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.formats import compiled
from spgraph_bench.formats.base import Format, Packed, register
from spgraph_bench.formats.common import (
    OfLastMatrix,
    csr_from_loose,
    offset_type,
    quiet_overflow,
    ranges,
    value_type,
    whole_number_param,
)
from spgraph_bench.gpus import GPU
from spgraph_bench.matrix import CSR
from spgraph_bench.parameters import Parameter
from spgraph_bench.stats import MatrixStats
from spgraph_bench.units import human_bytes

__all__ = ["GROUP", "Binned", "in_sum_order", "refuse_thin_buckets"]

GROUP = 8
"""Slots that share one destination. Buckets are padded to it, so that a group never straddles two."""

HOLE = 0xFFFF
"""Position of a padding slot: its product is dropped."""

TILE_BYTES = 80 * 1024
"""Shared memory for a tile of x, at most."""

IN_FLIGHT_BYTES = 64 * 1024
"""Shared memory beside a tile: 512 threads have 56 KiB of 4-byte values in flight, 256 have 44 KiB of 8-byte ones."""

BIN_BYTES = 36 * 1024
"""Shared memory for the products of a bin, at most: six blocks on an SM of compute capability 9.0."""

SUM_THREADS, SUM_BLOCKS = 256, 6
"""Threads of a block that adds bins up, and blocks that an SM should hold, if it has the threads."""

BINS_PER_SM = 16
"""Bins wanted at least, so that small matrices fill the GPU too."""

LEAST_BIN = 2048
MOST_ROWS = 8192


@dataclass(frozen=True)
class _Bins:
    """Which rows (or parts of long rows) are in which bin."""

    row_id: npt.NDArray[np.int64]
    split: npt.NDArray[np.bool_]
    start: npt.NDArray[np.int64]
    """First entry of each."""
    length: npt.NDArray[np.int64]
    lanes: npt.NDArray[np.int64]
    """log2 of the threads that add one row up, per bin."""
    bin_row: npt.NDArray[np.int64]

    @property
    def arrays(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """What compiled code is given."""
        return self.bin_row, self.start, self.length


def _lanes(length: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """log2 of the threads for a row: about four products each, a warp at most."""
    return np.searchsorted([4, 8, 16, 32, 64], length).astype(np.int64)


def _form_bins(csr: CSR, capacity: int) -> _Bins:
    """The rows by length class, cut into bins of at most `capacity` entries; longer rows in parts."""
    lengths = csr.row_lengths()
    parts = np.maximum(1, -(-lengths // capacity))
    row = np.repeat(np.arange(csr.rows), parts)
    part = ranges(np.zeros(csr.rows, np.int64), parts)
    start = csr.row_ptr[row] + part * capacity
    length = np.minimum(csr.row_ptr[row + 1] - start, capacity)
    lanes = _lanes(length)
    order = np.argsort(lanes.astype(np.uint8), kind="stable")
    row, start, length, lanes = row[order], start[order], length[order], lanes[order]
    below = np.concatenate(([0], np.cumsum(length)))
    class_end = np.searchsorted(lanes, np.arange(7))  # class k ends where k + 1 begins
    bin_row = [0]
    while bin_row[-1] < len(row):
        first = bin_row[-1]
        last = int(np.searchsorted(below, below[first] + capacity, side="right")) - 1
        bin_row.append(min(max(last, first + 1), first + MOST_ROWS, int(class_end[lanes[first] + 1])))
    firsts = np.array(bin_row[:-1], np.int64)
    return _Bins(row, parts[row] > 1, start, length, lanes[firsts], np.array(bin_row, np.int64))


_last: OfLastMatrix[int] = OfLastMatrix()


@register
class Binned(Format):
    """Propagation blocking for SpMV (Beamer, Asanovic and Patterson, "Reducing PageRank communication via
    propagation blocking", IPDPS 2017), with destinations fixed when packing.

    The columns are cut into ``tiles`` of ``tile_width`` columns each (the last may be narrower); the rows are
    sorted by length class and cut into ``bins`` of at most ``bin_entries`` entries. A row longer than a bin
    is cut into parts. A bucket is what a tile and a bin have in common, padded to a multiple of 8 slots.

    Multiply order (buckets by tile, then bin): ``val``: value type ``[slots]``; ``col``: uint16 ``[slots]``,
    column within the tile; ``dest``: int32 ``[slots / 8]``, where each group of 8 products goes;
    ``tile_start``: int32 ``[tiles + 1]``, first group of each tile.
    Sum order (buckets by bin, then tile): ``pos``: uint16 ``[slots]``, place of the product in its bin when
    sorted by row, 65535 for padding; ``bin_group``: int32 ``[bins + 1]``, first group of each bin;
    ``bin_row``: int32 ``[bins + 1]``, its first row in ``row_id``; ``bin_lanes``: int32 ``[bins]``, log2 of
    the threads that add up one row; ``row_id``: int32 ``[parts]``, the row, or its complement (~row) for a
    part of a row that is cut; ``row_start``: uint16 ``[parts + bins]``, where each row's products begin in
    its bin, each bin closed by its number of entries; ``split_row``: int32, the rows that are cut.
    Invariants: ``dest`` is a permutation; the positions of a bin that are not 65535 are 0 ... entries - 1,
    each once; ``tile_width`` and ``bin_entries`` are below 65536.
    """

    name = "binned"
    title = "propagation blocking: nonzeros by column tile, products by row bin"
    wins = (
        "Wins where x does not fit in cache and columns are random: products are sorted by destination. "
        "Loses twice the traffic where x is cached."
    )
    order = 95
    tunables = MappingProxyType(
        {
            "tile_width": Parameter(
                "auto", "columns of x kept in shared memory at a time, up to 65535", ("auto",), (1, 65535)
            ),
            "bin_entries": Parameter("auto", "products added up by one block, up to 65535", ("auto",), (1, 65535)),
        }
    )

    def _sizes(self, cols: int, nnz: int, value_bytes: int, params: dict[str, Any]) -> tuple[int, int]:
        """Columns of a tile, and entries of a bin at most."""
        width = whole_number_param(self.tunables, params, "tile_width")
        if width is None:
            tiles = max(1, -(-cols // (_tile_bytes(self.gpu) // value_bytes)))
            # Tiles of equal width: a narrow last one would cost as much to start as a full one.
            width = max(1, -(-cols // tiles))
        capacity = whole_number_param(self.tunables, params, "bin_entries")
        if capacity is None:
            bins = BINS_PER_SM * self.gpu.multiprocessors
            capacity = min(max(nnz // bins, LEAST_BIN), _bin_bytes(self.gpu) // value_bytes)
        return width, capacity

    @quiet_overflow
    def pack(
        self, csr: CSR, dtype: npt.DTypeLike = np.float32, offsets: npt.DTypeLike = np.int32, **params: Any
    ) -> Packed:
        value = value_type(dtype)
        width, capacity = self._sizes(csr.cols, csr.nnz, value.itemsize, params)
        tiles = max(1, -(-csr.cols // width))
        bins = _form_bins(csr, capacity)
        count = len(bins.bin_row) - 1
        filled, bin_group = compiled.binned(csr, bins.arrays, width, tiles, value) or _fill(
            csr, bins, width, tiles, value
        )
        length_before = np.concatenate(([0], np.cumsum(bins.length)))
        # The rows of each bin, and once more its end: where each one's products begin.
        closed = ranges(bins.bin_row[:-1], np.diff(bins.bin_row) + 1)
        base = np.repeat(length_before[bins.bin_row[:-1]], np.diff(bins.bin_row) + 1)
        arrays = {
            "val": filled["val"],
            "col": filled["col"],
            "dest": filled["dest"],
            "tile_start": filled["tile_start"],
            "pos": filled["pos"],
            "bin_group": bin_group.astype(np.int32),
            "bin_row": bins.bin_row.astype(np.int32),
            "bin_lanes": bins.lanes.astype(np.int32),
            "row_id": np.where(bins.split, ~bins.row_id, bins.row_id).astype(np.int32),
            "row_start": (length_before[closed] - base).astype(np.uint16),
            "split_row": np.unique(bins.row_id[bins.split]).astype(np.int32),
        }
        meta = {
            "tile_width": width,
            "bin_entries": capacity,
            "tiles": tiles,
            "bins": count,
            "slots": len(filled["pos"]),
            "most_entries": int(np.diff(length_before[bins.bin_row]).max(initial=0)),
        }
        padding = (meta["slots"] - csr.nnz) * (value.itemsize + 4)
        stored = sum(a.nbytes for a in arrays.values())
        return Packed(
            self.name,
            csr.rows,
            csr.cols,
            csr.nnz,
            value,
            MappingProxyType(arrays),
            MappingProxyType(meta),
            pattern=csr.values is None,
            compulsory_bytes=stored - padding,
            offsets=offset_type(offsets, csr.nnz),
        )

    def unpack(self, packed: Packed) -> CSR:
        tile = np.repeat(np.arange(packed.tiles), np.diff(packed.tile_start))
        column = packed.col.reshape(-1, GROUP).astype(np.int64) + (tile * packed.tile_width)[:, None]
        by_bin_col, by_bin_val = in_sum_order(packed, column, packed.dest)
        bin_of_part = np.repeat(np.arange(packed.bins), np.diff(packed.bin_row))
        slot = np.arange(len(bin_of_part)) + bin_of_part
        starts = packed.row_start.astype(np.int64)
        length = starts[slot + 1] - starts[slot]
        closing = packed.bin_row[1:].astype(np.int64) + np.arange(packed.bins)
        entries_before = np.concatenate(([0], np.cumsum(starts[closing])))
        bin_of_slot = np.repeat(np.arange(packed.bins), np.diff(packed.bin_group) * GROUP)
        real = packed.pos != HOLE
        place = entries_before[bin_of_slot[real]] + packed.pos[real]
        col, val = np.empty(packed.nnz, np.int32), np.empty(packed.nnz, packed.dtype)
        col[place] = by_bin_col[real]
        val[place] = by_bin_val[real]
        row = np.repeat(np.where(packed.row_id < 0, ~packed.row_id, packed.row_id), length)
        # Loose: the last part of a cut row is shorter than the others and is in a bin before them.
        return csr_from_loose(packed, row, col, val)

    def predict_bytes(self, stats: MatrixStats, value_bytes: int = 4, offset_bytes: int = 4, **params: Any) -> int:
        """Counts the buckets, which takes a pass over the column indices."""
        assert stats.csr is not None
        csr = stats.csr
        width, capacity = self._sizes(csr.cols, csr.nnz, value_bytes, params)
        if (known := _last.get(csr, (width, capacity, value_bytes))) is not None:
            return known
        tiles = max(1, -(-csr.cols // width))
        bins = _form_bins(csr, capacity)
        count, parts, groups = len(bins.bin_row) - 1, len(bins.row_id), 0
        if buckets := compiled.binned_buckets(csr, bins.arrays, width, tiles):
            groups = int(buckets.bin_group[-1])
        else:
            for b in range(count):
                part = slice(int(bins.bin_row[b]), int(bins.bin_row[b + 1]))
                column = csr.col_idx[ranges(bins.start[part], bins.length[part])]
                groups += int((-(-np.bincount(column // width, minlength=tiles) // GROUP)).sum())
        split = len(np.unique(bins.row_id[bins.split]))
        per_group = GROUP * (value_bytes + 2 + 2) + 4
        need = groups * per_group + 4 * (tiles + 1 + 3 * count + 2 + parts + split) + 2 * (parts + count)
        _last.put(csr, (width, capacity, value_bytes), need)
        return need

    def refuse(
        self, stats: MatrixStats, free_bytes: int | None, value_bytes: int = 4, force: bool = False, **params: Any
    ) -> str | None:
        """Refused where the buckets are so thin that padding outweighs the entries."""
        if not stats.nnz:
            return None
        need = self.predict_bytes(stats, value_bytes, **params)
        # The products take as much again as the values.
        if free_bytes is not None and 2 * need > free_bytes:
            free = human_bytes(free_bytes)
            return f"binned needs {human_bytes(2 * need)} with its products; device has {free} free"
        return None if force else refuse_thin_buckets(self.name, stats, need, value_bytes)


def _tile_bytes(gpu: GPU) -> int:
    """Shared memory for a tile of x on `gpu`. What is in flight gets half where a block has less than 128 KiB."""
    room = gpu.shared_per_block
    return min(TILE_BYTES, max(room - IN_FLIGHT_BYTES, room // 2))


def _bin_bytes(gpu: GPU) -> int:
    """Shared memory for the products of a bin on `gpu`."""
    blocks = min(SUM_BLOCKS, gpu.threads_per_sm // SUM_THREADS)
    return min(BIN_BYTES, (gpu.shared_per_sm // blocks - gpu.reserved_shared) // 1024 * 1024)


def in_sum_order(
    packed: Packed, column: npt.NDArray[np.int64], to: npt.NDArray[np.integer[Any]]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any]]:
    """Columns and values of all slots, ``[slots]`` each, in the order of ``pos`` or ``sum``.

    Parameters
    ----------
    column : of each slot in multiply order, ``[slots / 8, 8]``.
    to : where each group of 8 goes, ``[slots / 8]``.
    """
    col, val = np.empty_like(column), np.empty(column.shape, packed.dtype)
    col[to] = column
    val[to] = packed.val.reshape(-1, GROUP)
    return col.reshape(-1), val.reshape(-1)


def refuse_thin_buckets(name: str, stats: MatrixStats, need: int, value_bytes: int) -> str | None:
    """The refusal of a format of buckets that takes `need` bytes, most of them padding, or None. `stats` are
    of a matrix with entries."""
    per_nonzero = need / stats.nnz
    if per_nonzero > 4 * (value_bytes + 4) and stats.nnz > 100_000:
        return (
            f"{name} stores {per_nonzero:.0f} bytes per nonzero: its buckets are nearly empty; --force-format overrides"
        )
    return None


def _by_group(parts: list[npt.NDArray[Any]], dtype: np.dtype[Any], order: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    """The concatenated `parts`, their groups of 8 in `order`."""
    return np.concatenate([*parts, np.empty(0, dtype)]).reshape(-1, GROUP)[order].reshape(-1)


def _fill(
    csr: CSR, bins: _Bins, width: int, tiles: int, value: np.dtype[Any]
) -> tuple[dict[str, npt.NDArray[Any]], npt.NDArray[np.int64]]:
    """As :func:`compiled.binned`."""
    count = len(bins.bin_row) - 1
    source_values = np.ones(1) if csr.values is None else csr.values
    pos_of, col_of, val_of, tile_of = [], [], [], []
    bin_group = np.zeros(count + 1, np.int64)
    kind = np.dtype(np.uint16 if tiles <= 1 << 16 else np.int32)  # numpy sorts 16 bits by radix
    for b in range(count):
        part = slice(int(bins.bin_row[b]), int(bins.bin_row[b + 1]))
        source = ranges(bins.start[part], bins.length[part])
        column = csr.col_idx[source]
        tile = (column // width).astype(kind)
        order = np.argsort(tile, kind="stable")
        counts = np.bincount(tile, minlength=tiles)
        groups = -(-counts // GROUP)
        ends = np.cumsum(counts)
        slot = np.arange(len(source)) + np.repeat(GROUP * (np.cumsum(groups) - groups) - (ends - counts), counts)
        total = int(groups.sum())
        pos = np.full(total * GROUP, HOLE, np.uint16)
        col = np.zeros(total * GROUP, np.uint16)
        val = np.zeros(total * GROUP, value)
        pos[slot] = order
        col[slot] = (column - tile.astype(np.int32) * width)[order]
        val[slot] = 1 if csr.values is None else source_values[source[order]]
        pos_of.append(pos)
        col_of.append(col)
        val_of.append(val)
        tile_of.append(np.repeat(np.arange(tiles, dtype=kind), groups))
        bin_group[b + 1] = bin_group[b] + total
    tile = np.concatenate([*tile_of, np.empty(0, kind)])
    # By tile; within a tile the groups keep the order of the bins.
    dest = np.argsort(tile, kind="stable")
    arrays = {
        "val": _by_group(val_of, value, dest),
        "col": _by_group(col_of, np.dtype(np.uint16), dest),
        "dest": dest.astype(np.int32),
        "tile_start": np.searchsorted(tile[dest], np.arange(tiles + 1)).astype(np.int32),
        "pos": np.concatenate([*pos_of, np.empty(0, np.uint16)]),
    }
    return arrays, bin_group
