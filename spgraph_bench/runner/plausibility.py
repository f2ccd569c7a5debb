"""Record: a time that is too short to be that of the whole work."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from spgraph_bench.device.base import DeviceInfo
from spgraph_bench.measure.floors import below_floor
from spgraph_bench.problems import Problem
from spgraph_bench.results.record import Ceiling, Samples
from spgraph_bench.runner.payload import Payload
from spgraph_bench.runner.plan import Cell, Outcome, Task

__all__ = ["impossible"]


def impossible(
    cell: Cell,
    outcome: Outcome,
    samples: Sequence[Samples],
    problem: Problem,
    task: Task,
    payload: Payload,
    info: DeviceInfo,
    ceiling: Ceiling,
) -> str | None:
    """Why the cold time of a GPU variant cannot be that of the whole work, or None. Of products only: other
    problems need not read all of their graph, or read it again from the cache."""
    if not problem.is_product:
        return None
    written = sum(math.prod(shape) * np.dtype(kind).itemsize for shape, kind in task.outputs[cell.dtype].values())
    cold, compulsory = next(s for s in samples if s.cache == "cold"), outcome.bytes["compulsory"]
    spared = min(written, info.l2_bytes)
    if below_floor(cold, compulsory, spared, ceiling, info.l2_bytes):  # only then a look at all columns is due
        spared += _unread_bytes(problem, payload, cell.dtype)
    return below_floor(cold, compulsory, spared, ceiling, info.l2_bytes)


def _unread_bytes(problem: Problem, payload: Payload, dtype: str) -> int:
    """Bytes of x that no entry of the matrix meets."""
    x, csr = payload.inputs[dtype]["x"], payload.csr
    if "rows" in problem.axes["x"]:
        unread, places = int(np.count_nonzero(csr.row_lengths() == 0)), csr.rows
    else:
        read = int(np.count_nonzero(np.bincount(csr.col_idx, minlength=csr.cols)))
        unread, places = csr.cols - read, csr.cols
    return unread * (x.nbytes // max(places, 1))
