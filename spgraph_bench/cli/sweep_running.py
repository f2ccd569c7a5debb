"""Running a sweep: the device or the workers, the plan, the file of records, and what goes through them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from spgraph_bench.cli.sweep_messages import Lines, exit_status, records_of, summarise
from spgraph_bench.cli.terminal import note, warn
from spgraph_bench.errors import DeviceError, InputError
from spgraph_bench.paths import results_folder
from spgraph_bench.units import quantity

if TYPE_CHECKING:
    from spgraph_bench.results.record import Record
    from spgraph_bench.sweep.config import Entry
    from spgraph_bench.sweep.journal import Journal
    from spgraph_bench.sweep.local import Ended
    from spgraph_bench.sweep.plan import Plan

__all__ = ["CrewOptions", "SweepRequest", "chosen_device", "device_of", "plan_of", "sweep"]


_MUCH = 2 << 30
"""Bytes of files that take a while to hash: about a second for each GB."""


@dataclass(frozen=True)
class CrewOptions:
    """Which workers measure: GPUs or processes of this machine, or those of a Dask cluster that there is already."""

    gpus: str = ""
    """"all" or "0,1"."""
    workers: int = 0
    scheduler: str = ""
    """Its address."""
    threads: int | None = None
    tls: tuple[str, str, str] = ("", "", "")
    insecure: bool = False


@dataclass(frozen=True)
class SweepRequest:
    """What is to be swept, and how."""

    entries: Sequence[Entry]
    name: str
    """Of the file of records, ``sweep-NAME.jsonl``."""
    output: Path | None = None
    """The file of records; None: made of `name`, in `results`."""
    results: Path = field(default_factory=results_folder)
    save: bool = True
    again: str = ""
    """"all": measure what is in the file anew; "failed": what failed; "whole": anew where nothing is left to do."""
    device: str = "auto"
    json: bool = False
    station: Mapping[str, Any] = field(default_factory=dict)
    """Further arguments of ``Session``: in_process, watchdog, gate, seed, limits_of."""
    limits: Mapping[Literal["pending_launches", "malloc_heap_bytes"], int] = field(default_factory=dict)
    crew: CrewOptions | None = None
    """Where several workers measure; None: this process, one cell after another."""


def sweep(request: SweepRequest, show: Callable[[Sequence[Record]], None] | None = None) -> int:
    """Measure what the file does not have yet, then say what there is; the exit status.

    `show` gets the records of the whole plan in place of the summary.
    """
    from spgraph_bench.sweep.estimate import TimeLeft, quick_estimate
    from spgraph_bench.sweep.journal import Journal

    device = device_of(request)
    plan = plan_of(request, device)
    path = (request.output or request.results / f"sweep-{request.name}.jsonl") if request.save else None
    kind = device.partition(":")[0]
    with _executor(request, device) as executor:
        again = request.again
        if again == "whole":
            again = "all" if path is not None and _is_whole(path, plan, executor.devices) else ""
        with Journal(path, again, warn) as journal:
            left = [block for whole in plan.blocks if (block := whole.without(journal.has(executor.devices)))]
            _say_start(plan, journal, left, executor)
            timer = TimeLeft([quick_estimate(block, kind) for block in left], executor.count)
            try:
                with Lines() as lines:

                    def ended(end: Ended) -> None:
                        timer.ended(end.block.key, end.seconds)
                        lines.ended(end, timer.seconds)
                        if request.json:
                            _print_json(end.records)

                    executor.go(plan, journal, ended, lines)
            except (KeyboardInterrupt, DeviceError):
                note("stopped; the same command goes on from here" if path else "stopped")
                raise
            finally:
                if path is not None and journal.done:
                    note(f"records in {path}; `spgraph report {path} -o report.html` shows them")
                if show is not None:
                    show(records_of(plan, journal))
                elif not request.json:
                    summarise(plan, journal)
            return exit_status(plan, journal)


@dataclass(frozen=True)
class _Executor:
    """What measures: this process, or several workers."""

    devices: set[str]
    """Names of its devices."""
    count: int
    go: Callable[[Plan, Journal, Callable[[Ended], None], Lines], None]


@contextmanager
def _executor(request: SweepRequest, device: str) -> Iterator[_Executor]:
    """This process's own station, or a crew of workers."""
    if request.crew is None:
        from spgraph_bench.sweep.local import sweep_locally
        from spgraph_bench.sweep.station import Station

        with Station(device, **request.station) as station:
            yield _Executor(
                {station.info().name},
                1,
                lambda plan, journal, ended, lines: sweep_locally(plan, journal, station, ended, lines.doing),
            )
        return
    from spgraph_bench.sweep.cluster import sweep_on_cluster
    from spgraph_bench.sweep.connecting import Tls, connected
    from spgraph_bench.sweep.local_cluster import gpu_environments, local_crew

    options = request.crew
    session = {name: value for name, value in request.station.items() if name != "in_process"}
    if options.scheduler:
        crew_context = connected(
            options.scheduler, device, session, Tls(*options.tls), insecure=options.insecure, warn=warn
        )
    else:
        environments = gpu_environments(options.gpus) if options.gpus else [{}] * options.workers
        crew_context = local_crew(environments, device, session, options.threads, warn)
    with crew_context as crew:
        count = len(crew.probes)
        note(quantity(count, "worker"))
        yield _Executor(
            crew.devices,
            count,
            lambda plan, journal, ended, lines: sweep_on_cluster(
                plan, journal, crew, ended, lines.doing, lines.warning
            ),
        )


