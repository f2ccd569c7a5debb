"""What problems that start from a vertex share: the graph, its sources, a plain search, work per level."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from spgraph_bench.errors import InputError, UsageError
from spgraph_bench.formats.base import Packed
from spgraph_bench.formats.common import ranges
from spgraph_bench.formats.graphs import transpose
from spgraph_bench.matrix import CSR, Matrix
from spgraph_bench.parameters import Parameter
from spgraph_bench.problems.base import CheckResult, Problem, filled_options
from spgraph_bench.stats import row_blocks, row_ranges
from spgraph_bench.structure import compiled

__all__ = [
    "ORACLE_EDGES",
    "SOURCE_OPTIONS",
    "BatchProblem",
    "LevelWork",
    "SourceProblem",
    "batches",
    "check_square",
    "counted_edges",
    "draw_sources",
    "first_answers",
    "has_oracle",
    "level_work",
    "levels_of",
    "out_edges",
    "pattern_is_symmetric",
    "plain_levels",
    "proper_degrees",
]

Levels = npt.NDArray[np.int32]
T = TypeVar("T")

ORACLE_EDGES = 20_000_000
"""Graphs of more edges are validated only: the slow oracles would take longer than all the rest."""
_ORACLE_BYTES = 2 << 30
_EDGES_AT_ONCE = 1 << 24
"""Edges held at a time: what is made of them is about 400 MB, whatever the graph."""

SOURCE_OPTIONS: Mapping[str, Parameter] = MappingProxyType(
    {
        "source": Parameter(
            -1,
            "vertex to start from, called as in the input, in place of drawn ones",
            between=(-1, 2**31 - 2),
            vertex=True,
        ),
        "sources": Parameter(64, "vertices to start from in turn, drawn with --seed", between=(1, 2**31 - 1)),
        "component": Parameter("largest", "component to draw sources from", choices=("largest", "any")),
        "check_seconds": Parameter(
            20,
            "seconds for slow plain searches to compare with, on graphs of at most 20 M edges; 0: none. "
            "Every source is validated anyway",
            between=(0, 86400),
        ),
    }
)
"""Options of problems that start from a vertex."""


class SourceProblem(Problem):
    """What problems have in common that are solved from one source after another: a case is a source.

    Input ``sources`` int32 ``[cases]``. A rate is 1e9 edges per second, of those that the source reaches, each
    counted once however often it is looked at (see results/cases.py for several cases): no work model
    knows them before a run, the cases hold them.
    """

    rate_unit = "GTEPS"
    is_graph = True
    has_cases = True
    host_defaults: Mapping[str, Any] = MappingProxyType({"sources": 4})  # emulated kernels are slow
    options: Mapping[str, Parameter] = SOURCE_OPTIONS

    def sources_of(self, case: int, inputs: Mapping[str, npt.NDArray[Any]]) -> list[int]:
        """The sources of one case: a vertex, or those of a batch."""
        return [v for v in np.atleast_1d(inputs["sources"][case]).tolist() if v >= 0]

    def answers_of(self, output: npt.NDArray[Any]) -> Sequence[npt.NDArray[Any]]:
        """The answer from each source of a case, in their order, of its `output`."""
        return [output]

    def inputs(self, matrix: Matrix, dtype: np.dtype[Any], seed: int, **options: Any) -> dict[str, npt.NDArray[Any]]:
        """`options`: source, sources and component, see :func:`draw_sources`; others are omitted."""
        own = {k: v for k, v in options.items() if k in ("source", "sources", "component")}
        return {"sources": draw_sources(matrix.csr, seed, **own)}


class BatchProblem(SourceProblem):
    """What problems have in common whose cases are batches of sources: before the problem itself in the bases.

    Input ``sources`` int32 ``[cases, width]``, -1 behind the others where the last batch has fewer. The output of a
    case has a row for each of its sources.
    """

    is_batch = True

    def __init__(self, width: int = 64) -> None:
        self.width = width

    def width_of(self, options: Mapping[str, Any]) -> int:
        """64, or as many sources as there are, if fewer. `source` may be called as in the input. Raises UsageError for
        bad options."""
        filled = filled_options(self, {name: value for name, value in options.items() if name != "source"})
        return 1 if options.get("source", -1) != -1 else min(64, int(filled["sources"]))

    def inputs(self, matrix: Matrix, dtype: np.dtype[Any], seed: int, **options: Any) -> dict[str, npt.NDArray[Any]]:
        given = super().inputs(matrix, dtype, seed, **options)
        return {**given, "sources": batches(given["sources"], self.width)}

    @staticmethod
    def in_turn(inputs: Mapping[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
        """`inputs` with all sources one after another, as the problem of one source has them."""
        flat = inputs["sources"].reshape(-1)
        return {**inputs, "sources": flat[flat >= 0]}

    def oracle(
        self,
        matrix: Matrix,
        inputs: Mapping[str, npt.NDArray[Any]],
        dtype: np.dtype[Any],
        check_seconds: float = 20,
        **_: Any,
    ) -> dict[str, npt.NDArray[Any]]:
        """That of the problem of one source, for the first sources in the order of batches."""
        inputs = self.in_turn(inputs)
        return super().oracle(matrix, inputs, dtype, check_seconds=check_seconds)  # type: ignore[safe-super]

    def answers_of(self, output: npt.NDArray[Any]) -> Sequence[npt.NDArray[Any]]:
        return list(output)

    def check_case(
        self,
        case: int,
        output: npt.NDArray[Any],
        csr: CSR,
        inputs: Mapping[str, npt.NDArray[Any]],
        oracle: Mapping[str, npt.NDArray[Any]],
    ) -> tuple[CheckResult, int]:
        """What the problem of one source says of the first wrong answer, or of the last, and how many an oracle
        knows."""
        sources, known, result = self.sources_of(case, inputs), 0, CheckResult(True)
        if output.shape != (len(sources), csr.rows):
            shape = [len(sources), csr.rows]
            return CheckResult(False, f"answers are {output.dtype} {list(output.shape)}, not {shape}"), 0
        for i, (source, answer) in enumerate(zip(sources, output, strict=True)):
            result, there = super().check_case(case * self.width + i, answer, csr, inputs, oracle)
            known += int(there)
            if not result.ok:
                return CheckResult(False, f"from source {source:,}: {result.message}", result.details), known
        return result, known


def batches(sources: npt.NDArray[np.int32], width: int) -> npt.NDArray[np.int32]:
    """`sources` in rows of `width`, int32 ``[ceil(count / width), width]``; -1 where the last row has fewer."""
    rows = np.full((-(-len(sources) // width), width), -1, np.int32)
    rows.reshape(-1)[: len(sources)] = sources
    return rows


def has_oracle(csr: CSR) -> bool:
    """Whether a graph is small enough for the slow oracle; answers for larger ones are validated only."""
    return csr.nnz <= ORACLE_EDGES


def first_answers(
    csr: CSR, sources: Iterable[Any], answer: Callable[[int], T], bytes_each: int, check_seconds: float
) -> list[T]:
    """`answer` of the first of `sources`, as many as `check_seconds` and 2 GiB allow, where one more is
    thought to take as long as those before it on average. One at least; none in 0 seconds, nor where there is
    no oracle."""
    begin, answers = time.monotonic(), []
    if not check_seconds or not has_oracle(csr):
        return []
    for source in sources:
        answers.append(answer(int(source)))
        one_more = (time.monotonic() - begin) * (len(answers) + 1) / len(answers)
        if one_more > check_seconds or (len(answers) + 1) * bytes_each > _ORACLE_BYTES:
            break
    return answers


def levels_of(output: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The levels of a search's output, int32 ``[n]``: it is these, or these and parents as two rows."""
    return output[0] if output.ndim == 2 else output


