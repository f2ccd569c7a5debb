"""SELL-C-sigma: ELL by slices of 32 rows, each as wide as its own longest row."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.errors import UsageError
from spgraph_bench.formats import compiled
from spgraph_bench.formats.base import Format, Packed, register
from spgraph_bench.formats.common import (
    PADDING,
    OfLastMatrix,
    csr_from_entries,
    offset_type,
    quiet_overflow,
    ranges,
    refuse_padding,
    value_type,
)
from spgraph_bench.matrix import CSR
from spgraph_bench.parameters import Parameter
from spgraph_bench.stats import MatrixStats, row_ranges

__all__ = ["SELL", "choose_sigma"]

SLICE = 32
"""C: rows per slice, a warp's lanes."""

WINDOWS = (1, 256, 4096, 16384)
"""What "auto" chooses sigma from. Wider windows pack tighter, but tear neighbouring rows further apart."""

WORTH = 0.98
"""A wider window has to save this much of the bytes, for the scattered writes of y that sorting brings."""


def _windows(lengths: npt.NDArray[np.int64], sigma: int) -> npt.NDArray[np.int64]:
    """Negated lengths ``[windows][sigma]``; what fills the last window up sorts last."""
    windows = -(-len(lengths) // sigma)
    negated = np.ones(windows * sigma, np.int64)
    negated[: len(lengths)] = -lengths
    return negated.reshape(windows, sigma)


def _order(lengths: npt.NDArray[np.int64], sigma: int) -> npt.NDArray[np.int64]:
    """Rows, each window of `sigma` sorted by length, descending and stable."""
    sigma = min(sigma, max(len(lengths), 1))
    if sigma == 1:
        return np.arange(len(lengths))
    if sorted_rows := compiled.by_length(lengths, sigma, SLICE):
        return sorted_rows[0]
    windows = _windows(lengths, sigma)
    within = np.argsort(windows, axis=1, kind="stable")
    return (within + np.arange(len(windows))[:, None] * sigma).reshape(-1)[: len(lengths)]


def _widths(lengths: npt.NDArray[np.int64], sigma: int) -> npt.NDArray[np.int64]:
    """The longest row of each slice."""
    sigma = min(sigma, max(len(lengths), 1))
    if sigma > 1:
        if sorted_rows := compiled.by_length(lengths, sigma, SLICE):
            return sorted_rows[1]
        lengths = -np.sort(_windows(lengths, sigma), axis=1).reshape(-1)[: len(lengths)]
    starts = np.arange(0, len(lengths), SLICE)
    return np.maximum.reduceat(lengths, starts) if len(starts) else np.zeros(0, np.int64)


def choose_sigma(lengths: npt.NDArray[np.int64], sigma: int | str = "auto", value_bytes: int = 4) -> int:
    """The sorting window: "auto" takes a wider one of :data:`WINDOWS` only if it saves 2 % of the bytes.

    Raises UsageError for anything but "auto" and an integer from 1.
    """
    if sigma == "auto":
        slot_bytes = 4 + value_bytes
        best, least = 1, float("inf")
        for window in WINDOWS:
            perm = 4 * len(lengths) if window > 1 else 0
            if int(lengths.sum()) * slot_bytes + perm >= least * WORTH:
                break  # no padding left that a wider window could save
            need = int(_widths(lengths, window).sum()) * SLICE * slot_bytes + perm
            if need < least * WORTH:
                best, least = window, need
        return best
    try:
        window = int(sigma)
    except ValueError:
        window = 0
    if window < 1:
        raise UsageError(f"sell_sigma cannot be {sigma!r}", remedy='take "auto" or an integer from 1')
    return window


_last: OfLastMatrix[tuple[int, int, int]] = OfLastMatrix()


@register
class SELL(Format):
    """SELL-C-sigma with C = 32 (Kreutzer, Hager, Wellein, Fehske, Bishop, "A unified sparse matrix data
    format for efficient general sparse matrix-vector multiplication", SIAM J. Sci. Comput. 2014).

    ``slice_ptr``: offset type ``[slices + 1]``; ``col``: int32, ``val``: value type, both
    ``[slice_ptr[slices]]``; ``perm``: int32 ``[rows]``, only if sigma > 1; ``slices`` is rows / 32, rounded
    up. Invariants: lane l of slice s is row ``perm[32 s + l]`` (row ``32 s + l`` without perm); its entry k
    is at ``slice_ptr[s] + 32 k + l``; a slice is as wide as its longest row; a row's entries fill its first
    slots in column order, the rest has ``col == -1`` and ``val == 0`` and must be skipped; lanes beyond the
    last row are padding. ``perm`` sorts windows of sigma rows by length, descending and stable.
    """

    name = "sell"
    title = "sliced ELLPACK: slices of 32 rows, sorted within windows"
    wins = (
        "Wins on most matrices with short rows: padding only up to the longest of 32 rows. Loses where a "
        "slice has one very long row."
    )
    order = 70
    tunables = MappingProxyType(
        {
            "sell_sigma": Parameter(
                "auto", 'rows per sorting window: "auto" or an integer; 1 does not sort', ("auto",), (1, 2**31 - 1)
            )
        }
    )

    @quiet_overflow
    def pack(
        self, csr: CSR, dtype: npt.DTypeLike = np.float32, offsets: npt.DTypeLike = np.int32, **params: Any
    ) -> Packed:
        value = value_type(dtype)
        lengths = csr.row_lengths()
        sigma = choose_sigma(lengths, params.get("sell_sigma", "auto"), value.itemsize)
        order = _order(lengths, sigma)
        slice_ptr = np.concatenate(([0], np.cumsum(_widths(lengths, sigma) * SLICE)))
        slots = int(slice_ptr[-1])
        offset = offset_type(offsets, slots)
        col, val = compiled.slices(csr, slice_ptr, order, value) or _slices(csr, slice_ptr, order, value)
        arrays = {"slice_ptr": slice_ptr.astype(offset, copy=False), "col": col, "val": val}
        if sigma > 1:
            arrays["perm"] = order.astype(np.int32)
        overhead = sum(a.nbytes for name, a in arrays.items() if name in ("slice_ptr", "perm"))
        return Packed(
            self.name,
            csr.rows,
            csr.cols,
            csr.nnz,
            value,
            MappingProxyType(arrays),
            MappingProxyType({"slices": len(slice_ptr) - 1, "sigma": sigma}),
            pattern=csr.values is None,
            compulsory_bytes=overhead + csr.nnz * (4 + value.itemsize),
            offsets=offset,
        )

    def unpack(self, packed: Packed) -> CSR:
        filled = packed.col != PADDING
        slots = np.flatnonzero(filled)
        slice_ = np.searchsorted(packed.slice_ptr, slots, side="right") - 1
        row = slice_ * SLICE + (slots - packed.slice_ptr[slice_]) % SLICE
        if "perm" in packed.arrays:
            row = packed.perm[row]
        val = None if packed.pattern else packed.val[filled]
        return csr_from_entries(packed.rows, packed.cols, row, packed.col[filled], val)

    def predict_bytes(self, stats: MatrixStats, value_bytes: int = 4, offset_bytes: int = 4, **params: Any) -> int:
        slots, slices, sigma = self._slots(stats, value_bytes, params)
        perm = 4 * stats.rows if sigma > 1 else 0
        return slots * (4 + value_bytes) + (slices + 1) * offset_bytes + perm

    def _slots(self, stats: MatrixStats, value_bytes: int, params: dict[str, Any]) -> tuple[int, int, int]:
        """Slots, slices and sigma."""
        assert stats.csr is not None, "the widths of slices depend on the order of the rows"
        wanted = params.get("sell_sigma", "auto")
        if (sizes := _last.get(stats.csr, (value_bytes, wanted))) is None:
            lengths = stats.csr.row_lengths()
            sigma = choose_sigma(lengths, wanted, value_bytes)
            widths = _widths(lengths, sigma)
            sizes = int(widths.sum()) * SLICE, len(widths), sigma
            _last.put(stats.csr, (value_bytes, wanted), sizes)
        return sizes

    def refuse(
        self, stats: MatrixStats, free_bytes: int | None, value_bytes: int = 4, force: bool = False, **params: Any
    ) -> str | None:
        slots, _, _ = self._slots(stats, value_bytes, params)
        need = self.predict_bytes(stats, value_bytes, **params)
        return refuse_padding("SELL", stats, slots, need, free_bytes, force)


def _slices(
    csr: CSR, slice_ptr: npt.NDArray[np.int64], order: npt.NDArray[np.int64], value: np.dtype[Any]
) -> tuple[npt.NDArray[np.int32], npt.NDArray[Any]]:
    """``col`` and ``val``."""
    col, val = np.full(int(slice_ptr[-1]), PADDING, np.int32), np.zeros(int(slice_ptr[-1]), value)
    lengths, starts = csr.row_lengths()[order], csr.row_ptr[:-1][order]
    first_slot = slice_ptr[np.arange(csr.rows) // SLICE] + np.arange(csr.rows) % SLICE
    for begin, end in row_ranges(np.concatenate(([0], np.cumsum(lengths)))):
        counts = lengths[begin:end]
        k = ranges(np.zeros(end - begin, np.int64), counts)
        source = k + np.repeat(starts[begin:end], counts)
        target = k * SLICE + np.repeat(first_slot[begin:end], counts)
        col[target] = csr.col_idx[source]
        val[target] = 1 if csr.values is None else csr.values[source]
    return col, val
