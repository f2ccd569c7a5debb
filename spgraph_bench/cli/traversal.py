"""What the commands of traversals share: options of sources, and running modes with their settings."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click

from spgraph_bench.cli.inputs import load_matrix
from spgraph_bench.cli.keeping import kept_records
from spgraph_bench.cli.options import RunOptions
from spgraph_bench.cli.terminal import note, warn
from spgraph_bench.errors import NothingRanError, UsageError

if TYPE_CHECKING:
    from spgraph_bench.readers.common import ReadOptions
    from spgraph_bench.results.record import Record

__all__ = [
    "DEFAULT_RECIPE",
    "SOURCES",
    "ModeName",
    "problem_options",
    "run_modes",
    "source_options",
    "statuses",
]

DEFAULT_RECIPE = {"cuda": "rmat:scale=18,symmetrize=1", "host": "rmat:scale=10,symmetrize=1"}
SOURCES = {"cuda": 64, "host": 4}
"""Sources where none are asked for; emulated kernels are slow, and their times are not taken."""


class ModeName(click.ParamType[str]):
    """A variant of a problem, ours or a library's."""

    name = "mode"

    def __init__(self, problem: str) -> None:
        self._problem = problem

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from spgraph_bench.variants import variants

        known = [v.name for v in variants(self._problem)]
        if value not in known:
            close = difflib.get_close_matches(value, known, n=1)
            hint = f" Did you mean {close[0]}?" if close else ""
            self.fail(f"{value!r} is none of {', '.join(known)}.{hint}", param, ctx)
        return str(value)


_OPTIONS = (
    click.option("--source", type=click.IntRange(min=0), metavar="VERTEX", help="Start from this vertex."),
    click.option(
        "--sources", "count", type=click.IntRange(min=1), metavar="N",
        help="Start from N vertices drawn with --seed [default: 64, on the host device 4].",
    ),
    click.option(
        "--any-component", is_flag=True, help="Draw sources from the whole graph, not its largest component."
    ),
    click.option(
        "--check-seconds", type=click.IntRange(0, 86400), default=20, show_default=True, metavar="SECONDS",
        help="Time for plain searches to check against; further sources are compared between modes.",
    ),
)  # fmt: skip


def source_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds --source, --sources, --any-component and --check-seconds; the command gets them as ``sources``."""

    def gathered(*args: Any, **kwargs: Any) -> Any:
        given = {k: kwargs.pop(k) for k in ("source", "count", "any_component", "check_seconds")}
        return function(*args, sources=given, **kwargs)

    gathered.__doc__ = function.__doc__
    gathered.__click_params__ = list(getattr(function, "__click_params__", ()))  # type: ignore[attr-defined]
    decorated: Callable[..., Any] = gathered
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated


def problem_options(given: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """``Settings.options`` of a traversal. Raises UsageError for options that exclude each other."""
    if given["source"] is not None:
        if given["count"] is not None or given["any_component"]:
            raise UsageError("--source names the vertex to start from", remedy="leave out the other options")
        return {"source": given["source"], "check_seconds": given["check_seconds"]}
    return {
        "sources": given["count"] or SOURCES[kind],
        "component": "any" if given["any_component"] else "largest",
        "check_seconds": given["check_seconds"],
    }


def run_modes(
    problem: str,
    argument: str | None,
    names: Sequence[str],
    sources: Mapping[str, Any],
    params: Mapping[str, Any],
    options: RunOptions,
    read_options: ReadOptions,
    *,
    into: list[Record] | None = None,
    trace: bool = False,
    sweep: Callable[[Callable[[Mapping[str, Any]], Record]], None] | None = None,
) -> list[Record]:
    """Read the graph, check and time the modes `names` on it, keep and return their records.

    They are put into `into` as they come, so that a caller has them after an interrupt too. With `sweep` it
    is called instead, with a function that runs the one mode with the parameters it is given; the first such
    run is checked against plain searches as far as asked for, later ones from one source.
    """
    from spgraph_bench.cli.bench import dtypes_for, show_progress
    from spgraph_bench.device.probe import choose_device
    from spgraph_bench.formats import formats
    from spgraph_bench.results.store import to_json_lines
    from spgraph_bench.runner.prepare import filled_params
    from spgraph_bench.runner.run import Session, Settings, run
    from spgraph_bench.variants import get_variant

    modes = [get_variant(problem, name) for name in names]
    known = {name for v in modes for name in (*v.tunables, *formats()[v.format].tunables)}
    for name in options.params:
        if name not in known:
            raise UsageError(f"no parameter is called {name!r}", remedy=f"one of {', '.join(sorted(known))}")
    for mode in modes:
        filled_params(mode, params)
    choice = choose_device(options.device)
    if choice.warning:
        warn(choice.warning)
    if choice.note:
        note(choice.note)
    kind = choice.name.partition(":")[0]
    chosen = problem_options(sources, kind)
    records: list[Record] = [] if into is None else into
    with ExitStack() as stack:
        session = stack.enter_context(
            Session(choice.name, in_process=options.in_process, watchdog=options.watchdog)
        )
        matrix = load_matrix(argument, read_options, DEFAULT_RECIPE[kind])
        for finding in matrix.findings:
            if finding.warning:
                warn(f"{matrix.source.text}{f':{finding.line}' if finding.line else ''}: {finding.text}")
        keep = stack.enter_context(kept_records(options, problem, matrix.name))

        def on_record(record: Record) -> None:
            records.append(record)
            keep(record)  # first: whoever reads stdout may have gone
            if options.json and sweep is None:
                click.echo(to_json_lines([record]), nl=False)

        def go(settings_params: Mapping[str, Any]) -> Record:
            settings = Settings(
                dtypes=dtypes_for(problem, options),
                params=settings_params,
                seed=options.seed,
                force_format=options.force_format,
                time_limit_s=options.time_limit,
                options={**chosen, "check_seconds": 0} if records else chosen,
                trace=trace,
            )
            with show_progress() as progress:
                run(session, matrix, problem, modes, settings, on_record, progress)
            return records[-1]

        if sweep is None:
            go(params)
        else:
            sweep(go)
    return records


def statuses(records: Sequence[Record]) -> int:
    """The exit status that `records` lead to. Raises NothingRanError where every mode was skipped."""
    if any(r.status in ("wrong", "failed") for r in records):
        return 1
    if not any(r.status == "ok" for r in records):
        reasons = "; ".join(dict.fromkeys(r.reason for r in records)) or "no mode was chosen"
        raise NothingRanError(f"nothing ran: {reasons}")
    return 0
