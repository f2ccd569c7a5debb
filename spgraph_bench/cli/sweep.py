"""`spgraph sweep CONFIG|FILES...`: many matrices x problems x variants x types, into one file, resumable."""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from spgraph_bench.cli import completing
from spgraph_bench.cli.options import (
    ParameterType,
    Positive,
    device_option,
    input_options,
    json_option,
    min_samples_option,
    params_option,
    warmup_option,
)
from spgraph_bench.cli.terminal import console, note, out, out_json, say, table, warn
from spgraph_bench.errors import DeviceError, InputError, NothingRanError, UsageError
from spgraph_bench.parameters import Parameter
from spgraph_bench.paths import results_folder

if TYPE_CHECKING:
    from spgraph_bench.readers.common import ReadOptions
    from spgraph_bench.results.record import Record
    from spgraph_bench.sweep.config import Entry
    from spgraph_bench.sweep.journal import Done, Journal
    from spgraph_bench.sweep.local import Ended
    from spgraph_bench.sweep.plan import Plan

__all__ = ["SweepRequest", "command", "dry_run", "sweep", "sweep_name"]

_LONGEST_TABLE = 60
"""Rows of the summary; of a longer sweep only what went wrong is listed."""


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
    """Further arguments of ``Session``: in_process, watchdog, gate, seed."""
    limits: Mapping[Literal["pending_launches", "malloc_heap_bytes"], int] = field(default_factory=dict)
    crew: CrewOptions | None = None
    """Where several workers measure; None: this process, one cell after another."""


# ---- the command ------------------------------------------------------------------------------------------------


