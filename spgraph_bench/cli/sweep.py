"""`spgraph sweep CONFIG|FILES...`: many matrices x problems x variants x types, into one file, resumable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from spgraph_bench.cli import completing
from spgraph_bench.cli.options import (
    THREADS,
    ParameterType,
    PathParam,
    Positive,
    baseline_seconds_option,
    device_option,
    input_options,
    json_option,
    limit_threads,
    min_samples_option,
    params_option,
    warmup_option,
)
from spgraph_bench.cli.sweep_dry_run import dry_run
from spgraph_bench.cli.sweep_running import CrewOptions, SweepRequest, sweep
from spgraph_bench.cli.terminal import console, out, out_json, table
from spgraph_bench.errors import UsageError
from spgraph_bench.parameters import Parameter

if TYPE_CHECKING:
    from spgraph_bench.readers.common import ReadOptions
    from spgraph_bench.sweep.config import Entry

__all__ = ["command"]


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
@baseline_seconds_option
@click.option(
    "-o",
    "--output",
    type=PathParam(dir_okay=False),
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
    type=ParameterType(THREADS),
    metavar="N",
    help="Threads on the host at most [default: all cores]; of each worker, which is pinned to as many [default: an "
    "equal share].",
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
    from spgraph_bench.sweep.config import find_config, name_of

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
        name = name_of(entries)
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
    if given["threads"] is not None and ways == ["scheduler"]:
        raise UsageError("--threads is for workers of this machine", remedy="omit it")
    if not ways:
        if given["threads"] is not None:
            limit_threads(given["threads"])
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
    names = ("time_limit", "min_samples", "warmup", "baseline_seconds")
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
        **{name: given[name] for name in ("min_samples", "warmup", "baseline_seconds") if given[name] is not None},
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
