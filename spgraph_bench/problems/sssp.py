"""Shortest paths from a vertex: the least sum of weights to every vertex."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.errors import InputError, LaunchError
from spgraph_bench.formats.common import ranges
from spgraph_bench.matrix import CSR, Matrix, VertexLabels, called, with_labels
from spgraph_bench.parameters import Parameter
from spgraph_bench.problems.base import CheckResult, register
from spgraph_bench.problems.sources import SOURCE_OPTIONS, SourceProblem, counted_edges, first_answers, proper_degrees
from spgraph_bench.stats import row_blocks

__all__ = [
    "SSSP",
    "WALK_FAULTS",
    "check_lengths",
    "check_predecessors",
    "exact_lengths",
    "predecessors",
    "refuse_weights",
    "rounded_cutoff",
    "shortest_paths",
    "unreached",
]

Values = npt.NDArray[np.float64]

_EDGES_AT_ONCE = 1 << 23
_INT32_MOST = 2**31 - 1
_WHOLE_FLOATS = 2.0**24
"""Every whole number below this is a float32."""
_INFINITE_FLOAT = 2.0**128 - 2.0**103
"""From here on a float64 is rounded to an infinite float32."""


def unreached(dtype: npt.DTypeLike) -> Any:
    """The length of a vertex that no path leads to: 2^31 - 1, or infinity."""
    kind: Any = np.dtype(dtype).type
    return kind(_INT32_MOST if kind is np.int32 else np.inf)


Faults = tuple[tuple[str, Callable[[Values], npt.NDArray[np.bool_]], str], ...]
"""What a weight may not be, whether each is that, and the remedy."""

WALK_FAULTS: Faults = (
    ("not a number", np.isnan, "correct them, or take --values ones"),
    ("negative", lambda v: v < 0, "weights of 0 or more are needed; --values ones ignores them"),
    ("infinite", np.isinf, "omit such edges"),
)
"""Of weights that lengths or chances are made of."""
_INT_FAULTS: Faults = (
    ("not a whole number", lambda v: v != np.floor(v), "take --dtype float32"),
    (f"beyond {_INT32_MOST - 1:,}", lambda v: v > _INT32_MOST - 1, "take --dtype float32"),
)
_FLOAT_FAULTS: Faults = (("beyond float32", lambda v: v >= _INFINITE_FLOAT, "omit such edges, or scale all weights"),)


def check_weights(matrix: Matrix, dtype: np.dtype[Any]) -> None:
    """InputError, with the place of the first, for weights for which no shortest path exists."""
    refuse_weights(matrix, WALK_FAULTS + (_INT_FAULTS if dtype == np.int32 else _FLOAT_FAULTS))


def refuse_weights(matrix: Matrix, faults: Faults) -> None:
    """InputError, with the place of the first, for weights with one of `faults`."""
    csr = matrix.csr
    if csr.values is None:
        return
    for what, test, remedy in faults:
        entry, count = -1, 0
        for begin in range(0, csr.nnz, _EDGES_AT_ONCE):
            bad = np.flatnonzero(test(csr.values[begin : begin + _EDGES_AT_ONCE]))
            if len(bad) and entry < 0:
                entry = begin + int(bad[0])
            count += len(bad)
        if not count:
            continue
        u = int(np.searchsorted(csr.row_ptr, entry, side="right")) - 1
        v = int(csr.col_idx[entry])
        ids = matrix.labels()
        line = matrix.line_of(u, v)
        place = matrix.source.text + (f":{line}" if line else "")
        more = f" ({count:,} edges in all)" if count > 1 else ""
        raise InputError(
            f"the weight of the edge {called(ids, u)} -> {called(ids, v)} is {what}: {csr.values[entry]:g}{more}",
            place=place,
            remedy=remedy,
        )


def _rounded(csr: CSR, dtype: np.dtype[Any]) -> npt.NDArray[np.float64]:
    """The weights as a kernel gets them, in float64."""
    if csr.values is None:
        return np.ones(csr.nnz)
    with np.errstate(over="ignore"):
        return csr.values.astype(dtype).astype(np.float64)


def rounded_cutoff(cutoff: float, dtype: np.dtype[Any]) -> Any:
    """The longest length that is kept, as a scalar of `dtype`; None where `cutoff` is negative: all are."""
    if cutoff < 0:
        return None
    if dtype == np.int32:
        return np.int32(min(math.floor(cutoff), _INT32_MOST - 1))
    with np.errstate(over="ignore"):
        return np.float32(min(np.float32(cutoff), np.finfo(np.float32).max))


def shortest_paths(
    csr: CSR, weights: npt.NDArray[np.float64], source: int, limit: float = np.inf
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int32]]:
    """Lengths float64 ``[rows]`` (infinite where no path leads, or none of at most `limit`) and each vertex's
    predecessor (negative where it has none), by scipy's Dijkstra in float64: the oracle."""
    import scipy.sparse as sp
    from scipy.sparse.csgraph import dijkstra

    graph = sp.csr_array((weights, csr.col_idx, csr.row_ptr), shape=csr.shape)
    search: Any = dijkstra  # scipy's stubs do not know a single index
    length, before = search(graph, directed=True, indices=source, return_predecessors=True, limit=limit)
    return length, before


