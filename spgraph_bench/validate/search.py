"""A plain breadth-first search, and counts of shortest paths: what answers are held against."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.device.base import Buffer
from spgraph_bench.formats.common import ranges
from spgraph_bench.matrix import CSR
from spgraph_bench.stats import row_ranges
from spgraph_bench.validate.base import EDGES_AT_ONCE, Graph

__all__ = ["Paths", "count_paths", "count_paths_on_device", "reached_from"]

_LARGE, _PART = 2.0**800, 2.0**-400
"""Where a level has a count above the first, the next one gets the second of all counts. So counts of one
level may be 2^1400 apart."""


def reached_from(graph: Graph, source: int) -> int:
    """How many vertices can be reached from `source`, itself included: by scipy's search, or on the device by
    ``cuda/check/search.cu``."""
    if graph.device is None:
        from scipy.sparse.csgraph import breadth_first_order

        return len(breadth_first_order(graph.as_scipy, source, return_predecessors=False))
    return _search(graph, source, None)[0]


@dataclass(frozen=True)
class Paths:
    """Levels and counts of shortest paths from a source, in numpy or on a device."""

    level: Any
    """int32 ``[n]``, -1 where the source does not reach."""
    paths: Any
    """float64 ``[n]``: counts, each level's at a scale of its own."""
    scale: npt.NDArray[np.float64]
    """``[levels]``: what of its counts a level passed on to the next one."""
    predecessors: int
    """The most predecessors of a vertex of a level, summed over the levels."""
    reached: int
    """Vertices that are reached, the source included."""


def count_paths(csr: CSR, source: int) -> Paths:
    """The numpy form, level by level."""
    n = csr.rows
    level, paths = np.full(n, -1, np.int32), np.zeros(n)
    level[source], paths[source] = 0, 1
    scales: list[float] = []
    frontier, most = np.array([source], np.int64), 0
    while len(frontier):
        depth = len(scales)
        scales.append(_PART if paths[frontier].max() > _LARGE else 1.0)
        starts = csr.row_ptr[frontier]
        degree = csr.row_ptr[frontier + 1] - starts
        cuts = np.concatenate(([0], np.cumsum(degree)))
        parents = np.zeros(n, np.int64)
        for begin, end in row_ranges(cuts, EDGES_AT_ONCE):
            target = csr.col_idx[ranges(starts[begin:end], degree[begin:end])]
            count = np.repeat(scales[-1] * paths[frontier[begin:end]], degree[begin:end])
            fits = (level[target] == -1) | (level[target] == depth + 1)
            target = target[fits]
            level[target] = depth + 1
            if 8 * len(target) > n:  # then a pass over all vertices is the cheaper way to add
                paths += np.bincount(target, count[fits], minlength=n)
                parents += np.bincount(target, minlength=n)
            else:
                np.add.at(paths, target, count[fits])
                np.add.at(parents, target, 1)
        most += int(parents.max())
        frontier = np.flatnonzero(level == depth + 1)
    return Paths(level, paths, np.array(scales), most, int(np.count_nonzero(level >= 0)))


def _search(graph: Graph, source: int, paths: Buffer | None) -> tuple[int, Buffer, list[float], Buffer | None]:
    """The search on the device: how many vertices it reaches, levels, scales and predecessors."""
    device, csr = graph.device, graph.csr
    assert device is not None
    level, queue, tail = (device.empty(csr.rows, np.int32), device.empty(csr.rows, np.int32), graph.zeros(1, np.int32))
    predecessors = None if paths is None else device.empty(csr.rows, np.int32)
    largest = None if paths is None else graph.zeros(1, np.uint64)
    graph.per_vertex(
        graph.kernel("search", "check_search_begin"), graph.n, np.int32(source), level, paths, predecessors, queue, tail
    )
    step = graph.kernel("search", "check_search_level")
    first, last = 0, 1
    scales: list[float] = []
    estimate = 1.0  # of the largest count of the level at hand, from what was seen of the level before
    while last > first:
        scales.append(_PART if estimate > _LARGE else 1.0)
        if largest is not None:
            device.fill(largest, 0)
        graph.per_row(
            step,
            np.int32(first),
            np.int32(last),
            graph.row_ptr,
            graph.col,
            np.int32(len(scales) - 1),
            np.float64(scales[-1]),
            level,
            paths,
            predecessors,
            queue,
            tail,
            largest,
            rows=last - first,
        )
        first, last = last, int(device.download(tail)[0])
        if largest is not None:
            estimate = float(device.download(largest).view(np.float64)[0]) * scales[-1]
    return last, level, scales, predecessors


def count_paths_on_device(graph: Graph, source: int) -> Paths:
    """The same by kernels; `level` and `paths` are buffers."""
    assert graph.device is not None
    paths = graph.device.empty(graph.csr.rows, np.float64)
    reached, level, scales, predecessors = _search(graph, source, paths)
    most = graph.zeros(len(scales), np.int32)
    graph.per_vertex(graph.kernel("bc", "check_bc_predecessors"), graph.n, level, predecessors, most)
    return Paths(level, paths, np.array(scales), int(graph.download(most).sum()), reached)
