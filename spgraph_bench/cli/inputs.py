"""From the argument FILE|RECIPE to a matrix, with progress on stderr."""

from __future__ import annotations

import difflib
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spgraph_bench.cli.terminal import console, note, warn
from spgraph_bench.errors import InputError, UsageError

if TYPE_CHECKING:
    from spgraph_bench.matrix import Matrix
    from spgraph_bench.readers.common import Progress, ReadOptions

__all__ = ["fetched", "load_matrix", "progress_on_stderr", "warn_of_findings"]

_NAMES = "give a path or a recipe; `spgraph list recipes` names them"

_QUIET_SECONDS = 1.0
"""Work shorter than this shows no progress."""


def load_matrix(
    argument: str | None, read_options: ReadOptions, default_recipe: str, problem: str | None = None
) -> Matrix:
    """The matrix that `argument` names: a file, `-` for standard input, a recipe, or a name of a collection
    ("HB/1138_bus", "snap:wiki-Vote"), which is fetched where it is not there yet.

    `problem` says what parallel edges mean where the user does not: their sum, or the least. None as the
    argument takes `default_recipe` and says so. A file wins over a recipe of the same name. Raises InputError
    with close matches where there is neither, UsageError where options of reading meet a recipe.
    """
    from spgraph_bench import fetching, readers, recipes
    from spgraph_bench.problems import get_problem

    if argument is not None and not os.path.lexists(argument) and fetching.is_collection_name(argument):
        argument = fetched(argument)
    if argument is not None and (argument == "-" or os.path.lexists(argument)):
        if problem is not None:
            read_options = replace(read_options, parallel=get_problem(problem).parallel)
        with progress_on_stderr(f"reading {argument}") as progress:
            return readers.read(argument, read_options, progress)
    if argument is None:
        note(f"no file given: using the recipe {default_recipe}")
    text = default_recipe if argument is None else argument
    name = text.partition(":")[0]
    names = recipes.names()
    if name in names:
        if read_options != readers.ReadOptions(seed=read_options.seed):
            raise UsageError(
                f"options of reading do not apply to the recipe {name}",
                remedy="give a file, or set the recipe's own parameters (`spgraph list recipes`)",
            )
        with progress_on_stderr(f"making {text}") as progress:
            return recipes.make(text, progress)
    assert argument is not None
    if not argument.strip():
        raise InputError("the name of the file is empty", remedy=_NAMES)
    raise InputError(f"{argument}: no such file, and {name!r} is not a recipe", remedy=_advice(argument, name, names))


def fetched(name: str) -> str:
    """The path of the file of a collection that `name` names; it is fetched where it is not there yet."""
    from spgraph_bench import fetching
    from spgraph_bench.fetching import Remote

    def started(remote: Remote, place: Path) -> None:
        note(f"fetching {remote.url} to {place}")

    with progress_on_stderr(f"fetching {name}") as progress:
        return str(fetching.fetch(name, progress=progress, on_start=started))


def _advice(argument: str, name: str, recipes: Sequence[str]) -> str:
    path = Path(argument)
    try:
        beside = [p.name for p in path.parent.iterdir()]
    except OSError:
        beside = []
    files = [str(path.parent / near) for near in difflib.get_close_matches(path.name, beside, n=2)]
    close = files + difflib.get_close_matches(name, recipes, n=2)
    if close:
        return f"did you mean {' or '.join(close)}?"
    return _NAMES


def warn_of_findings(matrix: Matrix) -> None:
    """Say on stderr what may have been read otherwise than meant, each with its place."""
    place = "<stdin>" if matrix.source.kind == "stdin" else matrix.source.text
    for finding in matrix.findings:
        if finding.warning:
            warn(f"{place}{f':{finding.line}' if finding.line else ''}: {finding.text}")


@contextmanager
def progress_on_stderr(title: str) -> Iterator[Progress]:
    """A progress callback: a bar in a terminal, one plain line elsewhere, nothing in the first second."""
    started = time.monotonic()
    if not sys.stderr.isatty():
        announced = False

        def plain(doing: str, fraction: float | None) -> None:
            nonlocal announced
            if not announced and time.monotonic() - started > _QUIET_SECONDS:
                announced = True
                note(f"{title} ...")

        yield plain
        return

    bar: Any = None
    task: Any = None

    def drawn(doing: str, fraction: float | None) -> None:
        nonlocal bar, task
        if bar is None:
            if time.monotonic() - started < _QUIET_SECONDS:
                return
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
            bar = Progress(*columns, console=console(stderr=True), transient=True)
            bar.start()
            task = bar.add_task(title, total=1.0)
        bar.update(
            task, description=f"{title}: {doing}", completed=fraction or 0.0, total=None if fraction is None else 1.0
        )

    try:
        yield drawn
    finally:
        if bar is not None:
            bar.stop()
