"""Blocks of r x c that hold an entry: how many, and where."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from spgraph_bench.matrix import CSR
from spgraph_bench.stats import RowBlock, row_blocks
from spgraph_bench.structure import compiled

__all__ = ["block_lengths", "block_places", "by_alignment", "count_blocks"]

ALIGN = 24
"""No block of a height that divides this straddles two blocks of rows."""


def block_lengths(csr: CSR, r: int, c: int) -> npt.NDArray[np.int64]:
    """The blocks of r x c of each block row, ``[rows / r]`` (rounded up)."""
    counted = compiled.block_lengths(csr, r, c)
    if counted is not None:
        return counted
    lengths = np.zeros(-(-csr.rows // r), np.int64)
    for part in row_blocks(csr, align=r):
        keys = _distinct_pairs(part.row_ids() // r, part.cols.astype(np.int64) // c)
        first, last = part.first // r, -(-part.last // r)
        lengths[first:last] = np.bincount((keys >> 32) - first, minlength=last - first)
    return lengths


def by_alignment(sizes: Sequence[tuple[int, int]]) -> list[tuple[int, list[tuple[int, int]]]]:
    """`sizes` (rows, columns) in groups that can be counted in one walk: the ``align`` of :func:`row_blocks`,
    and the sizes. One walk for all would need chunks of 840 rows and more, however long those are."""
    groups: dict[int, list[tuple[int, int]]] = {}
    for r, c in sizes:
        groups.setdefault(ALIGN if ALIGN % r == 0 else r, []).append((r, c))
    return list(groups.items())


def count_blocks(
    rows: npt.NDArray[np.int64], cols: npt.NDArray[np.int64], sizes: Sequence[tuple[int, int]]
) -> dict[tuple[int, int], int]:
    """Occupied blocks of each size (rows, columns) among the entries of one block of rows.

    A size is counted from the blocks of the largest one before it in `sizes` that divides it (blocks of 4
    from those of 2), each time fewer to sort.
    """
    keys_of: dict[tuple[int, int], npt.NDArray[np.int64]] = {}
    for r, c in sizes:
        inner = max((s for s in keys_of if r % s[0] == 0 and c % s[1] == 0), key=lambda s: s[0] * s[1], default=None)
        if inner is None:
            keys_of[r, c] = _distinct_pairs(rows // r, cols // c)
        else:
            keys = keys_of[inner]
            keys_of[r, c] = _distinct_pairs((keys >> 32) // (r // inner[0]), (keys & 0xFFFFFFFF) // (c // inner[1]))
    return {size: len(keys) for size, keys in keys_of.items()}


def block_places(part: RowBlock, r: int, c: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The occupied blocks of r x c in `part`, whose first row is a multiple of r: ``block row << 32 | block
    column``, rising. And where each entry is if these blocks are stored one after another, by rows."""
    counts = np.diff(part.row_ptr)
    row = np.arange(part.first, part.last)
    block_row = row // r
    block_col = part.cols // np.int32(c)
    key = np.repeat(block_row << 32, counts)
    key |= block_col
    new = _changes(key)
    runs = key[new]  # entries of a row in the same block are together: one look-up for all of them
    keys = np.sort(runs, kind="stable")  # as in _distinct_pairs
    keys = keys[_changes(keys)]
    place = np.searchsorted(keys, runs)
    place *= r * c
    position = np.repeat(place, np.diff(np.append(np.flatnonzero(new), len(key))))
    position += np.repeat((row - block_row * r) * c, counts)
    position += part.cols - block_col * np.int32(c)
    return keys, position


def _distinct_pairs(rows: npt.NDArray[np.int64], cols: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Distinct pairs as ``row << 32 | col``, rising."""
    keys = rows << 32
    keys |= cols
    keys = keys[_changes(keys)]  # neighbours in a row are often in the same block: less to sort
    # Stable means Timsort, which finds that every row is sorted already: a tenth of the time of the default.
    keys.sort(kind="stable")
    return keys[_changes(keys)]


def _changes(keys: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    changed = np.ones(len(keys), bool)
    np.not_equal(keys[1:], keys[:-1], out=changed[1:])
    return changed
