"""`spgraph bc [FILE|RECIPE]`: betweenness centrality from some sources or from all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from spgraph_bench.cli.options import RunOptions, input_options, matrix_argument, run_options
from spgraph_bench.cli.traversal import ModeOptions, mode_options, run_mode, source_options, source_settings
from spgraph_bench.errors import UsageError

if TYPE_CHECKING:
    from spgraph_bench.readers.common import ReadOptions

__all__ = ["command"]

_ALL = 2**31 - 1


@click.command("bc")
@matrix_argument
@mode_options("bc", "auto")
@source_options
@click.option("--all-sources", is_flag=True, help="Start from every vertex: the exact centrality.")
@click.option(
    "--normalize",
    type=click.Choice(["none", "pairs"]),
    default="none",
    show_default=True,
    help="none: sums over ordered pairs of source and target; pairs: divided by their number.",
)
@run_options
@input_options
def command(
    argument: str | None,
    chosen: ModeOptions,
    sources: Mapping[str, Any],
    all_sources: bool,
    normalize: str,
    options: RunOptions,
    read_options: ReadOptions,
) -> int:
    """Find out who lies on how many shortest paths: betweenness centrality, edges without weights.

    From each source every vertex gets its dependency, the sum over targets of the share of shortest paths
    that lead through it; the answer is the sum over sources. Times are per source. Dependencies are compared
    with a plain Brandes before anything is timed. Without a file or recipe a built-in recipe is used.

    \b
      spgraph bc graph.mtx --sources 16
      spgraph bc graph.mtx --all-sources --normalize pairs --output betweenness.csv
      spgraph bc grid:n=1000 --source 0 --mode persistent
    """  # fmt: skip
    if all_sources and (sources["source"] is not None or sources["count"] is not None):
        raise UsageError("--all-sources starts from every vertex", remedy="leave out --source and --sources")

    def own(kind: str) -> dict[str, Any]:
        given = {**sources, "count": _ALL, "any_component": True} if all_sources else sources
        return {**source_settings(given, kind), "normalize": normalize}

    return run_mode("bc", argument, chosen, own, options, read_options)
