"""What a format can hold, and the registry of writers: a module registers what it defines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np

from spgraph_bench.errors import UsageError
from spgraph_bench.matrix import Matrix
from spgraph_bench.registry import Registry
from spgraph_bench.stats import diagonal_entries

__all__ = [
    "Write",
    "Writer",
    "is_mirrored",
    "refuse",
    "require_edges",
    "require_no_loops",
    "require_square",
    "require_undirected",
    "require_whole",
    "writer",
    "writers",
]

Write = Callable[[Matrix, BinaryIO, str], None]
"""Writes a matrix to a stream; the text is the place that errors name."""

_INT32 = 2**31 - 1


@dataclass(frozen=True)
class Writer:
    """One format to write, by its suffix."""

    suffix: str
    reader: str
    """The reader that reads it."""
    title: str
    write: Write
    names: bool = False
    """It holds what the input calls vertices."""
    symmetry: bool = False
    """It says that a matrix is symmetric, and stores one triangle."""
    compressible: bool = True


_WRITERS: Registry[str, Writer] = Registry("writer", "spgraph_bench.writers")


def writers() -> Mapping[str, Writer]:
    """All writers by suffix."""
    return _WRITERS.entries()


def writer(
    *suffixes: str, reader: str, title: str, names: bool = False, symmetry: bool = False, compressible: bool = True
) -> Callable[[Write], Write]:
    """Register the decorated function for `suffixes`, and return it unchanged."""

    def enter(write: Write) -> Write:
        for suffix in suffixes:
            _WRITERS.enter(suffix, Writer(suffix, reader, title, write, names, symmetry, compressible))
        return write

    return enter


def refuse(cause: str, place: str, remedy: str) -> UsageError:
    """The error of a matrix that a format cannot hold."""
    return UsageError(cause, place=place, remedy=remedy)


def require_square(matrix: Matrix, place: str, what: str) -> None:
    """UsageError for a rectangular matrix, which `what`, "a METIS graph", cannot hold."""
    csr = matrix.csr
    if csr.rows != csr.cols:
        raise refuse(f"{what} cannot hold a matrix of {csr.rows:,} x {csr.cols:,}", place, "write .mtx")


def require_edges(matrix: Matrix, place: str, what: str) -> None:
    """UsageError for a rectangular matrix, or one without entries, which readers take for a broken file."""
    require_square(matrix, place, what)
    if matrix.csr.nnz == 0:
        raise refuse(f"{what} cannot hold a graph without edges", place, "write .mtx")


def require_whole(matrix: Matrix, place: str, what: str, least: int, most: int = _INT32) -> None:
    """UsageError unless all weights are integers from `least` to `most`."""
    values = matrix.csr.values
    if values is None:
        return
    wrong = ~((values >= least) & (values <= most) & (values == np.trunc(values)))  # nan is wrong, too
    if wrong.any():
        value = float(values[int(np.argmax(wrong))])
        raise refuse(
            f"{what} has weights that are integers from {least} to {most:,}; this one has {value:.17g}",
            place,
            "write .mtx, or replace the weights: --values integers, or --pattern for none",
        )


def require_undirected(matrix: Matrix, place: str, what: str) -> None:
    """UsageError unless every edge has its mirror, with the same weight."""
    if not is_mirrored(matrix):
        raise refuse(f"{what} is undirected, and this graph is directed", place, "add --symmetrize, or write .mtx")


def is_mirrored(matrix: Matrix) -> bool:
    """Whether every entry has its mirror, with the same value."""
    csr = matrix.csr
    if matrix.symmetry == "symmetric":
        return True
    if csr.rows != csr.cols:
        return False
    other = csr.to_scipy().T.tocsr()
    other.sort_indices()
    return (
        np.array_equal(other.indptr, csr.row_ptr)
        and np.array_equal(other.indices, csr.col_idx)
        and (csr.values is None or np.array_equal(other.data, csr.values, equal_nan=True))
    )


def require_no_loops(matrix: Matrix, place: str, what: str) -> None:
    """UsageError for entries on the diagonal."""
    if count := diagonal_entries(matrix.csr):
        raise refuse(
            f"{what} cannot hold edges from a vertex to itself, and there are {count:,}",
            place,
            "add --drop-diagonal, or write .mtx",
        )
