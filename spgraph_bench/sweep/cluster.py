"""Going through a plan on a Dask cluster: blocks of one matrix are one task, the longest first.

Dask (``distributed``) knows the workers, gives each one task at a time (the resource GPU=1 of a worker) and tells when
one is gone. Here is decided what is given out; :mod:`collecting` keeps what comes back, :mod:`faults` decides what
becomes of cells whose worker was lost.
"""

from __future__ import annotations

import contextlib
import uuid
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from spgraph_bench.errors import DeviceError
from spgraph_bench.provenance import code_hash
from spgraph_bench.runner.run import Progress
from spgraph_bench.sweep.collecting import Collector
from spgraph_bench.sweep.crew import LOST_S, RESOURCE, WORKERS_S, Crew, offering
from spgraph_bench.sweep.estimate import quick_estimate
from spgraph_bench.sweep.faults import Patience, after_loss
from spgraph_bench.sweep.journal import Journal
from spgraph_bench.sweep.local import Ended
from spgraph_bench.sweep.plan import Block, Plan
from spgraph_bench.timer import monotonic

if TYPE_CHECKING:
    from distributed import Future

    from spgraph_bench.sweep.remote import Answer, Group

__all__ = ["sweep_on_cluster"]

_LOOK_S = 1.0
"""Seconds between two looks at scheduler and workers."""
_WAIT_S = 0.5
"""Seconds to wait for a worker's next event."""


def sweep_on_cluster(
    plan: Plan,
    journal: Journal,
    crew: Crew,
    on_end: Callable[[Ended], None],
    progress: Progress = lambda text: None,
    warn: Callable[[str], None] = lambda text: None,
) -> None:
    """Measure all cells of `plan` that `journal` has no record of on a device of the crew.

    `warn` hears of workers that were lost. Raises DeviceError where the scheduler is lost or no worker is left: the
    journal then has every cell that was finished, and the same command goes on from there.
    """
    _Sweep(plan, journal, crew, on_end, progress, warn).run()


