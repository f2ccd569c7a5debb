"""Whether levels, and perhaps parents, are those of a breadth-first search."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.device.base import Buffer
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
from spgraph_bench.validate.search import reached_from

__all__ = ["BFSBatchValidator", "BFSValidator", "find_faults"]

Words = npt.NDArray[np.int32]

SOURCE, RANGE, ANOTHER, MISSED, STEEP, UNSUPPORTED, ROOT, STRAY, SPAN, NO_EDGE = range(10)
"""The rules, numbered as in cuda/check/bfs.cu."""

_MOST_LEVELS = 1000
"""Beyond so many levels the plain search, one launch a level, is left to the rules alone."""


def _level(level: Any) -> str:
    return "unreached" if level == -1 else f"at level {int(level):,}"


def _is(v: int, level: Words) -> str:
    return f"vertex {v:,} is {_level(level[v])}"


def _above(v: int, level: Words) -> str:
    return f"level {int(level[v]) - 1:,}"


_RULES = (
    Rule(lambda v, level, parent: f"the source {v:,} is {_level(level[v])}, not at level 0"),
    Rule(lambda v, level, parent: f"vertex {v:,} is at {int(level[v]):,}, which is not a level"),
    Rule(lambda v, level, parent: f"{_is(v, level)} and not the source"),
    Rule(lambda v, level, parent: f"{_is(v, level)}, yet an edge from a reached vertex leads to it"),
    Rule(lambda v, level, parent: f"{_is(v, level)}, yet an edge leads to it from above {_above(v, level)}"),
    Rule(lambda v, level, parent: f"{_is(v, level)}, yet no edge leads to it from {_above(v, level)}"),
    Rule(lambda v, level, parent: f"the source {v:,} has parent {int(parent[v]):,}, not itself"),
    Rule(lambda v, level, parent: f"{_is(v, level)} and has parent {int(parent[v]):,}"),
    Rule(lambda v, level, parent: f"{_is(v, level)} and has parent {int(parent[v]):,} {_level(level[parent[v]])}"),
    Rule(lambda v, level, parent: f"vertex {v:,} has parent {int(parent[v]):,}, which has no edge to it"),
)


def find_faults(csr: CSR, source: int, level: Words, parent: Words | None) -> Faults:
    """The numpy form: one pass over the edges. `level`, `parent`: int32 ``[n]``."""
    n, faults = csr.rows, Faults.none(len(_RULES))
    vertex = np.arange(n, dtype=np.int32)
    faults.add(RANGE, vertex[(level < -1) | (level >= n)])
    clean = np.where((level >= 0) & (level < n), level, -1)
    faults.add(SOURCE, vertex[source : source + 1][clean[source : source + 1] != 0])
    faults.add(ANOTHER, vertex[(clean == 0) & (vertex != source)])
    if parent is not None:
        is_vertex = (parent >= 0) & (parent < n)
        faults.add(ROOT, vertex[source : source + 1][parent[source : source + 1] != source])
        stray = np.where(clean < 0, parent != -1, ~is_vertex)
        stray[source] = False
        faults.add(STRAY, vertex[stray])
        child = vertex[(clean >= 0) & ~stray]
        child = child[child != source]
        faults.add(SPAN, child[clean[parent[child]] != clean[child] - 1])
    supported, adopted = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
    for block in row_blocks(csr, EDGES_AT_ONCE):
        lengths, cols = np.diff(block.row_ptr), block.cols
        ours, theirs = np.repeat(clean[block.first : block.last], lengths), clean[cols]
        live = ours >= 0
        if (bad := live & (theirs < 0)).any():
            faults.add(MISSED, cols[bad])
        step = theirs - ours
        if (bad := live & (step > 1)).any():
            faults.add(STEEP, cols[bad])
        supported[cols[live & (step == 1)]] = True
        if parent is not None:
            adopted[cols[live & (parent[cols] == np.repeat(vertex[block.first : block.last], lengths))]] = True
    inner = vertex != source
    faults.add(UNSUPPORTED, vertex[inner & (clean > 0) & ~supported])
    if parent is not None:
        faults.add(NO_EDGE, vertex[inner & (clean >= 0) & is_vertex & ~adopted])
    return faults


def _on_device(graph: Graph, source: int, level: Words, parent: Words | None) -> Faults:
    """The same by kernels."""
    assert graph.device is not None
    faults = DeviceFaults(graph.device, len(_RULES))
    levels = graph.upload(level)
    tree: Buffer | None = None if parent is None else graph.upload(parent)
    supported, adopted = graph.zeros(len(level), np.uint8), graph.zeros(len(level), np.uint8)
    start = np.int32(source)
    report = (faults.counts, faults.least)
    graph.per_vertex(graph.kernel("bfs", "check_bfs_vertices"), graph.n, start, levels, tree, *report)
    graph.per_row(
        graph.kernel("bfs", "check_bfs_edges"),
        graph.n,
        graph.row_ptr,
        graph.col,
        levels,
        tree,
        supported,
        adopted,
        *report,
    )
    graph.per_vertex(
        graph.kernel("bfs", "check_bfs_support"), graph.n, start, levels, tree, supported, adopted, *report
    )
    return faults.read()


@validates
class BFSValidator(Validator):
    """Levels and parents from one source.

    The rules: the source is at level 0 and no other vertex is; no edge leads from a reached vertex to an
    unreached one, or down by more than one level; an edge leads to every other reached vertex from one level
    above. So every vertex that can be reached is, at most as deep as its distance (by induction along a
    shortest path), and nothing is less deep than its distance (by induction over levels). Also, as many
    vertices are reached as a plain search reaches, where the answer has at most 1,000 levels.

    Parents: the source's is itself, an unreached vertex has -1, every other one has a vertex one level above
    from which an edge leads to it (Graph500's five rules, with the levels above).
    """

    name = "bfs"
    rules = _RULES

    @classmethod
    def sources(cls, dtype: np.dtype[Any]) -> list[tuple[str, dict[str, str]]]:
        return [("bfs", {}), ("search", {})]

    def faults(self, source: int, level: Words, parent: Words | None) -> Faults:
        """What breaks the rules in `level` and `parent` (int32 [vertices]), on device or host."""
        if self.graph.device is None:
            return find_faults(self.graph.csr, source, level, parent)
        return _on_device(self.graph, source, level, parent)

    def check(self, output: npt.NDArray[Any], source: int = -1) -> Checked:
        """`output`: levels int32 ``[n]``, or levels and parents as two rows."""
        n = self.graph.csr.rows
        if output.dtype != np.int32 or output.shape not in ((n,), (2, n)):
            return Checked(CheckResult(False, f"levels are {output.dtype} {list(output.shape)}, not int32 [{n}]"))
        level, parent = (output[0], output[1]) if output.ndim == 2 else (output, None)
        result = verdict(_RULES, self.faults(source, level, parent), level, output[-1])
        if result.ok and int(level.max()) < _MOST_LEVELS:
            reached = int(np.count_nonzero(level >= 0))
            right = reached_from(self.graph, source)
            if reached != right:
                result = CheckResult(False, f"{reached:,} vertices are reached, a plain search reaches {right:,}")
        return Checked(result)


@validates
class BFSBatchValidator(BFSValidator):
    """The same for each source of a batch, one after another."""

    name = "bfs-batch"
