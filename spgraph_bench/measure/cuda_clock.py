"""The clock for GPU launches: CUDA events, cold or hot caches, short launches queued behind a gate.

Order of one sample: reset, evict (cold only), gate, start event, run, stop event; then the host
opens the gate. What is between the events is on the GPU's queue before the first of it starts, and
the host's launch cost is not measured. The gate is a kernel that spins on a word of mapped host memory
(`cuda/measure/clock.cu`); it gives up after a second, which voids the sample.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Callable, Sequence
from time import sleep
from typing import Any, Literal

import numpy as np

from spgraph_bench.device.base import Buffer
from spgraph_bench.device.cuda import CudaDevice
from spgraph_bench.measure.sampling import Sample
from spgraph_bench.results.record import Ceiling
from spgraph_bench.variants.base import Launch

__all__ = ["CudaClock", "under_tool"]

_SOURCE = "measure/clock.cu"
_GATE_LIMIT_NS = 1_000_000_000
_GATE_OPERATIONS = 256
"""What the gate may hold back. A stream takes about 1,000 operations before a launch blocks the host, and a
blocked host could never open the gate."""
_EVICT_TIMES_L2 = 4
_CEILING_BYTES = 2 << 30
_LOOK_BYTES = 1 << 20


def under_tool() -> str | None:
    """The profiler or sanitizer this process runs under, or None.

    Such tools serialise or slow kernels, so that a gate would wait for a host that waits for the gate.
    """
    for name in ("CUDA_INJECTION64_PATH", "NV_COMPUTE_PROFILER_PERFWORKS_DIR", "NV_SANITIZER_INJECTION_PORT_BASE"):
        if os.environ.get(name):
            return name
    loaded = os.environ.get("LD_PRELOAD", "")
    for part in ("TreeLauncher", "sanitizer-collection", "InterceptorInjection", "nsight"):
        if part.lower() in loaded.lower():
            return part
    return None


def _persisting_lines_reset() -> Callable[[], object]:
    """The driver's ``cuCtxResetPersistingL2Cache`` (CUDA 11), or nothing where it has none.

    Lines that a kernel or a library has marked as persisting survive any reading of other memory. A device
    that cannot mark lines answers with an error, which says that there are none.
    """
    with contextlib.suppress(OSError, AttributeError):
        reset: Callable[[], object] = ctypes.CDLL("libcuda.so.1").cuCtxResetPersistingL2Cache
        return reset
    return lambda: None


class CudaClock:
    """Times launches on `device`.

    Parameters
    ----------
    gate : queue short launches behind the gate (None: unless a profiler or sanitizer is attached).
    """

    name: Literal["cuda-events"] = "cuda-events"

    def __init__(self, device: CudaDevice, gate: bool | None = None) -> None:
        self._device = device
        self._driver = driver = device.driver
        self.gate = under_tool() is None if gate is None else gate
        module = device.compile(_SOURCE)
        self._module = module
        info = device.info()
        self._blocks = 8 * info.multiprocessors
        self.evict_bytes = _EVICT_TIMES_L2 * max(info.l2_bytes, 1 << 20)
        self._clean = device.empty(self.evict_bytes // 4, np.float32)
        device.fill(self._clean, 0)
        self._sink = device.empty(1, np.float32)
        self._read_clean = self._reader(self._clean)
        self._reset_persisting = _persisting_lines_reset()
        # Two words of host memory that the GPU sees: the flag it waits for, and the gate's confession.
        flags = driver.host_alloc_flags.DEVICEMAP
        self._flag = driver.pagelocked_zeros(1, np.uint32, mem_flags=flags)
        self._timed_out = driver.pagelocked_zeros(1, np.uint32, mem_flags=flags)
        self._flag_ptr = int(self._flag.base.get_device_pointer())
        self._timed_out_ptr = int(self._timed_out.base.get_device_pointer())
        self._gate = module.kernel("spg_gate").launcher(1, 32, "PIPq")
        self._ticket = 0
        self._start, self._stop = driver.Event(), driver.Event()
        device.synchronize()

    def _reader(self, buffer: Any) -> Callable[[], None]:
        count = np.int64(buffer.nbytes // 16)
        return self._module.kernel("spg_read").bind(self._blocks, 256, buffer, count, self._sink)

    def evict(self) -> None:
        """Let the L2 forget what it holds: lines marked as persisting become ordinary ones, then all of them
        make way for a clean buffer."""
        self._reset_persisting()
        self._read_clean()

    def wake(self) -> None:
        """Some work, of no variant's: its clocks may have fallen while the GPU waited for the host."""
        self.evict()
        self._device.synchronize()

    def gates(self, launch: Launch) -> bool:
        """Whether samples of `launch` are gated."""
        return self.gate and launch.gated and launch.operations <= _GATE_OPERATIONS

    def sample(self, launch: Launch, cache: Literal["cold", "hot"]) -> Sample:
        """One sample. Raises LaunchError when the launch fails."""
        launch.reset()
        if cache == "cold":
            self.evict()
        stream = self._device.stream
        gated = self.gates(launch)
        if gated:
            self._ticket = (self._ticket + 1) & 0xFFFFFFFF
            self._gate(self._flag_ptr, self._ticket, self._timed_out_ptr, _GATE_LIMIT_NS)
        try:
            self._start.record(stream)
            launch.run()
            self._stop.record(stream)
        finally:
            self._flag[0] = self._ticket
        self._device.synchronize()
        ms = float(self._start.time_till(self._stop))
        if gated and self._timed_out[0]:
            self._timed_out[0] = 0
            return Sample(ms, valid=False, reason="gate timeout")
        return Sample(ms)

    def escapes(self, launch: Launch, outputs: Sequence[Buffer], wait_s: float = 0.005) -> bool:
        """Whether `launch` writes one of `outputs` while the gate holds its stream back: it works outside the
        stream, and events on it would time nothing. False where samples are not gated.
        """
        if not self.gates(launch):
            return False
        driver, device = self._driver, self._device
        # Not blocking: it must not wait for the stream behind the gate.
        beside = driver.Stream(1)

        def look() -> list[Any]:
            # The beginning of each: the gate does not wait forever.
            copies = [np.empty(min(buffer.nbytes, _LOOK_BYTES), np.uint8) for buffer in outputs]
            for array, buffer in zip(copies, outputs, strict=True):
                if array.size:
                    driver.memcpy_dtoh_async(array, buffer.ptr, beside)
            beside.synchronize()
            return copies

        launch.reset()
        device.synchronize()
        before = look()
        self._ticket = (self._ticket + 1) & 0xFFFFFFFF
        self._gate(self._flag_ptr, self._ticket, self._timed_out_ptr, _GATE_LIMIT_NS)
        try:
            launch.run()
            sleep(wait_s)
            after = look() if not self._timed_out[0] else before
            if self._timed_out[0]:  # the gate gave up while we looked
                after = before
        finally:
            self._flag[0] = self._ticket
        device.synchronize()
        self._timed_out[0] = 0
        return not all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))

    def ceiling(self, samples: int = 11) -> Ceiling:
        """Read and copy bandwidth over two GiB (less if memory is short), the floor of an empty kernel, and
        empty-measurement time, with nothing between the events: on an H200 two events are 2.9 us apart.
        """
        device, driver = self._device, self._driver
        size = min(_CEILING_BYTES, device.free_bytes() // 4) // 4096 * 4096
        empty = self._module.kernel("spg_empty").bind(1, 32)
        source = device.empty(size // 4, np.float32)
        target = device.empty(size // 4, np.float32)
        try:
            device.fill(source, 0)
            device.fill(target, 0)
            read = self._reader(source)

            def copy() -> None:
                driver.memcpy_dtod_async(target.ptr, source.ptr, size, device.stream)

            zero_ms = self._median(lambda: None, samples)
            floor_ms = self._median(empty, samples)
            read_ms = self._median(read, samples)
            copy_ms = self._median(copy, samples)
        finally:
            source.free()
            target.free()
        return Ceiling(
            read_gbs=size / read_ms / 1e6,
            copy_gbs=2 * size / copy_ms / 1e6,
            floor_ms=floor_ms,
            bytes=size,
            zero_ms=zero_ms,
        )

    def _median(self, run: Callable[[], None], samples: int) -> float:
        launch = Launch(run=run, reset=lambda: None, output=lambda: np.empty(0))
        times = [self.sample(launch, "cold") for _ in range(samples + 3)][3:]
        return float(np.median([t.ms for t in times]))
