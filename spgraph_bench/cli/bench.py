"""`spgraph bench PROBLEM [FILE|RECIPE]`: every fitting variant, checked and timed, one table."""

from __future__ import annotations

import difflib
import glob
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from spgraph_bench.cli.exporting import export_options, exports_of
from spgraph_bench.cli.options import Decorator, RunOptions, parameters_of, read_options_of
from spgraph_bench.cli.plotting import check_plot, plot_option, result_drawing, show_plot
from spgraph_bench.cli.problem_options import (
    FORMS,
    ProblemCommand,
    flag_of,
    given_own,
    given_reading,
    given_running,
    other_form,
    shared_parameters,
)
from spgraph_bench.cli.running import Opened, Request, chosen_variants, exit_status, run_and_show
from spgraph_bench.cli.terminal import console
from spgraph_bench.errors import UsageError

if TYPE_CHECKING:
    from spgraph_bench.problems import Problem
    from spgraph_bench.results.record import Record
    from spgraph_bench.variants.base import Variant

__all__ = ["command"]

_OFFSETS = click.option(
    "--offsets",
    type=click.Choice(["auto", "int32", "int64"]),
    default="auto",
    show_default=True,
    help="Type of row offsets; auto takes int64 from 2^31 - 2^16 nonzeros on.",
)
_REORDER = click.option(
    "--reorder",
    type=click.Choice(["none", "degree", "rcm"]),
    multiple=True,
    default=("none",),
    show_default=True,
    help="Order of rows and columns before packing; may be repeated to compare orders in one table.",
)
_HYB_K = click.option(
    "--hyb-k",
    metavar="auto|median|K",
    help="hyb: slots per row of its ELL part; the same as --param hyb_k=K [default: auto, by a cost model].",
)
_TRANSPOSE = click.option("--transpose", is_flag=True, help="y = A^T x, the problem spmv-transposed.")
_GATE = click.option(
    "--gate/--no-gate",
    default=None,
    help="Queue short launches behind a gate, so that host time is not measured "
    "[default: yes, but not under a profiler or sanitizer].",
)
_RANK = click.option(
    "--rank", type=click.Choice(["cold", "hot"]), default="cold", show_default=True, help="Cache state to rank by."
)


def _batch(problem: Problem) -> Decorator:
    text = f"Up to 64 sources in each run, the problem {problem.name}-batch."
    return click.option("--batch", is_flag=True, help=text)


def _parameters(problem: Problem) -> list[click.Parameter]:
    from spgraph_bench.formats import get_format
    from spgraph_bench.variants import variants

    tunables = {name for v in variants(problem.name) for name in get_format(v.format).tunables}
    further = [
        *((_OFFSETS,) if problem.needs_matrix else ()),
        *((_REORDER,) if problem.axes else ()),
        *((_HYB_K,) if "hyb_k" in tunables else ()),
        *((_TRANSPOSE,) if other_form(problem, "transpose") else ()),
        *((_batch(problem),) if other_form(problem, "batch") else ()),
        _GATE,
        _RANK,
        export_options,
    ]
    plot = plot_option("the answer, times with their intervals (or counts), and the roofline")
    return [*shared_parameters(problem, choose=True), *parameters_of(*further), plot]


def _help(problem: Problem) -> str:
    from spgraph_bench.variants import variants

    name = problem.name
    text = f"Check and time every fitting variant of {name}: {problem.title}.\n\n"
    text += "Each variant's result is compared with a plain oracle before anything is timed. "
    if not problem.needs_matrix:
        flags = ", ".join(map(flag_of, problem.options))
        return f"{text}Its inputs are made from {flags} and --seed."
    recipe = "rmat:scale=16,symmetrize=1" if problem.is_graph else "poisson2d:n=2048"
    kinds = Counter(v.name.partition("-")[0] for v in variants(name) if v.library is None)
    (kind, _), *_ = kinds.most_common(1)
    return (
        f"{text}Without a file or recipe a built-in recipe is used.\n\n\b\n"
        f"  spgraph bench {name} matrix.mtx\n  spgraph bench {name} {recipe} --variant '{kind}*'\n"
        f"  spgraph bench {name} a.mtx b.mtx folder/ (see spgraph sweep)"
    )


def _run(problem: Problem, given: Mapping[str, Any]) -> int:
    from spgraph_bench.runner.choosing import check_params

    options, own = given_running(problem, given), given_own(problem, given)
    if given.get("hyb_k") is not None:
        options = options.with_param("hyb_k", given["hyb_k"])
    for option in FORMS:
        if given.get(option):
            problem = other_form(problem, option) or problem
    chosen = chosen_variants(problem.name, options)
    check_params(chosen, options.params)
    arguments: tuple[str, ...] = given.get("arguments", ())
    if len(arguments) > 1 or (arguments and _is_several(arguments[0])):
        return _sweep(problem, chosen, options, own, given)
    request = Request(
        problem,
        chosen,
        options,
        own,
        arguments[0] if arguments else None,
        given_reading(problem, given),
        ids=given.get("ids", "file"),
        gate=given["gate"],
    )
    offsets, exports = given.get("offsets", "auto"), exports_of(given)
    exports.check()
    check_plot(given["plot"], options.json)

    def go(bench: Opened) -> None:
        bench.run(
            chosen,
            options.params,
            offsets=None if offsets == "auto" else offsets,
            reorder=tuple(dict.fromkeys(given.get("reorder", ("none",)))),
            table=None if options.json else lambda records: _table(records, given["rank"]),
        )

    def show(records: Sequence[Record]) -> None:
        if not options.json and records:
            _print_table(records, given["rank"])
        exports.write(records, "hot" if given["rank"] == "hot" else "cold")
        if given["plot"] is not None:
            show_plot(given["plot"], result_drawing(records, "hot" if given["rank"] == "hot" else "cold"))

    return exit_status(run_and_show(request, go, show))


