"""What a problem is like where it does not say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from battery import battery

from spgraph_bench.formats import get_format
from spgraph_bench.problems import CheckResult, Problem, Work, filled_options, problems
from spgraph_bench.problems.base import register

Arrays = dict[str, np.ndarray]


class Least(Problem):
    """As little as there may be."""

    name, title, rate_unit = "least", "the least that a problem says", "Mcells/s"
    outputs, dtypes = ("y",), ("float32",)

    def inputs(self, matrix: Any, dtype: Any, seed: int, **options: Any) -> Arrays:
        return {"x": np.ones(3)}

    def oracle(self, matrix: Any, inputs: Mapping[str, Any], dtype: Any, **options: Any) -> Arrays:
        return {"r": np.ones(3)}

    def check(self, output: Any, oracle: Mapping[str, Any], dtype: Any) -> CheckResult:
        return CheckResult(bool(np.array_equal(output, oracle["r"])))


def test_what_a_problem_does_not_say_has_a_default() -> None:
    problem = Least()
    matrix: Any = battery()["tridiagonal"]
    inputs, oracle = problem.inputs(matrix, None, 1), problem.oracle(matrix, {}, None)
    assert problem.configured({"k": 3}) is problem
    assert filled_options(problem, {"k": 3}) == {}
    assert (problem.needs_matrix, problem.parallel, dict(problem.axes)) == (True, "sum", {})
    flags = (problem.is_graph, problem.has_cases, problem.adds_up, problem.is_product)
    assert flags == (False, False, False, False)
    assert problem.output_arrays(matrix, np.dtype(np.float32)) == {}
    assert problem.columns(np.ones(3), matrix, inputs) == {}
    assert problem.summary(np.ones(3), {}, matrix, inputs, oracle, []) == {}
    assert problem.scaled(inputs, oracle, 0.5) == (inputs, oracle)
    assert problem.exact(matrix, np.dtype(np.float32), 0) == "least is not a product"
    packed = get_format("csr").pack(matrix, np.dtype(np.float32))
    assert problem.work(matrix.shape, packed).stored_bytes == packed.stored_bytes
    assert problem.rate(Work(5_000_000, 0, 0, 0), 2.0) == 2.5


def test_an_unknown_case_is_not_right_by_default() -> None:
    result, known = Least().check_case(0, np.ones(3), battery()["tridiagonal"], {}, {})
    assert result.ok
    assert not known  # so that the runner asks a validator, and refuses where there is none


def test_a_problem_without_a_check_cannot_be_made() -> None:
    class Unchecked(Least):
        check = Problem.check

    with pytest.raises(TypeError, match="abstract"):
        Unchecked()  # type: ignore[abstract]


def test_two_problems_of_a_name_are_an_error() -> None:
    with pytest.raises(ValueError, match="registered twice"):
        register(problems()["spmv"])


def test_flags_agree_with_what_problems_define() -> None:
    """A problem that is asked for something defines it, and what it defines it is asked for."""
    for problem in problems().values():
        own = type(problem)
        assert problem.has_cases == (own.check_case is not Problem.check_case), problem.name
        assert problem.adds_up == (own.total is not Problem.total), problem.name
        assert problem.is_product == (own.exact is not Problem.exact), problem.name
        assert problem.is_product == (own.scaled is not Problem.scaled), problem.name
        assert problem.needs_matrix == (own.describe_inputs is Problem.describe_inputs), problem.name