@click.command("sweep")
@click.argument("what", nargs=-1, metavar="CONFIG|FILES...", shell_complete=completing.configs_and_inputs)
@click.option("--list", "listing", is_flag=True, help="List the configs that come with spgraph.")
@click.option("--show", is_flag=True, help="Print the config, and run nothing.")
@click.option("--dry-run", is_flag=True, help="Show cells, estimated time and memory, and what will be refused.")
@click.option(
    "--problem",
    "problems",
    multiple=True,
    metavar="NAME",
    shell_complete=completing.problems,
    help="Problems [default: spmv, or the config's].",
)
@click.option(
    "--variant",
    "variants",
    multiple=True,
    metavar="GLOB",
    shell_complete=completing.variants,
    help="Only these variants.",
)
@click.option(
    "--format", "formats", multiple=True, metavar="GLOB", shell_complete=completing.formats, help="Only these formats."
)
@click.option("--dtype", "dtypes", multiple=True, metavar="TYPE", help="Types of values (repeatable).")
@click.option(
    "--reorder", "orders", multiple=True, metavar="ORDER", help="Order of rows and columns: none, degree, rcm."
)
@click.option(
    "--option",
    "own",
    multiple=True,
    metavar="NAME=VALUE",
    help="An option of the problem, k=32; given twice, both are measured.",
)
@params_option
@click.option("--force-format", is_flag=True, help="Pack even if a format wastes memory.")
@device_option
@click.option(
    "--time-limit", type=Positive(), metavar="SECONDS", help="Stop sampling a variant after this long [default: 0.25]."
)
@min_samples_option
@warmup_option
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="File of the records [default: sweep-NAME.jsonl in the folder of records].",
)
@click.option(
    "--again",
    type=click.Choice(["all", "failed"]),
    help="Measure cells again that FILE already has: all (FILE is moved aside), or those that failed or were wrong.",
)
@click.option(
    "--watchdog",
    type=Positive(),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="Stop a variant that does not answer within this time.",
)
@click.option("--in-process", is_flag=True, help="No worker, no watchdog: for profilers and sanitizers.")
@click.option("--gpus", default="", metavar="all|0,1,...", help="Sweep on these GPUs, a worker process each.")
@click.option(
    "--workers",
    type=ParameterType(Parameter(1, "", between=(1, 1024))),
    default=None,
    metavar="N",
    help="Sweep with N worker processes on the host device.",
)
@click.option("--scheduler", default="", metavar="ADDRESS", help="Sweep on a Dask cluster; see docs/cluster.md.")
@click.option(
    "--threads",
    type=ParameterType(Parameter(1, "", between=(1, 4096))),
    metavar="N",
    help="Cores of each worker, to which it is pinned [default: an equal share].",
)
@click.option("--tls-ca", default="", metavar="FILE", help="Certificate of the authority, for --scheduler tls://.")
@click.option("--tls-cert", default="", metavar="FILE", help="Certificate of this client.")
@click.option("--tls-key", default="", metavar="FILE", help="Its key.")
@click.option("--insecure", is_flag=True, help="Use a scheduler on another host without encryption.")
@input_options
@json_option
def command(what: tuple[str, ...], listing: bool, show: bool, as_json: bool, **given: Any) -> int:
    """Measure many matrices x problems x variants x types. Records go to one file, each as its cell ends; the same
    command resumes a sweep that was stopped.

    CONFIG is a file (.toml) or one of those that --list shows. FILES are files, folders, globs, names in collections
    (HB/1138_bus) and recipes, whose parameters may be ranges: 2^5..2^8 doubles, 10..14 counts, 100..500:+100 adds,
    10..1000:x10 multiplies.

    \b
      spgraph sweep small --dry-run
      spgraph sweep full -o full.jsonl
      spgraph sweep matrices/ 'poisson2d:n=2^5..2^8' --problem spmv --problem bfs
    """
    if listing:
        return _list(what, as_json)
    if not what:
        raise UsageError("there is nothing to sweep", remedy="name files, or a config: `spgraph sweep --list`")
    from spgraph_bench.sweep.config import find_config

    path = find_config(what[0])
    if path is None and any(find_config(text) for text in what):
        raise UsageError("a config names its own matrices", remedy="sweep a config, or files, not both")
    if path is not None:
        if len(what) > 1:
            raise UsageError("one config at a time", remedy=f"omit {what[1]!r}")
        if show:
            out(path.read_text(encoding="utf-8", errors="replace"))
            return 0
        entries, name = _of_config(path, given), path.stem
    elif show:
        raise UsageError(f"{what[0]!r} is not a config", remedy="`spgraph sweep --list` names them")
    else:
        entries = _of_files(what, given)
        name = sweep_name(entries)
    request = SweepRequest(
        entries,
        name,
        output=given["output"],
        again=given["again"] or "",
        device=given["device"],
        json=as_json,
        station={"in_process": given["in_process"], "watchdog": given["watchdog"]},
        crew=_crew_options(given),
    )
    return dry_run(request) if given["dry_run"] else sweep(request)


def _crew_options(given: Mapping[str, Any]) -> CrewOptions | None:
    """Which workers were asked for. Raises UsageError for options that exclude each other."""
    ways = [flag for flag in ("gpus", "workers", "scheduler") if given[flag]]
    tls = (given["tls_ca"], given["tls_cert"], given["tls_key"])
    if len(ways) > 1:
        raise UsageError(f"--{ways[0]} and --{ways[1]} are two ways to sweep", remedy="give one of them")
    if (any(tls) or given["insecure"]) and ways != ["scheduler"]:
        raise UsageError(
            "TLS options are for --scheduler", remedy="omit them: workers here have certificates of their own"
        )
    if given["threads"] is not None and ways in ([], ["scheduler"]):
        raise UsageError("--threads is for --gpus and --workers", remedy="omit it")
    if not ways:
        return None
    if given["in_process"]:
        raise UsageError(f"--in-process does without workers, --{ways[0]} asks for them", remedy="omit one of them")
    kind = given["device"].partition(":")
    if kind[1] or (ways == ["gpus"] and kind[0] == "host") or (ways == ["workers"] and kind[0] == "cuda"):
        raise UsageError(f"--{ways[0]} does not go with --device {given['device']}", remedy="omit --device")
    return CrewOptions(
        given["gpus"].strip(),
        given["workers"] or 0,
        given["scheduler"].strip(),
        given["threads"],
        tls,
        given["insecure"],
    )


