"""`spgraph bench PROBLEM [FILE|RECIPE]`: every fitting variant, checked and timed, one table."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click

from spgraph_bench.cli.exporting import Exports, export_options
from spgraph_bench.cli.inputs import load_matrix, vertex_numbers, warn_of_findings
from spgraph_bench.cli.keeping import kept_records
from spgraph_bench.cli.options import (
    RunOptions,
    TextParam,
    ids_option,
    input_options,
    matrix_argument,
    run_options,
)
from spgraph_bench.cli.running import GRAPH_RECIPE, MATRIX_RECIPE, SOURCES, dtypes_for, show_progress
from spgraph_bench.cli.terminal import console, note, warn
from spgraph_bench.errors import NothingRanError, UsageError

if TYPE_CHECKING:
    from spgraph_bench.problems import Problem
    from spgraph_bench.readers.common import ReadOptions
    from spgraph_bench.results.record import Record
    from spgraph_bench.variants.base import Variant

__all__ = ["command"]


class _ProblemName(TextParam):
    name = "problem"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from spgraph_bench.problems import problems

        known = list(problems())
        if value not in known:
            close = difflib.get_close_matches(value, known, n=1)
            hint = f" Did you mean {close[0]}?" if close else ""
            self.fail(f"{value!r} is none of {', '.join(known)}.{hint}", param, ctx)
        return str(value)


@functools.cache
def _problem_options() -> tuple[click.Option, ...]:
    """An option for each that a problem declares; problems may share a name."""
    from spgraph_bench.problems import problems

    help_of: dict[str, list[str]] = {}
    takes: dict[str, list[str]] = {}
    for problem in problems().values():
        for name, option in problem.options.items():
            help_of.setdefault(name, []).append(f"{problem.name}: {option.about} [default: {option.default}]")
            between = option.between
            choices = "|".join(option.choices or ()) or "TEXT"
            what = f"{between[0]:.10g}..{between[1]:.10g}" if between else choices
            if option.vertex:
                what = "VERTEX"
            takes.setdefault(name, []).append(what)
    made = []
    for name, texts in help_of.items():
        metavar = takes[name][0]
        if len(set(takes[name])) > 1:  # each problem its own
            metavar = "VALUE"
            texts = [f"{text[:-1]}; {what}]" for text, what in zip(texts, takes[name], strict=True)]
        flag = f"--{name.replace('_', '-')}"
        made.append(click.Option([flag, name], metavar=metavar, help="; ".join(texts) + "."))
    return tuple(made)


class _Command(click.Command):
    """Offers the options of problems, which are not known before they are imported: not at start."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        own = super().get_params(ctx)
        return [*own[:-1], *_problem_options(), own[-1]]  # --help stays last


