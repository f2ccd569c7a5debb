"""Panels: rows by panel, their entries by column tile, for kernels that let x run past."""

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
from spgraph_bench.formats.common import csr_from_entries, offset_type, quiet_overflow, ranges, value_type
from spgraph_bench.matrix import CSR
from spgraph_bench.stats import MatrixStats

__all__ = ["GROUP", "SPARE", "Panels"]

GROUP = 128
"""Entries that a warp takes at a time: four a thread."""

SPARE = 32
"""Sums behind those of a panel, which padding adds to: one for each bank of shared memory."""

PANELS = 128
"""Panels for a large matrix: one for each SM of an H200 that clusters of up to 8 blocks reach."""

LEAST_ENTRIES = 1024
"""Entries that a panel of a small matrix should have."""

PANEL_BYTES = 224 * 1024
"""Shared memory for the sums and the ring of tiles: what a block of compute capability 9.0 gets, less its
barriers."""

TILE_BYTES = 16 * 1024
MOST_STAGES = 32
SHARE = 512
"""A row with more than 1/512 of its panel's entries gets so many more slots that no slot has more."""


@dataclass(frozen=True)
class _Plan:
    panel_row: npt.NDArray[np.int64]
    tile: int
    """Columns of a tile."""
    stages: int
    cluster: int


@dataclass(frozen=True)
class _Panel:
    """The entries of one panel in the order in which they are stored."""

    source: npt.NDArray[np.int64]
    """Place in the CSR arrays; -1 for padding."""
    slot: npt.NDArray[np.uint16]
    ring: npt.NDArray[np.uint16]
    span: npt.NDArray[np.int32]
    extra_slot: npt.NDArray[np.uint16]


