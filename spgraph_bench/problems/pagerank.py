"""PageRank: how often a random walk that sometimes jumps is at each vertex."""

from __future__ import annotations

import math
import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.errors import InputError, UsageError
from spgraph_bench.formats.base import Packed
from spgraph_bench.matrix import CSR, Matrix, VertexLabels, called
from spgraph_bench.parameters import Parameter
from spgraph_bench.problems.base import CheckResult, Problem, Work, filled_options, register
from spgraph_bench.problems.sources import check_square, has_oracle
from spgraph_bench.problems.weights import WALK_FAULTS, refuse_weights

__all__ = ["DANGLING", "PageRank", "edge_chances", "power_iteration", "read_personalization"]

Vector = npt.NDArray[np.float64]

DANGLING: Mapping[str, int] = MappingProxyType({"none": 0, "uniform": 1, "self": 2, "jump": 1})
"""Policies for vertices without out-edges, and what cuda/pagerank/power.cuh calls them (jump: with SPG_JUMP
where there is a personalisation)."""

_OPTIONS: Mapping[str, Parameter] = MappingProxyType(
    {
        "damping": Parameter(0.85, "share of the walk that follows edges", between=(0.0, 0.9999)),
        "tolerance": Parameter(
            1e-6, "stop when the L1 norm of the change is at most this (not scaled by n)", between=(0.0, 2.0)
        ),
        "max_iterations": Parameter(100, "most iterations", between=(1, 1_000_000)),
        "dangling": Parameter(
            "jump",
            "where the rank of vertices without out-edges goes: to the jump targets, to all equally, "
            "to themselves, nowhere",
            choices=("jump", "uniform", "self", "none"),
        ),
        "weighted": Parameter("no", "follow an edge in proportion to its weight, not uniformly", choices=("no", "yes")),
        "personalize": Parameter("", "file of vertices to jump to, with weights (default: all, equally)"),
        "top": Parameter(10, "vertices of highest rank to name", between=(0, 1000)),
    }
)

_DEPTH = 128
"""Additions that an entry of a sum goes through one after the other in a float32 kernel, at most; longer sums
are cut, or in double."""
_ROUNDINGS = 8
"""Other roundings between a rank and the next one; weighted edges add two."""


def edge_chances(csr: CSR) -> Vector | None:
    """How likely the walk takes each edge from its source; None for a pattern, whose edges weigh the same.

    Float64 ``[nnz]``: the edge's weight over the sum of its source's weights, 0 where that sum is 0. Weights
    are divided by their row's largest first, so that no sum is too large.
    """
    if csr.values is None:
        return None
    degree = csr.row_lengths()
    filled = np.flatnonzero(degree)
    largest = np.zeros(csr.rows)
    if len(filled):
        largest[filled] = np.maximum.reduceat(csr.values, csr.row_ptr[filled])
    largest[largest == 0] = 1
    chance: Vector = csr.values / np.repeat(largest, degree)
    total = np.zeros(csr.rows)
    if len(filled):
        total[filled] = np.add.reduceat(chance, csr.row_ptr[filled])
    total[total == 0] = 1
    chance /= np.repeat(total, degree)
    return chance


@dataclass(frozen=True)
class _Walk:
    """How the walk goes on from each vertex."""

    turned: Any
    """Its chances, turned: ``turned @ rank`` is what edges bring to each vertex."""
    loose: npt.NDArray[np.bool_]
    """Vertices without out-edges, or without one of a weight above 0."""


def _loose(csr: CSR, chance: npt.NDArray[Any] | None) -> npt.NDArray[np.bool_]:
    degree = csr.row_lengths()
    loose: npt.NDArray[np.bool_] = degree == 0
    if chance is not None:
        loose = np.ones(csr.rows, bool)
        loose[np.repeat(np.arange(csr.rows), degree)[chance > 0]] = False
    return loose


def _walk(csr: CSR, chance: Vector | None) -> _Walk:
    import scipy.sparse as sp

    degree, loose = csr.row_lengths(), _loose(csr, chance)
    if chance is None:
        chance = np.repeat(1 / np.maximum(degree, 1), degree)
    return _Walk(sp.csr_array((chance, csr.col_idx, csr.row_ptr), shape=csr.shape).T, loose)


