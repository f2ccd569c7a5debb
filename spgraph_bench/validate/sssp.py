"""Whether lengths are those of shortest paths."""

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

__all__ = ["SSSPValidator", "find_faults"]

Array = npt.NDArray[Any]

SOURCE, RANGE, MISSED, TOO_LONG, SHORTENS, GROUNDLESS = range(6)
"""The rules, numbered as in cuda/check/sssp.cu."""

_MOST = 2**31 - 1
_C_TYPES = {"int32": "int", "float32": "float", "float64": "double"}


def _length(length: Any) -> str:
    if length == (_MOST if length.dtype.kind == "i" else np.inf):
        return "unreached"
    return f"at length {int(length):,}" if length.dtype.kind == "i" else f"at length {length:.9g}"


def _is(v: int, length: Array) -> str:
    return f"vertex {v:,} is {_length(length[v])}"


_RULES = (
    Rule(lambda v, length: f"the source {v:,} is {_length(length[v])}, not at length 0"),
    Rule(lambda v, length: f"{_is(v, length)}, which is not a length"),
    Rule(lambda v, length: f"{_is(v, length)}, yet an edge from a reached vertex leads to it"),
    Rule(lambda v, length: f"{_is(v, length)}, and there are paths longer than the largest {length.dtype}"),
    Rule(lambda v, length: f"{_is(v, length)}, yet an edge leads to it by a shorter way"),
    Rule(lambda v, length: f"{_is(v, length)}, yet no edges as long as they say lead to it from the source"),
)


def _are_lengths(length: Array) -> npt.NDArray[np.bool_]:
    """Which of these are lengths: not negative, not NaN, not the mark of unreached vertices, nor beyond it."""
    return (length >= 0) & (length < (_MOST if length.dtype.kind == "i" else np.inf))


def find_faults(csr: CSR, source: int, length: Array, weight: Array | None, cutoff: float | None = None) -> Faults:
    """The numpy form: one pass over the edges, and a search along those that neither shorten nor lengthen.

    Parameters
    ----------
    length : ``[n]``, int32, float32 or float64.
    weight : ``[nnz]`` of the value type that was run; None: all 1.
    cutoff : the longest length that is kept, as the type of the lengths has it; None: all are.
    """
    n, faults = csr.rows, Faults.none(len(_RULES))
    vertex = np.arange(n, dtype=np.int32)
    fits = _are_lengths(length)
    if cutoff is not None:
        faults.add(RANGE, vertex[fits & (length > cutoff)])
    faults.add(RANGE, vertex[~fits & (length != (_MOST if length.dtype.kind == "i" else np.inf))])
    if length[source] != 0:
        faults.add(SOURCE, vertex[source : source + 1])
    grounded = np.zeros(n, np.bool_)
    grounded[source] = True
    wide = np.dtype(np.int64) if length.dtype.kind == "i" else length.dtype
    level_from, level_to = [], []  # edges between vertices of one length
    for block in row_blocks(csr, EDGES_AT_ONCE):
        lengths, cols = np.diff(block.row_ptr), block.cols
        rows = np.repeat(vertex[block.first : block.last], lengths)
        keep = fits[rows]
        rows, cols = rows[keep], cols[keep]
        ours, theirs = length[rows], length[cols]
        step = np.ones(1, wide) if weight is None else weight[block.entries][keep].astype(wide)
        with np.errstate(over="ignore", invalid="ignore"):
            there = ours.astype(wide) + step
            held, possible = fits[cols], _are_lengths(there)
            if cutoff is None:
                faults.add(TOO_LONG, cols[~possible & ~held])
                faults.add(MISSED, cols[possible & ~held])
            else:
                faults.add(MISSED, cols[possible & ~held & (there <= cutoff)])
            faults.add(SHORTENS, cols[possible & held & (there < theirs)])
            tight = possible & held & (there == theirs)
            grounded[cols[tight & (ours < theirs)]] = True
            even = tight & (ours == theirs)
        level_from.append(rows[even])
        level_to.append(cols[even])
    if (fits & ~grounded).any():
        grounded = _spread(grounded, fits, np.concatenate(level_from), np.concatenate(level_to))
    faults.add(GROUNDLESS, vertex[fits & ~grounded])
    return faults


def _spread(grounded: Array, fits: Array, start: Array, end: Array) -> npt.NDArray[np.bool_]:
    """Which vertices the edges `start` -> `end` join with grounded ones, and these, by scipy's search."""
    import scipy.sparse as sp
    from scipy.sparse.csgraph import breadth_first_order

    n = len(grounded)
    first = np.flatnonzero(grounded & fits)  # from vertex n an edge leads to each
    row, col = np.concatenate((start, np.full(len(first), n))), np.concatenate((end, first))
    graph = sp.csr_array((np.ones(len(row)), (row, col)), shape=(n + 1, n + 1))
    reached = breadth_first_order(graph, n, return_predecessors=False)
    out = grounded.copy()
    out[reached[reached < n]] = True
    return out


