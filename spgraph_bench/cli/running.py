"""What commands that run something share: what they run on by default, value types, progress."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from spgraph_bench.cli.options import RunOptions
from spgraph_bench.cli.terminal import console
from spgraph_bench.errors import UsageError

if TYPE_CHECKING:
    from spgraph_bench.runner.run import Progress

__all__ = ["GRAPH_RECIPE", "MATRIX_RECIPE", "SOURCES", "dtypes_for", "show_progress"]

MATRIX_RECIPE = {"cuda": "rmat:scale=18", "host": "rmat:scale=11"}
"""The recipe where no file or recipe is given, by kind of device."""
GRAPH_RECIPE = {"cuda": "rmat:scale=18,symmetrize=1", "host": "rmat:scale=10,symmetrize=1"}
SOURCES = {"cuda": 64, "host": 4}
"""Sources where none are asked for; emulated kernels are slow, and their times are not taken."""


def dtypes_for(problem: str, options: RunOptions) -> tuple[str, ...]:
    """Value types of the run: those asked for, or the one of a problem without a choice.

    Raises UsageError where one was asked for that the problem does not come in.
    """
    from spgraph_bench.problems import get_problem

    offered = get_problem(problem).dtypes
    if set(options.dtypes) <= set(offered):
        return options.dtypes
    source = click.get_current_context().get_parameter_source("dtype")
    if source is not None and source.name != "DEFAULT":
        if len(offered) > 1:
            lacking = ", ".join(sorted(set(options.dtypes) - set(offered)))
            raise UsageError(f"{problem} does not come in {lacking}", remedy=f"one of {', '.join(offered)}")
        raise UsageError(f"{problem} has no value types to choose from", remedy="leave --dtype out")
    return offered[:1]


@contextmanager
def show_progress() -> Iterator[Progress]:
    """What is being done: a changing line in a terminal, nothing elsewhere."""
    if not sys.stderr.isatty():
        yield lambda text: None
        return
    with console(stderr=True).status("starting") as status:
        shown = 0.0

        def show(text: str) -> None:
            nonlocal shown
            # Samples come by the thousand; the eye needs ten a second.
            if (now := time.monotonic()) - shown > 0.1:
                shown = now
                status.update(text)

        yield show
