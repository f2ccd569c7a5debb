"""`spgraph report RECORDS`: records as a page with charts, or as tables for other programs and documents."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal

import click

from spgraph_bench.cli.options import PathParam
from spgraph_bench.cli.terminal import note, warn
from spgraph_bench.errors import InputError, UsageError
from spgraph_bench.paths import results_folder
from spgraph_bench.units import quantity

__all__ = ["command"]

_BINARY = {"parquet": "results.parquet", "html": "report.html"}
"""Formats that are nothing for a terminal -> a name for a file."""


@click.command("report")
@click.argument("paths", nargs=-1, metavar="[RECORDS]...", type=PathParam())
@click.option(
    "--format",
    "form",
    type=click.Choice(["html", "md", "csv", "parquet", "latex"]),
    help="html is one page with charts; csv and parquet have a row a cell and all figures; md and latex tables "
    "[default: by the suffix of FILE, else html].",
)
@click.option("-o", "--output", metavar="FILE", type=PathParam(dir_okay=False), help="Output file [default: stdout].")
@click.option("--force", is_flag=True, help="Overwrite FILE.")
@click.option(
    "--rank", type=click.Choice(["cold", "hot"]), default="cold", show_default=True, help="Cache state of the figures."
)
def command(
    paths: tuple[Path, ...], form: str | None, output: Path | None, force: bool, rank: Literal["cold", "hot"]
) -> None:
    """Show RECORDS, which are files of records (*.jsonl) or folders of them, in another form; without any, the folder
    that records go to.

    \b
      spgraph report -o report.html
      spgraph report results/ -o results.csv
      spgraph report a.jsonl b.jsonl --format latex
    """
    from spgraph_bench.report.export import SUFFIXES, export
    from spgraph_bench.report.page import html_bytes
    from spgraph_bench.results.store import read_records
    from spgraph_bench.writers import check_place, whole_file

    if form is None:
        form = SUFFIXES.get(output.suffix.lower(), "html") if output is not None else "html"
    if output is not None and str(output) != "-":
        check_place(output, force)
    elif form in _BINARY and sys.stdout.isatty():
        raise UsageError(f"{form} is nothing for a terminal", remedy=f"add -o {_BINARY[form]}")
    paths = paths or (results_folder(),)
    records = read_records(list(paths), warn)
    if not records:
        raise InputError("there are no records", place=str(paths[0]), remedy="run a bench first")
    data = html_bytes(records, rank) if form == "html" else export(records, form, rank)
    if output is None or str(output) == "-":
        click.echo(data, nl=False)  # bytes go out as they are
    else:
        with whole_file(output, force) as stream:
            stream.write(data)
        note(f"{quantity(len(records), 'record')}, to {output}")
