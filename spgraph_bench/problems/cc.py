"""Connected components: which vertices can be reached from each other, edges taken in both directions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.formats.base import Packed
from spgraph_bench.matrix import CSR, Matrix, VertexLabels, called
from spgraph_bench.problems.base import CheckResult, Problem, Work, register
from spgraph_bench.problems.sources import check_square, has_oracle, proper_degrees
from spgraph_bench.units import quantity

__all__ = ["CC", "check_labels", "least_labels", "plain_components"]

Labels = npt.NDArray[np.int32]

_SHOWN = 10


def least_labels(numbering: npt.NDArray[Any]) -> Labels:
    """Each vertex's least vertex of the same number, int32 ``[n]``; `numbering` is any numbering of parts."""
    _, first, part = np.unique(numbering, return_index=True, return_inverse=True)
    return first.astype(np.int32)[part]


def plain_components(csr: CSR) -> Labels:
    """The least vertex of each vertex's (weakly) connected component, int32 ``[n]``, by scipy."""
    from scipy.sparse.csgraph import connected_components

    pattern = csr.to_scipy(values=np.ones(csr.nnz))
    _, numbering = connected_components(pattern, directed=True, connection="weak")
    return least_labels(numbering)


def check_labels(label: npt.NDArray[Any], right: Labels) -> CheckResult:
    """Whether `label` parts the vertices as `right` does, and names each part by its least vertex."""
    n = len(right)
    if label.shape != right.shape or label.dtype != np.int32:
        return CheckResult(False, f"labels are {label.dtype} {list(label.shape)}, not int32 [{n}]")
    wrong = np.flatnonzero(label != right)
    if not len(wrong):
        return CheckResult(True)
    v = int(wrong[0])
    details = {"wrong_labels": len(wrong), "worst_vertex": v}
    error = f"{len(wrong):,} of {n:,} labels wrong, the first is of vertex {v:,}: {int(label[v]):,}"
    if np.array_equal(least_labels(label), right):
        return CheckResult(False, f"{error}, but the least vertex of its component is {int(right[v]):,}", details)
    # Two vertices that tell: joined though they are apart, or parted though they are together.
    mates = np.flatnonzero(right == right[v])
    apart = mates[label[mates] != label[v]]
    if len(apart):
        return CheckResult(
            False,
            f"{error}; it is connected with vertex {int(apart[0]):,}, whose label is {int(label[apart[0]]):,}",
            details,
        )
    alike = np.flatnonzero((label == label[v]) & (right != right[v]))
    other = f"; vertex {int(alike[0]):,} has it too, and is not connected with it" if len(alike) else ""
    return CheckResult(False, f"{error}, expected {int(right[v]):,}{other}", details)


class CC(Problem):
    """Weakly connected components: directed edges count in both directions.

    No inputs; output ``label`` int32 ``[n]``: the least vertex of the component, by the ids of the packed
    matrix. Vertices without edges are components of their own. A rate counts all edges of the graph, looked at
    or not.
    """

    name = "cc"
    title = "connected components of a graph, ignoring directions"
    rate_unit = "GTEPS"
    outputs: tuple[str, ...] = ("label",)
    dtypes: tuple[str, ...] = ("int32",)
    is_graph = True

    def inputs(self, matrix: Matrix, dtype: np.dtype[Any], seed: int, **options: Any) -> dict[str, npt.NDArray[Any]]:
        """None. Raises InputError where the matrix is not square."""
        check_square(matrix.csr)
        return {}

    def output_arrays(self, matrix: Matrix, dtype: np.dtype[Any]) -> dict[str, tuple[tuple[int, ...], np.dtype[Any]]]:
        return {"label": ((matrix.csr.rows,), np.dtype(np.int32))}

    def oracle(
        self, matrix: Matrix, inputs: Mapping[str, npt.NDArray[Any]], dtype: np.dtype[Any], **options: Any
    ) -> dict[str, npt.NDArray[Any]]:
        """``label`` int32 ``[n]``; nothing for a graph that has no oracle."""
        return {"label": plain_components(matrix.csr)} if has_oracle(matrix.csr) else {}

    def check(
        self, output: npt.NDArray[Any], oracle: Mapping[str, npt.NDArray[Any]], dtype: np.dtype[Any]
    ) -> CheckResult:
        """Equality with the oracle's labels: they are unique."""
        return check_labels(output, oracle["label"])

    def columns(
        self, output: npt.NDArray[Any], csr: CSR, inputs: Mapping[str, npt.NDArray[Any]]
    ) -> dict[str, npt.NDArray[Any]]:
        """``component``: the number of the component, 0 for the largest, ties by their least vertex."""
        label, part, size = np.unique(output, return_inverse=True, return_counts=True)
        rank = np.empty(len(label), np.int32)
        rank[np.argsort(-size, kind="stable")] = np.arange(len(label), dtype=np.int32)
        return {"component": rank[part]}

    def summary(
        self,
        output: npt.NDArray[Any],
        facts: Mapping[str, Any],
        csr: CSR,
        inputs: Mapping[str, npt.NDArray[Any]],
        oracle: Mapping[str, npt.NDArray[Any]],
        ids: VertexLabels,
    ) -> dict[str, Any]:
        """``components``, ``largest`` (vertices), ``isolated`` (components of one vertex), and the largest
        ones with their least vertex, vertices and edges (undirected ones once, self-loops omitted)."""
        label, part, size = np.unique(output, return_inverse=True, return_counts=True)
        arcs = np.bincount(part, proper_degrees(csr), minlength=len(label)).astype(np.int64)
        edges = arcs // 2 if csr.symmetric else arcs
        order = np.argsort(-size, kind="stable")[:_SHOWN]
        n, alone = len(output), int(np.sum(size == 1))
        largest = int(size.max(initial=0))
        sentence = quantity(len(label), "component")
        if n:
            sentence += f"; the largest has {quantity(largest, 'vertex', 'vertices')} ({100 * largest / n:.4g} %)"
        sentence += f"; {alone:,} of one vertex" if alone else ""
        if not csr.symmetric:
            sentence += "; the graph is directed: weakly connected components"
        title = "components" if len(label) <= _SHOWN else f"the {_SHOWN} largest components"
        return {
            "components": len(label),
            "largest": largest,
            "isolated": alone,
            "said": [sentence],
            "table": {
                "title": title,
                "columns": ["component", "least vertex", "vertices", "edges"],
                "numbers": label[order].tolist(),
                "rows": [[i, called(ids, label[k]), int(size[k]), int(edges[k])] for i, k in enumerate(order)],
            },
        }

    def work(self, matrix_shape: tuple[int, int], packed: Packed) -> Work:
        """Edges of the graph (undirected ones once); bytes: the labels are written, each list begun."""
        edges = packed.nnz // 2 if packed.meta.get("undirected") else packed.nnz
        return Work(edges, 0, packed.stored_bytes, 0)


register(CC())
