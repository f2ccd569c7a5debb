"""The host device: the same ``.cu`` files, compiled by the machine's C++ compiler and run on one CPU thread.

``cuda/host/spg_host.hpp`` gives CUDA's words to a C++ compiler, ``cuda/host/spg_runtime.cpp`` runs grids on
fibers. Results and event counts are exact and repeatable; times mean nothing for a GPU.

What is checked beyond what a GPU checks: argument types of each launch, diverged barriers, threads that
return before a barrier, warp collectives that do not match; with ``SPGRAPH_HOST_SANITIZE=address`` every
access outside a buffer, with ``undefined`` integer overflow, bad shifts and misaligned vector loads too; with
``race`` accesses of one address that nothing orders (docs/races.md). How kernels are compiled is in
:mod:`spgraph_bench.device.host_compiler`.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import platform
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from spgraph_bench.cores import usable_cores
from spgraph_bench.device import races
from spgraph_bench.device.base import Arg, Compiled, DeviceInfo, Dim, Limit
from spgraph_bench.device.host_compiler import module_request, need_compiler
from spgraph_bench.device.host_runtime import KernelEntry, RuntimeLimits, RuntimeSettings, load_library, runtime_library
from spgraph_bench.device.trace import KernelTrace, parse
from spgraph_bench.errors import CompileError, LaunchError, SkipError
from spgraph_bench.gpus import GPU, get_gpu
from spgraph_bench.memory import available_memory
from spgraph_bench.toolchain.compilers import compiler_identity
from spgraph_bench.toolchain.cxx import chosen_sanitizers
from spgraph_bench.toolchain.modules import build, compiled
from spgraph_bench.toolchain.places import line_of

__all__ = ["HostBuffer", "HostDevice", "HostKernel", "HostModule"]

_MULTIPROCESSORS = 4  # the same on every machine, so that counts are too
_THREADS, _SHARED_BYTES = 2048, 227 << 10
_MOST_FIBERS = 24576  # Linux gives a process 65,530 mappings; the stack of a thread that waits takes two
_REFUSED = (9, 720)  # invalid configuration, cooperative launch too large: CUDA tells at the launch itself


# ---- memory -------------------------------------------------------------------------------------------


_LARGE = 1 << 20
"""Bytes of a buffer from which on it is asked what is free: that reads a dozen files, in milliseconds."""


@dataclass
class _Memory:
    """Of one device."""

    taken: int = 0
    """Bytes in buffers."""


class HostBuffer:
    """Memory of exactly ``nbytes``, so that AddressSanitizer sees the first byte beyond."""

    def __init__(self, device: HostDevice, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.shape = shape
        self.dtype = dtype
        self.nbytes = int(np.prod(shape, dtype=object)) * dtype.itemsize
        self._ptr: int | None = None
        if self.nbytes >= _LARGE and self.nbytes > device.free_bytes():
            raise LaunchError(f"{self.nbytes:,} bytes do not fit: {device.free_bytes():,} are free")
        self._library, self._memory = device._library, device._memory
        self._ptr = self._library.spg_alloc(self.nbytes)
        if not self._ptr:
            raise LaunchError(f"{self.nbytes:,} bytes do not fit")
        self._memory.taken += self.nbytes

    @property
    def ptr(self) -> int:
        """Address of the first byte. Raises ValueError after :meth:`free`."""
        if self._ptr is None:
            raise ValueError("this buffer was freed")
        return self._ptr

    def free(self) -> None:
        """Give the memory back now; again is harmless."""
        if self._ptr is not None:
            self._library.spg_free(self._ptr)
            self._memory.taken -= self.nbytes
            self._ptr = None

    def __del__(self) -> None:
        self.free()


# ---- kernels ------------------------------------------------------------------------------------------


def _dim(value: Dim) -> tuple[int, int, int]:
    sizes = [int(value)] if isinstance(value, (int, np.integer)) else [int(v) for v in value]
    if not 1 <= len(sizes) <= 3:
        raise TypeError(f"a grid or block has 1 to 3 dimensions, not {len(sizes)}")
    if any(not 0 <= size < 2**32 for size in sizes):
        raise LaunchError(f"invalid grid or block {tuple(sizes)}")
    x, y, z = [*sizes, 1, 1][:3]
    return x, y, z


def _kind(dtype: np.dtype[Any]) -> str:
    return {"V": "s", "c": "s"}.get(dtype.kind, dtype.kind)


class HostKernel:
    """A kernel with the types of its parameters, as the C++ compiler saw them."""

    def __init__(self, device: HostDevice, module: HostModule, name: str, entry: KernelEntry) -> None:
        self.name = name
        self._device = device
        self._module = module  # keeps the library loaded
        self._entry = entry
        self._parameters = [
            (chr(p[0]), p[1], chr(p[2]) if p[2] else "", p[3])
            for p in (entry.parameters[i] for i in range(entry.count))
        ]

    def _check(self, position: int, arg: Arg) -> bytes:
        kind, size, target, target_size = self._parameters[position]
        what = f"{self.name}: argument {position + 1}"
        if kind == "p":
            if arg is None:
                return bytes(size)
            if isinstance(arg, np.generic) or not hasattr(arg, "ptr"):
                raise TypeError(f"{what} is a pointer, got {type(arg).__name__}")
            given = _kind(arg.dtype)
            # Signs may differ (bit masks); characters, structures and void take anything.
            ours, theirs = ("i" if k in "iu" else k for k in (target, given))
            if target in "iufb" and given in "iufb" and (ours, target_size) != (theirs, arg.dtype.itemsize):
                raise TypeError(f"{what} points to {_words(target, target_size)}, got a buffer of {arg.dtype}")
            return int(arg.ptr).to_bytes(size, "little")
        if not isinstance(arg, np.generic):
            passed = "a buffer" if hasattr(arg, "ptr") else type(arg).__name__
            raise TypeError(f"{what} is {_words(kind, size)}, got {passed}: pass a numpy scalar of its type")
        given = _kind(arg.dtype)
        if (given, arg.dtype.itemsize) != ({"c": "i"}.get(kind, kind), size):
            raise TypeError(f"{what} is {_words(kind, size)}, got {arg.dtype}")
        return arg.tobytes()

    def bind(self, grid: Dim, block: Dim, *args: Arg, shared: int = 0, cooperative: bool = False) -> Callable[[], None]:
        """A callable without arguments that does this launch.

        `cooperative`: the kernel uses ``grid.sync()``. Raises TypeError for wrong arguments, and LaunchError for
        more shared memory than a block of the GPU has whose limits are imposed; the callable
        raises LaunchError when the launch itself is refused. What goes wrong while the kernel runs is raised
        by :meth:`HostDevice.synchronize`, as on a GPU; until then later launches do nothing.
        """
        if len(args) != len(self._parameters):
            raise TypeError(f"{self.name} takes {len(self._parameters)} arguments, got {len(args)}")
        values = [
            ctypes.create_string_buffer(self._check(i, arg), max(1, self._parameters[i][1]))
            for i, arg in enumerate(args)
        ]
        pointers = (ctypes.c_void_p * max(1, len(values)))(*(ctypes.addressof(v) for v in values))
        self._need_shared(shared)
        shape = (ctypes.c_uint * 6)(*_dim(grid), *_dim(block))
        device, launch = self._device, self._device._library.spg_launch
        fixed = (
            self.name.encode(),
            self._entry.call,
            self._entry.kernel,
            ctypes.addressof(pointers),
            ctypes.addressof(shape),
            shared,
            int(cooperative),
            ctypes.addressof(device._settings),
            ctypes.addressof(device._limits),
        )
        keep = (args, values, pointers, shape, self)
        refused = self._too_large(_dim(grid), _dim(block), shared) if cooperative else None

        def run(_keep: Any = keep) -> None:
            if refused:
                raise LaunchError(refused)
            if device._failure is None and (code := launch(*fixed)):
                device._failed(code)

        return run

    def _need_shared(self, shared: int) -> None:
        """Raises LaunchError for more shared memory than a block of the GPU has whose limits are imposed."""
        gpu = self._device.gpu
        if gpu is not None and shared > gpu.shared_per_block:
            raise LaunchError(
                f"{self.name}: {shared:,} bytes of shared memory a block; "
                f"at most {gpu.shared_per_block:,} on {gpu.name}"
            )

    def _too_large(self, grid: tuple[int, int, int], block: tuple[int, int, int], shared: int) -> str | None:
        """The error of the GPU whose limits are imposed for a cooperative grid that it cannot hold, or None."""
        gpu, blocks, threads = self._device.gpu, math.prod(grid), math.prod(block)
        if (
            gpu is None
            or not 0 < threads <= gpu.threads_per_block
            or blocks <= (most := gpu.resident_blocks(threads, shared))
        ):
            return None
        return f"{self.name}: a cooperative launch of {blocks:,} blocks; {gpu.name} holds {most:,} at a time"

    def __call__(self, grid: Dim, block: Dim, *args: Arg, shared: int = 0, cooperative: bool = False) -> None:
        """Run one launch now. See :meth:`bind`."""
        self.bind(grid, block, *args, shared=shared, cooperative=cooperative)()

    def bind_packed(self, grid: Dim, block: Dim, *args: Arg, shared: int = 0) -> Callable[[], None]:
        """The same as :meth:`bind`."""
        return self.bind(grid, block, *args, shared=shared)

    def resident_blocks(self, block: Dim, shared: int = 0) -> int:
        """How many blocks the emulated device holds at the same time: 4 multiprocessors, each of 2,048 threads, 32
        blocks and 227 KB of shared memory (of which `shared` is what the launch asks for); or the GPU whose limits are
        imposed, but for what the kernel declares itself and its registers, which only nvcc knows.
        """
        threads = math.prod(_dim(block))
        if (gpu := self._device.gpu) is not None:
            self._need_shared(shared)
            return min(gpu.resident_blocks(threads, shared), int(self._device._limits.live) // max(threads, 1))
        each = min(_THREADS // max(threads, 1), 32, _SHARED_BYTES // shared if shared else 32)
        return each * _MULTIPROCESSORS


def _words(kind: str, size: int) -> str:
    names = {"i": "int", "u": "uint", "f": "float", "b": "bool", "c": "int"}
    return f"{names[kind]}{8 * size}" if kind in names else f"a structure of {size} bytes"


class HostModule:
    """One compiled ``.cu`` file."""

    def __init__(self, device: HostDevice, source: str, library: ctypes.CDLL, describe: Callable[[], Compiled]) -> None:
        self._device = device
        self._source = source
        self._library = library
        self._describe = describe

    @cached_property
    def compiled(self) -> Compiled:
        """See :class:`spgraph_bench.device.base.Module`."""
        return self._describe()

    def kernel(self, name: str) -> HostKernel:
        """The kernel called `name`; CompileError if the file has none."""
        try:
            entry = KernelEntry.in_dll(self._library, f"spg_entry_{name}")
        except ValueError:
            raise CompileError(
                f"there is no kernel {name!r}", remedy="declare it with SPG_KERNEL", place=self._source
            ) from None
        return HostKernel(self._device, self, name, entry)


# ---- the device ---------------------------------------------------------------------------------------


class HostDevice:
    """See :class:`spgraph_bench.device.base.Device`. Launches run immediately, in the calling thread.

    Parameters
    ----------
    seed : order of blocks, threads, released threads and child grids; 0 is the natural order.
    strict : report threads that return before a barrier their block reaches, and blocks that meet at
        different barriers, which many GPUs let pass.
    traced : count the requests of warps to memory (:meth:`trace`), in place of any sanitizer.
    limits : name or architecture of a GPU ("T4", "sm_75") whose limits launches must keep: threads, blocks and shared
        memory of a block and a multiprocessor, the size of a cooperative grid, memory. It has as many multiprocessors
        as that GPU, too.

    Raises DeviceError when there is no C++ compiler, UsageError for a GPU that :mod:`spgraph_bench.gpus` has not.
    """

    kind: Literal["host"] = "host"

    def __init__(self, seed: int = 0, *, strict: bool = True, traced: bool = False, limits: str | None = None) -> None:
        need_compiler()
        self.gpu: GPU | None = None if limits is None else get_gpu(limits)
        """Whose limits are imposed."""
        self._limits = RuntimeLimits(_MULTIPROCESSORS * _THREADS, _SHARED_BYTES)
        if self.gpu is not None:
            held = self.gpu.multiprocessors * self.gpu.threads_per_sm
            self._limits = RuntimeLimits(min(held, _MOST_FIBERS), self.gpu.shared_per_block)
        self._memory = _Memory()
        self._sanitizers = ("race",) if traced else chosen_sanitizers()
        self._library = runtime_library(self._sanitizers)
        self._settings = RuntimeSettings(
            seed=seed, pending_limit=2048, heap_limit=8 << 20, strict=strict, traced=traced
        )
        self._failure: LaunchError | None = None
        self._modules: dict[tuple[str, tuple[tuple[str, str], ...]], HostModule] = {}
        self._info: DeviceInfo | None = None

    def info(self) -> DeviceInfo:
        """The CPU; `multiprocessors` is what is emulated (4 of 2,048 threads), the same everywhere, or that of the GPU
        whose limits are imposed, which ``extra["limits"]`` names then."""
        if self._info is None:
            self._info = self._described()
        return self._info

    def _described(self) -> DeviceInfo:
        imposed = {} if self.gpu is None else {"limits": self.gpu.name}
        compiler = need_compiler()
        version = compiler_identity(shlex.join(compiler)).splitlines()
        return DeviceInfo(
            kind="host",
            name=_cpu_name(),
            arch=platform.machine(),
            memory_bytes=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
            multiprocessors=_MULTIPROCESSORS if self.gpu is None else self.gpu.multiprocessors,
            l2_bytes=_cache_bytes(),
            toolkit=version[1] if len(version) > 1 else "",
            extra={
                "seed": int(self._settings.seed),
                "sanitizers": list(self._sanitizers),
                "cores": usable_cores(),
                **imposed,
            },
        )

    def compile(self, source: str, defines: Mapping[str, str] | None = None) -> HostModule:
        """Compile `source` (below ``cuda/``, or an absolute path), through the disk cache."""
        key = (source, tuple(sorted((defines or {}).items())))
        if key not in self._modules:
            request = module_request(source, defines, self._sanitizers)
            path = build(request)
            describe = partial(compiled, request, path)
            self._modules[key] = HostModule(self, source, load_library(path, source=source), describe)
        return self._modules[key]

    def empty(self, shape: int | tuple[int, ...], dtype: npt.DTypeLike) -> HostBuffer:
        """Uninitialised memory, filled with what is NaN in every floating-point type (fill_with_junk in cuda/host)."""
        sizes = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
        return HostBuffer(self, tuple(int(n) for n in sizes), np.dtype(dtype))

    def upload(self, array: npt.NDArray[Any]) -> HostBuffer:
        """A new buffer with a copy of `array`, same shape and dtype."""
        buffer = self.empty(array.shape, array.dtype)
        self.write(buffer, array)
        return buffer

    def write(self, buffer: Any, array: npt.NDArray[Any]) -> None:
        """Overwrite `buffer` with `array`. Raises TypeError unless dtype and size are the same."""
        if array.dtype != buffer.dtype or array.nbytes != buffer.nbytes:
            raise TypeError(f"buffer of {buffer.shape} {buffer.dtype} cannot take {array.shape} {array.dtype}")
        contiguous = np.ascontiguousarray(array)
        ctypes.memmove(buffer.ptr, contiguous.ctypes.data, buffer.nbytes)

    def download(self, buffer: Any) -> npt.NDArray[Any]:
        """A copy of `buffer`. Raises LaunchError as :meth:`synchronize` does."""
        self.synchronize()
        array = np.empty(buffer.shape, buffer.dtype)
        ctypes.memmove(array.ctypes.data, buffer.ptr, buffer.nbytes)
        return array

    def fill(self, buffer: Any, byte: int) -> None:
        """Set every byte of `buffer` to `byte` (0 to 255)."""
        ctypes.memset(buffer.ptr, byte, buffer.nbytes)

    def synchronize(self) -> None:
        """Raises the LaunchError of the first kernel that failed since the last time."""
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _failed(self, code: int) -> None:
        if (
            "race" in self._sanitizers
            and not self._settings.traced
            and (findings := races.reported(self._library.spg_findings()))
        ):
            self._failure = races.error_of(*findings)
            return
        message = self._library.spg_message().decode(errors="replace")
        place = line_of(self._library.spg_place().decode(errors="replace"))
        remedy = None
        if "invalid memory access" in message and "address" not in self._sanitizers:
            remedy = "SPGRAPH_HOST_SANITIZE=address names the line"
        error = LaunchError(message, remedy=remedy, place=place)
        if code in _REFUSED:
            raise error
        self._failure = error

    def refuse_limit(self, name: Limit, value: int) -> str | None:
        """None: pool and heap are numbers here."""
        return None

    def set_limit(self, name: Limit, value: int) -> None:
        """CUDA's limits for launches and malloc on the device: 2,048 and 8 MiB unless set."""
        setattr(self._settings, {"pending_launches": "pending_limit", "malloc_heap_bytes": "heap_limit"}[name], value)

    def free_bytes(self) -> int:
        """Memory that the system can still give, within the limits of control groups and ulimit, and of the GPU whose
        limits are imposed."""
        there = available_memory()
        return there if self.gpu is None else max(0, min(there, self.gpu.memory_bytes - self._memory.taken))

    def missing(self, feature: Literal["cooperative", "graphs"]) -> str | None:
        """Cooperative launches are emulated, graphs are not."""
        return "CUDA graphs exist on a GPU only" if feature == "graphs" else None

    def capture(self, work: Callable[[], None], *, for_device: bool = False) -> Callable[[], None]:
        """Raises SkipError: see :meth:`missing`."""
        raise SkipError("CUDA graphs exist on a GPU only")

    def repeat_while(self, body: Callable[[np.uint64], Callable[[], None]]) -> Callable[[], None]:
        """Raises SkipError: see :meth:`missing`."""
        raise SkipError("CUDA graphs exist on a GPU only")

    @contextlib.contextmanager
    def other_order(self, by: int) -> Iterator[None]:
        """Launches within run in the order that the device's seed + `by` gives."""
        seed = self._settings.seed
        self._settings.seed = seed + by
        try:
            yield
        finally:
            self._settings.seed = seed

    def counters(self) -> dict[str, int]:
        """Exact for this seed. A barrier counts once a block, a grid barrier once, warp syncs never."""
        return {name: int(getattr(self._settings, name)) for name in RuntimeSettings.counter_names}

    def reset_counters(self) -> None:
        """Set all event counts to 0."""
        for name in RuntimeSettings.counter_names:
            setattr(self._settings, name, 0)

    def reset_trace(self, multiprocessors: int = 132, l1_bytes: int = 192 << 10, l2_bytes: int = 50 << 20) -> None:
        """Forget what was traced. The sizes are those of the modelled caches; the defaults are an H200's."""
        self._library.spg_trace_reset(multiprocessors, l1_bytes, l2_bytes)

    def trace(self) -> list[KernelTrace]:
        """All kernels since :meth:`reset_trace`, of a device that is traced."""
        return parse(self._library.spg_trace_text().decode(errors="replace"))

    def close(self) -> None:
        """Forget the loaded modules."""
        self._modules.clear()


def _cpu_name() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        text = ""
    match = re.search(r"^(?:model name|Model|Processor)\s*:\s*(.+)$", text, re.M)
    return match[1].strip() if match else platform.processor() or platform.machine()


def _cache_bytes() -> int:
    # The last level, as a GPU's L2 is.
    for name in ("SC_LEVEL3_CACHE_SIZE", "SC_LEVEL2_CACHE_SIZE"):
        try:
            if (size := os.sysconf(name)) > 0:
                return size
        except (OSError, ValueError):
            continue
    return 0
