"""Check: products run on small integers, whose sums are exact, and are compared bit for bit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from spgraph_bench.device.base import Buffer
from spgraph_bench.errors import SkipError
from spgraph_bench.formats import Packed
from spgraph_bench.problems.exact import DRAWS, Draw, small_packed
from spgraph_bench.runner.on_device.assignment import Assignment
from spgraph_bench.runner.on_device.launches import Launches
from spgraph_bench.runner.on_device.packed_arrays import PackedArrays
from spgraph_bench.runner.plan import Cell
from spgraph_bench.runner.prepare import Prepared, locked, prepare
from spgraph_bench.runner.verify import WrongOutputError
from spgraph_bench.units import human_bytes

__all__ = ["ExactPass"]


class ExactPass:
    """The draws of integers of a task, the same for all variants and formats."""

    def __init__(self, assignment: Assignment, arrays: PackedArrays, launches: Launches) -> None:
        self._assignment, self._arrays, self._launches = assignment, arrays, launches
        self._draws: dict[tuple[str, int], Draw | str] = {}
        """By type and number."""
        self._drawn: tuple[tuple[str, int], dict[str, Buffer]] | None = None
        """The values of the draw used last, on the device; by packed matrix and number."""

    def run(self, cell: Cell, prepared: Prepared) -> dict[str, Any]:
        """Run and compare; what the record keeps. Raises WrongOutputError."""
        assignment = self._assignment
        ranges: list[list[int]] = []
        if shortage := self._memory_shortage(prepared):
            return {"skipped": shortage}
        for number in range(DRAWS):
            draw = self._draw(cell, number)
            if isinstance(draw, str):
                return {"skipped": draw}
            again = self._prepared_with(cell, number, draw, prepared)
            output = assignment.output_in_own_order(cell, self._launches.output_of_rerun(again))
            assignment.say(f"comparing {cell.key}", guarded=False)
            try:
                fault = draw.compare(output)
            except SkipError as error:
                return {"skipped": str(error)}
            assignment.say(f"verifying {cell.key}", guarded=True)
            if fault:
                raise WrongOutputError(f"exact pass, draw {number + 1}: {fault}")
            ranges.append([draw.ranges.values, draw.ranges.x])
        kind = str(np.dtype(cell.dtype))
        return {"draws": DRAWS, "values_to": ranges[0][0], "x_to": ranges[0][1], "type": kind}

    def _memory_shortage(self, prepared: Prepared) -> str | None:
        """Why there is no room for the variant a second time, or None."""
        if prepared.job.variant.where == "cpu":
            return None
        need, free = prepared.device_bytes, self._assignment.device.free_bytes()
        if need <= free:
            return None
        return f"with other values it takes {human_bytes(need)} again; device has {human_bytes(free)} free"

    def _draw(self, cell: Cell, number: int) -> Draw | str:
        """Draw `number` for this type, or why there is none."""
        if (cell.dtype, number) not in self._draws:
            assignment, dtype = self._assignment, np.dtype(cell.dtype)
            assignment.say(f"computing sums of integers, draw {number + 1}", guarded=False)
            draw = assignment.problem.exact(assignment.csr, dtype, number)
            if isinstance(draw, Draw):
                # All variants get them: of bytes, which nothing can make writable.
                fixed = {n: np.frombuffer(a.tobytes(), a.dtype).reshape(a.shape) for n, a in draw.inputs.items()}
                draw = replace(draw, inputs=fixed)
            self._draws[cell.dtype, number] = draw
            assignment.say(f"verifying {cell.key}", guarded=True)
        return self._draws[cell.dtype, number]

    def _prepared_with(self, cell: Cell, number: int, draw: Draw, prepared: Prepared) -> Prepared:
        """The cell's variant prepared anew, on the numbers of `draw`."""
        assignment, task, variant = self._assignment, self._assignment.task, prepared.job.variant
        arrays, packed = self._with_small_values(cell, number, draw, prepared.job.packed)
        inputs = {name: assignment.input_in_order(cell, name, array) for name, array in draw.inputs.items()}
        return prepare(
            assignment.device,
            variant,
            packed,
            inputs,
            assignment.outputs(cell),
            task.params_of(variant.name),
            arrays=arrays,
            options=task.options,
        )

    def _with_small_values(
        self, cell: Cell, number: int, draw: Draw, packed: Packed
    ) -> tuple[dict[str, Buffer] | None, Packed]:
        """The packed matrix with the values of `draw`, and its arrays on the device: those of the structure
        are the ones that are there."""
        small = small_packed(packed, draw.key, draw.ranges.values)
        if self._assignment.variant(cell).where == "cpu":
            return None, locked(small)
        device, there, key = (self._assignment.device, self._arrays.uploaded(cell), (self._arrays.key(cell), number))
        names = [name for name, array in packed.arrays.items() if small.arrays[name] is not array]
        if self._drawn is None or self._drawn[0] != key:
            if self._drawn is None or self._drawn[0][0] != key[0]:
                self.drop_drawn()
                self._drawn = (key, {name: device.empty(there[name].shape, there[name].dtype) for name in names})
            for name in names:
                device.write(self._drawn[1][name], small.arrays[name])
            self._drawn = key, self._drawn[1]
        return {**there, **self._drawn[1]}, locked(small)

    def drop_drawn(self) -> None:
        """Free the values on the device."""
        if self._drawn is not None:
            for buffer in self._drawn[1].values():
                buffer.free()
            self._drawn = None
