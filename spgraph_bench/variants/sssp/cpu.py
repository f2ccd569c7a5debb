"""CPU baselines of shortest paths, timed with the host's clock on every device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.problems.lengths import rounded_cutoff, unreached
from spgraph_bench.variants.base import Job, Launch, variant
from spgraph_bench.variants.bfs.cpu import no_graphblas

__all__: list[str] = []

_ENTRIES = 20_000_000
"""Edges and vertices of all searches of a CPU library together: they take some two seconds. On a million
vertices one search does."""

Lengths = npt.NDArray[Any]


def _launch(job: Job, search: Callable[[int], Callable[[], Lengths]]) -> Launch:
    """A Launch of ``search(source)`` by the packed graph's ids, whose result gives the lengths when asked to,
    untimed; of so many sources that there are _ENTRIES to look at in all, one at least."""
    a, sources = job.packed, job.inputs["sources"]
    new = a.new_id if "new_id" in a.arrays else None
    chosen = 0
    result: list[Callable[[], Lengths]] = []

    def select(case: int) -> None:
        nonlocal chosen
        chosen = int(sources[case] if new is None else new[sources[case]])

    def run() -> None:
        result[:] = [search(chosen)]

    def output() -> Lengths:
        if not result:
            return np.full(a.rows, -1, job.dtype)
        return result[0]() if new is None else result[0]()[new]

    select(0)
    cases = max(1, min(len(sources), int(_ENTRIES / max(a.nnz + a.rows, 1))))
    return Launch(run=run, reset=result.clear, output=output, cases=cases, select=select)


def _weights(job: Job, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    a = job.packed
    return a.weight.astype(dtype) if a.value is None else np.full(a.nnz, a.value).astype(job.dtype).astype(dtype)


def _as_lengths(length: npt.NDArray[np.float64], dtype: np.dtype[Any]) -> Lengths:
    """Of whole numbers as `dtype`; others as they are, since float32's sums would be others."""
    if dtype != np.int32:
        return length
    out = np.full(len(length), unreached(dtype), np.int32)
    finite = np.isfinite(length)
    out[finite] = length[finite].astype(np.int32)
    return out


@variant(
    "sssp",
    "scipy",
    format="weighted-csr",
    library="scipy",
    where="cpu",
    dtypes=("float32", "int32"),
    about="scipy.sparse.csgraph.dijkstra, one thread, float64",
)
def scipy_sssp(job: Job) -> Launch:
    import scipy.sparse as sp
    from scipy.sparse.csgraph import dijkstra

    a = job.packed
    # In the type that csgraph works in, so that nothing is converted in the timed run.
    graph = sp.csr_array((_weights(job, np.float64), a.col, a.row_ptr), shape=(a.rows, a.cols), copy=False)
    dijkstra_of: Any = dijkstra  # scipy's stubs do not know a single index
    cutoff = rounded_cutoff(float(job.options.get("cutoff", -1.0)), job.dtype)
    limit = np.inf if cutoff is None else float(cutoff)

    def search(source: int) -> Callable[[], Lengths]:
        length = dijkstra_of(graph, directed=True, indices=source, limit=limit)
        return lambda: _as_lengths(length, job.dtype)

    return _launch(job, search)


@variant(
    "sssp",
    "graphblas",
    format="weighted-csr",
    library="SuiteSparse:GraphBLAS",
    where="cpu",
    dtypes=("float32", "int32"),
    missing=no_graphblas,
    about="Bellman-Ford by frontier, (min, +) products on all cores",
)
def graphblas_sssp(job: Job) -> Launch:
    """Kepner and Gilbert, "Graph algorithms in the language of linear algebra", 2011; the product is of those
    vertices only whose length fell."""
    import graphblas as gb

    a, kind = job.packed, job.dtype
    graph = gb.Matrix.from_csr(a.row_ptr.astype(np.uint64), a.col.astype(np.uint64), _weights(job, kind), ncols=a.cols)
    best = unreached(kind)
    min_plus = gb.semiring.min_plus[kind]
    cutoff = rounded_cutoff(float(job.options.get("cutoff", -1.0)), kind)

    def search(source: int) -> Callable[[], Lengths]:
        length = gb.Vector(kind, a.rows)
        length[source] = 0
        frontier = length.dup()
        while frontier.nvals:
            there = frontier.vxm(graph, min_plus).new()
            if cutoff is not None:
                there = there.select("<=", cutoff).new()
            # What is shorter than what was known, or known for the first time.
            worse = gb.binary.ge(there & length).new()
            frontier = there.dup(mask=~worse.V)
            length(gb.binary.min) << frontier
        return lambda: length.to_dense(fill_value=best).astype(kind)

    return _launch(job, search)
