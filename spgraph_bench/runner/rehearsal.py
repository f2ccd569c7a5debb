"""Which modules a variant compiles: found by preparing it on a device that only takes notes.

A run compiles ahead what variants take for a small matrix (:func:`rehearsed`), all of it in parallel. What depends on
the matrix itself may come out otherwise; the worker then compiles that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, cast

import numpy as np

from spgraph_bench.device.base import Device, DeviceInfo
from spgraph_bench.errors import LaunchError
from spgraph_bench.formats import get_format
from spgraph_bench.gpus import GPU, H200
from spgraph_bench.problems import get_problem
from spgraph_bench.recipes import make
from spgraph_bench.runner.plan import Task
from spgraph_bench.runner.prepare import prepare
from spgraph_bench.variants.base import Variant

__all__ = ["Module", "NotedBuffer", "NotedKernel", "NotedModule", "NotingDevice", "rehearsed"]

_SMALL = "poisson2d:n=12,values=ones"
"""Regular, symmetric and of one value: no format and no problem refuses it."""


@dataclass(frozen=True, order=True)
class Module:
    """A source and the -D it is compiled with, sorted."""

    source: str
    defines: tuple[tuple[str, str], ...]

    @property
    def label(self) -> str:
        """Source and defines, long ones cut."""
        words = [f"{name.removeprefix('SPG_').lower()}={value}" for name, value in self.defines]
        return " ".join([self.source, *(w if len(w) < 40 else w[:37] + "..." for w in words)])


@dataclass
class NotedBuffer:
    """A buffer without memory."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    ptr: int = 0

    @property
    def nbytes(self) -> int:
        """Bytes that the buffer would take."""
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize

    def free(self) -> None:
        """Nothing was taken."""


@dataclass
class NotedKernel:
    """A kernel that notes the block sizes of its launches and runs nothing."""

    device: NotingDevice
    module: Module
    name: str

    def _note(self, block: Any, grid: Any = 1, shared: int = 0, cooperative: bool = False) -> None:
        gpu, threads, blocks = self.device.gpu, int(np.prod(block)), int(np.prod(grid))
        if threads > gpu.threads_per_block or shared > gpu.shared_per_block:
            raise LaunchError(
                f"{self.name}: {threads:,} threads and {shared:,} bytes of shared memory a block, {gpu.name} has "
                f"{gpu.threads_per_block:,} and {gpu.shared_per_block:,}"
            )
        if cooperative and blocks > (most := gpu.resident_blocks(threads, shared)):
            raise LaunchError(f"{self.name}: a cooperative grid of {blocks:,} blocks, {gpu.name} holds {most:,}")
        self._keep(threads)

    def _keep(self, threads: int) -> None:
        blocks = self.device.blocks.setdefault((self.module, self.name), 0)
        self.device.blocks[self.module, self.name] = max(blocks, threads)

    def __call__(self, grid: Any, block: Any, *args: Any, **how: Any) -> None:
        self._note(block, grid, **how)

    def bind(self, grid: Any, block: Any, *args: Any, **how: Any) -> Callable[[], None]:
        """Note the block size; the launch does nothing. Raises LaunchError where the GPU would refuse the sizes."""
        self._note(block, grid, **how)
        return lambda: None

    bind_packed = bind

    def resident_blocks(self, block: Any, shared: int = 0) -> int:
        """Blocks of this size that fit on the noted GPU."""
        self._note(block, shared=shared)
        return self.device.gpu.resident_blocks(int(np.prod(block)), shared)


@dataclass
class NotedModule:
    """A module without code; its kernels take notes."""

    device: NotingDevice
    module: Module

    @property
    def compiled(self) -> Module:
        """The module's source and defines."""
        return self.module

    def kernel(self, name: str) -> NotedKernel:
        """The kernel `name`, which takes notes."""
        return NotedKernel(self.device, self.module, name)


@dataclass
class NotingDevice:
    """Takes the place of a device: compiles, holds and runs nothing, and notes what it was asked for. Launches whose
    sizes the GPU would refuse are refused (LaunchError)."""

    kind: Literal["cuda", "host"] = "cuda"
    gpu: GPU = H200
    blocks: dict[tuple[Module, str], int] = field(default_factory=dict)
    """The largest block, in threads, of each kernel of each module."""
    compiled: set[Module] = field(default_factory=set)

    def info(self) -> DeviceInfo:
        """The GPU it takes the place of."""
        gpu = self.gpu
        extra = {"shared_bytes_per_block": gpu.shared_per_block, "shared_bytes_per_sm": gpu.shared_per_sm}
        return DeviceInfo("cuda", gpu.name, gpu.arch, gpu.memory_bytes, gpu.multiprocessors, gpu.l2_bytes, extra=extra)

    def compile(self, source: str, defines: Mapping[str, str] | None = None) -> NotedModule:
        """Note the module; nothing is compiled."""
        module = Module(source, tuple(sorted((defines or {}).items())))
        self.compiled.add(module)
        return NotedModule(self, module)

    def empty(self, shape: Any, dtype: Any) -> NotedBuffer:
        """A buffer without memory."""
        return NotedBuffer(shape if isinstance(shape, tuple) else (int(shape),), np.dtype(dtype))

    def upload(self, array: Any) -> NotedBuffer:
        """A buffer of the array's shape and type."""
        return self.empty(array.shape, array.dtype)

    def download(self, buffer: NotedBuffer) -> Any:
        """Zeros."""
        return np.zeros(buffer.shape, buffer.dtype)

    def capture(self, work: Callable[[], None], *, for_device: bool = False) -> Callable[[], None]:
        """Call `work`, which notes what it launches."""
        work()
        return lambda: None

    def repeat_while(self, body: Callable[[Any], Callable[[], None]]) -> Callable[[], None]:
        """Call `body` once."""
        body(np.uint64(0))()
        return lambda: None

    def free_bytes(self) -> int:
        """64 GiB."""
        return 64 << 30

    def missing(self, feature: str) -> str | None:
        """Nothing is missing."""
        return None

    def refuse_limit(self, name: str, value: int) -> str | None:
        """No limit is refused."""
        return None

    def counters(self) -> None:
        """No events are counted."""
        return None

    def _nothing(self, *args: Any) -> None:
        """Do nothing."""

    write = fill = synchronize = set_limit = reset_counters = close = _nothing


def rehearsed(variant: Variant, dtype: str, task: Task, info: DeviceInfo) -> set[Module]:
    """The modules that `variant` compiles for a small matrix on a device such as `info` describes; none where it
    cannot be prepared for that one. For problems with a matrix, and not for variants of plug-ins, whose host functions
    only a worker may call."""
    device = NotingDevice(info.kind, info.gpu)
    try:
        problem, form = get_problem(task.problem, task.options), get_format(variant.format).on(info.gpu)
        matrix = make(_SMALL)
        kind, params = np.dtype(dtype), task.params_of(variant.name)
        own = {name: value for name, value in params.items() if name in form.tunables}
        packed = form.pack(matrix.csr, kind, np.dtype(task.offsets), **own)
        prepare(
            cast(Device, device),
            variant,
            packed,
            problem.inputs(matrix, kind, 1),
            problem.output_arrays(matrix, kind),
            {name: value for name, value in params.items() if name in variant.tunables},
            options=task.options,
        )
    except Exception:  # whatever it is, the worker will meet it with the matrix of the run, and report it
        return set()
    return device.compiled