def _on_device(
    graph: Graph, source: int, length: Array, weight: Buffer | None, kind: np.dtype[Any], cutoff: float | None = None
) -> Faults:
    """The same by kernels; `kind`: the type of the weights."""
    device = graph.device
    assert device is not None
    defines = {"SPG_VALUE": _C_TYPES[kind.name], "SPG_LENGTH": _C_TYPES[length.dtype.name]}
    faults, lengths = DeviceFaults(device, len(_RULES)), graph.upload(length)
    grounded = graph.zeros(len(length), np.int32)
    report = (faults.counts, faults.least)
    edges = (graph.row_ptr, graph.col, weight, lengths, grounded)
    most: Any = length.dtype.type
    whole = _MOST if length.dtype.kind == "i" else np.inf
    limit = (np.int32(cutoff is not None), most(whole if cutoff is None else cutoff))
    graph.per_vertex(
        graph.kernel("sssp", "check_sssp_vertices", **defines),
        graph.n,
        np.int32(source),
        *limit,
        lengths,
        grounded,
        *report,
    )
    graph.per_row(graph.kernel("sssp", "check_sssp_edges", **defines), graph.n, *limit, *edges, *report)
    count = graph.kernel("sssp", "check_sssp_ungrounded", **defines)
    left = graph.zeros(1, np.uint64)
    graph.per_vertex(count, graph.n, lengths, grounded, left, None, None)
    if graph.download(left)[0]:
        spread = graph.kernel("sssp", "check_sssp_spread", **defines)
        queue, tail = device.empty(len(length), np.int32), graph.zeros(1, np.int32)
        graph.per_row(spread, np.int32(1), np.int32(0), graph.n, *edges, queue, tail)
        first, last = 0, int(device.download(tail)[0])
        while last > first:
            graph.per_row(spread, np.int32(0), np.int32(first), np.int32(last), *edges, queue, tail, rows=last - first)
            first, last = last, int(device.download(tail)[0])
        graph.per_vertex(count, graph.n, lengths, grounded, left, *report)
    return faults.read()


@validates
class SSSPValidator(Validator):
    """Lengths from one source, to the last bit.

    The rules: the source is at 0; no edge leads from a reached vertex to an unreached one; no edge shortens
    anything, added up in the type of the lengths; and edges that are exactly as long as their ends say lead
    from the source to every reached vertex. Adding a weight never turns the order of two lengths around,
    rounded or not. So by the third rule no length is more than the sum along any walk, each added up from the
    source on, and by the fourth each is the sum along one.

    Edges of weight 0, and weights that rounding swallows, could bear each other out in a circle. So a vertex
    counts as reached by an edge from a shorter length immediately, by an edge from the same length only once the
    other end has been: what is left is searched along such edges.

    With a cutoff no length is beyond it, and only edges that are not too long for it must lead to a reached
    vertex. No part of a path is longer than the path, so the rules are as strong for what is kept.
    """

    name = "sssp"
    rules = _RULES
    bytes_per_vertex = 48

    @classmethod
    def sources(cls, dtype: np.dtype[Any]) -> list[tuple[str, dict[str, str]]]:
        kind = _C_TYPES[dtype.name]
        return [("sssp", {"SPG_VALUE": kind, "SPG_LENGTH": kind})]

    def _weights(self) -> Array:
        """As the kernels under test get them."""
        with np.errstate(over="ignore"):
            return self.graph.csr.value_array(self.dtype)

    def _cutoff(self) -> float | None:
        """The longest length that is kept, as kernels round it."""
        cutoff = float(getattr(self.problem, "cutoff", -1.0))
        if cutoff < 0:
            return None
        if self.dtype.kind == "i":
            return float(min(int(cutoff), _MOST - 1))
        with np.errstate(over="ignore"):
            return float(min(np.float32(cutoff), np.finfo(np.float32).max))

    def faults(self, source: int, length: Array) -> Faults:
        """What breaks the rules in `length` (int32 or float [vertices]), on device or host."""
        weighted = self.graph.csr.values is not None
        if self.graph.device is None:
            weights = self._weights() if weighted else None
            return find_faults(self.graph.csr, source, length, weights, self._cutoff())
        weight = None
        if weighted:
            weight = self.graph.array(f"weight.{self.dtype}", self._weights)
        return _on_device(self.graph, source, length, weight, self.dtype, self._cutoff())

    def check(self, output: Array, source: int = -1) -> Checked:
        """`output` ``[n]``: of the type that is run, or float64, with lengths added up in float64."""
        n = self.graph.csr.rows
        kinds = (self.dtype, np.dtype(np.float64))
        if output.dtype not in kinds or output.shape != (n,):
            return Checked(
                CheckResult(False, f"lengths are {output.dtype} {list(output.shape)}, not {self.dtype} [{n}]")
            )
        return Checked(verdict(_RULES, self.faults(source, output), output))
