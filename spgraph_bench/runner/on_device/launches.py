"""Prepare: variants that are ready to run."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from spgraph_bench.runner.on_device.assignment import Assignment
from spgraph_bench.runner.on_device.packed_arrays import PackedArrays
from spgraph_bench.runner.plan import Cell
from spgraph_bench.runner.prepare import Prepared, filled_params, prepare
from spgraph_bench.runner.verify import finished_output, fresh_cases, output_of
from spgraph_bench.timer import perf_counter

__all__ = ["Inputs", "Launches"]


class Inputs:
    """What a run gets, and what is there instead once it is over: by default what is there."""

    def give(self) -> None:
        """Before the run."""

    def take_away(self) -> None:
        """After the run, before its output is asked for. Raises WrongOutputError where the run changed an input."""


class Launches:
    """The prepared variant of each cell that is in use.

    Parameters
    ----------
    lost : gets variants that lost children. Freeing their memory might hang, so the owner of the list keeps it
        until the end.
    """

    def __init__(self, assignment: Assignment, arrays: PackedArrays, lost: list[Prepared]) -> None:
        self._assignment, self._arrays = assignment, arrays
        self._ready: dict[str, Prepared] = {}
        self._lost = lost

    def prepared(self, cell: Cell) -> Prepared:
        """The cell's variant, prepared unless it is already. Raises what preparing raises."""
        if cell.key in self._ready:
            return self._ready[cell.key]
        assignment, task = self._assignment, self._assignment.task
        variant = assignment.variant(cell)
        params = task.params_of(variant.name)
        filled_params(variant, params)  # before any work: a bad parameter is a usage error
        packed, _ = self._arrays.packed(cell)
        arrays = self._arrays.placed(cell, packed)
        assignment.say(f"preparing {cell.key}", guarded=True)
        inputs = {name: assignment.input_in_order(cell, name, array) for name, array in assignment.inputs(cell).items()}
        fresh = np.empty(0, np.int32)
        if "sources" in inputs:
            fresh = fresh_cases(assignment.csr, inputs["sources"])
            inputs["sources"] = np.concatenate((inputs["sources"], fresh))
        prepared = prepare(
            assignment.device,
            variant,
            packed,
            inputs,
            assignment.outputs(cell),
            params,
            arrays=arrays,
            options=task.options,
        )
        prepared.hide_sources(fresh)
        assignment.device.synchronize()
        self._ready[cell.key] = prepared
        return prepared

    def ready(self, cell: Cell) -> Prepared | None:
        """The cell's prepared variant, None where there is none."""
        return self._ready.get(cell.key)

    def output_of_rerun(
        self, prepared: Prepared, inputs: Inputs | None = None, reset: Callable[[], None] | None = None
    ) -> Any:
        """The output of one more run with `inputs` (those that are there), after `reset` (the launch's own)."""
        inputs, problem = inputs or Inputs(), self._assignment.problem
        launch, device, named = prepared.launch, self._assignment.device, not problem.needs_matrix
        run_ms = 0.0

        def rerun() -> None:
            nonlocal run_ms
            inputs.give()
            (reset or launch.reset)()
            device.synchronize()
            prepared.runs += 1
            begin = perf_counter()
            launch.run()
            run_ms = (perf_counter() - begin) * 1e3
            if prepared.job.variant.where == "gpu":
                device.synchronize()
            inputs.take_away()

        rerun()
        if prepared.job.variant.where == "cpu":
            return finished_output(launch, run_ms, rerun, converts=problem.has_cases, named=named)
        return output_of(launch, named=named)

    def drop(self, cell: Cell) -> None:
        """Let go of the cell's variant; its arrays stay until :meth:`drop_unused_arrays`."""
        self._ready.pop(cell.key, None)

    def keep_only(self, cells: Collection[Cell]) -> None:
        """Let go of the variants of all other cells."""
        wanted = {cell.key for cell in cells}
        self._ready = {key: prepared for key, prepared in self._ready.items() if key in wanted}

    def lose(self, cell: Cell, *, drop: bool) -> None:
        """The cell's variant has lost children: its memory is not to be freed."""
        self._lost.append(self._ready.pop(cell.key) if drop else self._ready[cell.key])

    @property
    def lost_any(self) -> bool:
        """Whether a variant has lost children."""
        return bool(self._lost)

    def drop_unused_arrays(self) -> None:
        """Free device arrays of formats that no prepared variant uses."""
        self._arrays.drop_all_but({id(prepared.job.arrays) for prepared in self._ready.values()})