def counted_edges(csr: CSR, degree: npt.NDArray[np.int64], reached: npt.NDArray[np.bool_]) -> int:
    """The edges that a rate counts: those out of `reached` vertices, undirected ones once. `degree`: see
    :func:`proper_degrees`."""
    arcs = int(degree @ reached)
    return arcs // 2 if csr.symmetric else arcs


def check_square(csr: CSR) -> None:
    """InputError for the matrix of no graph."""
    if csr.rows != csr.cols:
        raise InputError(
            f"a graph needs a square matrix, this one is {csr.rows:,} x {csr.cols:,}",
            remedy="of a file, --bipartite takes rows and columns as the two sides of a graph",
        )


def pattern_is_symmetric(matrix: Matrix) -> bool:
    """Whether every edge has its reverse: as declared, or else looked up."""
    csr = matrix.csr
    if csr.rows != csr.cols:
        return False
    if matrix.symmetry != "general":
        return True
    if (counts := compiled.mirrored(csr)) is not None:
        off, mirrored, *_ = counts
        return bool(off == mirrored)
    return transpose(csr)[1] is csr.col_idx


def proper_degrees(csr: CSR) -> npt.NDArray[np.int64]:
    """Out-edges of each vertex, self-loops omitted, int64 ``[rows]``."""
    degrees = csr.row_lengths()
    if (loops := compiled.loops(csr)) is not None:
        return degrees - loops
    for block in row_blocks(csr, _EDGES_AT_ONCE):
        row = block.row_ids()
        degrees[row[row == block.cols]] -= 1  # an edge occurs once
    return degrees


