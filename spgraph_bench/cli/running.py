"""The one path of commands that run something: open a device, load the input, keep records, run, show.

``bench PROBLEM`` and the commands that solve (``bfs``, ``pagerank``, ...) build a :class:`Request` from their options
and differ in what they show.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from spgraph_bench.cli.inputs import load_matrix, warn_of_findings
from spgraph_bench.cli.keeping import kept_records
from spgraph_bench.cli.options import RunOptions
from spgraph_bench.cli.terminal import console, note, warn
from spgraph_bench.errors import NothingRanError
from spgraph_bench.parameters import BASELINE_SECONDS

if TYPE_CHECKING:
    import numpy.typing as npt
    from rich.console import RenderableType
    from rich.live import Live

    from spgraph_bench.matrix import Matrix, VertexLabels
    from spgraph_bench.problems import Problem
    from spgraph_bench.readers.common import ReadOptions
    from spgraph_bench.results.record import Record
    from spgraph_bench.runner.session import Session
    from spgraph_bench.variants.base import Variant

__all__ = [
    "GRAPH_RECIPE",
    "MATRIX_RECIPE",
    "Opened",
    "Request",
    "chosen_variants",
    "exit_status",
    "opened",
    "run_and_show",
    "show_progress",
]

MATRIX_RECIPE = {"cuda": "rmat:scale=18", "host": "rmat:scale=11"}
"""The recipe where no file or recipe is given, by kind of device."""
GRAPH_RECIPE = {"cuda": "rmat:scale=18,symmetrize=1", "host": "rmat:scale=10,symmetrize=1"}

Write = Callable[[Mapping[str, "npt.NDArray[Any]"]], None]
Table = Callable[[Sequence["Record"]], str]


@dataclass(frozen=True)
class Request:
    """What is to be run on what."""

    problem: Problem
    variants: Sequence[Variant]
    """All that will run, so that their libraries are loaded early."""
    options: RunOptions
    own: Mapping[str, Any]
    """The problem's options that were given; vertices as the input calls them."""
    argument: str | None = None
    """FILE|RECIPE; None: a built-in recipe, or a problem without a matrix."""
    read_options: ReadOptions | None = None
    ids: str = "file"
    """"0": vertices are called by numbers that count from 0, else as in the input."""
    gate: bool | None = None
    change: Callable[[Matrix], Matrix] | None = None
    """What becomes of the matrix after it was read."""


@dataclass
class Opened:
    """A device and an input, ready for runs. Records are put into ``records`` as they come, so that a caller has
    them after an interrupt too."""

    request: Request
    session: Session
    matrix: Matrix
    of_input: VertexLabels
    """What the input calls vertices."""
    own: Mapping[str, Any]
    """The problem's options, vertices as numbers."""
    keep: Callable[[Record], None]
    records: list[Record] = field(default_factory=list)

    def run(
        self,
        variants: Sequence[Variant],
        params: Mapping[str, Any],
        *,
        write: Write | None = None,
        echo: bool = True,
        table: Table | None = None,
        **settings: Any,
    ) -> Record | None:
        """Check and time `variants` with `params`; the last record. With --json all are printed (`echo`) when the run
        ends, however it does, since ranks and ratios follow from all of them. `write` gets the first right answer;
        `table` makes what is shown of the kernels while CPU baselines run. `settings` are further ones of
        ``Settings``."""
        from spgraph_bench.results.store import to_json_lines
        from spgraph_bench.results.tidy import derived
        from spgraph_bench.runner.run import run
        from spgraph_bench.runner.settings import Settings

        options = self.request.options
        # Limits that were asked for go to variants that launch something; if none at all does, run refuses them.
        limited = any(v.limits for v in variants) or not any(v.limits for v in self.request.variants)
        values: dict[str, Any] = {
            "dtypes": options.dtypes,
            "params": params,
            "seed": options.seed,
            "force_format": options.force_format,
            "time_limit_s": options.time_limit,
            "min_samples": options.min_samples,
            "warmups": options.warmup,
            "baseline_seconds": options.baseline_seconds,
            "options": self.own,
            "pending_launches": options.pending_launches if limited else None,
            "heap_bytes": options.heap_bytes if limited else None,
            **settings,
        }

        before, limit = len(self.records), options.baseline_seconds

        def on_record(record: Record) -> None:
            self.records.append(record)
            self.keep(record)

        try:
            with show_progress() as shown:
                run(
                    self.session,
                    self.matrix,
                    self.request.problem.name,
                    variants,
                    Settings(**values),
                    on_record,
                    shown,
                    write,
                    lambda: shown.kernels_are_done(table and (lambda: table(self.records[before:])), limit),
                )
        finally:
            if options.json and echo:
                made = self.records[before:]
                click.echo(to_json_lines(made, derived(made)), nl=False)
        return self.records[-1] if self.records else None


