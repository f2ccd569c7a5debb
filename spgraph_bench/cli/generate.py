"""`spgraph generate`: the matrix of a recipe as a file."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from spgraph_bench.cli.inputs import progress_on_stderr
from spgraph_bench.cli.terminal import console, note, table
from spgraph_bench.errors import UsageError

__all__ = ["command"]


@click.command("generate")
@click.argument("recipe", required=False)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help="Where to: .mtx, .npz, .txt (edge list), .el, .wel; text also as .gz. - is stdout, Matrix Market.",
)
@click.option("--force", is_flag=True, help="Overwrite FILE.")
@click.option("--list", "listing", is_flag=True, help="Every recipe with its parameters.")
def command(recipe: str | None, output: str | None, force: bool, listing: bool) -> None:
    """Write the matrix of RECIPE, e.g. rmat:scale=20,edgefactor=16,seed=1, to a file.

    The same recipe gives the same matrix on every machine, and reading the file gives it again, bit by bit.
    """
    if listing:
        _list()
        return
    if recipe is None:
        raise UsageError("no recipe given", remedy="`spgraph generate --list` shows them")
    if output is None:
        raise UsageError("where to?", remedy=f"add -o FILE, e.g. -o {recipe.partition(':')[0]}.mtx, or -o -")
    from spgraph_bench import recipes, writers

    kind = ".mtx" if output == "-" else writers.check_target(Path(output), force)
    with progress_on_stderr(f"making {recipe}") as progress:
        matrix = recipes.make(recipe, progress)
    if output == "-":
        writers.write(matrix, sys.stdout.buffer, kind, "<stdout>")
        sys.stdout.flush()
    else:
        if matrix.csr.nnz > 1_000_000:
            note(f"writing {output} ...")
        writers.save(matrix, Path(output), force)
    csr = matrix.csr
    where = "stdout" if output == "-" else output
    note(f"{matrix.source.text}\n{csr.rows:,} x {csr.cols:,}, {csr.nnz:,} entries, to {where}")
    note(f"sha256 of the matrix: {matrix.sha256}")


def _list() -> None:
    from rich.text import Text

    from spgraph_bench.recipes import recipes

    target = console()
    for number, recipe in enumerate(recipes().values()):
        if number:
            target.print()
        target.print(Text(recipe.name, style="bold"), Text(f"- {recipe.about}"))
        drawn = table(target, "  parameter", "default", "takes", "about")
        for name, p in recipe.parameters.items():
            drawn.add_row(*map(Text, (f"  {name}", p.default_text, p.domain, p.about)))
        target.print(drawn)
