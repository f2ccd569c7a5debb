"""PageRank: how often a random walk that sometimes jumps is at each vertex."""

from __future__ import annotations

import math
import os
import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.errors import InputError
from spgraph_bench.formats.base import Packed
from spgraph_bench.matrix import CSR, Matrix
from spgraph_bench.problems.base import CheckResult, Option, Work, filled_options, register
from spgraph_bench.problems.traversal import check_square

__all__ = ["DANGLING", "PageRank", "power_iteration", "read_personalization"]

Vector = npt.NDArray[np.float64]

DANGLING: Mapping[str, int] = MappingProxyType({"none": 0, "uniform": 1, "self": 2})
"""Policies for vertices without out-edges, and what cuda/pagerank/power.cuh calls them."""

_OPTIONS: Mapping[str, Option] = MappingProxyType(
    {
        "damping": Option(0.85, "share of the walk that follows edges", between=(0.0, 0.9999)),
        "tolerance": Option(
            1e-6, "stop when the L1 norm of the change is at most this (not scaled by n)", between=(0.0, 2.0)
        ),
        "max_iterations": Option(100, "stop after so many iterations at the latest", between=(1, 1_000_000)),
        "dangling": Option(
            "uniform",
            "where the rank of vertices without out-edges goes: to all alike, to themselves, nowhere",
            choices=("uniform", "self", "none"),
        ),
        "personalize": Option("", "file of vertices to jump to, with weights (default: all alike)"),
        "top": Option(10, "vertices of highest rank to name", between=(0, 1000)),
    }
)

_DEPTH = 128
"""Additions that an entry of a sum goes through one after the other in a float32 kernel, at most; longer sums
are cut, or in double."""
_ROUNDINGS = 8
"""Other roundings between a rank and the next one."""


def _operator(csr: CSR) -> Any:
    """A^T without values, as scipy takes it."""
    import scipy.sparse as sp

    return sp.csr_array((np.ones(csr.nnz), csr.col_idx, csr.row_ptr), shape=csr.shape).T


def _step(
    turned: Any, out_degree: npt.NDArray[np.int64], rank: Vector, teleport: Vector | float, damping: float,
    dangling: str,
) -> Vector:  # fmt: skip
    """One step of the power iteration in float64."""
    gives = np.zeros(len(rank))
    np.divide(rank, out_degree, out=gives, where=out_degree > 0)
    got: Vector = turned @ gives
    loose = out_degree == 0
    if dangling == "uniform":
        got += rank[loose].sum() / max(len(rank), 1)
    elif dangling == "self":
        got[loose] += rank[loose]
    return (1 - damping) * teleport + damping * got


def power_iteration(
    csr: CSR, teleport: Vector | None = None, *, damping: float = 0.85, tolerance: float = 1e-6,
    max_iterations: int = 100, dangling: str = "uniform", **_: Any,
) -> tuple[Vector, int, float]:  # fmt: skip
    """Ranks float64 ``[n]``, iterations done, and the last change (L1): slow and plain, in float64."""
    turned, degree = _operator(csr), csr.row_lengths()
    jump: Vector | float = 1 / max(csr.rows, 1) if teleport is None else teleport
    rank = np.zeros(csr.rows) + jump
    change, done = math.inf, 0
    while done < max_iterations and change > tolerance:
        after = _step(turned, degree, rank, jump, damping, dangling)
        change, rank, done = float(np.abs(after - rank).sum()), after, done + 1
    return rank, done, change


_LONGEST_LINE = 4096
_NUMBER = re.compile(r"[-+]?[0-9.][-+0-9.eE]*", re.ASCII)
"""What is looked at as a number; int() and float() take more ("1_0", digits of other scripts)."""


def _lines(path: Path) -> Iterator[str]:
    """The lines of a text file, none kept. Raises InputError for what is none, before it is read on."""
    try:
        mode = os.stat(path).st_mode
        if stat.S_ISCHR(mode) or stat.S_ISBLK(mode) or stat.S_ISSOCK(mode):
            raise InputError("this is a device, not a file", place=str(path), remedy="name a file")
        with path.open("rb") as file:
            number = 0
            while line := file.readline(_LONGEST_LINE + 1):
                number += 1
                if len(line) > _LONGEST_LINE or b"\0" in line:
                    what = "holds binary data" if b"\0" in line else f"is longer than {_LONGEST_LINE:,} bytes"
                    raise InputError(f"the line {what}", place=f"{path}:{number}", remedy="name a text file")
                yield line.decode("utf-8-sig" if number == 1 else "utf-8", errors="replace")
    except OSError as error:
        raise InputError(
            f"cannot be read: {error.strerror}", place=str(path), remedy="name a text file of vertices"
        ) from None


