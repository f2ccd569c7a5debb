"""The `cuda` device: PyCUDA on the primary context, one stream, modules from our own disk cache.

The primary context is retained (not a new one made), so that cuSPARSE, CuPy and cuda-bindings in the same
process see the same memory. Modules are PyCUDA's source modules, loaded from cubins that nvcc built and our
cache keeps (see :mod:`spgraph_bench.device.source_modules`).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from spgraph_bench.device.base import Arg, Buffer, Compiled, DeviceInfo, Dim, Limit
from spgraph_bench.device.cuda_driver import Library, capture, limit, missing_bindings, repeat_while, set_limit
from spgraph_bench.errors import CompileError, DeviceError, LaunchError
from spgraph_bench.privacy import pseudonym
from spgraph_bench.toolchain.modules import compiled
from spgraph_bench.toolchain.nvcc import cubin_request, find_nvcc
from spgraph_bench.units import human_bytes, quantity

if TYPE_CHECKING:
    from spgraph_bench.device.source_modules import CachedModule

__all__ = ["CudaBuffer", "CudaDevice", "CudaKernel", "CudaModule", "gpu_uuid"]

# struct's native codes, which PyCUDA packs kernel arguments with, by numpy type.
_CODES = {
    np.dtype(np.int8): "b",
    np.dtype(np.uint8): "B",
    np.dtype(np.int16): "h",
    np.dtype(np.uint16): "H",
    np.dtype(np.int32): "i",
    np.dtype(np.uint32): "I",
    np.dtype(np.int64): "q",
    np.dtype(np.uint64): "Q",
    np.dtype(np.float32): "f",
    np.dtype(np.float64): "d",
    np.dtype(np.bool_): "?",
}


_PENDING_LAUNCH_BYTES = 9300
"""Device memory for each launch that may wait: 1.21 GB for 131,072, measured on an H200 (driver 580). It is
taken when the first module that launches is loaded, beside 105 MB for the device runtime itself."""


@functools.cache
def _pynvml() -> Any:
    """NVML's binding, initialised for as long as the process lives: doing it again takes 40 ms each time."""
    import pynvml

    pynvml.nvmlInit()
    return pynvml


def _nvml(ask: Callable[[Any], Any]) -> str:
    """What NVML answers, "" where it does not: it is a help, not a need."""
    try:
        answer = ask(_pynvml())
    except Exception:
        return ""
    return answer.decode() if isinstance(answer, bytes) else str(answer)


@functools.cache
def gpu_uuid(index: int) -> str:
    """UUID of ``cuda:index`` as NVML names it, without making a context; "" where it is unknown."""
    try:
        import pycuda.driver as driver

        driver.init()
        bus = driver.Device(index).pci_bus_id()
    except Exception:  # opening the device says what is wrong
        return ""
    return _nvml(lambda nvml: nvml.nvmlDeviceGetUUID(nvml.nvmlDeviceGetHandleByPciBusId(bus)))


def _driver_version() -> str:
    return _nvml(lambda nvml: nvml.nvmlSystemGetDriverVersion())