def _list(what: Sequence[str], as_json: bool) -> int:
    from spgraph_bench.cli.listing import rows_of

    if what:
        raise UsageError("--list takes no names", remedy=f"`spgraph sweep {what[0]} --show` prints a config")
    rows = rows_of("configs")
    if as_json:
        out_json(rows)
        return 0
    target = console()
    drawn = table(target, "config", "runs", "about")
    for row in rows:
        drawn.add_row(row["name"], str(row["runs"]), row["about"])
    target.print(drawn)
    return 0


def _of_config(path: Path, given: Mapping[str, Any]) -> list[Entry]:
    """The entries of the config, with what the command line changes."""
    from spgraph_bench.readers.common import ReadOptions
    from spgraph_bench.sweep.config import narrowed, read_config

    read: ReadOptions = given["read_options"]
    for flag, value in (
        ("--reorder", given["orders"]),
        ("--option", given["own"]),
        ("--param", given["params"]),
        ("--force-format", given["force_format"]),
        ("options of reading", read != ReadOptions(seed=read.seed)),
    ):
        if value:
            raise UsageError(f"{flag}: a config says this itself", remedy=f"write it into a copy of {path.name}")
    entries = narrowed(
        read_config(path).entries, given["problems"], given["variants"], given["formats"], given["dtypes"]
    )
    names = ("time_limit", "min_samples", "warmup")
    changed = {name: given[name] for name in names if given[name] is not None}
    if read.seed != ReadOptions().seed:
        changed["seed"] = read.seed
    return [replace(entry, **changed) for entry in entries]


def _of_files(what: Sequence[str], given: Mapping[str, Any]) -> list[Entry]:
    """The entries that the command line means, by the same rules as a config's."""
    from spgraph_bench.problems import get_problem, problems
    from spgraph_bench.sweep.config import entries_of

    def fail(cause: str, key: str | None, value: object, remedy: str) -> UsageError:
        return UsageError(cause, remedy=remedy)

    names = given["problems"] or ("spmv",)
    read: ReadOptions = given["read_options"]
    own: dict[str, list[str]] = {}
    valid = all(name in problems() for name in names)
    known = {option for name in names if name in problems() for option in get_problem(name).options}
    for text in given["own"]:
        key, equals, value = (part.strip() for part in text.partition("="))
        if not (key and equals and value) or (valid and key.replace("-", "_") not in known):
            raise UsageError(
                f"--option {text}: not NAME=VALUE with an option of {', '.join(names)}",
                remedy=f"options are {', '.join(sorted(known))}" if known else "it has none",
            )
        own.setdefault(key.replace("-", "_"), []).append(value)
    keys: dict[str, Any] = {
        "problem": list(names),
        "matrix": list(what),
        "variant": list(given["variants"]),
        "format": list(given["formats"]),
        "dtype": ["float32", "float64"] if given["dtypes"] == ("both",) else list(given["dtypes"]),
        "reorder": list(given["orders"]),
        "param": dict(given["params"]),
        "force_format": given["force_format"],
        "seed": read.seed,
        "time_limit": given["time_limit"] if given["time_limit"] is not None else 0.25,
        **{name: given[name] for name in ("min_samples", "warmup") if given[name] is not None},
        **own,
    }
    return [
        replace(entry, inputs=tuple(_read_with(each, read, entry) for each in entry.inputs))
        for entry in entries_of(keys, None, fail)
    ]


