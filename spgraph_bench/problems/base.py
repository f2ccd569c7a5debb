"""What a problem is: inputs, oracle, check, work model and the rate it is judged by."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from spgraph_bench.formats.base import Packed
from spgraph_bench.matrix import Matrix

__all__ = ["CheckResult", "Problem", "Work", "get_problem", "problems", "register"]


@dataclass(frozen=True)
class CheckResult:
    """Outcome of comparing an output with the oracle."""

    ok: bool
    message: str = ""
    """Empty when ok; otherwise the worst place and its error, one line."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """Numbers for the record: max_error_ratio (error over its bound), worst_row, worst_row_length, ..."""


@dataclass(frozen=True)
class Work:
    """The work model of one run of one variant."""

    operations: int
    """spmv: 2 nnz floating-point operations."""
    compulsory_bytes: int
    """Each input read once, each output written once, in the format's own arrays without padding."""
    stored_bytes: int
    """The format's arrays with padding."""
    gathered_bytes: int
    """Bytes of x that are gathered if nothing is cached: nnz values (spmv)."""


class Problem(Protocol):
    """One problem, registered by its module."""

    name: str
    title: str
    rate_unit: str
    """"GFLOP/s", "GTEPS"."""
    outputs: tuple[str, ...]
    """Names of the output buffers, the first is the one variants fetch by default."""

    def inputs(self, matrix: Matrix, dtype: np.dtype[Any], seed: int) -> dict[str, npt.NDArray[Any]]:
        """Input arrays by name (spmv: x of `dtype` [cols], uniform in [0, 1))."""
        ...

    def output_arrays(
        self, matrix: Matrix, dtype: np.dtype[Any]
    ) -> dict[str, tuple[tuple[int, ...], np.dtype[Any]]]:
        """Shape and dtype of each output buffer (spmv: y)."""
        ...

    def oracle(
        self, matrix: Matrix, inputs: Mapping[str, npt.NDArray[Any]], dtype: np.dtype[Any]
    ) -> dict[str, npt.NDArray[Any]]:
        """The slow, plain, double-precision answer and what the check needs, as named arrays."""
        ...

    def check(
        self, output: npt.NDArray[Any], oracle: Mapping[str, npt.NDArray[Any]], dtype: np.dtype[Any]
    ) -> CheckResult: ...

    def work(self, matrix_shape: tuple[int, int], packed: Packed) -> Work: ...

    def rate(self, work: Work, seconds: float) -> float:
        """In :attr:`rate_unit`."""
        ...


_PROBLEMS: dict[str, Problem] = {}
_loaded = False


def register(problem: Problem) -> Problem:
    """Enter `problem`; a duplicate name is an error at import."""
    if problem.name in _PROBLEMS:
        raise ValueError(f"problem {problem.name!r} is registered twice")
    _PROBLEMS[problem.name] = problem
    return problem


def problems() -> dict[str, Problem]:
    """All problems by name."""
    global _loaded
    if not _loaded:
        import spgraph_bench.problems as package

        for module in pkgutil.iter_modules(package.__path__):
            importlib.import_module(f"{package.__name__}.{module.name}")
        _loaded = True
    return dict(_PROBLEMS)


def get_problem(name: str) -> Problem:
    """The problem called `name`; KeyError if there is none."""
    return problems()[name]
