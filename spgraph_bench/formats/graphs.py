"""Formats of unweighted graphs: edges without values, optionally relabelled by degree."""

from __future__ import annotations

import dataclasses
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.errors import UsageError
from spgraph_bench.formats.base import Format, Packed, register
from spgraph_bench.formats.common import csr_from_entries, offset_type, one_value, ranges
from spgraph_bench.matrix import CSR
from spgraph_bench.parameters import Parameter
from spgraph_bench.stats import MatrixStats, row_ranges
from spgraph_bench.structure import transposed

__all__ = ["Adjacency", "PatternCOO", "PatternCSR", "transpose"]

Arrays = dict[str, npt.NDArray[Any]]

_REORDER = MappingProxyType(
    {
        "reorder": Parameter(
            "none",
            "degree: number vertices by falling degree, so that neighbours are in that order too",
            ("none", "degree"),
        )
    }
)


def transpose(csr: CSR) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
    """Row offsets and columns of the transposed pattern, sorted; `csr`'s own arrays if they are the same."""
    if csr.symmetric and csr.rows == csr.cols:
        return csr.row_ptr, csr.col_idx
    turned = transposed(dataclasses.replace(csr, values=None))
    if np.array_equal(turned.row_ptr, csr.row_ptr) and np.array_equal(turned.col_idx, csr.col_idx):
        return csr.row_ptr, csr.col_idx
    return turned.row_ptr, turned.col_idx


def _relabelled(csr: CSR) -> tuple[CSR, Arrays]:
    """`csr` with vertices numbered by falling degree (ties as they were), and ``new_id``, ``old_id``."""
    if csr.rows != csr.cols:
        raise UsageError(
            f"vertices of a {csr.rows:,} x {csr.cols:,} matrix cannot be renumbered", remedy="reorder=none"
        )
    degrees = csr.row_lengths() + np.bincount(csr.col_idx, minlength=csr.cols)
    old_id = np.argsort(-degrees, kind="stable").astype(np.int32)
    new_id = np.empty_like(old_id)
    new_id[old_id] = np.arange(len(old_id), dtype=np.int32)
    starts, lengths = csr.row_ptr[old_id], csr.row_lengths()[old_id]
    row_ptr = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))
    col = np.empty(csr.nnz, np.int32)
    for first, last in row_ranges(row_ptr):
        entries = ranges(starts[first:last], lengths[first:last])
        col[row_ptr[first] : row_ptr[last]] = new_id[csr.col_idx[entries]]
    # Rows are in order now, their columns not. Turning a matrix sorts it; one that is symmetric is then done.
    new = CSR(csr.rows, csr.cols, row_ptr, col, None)
    for _ in range(1 if csr.symmetric else 2):
        new = transposed(new)
    return dataclasses.replace(new, symmetric=csr.symmetric), {"new_id": new_id, "old_id": old_id}


class _Graph(Format):
    """What the formats here share. `unpack` gives a pattern: values are not kept."""

    keeps_values = False
    tunables = _REORDER

    def _arrays(self, csr: CSR, offsets: np.dtype[Any]) -> Arrays:
        raise NotImplementedError

    def pack(
        self, csr: CSR, dtype: npt.DTypeLike = np.int32, offsets: npt.DTypeLike = np.int32, **params: Any
    ) -> Packed:
        """Arrays may share memory with `csr`: they are read-only by agreement. `dtype` is stored nowhere.

        The scalar ``value`` is what all entries are (1 for a pattern), None where they differ.
        """
        order = params.get("reorder", "none")
        if order not in ("none", "degree"):
            raise UsageError(f"reorder={order} is not possible", remedy="none or degree")
        kind = offset_type(offsets, csr.nnz)
        value = one_value(csr)
        ids: Arrays = {}
        if order == "degree":
            csr, ids = _relabelled(csr)
        arrays = self._arrays(csr, kind) | ids
        distinct = {id(a): int(a.nbytes) for a in arrays.values()}
        return Packed(
            self.name,
            csr.rows,
            csr.cols,
            csr.nnz,
            np.dtype(dtype),
            MappingProxyType(arrays),
            MappingProxyType({"reorder": order, "undirected": csr.symmetric, "value": value}),
            pattern=csr.values is None,
            compulsory_bytes=sum(distinct.values()),
            offsets=kind,
        )

    def _pattern(self, packed: Packed) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
        """Row offsets and columns as packed."""
        return packed.row_ptr.astype(np.int64, copy=False), packed.col

    def unpack(self, packed: Packed) -> CSR:
        row_ptr, col = self._pattern(packed)
        csr = CSR(packed.rows, packed.cols, row_ptr, col, None)
        if packed.meta["reorder"] == "none":
            return csr
        old = packed.old_id
        row = np.repeat(old, csr.row_lengths())
        by_column = csr_from_entries(csr.cols, csr.rows, old[col], row, None)
        row_ptr, col = transpose(CSR(csr.cols, csr.rows, by_column.row_ptr, by_column.col_idx, None))
        return CSR(packed.rows, packed.cols, row_ptr, col, None)

    @staticmethod
    def _ids(stats: MatrixStats, params: dict[str, Any]) -> int:
        return 8 * stats.rows if params.get("reorder", "none") == "degree" else 0