def _step(walk: _Walk, rank: Vector, teleport: Vector | float, damping: float, dangling: str) -> Vector:
    """One step of the power iteration in float64."""
    received: Vector = walk.turned @ rank
    loose = walk.loose
    if dangling == "jump":
        received += rank[loose].sum() * teleport
    elif dangling == "uniform":
        received += rank[loose].sum() / max(len(rank), 1)
    elif dangling == "self":
        received[loose] += rank[loose]
    return (1 - damping) * teleport + damping * received


def power_iteration(
    csr: CSR,
    teleport: Vector | None = None,
    *,
    damping: float = 0.85,
    tolerance: float = 1e-6,
    max_iterations: int = 100,
    dangling: str = "jump",
    weighted: str = "no",
    **_: Any,
) -> tuple[Vector, int, float]:
    """Ranks float64 ``[n]``, iterations done, and the last change (L1): slow and plain, in float64."""
    walk = _walk(csr, edge_chances(csr) if weighted == "yes" else None)
    jump: Vector | float = 1 / max(csr.rows, 1) if teleport is None else teleport
    rank = np.zeros(csr.rows) + jump
    change, done = math.inf, 0
    while done < max_iterations and change > tolerance:
        after = _step(walk, rank, jump, damping, dangling)
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


def _vertex_and_weight(line: str, named: bool) -> tuple[str, float]:
    """What a line says.

    A name may have spaces: where the last word is a number and not all of the line, it is the weight. Raises
    ValueError for a line that says neither.
    """
    words = line.replace(",", " ").split()
    if named:
        head, _, tail = line.strip().rpartition("," if "," in line else " ")
        if head.strip() and _NUMBER.fullmatch(tail.strip()):
            return head.strip(), float(tail)
        return line.strip(), 1.0
    if len(words) > 2 or not all(map(_NUMBER.fullmatch, words)):
        raise ValueError
    return words[0], float(words[1]) if len(words) > 1 else 1.0


def read_personalization(path: Path, matrix: Matrix) -> Vector:
    """Where the walk jumps to, float64 ``[n]`` with sum 1, from a text file.

    A line is a vertex (as the input of `matrix` calls it) and its weight, 1 if omitted; # and % begin a
    comment. Raises InputError with the line of what is wrong.
    """
    weight = np.zeros(matrix.csr.rows)
    seen: dict[int, int] = {}
    for number, line in enumerate(_lines(path), 1):
        text = line.split("#")[0].split("%")[0]
        if not text.strip(" \t\r\n,"):
            continue
        place = f"{path}:{number}"
        try:
            label, given = _vertex_and_weight(text, matrix.names is not None)
        except ValueError:
            label, given = "", math.nan
        if not (0 <= given < math.inf):
            raise InputError(
                f"{line.strip()[:40]!r} is not a vertex with a weight",
                place=place,
                remedy="a line is a vertex and a weight >= 0, which is optional",
            )
        try:
            vertex = matrix.vertex_index(label)
        except UsageError as error:
            raise InputError(error.cause, place=place, remedy=error.remedy) from None
        if vertex in seen:
            raise InputError(
                f"vertex {label} was named in line {seen[vertex]} already",
                place=place,
                remedy="delete one of the lines",
            )
        seen[vertex] = number
        weight[vertex] = given
    with np.errstate(over="ignore"):
        total = weight.sum()
    if not 0 < total < math.inf:
        cause = "no vertex has a weight above 0" if not total else "the weights add up to infinity"
        raise InputError(cause, place=str(path), remedy="name a vertex to jump to, and finite weights")
    weight /= total
    return weight


