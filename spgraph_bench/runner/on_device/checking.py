"""Check: one cell from its refusal to its outcome; whatever goes wrong is an outcome, too."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path

from spgraph_bench.errors import LaunchError, SkipError, SpgraphError
from spgraph_bench.problems import CheckResult
from spgraph_bench.runner.children import ChildrenLostError
from spgraph_bench.runner.on_device.assignment import Assignment
from spgraph_bench.runner.on_device.first_run import FirstRun
from spgraph_bench.runner.on_device.judging import Judge
from spgraph_bench.runner.on_device.launches import Launches
from spgraph_bench.runner.on_device.packed_arrays import PackedArrays
from spgraph_bench.runner.on_device.refusals import refusal
from spgraph_bench.runner.on_device.second_look import SecondLook
from spgraph_bench.runner.plan import Cell, Outcome
from spgraph_bench.runner.prepare import Prepared, compile_times, described_modules
from spgraph_bench.runner.verify import WrongOutputError, error_text, listed
from spgraph_bench.tampering import ProcessState, note_functions, replaced_functions

__all__ = ["Check"]


class Check:
    """Checks cells, each alone.

    Parameters
    ----------
    interrupted : whether a KeyboardInterrupt is the user's, and not a host function's.
    """

    def __init__(
        self,
        assignment: Assignment,
        arrays: PackedArrays,
        launches: Launches,
        judge: Judge,
        first_run: FirstRun,
        second_look: SecondLook,
        interrupted: Callable[[], bool],
    ) -> None:
        self._assignment, self._arrays, self._launches, self._judge = assignment, arrays, launches, judge
        self._first_run, self._second_look, self._interrupted = first_run, second_look, interrupted

    def outcome(self, cell: Cell) -> Outcome:
        """Prepare `cell`, run it on poisoned output and compare with the oracle, then see whether it is what
        it seems: see docs/measuring.md."""
        assignment, before = self._assignment, ProcessState()
        note_functions()
        outcome = self._outcome(cell)
        reasons = before.changes()
        if replaced := replaced_functions():
            reasons = [f"it replaced {listed(replaced)}", *reasons]
        if reasons:
            # What could not be put right would be blamed on the next variant.
            outcome = Outcome("failed", "; ".join(reasons), replace_worker=True)
        if spoiled := self._arrays.spoiled(cell):
            reason = f"it changed {spoiled} of the matrix, which other variants read too"
            outcome = Outcome("failed", reason, replace_worker=True)
        if outcome.status != "ok" or assignment.device.kind == "host" or assignment.memory_is_short():
            self._launches.drop(cell)
            if not self._launches.lost_any:  # whose arrays might hang when they are freed
                self._launches.drop_unused_arrays()
                if assignment.device.kind == "cuda" and assignment.memory_is_short():
                    self._judge.drop_validators()
        return outcome

    def _outcome(self, cell: Cell) -> Outcome:
        """What is outside :meth:`_checked`'s own: a cell that cannot be run, or an error while it runs."""
        try:
            if refused := refusal(self._assignment, cell):
                return Outcome("skipped", refused)
            return self._checked(cell)
        except SkipError as error:
            return Outcome("skipped", str(error))
        except LaunchError as error:
            # The context may be poisoned: whatever comes next must not be blamed for it.
            self._launches.drop(cell)
            if not self._assignment.device_answers():
                raise
            return Outcome("failed", str(error))
        except SpgraphError as error:
            return Outcome("failed", str(error))
        except MemoryError as error:
            return Outcome("failed", f"not enough host memory: {error}")
        except BaseException as error:  # an error in a host function (a plugin's) is that variant's failure
            if isinstance(error, KeyboardInterrupt) and self._interrupted():
                raise
            where = traceback.extract_tb(error.__traceback__)[-1]
            place = f"{Path(where.filename).name}:{where.lineno}"
            return Outcome("failed", f"{place}: {error_text(error)}")

    def _checked(self, cell: Cell) -> Outcome:
        prepared = self._launches.prepared(cell)
        outcome = self._described(cell, prepared)
        self._assignment.say(f"checking {cell.key}", guarded=True)
        try:
            self._run(cell, prepared, outcome)
        except ChildrenLostError as error:
            self._launches.lose(cell, drop=True)
            outcome.status, outcome.reason = "failed", str(error)
            # On a GPU the launch after a refused one may hang.
            outcome.replace_worker = self._assignment.device.kind == "cuda"
        return outcome

    def _described(self, cell: Cell, prepared: Prepared) -> Outcome:
        """An outcome with what is known before a run: work, bytes, times of preparation, modules."""
        assignment, problem, job = self._assignment, self._assignment.problem, prepared.job
        _, convert_ms = self._arrays.packed(cell)
        if problem.needs_matrix:
            work = problem.work(assignment.csr.shape, job.packed)
        else:
            work = problem.work_of(assignment.inputs(cell), assignment.oracle(cell))
        return Outcome(
            "ok",
            bytes={
                "compulsory": work.compulsory_bytes,
                "stored": work.stored_bytes,
                "gathered": work.gathered_bytes,
                "device": prepared.device_bytes,
            },
            operations=work.operations,
            times={
                "convert_ms": convert_ms,
                **self._arrays.upload_times(cell),
                "preprocess_ms": prepared.launch.preprocess_ms,
                **compile_times(job),
            },
            modules=described_modules(job),
            params={**job.packed.meta, **{name: job.params[name] for name in job.variant.tunables}},
            device_bytes=prepared.device_bytes,
        )

    def _run(self, cell: Cell, prepared: Prepared, outcome: Outcome) -> None:
        """Run and compare; `outcome` gets the verdict. Raises ChildrenLostError."""
        try:
            result = self._judge.by_labels(self._first_run.result(cell, prepared, outcome))
        except WrongOutputError as error:
            result = CheckResult(False, str(error))
        outcome.check = {"ok": result.ok, "message": result.message, **result.details}
        outcome.facts = dict(result.facts)
        if result.operations is not None:
            outcome.operations = result.operations
        if not result.ok:
            outcome.status, outcome.reason = "wrong", result.message
            return
        try:
            self._second_look.look(cell, prepared, outcome)
        except WrongOutputError as error:
            outcome.status, outcome.reason = "wrong", str(error)
            outcome.check |= {"ok": False, "message": str(error)}
