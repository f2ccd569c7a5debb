"""Files made of records: what --export-csv and --export-markdown add to a command."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from spgraph_bench.cli.options import PathParam, collected
from spgraph_bench.cli.terminal import note

if TYPE_CHECKING:
    from spgraph_bench.results.record import Record

__all__ = ["Exports", "export_options", "exports_of"]


@dataclass(frozen=True)
class Exports:
    """The files that were asked for, by format."""

    files: Mapping[str, Path]

    def check(self) -> None:
        """UsageError where one cannot be written: before anything is measured."""
        from spgraph_bench.writers import check_place

        for path in self.files.values():
            check_place(path, overwrite=True)

    def write(self, records: Sequence[Record], cache: Literal["cold", "hot"]) -> None:
        """Write them. Raises UsageError where one cannot be written after all."""
        if not self.files:
            return
        from spgraph_bench.report.export import export
        from spgraph_bench.writers import whole_file

        for form, path in self.files.items():
            with whole_file(path, overwrite=True) as stream:
                stream.write(export(records, form, cache))
            note(f"table in {path}")


def exports_of(given: Mapping[str, Any]) -> Exports:
    """From the values of the options that :data:`export_options` adds, by name."""
    files = {"csv": given["export_csv"], "md": given["export_markdown"]}
    return Exports({form: path for form, path in files.items() if path is not None})


_PATH = PathParam(dir_okay=False)

export_options = collected(
    (
        click.option("--export-csv", type=_PATH, metavar="FILE", help="Also write the table as CSV, with all figures."),
        click.option("--export-markdown", type=_PATH, metavar="FILE", help="Also write the table as Markdown."),
    ),
    "exports",
    exports_of,
)
"""Adds both options; the command gets ``exports: Exports``."""
