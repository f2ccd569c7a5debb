"""What a sweep will take, before it runs: entries, seconds and bytes of each block, and what will be refused.

Seconds are a rule of thumb, good to a factor of two or three. The constants below were fitted to the times of
``scripts/reference.toml`` (an H200) and to a CPU; nothing that is measured depends on them. While a sweep runs,
:class:`TimeLeft` scales them by what blocks took.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import numpy as np

from spgraph_bench import recipes
from spgraph_bench.formats import get_format
from spgraph_bench.formats.common import offsets_for
from spgraph_bench.gpus import GPU, H200
from spgraph_bench.matrix import Matrix
from spgraph_bench.memory import available_memory
from spgraph_bench.problems import get_problem
from spgraph_bench.runner.figures import columns_of, run_bytes
from spgraph_bench.runner.plan import Task
from spgraph_bench.runner.refusing import unfit
from spgraph_bench.stats import row_stats
from spgraph_bench.sweep.plan import Block
from spgraph_bench.units import human_bytes

__all__ = ["Estimate", "TimeLeft", "bytes_to_read", "estimate", "failed_estimate", "quick_estimate", "schedule"]

_BYTES_PER_ENTRY = 18
"""Of a text file; a compressed one has a third of it."""
_COMPRESSION = 3.0
_LOAD_S, _LOAD = 0.01, 1.5e-7
"""Seconds to read or make a matrix: at least, and for each entry."""
_BLOCK_S = {"host": 0.2, "cuda": 1.5}
"""Seconds that a block takes whatever it is: inputs, oracle, the worker's calls, on a GPU the ceiling."""
_GENERATED_S = {"host": 1.0, "cuda": 3.0}
"""The same where a problem makes its own inputs."""
_CHECK = {"host": (0.012, 1.1e-6), "cuda": (0.03, 3e-8)}
"""Seconds to check a cell, by kind of device: at least, and for each entry."""
_COLUMN = {"host": 6e-8, "cuda": 7e-9}
"""The same for each entry and further column of a dense operand."""
_SOURCE = {"host": 7e-7, "cuda": 2e-9}
"""The same for each entry and further source of a traversal: all of them are run in a check."""
_CPU_CHECK = 2e-8
"""Of variants on the CPU, for each entry and column or source."""
_SAMPLING = 1.15
"""Sampling takes the time limit and a little more; on the host device only CPU variants are sampled."""
_MATRIX_ENTRY, _MATRIX_ROW = 12, 8


@dataclass(frozen=True)
class _Shape:
    rows: int
    cols: int
    nnz: int