def _down_the_tree(
    csr: CSR, weight: npt.NDArray[Any], before: npt.NDArray[np.int32], source: int, dtype: np.dtype[Any]
) -> tuple[npt.NDArray[Any], npt.NDArray[np.int32]]:
    """Lengths along a tree of predecessors, added up in `dtype` from the source on; edges on each path."""
    n = csr.rows
    length, edges = np.full(n, unreached(dtype), dtype), np.zeros(n, np.int32)
    length[source] = 0
    child = np.flatnonzero(before >= 0)
    parent = before[child].astype(np.int64)
    # Where the edge from each one's parent is: edges are sorted by row * cols + column.
    width = np.int64(csr.cols)
    place = np.empty(len(child), np.int64)
    order = np.argsort(parent * width + child)
    wanted = (parent * width + child)[order]
    for block in row_blocks(csr, _EDGES_AT_ONCE):
        have = block.row_ids().astype(np.int64) * width + block.cols
        first, last = np.searchsorted(wanted, have[[0, -1]] + np.array([0, 1])) if len(have) else (0, 0)
        place[order[first:last]] = block.entries.start + np.searchsorted(have, wanted[first:last])
    step = weight[place]
    by_parent = np.argsort(parent, kind="stable")
    starts = np.searchsorted(parent[by_parent], np.arange(n + 1))
    frontier, depth = np.array([source]), 0
    while len(frontier):
        depth += 1
        first = starts[frontier]
        edge = by_parent[ranges(first, starts[frontier + 1] - first)]
        frontier = child[edge]
        length[frontier] = length[parent[edge]] + step[edge]
        edges[frontier] = depth
    return length, edges


def exact_lengths(
    csr: CSR, source: int, dtype: np.dtype[Any], cutoff: float = -1.0
) -> tuple[npt.NDArray[Any], npt.NDArray[np.float64], npt.NDArray[np.int32]]:
    """What every right kernel gives, bit by bit; the float64 lengths; and the edges on each of their paths.

    Adding a weight never turns the order of two lengths around, rounded or not. So what is left when no edge
    shortens anything any more does not depend on the order: of all walks to a vertex, each added up in
    `dtype` from the source on, the least sum. To get there: the tree of float64's Dijkstra, added up in
    `dtype`, and then whatever edges still shorten anything, which are few (paths of nearly the same length).

    With a `cutoff` (not negative) what is longer is left unreached, in `dtype` and in float64. No part of a
    path is longer than the path, so nothing else changes.
    """
    if (most := rounded_cutoff(cutoff, dtype)) is not None:
        # A little further than the cutoff in float64, since sums in `dtype` may be rounded down to it.
        slack = 1.0 if dtype == np.int32 else 1 + (csr.rows + 1) * 2.0**-23
        exact, real, edges = _exact_lengths(csr, source, dtype, float(most) * slack)
        exact[exact > most] = unreached(dtype)
        real[real > float(most)] = np.inf
        return exact, real, edges
    return _exact_lengths(csr, source, dtype, np.inf)


