"""What a problem is: inputs, oracle, check, work model and the rate it is judged by."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from spgraph_bench.formats.base import Packed
from spgraph_bench.matrix import CSR, Matrix, VertexLabels
from spgraph_bench.parameters import Parameter, checked_values
from spgraph_bench.problems.exact import Draw
from spgraph_bench.registry import Registry

__all__ = ["CheckResult", "Problem", "Work", "filled_options", "get_problem", "problems", "register"]


@dataclass(frozen=True)
class CheckResult:
    """Outcome of comparing an output with the oracle."""

    ok: bool
    message: str = ""
    """Empty when ok; otherwise the worst place and its error, one line. "vertex 1,234", "source 5",
    "parent 5" and "edge 5 -> 6" mean numbers that count from 0; the runner puts what the input calls them in
    place."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """Numbers for the record: max_error_ratio (error over its bound), worst_row, worst_row_length, ..."""
    facts: Mapping[str, int | float | str] = field(default_factory=dict)
    """Facts about this output, each a column of the table: {"points": 83_000}."""
    operations: int | None = None
    """Operations of this run where they depend on the variant; None: those of the work model."""


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


class Problem(ABC):
    """One problem, registered by its module; what it does not define itself is as defined here."""

    name: str
    title: str
    rate_unit: str
    """"GFLOP/s", "GTEPS", "Mpoints/s": operations, counted in 10^9 or 10^6 by its first letter."""
    outputs: tuple[str, ...]
    """Names of the output buffers, the first is the one variants fetch by default."""
    dtypes: tuple[str, ...]
    """Value types it comes in, the first is the default; one where a user has no choice."""
    options: Mapping[str, Parameter] = MappingProxyType({})
    """Options of its own, which may shape its inputs, outputs and work: see :meth:`configured`."""
    host_defaults: Mapping[str, Any] = MappingProxyType({})
    """Options with another default on the host device, where kernels are emulated: smaller sizes."""
    needs_matrix: bool = True
    """Whether it is about a matrix. If not, its inputs are made from its options, which are in the
    configured instance, and the seed; its variants read the format `none`, which packs nothing; `matrix` is
    then of 0 x 0, named after problem and options; and :meth:`check` gets the inputs beside the oracle."""
    is_graph: bool = False
    """Whether the matrix is an adjacency matrix, of which it must be known whether it is symmetric."""
    reads_values: bool = False
    """Whether its checks read values of the matrix that none of its formats stores."""
    parallel: Literal["sum", "min"] = "sum"
    """What several entries at one place mean: their sum, or "min", the least of them."""
    has_cases: bool = False
    """Whether it is solved for several cases (sources) on one prepared matrix: then :meth:`check_case` is
    asked, not :meth:`check`."""
    adds_up: bool = False
    """Whether its answer is made of the sum of all cases' outputs, by :meth:`total`."""
    is_product: bool = False
    """Whether it is a product with a matrix: it reads all of it, and is linear in x, so that it can be checked
    with more than the user's numbers, by :meth:`scaled` and :meth:`exact`."""

    @property
    def axes(self) -> Mapping[str, tuple[str, ...]]:
        """What each axis of each input and output runs along; ``rows`` and ``cols`` are put in the order that
        the matrix is put in before packing (``--reorder``). Empty: its matrix cannot be reordered."""
        return MappingProxyType({})

    def configured(self, options: Mapping[str, Any]) -> Problem:
        """This problem with these options, defaults for the others. Raises UsageError for bad ones.

        By default itself: the options matter to inputs and oracle only, which are given them.
        """
        return self

    @abstractmethod
    def inputs(self, matrix: Matrix, dtype: np.dtype[Any], seed: int, **options: Any) -> dict[str, npt.NDArray[Any]]:
        """Input arrays by name (spmv: x of `dtype` [cols], uniform in [0, 1)).

        `options` are the problem's own (bfs: which sources), from ``Settings.options``.
        """

    def describe_inputs(self, inputs: Mapping[str, npt.NDArray[Any]]) -> str:
        """The inputs in one line, for the table's header, of a problem without a matrix."""
        return ""

    def output_arrays(self, matrix: Matrix, dtype: np.dtype[Any]) -> dict[str, tuple[tuple[int, ...], np.dtype[Any]]]:
        """Shape and dtype of each output buffer (spmv: y). None: each variant makes its own."""
        return {}

    @abstractmethod
    def oracle(
        self, matrix: Matrix, inputs: Mapping[str, npt.NDArray[Any]], dtype: np.dtype[Any], **options: Any
    ) -> dict[str, npt.NDArray[Any]]:
        """The slow, plain, double-precision answer and what the check needs, as named arrays."""

    @abstractmethod
    def check(
        self, output: npt.NDArray[Any], oracle: Mapping[str, npt.NDArray[Any]], dtype: np.dtype[Any]
    ) -> CheckResult:
        """Compare an output with the oracle, which for a graph also has its pattern, ``row_ptr`` and
        ``col_idx``, and without a matrix the inputs. `output` is as the variant's ``Launch.output`` gives it:
        an array, or several by name."""

    def check_case(
        self,
        case: int,
        output: npt.NDArray[Any],
        csr: CSR,
        inputs: Mapping[str, npt.NDArray[Any]],
        oracle: Mapping[str, npt.NDArray[Any]],
    ) -> tuple[CheckResult, int]:
        """The outcome, and whether the oracle knows this case (of a batch, how many of its sources); if not, only a
        validator tells whether the answer is right (:mod:`spgraph_bench.validate`). By default no oracle knows any."""
        return CheckResult(True), False

    def describe_case(
        self,
        case: int,
        output: npt.NDArray[Any],
        csr: CSR,
        inputs: Mapping[str, npt.NDArray[Any]],
        oracle: Mapping[str, npt.NDArray[Any]],
    ) -> dict[str, Any]:
        """What a record keeps of a case: of a search at least "source" and "edges"."""
        return {}

    def total(self, added: npt.NDArray[Any], inputs: Mapping[str, npt.NDArray[Any]]) -> npt.NDArray[Any]:
        """The answer to all cases from the sum of their outputs, where a problem :attr:`adds_up`: what
        :meth:`columns` and :meth:`summary` get as output."""
        return added

    def columns(
        self, output: npt.NDArray[Any], csr: CSR, inputs: Mapping[str, npt.NDArray[Any]]
    ) -> dict[str, npt.NDArray[Any]]:
        """What `output` says of each vertex or row: arrays ``[n]``, of SpMM ``[n, k]``, by the name of their column
        (pagerank: rank). None where the answer is not one of vertices or rows.

        The first is the one that a file with room for one value per vertex gets (.mtx). NaN, infinities and
        negative integers mean that there is no value. The columns ``parent`` and ``predecessor`` hold
        vertices, counted from 0.
        """
        return {}

    def summary(
        self,
        output: npt.NDArray[Any],
        facts: Mapping[str, Any],
        csr: CSR,
        inputs: Mapping[str, npt.NDArray[Any]],
        oracle: Mapping[str, npt.NDArray[Any]],
        ids: VertexLabels,
    ) -> dict[str, Any]:
        """What a record keeps as ``result``, from a right `output` (of the first case).

        Any facts, and of these two what there is to print: ``said``, sentences; ``table``, a mapping of
        ``title``, ``columns`` (names), ``rows`` (lists of numbers and words) and, where rows are vertices,
        ``numbers``: which ones, counted from 0.

        Parameters
        ----------
        facts : what ``Launch.facts`` gave for the run (pagerank: iterations).
        ids : what the input calls each vertex, see :func:`spgraph_bench.matrix.called`.
        """
        return {}

    def map(
        self, inputs: Mapping[str, npt.NDArray[Any]], oracle: Mapping[str, npt.NDArray[Any]], most: int
    ) -> dict[str, npt.NDArray[Any]]:
        """What there is to draw of the answer in the plane (``--plot``); by default nothing.

        Either curves: ``points`` float64 ``[.., 2]``, one curve after another, and ``count`` int64 ``[curves]``; or
        squares: ``corner`` float64 ``[n, 2]``, ``side`` float64 ``[n]``, and ``points`` where there are any. At most
        about `most` curves or squares; smaller squares are drawn as the one that holds them.
        """
        return {}

    def scaled(
        self, inputs: Mapping[str, npt.NDArray[Any]], oracle: Mapping[str, npt.NDArray[Any]], factor: float
    ) -> tuple[dict[str, npt.NDArray[Any]], dict[str, npt.NDArray[Any]]]:
        """Inputs with x times `factor`, a power of two or its negative, and their oracle, without computing
        it again: scaling by powers of two does not round. By default both as they are."""
        return dict(inputs), dict(oracle)

    def turned(
        self, csr: CSR, inputs: Mapping[str, npt.NDArray[Any]], oracle: Mapping[str, npt.NDArray[Any]]
    ) -> tuple[dict[str, npt.NDArray[Any]], dict[str, npt.NDArray[Any]]]:
        """Inputs with an x that is no multiple of the one given, and their oracle. By default both as they are."""
        return dict(inputs), dict(oracle)

    def exact(self, csr: CSR, dtype: np.dtype[Any], draw: int) -> Draw | str:
        """Small integers for values and x whose sums are exact (see :mod:`spgraph_bench.problems.exact`), or
        why there are none for this matrix and type."""
        return f"{self.name} is not a product"

    def work(self, matrix_shape: tuple[int, int], packed: Packed) -> Work:
        """The work model of a problem that needs a matrix. By default nothing is known before a run."""
        return Work(0, 0, packed.stored_bytes, 0)

    def work_of(self, inputs: Mapping[str, npt.NDArray[Any]], oracle: Mapping[str, npt.NDArray[Any]]) -> Work:
        """The work model of one without a matrix."""
        return Work(0, 0, 0, 0)

    def rate(self, work: Work, seconds: float) -> float:
        """In :attr:`rate_unit`."""
        return work.operations / seconds / (1e9 if self.rate_unit.startswith("G") else 1e6)


def filled_options(problem: Problem, given: Mapping[str, Any]) -> dict[str, int | float | str]:
    """The declared options of `problem`, those of `given` checked, the others by default.

    Raises UsageError for a bad value; names that are not declared are omitted, and what is ``unsaid`` where it is not
    given.
    """
    filled = checked_values("", problem.options, given)
    return {name: value for name, value in filled.items() if name in given or not problem.options[name].unsaid}


_PROBLEMS: Registry[str, Problem] = Registry("problem", "spgraph_bench.problems")


def register(problem: Problem) -> Problem:
    """Enter `problem`; a duplicate name is an error at import."""
    return _PROBLEMS.enter(problem.name, problem)


def problems() -> dict[str, Problem]:
    """All problems by name."""
    return dict(_PROBLEMS.entries())


def get_problem(name: str, options: Mapping[str, Any] | None = None) -> Problem:
    """The problem called `name` with `options`; KeyError if there is none, UsageError for a bad option."""
    problem = _PROBLEMS.get(name)
    return problem.configured(options) if options else problem
