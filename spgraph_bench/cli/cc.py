"""`spgraph cc [FILE|RECIPE]`: connected components and their sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from spgraph_bench.cli.options import RunOptions, input_options, matrix_argument, run_options
from spgraph_bench.cli.traversal import ModeOptions, mode_options, run_mode

if TYPE_CHECKING:
    from spgraph_bench.readers.common import ReadOptions

__all__ = ["command"]


@click.command("cc")
@matrix_argument
@mode_options("cc", "afforest")
@run_options
@input_options
def command(argument: str | None, chosen: ModeOptions, options: RunOptions, read_options: ReadOptions) -> int:
    """Find the connected components of a graph, and the sizes of the largest.

    Edges count in both directions: of a directed graph these are its weakly connected components. The answer
    is compared with scipy's before anything is timed. --output writes each vertex's component, numbered from
    the largest. Without a file or recipe a built-in recipe is used.

    \b
      spgraph cc graph.mtx
      spgraph cc rmat:scale=20,symmetrize=1 --mode hook
      spgraph cc edges.txt --output component.csv
    """  # fmt: skip
    return run_mode("cc", argument, chosen, lambda kind: {}, options, read_options)
