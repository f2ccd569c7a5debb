"""CPU baselines of betweenness centrality, timed with the host's clock on every device."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from spgraph_bench.variants.base import Job, Launch, variant
from spgraph_bench.variants.bfs.cpu import no_graphblas

__all__: list[str] = []

_PUSH_BELOW = 16
"""Frontiers of fewer than n / 16 vertices go by products that start from the frontier."""


@variant(
    "bc",
    "graphblas",
    format="adjacency",
    library="SuiteSparse:GraphBLAS",
    where="cpu",
    dtypes=("float64",),
    missing=no_graphblas,
    about="both of Brandes' passes as masked products on all cores",
)
def graphblas_bc(job: Job) -> Launch:
    """As LAGraph's (Szarnyas and others, GrAPL 2021), from one source at a time."""
    import graphblas as gb

    a = job.packed
    one = np.ones(1, bool)[0]
    row_ptr, col_ptr = (a.arrays[k].astype(np.uint64) for k in ("row_ptr", "col_ptr"))
    out_edges = gb.Matrix.from_csr(row_ptr, a.col.astype(np.uint64), one, ncols=a.cols)
    in_edges = out_edges
    if a.row is not a.col:
        in_edges = gb.Matrix.from_csr(col_ptr, a.row.astype(np.uint64), one, ncols=a.rows)
    old = a.old_id if "old_id" in a.arrays else None
    sources = job.inputs["sources"]
    sources = sources if old is None else a.new_id[sources]
    chosen = int(sources[0])
    add_first, add_second = gb.semiring.plus_first[float], gb.semiring.plus_second[float]
    result: list[npt.NDArray[np.float64]] = []

    def select(case: int) -> None:
        nonlocal chosen
        chosen = int(sources[case])

    def run() -> None:
        count = gb.Vector(float, a.rows)
        frontier = gb.Vector(float, a.rows)
        frontier[chosen] = 1.0
        levels = []
        while size := frontier.nvals:
            count(gb.binary.plus) << frontier
            levels.append(frontier.dup())
            if size * _PUSH_BELOW < a.rows:
                frontier(~count.S, replace=True) << frontier.vxm(out_edges, add_first)
            else:
                frontier(~count.S, replace=True) << in_edges.mxv(frontier, add_second)
        dependency = gb.Vector.from_scalar(0.0, a.rows)
        for k in range(len(levels) - 1, 1, -1):
            share = gb.Vector(float, a.rows)
            share(levels[k].S) << dependency.apply(gb.binary.plus, right=1.0)
            share << share.ewise_mult(levels[k], gb.binary.truediv)
            passed = gb.Vector(float, a.rows)
            if levels[k].nvals * _PUSH_BELOW < a.rows:
                passed(levels[k - 1].S) << share.vxm(in_edges, add_first)
            else:
                passed(levels[k - 1].S) << out_edges.mxv(share, add_second)
            passed << passed.ewise_mult(levels[k - 1], gb.binary.times)
            dependency(gb.binary.plus) << passed
        result[:] = [dependency.to_dense()]

    def output() -> npt.NDArray[np.float64]:
        if old is None:
            return result[0]
        moved = np.empty_like(result[0])
        moved[old] = result[0]
        return moved

    return Launch(run=run, reset=result.clear, output=output, cases=len(sources), select=select)
