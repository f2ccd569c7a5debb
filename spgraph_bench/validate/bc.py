"""Whether dependencies are those of shortest paths from a source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.matrix import CSR
from spgraph_bench.problems.base import CheckResult
from spgraph_bench.stats import row_blocks
from spgraph_bench.validate.base import (
    EDGES_AT_ONCE,
    Checked,
    DeviceFaults,
    Faults,
    Graph,
    Rule,
    Validator,
    validates,
    verdict,
)
from spgraph_bench.validate.search import count_paths, count_paths_on_device

__all__ = ["BCBatchValidator", "BCValidator", "Inspection", "find_faults"]

Floats = npt.NDArray[np.float64]

NUMBER, OUTSIDE, EQUATION = range(3)
"""The rules, numbered as in cuda/check/bc.cu."""

_EPS = float(np.finfo(np.float64).eps)


def _dependency_text(v: int, dependency: Floats) -> str:
    return f"the dependency of vertex {v:,} is {float(dependency[v])!r}"


_RULES = (
    Rule(_dependency_text),
    Rule(lambda v, dependency: f"{_dependency_text(v, dependency)}, yet it is the source or not reached"),
    Rule(lambda v, dependency: f"{_dependency_text(v, dependency)}, which is not what its successors have"),
)


@dataclass(frozen=True)
class Inspection:
    """What the rules find, and the sums that must agree."""

    faults: Faults
    total: float
    """Sum of the dependencies."""
    pairs: int
    """Sum of levels less one, over the reached vertices but the source."""
    tolerance: float
    """Of that sum, relative."""
    facts: dict[str, int]
    """Levels, reached vertices and the edges between them, undirected ones once, without loops."""


def _tolerances(predecessors: int, successors: int, levels: int, vertices: int) -> tuple[float, float]:
    """Of the equation of one vertex, and of the sum of all dependencies, relative."""
    one = _EPS * (2 * predecessors + successors + 8)
    return one, _EPS * (2 * predecessors + (successors + 3) * levels + 8 + vertices)


def _facts(csr: CSR, levels: int, reached: int, arcs: int) -> dict[str, int]:
    return {"levels": levels, "reached": reached, "edges": arcs // 2 if csr.symmetric else arcs}


def find_faults(csr: CSR, source: int, dependency: Floats) -> Inspection:
    """The numpy form: a search that counts paths, and one more pass over the edges."""
    n, faults = csr.rows, Faults.none(len(_RULES))
    counted = count_paths(csr, source)
    level, depth = counted.level, len(counted.scale)
    right, successors, arcs = np.zeros(n), np.zeros(n, np.int64), 0
    with np.errstate(all="ignore"):
        ours = np.where(level >= 0, counted.paths * counted.scale[np.clip(level, 0, depth - 1)], 0)
        for block in row_blocks(csr, EDGES_AT_ONCE):
            lengths = np.diff(block.row_ptr)
            mine = np.repeat(level[block.first : block.last], lengths)
            tree = (mine >= 0) & (level[block.cols] == mine + 1)
            sources = np.repeat(np.arange(block.first, block.last), lengths)
            row, successor = sources[tree], block.cols[tree]
            share = ours[row] / counted.paths[successor] * (1 + dependency[successor])
            row, rows = row - block.first, block.last - block.first
            arcs += int(np.count_nonzero(block.cols[mine >= 0] != sources[mine >= 0]))
            right[block.first : block.last] += np.bincount(row, share, minlength=rows)
            successors[block.first : block.last] += np.bincount(row, minlength=rows)
        one, all_of_them = _tolerances(counted.predecessors, int(successors.max(initial=0)), depth, n)
        number = (dependency >= 0) & np.isfinite(dependency)
        inside = level > 0
        vertex = np.arange(n)
        faults.add(NUMBER, vertex[~number])
        faults.add(OUTSIDE, vertex[number & ~inside & (dependency != 0)])
        faults.add(EQUATION, vertex[number & inside & ~(np.abs(dependency - right) <= one * right)])
        total = float(dependency.sum())
    return Inspection(
        faults,
        total,
        int((level[inside] - 1).sum(dtype=np.int64)),
        all_of_them,
        _facts(csr, depth, counted.reached, arcs),
    )


def _on_device(graph: Graph, source: int, dependency: Floats) -> Inspection:
    """The same by kernels."""
    assert graph.device is not None
    n = graph.csr.rows
    counted = count_paths_on_device(graph, source)
    depth = len(counted.scale)
    given, right, successors = graph.upload(dependency), graph.zeros(n, np.float64), graph.zeros(1, np.int32)
    faults, arcs = DeviceFaults(graph.device, len(_RULES)), graph.zeros(1, np.uint64)
    sums, pairs = graph.zeros(1, np.float64), graph.zeros(1, np.uint64)
    graph.per_row(
        graph.kernel("bc", "check_bc_edges"),
        graph.n,
        graph.row_ptr,
        graph.col,
        counted.level,
        counted.paths,
        graph.upload(counted.scale),
        given,
        right,
        successors,
        arcs,
    )
    one, all_of_them = _tolerances(counted.predecessors, int(graph.download(successors)[0]), depth, n)
    graph.strided(
        graph.kernel("bc", "check_bc_vertices"),
        graph.n,
        np.int32(source),
        counted.level,
        given,
        right,
        np.float64(one),
        faults.counts,
        faults.least,
        sums,
        pairs,
    )
    return Inspection(
        faults.read(),
        float(graph.download(sums)[0]),
        int(graph.download(pairs)[0]),
        all_of_them,
        _facts(graph.csr, depth, counted.reached, int(graph.download(arcs)[0])),
    )


@validates
class BCValidator(Validator):
    """Dependencies on one source, by a plain search that counts shortest paths.

    The rules: a dependency is a number and not negative, 0 of the source and of what is not reached; that of
    any other vertex v is ``sum count(v) / count(w) (1 + dependency(w))`` over its successors w (Brandes,
    2001). From the last level up that equation has one solution. Also, all dependencies add up to the sum
    of (distance - 1) over the reached vertices, since a shortest path to t has so many vertices inside.

    Tolerances: a count is a sum along the levels, off by eps / 2 times P, the most predecessors of each level
    added up; two counts differ by twice that at most. The equation takes the answer's own values, so only
    its S additions and some other roundings come on top: ``eps (2 P + S + 8)``. For the sum the errors of
    all levels add up.
    """

    name = "bc"
    rules = _RULES
    bytes_per_vertex = 64

    @classmethod
    def sources(cls, dtype: np.dtype[Any]) -> list[tuple[str, dict[str, str]]]:
        return [("bc", {}), ("search", {})]

    def measured(self, source: int, dependency: Floats) -> Inspection:
        """What breaks the rules in `dependency` (float64 [vertices]), on device or host."""
        if self.graph.device is None:
            return find_faults(self.graph.csr, source, dependency)
        return _on_device(self.graph, source, dependency)

    def check(self, output: npt.NDArray[Any], source: int = -1) -> Checked:
        """`output`: dependencies float64 ``[n]``."""
        n = self.graph.csr.rows
        if output.dtype != np.float64 or output.shape != (n,):
            error = f"dependencies are {output.dtype} {list(output.shape)}, not float64 [{n}]"
            return Checked(CheckResult(False, error))
        sums = self.measured(source, output)
        result = verdict(_RULES, sums.faults, output)
        if result.ok and not abs(sums.total - sums.pairs) <= sums.tolerance * sums.pairs:
            result = CheckResult(
                False, f"the dependencies add up to {sums.total!r}, distances less one to {sums.pairs:,}"
            )
        return Checked(result, sums.facts)


@validates
class BCBatchValidator(BCValidator):
    """The same for each source of a batch, one after another."""

    name = "bc-batch"
