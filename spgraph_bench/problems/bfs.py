"""Breadth-first search: the least number of edges from a source to every vertex."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.matrix import CSR, Matrix, VertexLabels, called
from spgraph_bench.problems.base import CheckResult, register
from spgraph_bench.problems.sources import (
    SourceProblem,
    counted_edges,
    first_answers,
    levels_of,
    plain_levels,
    proper_degrees,
)
from spgraph_bench.stats import row_blocks

__all__ = ["BFS", "FOLLOWED", "check_levels", "check_tree", "plain_parents"]

FOLLOWED = 64
"""Most vertices of a graph whose searches are printed vertex by vertex."""


def check_levels(level: npt.NDArray[Any], right: npt.NDArray[np.int32]) -> CheckResult:
    """Equality with the levels of a plain search: they are unique."""
    if level.shape != right.shape or level.dtype != np.int32:
        return CheckResult(False, f"levels are {level.dtype} {list(level.shape)}, not int32 {list(right.shape)}")
    wrong = np.flatnonzero(level != right)
    if not len(wrong):
        return CheckResult(True)
    v = int(wrong[np.argmin(np.where(right[wrong] < 0, np.iinfo(np.int32).max, right[wrong]))])
    return CheckResult(
        False,
        f"{len(wrong):,} of {len(right):,} levels wrong, the first is of vertex {v:,}: {_word(level[v])}, "
        f"expected {_word(right[v])}",
        {"wrong_levels": len(wrong), "worst_vertex": v},
    )


def _word(level: Any) -> str:
    return "unreached" if level == -1 else f"{int(level):,}"


def check_tree(csr: CSR, source: int, level: npt.NDArray[np.int32], parent: npt.NDArray[Any]) -> CheckResult:
    """The five rules of Graph500's specification on parents, given levels.

    1 the tree has no cycle (every parent is one level above its child, the source its own parent), 2 tree
    edges span one level, 3 every edge spans at most one level or is wholly outside (directed: does not lead out
    of what is reached, nor down by more than one level), 4 the tree spans all that is reached and nothing
    else, 5 tree edges are edges of the graph.
    """
    n = csr.rows
    if parent.shape != (n,) or parent.dtype != np.int32:
        return CheckResult(False, f"parents are {parent.dtype} {list(parent.shape)}, not int32 [{n}]")
    if level[source] != 0 or parent[source] != source:
        return CheckResult(False, f"the source {source:,} must be its own parent at level 0 (rule 1)")
    reached = level >= 0
    inside = (parent >= 0) & (parent < n)
    if len(bad := np.flatnonzero(reached != inside)):
        v = int(bad[0])
        return CheckResult(False, f"vertex {v:,} is {_word(level[v])}, but has parent {int(parent[v]):,} (rule 4)")
    child = np.flatnonzero(reached)
    child = child[child != source]
    of = parent[child].astype(np.int64)
    if len(bad := np.flatnonzero(level[child] != level[of] + 1)):
        v, u = int(child[bad[0]]), int(of[bad[0]])
        return CheckResult(
            False, f"vertex {v:,} at level {level[v]} has parent {u:,} at level {level[u]} (rules 1 and 2)"
        )
    held = np.zeros(n, bool)
    for block in row_blocks(csr):
        row, cols = block.row_ids(), block.cols
        source_level, target_level = level[row], level[cols]
        steep = (source_level >= 0) & ((target_level < 0) | (target_level > source_level + 1))
        if len(bad := np.flatnonzero(steep)):
            u, v = int(row[bad[0]]), int(cols[bad[0]])
            return CheckResult(
                False, f"the edge {u:,} -> {v:,} leads from level {level[u]} to {_word(level[v])} (rule 3)"
            )
        held[cols[parent[cols] == row]] = True
    if len(bad := np.flatnonzero(~held[child])):
        v = int(child[bad[0]])
        return CheckResult(False, f"there is no edge {int(parent[v]):,} -> {v:,} (rule 5)")
    return CheckResult(True)


def plain_parents(csr: CSR, source: int, level: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """The least parent of each reached vertex, int32 ``[n]``: an in-neighbour one level above.

    The source's is itself; -1 where it does not reach. In numpy, from right levels."""
    none = np.iinfo(np.int32).max
    parent = np.full(csr.rows, none, np.int32)
    for block in row_blocks(csr, 1 << 24):
        row = block.row_ids()
        tree = (level[row] >= 0) & (level[block.cols] == level[row] + 1)
        np.minimum.at(parent, block.cols[tree], row[tree].astype(np.int32))
    parent[source] = source
    parent[parent == none] = -1
    return parent


