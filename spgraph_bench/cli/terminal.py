"""Where text goes: data to stdout, progress and notes to stderr, all of it printable.

Rich is imported on first use only, so that `spgraph --help` and `--json` start fast. It honours NO_COLOR.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
from typing import TYPE_CHECKING, Any

import click

from spgraph_bench.printable import json_printable, message, printable
from spgraph_bench.privacy import without_home

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

__all__ = ["PLAIN_WIDTH", "console", "note", "out", "out_json", "say", "table", "warn"]

PLAIN_WIDTH = 100
"""Columns of a table that does not go to a terminal (COLUMNS overrides it)."""


def say(text: str) -> None:
    """A message on stderr: at most two lines of 200 characters, without control characters."""
    with contextlib.suppress(OSError):  # stderr may be on the full disk
        click.echo(message(without_home(text)), err=True)


def note(text: str) -> None:
    """Print a note on stderr: neither data nor an error."""
    say(text)


def warn(text: str) -> None:
    """Say on stderr that something is not as it should be, while the run goes on."""
    say(f"warning: {text}")


def out(text: str) -> None:
    """Text on stdout, without control characters; a line feed is added where it has none at its end."""
    click.echo(printable(text), nl=not text.endswith("\n"))


def out_json(value: Any, indent: int | None = 2) -> None:
    """`value` as JSON on stdout."""
    click.echo(json_printable(json.dumps(value, indent=indent, default=str)))


def console(*, stderr: bool = False) -> Console:
    """A rich console on stdout (or stderr) that is plain and 100 columns wide when it is not a terminal."""
    from spgraph_bench.report.text import console_class

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else PLAIN_WIDTH
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal():  # rich would print nothing with the 0 of a terminal that has no size
        width = int(columns) or shutil.get_terminal_size((PLAIN_WIDTH, 25)).columns
    return console_class()(stderr=stderr, width=width, highlight=False, soft_wrap=False)


def table(target: Console, *columns: str, title: str | None = None) -> Table:
    """A table in the one style of all commands: thin lines in a terminal, none in plain text."""
    from rich import box
    from rich.table import Table

    style = box.SIMPLE_HEAD if target.is_terminal else None
    made = Table(title=title, title_justify="left", title_style="bold", box=style, pad_edge=False, show_edge=False)
    for column in columns:
        made.add_column(column, overflow="fold")
    return made
