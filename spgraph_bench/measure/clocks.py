"""The state of the GPU's clocks, through NVML: read, never set.

NVML comes with the driver; its Python binding is ``nvidia-ml-py`` (module ``pynvml``). Where either is absent
there is no monitor, and records say nothing about clocks. Queries that a card does not answer (MIG
instances, consumer cards) give None or nothing, never an error.

Meaning of the reasons: NVML API reference, "NvmlClocksEventReasons".
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

__all__ = ["ClockState", "GpuMonitor", "GpuProcess", "decode_reasons"]

# bit: (word, whether the card runs slower than it was set to)
_REASONS: dict[int, tuple[str, bool]] = {
    0x001: ("idle", False),
    0x002: ("application clocks setting", False),
    0x004: ("power cap", True),
    0x008: ("hardware slowdown", True),
    0x010: ("sync boost", False),
    0x020: ("thermal slowdown", True),
    0x040: ("hardware thermal slowdown", True),
    0x080: ("power brake", True),
    0x100: ("display clock setting", False),
}

_T = TypeVar("_T")


def decode_reasons(bits: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(reasons that are throttling, the other reasons) in words, of NVML's bit mask.

    Throttling: power cap, hardware slowdown, thermal slowdown, power brake, and bits this table does not
    know. Not throttling: idle, a clock set by hand, sync boost.
    """
    throttling = [word for bit, (word, slows) in _REASONS.items() if bits & bit and slows]
    others = [word for bit, (word, slows) in _REASONS.items() if bits & bit and not slows]
    if unknown := bits & ~sum(_REASONS):
        throttling.append(f"unknown reason {unknown:#x}")
    return tuple(throttling), tuple(others)


@dataclass(frozen=True)
class GpuProcess:
    """A process with a compute context on the GPU."""

    pid: int
    memory_bytes: int | None


@dataclass(frozen=True)
class ClockState:
    """The GPU now. None: the card does not say."""

    sm_clock_mhz: int | None
    max_sm_clock_mhz: int | None
    throttle: tuple[str, ...]
    """Reasons that count as throttling."""
    reasons: tuple[str, ...]
    """Reasons that do not (idle, a clock set by hand)."""
    others: tuple[GpuProcess, ...]
    """Other processes that compute on it."""

    def notes(self) -> tuple[str, ...]:
        """What the head of a table must say: another process, throttling, a clock set below its maximum."""
        texts: list[str] = []
        if self.others:
            pids = ", ".join(str(p.pid) for p in self.others)
            texts.append(f"GPU busy: {len(self.others)} other compute process(es) on it (pid {pids})")
        if self.throttle:
            texts.append(f"GPU throttled: {', '.join(self.throttle)}")
        if "application clocks setting" in self.reasons and self.sm_clock_mhz and self.max_sm_clock_mhz:
            texts.append(f"SM clock is set: {self.sm_clock_mhz} of {self.max_sm_clock_mhz} MHz")
        return tuple(texts)


def _hex(uuid: str | bytes) -> str:
    text = uuid.decode("ascii", "replace") if isinstance(uuid, bytes) else uuid
    return text.lower().removeprefix("gpu-").replace("-", "")


class GpuMonitor:
    """Watches one GPU. Open it before this process (or its worker) makes a CUDA context.

    Processes are distinguished by process id. In a container NVML may report ids of the host, where our own
    process has an id we cannot know; so a process counts as another one only if it was there when the
    monitor was opened or is visible in this ``/proc``. One that starts later in another container is missed.
    """

    def __init__(self, pynvml: Any, handle: Any, own: Collection[int] = ()) -> None:
        self._nvml, self._handle = pynvml, handle
        self._own = {os.getpid(), *own}
        self._before = {p.pid for p in self._processes()} - self._own
        self._max = self._ask(lambda: int(pynvml.nvmlDeviceGetMaxClockInfo(handle, pynvml.NVML_CLOCK_SM)))
        # Renamed by NVIDIA in 2023; older bindings have the older name only.
        self._reasons_of: Callable[[Any], int] | None = getattr(
            pynvml,
            "nvmlDeviceGetCurrentClocksEventReasons",
            getattr(pynvml, "nvmlDeviceGetCurrentClocksThrottleReasons", None),
        )

    @classmethod
    def open(cls, uuid: str, own: Collection[int] = ()) -> GpuMonitor | None:
        """A monitor of the GPU with this UUID ("GPU-..." or bare hex digits), or None where NVML is absent or
        does not know it. `own`: process ids of spgraph other than this one (the worker, the parent)."""
        try:
            import pynvml
        except ImportError:
            return None
        try:
            pynvml.nvmlInit()
        except (pynvml.NVMLError, OSError):
            return None
        try:
            for index in range(pynvml.nvmlDeviceGetCount()):
                handle = pynvml.nvmlDeviceGetHandleByIndex(index)
                if _hex(pynvml.nvmlDeviceGetUUID(handle)) == _hex(uuid):
                    return cls(pynvml, handle, own)
        except pynvml.NVMLError:
            pass
        pynvml.nvmlShutdown()
        return None

    def _ask(self, query: Callable[[], _T]) -> _T | None:
        try:
            return query()
        except (self._nvml.NVMLError, AttributeError):
            return None

    def sm_clock_mhz(self) -> int | None:
        """The current SM clock in MHz; None if the card does not answer."""
        nvml = self._nvml
        return self._ask(lambda: int(nvml.nvmlDeviceGetClockInfo(self._handle, nvml.NVML_CLOCK_SM)))

    def watch(self) -> tuple[int | None, tuple[str, ...]]:
        """(SM clock in MHz, reasons that count as throttling) now: two queries of 0.1 ms and more."""
        return self.sm_clock_mhz(), decode_reasons(self._bits())[0]

    def state(self) -> ClockState:
        """Everything, for the head of a table."""
        throttle, reasons = decode_reasons(self._bits())
        return ClockState(self.sm_clock_mhz(), self._max, throttle, reasons, self.others())

    def others(self) -> tuple[GpuProcess, ...]:
        """Other processes that compute on this GPU."""
        return tuple(
            p
            for p in self._processes()
            if p.pid not in self._own and (p.pid in self._before or Path(f"/proc/{p.pid}").exists())
        )

    def close(self) -> None:
        """End the use of NVML. The monitor cannot be used afterwards."""
        self._ask(self._nvml.nvmlShutdown)

    def _bits(self) -> int:
        reasons_of = self._reasons_of
        if reasons_of is None:
            return 0
        return self._ask(lambda: int(reasons_of(self._handle))) or 0

    def _processes(self) -> list[GpuProcess]:
        processes = self._ask(lambda: self._nvml.nvmlDeviceGetComputeRunningProcesses(self._handle))
        return [GpuProcess(int(p.pid), getattr(p, "usedGpuMemory", None)) for p in processes or ()]