class BFS(SourceProblem):
    """Levels from one source after another: a case is a source.

    Input ``sources`` int32 ``[cases]``; output ``level`` int32 ``[n]``, -1 where the source does not reach,
    by the ids of the input. Self-loops change nothing and are not counted as edges; edges that the input held
    twice are one edge since it was read.
    """

    name = "bfs"
    title = "breadth-first search: levels from a vertex"
    outputs: tuple[str, ...] = ("level",)
    dtypes: tuple[str, ...] = ("int32",)

    def output_arrays(self, matrix: Matrix, dtype: np.dtype[Any]) -> dict[str, tuple[tuple[int, ...], np.dtype[Any]]]:
        return {"level": ((matrix.csr.rows,), np.dtype(np.int32))}

    def oracle(
        self,
        matrix: Matrix,
        inputs: Mapping[str, npt.NDArray[Any]],
        dtype: np.dtype[Any],
        check_seconds: float = 20,
        **_: Any,
    ) -> dict[str, npt.NDArray[Any]]:
        """``levels`` int32 ``[some, n]`` of the first cases, see :func:`first_answers`; ``proper_degree``
        int64 ``[n]``, out-edges without self-loops."""
        csr = matrix.csr
        levels = first_answers(
            csr, inputs["sources"], lambda source: plain_levels(csr, source), 4 * csr.rows, check_seconds
        )
        held = np.stack(levels) if levels else np.empty((0, csr.rows), np.int32)
        return {"levels": held, "proper_degree": proper_degrees(csr)}

    def check(
        self, output: npt.NDArray[Any], oracle: Mapping[str, npt.NDArray[Any]], dtype: np.dtype[Any]
    ) -> CheckResult:
        """Levels of the first case; :meth:`check_case` is what the runner calls."""
        return check_levels(output, oracle["levels"][0])

    def check_case(
        self,
        case: int,
        output: npt.NDArray[Any],
        csr: CSR,
        inputs: Mapping[str, npt.NDArray[Any]],
        oracle: Mapping[str, npt.NDArray[Any]],
    ) -> tuple[CheckResult, int]:
        """The outcome, and whether an oracle was there for this case.

        `output` is the levels, or levels and parents as two rows; parents are checked in every case.
        """
        level = levels_of(output)
        known = case < len(oracle["levels"])
        result = check_levels(level, oracle["levels"][case]) if known else CheckResult(True)
        if result.ok and output.ndim == 2:
            result = check_tree(csr, int(inputs["sources"][case]), level, output[1])
        return result, known

    def describe_case(
        self,
        case: int,
        output: npt.NDArray[Any],
        csr: CSR,
        inputs: Mapping[str, npt.NDArray[Any]],
        oracle: Mapping[str, npt.NDArray[Any]],
    ) -> dict[str, Any]:
        """What a record keeps of a case: source, levels, reached vertices, and the edges its rate counts."""
        level = levels_of(output)
        reached = level >= 0
        return {
            "source": int(inputs["sources"][case]),
            "levels": int(level.max()) + 1,
            "reached": int(reached.sum()),
            "edges": counted_edges(csr, oracle["proper_degree"], reached),
        }

    def columns(
        self, output: npt.NDArray[Any], csr: CSR, inputs: Mapping[str, npt.NDArray[Any]]
    ) -> dict[str, npt.NDArray[Any]]:
        """``level`` (-1: not reached) and ``parent``: the kernel's where it found them, else those of
        :func:`plain_parents`."""
        level, source = levels_of(output), int(inputs["sources"][0])
        parent = output[1] if output.ndim == 2 else plain_parents(csr, source, level)
        return {"level": level, "parent": parent}

    def summary(
        self,
        output: npt.NDArray[Any],
        facts: Mapping[str, Any],
        csr: CSR,
        inputs: Mapping[str, npt.NDArray[Any]],
        oracle: Mapping[str, npt.NDArray[Any]],
        ids: VertexLabels,
    ) -> dict[str, Any]:
        """What the run tells of itself (frontier-private: ``places``, ``spills``). Of a graph of at most
        FOLLOWED vertices also ``level_vertices``: the frontier of each level, and ``found_by``: who found
        each of them (the least parent, or the kernel's where it kept them), both as the input calls them."""
        facts_shown: dict[str, Any] = dict(facts)
        if "spills" in facts:
            facts_shown["said"] = [
                f"a block's own queue holds {facts['places']:,} vertices; full, and emptied, "
                f"{facts['spills']:,} times before the end of a level"
            ]
        if csr.rows > FOLLOWED:
            return facts_shown
        level = levels_of(output)
        parent = self.columns(output, csr, inputs)["parent"]
        frontiers = [np.flatnonzero(level == k) for k in range(int(level.max(initial=-1)) + 1)]
        return facts_shown | {
            "level_vertices": [[called(ids, v) for v in frontier] for frontier in frontiers],
            "found_by": [
                [called(ids, parent[v]) for v in frontier] if k else [] for k, frontier in enumerate(frontiers)
            ],
        }


register(BFS())
