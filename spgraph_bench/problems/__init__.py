"""Problems: one module each. See :mod:`spgraph_bench.problems.base`."""

from spgraph_bench.problems.base import CaseProblem, CheckResult, Problem, Work, get_problem, problems

__all__ = ["CaseProblem", "CheckResult", "Problem", "Work", "get_problem", "problems"]