def out_edges(
    csr: CSR, vertices: npt.NDArray[np.int64]
) -> Iterator[tuple[int, npt.NDArray[np.int64], npt.NDArray[np.int32]]]:
    """The out-edges of `vertices` in pieces, about 16 million each: where in `vertices` a piece begins, the
    out-degrees of its vertices, and the edges' targets."""
    starts = csr.row_ptr[vertices]
    lengths = csr.row_ptr[vertices + 1] - starts
    cuts = np.searchsorted(np.cumsum(lengths), np.arange(_EDGES_AT_ONCE, lengths.sum(), _EDGES_AT_ONCE))
    for begin, end in pairwise([0, *np.unique(cuts).tolist(), len(vertices)]):
        yield begin, lengths[begin:end], csr.col_idx[ranges(starts[begin:end], lengths[begin:end])]


def plain_levels(csr: CSR, source: int) -> Levels:
    """Breadth-first levels from `source`, int32 ``[rows]``, -1 where it does not reach. Level by level, in
    numpy: slow and plain, the oracle of every mode."""
    level = np.full(csr.rows, -1, np.int32)
    level[source] = 0
    frontier, depth = np.array([source]), 0
    while len(frontier):
        depth += 1
        parts = []
        for _, _, neighbours in out_edges(csr, frontier):
            parts.append(neighbours[level[neighbours] == -1])
            level[parts[-1]] = depth
        new = np.concatenate(parts)
        # Each once: sorting costs more than looking through all vertices when many were found.
        frontier = np.flatnonzero(level == depth) if 32 * len(new) > csr.rows else np.unique(new)
    return level


def _largest_component(csr: CSR) -> npt.NDArray[np.bool_]:
    """Vertices of the largest component (weakly connected, where edges have a direction)."""
    label: npt.NDArray[Any] | None = compiled.components(csr)
    if label is None:
        from scipy.sparse.csgraph import connected_components

        pattern = csr.to_scipy(values=np.ones(csr.nnz))
        _, label = connected_components(pattern, directed=not csr.symmetric, connection="weak")
    largest: npt.NDArray[np.bool_] = label == np.argmax(np.bincount(label))
    return largest


def draw_sources(
    csr: CSR, seed: int, *, source: int = -1, sources: int = 64, component: str = "largest"
) -> npt.NDArray[np.int32]:
    """The vertices to start from: `source`, or if that is -1 `sources` different ones.

    They are drawn from PCG64's raw bits (the same for a seed on any machine), have an out-edge that is not a
    self-loop, and come from the largest component unless `component` is "any"; where there are fewer such
    vertices, all of them, shuffled. Raises InputError where there is none.
    """
    check_square(csr)
    if not csr.rows:
        raise InputError(
            "the graph has no vertex to start from: it is 0 x 0", remedy="take a graph of one vertex or more"
        )
    if source != -1:
        if not 0 <= source < csr.rows:
            raise UsageError(f"there is no vertex {source}", remedy=f"--source 0 to {csr.rows - 1}")
        return np.array([source], np.int32)
    fitting = proper_degrees(csr) > 0
    if not fitting.any():
        raise InputError(
            "no vertex has an edge to another one", remedy="take a graph with edges, or name a vertex with --source"
        )
    if component == "largest":
        fitting &= _largest_component(csr)
        if not fitting.any():  # its vertices have in-edges only
            raise InputError("no vertex of the largest component has an edge to another one", remedy="--component any")
    left = np.flatnonzero(fitting).astype(np.int32)
    bits = np.random.PCG64(seed)
    count = min(sources, len(left))
    for i in range(count):  # Fisher-Yates, as far as it is needed
        pick = i + (int(bits.random_raw()) * (len(left) - i) >> 64)
        left[i], left[pick] = left[pick], left[i]
    return left[:count].copy()


