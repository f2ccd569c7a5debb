"""What several formats share: type checks, chunked conversion, canonical CSR from loose entries."""

from __future__ import annotations

import weakref
from collections.abc import Hashable, Mapping
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from spgraph_bench.errors import UsageError
from spgraph_bench.formats.base import Packed
from spgraph_bench.matrix import CSR
from spgraph_bench.parameters import Parameter
from spgraph_bench.stats import MatrixStats
from spgraph_bench.units import human_bytes

__all__ = [
    "INT32_ENTRIES",
    "MAX_SLOTS_PER_NONZERO",
    "PADDING",
    "VALUES_DIFFER",
    "OfLastMatrix",
    "csr_from_entries",
    "csr_from_loose",
    "human_count",
    "offset_type",
    "offsets_for",
    "one_value",
    "quiet_overflow",
    "ranges",
    "refuse_padding",
    "value_type",
    "whole_number_param",
]

PADDING = -1
"""Column index of a padding slot. Kernels skip it without multiplying: 0 x Inf would be NaN."""

MAX_SLOTS_PER_NONZERO = 64
"""Padded formats beyond this are refused: reading them costs more than any kernel can win back."""

VALUES_DIFFER = "its values differ or are not finite: only patterns and matrices of one value can do without them"
"""The refusal of formats without values."""

INT32_ENTRIES = 2**31 - 1 - 2**16
"""Most entries that int32 offsets count. Kernels' loops step past the end of a row, by up to some thousands:
with more entries, past the largest int32 and on from the smallest."""

_AT_ONCE = 1 << 16

quiet_overflow = np.errstate(over="ignore")
"""For converting: a value beyond float32 becomes Inf there, for the oracle as for the kernels."""


def value_type(dtype: npt.DTypeLike, half: bool = False) -> np.dtype[Any]:
    """`dtype` if it is float32, float64 or, where `half` is true, float16, else UsageError."""
    kind = np.dtype(dtype)
    if half and kind == np.dtype(np.float16):
        return kind
    if kind not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise UsageError(f"values cannot be {kind}", remedy="take float32 or float64")
    return kind


def offsets_for(entries: int) -> np.dtype[Any]:
    """The type of offsets that count `entries`: int32, or int64 beyond :data:`INT32_ENTRIES`."""
    return np.dtype(np.int32 if entries <= INT32_ENTRIES else np.int64)


def offset_type(offsets: npt.DTypeLike, entries: int) -> np.dtype[Any]:
    """`offsets` if it is int32 or int64 and can count `entries`, else UsageError."""
    kind = np.dtype(offsets)
    if kind not in (np.dtype(np.int32), np.dtype(np.int64)):
        raise UsageError(f"row offsets cannot be {kind}", remedy="take int32 or int64")
    if kind == np.dtype(np.int32) and entries > INT32_ENTRIES:
        raise UsageError(f"{entries:,} entries are too many for int32 offsets", remedy="take int64 offsets")
    return kind


_Finding = TypeVar("_Finding")


class OfLastMatrix(Generic[_Finding]):
    """What was found out about the matrix that was looked at last.

    Predictions and refusals ask for one matrix in several types. Packing looks afresh: its time is shown.
    """

    def __init__(self) -> None:
        # Read and replaced as one, since threads may ask for different matrices.
        self._last: tuple[weakref.ref[npt.NDArray[np.int32]], dict[Hashable, _Finding]] | None = None

    def get(self, csr: CSR, key: Hashable) -> _Finding | None:
        """The value kept for `csr` and `key`, or None. The matrix is recognised by its array of columns."""
        return self._findings(csr).get(key)

    def put(self, csr: CSR, key: Hashable, value: _Finding) -> None:
        """Keep `value` for `csr` and `key`, in place of all values of another matrix. `csr` is not kept alive."""
        findings = self._findings(csr)
        findings[key] = value
        self._last = weakref.ref(csr.col_idx), findings

    def _findings(self, csr: CSR) -> dict[Hashable, _Finding]:
        """Those of `csr`: none yet where another matrix was looked at last."""
        last = self._last
        return last[1] if last is not None and last[0]() is csr.col_idx else {}


def whole_number_param(tunables: Mapping[str, Parameter], params: Mapping[str, Any], name: str) -> int | None:
    """`params`' value of the tunable `name`, or its default; None for a word that it may be ("auto").

    Raises UsageError where it is neither that nor a whole number within the tunable's bounds.
    """
    value = tunables[name].checked(name, params.get(name, tunables[name].default))
    return None if isinstance(value, str) else int(value)


def one_value(csr: CSR) -> float | None:
    """The finite value that all entries have (1 for a pattern, or where there are none), or None."""
    if csr.values is None or not csr.nnz:
        return 1.0
    value = float(csr.values[0])
    if not np.isfinite(value):
        return None
    same = all(bool((csr.values[begin : begin + _AT_ONCE] == value).all()) for begin in range(0, csr.nnz, _AT_ONCE))
    return value if same else None


def ranges(starts: npt.NDArray[np.integer[Any]], counts: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.int64]:
    """``[starts[0], starts[0] + 1, ...(counts[0] of them), starts[1], ...]``, int64 ``[sum(counts)]``."""
    ends = np.cumsum(counts, dtype=np.int64)
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(total, dtype=np.int64) + np.repeat(starts - (ends - counts), counts)


def csr_from_entries(
    rows: int,
    cols: int,
    row: npt.NDArray[np.integer[Any]],
    col: npt.NDArray[np.int32],
    val: npt.NDArray[np.floating[Any]] | None,
) -> CSR:
    """CSR of entries whose order within each row is already right; rows may come in any order."""
    order = np.argsort(row, kind="stable")
    row_ptr = np.zeros(rows + 1, np.int64)
    np.cumsum(np.bincount(row, minlength=rows), out=row_ptr[1:])
    return CSR(rows, cols, row_ptr, col[order], None if val is None else val[order].astype(np.float64))


def csr_from_loose(
    packed: Packed, row: npt.NDArray[np.integer[Any]], col: npt.NDArray[np.int32], val: npt.NDArray[np.floating[Any]]
) -> CSR:
    """CSR of the entries of `packed` in whatever order; `val` is omitted if it is a pattern."""
    by_column = np.argsort(col, kind="stable")
    values = None if packed.pattern else val[by_column]
    return csr_from_entries(packed.rows, packed.cols, row[by_column], col[by_column], values)


def human_count(count: int) -> str:
    """4.2 M, 97,913."""
    return f"{count:,}" if count < 1_000_000 else f"{count / 1e6:,.3g} M" if count < 1e9 else f"{count / 1e9:.3g} G"


def refuse_padding(
    name: str, stats: MatrixStats, slots: int, need: int, free_bytes: int | None, force: bool, why: str | None = None
) -> str | None:
    """The refusal of a format that stores `slots` slots in `need` bytes, with the figures, or None.

    `why`: what makes it so many; without it, the longest row.
    """
    why = why or (
        f"the longest row has {stats.row_max:,} nonzeros, the mean of {human_count(stats.rows)} rows is "
        f"{stats.row_mean:.3g}"
    )
    if free_bytes is not None and need > free_bytes:
        return f"{name} needs {human_bytes(need)}: {why}; device has {human_bytes(free_bytes)} free"
    if slots > MAX_SLOTS_PER_NONZERO * stats.nnz and not force:
        return (
            f"{name} stores {slots / max(stats.nnz, 1):,.0f} slots per nonzero "
            f"(limit {MAX_SLOTS_PER_NONZERO}), {human_bytes(need)}: {why}; --force-format overrides"
        )
    return None
