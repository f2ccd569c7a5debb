"""DIA: diagonals, without any column index."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.formats import compiled
from spgraph_bench.formats.base import Format, Packed, register
from spgraph_bench.formats.common import (
    OfLastMatrix,
    human_count,
    offset_type,
    quiet_overflow,
    value_type,
    whole_number_param,
)
from spgraph_bench.matrix import CSR
from spgraph_bench.parameters import Parameter
from spgraph_bench.stats import MatrixStats, origins, row_blocks, sample_blocks
from spgraph_bench.structure import diagonals_of
from spgraph_bench.units import human_bytes

__all__ = ["DIA", "choose_group"]

LEAST_FILL = 0.5
"""Below this share of real entries 4 bytes a slot are more than CSR's 8 bytes a nonzero (float32)."""

SLICE = 128
"""Rows whose diagonals are together. With whole diagonals one after the other, every block of threads would
read from as many far places in memory as there are diagonals."""


MOST = 8
"""Rows of a group at most."""

SAMPLE = 1 << 18
"""Entries that tell which groups are worth a look at the whole matrix."""

PIECES = 16
"""Places that the sample is taken from, spread evenly over the rows."""

WORTH = 0.95
"""Rows are grouped where that leaves at most this share of the diagonals."""

_Diagonals = npt.NDArray[np.int64]