@click.command("bench", cls=_Command)
@click.argument("problem", type=_ProblemName())
@matrix_argument
@run_options
@input_options
@ids_option
@export_options
@click.option(
    "--offsets",
    type=click.Choice(["auto", "int32", "int64"]),
    default="auto",
    show_default=True,
    help="Type of row offsets; auto takes int64 from 2^31 - 2^16 nonzeros on.",
)
@click.option(
    "--reorder",
    type=click.Choice(["none", "degree", "rcm"]),
    multiple=True,
    default=("none",),
    show_default=True,
    help="Order of rows and columns before packing; may be repeated to compare orders in one table.",
)
@click.option(
    "--hyb-k",
    metavar="auto|median|K",
    help="hyb: slots per row of its ELL part; the same as --param hyb_k=K [default: auto, by a cost model].",
)
@click.option("--transpose", is_flag=True, help="spmv: y = A^T x, the problem spmv-transposed.")
@click.option(
    "--gate/--no-gate",
    default=None,
    help="Queue short launches behind a gate, so that host time is not measured "
    "[default: yes, but not under a profiler or sanitizer].",
)
@click.option(
    "--rank",
    type=click.Choice(["cold", "hot"]),
    default="cold",
    show_default=True,
    help="Cache state to rank by.",
)
def command(
    problem: str,
    argument: str | None,
    options: RunOptions,
    read_options: ReadOptions,
    ids: str,
    exports: Exports,
    offsets: str,
    reorder: tuple[str, ...],
    hyb_k: str | None,
    transpose: bool,
    gate: bool | None,
    rank: str,
    **given: Any,
) -> int:
    """Check and time every fitting variant of PROBLEM on one matrix.

    Each variant's result is compared with a float64 oracle before anything is timed. Without a file or recipe
    a built-in recipe is used. Problems without a matrix make their inputs from their own options.

    \b
      spgraph bench spmv matrix.mtx
      spgraph bench spmv poisson2d:n=2048 --dtype both --variant 'csr*'
    """  # fmt: skip
    from spgraph_bench.device.probe import choose_device
    from spgraph_bench.problems import get_problem

    if hyb_k is not None:
        options = options.with_param("hyb_k", hyb_k)
    if transpose:
        problem = _transposed(problem)
    exports.check()
    _check_reorder(problem, reorder)
    wanted = get_problem(problem)
    if not wanted.needs_matrix:
        _refuse_input(wanted, argument, read_options)
        for flag, asked in (("--offsets", offsets != "auto"), ("--force-format", options.force_format)):
            if asked:
                raise UsageError(f"{problem} packs no matrix", remedy=f"leave {flag} out")
    chosen = _choose(problem, options)
    dtypes, own = dtypes_for(problem, options), _options_for(problem, given)
    choice = choose_device(options.device)
    if choice.warning:
        warn(choice.warning)
    if choice.note:
        note(choice.note)

    from spgraph_bench.results.store import to_json_lines
    from spgraph_bench.runner.run import Session, Settings, generated_matrix, run

    records: list[Record] = []
    interrupted = False
    with ExitStack() as stack:
        session = stack.enter_context(
            Session(
                choice.name,
                in_process=options.in_process,
                watchdog=options.watchdog,
                gate=gate,
                variants=chosen,
                seed=options.order_seed,
            )
        )
        kind = choice.name.partition(":")[0]
        default_recipe = MATRIX_RECIPE[kind]
        if get_problem(problem).is_graph:
            default_recipe = GRAPH_RECIPE[kind]
            several = _default_of(problem, "sources") == SOURCES["cuda"]
            if several and kind == "host" and "sources" not in own and own.get("source", -1) == -1:
                own["sources"] = SOURCES[kind]
                note(f"{SOURCES[kind]} sources, since kernels are emulated here (--sources)")
        if not wanted.needs_matrix:
            if kind == "host":
                own = {**wanted.host_defaults, **own}
            matrix = generated_matrix(wanted, own)
        else:
            matrix = load_matrix(argument, read_options, default_recipe, problem)
            matrix = matrix.counted_from_0() if ids == "0" else matrix
            own = vertex_numbers(problem, own, matrix)
        warn_of_findings(matrix)
        keep = stack.enter_context(kept_records(options, problem, matrix.name))
        settings = Settings(
            dtypes=dtypes,
            params=options.params,
            seed=options.seed,
            force_format=options.force_format,
            time_limit_s=options.time_limit,
            offsets=None if offsets == "auto" else offsets,
            options=own,
            reorder=tuple(dict.fromkeys(reorder)),
            pending_launches=options.pending_launches,
            heap_bytes=options.heap_bytes,
        )

        def on_record(record: Record) -> None:
            records.append(record)
            keep(record)  # first: whoever reads stdout may have gone
            if options.json:
                click.echo(to_json_lines([record]), nl=False)

        with show_progress() as progress:
            try:
                run(session, matrix, problem, chosen, settings, on_record, progress)
            except KeyboardInterrupt:
                interrupted = True
        session.release()
        if not options.json and records:
            _print_table(records, rank)
        exports.write(records, "hot" if rank == "hot" else "cold")
        if interrupted:
            raise KeyboardInterrupt
    return _status(records)


def _transposed(problem: str) -> str:
    """The problem with A^T in place of A. Raises UsageError where there is none."""
    from spgraph_bench.problems import problems

    name = f"{problem}-transposed"
    if name not in problems():
        raise UsageError(f"{problem} has no transposed form", remedy="leave --transpose out")
    return name


