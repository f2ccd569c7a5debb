"""What a worker answers to: the calls of the parent, each handed to its stage.

Runs in the worker process, or in the parent with --in-process. While a call works, messages
(:mod:`spgraph_bench.runner.messages`) go to the parent.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from spgraph_bench.device import open_device, parse_device
from spgraph_bench.device.base import Device, Limit
from spgraph_bench.measure.clocks import GpuMonitor
from spgraph_bench.measure.sampling import Taken
from spgraph_bench.measure.stopping import StoppingRule
from spgraph_bench.results.record import Ceiling
from spgraph_bench.runner.break_even import measure_break_even
from spgraph_bench.runner.children import DEFAULT_LIMITS, LIMIT_WORDS
from spgraph_bench.runner.messages import Message, Stage
from spgraph_bench.runner.on_device.assignment import Assignment
from spgraph_bench.runner.on_device.checking import Check
from spgraph_bench.runner.on_device.exact_pass import ExactPass
from spgraph_bench.runner.on_device.findings import Findings
from spgraph_bench.runner.on_device.first_run import FirstRun
from spgraph_bench.runner.on_device.judging import Judge
from spgraph_bench.runner.on_device.launches import Launches
from spgraph_bench.runner.on_device.packed_arrays import PackedArrays
from spgraph_bench.runner.on_device.second_look import SecondLook
from spgraph_bench.runner.on_device.stopwatches import Stopwatches
from spgraph_bench.runner.on_device.timing import Timing
from spgraph_bench.runner.payload import Arrays, Payload, save_columns
from spgraph_bench.runner.plan import Cell, Outcome, Task
from spgraph_bench.runner.prepare import Prepared
from spgraph_bench.variants.base import get_variant, library_versions

__all__ = ["Service"]


class _Stages:
    """The stages of one assignment, and what they hold on the device."""

    def __init__(
        self,
        assignment: Assignment,
        stopwatches: Stopwatches,
        monitor: GpuMonitor | None,
        lost: list[Prepared],
        interrupted: Callable[[], bool],
    ) -> None:
        self.task = assignment.task
        arrays = PackedArrays(assignment)
        self.launches = Launches(assignment, arrays, lost)
        self.judge = Judge(assignment)
        self.findings = Findings(assignment)
        self.exact = ExactPass(assignment, arrays, self.launches)
        first_run = FirstRun(assignment, self.judge, self.findings)
        second_look = SecondLook(assignment, self.launches, self.judge, stopwatches, self.exact)
        self.check = Check(assignment, arrays, self.launches, self.judge, first_run, second_look, interrupted)
        self.timing = Timing(assignment, self.launches, second_look, stopwatches, monitor)

    def keep_only(self, cells: Sequence[Cell]) -> None:
        """Give back all memory but that of these cells' variants."""
        self.judge.drop_validators()
        self.launches.keep_only(cells)
        self.exact.drop_drawn()
        self.launches.drop_unused_arrays()


