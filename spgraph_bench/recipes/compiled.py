"""Edges and values of large recipes in compiled code and on all cores, where there is a C++ compiler.

``edges.cpp`` is compiled once, into the cache of the host device. A function here returns None where there is little to
draw, or where there is no compiler; then numpy does it, which is also the plainer text: what comes is the same, bit by
bit.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from spgraph_bench import threads
from spgraph_bench.cores import on_all_cores, usable_cores
from spgraph_bench.matrix import CSR
from spgraph_bench.readers.common import Progress
from spgraph_bench.recipes.draw import AliasTable, UInt64Array, Words
from spgraph_bench.stats import row_ptr_of
from spgraph_bench.threads import Ints, call, cuts, matrix_of, rows_and_entries, worth_it
from spgraph_bench.toolchain.library import address_of, compiled_library

__all__ = ["Draws", "drawn_columns", "entry_values", "rmat"]

Rows = tuple[Ints, npt.NDArray[np.int32], int]
"""The length of each row, their columns one row after another, and how many duplicates were merged."""

_RANGES = 8
"""Ranges of edges that each thread draws."""
_BUCKET = 1 << 16
"""Edges of a bucket at least, which are sorted in L2."""
_MOST_BUCKETS = 1 << 12
"""The ends of all stay in L1 and L2."""
_MOST_GROUPS = 4


class _Tables(ctypes.Structure):
    _fields_ = [
        ("groups", ctypes.c_int64),
        ("levels", ctypes.c_int64 * _MOST_GROUPS),
        ("bits", ctypes.c_int64 * _MOST_GROUPS),
        ("columns", ctypes.c_void_p * _MOST_GROUPS),
    ]
    keep: list[UInt64Array]
    """What `columns` are the addresses of."""


@functools.cache
def _library() -> ctypes.CDLL | None:
    return compiled_library(Path(__file__).with_name("edges.cpp"))


@dataclass(frozen=True)
class Draws:
    """How the edges of an R-MAT graph are drawn."""

    scale: int
    """2^scale vertices."""
    edges: int
    """Draws, loops and duplicates included."""
    groups: Sequence[tuple[int, AliasTable]]
    """Of each group of levels how many they are, and their outcomes ``row << levels | column``."""
    streams: Sequence[tuple[int, int]]
    """Of each group the seed and the number of the stream that it draws from."""
    renamed: UInt64Array
    """The id of each vertex, ``[2^scale]``."""
    symmetrize: int
    """1: each edge both ways."""


@dataclass(frozen=True)
class _Drawn:
    """Edges ``source << 32 | target`` as they were drawn."""

    keys: UInt64Array
    first: list[int]
    """Where the edges of each range of draws begin in `keys`."""
    tally: Ints
    """How many of each range are of each bucket, ``[ranges][buckets]``."""


@dataclass(frozen=True)
class _Joined:
    """Edges in buckets by their source's upper bits; in each bucket sorted, and once each."""

    keys: UInt64Array
    """A bucket's edges are its targets only, as int32 from its first key on."""
    start: Ints
    """Where each bucket begins in `keys`, and its end, ``[buckets + 1]``."""
    sizes: Ints
    """Edges of each bucket."""
    lengths: Ints
    """Edges of each vertex."""


