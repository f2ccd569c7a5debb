"""HYB: ELL for the usual part of every row, COO for what is longer."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.errors import UsageError
from spgraph_bench.formats import compiled
from spgraph_bench.formats.base import Array, Format, Packed, register
from spgraph_bench.formats.common import (
    csr_from_entries,
    offset_type,
    quiet_overflow,
    ranges,
    refuse_padding,
    value_type,
)
from spgraph_bench.formats.ell import fill_slots, slot_entries
from spgraph_bench.matrix import CSR
from spgraph_bench.parameters import Parameter
from spgraph_bench.stats import MatrixStats, row_ptr_of, row_stats

__all__ = ["HYB", "choose_slots"]

TAIL_WEIGHT = 2.0
"""Cost of a byte of the COO tail over that of a byte of the ELL part.

A tail entry also costs its share of a segmented sum and an atomic. With 2, a float32 tail entry (12 bytes)
counts as much as three ELL slots (8 bytes each), the ratio Bell and Garland (SC 2009) measured between COO
and ELL, from which their rule "as many slots as a third of the rows fill" follows.
"""


def choose_slots(stats: MatrixStats, hyb_k: int | str = "auto", value_bytes: int = 4) -> int:
    """Slots per row of the ELL part, 0 to the longest row.

    "auto" minimises the bytes moved, ``K rows (4 + v) + w T(K) (8 + v)``, where T(K) is the number of entries
    beyond slot K, v the bytes of a value and w :data:`TAIL_WEIGHT`. One more slot costs ``rows (4 + v)`` and
    takes one entry of each row longer than K from the tail, so the best K is the least at which no more than
    ``rows (4 + v) / (w (8 + v))`` rows are longer. "median" is the textbook's choice. An integer is taken as
    it is, up to the longest row. Raises UsageError for anything else.
    """
    if hyb_k == "median":
        return int(stats.row_median)
    if hyb_k == "auto":
        longer = stats.rows - np.cumsum(stats.length_counts)  # rows longer than lengths[i]
        enough = longer <= stats.rows * (4 + value_bytes) / (TAIL_WEIGHT * (8 + value_bytes))
        first = int(np.argmax(enough)) if len(enough) else 0
        return int(stats.lengths[first]) if len(stats.lengths) else 0
    try:
        slots = int(hyb_k)
    except ValueError:
        slots = -1
    if slots < 0:
        raise UsageError(f"hyb_k cannot be {hyb_k!r}", remedy='take "auto", "median" or an integer from 0')
    return min(slots, stats.row_max)


def _tail(csr: CSR, slots: int, value: np.dtype[Any]) -> tuple[Array, Array, Array]:
    """Rows, columns and values of what each row has after its first `slots` entries."""
    lengths = csr.row_lengths()
    if (arrays := compiled.tail(csr, slots, row_ptr_of(np.maximum(lengths - slots, 0)), value)) is not None:
        return arrays
    longer = np.flatnonzero(lengths > slots)
    counts = lengths[longer] - slots
    tail = ranges(csr.row_ptr[longer] + slots, counts)
    val = np.ones(len(tail), value) if csr.values is None else csr.values[tail].astype(value)
    return np.repeat(longer.astype(np.int32), counts), csr.col_idx[tail], val


@register
class HYB(Format):
    """Hybrid of ELL and COO (Bell and Garland, "Implementing sparse matrix-vector multiplication on
    throughput-oriented processors", SC 2009).

    ``ell_col``: int32 ``[slots][rows]``, ``ell_val``: value type ``[slots][rows]``: the first ``slots`` (K)
    entries of every row, laid out and padded as in ELL. ``coo_row``, ``coo_col``: int32 ``[tail]``,
    ``coo_val``: value type ``[tail]``: the other entries, sorted by row, then column.
    Invariant: a row has tail entries only if all its slots are filled, and they come after those.
    """

    name = "hyb"
    title = "ELL for the first K entries of a row, COO for the rest"
    wins = (
        "Wins where most rows are alike and a few are long. Loses a second launch, and a COO tail that costs "
        "more per entry."
    )
    order = 50
    tunables = MappingProxyType(
        {
            "hyb_k": Parameter(
                "auto",
                'slots per row of the ELL part: "auto" (cost model), "median" or an integer',
                ("auto", "median"),
                (0, 2**31 - 1),
            )
        }
    )

    @quiet_overflow
    def pack(
        self, csr: CSR, dtype: npt.DTypeLike = np.float32, offsets: npt.DTypeLike = np.int32, **params: Any
    ) -> Packed:
        value = value_type(dtype)
        slots = choose_slots(row_stats(csr), params.get("hyb_k", "auto"), value.itemsize)
        ell_col, ell_val = fill_slots(csr, slots, value)
        row, col, val = _tail(csr, slots, value)
        arrays = {"ell_col": ell_col, "ell_val": ell_val, "coo_row": row, "coo_col": col, "coo_val": val}
        return Packed(
            self.name,
            csr.rows,
            csr.cols,
            csr.nnz,
            value,
            MappingProxyType(arrays),
            MappingProxyType({"slots": slots, "tail": len(row)}),
            pattern=csr.values is None,
            compulsory_bytes=csr.nnz * (4 + value.itemsize) + 4 * len(row),
            offsets=offset_type(offsets, csr.nnz),
        )

    def unpack(self, packed: Packed) -> CSR:
        row, col, val = slot_entries(packed.ell_col, None if packed.pattern else packed.ell_val)
        # The tail comes last, and the sort by row is stable: each row's tail follows its slots.
        return csr_from_entries(
            packed.rows,
            packed.cols,
            np.concatenate((row, packed.coo_row)),
            np.concatenate((col, packed.coo_col)),
            None if val is None else np.concatenate((val, packed.coo_val)),
        )

    def predict_bytes(self, stats: MatrixStats, value_bytes: int = 4, offset_bytes: int = 4, **params: Any) -> int:
        slots = choose_slots(stats, params.get("hyb_k", "auto"), value_bytes)
        tail = int(np.sum(np.maximum(stats.lengths - slots, 0) * stats.length_counts))
        return stats.rows * slots * (4 + value_bytes) + tail * (8 + value_bytes)

    def refuse(
        self, stats: MatrixStats, free_bytes: int | None, value_bytes: int = 4, force: bool = False, **params: Any
    ) -> str | None:
        slots = stats.rows * choose_slots(stats, params.get("hyb_k", "auto"), value_bytes)
        need = self.predict_bytes(stats, value_bytes, **params)
        return refuse_padding("HYB", stats, slots, need, free_bytes, force)
