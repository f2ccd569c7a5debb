"""Binned in chunks of rows, so that the products of a chunk stay in the L2."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.errors import UsageError
from spgraph_bench.formats.base import Format, Packed, Tunable, human_bytes, register
from spgraph_bench.formats.binned import GROUP, HOLE, Bins, form_bins
from spgraph_bench.formats.common import csr_from_entries, offset_type, quiet_overflow, ranges, value_type
from spgraph_bench.matrix import CSR
from spgraph_bench.stats import MatrixStats

__all__ = ["BinnedChunks"]

TILES = 132
"""Tiles for a large matrix: one for each SM of an H200, which keeps it for the whole SpMV."""

TILE_BYTES = 136 * 1024
"""Shared memory for a tile of x; what is under way and a bin take the rest of 227 kB."""

BIN_BYTES = 30 * 1024
"""Shared memory for the products of a bin: with its padding, four quads for each of 512 threads."""

CHUNK_BINS = 2 * TILES
"""Bins of a chunk: two for each SM; 8 MB of products, of which three chunks are in the L2 at a time."""

LEAST_BIN = 1024
LEAST_TILE = 2048
"""Entries that make a bin, or a tile, worth while: small matrices get fewer."""


@dataclass(frozen=True)
class _Bin:
    """The entries of one bin, by tile."""

    pos: npt.NDArray[np.uint16]
    col: npt.NDArray[np.uint16]
    val: npt.NDArray[Any]
    tile: npt.NDArray[np.int32]
    """Of each group."""


@register
class BinnedChunks(Format):
    """Propagation blocking (see the format binned) in chunks of bins.

    The columns are cut into ``tiles`` of about equally many entries, the rows, sorted by length class, into
    ``bins`` of at most ``bin_entries`` entries, and the bins into ``chunks`` of ``chunk_bins`` bins. A bucket
    is what a tile and a bin have in common, padded to a multiple of 8 slots.

    Multiply order (buckets by chunk, then tile, then bin): ``val``: value type ``[slots]``; ``col``: uint16
    ``[slots]``, column within the tile; ``dest``: int32 ``[slots / 8]``, where each group of 8 products goes
    among those of its chunk; ``start``: int32 ``[chunks * tiles + 1]``, first group of each chunk's part of
    each tile; ``tile_col``: int32 ``[tiles + 1]``, first column of each tile.
    Sum order (buckets by bin, then tile): ``pos``, ``bin_group``, ``bin_row``, ``bin_lanes``, ``row_id``,
    ``row_start`` and ``split_row`` as in binned; ``chunk_bin``: int32 ``[chunks + 1]``, first bin of each.
    Invariants: the ``dest`` of a chunk are a permutation; the positions of a bin that are not 65535 are
    0 ... entries - 1, each once; tiles and bins are narrower than 65535.
    """

    name = "binned-chunks"
    title = "propagation blocking by chunks of rows whose products stay in the L2"
    order = 96
    tunables = MappingProxyType(
        {
            "tiles": Tunable("auto", "column tiles; auto: 132, more where they would be too wide", ("auto",),
                             (1, 1 << 20)),
            "bin_entries": Tunable("auto", "products added up by one block at a time", ("auto",), (1, 65534)),
            "chunk_bins": Tunable(CHUNK_BINS, "bins of a chunk", None, (1, 1 << 20)),
        }
    )  # fmt: skip

    def _number(self, name: str, params: dict[str, Any]) -> int:
        """The parameter `name`, 0 for "auto". Raises UsageError."""
        tunable = self.tunables[name]
        given: Any = params.get(name, tunable.default)
        if given == "auto" == tunable.default:
            return 0
        assert tunable.between is not None
        low, high = tunable.between
        try:
            number = int(given)
        except (TypeError, ValueError):
            number = -1
        if not low <= number <= high:
            raise UsageError(f"{name} cannot be {given!r}", remedy=f"take an integer from {low} to {high}")
        return number

    def _plan(self, csr: CSR, value_bytes: int, params: dict[str, Any]) -> tuple[npt.NDArray[np.int64], int]:
        """The first column of each tile (and the end), and the entries of a bin."""
        widest = min(TILE_BYTES // value_bytes, HOLE - 1)
        tiles = self._number("tiles", params) or max(1, min(TILES, csr.nnz // LEAST_TILE))
        # Some room: tiles are cut by entries, so that some are wider than others.
        tiles *= max(1, -(-csr.cols * 33 // (tiles * widest * 32)))
        capacity = self._number("bin_entries", params)
        if not capacity:
            most = BIN_BYTES // value_bytes
            rounds = max(1, -(-csr.nnz // (TILES * most)))
            capacity = min(most, max(LEAST_BIN, -(-csr.nnz // (rounds * TILES - 7))))
        return _cut_columns(csr, tiles, widest), capacity

    @quiet_overflow
    def pack(
        self,
        csr: CSR,
        dtype: npt.DTypeLike = np.float32,
        offsets: npt.DTypeLike = np.int32,
        **params: Any,
    ) -> Packed:
        value = value_type(dtype)
        tile_col, capacity = self._plan(csr, value.itemsize, params)
        chunk_bins = self._number("chunk_bins", params)
        tiles = len(tile_col) - 1
        bins = form_bins(csr, capacity)
        count = len(bins.bin_row) - 1
        tile_of = np.repeat(np.arange(tiles, dtype=np.uint16), np.diff(tile_col))

        def one(b: int) -> _Bin:
            return _pack_bin(csr, bins, b, tile_of, tile_col, value)

        with ThreadPoolExecutor(os.cpu_count()) as pool:  # numpy sorts and gathers without the lock
            parts = list(pool.map(one, range(count)))
        groups = np.array([len(p.tile) for p in parts], np.int64)
        bin_group = np.concatenate(([0], np.cumsum(groups)))
        chunks = -(-count // chunk_bins)
        chunk_bin = np.minimum(np.arange(chunks + 1) * chunk_bins, count)
        chunk_group = bin_group[chunk_bin]
        col, val = (
            np.empty(int(bin_group[-1]) * GROUP, np.uint16),
            np.empty(int(bin_group[-1]) * GROUP, value),
        )
        dest = np.empty(int(bin_group[-1]), np.int32)
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

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(order, range(chunks)))
        length_before = np.concatenate(([0], np.cumsum(bins.length)))
        closed = ranges(bins.bin_row[:-1], np.diff(bins.bin_row) + 1)
        base = np.repeat(length_before[bins.bin_row[:-1]], np.diff(bins.bin_row) + 1)
        arrays = {
            "val": val,
            "col": col,
            "dest": dest,
            "start": np.cumsum(start).astype(np.int32),
            "tile_col": tile_col.astype(np.int32),
            "chunk_bin": chunk_bin.astype(np.int32),
            "pos": np.concatenate([*(p.pos for p in parts), np.empty(0, np.uint16)]),
            "bin_group": bin_group.astype(np.int32),
            "bin_row": bins.bin_row.astype(np.int32),
            "bin_lanes": bins.lanes.astype(np.int32),
            "row_id": np.where(bins.split, ~bins.row_id, bins.row_id).astype(np.int32),
            "row_start": (length_before[closed] - base).astype(np.uint16),
            "split_row": np.unique(bins.row_id[bins.split]).astype(np.int32),
        }
        meta = {
            "tiles": tiles, "bin_entries": capacity, "bins": count, "chunks": chunks, "slots": len(val),
            "widest": int(np.diff(tile_col).max()),
            "most_entries": int(np.diff(length_before[bins.bin_row]).max(initial=0)),
            "most_groups": int(np.diff(chunk_group).max(initial=0)),
        }  # fmt: skip
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
            compulsory_bytes=stored - (len(val) - csr.nnz) * (value.itemsize + 4),
            offsets=offset_type(offsets, csr.nnz),
        )

    def unpack(self, packed: Packed) -> CSR:
        cells = np.arange(packed.chunks * packed.tiles)
        cell = np.repeat(cells, np.diff(packed.start))
        column = (
            packed.col.reshape(-1, GROUP) + packed.tile_col[cell % packed.tiles].astype(np.int64)[:, None]
        )
        chunk_group = packed.bin_group[packed.chunk_bin].astype(np.int64)
        to = packed.dest + chunk_group[cell // packed.tiles]
        by_bin_col, by_bin_val = np.empty_like(column), np.empty((len(to), GROUP), packed.dtype)
        by_bin_col[to] = column
        by_bin_val[to] = packed.val.reshape(-1, GROUP)
        bin_of_part = np.repeat(np.arange(packed.bins), np.diff(packed.bin_row))
        at = np.arange(len(bin_of_part)) + bin_of_part
        starts = packed.row_start.astype(np.int64)
        length = starts[at + 1] - starts[at]
        closing = packed.bin_row[1:].astype(np.int64) + np.arange(packed.bins)
        entries_before = np.concatenate(([0], np.cumsum(starts[closing])))
        bin_of_slot = np.repeat(np.arange(packed.bins), np.diff(packed.bin_group) * GROUP)
        real = packed.pos != HOLE
        place = entries_before[bin_of_slot[real]] + packed.pos[real]
        col, val = np.empty(packed.nnz, np.int32), np.empty(packed.nnz, packed.dtype)
        col[place] = by_bin_col.reshape(-1)[real]
        val[place] = by_bin_val.reshape(-1)[real]
        row = np.repeat(np.where(packed.row_id < 0, ~packed.row_id, packed.row_id), length)
        order = np.lexsort((col, row))
        values = None if packed.pattern else val[order]
        return csr_from_entries(packed.rows, packed.cols, row[order], col[order], values)

    def predict_bytes(
        self, stats: MatrixStats, value_bytes: int = 4, offset_bytes: int = 4, **params: Any
    ) -> int:
        """Counts the buckets, which takes a pass over the column indices."""
        assert stats.csr is not None
        csr = stats.csr
        tile_col, capacity = self._plan(csr, value_bytes, params)
        tiles = len(tile_col) - 1
        bins = form_bins(csr, capacity)
        count, parts = len(bins.bin_row) - 1, len(bins.row_id)
        tile_of = np.repeat(np.arange(tiles, dtype=np.uint16), np.diff(tile_col))

        def one(b: int) -> int:
            part = slice(int(bins.bin_row[b]), int(bins.bin_row[b + 1]))
            tile = tile_of[csr.col_idx[ranges(bins.start[part], bins.length[part])]]
            return int((-(-np.bincount(tile, minlength=tiles) // GROUP)).sum())

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            groups = sum(pool.map(one, range(count)))
        chunks = -(-count // self._number("chunk_bins", params))
        split = len(np.unique(bins.row_id[bins.split]))
        words = groups + chunks * tiles + 1 + tiles + 1 + chunks + 1 + 3 * count + 2 + parts + split
        return groups * GROUP * (value_bytes + 4) + 4 * words + 2 * (parts + count)

    def refuse(
        self,
        stats: MatrixStats,
        free_bytes: int | None,
        value_bytes: int = 4,
        force: bool = False,
        **params: Any,
    ) -> str | None:
        """Refused where the buckets are so thin that padding outweighs the entries."""
        if not stats.nnz:
            return None
        need = self.predict_bytes(stats, value_bytes, **params)
        if free_bytes is not None and need > free_bytes:
            return f"{self.name} needs {human_bytes(need)}; device has {human_bytes(free_bytes)} free"
        per_nonzero = need / stats.nnz
        if per_nonzero > 4 * (value_bytes + 4) and stats.nnz > 100_000 and not force:
            return (
                f"{self.name} stores {per_nonzero:.0f} bytes per nonzero: its buckets are nearly empty; "
                "--force-format overrides"
            )
        return None


def _cut_columns(csr: CSR, tiles: int, widest: int) -> npt.NDArray[np.int64]:
    """First column of each of `tiles` tiles, and the end: equally many entries, `widest` columns at most.

    Where that would be too wide a tile, columns count as well, more and more of them.
    """
    if csr.cols == 0:
        return np.zeros(2, np.int64)
    counts = np.bincount(csr.col_idx, minlength=csr.cols)
    below = np.concatenate(([0], np.cumsum(counts, dtype=np.float64)))
    share, cuts = 0.05, np.empty(0, np.int64)
    while share < 1e6:
        weight = below + np.arange(csr.cols + 1) * (share * max(csr.nnz, 1) / csr.cols)
        wanted = weight[-1] * np.arange(tiles + 1) / tiles
        cuts = np.searchsorted(weight, wanted).astype(np.int64)
        cuts[0], cuts[-1] = 0, csr.cols
        if np.diff(cuts).max() <= widest:
            return np.unique(cuts)
        share *= 4
    return np.unique(np.append(np.arange(0, csr.cols, widest, dtype=np.int64), csr.cols))


@quiet_overflow
def _pack_bin(
    csr: CSR, bins: Bins, b: int, tile_of: npt.NDArray[np.uint16], tile_col: npt.NDArray[np.int64],
    value: np.dtype[Any],
) -> _Bin:  # fmt: skip
    part = slice(int(bins.bin_row[b]), int(bins.bin_row[b + 1]))
    source = ranges(bins.start[part], bins.length[part])
    column = csr.col_idx[source]
    tile = tile_of[column]
    order = np.argsort(tile, kind="stable")
    counts = np.bincount(tile, minlength=len(tile_col) - 1)
    groups = -(-counts // GROUP)
    ends = np.cumsum(counts)
    slot = np.arange(len(source)) + np.repeat(GROUP * (np.cumsum(groups) - groups) - (ends - counts), counts)
    total = int(groups.sum()) * GROUP
    pos, col = np.full(total, HOLE, np.uint16), np.zeros(total, np.uint16)
    val = np.zeros(total, value)
    pos[slot] = order
    col[slot] = (column - tile_col[tile])[order]
    val[slot] = 1 if csr.values is None else csr.values[source[order]]
    return _Bin(pos, col, val, np.repeat(np.arange(len(groups), dtype=np.int32), groups))
