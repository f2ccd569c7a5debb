"""Time: cells that were right, sampled in interleaved rounds."""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from spgraph_bench.measure.clocks import GpuMonitor
from spgraph_bench.measure.sampling import Clock, Ended, Entry, Taken, sample_interleaved
from spgraph_bench.measure.stopping import StoppingRule
from spgraph_bench.runner.children import ChildrenLostError, children_of
from spgraph_bench.runner.messages import Part
from spgraph_bench.runner.on_device.announcing import Announcer, AnnouncingClock
from spgraph_bench.runner.on_device.assignment import Assignment
from spgraph_bench.runner.on_device.launches import Launches
from spgraph_bench.runner.on_device.second_look import SecondLook
from spgraph_bench.runner.on_device.stopwatches import Stopwatches
from spgraph_bench.runner.on_device.verifying import VerifiedEvents, Verifier
from spgraph_bench.runner.plan import Cell
from spgraph_bench.variants.base import Launch

__all__ = ["Timing"]

_PART_SAMPLES = 9


class Timing:
    """Times cells that :class:`~.checking.Check` found right."""

    def __init__(
        self,
        assignment: Assignment,
        launches: Launches,
        second_look: SecondLook,
        stopwatches: Stopwatches,
        monitor: GpuMonitor | None,
    ) -> None:
        self._assignment, self._launches, self._stopwatches = assignment, launches, stopwatches
        self._monitor = monitor
        self._announcer = Announcer(assignment.emit)
        self._verifier = Verifier(assignment, launches, second_look, stopwatches, self._announcer)

    def entries(self, cells: Sequence[Cell], taken: Mapping[str, Sequence[Taken]]) -> list[Entry]:
        """What is to be sampled, with the samples from before a restart; parts of runs are timed here."""
        return [self._entry(cell, taken.get(cell.key, ())) for cell in cells]

    def _entry(self, cell: Cell, taken: Sequence[Taken]) -> Entry:
        self._announcer.announce_alone(cell)
        prepared = self._launches.prepared(cell)
        where = prepared.job.variant.where
        clock = AnnouncingClock(self._stopwatches.clock(where), cell, prepared, self._announcer)
        self._time_parts(cell, prepared.launch, clock)
        return Entry(cell.key, prepared.launch, clock, taken=taken, watched=where == "gpu")

    def sample(
        self,
        cells: Sequence[Cell],
        entries: Sequence[Entry],
        rule: StoppingRule,
        seed: int,
        should_stop: Callable[[], bool],
        warmups: int | None = None,
        seconds: float = math.inf,
    ) -> None:
        """Sample `entries`, which are those of `cells`, for so many seconds in all; each sample goes to the parent.
        `warmups` that were asked for are all run, however long they take."""
        warming: dict[str, Any] = {} if warmups is None else {"warmups": warmups, "warmup_limit_s": math.inf}
        self._assignment.say("timing", guarded=True)
        gc.collect()
        self._announcer.forget()
        events = VerifiedEvents(self._assignment, self._verifier, cells, rule, seed)
        for event in sample_interleaved(
            entries,
            rule,
            order_seed=seed,
            fatal=lambda error: not self._assignment.device_answers(),
            should_stop=should_stop,
            seconds=seconds,
            watch=self._monitor.watch if self._monitor else None,
            between=events.catch_up,
            **warming,
        ):
            if isinstance(event, Ended):
                self._must_be_whole(events.cells[event.key])
            events.take(event)
        events.catch_up()

    def _must_be_whole(self, cell: Cell) -> None:
        """Raise ChildrenLostError, the blame on `cell`, when one of its timed runs lost children.

        Its times are worth nothing then, and the next launch may hang: this worker has done its last.
        """
        if (prepared := self._launches.ready(cell)) is None:
            return
        task = self._assignment.task
        try:
            if (children := children_of(prepared.job)) is not None:
                children.must_be_whole(task.needs.get(prepared.job.variant.name, {}), task.limits)
        except ChildrenLostError as error:
            self._launches.lose(cell, drop=False)
            self._announcer.announce_alone(cell)
            raise ChildrenLostError(f"while it was timed: {error}") from None

    def _time_parts(self, cell: Cell, launch: Launch, clock: Clock) -> None:
        """Time the parts of `launch` alone, cold, on what a whole run of the first case left."""
        for name, part in launch.parts.items():
            launch.select(0)
            launch.reset()
            launch.run()
            alone = Launch(run=part, reset=lambda: None, output=launch.output, operations=8, gated=True)
            taken = [clock.sample(alone, "cold") for _ in range(_PART_SAMPLES)]
            if valid := [sample.ms for sample in taken if sample.valid]:
                self._assignment.emit(Part(cell, f"{name}_ms", float(np.median(valid))))
