"""Problems: one module each. See :mod:`spgraph_bench.problems.base`."""

from spgraph_bench.problems.base import (
    CaseProblem,
    CheckResult,
    Configurable,
    Generated,
    Problem,
    ProductProblem,
    Reorderable,
    SummedProblem,
    VertexProblem,
    Work,
    filled_options,
    get_problem,
    problems,
)

__all__ = [
    "CaseProblem",
    "CheckResult",
    "Configurable",
    "Generated",
    "Problem",
    "ProductProblem",
    "Reorderable",
    "SummedProblem",
    "VertexProblem",
    "Work",
    "filled_options",
    "get_problem",
    "problems",
]