def read_personalization(path: Path, ids: npt.NDArray[np.int64]) -> Vector:
    """Where the walk jumps to, float64 ``[n]`` with sum 1, from a text file.

    A line is a vertex (by the `ids` of the input) and its weight, 1 if left out; # and % begin a comment.
    Raises InputError with the line of what is wrong.
    """
    weight = np.zeros(len(ids))
    seen: dict[int, int] = {}
    for number, line in enumerate(_lines(path), 1):
        words = line.split("#")[0].split("%")[0].replace(",", " ").split()
        if not words:
            continue
        place = f"{path}:{number}"
        try:
            if not all(map(_NUMBER.fullmatch, words)):
                raise ValueError
            vertex, given = int(words[0]), float(words[1]) if len(words) > 1 else 1.0
        except ValueError:
            vertex, given = 0, math.nan
        if len(words) > 2 or not (0 <= given < math.inf):
            raise InputError(
                f"{line.strip()[:40]!r} is no vertex with a weight", place=place,
                remedy="a line is a vertex and a weight >= 0, which may be left out",
            )  # fmt: skip
        at = int(np.searchsorted(ids, vertex)) if -(2**63) <= vertex < 2**63 else len(ids)
        if at == len(ids) or ids[at] != vertex:
            what = f"they go from {ids[0]} to {ids[-1]}" if len(ids) else "it has none"
            raise InputError(f"the graph has no vertex {vertex}", place=place, remedy=what)
        if vertex in seen:
            raise InputError(f"vertex {vertex} was named in line {seen[vertex]} already", place=place)
        seen[vertex] = number
        weight[at] = given
    with np.errstate(over="ignore"):
        total = weight.sum()
    if not 0 < total < math.inf:
        cause = "no vertex has a weight above 0" if not total else "the weights add up to infinity"
        raise InputError(cause, place=str(path), remedy="name a vertex to jump to, and finite weights")
    weight /= total
    return weight


