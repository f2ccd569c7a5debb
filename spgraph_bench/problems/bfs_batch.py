"""Breadth-first searches in batches: the levels of up to 64 sources from one run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.matrix import CSR, Matrix
from spgraph_bench.problems.base import CheckResult, filled_options, register
from spgraph_bench.problems.bfs import BFS, check_levels
from spgraph_bench.problems.sources import batches, counted_edges

__all__ = ["BFSBatch"]


class BFSBatch(BFS):
    """Levels from several sources in a run: a case is a batch.

    Input ``sources`` int32 ``[cases, width]``, -1 where the last batch has fewer; output ``level`` int32
    ``[width, n]``, of which a launch gives the rows that have a source. Each row is what :class:`BFS` has.
    """

    name = "bfs-batch"
    title = "breadth-first search from up to 64 vertices together: levels from each"
    is_batch = True

    def __init__(self, width: int = 64) -> None:
        self.width = width

    def configured(self, options: Mapping[str, Any]) -> BFSBatch:
        """Batches of 64 sources, or of as many as there are, if fewer. Raises UsageError for bad options."""
        filled = filled_options(self, options)
        return BFSBatch(1 if filled["source"] != -1 else min(64, int(filled["sources"])))

    def inputs(self, matrix: Matrix, dtype: np.dtype[Any], seed: int, **options: Any) -> dict[str, npt.NDArray[Any]]:
        given = super().inputs(matrix, dtype, seed, **options)
        return {**given, "sources": batches(given["sources"], self.width)}

    def output_arrays(self, matrix: Matrix, dtype: np.dtype[Any]) -> dict[str, tuple[tuple[int, ...], np.dtype[Any]]]:
        return {"level": ((self.width, matrix.csr.rows), np.dtype(np.int32))}

    def answers_of(self, output: npt.NDArray[Any]) -> Sequence[npt.NDArray[Any]]:
        return list(output)

    def oracle(
        self,
        matrix: Matrix,
        inputs: Mapping[str, npt.NDArray[Any]],
        dtype: np.dtype[Any],
        check_seconds: float = 20,
        **_: Any,
    ) -> dict[str, npt.NDArray[Any]]:
        """As :meth:`BFS.oracle` has it: ``levels`` of the first sources, in the order of batches."""
        flat = inputs["sources"].reshape(-1)
        return super().oracle(matrix, {"sources": flat[flat >= 0]}, dtype, check_seconds)

    def check_case(
        self,
        case: int,
        output: npt.NDArray[Any],
        csr: CSR,
        inputs: Mapping[str, npt.NDArray[Any]],
        oracle: Mapping[str, npt.NDArray[Any]],
    ) -> tuple[CheckResult, int]:
        """The outcome, and of how many sources of the batch the oracle knows the levels."""
        sources = self.sources_of(case, inputs)
        if output.shape != (len(sources), csr.rows) or output.dtype != np.int32:
            shape = [len(sources), csr.rows]
            return CheckResult(False, f"levels are {output.dtype} {list(output.shape)}, not int32 {shape}"), 0
        right = oracle["levels"][case * self.width : case * self.width + len(sources)]
        for source, level, expected in zip(sources, output, right, strict=False):
            result = check_levels(level, expected)
            if not result.ok:
                return CheckResult(False, f"from source {source:,}: {result.message}", result.details), len(right)
        return CheckResult(True), len(right)

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
        return super().columns(output[0], csr, {"sources": inputs["sources"][0]})

    def summary(self, output: npt.NDArray[Any], facts: Mapping[str, Any], *rest: Any) -> dict[str, Any]:
        """The run's own facts."""
        return dict(facts)


register(BFSBatch())
