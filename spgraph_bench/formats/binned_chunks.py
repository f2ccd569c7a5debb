"""Binned in chunks of rows, so that the products of a chunk stay in the L2."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.cores import usable_cores
from spgraph_bench.formats import compiled
from spgraph_bench.formats.base import Format, Packed, register
from spgraph_bench.formats.binned import GROUP, in_sum_order, refuse_thin_buckets
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
from spgraph_bench.structure.compiled import column_counts
from spgraph_bench.units import human_bytes

__all__ = ["BinnedChunks"]

TILE_BYTES = 136 * 1024
"""Shared memory for a tile of x, at most."""

BIN_ENTRIES = 32768
"""Entries of a bin, at most."""

L2_SHARE = 0.35
"""Of the L2, for the products of a chunk, of which two are there at a time. With a bin for each SM and values of 4
bytes a chunk of an H200 has 17 MB."""

SUM_BYTES, LEAST_SUM_BYTES = 16 * 1024, 8 * 1024
"""Shared memory for the sums of a bin; there are two sets."""

MULTIPLIERS = 384
"""Threads of a block that multiply, by default (three of eight); each has in flight, two or three times, four values,
four columns and a destination."""

SHARE = 512
"""A row with more than 1/512 of its bin's entries gets so many more slots that no slot has more."""

SPARE = 32
"""Sums behind those of a bin, which padding adds to: one for each bank of shared memory."""

LEAST_BIN = 1024
LEAST_TILE = 2048
"""Entries that make a bin, or a tile, worth while: small matrices get fewer."""


