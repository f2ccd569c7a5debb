"""Check: the first run of each case, on poisoned outputs, compared with what is known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.matrix import called
from spgraph_bench.problems import CheckResult
from spgraph_bench.problems.sources import SourceProblem
from spgraph_bench.runner.children import children_of
from spgraph_bench.runner.on_device.assignment import Assignment
from spgraph_bench.runner.on_device.findings import Findings
from spgraph_bench.runner.on_device.judging import Judge
from spgraph_bench.runner.plan import Cell, Outcome
from spgraph_bench.runner.prepare import Prepared
from spgraph_bench.runner.verify import WrongOutputError, output_of
from spgraph_bench.timer import perf_counter

__all__ = ["FirstRun"]


class FirstRun:
    """Runs what was prepared for the first time."""

    def __init__(self, assignment: Assignment, judge: Judge, findings: Findings) -> None:
        self._assignment, self._judge, self._findings = assignment, judge, findings

    def result(self, cell: Cell, prepared: Prepared, outcome: Outcome) -> CheckResult:
        """Whether all outputs are right; `outcome` gets what right ones tell. Raises ChildrenLostError."""
        if self._assignment.problem.has_cases:
            return self._result_of_cases(cell, prepared, outcome)
        raw = self._output(prepared, outcome)
        self._assignment.say(f"comparing {cell.key}", guarded=False)
        output = self._assignment.output_in_own_order(cell, raw)
        result = self._judge.result(cell, output, self._assignment.oracle(cell))
        if result.ok:
            self._findings.sum_up(cell, prepared, output, outcome)
            self._findings.watch_steps(prepared, outcome)
        return result

    def _result_of_cases(self, cell: Cell, prepared: Prepared, outcome: Outcome) -> CheckResult:
        """Run and check every case."""
        assignment, problem, launch = self._assignment, self._assignment.problem, prepared.launch
        inputs, oracle = assignment.inputs(cell), assignment.oracle(cell)
        checked_by: dict[str, Any] = {"by_oracle": 0, "by_validator": 0}
        cases: list[dict[str, Any]] = []
        added: npt.NDArray[Any] | None = None
        for case in range(launch.cases):
            which = f"case {case + 1} of {launch.cases}"
            assignment.say(f"checking {cell.key}, {which}", guarded=True)
            launch.select(case)
            output = self._output(prepared, outcome)
            assignment.say(f"comparing {cell.key}, {which}", guarded=False)
            result, by, facts = self._judge.result_of_case(cell, case, output, inputs, oracle)
            for name in by:
                checked_by[name] += 1
            if not result.ok:
                # Of a batch the message names the source.
                one = "sources" in inputs and inputs["sources"].ndim == 1
                source = f" (source {int(inputs['sources'][case])})" if one else ""
                return CheckResult(False, f"{which}{source}: {result.message}", {**checked_by, **result.details})
            described = problem.describe_case(case, output, assignment.csr, inputs, oracle)
            cases.append(self._with_id({**described, **facts}))
            if problem.adds_up:
                assert isinstance(problem, SourceProblem)
                one = np.add.reduce(problem.answers_of(output))
                added = one if added is None else added + one
            if case == 0:
                if not problem.adds_up:
                    self._findings.sum_up(cell, prepared, output, outcome)
                self._findings.look_at_steps(prepared, output, outcome)
        if problem.adds_up and added is not None:
            self._findings.sum_up(cell, prepared, problem.total(added, inputs), outcome)
        outcome.cases = tuple(cases)
        launch.select(0)
        return CheckResult(True, "", checked_by)

    def _with_id(self, facts: Mapping[str, Any]) -> dict[str, Any]:
        """`facts` of a case, and what the input calls its source."""
        if "source" not in facts:
            return dict(facts)
        return {**facts, "source_id": called(self._assignment.labels(), facts["source"])}

    def _output(self, prepared: Prepared, outcome: Outcome) -> Any:
        """The output of one run on poisoned buffers; `outcome` gets the counters of the first.

        Raises ChildrenLostError when a launch or an allocation on the device failed.
        """
        launch, device = prepared.launch, self._assignment.device
        launch.reset()
        if prepared.job.child_words is not None:
            device.fill(prepared.job.child_words, 0)
        device.synchronize()
        device.reset_counters()
        prepared.runs += 1
        begin = perf_counter()
        launch.run()
        device.synchronize()
        outcome.run_s += perf_counter() - begin
        if outcome.counters is None and prepared.job.variant.where == "gpu":
            outcome.counters = device.counters()
        self._look_for_children(prepared, outcome)
        return output_of(launch, named=not self._assignment.problem.needs_matrix)

    def _look_for_children(self, prepared: Prepared, outcome: Outcome) -> None:
        """Keep what was launched on the device. Raises ChildrenLostError when some of it was not run, WrongOutputError
        when some of it was not counted."""
        children = children_of(prepared.job)
        counted = self._assignment.device.counters() if prepared.job.variant.where == "gpu" else None
        if children is None:
            self._must_be_counted(0, counted)
            return
        task = self._assignment.task
        needs = task.needs.get(prepared.job.variant.name, {})
        if outcome.children is None or children.refused or children.failed or children.allocations_failed:
            outcome.children = {**children.words(), "bound": needs.get("pending_launches", 0)}
        children.must_be_whole(needs, task.limits)
        self._must_be_counted(children.launched, counted)

    @staticmethod
    def _must_be_counted(launched: int, counted: Mapping[str, int] | None) -> None:
        """Raise WrongOutputError unless the kernels count as many child launches as the device made, where it knows."""
        if counted is not None and counted["child_launches"] != launched:
            made = counted["child_launches"]
            raise WrongOutputError(f"its kernels counted {launched:,} of {made:,} child launches (count_child)")