@contextmanager
def opened(request: Request) -> Iterator[Opened]:
    """The device opened, then the input loaded, then the file of records: each tells what is wrong with it."""
    from spgraph_bench.device.probe import choose_device
    from spgraph_bench.runner.choosing import vertex_numbers
    from spgraph_bench.runner.session import Session

    problem, options = request.problem, request.options
    choice = choose_device(options.device)
    if choice.warning:
        warn(choice.warning)
    if choice.note:
        note(choice.note)
    kind = choice.name.partition(":")[0]
    with ExitStack() as stack:
        session = stack.enter_context(
            Session(
                choice.name,
                in_process=options.in_process,
                watchdog=options.watchdog,
                gate=request.gate,
                variants=request.variants,
                seed=options.order_seed,
                limits_of=options.limits,
            )
        )
        own = dict(request.own)
        if kind == "host":
            own = _smaller(problem, own)
        matrix = _input(request, own, kind)
        of_input = matrix.labels()
        if request.ids == "0":
            matrix = matrix.counted_from_0()
        own = vertex_numbers(problem.name, own, matrix)
        if request.change is not None:
            matrix = request.change(matrix)
        warn_of_findings(matrix)
        keep = stack.enter_context(kept_records(options, problem.name, matrix.name))
        yield Opened(request, session, matrix, of_input, own, keep)


def _smaller(problem: Problem, own: Mapping[str, Any]) -> dict[str, Any]:
    """`own` with what a problem has as defaults where kernels are emulated."""
    from spgraph_bench.runner.choosing import smaller_on_host

    left = smaller_on_host(problem, own)
    if problem.needs_matrix and left:  # without one, the inputs are described in the table's header
        what = ", ".join(f"{value} {name}" for name, value in left.items())
        note(f"{what}, since kernels are emulated here (--{', --'.join(left)})")
    return {**left, **own}


def _input(request: Request, own: Mapping[str, Any], kind: str) -> Matrix:
    from spgraph_bench.readers.common import ReadOptions
    from spgraph_bench.runner.assembly import generated_matrix

    problem = request.problem
    if not problem.needs_matrix:
        return generated_matrix(problem, own)
    recipe = (GRAPH_RECIPE if problem.is_graph else MATRIX_RECIPE)[kind]
    return load_matrix(request.argument, request.read_options or ReadOptions(), recipe, problem.name)


def run_and_show(
    request: Request, go: Callable[[Opened], None], show: Callable[[Sequence[Record]], None]
) -> list[Record]:
    """`go` on what `request` opens, then `show`: after an interrupt or an error, what is finished."""
    with opened(request) as bench:
        try:
            go(bench)
        finally:
            bench.session.release()
            show(bench.records)
    return bench.records


def chosen_variants(problem: str, options: RunOptions) -> Sequence[Variant]:
    """The variants the user asked for. Raises UsageError for globs that fit none."""
    from spgraph_bench.runner.choosing import chosen_variants

    return chosen_variants(problem, options.variants, options.formats)


def exit_status(records: Sequence[Record]) -> int:
    """The exit status that `records` lead to. Raises NothingRanError where all were skipped."""
    if any(r.status in ("wrong", "failed") for r in records):
        return 1
    if not any(r.status == "ok" for r in records):
        reasons = list(dict.fromkeys(r.reason for r in records))
        if len(reasons) == 1:
            raise NothingRanError(f"nothing ran: {reasons[0]}")
        raise NothingRanError("nothing ran: every variant was skipped", remedy="the reasons are above")
    return 0


class Shown:
    """What stderr shows of a run. In a terminal: one changing line, and below it the kernels' table while CPU baselines
    run. Elsewhere: a note that they do. The table of all goes to stdout when this has gone."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._tables = self._terminal and sys.stdout.isatty()
        self._line = "starting"
        self._table: RenderableType = ""
        self._note: threading.Timer | None = None

    def __call__(self, text: str) -> None:
        """`text` is being done."""
        self._line = text

    def kernels_are_done(self, table: Callable[[], str] | None, seconds: float | None) -> None:
        """CPU baselines follow, for `seconds` at most (None: the default). `table` makes that of the kernels, None in a
        run without tables."""
        if table is not None and self._tables:
            from rich.text import Text

            self._table = Text.from_ansi(table(), no_wrap=True, overflow="crop")
            return
        limit = BASELINE_SECONDS.default if seconds is None else seconds
        text = f"kernels are done; CPU baselines take up to {limit:g} s more (--baseline-seconds)"
        self._note = threading.Timer(1.0, note, (text,))
        self._note.daemon = True
        self._note.start()

    @contextmanager
    def shown(self) -> Iterator[Shown]:
        """Shows it until the end."""
        with self._live() if self._terminal else nullcontext():
            try:
                yield self
            finally:
                if self._note is not None:
                    self._note.cancel()

    def _live(self) -> Live:
        from rich.console import Group
        from rich.live import Live
        from rich.spinner import Spinner

        spinner = Spinner("dots", style="status.spinner")

        def all_of_it() -> RenderableType:
            spinner.update(text=self._line)
            return Group(spinner, self._table) if self._table else spinner

        return Live(console=console(stderr=True), get_renderable=all_of_it, refresh_per_second=4, transient=True)


def show_progress() -> AbstractContextManager[Shown]:
    """What is being done: a changing line in a terminal, nothing elsewhere."""
    return Shown().shown()
