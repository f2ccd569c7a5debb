"""What a worker of a Dask cluster does for a sweep: whole groups of blocks, with a station that its process keeps.

Records go to the driver as they come, as events of a topic; the result of the task has them once more, so that an event
that was lost costs nothing.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from distributed import Worker, get_client, get_worker

from spgraph_bench import __version__
from spgraph_bench.device.base import DeviceInfo
from spgraph_bench.errors import DeviceError
from spgraph_bench.privacy import pseudonym
from spgraph_bench.provenance import code_hash
from spgraph_bench.results.record import Record
from spgraph_bench.results.store import to_json_lines
from spgraph_bench.runner.plan import Cell
from spgraph_bench.sweep.plan import Block
from spgraph_bench.sweep.station import Station
from spgraph_bench.timer import perf_counter

__all__ = ["Answer", "Group", "Probe", "close_station", "measure_group", "probe", "topic_of"]

_SAID_EVERY = 0.5
"""Seconds between two messages of what is being done."""


@dataclass(frozen=True)
class Group:
    """Blocks of one matrix: one task, so that they are measured by one worker, which reads the matrix once."""

    name: str
    """Of the task, unlike all others of the sweep."""
    sweep: str
    """The sweep's id, a new one in each session."""
    blocks: tuple[Block, ...]
    run_ids: Mapping[str, str]
    """By the block's key."""
    device: str
    """"host" or "cuda": the first GPU that the worker may use."""
    session: Mapping[str, Any] = field(default_factory=dict)
    """Further arguments of Station."""
    code: str = ""
    """Hash of the driver's code: a worker that joined later must run the same."""
    attempt: int = 1
    """How many workers had its first block, this one included."""

    @property
    def begun(self) -> list[str]:
        """Key of the scheduler's metadata that say who began it: ``worker``, a name, and ``process``, its id."""
        return ["spgraph", self.sweep, self.name]


@dataclass(frozen=True)
class Answer:
    """What came of a group."""

    by: str
    """Name of the worker that answers."""
    address: str
    lost_by: str = ""
    """The worker that had it before and is gone; then nothing was measured."""
    lost_process: int = 0
    """The id of that worker's process."""
    broken: str = ""
    """Why this worker's device cannot be used; what was not measured goes to others."""
    records: tuple[tuple[str, str, str], ...] = ()
    """(block's key, cell's key, the record as a line) of all cells."""


@dataclass(frozen=True)
class Probe:
    """What a worker is."""

    name: str
    """What tables call it: its name in the cluster, or a hash of its address."""
    version: str
    code: str
    info: Mapping[str, Any]
    """Its device, the fields of DeviceInfo."""
    error: str = ""
    """Why its device cannot be used."""

    def device(self) -> DeviceInfo:
        """The device that the probe describes."""
        return DeviceInfo(**dict(self.info))


def topic_of(sweep: str) -> str:
    """The topic of a sweep's events."""
    return f"spgraph-{sweep}"


class _UnwantedError(Exception):
    """Nothing waits for the task any more."""


_stations: dict[str, Station] = {}
"""The station of this process, by the device and the settings that it was opened with."""


def _station(device: str, session: Mapping[str, Any]) -> Station:
    key = json.dumps([device, dict(session)], sort_keys=True)
    if key not in _stations:
        close_station()
        _stations[key] = Station(device, **session)
    return _stations[key]


def close_station() -> None:
    """Give the device back."""
    while _stations:
        _, station = _stations.popitem()
        with contextlib.suppress(Exception):
            station.close()


def _name(worker: Worker) -> str:
    """The worker's name, unless it tells where it runs."""
    given = str(worker.name)
    return pseudonym("worker", worker.address) if ":" in given or "." in given else given


def probe(device: str, session: Mapping[str, Any]) -> Probe:
    """What the worker is that this runs on, its device opened."""
    name = _name(get_worker())
    try:
        info = asdict(_station(device, session).info())
        return Probe(name, __version__, code_hash(), info)
    except DeviceError as error:
        close_station()
        return Probe(name, __version__, code_hash(), {}, str(error.cause))


def measure_group(group: Group) -> Answer:
    """Measure all blocks of `group`.

    Dask gives a task whose worker died to another worker by itself. That one must not measure again what the driver has
    already: it finds in the scheduler's metadata that the task was begun, and says so.
    """
    worker, client = get_worker(), get_client()
    me = (_name(worker), worker.address)
    if code_hash() != group.code:
        return Answer(*me, broken=f"it runs other code (spgraph {__version__})")
    earlier = client.get_metadata(group.begun, default=None)
    if earlier:
        return Answer(*me, lost_by=str(earlier["worker"]), lost_process=int(earlier["process"]))
    client.set_metadata(group.begun, {"worker": me[0], "process": os.getpid()})
    topic = topic_of(group.sweep)
    records: list[tuple[str, str, str]] = []
    last_sent = 0.0

    def progress(text: str) -> None:
        nonlocal last_sent
        if (now := time.monotonic()) - last_sent > _SAID_EVERY:
            last_sent = now
            worker.log_event(topic, {"kind": "doing", "text": text})

    def check_wanted() -> None:
        # Dask drops a task whose driver is gone, but cannot stop it: the device would be held to the end of the group.
        task = worker.state.tasks.get(group.name)
        if task is None or task.state == "cancelled":
            raise _UnwantedError

    for block in group.blocks:
        started = perf_counter()

        def keep(cell: Cell, record: Record, block: Block = block) -> None:
            check_wanted()
            line = to_json_lines([record])
            records.append((block.key, block.cell_key(cell), line))
            worker.log_event(
                topic, {"kind": "record", "block": block.key, "cell": block.cell_key(cell), "line": line, "by": me[0]}
            )

        try:
            check_wanted()
            station = _station(group.device, group.session)
            station.measure(block, group.run_ids[block.key], keep, progress)
        except DeviceError as error:
            close_station()
            return Answer(*me, broken=str(error.cause), records=tuple(records))
        except _UnwantedError:
            return Answer(*me, records=tuple(records))
        seconds = perf_counter() - started
        worker.log_event(topic, {"kind": "ended", "block": block.key, "seconds": seconds, "by": me[0]})
    return Answer(*me, records=tuple(records))
