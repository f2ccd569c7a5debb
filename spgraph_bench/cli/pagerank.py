"""`spgraph pagerank [FILE|RECIPE]`: ranks by one mode, how they converged, the top vertices."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from spgraph_bench.cli.options import RunOptions, input_options, matrix_argument, run_options
from spgraph_bench.cli.traversal import ModeOptions, given_by_default, mode_options, run_mode

if TYPE_CHECKING:
    from spgraph_bench.readers.common import ReadOptions

__all__ = ["command"]

_WEIGHTED_MODE = "pull"
"""The default mode has no weights."""


@click.command("pagerank")
@matrix_argument
@mode_options("pagerank", "pull-hubs")
@click.option(
    "--damping",
    type=click.FloatRange(0, 0.9999),
    default=0.85,
    show_default=True,
    help="Share of the walk that follows edges.",
)
@click.option(
    "--tolerance",
    type=click.FloatRange(0, 2),
    default=1e-6,
    show_default=True,
    help="Stop when sum |new rank - old rank| (L1 norm) is at most this; not scaled by the vertices' number.",
)
@click.option(
    "--max-iterations",
    type=click.IntRange(1, 1_000_000),
    default=100,
    show_default=True,
    metavar="N",
    help="Stop after N iterations at the latest.",
)
@click.option(
    "--dangling",
    type=click.Choice(["jump", "uniform", "self", "none"]),
    default="jump",
    show_default=True,
    help="Where the rank of vertices without out-edges goes: where the walk jumps to (--personalize), "
    "to all vertices alike, to themselves, nowhere.",
)
@click.option(
    "--weighted",
    is_flag=True,
    help="Follow an edge in proportion to its weight [default: all alike]; --mode is then pull by default.",
)
@click.option(
    "--personalize",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Jump to the vertices of FILE: lines of a vertex and a weight (1 if left out).",
)
@click.option(
    "--top",
    type=click.IntRange(0, 1000),
    default=10,
    show_default=True,
    metavar="K",
    help="Name the K vertices of highest rank.",
)
@run_options
@input_options
def command(
    argument: str | None,
    chosen: ModeOptions,
    damping: float,
    tolerance: float,
    max_iterations: int,
    dangling: str,
    weighted: bool,
    personalize: Path | None,
    top: int,
    options: RunOptions,
    read_options: ReadOptions,
) -> int:
    """Rank the vertices of a graph by PageRank: an entry in row u, column v is an edge from u to v.

    Weights are used with --weighted only. One more step in float64 checks the ranks before anything is timed.
    Without a file or recipe a built-in recipe is used.

    \b
      spgraph pagerank graph.mtx --top 20 --output ranks.csv
      spgraph pagerank rmat:scale=20,symmetrize=1 --reorder degree
      spgraph pagerank web.txt --dangling self --trace
    """  # fmt: skip
    own = {
        "damping": damping, "tolerance": tolerance, "max_iterations": max_iterations, "dangling": dangling,
        "personalize": str(personalize or ""), "top": top, "weighted": "yes" if weighted else "no",
    }  # fmt: skip
    if weighted and given_by_default("mode"):
        chosen = replace(chosen, mode=_WEIGHTED_MODE)
    reads = [] if personalize is None else [str(personalize)]
    return run_mode("pagerank", argument, chosen, lambda kind: own, options, read_options, reads=reads)
