"""Betweenness in batches: the dependencies on up to 64 sources from one run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.matrix import CSR, Matrix, VertexLabels
from spgraph_bench.problems.base import register
from spgraph_bench.problems.bc import BC
from spgraph_bench.problems.sources import BatchProblem

__all__ = ["BCBatch"]


class BCBatch(BatchProblem, BC):
    """Dependencies on several sources in a run: a case is a batch, the answer the sum over all sources.

    Input as :class:`BatchProblem` has it; output ``dependency`` float64 ``[n, width]``, of which a launch gives a row
    for each source. Each row is what :class:`BC` has.
    """

    name = "bc-batch"
    title = "betweenness centrality from up to 64 vertices together"

    def __init__(self, width: int = 64, normalize: str = "none") -> None:
        self.width, self.normalize = width, normalize

    def configured(self, options: Mapping[str, Any]) -> BCBatch:
        return BCBatch(self.width_of(options), super().configured(options).normalize)

    def output_arrays(self, matrix: Matrix, dtype: np.dtype[Any]) -> dict[str, tuple[tuple[int, ...], np.dtype[Any]]]:
        return {"dependency": ((matrix.csr.rows, self.width), np.dtype(np.float64))}

    def describe_case(
        self,
        case: int,
        output: npt.NDArray[Any],
        csr: CSR,
        inputs: Mapping[str, npt.NDArray[Any]],
        oracle: Mapping[str, npt.NDArray[Any]],
    ) -> dict[str, Any]:
        """What a record keeps of a batch: its first source, how many it has, and edges, those of each search counted
        for each."""
        sources, first = self.sources_of(case, inputs), case * self.width
        edges = int(oracle["edges"][first : first + len(sources)].sum())
        return {"source": sources[0], "sources": len(sources), "edges": edges}

    def total(self, added: npt.NDArray[Any], inputs: Mapping[str, npt.NDArray[Any]]) -> npt.NDArray[Any]:
        """The answer for all sources from the sum of their outputs."""
        return super().total(added, self.in_turn(inputs))

    def summary(
        self,
        output: npt.NDArray[Any],
        facts: Mapping[str, Any],
        csr: CSR,
        inputs: Mapping[str, npt.NDArray[Any]],
        oracle: Mapping[str, npt.NDArray[Any]],
        ids: VertexLabels,
    ) -> dict[str, Any]:
        """As :meth:`BC.summary`."""
        return super().summary(output, facts, csr, self.in_turn(inputs), oracle, ids)


register(BCBatch())
