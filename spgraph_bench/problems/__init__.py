"""Problems: one module each. See :mod:`spgraph_bench.problems.base`."""

from spgraph_bench.problems.base import CheckResult, Problem, Work, filled_options, get_problem, problems

__all__ = ["CheckResult", "Problem", "Work", "filled_options", "get_problem", "problems"]
