"""Where text goes: data to stdout, everything said along the way to stderr.

Rich is imported on first use only, so that `spgraph --help` and `--json` start fast. It honours NO_COLOR.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

__all__ = ["PLAIN_WIDTH", "console", "note", "table", "warn"]

PLAIN_WIDTH = 100
"""Columns of a table that does not go to a terminal (COLUMNS overrides it)."""


def note(text: str) -> None:
    """Say something on stderr that is neither data nor a fault."""
    click.echo(text, err=True)


def warn(text: str) -> None:
    """Say on stderr that something is not as it should be, while the run goes on."""
    click.echo(f"warning: {text}", err=True)


def console(*, stderr: bool = False) -> Console:
    """A rich console on stdout (or stderr) that is plain and 100 columns wide when it is no terminal."""
    from rich.console import Console

    class Quitting(Console):
        def on_broken_pipe(self) -> None:  # rich would exit with status 1
            raise BrokenPipeError

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or "COLUMNS" in os.environ else PLAIN_WIDTH
    return Quitting(stderr=stderr, width=width, highlight=False, soft_wrap=False)


def table(target: Console, *columns: str, title: str | None = None) -> Table:
    """A table in the one style of all commands: thin lines in a terminal, none in plain text."""
    from rich import box
    from rich.table import Table

    style = box.SIMPLE_HEAD if target.is_terminal else None
    made = Table(
        title=title, title_justify="left", title_style="bold", box=style, pad_edge=False, show_edge=False
    )
    for column in columns:
        made.add_column(column, overflow="fold")
    return made
