"""What a validator is: rules that only a right answer keeps, looked at in one pass over the edges.

An oracle knows the answer; a validator need not. It shares no code with the kernels whose answers it checks,
and comes in two forms that count the same errors: numpy, and plain CUDA kernels (``cuda/check/``) where the
device is a GPU and has room for the graph.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from spgraph_bench.device.base import Arg, Buffer, Device, Kernel
from spgraph_bench.matrix import CSR
from spgraph_bench.problems.base import CheckResult, Problem
from spgraph_bench.registry import Registry

if TYPE_CHECKING:
    import scipy.sparse as sp

__all__ = [
    "EDGES_AT_ONCE",
    "Checked",
    "DeviceFaults",
    "Faults",
    "Graph",
    "Rule",
    "Validator",
    "kernels",
    "make_validator",
    "validates",
]

EDGES_AT_ONCE = 1 << 20
"""Edges that the numpy forms hold at a time."""
_NOWHERE = 2**31 - 1
_BLOCK = 256
_OFFSETS = "long long"

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Checked:
    """What a validator found of one answer."""

    result: CheckResult
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What it knows of the case on the way: "levels", "reached", "edges"."""


class Faults:
    """How often each rule is broken and the least vertex where it is, both int64 ``[rules]``."""

    def __init__(self, counts: Array, least: Array) -> None:
        self.counts, self.least = counts.astype(np.int64), least.astype(np.int64)

    @classmethod
    def none(cls, rules: int) -> Faults:
        """Of no rule yet."""
        return cls(np.zeros(rules), np.full(rules, _NOWHERE))

    def add(self, rule: int, vertices: Array) -> None:
        """Rule number `rule` is broken at `vertices`, at each as often as it is named."""
        if len(vertices):
            self.counts[rule] += len(vertices)
            self.least[rule] = min(int(self.least[rule]), int(vertices.min()))

    def first(self) -> tuple[int, int, int] | None:
        """The first rule that is broken, how often, and the least vertex; None where all is right."""
        broken = np.flatnonzero(self.counts)
        if not len(broken):
            return None
        rule = int(broken[0])
        return rule, int(self.counts[rule]), int(self.least[rule])


class DeviceFaults:
    """The same where kernels count them: ``fault`` of ``cuda/check/faults.cuh``."""

    def __init__(self, device: Device, rules: int) -> None:
        self._device = device
        self.counts = device.upload(np.zeros(rules, np.uint64))
        self.least = device.upload(np.full(rules, _NOWHERE, np.int32))

    def read(self) -> Faults:
        """The errors counted so far, copied to the host."""
        return Faults(self._device.download(self.counts), self._device.download(self.least))


