"""CPU baselines of PageRank, timed with the host's clock on every device."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.formats.base import Packed
from spgraph_bench.variants.base import Job, Launch, variant
from spgraph_bench.variants.bfs.cpu import no_graphblas

__all__ = ["edge_order"]

Ranks = npt.NDArray[Any]


def _launch(job: Job, solve: Callable[[], tuple[Callable[[], Ranks], int, float]]) -> Launch:
    """A Launch of ``solve()``, which gives what fetches the ranks, the iterations and the last change."""
    result: list[tuple[Callable[[], Ranks], int, float]] = []

    def run() -> None:
        result[:] = [solve()]

    def output() -> Ranks:
        if not result:
            return np.full(job.packed.rows, np.nan, job.dtype)
        rank = result[0][0]()
        if "old_id" not in job.packed.arrays:
            return rank
        out = np.empty_like(rank)
        out[job.packed.old_id] = rank
        return out

    def facts() -> Mapping[str, Any]:
        return {"iterations": result[0][1], "change": result[0][2]} if result else {}

    return Launch(run=run, reset=result.clear, output=output, facts=facts)


def edge_order(packed: Packed) -> tuple[npt.NDArray[Any] | None, npt.NDArray[Any]]:
    """How `packed` (adjacency, pattern-csr or pattern-coo, perhaps relabelled) orders its edges.

    The first array says of each of its edges, in-edges by target where it has them, which entry of the
    matrix's CSR it is; None where the order is the same. The second is each edge's source as packed. Both
    ``[nnz]``.
    """
    import scipy.sparse as sp

    a = packed.arrays
    relabelled, by_target = "new_id" in a, "col_ptr" in a
    if not (relabelled or by_target):
        rows = np.arange(packed.rows, dtype=np.int32)
        return None, a["row"] if "row" in a else np.repeat(rows, np.diff(a["row_ptr"]))
    if by_target:
        pointer, other = a["col_ptr"], a["row"]
    elif "row_ptr" in a:
        pointer, other = a["row_ptr"], a["col"]
    else:
        pointer = np.concatenate(([0], np.cumsum(np.bincount(a["row"], minlength=packed.rows))))
        other = a["col"]
    place = np.arange(packed.nnz, dtype=np.int64)
    edges: Any = sp.csr_array((place, other, pointer), shape=(packed.rows, packed.rows))
    if relabelled:  # by the matrix's ids; turning it sorts what this leaves unsorted
        old, new = a["old_id"], a["new_id"]
        edges = edges[new]
        edges = sp.csr_array((edges.data, old[edges.indices], edges.indptr), shape=edges.shape)
    edges = edges.tocsc()
    positions = edges.data if by_target else edges.tocsr().data
    order = np.empty(packed.nnz, np.int64)
    order[positions] = place
    heads = np.repeat(np.arange(packed.rows, dtype=np.int32), np.diff(pointer))
    return order, other if by_target else heads


def _teleport(job: Job) -> Ranks:
    """Where the walk jumps to, by the ids of the packed graph."""
    n = job.packed.rows
    jump: Ranks = job.inputs.get("teleport", np.full(n, 1 / max(n, 1), job.dtype))
    return jump[job.packed.old_id] if "old_id" in job.packed.arrays else jump


def _passed_on(job: Job) -> tuple[Ranks, Ranks]:
    """What in-edges multiply, ``[nnz]``, and what each vertex multiplies its rank by first: 1 / out-degree,
    or with weights 1; 0 where there is nothing to follow."""
    a, kind = job.packed, job.dtype
    if "chance" not in job.inputs:
        degree = np.diff(a.row_ptr)
        return np.ones(a.nnz, kind), np.where(degree > 0, 1 / np.maximum(degree, 1), 0).astype(kind)
    order, source = edge_order(a)
    chance = job.inputs["chance"] if order is None else job.inputs["chance"][order]
    passes = np.zeros(a.rows, kind)
    passes[source[chance > 0]] = 1
    return chance, passes


@variant(
    "pagerank",
    "scipy",
    format="adjacency",
    library="scipy",
    where="cpu",
    about="power iteration with scipy.sparse.csr_array @ x, one thread",
)
def scipy_pagerank(job: Job) -> Launch:
    import scipy.sparse as sp

    a, o, kind = job.packed, job.options, job.dtype
    # Rows of in-edges; values in the type that is multiplied, so that nothing is converted in the timed run.
    value, share = _passed_on(job)
    turned = sp.csr_array((value, a.row, a.col_ptr), shape=(a.cols, a.rows), copy=False)
    loose = np.flatnonzero(share == 0)
    damping, jump = kind.type(o["damping"]), _teleport(job)

    def solve() -> tuple[Callable[[], Ranks], int, float]:
        rank, done, change = jump.copy(), 0, np.inf
        while done < o["max_iterations"] and change > o["tolerance"]:
            after = turned @ (rank * share)
            if o["dangling"] == "jump":
                after += kind.type(rank[loose].sum(dtype=np.float64)) * jump
            elif o["dangling"] == "uniform":
                after += kind.type(rank[loose].sum(dtype=np.float64) / max(len(rank), 1))
            elif o["dangling"] == "self":
                after[loose] += rank[loose]
            after *= damping
            after += (1 - damping) * jump
            change = float(np.abs(after - rank).sum(dtype=np.float64))
            rank, done = after, done + 1
        return lambda: rank, done, change

    return _launch(job, solve)


@variant(
    "pagerank",
    "graphblas",
    format="adjacency",
    library="SuiteSparse:GraphBLAS",
    where="cpu",
    missing=no_graphblas,
    about="power iteration by plus_second products on all cores",
)
def graphblas_pagerank(job: Job) -> Launch:
    """The PageRank of LAGraph (Mattson and others, GrAPL 2019), with our policies and rule."""
    import graphblas as gb

    a, o, kind, n = job.packed, job.options, job.dtype, job.packed.rows
    if not n:
        return _launch(job, lambda: (lambda: np.zeros(0, kind), 1, 0.0))
    value, passes = _passed_on(job)
    weighted = "chance" in job.inputs
    stored = value if weighted else np.ones(1, bool)[0]
    in_edges = gb.Matrix.from_csr(a.col_ptr.astype(np.uint64), a.row.astype(np.uint64), stored, ncols=n)
    share = gb.Vector.from_dense(passes)
    loose = gb.Vector.from_coo(np.flatnonzero(passes == 0), True, size=n)
    second, jump = (
        (gb.semiring.plus_times if weighted else gb.semiring.plus_second)[kind],
        gb.Vector.from_dense(_teleport(job)),
    )
    damping = float(o["damping"])

    def solve() -> tuple[Callable[[], Ranks], int, float]:
        rank, done, change = jump.dup(), 0, np.inf
        gives, moved = gb.Vector(kind, n), gb.Vector(kind, n)
        fixed = gb.Vector(kind, n)
        fixed << jump.apply(gb.binary.times, right=1 - damping)
        while done < o["max_iterations"] and change > o["tolerance"]:
            gives << rank.ewise_mult(share, gb.binary.times)
            if o["dangling"] in ("uniform", "jump") and loose.nvals:
                held = gb.Vector(kind, n)
                held(loose.S) << rank
                lost = float(held.reduce(gb.monoid.plus).get(0))
                after = gb.Vector(kind, n)
                if o["dangling"] == "jump":
                    after << jump.apply(gb.binary.times, right=lost)
                else:
                    after << lost / n
                after(gb.binary.plus) << in_edges.mxv(gives, second)
            else:
                after = gb.Vector(kind, n)
                after << 0
                after(gb.binary.plus) << in_edges.mxv(gives, second)
                if o["dangling"] == "self":
                    after(loose.S, accum=gb.binary.plus) << rank
            after << after.apply(gb.binary.times, right=damping)
            after(gb.binary.plus) << fixed
            moved << after.ewise_mult(rank, gb.binary.minus)
            moved << moved.apply(gb.unary.abs)
            change = float(moved.reduce(gb.monoid.plus).get(0))
            rank, done = after, done + 1
        return lambda: rank.to_dense(fill_value=0).astype(kind), done, change

    return _launch(job, solve)
