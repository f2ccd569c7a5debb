"""Collecting what workers send: each cell's record goes to the journal once, each block is reported once."""

from __future__ import annotations

import json
import queue
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from spgraph_bench.device.base import DeviceInfo
from spgraph_bench.results.record import Record
from spgraph_bench.runner.run import Progress
from spgraph_bench.sweep.journal import Journal
from spgraph_bench.sweep.local import LATER, Ended
from spgraph_bench.sweep.plan import Block, Plan
from spgraph_bench.sweep.station import unmeasured

__all__ = ["Collector"]


class Collector:
    """Takes in the records of a sweep, which come twice: as events while a task runs, and with its result.

    Parameters
    ----------
    devices : names of the workers' devices: what the journal has of them is not measured again.
    on_end : hears of each block that has all its records.
    """

    def __init__(
        self, plan: Plan, journal: Journal, devices: set[str], on_end: Callable[[Ended], None], progress: Progress
    ) -> None:
        self._journal, self._on_end, self._progress = journal, on_end, progress
        self._blocks = {block.key: block for block in plan.blocks}
        self._done = journal.has(devices)
        """Keys of cells that have a record."""
        self._resumed = {left.key for left in self.left() if len(left.cells) < len(self._blocks[left.key].cells)}
        """Keys of blocks of which an earlier session measured a part."""
        self._records: dict[str, list[Record]] = {}
        """Of blocks that have not ended, by key."""
        self._ended: set[str] = set()
        self._events: queue.SimpleQueue[Mapping[str, Any]] = queue.SimpleQueue()
        self.lost: dict[str, str] = {}
        """By the block's key: what became of the worker that had it before."""

    # -- events

    def put(self, event: Mapping[str, Any]) -> None:
        """An event of a worker, from any thread; see ``remote.measure_group``. {} only wakes :meth:`wait`."""
        self._events.put(event)

    def wait(self, seconds: float) -> None:
        """Take in all events, after waiting at most so long for the first."""
        try:
            self._take(self._events.get(timeout=seconds))
        except queue.Empty:
            return
        self.drain()

    def drain(self) -> None:
        """Take in all events that are there."""
        while True:
            try:
                self._take(self._events.get_nowait())
            except queue.Empty:
                return

    def _take(self, event: Mapping[str, Any]) -> None:
        kind = event.get("kind")
        if kind == "record":
            self.keep(str(event["block"]), str(event["cell"]), str(event["line"]), str(event["by"]))
        elif kind == "ended":
            self.end(str(event["block"]), float(event["seconds"]), str(event["by"]))
        elif kind == "doing":
            self._progress(str(event["text"]))

    # -- records

    def left(self, blocks: Iterable[Block] | None = None) -> list[Block]:
        """`blocks` (all of the plan, if None) with the cells that have no record."""
        wanted = self._blocks.values() if blocks is None else blocks
        return [left for block in wanted if (left := block.without(self._done)) is not None]

    def keep(self, block: str, cell: str, line: str, worker: str) -> None:
        """A record, unless there is one: of the same task, or of another worker that had it later."""
        if cell in self._done:
            return
        record = Record.from_json(json.loads(line))
        if block in self._resumed and block not in self.lost:
            record = replace(record, notes=(*record.notes, LATER))
        about = {"worker": worker} | ({"after": self.lost[block]} if block in self.lost else {})
        self._add(record, block, cell, about)

    def fail(self, block: Block, info: DeviceInfo, reason: str) -> None:
        """Records of the cells of `block` that no worker could measure; `info`: the device that they name."""
        for left in self.left([block]):
            for cell in left.cells:
                record = unmeasured(left, cell, info, "failed", reason, self._journal.run_id(left.key))
                self._add(record, left.key, left.cell_key(cell), {})
        self.end(block.key)

    def _add(self, record: Record, block: str, cell: str, about: Mapping[str, str]) -> None:
        self._journal.add(record, cell, **about)
        self._done.add(cell)
        self._records.setdefault(block, []).append(record)

    def end(self, key: str, seconds: float = 0.0, worker: str = "") -> None:
        """Report the block, once, if it has all its records."""
        if key not in self._ended and not self.left([self._blocks[key]]):
            self._ended.add(key)
            self._on_end(Ended(self._blocks[key], tuple(self._records.pop(key, ())), seconds, worker))
