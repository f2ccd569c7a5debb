"""Diagonals as bits: for patterns and matrices whose stored values are all the same."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.formats import compiled
from spgraph_bench.formats.base import Format, Packed, register
from spgraph_bench.formats.common import VALUES_DIFFER, human_count, offset_type, one_value
from spgraph_bench.formats.dia import remembered_choice
from spgraph_bench.matrix import CSR
from spgraph_bench.stats import MatrixStats, row_blocks
from spgraph_bench.structure import diagonals_of
from spgraph_bench.units import human_bytes

__all__ = ["PatternDIA"]

SLICE = 32
"""Rows that share a word of each diagonal: a warp's."""

MOST = 32
"""Bits per nonzero from which a column index takes no more."""


def _slices(rows: int) -> int:
    return -(-rows // SLICE)


@register
class PatternDIA(Format):
    """Diagonal storage (see dia) with a bit for each place instead of a value.

    ``diag``: int32 ``[diagonals]``, the occupied diagonals as ``col - row``, rising; ``mask``: uint32
    ``[slices][diagonals]`` (a 64-bit index). Invariants: bit l of ``mask[s][d]`` is set if row i = 32 s + l
    has an entry in column i + diag[d]; bits beyond the last row are 0. The scalar ``value`` is what all
    entries are, 1 for a pattern, None where they differ: then the format keeps the places only, and is
    refused. Unlike dia's, gaps in a diagonal are not multiplied.
    """

    name = "pattern-dia"
    title = "diagonals as bits: all entries are the same"
    wins = "Wins where dia does and all values are equal: they are not stored. Refused where values differ."
    order = 82
    keeps_values = False

    def pack(
        self, csr: CSR, dtype: npt.DTypeLike = np.float32, offsets: npt.DTypeLike = np.int32, **params: Any
    ) -> Packed:
        diag = diagonals_of(csr)
        mask = np.zeros((_slices(csr.rows), len(diag)), np.uint32)
        # Place of each diagonal in `diag`, so that an entry finds its own without a search.
        place = np.zeros(csr.rows + csr.cols, np.int64)
        place[diag + csr.rows] = np.arange(len(diag))
        if not compiled.diagonal_bits(csr, place, mask):
            flat = mask.reshape(-1)
            for block in row_blocks(csr):
                row = block.row_ids()
                word = place[block.cols - row + csr.rows] + row // SLICE * len(diag)
                # A place has one entry at most, so that adding bits sets them.
                np.add.at(flat, word, np.uint32(1) << (row % SLICE).astype(np.uint32))
        return Packed(
            self.name,
            csr.rows,
            csr.cols,
            csr.nnz,
            np.dtype(dtype),
            MappingProxyType({"diag": diag.astype(np.int32), "mask": mask}),
            MappingProxyType({"diagonals": len(diag), "value": one_value(csr)}),
            pattern=csr.values is None,
            compulsory_bytes=4 * len(diag) + mask.nbytes,
            offsets=offset_type(offsets, csr.nnz),
        )

    def unpack(self, packed: Packed) -> CSR:
        """The pattern: values are not kept."""
        bits = np.unpackbits(packed.mask.astype("<u4").view(np.uint8), bitorder="little")
        slices, diagonals = packed.mask.shape
        by_row = bits.reshape(slices, diagonals, SLICE).transpose(0, 2, 1)
        row, d = np.nonzero(by_row.reshape(slices * SLICE, diagonals)[: packed.rows])
        row_ptr = np.concatenate(([0], np.cumsum(np.bincount(row, minlength=packed.rows)))).astype(np.int64)
        return CSR(packed.rows, packed.cols, row_ptr, (row + packed.diag[d]).astype(np.int32), None)

    def predict_bytes(self, stats: MatrixStats, value_bytes: int = 4, offset_bytes: int = 4, **params: Any) -> int:
        return 4 * len(remembered_choice(stats, 1)[1]) * (1 + _slices(stats.rows))

    def refuse(
        self, stats: MatrixStats, free_bytes: int | None, value_bytes: int = 4, force: bool = False, **params: Any
    ) -> str | None:
        """Refused where it stores more than a column index of 32 bits for each nonzero."""
        assert stats.csr is not None
        if one_value(stats.csr) is None:
            return VALUES_DIFFER
        need, diagonals = self.predict_bytes(stats, value_bytes), len(remembered_choice(stats, 1)[1])
        why = f"{human_count(diagonals)} diagonals of {human_count(stats.rows)} rows hold an entry"
        if free_bytes is not None and need > free_bytes:
            return f"{self.name} needs {human_bytes(need)}: {why}; device has {human_bytes(free_bytes)} free"
        if diagonals * stats.rows > MOST * stats.nnz and not force:
            return (
                f"{self.name} stores {diagonals * stats.rows / stats.nnz:,.0f} bits per nonzero (limit "
                f"{MOST}), {human_bytes(need)}: {why}; --force-format overrides"
            )
        return None
