"""Rows with marked ends, cut into runs of about equal cost, and the busiest columns' values in shared memory: what
kernels that read such rows are given. See cuda/pagerank/pull_hubs.cu and cuda/spmv/csr_hubs.cu."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from spgraph_bench.errors import SkipError
from spgraph_bench.gpus import GPU
from spgraph_bench.parameters import Parameter
from spgraph_bench.variants.base import Job

__all__ = ["HUBS", "TILE", "MarkedRows", "busiest_columns", "hub_shape", "hubs_on"]

TILE = 128
"""Entries that a warp reads at a time, as in the kernels."""

_SUMS = 160  # that each warp keeps in shared memory, as in the kernels
_FOR_L1 = {4: 36 << 10, 8: 68 << 10}
"""Of shared memory, left to L1, by the bytes of a value: what is on its way there is what an SM can wait for at a time.
With these L1 has 60 kB, or 92."""
_MOST_TILES = 96  # of a chunk: a bound on additions one after the other

_SECTOR = 32
"""Bytes that a gather takes from the L2."""

HUBS = {
    "block": Parameter(
        0, "threads per block; 0: 1024, or as many as fit; on the host device 64", (0, 64, 128, 256, 512, 1024)
    ),
    "hubs": Parameter(
        -1, "values in shared memory; -1: as many as leave L1 60 kB, for 8-byte values 92 kB", between=(-1, 1 << 20)
    ),
    "chunks": Parameter(1, "runs of entries that a warp takes", (1, 2, 4, 8)),
    "row_cost": Parameter(4, "cost of finishing a row, in entries", between=(0, 1024)),
}
"""The tunables of a kernel that has the busiest columns' values in shared memory."""


class MarkedRows:
    """Rows cut into chunks, which are runs of tiles of about equal cost.

    Parameters
    ----------
    row_ptr : [rows + 1].
    wanted : how many chunks there should be, or a multiple of it, if there are as many tiles.
    row_cost : what finishing a row costs, in entries.

    Attributes
    ----------
    row_of, bare : int32, the rows with entries and those without.
    cut : int32, the rows that are in several chunks.
    tiles, count : how many tiles and chunks there are.
    tile_begin : int32 [count + 1].
    first_row : int32 [count], the row of a chunk's first entry, as counted in `row_of`.
    leader, pieces : int32 [count + 1]. Of the row that comes into a chunk from the one before: the chunk in which it
        begins, and over how many it is spread, 0 if there is none.
    """

    def __init__(self, row_ptr: npt.NDArray[np.integer], wanted: int, row_cost: int) -> None:
        row_ptr = row_ptr.astype(np.int64, copy=False)
        filled = np.diff(row_ptr) > 0
        self.row_of = np.flatnonzero(filled).astype(np.int32)
        self.bare = np.flatnonzero(~filled).astype(np.int32)
        begin, end = row_ptr[:-1][filled], row_ptr[1:][filled]
        self.tiles = -(-int(row_ptr[-1]) // TILE)
        cost = np.cumsum(TILE + row_cost * np.bincount((end - 1) // TILE, minlength=self.tiles))
        # A multiple of what is wanted, so that warps have equally many.
        count = min(self.tiles, max(1, -(-self.tiles // max(1, wanted * _MOST_TILES))) * wanted)
        cuts = (
            np.searchsorted(cost, cost[-1] * np.arange(1, count) / count, "right") if count else np.zeros(0, np.int64)
        )
        tile_begin = np.unique(np.concatenate(([0], cuts, [self.tiles])))
        entry_begin = tile_begin * TILE
        # The row at each cut, and whether it began before.
        row = np.searchsorted(end, entry_begin, "right")
        nearest = np.minimum(row, max(len(begin) - 1, 0))
        cut = np.zeros(len(row), bool) if not len(begin) else (row < len(begin)) & (begin[nearest] < entry_begin)
        leader, last = np.zeros((2, len(row)), np.int64)
        if len(begin):
            leader = np.searchsorted(tile_begin, begin[nearest] // TILE, "right") - 1
            last = np.searchsorted(tile_begin, (end[nearest] - 1) // TILE, "right") - 1
        self.cut = self.row_of[np.unique(row[cut])]
        self.count = len(tile_begin) - 1
        self.tile_begin, self.first_row = tile_begin.astype(np.int32), row[:-1].astype(np.int32)
        self.leader, self.pieces = leader.astype(np.int32), np.where(cut, last - leader + 1, 0).astype(np.int32)


def _block_on(gpu: GPU, size: int, most: int = 1024) -> int:
    """The threads of a block on `gpu` for which values of `size` bytes leave room: sums take half of it at most."""
    while most > 64 and 2 * _sums_of(most, size) > gpu.shared_per_block:
        most //= 2
    return most


def _sums_of(block: int, size: int) -> int:
    return block // 32 * _SUMS * size


def _room(gpu: GPU, size: int, block: int) -> tuple[int, int]:
    """Bytes beside the sums of `block` threads: those that there are, and those that leave L1 its part."""
    sums = _sums_of(block, size)
    room = gpu.shared_per_block - 1024 - sums
    return room, min(room, max(room // 2, gpu.shared_per_sm - _FOR_L1[size] - sums))


def hubs_on(gpu: GPU, size: int) -> int:
    """Values of `size` bytes, 4 or 8, that a kernel has in shared memory on `gpu`, its tunables at their defaults."""
    return max(0, _room(gpu, size, _block_on(gpu, size))[1]) // size


def busiest_columns(
    count: npt.NDArray[np.integer], most: int, multiprocessors: int, size: int
) -> npt.NDArray[np.int32]:
    """The columns to keep in shared memory, rising: those with the most entries, `most` at most.

    Every multiprocessor copies the `size` bytes of a column; a column that has fewer entries than that takes sectors
    from the L2 is not worth it.

    Parameters
    ----------
    count : entries of each column, ``[cols]``.
    """
    busy = np.flatnonzero(count > multiprocessors * size // _SECTOR)
    if len(busy) > most:
        rest = len(busy) - most
        busy = np.sort(busy[np.argpartition(count[busy], rest - 1)[rest:]])
    return busy.astype(np.int32)


def hub_shape(job: Job, columns: int) -> tuple[int, int, int]:
    """Threads of a block, bytes of their sums in shared memory and of one value, and the values that fit beside them:
    `columns` at most, and so few that their number plus a column is below 2^31.

    Its variant has the tunables :data:`HUBS`. Raises SkipError where a block does not fit.
    """
    p, gpu, size = job.params, job.device.info().gpu, job.dtype.itemsize
    block = int(p["block"]) or _block_on(gpu, size, 64 if job.device.kind == "host" else 1024)
    sums = _sums_of(block, size)
    room, fitting = _room(gpu, size, block)
    if room < size:
        raise SkipError(
            f"the sums of {block:,} threads take {sums:,} bytes of shared memory, a block of this GPU has "
            f"{gpu.shared_per_block:,}",
            remedy=f"--param block={block // 2}",
        )
    hubs = min(columns, 2**31 - columns, fitting // size if p["hubs"] == -1 else int(p["hubs"]))
    if hubs * size > room:
        raise SkipError(f"{hubs:,} values do not fit into shared memory", remedy=f"--param hubs={room // size}")
    return block, sums + 16, hubs  # where there are no hubs, far gathers read a place in front of the sums