@dataclass(frozen=True)
class _Bins:
    """Where the bins begin and end: in entries and in rows, of which two bins may share one."""

    entry: npt.NDArray[np.int64]
    first: npt.NDArray[np.int64]
    end: npt.NDArray[np.int64]
    shared_first: npt.NDArray[np.bool_]
    shared_last: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.first)

    @property
    def arrays(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """What compiled code is given."""
        return self.entry, self.first, self.end


@dataclass(frozen=True)
class _Bin:
    """The entries of one bin, by tile."""

    slot: npt.NDArray[np.uint16]
    col: npt.NDArray[np.uint16]
    val: npt.NDArray[Any]
    tile: npt.NDArray[np.int32]
    """Of each group."""
    extra_slot: npt.NDArray[np.uint16]


_last: OfLastMatrix[int] = OfLastMatrix()


@register
class BinnedChunks(Format):
    """Propagation blocking (Beamer, Asanovic and Patterson, IPDPS 2017) in chunks of rows.

    The columns are cut into ``tiles`` of about equally many entries. The entries, in the order of their rows,
    are cut into ``bins`` of ``bin_entries`` each, fewer where they would be of too many rows; a row may be
    in several bins. ``chunk_bins`` bins in turn are a chunk. A bucket is what a tile and a bin have in
    common, padded to a multiple of 8 slots; its entries come so that neighbours fall into different banks of
    shared memory and those of one row are apart.

    Multiply order (buckets by chunk, then tile, then bin): ``val``: value type ``[slots]``; ``col``: uint16
    ``[slots]``, column within the tile; ``dest``: int32 ``[slots / 8]``, where each group of 8 products goes
    among those of its chunk; ``start``: int32 ``[chunks * tiles + 1]``, first group of each chunk's part of
    each tile; ``tile_col``: int32 ``[tiles + 1]``, first column of each tile.
    Sum order (buckets by bin, then tile): ``sum``: uint16 ``[slots]``, which of its bin's sums a product goes
    to: that of a row, counted from the bin's first, or one of the extra ones that rows have with more than
    1/512 of the bin's entries, or for padding (value 0) one of 32 behind them; ``extra_ptr``: int32
    ``[bins + 1]``; ``extra_row``: uint16, the row, counted from the bin's first, of each extra sum;
    ``bin_group``: int32 ``[bins + 1]``, first group of each bin; ``bin_row``: int32 ``[2 * bins]``, first row
    and the one after the last, as complements (~row) where the first, or last, row is in other bins too;
    ``split_row``: int32, the rows that are in several bins.
    Invariant: the ``dest`` of a chunk are a permutation; tiles are narrower than 65536.
    """

    name = "binned-chunks"
    title = "propagation blocking by chunks of rows whose products stay in the L2"
    wins = (
        "Wins on random columns while products of a chunk stay in the L2. Loses where x is larger than "
        "the L2; converting takes long."
    )
    order = 96
    predicts_exactly = False
    tunables = MappingProxyType(
        {
            "tiles": Parameter(
                "auto",
                "column tiles; auto: one for each SM, more where they would be too wide",
                ("auto",),
                (1, 1 << 20),
            ),
            "bin_entries": Parameter(
                "auto", "entries of a bin; auto: 32,768, fewer for small matrices", ("auto",), (1, 1 << 24)
            ),
            "chunk_bins": Parameter("auto", "bins of a chunk; auto: one for each SM", ("auto",), (1, 1 << 20)),
        }
    )

    def _number(self, name: str, params: dict[str, Any]) -> int:
        """The parameter `name`, 0 for "auto". Raises UsageError."""
        return whole_number_param(self.tunables, params, name) or 0

    def _chunk_bins(self, params: dict[str, Any]) -> int:
        return self._number("chunk_bins", params) or self.gpu.multiprocessors

    def _plan(self, csr: CSR, value_bytes: int, params: dict[str, Any]) -> tuple[npt.NDArray[np.int64], _Bins]:
        """The first column of each tile (and the end), and the bins."""
        sizes, each = _sizes(self.gpu, value_bytes), self.gpu.multiprocessors
        widest = min(sizes.tile_bytes // value_bytes, (1 << 16) - 1)
        tiles = self._number("tiles", params) or max(1, min(each, csr.nnz // LEAST_TILE))
        # Some room: tiles are cut by entries, so that some are wider than others.
        tiles *= max(1, -(-csr.cols * 33 // (tiles * widest * 32)))
        entries = self._number("bin_entries", params)
        if not entries:
            rounds = max(1, -(-csr.nnz // (each * sizes.bin_entries)))
            entries = max(LEAST_BIN, -(-csr.nnz // (rounds * each)))
        most_rows = sizes.sum_bytes // value_bytes - SHARE - SPARE
        return _cut_columns(csr, tiles, widest), _cut_rows(csr, entries, most_rows)

    @quiet_overflow
    def pack(
        self, csr: CSR, dtype: npt.DTypeLike = np.float32, offsets: npt.DTypeLike = np.int32, **params: Any
    ) -> Packed:
        value = value_type(dtype)
        tile_col, bins = self._plan(csr, value.itemsize, params)
        chunk_bins = self._chunk_bins(params)
        tiles, count = len(tile_col) - 1, len(bins)
        tile_of = np.repeat(np.arange(tiles, dtype=np.uint16), np.diff(tile_col))
        chunks = -(-count // chunk_bins)
        chunk_bin = np.minimum(np.arange(chunks + 1) * chunk_bins, count)
        columns = tile_of, tile_col
        filled, bin_group = compiled.chunked(csr, bins.arrays, columns, chunk_bin, SHARE, SPARE, value) or _fill(
            csr, bins, columns, chunk_bin, value
        )
        chunk_group = bin_group[chunk_bin]
        extras = np.diff(filled["extra_ptr"])
        split = np.concatenate((bins.first[bins.shared_first], bins.end[bins.shared_last] - 1))
        first = np.where(bins.shared_first, ~bins.first, bins.first)
        end = np.where(bins.shared_last, ~bins.end, bins.end)
        arrays = {
            "val": filled["val"],
            "col": filled["col"],
            "dest": filled["dest"],
            "start": filled["start"],
            "tile_col": tile_col.astype(np.int32),
            "chunk_bin": chunk_bin.astype(np.int32),
            "sum": filled["sum"],
            "bin_group": bin_group.astype(np.int32),
            "bin_row": np.stack((first, end), axis=1).reshape(-1).astype(np.int32),
            "extra_ptr": filled["extra_ptr"],
            "extra_row": filled["extra_row"],
            "split_row": np.unique(split).astype(np.int32),
        }
        meta = {
            "tiles": tiles,
            "bins": count,
            "chunks": chunks,
            "slots": len(filled["val"]),
            "widest": int(np.diff(tile_col).max()),
            "most_sums": int((bins.end - bins.first + extras).max(initial=0)) + SPARE,
            "most_groups": int(np.diff(chunk_group).max(initial=0)),
        }
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
            compulsory_bytes=stored - (meta["slots"] - csr.nnz) * (value.itemsize + 4),
            offsets=offset_type(offsets, csr.nnz),
        )

    def unpack(self, packed: Packed) -> CSR:
        cell = np.repeat(np.arange(packed.chunks * packed.tiles), np.diff(packed.start))
        column = packed.col.reshape(-1, GROUP) + packed.tile_col[cell % packed.tiles].astype(np.int64)[:, None]
        chunk_group = packed.bin_group[packed.chunk_bin].astype(np.int64)
        to = packed.dest + chunk_group[cell // packed.tiles]
        col, val = in_sum_order(packed, column, to)
        first, end = packed.bin_row.reshape(-1, 2).astype(np.int64).T
        first, end = np.where(first < 0, ~first, first), np.where(end < 0, ~end, end)
        bin_of = np.repeat(np.arange(packed.bins), np.diff(packed.bin_group) * GROUP)
        slot = packed.sum.astype(np.int64)
        rows, extras = end - first, np.diff(packed.extra_ptr.astype(np.int64))
        real = slot < (rows + extras)[bin_of]
        bin_of, slot = bin_of[real], slot[real]
        extra = slot >= rows[bin_of]
        slot[extra] = packed.extra_row[packed.extra_ptr[bin_of[extra]] + slot[extra] - rows[bin_of[extra]]]
        return csr_from_loose(packed, first[bin_of] + slot, col[real].astype(np.int32), val[real])

    def predict_bytes(self, stats: MatrixStats, value_bytes: int = 4, offset_bytes: int = 4, **params: Any) -> int:
        """Counts the buckets, in a pass over the column indices; an upper bound for the extra sums."""
        assert stats.csr is not None
        csr = stats.csr
        key = (self.gpu, value_bytes, tuple(sorted(params.items())))
        if (known := _last.get(csr, key)) is not None:
            return known
        tile_col, bins = self._plan(csr, value_bytes, params)
        tiles, count = len(tile_col) - 1, len(bins)
        tile_of = np.repeat(np.arange(tiles, dtype=np.uint16), np.diff(tile_col))

        def one(b: int) -> int:
            tile = tile_of[csr.col_idx[bins.entry[b] : bins.entry[b + 1]]]
            return int((-(-np.bincount(tile, minlength=tiles) // GROUP)).sum())

        if buckets := compiled.chunked_buckets(csr, bins.arrays, tile_of, tiles, SHARE, SPARE):
            groups = int(buckets[0].bin_group[-1])
        else:
            with ThreadPoolExecutor(usable_cores()) as pool:
                groups = sum(pool.map(one, range(count)))
        chunks = -(-count // self._chunk_bins(params))
        extras = np.minimum(np.diff(bins.entry), SHARE).sum()
        words = groups + chunks * tiles + tiles + chunks + 4 * count + 5 + 2 * count
        need = int(groups * GROUP * (value_bytes + 4) + 4 * words + 2 * extras)
        _last.put(csr, key, need)
        return need

    def refuse(
        self, stats: MatrixStats, free_bytes: int | None, value_bytes: int = 4, force: bool = False, **params: Any
    ) -> str | None:
        """Refused where the buckets are so thin that padding outweighs the entries."""
        if not stats.nnz:
            return None
        need = self.predict_bytes(stats, value_bytes, **params)
        if free_bytes is not None and need > free_bytes:
            return f"{self.name} needs {human_bytes(need)}; device has {human_bytes(free_bytes)} free"
        if need // (value_bytes + 4) >= 1 << 31:
            return f"{self.name} counts slots in 32 bits; this matrix makes up to {need // (value_bytes + 4):,}"
        return None if force else refuse_thin_buckets(self.name, stats, need, value_bytes)


@dataclass(frozen=True)
class _Sizes:
    """What a block of a GPU has shared memory for, and the L2 room."""

    tile_bytes: int
    sum_bytes: int
    bin_entries: int


def _sizes(gpu: GPU, value_bytes: int) -> _Sizes:
    """The sizes that fit `gpu`, in values of `value_bytes` bytes: those of an H200, or less."""
    sums = min(SUM_BYTES, max(LEAST_SUM_BYTES, gpu.shared_per_block // 14 // 1024 * 1024))
    stage = MULTIPLIERS * (4 * value_bytes + 4 * 2 + 4)
    room = gpu.shared_per_block - 1024 - 2 * sums  # as binned_fused.py counts it
    tile = room - 3 * stage if room - 3 * stage >= room // 3 else room - 2 * stage
    in_l2 = int(L2_SHARE * gpu.l2_bytes) // (gpu.multiprocessors * 4) // 1024 * 1024
    return _Sizes(min(TILE_BYTES, tile), sums, min(BIN_ENTRIES, max(LEAST_BIN, in_l2)))


def _cut_columns(csr: CSR, tiles: int, widest: int) -> npt.NDArray[np.int64]:
    """First column of each of `tiles` tiles, and the end: equally many entries, `widest` columns at most.

    Where that would be too wide a tile, columns count as well, more and more of them.
    """
    if csr.cols == 0:
        return np.zeros(2, np.int64)
    counts = column_counts(csr)
    if counts is None:
        counts = np.bincount(csr.col_idx, minlength=csr.cols)
    below = np.concatenate(([0], np.cumsum(counts, dtype=np.float64)))
    share = 0.05
    while share < 1e6:
        weight = below + np.arange(csr.cols + 1) * (share * max(csr.nnz, 1) / csr.cols)
        cuts = np.searchsorted(weight, weight[-1] * np.arange(tiles + 1) / tiles).astype(np.int64)
        cuts[0], cuts[-1] = 0, csr.cols
        if np.diff(cuts).max() <= widest:
            return np.unique(cuts)
        share *= 4
    return np.unique(np.append(np.arange(0, csr.cols, widest, dtype=np.int64), csr.cols))


def _cut_rows(csr: CSR, entries: int, most_rows: int) -> _Bins:
    """Bins of `entries` entries each and `most_rows` rows at most, the last ones perhaps smaller."""
    if csr.rows == 0:
        none = np.empty(0, np.int64)
        return _Bins(np.zeros(1, np.int64), none, none, none.astype(np.bool_), none.astype(np.bool_))
    begins = np.arange(0, max(csr.nnz, 1), entries, dtype=np.int64)
    row = np.searchsorted(csr.row_ptr, begins, side="right") - 1  # the row that holds the entry
    if csr.nnz == 0:
        row[:] = 0
    row[0], begin_inside = 0, begins > csr.row_ptr[row]
    begin_inside[0] = False
    end_inside = np.append(begin_inside[1:], False)
    end = np.append(row[1:] + begin_inside[1:], csr.rows)
    # Too many rows, many of them empty: cut between rows as well.
    parts = np.maximum(1, -(-(end - row) // most_rows))
    inner = ranges(np.zeros(len(parts), np.int64), parts)
    whole = np.repeat(np.arange(len(parts)), parts)
    first = row[whole] + (end - row)[whole] * inner // parts[whole]
    head, tail = inner == 0, np.append(inner[1:] == 0, True)
    last = np.where(tail, end[whole], np.append(first[1:], 0))
    entry = np.append(np.where(head, begins[whole], csr.row_ptr[first]), csr.nnz)
    return _Bins(entry, first, last, begin_inside[whole] & head, end_inside[whole] & tail)


def _fill(
    csr: CSR,
    bins: _Bins,
    columns: tuple[npt.NDArray[np.uint16], npt.NDArray[np.int64]],
    chunk_bin: npt.NDArray[np.int64],
    value: np.dtype[Any],
) -> tuple[dict[str, npt.NDArray[Any]], npt.NDArray[np.int64]]:
    """As :func:`compiled.chunked`."""
    tile_of, tile_col = columns
    tiles, chunks = len(tile_col) - 1, len(chunk_bin) - 1

    def one(b: int) -> _Bin:
        return _pack_bin(csr, bins, b, tile_of, tile_col, value)

    with ThreadPoolExecutor(usable_cores()) as pool:  # numpy sorts and gathers without the lock
        parts = list(pool.map(one, range(len(bins))))
    bin_group = np.concatenate(([0], np.cumsum(np.array([len(p.tile) for p in parts], np.int64))))
    chunk_group = bin_group[chunk_bin]
    groups = int(bin_group[-1])
    col, val = np.empty(groups * GROUP, np.uint16), np.empty(groups * GROUP, value)
    dest = np.empty(groups, np.int32)
    start = np.zeros(chunks * tiles + 1, np.int64)

    def order(c: int) -> None:
        """Chunk `c` by tile; within a tile the groups keep the order of the bins."""
        mine = parts[chunk_bin[c] : chunk_bin[c + 1]]
        tile = np.concatenate([p.tile for p in mine])
        by_tile = np.argsort(tile, kind="stable")
        here = slice(int(chunk_group[c]) * GROUP, int(chunk_group[c + 1]) * GROUP)
        dest[int(chunk_group[c]) : int(chunk_group[c + 1])] = by_tile
        col[here] = np.concatenate([p.col for p in mine]).reshape(-1, GROUP)[by_tile].reshape(-1)
        val[here] = np.concatenate([p.val for p in mine]).reshape(-1, GROUP)[by_tile].reshape(-1)
        start[c * tiles + 1 : (c + 1) * tiles + 1] = np.bincount(tile, minlength=tiles)

    with ThreadPoolExecutor(usable_cores()) as pool:
        list(pool.map(order, range(chunks)))
    extras = np.array([len(p.extra_slot) for p in parts], np.int64)
    arrays = {
        "val": val,
        "col": col,
        "dest": dest,
        "start": np.cumsum(start).astype(np.int32),
        "sum": np.concatenate([*(p.slot for p in parts), np.empty(0, np.uint16)]),
        "extra_ptr": np.concatenate(([0], np.cumsum(extras))).astype(np.int32),
        "extra_row": np.concatenate([*(p.extra_slot for p in parts), np.empty(0, np.uint16)]),
    }
    return arrays, bin_group


@quiet_overflow
def _pack_bin(
    csr: CSR,
    bins: _Bins,
    b: int,
    tile_of: npt.NDArray[np.uint16],
    tile_col: npt.NDArray[np.int64],
    value: np.dtype[Any],
) -> _Bin:
    start, stop = int(bins.entry[b]), int(bins.entry[b + 1])
    first, end = int(bins.first[b]), int(bins.end[b])
    within = np.clip(csr.row_ptr[first : end + 1], start, stop)
    lengths = within[1:] - within[:-1]
    nnz, rows, tiles = stop - start, end - first, len(tile_col) - 1
    column = csr.col_idx[start:stop]
    tile = tile_of[column]
    slot = np.repeat(np.arange(rows, dtype=np.int32), lengths)
    # Long rows: entry i of a row with s slots goes to slot i mod s.
    slots = np.maximum(1, -(-lengths * SHARE // max(nnz, 2 * SHARE)))
    more = np.flatnonzero(slots > 1)
    extra_slot = np.repeat(more, slots[more] - 1).astype(np.uint16)
    if len(more):
        length, own = lengths[more], slots[more] - 1
        turn = ranges(np.zeros(len(more), np.int64), length) % np.repeat(own + 1, length)
        base = np.repeat(rows + np.cumsum(own) - own - 1, length)
        entries = ranges(np.cumsum(lengths)[more] - length, length)
        slot[entries] = np.where(turn == 0, slot[entries], base + turn)
    # Within a bucket: the entries of each bank spread evenly over it.
    key = tile.astype(np.int32) * 32 + (slot & 31)
    order = np.argsort(key.astype(np.uint16) if tiles <= 2048 else key, kind="stable")
    counts = np.bincount(key)
    rank = np.arange(nnz) - np.repeat(np.cumsum(counts) - counts, counts)
    share = ((2 * rank + 1) * 32767 // np.repeat(np.maximum(counts, 1), counts)).astype(np.uint16)
    order = order[np.argsort(share, kind="stable")]
    order = order[np.argsort(tile[order], kind="stable")]
    in_tile = np.bincount(tile, minlength=tiles)
    groups = -(-in_tile // GROUP)
    # Threads take four slots each, side by side: what is next to each other in turn goes to every fourth.
    m = np.repeat(in_tile, in_tile)
    place = np.arange(nnz) - np.repeat(np.cumsum(in_tile) - in_tile, in_tile)
    full, rest = m // 4, m % 4
    long = rest * (full + 1)  # so many are in the columns that have one more
    column_of = np.where(place < long, place // (full + 1), rest + (place - long) // np.maximum(full, 1))
    begin = column_of * full + np.minimum(column_of, rest)
    target = np.repeat(GROUP * (np.cumsum(groups) - groups), in_tile) + 4 * (place - begin) + column_of
    total = int(groups.sum()) * GROUP
    spare = rows + len(extra_slot) + np.arange(total) // 4 % SPARE
    stored = spare.astype(np.uint16)
    stored[target] = slot[order]
    col, val = np.zeros(total, np.uint16), np.zeros(total, value)
    col[target] = (column - tile_col[tile])[order]
    val[target] = 1 if csr.values is None else csr.values[start:stop][order]
    return _Bin(stored, col, val, np.repeat(np.arange(tiles, dtype=np.int32), groups), extra_slot)