def _exact_lengths(
    csr: CSR, source: int, dtype: np.dtype[Any], limit: float
) -> tuple[npt.NDArray[Any], npt.NDArray[np.float64], npt.NDArray[np.int32]]:
    """As :func:`exact_lengths`; float64 lengths beyond `limit` may be omitted, and then so are the exact."""
    wide = _rounded(csr, dtype)
    real, before = shortest_paths(csr, wide, source, limit)
    if dtype == np.int32:
        exact = np.full(csr.rows, _INT32_MOST, np.int32)
        finite = np.isfinite(real)
        if finite.any() and real[finite].max() >= _INT32_MOST:
            raise InputError(
                f"a shortest path from vertex {source} is {real[finite].max():,.0f} long, beyond int32",
                remedy="take --dtype float32",
            )
        exact[finite] = real[finite].astype(np.int32)
        return exact, real, np.zeros(csr.rows, np.int32)
    reached = np.isfinite(real)
    if real[reached].max() < _WHOLE_FLOATS and bool((wide == np.floor(wide)).all()):
        # Whole numbers that float32 holds: no sum on a shortest path is rounded.
        return real.astype(dtype), real, np.zeros(csr.rows, np.int32)
    weight = wide.astype(dtype)
    with np.errstate(over="ignore"):
        exact, edges = _down_the_tree(csr, weight, before, source, dtype)
        changed = [np.empty(0, np.int64)]
        for block in row_blocks(csr, _EDGES_AT_ONCE):
            row = block.row_ids()
            there = exact[row] + weight[block.entries]
            changed.append(_lower(exact, block.cols, there))
        frontier = np.unique(np.concatenate(changed))
        while len(frontier):
            starts = csr.row_ptr[frontier]
            lengths = csr.row_ptr[frontier + 1] - starts
            edge = ranges(starts, lengths)
            frontier = np.unique(_lower(exact, csr.col_idx[edge], np.repeat(exact[frontier], lengths) + weight[edge]))
    return exact, real, edges


