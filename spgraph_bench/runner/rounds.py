"""Time, the parent's part: groups of cells that fit in memory together; a worker that ends costs one cell."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from spgraph_bench.device.base import DeviceInfo
from spgraph_bench.measure.sampling import Taken
from spgraph_bench.measure.stopping import StoppingRule
from spgraph_bench.runner.contact import GONE, Contact
from spgraph_bench.runner.messages import Event, Message, NextCell, Part, Verified, Wrong
from spgraph_bench.runner.plan import Cell
from spgraph_bench.runner.recording import Recorder
from spgraph_bench.runner.settings import Settings
from spgraph_bench.runner.worker import WorkerDiedError
from spgraph_bench.timer import monotonic
from spgraph_bench.variants.base import get_variant

__all__ = ["time_cells"]


def time_cells(
    contact: Contact,
    cells: Sequence[Cell],
    records: Recorder,
    settings: Settings,
    info: DeviceInfo,
    progress: Callable[[str], None],
    *,
    ends: float = math.inf,
) -> None:
    """Measure what times are held against, if that was not done, then sample `cells`; each is recorded as its series
    end, with what it has when the monotonic clock shows `ends`."""
    if not records.surveyed:
        records.surveyed = True
        _survey(contact, cells, records, settings, info, progress)
    for group in _groups(cells, records, 0.6 * info.memory_bytes):
        _Group(contact, group, records, settings, progress, ends).time()


def _survey(
    contact: Contact,
    cells: Sequence[Cell],
    records: Recorder,
    settings: Settings,
    info: DeviceInfo,
    progress: Callable[[str], None],
) -> None:
    """The ceiling, what disturbs measuring, and from where child launches pay."""
    progress("measuring the ceiling")
    try:
        records.ceiling = contact.call("ceiling")
        records.notes = tuple(contact.call("busy"))
    except GONE as error:
        contact.drop()
        records.notes = (f"the ceiling could not be measured: {error}",)
    launched = ((records.outcomes[cell.key].children or {}).get("launched", 0) for cell in cells)
    if settings.break_even and info.kind == "cuda" and any(launched):
        _measure_break_even(contact, records, progress)


def _measure_break_even(contact: Contact, records: Recorder, progress: Callable[[str], None]) -> None:
    """From where child launches pay."""
    progress("measuring from where child launches pay")
    try:
        records.break_even = tuple(contact.call("break_even"))
    except GONE as error:
        contact.drop()
        note = f"from where child launches pay could not be measured: {error}"
        records.notes = (*records.notes, note)


def _groups(cells: Sequence[Cell], records: Recorder, room: float) -> Iterable[list[Cell]]:
    """Cells that fit in `room` bytes of device memory together; interleaving happens within a group."""
    group: list[Cell] = []
    held = 0
    for cell in cells:
        need = records.outcomes[cell.key].device_bytes
        if group and held + need > room:
            yield group
            group, held = [], 0
        group.append(cell)
        held += need
    if group:
        yield group


class _Group:
    """Cells that are timed together."""

    def __init__(
        self,
        contact: Contact,
        cells: Sequence[Cell],
        records: Recorder,
        settings: Settings,
        progress: Callable[[str], None],
        ends: float,
    ) -> None:
        self._ends = ends
        self._contact, self._records, self._progress = contact, records, progress
        self._rule = StoppingRule.asked_for(settings.time_limit_s, settings.min_samples)
        self._seed, self._warmups = settings.seed, settings.warmups
        self._count = len(cells)
        self._pending = {cell.key: cell for cell in cells}
        """Cells without a record."""
        self._current: Cell | None = None
        """The cell whose launch is in flight."""
        problem = contact.task.problem
        self._plugins = {c.key for c in cells if get_variant(problem, c.variant).from_elsewhere}
        """Cells of variants from elsewhere, until one of the group has ended the worker."""
        self._later: list[Cell] = []
        """Those that are timed each alone after the others: nothing tells whose thread has ended the worker."""

    def time(self) -> None:
        """Sample until each cell has its record; samples that were taken outlive the worker."""
        while self._pending or self._later:
            self._current = None
            if not self._pending:
                alone = self._later.pop(0)
                self._pending[alone.key] = alone
                self._contact.drop()
            for cell, reason in self._lost_in_a_call():
                del self._pending[cell.key]
                self._records.record_failed(cell, reason)

    def _lost_in_a_call(self) -> list[tuple[Cell, str]]:
        """Time what is pending; the cells that cannot be timed, and why."""
        pending, records = self._pending, self._records
        suspects = self._contact.has_run_plugins
        try:
            cells = list(pending.values())
            arguments = (cells, self._rule, self._seed, dict(records.taken), self._warmups, self._ends - monotonic())
            self._contact.call("time", *arguments, on_message=self._hear)
            return [(cell, "the worker did not time it") for cell in pending.values()]
        except GONE as error:
            self._contact.drop()
            plugins = [c for c in pending.values() if c.key in self._plugins] if len(pending) > 1 else []
            if isinstance(error, WorkerDiedError) and (suspects or plugins):
                self._later += plugins
                for cell in plugins:
                    del pending[cell.key]
                return []
            if self._current is None:
                return [(cell, str(error)) for cell in pending.values()]
            return [(self._current, str(error))] if self._current.key in pending else []

    def _hear(self, message: Message) -> None:
        """What the worker says while it times."""
        if isinstance(message, NextCell):
            self._current = message.cell
        elif isinstance(message, Event):
            self._take(message)
        elif isinstance(message, Part):
            self._records.outcomes[message.cell.key].times[message.name] = message.ms
        elif isinstance(message, Verified):
            outcome = self._records.outcomes[message.cell.key]
            outcome.check = {**outcome.check, **message.details}
        elif isinstance(message, Wrong):
            outcome = self._records.outcomes[message.cell.key]
            outcome.status, outcome.reason = "wrong", message.reason
            outcome.check = {**outcome.check, "ok": False, "message": message.reason}

    def _take(self, message: Event) -> None:
        """Keep a sample, or record the cell whose second series has ended."""
        event, records = message.event, self._records
        if isinstance(event, Taken):
            records.taken[event.key].append(event)
            samples = sum(map(len, records.taken.values()))
            self._progress(f"timing: {len(self._pending)} of {self._count} to go, {samples} samples")
            return
        records.ended[event.key][event.cache] = event
        if len(records.ended[event.key]) == 2 and event.key in self._pending:
            records.record_timed(self._pending.pop(event.key))
