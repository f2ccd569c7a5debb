"""Lengths of shortest paths: the float64 oracle, what kernels give bit by bit, trees of predecessors, their checks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.errors import InputError
from spgraph_bench.formats.common import ranges
from spgraph_bench.matrix import CSR
from spgraph_bench.problems.base import CheckResult
from spgraph_bench.stats import row_blocks

__all__ = [
    "INT32_MOST",
    "check_lengths",
    "check_predecessors",
    "check_within",
    "exact_lengths",
    "length_text",
    "predecessors",
    "rounded_cutoff",
    "rounded_weights",
    "shortest_paths",
    "unreached",
]

_EDGES_AT_ONCE = 1 << 23
INT32_MOST = 2**31 - 1
"""The length of an unreached vertex where lengths are int32."""
_WHOLE_FLOATS = 2.0**24
"""Every whole number below this is a float32."""


def unreached(dtype: npt.DTypeLike) -> Any:
    """The length of a vertex that no path leads to: 2^31 - 1, or infinity."""
    kind: Any = np.dtype(dtype).type
    return kind(INT32_MOST if kind is np.int32 else np.inf)


def rounded_weights(csr: CSR, dtype: np.dtype[Any]) -> npt.NDArray[np.float64]:
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
        return np.int32(min(math.floor(cutoff), INT32_MOST - 1))
    with np.errstate(over="ignore"):
        return np.float32(min(np.float32(cutoff), np.finfo(np.float32).max))


def shortest_paths(
    csr: CSR, weights: npt.NDArray[np.float64], source: int, limit: float = np.inf
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int32]]:
    """Lengths float64 ``[rows]`` (infinite where no path leads, or none of at most `limit`) and each vertex's
    predecessor (negative where it has none), by scipy's Dijkstra in float64: the oracle."""
    from scipy.sparse.csgraph import dijkstra

    search: Any = dijkstra  # scipy's stubs do not know a single index
    length, before = search(
        csr.to_scipy(values=weights), directed=True, indices=source, return_predecessors=True, limit=limit
    )
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
    wide = rounded_weights(csr, dtype)
    real, before = shortest_paths(csr, wide, source, limit)
    if dtype == np.int32:
        exact = np.full(csr.rows, INT32_MOST, np.int32)
        finite = np.isfinite(real)
        if finite.any() and real[finite].max() >= INT32_MOST:
            raise InputError(
                f"a shortest path from vertex {source} is {real[finite].max():,.0f} long, beyond int32",
                remedy="take --dtype float32",
            )
        exact[finite] = real[finite].astype(np.int32)
        return exact, real, np.zeros(csr.rows, np.int32)
    reached = np.isfinite(real)
    longest = real[reached & (real <= limit)].max()
    if longest > np.finfo(np.float32).max:
        raise InputError(
            f"a shortest path from vertex {source} is {longest:.3g} long, beyond float32",
            remedy="scale all weights, or take a --cutoff",
        )
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
        f"{len(wrong):,} of {len(right):,} lengths wrong, the first is of vertex {v:,}: {length_text(length[v])}, "
        f"expected {length_text(right[v])}",
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


def length_text(length: Any) -> str:
    """A length as messages show it: "unreached", "1,234", "0.25"."""
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
        return CheckResult(
            False, f"vertex {v:,} is {length_text(length[v])}, its predecessor is vertex {int(before[v]):,}"
        )
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