def _bounds(csr: CSR, panels: int, most_rows: int) -> npt.NDArray[np.int64]:
    """First row of each panel, and the end: entries evenly shared, at most `most_rows` rows each."""
    # A row costs something too: its sum is cleared and written.
    weight = csr.row_ptr + np.arange(csr.rows + 1) * csr.nnz / max(csr.rows, 1) / 16
    wanted = weight[-1] * np.arange(panels + 1) / panels
    at = np.searchsorted(weight, wanted)
    at -= (at > 0) & (wanted - weight[at - 1] < weight[at] - wanted)  # the nearer end of a long row
    at[0], at[-1] = 0, csr.rows
    parts = np.maximum(1, -(-np.diff(at) // most_rows))
    inner = ranges(np.zeros(len(parts), np.int64), parts)
    first = np.repeat(at[:-1], parts) + np.repeat(np.diff(at), parts) * inner // np.repeat(parts, parts)
    return np.append(first, csr.rows).astype(np.int64)


@register
class Panels(Format):
    """Row panels with their entries ordered by column tile (cache blocking as in Nishtala, Vuduc, Demmel and
    Yelick, "When cache blocking of sparse matrix vector multiply works and why", AAECC 2007).

    The rows are cut into ``panels`` of consecutive rows, the columns into tiles of ``tile`` columns;
    ``cluster`` panels in turn share a list of the tiles that any of them needs. Entries of a panel come by
    tile; within a tile so that neighbours fall into different banks of shared memory, and entries of one row
    lie apart. A row with more than 1/512 of its panel's entries has several slots for its sum. Tile t of the
    list lies in stage t mod ``stages`` of a ring while it is used.

    ``val``: value type ``[slots]``; ``place``: uint16 ``[2 slots]``, by turns the slot of the sum and the
    place of the column in the ring (stage * tile + column in the tile); ``span``: int32 ``[2 groups]``, first
    and last tile of each group of 128 entries, as numbers in the list; ``panel_row``: int32 ``[panels + 1]``;
    ``panel_group``: int32 ``[panels + 1]``, first group of each panel; ``tile_ptr``: int32
    ``[panels / cluster + 1]`` and ``tile_id``: int32, the lists; ``extra_ptr``: int32 ``[panels + 1]`` and
    ``extra_slot``: uint16, the rows (within their panel) of the slots behind those of the rows.
    Invariants: slots of a panel are its rows, its extra slots, and 32 that padding (value 0) adds to; spans
    do not fall within a panel and cover at most ``stages`` tiles; ``panels`` is a multiple of ``cluster``.
    """

    name = "panels"
    title = "row panels, entries by column tile, for x streamed through shared memory"
    order = 96
    predicts_exactly = False
    tunables = MappingProxyType(
        {
            "panels": Tunable("auto", "row panels, at least; auto: 128, fewer for small matrices", ("auto",),
                              (1, 1 << 20)),
            "panel_tile": Tunable("auto", "columns of a tile; auto: 16 kB of them", ("auto",), (4, 16384)),
            "panel_bytes": Tunable(PANEL_BYTES, "shared memory for sums and tiles", None, (16384, 1 << 18)),
            "cluster": Tunable(8, "panels that share the tiles they read", (1, 2, 4, 8)),
        }
    )  # fmt: skip

    def _number(self, name: str, params: dict[str, Any]) -> int:
        """The parameter `name`, 0 for "auto". Raises UsageError."""
        tunable = self.tunables[name]
        given: Any = params.get(name, tunable.default)
        if given == "auto" == tunable.default:
            return 0
        try:
            number = int(given)
        except (TypeError, ValueError):
            number = -1
        if tunable.between is None:
            if number not in (tunable.choices or ()):
                raise UsageError(f"{name} cannot be {given!r}", remedy="take 1, 2, 4 or 8")
        elif not tunable.between[0] <= number <= tunable.between[1]:
            low, high = tunable.between
            raise UsageError(f"{name} cannot be {given!r}", remedy=f"take an integer from {low} to {high}")
        return number

    def _plan(self, csr: CSR, value_bytes: int, params: dict[str, Any]) -> _Plan:
        numbers = {name: self._number(name, params) for name in self.tunables}
        room, cluster = numbers["panel_bytes"] // value_bytes, numbers["cluster"]
        tile = numbers["panel_tile"] // 4 * 4 or TILE_BYTES // value_bytes
        tile = max(4, min(tile, -(-csr.cols // 4) * 4, room // 8 // 4 * 4))
        panels = numbers["panels"] or max(1, min(PANELS, csr.nnz // LEAST_ENTRIES))
        panels = -(-panels // cluster) * cluster
        # Four tiles at least beside the sums; slots are numbered in 16 bits.
        most_rows = max(1, min(room - 4 * tile, 1 << 16) - SPARE - SHARE)
        panel_row = _bounds(csr, panels, most_rows)
        short = -(len(panel_row) - 1) % cluster
        panel_row = np.append(panel_row, np.full(short, csr.rows))
        sums = int(np.diff(panel_row).max(initial=0)) + SPARE + SHARE
        tiles = max(1, -(-csr.cols // tile))
        stages = max(2, min((room - sums) // tile, MOST_STAGES, (1 << 16) // tile, max(tiles, 2)))
        return _Plan(panel_row, tile, stages, cluster)

    @quiet_overflow
    def pack(
        self,
        csr: CSR,
        dtype: npt.DTypeLike = np.float32,
        offsets: npt.DTypeLike = np.int32,
        **params: Any,
    ) -> Packed:
        value = value_type(dtype)
        plan = self._plan(csr, value.itemsize, params)
        panels = len(plan.panel_row) - 1
        lists = _tile_lists(csr, plan)

        def one(p: int) -> _Panel:
            return _pack_panel(csr, plan, p, lists[p // plan.cluster])

        with ThreadPoolExecutor(os.cpu_count()) as pool:  # numpy sorts and gathers without the lock
            packed = list(pool.map(one, range(panels)))
        sizes = np.array([len(p.slot) for p in packed], np.int64)
        starts = np.concatenate(([0], np.cumsum(sizes)))
        place = np.empty((int(starts[-1]), 2), np.uint16)
        val = np.zeros(int(starts[-1]), value)
        for part, start in zip(packed, starts[:-1], strict=True):
            here = slice(int(start), int(start) + len(part.slot))
            place[here, 0], place[here, 1] = part.slot, part.ring
            real = part.source >= 0
            val[here][real] = 1 if csr.values is None else csr.values[part.source[real]]
        extras = [len(p.extra_slot) for p in packed]
        arrays = {
            "val": val,
            "place": place.reshape(-1),
            "span": np.concatenate([*(p.span.reshape(-1) for p in packed), np.empty(0, np.int32)]),
            "panel_row": plan.panel_row.astype(np.int32),
            "panel_group": (starts // GROUP).astype(np.int32),
            "tile_ptr": np.concatenate(([0], np.cumsum([len(ids) for ids in lists]))).astype(np.int32),
            "tile_id": np.concatenate([*lists, np.empty(0, np.int32)]).astype(np.int32),
            "extra_ptr": np.concatenate(([0], np.cumsum(extras))).astype(np.int32),
            "extra_slot": np.concatenate([*(p.extra_slot for p in packed), np.empty(0, np.uint16)]),
        }
        rows = np.diff(plan.panel_row)
        meta = {
            "panels": panels, "tile": plan.tile, "stages": plan.stages, "cluster": plan.cluster,
            "slots": len(val), "most_sums": int((rows + extras).max(initial=0)) + SPARE,
        }  # fmt: skip
        padding = (len(val) - csr.nnz) * (value.itemsize + 4)
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
        panel_row = packed.panel_row.astype(np.int64)
        groups = np.diff(packed.panel_group.astype(np.int64))
        panel = np.repeat(np.arange(packed.panels), groups * GROUP)
        slot, ring = packed.place.reshape(-1, 2).T.astype(np.int64)
        rows = np.diff(panel_row)
        extras = np.diff(packed.extra_ptr.astype(np.int64))
        real = slot < (rows + extras)[panel]
        first = np.repeat(packed.span.reshape(-1, 2)[:, 0].astype(np.int64), GROUP)
        panel, slot, ring, first = panel[real], slot[real], ring[real], first[real]
        extra = slot >= rows[panel]
        where = packed.extra_ptr[panel[extra]] + slot[extra] - rows[panel[extra]]
        slot[extra] = packed.extra_slot[where]
        # The only tile from the group's first on that lies in this stage.
        number = first + (ring // packed.tile - first) % packed.stages
        tile = packed.tile_id[packed.tile_ptr[panel // packed.cluster] + number].astype(np.int64)
        col = (tile * packed.tile + ring % packed.tile).astype(np.int32)
        row = panel_row[panel] + slot
        order = np.lexsort((col, row))
        values = None if packed.pattern else packed.val[real][order]
        return csr_from_entries(packed.rows, packed.cols, row[order], col[order], values)

    def predict_bytes(
        self, stats: MatrixStats, value_bytes: int = 4, offset_bytes: int = 4, **params: Any
    ) -> int:
        """An upper bound: how much padding there is depends on the columns."""
        assert stats.csr is not None
        plan = self._plan(stats.csr, value_bytes, params)
        panels = len(plan.panel_row) - 1
        tiles = max(1, -(-stats.cols // plan.tile))
        # At worst every window of tiles that a panel has entries in ends in a padded group.
        windows = min(stats.nnz, panels * (-(-tiles // max(1, plan.stages // 2)) + 1))
        groups = stats.nnz // GROUP + windows + 1
        lists = panels // plan.cluster * min(tiles, stats.nnz)
        return groups * (GROUP * (value_bytes + 4) + 8) + 4 * (3 * panels + 4 + lists) + 2 * SHARE * panels

    def refuse(
        self,
        stats: MatrixStats,
        free_bytes: int | None,
        value_bytes: int = 4,
        force: bool = False,
        **params: Any,
    ) -> str | None:
        """Refused where a panel would stream far more of x than it has entries for."""
        if not stats.nnz:
            return None
        need = self.predict_bytes(stats, value_bytes, **params)
        if free_bytes is not None and need > free_bytes:
            free = human_bytes(free_bytes)
            return f"panels needs up to {human_bytes(need)}; device has {free} free"
        if force or stats.nnz <= 100_000:
            return None
        assert stats.csr is not None
        plan = self._plan(stats.csr, value_bytes, params)
        streamed = sum(len(ids) for ids in _tile_lists(stats.csr, plan)) * plan.cluster * plan.tile
        if streamed > 32 * stats.nnz:
            return (
                f"panels would stream {streamed / stats.nnz:.0f} elements of x per nonzero (limit 32): its "
                "tiles are nearly empty; --force-format overrides"
            )
        return None


def _tile_lists(csr: CSR, plan: _Plan) -> list[npt.NDArray[np.int32]]:
    """The tiles that the panels of each cluster need, rising."""
    tiles = max(1, -(-csr.cols // plan.tile))

    def one(first: int) -> npt.NDArray[np.int32]:
        rows = plan.panel_row[first], plan.panel_row[first + plan.cluster]
        used = np.zeros(tiles, np.bool_)
        used[csr.col_idx[csr.row_ptr[rows[0]] : csr.row_ptr[rows[1]]] // plan.tile] = True
        return np.flatnonzero(used).astype(np.int32)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(one, range(0, len(plan.panel_row) - 1, plan.cluster)))


def _pack_panel(csr: CSR, plan: _Plan, panel: int, ids: npt.NDArray[np.int32]) -> _Panel:
    first, last = int(plan.panel_row[panel]), int(plan.panel_row[panel + 1])
    start, stop = int(csr.row_ptr[first]), int(csr.row_ptr[last])
    lengths = np.diff(csr.row_ptr[first : last + 1])
    nnz, rows = stop - start, last - first
    column = csr.col_idx[start:stop]
    tile_of = np.zeros(max(1, -(-csr.cols // plan.tile)), np.int32)
    tile_of[ids] = np.arange(len(ids))
    tile = column // plan.tile
    offset = (column - tile * plan.tile).astype(np.uint16)
    number = tile_of[tile]
    slot = np.repeat(np.arange(rows, dtype=np.int32), lengths)
    # Long rows: entry i of a row with s slots goes to slot i mod s.
    slots = np.maximum(1, -(-lengths * SHARE // max(nnz, 1)))
    more = np.flatnonzero(slots > 1)
    extra_slot = np.repeat(more, slots[more] - 1).astype(np.uint16)
    if len(more):
        length, own = lengths[more], slots[more] - 1
        turn = ranges(np.zeros(len(more), np.int64), length) % np.repeat(own + 1, length)
        base = np.repeat(rows + np.cumsum(own) - own - 1, length)
        entries = ranges(csr.row_ptr[first + more] - start, length)
        slot[entries] = np.where(turn == 0, slot[entries], base + turn)
    # Within a tile: the entries of each bank spread evenly over it. Neighbours then lie in different banks,
    # and those of one row are as far apart as they can be.
    key = number * 32 + (slot & 31)
    order = np.argsort(key.astype(np.uint16) if len(ids) <= 2048 else key, kind="stable")
    counts = np.bincount(key, minlength=1)
    count = np.repeat(counts, counts)
    rank = np.arange(nnz) - np.repeat(np.cumsum(counts) - counts, counts)
    share = ((2 * rank + 1) * 32767 // np.maximum(count, 1)).astype(np.uint16)
    order = order[np.argsort(share, kind="stable")]
    by_tile = number[order]
    order = order[np.argsort(by_tile.astype(np.uint16) if len(ids) <= 1 << 16 else by_tile, kind="stable")]
    at, total = _places(number[order], plan.stages)
    # Entries i, i + 32, i + 64 and i + 96 of a group are one thread's, side by side.
    stored_at = at // GROUP * GROUP + at % 32 * 4 + at % GROUP // 32
    source = np.full(total, -1, np.int64)
    source[stored_at] = start + order
    spare = rows + len(extra_slot) + np.arange(total) // 4 % SPARE
    stored = spare.astype(np.uint16)
    stored[stored_at] = slot[order]
    ring = np.zeros(total, np.uint16)
    ring[stored_at] = number[order] % plan.stages * plan.tile + offset[order]
    span = _spans(number[order], at, total)
    # Padding reads its group's first tile.
    hole = source < 0
    ring[hole] = np.repeat(span[:, 0] % plan.stages * plan.tile, GROUP)[hole]
    return _Panel(source, stored, ring, span, extra_slot)


def _spans(number: npt.NDArray[np.int32], at: npt.NDArray[np.int64], total: int) -> npt.NDArray[np.int32]:
    """First and last tile of each group; padding lies at the ends of groups only."""
    groups = total // GROUP
    bounds = np.searchsorted(at, np.arange(groups + 1) * GROUP)
    return np.stack((number[bounds[:-1]], number[bounds[1:] - 1]), axis=1).astype(np.int32)


def _places(number: npt.NDArray[np.int32], stages: int) -> tuple[npt.NDArray[np.int64], int]:
    """Where entries of these tiles (rising) are stored, and how many slots that makes, a multiple of 128.

    One after another where no group then covers more tiles than half the ring, else with padding where a
    window of so many tiles ends.
    """
    nnz, most = len(number), max(1, stages // 2)
    at = np.arange(nnz, dtype=np.int64)
    groups = -(-nnz // GROUP)
    if not groups:
        return at, 0
    ends = np.minimum(np.arange(1, groups + 1) * GROUP, nnz) - 1
    if int((number[ends] - number[np.arange(groups) * GROUP]).max()) < most:
        return at, groups * GROUP
    counts = np.bincount(number // most)
    padded = -(-counts // GROUP) * GROUP
    return at + np.repeat(np.cumsum(padded - counts) - (padded - counts), counts), int(padded.sum())
