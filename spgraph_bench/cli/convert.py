"""`spgraph convert IN OUT`: a matrix or graph in another format."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from spgraph_bench.cli import completing
from spgraph_bench.cli.inputs import load_matrix, warn_of_findings
from spgraph_bench.cli.options import input_options, threads_option
from spgraph_bench.cli.writing import SUFFIXES_HELP, check_output, write_matrix

if TYPE_CHECKING:
    from spgraph_bench.matrix import Matrix
    from spgraph_bench.readers.common import ReadOptions

__all__ = ["command"]


@click.command("convert")
@click.argument("source", metavar="IN", shell_complete=completing.input_file)
@click.argument("output", metavar="OUT", shell_complete=completing.file)
@click.option("--drop-diagonal", is_flag=True, help="Omit entries on the diagonal (edges from a vertex to itself).")
@click.option("--force", is_flag=True, help="Overwrite OUT.")
@threads_option
@input_options
def command(source: str, output: str, drop_diagonal: bool, force: bool, read_options: ReadOptions) -> None:
    """Write the matrix or graph in IN to OUT, in the format of OUT's suffix.

    IN is a file in any format that is read, - for standard input, a recipe, or a name such as HB/1138_bus; OUT is
    a file, or - for Matrix Market on stdout. Reading OUT gives the same matrix, bit by bit. What its format cannot
    hold is refused, with the option that helps; information it does not store (names, symmetry) is noted on stderr.

    \b
      spgraph convert graph.gml graph.mtx
      spgraph convert matrix.mtx graph.graph.gz --symmetrize --drop-diagonal --values ones
    """
    check_output(output, force)
    matrix = load_matrix(source, read_options, source)
    warn_of_findings(matrix)
    write_matrix(_without_diagonal(matrix) if drop_diagonal else matrix, output, force)


command.epilog = f"Suffixes of OUT: {SUFFIXES_HELP}."


def _without_diagonal(matrix: Matrix) -> Matrix:
    import numpy as np

    csr = matrix.csr
    rows = np.repeat(np.arange(csr.rows, dtype=np.int32), csr.row_lengths())
    off_diagonal = csr.col_idx != rows
    if off_diagonal.all():
        return matrix
    counts = np.bincount(rows[off_diagonal], minlength=csr.rows)
    smaller = replace(
        csr,
        row_ptr=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        col_idx=csr.col_idx[off_diagonal],
        values=None if csr.values is None else csr.values[off_diagonal],
    )
    return replace(matrix, csr=smaller)
