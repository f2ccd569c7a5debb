"""What the places and values of a matrix say beyond its row lengths: the statistics of `spgraph info`.

Everything is exact: nothing is sampled. Matrices are walked in blocks of rows that stay in cache; the
transpose, for the symmetry of square ones, is the only array as large as the matrix. Large matrices are
counted by compiled code, which needs no transpose.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from spgraph_bench.cores import on_all_cores
from spgraph_bench.matrix import CSR
from spgraph_bench.stats import Lengths, RowBlock, length_stats, origins, row_blocks
from spgraph_bench.structure import compiled
from spgraph_bench.structure.blocks import ALIGN, block_lengths, by_alignment, count_blocks

__all__ = [
    "BLOCK_FILL",
    "DISTINCT_LIMIT",
    "BlockFill",
    "Diagonals",
    "Structure",
    "Symmetry",
    "Values",
    "analyse",
    "transposed",
]

BLOCK_SIZES = (2, 3, 4, 5, 6, 7, 8)
BLOCK_FILL = 0.6
"""Blocks (and diagonals) at least this full are called well filled."""
DISTINCT_LIMIT = 65_536
"""Distinct values are counted up to here."""
_SPAN_16 = 1 << 16
_VALUES_AT_ONCE = 1 << 19


@dataclass(frozen=True)
class Diagonals:
    """Occupation of the diagonals ``col - row``."""

    occupied: int
    """Diagonals with an entry."""
    fill: float
    """Entries over all places on occupied diagonals: what share of DIA would not be padding."""
    full: int
    """Diagonals without a gap."""
    well_filled: int
    """Diagonals at least BLOCK_FILL full."""
    well_filled_share: float
    """Share of all entries that are on those."""
    main: int
    """Entries on the main diagonal (self-loops)."""
    main_length: int


@dataclass(frozen=True)
class Symmetry:
    """Shares of the entries off the diagonal, 1 where there are none."""

    pattern: float
    """Those whose mirror image is stored, too."""
    value: float
    """Those whose mirror image has the same value."""
    skew: float
    """Those whose mirror image has the opposite value."""


@dataclass(frozen=True)
class BlockFill:
    """The matrix cut into square blocks of entries, aligned to the origin, as BSR does."""

    size: int
    blocks: int
    """Blocks with an entry."""
    fill: float
    """Entries over all places in those blocks."""


@dataclass(frozen=True)
class Values:
    """What the stored values are like."""

    min: float
    """Over finite values; NaN where there are none."""
    max: float
    zeros: int
    negative: int
    nonfinite: int
    """NaN and infinities."""
    distinct: int | None
    """Different values; None: more than DISTINCT_LIMIT."""


@dataclass(frozen=True)
class Structure:
    """Statistics of places and values."""

    columns: Lengths
    """Entries per column: in-degrees of a graph."""
    lower_bandwidth: int
    """Largest row - col of an entry, 0 if none is below the diagonal."""
    upper_bandwidth: int
    """Largest col - row."""
    mean_distance: float
    """Mean of |row - col|."""
    profile: int
    """Sum over rows of the distance from the first entry left of the diagonal to the diagonal."""
    widest_row: int
    """Largest span (last column - first column + 1) of a row."""
    wide_rows: int
    """Rows whose columns span more than 65,536, too wide for 16-bit column offsets."""
    diagonals: Diagonals
    symmetry: Symmetry | None
    """None unless the matrix is square."""
    blocks: tuple[BlockFill, ...]
    values: Values | None
    """None for a pattern."""

    @property
    def block_size(self) -> int | None:
        """The block size with which BSR in float32 stores the fewest bytes, of those well filled."""
        good = [b for b in self.blocks if b.fill >= BLOCK_FILL]
        return min(good, key=lambda b: b.blocks * (4 + 4 * b.size**2)).size if good else None


Progress = Callable[[str, float | None], None]


def analyse(csr: CSR, progress: Progress = lambda doing, fraction: None) -> Structure:
    """All statistics of `csr`; about 0.2 us of CPU time per entry, on all cores."""
    places = _places(csr, progress)
    diagonal_lengths = places.diagonal_lengths
    occupied = np.flatnonzero(diagonal_lengths) - (csr.rows - 1)
    first, last, nonempty = _row_ends(csr)
    spans = last - first + 1
    return Structure(
        columns=length_stats(places.column_lengths),
        lower_bandwidth=max(0, -int(occupied[0])) if len(occupied) else 0,
        upper_bandwidth=max(0, int(occupied[-1])) if len(occupied) else 0,
        mean_distance=places.distance / csr.nnz if csr.nnz else 0.0,
        profile=int(np.maximum(nonempty - first, 0).sum()),
        widest_row=int(spans.max(initial=0)),
        wide_rows=int(np.count_nonzero(spans > _SPAN_16)),
        diagonals=_diagonals(csr, diagonal_lengths),
        symmetry=_symmetry(csr, progress) if csr.rows == csr.cols else None,
        blocks=tuple(
            BlockFill(size, count, csr.nnz / (count * size**2) if count else 0.0)
            for size, count in places.blocks.items()
        ),
        values=None if csr.values is None else _values(csr.values),
    )


@dataclass(frozen=True)
class _Places:
    column_lengths: npt.NDArray[np.int64]
    diagonal_lengths: npt.NDArray[np.int64]
    """Entries of each diagonal; index: col - row + rows - 1."""
    distance: int
    """Sum of ``|col - row|``."""
    blocks: dict[int, int]
    """Blocks that hold an entry, by size."""


def _places(csr: CSR, progress: Progress) -> _Places:
    if (by_library := compiled.places(csr)) is not None:
        progress("blocks", None)
        return _Places(*by_library, {size: int(block_lengths(csr, size, size).sum()) for size in BLOCK_SIZES})
    return _places_by_numpy(csr, progress)


def _places_by_numpy(csr: CSR, progress: Progress) -> _Places:
    column_lengths = np.zeros(csr.cols, np.int64)
    diagonal_lengths = np.zeros(max(csr.rows + csr.cols - 1, 0), np.int64)
    squares = [(size, size) for size in BLOCK_SIZES]
    (_, together), *others = by_alignment(squares)
    blocks = dict.fromkeys(squares, 0)
    distance = 0

    def of_block(block: RowBlock) -> tuple[npt.NDArray[np.int64], int, dict[tuple[int, int], int]]:
        """``col - row`` of each entry, their sum without signs, and blocks."""
        rows, cols = block.row_ids(), block.cols.astype(np.int64)
        offsets = cols - rows
        return offsets, int(np.abs(offsets).sum()), count_blocks(rows, cols, together)

    for block, (offsets, summed, counts) in on_all_cores(of_block, row_blocks(csr, align=ALIGN)):
        np.add.at(column_lengths, block.cols, 1)
        distance += summed
        offsets += csr.rows - 1
        np.add.at(diagonal_lengths, offsets, 1)
        for size, count in counts.items():
            blocks[size] += count
        progress("places", block.entries.stop / max(1, csr.nnz))
    for align, sizes in others:

        def counted(block: RowBlock, sizes: list[tuple[int, int]] = sizes) -> dict[tuple[int, int], int]:
            return count_blocks(block.row_ids(), block.cols.astype(np.int64), sizes)

        for block, counts in on_all_cores(counted, row_blocks(csr, align=align)):
            for size, count in counts.items():
                blocks[size] += count
            progress(f"blocks of {align}", block.entries.stop / max(1, csr.nnz))
    return _Places(column_lengths, diagonal_lengths, distance, {size: count for (size, _), count in blocks.items()})


def _row_ends(csr: CSR) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """First and last column of each row that has one, and the row."""
    row = np.flatnonzero(np.diff(csr.row_ptr))
    first = csr.col_idx[csr.row_ptr[row]].astype(np.int64)
    last = csr.col_idx[csr.row_ptr[row + 1] - 1].astype(np.int64)
    return first, last, row


def _diagonals(csr: CSR, counts: npt.NDArray[np.int64]) -> Diagonals:
    diagonal = np.flatnonzero(counts)
    held = counts[diagonal]
    offset = diagonal - (csr.rows - 1)
    length = np.minimum(csr.rows, csr.cols - offset) - np.maximum(0, -offset)
    well = held >= BLOCK_FILL * length
    return Diagonals(
        occupied=len(diagonal),
        fill=csr.nnz / int(length.sum()) if len(diagonal) else 0.0,
        full=int(np.count_nonzero(held == length)),
        well_filled=int(np.count_nonzero(well)),
        well_filled_share=int(held[well].sum()) / csr.nnz if csr.nnz else 0.0,
        main=int(held[offset == 0].sum()),
        main_length=min(csr.rows, csr.cols),
    )


def _symmetry(csr: CSR, progress: Progress) -> Symmetry:
    totals = compiled.mirrored(csr)
    if totals is None:
        totals = _mirrored(csr, progress)
    off, mirrored, equal, opposite = totals.tolist()
    if off == 0:
        return Symmetry(1.0, 1.0, 1.0)
    if csr.values is None:
        equal = mirrored  # all values are 1
    return Symmetry(mirrored / off, equal / off, opposite / off)


def _mirrored(csr: CSR, progress: Progress) -> npt.NDArray[np.int64]:
    """Entries off the diagonal, those with a mirror, with an equal one, with an opposite one."""
    progress("transposing", None)
    other = transposed(csr)

    def counted(block: RowBlock) -> npt.NDArray[np.int64]:
        entries = slice(int(other.row_ptr[block.first]), int(other.row_ptr[block.last]))
        rows_t = np.repeat(np.arange(block.first, block.last), np.diff(other.row_ptr[block.first : block.last + 1]))
        rows, cols = block.row_ids(), block.cols
        is_off = rows != cols
        places = (rows << 32 | cols)[is_off]
        mirrors = np.append(rows_t << 32 | other.col_idx[entries], -1)  # both rising; -1 is found by none
        position = np.searchsorted(mirrors[:-1], places)
        matched = mirrors[position] == places
        counts = [np.count_nonzero(is_off), np.count_nonzero(matched), 0, 0]
        if csr.values is not None and other.values is not None:
            mine = csr.values[block.entries][is_off][matched]
            its = other.values[entries][position[matched]]
            both_nan = np.isnan(mine) & np.isnan(its)
            counts[2:] = np.count_nonzero((mine == its) | both_nan), np.count_nonzero((mine == -its) | both_nan)
        return np.array(counts, np.int64)

    totals = np.zeros(4, np.int64)
    for block, counts in on_all_cores(counted, row_blocks(csr)):
        totals += counts
        progress("symmetry", block.entries.stop / max(1, csr.nnz))
    return totals


def diagonals_of(csr: CSR, group: int = 1) -> npt.NDArray[np.int64]:
    """``col - origin`` of all diagonals that hold an entry, rising; see :func:`spgraph_bench.stats.origins`."""
    if (by_library := compiled.diagonals(csr, group)) is not None:
        return by_library
    occupied = np.zeros(csr.rows + csr.cols, np.bool_)
    for block in row_blocks(csr):
        occupied[block.cols - origins(block.row_ids(), group) + csr.rows] = True
    return np.flatnonzero(occupied) - csr.rows


def transposed(csr: CSR) -> CSR:
    """The transpose; linear in time. Its columns rise even where those of `csr` do not."""
    if (by_library := compiled.transposed(csr)) is not None:
        return by_library
    turned = csr.to_scipy(values=np.ones(csr.nnz, np.int8) if csr.values is None else csr.values).tocsc()
    return CSR(
        csr.cols,
        csr.rows,
        turned.indptr.astype(np.int64, copy=False),
        turned.indices.astype(np.int32, copy=False),
        None if csr.values is None else turned.data,
    )


def _values(values: npt.NDArray[np.float64]) -> Values:
    low, high = np.inf, -np.inf
    zeros = negative = nonfinite = 0
    seen: npt.NDArray[np.float64] | None = np.empty(0)
    for start in range(0, len(values), _VALUES_AT_ONCE):
        part = values[start : start + _VALUES_AT_ONCE]
        finite = np.isfinite(part)
        fine = part if finite.all() else part[finite]
        low, high = min(low, fine.min(initial=np.inf)), max(high, fine.max(initial=-np.inf))
        zeros += int(np.count_nonzero(part == 0))
        negative += int(np.count_nonzero(part < 0))
        nonfinite += len(part) - len(fine)
        if seen is not None:
            seen = np.unique(np.concatenate((seen, np.unique(part))))
            if len(seen) > DISTINCT_LIMIT:
                seen = None
    none = low > high
    return Values(
        min=float("nan") if none else float(low),
        max=float("nan") if none else float(high),
        zeros=zeros,
        negative=negative,
        nonfinite=nonfinite,
        distinct=None if seen is None else len(seen),
    )
