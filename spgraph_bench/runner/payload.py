"""What the parent hands to a worker: the matrix in each order, inputs and oracle in each value type.

A worker in our own process gets the object; another process gets its arrays through a folder (a
:class:`~spgraph_bench.runner.spool.Spool`), which it maps. How files are named is known here only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.matrix import CSR
from spgraph_bench.runner import spool

__all__ = ["NO_MATRIX", "Arrays", "Payload", "ReorderedMatrix", "load_columns", "save_columns"]

Arrays = dict[str, npt.NDArray[Any]]
"""Arrays by name."""

NO_MATRIX = CSR(0, 0, np.zeros(1, np.int64), np.empty(0, np.int32), None)
"""What stands in for the matrix of a problem that needs none."""

_SYMMETRIC = {-1: None, 0: False, 1: True}


@dataclass(frozen=True)
class ReorderedMatrix:
    """The matrix in another order of rows and columns."""

    csr: CSR
    rows: npt.NDArray[np.int32]
    """Which row of the matrix each of its rows is, ``[rows]``."""
    cols: npt.NDArray[np.int32]
    """The same of columns, ``[cols]``."""


@dataclass(frozen=True)
class Payload:
    """All arrays of a run."""

    csr: CSR
    """The matrix; 0 x 0 where the problem needs none."""
    labels: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)
    """What the input calls each vertex of a graph, from :func:`spgraph_bench.matrix.label_arrays`."""
    orders: Mapping[str, ReorderedMatrix] = field(default_factory=dict)
    """By their names in ``spgraph_bench.reorder.ORDERS``; "none" is not among them."""
    inputs: Mapping[str, Mapping[str, npt.NDArray[Any]]] = field(default_factory=dict)
    """By value type, from ``Problem.inputs``."""
    oracles: Mapping[str, Mapping[str, npt.NDArray[Any]]] = field(default_factory=dict)
    """By value type, from ``Problem.oracle``."""

    def matrix(self, order: str) -> CSR:
        """The matrix in this order; "none" is its own."""
        return self.csr if order == "none" else self.orders[order].csr

    def __post_init__(self) -> None:
        # A variant shares the process with what judges the next one.
        for name in ("labels", "orders"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))
        for name in ("inputs", "oracles"):
            frozen = {dtype: MappingProxyType(dict(arrays)) for dtype, arrays in getattr(self, name).items()}
            object.__setattr__(self, name, MappingProxyType(frozen))

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in self.named_arrays().values())

    def named_arrays(self) -> Arrays:
        """All arrays, each under a name that is good for a file: what :meth:`of_named_arrays` takes."""
        named = _parts_of(self.csr, "matrix")
        for order, reordered in self.orders.items():
            named |= _parts_of(reordered.csr, f"order.{order}")
            named |= {f"order.{order}.rows": reordered.rows, f"order.{order}.cols": reordered.cols}
        named |= {f"labels.{name}": array for name, array in self.labels.items()}
        for kind, by_type in (("input", self.inputs), ("oracle", self.oracles)):
            for dtype, arrays in by_type.items():
                named |= {f"{kind}.{dtype}.{name}": array for name, array in arrays.items()}
        return named

    @classmethod
    def of_named_arrays(cls, named: Mapping[str, npt.NDArray[Any]]) -> Payload:
        """The payload whose :meth:`named_arrays` these are; others among them are omitted."""
        return cls(
            csr=_csr_of(_below(named, "matrix")),
            labels=_below(named, "labels"),
            orders={
                order: ReorderedMatrix(_csr_of(parts), parts["rows"], parts["cols"])
                for order, parts in _groups(_below(named, "order")).items()
            },
            inputs=_groups(_below(named, "input")),
            oracles=_groups(_below(named, "oracle")),
        )

    @classmethod
    def load(cls, folder: Path) -> Payload:
        """The payload that was saved there, its arrays mapped read-only."""
        return cls.of_named_arrays(spool.load(folder))


def _parts_of(csr: CSR, prefix: str) -> Arrays:
    symmetric = next(number for number, known in _SYMMETRIC.items() if known is csr.symmetric)
    shape = np.array([csr.rows, csr.cols, symmetric], np.int64)
    parts: Arrays = {"shape": shape, "row_ptr": csr.row_ptr, "col_idx": csr.col_idx}
    if csr.values is not None:
        parts["values"] = csr.values
    return {f"{prefix}.{name}": array for name, array in parts.items()}


def _csr_of(parts: Mapping[str, npt.NDArray[Any]]) -> CSR:
    rows, cols, symmetric = (int(number) for number in parts["shape"])
    return CSR(rows, cols, parts["row_ptr"], parts["col_idx"], parts.get("values"), _SYMMETRIC[symmetric])


def _below(named: Mapping[str, npt.NDArray[Any]], prefix: str) -> Arrays:
    """Those whose names begin with ``prefix.``, without it."""
    start = f"{prefix}."
    return {name.removeprefix(start): array for name, array in named.items() if name.startswith(start)}


def _groups(named: Mapping[str, npt.NDArray[Any]]) -> dict[str, Arrays]:
    """By the part of the name before the first dot."""
    groups: dict[str, Arrays] = {}
    for name, array in named.items():
        group, _, rest = name.partition(".")
        groups.setdefault(group, {})[rest] = array
    return groups


def save_columns(folder: Path, columns: Mapping[str, npt.NDArray[Any]]) -> list[str]:
    """Leave the columns of an answer in `folder` for the parent; their names."""
    spool.save(folder, {f"answer.{name}": column for name, column in columns.items()})
    return list(columns)


def load_columns(folder: Path, names: list[str]) -> Arrays:
    """The columns that were left there, mapped read-only."""
    return {name: np.load(folder / f"answer.{name}.npy", mmap_mode="r") for name in names}
