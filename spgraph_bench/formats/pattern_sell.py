"""SELL without values: for patterns and matrices whose stored values are all the same."""

from __future__ import annotations

import dataclasses
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.formats.base import Packed, register
from spgraph_bench.formats.common import VALUES_DIFFER, one_value, value_type
from spgraph_bench.formats.sell import SELL
from spgraph_bench.matrix import CSR
from spgraph_bench.stats import MatrixStats

__all__ = ["PatternSELL"]


@register
class PatternSELL(SELL):
    """SELL-32-sigma (see sell) without ``val``: ``slice_ptr``, ``col`` and, if sigma > 1, ``perm``.

    The scalar ``value`` is what all entries are, 1 for a pattern, None where they differ: then the format
    keeps the places only, and is refused.
    """

    name = "pattern-sell"
    title = "sliced ELLPACK without values: all entries are the same"
    order = 72
    keeps_values = False

    def pack(
        self,
        csr: CSR,
        dtype: npt.DTypeLike = np.float32,
        offsets: npt.DTypeLike = np.int32,
        **params: Any,
    ) -> Packed:
        value = value_type(dtype)
        # SELL's own conversion; its values, ones here, are dropped.
        packed = super().pack(dataclasses.replace(csr, values=None), value, offsets, **params)
        arrays = {name: array for name, array in packed.arrays.items() if name != "val"}
        return dataclasses.replace(
            packed,
            arrays=MappingProxyType(arrays),
            meta=MappingProxyType({**packed.meta, "value": one_value(csr)}),
            pattern=csr.values is None,
            compulsory_bytes=packed.compulsory_bytes - csr.nnz * value.itemsize,
        )

    def unpack(self, packed: Packed) -> CSR:
        """The pattern: values are not kept."""
        return super().unpack(dataclasses.replace(packed, pattern=True))

    def predict_bytes(
        self, stats: MatrixStats, value_bytes: int = 4, offset_bytes: int = 4, **params: Any
    ) -> int:
        slots, _, _ = self._slots(stats, value_bytes, params)
        return super().predict_bytes(stats, value_bytes, offset_bytes, **params) - slots * value_bytes

    def refuse(
        self,
        stats: MatrixStats,
        free_bytes: int | None,
        value_bytes: int = 4,
        force: bool = False,
        **params: Any,
    ) -> str | None:
        assert stats.csr is not None
        if why := super().refuse(stats, free_bytes, value_bytes, force, **params):
            return why
        return VALUES_DIFFER if one_value(stats.csr) is None else None
