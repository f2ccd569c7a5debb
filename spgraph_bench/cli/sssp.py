"""`spgraph sssp [FILE|RECIPE]`: shortest paths from one vertex after another."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import click

from spgraph_bench.cli.options import RunOptions, input_options, matrix_argument, run_options
from spgraph_bench.cli.traversal import ModeOptions, mode_options, run_mode, source_options, source_settings
from spgraph_bench.errors import UsageError

if TYPE_CHECKING:
    from spgraph_bench.matrix import Matrix
    from spgraph_bench.readers.common import ReadOptions

__all__ = ["command"]


@click.command("sssp")
@matrix_argument
@mode_options("sssp", "auto")
@source_options
@click.option(
    "--weights",
    type=click.Choice(["file", "ones", "integers"]),
    default="file",
    show_default=True,
    help="The graph's own (1 where it has none), all 1, or drawn from 1 to 255 with --seed.",
)
@click.option(
    "--delta",
    type=click.FloatRange(min=0, min_open=True),
    metavar="LENGTH",
    help="How far the threshold of near-far and auto rises at a time [default: found from the weights].",
)
@click.option(
    "--cutoff",
    type=click.FloatRange(min=0),
    metavar="LENGTH",
    help="Follow no path that is longer; vertices farther away count as not reached [default: none].",
)
@run_options
@input_options
def command(
    argument: str | None,
    chosen: ModeOptions,
    sources: Mapping[str, Any],
    weights: Literal["file", "ones", "integers"],
    delta: float | None,
    cutoff: float | None,
    options: RunOptions,
    read_options: ReadOptions,
) -> int:
    """Find the shortest paths from a vertex: an entry in row u, column v is an edge from u to v, that long.

    Lengths are checked against Dijkstra's before anything is timed. Without a file or recipe a built-in
    recipe is used.

    \b
      spgraph sssp graph.mtx --source 1 --output lengths.csv
      spgraph sssp rmat:scale=20,symmetrize=1 --weights integers --dtype int32
      spgraph sssp roads.gr --source 1 --cutoff 5000
      spgraph sssp grid:n=1000,values=none --source 0 --mode auto
    """  # fmt: skip
    from spgraph_bench.problems.traversal import pattern_is_symmetric
    from spgraph_bench.recipes.values import with_values
    from spgraph_bench.variants import get_variant

    if delta is not None and "delta" not in get_variant("sssp", chosen.mode).tunables:
        raise UsageError(f"{chosen.mode} has no threshold", remedy="--mode near-far or auto")
    if delta is not None and "delta" in options.params:
        raise UsageError("--delta and --param delta are the same", remedy="leave one out")

    def change(matrix: Matrix) -> Matrix:
        if weights == "file":
            return matrix
        return with_values(matrix, weights, options.seed, pattern_is_symmetric(matrix))

    if cutoff is not None and not math.isfinite(cutoff):
        raise UsageError("--cutoff is not a finite length", remedy="leave it out: all paths are followed")

    def own(kind: str) -> dict[str, Any]:
        return {**source_settings(sources, kind), "cutoff": -1.0 if cutoff is None else cutoff}

    params = {} if delta is None else {"delta": delta}
    return run_mode("sssp", argument, chosen, own, options, read_options, params=params, change=change)