def _lower(length: npt.NDArray[Any], target: npt.NDArray[np.int32], there: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Lower ``length[target]`` to `there`, in place; the targets where that was less."""
    less = np.flatnonzero(there < length[target])
    np.minimum.at(length, target[less], there[less])
    return target[less].astype(np.int64)


def check_lengths(length: npt.NDArray[Any], right: npt.NDArray[Any]) -> CheckResult:
    """Equality to the last bit with :func:`exact_lengths`."""
    if length.shape != right.shape or length.dtype != right.dtype:
        return CheckResult(
            False, f"lengths are {length.dtype} {list(length.shape)}, not {right.dtype} {list(right.shape)}"
        )
    wrong = np.flatnonzero(length != right)
    if not len(wrong):
        return CheckResult(True)
    v = int(wrong[np.argmin(right[wrong])])
    return CheckResult(
        False,
        f"{len(wrong):,} of {len(right):,} lengths wrong, the first is of vertex {v:,}: {_word(length[v])}, "
        f"expected {_word(right[v])}",
        {"wrong_lengths": len(wrong), "worst_vertex": v},
    )


def check_within(
    length: npt.NDArray[np.float64], real: npt.NDArray[np.float64], edges: npt.NDArray[np.int32]
) -> CheckResult:
    """A float64 answer against the oracle's: a sum of k numbers of one sign is right to k roundings, each of
    2^-53; twice that, since the other answer has gone along another path of nearly the same length."""
    bound = 2 * np.maximum(edges, 1) * 2.0**-53 * np.where(np.isfinite(real), real, 0)
    with np.errstate(invalid="ignore"):
        bad = np.flatnonzero(~((np.abs(length - real) <= bound) | (length == real)))
    if not len(bad):
        return CheckResult(True)
    v = int(bad[0])
    return CheckResult(
        False, f"{len(bad):,} of {len(real):,} lengths wrong, of vertex {v:,}: {length[v]}, expected {real[v]}"
    )


def _word(length: Any) -> str:
    if length == unreached(length.dtype):
        return "unreached"
    return f"{int(length):,}" if length.dtype.kind == "i" else f"{length:.9g}"


def predecessors(csr: CSR, weights: npt.NDArray[Any], source: int, length: npt.NDArray[Any]) -> npt.NDArray[np.int32]:
    """A tree of shortest paths from right lengths: each reached vertex's predecessor, int32 ``[n]``.

    The source's is itself; -1 where no path leads. An edge u -> v is tight if the length of u and its weight
    are the length of v, added up in the lengths' own type. Of tight edges from a shorter length the one from
    the least vertex is taken. Edges that add nothing (weight 0, or swallowed by rounding) could lead in a
    circle, so vertices that only those lead to are found by a search along them.

    Parameters
    ----------
    weights : of the type of `length`, as it was made.
    """
    none = np.iinfo(np.int32).max
    before = np.full(csr.rows, none, np.int32)
    reached = length != unreached(length.dtype) if length.dtype != np.float64 else np.isfinite(length)
    level: list[tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]] = []
    for block in row_blocks(csr, _EDGES_AT_ONCE):
        row = block.row_ids()
        with np.errstate(over="ignore"):
            wide = np.int64 if length.dtype == np.int32 else length.dtype
            there = length[row].astype(wide) + weights[block.entries]
        tight = np.flatnonzero(reached[row] & reached[block.cols] & (there == length[block.cols]))
        u, v = row[tight], block.cols[tight]
        shorter = length[u] < length[v]
        np.minimum.at(before, v[shorter], u[shorter].astype(np.int32))
        same = ~shorter & (u != v)
        level.append((u[same].astype(np.int64), v[same]))
    before[source] = source
    tail, head = (np.concatenate(each) for each in zip(*level, strict=True)) if level else ((), ())
    if len(tail):
        starts = np.searchsorted(tail, np.arange(csr.rows + 1))  # tails rise
        frontier = np.flatnonzero(before != none)
        while len(frontier):
            count = starts[frontier + 1] - starts[frontier]
            edge = ranges(starts[frontier], count)
            u, v = np.repeat(frontier, count), head[edge]
            new = before[v] == none
            np.minimum.at(before, v[new], u[new].astype(np.int32))
            frontier = np.unique(v[new]).astype(np.int64)
    before[before == none] = -1
    return before


def check_predecessors(
    csr: CSR, weights: npt.NDArray[Any], source: int, length: npt.NDArray[Any], before: npt.NDArray[Any]
) -> CheckResult:
    """Whether `before` (see :func:`predecessors`) chains back to the source from every reached vertex, along
    edges that are as long as the lengths say."""
    n = csr.rows
    reached = length != unreached(length.dtype) if length.dtype != np.float64 else np.isfinite(length)
    if before.shape != (n,) or before[source] != source:
        return CheckResult(False, f"the predecessor of source {source:,} is not itself")
    inside = (before >= 0) & (before < n)
    if len(bad := np.flatnonzero(inside != reached)):
        v = int(bad[0])
        return CheckResult(False, f"vertex {v:,} is {_word(length[v])}, its predecessor is vertex {int(before[v]):,}")
    held = np.zeros(n, bool)
    held[source] = True
    for block in row_blocks(csr, _EDGES_AT_ONCE):
        row = block.row_ids()
        mine = np.flatnonzero(before[block.cols] == row)
        tail, head = row[mine], block.cols[mine]
        with np.errstate(over="ignore"):
            wide = np.int64 if length.dtype == np.int32 else length.dtype
            there = length[tail].astype(wide) + weights[block.entries][mine]
        held[head[there == length[head]]] = True
    if len(bad := np.flatnonzero(reached & ~held)):
        v = int(bad[0])
        return CheckResult(False, f"no edge {int(before[v]):,} -> {v:,} is as long as the lengths say")
    # Every path halved again and again: after log2 n steps all are at the source, or go round in a circle.
    ancestor: npt.NDArray[np.int64] = np.where(reached, before, source).astype(np.int64)
    for _ in range(max(1, n.bit_length())):
        ancestor = ancestor[ancestor]
    if len(bad := np.flatnonzero(ancestor != source)):
        return CheckResult(False, f"the predecessors of vertex {int(bad[0]):,} do not lead to the source")
    return CheckResult(True)


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
            "farthest": output[reached].max().item(),
            "edges": counted_edges(csr, oracle["proper_degree"], reached),
        }

    def columns(
        self, output: npt.NDArray[Any], csr: CSR, inputs: Mapping[str, npt.NDArray[Any]]
    ) -> dict[str, npt.NDArray[Any]]:
        """``distance``, float64 where it is not float32: infinite where no path leads; and ``predecessor`` on
        a shortest path, of the source itself, -1 where none leads. Raises LaunchError where the lengths are
        of no tree, which lengths that passed the check cannot be."""
        kind = np.dtype(np.int32 if output.dtype == np.int32 else np.float32)
        weights = _rounded(csr, kind).astype(output.dtype)  # of a float64 answer: the same weights
        source = int(inputs["sources"][0])
        before = predecessors(csr, weights, source, output)
        if not (result := check_predecessors(csr, weights, source, output, before)).ok:
            raise LaunchError(result.message)
        distance = output if output.dtype != np.int32 else np.where(output == _INT32_MOST, np.inf, output)
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
            f"the farthest is {facts_shown['farthest']} at {_word(output[far])}"
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
