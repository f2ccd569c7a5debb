"""Shortest paths from a vertex: the least sum of weights to every vertex."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.errors import InputError, LaunchError
from spgraph_bench.matrix import CSR, Matrix, VertexLabels, called, with_labels
from spgraph_bench.parameters import Parameter
from spgraph_bench.problems.base import CheckResult, register
from spgraph_bench.problems.lengths import (
    INT32_MOST,
    check_lengths,
    check_predecessors,
    check_within,
    exact_lengths,
    length_text,
    predecessors,
    rounded_weights,
    unreached,
)
from spgraph_bench.problems.sources import SOURCE_OPTIONS, SourceProblem, counted_edges, first_answers, proper_degrees
from spgraph_bench.problems.weights import check_weights

__all__ = ["SSSP"]


class SSSP(SourceProblem):
    """Lengths of shortest paths from one source after another: a case is a source.

    Input ``sources`` int32 ``[cases]``; output ``distance`` [n], int32 or float32, by the ids of the input:
    2^31 - 1 or infinity where no path leads. An entry in row u, column v is an edge from u to v with the
    entry's value as its weight, 1 if the matrix has no values. Self-loops shorten nothing.

    With a cutoff, rounded to the lengths' type, vertices that are farther away count as not reached.
    """

    name = "sssp"
    parallel = "min"
    title = "shortest paths from a vertex, by weights of 0 or more"
    outputs: tuple[str, ...] = ("distance",)
    dtypes: tuple[str, ...] = ("float32", "int32")
    options: Mapping[str, Parameter] = MappingProxyType(
        {
            **SOURCE_OPTIONS,
            "cutoff": Parameter(
                -1.0,
                "longest path that is followed, what is farther is not reached; -1: no cutoff",
                between=(-1.0, 1e300),
            ),
        }
    )

    def __init__(self, cutoff: float = -1.0) -> None:
        self.cutoff = cutoff

    def configured(self, options: Mapping[str, Any]) -> SSSP:
        return SSSP(float(self.options["cutoff"].checked("cutoff", options.get("cutoff", self.cutoff))))

    def inputs(self, matrix: Matrix, dtype: np.dtype[Any], seed: int, **options: Any) -> dict[str, npt.NDArray[Any]]:
        """As of every problem with sources. InputError for weights that are negative, NaN or infinite, or
        that `dtype` cannot hold."""
        check_weights(matrix, dtype)
        return super().inputs(matrix, dtype, seed, **options)

    def output_arrays(self, matrix: Matrix, dtype: np.dtype[Any]) -> dict[str, tuple[tuple[int, ...], np.dtype[Any]]]:
        return {"distance": ((matrix.csr.rows,), np.dtype(dtype))}

    def oracle(
        self,
        matrix: Matrix,
        inputs: Mapping[str, npt.NDArray[Any]],
        dtype: np.dtype[Any],
        check_seconds: float = 20,
        **_: Any,
    ) -> dict[str, npt.NDArray[Any]]:
        """Of the first cases, see :func:`first_answers`: ``exact`` of `dtype`, ``real`` float64 and ``edges``
        int32, all ``[some, n]``, see :func:`exact_lengths`. Also, ``proper_degree`` int64 ``[n]``,
        out-edges without self-loops."""
        csr = matrix.csr
        kind = np.dtype(dtype)
        try:
            answers = first_answers(
                csr,
                inputs["sources"],
                lambda source: exact_lengths(csr, source, kind, self.cutoff),
                16 * csr.rows,
                check_seconds,
            )
        except InputError as error:
            error.cause = with_labels(error.cause, matrix.labels())
            raise
        none = [np.empty((0, csr.rows), each) for each in (kind, np.float64, np.int32)]
        exact, real, edges = (np.stack(each) for each in zip(*answers, strict=True)) if answers else none
        return {"exact": exact, "real": real, "edges": edges, "proper_degree": proper_degrees(csr)}

    def check(
        self, output: npt.NDArray[Any], oracle: Mapping[str, npt.NDArray[Any]], dtype: np.dtype[Any]
    ) -> CheckResult:
        """Lengths of the first case; :meth:`check_case` is what the runner calls."""
        return check_lengths(output, oracle["exact"][0])

    def check_case(
        self,
        case: int,
        output: npt.NDArray[Any],
        csr: CSR,
        inputs: Mapping[str, npt.NDArray[Any]],
        oracle: Mapping[str, npt.NDArray[Any]],
    ) -> tuple[CheckResult, bool]:
        """The outcome, and whether an oracle was there for this case. An answer in float64 (a CPU library's)
        is compared with float64's within its roundings."""
        if case >= len(oracle["exact"]):
            return CheckResult(True), False
        if output.dtype == np.float64:
            return check_within(output, oracle["real"][case], oracle["edges"][case]), True
        return check_lengths(output, oracle["exact"][case]), True

    def describe_case(
        self,
        case: int,
        output: npt.NDArray[Any],
        csr: CSR,
        inputs: Mapping[str, npt.NDArray[Any]],
        oracle: Mapping[str, npt.NDArray[Any]],
    ) -> dict[str, Any]:
        """What a record keeps of a case: source, reached vertices, the longest of the shortest paths, and the
        edges its rate counts."""
        reached = output != unreached(output.dtype)
        return {
            "source": int(inputs["sources"][case]),
            "reached": int(reached.sum()),
            "farthest": np.where(reached, output, 0).max().item(),
            "edges": counted_edges(csr, oracle["proper_degree"], reached),
        }

    def columns(
        self, output: npt.NDArray[Any], csr: CSR, inputs: Mapping[str, npt.NDArray[Any]]
    ) -> dict[str, npt.NDArray[Any]]:
        """``distance``, float64 where it is not float32: infinite where no path leads; and ``predecessor`` on
        a shortest path, of the source itself, -1 where none leads. Raises LaunchError where the lengths are
        of no tree, which lengths that passed the check cannot be."""
        kind = np.dtype(np.int32 if output.dtype == np.int32 else np.float32)
        weights = rounded_weights(csr, kind).astype(output.dtype)  # of a float64 answer: the same weights
        source = int(inputs["sources"][0])
        before = predecessors(csr, weights, source, output)
        if not (result := check_predecessors(csr, weights, source, output, before)).ok:
            raise LaunchError(result.message)
        distance = output if output.dtype != np.int32 else np.where(output == INT32_MOST, np.inf, output)
        return {"distance": distance, "predecessor": before}

    def summary(
        self,
        output: npt.NDArray[Any],
        facts: Mapping[str, Any],
        csr: CSR,
        inputs: Mapping[str, npt.NDArray[Any]],
        oracle: Mapping[str, npt.NDArray[Any]],
        ids: VertexLabels,
    ) -> dict[str, Any]:
        """``farthest``, the vertex of the longest path (``farthest_number`` counts from 0), ``length``, its
        length, and what the run tells: ``phases``, ``splits`` of the far pile, ``relaxed`` edges, ``delta``
        and ``last_delta``."""
        reached = np.flatnonzero(output != unreached(output.dtype))
        far = int(reached[np.argmax(output[reached])])
        facts_shown = {"farthest": called(ids, far), "farthest_number": far, "length": output[far].item(), **facts}
        sentences = [
            f"from {called(ids, inputs['sources'][0])} to {len(reached):,} of {csr.rows:,} vertices; "
            f"the farthest is {facts_shown['farthest']} at {length_text(output[far])}"
            + (f"; no path longer than {self.cutoff:g} is followed" if self.cutoff >= 0 else "")
        ]
        if "phases" in facts:
            line = f"{facts['phases']:,} phases"
            if facts.get("splits"):
                last = facts["last_delta"]
                grown = "" if last == facts["delta"] else f" to {last:g}" if last else " until nothing is far"
                line += f", {facts['splits']:,} of them splits of the far pile (delta {facts['delta']:g}{grown})"
            if "relaxed" in facts:
                arcs = int((csr.row_ptr[reached + 1] - csr.row_ptr[reached]).sum())
                share = facts["relaxed"] / max(arcs, 1)
                line += f"; {facts['relaxed']:,} edges relaxed, {share:.2f} times those it reaches"
            sentences.append(line)
        return {**facts_shown, "said": sentences}


register(SSSP())
