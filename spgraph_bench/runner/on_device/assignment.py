"""A task, its payload and the device it is done on: what all stages in a worker share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.device.base import Device
from spgraph_bench.matrix import CSR, VertexLabels, labels_of
from spgraph_bench.problems import Problem, get_problem
from spgraph_bench.runner.messages import Message, Stage
from spgraph_bench.runner.payload import Arrays, Payload
from spgraph_bench.runner.plan import Cell, Task
from spgraph_bench.stats import MatrixStats, row_stats
from spgraph_bench.variants.base import Variant, get_variant

__all__ = ["Assignment"]


@dataclass
class Assignment:
    """What is to be done, with what, and where."""

    device: Device
    task: Task
    payload: Payload
    emit: Callable[[Message], None]
    """Sends a message to the parent."""
    problem: Problem = field(init=False)
    """With the task's options."""
    _statistics: dict[str, MatrixStats] = field(default_factory=dict)
    _labels: VertexLabels | None = None

    def __post_init__(self) -> None:
        self.problem = get_problem(self.task.problem, self.task.options)

    def say(self, text: str, *, guarded: bool) -> None:
        """Tell the parent what is done next; `guarded`: on the device, under the watchdog."""
        self.emit(Stage(text, guarded))

    def variant(self, cell: Cell) -> Variant:
        """The registered variant of `cell`."""
        return get_variant(self.task.problem, cell.variant)

    # ---- arrays -----------------------------------------------------------------------------------------

    @property
    def csr(self) -> CSR:
        """The matrix in its own order."""
        return self.payload.csr

    def matrix(self, cell: Cell) -> tuple[CSR, MatrixStats]:
        """The matrix in the cell's order, and its statistics."""
        csr = self.payload.matrix(cell.reorder)
        if cell.reorder not in self._statistics:
            self._statistics[cell.reorder] = row_stats(csr)
        return csr, self._statistics[cell.reorder]

    def inputs(self, cell: Cell) -> Arrays:
        """The problem's inputs in the cell's type, in the matrix's own order."""
        return dict(self.payload.inputs.get(cell.dtype, {}))

    def oracle(self, cell: Cell) -> Arrays:
        """The oracle in the cell's type."""
        return dict(self.payload.oracles.get(cell.dtype, {}))

    def outputs(self, cell: Cell) -> dict[str, tuple[tuple[int, ...], np.dtype[Any]]]:
        """Shape and type of each output buffer."""
        return {name: (shape, np.dtype(kind)) for name, (shape, kind) in self.task.outputs[cell.dtype].items()}

    def labels(self) -> VertexLabels:
        """What the input calls each vertex."""
        if self._labels is None:
            self._labels = labels_of(self.payload.labels, self.csr.rows)
        return self._labels

    # ---- orders -----------------------------------------------------------------------------------------

    def _order(self, cell: Cell, buffer: str) -> tuple[npt.NDArray[np.int32], int] | None:
        """Which place each place of `buffer` (x, y) has in the matrix's own order, and which axis of it runs
        over places; None if they are the same."""
        axes = self.problem.axes
        if cell.reorder == "none" or not axes:
            return None
        axis, along = next((i, a) for i, a in enumerate(axes[buffer]) if a in ("rows", "cols"))
        reordered = self.payload.orders[cell.reorder]
        return (reordered.rows if along == "rows" else reordered.cols), axis

    def input_in_order(self, cell: Cell, name: str, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Input `array` in the order of the cell's matrix; contiguous, as libraries on the CPU want it."""
        order = self._order(cell, name)
        return array if order is None else np.take(array, *order)

    def output_in_own_order(self, cell: Cell, output: Any) -> Any:
        """`output` of a problem without cases, rows and columns in the matrix's own order."""
        if (permutation := self._order(cell, self.problem.outputs[0])) is None:
            return output
        order, axis = permutation
        moved = np.empty_like(output)
        moved[(slice(None),) * axis + (order,)] = output
        return moved

    # ---- the device -------------------------------------------------------------------------------------

    def device_answers(self) -> bool:
        """Whether the device still answers after a failed launch."""
        try:
            self.device.synchronize()
            self.device.free_bytes()
        except Exception:
            return False
        return True

    def memory_is_short(self) -> bool:
        """Whether less than 40 % of the device's memory is free."""
        return self.device.free_bytes() < 0.4 * self.device.info().memory_bytes
