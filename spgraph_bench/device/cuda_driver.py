"""What PyCUDA does not offer, from NVIDIA's cuda-bindings on the same context and stream: cooperative launches
and graphs.

PyCUDA's ``Function`` gives no handle, so a kernel that needs a cooperative launch is loaded a second time,
from the same cubin. Everything here works on the current (primary) context; nothing initialises CUDA.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from spgraph_bench.device.base import Arg, Limit
from spgraph_bench.errors import LaunchError, SkipError

__all__ = ["Library", "bindings", "capture", "limit", "missing_bindings", "repeat_while", "set_limit"]


def missing_bindings() -> str | None:
    """Why cuda-bindings cannot be used, with the remedy, or None."""
    try:
        import cuda.bindings.driver  # noqa: F401
    except ImportError as error:
        return f"cuda-bindings cannot be imported ({error}): pip install 'spgraph[gpu]'"
    return None


def bindings() -> Any:
    """The module ``cuda.bindings.driver``. Raises SkipError where it is not installed."""
    if reason := missing_bindings():
        cause, _, remedy = reason.partition(": ")
        raise SkipError(cause, remedy=remedy)
    from cuda.bindings import driver

    return driver


def checked(result: tuple[Any, ...], what: str) -> Any:
    """The value of a driver call. Raises LaunchError with the driver's name for what went wrong."""
    status, *values = result
    if int(status) != 0:
        raise LaunchError(f"{what}: {getattr(status, 'name', status)}")
    return values[0] if len(values) == 1 else tuple(values)


_LIMITS: dict[Limit, str] = {
    "pending_launches": "CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT",
    "malloc_heap_bytes": "CU_LIMIT_MALLOC_HEAP_SIZE",
}


def limit(name: Limit) -> int:
    """A limit of the current context."""
    driver = bindings()
    which = getattr(driver.CUlimit, _LIMITS[name])
    return int(checked(driver.cuCtxGetLimit(which), f"asking for {name.replace('_', ' ')}"))


def set_limit(name: Limit, value: int) -> int:
    """Set a limit of the current context and tell what it is then: the driver may give less, and may round.

    Raises LaunchError when the driver refuses.
    """
    driver = bindings()
    which = getattr(driver.CUlimit, _LIMITS[name])
    checked(driver.cuCtxSetLimit(which, value), f"setting {name.replace('_', ' ')} to {value:,}")
    return limit(name)


class _Arguments:
    """Kernel arguments as the driver takes them: an array of pointers to values that live as long as this."""

    def __init__(self, kernel: str, args: Sequence[Arg]) -> None:
        self._args = tuple(args)  # buffers: a kernel must never outlive what it was given
        self._values = [self._bytes(kernel, position, arg) for position, arg in enumerate(args)]
        self._pointers = (ctypes.c_void_p * max(1, len(args)))(*(ctypes.addressof(v) for v in self._values))
        self.address = ctypes.addressof(self._pointers)

    @staticmethod
    def _bytes(kernel: str, position: int, arg: Arg) -> Any:
        if arg is None:
            return ctypes.create_string_buffer(bytes(8), 8)
        if isinstance(arg, np.generic):
            return ctypes.create_string_buffer(arg.tobytes(), arg.nbytes)
        if hasattr(arg, "ptr"):
            return ctypes.create_string_buffer(int(arg.ptr).to_bytes(8, "little"), 8)
        raise TypeError(
            f"{kernel}: argument {position} is a {type(arg).__name__}; "
            "kernels take buffers, numpy scalars of the parameter's type, or None"
        )


class Library:
    """The kernels of one cubin, loaded into the current context."""

    def __init__(self, cubin: Path) -> None:
        self._driver = bindings()
        self._image = cubin.read_bytes()
        self._module = checked(self._driver.cuModuleLoadData(self._image), f"loading {cubin.name}")
        self._granted: dict[str, int] = {}  # dynamic shared memory, bytes by kernel

    def _function(self, name: str, shared: int) -> Any:
        function = checked(self._driver.cuModuleGetFunction(self._module, name.encode()), name)
        # Static and dynamic together may be more than the 48 KB that need no asking. What was granted stays.
        if shared > self._granted.get(name, 0):
            attribute = self._driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            checked(self._driver.cuFuncSetAttribute(function, attribute, shared), name)
            self._granted[name] = shared
        return function

    def blocks_per_multiprocessor(self, name: str, threads: int, shared: int) -> int:
        """How many blocks of `threads` threads a multiprocessor holds at the same time."""
        function = self._function(name, shared)
        ask = self._driver.cuOccupancyMaxActiveBlocksPerMultiprocessor
        return int(checked(ask(function, threads, shared), f"occupancy of {name}"))

    def cooperative(
        self,
        name: str,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        stream: int,
        args: Sequence[Arg],
        shared: int,
    ) -> Callable[[], None]:
        """A callable that launches `name` cooperatively on `stream` (a handle)."""
        function, arguments = self._function(name, shared), _Arguments(name, args)
        launch, handle = self._driver.cuLaunchCooperativeKernel, self._driver.CUstream(stream)

        def run() -> None:
            (status,) = launch(function, *grid, *block, shared, handle, arguments.address)
            if int(status) != 0:
                raise LaunchError(f"{name}<<<{grid}, {block}, cooperative>>>: {status.name}")

        return run

    def launch(
        self,
        name: str,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        stream: int,
        args: Sequence[Arg],
        shared: int,
    ) -> Callable[[], None]:
        """A callable that launches `name` on `stream` (a handle), its arguments packed once."""
        function, arguments = self._function(name, shared), _Arguments(name, args)
        launch, handle = self._driver.cuLaunchKernel, self._driver.CUstream(stream)

        def run() -> None:
            (status,) = launch(function, *grid, *block, shared, handle, arguments.address, 0)
            if int(status) != 0:
                raise LaunchError(f"{name}<<<{grid}, {block}>>>: {status.name}")

        return run