def _read_with(given: Any, read: ReadOptions, entry: Entry) -> Any:
    """The input, read by the options of the command line."""
    from spgraph_bench.problems import get_problem
    from spgraph_bench.readers.common import ReadOptions

    if given.kind in ("file", "collection"):
        return replace(given, read=replace(read, parallel=get_problem(entry.problem).parallel))
    if given.kind == "recipe" and read != ReadOptions(seed=read.seed):
        raise UsageError(
            f"options of reading do not apply to the recipe {given.text.partition(':')[0]}",
            remedy="give files only, or set the recipe's own parameters (`spgraph list recipes`)",
        )
    return given


def sweep_name(entries: Sequence[Entry]) -> str:
    """What the file of a sweep without a config is called: the same for the same command line."""
    settings = [
        [e.problem, [i.text for i in e.inputs], list(e.variants), list(e.dtypes), dict(e.options), dict(e.params)]
        for e in entries
    ]
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True, default=str).encode("utf-8", "replace")).hexdigest()
    return f"{'-'.join(dict.fromkeys(e.problem for e in entries))}-{digest[:8]}"


# ---- running ----------------------------------------------------------------------------------------------------


def sweep(request: SweepRequest, show: Callable[[Sequence[Record]], None] | None = None) -> int:
    """Measure what the file does not have yet, then say what there is; the exit status.

    `show` gets the records of the whole plan in place of the summary.
    """
    from spgraph_bench.sweep.estimate import TimeLeft, quick_estimate
    from spgraph_bench.sweep.journal import Journal

    device = _device_of(request)
    plan = _plan(request, device)
    path = (request.output or request.results / f"sweep-{request.name}.jsonl") if request.save else None
    kind = device.partition(":")[0]
    with _force(request, device) as force:
        again = request.again
        if again == "whole":
            again = "all" if path is not None and _is_whole(path, plan, force.devices) else ""
        with Journal(path, again, warn) as journal:
            left = [block for whole in plan.blocks if (block := whole.without(journal.has(force.devices)))]
            _say_start(plan, journal, left, force)
            timer = TimeLeft([quick_estimate(block, kind) for block in left], force.count)
            try:
                with _Lines() as lines:

                    def ended(end: Ended) -> None:
                        timer.ended(end.block.key, end.seconds)
                        lines.ended(end, timer.seconds)
                        if request.json:
                            _print_json(end.records)

                    force.go(plan, journal, ended, lines)
            except (KeyboardInterrupt, DeviceError):
                note("stopped; the same command goes on from here" if path else "stopped")
                raise
            finally:
                if path is not None and journal.done:
                    note(f"records in {path}; `spgraph report {path} -o report.html` shows them")
                if show is not None:
                    show(_records_of(plan, journal))
                elif not request.json:
                    _summarise(plan, journal)
            return _status(plan, journal)


@dataclass(frozen=True)
class _Force:
    """What measures."""

    devices: set[str]
    """Names of its devices."""
    count: int
    go: Callable[[Plan, Journal, Callable[[Ended], None], _Lines], None]


@contextmanager
def _force(request: SweepRequest, device: str) -> Iterator[_Force]:
    """This process's own station, or a crew of workers."""
    if request.crew is None:
        from spgraph_bench.sweep.local import sweep_locally
        from spgraph_bench.sweep.station import Station

        with Station(device, **request.station) as station:
            yield _Force(
                {station.info().name},
                1,
                lambda plan, journal, ended, lines: sweep_locally(plan, journal, station, ended, lines.doing),
            )
        return
    from spgraph_bench.sweep import cluster

    options = request.crew
    session = {name: value for name, value in request.station.items() if name != "in_process"}
    if options.scheduler:
        crew_context = cluster.connected(
            options.scheduler, device, session, cluster.Tls(*options.tls), insecure=options.insecure, told=warn
        )
    else:
        environments = cluster.gpu_environments(options.gpus) if options.gpus else [{}] * options.workers
        crew_context = cluster.local_crew(environments, device, session, options.threads)
    with crew_context as crew:
        count = len(crew.probes)
        note(f"{count} worker{'s' if count > 1 else ''}")
        yield _Force(
            crew.devices,
            count,
            lambda plan, journal, ended, lines: cluster.sweep_on_cluster(
                plan, journal, crew, ended, lines.doing, lines.warning
            ),
        )


