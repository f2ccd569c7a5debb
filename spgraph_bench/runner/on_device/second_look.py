"""Check: what a right first output does not show. How it is measured is in docs/measuring.md."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from spgraph_bench.device.host import HostDevice
from spgraph_bench.errors import LaunchError
from spgraph_bench.measure.sampling import Cache
from spgraph_bench.problems.sources import SourceProblem
from spgraph_bench.runner.on_device.assignment import Assignment
from spgraph_bench.runner.on_device.exact_pass import ExactPass
from spgraph_bench.runner.on_device.judging import Judge
from spgraph_bench.runner.on_device.launches import Inputs, Launches
from spgraph_bench.runner.on_device.stopwatches import Stopwatches
from spgraph_bench.runner.payload import Arrays
from spgraph_bench.runner.plan import Cell, Outcome
from spgraph_bench.runner.prepare import Prepared
from spgraph_bench.runner.verify import FACTORS, WrongOutputError, finished_output, output_of, same_output
from spgraph_bench.variants.base import Launch

__all__ = ["SecondLook"]


class _PassingInputs(Inputs):
    """Inputs of a verifying run, which are others before it and after it."""

    def __init__(self, prepared: Prepared, changed: Arrays, case: int) -> None:
        self._prepared, self._changed, self._case = prepared, changed, case

    def give(self) -> None:
        for name, array in self._changed.items():
            self._prepared.write_input(name, array)
        self._prepared.launch.select(self._case)

    def take_away(self) -> None:
        if name := self._prepared.changed_input(self._changed):
            raise WrongOutputError(f"it changed {name}, which is an input")
        self.put_back()

    def put_back(self) -> None:
        """What timed runs get."""
        for name in self._changed:
            self._prepared.write_input(name, self._prepared.given[name])
        self._prepared.launch.select(0)


class SecondLook:
    """Looks at a variant whose first outputs were right, and again between and after timed runs."""

    def __init__(
        self, assignment: Assignment, launches: Launches, judge: Judge, stopwatches: Stopwatches, exact: ExactPass
    ) -> None:
        self._assignment, self._launches, self._judge = assignment, launches, judge
        self._stopwatches, self._exact = stopwatches, exact
        self._turned: dict[str, tuple[Arrays, Arrays]] = {}
        """By type: inputs that are no multiples of those given, and their oracle."""

    def look(self, cell: Cell, prepared: Prepared, outcome: Outcome) -> None:
        """Raises WrongOutputError.

        Nothing was written around the outputs; a reset output is poison until the next run; work does not
        escape the stream; where kernels are not timed, two more runs on changed inputs are right, too; sums
        of integers are exact.
        """
        assignment, device = self._assignment, self._assignment.device
        assignment.say(f"verifying {cell.key}", guarded=True)
        if where := prepared.overrun():
            raise WrongOutputError(where)
        launch, on_gpu = prepared.launch, prepared.job.variant.where == "gpu"
        launch.select(0)
        output = self._launches.output_of_rerun(prepared)
        if name := prepared.changed_input({}):
            raise WrongOutputError(f"it changed {name}, which is an input")
        launch.reset()
        device.synchronize()
        if same_output(output, _output_of_nothing(launch)):
            self._must_be_right(cell, prepared, output)  # it may be poison itself
            raise WrongOutputError("its output is there without a run: reset() does not poison it")
        if on_gpu and device.kind == "cuda":
            self._must_stay_in_stream(prepared)
        if on_gpu and device.kind == "host":
            self._in_other_orders(cell, prepared)
            outcome.check["verified"] = 2
        if assignment.problem.is_product:
            outcome.check["exact"] = self._exact.run(cell, prepared)

    def _in_other_orders(self, cell: Cell, prepared: Prepared) -> None:
        """Two verifying runs on the host device, whose blocks and threads go in another order in each."""
        device = self._assignment.device
        assert isinstance(device, HostDevice)
        for number in range(2):
            try:
                with device.other_order(1 + number):
                    self.run_again(cell, prepared, number)
            except WrongOutputError as error:
                raise WrongOutputError(f"{error}; threads had another order than in the first run") from None

    def run_again(self, cell: Cell, prepared: Prepared, number: int, cache: Cache | None = None) -> float:
        """Verifying run `number` (0, 1, 2), with inputs that were not there before; its time in ms.

        `cache`: taken as a sample in this state is taken; None: untimed. Raises WrongOutputError.
        """
        assignment, problem, launch = self._assignment, self._assignment.problem, prepared.launch
        inputs, oracle = assignment.inputs(cell), assignment.oracle(cell)
        if cache == "hot":
            launch.select(0)
            # What was in the caches was another variant's.
            self._stopwatches.clock(prepared.job.variant.where).sample(launch, "hot")
            prepared.runs += 1
        case, given = 0, inputs
        changed: Arrays = {}
        if problem.has_cases:
            case = _case_after(prepared, number)
            if prepared.fresh:
                inputs["sources"] = np.concatenate((inputs["sources"], prepared.fresh_sources))
        elif problem.is_product:
            inputs, oracle = self._others(cell, number)
            changed = {
                name: assignment.input_in_order(cell, name, array)
                for name, array in inputs.items()
                if array is not given[name]
            }
        passing = _PassingInputs(prepared, changed, case)
        try:
            reset = self._leaving_outputs(prepared) if self._finds_leftovers(prepared, number) else launch.reset
            output, ms = self._run(prepared, cache, passing, number, reset)
        finally:
            passing.put_back()
        if where := prepared.overrun():
            raise WrongOutputError(where)
        assignment.say(f"comparing {cell.key}", guarded=False)
        self._must_be_right(cell, prepared, output, case, inputs, oracle)
        assignment.say("timing" if cache else f"verifying {cell.key}", guarded=True)
        return ms

    def _others(self, cell: Cell, number: int) -> tuple[Arrays, Arrays]:
        """Other inputs of a product, and their oracle, for verifying run `number`."""
        assignment, problem = self._assignment, self._assignment.problem
        inputs, oracle = assignment.inputs(cell), assignment.oracle(cell)
        if FACTORS[number] != 1:
            return problem.scaled(inputs, oracle, FACTORS[number])
        if cell.dtype not in self._turned:
            assignment.say(f"computing another product, {cell.dtype}", guarded=False)
            self._turned[cell.dtype] = problem.turned(assignment.csr, inputs, oracle)
            assignment.say(f"verifying {cell.key}", guarded=True)
        return self._turned[cell.dtype]

    def _finds_leftovers(self, prepared: Prepared, number: int) -> bool:
        """Whether verifying run `number` finds the outputs of the run before in place of poison, so that a kernel that
        sets only what was poison is wrong. Only where the runs before had other inputs: else their outputs would be
        right, and so would a run that does nothing."""
        if number != 1 or prepared.job.variant.where == "cpu":
            return False
        problem = self._assignment.problem
        if isinstance(problem, SourceProblem):
            return _case_after(prepared, 1) not in (0, _case_after(prepared, 0))
        return problem.is_product

    def _leaving_outputs(self, prepared: Prepared) -> Callable[[], None]:
        """The launch's reset, after which outputs hold again what they hold now: a library may need the rest of it, as
        where it has a padded copy of X."""
        device, buffers = self._assignment.device, prepared.job.buffers
        results = {name: device.download(buffers[name]) for name in buffers if name not in prepared.given}

        def reset() -> None:
            prepared.launch.reset()
            for name, array in results.items():
                device.write(buffers[name], array)

        return reset

    def _run(
        self, prepared: Prepared, cache: Cache | None, inputs: Inputs, number: int, reset: Callable[[], None]
    ) -> tuple[Any, float]:
        """The output of verifying run `number`, and its time in ms: 0 where it is untimed."""
        if cache is None:
            return self._launches.output_of_rerun(prepared, inputs, reset), 0.0
        launch, where = prepared.launch, prepared.job.variant.where
        timed = replace(launch, reset=reset)
        problem = self._assignment.problem
        named = not problem.needs_matrix
        ms: list[float] = []

        def sample() -> None:
            inputs.give()
            prepared.runs += 1
            ms.append(self._stopwatches.clock(where).sample(timed, cache).ms)

        def again() -> None:
            sample()
            inputs.take_away()

        if where == "cpu":
            again()
            return finished_output(launch, ms[0], again, converts=problem.has_cases, named=named), ms[0]
        sample()
        if number == 0:
            inputs.take_away()
            return output_of(launch, named=named), ms[0]
        # Immediately, on the job's own stream, without waiting for the device: what is unfinished elsewhere shows.
        output = output_of(launch, named=named)
        inputs.take_away()
        return output, ms[0]

    def _must_be_right(
        self,
        cell: Cell,
        prepared: Prepared,
        output: Any,
        case: int = 0,
        inputs: Arrays | None = None,
        oracle: Arrays | None = None,
    ) -> None:
        """Compare an `output` as the first one was. Raises WrongOutputError."""
        assignment = self._assignment
        inputs = assignment.inputs(cell) if inputs is None else inputs
        oracle = assignment.oracle(cell) if oracle is None else oracle
        if assignment.problem.has_cases:
            result, _, _ = self._judge.result_of_case(cell, case, output, inputs, oracle)
        else:
            result = self._judge.result(cell, assignment.output_in_own_order(cell, output), oracle)
        if not result.ok:
            raise WrongOutputError(f"wrong after {prepared.runs:,} runs: {result.message}")

    def _must_stay_in_stream(self, prepared: Prepared) -> None:
        buffers = prepared.job.buffers
        outputs = [buffers[name] for name in self._assignment.problem.outputs if name in buffers]
        if self._stopwatches.cuda_clock().escapes(prepared.launch, outputs):
            raise WrongOutputError("it writes its output outside the stream that it is timed on")


def _case_after(prepared: Prepared, number: int) -> int:
    """The case of verifying run `number`: one that no other run has, if the graph has enough vertices."""
    launch = prepared.launch
    return launch.cases + number if number < prepared.fresh else (number + 1) % launch.cases


def _output_of_nothing(launch: Launch) -> Any:
    """What `launch` hands out when nothing has run since its reset."""
    try:
        return output_of(launch, named=True)
    except LaunchError:
        raise
    except Exception:  # it may refuse in its own way
        return np.empty(0)
