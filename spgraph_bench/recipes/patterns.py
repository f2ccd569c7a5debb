"""The few ways in which recipes arrive at canonical CSR positions; all vectorised, in chunks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import prod

import numpy as np
import numpy.typing as npt

from spgraph_bench.cores import on_all_cores, usable_cores
from spgraph_bench.readers.common import Progress
from spgraph_bench.recipes.base import Pattern
from spgraph_bench.stats import row_ptr_of

__all__ = [
    "CHUNK",
    "WORKING_BYTES",
    "chunks",
    "fresh",
    "from_sorted_keys",
    "grid_entries",
    "grid_pattern",
    "random_order",
    "sorted_keys",
]

CHUNK = 1 << 19
"""Entries worked on at a time: a few arrays of this many words stay in cache."""

WORKING_BYTES = 2 * usable_cores() * CHUNK * 100
"""What recipes that use :func:`spgraph_bench.cores.on_all_cores` may have in memory: chunks at work and chunks done."""

_WORTH_SHARING = 1 << 22
"""Keys that are sorted by several threads; of fewer, one."""

Step = tuple[int, ...]


def chunks(total: int) -> Iterator[tuple[int, int]]:
    """First and last (exclusive) of `total` entries, a chunk at a time."""
    return ((first, min(first + CHUNK, total)) for first in range(0, total, CHUNK))


def grid_entries(dims: Sequence[int], steps: Sequence[Step]) -> int:
    """Entries that :func:`grid_pattern` gives."""
    return sum(prod(max(0, d - abs(s)) for d, s in zip(dims, step, strict=True)) for step in steps)


def grid_pattern(dims: Sequence[int], steps: Sequence[Step], progress: Progress) -> Pattern:
    """Points of a grid of extents `dims`, numbered row-major, each linked to itself + each step.

    Links that leave the grid are dropped, as Dirichlet boundaries do. `steps` must be distinct.
    """
    points = prod(dims)
    strides = [prod(dims[d + 1 :]) for d in range(len(dims))]
    # In the order of the column they lead to; steps that share an offset never both stay inside.
    steps = sorted(steps, key=lambda step: sum(s * t for s, t in zip(step, strides, strict=True)))
    offsets = np.array([sum(s * t for s, t in zip(step, strides, strict=True)) for step in steps], np.int64)
    col_idx = np.empty(grid_entries(dims, steps), np.int32)
    lengths = np.empty(points, np.int64)
    filled = 0
    per_chunk = max(1, CHUNK // max(1, len(steps)))
    for first in range(0, points, per_chunk):
        point = np.arange(first, min(first + per_chunk, points), dtype=np.int64)
        inside = np.ones((len(point), len(steps)), bool)
        for d, (extent, stride) in enumerate(zip(dims, strides, strict=True)):
            coordinate = point // stride % extent
            for k, step in enumerate(steps):
                if step[d]:
                    inside[:, k] &= (coordinate >= -step[d]) & (coordinate < extent - step[d])
        columns = (point[:, None] + offsets)[inside]
        col_idx[filled : filled + len(columns)] = columns
        filled += len(columns)
        lengths[point[0] : point[-1] + 1] = np.count_nonzero(inside, axis=1)
        progress("laying out the grid", (int(point[-1]) + 1) / points)
    return Pattern(points, points, row_ptr_of(lengths), col_idx)


def sorted_keys(keys: npt.NDArray[np.uint64], progress: Progress) -> npt.NDArray[np.uint64]:
    """`keys`, sorted on all cores; in place where they are few, else in a second array while `keys` is spent.

    Each core sorts a piece; then each takes a range of values from all pieces and sorts that.
    """
    cores = usable_cores()
    if cores == 1 or len(keys) < max(_WORTH_SHARING, cores):
        keys.sort()
        return keys
    pieces = [keys[a:b] for a, b in pairwise(len(keys) * k // cores for k in range(cores + 1))]
    for done, _ in on_all_cores(lambda k: pieces[k].sort(), range(cores)):
        progress("sorting edges", (done + 1) / (2 * cores))
    sample = np.sort(np.concatenate([piece[:: max(1, len(piece) // 256)] for piece in pieces]))
    splits = sample[[len(sample) * k // cores for k in range(1, cores)]]
    ends = np.array([[0, *np.searchsorted(piece, splits), len(piece)] for piece in pieces])
    out = np.empty_like(keys)
    starts = ends.sum(axis=0)

    def gather(k: int) -> None:
        mine = out[starts[k] : starts[k + 1]]
        np.concatenate([piece[a:b] for piece, (a, b) in zip(pieces, ends[:, k : k + 2], strict=True)], out=mine)
        mine.sort(kind="stable")  # Timsort, which merges the pieces' runs

    for done, _ in on_all_cores(gather, range(cores)):
        progress("sorting edges", (cores + done + 1) / (2 * cores))
    return out


def random_order(words: npt.NDArray[np.uint64], progress: Progress) -> npt.NDArray[np.uint64]:
    """Where each of `words` stands when they are sorted, ties as they were: ``argsort(kind="stable")``, on all cores.

    Their upper bits are sorted, each with its position in the place of the lower ones. Few words have all upper bits
    alike; those are put in order by themselves.
    """
    bits = np.uint64(max(1, (len(words) - 1).bit_length()))
    position = np.uint64((1 << int(bits)) - 1)
    keys = np.empty_like(words)

    def combine(chunk: tuple[int, int]) -> None:
        first, last = chunk
        np.bitwise_or(words[first:last] & ~position, np.arange(first, last, dtype=np.uint64), out=keys[first:last])

    for _ in on_all_cores(combine, chunks(len(words))):
        pass
    keys = sorted_keys(keys, progress)
    order = np.empty_like(keys)

    def split(chunk: tuple[int, int]) -> npt.NDArray[np.intp]:
        """Sets the chunk's positions; gives the places whose upper bits are those of the place before."""
        first, last = chunk
        np.bitwise_and(keys[first:last], position, out=order[first:last])
        begin = max(first - 1, 0)
        upper = keys[begin:last] >> bits
        return begin + 1 + np.flatnonzero(upper[1:] == upper[:-1])

    ties = np.concatenate([same for _, same in on_all_cores(split, chunks(len(words)))] or [np.empty(0, np.intp)])
    if len(ties):
        places = np.union1d(ties - 1, ties)
        tied = order[places]
        order[places] = tied[np.lexsort((tied, words[tied], keys[places] >> bits))]
    return order