def _device_of(request: SweepRequest) -> str:
    """The device that cells are measured on; of workers the kind alone."""
    if request.crew is None:
        return _device(request.device)
    if request.crew.workers:
        return "host"
    return "cuda" if request.device == "auto" else request.device


def _device(asked: str) -> str:
    from spgraph_bench.device.probe import choose_device

    choice = choose_device(asked)
    if choice.warning:
        warn(choice.warning)
    if choice.note:
        note(choice.note)
    return choice.name


def _plan(request: SweepRequest, device: str) -> Plan:
    from spgraph_bench.sweep.config import digested
    from spgraph_bench.sweep.inputs import Input
    from spgraph_bench.sweep.plan import make_plan

    def unreadable(given: Input, error: InputError) -> None:
        warn(f"{error.place}: {error.cause}; its cells will be records that say so")

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


def _say_start(plan: Plan, journal: Journal, left: Sequence[Any], force: _Force) -> None:
    from spgraph_bench.provenance import code_hash

    cells = sum(len(block.cells) for block in left)
    device = ", ".join(sorted(force.devices))
    if not journal.done:
        note(f"{cells:,} cells in {len(left):,} blocks (a matrix and a problem each) on {device}")
        return
    known = {block.cell_key(cell) for block in plan.blocks for cell in block.cells}
    there = [done for done in journal.done.values() if done.cell in known]
    others = {done.device for done in there} - force.devices
    note(f"{len(there):,} cells are in {journal.path} already, {cells:,} are left")
    if not left:
        note("nothing is left to do; --again all measures everything anew")
    if others:
        warn(f"the file also has records of {', '.join(sorted(others))}: they are not compared with those of {device}")
    if any(done.code != code_hash() for done in there):
        warn("some of them were measured by another version of spgraph: --again all measures everything anew")


class _Lines:
    """What is told on stderr: a line for each block that has ended, and in a terminal what is being done."""

    def __init__(self) -> None:
        self._console = console(stderr=True) if sys.stderr.isatty() else None
        self._status = self._console.status("starting") if self._console else None
        self._shown = 0.0
        self._left = ""

    def __enter__(self) -> _Lines:
        if self._status is not None:
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._status is not None:
            self._status.stop()

    def doing(self, text: str) -> None:
        if self._status is not None and (now := time.monotonic()) - self._shown > 0.1:
            from rich.text import Text

            self._shown = now
            self._status.update(Text(f"{text}{self._left}"))

    def warning(self, text: str) -> None:
        """Say that something is not as it should be, while the sweep goes on."""
        self._say(f"warning: {text}")

    def ended(self, end: Ended, seconds_left: float) -> None:
        counts = _counts(record.status for record in end.records)
        self._left = f" ({_duration(seconds_left)} left)" if seconds_left >= 0.5 else ""
        took = f" in {end.seconds:.1f} s" if end.seconds else ""
        where = f" on worker {end.worker}" if end.worker else ""
        self._say(f"{end.block.title}: {counts}{took}{where}{self._left}")

    def _say(self, text: str) -> None:
        if self._console is None:
            say(text)
        else:
            from rich.text import Text

            self._console.print(Text(text))


def _counts(statuses: Iterator[str] | Sequence[str]) -> str:
    listed = list(statuses)
    parts = [f"{listed.count(s):,} {s}" for s in ("ok", "skipped", "failed", "wrong") if s in listed]
    return ", ".join(parts) or "nothing"


