"""CPU baselines of connected components, timed with the host's clock on every device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.problems.cc import least_labels
from spgraph_bench.variants.base import Job, Launch, variant
from spgraph_bench.variants.bfs.cpu import no_graphblas

__all__: list[str] = []


def _launch(job: Job, components: Callable[[], npt.NDArray[Any]]) -> Launch:
    """A Launch of `components`, which numbers them somehow; least vertices are made of that untimed."""
    result: list[npt.NDArray[Any]] = []
    old = job.packed.old_id if "old_id" in job.packed.arrays else None

    def run() -> None:
        result[:] = [components()]

    def output() -> npt.NDArray[np.int32]:
        numbering = result[0]
        if old is not None:
            numbering = np.empty_like(numbering)
            numbering[old] = result[0]
        return least_labels(numbering)

    return Launch(run=run, reset=result.clear, output=output)


@variant(
    "cc",
    "scipy",
    format="pattern-csr",
    library="scipy",
    where="cpu",
    dtypes=("int32",),
    about="scipy.sparse.csgraph.connected_components, one thread",
)
def scipy_cc(job: Job) -> Launch:
    import scipy.sparse as sp
    from scipy.sparse.csgraph import connected_components

    a = job.packed
    # In the type that csgraph works in, so that nothing is converted in the timed run.
    graph = sp.csr_array((np.ones(a.nnz), a.col, a.row_ptr), shape=(a.rows, a.cols), copy=False)
    return _launch(job, lambda: connected_components(graph, directed=True, connection="weak")[1])


@variant(
    "cc",
    "graphblas",
    format="adjacency",
    library="SuiteSparse:GraphBLAS",
    where="cpu",
    dtypes=("int32",),
    missing=no_graphblas,
    about="FastSV: least grandparents of neighbours by products on all cores",
)
def graphblas_cc(job: Job) -> Launch:
    """FastSV (Zhang, Azad and Hu, SIAM PP 2020), as LAGraph does it, without sampling."""
    import graphblas as gb

    a = job.packed
    graph = gb.Matrix.from_csr(a.row_ptr.astype(np.uint64), a.col.astype(np.uint64), np.ones(1, bool)[0], ncols=a.cols)
    if a.row is not a.col:
        graph = graph.ewise_add(graph.T, gb.binary.any).new()
    least = gb.semiring.min_second[gb.dtypes.INT64]

    def components() -> npt.NDArray[np.int64]:
        parent = np.arange(a.rows, dtype=np.int64)
        grand = parent
        while True:
            around = graph.mxv(gb.Vector.from_dense(grand), least).new()
            around(gb.binary.min) << gb.Vector.from_dense(grand)
            best = around.to_dense()
            # Each parent takes the least that any of its children has found; then each vertex takes its parent's.
            hooked = gb.Vector.from_coo(parent, best, size=a.rows, dup_op=gb.binary.min)
            new = np.minimum(np.minimum(parent, best), hooked.to_dense(fill_value=a.rows))
            above: npt.NDArray[np.int64] = new[new]
            if np.array_equal(above, grand):
                return above
            parent, grand = new, above

    return _launch(job, components)