def from_sorted_keys(keys: npt.NDArray[np.uint64], rows: int) -> Pattern:
    """A square pattern from edges ``source << 32 | target``, sorted; duplicates are merged."""
    parts = list(chunks(len(keys)))

    def count(chunk: tuple[int, int]) -> int:
        first, last = chunk
        return int(np.count_nonzero(_fresh_from(keys, first, last)))

    unique_before = row_ptr_of(np.array([unique for _, unique in on_all_cores(count, parts)], np.int64))
    col_idx = np.empty(int(unique_before[-1]), np.int32)
    lengths = np.zeros(rows, np.int64)

    def merge(part: int) -> tuple[int, npt.NDArray[np.int64]]:
        """Writes the targets of a chunk's edges; gives its first source and how many edges that and the next have."""
        first, last = parts[part]
        unique = keys[first:last][_fresh_from(keys, first, last)]
        if not len(unique):
            return 0, np.zeros(0, np.int64)
        col_idx[unique_before[part] : unique_before[part + 1]] = unique.astype(np.uint32).view(np.int32)
        sources = (unique >> np.uint64(32)).view(np.int64)
        sources -= (origin := sources[0])
        return int(origin), np.bincount(sources)

    for _, (origin, counts) in on_all_cores(merge, range(len(parts))):
        lengths[origin : origin + len(counts)] += counts
    return Pattern(rows, rows, row_ptr_of(lengths), col_idx, merged=len(keys) - len(col_idx))


def _fresh_from(keys: npt.NDArray[np.uint64], first: int, last: int) -> npt.NDArray[np.bool_]:
    """Which of ``keys[first:last]`` differ from the one before, in `keys`."""
    differs = fresh(keys[first:last])
    if first and keys[first] == keys[first - 1]:
        differs[0] = False
    return differs


def fresh(keys: npt.NDArray[np.integer]) -> npt.NDArray[np.bool_]:
    """Which of the sorted `keys` differ from the one before."""
    differs = np.ones(len(keys), bool)
    np.not_equal(keys[1:], keys[:-1], out=differs[1:])
    return differs
