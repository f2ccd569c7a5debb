"""Betweenness centrality from one source after another: which vertices are on how many shortest paths."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.matrix import CSR, Matrix, VertexLabels, called
from spgraph_bench.parameters import Parameter
from spgraph_bench.problems.base import CheckResult, register
from spgraph_bench.problems.cc import plain_components
from spgraph_bench.problems.sources import (
    SOURCE_OPTIONS,
    SourceProblem,
    counted_edges,
    first_answers,
    has_oracle,
    out_edges,
    plain_levels,
    proper_degrees,
)
from spgraph_bench.units import quantity

__all__ = ["BC", "Dependencies", "check_dependencies", "plain_dependencies", "scaled"]

Floats = npt.NDArray[np.float64]

_SAFE_EXPONENTS = 900
"""Counts of one level whose exponents differ by less are added at one scale."""
_SHOWN = 10


@dataclass(frozen=True)
class Dependencies:
    """What Brandes' algorithm finds from one source."""

    dependency: Floats
    """For each vertex v the sum over targets t of the share of shortest paths to t that lead through v,
    float64 ``[n]``; 0 of the source itself."""
    level: npt.NDArray[np.int32]
    tolerance: float
    """Largest relative error of two float64 computations of it against each other, in whatever order they
    add."""


def _arcs(csr: CSR, vertices: npt.NDArray[np.int64]) -> Iterator[tuple[npt.NDArray[Any], npt.NDArray[Any]]]:
    """Out-edges of `vertices` in pieces: places in `vertices`, and targets."""
    for begin, degree, target in out_edges(csr, vertices):
        yield np.repeat(np.arange(begin, begin + len(degree)), degree), target


def plain_dependencies(csr: CSR, source: int) -> Dependencies:
    """Brandes' algorithm level by level in numpy: slow and plain, the oracle of every mode.

    Numbers of paths are kept as mantissa and exponent for each vertex, so that they may be as large as they
    like.

    The tolerance: let u be the rounding of one operation, P_k the most predecessors of a vertex of level k
    and S_k the most successors. All terms are positive, so adding p numbers of relative error r, in any
    order, gives r + (p - 1) u. Counts of level k are off by C_k = u (P_1 + ... + P_k). A share 1 / count +
    sum is off by at most the larger of C + u and the sum's error, and u more; a sum of S shares by S u more
    than the worst of them. So sums are off by C_depth + u (S_k + 3 + S_(k+1) + 3 ...), dependencies by
    C_depth + u as well. Two computations may differ by twice that: 2 u (2 sum P + sum (S + 3) + 4), and 2 u
    is eps.
    """
    n = csr.rows
    level = plain_levels(csr, source)
    depth = int(level.max()) + 1
    order = np.argsort(level, kind="stable").astype(np.int64)
    bounds = np.searchsorted(level[order], np.arange(depth + 1))
    at_level = [order[bounds[k] : bounds[k + 1]] for k in range(depth)]
    place = np.zeros(n, np.int64)  # in its level
    mantissa, exponent = np.zeros(n), np.zeros(n, np.int64)
    mantissa[source], exponent[source] = 0.5, 1
    most = 0
    for k in range(depth - 1):
        here, there = at_level[k], at_level[k + 1]
        place[there] = np.arange(len(there))
        top = np.full(len(there), int(exponent[here].max()))
        if exponent[here].min() < top[0] - _SAFE_EXPONENTS:
            top[:] = np.iinfo(np.int64).min
            for i, w in _arcs(csr, here):
                tree = level[w] == k + 1
                np.maximum.at(top, place[w[tree]], exponent[here[i[tree]]])
        count, parents = np.zeros(len(there)), np.zeros(len(there), np.int64)
        for i, w in _arcs(csr, here):
            tree = level[w] == k + 1
            to, of = place[w[tree]], here[i[tree]]
            shift = np.maximum(exponent[of] - top[to], -2000)
            count += np.bincount(to, np.ldexp(mantissa[of], shift), minlength=len(there))
            parents += np.bincount(to, minlength=len(there))
        mantissa[there], shift = np.frexp(count)
        exponent[there] = top + shift
        most += 2 * int(parents.max())
    dependency = np.zeros(n)
    for k in range(depth - 2, 0, -1):
        here = at_level[k]
        sums, children = np.zeros(len(here)), np.zeros(len(here), np.int64)
        for i, w in _arcs(csr, here):
            tree = level[w] == k + 1
            of, to = i[tree], w[tree]
            shift = np.clip(exponent[here[of]] - exponent[to], -2000, 2000)
            share = np.ldexp(mantissa[here[of]] / mantissa[to] * (1 + dependency[to]), shift)
            sums += np.bincount(of, share, minlength=len(here))
            children += np.bincount(of, minlength=len(here))
        dependency[here] = sums
        most += int(children.max()) + 3
    return Dependencies(dependency, level, float(np.finfo(np.float64).eps) * (most + 4))


