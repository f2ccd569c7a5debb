"""Check: what a right first run tells, for the record: its summary, its answer, its levels and steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.problems.sources import LevelWork, level_work, levels_of
from spgraph_bench.runner.on_device.assignment import Assignment
from spgraph_bench.runner.payload import Arrays
from spgraph_bench.runner.plan import Cell, Outcome
from spgraph_bench.runner.prepare import Prepared
from spgraph_bench.runner.verify import WrongOutputError
from spgraph_bench.variants.base import Launch

__all__ = ["Findings"]

_FACTS = (bool, int, float, str, np.bool_, np.integer, np.floating, type(None))


class Findings:
    """Gathers what right runs tell into outcomes."""

    def __init__(self, assignment: Assignment) -> None:
        self._assignment = assignment
        self.answer: Arrays | None = None
        """Columns of the first right answer, if they are to be kept."""
        self._level_work: dict[str, LevelWork] = {}

    def sum_up(self, cell: Cell, prepared: Prepared, output: npt.NDArray[Any], outcome: Outcome) -> None:
        """What the problem says of a right `output`, and the work of a run of several iterations."""
        assignment, problem = self._assignment, self._assignment.problem
        facts = self._facts(prepared.launch)
        times = int(facts.get("iterations", 1))
        outcome.operations *= times
        outcome.bytes |= {name: outcome.bytes[name] * times for name in ("compulsory", "gathered")}
        assignment.say(f"summing up {cell.key}", guarded=False)
        inputs, oracle = assignment.inputs(cell), assignment.oracle(cell)
        labels = assignment.labels() if problem.is_graph else []
        outcome.result = problem.summary(output, facts, assignment.csr, inputs, oracle, labels)
        if assignment.task.keep_answer and self.answer is None:
            self.answer = problem.columns(output, assignment.csr, inputs) or None

    def _facts(self, launch: Launch) -> Mapping[str, Any]:
        """The launch's facts. Raises WrongOutputError for what is none: a row's rates are computed from them."""
        facts = launch.facts()
        most = int(self._assignment.task.options.get("max_iterations", 1))
        if not isinstance(facts, Mapping) or not all(isinstance(v, _FACTS) for v in facts.values()):
            raise WrongOutputError("facts() gave something other than numbers and texts by name")
        times = facts.get("iterations", 1)
        if not isinstance(times, (int, np.integer)) or not 0 <= times <= most:
            raise WrongOutputError(f"facts() says {times!r:.80} iterations, not 0 to {most:,}")
        return facts

    def look_at_steps(self, prepared: Prepared, output: npt.NDArray[Any], outcome: Outcome) -> None:
        """Levels and steps of the case at hand, whose right output this is."""
        launch = prepared.launch
        if launch.trace is not None:
            self._watch_levels(prepared, levels_of(output), outcome)
        elif launch.every_level:
            work, nnz = self._work_of_levels(prepared, levels_of(output)), prepared.job.packed.nnz
            levels = range(len(work.vertices))
            outcome.inspected = sum(work.inspected(launch.every_level, k, nnz) for k in levels)
        else:
            self.watch_steps(prepared, outcome)

    def watch_steps(self, prepared: Prepared, outcome: Outcome) -> None:
        """What each step of a run was, where that is asked for and the variant can tell."""
        launch = prepared.launch
        if not self._assignment.task.trace or launch.steps is None:
            return
        self._assignment.say(f"watching the steps of {prepared.job.variant.name}", guarded=True)
        launch.reset()
        outcome.trace = tuple(dict(step) for step in launch.steps())

    def _watch_levels(self, prepared: Prepared, levels: npt.NDArray[Any], outcome: Outcome) -> None:
        """What each level of the case at hand was, and how it was done."""
        launch, nnz = prepared.launch, prepared.job.packed.nnz
        assert launch.trace is not None
        work = self._work_of_levels(prepared, levels)
        self._assignment.say(f"watching the levels of {prepared.job.variant.name}", guarded=True)
        launch.reset()
        done = launch.trace()
        self._assignment.say("counting what was inspected", guarded=False)
        depth = len(work.vertices)
        # A mode notices the end by a level that finds nothing, or that it has no frontier for.
        looked = [work.inspected(t.how, k, nnz) if k < depth else 0 for k, t in enumerate(done)]
        outcome.inspected = sum(looked)
        if self._assignment.task.trace:
            outcome.trace = tuple(
                {
                    "how": t.how,
                    "ms": t.ms,
                    "vertices": int(work.vertices[k]),
                    "edges": int(work.edges[k]),
                    "inspected": looked[k],
                }
                for k, t in enumerate(done[:depth])
            )

    def _work_of_levels(self, prepared: Prepared, levels: npt.NDArray[Any]) -> LevelWork:
        packed = prepared.job.packed
        key = f"{packed.format}/{packed.meta.get('reorder')}"
        if key not in self._level_work:  # the levels are the same for all modes
            self._level_work[key] = level_work(packed, levels)
        return self._level_work[key]
