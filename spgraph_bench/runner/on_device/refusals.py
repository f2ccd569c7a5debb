"""Plan: what cannot be run, known before anything is allocated."""

from __future__ import annotations

from spgraph_bench.runner.on_device.assignment import Assignment
from spgraph_bench.runner.plan import Cell
from spgraph_bench.runner.refusing import dense_bytes, unfit
from spgraph_bench.units import human_bytes

__all__ = ["refusal"]


def refusal(assignment: Assignment, cell: Cell) -> str | None:
    """Why `cell` is skipped: no such type, no library, no room, a format that does not fit; or None."""
    task, device, variant = assignment.task, assignment.device, assignment.variant(cell)
    if cell.dtype not in variant.dtypes:
        return f"{variant.name} has no {cell.dtype}, only {' and '.join(variant.dtypes)}"
    if variant.missing and (reason := variant.missing(device)):
        return reason
    if variant.where == "cpu":
        return None
    # Room for one more copy beside what is kept: what is kept can be dropped.
    free = device.info().memory_bytes if device.kind == "cuda" else device.free_bytes()
    dense = dense_bytes(task, assignment.payload, cell.dtype)
    if dense > free:
        return f"inputs and outputs need {human_bytes(dense)}; device has {human_bytes(free)}"
    if device.kind == "cuda" and variant.source is not None and not variant.from_elsewhere:
        return None  # the parent has looked, with the same numbers (refusing.refused_by_format)
    csr, stats = assignment.matrix(cell)
    return unfit(variant, cell.dtype, csr, stats, task, free - dense, device.info().gpu)