def _is_several(argument: str) -> bool:
    """Whether one argument means several matrices: a folder, a glob that is not a file, ranges of a recipe."""
    from spgraph_bench.recipes import names

    if os.path.lexists(argument):
        return os.path.isdir(argument)
    head, _, values = argument.partition(":")
    if head in names():
        return ".." in values
    return glob.has_magic(argument)


def _sweep(
    problem: Problem, chosen: Sequence[Variant], options: RunOptions, own: Mapping[str, Any], given: Mapping[str, Any]
) -> int:
    """`spgraph bench PROBLEM FILE FILE...` is the short form of `spgraph sweep`, with a table for each matrix."""
    from spgraph_bench.cli.sweep_running import SweepRequest, sweep
    from spgraph_bench.sweep.config import Entry, name_of
    from spgraph_bench.sweep.inputs import find_inputs

    if given["plot"] is not None:
        raise UsageError("--plot shows one table", remedy="name one input, or see `spgraph report`")
    read = replace(read_options_of(given), parallel=problem.parallel)
    inputs = [each for text in given["arguments"] for each in find_inputs(text, read)]
    offsets, exports = given.get("offsets", "auto"), exports_of(given)
    exports.check()
    limits = {"pending_launches": options.pending_launches, "malloc_heap_bytes": options.heap_bytes}
    entry = Entry(
        problem.name,
        tuple(dict.fromkeys(inputs)),
        tuple(v.name for v in chosen),
        options.dtypes,
        own,
        tuple(dict.fromkeys(given.get("reorder", ("none",)))),
        dict(options.params),
        options.seed,
        options.time_limit,
        None if offsets == "auto" else offsets,
        options.force_format,
        given.get("ids", "file"),
        options.min_samples,
        options.warmup,
        options.baseline_seconds,
    )
    request = SweepRequest(
        [entry],
        name_of([entry]),
        results=options.results,
        save=options.save,
        again="whole",
        device=options.device,
        json=options.json,
        station={
            "in_process": options.in_process,
            "watchdog": options.watchdog,
            "gate": given["gate"],
            "seed": options.order_seed,
            "limits_of": options.limits,
        },
        limits={name: value for name, value in limits.items() if value is not None},  # type: ignore[misc]
    )

    def show(records: Sequence[Record]) -> None:
        if not options.json and records:
            _print_table(records, given["rank"])
        exports.write(records, "hot" if given["rank"] == "hot" else "cold")

    return sweep(request, show)


def _table(records: Sequence[Record], rank: str) -> str:
    from spgraph_bench.report import render

    out = console()
    return render(records, width=out.width, terminal=out.is_terminal, cache="hot" if rank == "hot" else "cold")


def _print_table(records: Sequence[Record], rank: str) -> None:
    text = _table(records, rank)
    click.echo(text, nl=not text.endswith("\n"), color=console().is_terminal or None)


class _Problems(click.Group):
    """A command for each problem, made when it is wanted."""

    runs_on_a_device = True

    def list_commands(self, ctx: click.Context) -> list[str]:
        from spgraph_bench.problems import problems

        return sorted(problems())

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        from spgraph_bench.problems import problems

        problem = problems().get(name)
        if problem is None:
            return None
        return ProblemCommand(name, name, _parameters, _run, _help, short_help=f"{problem.title}.")

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """The problem may also are behind its options."""
        if args and args[0].startswith("-") and not {"--help", "-h"} & set(args):
            known = self.list_commands(ctx)
            place = next((i for i, arg in enumerate(args) if arg in known), None)
            if place is None:
                raise click.UsageError(f"A problem is missing: one of {', '.join(known)}.", ctx)
            args = [args[place], *args[:place], *args[place + 1 :]]
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        known = self.list_commands(ctx)
        if args[0] not in known:
            close = difflib.get_close_matches(args[0], known, n=1)
            hint = f" Did you mean {close[0]}?" if close else ""
            raise click.UsageError(f"{args[0]!r} is not one of {', '.join(known)}.{hint}", ctx)
        return super().resolve_command(ctx, args)


@click.command("bench", cls=_Problems, subcommand_metavar="PROBLEM [OPTIONS] [FILE|RECIPE]")
def command() -> None:
    """Check and time every fitting variant of a problem on one input: one table.

    \b
      spgraph bench spmv matrix.mtx
      spgraph bench spmv poisson2d:n=2048 --dtype both --variant 'csr*'
    """
