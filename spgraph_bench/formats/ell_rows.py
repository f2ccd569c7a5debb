"""ELL stored row by row: the layout that a warp reads badly, as a contrast to ELL's."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.formats.base import Packed, register
from spgraph_bench.formats.ell import ELL
from spgraph_bench.matrix import CSR

__all__ = ["ELLRows"]


@register
class ELLRows(ELL):
    """ELLPACK, row-major: ELL's arrays transposed.

    ``row_col``: int32 ``[rows][slots]``; ``row_val``: value type ``[rows][slots]``; ``slots`` (K) is the longest row.
    Invariants: slot k of row i is element ``i * slots + k`` (a 64-bit index); padding as in ELL.
    """

    name = "ell-rows"
    title = "ELLPACK row by row: ELL's arrays transposed, a contrast"
    wins = (
        "Wins nowhere: it shows what ELL's order is for. Neighbouring threads read elements that are a whole row "
        "apart, so that a request takes up to 32 sectors in place of 4."
    )
    order = 41

    def pack(
        self, csr: CSR, dtype: npt.DTypeLike = np.float32, offsets: npt.DTypeLike = np.int32, **params: Any
    ) -> Packed:
        packed = super().pack(csr, dtype, offsets)
        arrays = {f"row_{name}": np.ascontiguousarray(array.T) for name, array in packed.arrays.items()}
        return replace(packed, format=self.name, arrays=MappingProxyType(arrays))

    def unpack(self, packed: Packed) -> CSR:
        by_slot = {name.removeprefix("row_"): array.T for name, array in packed.arrays.items()}
        return super().unpack(replace(packed, arrays=MappingProxyType(by_slot)))
