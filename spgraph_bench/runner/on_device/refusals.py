"""Plan: what cannot be run, known before anything is allocated."""

from __future__ import annotations

import math

import numpy as np

from spgraph_bench.formats import get_format
from spgraph_bench.memory import available_memory
from spgraph_bench.runner.figures import conversion_bytes
from spgraph_bench.runner.on_device.assignment import Assignment
from spgraph_bench.runner.plan import Cell
from spgraph_bench.units import human_bytes

__all__ = ["refusal"]


def refusal(assignment: Assignment, cell: Cell) -> str | None:
    """Why `cell` is skipped: no such type, no library, no room, a format that does not fit; or None."""
    task, device, variant = assignment.task, assignment.device, assignment.variant(cell)
    if cell.dtype not in variant.dtypes:
        return f"{variant.name} has no {cell.dtype}, only {' and '.join(variant.dtypes)}"
    if variant.missing and (lack := variant.missing(device)):
        return lack
    if variant.where == "cpu":
        return None
    form = get_format(variant.format)
    # Room for one more copy beside what is kept: what is kept can be dropped.
    free = device.info().memory_bytes if device.kind == "cuda" else device.free_bytes()
    dense = sum(math.prod(shape) * kind.itemsize for shape, kind in assignment.outputs(cell).values())
    dense += sum(array.nbytes for array in assignment.inputs(cell).values())
    if dense > free:
        return f"inputs and outputs need {human_bytes(dense)}; device has {human_bytes(free)}"
    free -= dense
    params = {k: v for k, v in task.params.items() if k in form.tunables}
    csr, stats = assignment.matrix(cell)
    size = np.dtype(cell.dtype).itemsize
    if refused := form.refuse(stats, free, size, task.force_format, **params):
        return refused
    stored = form.predict_bytes(stats, size, np.dtype(task.offsets).itemsize, **params)
    needed, there = conversion_bytes(stored, csr), available_memory()
    if needed > there:
        return f"{form.name}: converting takes {human_bytes(needed)} of host memory, of {human_bytes(there)}"
    return None
