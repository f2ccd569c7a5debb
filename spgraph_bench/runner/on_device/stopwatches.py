"""Time: the clock of each place where variants run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spgraph_bench.device.base import Device
from spgraph_bench.measure.cpu_clock import CpuClock
from spgraph_bench.measure.sampling import Clock

if TYPE_CHECKING:
    from spgraph_bench.measure.cuda_clock import CudaClock

__all__ = ["Stopwatches"]


class Stopwatches:
    """Clocks of one device, made when they are first asked for.

    Parameters
    ----------
    gate : see :class:`spgraph_bench.measure.cuda_clock.CudaClock`.
    """

    def __init__(self, device: Device, gate: bool | None) -> None:
        self._device, self._gate = device, gate
        self.made: dict[str, Clock] = {}
        """By where a variant runs: "gpu", "cpu"."""

    def clock(self, where: str) -> Clock:
        """The clock for variants that run there."""
        if where not in self.made:
            clock: Clock
            if where == "cpu":
                clock = CpuClock()
            else:
                from spgraph_bench.device.cuda import CudaDevice
                from spgraph_bench.measure.cuda_clock import CudaClock

                assert isinstance(self._device, CudaDevice)
                clock = CudaClock(self._device, self._gate)
            self.made[where] = clock
        return self.made[where]

    def cuda_clock(self) -> CudaClock:
        """The clock of a GPU, which measures more than samples."""
        from spgraph_bench.measure.cuda_clock import CudaClock

        clock = self.clock("gpu")
        assert isinstance(clock, CudaClock)
        return clock