def device_of(request: SweepRequest) -> str:
    """The device that cells are measured on; of workers the kind alone."""
    if request.crew is None:
        return chosen_device(request.device)
    if request.crew.workers:
        return "host"
    return "cuda" if request.device == "auto" else request.device


def chosen_device(wanted: str) -> str:
    """The device that `wanted` means on this machine; warns and notes what is odd about it."""
    from spgraph_bench.device.probe import choose_device

    choice = choose_device(wanted)
    if choice.warning:
        warn(choice.warning)
    if choice.note:
        note(choice.note)
    return choice.name


def plan_of(request: SweepRequest, device: str) -> Plan:
    """The plan of the request, files with their digests; warns of what cannot be read, which becomes records."""
    from spgraph_bench.sweep.config import digested
    from spgraph_bench.sweep.inputs import Input
    from spgraph_bench.sweep.plan import make_plan
    from spgraph_bench.units import human_bytes

    def unreadable(given: Input, error: InputError) -> None:
        warn(f"{error.place}: {error.cause}; its cells will be records that say so")

    files = {each.text: each.bytes for entry in request.entries for each in entry.inputs if each.kind == "file"}
    if (total := sum(files.values())) > _MUCH:
        note(f"hashing {len(files):,} files, {human_bytes(total)}, by which cells are known")
    plan = make_plan(digested(request.entries, unreadable), device.partition(":")[0], request.limits)
    if plan.repeated:
        note(f"{plan.repeated:,} cells are asked for more than once, and measured once")
    return plan


def _is_whole(path: Path, plan: Plan, devices: set[str]) -> bool:
    from spgraph_bench.sweep.journal import Journal

    if not path.exists():
        return False
    with Journal(path) as journal:
        done = journal.has(devices)
    return all(block.without(done) is None for block in plan.blocks)


def _say_start(plan: Plan, journal: Journal, left: Sequence[Any], executor: _Executor) -> None:
    from spgraph_bench.provenance import code_hash

    cells = sum(len(block.cells) for block in left)
    device = ", ".join(sorted(executor.devices))
    if not journal.done:
        note(f"{quantity(cells, 'cell')} in {quantity(len(left), 'block')} (a matrix and a problem each) on {device}")
        return
    known = {block.cell_key(cell) for block in plan.blocks for cell in block.cells}
    there = [done for done in journal.done.values() if done.cell in known]
    others = {done.device for done in there} - executor.devices
    note(f"{len(there):,} cells are in {journal.path} already, {cells:,} are left")
    if not left:
        note("nothing is left to do; --again all measures everything anew")
    if others:
        warn(f"the file also has records of {', '.join(sorted(others))}: they are not compared with those of {device}")
    if any(done.code != code_hash() for done in there):
        warn("some of them were measured by another version of spgraph: --again all measures everything anew")


def _print_json(records: Sequence[Record]) -> None:
    from spgraph_bench.results.store import to_json_lines
    from spgraph_bench.results.tidy import derived

    click.echo(to_json_lines(records, derived(records)), nl=False)
