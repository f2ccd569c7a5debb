"""The options of commands that run a problem: they come from the problem and its variants, and all of them work.

A command is a :class:`ProblemCommand`: problems and variants are imported when its options are asked for, not when the
command is made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from spgraph_bench.cli.options import (
    ParameterType,
    RunOptions,
    TextParam,
    ids_option,
    input_options,
    matrices_argument,
    matrix_argument,
    parameters_of,
    read_options_of,
    run_options_of,
    run_parameters,
)
from spgraph_bench.errors import UsageError

if TYPE_CHECKING:
    from spgraph_bench.parameters import Parameter
    from spgraph_bench.problems import Problem
    from spgraph_bench.readers.common import ReadOptions

__all__ = [
    "FORMS",
    "ProblemCommand",
    "flag_of",
    "given_own",
    "given_reading",
    "given_running",
    "other_form",
    "shared_parameters",
]

FORMS = {"transpose": "transposed", "batch": "batch"}
"""Options that take another form of a problem, which is a problem of its own, and what its name ends in."""


class ProblemCommand(click.Command):
    """A command for one problem. `parameters` gives its options from the problem, when they are wanted; `run` gets
    the problem and the values by name, and returns the exit status."""

    runs_on_a_device = True

    def __init__(
        self,
        name: str,
        problem: str,
        parameters: Callable[[Problem], Sequence[click.Parameter]],
        run: Callable[[Problem, Mapping[str, Any]], int],
        help: Callable[[Problem], str],
        short_help: str | None = None,
    ) -> None:
        def callback(**given: Any) -> int:
            return run(self.problem, given)

        super().__init__(name, callback=callback, short_help=short_help)
        self._problem_name, self._make, self._help = problem, parameters, help
        self._made: list[click.Parameter] | None = None

    @property
    def problem(self) -> Problem:
        """The problem, loaded when it is first needed."""
        from spgraph_bench.problems import get_problem

        return get_problem(self._problem_name)

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """The problem's options, then --help."""
        if self._made is None:
            self._made = list(self._make(self.problem))
        return [*self._made, *super().get_params(ctx)]  # --help stays last

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Raises UsageError for a file or recipe if the problem has no matrix."""
        ctx.allow_extra_args = not self.problem.needs_matrix  # to say what is wrong with a file
        rest = super().parse_args(ctx, args)
        if rest and not ctx.resilient_parsing:
            flags = ", ".join(map(flag_of, self.problem.options))
            raise UsageError(
                f"{self.problem.name} reads no file or recipe: its inputs are made from {flags} and --seed",
                remedy=f"omit {rest[0]!r}",
            )
        return rest

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The help text, made from the problem."""
        self.help = self._help(self.problem)
        super().format_help_text(ctx, formatter)


def other_form(problem: Problem, option: str) -> Problem | None:
    """The problem that `option`, one of :data:`FORMS`, takes in place of `problem`, where there is one."""
    from spgraph_bench.problems import problems

    return problems().get(f"{problem.name}-{FORMS[option]}")


def flag_of(name: str) -> str:
    """The option of a parameter: "--max-iterations" of max_iterations."""
    return f"--{name.replace('_', '-')}"


def _is_switch(parameter: Parameter) -> bool:
    return parameter.choices == ("no", "yes")


def _option(problem: Problem, name: str, parameter: Parameter) -> click.Option:
    flags = [flag_of(name), name]
    about = f"{parameter.about[:1].upper()}{parameter.about[1:]}"
    if _is_switch(parameter):
        return click.Option(flags, is_flag=True, flag_value="yes", default=None, help=f"{about}.")
    kind = TextParam() if parameter.vertex else ParameterType(parameter)
    default = "" if parameter.vertex else parameter.default_text
    if name in problem.host_defaults:
        default += f"; on the host device {problem.host_defaults[name]}"
    return click.Option(
        flags, type=kind, metavar=parameter.domain, help=f"{about}{f' [default: {default}]' if default else ''}."
    )


def shared_parameters(problem: Problem, *, choose: bool) -> list[click.Parameter]:
    """Parameters that every command for `problem` has: its input, its own options, those of a run and of reading.
    `choose`: also --variant and --format, and any number of inputs."""
    from spgraph_bench.variants import variants

    own: list[click.Parameter] = [_option(problem, name, p) for name, p in problem.options.items()]
    if "component" in problem.options:  # its name before there was --component any
        own.append(click.Option(["--any-component"], is_flag=True, hidden=True))
    running = run_parameters(
        problem.dtypes,
        choose=choose,
        packs=problem.needs_matrix,
        launches=any(v.limits for v in variants(problem.name)),
        baselines=choose and any(v.where == "cpu" for v in variants(problem.name)),
    )
    if not problem.needs_matrix:
        return [*own, *running]
    names = {p.name for p in running}
    reading = [p for p in parameters_of(input_options) if p.name not in names]
    ids = parameters_of(ids_option) if problem.is_graph else []
    argument = matrices_argument if choose else matrix_argument
    return [*parameters_of(argument), *own, *ids, *running, *reading]


def given_own(problem: Problem, given: Mapping[str, Any]) -> dict[str, Any]:
    """The problem's own options among `given`. Raises UsageError for those that exclude each other."""
    own = {name: given[name] for name in problem.options if given.get(name) is not None}
    if given.get("any_component"):
        own["component"] = "any"
    if "source" in own and (others := [flag_of(name) for name in ("sources", "component") if name in own]):
        raise UsageError(
            f"--source names the vertex to start from, {' and '.join(others)} would draw some",
            remedy=f"omit --source or {' and '.join(others)}",
        )
    return own


def given_running(problem: Problem, given: Mapping[str, Any]) -> RunOptions:
    """The options of a run among `given`; the first value type where there is no choice."""
    return run_options_of({"dtype": problem.dtypes[0], **given})


def given_reading(problem: Problem, given: Mapping[str, Any]) -> ReadOptions | None:
    """The options of reading among `given`, None where nothing is read."""
    return read_options_of(given) if problem.needs_matrix else None
