"""Whether ranks are where PageRank's iterations may end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.device.base import Buffer
from spgraph_bench.matrix import CSR
from spgraph_bench.problems.base import CheckResult
from spgraph_bench.stats import row_blocks
from spgraph_bench.validate.base import EDGES_AT_ONCE, Checked, Graph, Validator, validates

__all__ = ["PageRankValidator", "Step", "Walk", "one_step", "one_step_on_device"]

Vector = npt.NDArray[np.float64]

_DANGLING = {"none": 0, "uniform": 1, "self": 2, "jump": 3}
"""As cuda/check/pagerank.cu numbers them."""
_DEPTH, _ROUNDINGS = 128.0, 10.0
"""Additions one after the other, and other roundings, between a rank and the next one of a kernel at most."""


@dataclass(frozen=True)
class Walk:
    """How the walk goes on: the options that decide it."""

    damping: float
    dangling: str
    jump: Vector | None
    """Where jumps go, sum 1; None: to all vertices alike."""
    weight: Vector | None
    """Of each edge, float64 ``[nnz]``; None: all alike."""


@dataclass(frozen=True)
class Step:
    """What one more step in float64 makes of ranks."""

    change: float
    """L1 norm of what it changes."""
    total: float
    """Sum of the ranks before it."""
    terms: float
    """Sum of (additions and other roundings) x rank."""
    after: Any
    """float64 ``[n]``, in numpy or on the device."""


def _shares(csr: CSR, weight: Vector | None) -> tuple[Vector, Vector | None]:
    """Each vertex's sum of weights over its largest, ``[n]``, 0 where no edge leads on; and each edge's
    weight over that largest."""
    degree = csr.row_lengths()
    if weight is None:
        return degree.astype(np.float64), None
    filled = np.flatnonzero(degree)
    largest, total = np.zeros(csr.rows), np.zeros(csr.rows)
    if len(filled):
        largest[filled] = np.maximum.reduceat(weight, csr.row_ptr[filled])
    part = np.divide(weight, np.repeat(largest, degree), out=np.zeros(csr.nnz), where=np.repeat(largest > 0, degree))
    if len(filled):
        total[filled] = np.add.reduceat(part, csr.row_ptr[filled])
    return total, part


def one_step(csr: CSR, walk: Walk, rank: Vector) -> Step:
    """The numpy form: scatter along out-edges, in float64."""
    n, d = csr.rows, walk.damping
    total, part = _shares(csr, walk.weight)
    gives = np.divide(rank, total, out=np.zeros(n), where=total > 0)
    received, in_degree = np.zeros(n), np.zeros(n, np.int64)
    for block in row_blocks(csr, max(EDGES_AT_ONCE, n)):  # sums over all vertices, so few of them
        given = np.repeat(gives[block.first : block.last], np.diff(block.row_ptr))
        if part is not None:
            given *= part[block.entries]
        received += np.bincount(block.cols, given, minlength=n)
        in_degree += np.bincount(block.cols, minlength=n)
    loose = float(rank[total == 0].sum())
    jump = np.full(n, 1 / n) if walk.jump is None else walk.jump
    if walk.dangling == "uniform":
        received += loose / n
    elif walk.dangling == "jump":
        received += loose * jump
    elif walk.dangling == "self":
        received[total == 0] += rank[total == 0]
    after = (1 - d) * jump + d * received
    terms = float(((np.minimum(in_degree, _DEPTH) + _ROUNDINGS) * rank).sum())
    return Step(float(np.abs(after - rank).sum()), float(rank.sum()), terms, after)


def one_step_on_device(graph: Graph, walk: Walk, rank: Vector) -> Step:
    """The same by kernels; `after` is a buffer."""
    n = graph.csr.rows
    given, sums, received = graph.upload(rank), graph.zeros(4, np.float64), graph.zeros(n, np.float64)
    jump: Buffer | None = None
    if walk.jump is not None:
        jump = graph.upload(walk.jump)
    weight = largest = None
    if walk.weight is not None:
        wanted = walk.weight
        weight, largest = graph.array("weight.float64", lambda: wanted), graph.zeros(n, np.uint64)
        kernel = graph.kernel("pagerank", "check_pagerank_largest")
        graph.per_row(kernel, graph.n, graph.row_ptr, weight, largest)
    total, in_degree = graph.zeros(n, np.float64), graph.zeros(n, np.int32)
    graph.per_row(
        graph.kernel("pagerank", "check_pagerank_totals"),
        graph.n,
        graph.row_ptr,
        graph.col,
        weight,
        largest,
        total,
        in_degree,
    )
    graph.per_vertex(graph.kernel("pagerank", "check_pagerank_loose"), graph.n, total, given, sums)
    graph.per_row(
        graph.kernel("pagerank", "check_pagerank_edges"),
        graph.n,
        graph.row_ptr,
        graph.col,
        weight,
        largest,
        total,
        given,
        received,
    )
    graph.strided(
        graph.kernel("pagerank", "check_pagerank_change"),
        graph.n,
        np.float64(walk.damping),
        np.int32(_DANGLING[walk.dangling]),
        np.float64(_DEPTH),
        np.float64(_ROUNDINGS),
        jump,
        total,
        in_degree,
        given,
        received,
        sums,
    )
    _, change, before, terms = graph.download(sums).tolist()
    return Step(change, before, terms, received)


@validates
class PageRankValidator(Validator):
    """Ranks, by one more step F in float64.

    With rho the L1 norm of a step's roundings, ``|F(r) - r| <= d |r - before| + rho``, since F shortens
    distances by the damping d, and iterations end when ``|r - before|`` is at most the tolerance. rho is at
    most half an eps times the sum of (additions and other roundings) x rank. Where iterations may end for
    their number m, the last change is at most ``d^(m - 1)`` times the first one, which a step from the start
    gives; and where the tolerance is less than roundings can add, ``2 rho / (1 - d)`` is added.

    A little is added for sums over all vertices in float64.

    Also, ranks are numbers and not negative, and they add up to 1 within ``rho / (1 - d)``: to at most 1
    where the rank of dangling vertices is lost.
    """

    name = "pagerank"
    bytes_per_vertex = 64
    _first: float | None = None

    @classmethod
    def sources(cls, dtype: np.dtype[Any]) -> list[tuple[str, dict[str, str]]]:
        return [("pagerank", {})]

    def walk(self) -> Walk:
        """The random walk of the options: damping, dangling vertices, jumps, weights."""
        values: dict[str, Any] = dict(self.problem.values)  # type: ignore[attr-defined]
        csr, jump = self.graph.csr, self.inputs.get("teleport")
        return Walk(
            float(values["damping"]),
            str(values["dangling"]),
            None if jump is None else jump.astype(np.float64),
            csr.values if values.get("weighted") == "yes" else None,
        )

    def step(self, rank: Vector) -> Step:
        """One more iteration from `rank` in float64, on device or host."""
        if self.graph.device is None:
            return one_step(self.graph.csr, self.walk(), rank)
        return one_step_on_device(self.graph, self.walk(), rank)

    def _first_change(self) -> float:
        """What the first step of all changes."""
        if self._first is None:
            n, jump = self.graph.csr.rows, self.inputs.get("teleport")
            self._first = self.step(np.full(n, 1 / n) if jump is None else jump.astype(np.float64)).change
        return self._first

    def check(self, output: npt.NDArray[Any], source: int = -1) -> Checked:
        """`output`: ranks ``[n]``, float32 or float64."""
        n, values = self.graph.csr.rows, self.problem.values  # type: ignore[attr-defined]
        if output.dtype != self.dtype or output.shape != (n,):
            error = f"ranks are {output.dtype} {list(output.shape)}, not {self.dtype} [{n}]"
            return Checked(CheckResult(False, error))
        if not n:
            return Checked(CheckResult(True))
        if len(bad := np.flatnonzero(~((output >= 0) & np.isfinite(output)))):
            v = int(bad[0])
            return Checked(CheckResult(False, f"vertex {v:,} has rank {output[v]:.6g}", {"worst_vertex": v}))
        d, u = float(values["damping"]), float(np.finfo(self.dtype).eps) / 2
        rank = output.astype(np.float64)
        step = self.step(rank)
        rho = u * step.terms
        allowed, most = float(values["tolerance"]), int(values["max_iterations"])
        early = d ** (most - 1) * self._first_change() if 2 * d ** (most - 1) > allowed else 0.0
        if early > allowed or allowed < 16 * u:
            allowed = max(allowed, early) + 2 * rho / (1 - d)
        adding = 1e-12 + n * 2.0**-53
        bound = d * allowed + rho + adding
        details: dict[str, Any] = {
            "max_error_ratio": step.change / bound,
            "l1_residual": step.change,
            "l1_bound": bound,
            "sum": step.total,
        }
        slack = rho / (1 - d) + adding
        if step.total > 1 + slack or (values["dangling"] != "none" and step.total < 1 - slack):
            return Checked(CheckResult(False, f"the ranks add up to {step.total:.9g}, not 1", details))
        if not step.change <= bound:
            after = step.after if self.graph.device is None else self.graph.download(step.after)
            v = int(np.argmax(np.abs(after - rank)))
            return Checked(
                CheckResult(
                    False,
                    f"one more float64 step changes the ranks by {step.change:.3g} (L1), more than {bound:.3g}; "
                    f"vertex {v:,} has {rank[v]:.6g}, the step gives {after[v]:.6g}",
                    {**details, "worst_vertex": v},
                )
            )
        return Checked(CheckResult(True, "", details))
