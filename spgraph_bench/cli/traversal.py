"""What the commands of graph problems share: options, running modes with their settings, showing an answer.

A command is made of these::

    @click.command("pagerank")
    @matrix_argument
    @mode_options("pagerank", "pull")
    @click.option("--damping", ...)
    @run_options
    @input_options
    def command(argument, chosen, damping, options, read_options):
        own = lambda kind: {"damping": damping}
        return run_mode("pagerank", argument, chosen, own, options, read_options)
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from spgraph_bench.cli.inputs import load_matrix, vertex_numbers, warn_of_findings
from spgraph_bench.cli.keeping import kept_records
from spgraph_bench.cli.options import Decorator, RunOptions, TextParam, collected, ids_option
from spgraph_bench.cli.running import GRAPH_RECIPE, SOURCES, dtypes_for, show_progress
from spgraph_bench.cli.terminal import console, note, warn
from spgraph_bench.errors import NothingRanError, UsageError

if TYPE_CHECKING:
    import numpy.typing as npt

    from spgraph_bench.matrix import Matrix, VertexLabels
    from spgraph_bench.readers.common import ReadOptions
    from spgraph_bench.results.record import Record

__all__ = [
    "ModeName",
    "ModeOptions",
    "given_by_default",
    "mode_options",
    "output_option",
    "run_mode",
    "run_modes",
    "source_options",
    "source_settings",
    "statuses",
]

Own = Callable[[str], Mapping[str, Any]]
"""``Settings.options`` of a problem, for a kind of device ("cuda", "host")."""


class ModeName(TextParam):
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


@dataclass(frozen=True)
class ModeOptions:
    """What every command with a mode asks for."""

    mode: str
    reorder: str
    trace: bool
    output: Path | None
    ids: str


def output_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds --output."""
    return click.option(
        "--output", type=click.Path(path_type=Path), metavar="FILE",
        help="Write the answer for every vertex, by the input's ids, to FILE.npy, .csv or .mtx; where these "
        "do not just count, also FILE.vertices.csv with the number inside of each.",
    )(function)  # fmt: skip


def mode_options(problem: str, default: str) -> Decorator:
    """Adds --mode, --reorder, --trace, --output and --ids, which the command gets as ``chosen``."""
    return collected(
        (
            click.option(
                "--mode", type=ModeName(problem), default=default, show_default=True,
                help="How to do it (`spgraph list variants`).",
            ),
            click.option(
                "--reorder", type=click.Choice(["none", "degree"]), default="none", show_default=True,
                help="Number the vertices by degree first; results are by the input's ids.",
            ),
            click.option("--trace", is_flag=True, help="Show every step of the first run."),
            output_option,
            ids_option,
        ),
        "chosen",
        lambda given: ModeOptions(
            given["mode"], given["reorder"], given["trace"], given["output"], given["ids"]
        ),
    )  # fmt: skip


def given_by_default(option: str) -> bool:
    """Whether `option` of the running command was left to its default."""
    return click.get_current_context().get_parameter_source(option) is click.core.ParameterSource.DEFAULT


