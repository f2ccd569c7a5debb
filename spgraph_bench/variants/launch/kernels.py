"""Every way to launch one small task after another. The contract of each is in its kernel file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from spgraph_bench.device.base import Buffer, Device
from spgraph_bench.parameters import Parameter
from spgraph_bench.variants.base import Job, Launch, Limits, Sizes, variant
from spgraph_bench.variants.grids import needs_cooperative, needs_graphs

__all__ = ["per_case"]

_BLOCK = 128  # SPG_TASK_BLOCK of cuda/launch/task.cuh
_ITEMS = 8 * _BLOCK
"""Items for a block: a thread has eight, so that starting it is not most of its work."""
_MOST_GATED = 256

Run = Callable[[], None]


def _packed_only(device: Device) -> str | None:
    return "launches through cuda-bindings exist on a GPU only" if device.kind == "host" else needs_graphs(device)


def _blocks(items: int) -> int:
    return max(1, -(-items // _ITEMS))


def _threads(tasks: int) -> int:
    """Blocks for a thread per task."""
    return -(-tasks // _BLOCK)


def per_case(job: Job, bind: Callable[[int, int], Run], gated: bool = True, **details: Any) -> Launch:
    """A Launch of ``bind(tasks, items)``, which is called once for each case."""
    tasks, items, result = job.inputs["tasks"], job.inputs["items"], job.buffers["result"]
    bound: dict[int, Run] = {}
    chosen: list[Run] = []

    def select(case: int) -> None:
        if case not in bound:
            bound[case] = bind(int(tasks[case]), int(items[case]))
        chosen[:] = [bound[case]]

    select(0)
    return Launch(
        run=lambda: chosen[0](),
        reset=lambda: job.device.fill(result, 0),
        output=lambda: job.device.download(result),
        operations=1 if gated else _MOST_GATED + 1,
        gated=gated,
        cases=len(tasks),
        select=select,
        **details,
    )


class _FirstWord:
    """The first word of `buffer`, to be read alone."""

    shape = (1,)
    nbytes = 8

    def __init__(self, buffer: Buffer) -> None:
        self.ptr, self.dtype = buffer.ptr, buffer.dtype

    def free(self) -> None:
        """Belongs to the whole buffer."""


def _repeated(run: Run, times: int) -> Run:
    def whole() -> None:
        for _ in range(times):
            run()

    return whole


def _task(job: Job, items: int, packed: bool = False) -> Run:
    kernel = job.kernel("launch_task", "launch/task.cu")
    bind = kernel.bind_packed if packed else kernel.bind
    return bind(_blocks(items), _BLOCK, np.int32(items), job.buffers["result"])


@variant(
    "launch",
    "host-loop",
    format="none",
    source="launch/task.cu",
    dtypes=("float32",),
    about="one launch after another by the host, through PyCUDA",
)
def host_loop(job: Job) -> Launch:
    return per_case(job, lambda tasks, items: _repeated(_task(job, items), tasks), gated=False)


@variant(
    "launch",
    "host-packed",
    format="none",
    source="launch/task.cu",
    dtypes=("float32",),
    missing=_packed_only,
    about="one launch after another by the host, through cuda-bindings, arguments packed",
)
def host_packed(job: Job) -> Launch:
    return per_case(job, lambda tasks, items: _repeated(_task(job, items, packed=True), tasks), gated=False)


@variant(
    "launch",
    "host-readback",
    format="none",
    source="launch/task.cu",
    dtypes=("float32",),
    about="the host reads the result back after each launch",
)
def host_readback(job: Job) -> Launch:
    def bind(tasks: int, items: int) -> Run:
        launch, count = _task(job, items), _FirstWord(job.buffers["result"])

        def one() -> None:
            launch()
            job.device.download(count)

        return _repeated(one, tasks)

    return per_case(job, bind, gated=False)


@variant(
    "launch",
    "graph",
    format="none",
    source="launch/task.cu",
    dtypes=("float32",),
    missing=needs_graphs,
    about="all launches recorded as one CUDA graph",
)
def graph(job: Job) -> Launch:
    return per_case(job, lambda tasks, items: job.device.capture(_repeated(_task(job, items), tasks)))


@variant(
    "launch",
    "graph-while",
    format="none",
    source="launch/graph_while.cu",
    dtypes=("float32",),
    missing=needs_graphs,
    about="a CUDA graph with a WHILE node, the task its body",
)
def graph_while(job: Job) -> Launch:
    left = job.device.empty(1, np.int32)

    def bind(tasks: int, items: int) -> Run:
        begin = job.kernel("while_begin").bind(1, 1, np.int32(tasks), left)
        kernel = job.kernel("while_task")

        def body(more: np.uint64) -> Run:
            return kernel.bind(_blocks(items), _BLOCK, np.int32(items), left, more, job.buffers["result"])

        repeat = job.device.repeat_while(body)

        def run() -> None:
            begin()
            repeat()

        return run

    return per_case(job, bind, extra_bytes=4)


@variant(
    "launch",
    "grid-sync",
    format="none",
    source="launch/grid_sync.cu",
    dtypes=("float32",),
    missing=needs_cooperative,
    about="one cooperative launch, a grid barrier per task",
)
def grid_sync(job: Job) -> Launch:
    barrier = job.device.upload(np.zeros(1, np.uint32))
    grid = job.device.info().multiprocessors
    kernel = job.kernel("grid_sync_tasks")
    return per_case(
        job,
        lambda tasks, items: kernel.bind(
            grid, _BLOCK, np.int32(tasks), np.int32(items), barrier, job.buffers["result"], cooperative=True
        ),
        extra_bytes=4,
    )


@variant(
    "launch",
    "one-block",
    format="none",
    source="launch/one_block.cu",
    dtypes=("float32",),
    about="one block, a block barrier per task",
)
def one_block(job: Job) -> Launch:
    block = _BLOCK if job.device.kind == "host" else 1024
    kernel = job.kernel("one_block_tasks")
    return per_case(
        job, lambda tasks, items: kernel.bind(1, block, np.int32(tasks), np.int32(items), job.buffers["result"])
    )


def _all_tasks(sizes: Sizes) -> Limits:
    return Limits(pending_launches=int(sizes.inputs["tasks"].max(initial=1)))


def _one_task(sizes: Sizes) -> Limits:
    # A link waits while its parent ends.
    return Limits(pending_launches=2)


def _children(job: Job, kernel: str, one_thread: bool = False) -> Launch:
    parent, children = job.kernel(kernel), job.children()

    def bind(tasks: int, items: int) -> Run:
        return parent.bind(
            1 if one_thread else _threads(tasks),
            1 if one_thread else _BLOCK,
            np.int32(tasks),
            np.int32(items),
            np.int32(_blocks(items)),
            children,
            job.buffers["result"],
        )

    return per_case(job, bind)


@variant(
    "launch",
    "fire-and-forget",
    format="none",
    source="launch/fire_and_forget.cu",
    dtypes=("float32",),
    limits=_all_tasks,
    about="a child grid from each of many threads",
)
def fire_and_forget(job: Job) -> Launch:
    return _children(job, "fire_and_forget")


@variant(
    "launch",
    "fire-and-forget-one",
    format="none",
    source="launch/fire_and_forget.cu",
    dtypes=("float32",),
    limits=_all_tasks,
    about="all child grids from one thread",
)
def fire_and_forget_one(job: Job) -> Launch:
    return _children(job, "fire_and_forget_one", one_thread=True)


@variant(
    "launch",
    "default-stream",
    format="none",
    source="launch/default_stream.cu",
    dtypes=("float32",),
    limits=_all_tasks,
    about="child grids into the launching block's own stream",
)
def default_stream(job: Job) -> Launch:
    return _children(job, "default_stream")


@variant(
    "launch",
    "child-streams",
    format="none",
    source="launch/child_streams.cu",
    dtypes=("float32",),
    limits=_all_tasks,
    about="each child grid into a stream that is made for it",
)
def child_streams(job: Job) -> Launch:
    return _children(job, "child_streams")


@variant(
    "launch",
    "nested",
    format="none",
    source="launch/nested.cu",
    dtypes=("float32",),
    limits=_all_tasks,
    tunables={"depth": Parameter(24, "levels of nesting: each task is a child of the one before", between=(1, 24))},
    about="each task launches the next one as its child, chain beside chain",
)
def nested(job: Job) -> Launch:
    parent, children, depth = job.kernel("nested"), job.children(), job.params["depth"]

    def bind(tasks: int, items: int) -> Run:
        return parent.bind(
            _threads(-(-tasks // depth)),
            _BLOCK,
            np.int32(tasks),
            np.int32(items),
            np.int32(_blocks(items)),
            np.int32(depth),
            children,
            job.buffers["result"],
        )

    return per_case(job, bind)


@variant(
    "launch",
    "tail",
    format="none",
    source="launch/tail.cu",
    dtypes=("float32",),
    limits=_one_task,
    about="each task tail-launches the next",
)
def tail(job: Job) -> Launch:
    kernel, children = job.kernel("tail_task"), job.children()
    return per_case(
        job,
        lambda tasks, items: kernel.bind(
            _blocks(items), _BLOCK, np.int32(tasks), np.int32(items), children, job.buffers["result"]
        ),
    )


@variant(
    "launch",
    "device-graph",
    format="none",
    source="launch/device_graph.cu",
    dtypes=("float32",),
    missing=needs_graphs,
    about="a CUDA graph that launches itself again from the device",
)
def device_graph(job: Job) -> Launch:
    left, children = job.device.empty(1, np.int32), job.children()

    def bind(tasks: int, items: int) -> Run:
        begin = job.kernel("graph_begin").bind(1, 1, np.int32(tasks), left)
        task = job.kernel("graph_task").bind(
            _blocks(items), _BLOCK, np.int32(items), left, children, job.buffers["result"]
        )
        replay = job.device.capture(task, for_device=True)

        def run() -> None:
            begin()
            replay()

        return run

    return per_case(job, bind, extra_bytes=4)


@variant(
    "launch",
    "inline",
    format="none",
    source="launch/inline.cu",
    dtypes=("float32",),
    about="no launch: each thread does its own task",
)
def inline(job: Job) -> Launch:
    kernel = job.kernel("inline_tasks")
    return per_case(
        job,
        lambda tasks, items: kernel.bind(
            _threads(tasks), _BLOCK, np.int32(tasks), np.int32(items), job.buffers["result"]
        ),
    )


@variant(
    "launch",
    "flattened",
    format="none",
    source="launch/inline.cu",
    dtypes=("float32",),
    about="no launch: the items of all tasks over all threads",
)
def flattened(job: Job) -> Launch:
    kernel = job.kernel("flattened_tasks")
    info = job.device.info()
    most = info.multiprocessors * (info.gpu.threads_per_sm // _BLOCK)
    return per_case(
        job,
        lambda tasks, items: kernel.bind(
            min(most, _blocks(max(tasks, tasks * items))),
            _BLOCK,
            np.int32(tasks),
            np.int32(items),
            job.buffers["result"],
        ),
    )