def _instantiated(driver: Any, graph: Any, stream: Any, work: Callable[[], None], flags: int = 0) -> Callable[[], None]:
    """`work` is kept with the graph: the graph holds addresses of its buffers, and nothing else might."""
    executable = checked(driver.cuGraphInstantiate(graph, flags), "instantiating a graph")
    checked(driver.cuGraphUpload(executable, stream), "uploading a graph")
    launch = driver.cuGraphLaunch

    def run(_keep: Any = (graph, executable, work)) -> None:
        (status,) = launch(executable, stream)
        if int(status) != 0:
            raise LaunchError(f"launching a graph: {status.name}")

    return run


def capture(stream: int, work: Callable[[], None], for_device: bool = False) -> Callable[[], None]:
    """Record what `work` enqueues on `stream` as a CUDA graph; the callable launches it.

    Nothing of `work` is executed, and it must not wait for anything. `for_device`: kernels may launch it too
    (CUDA 12.0). Raises LaunchError.
    """
    driver = bindings()
    handle = driver.CUstream(stream)
    mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
    checked(driver.cuStreamBeginCapture(handle, mode), "beginning a capture")
    try:
        work()
    finally:
        ended = driver.cuStreamEndCapture(handle)
    flags = driver.CUgraphInstantiate_flags.CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH if for_device else 0
    return _instantiated(driver, checked(ended, "ending a capture"), handle, work, int(flags))


def repeat_while(stream: int, body: Callable[[np.uint64], Callable[[], None]]) -> Callable[[], None]:
    """A CUDA graph that is one WHILE node; the callable launches it.

    `body` gets the condition's handle, which a kernel of it sets (cudaGraphSetConditional), and returns what
    is to be recorded as one iteration. The first iteration always runs. Raises SkipError where the driver has
    no conditional nodes (before CUDA 12.4).
    """
    driver = bindings()
    version = checked(driver.cuDriverGetVersion(), "asking the driver's version")
    if version < 12040 or not hasattr(driver, "cuGraphConditionalHandleCreate"):
        raise SkipError(f"conditional nodes need CUDA 12.4; the driver offers {version // 1000}.{version % 1000 // 10}")
    handle = driver.CUstream(stream)
    context = checked(driver.cuCtxGetCurrent(), "asking for the context")
    graph = checked(driver.cuGraphCreate(0), "making a graph")
    once = driver.CU_GRAPH_COND_ASSIGN_DEFAULT
    condition = checked(driver.cuGraphConditionalHandleCreate(graph, context, 1, once), "making a condition")
    node = driver.CUgraphNodeParams()
    node.type = driver.CUgraphNodeType.CU_GRAPH_NODE_TYPE_CONDITIONAL
    node.conditional.handle = condition
    node.conditional.type = driver.CUgraphConditionalNodeType.CU_GRAPH_COND_TYPE_WHILE
    node.conditional.size = 1
    node.conditional.ctx = context
    add, begin = driver.cuGraphAddNode, driver.cuStreamBeginCaptureToGraph
    try:
        added = add(graph, None, None, 0, node)
    except TypeError:  # cuda-bindings 12: no data of dependencies
        added = add(graph, None, 0, node)
    checked(added, "adding a WHILE node")
    inner = node.conditional.phGraph_out[0]
    work = body(np.uint64(int(condition)))
    mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
    checked(begin(handle, inner, None, None, 0, mode), "beginning a capture")
    try:
        work()
    finally:
        ended = driver.cuStreamEndCapture(handle)
    checked(ended, "ending a capture")
    return _instantiated(driver, graph, handle, work)