def _duration(seconds: float) -> str:
    """ "40 s", "12 min", "3 h 20 min"."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def _print_json(records: Sequence[Record]) -> None:
    from spgraph_bench.results.store import to_json_lines
    from spgraph_bench.results.tidy import derived

    click.echo(to_json_lines(records, derived(records)), nl=False)


def _done_cells(plan: Plan, journal: Journal) -> list[Done]:
    """What the journal has of this plan, in its order."""
    by_cell: dict[str, list[Done]] = {}
    for done in journal.done.values():
        by_cell.setdefault(done.cell, []).append(done)
    return [done for block in plan.blocks for cell in block.cells for done in by_cell.get(block.cell_key(cell), ())]


def _records_of(plan: Plan, journal: Journal) -> list[Record]:
    from spgraph_bench.results.store import read_records

    known = {block.cell_key(cell) for block in plan.blocks for cell in block.cells}
    records = read_records(journal.path) if journal.path is not None and journal.done else journal.records
    return [record for record in records if record.sweep.get("cell") in known]


def _summarise(plan: Plan, journal: Journal) -> None:
    """On stdout: a line for each table, what failed, and the totals."""
    groups: dict[tuple[str, str, str, str, str], list[Done]] = {}
    for done in _done_cells(plan, journal):
        block_key = done.cell.partition("/")[0]
        groups.setdefault((done.matrix, done.problem, done.dtype, done.device, block_key), []).append(done)
    if not groups:
        return
    if len(groups) <= _LONGEST_TABLE:
        _draw(plan, groups)
    bad = [done for cells in groups.values() for done in cells if done.status in ("failed", "wrong")]
    reasons: dict[tuple[str, str, str, str], list[str]] = {}
    for done in bad:
        reasons.setdefault((done.status, done.problem, done.matrix, done.reason), []).append(done.variant)
    for (status, problem, matrix, reason), names in list(reasons.items())[:_LONGEST_TABLE]:
        some = ", ".join(dict.fromkeys(names)) if len(names) < 4 else f"{len(names)} cells"
        out(f"{status}: {problem} {matrix}, {some}: {' '.join(reason.split())}")
    everything = [done.status for cells in groups.values() for done in cells]
    out(f"{len(everything):,} of {plan.cells:,} cells: {_counts(everything)}")


def _draw(plan: Plan, groups: Mapping[tuple[str, str, str, str, str], Sequence[Done]]) -> None:
    from rich.text import Text

    options = {block.key: ", ".join(f"{k} {v}" for k, v in block.options.items()) for block in plan.blocks}
    target = console()
    drawn = table(target, "matrix", "problem", "type", "options", "fastest", "ms", "ok", "skipped", "bad")
    for column in drawn.columns[5:]:
        column.justify = "right"
    for (matrix, problem, dtype, _, key), cells in groups.items():
        timed = [done for done in cells if done.median_ms is not None and done.status == "ok"]
        best = min(timed, key=lambda done: done.median_ms or 0.0, default=None)
        statuses = [done.status for done in cells]
        texts = [
            matrix,
            problem,
            dtype,
            options.get(key, ""),
            best.variant if best else "",
            f"{best.median_ms:.4g}" if best else "",
            *(f"{statuses.count(status):,}" for status in ("ok", "skipped")),
            f"{statuses.count('failed') + statuses.count('wrong'):,}",
        ]
        drawn.add_row(*(Text(text) for text in texts))
    target.print(drawn)


def _status(plan: Plan, journal: Journal) -> int:
    """1 where something failed or was wrong. Raises NothingRanError where all was skipped."""
    statuses = {done.status for done in _done_cells(plan, journal)}
    if statuses & {"failed", "wrong"}:
        return 1
    if statuses and "ok" not in statuses:
        raise NothingRanError("nothing ran: every cell was skipped", remedy="`--dry-run` shows the reasons")
    return 0


# ---- without running --------------------------------------------------------------------------------------------

_LARGEST_LOOK = 400 << 20
"""Bytes of a matrix that --dry-run reads; larger ones are estimated from their size alone."""


def dry_run(request: SweepRequest) -> int:
    """Print what a sweep would do: cells, seconds, bytes and refusals of each block; the exit status."""
    from spgraph_bench.errors import SpgraphError
    from spgraph_bench.sweep import estimate as rules
    from spgraph_bench.sweep.station import Station

    device = _device("auto" if request.crew is not None else request.device)
    plan = _plan(request, device)
    kind = device.partition(":")[0]
    estimates: list[rules.Estimate] = []
    with Station(device, **request.station) as station, _Lines() as lines:
        memory = station.info().memory_bytes if kind == "cuda" else None
        missing: dict[str, dict[str, str]] = {}
        for block in plan.blocks:
            if block.problem not in missing:
                missing[block.problem] = station.missing(block.problem, [v.name for v in block.variants])
            lines.doing(block.title)
            if rules.bytes_to_read(block) > _LARGEST_LOOK or block.input.kind == "collection":
                estimates.append(rules.quick_estimate(block, kind))
                continue
            try:
                matrix = station.matrix(block, lines.doing)
                estimates.append(rules.estimate(block, matrix, kind, memory, missing[block.problem]))
            except SpgraphError as error:
                estimates.append(
                    rules.failed_estimate(block, f"{error.place}: {error.cause}" if error.place else error.cause)
                )
    if request.json:
        out_json([_estimate_json(each) for each in estimates])
    else:
        _show_estimates(plan, estimates)
    return 0


def _estimate_json(each: Any) -> dict[str, Any]:
    return {
        "problem": each.block.problem,
        "matrix": each.block.input.name,
        "options": dict(each.block.options),
        "cells": [cell.key for cell in each.block.cells],
        "entries": each.entries,
        "seconds": round(each.seconds, 3),
        "host_bytes": each.host_bytes,
        "device_bytes": each.device_bytes,
        "looked": each.looked,
        "refused": {why: list(keys) for why, keys in each.refused.items()},
        "error": each.error,
    }


def _show_estimates(plan: Plan, estimates: Sequence[Any]) -> None:
    from rich.text import Text

    from spgraph_bench.sweep.estimate import schedule
    from spgraph_bench.units import human_bytes

    target = console()
    drawn = table(target, "matrix", "problem", "cells", "refused", "time", "each", "host", "device")
    for column in drawn.columns[2:]:
        column.justify = "right"
    for each in estimates:
        refused = sum(map(len, each.refused.values()))
        running = len(each.block.cells) - refused
        texts = [
            each.block.input.name,
            each.block.title.replace(f" {each.block.input.name}", "", 1) if each.block.input.name else each.block.title,
            f"{len(each.block.cells):,}",
            "all" if each.error else f"{refused:,}" if each.looked else "?",
            _short(each.seconds),
            _short(each.seconds / max(1, running)),
            human_bytes(each.host_bytes),
            human_bytes(each.device_bytes),
        ]
        drawn.add_row(*(Text(text) for text in texts))
    target.print(drawn)
    reasons: dict[tuple[str, str], list[str]] = {}
    for each in estimates:
        if each.error:
            out(f"will not run: {each.block.title}: {each.error}")
        for why, keys in each.refused.items():
            skipped = ", ".join(dict.fromkeys(key.partition("/")[0] for key in keys))
            reasons.setdefault((skipped, why), []).append(each.block.title)
    for (names, why), titles in reasons.items():
        some = ", ".join(titles[:3]) + (f" and {len(titles) - 3} more" if len(titles) > 3 else "")
        out(f"will skip {names}: {' '.join(why.split())} ({some})")
    if any(not each.looked for each in estimates):
        note("?: the matrix is large and was not read; what its formats refuse shows when it is measured")
    total = schedule(estimates, 1)
    out(
        f"{plan.cells:,} cells in {len(plan.blocks):,} blocks; about {_duration(total)} on one device, "
        f"{_duration(schedule(estimates, 2))} on 2, {_duration(schedule(estimates, 8))} on 8"
    )


def _short(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds < 10 else _duration(seconds)
