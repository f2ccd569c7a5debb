"""Formats without values: for patterns and matrices whose stored values are all the same."""

from __future__ import annotations

import dataclasses
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from spgraph_bench.formats.base import Format, Packed, register
from spgraph_bench.formats.common import VALUES_DIFFER, offset_type, one_value, value_type
from spgraph_bench.formats.csc import CompressedColumns
from spgraph_bench.formats.csr16 import CSR16
from spgraph_bench.formats.ell import ELL
from spgraph_bench.formats.hyb import HYB, choose_slots
from spgraph_bench.formats.jds import JDS
from spgraph_bench.formats.sell import SELL, choose_sigma
from spgraph_bench.matrix import CSR
from spgraph_bench.stats import MatrixStats, row_stats
from spgraph_bench.structure import transposed

__all__ = ["PatternCSC", "PatternCSR16", "PatternELL", "PatternHYB", "PatternJDS", "PatternSELL"]


class _OneValue(Format):
    """The arrays of another format without its values.

    The scalar ``value`` is what all entries are, 1 for a pattern, None where they differ or are not finite:
    then the format keeps the places only, and is refused.
    """

    keeps_values = False
    whole: ClassVar[Format]
    """The format with values."""

    def _fixed(self, stats: MatrixStats, value_bytes: int, params: dict[str, Any]) -> dict[str, Any]:
        """`params` with what `whole` would choose by the bytes of its values."""
        return params

    def pack(
        self, csr: CSR, dtype: npt.DTypeLike = np.float32, offsets: npt.DTypeLike = np.int32, **params: Any
    ) -> Packed:
        value = value_type(dtype)
        if type(self)._fixed is not _OneValue._fixed:
            params = self._fixed(row_stats(csr), value.itemsize, params)
        # The other format's own conversion; its values, ones here, are dropped.
        packed = self.whole.pack(dataclasses.replace(csr, values=None), value, offsets, **params)
        arrays = {name: array for name, array in packed.arrays.items() if not name.endswith("val")}
        return dataclasses.replace(
            packed,
            format=self.name,
            arrays=MappingProxyType(arrays),
            meta=MappingProxyType({**packed.meta, "value": one_value(csr)}),
            pattern=csr.values is None,
            compulsory_bytes=packed.compulsory_bytes - csr.nnz * value.itemsize,
        )

    def unpack(self, packed: Packed) -> CSR:
        """The pattern: values are not kept."""
        return self.whole.unpack(dataclasses.replace(packed, pattern=True))

    def predict_bytes(self, stats: MatrixStats, value_bytes: int = 4, offset_bytes: int = 4, **params: Any) -> int:
        return self.whole.predict_bytes(stats, 0, offset_bytes, **self._fixed(stats, value_bytes, params))

    def refuse(
        self, stats: MatrixStats, free_bytes: int | None, value_bytes: int = 4, force: bool = False, **params: Any
    ) -> str | None:
        assert stats.csr is not None
        if one_value(stats.csr) is None:
            return VALUES_DIFFER
        return self.whole.refuse(stats, free_bytes, 0, force, **self._fixed(stats, value_bytes, params))


@register
class PatternELL(_OneValue):
    """ELL (see ell) without ``val``: ``col``; the scalar ``value`` is what all entries are."""

    name = "pattern-ell"
    title = "ELLPACK without values: all entries are the same"
    wins = "Wins where ell does and all values are equal: they are not stored. Refused where values differ."
    order = 42
    whole = ELL()


@register
class PatternHYB(_OneValue):
    """HYB (see hyb) without values: ``ell_col``, ``coo_row``, ``coo_col``; the scalar ``value`` is what all
    entries are. "auto" weighs slots of 4 bytes against tail entries of 8, and so puts a little more into the
    ELL part."""

    name = "pattern-hyb"
    title = "HYB without values: all entries are the same"
    wins = "Wins where hyb does and all values are equal: they are not stored. Refused where values differ."
    order = 52
    whole = HYB()
    tunables = HYB.tunables

    def _fixed(self, stats: MatrixStats, value_bytes: int, params: dict[str, Any]) -> dict[str, Any]:
        return {**params, "hyb_k": choose_slots(stats, params.get("hyb_k", "auto"), 0)}


@register
class PatternJDS(_OneValue):
    """JDS (see jds) without ``val``: ``perm``, ``slot_start``, ``col``; the scalar ``value`` is what
    all entries are."""

    name = "pattern-jds"
    title = "jagged diagonals without values: all entries are the same"
    wins = "Wins where jds does and all values are equal: they are not stored. Refused where values differ."
    order = 62
    whole = JDS()


@register
class PatternSELL(_OneValue):
    """SELL-32-sigma (see sell) without ``val``: ``slice_ptr``, ``col`` and, if sigma > 1, ``perm``; the
    scalar ``value`` is what all entries are."""

    name = "pattern-sell"
    title = "sliced ELLPACK without values: all entries are the same"
    wins = "Wins where sell does and all values are equal: they are not stored. Refused where values differ."
    order = 72
    whole = SELL()
    tunables = SELL.tunables

    def _fixed(self, stats: MatrixStats, value_bytes: int, params: dict[str, Any]) -> dict[str, Any]:
        assert stats.csr is not None
        lengths = stats.csr.row_lengths()
        return {**params, "sell_sigma": choose_sigma(lengths, params.get("sell_sigma", "auto"), value_bytes)}


@register
class PatternCSR16(_OneValue):
    """CSR with 16-bit column offsets (see csr-16) without ``val``: ``row_ptr``, ``offset``, ``base``;
    the scalar ``value`` is what all entries are."""

    name = "pattern-csr-16"
    title = "compressed sparse rows with 16-bit column offsets, without values"
    wins = "Wins where csr-16 does and all values are equal: they are not stored. Refused where values differ."
    order = 23
    packs_all = False
    whole = CSR16()


@register
class PatternCSC(_OneValue):
    """CSC (see csc) without ``val``: ``col_ptr``, ``row``; the scalar ``value`` is what all entries are."""

    name = "pattern-csc"
    title = "compressed sparse columns without values"
    wins = "Wins where csc does and all values are equal: they are not stored. Refused where values differ."
    order = 32
    whole = CompressedColumns()

    def pack(
        self, csr: CSR, dtype: npt.DTypeLike = np.float32, offsets: npt.DTypeLike = np.int32, **params: Any
    ) -> Packed:
        """On its own: the turn through scipy needs no values as wide as those of csc."""
        value, offset = value_type(dtype), offset_type(offsets, csr.nnz)
        turned = transposed(dataclasses.replace(csr, values=None))
        col_ptr = turned.row_ptr.astype(offset, copy=False)
        row = turned.col_idx.astype(np.int32, copy=False)
        return Packed(
            self.name,
            csr.rows,
            csr.cols,
            csr.nnz,
            value,
            MappingProxyType({"col_ptr": col_ptr, "row": row}),
            MappingProxyType({"value": one_value(csr)}),
            pattern=csr.values is None,
            compulsory_bytes=col_ptr.nbytes + row.nbytes,
            offsets=offset,
        )