def check_dependencies(dependency: npt.NDArray[Any], right: Floats, tolerance: float) -> CheckResult:
    """Whether each dependency is within `tolerance`, relative, of the right one; none may be lost or made
    up."""
    if dependency.shape != right.shape or dependency.dtype != np.float64:
        return CheckResult(
            False, f"dependencies are {dependency.dtype} {list(dependency.shape)}, not float64 {list(right.shape)}"
        )
    if not len(right):
        return CheckResult(True)
    with np.errstate(invalid="ignore"):
        off = np.abs(dependency - right)
        ratio = np.where(right > 0, off / np.where(right > 0, right, 1) / tolerance, np.where(off > 0, np.inf, 0))
    ratio[~np.isfinite(dependency)] = np.inf
    v = int(np.argmax(ratio))
    details = {"max_error_ratio": float(ratio[v]), "worst_vertex": v, "tolerance": tolerance}
    if ratio[v] <= 1:
        return CheckResult(True, "", details)
    return CheckResult(
        False,
        f"{int(np.sum(ratio > 1)):,} of {len(right):,} dependencies wrong, the worst is of vertex {v:,}: "
        f"{float(dependency[v])!r}, expected {float(right[v])!r} within {tolerance:.1e} of it",
        details,
    )


def scaled(total: Floats, sources: npt.NDArray[np.int32], everything: bool, normalize: str) -> Floats:
    """`total`, sums of dependencies over `sources`, as `normalize` says.

    none: as it is, a sum over ordered pairs of a source and a target (of an undirected graph from all sources
    each pair counts twice). pairs: divided by the number of pairs that a path through v could join, those
    of a source and a target that are both not v: (k - 1) (n - 2) for one of the k sources, k (n - 2) for
    another vertex. In a graph of two vertices or one nothing can be between others: 0. The only source of
    several vertices is known of no pair: NaN. That is
    ``networkx.betweenness_centrality(normalized=True)``, of all vertices or of `k` of them (networkx 3.6).

    everything : every vertex was asked for as a source; those that lead nowhere had nothing to add.
    """
    if normalize == "none":
        return total
    n = len(total)
    if n <= 2:
        return np.zeros(n)
    pairs = np.full(n, n if everything else len(sources), np.float64)
    pairs[slice(None) if everything else sources] -= 1
    pairs *= n - 2
    shares: Floats = np.divide(total, pairs, out=np.full(n, np.nan), where=pairs > 0)
    return shares