@dataclass(frozen=True)
class LevelWork:
    """What each level of a search from one source is; arrays int64 ``[levels]``."""

    vertices: npt.NDArray[np.int64]
    """Vertices of the frontier."""
    edges: npt.NDArray[np.int64]
    """Their out-edges: what a top-down level looks at."""
    pull: npt.NDArray[np.int64]
    """In-edges that a bottom-up level looks at: all of a vertex that will not be found in it, up to the first
    parent of one that will. Zeros where the format has no in-edges."""

    def inspected(self, how: str, level: int, nnz: int) -> int:
        """Edges that `level` looks at when it is done by `how` ("push", "one block", "pull", "edge")."""
        if how == "edge":
            return nnz
        return int((self.pull if how == "pull" else self.edges)[level])


def _beyond(waiting: npt.NDArray[np.int64], depth: int) -> npt.NDArray[np.int64]:
    """In-edges that each level looks at for nothing: level l's vertices find no parent in levels 0 to l - 2, those not
    reached in none. `waiting`: in-edges of the vertices of each level, those not reached at depth + 1."""
    from_here: npt.NDArray[np.int64] = np.cumsum(waiting[::-1])[::-1]
    return from_here[np.minimum(np.arange(depth) + 2, depth + 1)]


def level_work(packed: Packed, levels: Levels) -> LevelWork:
    """From the graph as `packed` and the levels found (by the ids of the input), in one pass over the
    edges."""
    arrays: Mapping[str, Any] = packed.arrays
    level = levels[arrays["old_id"]] if "old_id" in arrays else levels
    depth = int(level.max(initial=0)) + 1
    reached = level >= 0
    if "row_ptr" in arrays:
        degree = np.diff(arrays["row_ptr"])
    else:
        degree = np.bincount(arrays["row"], minlength=packed.rows)
    degree, pull = degree.astype(np.int64, copy=False), np.zeros(depth, np.int64)
    col_ptr, row = None, None
    if "col_ptr" in arrays:
        col_ptr, row = arrays["col_ptr"].astype(np.int64, copy=False), arrays["row"]
    if (counts := compiled.looks_of_levels(np.ascontiguousarray(level), degree, col_ptr, row)) is not None:
        vertices, edges, waiting, own = counts
        if col_ptr is not None:
            pull = own[:depth] + _beyond(waiting, depth)
        return LevelWork(vertices[:depth], edges[:depth], pull)
    vertices = np.bincount(level[reached], minlength=depth)
    edges = np.bincount(level[reached], degree[reached], minlength=depth).astype(np.int64)
    if col_ptr is not None and row is not None:
        in_degree = np.diff(col_ptr)
        own = np.zeros(depth, np.int64)
        for begin, end in row_ranges(col_ptr, _EDGES_AT_ONCE):
            # For each vertex found at level l > 0: where its first in-neighbour at level l - 1 is.
            first, last = int(col_ptr[begin]), int(col_ptr[end])
            target = np.repeat(np.arange(begin, end), in_degree[begin:end])
            wanted = level[target] - 1
            is_parent = np.flatnonzero((level[row[first:last]] == wanted) & (wanted >= 0))
            children, first_parent = np.unique(target[is_parent], return_index=True)
            looks = is_parent[first_parent] + first - col_ptr[children] + 1
            own += np.bincount(level[children] - 1, looks, minlength=depth).astype(np.int64)
        later = level.copy()
        later[~reached] = depth + 1
        pull = own + _beyond(np.bincount(later, in_degree, minlength=depth + 2).astype(np.int64), depth)
    return LevelWork(vertices.astype(np.int64), edges, pull)