@register
class PatternCSR(_Graph):
    """Out-edges by source, without values.

    ``row_ptr``: offset type ``[rows + 1]``; ``col``: int32 ``[nnz]``, rising within each row. With
    ``reorder=degree`` also ``new_id``, ``old_id``: int32 ``[rows]``, inverse to each other.
    """

    name = "pattern-csr"
    title = "compressed sparse rows without values: out-edges of a graph"
    wins = "Wins on unweighted graphs and matrices of equal values: 4 bytes a nonzero."
    order = 22

    def _arrays(self, csr: CSR, offsets: np.dtype[Any]) -> Arrays:
        return {"row_ptr": csr.row_ptr.astype(offsets, copy=False), "col": csr.col_idx}

    def predict_bytes(self, stats: MatrixStats, value_bytes: int = 4, offset_bytes: int = 4, **params: Any) -> int:
        return (stats.rows + 1) * offset_bytes + 4 * stats.nnz + self._ids(stats, params)


@register
class PatternCOO(_Graph):
    """A source and a target per edge, without values.

    ``row``, ``col``: int32 ``[nnz]``, sorted by row, then column. With ``reorder=degree`` also ``new_id``,
    ``old_id`` as in pattern-csr.
    """

    name = "pattern-coo"
    title = "coordinates without values: source and target of each edge"
    wins = (
        "Wins for edge-parallel traversals of unweighted graphs: source and target at hand. Loses 4 bytes an "
        "edge against pattern-csr."
    )
    order = 12

    def _arrays(self, csr: CSR, offsets: np.dtype[Any]) -> Arrays:
        return {"row": np.repeat(np.arange(csr.rows, dtype=np.int32), csr.row_lengths()), "col": csr.col_idx}

    def _pattern(self, packed: Packed) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
        row_ptr = np.zeros(packed.rows + 1, np.int64)
        np.cumsum(np.bincount(packed.row, minlength=packed.rows), out=row_ptr[1:])
        return row_ptr, packed.col

    def predict_bytes(self, stats: MatrixStats, value_bytes: int = 4, offset_bytes: int = 4, **params: Any) -> int:
        return 8 * stats.nnz + self._ids(stats, params)


@register
class Adjacency(_Graph):
    """Out-edges by source and in-edges by target, without values.

    ``row_ptr``: offset type ``[rows + 1]``, ``col``: int32 ``[nnz]``, as in pattern-csr; ``col_ptr``: offset
    type ``[cols + 1]``, ``row``: int32 ``[nnz]``: sources of each vertex's in-edges, rising. Of a symmetric
    pattern ``col_ptr`` and ``row`` are the very same arrays as ``row_ptr`` and ``col``, on the device too.
    ``new_id``, ``old_id`` as in pattern-csr.
    """

    name = "adjacency"
    title = "out-edges and in-edges of a graph (one and the same if it is undirected)"
    wins = (
        "Wins for searches that go top-down and bottom-up: out-edges and in-edges at hand, without values. "
        "Loses twice the memory of pattern-csr where a graph is directed."
    )
    order = 24
    predicts_exactly = False

    def _arrays(self, csr: CSR, offsets: np.dtype[Any]) -> Arrays:
        row_ptr = csr.row_ptr.astype(offsets, copy=False)
        in_ptr, row = transpose(csr)
        col_ptr = row_ptr if row is csr.col_idx else in_ptr.astype(offsets, copy=False)
        return {"row_ptr": row_ptr, "col": csr.col_idx, "col_ptr": col_ptr, "row": row}

    def predict_bytes(self, stats: MatrixStats, value_bytes: int = 4, offset_bytes: int = 4, **params: Any) -> int:
        """At most: a symmetric pattern, which the statistics do not tell, takes half."""
        each = 4 * stats.nnz
        return (stats.rows + stats.cols + 2) * offset_bytes + 2 * each + self._ids(stats, params)
