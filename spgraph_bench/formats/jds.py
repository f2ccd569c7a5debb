"""JDS: rows sorted by length, so that slots need no padding."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.formats import compiled
from spgraph_bench.formats.base import Format, Packed, register
from spgraph_bench.formats.common import csr_from_entries, offset_type, quiet_overflow, ranges, value_type
from spgraph_bench.matrix import CSR
from spgraph_bench.stats import MatrixStats, row_ranges

__all__ = ["JDS"]


@register
class JDS(Format):
    """Jagged diagonal storage (Saad, "Krylov subspace methods on supercomputers", 1989).

    ``perm``: int32 ``[rows]``, the rows by length, descending, equal lengths in their old order (stable);
    ``slot_start``: offset type ``[slots + 1]``; ``col``: int32 ``[nnz]``; ``val``: value type ``[nnz]``.
    ``slots`` (K) is the longest row. Invariants: slot k holds entry k of the first
    ``slot_start[k + 1] - slot_start[k]`` rows of ``perm``, that is of all rows longer than k, at
    ``slot_start[k] + p`` for row ``perm[p]``; these widths never rise with k and are at least 1; a row's
    entries are in column order. y comes out in the order of ``perm`` and is scattered back through it.
    """

    name = "jds"
    title = "jagged diagonals: rows sorted by length, slot-major, no padding"
    wins = (
        "Wins on rows of very different length: no padding at all. Loses the order of rows, so that x and y "
        "are reached through a permutation."
    )
    order = 60

    @quiet_overflow
    def pack(
        self, csr: CSR, dtype: npt.DTypeLike = np.float32, offsets: npt.DTypeLike = np.int32, **params: Any
    ) -> Packed:
        value = value_type(dtype)
        offset = offset_type(offsets, csr.nnz)
        lengths = csr.row_lengths()
        slots = int(lengths.max(initial=0))
        shorter_by = slots - lengths
        # numpy sorts 16 bits by radix.
        perm = np.argsort(shorter_by.astype(np.uint16) if slots < 1 << 16 else shorter_by, kind="stable").astype(
            np.int32
        )
        lengths = lengths[perm]
        # Width of slot k = rows longer than k; lengths fall, so their negatives can be searched.
        widths = np.searchsorted(-lengths, -np.arange(slots), side="left")
        slot_start = np.concatenate(([0], np.cumsum(widths, dtype=np.int64)))
        col, val = compiled.jagged(csr, perm, slot_start, value) or _jagged(csr, perm, slot_start, value)
        return Packed(
            self.name,
            csr.rows,
            csr.cols,
            csr.nnz,
            value,
            MappingProxyType(
                {"perm": perm, "slot_start": slot_start.astype(offset, copy=False), "col": col, "val": val}
            ),
            MappingProxyType({"slots": slots}),
            pattern=csr.values is None,
            compulsory_bytes=perm.nbytes + (slots + 1) * offset.itemsize + csr.nnz * (4 + value.itemsize),
            offsets=offset,
        )

    def unpack(self, packed: Packed) -> CSR:
        widths = np.diff(packed.slot_start)
        row = packed.perm[ranges(np.zeros(len(widths), np.int64), widths)]
        return csr_from_entries(packed.rows, packed.cols, row, packed.col, None if packed.pattern else packed.val)

    def predict_bytes(self, stats: MatrixStats, value_bytes: int = 4, offset_bytes: int = 4, **params: Any) -> int:
        return stats.rows * 4 + (stats.row_max + 1) * offset_bytes + stats.nnz * (4 + value_bytes)


def _jagged(
    csr: CSR, perm: npt.NDArray[np.int32], slot_start: npt.NDArray[np.int64], value: np.dtype[Any]
) -> tuple[npt.NDArray[np.int32], npt.NDArray[Any]]:
    """``col`` and ``val``."""
    col, val = np.empty(csr.nnz, np.int32), np.empty(csr.nnz, value)
    starts, lengths = csr.row_ptr[:-1][perm], csr.row_lengths()[perm]
    for begin, end in row_ranges(np.concatenate(([0], np.cumsum(lengths)))):
        counts = lengths[begin:end]
        slot = ranges(np.zeros(end - begin, np.int64), counts)
        source = slot + np.repeat(starts[begin:end], counts)
        target = slot_start[slot] + np.repeat(np.arange(begin, end), counts)
        col[target] = csr.col_idx[source]
        val[target] = 1 if csr.values is None else csr.values[source]
    return col, val