_OPTIONS = (
    click.option(
        "--source", type=TextParam(), metavar="VERTEX",
        help="Start from this vertex, called as in the input (--ids).",
    ),
    click.option(
        "--sources", "count", type=click.IntRange(min=1), metavar="N",
        help="Start from N vertices drawn with --seed [default: 64, on the host device 4].",
    ),
    click.option(
        "--any-component", is_flag=True, help="Draw sources from the whole graph, not its largest component."
    ),
    click.option(
        "--check-seconds", type=click.IntRange(0, 86400), default=20, show_default=True, metavar="SECONDS",
        help="Time for slow plain searches to compare with, on graphs of up to 20 M edges; 0: none. Every "
        "source is validated anyway.",
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


def source_settings(given: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """``Settings.options`` that say which sources. Raises UsageError for options that exclude each other."""
    if given["source"] is not None:
        if given["count"] is not None or given["any_component"]:
            raise UsageError("--source names the vertex to start from", remedy="leave out the other options")
        return {"source": given["source"], "check_seconds": given["check_seconds"]}
    return {
        "sources": given["count"] or SOURCES[kind],
        "component": "any" if given["any_component"] else "largest",
        "check_seconds": given["check_seconds"],
    }


def run_mode(
    problem: str,
    argument: str | None,
    chosen: ModeOptions,
    own: Own,
    options: RunOptions,
    read_options: ReadOptions,
    params: Mapping[str, Any] | None = None,
    change: Callable[[Matrix], Matrix] | None = None,
    reads: Sequence[str] = (),
) -> int:
    """One mode of `problem`: run it, show what it found, write it where asked to; the exit status.

    `params` are further tunables besides those of --param; `change` is what becomes of the graph after it was
    read; `reads` are files that are read besides it, which no answer may replace.
    """
    from spgraph_bench.report.result import render_result

    if options.variants or options.formats:
        raise UsageError(
            "--variant and --format choose among many", remedy=f"--mode, or `spgraph bench {problem}`"
        )
    if "reorder" in options.params:
        raise UsageError("--param reorder is an option of its own here", remedy="--reorder")
    params = {**options.params, **(params or {}), "reorder": chosen.reorder}
    records: list[Record] = []
    try:
        run_modes(
            problem, argument, [chosen.mode], own, params, options, read_options, into=records,
            trace=chosen.trace, output=chosen.output, ids=chosen.ids, change=change, reads=reads,
        )  # fmt: skip
    finally:  # an interrupt ends with what is finished
        if not options.json:
            out = console()
            for record in records:
                click.echo(render_result(record, out.width, out.is_terminal), nl=False)
    return statuses(records)


def _answer_writer(
    path: Path, matrix: Matrix, of_input: VertexLabels
) -> Callable[[Mapping[str, npt.NDArray[Any]]], None]:
    """A function that writes an answer to `path`; `of_input`: what the input calls vertices, for the map."""
    from spgraph_bench.answers import needs_map, save_answer, save_vertex_map, vertex_map_path
    from spgraph_bench.matrix import called

    def write(columns: Mapping[str, npt.NDArray[Any]]) -> None:
        labels = matrix.labels()
        about = f"spgraph {matrix.source.kind} {' '.join(matrix.source.text.split())}"
        save_answer(path, labels, columns, about)
        known = vertex_map_path(path) if needs_map(of_input) else None
        if known is not None:
            save_vertex_map(known, of_input)
        based = ""
        if known is not None:
            based = f", what each is called in {known}"
        elif len(labels) and called(labels, 0) == 1:
            based = ", vertices counted from 1 as there"
        note(f"{', '.join(columns)} of {len(labels):,} vertices in {path}{based}")

    return write


def _check_output(path: Path, inputs: Sequence[str]) -> None:
    """Before any work: UsageError where no answer can be written to `path`, or it is one of the `inputs`."""
    from spgraph_bench.answers import check_answer_path, vertex_map_path

    check_answer_path(path)
    for target in (path, vertex_map_path(path)):
        for name in inputs:
            if target.exists() and Path(name).exists() and target.samefile(name):
                raise UsageError("is the input itself", place=str(target), remedy="name another file")


def run_modes(
    problem: str,
    argument: str | None,
    names: Sequence[str],
    own: Own,
    params: Mapping[str, Any],
    options: RunOptions,
    read_options: ReadOptions,
    *,
    into: list[Record] | None = None,
    trace: bool = False,
    output: Path | None = None,
    ids: str = "file",
    change: Callable[[Matrix], Matrix] | None = None,
    reads: Sequence[str] = (),
    sweep: Callable[[Callable[[Mapping[str, Any]], Record]], None] | None = None,
    then: Sequence[str] = (),
) -> list[Record]:
    """Read the graph, check and time the modes `names` on it, keep and return their records.

    They are put into `into` as they come, so that a caller has them after an interrupt too. With `ids` "0"
    vertices are called by numbers that count from 0, else as in the input. The graph goes
    through `change` when it was read, and the first right answer is written to `output`, which is neither the
    graph nor one of `reads`. With `sweep` it is called instead, with a function that runs the one mode with
    the parameters it is given; the first such run is checked against plain searches as far as asked for,
    later ones from one source. The modes `then` follow, on the same graph, from the first source only: their
    traces are wanted, and from where child launches pay is not measured for them.
    """
    from spgraph_bench.device.probe import choose_device
    from spgraph_bench.formats import formats
    from spgraph_bench.results.store import to_json_lines
    from spgraph_bench.runner.prepare import filled_params
    from spgraph_bench.runner.run import Session, Settings, run
    from spgraph_bench.variants import get_variant

    if output is not None:
        _check_output(output, [name for name in (argument, *reads) if name])
    modes, later = ([get_variant(problem, name) for name in each] for each in (names, then))
    known = {name for v in (*modes, *later) for name in (*v.tunables, *formats()[v.format].tunables)}
    for name in options.params:
        if name not in known:
            raise UsageError(f"no parameter is called {name!r}", remedy=f"one of {', '.join(sorted(known))}")
    for mode in (*modes, *later):
        filled_params(mode, params)
    launching = any(v.limits for v in (*modes, *later))
    choice = choose_device(options.device)
    if choice.warning:
        warn(choice.warning)
    if choice.note:
        note(choice.note)
    kind = choice.name.partition(":")[0]
    chosen = own(kind)
    records: list[Record] = [] if into is None else into
    with ExitStack() as stack:
        session = stack.enter_context(
            Session(
                choice.name,
                in_process=options.in_process,
                watchdog=options.watchdog,
                seed=options.order_seed,
            )
        )
        matrix = load_matrix(argument, read_options, GRAPH_RECIPE[kind], problem)
        of_input = matrix.labels()
        if ids == "0":
            matrix = matrix.counted_from_0()
        chosen = vertex_numbers(problem, chosen, matrix)
        if change is not None:
            matrix = change(matrix)
        warn_of_findings(matrix)
        keep = stack.enter_context(kept_records(options, problem, matrix.name))
        write = None if output is None else _answer_writer(output, matrix, of_input)

        def on_record(record: Record) -> None:
            records.append(record)
            keep(record)  # first: whoever reads stdout may have gone
            if options.json and sweep is None:
                click.echo(to_json_lines([record]), nl=False)

        def go(settings_params: Mapping[str, Any], chosen: Mapping[str, Any], first: bool = True) -> Record:
            group = modes if first else later
            # Limits that were asked for go to modes that launch something; if none does, run refuses them.
            limited = not launching or any(v.limits for v in group)
            settings = Settings(
                dtypes=dtypes_for(problem, options),
                params=settings_params,
                seed=options.seed,
                force_format=options.force_format,
                time_limit_s=options.time_limit,
                options=chosen,
                trace=trace,
                pending_launches=options.pending_launches if limited else None,
                heap_bytes=options.heap_bytes if limited else None,
                break_even=first,
            )
            with show_progress() as progress:
                run(session, matrix, problem, group, settings, on_record, progress, write if first else None)
            return records[-1]

        if sweep is None:
            go(params, chosen)
        else:
            sweep(lambda each: go(each, {**chosen, "check_seconds": 0} if records else chosen))
        if later:
            go(params, {**chosen, "sources": 1}, first=False)
    return records


def statuses(records: Sequence[Record]) -> int:
    """The exit status that `records` lead to. Raises NothingRanError where every mode was skipped."""
    if any(r.status in ("wrong", "failed") for r in records):
        return 1
    if not any(r.status == "ok" for r in records):
        reasons = "; ".join(dict.fromkeys(r.reason for r in records)) or "no mode was chosen"
        raise NothingRanError(f"nothing ran: {reasons}")
    return 0