class Graph:
    """A graph, and its out-edges on a device.

    Parameters
    ----------
    csr : the graph.
    device : where kernels validate; None: numpy does.
    """

    def __init__(self, csr: CSR, device: Device | None = None) -> None:
        self.csr = csr
        self._device = device
        self._arrays: dict[str, Buffer] = {}

    @property
    def n(self) -> np.int32:
        """Vertices."""
        return np.int32(self.csr.rows)

    @functools.cached_property
    def as_scipy(self) -> sp.csr_array:
        """Edges of value 1, in the type that scipy's searches take as they are."""
        return self.csr.to_scipy(values=np.ones(self.csr.nnz))

    @property
    def device(self) -> Device | None:
        """Where the kernels of validators run; None: on the host, in numpy."""
        return self._device

    @property
    def row_ptr(self) -> Buffer:
        """Row offsets of the out-edges, on the device."""
        return self.array("row_ptr", lambda: self.csr.row_ptr)

    @property
    def col(self) -> Buffer:
        """Targets of the out-edges, int32, on the device."""
        return self.array("col", lambda: self.csr.col_idx)

    def array(self, name: str, make: Callable[[], Array]) -> Buffer:
        """The array of this name on the device; made and uploaded where it is not there yet."""
        if name not in self._arrays:
            assert self._device is not None
            self._arrays[name] = self._device.upload(make())
        return self._arrays[name]

    def upload(self, array: Array) -> Buffer:
        """A new buffer with a copy of `array`. Needs a device."""
        assert self._device is not None
        return self._device.upload(array)

    def zeros(self, shape: int, dtype: npt.DTypeLike) -> Buffer:
        """Device memory of zeros."""
        assert self._device is not None
        buffer = self._device.empty(shape, dtype)
        self._device.fill(buffer, 0)
        return buffer

    def download(self, buffer: Buffer) -> Array:
        """A host copy of `buffer`. Needs a device."""
        assert self._device is not None
        return self._device.download(buffer)

    def kernel(self, source: str, name: str, **defines: str) -> Kernel:
        """A kernel of ``cuda/check/``; `defines` as :func:`kernels` names them."""
        assert self._device is not None
        return self._device.compile(f"check/{source}.cu", _defines(defines)).kernel(name)

    def per_vertex(self, kernel: Kernel, *args: Arg) -> None:
        """Launch with a thread per vertex."""
        kernel(-(-self.csr.rows // _BLOCK), _BLOCK, *args)

    def per_row(self, kernel: Kernel, *args: Arg, rows: int | None = None) -> None:
        """Launch with a warp per vertex, or for so many `rows`."""
        count = self.csr.rows if rows is None else rows
        kernel(-(-32 * count // _BLOCK), _BLOCK, *args)

    def strided(self, kernel: Kernel, *args: Arg) -> None:
        """Launch with as many threads as keep the device busy, each of which takes its share of vertices."""
        assert self._device is not None
        blocks = min(-(-self.csr.rows // _BLOCK), 8 * self._device.info().multiprocessors)
        kernel(blocks, _BLOCK, *args)

    def free(self) -> None:
        """Give the device's memory back."""
        for buffer in self._arrays.values():
            buffer.free()
        self._arrays.clear()


def _defines(defines: Mapping[str, str]) -> dict[str, str]:
    return {"SPG_OFFSET": _OFFSETS, **defines}


class Validator:
    """Checks answers of one problem on one graph.

    Parameters
    ----------
    graph : where it looks.
    problem : with its options.
    dtype : the value type that is run.
    inputs : the problem's inputs by name.
    """

    name: ClassVar[str]
    """The problem's."""
    rules: ClassVar[tuple[Rule, ...]]
    """In the order in which they are reported: an error of an earlier one often brings others with it."""
    bytes_per_vertex: ClassVar[int] = 32
    """Device memory beside the graph, at most."""

    def __init__(self, graph: Graph, problem: Problem, dtype: np.dtype[Any], inputs: Mapping[str, Array]) -> None:
        self.graph, self.problem, self.dtype, self.inputs = graph, problem, dtype, inputs

    @classmethod
    def sources(cls, dtype: np.dtype[Any]) -> list[tuple[str, dict[str, str]]]:
        """Kernel files and their defines, so that they are compiled with all others."""
        raise NotImplementedError

    def check(self, output: Array, source: int = -1) -> Checked:
        """Whether `output` is a right answer, from `source` where the problem has sources."""
        raise NotImplementedError


@dataclass(frozen=True)
class Rule:
    """One rule and the message where it is broken."""

    message: Callable[..., str]
    """Of the vertex, and of the answer: an array per column."""


def verdict(rules: Sequence[Rule], faults: Faults, *columns: Array) -> CheckResult:
    """The result that `faults` lead to, with a message about the first one."""
    first = faults.first()
    if first is None:
        return CheckResult(True)
    rule, count, vertex = first
    more = f"; {count:,} such errors" if count > 1 else ""
    return CheckResult(False, rules[rule].message(vertex, *columns) + more, {"faults": count, "worst_vertex": vertex})


_VALIDATORS: Registry[str, type[Validator]] = Registry("validator", "spgraph_bench.validate")


def validates(cls: type[Validator]) -> type[Validator]:
    """Register the decorated validator and return it unchanged."""
    return _VALIDATORS.enter(cls.name, cls)


def kernels(problem: str, dtype: npt.DTypeLike) -> list[tuple[str, dict[str, str]]]:
    """Kernel files that validate `problem` on a GPU and their defines; none where it has no validator."""
    validator = _VALIDATORS.entries().get(problem)
    if validator is None:
        return []
    return [(f"check/{source}.cu", _defines(defines)) for source, defines in validator.sources(np.dtype(dtype))]


def make_validator(
    problem: Problem,
    csr: CSR,
    device: Device,
    dtype: npt.DTypeLike,
    inputs: Mapping[str, Array],
    graph: Graph | None = None,
) -> Validator | None:
    """The validator of `problem`, None where it has none.

    Kernels run on a GPU that has room for the graph; elsewhere, and on the host device, numpy does it.

    Parameters
    ----------
    graph : the same graph as of an earlier validator, whose arrays are on the device already.
    """
    validator = _VALIDATORS.entries().get(problem.name)
    if validator is None:
        return None
    if graph is None:
        need = csr.row_ptr.nbytes + csr.col_idx.nbytes + validator.bytes_per_vertex * csr.rows
        need += 0 if csr.values is None else csr.values.nbytes
        graph = Graph(csr, device if device.kind == "cuda" and need < 0.9 * device.free_bytes() else None)
    return validator(graph, problem, np.dtype(dtype), inputs)
