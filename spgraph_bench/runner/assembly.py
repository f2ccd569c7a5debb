"""Plan: the payload of a run: orders of the matrix, inputs and oracle in each value type."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from spgraph_bench.errors import InputError
from spgraph_bench.formats import get_format
from spgraph_bench.formats.common import offsets_for
from spgraph_bench.matrix import ContentHash, Matrix, Source, label_arrays
from spgraph_bench.memory import require_memory
from spgraph_bench.problems import Problem, filled_options
from spgraph_bench.problems.sources import pattern_is_symmetric
from spgraph_bench.reorder import reorder
from spgraph_bench.runner.figures import run_bytes
from spgraph_bench.runner.payload import NO_MATRIX, Arrays, Payload, ReorderedMatrix
from spgraph_bench.runner.plan import Task
from spgraph_bench.runner.settings import Settings
from spgraph_bench.variants import variants

__all__ = ["Assembled", "assemble", "generated_matrix", "placed_errors"]


@dataclass(frozen=True)
class Assembled:
    """What a run works on, made before anything is known of the device."""

    matrix: Matrix
    """As it was given, but of a graph it is known whether it is symmetric, and what stands for the matrix of
    a problem that needs none has the hash of the inputs."""
    payload: Payload
    task: Task
    """Without limits and what was found by tuning, which depend on the device."""
    reorder_ms: Mapping[str, float]
    """What each order took."""


def generated_matrix(problem: Problem, options: Mapping[str, Any]) -> Matrix:
    """What stands in for a matrix where `problem` has none: 0 x 0, named after the problem and its options.

    Its hash and what it was made from follow when the inputs are made. Raises UsageError for a bad option.
    """
    filled = filled_options(problem, options)
    name = "-".join(
        [
            problem.name,
            *(f"{name}-{value:g}" if isinstance(value, float) else f"{name}-{value}" for name, value in filled.items()),
        ]
    )
    return Matrix(name, NO_MATRIX, Source("options", "", "generated"), weighted=False)


def assemble(
    matrix: Matrix, problem: Problem, settings: Settings, progress: Callable[[str], None], *, keep_answer: bool
) -> Assembled:
    """Make all arrays of a run. Raises InputError for a matrix that the problem cannot take, or that memory
    does not suffice for, UsageError for an order that it has not."""
    with placed_errors(matrix.source):
        _require_memory(matrix, problem, settings)
        if problem.is_graph:
            progress("checking whether the graph is undirected")
            matrix = matrix.with_symmetry(pattern_is_symmetric(matrix))
        orders: dict[str, ReorderedMatrix] = {}
        reorder_ms: dict[str, float] = {}
        for order in settings.reorder:
            if order != "none":
                progress(f"reordering: {order}")
                orders[order], reorder_ms[order] = _reordered(matrix, order)
        inputs: dict[str, Arrays] = {}
        if not problem.needs_matrix:
            progress("making the inputs")
            matrix, inputs = _named_after_inputs(matrix, problem, settings)
        inputs, oracles = _inputs_and_oracles(matrix, problem, settings, progress, inputs)
    labels = label_arrays(matrix) if problem.is_graph else {}
    # Of 500 M edges, weights that are not read take seconds to hand over, and again to a GPU.
    stored = any(get_format(v.format).keeps_values for v in variants(problem.name))
    csr = matrix.csr if stored or problem.reads_values else dataclasses.replace(matrix.csr, values=None)
    payload = Payload(csr, labels, orders, inputs, oracles)
    return Assembled(matrix, payload, _task(matrix, problem, settings, keep_answer), reorder_ms)


@contextlib.contextmanager
def placed_errors(source: Source) -> Iterator[None]:
    """Errors of the input get its place: problems do not know where the matrix came from."""
    try:
        yield
    except InputError as error:
        if error.place is None and source.kind != "options":
            error.place = "<stdin>" if source.kind == "stdin" else source.text
        raise


def _require_memory(matrix: Matrix, problem: Problem, settings: Settings) -> None:
    """Raises InputError where inputs, oracle and checks take more than there is, before they are made."""
    if not problem.needs_matrix:
        return
    csr, options = matrix.csr, filled_options(problem, settings.options)
    orders = len(set(settings.reorder) | {"none"})
    needed = run_bytes(problem.name, csr, options, len(settings.dtypes), orders)
    what = f"{problem.name} on {csr.rows:,} x {csr.cols:,} with {csr.nnz:,} entries"
    require_memory(needed, what, None)


def _reordered(matrix: Matrix, order: str) -> tuple[ReorderedMatrix, float]:
    """The matrix in another order, and the time in ms that it took. Raises UsageError where there is none."""
    new = reorder(matrix.csr, order)
    csr = dataclasses.replace(new.csr, symmetric=matrix.csr.symmetric)
    return ReorderedMatrix(csr, new.row_order, new.col_order), new.ms


def _named_after_inputs(matrix: Matrix, problem: Problem, settings: Settings) -> tuple[Matrix, dict[str, Arrays]]:
    """What stands for the matrix, with the hash of the inputs and what they are; and these, by type."""
    dtype = problem.dtypes[0]  # whatever types are run, so that the same inputs have the same hash
    inputs = problem.inputs(matrix, np.dtype(dtype), settings.seed, **settings.options)
    digest = hashlib.sha256()
    for name, array in sorted(inputs.items()):
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    source = Source("options", problem.describe_inputs(inputs), "generated")
    return dataclasses.replace(matrix, content_hash=ContentHash(digest.hexdigest()), source=source), {dtype: inputs}


def _inputs_and_oracles(
    matrix: Matrix, problem: Problem, settings: Settings, progress: Callable[[str], None], made: Mapping[str, Arrays]
) -> tuple[dict[str, Arrays], dict[str, Arrays]]:
    """Both by type; inputs of `made` are not made again."""
    inputs: dict[str, Arrays] = {}
    oracles: dict[str, Arrays] = {}
    for dtype in settings.dtypes:
        progress(f"computing the {dtype} oracle")
        kind = np.dtype(dtype)
        given = made.get(dtype) or problem.inputs(matrix, kind, settings.seed, **settings.options)
        inputs[dtype] = given
        oracles[dtype] = problem.oracle(matrix, given, kind, **settings.options)
    return inputs, oracles


def _task(matrix: Matrix, problem: Problem, settings: Settings, keep_answer: bool) -> Task:
    outputs = {
        dtype: {
            name: (shape, str(kind)) for name, (shape, kind) in problem.output_arrays(matrix, np.dtype(dtype)).items()
        }
        for dtype in settings.dtypes
    }
    return Task(
        problem=problem.name,
        outputs=outputs,
        params=dict(settings.params),
        force_format=settings.force_format,
        offsets=settings.offsets or offsets_for(matrix.csr.nnz).name,
        trace=settings.trace,
        keep_answer=keep_answer,
        options=filled_options(problem, settings.options),
    )
