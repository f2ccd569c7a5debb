"""What a launch costs: the same small tasks, launched by every mechanism there is."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.matrix import CSR, Matrix
from spgraph_bench.parameters import Parameter
from spgraph_bench.problems.base import CheckResult, Problem, filled_options, register

__all__ = ["SUMS", "LaunchCost", "item_values"]

SUMS = 1024
"""Words that the sum is spread over (SPG_SUMS of cuda/launch/task.cuh)."""
_ROUNDS = 4  # SPG_ROUNDS of the same
_TASKS_WITH_WORK = 1000


def item_values(count: int) -> npt.NDArray[np.uint32]:
    """What the items 0 to `count` - 1 of a task give (item_value of cuda/launch/task.cuh)."""
    x = np.arange(1, count + 1, dtype=np.uint32)
    for _ in range(_ROUNDS):
        x ^= x >> np.uint32(15)
        x *= np.uint32(0x2C1B3C6D)
    return x >> np.uint32(8)


def _geometric(first: int, factor: int, last: int) -> list[int]:
    values = [first]
    while values[-1] < last:
        values.append(min(last, values[-1] * factor))
    return values


class LaunchCost(Problem):
    """Tasks that are launched, run after run: a case is a number of tasks and their size.

    First 1, 10, 100, ... up to `launches` tasks without any items, then 1,000 (or `launches`) tasks of 64,
    256, ... up to `items` items. Input ``tasks`` int32 ``[cases]``, ``items`` int32 ``[cases]``; output
    ``result`` uint64 ``[1 + SUMS]``: tasks that were run, and parts of the sum over their items. Count and
    sum must be exact.
    """

    name = "launch"
    title = "cost of a launch, by mechanism"
    rate_unit = "Mlaunches/s"
    outputs: tuple[str, ...] = ("result",)
    dtypes: tuple[str, ...] = ("float32",)
    needs_matrix = False
    has_cases = True
    options: Mapping[str, Parameter] = MappingProxyType(
        {
            "launches": Parameter(10_000, "most tasks in a run", between=(1, 10**6)),
            "items": Parameter(16_384, "items of the largest task, about 15 ns each", between=(0, 2**20)),
        }
    )
    host_defaults: Mapping[str, Any] = MappingProxyType({"launches": 1000, "items": 1024})

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        filled = filled_options(self, options or {})
        self.launches, self.largest = int(filled["launches"]), int(filled["items"])

    def configured(self, options: Mapping[str, Any]) -> LaunchCost:
        return LaunchCost(options)

    def inputs(self, matrix: Matrix, dtype: np.dtype[Any], seed: int, **_: Any) -> dict[str, npt.NDArray[Any]]:
        """Nothing is drawn: the seed matters to the order of sampling only."""
        cases = [(count, 0) for count in _geometric(1, 10, self.launches)]
        if self.largest:
            count = min(_TASKS_WITH_WORK, self.launches)
            cases += [(count, items) for items in _geometric(min(64, self.largest), 4, self.largest)]
        tasks, items = np.array(cases, np.int32).T
        return {"tasks": tasks.copy(), "items": items.copy()}

    def output_arrays(self, matrix: Matrix, dtype: np.dtype[Any]) -> dict[str, tuple[tuple[int, ...], np.dtype[Any]]]:
        return {"result": ((1 + SUMS,), np.dtype(np.uint64))}

    def oracle(
        self, matrix: Matrix, inputs: Mapping[str, npt.NDArray[Any]], dtype: np.dtype[Any], **_: Any
    ) -> dict[str, npt.NDArray[Any]]:
        """``sums`` uint64 ``[cases]``."""
        sums = np.concatenate(([0], np.cumsum(item_values(self.largest), dtype=np.uint64))).astype(np.uint64)
        return {"sums": inputs["tasks"].astype(np.uint64) * sums[inputs["items"]]}

    def check(
        self, output: npt.NDArray[Any], oracle: Mapping[str, npt.NDArray[Any]], dtype: np.dtype[Any]
    ) -> CheckResult:
        """The first case; :meth:`check_case` is what the runner calls."""
        return _exact(output, int(oracle["tasks"][0]), int(oracle["sums"][0]))

    def check_case(
        self,
        case: int,
        output: npt.NDArray[Any],
        csr: CSR,
        inputs: Mapping[str, npt.NDArray[Any]],
        oracle: Mapping[str, npt.NDArray[Any]],
    ) -> tuple[CheckResult, bool]:
        return _exact(output, int(inputs["tasks"][case]), int(oracle["sums"][case])), True

    def describe_case(
        self,
        case: int,
        output: npt.NDArray[Any],
        csr: CSR,
        inputs: Mapping[str, npt.NDArray[Any]],
        oracle: Mapping[str, npt.NDArray[Any]],
    ) -> dict[str, Any]:
        """``tasks`` and ``items`` of each."""
        return {"tasks": int(inputs["tasks"][case]), "items": int(inputs["items"][case])}

    def describe_inputs(self, inputs: Mapping[str, npt.NDArray[Any]]) -> str:
        return f"{len(inputs['tasks'])} cases, up to {self.launches:,} tasks, up to {self.largest:,} items each"


def _exact(output: npt.NDArray[Any], tasks: int, total: int) -> CheckResult:
    if output.shape != (1 + SUMS,) or output.dtype != np.uint64:
        return CheckResult(False, f"the result is {output.dtype} {list(output.shape)}, not uint64 [{1 + SUMS}]")
    ran, sum_of_items = int(output[0]), int(output[1:].sum())
    if ran != tasks:
        return CheckResult(False, f"{ran:,} of {tasks:,} tasks were run")
    if sum_of_items != total:
        return CheckResult(False, f"the items of {tasks:,} tasks add up to {sum_of_items:,}, not to {total:,}")
    return CheckResult(True)


register(LaunchCost())
