"""Writing a matrix where a user says: what `generate` and `convert` share."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from spgraph_bench.cli.terminal import note
from spgraph_bench.errors import UsageError
from spgraph_bench.units import quantity

if TYPE_CHECKING:
    from spgraph_bench.matrix import Matrix

__all__ = ["SUFFIXES_HELP", "check_output", "write_matrix"]

SUFFIXES_HELP = (
    ".mtx, .npz, .mat, .rb; graphs: .txt, .edges, .tsv, .el, .wel, .sg, .wsg, .gr, .col, .graph, .net, .gml, "
    ".graphml; .gz, .bz2 or .xz may follow"
)
_MANY = 1_000_000


def check_output(output: str, force: bool) -> str:
    """The kind of file that `output` asks for; "-" is standard output, as Matrix Market. Raises UsageError."""
    from spgraph_bench import writers

    return ".mtx" if output == "-" else writers.check_target(Path(output), force)


def write_matrix(matrix: Matrix, output: str, force: bool) -> None:
    """Write `matrix` to `output`, and say on stderr what the file does not hold.

    Names of vertices for which the format has no place go to a second file, ``OUTPUT.vertices.csv``. Raises
    UsageError where the format cannot hold the matrix, or the file cannot be written.
    """
    from spgraph_bench import writers
    from spgraph_bench.answers import needs_map, save_vertex_map, vertex_map_path

    kind = check_output(output, force)
    names = None
    if output != "-" and not writers.writers()[kind].names and needs_map(matrix.labels()):
        names = vertex_map_path(Path(output))
        if names.exists() and not force:
            raise UsageError("exists already", place=str(names), remedy="--force overwrites it")
    if output == "-":
        writers.write(matrix, sys.stdout.buffer, kind, "<stdout>")
        sys.stdout.flush()
    else:
        if matrix.csr.nnz > _MANY:
            note(f"writing {output} ...")
        writers.save(matrix, Path(output), force)
    for text in writers.losses(matrix, kind):
        note(text)
    if names is not None:
        save_vertex_map(names, matrix.labels())
        note(f"what the input calls each vertex: {names}")
    csr = matrix.csr
    where = "stdout" if output == "-" else output
    note(f"{matrix.source.text}\n{csr.rows:,} x {csr.cols:,}, {quantity(csr.nnz, 'entry', 'entries')}, to {where}")
    note(f"sha256 of the matrix: {matrix.sha256}")