class _Sweep:
    """One sweep while it goes on."""

    def __init__(
        self,
        plan: Plan,
        journal: Journal,
        crew: Crew,
        on_end: Callable[[Ended], None],
        progress: Progress,
        warn: Callable[[str], None],
    ) -> None:
        self._journal, self._crew, self._warn = journal, crew, warn
        self._collector = Collector(plan, journal, crew.devices, on_end, progress)
        self._session = uuid.uuid4().hex[:12]
        """Of this session: a sweep that goes on has tasks of other names."""
        self._running: dict[Future[Answer], Group] = {}
        self._waiting: deque[Group] = deque()
        """The longest first. As many are given out as there are workers: one that is free takes the next."""
        self._broken: set[str] = set()
        """Addresses of workers that cannot measure."""
        self._there = list(crew.probes)
        """Addresses of workers that offer the resource, at the last look."""
        self._slots = len(self._there)
        self._only: dict[str, set[str]] = {}
        """By the name of a group: addresses of the workers that may measure it, where not all may."""
        self._scheduler = Patience("the scheduler is lost", LOST_S)
        self._workers = Patience("no worker is left", WORKERS_S)
        self._serial = 0

    def run(self) -> None:
        from spgraph_bench.sweep.remote import topic_of

        topic, client = topic_of(self._session), self._crew.client
        client.subscribe_topic(topic, lambda event: self._collector.put(event[1]))
        try:
            self._waiting.extend(self._groups())
            looked = monotonic()
            while self._running or self._waiting:
                while self._waiting and len(self._running) < self._slots and client.status == "running":
                    self._submit(self._waiting.popleft())
                self._collector.wait(_WAIT_S)
                for future in [f for f in self._running if f.done()]:
                    self._finish(future)
                if monotonic() - looked > _LOOK_S:
                    self._look()
                    looked = monotonic()
        finally:
            with contextlib.suppress(Exception):
                client.cancel(list(self._running), force=True)
                client.unsubscribe_topic(topic)
            self._collector.drain()

    def _look(self) -> None:
        """See what workers there are. Raises DeviceError where there are none, or no scheduler, for too long."""
        client = self._crew.client
        if client.status == "closed":  # Dask has tried to reach it again for LOST_S
            raise self._scheduler.error()
        there = None
        if client.status == "running":
            with contextlib.suppress(Exception):  # it does not answer
                there = offering(client)
        self._scheduler.check(there is not None)
        if there is not None:
            self._there = there
            self._workers.check(self._usable() != [])
            self._slots = len(self._usable()) or self._slots
            self._take_back()

    def _take_back(self) -> None:
        """Take back tasks that only workers may do which are gone: Dask would wait for those workers forever."""
        for future, group in list(self._running.items()):
            if future.done() or (only := self._only.get(group.name)) is None or only & set(self._there):
                continue
            begun = self._crew.client.get_metadata(group.begun, default=None)
            self._crew.client.cancel([future], force=True)
            del self._running[future]
            if begun:
                self._lost_by(group, begun["worker"], begun["process"])
            else:
                self._again(group)

    # -- giving out

    def _groups(self) -> list[Group]:
        """What is to be measured, the longest first."""
        by_matrix: dict[tuple[str, str], list[Block]] = {}
        for block in self._collector.left():
            by_matrix.setdefault((block.input.kind, block.input.text or block.key), []).append(block)
        kind = self._crew.device
        seconds = {key: sum(quick_estimate(b, kind).seconds for b in blocks) for key, blocks in by_matrix.items()}
        order = sorted(by_matrix, key=lambda key: -seconds[key])
        return [self._group(by_matrix[key]) for key in order]

    def _group(self, blocks: Sequence[Block], attempt: int = 1) -> Group:
        from spgraph_bench.sweep.remote import Group

        self._serial += 1
        # What another worker goes on with is a table of its own: ratios never mix two devices.
        marks = {b.key: f"/{self._session}/{self._serial}" if b.key in self._collector.lost else "" for b in blocks}
        return Group(
            f"spgraph-{self._session}-{self._serial}",
            self._session,
            tuple(blocks),
            {key: self._journal.run_id(f"{key}{mark}") for key, mark in marks.items()},
            self._crew.device,
            dict(self._crew.session),
            code_hash(),
            attempt,
        )

    def _submit(self, group: Group) -> None:
        from spgraph_bench.sweep.remote import measure_group

        # Any worker that offers the resource, those that join later as well, unless some are known to be broken.
        usable = self._usable() if self._broken else None
        if usable == []:
            raise DeviceError("no worker's device can be used any more", remedy="`spgraph doctor` on their hosts")
        if usable is not None:
            self._only[group.name] = set(usable)
        future = self._crew.client.submit(
            measure_group, group, key=group.name, resources={RESOURCE: 1}, workers=usable, retries=0, pure=False
        )
        future.add_done_callback(lambda done: self._collector.put({}))
        self._running[future] = group

    def _usable(self) -> list[str]:
        """Addresses of workers that can be given something."""
        return [address for address in self._there if address not in self._broken]

    def _again(self, group: Group) -> None:
        """Give out what is left of a group once more: nothing that it measures is the cause."""
        self._waiting.appendleft(self._group(self._collector.left(group.blocks), group.attempt))

    # -- tasks that have ended

    def _finish(self, future: Future[Answer]) -> None:
        """A task has ended, one way or another."""
        group = self._running.pop(future)
        self._collector.drain()
        if future.status == "finished":
            self._answered(group, future.result())
        elif future.status != "error":  # cancelled: the scheduler forgot it
            self._again(group)
        elif type(error := future.exception()).__name__ == "KilledWorker":
            self._lost(group, self._crew.cause("its worker was lost"))
        else:
            for block in group.blocks:
                self._collector.fail(block, self._crew.info(), f"internal error: {type(error).__name__}: {error}")

    def _answered(self, group: Group, answer: Answer) -> None:
        """A worker has done what it could."""
        for key, cell, line in answer.records:
            self._collector.keep(key, cell, line, answer.by)
        if answer.lost_by:
            self._lost_by(group, answer.lost_by, answer.lost_process)
        elif answer.broken:
            self._broken.add(answer.address)
            self._slots = max(1, self._slots - 1)
            self._lost(group, f"worker {answer.by} cannot measure: {answer.broken}", blame=False)
        else:
            for block in group.blocks:
                self._collector.end(block.key, 0.0, answer.by)

    def _lost_by(self, group: Group, worker: str, process: int) -> None:
        self._lost(group, self._crew.cause(f"worker {worker} was lost", process))

    def _lost(self, group: Group, cause: str, *, blame: bool = True) -> None:
        """The worker of `group` is gone, or cannot measure. `blame`: what it measured may be why."""
        left = self._collector.left(group.blocks)
        for block in group.blocks:
            self._collector.end(block.key)
        if not left:
            return
        current = left[0]
        self._warn(f"{cause}, while it measured {current.title}")
        self._collector.lost[current.key] = cause
        earlier = group.attempt - 1 if group.blocks[0].key == current.key else 0
        coming = after_loss(left, earlier + blame)
        self._waiting.extendleft(self._group(blocks, attempt) for blocks, attempt in reversed(coming.again))
        if coming.failed is not None:
            self._collector.fail(coming.failed, self._crew.info(), cause)
