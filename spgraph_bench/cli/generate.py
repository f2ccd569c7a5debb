"""`spgraph generate`: the matrix of a recipe as a file."""

from __future__ import annotations

import click

from spgraph_bench.cli import completing
from spgraph_bench.cli.inputs import progress_on_stderr
from spgraph_bench.cli.options import threads_option
from spgraph_bench.cli.terminal import console, table
from spgraph_bench.cli.writing import SUFFIXES_HELP, check_output, write_matrix
from spgraph_bench.errors import UsageError

__all__ = ["command"]


@click.command("generate")
@click.argument("recipe", required=False, shell_complete=completing.input_file)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    shell_complete=completing.file,
    help=f"Output file, by its suffix: {SUFFIXES_HELP}. - is stdout, Matrix Market.",
)
@click.option("--force", is_flag=True, help="Overwrite FILE.")
@click.option("--list", "listing", is_flag=True, help="Every recipe with its parameters.")
@threads_option
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
    from spgraph_bench import recipes

    check_output(output, force)
    with progress_on_stderr(f"making {recipe}") as progress:
        matrix = recipes.make(recipe, progress)
    write_matrix(matrix, output, force)


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
