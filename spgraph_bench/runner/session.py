"""A device, held by a worker process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

from spgraph_bench.device.base import DeviceInfo, Limit
from spgraph_bench.errors import DeviceError, UsageError
from spgraph_bench.runner.worker import LocalWorker, ProcessWorker, Worker, WorkerDiedError, WorkerHungError
from spgraph_bench.variants.base import Variant, loaders

__all__ = ["Session"]


class Session:
    """A device, held by a worker process that can be replaced when it hangs or dies.

    Parameters
    ----------
    device : "host", "cuda" or "cuda:N".
    in_process : no worker and no watchdog (for profilers and sanitizers).
    watchdog : seconds that a launch may take before its worker is ended.
    gate : see :class:`spgraph_bench.measure.cuda_clock.CudaClock`.
    variants : what is going to run; a GPU's worker loads their libraries while the matrix is read.
    seed : of the order of blocks, threads and child grids on the host device; 0 is the natural order.
    limits_of : name of a GPU whose limits the host device imposes.

    Raises UsageError for limits on another device.
    """

    def __init__(
        self,
        device: str,
        *,
        in_process: bool = False,
        watchdog: float = 60.0,
        gate: bool | None = None,
        variants: Sequence[Variant] = (),
        seed: int = 0,
        limits_of: str | None = None,
    ) -> None:
        if limits_of is not None and device != "host":
            raise UsageError("--limits is for the host device: a GPU has limits of its own", remedy="--device host")
        self.device = device
        self.in_process = in_process
        self._watchdog = watchdog
        self._options: dict[str, Any] = {"gate": gate}
        if device == "host":
            self._options["device_options"] = {"seed": seed, "limits": limits_of}
        self._early = () if device == "host" else loaders(variants)
        self._worker: Worker | None = None
        self._limits: Mapping[Limit, int] | None = None
        """Limits that the worker was given; None before its first task."""
        self._info: DeviceInfo | None = None
        if not in_process:
            self.worker()

    def worker(self) -> Worker:
        """The worker, started if there is none."""
        if self._worker is None:
            if self.in_process:
                self._worker = LocalWorker(self.device, self._options)
            else:
                self._worker = ProcessWorker(self.device, self._options, self._watchdog, self._early)
        return self._worker

    def worker_with(self, limits: Mapping[Limit, int]) -> Worker:
        """A worker for a task with these limits, which cannot change once something was launched on a GPU. A task
        without limits, whose kernels neither launch nor allocate, takes any worker."""
        if self.device != "host" and limits and self._limits not in (None, limits):
            self.drop_worker()
        worker = self.worker()
        if limits or self._limits is None:
            self._limits = dict(limits)
        return worker

    def info(self) -> DeviceInfo:
        """What the device is. Raises DeviceError when it cannot be used."""
        if self._info is None:
            try:
                self._info = DeviceInfo(**self.worker().call("hello"))
            except (WorkerDiedError, WorkerHungError) as error:
                raise DeviceError(f"{self.device} cannot be used: {error}", remedy="spgraph doctor") from None
        return self._info

    def drop_worker(self) -> None:
        """End a worker that is of no more use; the next call starts another."""
        if self._worker is not None:
            self._worker.kill()
            self._worker.close()
            self._worker = self._limits = None

    def release(self) -> None:
        """Nothing more will be run: the worker may end while results are shown."""
        if self._worker is not None:
            self._worker.release()

    def close(self) -> None:
        """End the worker, if there is one."""
        if self._worker is not None:
            self._worker.close()
            self._worker = None

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.drop_worker()