class CudaBuffer:
    """Device memory from cuMemAlloc."""

    def __init__(self, memory: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self._memory = memory
        self.shape = shape
        self.dtype = dtype
        self.ptr = int(memory)

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return math.prod(self.shape) * self.dtype.itemsize

    def free(self) -> None:
        """Give the memory back now."""
        if self._memory is not None:
            self._memory.free()
            self._memory = None


def _dim(dim: Dim) -> tuple[int, int, int]:
    sizes = (dim,) if isinstance(dim, int | np.integer) else tuple(dim)
    x, y, z = (*(int(n) for n in sizes), 1, 1)[:3]
    return x, y, z


class CudaKernel:
    """One ``__global__`` function of a loaded module."""

    def __init__(self, device: CudaDevice, function: Any, name: str, module: CudaModule) -> None:
        self._device = device
        self._function = function
        self._module = module
        self.name = name

    def resident_blocks(self, block: Dim, shared: int = 0) -> int:
        """See :class:`spgraph_bench.device.base.Kernel`."""
        each = self._module.library().blocks_per_multiprocessor(self.name, math.prod(_dim(block)), shared)
        return each * self._device.info().multiprocessors

    def bind(self, grid: Dim, block: Dim, *args: Arg, shared: int = 0, cooperative: bool = False) -> Callable[[], None]:
        """See :class:`spgraph_bench.device.base.Kernel`."""
        if cooperative:
            if 0 in _dim(grid):
                return lambda: None
            library, stream = self._module.library(), int(self._device.stream.handle)
            return library.cooperative(self.name, _dim(grid), _dim(block), stream, args, shared)
        codes, values = [], []
        for position, arg in enumerate(args):
            if arg is None:
                codes.append("P")
                values.append(0)
            elif isinstance(arg, np.generic):
                codes.append(_CODES[arg.dtype])
                values.append(arg.item())
            elif hasattr(arg, "ptr"):
                codes.append("P")
                values.append(arg.ptr)
            else:
                raise TypeError(
                    f"{self.name}: argument {position} is a {type(arg).__name__}; "
                    "kernels take buffers, numpy scalars of the parameter's type, or None"
                )
        grid3, block3 = _dim(grid), _dim(block)
        if 0 in grid3:
            return lambda: None
        function = self._function
        if shared > 48 * 1024:
            # More than 48 KB of dynamic shared memory must be asked for, once per function.
            attribute = self._device.driver.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES
            try:
                function.set_attribute(attribute, shared)
            except self._device.driver.Error as cause:
                most = self._device.info().extra["shared_bytes_per_block"]
                raise LaunchError(
                    f"{self.name}: {shared:,} bytes of shared memory a block, this GPU has {most:,} ({cause})"
                ) from None
        function.prepare("".join(codes))
        enqueue = functools.partial(
            function.prepared_async_call, grid3, block3, self._device.stream, *values, shared_size=shared
        )
        error, name = self._device.driver.Error, self.name

        def launch(_keep: Any = args) -> None:
            # `values` are addresses: a buffer that only this launch knows must live as long as it.
            try:
                enqueue()
            except error as cause:
                raise LaunchError(f"{name}<<<{grid3}, {block3}>>>: {cause}") from None

        return launch

    def bind_packed(self, grid: Dim, block: Dim, *args: Arg, shared: int = 0) -> Callable[[], None]:
        """See :class:`spgraph_bench.device.base.Kernel`."""
        if 0 in _dim(grid):
            return lambda: None
        library, stream = self._module.library(), int(self._device.stream.handle)
        return library.launch(self.name, _dim(grid), _dim(block), stream, args, shared)

    def launcher(self, grid: Dim, block: Dim, codes: str) -> Callable[..., None]:
        """A callable that launches with its arguments, plain numbers, packed by `codes` as struct does.

        For arguments that change from launch to launch, at a third of what binding them anew takes. Nothing
        is checked, and nothing keeps addresses alive.
        """
        self._function.prepare(codes)
        return functools.partial(self._function.prepared_async_call, _dim(grid), _dim(block), self._device.stream)

    def __call__(self, grid: Dim, block: Dim, *args: Arg, shared: int = 0, cooperative: bool = False) -> None:
        """See :class:`spgraph_bench.device.base.Kernel`."""
        self.bind(grid, block, *args, shared=shared, cooperative=cooperative)()


class CudaModule:
    """One source module, and the same cubin for what PyCUDA does not offer."""

    def __init__(self, device: CudaDevice, module: CachedModule, source: str, defines: Mapping[str, str]) -> None:
        self._device = device
        self.source_module = module
        self._source = source
        self._defines = defines
        self._library: Library | None = None

    @functools.cached_property
    def compiled(self) -> Compiled:
        """See :class:`spgraph_bench.device.base.Module`."""
        request = cubin_request(self._source, self._defines, self._device.arch)
        return compiled(request, self.source_module.path)

    def library(self) -> Library:
        """The same cubin, loaded through cuda-bindings."""
        if self._library is None:
            self._library = Library(self.source_module.path)
        return self._library

    def kernel(self, name: str) -> CudaKernel:
        """See :class:`spgraph_bench.device.base.Module`."""
        try:
            function = self.source_module.get_function(name)
        except self._device.driver.Error:
            raise CompileError(f"no kernel is called {name}", place=self._source) from None
        return CudaKernel(self._device, function, name, self)


class CudaDevice:
    """GPU number `index` in this process. Raises DeviceError when it cannot be used, with the remedy."""

    kind: Literal["cuda", "host"] = "cuda"

    def __init__(self, index: int = 0) -> None:
        try:
            import pycuda.driver as driver
        except ImportError as cause:
            raise DeviceError(
                f"PyCUDA cannot be imported ({cause})", remedy="pip install 'spgraph[gpu]', or --device host"
            ) from None
        self.driver = driver
        try:
            driver.init()
            count = driver.Device.count()
        except driver.Error as cause:
            raise DeviceError(
                f"the NVIDIA driver does not answer ({cause})", remedy="see `spgraph doctor`, or --device host"
            ) from None
        if index >= count:
            raise DeviceError(
                f"there is no cuda:{index}; this machine has {quantity(count, 'GPU')}",
                remedy="--device cuda:0" if count else "--device host",
            )
        find_nvcc()
        self.index = index
        self._device = driver.Device(index)
        self._context = self._device.retain_primary_context()
        self._context.push()
        self.stream = driver.Stream()
        self._modules: dict[tuple[str, tuple[tuple[str, str], ...]], CudaModule] = {}
        major, minor = self._device.compute_capability()
        self.arch = f"sm_{major}{minor}"
        self._info: DeviceInfo | None = None

    def info(self) -> DeviceInfo:
        """See :class:`spgraph_bench.device.base.Device`."""
        if self._info is None:  # NVML takes its time, and every variant asks
            self._info = self._ask_info()
        return self._info

    def _ask_info(self) -> DeviceInfo:
        attributes = self.driver.device_attribute
        version = self.driver.get_driver_version()
        return DeviceInfo(
            kind="cuda",
            name=self._device.name(),
            arch=self.arch,
            memory_bytes=int(self._device.total_memory()),
            multiprocessors=int(self._device.get_attribute(attributes.MULTIPROCESSOR_COUNT)),
            l2_bytes=int(self._device.get_attribute(attributes.L2_CACHE_SIZE)),
            driver=_driver_version(),
            toolkit=find_nvcc().version,
            uuid=pseudonym("gpu", gpu_uuid(self.index)),
            extra={
                "shared_bytes_per_block": int(self._device.get_attribute(attributes.MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)),
                "shared_bytes_per_sm": int(self._device.get_attribute(attributes.MAX_SHARED_MEMORY_PER_MULTIPROCESSOR)),
                "cuda_driver_api": f"{version // 1000}.{version % 1000 // 10}",
            },
        )

    def compile(self, source: str, defines: Mapping[str, str] | None = None) -> CudaModule:
        """See :class:`spgraph_bench.device.base.Device`."""
        key = (source, tuple(sorted((defines or {}).items())))
        if key not in self._modules:
            from spgraph_bench.device.source_modules import source_module

            try:
                module = source_module(source, dict(defines or {}), self.arch)
            except self.driver.Error as cause:
                raise CompileError(f"the compiled module does not load: {cause}", place=source) from None
            self._modules[key] = CudaModule(self, module, source, dict(defines or {}))
        return self._modules[key]

    def empty(self, shape: int | tuple[int, ...], dtype: npt.DTypeLike) -> CudaBuffer:
        """See :class:`spgraph_bench.device.base.Device`. Raises LaunchError when the memory is not there."""
        shape = (int(shape),) if isinstance(shape, int | np.integer) else tuple(int(n) for n in shape)
        kind = np.dtype(dtype)
        size = math.prod(shape) * kind.itemsize
        try:
            # cuMemAlloc refuses zero bytes; an empty array still needs an address.
            memory = self.driver.mem_alloc(max(size, 16))
        except self.driver.MemoryError:
            raise LaunchError(f"{size:,} bytes do not fit: {self.free_bytes():,} are free on the device") from None
        return CudaBuffer(memory, shape, kind)

    def upload(self, array: npt.NDArray[Any]) -> CudaBuffer:
        """See :class:`spgraph_bench.device.base.Device`."""
        buffer = self.empty(array.shape, array.dtype)
        self.write(buffer, array)
        return buffer

    def write(self, buffer: Buffer, array: npt.NDArray[Any]) -> None:
        """See :class:`spgraph_bench.device.base.Device`."""
        if array.dtype != buffer.dtype or array.size != math.prod(buffer.shape):
            raise TypeError(f"buffer is {buffer.dtype}{buffer.shape}, array {array.dtype}{array.shape}")
        if array.size:
            self.driver.memcpy_htod_async(buffer.ptr, np.ascontiguousarray(array), self.stream)
            # The source is pageable memory that the caller may change or free next.
            self.stream.synchronize()

    def download(self, buffer: Buffer) -> npt.NDArray[Any]:
        """See :class:`spgraph_bench.device.base.Device`."""
        self.synchronize()
        array = np.empty(buffer.shape, buffer.dtype)
        if array.size:
            self.driver.memcpy_dtoh_async(array, buffer.ptr, self.stream)
        self.synchronize()
        return array

    def fill(self, buffer: Buffer, byte: int) -> None:
        """See :class:`spgraph_bench.device.base.Device`."""
        if not buffer.nbytes:
            return
        if buffer.nbytes % 4 == 0:
            self.driver.memset_d32_async(buffer.ptr, byte * 0x01010101, buffer.nbytes // 4, self.stream)
        else:
            self.driver.memset_d8_async(buffer.ptr, byte, buffer.nbytes, self.stream)

    def synchronize(self) -> None:
        """See :class:`spgraph_bench.device.base.Device`."""
        try:
            self.stream.synchronize()
        except self.driver.Error as cause:
            raise LaunchError(f"the GPU reported {cause}") from None

    def free_bytes(self) -> int:
        """See :class:`spgraph_bench.device.base.Device`."""
        return int(self.driver.mem_get_info()[0])

    def set_limit(self, name: Limit, value: int) -> None:
        """See :class:`spgraph_bench.device.base.Device`. Of the context: for all modules of this process."""
        given = set_limit(name, value)
        if given < value:
            raise LaunchError(f"{name.replace('_', ' ')}: the driver gives {given:,}, not {value:,}")

    def refuse_limit(self, name: Limit, value: int) -> str | None:
        """See :class:`spgraph_bench.device.base.Device`. Half of the free memory may be taken."""
        need = value if name == "malloc_heap_bytes" else value * _PENDING_LAUNCH_BYTES
        free = self.free_bytes()
        if need > free // 2:
            return f"takes {human_bytes(need)}, and {human_bytes(free)} are free, half of which may be used"
        if name == "pending_launches":  # the driver cuts off what it will not give
            before = limit(name)
            given = set_limit(name, value)
            set_limit(name, before)
            if given < value:
                return f"is more than the {given:,} that the driver gives"
        return None

    def missing(self, feature: Literal["cooperative", "graphs"]) -> str | None:
        """See :class:`spgraph_bench.device.base.Device`."""
        return missing_bindings()

    def capture(self, work: Callable[[], None], *, for_device: bool = False) -> Callable[[], None]:
        """See :class:`spgraph_bench.device.base.Device`."""
        return capture(int(self.stream.handle), work, for_device)

    def repeat_while(self, body: Callable[[np.uint64], Callable[[], None]]) -> Callable[[], None]:
        """See :class:`spgraph_bench.device.base.Device`."""
        return repeat_while(int(self.stream.handle), body)

    def counters(self) -> dict[str, int] | None:
        """None: a GPU does not count."""
        return None

    def reset_counters(self) -> None:
        """Nothing to reset."""

    def close(self) -> None:
        """Unload the modules and leave the primary context."""
        self._modules.clear()
        if self._context is not None:
            self._context.pop()
            self._context.detach()
            self._context = None
