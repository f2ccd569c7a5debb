"""Going through a plan in this process, with one station: block after block, each record into the journal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from spgraph_bench.results.record import Record
from spgraph_bench.runner.plan import Cell
from spgraph_bench.runner.run import Progress
from spgraph_bench.sweep.journal import Journal
from spgraph_bench.sweep.plan import Block, Plan
from spgraph_bench.sweep.station import Station
from spgraph_bench.timer import perf_counter

__all__ = ["LATER", "Ended", "sweep_locally"]

LATER = "measured in a later session than other rows: the sweep was stopped in between"
"""A note of records whose block was not whole when a sweep was stopped."""


@dataclass(frozen=True)
class Ended:
    """A block that has all its records."""

    block: Block
    """With the cells of this session only."""
    records: tuple[Record, ...]
    """Those of these cells."""
    seconds: float
    worker: str = ""
    """Which worker of a cluster measured it."""


def sweep_locally(
    plan: Plan,
    journal: Journal,
    station: Station,
    on_end: Callable[[Ended], None],
    progress: Progress = lambda text: None,
) -> None:
    """Measure all cells of `plan` that `journal` has no record of on this station's device.

    Raises DeviceError where the device cannot be used, InputError where the disk is full. On KeyboardInterrupt the
    journal has every cell that was finished.
    """
    done = journal.has({station.info().name})
    for whole in plan.blocks:
        block = whole.without(done)
        if block is None:
            continue
        records: list[Record] = []
        notes = (LATER,) if len(block.cells) < len(whole.cells) else ()

        def keep(
            cell: Cell,
            record: Record,
            block: Block = block,
            records: list[Record] = records,
            notes: tuple[str, ...] = notes,
        ) -> None:
            record = replace(record, notes=(*record.notes, *notes))
            journal.add(record, block.cell_key(cell))
            records.append(record)

        started = perf_counter()
        station.measure(block, journal.run_id(block.key), keep, progress)
        on_end(Ended(block, tuple(records), perf_counter() - started))