class Service:
    """A device, and one task's stages on it.

    Parameters
    ----------
    device : as :func:`spgraph_bench.device.open_device` takes it.
    emit : receives the messages.
    gate : queue short launches behind the gate; None: unless a profiler or sanitizer is attached.
    device_options : passed on to the device.
    """

    def __init__(
        self,
        device: str,
        emit: Callable[[Message], None],
        gate: bool | None = None,
        device_options: Mapping[str, Any] | None = None,
    ) -> None:
        self._emit = emit
        self.stopping = False
        """Set from a signal handler: ends a `time` call after the sample in flight."""
        self.interrupted = False
        """Set from a signal handler: a KeyboardInterrupt is the user's, and not a host function's."""
        # Before the context is made: our own process must not count as another one on the GPU.
        self._monitor = _monitor(device)
        self.device: Device = open_device(device, **(device_options or {}))
        self.stopwatches = Stopwatches(self.device, gate)
        self._limits: dict[Limit, int] = {}
        self._lost: list[Prepared] = []
        """Launches that lost children. Freeing their memory might hang, so it is kept until the end."""
        self._loaded: _Stages | None = None

    # ---- about the device -------------------------------------------------------------------------------

    def hello(self) -> dict[str, Any]:
        """What the device is: DeviceInfo as a dict."""
        return asdict(self.device.info())

    def versions(self, libraries: Sequence[str]) -> dict[str, str]:
        """Versions of these libraries, as they are loaded here."""
        return library_versions(libraries)

    def missing(self, problem: str, names: Sequence[str]) -> dict[str, str]:
        """Those of these variants that cannot run on this device, whatever the matrix, with the reason."""
        reasons = {name: v.missing(self.device) for name in names if (v := get_variant(problem, name)).missing}
        return {name: why for name, why in reasons.items() if why}

    def alone(self) -> bool | None:
        """Whether no other process computes on the GPU now; None where that is unknown."""
        return None if self._monitor is None else not self._monitor.others()

    def busy(self) -> list[str]:
        """What disturbs measuring on this device now (other processes, clocks), in words."""
        return list(self._monitor.state().notes()) if self._monitor else []

    def refuse_limits(self, limits: Mapping[Limit, int]) -> str | None:
        """Why one of these limits cannot be had, with figures, or None."""
        for name, value in limits.items():
            if self._limits.get(name) == value or value <= DEFAULT_LIMITS[name]:
                continue
            if refusal := self.device.refuse_limit(name, value):
                return f"{LIMIT_WORDS[name].format(value)} {refusal}"
        return None

    def ceiling(self) -> Ceiling | None:
        """The device's bandwidth and floor; None on the host device."""
        if self.device.kind != "cuda":
            return None
        self._emit(Stage("measuring the ceiling", True))
        return self.stopwatches.cuda_clock().ceiling()

    def break_even(self) -> tuple[dict[str, Any], ...]:
        """From how much work per child launches pay; nothing on the host device."""
        if self.device.kind != "cuda":
            return ()
        pool = self._stages.task.limits.get("pending_launches", DEFAULT_LIMITS["pending_launches"])
        return measure_break_even(
            self.device,
            self.stopwatches.clock("gpu"),
            pool,
            lambda text: self._emit(Stage(f"measuring from where child launches pay: {text}", True)),
        )

    # ---- about a task -----------------------------------------------------------------------------------

    @property
    def _stages(self) -> _Stages:
        assert self._loaded is not None, "load comes first"
        return self._loaded

    def load(self, task: Task, payload: Payload | Path) -> None:
        """Take over a task; its payload, or the folder where it is."""
        self._release()
        for name, value in task.limits.items():  # on a GPU only before the first launch: see Session.worker_with
            if self._limits.get(name) != value:
                self.device.set_limit(name, value)
                self._limits[name] = value
        given = Payload.load(payload) if isinstance(payload, Path) else payload
        assignment = Assignment(self.device, task, given, self._emit)
        self._loaded = _Stages(assignment, self.stopwatches, self._monitor, self._lost, lambda: self.interrupted)

    def check(self, cell: Cell) -> Outcome:
        """Prepare, run and check one cell."""
        return self._stages.check.outcome(cell)

    def answer(self, folder: Path | None) -> Arrays | list[str] | None:
        """Columns of the first right answer by name, None while there is none.

        With `folder` they are left there and only the names are returned.
        """
        answer = self._stages.findings.answer
        return answer if answer is None or folder is None else save_columns(folder, answer)

    def time(
        self,
        cells: Sequence[Cell],
        rule: StoppingRule,
        seed: int,
        taken: Mapping[str, Sequence[Taken]],
        warmups: int | None = None,
        seconds: float = math.inf,
    ) -> None:
        """Sample `cells` in interleaved rounds, for so many seconds in all; `taken` holds samples from before a
        restart, by cell key."""
        stages = self._stages
        stages.keep_only(cells)
        entries = stages.timing.entries(cells, taken)
        self.stopping = False
        stages.timing.sample(cells, entries, rule, seed, lambda: self.stopping, warmups, seconds)

    def close(self) -> None:
        """Give everything back."""
        self._release()
        self.stopwatches.made.clear()
        self.device.close()

    def _release(self) -> None:
        if self._loaded is not None:
            self._loaded.keep_only(())
            self._loaded = None


def _monitor(device: str) -> GpuMonitor | None:
    kind, index = parse_device(device)
    if kind != "cuda":
        return None
    from spgraph_bench.device.cuda import gpu_uuid

    uuid = gpu_uuid(index)
    return GpuMonitor.open(uuid, own=(os.getppid(),)) if uuid else None
