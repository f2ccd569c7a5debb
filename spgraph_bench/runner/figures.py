"""What a run takes in host memory, known from the matrix's size before anything is allocated.

The figures are measured (``tests/test_memory.py`` measures them again): bytes a row or column and bytes an
entry, of inputs and oracle while they are made, and of all that the parent, the arrays handed over (which may
be in memory, too) and the worker hold while a variant is checked on the host device.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from spgraph_bench.matrix import CSR
from spgraph_bench.problems import get_problem
from spgraph_bench.problems.sources import BatchProblem
from spgraph_bench.problems.spmm import SpMM

__all__ = ["Shape", "analysis_bytes", "columns_of", "conversion_bytes", "run_bytes"]

_BLOCKS = 64 << 20
"""At most so much is taken by what works on a block of entries at a time."""


@dataclass(frozen=True)
class _Figure:
    """Bytes that a problem takes; `columns`: those of dense inputs, outputs and sums, a column of k (of a batch, a
    source)."""

    row: int
    entry: int
    running_row: int
    running_entry: int
    columns: tuple[int, int] = (0, 0)


_TRAVERSAL = _Figure(72, 44, 160, 60)
_FIGURES = {
    "spmv": _Figure(40, 6, 200, 56),
    "spmv-transposed": _Figure(48, 18, 200, 64),
    "spmm": _Figure(16, 8, 100, 60, columns=(14, 110)),
    "pagerank": _Figure(40, 20, 160, 60),
    "bfs-batch": _Figure(72, 44, 160, 60, columns=(4, 28)),
    "bc-batch": _Figure(72, 44, 160, 60, columns=(8, 56)),
}


class Shape(Protocol):
    """A matrix, or what is known of one that was not read."""

    @property
    def rows(self) -> int:
        """Rows of the matrix."""
        ...

    @property
    def cols(self) -> int:
        """Columns of the matrix."""
        ...

    @property
    def nnz(self) -> int:
        """Stored entries."""
        ...


def columns_of(problem: str, options: Mapping[str, Any]) -> int:
    """Columns of a product's dense operands, or sources of a batch; of another problem 1. `options`: those that were
    given, or all."""
    configured = get_problem(problem, options)
    if isinstance(configured, BatchProblem):
        return configured.width
    return configured.k if isinstance(configured, SpMM) else 1


def run_bytes(problem: str, csr: Shape, options: Mapping[str, Any], dtypes: int = 1, orders: int = 1) -> int:
    """Bytes that inputs, oracle and a check of `problem` take beside the matrix, on the host.

    Parameters
    ----------
    options : the problem's, see :func:`columns_of`.
    dtypes, orders : value types and orders of the run, of which arrays are held together.
    """
    figure = _FIGURES.get(problem, _TRAVERSAL)
    count, nnz = max(csr.rows, csr.cols), csr.nnz
    k = columns_of(problem, options)
    blocks = min(_BLOCKS, 80 * nnz)
    making = (figure.row + figure.columns[0] * k) * count + figure.entry * nnz
    running = (figure.running_row + figure.columns[1] * k) * count + figure.running_entry * nnz
    held = (dtypes - 1) * (figure.row + 2 * figure.columns[0] * k) * count
    return max(making, running) + held + blocks + (orders - 1) * (24 * count + 24 * nnz)


def analysis_bytes(csr: CSR) -> int:
    """Bytes that the statistics of `spgraph info` take beside the matrix."""
    return 36 * csr.rows + 20 * csr.cols + 22 * csr.nnz + min(_BLOCKS, 80 * csr.nnz)


def conversion_bytes(predicted: int, csr: CSR) -> int:
    """Bytes of a conversion: three times what goes in and comes out, less what is there (the matrix).

    `predicted` is what the format says that it will store.
    """
    return 3 * predicted + 2 * (csr.row_ptr.nbytes + csr.col_idx.nbytes)