class PageRank:
    """Ranks of all vertices, by the power iteration.

    Output ``rank`` [n]. Input ``teleport`` [n], where the walk jumps to and starts, only with a
    personalisation; without one all vertices are alike. Edges are followed alike: weights are not used,
    self-loops are edges, edges that the input held twice are one since it was read.

    Iterations end when sum |new rank - old rank| (L1) is at most the tolerance, which is not scaled by n.
    """

    name = "pagerank"
    title = "PageRank: how often a random walk that sometimes jumps is at each vertex"
    rate_unit = "GTEPS"
    outputs: tuple[str, ...] = ("rank",)
    dtypes: tuple[str, ...] = ("float32", "float64")
    is_graph = True
    options: Mapping[str, Option] = _OPTIONS

    def __init__(self, values: Mapping[str, Any] | None = None) -> None:
        self.values = values or {name: option.default for name, option in _OPTIONS.items()}

    def configured(self, options: Mapping[str, Any]) -> PageRank:
        """This problem with these options."""
        return PageRank(filled_options(self, options))

    def inputs(
        self, matrix: Matrix, dtype: np.dtype[Any], seed: int, **options: Any
    ) -> dict[str, npt.NDArray[Any]]:
        """``teleport``, if there is a file of it. Raises InputError for the file, or a matrix not square."""
        check_square(matrix.csr)
        if not self.values["personalize"]:
            return {}
        jumps = read_personalization(Path(self.values["personalize"]), matrix.vertex_ids())
        return {"teleport": jumps.astype(dtype)}

    def output_arrays(
        self, matrix: Matrix, dtype: np.dtype[Any]
    ) -> dict[str, tuple[tuple[int, ...], np.dtype[Any]]]:
        return {"rank": ((matrix.csr.rows,), dtype)}

    def oracle(
        self,
        matrix: Matrix,
        inputs: Mapping[str, npt.NDArray[Any]],
        dtype: np.dtype[Any],
        **_: Any,
    ) -> dict[str, npt.NDArray[Any]]:
        """``rank`` float64 ``[n]``; ``ended`` float64 [2], iterations and the last change; ``terms`` float64
        [1], the roundings of a step, each weighted with the rank it is made in; ``teleport`` as float64, if
        given."""
        csr = matrix.csr
        teleport = inputs["teleport"].astype(np.float64) if "teleport" in inputs else None
        rank, done, change = power_iteration(csr, teleport, **self.values)
        in_degree = np.bincount(csr.col_idx, minlength=csr.rows)
        terms = ((np.minimum(in_degree, _DEPTH) + _ROUNDINGS) * rank).sum()
        found = {"rank": rank, "ended": np.array([done, change]), "terms": np.array([terms])}
        return found if teleport is None else {**found, "teleport": teleport}

    def check(
        self, output: npt.NDArray[Any], oracle: Mapping[str, npt.NDArray[Any]], dtype: np.dtype[Any]
    ) -> CheckResult:
        """The L1 residual of one more step F in float64, and the sum of ranks.

        With rho the L1 norm of a step's roundings, ``|F(r) - r| <= |F(r) - F(before)| + rho <= d |r - before|
        + rho``, since F shortens distances by d; and iterations end when ``|r - before|`` is at most the
        tolerance. rho is at most u times the sum of (additions and other roundings) x rank; u is half an eps.
        Where iterations may end otherwise, because of their number or because the tolerance is less than
        roundings can come to, what the float64 iteration changed last and 2 rho / (1 - d) stand for it.
        Without loss the ranks' sum is within rho / (1 - d) of 1.
        """
        right = oracle["rank"]
        if output.shape != right.shape or output.dtype != dtype:
            return CheckResult(
                False, f"ranks are {output.dtype} {list(output.shape)}, not {dtype} {list(right.shape)}"
            )
        if not len(right):
            return CheckResult(True)
        o, d = self.values, float(self.values["damping"])
        csr = CSR(len(right), len(right), oracle["row_ptr"], oracle["col_idx"], None)
        u = float(np.finfo(dtype).eps) / 2
        rho = u * float(oracle["terms"][0])
        done, change = oracle["ended"]
        allowed = float(o["tolerance"])
        if done >= o["max_iterations"] or allowed < 16 * u:
            allowed = max(allowed, float(change)) + 2 * rho / (1 - d)
        bound = d * allowed + rho
        rank = output.astype(np.float64)
        jump = oracle.get("teleport", 1 / len(rank))
        one_more = _step(_operator(csr), csr.row_lengths(), rank, jump, d, o["dangling"])
        off = np.abs(one_more - rank)
        residual, total = float(off.sum()), float(rank.sum())
        distance = float(np.abs(rank - right).sum())
        told = {
            "max_error_ratio": residual / bound, "l1_residual": residual, "l1_bound": bound, "sum": total,
            "l1_to_float64": distance,
        }  # fmt: skip
        if not residual <= bound:  # nor is nan
            v = int(np.argmax(np.where(np.isnan(off), np.inf, off)))
            return CheckResult(
                False,
                f"one more float64 step changes the ranks by {residual:.3g} (L1), more than {bound:.3g}; "
                f"vertex {v:,} has {rank[v]:.6g}, the step gives {one_more[v]:.6g}",
                {**told, "worst_vertex": v},
            )
        if o["dangling"] != "none" and abs(total - 1) > rho / (1 - d) + 1e-12:
            return CheckResult(False, f"the ranks add up to {total:.9g}, not 1", told)
        return CheckResult(True, "", told)

    def columns(self, output: npt.NDArray[Any]) -> dict[str, npt.NDArray[Any]]:
        return {"rank": output}

    def summary(
        self,
        output: npt.NDArray[Any],
        facts: Mapping[str, Any],
        csr: CSR,
        inputs: Mapping[str, npt.NDArray[Any]],
        oracle: Mapping[str, npt.NDArray[Any]],
        ids: npt.NDArray[np.int64],
    ) -> dict[str, Any]:
        """``iterations``, ``change``, ``converged``, ``dangling_vertices``, ``sum``; and the top vertices."""
        o = self.values
        count = min(int(o["top"]), len(output))
        order: npt.NDArray[np.intp] = np.zeros(0, np.intp)
        if count:
            least = np.partition(output, -count)[-count]
            among = np.flatnonzero(output >= least)
            order = among[np.argsort(-output[among], kind="stable")][:count]  # ties by vertex
        loose = int(np.count_nonzero(csr.row_lengths() == 0))
        total = float(output.sum(dtype=np.float64))
        told: dict[str, Any] = {"dangling_vertices": loose, "sum": total}
        how = ""
        if "iterations" in facts:
            change = float(facts["change"])
            told |= {
                "iterations": int(facts["iterations"]), "change": change,
                "converged": change <= o["tolerance"],
            }  # fmt: skip
            word = "converged" if told["converged"] else "not converged"
            how = f": {word} after {told['iterations']:,} (change {change:.3g})"
        goes = {"uniform": "spread over all vertices", "self": "kept by themselves", "none": "lost"}
        jumps = "to every vertex alike"
        if "teleport" in inputs:
            jumps = f"to {np.count_nonzero(inputs['teleport']):,} vertices of {o['personalize']}"
        told["said"] = [
            f"damping {o['damping']:g}; jumps go {jumps}; rank of {loose:,} dangling vertices: "
            f"{goes[str(o['dangling'])]}; weights are not used; ranks add up to {total:.7g}",
            f"iterations end when sum |new - old| (L1) is at most {o['tolerance']:g}, not scaled by n, or "
            f"after {o['max_iterations']:,}{how}; GTEPS: edges x iterations per time",
        ]
        told["table"] = {
            "title": f"the {f'{count:,} vertices' if count > 1 else 'vertex'} of highest rank",
            "columns": ["vertex", "rank"],
            "rows": [[int(ids[v]), float(output[v])] for v in order],
        }
        return told

    def work(self, matrix_shape: tuple[int, int], packed: Packed) -> Work:
        """Of one iteration: every edge once; edges in the direction they are used in, ranks and what they
        give read and written once."""
        n, arrays = packed.rows, packed.arrays
        used = [arrays[k] for k in ("col_ptr", "row")] if "col_ptr" in arrays else list(arrays.values())
        value = packed.dtype.itemsize
        compulsory = sum(int(a.nbytes) for a in used) + 4 * n * value
        return Work(packed.nnz, compulsory, packed.stored_bytes, packed.nnz * value)

    def rate(self, work: Work, seconds: float) -> float:
        """GTEPS: 1e9 edges per second, an edge counted in every iteration."""
        return work.operations / seconds / 1e9


register(PageRank())
