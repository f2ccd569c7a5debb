"""Problems without a matrix, solved once by a variant: for the tests of all of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from spgraph_bench.device.base import Device
from spgraph_bench.formats import get_format
from spgraph_bench.matrix import CSR
from spgraph_bench.problems import Problem, filled_options, get_problem
from spgraph_bench.runner.assembly import generated_matrix
from spgraph_bench.runner.children import Children, children_of
from spgraph_bench.runner.prepare import Prepared, prepare
from spgraph_bench.variants import Variant

EMPTY = CSR(0, 0, np.zeros(1, np.int64), np.empty(0, np.int32), None)


def problem_of(name: str, options: Mapping[str, Any]) -> Problem:
    problem = get_problem(name, options)
    assert not problem.needs_matrix
    return problem


def inputs_of(name: str, options: Mapping[str, Any], seed: int = 1) -> dict[str, np.ndarray]:
    problem = problem_of(name, options)
    return problem.inputs(generated_matrix(problem, options), np.dtype(problem.dtypes[0]), seed)


def oracle_of(name: str, options: Mapping[str, Any], inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    problem = problem_of(name, options)
    return problem.oracle(generated_matrix(problem, options), inputs, np.dtype(problem.dtypes[0]))


def prepared(
    device: Device, variant: Variant, options: Mapping[str, Any], inputs: Mapping[str, np.ndarray], **params: Any
) -> Prepared:
    """`variant` ready for `inputs`; skips where the device cannot run it."""
    if variant.missing and (reason := variant.missing(device)):
        pytest.skip(reason)
    problem = problem_of(variant.problem, options)
    packed = get_format("none").pack(EMPTY, np.dtype(problem.dtypes[0]))
    filled = filled_options(problem, options)
    return prepare(device, variant, packed, inputs, {}, params, options=filled)


def solve(device: Device, ready: Prepared) -> tuple[Any, Children]:
    """The output of one run on poisoned buffers, and what it launched."""
    ready.launch.reset()
    if ready.job.child_words is not None:
        device.fill(ready.job.child_words, 0)
    ready.launch.run()
    device.synchronize()
    return ready.launch.output(), children_of(ready.job) or Children()


def verdict(variant: Variant, options: Mapping[str, Any], inputs: Mapping[str, np.ndarray], output: Any) -> Any:
    """What the problem's check says."""
    problem = problem_of(variant.problem, options)
    oracle = oracle_of(variant.problem, options, inputs)
    return problem.check(output, {**oracle, **inputs}, np.dtype(problem.dtypes[0]))
