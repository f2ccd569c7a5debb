"""Check: whether an output is right, by the oracle where it knows, by a validator in any case."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from spgraph_bench.errors import LaunchError
from spgraph_bench.matrix import called, with_labels
from spgraph_bench.problems import CheckResult
from spgraph_bench.problems.sources import SourceProblem
from spgraph_bench.runner.on_device.assignment import Assignment
from spgraph_bench.runner.payload import Arrays
from spgraph_bench.runner.plan import Cell
from spgraph_bench.runner.verify import WrongOutputError, error_text
from spgraph_bench.validate import Checked, Graph, Validator, make_validator

__all__ = ["Judge"]


@contextlib.contextmanager
def _readable(output: Any) -> Iterator[None]:
    """Raises WrongOutputError where a check ends with an error: keys are missing, a type or a shape is another one."""
    try:
        yield
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError) as error:
        arrays = output.items() if isinstance(output, Mapping) else [("", output)]
        given = ", ".join(f"{name} {np.asarray(a).dtype} {list(np.shape(a))}".strip() for name, a in arrays)
        raise WrongOutputError(f"its output cannot be compared: {given or 'nothing'} ({error_text(error)})") from error


class Judge:
    """Oracles and validators of a task. Validators are made once for each type; they have the graph on the
    device."""

    def __init__(self, assignment: Assignment) -> None:
        self._assignment = assignment
        self._validators: dict[str, Validator | None] = {}
        """By value type, as far as they were needed."""

    def result(self, cell: Cell, output: Any, oracle: Arrays) -> CheckResult:
        """The outcome of a problem without cases. `output` is in the matrix's own order."""
        assignment, problem = self._assignment, self._assignment.problem
        validator = self._validator(cell)
        result = CheckResult(True)
        checked_by: dict[str, Any] = {}
        if oracle or validator is None:
            checked_by["by_oracle"] = 1
            if problem.is_graph:
                csr = assignment.csr
                oracle = oracle | {"row_ptr": csr.row_ptr, "col_idx": csr.col_idx}
            if not problem.needs_matrix:
                oracle = oracle | assignment.inputs(cell)
            with _readable(output):
                result = problem.check(output, oracle, np.dtype(cell.dtype))
        if validator is None or not result.ok:
            return result
        checked = self._validated(cell, output).result
        details = {**checked.details, **result.details, **checked_by, "by_validator": 1}
        return replace(checked, details=details)

    def result_of_case(
        self, cell: Cell, case: int, output: Any, inputs: Arrays, oracle: Arrays
    ) -> tuple[CheckResult, list[str], Mapping[str, Any]]:
        """The outcome of one case.

        Returns the outcome, by whom ("by_oracle", "by_validator", for each of its sources), and what the validator
        learned on the way.
        """
        problem = self._assignment.problem
        with _readable(output):
            result, known = problem.check_case(case, output, self._assignment.csr, inputs, oracle)
        by = ["by_oracle"] * int(known)
        facts: dict[str, Any] = {}
        if result.ok and self._validator(cell) is not None:
            assert isinstance(problem, SourceProblem)
            sources = problem.sources_of(case, inputs)
            for source, answer in zip(sources, problem.answers_of(output), strict=True):
                checked = self._validated(cell, answer, source)
                result = checked.result
                for name, value in checked.facts.items():  # those of a batch together
                    before = facts.get(name, 0)
                    facts[name] = max(before, value) if name == "levels" else before + value
                if not result.ok and len(sources) > 1:
                    result = replace(result, message=f"from source {source:,}: {result.message}")
                if not result.ok:
                    break
                by.append("by_validator")
        if result.ok and not by:  # a problem must have one or the other
            result = CheckResult(False, f"no check covers the answer to case {case + 1}")
        return result, by, facts

    def by_labels(self, result: CheckResult) -> CheckResult:
        """`result` with vertices called as in the input."""
        if not self._assignment.problem.is_graph or result.ok:
            return result
        labels, details = self._assignment.labels(), dict(result.details)
        if 0 <= (worst := int(details.get("worst_vertex", -1))) < len(labels):
            details["worst_vertex_id"] = called(labels, worst)
        return replace(result, message=with_labels(result.message, labels), details=details)

    def drop_validators(self) -> None:
        """Give their memory back."""
        for validator in self._validators.values():
            if validator is not None:
                validator.graph.free()
        self._validators.clear()

    def _validator(self, cell: Cell) -> Validator | None:
        if cell.dtype not in self._validators:
            graph = next((v.graph for v in self._validators.values() if v is not None), None)
            self._validators[cell.dtype] = self._made(cell, graph)
        return self._validators[cell.dtype]

    def _made(self, cell: Cell, graph: Graph | None) -> Validator | None:
        a = self._assignment
        return make_validator(a.problem, a.csr, a.device, cell.dtype, a.inputs(cell), graph)

    def _validated(self, cell: Cell, output: Any, source: int = -1) -> Checked:
        """What the validator says of `output`. An error that kernels find is looked at again with the graph
        uploaded anew, since the variant may have spoilt it; where memory is short numpy looks."""
        validator = self._validator(cell)
        assert validator is not None
        if validator.graph.device is None:
            return validator.check(output, source)
        try:
            checked = validator.check(output, source)
            if not checked.result.ok:
                validator.graph.free()
                checked = validator.check(output, source)
            return checked
        except LaunchError:
            if not self._assignment.device_answers():
                raise
            self.drop_validators()
            plain = self._made(cell, Graph(self._assignment.csr))
            self._validators[cell.dtype] = plain
            assert plain is not None
            return plain.check(output, source)
