"""Options that commands share, as decorators; those of a run as click's parameters, since they depend on the problem.

``input_options`` gathers its own into one object, so that signatures stay short::

    @click.command("info")
    @matrix_argument
    @input_options
    def command(argument: str | None, read_options: ReadOptions) -> int: ...
"""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import click

from spgraph_bench.cli import completing
from spgraph_bench.cores import core_limit, limit_cores
from spgraph_bench.errors import UsageError
from spgraph_bench.gpus import GPUS, get_gpu
from spgraph_bench.parameters import BASELINE_SECONDS, MAX_INDEX, MIN_SAMPLES, WARMUP, Parameter, exact_number
from spgraph_bench.paths import results_folder

if TYPE_CHECKING:
    from spgraph_bench.readers.common import ReadOptions

    TextParam = click.ParamType[str]
    WholeParam = click.ParamType[int]
else:
    TextParam = WholeParam = click.ParamType  # only recent versions of click take the type it converts to

__all__ = [
    "THREADS",
    "Decorator",
    "ParameterType",
    "PathParam",
    "Positive",
    "RunOptions",
    "TextParam",
    "WholeParam",
    "baseline_seconds_option",
    "collected",
    "device_option",
    "ids_option",
    "input_options",
    "json_option",
    "limit_threads",
    "matrices_argument",
    "matrix_argument",
    "min_samples_option",
    "parameters_of",
    "params_option",
    "read_options_of",
    "run_options_of",
    "run_parameters",
    "threads_option",
    "warmup_option",
]

Command = Callable[..., Any]
Decorator = Callable[[Command], Command]


