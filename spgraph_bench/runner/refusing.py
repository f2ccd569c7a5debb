"""Plan: what a format refuses to store, known from the matrix alone: before anything is compiled or allocated."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from spgraph_bench.device.base import DeviceInfo
from spgraph_bench.formats import get_format
from spgraph_bench.gpus import GPU, H200
from spgraph_bench.matrix import CSR
from spgraph_bench.memory import available_memory
from spgraph_bench.runner.figures import conversion_bytes
from spgraph_bench.runner.payload import Payload
from spgraph_bench.runner.plan import Cell, Task
from spgraph_bench.stats import MatrixStats, row_stats
from spgraph_bench.units import human_bytes
from spgraph_bench.variants.base import Variant

__all__ = ["dense_bytes", "refused_by_format", "unfit"]


def dense_bytes(task: Task, payload: Payload, dtype: str) -> int:
    """Bytes of inputs and outputs in this type, which are on the device beside the matrix."""
    outputs = task.outputs.get(dtype, {}).values()
    return sum(math.prod(shape) * np.dtype(kind).itemsize for shape, kind in outputs) + sum(
        array.nbytes for array in payload.inputs.get(dtype, {}).values()
    )


def unfit(
    variant: Variant, dtype: str, csr: CSR, stats: MatrixStats, task: Task, free: int, gpu: GPU = H200
) -> str | None:
    """Why the matrix is not packed in the variant's format, or None.

    Parameters
    ----------
    csr, stats : the matrix in the order that it would be packed in.
    free : bytes of device memory for it.
    gpu : what the format's sizes are chosen by.
    """
    if variant.refuse is not None and (refused := variant.refuse(stats)):
        return refused
    form = get_format(variant.format).on(gpu)
    params = {k: v for k, v in task.params.items() if k in form.tunables}
    size = np.dtype(dtype).itemsize
    if refused := form.refuse(stats, free, size, task.force_format, **params):
        return refused
    stored = form.predict_bytes(stats, size, np.dtype(task.offsets).itemsize, **params)
    needed, there = conversion_bytes(stored, csr), available_memory()
    if needed > there:
        return f"{form.name}: converting takes {human_bytes(needed)} of host memory, of {human_bytes(there)}"
    return None


def refused_by_format(
    cells: Sequence[Cell], variants: Mapping[str, Variant], task: Task, payload: Payload, info: DeviceInfo
) -> dict[str, str]:
    """By the key of a cell that is not going to run, why: its kernels need not be compiled.

    Of spgraph's own kernels only, since libraries have none. On a host device the worker looks once more, since its
    memory may have been taken by others.
    """
    statistics: dict[str, MatrixStats] = {}
    refused: dict[str, str] = {}
    for cell in cells:
        variant = variants[cell.variant]
        if variant.source is None or variant.where != "gpu" or cell.dtype not in variant.dtypes:
            continue
        csr = payload.matrix(cell.reorder)
        if cell.reorder not in statistics:
            statistics[cell.reorder] = row_stats(csr)
        memory = info.memory_bytes if info.kind == "cuda" else available_memory()
        free = memory - dense_bytes(task, payload, cell.dtype)
        try:
            why = unfit(variant, cell.dtype, csr, statistics[cell.reorder], task, free, info.gpu)
        except (Exception, SystemExit):
            if not variant.from_elsewhere:
                raise
            why = None  # the worker meets it again, and it is the variant's failure
        if free >= 0 and why:
            refused[cell.key] = why
    return refused
