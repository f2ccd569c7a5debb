"""Breadth-first searches in batches: the levels of up to 64 sources from one run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.matrix import CSR, Matrix
from spgraph_bench.problems.base import register
from spgraph_bench.problems.bfs import BFS
from spgraph_bench.problems.sources import BatchProblem, counted_edges

__all__ = ["BFSBatch"]


class BFSBatch(BatchProblem, BFS):
    """Levels from several sources in a run: a case is a batch.

    Input as :class:`BatchProblem` has it; output ``level`` int32 ``[width, n]``, of which a launch gives the rows that
    have a source. Each row is what :class:`BFS` has.
    """

    name = "bfs-batch"
    title = "breadth-first search from up to 64 vertices together: levels from each"

    def configured(self, options: Mapping[str, Any]) -> BFSBatch:
        return BFSBatch(self.width_of(options))

    def output_arrays(self, matrix: Matrix, dtype: np.dtype[Any]) -> dict[str, tuple[tuple[int, ...], np.dtype[Any]]]:
        return {"level": ((self.width, matrix.csr.rows), np.dtype(np.int32))}

    def describe_case(
        self,
        case: int,
        output: npt.NDArray[Any],
        csr: CSR,
        inputs: Mapping[str, npt.NDArray[Any]],
        oracle: Mapping[str, npt.NDArray[Any]],
    ) -> dict[str, Any]:
        """What a record keeps of a batch: its first source, how many it has, the levels of the deepest search,
        and vertices and edges, those of each search counted for each."""
        sources = self.sources_of(case, inputs)
        reached = [level >= 0 for level in output]
        return {
            "source": sources[0],
            "sources": len(sources),
            "levels": int(output.max()) + 1,
            "reached": sum(int(each.sum()) for each in reached),
            "edges": sum(counted_edges(csr, oracle["proper_degree"], each) for each in reached),
        }

    def columns(
        self, output: npt.NDArray[Any], csr: CSR, inputs: Mapping[str, npt.NDArray[Any]]
    ) -> dict[str, npt.NDArray[Any]]:
        """As :meth:`BFS.columns`, of the first source."""
        return super().columns(output[0], csr, self.in_turn(inputs))

    def summary(self, output: npt.NDArray[Any], facts: Mapping[str, Any], *rest: Any) -> dict[str, Any]:
        """The run's own facts."""
        return dict(facts)


register(BFSBatch())
