"""CPU baselines of BFS, timed with the host's clock on every device."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from importlib import metadata
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.device.base import Device
from spgraph_bench.variants.base import Job, Launch, variant, version_of

__all__: list[str] = []


@version_of("SuiteSparse:GraphBLAS")
def version() -> str:
    """ "10.1.1.0 (python-graphblas 2025.2.0)": of the library's wheel, and of the bindings used."""
    bindings = metadata.version("python-graphblas")
    return f"{metadata.version('suitesparse-graphblas')} (python-graphblas {bindings})"


Levels = npt.NDArray[np.int32]


def _launch(job: Job, search: Callable[[int], Callable[[], Levels]]) -> Launch:
    """A Launch of ``search(source)``, whose result gives the levels when they are asked for, untimed."""
    sources = job.inputs["sources"]
    chosen = int(sources[0])
    result: list[Callable[[], Levels]] = []

    def select(case: int) -> None:
        nonlocal chosen
        chosen = int(sources[case])

    def run() -> None:
        result[:] = [search(chosen)]

    def output() -> Levels:
        return result[0]() if result else np.full(job.packed.rows, -2, np.int32)

    return Launch(run=run, reset=result.clear, output=output, cases=len(sources), select=select)


def levels_of_tree(order: npt.NDArray[Any], parent: npt.NDArray[Any], vertices: int) -> Levels:
    """Levels from a breadth-first order (which never falls in level) and each vertex's predecessor."""
    level = np.full(vertices, -1, np.int32)
    place = np.full(vertices, -1, np.int64)
    place[order] = np.arange(len(order))
    of = place[parent[order[1:]]]  # never falls: children of earlier vertices come earlier
    level[order[0]] = 0
    last, depth = 1, 0
    while last < len(order):
        # The children of the vertices in places below `last` that have no level yet are the next level.
        beyond = 1 + int(np.searchsorted(of, last))
        depth += 1
        level[order[last:beyond]] = depth
        last = beyond
    return level


@variant(
    "bfs",
    "scipy",
    format="pattern-csr",
    library="scipy",
    where="cpu",
    dtypes=("int32",),
    about="scipy.sparse.csgraph.breadth_first_order, one thread: order and predecessors",
)
def scipy_bfs(job: Job) -> Launch:
    import scipy.sparse as sp
    from scipy.sparse.csgraph import breadth_first_order

    a = job.packed
    # In the type that csgraph works in, so that nothing is converted in the timed run.
    graph = sp.csr_array((np.ones(a.nnz), a.col, a.row_ptr), shape=(a.rows, a.cols), copy=False)
    ids = a.old_id if "old_id" in a.arrays else None
    new = a.new_id if "new_id" in a.arrays else None

    def search(source: int) -> Callable[[], Levels]:
        start = source if new is None else int(new[source])
        order, parent = breadth_first_order(graph, start, directed=True)
        return lambda: _original(levels_of_tree(order, parent, a.rows), ids)

    return _launch(job, search)


def _original(level: Levels, old_id: npt.NDArray[np.int32] | None) -> Levels:
    if old_id is None:
        return level
    out = np.empty_like(level)
    out[old_id] = level
    return out


def no_graphblas(device: Device) -> str | None:
    """Why python-graphblas cannot be used, or None."""
    if importlib.util.find_spec("graphblas") is None:
        if sys.version_info >= (3, 14):
            return "python-graphblas has no release for Python 3.14 or later yet"
        return "python-graphblas is not installed: pip install python-graphblas"
    return None


_PUSH_BELOW = 16
"""Frontiers of fewer than n / 16 vertices go top-down: a product that starts from the frontier, not from the
unvisited."""


@variant(
    "bfs",
    "graphblas",
    format="adjacency",
    library="SuiteSparse:GraphBLAS",
    where="cpu",
    dtypes=("int32",),
    missing=no_graphblas,
    about="masked products on all cores, top-down or bottom-up by frontier size",
)
def graphblas_bfs(job: Job) -> Launch:
    """The level BFS of LAGraph (Mattson and others, GrAPL 2019; Yang, Buluc and Owens, ICPP 2018)."""
    import graphblas as gb

    a = job.packed
    row_ptr, col_ptr = (a.arrays[k].astype(np.uint64) for k in ("row_ptr", "col_ptr"))
    one = np.ones(1, bool)
    out_edges = gb.Matrix.from_csr(row_ptr, a.col.astype(np.uint64), one[0], ncols=a.cols)
    if a.row is a.col:
        in_edges = out_edges
    else:
        in_edges = gb.Matrix.from_csr(col_ptr, a.row.astype(np.uint64), one[0], ncols=a.rows)
    reach = gb.semiring.any_pair[bool]
    ids = a.old_id if "old_id" in a.arrays else None
    new = a.new_id if "new_id" in a.arrays else None

    def search(source: int) -> Callable[[], Levels]:
        level = gb.Vector(gb.dtypes.INT32, a.rows)
        frontier = gb.Vector(bool, a.rows)
        frontier[source if new is None else int(new[source])] = True
        depth = 0
        while size := frontier.nvals:
            level(frontier.S) << depth
            if size * _PUSH_BELOW < a.rows:
                frontier(~level.S, replace=True) << frontier.vxm(out_edges, reach)
            else:
                frontier(~level.S, replace=True) << in_edges.mxv(frontier, reach)
            depth += 1
        return lambda: _original(level.to_dense(fill_value=-1).astype(np.int32), ids)

    return _launch(job, search)
