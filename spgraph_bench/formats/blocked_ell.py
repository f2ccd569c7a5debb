"""Blocked-ELL: dense square blocks, as many in each block row: what tensor cores multiply."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.errors import UsageError
from spgraph_bench.formats import compiled
from spgraph_bench.formats.base import Array, Format, Packed, register
from spgraph_bench.formats.common import (
    PADDING,
    csr_from_loose,
    human_count,
    offset_type,
    quiet_overflow,
    ranges,
    refuse_padding,
    value_type,
)
from spgraph_bench.matrix import CSR
from spgraph_bench.parameters import Parameter
from spgraph_bench.stats import MatrixStats, row_blocks
from spgraph_bench.structure import block_lengths, block_places

__all__ = ["BlockedELL"]

SIDES = (16, 32)
"""Rows and columns of a block: what 16 x 16 x 16 products take."""

_MASK = 0xFFFFFFFF


def _side(params: dict[str, Any]) -> int:
    given = params.get("ell_block", SIDES[0])
    if str(given) not in map(str, SIDES):
        raise UsageError(f"ell_block cannot be {given!r}", remedy=f"one of {', '.join(map(str, SIDES))}")
    return int(given)


@register
class BlockedELL(Format):
    """Blocked ELLPACK.

    The matrix is cut into blocks of ``side x side`` elements from its upper left corner on; those with an
    entry are stored whole, fill being 0. ``block_col``: int32 ``[block rows][width]``, the block's first
    column / side, rising from slot to slot, -1 in the slots after a block row's last block; ``block_val``:
    value type ``[block rows][width][side][side]`` (a 64-bit index), 0 where there is no block. ``width`` is
    the largest number of blocks in a block row. Values may be float16, too. A stored
    zero cannot be distinguished from fill, and fill is multiplied: an Inf or NaN in x gives NaN in rows that have no
    entry there.
    """

    name = "blocked-ell"
    title = "dense blocks of 16 or 32, equally many in each block row"
    wins = "Wins for SpMM on tensor cores, on matrices of dense blocks of 16 or 32. Loses by fill anywhere else."
    order = 88
    keeps_zeros = False
    tunables = MappingProxyType({"ell_block": Parameter(16, "rows and columns of a block of blocked-ell", SIDES)})

    @quiet_overflow
    def pack(
        self, csr: CSR, dtype: npt.DTypeLike = np.float32, offsets: npt.DTypeLike = np.int32, **params: Any
    ) -> Packed:
        value, side = value_type(dtype, half=True), _side(params)
        lengths = block_lengths(csr, side, side)
        width = int(lengths.max(initial=0))
        block_col, block_val = compiled.padded_blocks(csr, side, width, value) or _blocks(csr, side, lengths, value)
        return Packed(
            self.name,
            csr.rows,
            csr.cols,
            csr.nnz,
            value,
            MappingProxyType({"block_col": block_col, "block_val": block_val}),
            MappingProxyType({"side": side, "width": width, "blocks": int(lengths.sum())}),
            pattern=csr.values is None,
            compulsory_bytes=4 * int(lengths.sum()) + csr.nnz * value.itemsize,
            offsets=offset_type(offsets, csr.nnz),
        )

    def unpack(self, packed: Packed) -> CSR:
        """Zeros are omitted (see :attr:`keeps_zeros`)."""
        block_row, slot, i, j = np.nonzero(packed.block_val)
        row = block_row * packed.side + i
        col = packed.block_col[block_row, slot].astype(np.int64) * packed.side + j
        return csr_from_loose(packed, row, col.astype(np.int32), packed.block_val[block_row, slot, i, j])

    def predict_bytes(self, stats: MatrixStats, value_bytes: int = 4, offset_bytes: int = 4, **params: Any) -> int:
        """Counts the blocks, which takes a pass over the column indices."""
        assert stats.csr is not None, "the number of blocks depends on the columns"
        side = _side(params)
        return _bytes(block_lengths(stats.csr, side, side), side, value_bytes)

    def refuse(
        self, stats: MatrixStats, free_bytes: int | None, value_bytes: int = 4, force: bool = False, **params: Any
    ) -> str | None:
        """Refused where blocks are so empty, or so unevenly spread, that more than 64 slots are stored for
        each nonzero."""
        assert stats.csr is not None
        side = _side(params)
        lengths = block_lengths(stats.csr, side, side)
        need = _bytes(lengths, side, value_bytes)
        blocks, width = int(lengths.sum()), int(lengths.max(initial=0))
        fill = stats.nnz / max(blocks * side * side, 1)
        why = (
            f"blocks of {side}x{side} are {100 * fill:.3g} % full, the widest block row has {width:,} of "
            f"them, the mean of {human_count(len(lengths))} is {blocks / max(len(lengths), 1):.3g}"
        )
        slots = len(lengths) * width * side * side
        return refuse_padding(self.name, stats, slots, need, free_bytes, force, why)


def _blocks(csr: CSR, side: int, lengths: npt.NDArray[np.int64], value: np.dtype[Any]) -> tuple[Array, Array]:
    """``block_col`` and ``block_val``; `lengths`: the blocks of each block row."""
    width = int(lengths.max(initial=0))
    block_col = np.full((len(lengths), width), PADDING, np.int32)
    block_val = np.zeros((len(lengths), width, side, side), value)
    flat = block_val.reshape(-1)
    for part in row_blocks(csr, align=side):
        keys, position = block_places(part, side, side)
        first, last = part.first // side, -(-part.last // side)
        slot = ranges(np.arange(first, last) * width, lengths[first:last])
        block_col.reshape(-1)[slot] = keys & _MASK
        # From the places of blocks one after another to those of their slots.
        position += ((slot - np.arange(len(slot))) * side**2)[position // side**2]
        flat[position] = 1 if csr.values is None else csr.values[part.entries]
    return block_col, block_val


def _bytes(lengths: npt.NDArray[np.int64], side: int, value_bytes: int) -> int:
    return len(lengths) * int(lengths.max(initial=0)) * (4 + side * side * value_bytes)