def _slots(rows: int) -> int:
    return -(-rows // SLICE) * SLICE


def _at_least(csr: CSR) -> dict[int, int]:
    """How many diagonals a sample of rows has, for each size of groups from 2 on."""
    seen: dict[int, list[_Diagonals]] = {group: [] for group in range(2, MOST + 1)}
    for block in sample_blocks(csr, SAMPLE, PIECES):
        row = block.row_ids()
        for group, parts in seen.items():
            parts.append(np.unique(block.cols - origins(row, group)))
    return {group: len(np.unique(np.concatenate(parts))) for group, parts in seen.items()}


def choose_group(csr: CSR, group: int | None) -> tuple[int, _Diagonals]:
    """The size of groups and the diagonals that hold an entry: of `group` rows, or, if that is None, of so
    many as leave the fewest diagonals, if that is worth it.

    Matrices in which single rows have too many diagonals by far are not looked at.
    """
    if group is not None:
        return group, diagonals_of(csr, group)
    ungrouped = diagonals_of(csr)
    best = 1, ungrouped
    if LEAST_FILL * len(ungrouped) * csr.rows > 2 * csr.nnz or not csr.nnz:
        return best  # groups can save half of the diagonals and no more
    limit = WORTH * len(ungrouped)
    for group, least in sorted(_at_least(csr).items(), key=lambda item: (item[1], item[0])):
        if least > limit or (best[0] > 1 and least >= len(best[1])):
            break
        if len(diagonals := diagonals_of(csr, group)) <= min(limit, len(best[1]) - 1):
            best = group, diagonals
    return best


_last: OfLastMatrix[tuple[int, _Diagonals]] = OfLastMatrix()


def remembered_choice(stats: MatrixStats, group: int | None) -> tuple[int, _Diagonals]:
    """As choose_group, but the matrix that was looked at last is not looked at again."""
    assert stats.csr is not None, "the diagonals depend on the columns"
    if (choice := _last.get(stats.csr, group)) is None:
        choice = choose_group(stats.csr, group)
        _last.put(stats.csr, group, choice)
    return choice


@register
class DIA(Format):
    """Diagonal storage, by slices of rows.

    ``diag``: int32 ``[diagonals]``, the occupied diagonals as ``col - origin``, rising; ``data``: value type
    ``[slices][diagonals][128]``. Invariants: ``data[s][d][l]`` is A[i, o + diag[d]] for row i = 128 s + l of
    origin o, and 0 without such an entry, column or row (a 64-bit index). The origin of row i is
    i - i % ``group``: with groups of one row these are the diagonals of the matrix; where the matrix is made
    of dense blocks of g x g on diagonals of blocks, groups of g rows have g diagonals for each of those
    instead of 2 g - 1.
    A stored zero cannot be distinguished from fill, and fill is multiplied: an Inf or NaN in x gives NaN in rows that
    have no entry there.
    """

    name = "dia"
    title = "diagonals: values only, no column indices"
    wins = (
        "Wins on bands and stencils: no column index at all, half the bytes of CSR. Refused where diagonals "
        "are less than half full."
    )
    order = 80
    keeps_zeros = False
    tunables = MappingProxyType(
        {
            "group": Parameter(
                "auto",
                f'rows with one origin of diagonals: 1 to {MOST}, or "auto": those of dense blocks, if any',
                ("auto",),
                (1, MOST),
            )
        }
    )

    @quiet_overflow
    def pack(
        self, csr: CSR, dtype: npt.DTypeLike = np.float32, offsets: npt.DTypeLike = np.int32, **params: Any
    ) -> Packed:
        value = value_type(dtype)
        number = whole_number_param(self.tunables, params, "group")
        group, diag = choose_group(csr, number)
        data = np.zeros((_slots(csr.rows) // SLICE, len(diag), SLICE), value)
        # Place of each diagonal in `diag`, so that an entry finds its own without a search.
        place = np.zeros(csr.rows + csr.cols, np.int64)
        place[diag + csr.rows] = np.arange(len(diag)) * SLICE
        if not compiled.diagonal_values(csr, group, place, data):
            flat = data.reshape(-1)
            for block in row_blocks(csr):
                row = block.row_ids()
                position = place[block.cols - origins(row, group) + csr.rows]
                position += row // SLICE * (len(diag) * SLICE) + row % SLICE
                flat[position] = 1 if csr.values is None else csr.values[block.entries]
        return Packed(
            self.name,
            csr.rows,
            csr.cols,
            csr.nnz,
            value,
            MappingProxyType({"diag": diag.astype(np.int32), "data": data}),
            MappingProxyType({"diagonals": len(diag), "group": group}),
            pattern=csr.values is None,
            compulsory_bytes=4 * len(diag) + csr.nnz * value.itemsize,
            offsets=offset_type(offsets, csr.nnz),
        )

    def unpack(self, packed: Packed) -> CSR:
        """Zeros are omitted (see :attr:`keeps_zeros`)."""
        by_row = packed.data.transpose(0, 2, 1).reshape(_slots(packed.rows), packed.diagonals)
        row, d = np.nonzero(by_row[: packed.rows])
        row_ptr = np.concatenate(([0], np.cumsum(np.bincount(row, minlength=packed.rows)))).astype(np.int64)
        col = origins(row, packed.group) + packed.diag[d]
        values = None if packed.pattern else by_row[row, d].astype(np.float64)
        return CSR(packed.rows, packed.cols, row_ptr, col.astype(np.int32), values)

    def predict_bytes(self, stats: MatrixStats, value_bytes: int = 4, offset_bytes: int = 4, **params: Any) -> int:
        _, diag = remembered_choice(stats, whole_number_param(self.tunables, params, "group"))
        return len(diag) * (4 + _slots(stats.rows) * value_bytes)

    def refuse(
        self, stats: MatrixStats, free_bytes: int | None, value_bytes: int = 4, force: bool = False, **params: Any
    ) -> str | None:
        need = self.predict_bytes(stats, value_bytes, **params)
        diagonals = len(remembered_choice(stats, whole_number_param(self.tunables, params, "group"))[1])
        slots = diagonals * stats.rows
        why = f"{human_count(diagonals)} diagonals of {human_count(stats.rows)} rows hold an entry"
        if free_bytes is not None and need > free_bytes:
            return f"DIA needs {human_bytes(need)}: {why}; device has {human_bytes(free_bytes)} free"
        if stats.nnz < LEAST_FILL * slots and not force:
            return (
                f"DIA would be {stats.nnz / slots:.2g} full (least {LEAST_FILL}), {human_bytes(need)}: "
                f"{why}; --force-format overrides"
            )
        return None