@dataclass(frozen=True)
class Estimate:
    """What one block will take."""

    block: Block
    entries: int
    """At most, where the matrix was not looked at."""
    seconds: float
    host_bytes: int
    device_bytes: int
    """Of its largest cell, inputs and outputs included."""
    looked: bool = False
    """Whether the matrix was read, so that refusals are known."""
    refused: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Why cells will be skipped -> their keys."""
    error: str = ""
    """Why none of its cells can run: the matrix cannot be read, or is too large."""


def _shape(block: Block) -> _Shape:
    """The size of the matrix, or a guess where it is a file."""
    given = block.input
    if given.kind == "recipe":
        recipe, values = recipes.parse(given.text)
        size = recipes.size_of(recipe, values, given.text)
        return _Shape(size.rows, size.cols, size.entries)
    text = given.bytes * (_COMPRESSION if given.text.lower().endswith((".gz", ".bz2", ".xz", ".tgz")) else 1.0)
    entries = int(text / _BYTES_PER_ENTRY)
    return _Shape(entries // 8, entries // 8, entries)


def bytes_to_read(block: Block) -> int:
    """Bytes of memory that the matrix takes once it is read, as far as that can be told."""
    shape = _shape(block)
    return _MATRIX_ENTRY * shape.nnz + _MATRIX_ROW * (shape.rows + 1)


def quick_estimate(block: Block, device_kind: str) -> Estimate:
    """From the recipe's parameters or the file's size alone."""
    return _estimate(block, _shape(block), device_kind, dict.fromkeys(cell.key for cell in block.cells))


def estimate(
    block: Block,
    matrix: Matrix,
    device_kind: str,
    device_memory: int | None = None,
    missing: Mapping[str, str] | None = None,
    gpu: GPU = H200,
) -> Estimate:
    """From the matrix itself: which cells its formats refuse (with their reasons), and the bytes of the others.

    Parameters
    ----------
    device_memory : bytes of the device; None: those that are available here.
    missing : variants that cannot run on the device at all, with the reason.
    gpu : what formats are sized for.
    """
    csr, problem = matrix.csr, get_problem(block.problem)
    shape = _Shape(csr.rows, csr.cols, csr.nnz)
    memory = device_memory or available_memory()
    stats = row_stats(csr)
    offsets = block.offsets or offsets_for(csr.nnz).name
    task = Task(block.problem, {}, dict(block.params), block.force_format, offsets)
    refused: dict[str, list[str]] = {}
    stored: dict[str, int] = {}
    for cell in block.cells:
        variant = next(v for v in block.variants if v.name == cell.variant)
        why = (missing or {}).get(variant.name)
        if cell.dtype not in variant.dtypes:
            why = f"no {cell.dtype}"
        elif why is None and problem.needs_matrix and variant.where == "gpu":
            why = unfit(variant, cell.dtype, csr, stats, task, memory - _dense(block, shape, cell.dtype), gpu)
        if why:
            refused.setdefault(why, []).append(cell.key)
            continue
        stored[cell.key] = _dense(block, shape, cell.dtype)
        if problem.needs_matrix and variant.where == "gpu":
            form = get_format(variant.format).on(gpu)
            params = {k: v for k, v in block.params.items() if k in form.tunables}
            size = np.dtype(cell.dtype).itemsize
            stored[cell.key] += form.predict_bytes(stats, size, np.dtype(offsets).itemsize, **params)
    made = _estimate(block, shape, device_kind, stored)
    return Estimate(
        block,
        shape.nnz,
        made.seconds,
        made.host_bytes,
        max((size for size in stored.values()), default=0),
        True,
        {why: tuple(keys) for why, keys in refused.items()},
        _too_large(made.host_bytes),
    )


def failed_estimate(block: Block, error: str) -> Estimate:
    """Of a block whose matrix cannot be read."""
    return Estimate(block, 0, 0.0, 0, 0, True, {}, error)


def _too_large(host_bytes: int) -> str:
    there = available_memory()
    if host_bytes <= there:
        return ""
    return f"it needs {human_bytes(host_bytes)} of memory, {human_bytes(there)} are available"


def _dense(block: Block, shape: _Shape, dtype: str) -> int:
    """Bytes of a dense input and output, k columns each."""
    return (shape.rows + shape.cols) * np.dtype(dtype).itemsize * columns_of(block.problem, block.options)


def _sources(block: Block) -> int:
    """Sources that a traversal starts from; 1 of another problem."""
    declared = get_problem(block.problem).options
    if "source" in block.options or "sources" not in declared:
        return 1
    return int(declared["sources"].checked("sources", block.options.get("sources", declared["sources"].default)))


def _estimate(block: Block, shape: _Shape, device_kind: str, cells: Collection[str]) -> Estimate:
    problem, kind = get_problem(block.problem), "host" if device_kind == "host" else "cuda"
    least, each = _CHECK[kind]
    further = (columns_of(block.problem, block.options) if problem.is_product else _sources(block)) - 1
    each += further * (_COLUMN if problem.is_product else _SOURCE)[kind]
    seconds = (_BLOCK_S if problem.needs_matrix else _GENERATED_S)[kind] * len(block.dtypes)
    seconds += _LOAD_S + _LOAD * shape.nnz * len(block.orders)
    for cell in block.cells:
        if cell.key not in cells:
            continue
        variant = next(v for v in block.variants if v.name == cell.variant)
        timed = kind != "host" or variant.where == "cpu"
        check = least + shape.nnz * (each if variant.where == "gpu" else _CPU_CHECK * (1 + further))
        seconds += check + (_SAMPLING * block.time_limit if timed else 0.0)
    matrix = _MATRIX_ENTRY * shape.nnz + _MATRIX_ROW * (shape.rows + 1) if problem.needs_matrix else 0
    running = (
        run_bytes(block.problem, shape, block.options, len(block.dtypes), len(block.orders))
        if problem.needs_matrix
        else 0
    )
    value = max(np.dtype(dtype).itemsize for dtype in block.dtypes)
    device = shape.nnz * (4 + value) + shape.rows * 4 + _dense(block, shape, block.dtypes[0])
    return Estimate(block, shape.nnz, seconds, matrix + running, device, error=_too_large(matrix + running))


def schedule(estimates: Collection[Estimate], workers: int) -> float:
    """Seconds that `workers` take together: blocks of one matrix on one worker, the longest first (Graham, "Bounds on
    multiprocessing timing anomalies", 1969)."""
    together: dict[tuple[str, str], float] = {}
    for each in estimates:
        given = each.block.input
        key = (given.kind, given.text or each.block.key)
        together[key] = together.get(key, 0.0) + each.seconds
    loads = [0.0] * workers
    for seconds in sorted(together.values(), reverse=True):
        loads[loads.index(min(loads))] += seconds
    return max(loads)


class TimeLeft:
    """How long the rest of a sweep takes: estimates, scaled by what finished blocks took against theirs."""

    def __init__(self, estimates: Collection[Estimate], workers: int = 1) -> None:
        self._left = {each.block.key: each.seconds for each in estimates}
        self._workers = max(1, workers)
        self._estimated = self._took = 0.0

    def ended(self, key: str, seconds: float) -> None:
        """A block took so long."""
        self._estimated += self._left.pop(key, 0.0)
        self._took += seconds

    @property
    def seconds(self) -> float:
        """Of all blocks that have not ended."""
        scale = self._took / self._estimated if self._estimated > 0 else 1.0
        return scale * sum(self._left.values()) / self._workers