class BC(SourceProblem):
    """Dependencies of all vertices on one source after another: a case is a source, the answer their sum.

    Input ``sources`` int32 ``[cases]``; output ``dependency`` float64 ``[n]``, by the ids of the input. Edges
    have no weights here; self-loops are on no shortest path.
    """

    name = "bc"
    title = "betweenness centrality: dependencies on a vertex, summed over sources"
    outputs: tuple[str, ...] = ("dependency",)
    adds_up = True
    dtypes: tuple[str, ...] = ("float64",)
    options: Mapping[str, Parameter] = MappingProxyType(
        {
            **SOURCE_OPTIONS,
            "normalize": Parameter(
                "none",
                "sums over ordered pairs of source and target (none), or divided by the number of these (pairs)",
                choices=("none", "pairs"),
            ),
        }
    )

    def __init__(self, normalize: str = "none") -> None:
        self.normalize = normalize

    def configured(self, options: Mapping[str, Any]) -> BC:
        normalize = self.options["normalize"].checked("normalize", options.get("normalize", self.normalize))
        return BC(str(normalize))

    def inputs(self, matrix: Matrix, dtype: np.dtype[Any], seed: int, **options: Any) -> dict[str, npt.NDArray[Any]]:
        """As of every problem with sources. Also, ``everything`` bool ``[1]``: every vertex was asked
        for."""
        every_vertex = options.get("source", -1) == -1 and options.get("component") == "any"
        everything = every_vertex and options.get("sources", 0) >= matrix.csr.rows
        return {**super().inputs(matrix, dtype, seed, **options), "everything": np.array([everything])}

    def output_arrays(self, matrix: Matrix, dtype: np.dtype[Any]) -> dict[str, tuple[tuple[int, ...], np.dtype[Any]]]:
        return {"dependency": ((matrix.csr.rows,), np.dtype(np.float64))}

    def oracle(
        self,
        matrix: Matrix,
        inputs: Mapping[str, npt.NDArray[Any]],
        dtype: np.dtype[Any],
        check_seconds: float = 20,
        **_: Any,
    ) -> dict[str, npt.NDArray[Any]]:
        """Of the first cases, see :func:`first_answers`: ``dependency`` float64 ``[some, n]``, ``tolerance``
        float64 ``[some]``, ``levels`` and ``reached`` int64 ``[some]``. Of all cases ``edges`` int64
        ``[cases]``: what a breadth-first search's rate counts; 0 where that is not known, in directed graphs
        beyond the first cases and in graphs without an oracle. (The validator knows it of every case.)"""
        csr, sources = matrix.csr, inputs["sources"]
        degree = proper_degrees(csr)
        if csr.symmetric and has_oracle(csr):
            component = plain_components(csr)
            arcs = np.bincount(component, degree, minlength=csr.rows).astype(np.int64)
            edges = arcs[component[sources]] // 2
        else:
            edges = np.zeros(len(sources), np.int64)
        answers = first_answers(
            csr, sources, lambda source: plain_dependencies(csr, source), 8 * csr.rows, check_seconds
        )
        if not csr.symmetric:
            edges[: len(answers)] = [counted_edges(csr, degree, one.level >= 0) for one in answers]
        return {
            "dependency": np.array([one.dependency for one in answers]).reshape(len(answers), csr.rows),
            "tolerance": np.array([one.tolerance for one in answers]),
            "levels": np.array([int(one.level.max()) + 1 for one in answers], np.int64),
            "reached": np.array([int(np.sum(one.level >= 0)) for one in answers], np.int64),
            "edges": edges,
        }

    def check(
        self, output: npt.NDArray[Any], oracle: Mapping[str, npt.NDArray[Any]], dtype: np.dtype[Any]
    ) -> CheckResult:
        """Dependencies on the first case; :meth:`check_case` is what the runner calls."""
        return check_dependencies(output, oracle["dependency"][0], float(oracle["tolerance"][0]))

    def check_case(
        self,
        case: int,
        output: npt.NDArray[Any],
        csr: CSR,
        inputs: Mapping[str, npt.NDArray[Any]],
        oracle: Mapping[str, npt.NDArray[Any]],
    ) -> tuple[CheckResult, int]:
        """The outcome, and whether an oracle was there for this case."""
        if case < len(oracle["dependency"]):
            right, tolerance = oracle["dependency"][case], float(oracle["tolerance"][case])
            return check_dependencies(output, right, tolerance), True
        return CheckResult(True), False

    def describe_case(
        self,
        case: int,
        output: npt.NDArray[Any],
        csr: CSR,
        inputs: Mapping[str, npt.NDArray[Any]],
        oracle: Mapping[str, npt.NDArray[Any]],
    ) -> dict[str, Any]:
        """What a record keeps of a case: source and edges; levels and reached vertices where the oracle knows
        them."""
        facts = {"source": int(inputs["sources"][case]), "edges": int(oracle["edges"][case])}
        if case < len(oracle["levels"]):
            facts |= {name: int(oracle[name][case]) for name in ("levels", "reached")}
        return facts

    def total(self, added: npt.NDArray[Any], inputs: Mapping[str, npt.NDArray[Any]]) -> npt.NDArray[Any]:
        """The answer for all cases from the sum of their outputs."""
        return scaled(added, inputs["sources"], bool(inputs["everything"][0]), self.normalize)

    def columns(
        self, output: npt.NDArray[Any], csr: CSR, inputs: Mapping[str, npt.NDArray[Any]]
    ) -> dict[str, npt.NDArray[Any]]:
        """``betweenness``: see :func:`scaled`."""
        return {"betweenness": output}

    def summary(
        self,
        output: npt.NDArray[Any],
        facts: Mapping[str, Any],
        csr: CSR,
        inputs: Mapping[str, npt.NDArray[Any]],
        oracle: Mapping[str, npt.NDArray[Any]],
        ids: VertexLabels,
    ) -> dict[str, Any]:
        """``sources``, ``normalize``, and the vertices of highest betweenness."""
        values = np.nan_to_num(output, nan=-1.0)
        order = np.argsort(-values, kind="stable")[:_SHOWN]
        order = order[values[order] > 0]
        count = len(inputs["sources"])
        kind = "ordered pairs of a source and a target" + (
            "" if self.normalize == "none" else ", divided by the number of pairs it could be between"
        )
        from_all = bool(inputs["everything"][0])
        sources = "all vertices" if from_all else quantity(count, "source")
        return {
            "sources": count,
            "normalize": self.normalize,
            "said": [f"betweenness from {sources}: shares of shortest paths, over {kind}"],
            "table": {
                "title": f"highest betweenness, from {sources} (normalize {self.normalize})",
                "columns": ["vertex", "betweenness", "out-edges"],
                "numbers": order.tolist(),
                "rows": [[called(ids, v), float(output[v]), int(csr.row_ptr[v + 1] - csr.row_ptr[v])] for v in order],
            },
        }


register(BC())