class PathParam(click.Path):
    """A path, as Path. An empty text is none: of a variable that is not set it would be the current folder."""

    def __init__(self, *, file_okay: bool = True, dir_okay: bool = True) -> None:
        super().__init__(file_okay=file_okay, dir_okay=dir_okay, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not os.fspath(value):
            self.fail("it is empty; name a file or folder.", param, ctx)
        return super().convert(value, param, ctx)


@dataclass(frozen=True)
class RunOptions:
    """What a user may ask of a run, checked as far as that needs no registry."""

    variants: tuple[str, ...] = ()
    """Globs on variant names; none means all."""
    formats: tuple[str, ...] = ()
    """Globs on format names; none means all."""
    dtypes: tuple[str, ...] = ("float32",)
    device: str = "auto"
    """"auto", "host", "cuda" or "cuda:N"."""
    time_limit: float = 0.25
    """Seconds of sampling for each variant and dtype, cold and hot together."""
    min_samples: int | None = None
    """Samples of each series at least, even past the time limit; None: 20, or 6 past it."""
    warmup: int | None = None
    """Runs before the first sample; None: 3."""
    json: bool = False
    save: bool = True
    results: Path = field(default_factory=results_folder)
    seed: int = 1
    params: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    force_format: bool = False
    in_process: bool = False
    watchdog: float = 60.0
    """Seconds a variant may take for its check before its worker is ended."""
    limits: str | None = None
    """The GPU whose limits the host device imposes."""
    baseline_seconds: float | None = None
    pending_launches: int | None = None
    heap_bytes: int | None = None

    @property
    def order_seed(self) -> int:
        """Of the order of blocks and child grids on the host device.

        The default --seed leaves the natural one, in which the most children wait at the same time.
        """
        return 0 if self.seed == RunOptions.seed else self.seed

    def with_param(self, name: str, text: str) -> RunOptions:
        """These with one more parameter. Raises UsageError where it is there already."""
        if name in self.params:
            raise UsageError(f"{name} is given twice", remedy="omit --param")
        return replace(self, params=MappingProxyType({**self.params, name: text}))


def _device(ctx: click.Context, param: click.Parameter, value: str) -> str:
    text = value.strip().lower()
    if not re.fullmatch(r"auto|host|cuda(:\d+)?", text):
        raise click.BadParameter(f"{value!r} is not one of auto, host, cuda, cuda:N (N from 0).", ctx, param)
    return text


def _params(ctx: click.Context, param: click.Parameter, values: Iterable[str]) -> Mapping[str, str]:
    parsed: dict[str, str] = {}
    for text in values:
        name, equals, value = text.partition("=")
        name, value = name.strip(), value.strip()
        if not (name and equals and value):
            raise click.BadParameter(f"{text!r} is not NAME=VALUE.", ctx, param)
        if name in parsed:
            raise click.BadParameter(f"{name} is given twice.", ctx, param)
        parsed[name] = value
    return MappingProxyType(parsed)


def _gpu(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    return None if value is None else get_gpu(value).name


def _reader(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    if value is None:
        return None
    from spgraph_bench.readers import readers  # numpy and more: not at import
    from spgraph_bench.readers.opening import unknown_format

    if value not in (known := readers()):
        raise unknown_format(value, known)
    return value


json_option = click.option("--json", "as_json", is_flag=True, help="Data as JSON on stdout, no tables.")
device_option = click.option(
    "--device",
    default="auto",
    show_default=True,
    metavar="auto|cuda|cuda:N|host",
    callback=_device,
    shell_complete=lambda ctx, param, text: [d for d in ("auto", "cuda", "host") if d.startswith(text)],
    help="Where kernels run. host: the same sources on the CPU, checked but not timed.",
)
params_option = click.option(
    "--param",
    "params",
    multiple=True,
    metavar="NAME=VALUE",
    callback=_params,
    shell_complete=completing.tunables,
    help="Set a tunable of formats and variants (repeatable); `spgraph show` names them.",
)
matrices_argument = click.argument(
    "arguments", metavar="[FILE|RECIPE]...", nargs=-1, shell_complete=completing.input_file
)
"""Any number of what :data:`matrix_argument` takes."""
matrix_argument = click.argument(
    "argument", metavar="[FILE|RECIPE]", required=False, shell_complete=completing.input_file
)
"""A path, `-` for standard input, or a recipe: what ``load_matrix`` of cli/inputs.py takes."""


class Positive(TextParam):
    """A number above 0, of seconds or what else there is: 0.5, 90, 1e-3, 2k."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number, or a usage error."""
        number = exact_number(str(value))
        if number is None or not 0 < number <= sys.float_info.max or float(number) == 0:
            self.fail(f"{value!r} is not a number above 0 (k, M and G may follow).", param, ctx)
        return float(number)


class ParameterType(TextParam):
    """click's view of a :class:`spgraph_bench.parameters.Parameter`: one way to read numbers everywhere."""

    name = "value"

    def __init__(self, parameter: Parameter) -> None:
        self._parameter = parameter

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The parameter's value, or a usage error that names what it takes."""
        try:
            return self._parameter.parse(value)
        except ValueError as error:
            self.fail(f"{error}; take {self._parameter.expected}.", param, ctx)


_seed_option = click.option(
    "--seed",
    type=ParameterType(Parameter(1, "", between=(0, 2**63 - 1))),
    default=1,
    show_default=True,
    metavar="N",
    help="Seed of everything random.",
)


class _WeightColumn(WholeParam):
    """A column from 3 on, counted from 1, or none (0)."""

    name = "column"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if str(value).strip().lower() == "none":
            return 0
        number = exact_number(str(value))
        if number is None or number.denominator != 1 or not 3 <= number <= 999:
            self.fail(f"{value!r} is not a column from 3 on (1 and 2 are the ids), or none.", param, ctx)
        return int(number)


def _dtype_option(dtypes: Sequence[str]) -> Decorator:
    """--dtype, where there is a choice."""
    both = ["both"] if {"float32", "float64"} <= set(dtypes) else []
    return click.option(
        "--dtype",
        type=click.Choice([*dtypes, *both]),
        default=dtypes[0],
        show_default=True,
        help="Value type, for variants that have it.",
    )


def limit_threads(threads: int) -> None:
    """Until the command in progress ends, take `threads` threads at most."""
    before = core_limit()
    limit_cores(threads)
    click.get_current_context().call_on_close(lambda: limit_cores(before))


def _threads(ctx: click.Context, param: click.Parameter, value: int | None) -> None:
    if value is not None and not ctx.resilient_parsing:
        limit_threads(value)


THREADS = Parameter(1, "threads on the host at most", between=(1, 4096))
threads_option = click.option(
    "--threads",
    type=ParameterType(THREADS),
    metavar="N",
    expose_value=False,
    callback=_threads,
    help="Read, generate, convert, compile and compute on the host with N threads at most [default: all cores].",
)
min_samples_option = click.option(
    "--min-samples",
    type=ParameterType(MIN_SAMPLES),
    metavar="N",
    help="Take at least N samples of each variant, even past the time limit [default: 20, or 6 past it].",
)
warmup_option = click.option(
    "--warmup",
    type=ParameterType(WARMUP),
    metavar="N",
    help="Run each variant N times before its first sample [default: 3].",
)
baseline_seconds_option = click.option(
    "--baseline-seconds",
    type=ParameterType(BASELINE_SECONDS),
    metavar="SECONDS",
    help="For all CPU baselines together, after the kernels [default: 10; no limit where no kernel runs].",
)
_VARIANT = click.option(
    "--variant",
    "variants",
    multiple=True,
    metavar="GLOB",
    shell_complete=completing.variants,
    help="Only these variants.",
)
_FORMAT = click.option(
    "--format", "formats", multiple=True, metavar="GLOB", shell_complete=completing.formats, help="Only these formats."
)
_FORCE = click.option("--force-format", is_flag=True, help="Pack even if a format wastes memory.")

_RUN: tuple[Decorator, ...] = (
    device_option,
    click.option(
        "--limits",
        metavar="GPU",
        callback=_gpu,
        shell_complete=lambda ctx, param, text: [g.name for g in GPUS if g.name.lower().startswith(text.lower())],
        help="On the host device, impose the limits of this GPU: T4, sm_75, ... (docs/limits.md).",
    ),
    click.option(
        "--time-limit",
        type=Positive(),
        default=RunOptions.time_limit,
        show_default=True,
        metavar="SECONDS",
        help="Stop sampling a variant after this long, even if its median has not settled.",
    ),
    min_samples_option,
    warmup_option,
    threads_option,
    json_option,
    click.option("--no-save", is_flag=True, help="Do not save records."),
    click.option(
        "--results",
        type=PathParam(file_okay=False),
        metavar="DIR",
        help="Folder for the records [default: SPGRAPH_RESULTS, else results/ in ~/.local/share/spgraph].",
    ),
    _seed_option,
    params_option,
    click.option("--in-process", is_flag=True, help="No worker, no watchdog: for profilers and sanitizers."),
    click.option(
        "--watchdog",
        type=Positive(),
        default=RunOptions.watchdog,
        show_default=True,
        metavar="SECONDS",
        help="Stop a variant that does not answer within this time.",
    ),
)

_LIMITS: tuple[Decorator, ...] = (
    click.option(
        "--pending-launches",
        type=ParameterType(Parameter(1, "", between=(1, MAX_INDEX))),
        metavar="N",
        help="Device launches that may be pending [default: the bounds of the variants].",
    ),
    click.option(
        "--heap",
        "heap_bytes",
        type=ParameterType(Parameter(1, "", between=(1, 2**46))),
        metavar="BYTES",
        help="Heap of malloc on the device; 64M is 64 * 10^6 [default: the bounds of the variants].",
    ),
)

_INPUT: tuple[Decorator, ...] = (
    click.option(
        "--input-format",
        metavar="NAME",
        callback=_reader,
        shell_complete=completing.readers,
        help="Format of the file (`spgraph list readers`) [default: detected].",
    ),
    click.option("--base", type=click.Choice(["0", "1"]), help="First index in the file."),
    click.option("--symmetrize", is_flag=True, help="Add the transpose of every entry."),
    click.option(
        "--duplicates",
        type=click.Choice(["sum", "min", "max", "first", "last", "error"]),
        help="What to do with duplicate entries [default: min for shortest paths, else sum].",
    ),
    click.option("--drop-zeros", is_flag=True, help="Drop entries that are stored, but zero."),
    click.option(
        "--values",
        type=click.Choice(["file", "ones", "random", "integers"]),
        default="file",
        show_default=True,
        help="Values of the entries; random is uniform in [0, 1), integers in 1 to 255, from --seed.",
    ),
    click.option("--relabel", is_flag=True, help="Close gaps in vertex ids; number vertices with names."),
    click.option(
        "--weight-column",
        type=_WeightColumn(),
        metavar="N|none",
        help="Column of an edge list with the weights [default: the third, unless it has times].",
    ),
    click.option("--bipartite", is_flag=True, help="Read rows and columns as the two sides of an undirected graph."),
    click.option("--part", type=click.Choice(["real", "imag", "abs"]), help="Part of complex values."),
    _seed_option,
)


def ids_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds --ids."""
    return click.option(
        "--ids",
        type=click.Choice(["file", "0"]),
        default="file",
        show_default=True,
        help="How options, tables and files name vertices: as the input file does, or by numbers from 0.",
    )(function)


def collected(options: tuple[Decorator, ...], keyword: str, build: Callable[[Mapping[str, Any]], Any]) -> Decorator:
    """A decorator that adds `options` and hands their values over as one object, called `keyword`.

    An option that two groups share (--seed) is added once and seen by both.
    """

    def decorate(function: Command) -> Command:
        """Add the options to `function`."""

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            given = click.get_current_context().params
            for name in names:
                kwargs.pop(name, None)
            return function(*args, **kwargs, **{keyword: build(given)})

        wrapper.__click_params__ = list(getattr(function, "__click_params__", ()))  # type: ignore[attr-defined]
        names: list[str] = []
        for option in reversed(options):  # decorators apply from the last to the first
            probe = option(lambda: None)
            (added,) = probe.__click_params__  # type: ignore[attr-defined]
            names.append(added.name)
            if all(there.name != added.name for there in wrapper.__click_params__):  # type: ignore[attr-defined]
                wrapper.__click_params__.append(added)  # type: ignore[attr-defined]
        return wrapper

    return decorate


def parameters_of(*decorators: Decorator) -> list[click.Parameter]:
    """The parameters that `decorators` add, in their order."""

    def nothing() -> None:
        pass

    function: Command = nothing
    for decorator in reversed(decorators):
        function = decorator(function)
    return list(reversed(getattr(function, "__click_params__", [])))


def run_parameters(
    dtypes: Sequence[str], *, choose: bool = True, packs: bool = True, launches: bool = True, baselines: bool = True
) -> list[click.Parameter]:
    """The options of a run that work: --dtype for more than one of `dtypes`, --variant and --format to `choose`
    by, --format and --force-format where something is packed, limits where a variant launches or allocates,
    --baseline-seconds where some of the variants are `baselines`."""
    return parameters_of(
        *((_VARIANT,) if choose else ()),
        *((_FORMAT,) if choose and packs else ()),
        *((_dtype_option(dtypes),) if len(dtypes) > 1 else ()),
        *_RUN,
        *((_FORCE,) if packs else ()),
        *(_LIMITS if launches else ()),
        *((baseline_seconds_option,) if baselines else ()),
    )


def run_options_of(given: Mapping[str, Any]) -> RunOptions:
    """From the values of :func:`run_parameters`, by name, and "dtype"; defaults for what was not offered."""
    return RunOptions(
        variants=tuple(given.get("variants", ())),
        formats=tuple(given.get("formats", ())),
        dtypes=("float32", "float64") if given["dtype"] == "both" else (given["dtype"],),
        device=given["device"],
        time_limit=given["time_limit"],
        json=given["as_json"],
        save=not given["no_save"],
        results=given["results"] or results_folder(),
        min_samples=given["min_samples"],
        warmup=given["warmup"],
        baseline_seconds=given.get("baseline_seconds"),
        seed=given["seed"],
        params=given["params"],
        force_format=given.get("force_format", False),
        in_process=given["in_process"],
        watchdog=given["watchdog"],
        limits=given["limits"],
        pending_launches=given.get("pending_launches"),
        heap_bytes=given.get("heap_bytes"),
    )


def read_options_of(given: Mapping[str, Any]) -> ReadOptions:
    """From the values of the options that :data:`input_options` adds, by name."""
    from spgraph_bench.readers.common import ReadOptions

    base = given["base"]
    return ReadOptions(
        input_format=given["input_format"],
        base=None if base is None else (0 if base == "0" else 1),
        symmetrize=given["symmetrize"],
        duplicates=given["duplicates"],
        drop_zeros=given["drop_zeros"],
        values=given["values"],
        seed=given["seed"],
        relabel=given["relabel"],
        weight_column=given["weight_column"],
        bipartite=given["bipartite"],
        part=given["part"],
    )


input_options = collected(_INPUT, "read_options", read_options_of)
"""Adds the options of reading; the command gets ``read_options: ReadOptions``."""
