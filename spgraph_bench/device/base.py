"""The small interface that both devices offer; problems and variants see nothing else of a device.

A device belongs to one process and one stream: everything is enqueued on that stream in order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from spgraph_bench.gpus import GPU, H200, get_gpu, gpu_like
from spgraph_bench.toolchain.modules import Compiled

__all__ = ["Arg", "Buffer", "Compiled", "Device", "DeviceInfo", "Dim", "Kernel", "Limit", "Module"]

Dim = int | Sequence[int]
"""A grid or block shape: n, (x, y) or (x, y, z)."""


Limit = Literal["pending_launches", "malloc_heap_bytes"]
"""What kernels that launch and allocate share: how many child grids may wait, and the heap of ``malloc``."""


class Buffer(Protocol):
    """Device memory holding an array; freed when garbage-collected or by :meth:`free`."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the axes, as of a numpy array."""
        ...

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the elements."""
        ...

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        ...

    @property
    def ptr(self) -> int:
        """Address as the device's kernels see it."""
        ...

    def free(self) -> None:
        """Give the memory back now. The buffer cannot be used afterwards."""
        ...


Arg = Buffer | np.generic | None
"""A kernel argument: a buffer, a numpy scalar of exactly the parameter's type, or None for a null pointer.

Python ints and floats are refused (TypeError): their width would be a guess.
"""


class Kernel(Protocol):
    """A compiled ``__global__`` function."""

    @property
    def name(self) -> str:
        """Name of the function in the source."""
        ...

    def __call__(self, grid: Dim, block: Dim, *args: Arg, shared: int = 0, cooperative: bool = False) -> None:
        """Enqueue one launch on the device's stream. `shared`: dynamic shared memory in bytes.

        `cooperative`: all blocks are resident on the device together, so that they may wait for each other; the grid
        must not be larger than :meth:`resident_blocks`. A grid of zero blocks is not launched at all. Raises
        LaunchError when the launch is refused.
        """
        ...

    def bind(self, grid: Dim, block: Dim, *args: Arg, shared: int = 0, cooperative: bool = False) -> Callable[[], None]:
        """A callable without arguments that does the same launch with the least host work."""
        ...

    def bind_packed(self, grid: Dim, block: Dim, *args: Arg, shared: int = 0) -> Callable[[], None]:
        """As :meth:`bind`, by the driver's own call with the arguments packed once: what a launch costs a
        host program that is not slowed down by PyCUDA."""
        ...

    def resident_blocks(self, block: Dim, shared: int = 0) -> int:
        """How many blocks of this shape the whole device holds at the same time."""
        ...


class Module(Protocol):
    """One compiled ``.cu`` file."""

    @property
    def compiled(self) -> Compiled:
        """How it was compiled."""
        ...

    def kernel(self, name: str) -> Kernel:
        """The kernel called `name` (``extern "C"``); KeyError-like CompileError if the file has none."""
        ...


@dataclass(frozen=True)
class DeviceInfo:
    """What a record keeps about the device."""

    kind: Literal["cuda", "host"]
    name: str
    """"NVIDIA H200", or the CPU's name."""
    arch: str
    """"sm_90", or the CPU's architecture."""
    memory_bytes: int
    multiprocessors: int
    l2_bytes: int
    driver: str = ""
    toolkit: str = ""
    uuid: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def gpu(self) -> GPU:
        """What sizes of formats and kernels are chosen by: this GPU; of the host device the one whose limits are
        imposed, or an H200, so that both devices store the same."""
        if self.kind == "cuda":
            return gpu_like(
                self.name,
                self.arch,
                self.multiprocessors,
                self.l2_bytes,
                self.memory_bytes,
                int(self.extra.get("shared_bytes_per_block", 0)),
                int(self.extra.get("shared_bytes_per_sm", 0)),
            )
        return get_gpu(self.extra["limits"]) if "limits" in self.extra else H200


class Device(Protocol):
    """A place where kernels run."""

    @property
    def kind(self) -> Literal["cuda", "host"]:
        """ "cuda", or "host" for emulation on the CPU."""
        ...

    def info(self) -> DeviceInfo:
        """What a record keeps about the device."""
        ...

    def compile(self, source: str, defines: Mapping[str, str] | None = None) -> Module:
        """Compile `source` (a path below ``cuda/``) with ``-D`` `defines`, through the disk cache.

        Raises CompileError with the .cu file and line.
        """
        ...

    def empty(self, shape: int | tuple[int, ...], dtype: npt.DTypeLike) -> Buffer:
        """Device memory for an array, not initialised. Raises LaunchError if it does not fit."""
        ...

    def upload(self, array: npt.NDArray[Any]) -> Buffer:
        """A new buffer with a copy of `array`, same shape and dtype."""
        ...

    def download(self, buffer: Buffer) -> npt.NDArray[Any]:
        """A host copy of `buffer`, after all that was enqueued before."""
        ...

    def write(self, buffer: Buffer, array: npt.NDArray[Any]) -> None:
        """Overwrite `buffer` with `array` (same dtype and size)."""
        ...

    def fill(self, buffer: Buffer, byte: int) -> None:
        """Enqueue: set every byte of `buffer` (0xFF makes NaN of floats and -1 of integers)."""
        ...

    def synchronize(self) -> None:
        """Wait for the stream; raises LaunchError with what went wrong since the last time."""
        ...

    def free_bytes(self) -> int:
        """Device memory that can still be allocated, in bytes."""
        ...

    def set_limit(self, name: Limit, value: int) -> None:
        """Set a limit, before the first launch. Raises LaunchError, with figures, when it cannot be had."""
        ...

    def refuse_limit(self, name: Limit, value: int) -> str | None:
        """Why the limit cannot be set to this before the first launch, with figures, or None."""
        ...

    def missing(self, feature: Literal["cooperative", "graphs"]) -> str | None:
        """Why cooperative launches or CUDA graphs cannot be used here, or None."""
        ...

    def capture(self, work: Callable[[], None], *, for_device: bool = False) -> Callable[[], None]:
        """What `work` enqueues, recorded as a CUDA graph (not executed); the callable launches it.

        `for_device`: kernels may launch it too.
        """
        ...

    def repeat_while(self, body: Callable[[np.uint64], Callable[[], None]]) -> Callable[[], None]:
        """A CUDA graph that repeats what ``body(handle)()`` enqueues for as long as a kernel of it sets the
        condition `handle`; the callable launches it. SkipError where there are no conditional nodes."""
        ...

    def counters(self) -> dict[str, int] | None:
        """Events counted since :meth:`reset_counters` (host device only: exact for its schedule), or None.

        Keys: global_atomics, shared_atomics, kernel_launches, child_launches, barriers.
        """
        ...

    def reset_counters(self) -> None:
        """Set the counts of :meth:`counters` to 0."""
        ...

    def close(self) -> None:
        """Unload modules and give the device back. It cannot be used afterwards."""
        ...