def rmat(draws: Draws, progress: Progress) -> Rows | None:
    """The R-MAT graph of these draws; or None."""
    library = _library() if draws.edges >= threads.WORTH_ENTRIES else None
    if library is None:
        return None
    expected = draws.edges * (1 + draws.symmetrize)
    shift = max(0, draws.scale - (min(_MOST_BUCKETS, max(1, expected // _BUCKET)) - 1).bit_length())
    drawn = _drawn(library, draws, shift, progress)
    joined = _joined(library, drawn, draws.scale, shift, progress)
    del drawn
    before = row_ptr_of(joined.sizes)
    col_idx = np.empty(int(before[-1]), np.int32)

    def collect(buckets: tuple[int, int]) -> None:
        call(library.spg_collect_targets, *buckets, joined.start, before, joined.keys, col_idx)

    for _ in on_all_cores(collect, cuts(before)):
        pass
    return joined.lengths, col_idx, len(joined.keys) - len(col_idx)


def _drawn(library: ctypes.CDLL, draws: Draws, shift: int, progress: Progress) -> _Drawn:
    """All edges. Those of a bucket have sources that are alike but for the lowest `shift` bits."""
    count, ways = _RANGES * usable_cores(), 1 + draws.symmetrize
    first = [draws.edges * k // count for k in range(count + 1)]
    keys = np.empty(draws.edges * ways, np.uint64)
    tally = np.zeros((count, 1 << draws.scale - shift), np.int64)
    tables, names = _tables(draws.groups), draws.renamed.astype(np.uint32)

    def draw(k: int) -> None:
        states = np.concatenate([Words(*stream, first[k]).state() for stream in draws.streams])
        mine, edges = keys[first[k] * ways :], first[k + 1] - first[k]
        call(library.spg_rmat_keys, tables, states, edges, names, draws.symmetrize, shift, mine, tally[k])

    for k, _ in on_all_cores(draw, range(count)):
        progress("drawing edges", (k + 1) / count)
    return _Drawn(keys, [ways * k for k in first[:-1]], tally)


def _joined(library: ctypes.CDLL, drawn: _Drawn, scale: int, shift: int, progress: Progress) -> _Joined:
    """`drawn`, whose keys are overwritten."""
    count, buckets = drawn.tally.shape
    start = row_ptr_of(drawn.tally.sum(axis=0))
    place = start[:-1] + np.cumsum(drawn.tally, axis=0) - drawn.tally
    keys = np.empty(int(start[-1]), np.uint64)

    def share_out(k: int) -> None:
        mine, edges = drawn.keys[drawn.first[k] :], int(drawn.tally[k].sum())
        call(library.spg_to_buckets, mine, edges, shift, place[k], keys)

    for k, _ in on_all_cores(share_out, range(count)):
        progress("sorting edges", (k + 1) / (2 * count))
    lengths, sizes = np.zeros(1 << scale, np.int64), np.zeros(buckets, np.int64)

    def join(stretch: tuple[int, int]) -> None:
        call(library.spg_join_edges, *stretch, start, shift, scale, keys, drawn.keys, lengths, sizes)

    for (_, last), _ in on_all_cores(join, cuts(start)):
        progress("sorting edges", 0.5 + last / (2 * buckets))
    return _Joined(keys, start, sizes, lengths)


def _tables(groups: Sequence[tuple[int, AliasTable]]) -> _Tables:
    """``rmat_tables`` of edges.cpp."""
    made = _Tables(groups=len(groups))
    made.keep = [np.stack((t.threshold, t.alias.view(np.uint64)), axis=1) for _, t in groups]
    for group, (levels, table) in enumerate(groups):
        made.levels[group], made.bits[group] = levels, table.bits
        made.columns[group] = address_of(made.keep[group])
    return made


def drawn_columns(lengths: Ints, cols: int, seed: int, stream: int, progress: Progress) -> Rows | None:
    """For each row `lengths[row]` columns drawn uniformly from `cols`, duplicates merged; or None."""
    drawn = row_ptr_of(lengths)
    total = int(drawn[-1])
    library = _library() if total >= threads.WORTH_ENTRIES else None
    if library is None:
        return None
    col_idx, row_lengths = np.empty(total, np.int32), np.empty(len(lengths), np.int64)

    def draw(rows: tuple[int, int]) -> None:
        begin = int(drawn[rows[0]])
        state = Words(seed, stream, begin).state()
        call(library.spg_draw_columns, *rows, lengths, state, cols, col_idx[begin:], row_lengths)

    filled = 0
    for (first, last), _ in on_all_cores(draw, cuts(drawn)):
        begin, count = int(drawn[first]), int(row_lengths[first:last].sum())
        if filled < begin:  # duplicates before have left room
            col_idx[filled : filled + count] = col_idx[begin : begin + count]
        filled += count
        progress("drawing columns", int(drawn[last]) / total)
    col_idx.resize(filled, refcheck=False)  # gives the tail back; it has no other reference
    return row_lengths, col_idx, total - filled


def entry_values(csr: CSR, start: UInt64Array, symmetric: bool, progress: Progress) -> npt.NDArray[np.float64] | None:
    """:func:`spgraph_bench.recipes.values.entry_values` of a sequence that starts at `start`, uint64 ``[1]``; or
    None."""
    library = _library() if worth_it(csr) else None
    if library is None:
        return None
    matrix, out = matrix_of(csr), np.empty(csr.nnz)

    def draw(rows: tuple[int, int]) -> None:
        call(library.spg_entry_values, matrix, *rows, start, int(symmetric), out)

    for (_, last), _ in on_all_cores(draw, cuts(rows_and_entries(csr))):
        progress("drawing values", last / csr.rows)
    return out