def _refuse_input(problem: Problem, argument: str | None, read_options: ReadOptions) -> None:
    """Raises UsageError where something was given to read, but there is nothing to be read."""
    from spgraph_bench.readers.common import ReadOptions

    if argument is not None:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in problem.options)
        raise UsageError(
            f"{problem.name} reads no file or recipe: its inputs are made from {flags} and --seed",
            remedy=f"leave out {argument!r}",
        )
    if read_options != ReadOptions(seed=read_options.seed):
        raise UsageError(f"options of reading do not apply to {problem.name}", remedy="leave them out")


def _check_reorder(problem: str, orders: Sequence[str]) -> None:
    from spgraph_bench.problems import get_problem

    if set(orders) != {"none"} and not get_problem(problem).axes:
        raise UsageError(f"{problem} cannot be reordered", remedy="leave --reorder out")


def _default_of(problem: str, option: str) -> int | float | str | None:
    """The default of a problem's option, None where it has no such option."""
    from spgraph_bench.problems import get_problem

    there = get_problem(problem).options.get(option)
    return there.default if there else None


def _options_for(problem: str, given: Mapping[str, Any]) -> dict[str, int | float | str]:
    """The problem's own options that were given. Raises UsageError for bad or foreign ones."""
    from spgraph_bench.problems import get_problem

    declared = get_problem(problem).options
    found = {}
    for name, value in given.items():
        if value is None:
            continue
        flag = f"--{name.replace('_', '-')}"
        if name not in declared:
            raise UsageError(f"{problem} has no option {flag}", remedy="leave it out")
        # What a vertex is called is known when the graph is.
        found[name] = value if declared[name].vertex else declared[name].checked(flag, value)
    return found


def _choose(problem: str, options: RunOptions) -> Sequence[Variant]:
    """The variants the user asked for. Raises UsageError for globs and parameters that fit none."""
    from spgraph_bench.formats import get_format
    from spgraph_bench.runner.prepare import filled_params
    from spgraph_bench.variants import select, variants

    everything = variants(problem)
    for glob in options.variants:
        if not select(problem, [glob]):
            close = difflib.get_close_matches(glob, [v.name for v in everything], n=3)
            hint = f"did you mean {' or '.join(close)}?" if close else "`spgraph list variants` names them"
            raise UsageError(f"no variant of {problem} matches {glob!r}", remedy=hint)
    for glob in options.formats:
        if not select(problem, (), [glob]):
            close = difflib.get_close_matches(glob, sorted({v.format for v in everything}), n=3)
            hint = f"did you mean {' or '.join(close)}?" if close else "`spgraph list formats` names them"
            raise UsageError(f"no variant of {problem} reads a format {glob!r}", remedy=hint)
    chosen = select(problem, options.variants, options.formats)
    if not chosen:
        raise UsageError("no variant matches both --variant and --format", remedy="leave one of them out")
    known = {name for v in chosen for name in (*v.tunables, *get_format(v.format).tunables)}
    for name in options.params:
        if name not in known:
            remedy = f"one of {', '.join(sorted(known))}" if known else "these variants have none"
            raise UsageError(f"no parameter is called {name!r}", remedy=remedy)
    for entry in chosen:
        filled_params(entry, options.params)
        form = get_format(entry.format)
        for name in form.tunables.keys() & options.params.keys():
            form.tunables[name].checked(f"{form.name}: {name}", options.params[name])
    return chosen


def _print_table(records: Sequence[Record], rank: str) -> None:
    from spgraph_bench.report import render

    out = console()
    text = render(
        records, width=out.width, terminal=out.is_terminal, cache="hot" if rank == "hot" else "cold"
    )
    click.echo(text, nl=not text.endswith("\n"), color=out.is_terminal or None)


def _status(records: Sequence[Record]) -> int:
    if any(r.status in ("wrong", "failed") for r in records):
        return 1
    if not any(r.status == "ok" for r in records):
        raise NothingRanError("nothing ran: every variant was skipped", remedy="the reasons are above")
    return 0