class PageRank(Problem):
    """Ranks of all vertices, by the power iteration.

    Output ``rank`` [n]. Input ``teleport`` [n], where the walk jumps to and starts, only with a
    personalisation; without one all vertices are alike. Input ``chance`` [nnz], in the order of the CSR, only
    with weights: see :func:`edge_chances`; otherwise a vertex's edges are followed alike. Self-loops are
    edges, edges that the input held twice are one since it was read.

    Iterations end when sum |new rank - old rank| (L1) is at most the tolerance, which is not scaled by n. A
    step shortens L1 distances by the damping d, so the ranks are then within d / (1 - d) times the tolerance
    of where the iteration leads to.

    A rate counts an edge in every iteration.
    """

    name = "pagerank"
    title = "PageRank: how often a random walk that sometimes jumps is at each vertex"
    rate_unit = "GTEPS"
    outputs: tuple[str, ...] = ("rank",)
    dtypes: tuple[str, ...] = ("float32", "float64")
    is_graph = True
    options: Mapping[str, Parameter] = _OPTIONS

    def __init__(self, values: Mapping[str, Any] | None = None) -> None:
        self.values = values or {name: option.default for name, option in _OPTIONS.items()}
        self.reads_values = self.values["weighted"] == "yes"

    def configured(self, options: Mapping[str, Any]) -> PageRank:
        """This problem with these options."""
        return PageRank(filled_options(self, options))

    def inputs(self, matrix: Matrix, dtype: np.dtype[Any], seed: int, **options: Any) -> dict[str, npt.NDArray[Any]]:
        """``teleport``, if there is a file of it; ``chance``, if weights are asked for and there are any.

        Raises InputError for the file, for a weight that is negative, infinite or not a number, or a matrix not
        square.
        """
        check_square(matrix.csr)
        made: dict[str, npt.NDArray[Any]] = {}
        if self.values["personalize"]:
            jumps = read_personalization(Path(self.values["personalize"]), matrix)
            made["teleport"] = jumps.astype(dtype)
        if self.values["weighted"] == "yes":
            refuse_weights(matrix, WALK_FAULTS)
            if (chance := edge_chances(matrix.csr)) is not None:
                made["chance"] = chance.astype(dtype)
        return made

    def output_arrays(self, matrix: Matrix, dtype: np.dtype[Any]) -> dict[str, tuple[tuple[int, ...], np.dtype[Any]]]:
        return {"rank": ((matrix.csr.rows,), dtype)}

    def oracle(
        self, matrix: Matrix, inputs: Mapping[str, npt.NDArray[Any]], dtype: np.dtype[Any], **_: Any
    ) -> dict[str, npt.NDArray[Any]]:
        """``rank`` float64 ``[n]``; ``ended`` float64 [2], iterations and the last change; ``terms`` float64
        [1], the roundings of a step, each weighted with the rank it is made in; ``teleport`` as float64, if
        given; ``chance`` float64 ``[nnz]``, where weights are used. Nothing for a graph without an oracle."""
        csr = matrix.csr
        if not has_oracle(csr):
            return {}
        teleport = inputs["teleport"].astype(np.float64) if "teleport" in inputs else None
        rank, done, change = power_iteration(csr, teleport, **self.values)
        in_degree = np.bincount(csr.col_idx, minlength=csr.rows)
        chance = edge_chances(csr) if self.values["weighted"] == "yes" else None
        roundings = _ROUNDINGS + (0 if chance is None else 2)
        terms = ((np.minimum(in_degree, _DEPTH) + roundings) * rank).sum()
        answer = {"rank": rank, "ended": np.array([done, change]), "terms": np.array([terms])}
        if chance is not None:
            answer["chance"] = chance
        return answer if teleport is None else {**answer, "teleport": teleport}

    def check(
        self, output: npt.NDArray[Any], oracle: Mapping[str, npt.NDArray[Any]], dtype: np.dtype[Any]
    ) -> CheckResult:
        """The L1 residual of one more step F in float64, and the sum of ranks.

        With rho the L1 norm of a step's roundings, ``|F(r) - r| <= |F(r) - F(before)| + rho <= d |r - before|
        + rho``, since F shortens distances by d; and iterations end when ``|r - before|`` is at most the
        tolerance. rho is at most u times the sum of (additions and other roundings) x rank; u is half an eps.
        Where iterations may end otherwise, because of their number or because the tolerance is less than
        roundings can add, what the float64 iteration changed last and 2 rho / (1 - d) stand for it.
        Without loss the ranks' sum is within rho / (1 - d) of 1.
        """
        right = oracle["rank"]
        if output.shape != right.shape or output.dtype != dtype:
            return CheckResult(False, f"ranks are {output.dtype} {list(output.shape)}, not {dtype} {list(right.shape)}")
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
        one_more = _step(_walk(csr, oracle.get("chance")), rank, jump, d, o["dangling"])
        off = np.abs(one_more - rank)
        residual, total = float(off.sum()), float(rank.sum())
        distance = float(np.abs(rank - right).sum())
        details = {
            "max_error_ratio": residual / bound,
            "l1_residual": residual,
            "l1_bound": bound,
            "sum": total,
            "l1_to_float64": distance,
        }
        if not residual <= bound:  # nor is nan
            v = int(np.argmax(np.where(np.isnan(off), np.inf, off)))
            return CheckResult(
                False,
                f"one more float64 step changes the ranks by {residual:.3g} (L1), more than {bound:.3g}; "
                f"vertex {v:,} has {rank[v]:.6g}, the step gives {one_more[v]:.6g}",
                {**details, "worst_vertex": v},
            )
        if o["dangling"] != "none" and abs(total - 1) > rho / (1 - d) + 1e-12:
            return CheckResult(False, f"the ranks add up to {total:.9g}, not 1", details)
        return CheckResult(True, "", details)

    def columns(
        self, output: npt.NDArray[Any], csr: CSR, inputs: Mapping[str, npt.NDArray[Any]]
    ) -> dict[str, npt.NDArray[Any]]:
        return {"rank": output}

    def summary(
        self,
        output: npt.NDArray[Any],
        facts: Mapping[str, Any],
        csr: CSR,
        inputs: Mapping[str, npt.NDArray[Any]],
        oracle: Mapping[str, npt.NDArray[Any]],
        ids: VertexLabels,
    ) -> dict[str, Any]:
        """``iterations``, ``change``, ``converged``, ``dangling_vertices``, ``sum``; and the top vertices."""
        o = self.values
        count = min(int(o["top"]), len(output))
        order: npt.NDArray[np.intp] = np.zeros(0, np.intp)
        if count:
            least = np.partition(output, -count)[-count]
            among = np.flatnonzero(output >= least)
            order = among[np.argsort(-output[among], kind="stable")][:count]  # ties by vertex
        loose = int(np.count_nonzero(_loose(csr, oracle.get("chance", inputs.get("chance")))))
        total = float(output.sum(dtype=np.float64))
        facts_shown: dict[str, Any] = {"dangling_vertices": loose, "sum": total}
        how = ""
        if "iterations" in facts:
            change = float(facts["change"])
            facts_shown |= {
                "iterations": int(facts["iterations"]),
                "change": change,
                "converged": change <= o["tolerance"],
            }
            word = "converged" if facts_shown["converged"] else "not converged"
            how = f": {word} after {facts_shown['iterations']:,} (change {change:.3g})"
        goes = {
            "jump": "goes where jumps go",
            "uniform": "spread over all vertices",
            "self": "kept by themselves",
            "none": "lost",
        }
        jumps = "to every vertex equally"
        if "teleport" in inputs:
            jumps = f"to {np.count_nonzero(inputs['teleport']):,} vertices of {o['personalize']}"
        weights = "edges in proportion to their weights" if "chance" in inputs else "weights are not used"
        if o["weighted"] == "yes" and "chance" not in inputs:
            weights = "the graph has no weights: all 1"
        near = float(o["tolerance"]) * o["damping"] / (1 - o["damping"])
        facts_shown["said"] = [
            f"damping {o['damping']:g}; jumps go {jumps}; rank of {loose:,} dangling vertices: "
            f"{goes[str(o['dangling'])]}; {weights}; ranks add up to {total:.7g}",
            f"iterations end when sum |new - old| (L1) is at most {o['tolerance']:g}, not scaled by n, or "
            f"after {o['max_iterations']:,}{how}; at the tolerance ranks are within {near:.2g} (L1) of the "
            "limit; GTEPS: edges x iterations per time",
        ]
        facts_shown["table"] = {
            "title": f"the {f'{count:,} vertices' if count > 1 else 'vertex'} of highest rank",
            "columns": ["vertex", "rank"],
            "rows": [[called(ids, v), float(output[v])] for v in order],
            "numbers": order.tolist(),
        }
        return facts_shown

    def work(self, matrix_shape: tuple[int, int], packed: Packed) -> Work:
        """Of one iteration: every edge once; edges in the direction they are used in, ranks and what they
        give read and written once; with weights each edge's chance too."""
        n, arrays = packed.rows, packed.arrays
        used = [arrays[k] for k in ("col_ptr", "row")] if "col_ptr" in arrays else list(arrays.values())
        value = packed.dtype.itemsize
        chances = packed.nnz * value if self.values["weighted"] == "yes" and not packed.pattern else 0
        compulsory = sum(int(a.nbytes) for a in used) + 4 * n * value + chances
        return Work(packed.nnz, compulsory, packed.stored_bytes + chances, packed.nnz * value)


register(PageRank())
