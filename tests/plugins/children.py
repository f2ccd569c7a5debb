"""Variants of `launch` that allocate on the device, within their bound and beyond it, or launch without counting."""

import time
from pathlib import Path
from typing import Any

import numpy as np

from spgraph_bench.variants import Job, Launch, variant
from spgraph_bench.variants.base import Limits, Sizes
from spgraph_bench.variants.launch.kernels import per_case

SOURCE = str(Path(__file__).resolve().parent.parent / "kernels" / "allocates.cu")
BYTES = 1 << 20


def _heap(sizes: Sizes) -> Limits:
    # The allocator adds something to each block and takes whole pages.
    return Limits(heap_bytes=int(sizes.inputs["tasks"].max()) * 2 * BYTES)


def _allocating(job: Job) -> Any:
    kernel, children = job.kernel("allocating_tasks"), job.children()
    return lambda tasks, items: kernel.bind(
        -(-tasks // 128),
        128,
        np.int32(tasks),
        np.int32(items),
        np.int32(BYTES),
        np.int32(0),
        children,
        job.buffers["result"],
    )


@variant(
    "launch",
    "allocating",
    format="none",
    source=SOURCE,
    dtypes=("float32",),
    limits=_heap,
    about="takes memory on the device",
)
def allocating(job: Job) -> Launch:
    return per_case(job, _allocating(job))


def _all(sizes: Sizes) -> Limits:
    return Limits(pending_launches=int(sizes.inputs["tasks"].max()))


@variant("launch", "hanging", format="none", source=SOURCE, dtypes=("float32",), limits=_all, about="never answers")
def hanging(job: Job) -> Launch:
    return per_case(job, lambda tasks, items: lambda: time.sleep(100))


@variant("launch", "uncounted", format="none", source=SOURCE, dtypes=("float32",), limits=_all, about="counts nothing")
def uncounted(job: Job) -> Launch:
    kernel, result = job.kernel("uncounted_tasks"), job.buffers["result"]
    return per_case(job, lambda tasks, items: kernel.bind(1, 1, np.int32(tasks), np.int32(items), result))
