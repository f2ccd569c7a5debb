"""`spgraph formats FILE|RECIPE`: what every format costs on one matrix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from spgraph_bench.cli.inputs import load_matrix, progress_on_stderr, warn_of_findings
from spgraph_bench.cli.options import input_options, json_option, matrix_argument, threads_option
from spgraph_bench.cli.terminal import console, note, out, out_json, table
from spgraph_bench.errors import UsageError
from spgraph_bench.units import quantity

if TYPE_CHECKING:
    from rich.table import Table

    from spgraph_bench.matrix import Matrix
    from spgraph_bench.readers.common import ReadOptions
    from spgraph_bench.runner.tradeoffs import Tradeoff, Walk

__all__ = ["command"]

_RECIPE = "rmat:scale=14"
_LARGE = 2_000_000
"""Nonzeros from which tracing every kernel takes many minutes."""

_LEGEND = """\
B/nnz       stored bytes per nonzero
fill        share of the bytes that is padding
ms          from CSR into the format on this machine's CPU, measured: the median of three
Of a model of a plain SpMV kernel with this mapping, not of a measurement; reads of x are omitted:
mapping     what a thread or a warp works on
coalesced   sectors of 32 bytes needed over sectors moved, for the values (columns where there are none)
lanes       of 32 that have an entry to work on, on average: 32 means no divergence
longest     load balance: steps of the longest warp over the mean; "!" where it outlasts all others
atomics     atomic additions to y in one product
-           no model of the mapping; *: the format drops the values, which are of the matrix's own"""

_TRACED_LEGEND = """\
Counted from the accesses of the real kernels on the host device, reads of x included (docs/profile.md):
requests    memory instructions, one for each warp
sectors     of 32 bytes, moved for a request; ideal: the fewest for the same bytes
lanes       of 32 that take part in a request
moved       bytes between the cores and the L1 cache"""


@click.command("formats")
@matrix_argument
@click.option(
    "--dtype", type=click.Choice(["float32", "float64"]), default="float32", show_default=True, help="Type of values."
)
@click.option("--traced", is_flag=True, help="Also run the kernels of each format under the memory trace.")
@threads_option
@input_options
@json_option
def command(argument: str | None, dtype: str, traced: bool, read_options: ReadOptions, as_json: bool) -> None:
    """Cost of every format on one matrix: bytes, padding, coalescing, divergence, load balance, atomics and the
    time of its conversion. Ends with the formats that fit.

    \b
      spgraph formats matrix.mtx
      spgraph formats rmat:scale=10 --traced
    """
    from spgraph_bench.device import host_compiler
    from spgraph_bench.memory import require_memory
    from spgraph_bench.runner.figures import analysis_bytes
    from spgraph_bench.runner.tradeoffs import recommendation, tradeoffs

    if traced and (missing := host_compiler.available()):
        raise UsageError(f"--traced cannot run: {missing}", remedy="omit it, or install g++")
    matrix = load_matrix(argument, read_options, _RECIPE)
    warn_of_findings(matrix)
    require_memory(analysis_bytes(matrix.csr), f"the analysis of {matrix.csr.nnz:,} entries", matrix.source.text)
    if traced and matrix.csr.nnz > _LARGE:
        note(f"{matrix.csr.nnz:,} nonzeros: tracing all kernels takes long; a smaller matrix shows the same")
    with progress_on_stderr(f"converting {matrix.name}") as progress:
        rows = tradeoffs(matrix, dtype, traced=traced, seed=read_options.seed, progress=progress)
    advice = recommendation(rows, matrix.csr.nnz)
    if as_json:
        facts = {"rows": matrix.csr.rows, "cols": matrix.csr.cols, "nnz": matrix.csr.nnz, "sha256": matrix.sha256}
        out_json(
            {
                "schema": "spgraph-formats-1",
                "matrix": {"name": matrix.name, **facts},
                "dtype": dtype,
                "formats": [asdict(row) for row in rows],
                "advice": advice,
            }
        )
        return
    _show(matrix, dtype, rows, advice)


def _show(matrix: Matrix, dtype: str, rows: Sequence[Tradeoff], advice: str) -> None:
    csr = matrix.csr
    out(f"{matrix.name}: {csr.rows:,} x {csr.cols:,}, {quantity(csr.nnz, 'nonzero')}, {dtype}\n\n")
    target = console()
    target.print(_formats_table(rows, csr.nnz))
    out(f"\n{_LEGEND}")
    if refusals := [row for row in rows if row.refused]:
        out("\nrefused")
        for reason in dict.fromkeys(str(row.refused) for row in refusals):
            out(f"  {', '.join(row.format for row in refusals if row.refused == reason)}: {reason}")
    if any(row.traced for row in rows):
        out("\n")
        target.print(_traced_table(rows))
        out(f"\n{_TRACED_LEGEND}")
        for t in (t for row in rows for t in row.traced if t.refused):
            out(f"  {t.kernel}: {t.refused}")
    out(f"\n{advice}")


def _formats_table(rows: Sequence[Tradeoff], nnz: int) -> Table:
    from rich.text import Text

    from spgraph_bench.report.text import percent, significant
    from spgraph_bench.units import human_bytes

    columns = ("format", "bytes", "B/nnz", "fill", "ms", "mapping", "coalesced", "lanes", "longest", "atomics")
    drawn = table(console(), *columns)
    for column in drawn.columns:
        column.no_wrap = True
        column.justify = "left" if column.header in ("format", "mapping") else "right"
    modelled: dict[tuple[Walk, ...], str] = {}
    for row in rows:
        if row.refused:
            continue
        first = [
            row.format + ("" if row.values else "*"),
            human_bytes(row.bytes),
            significant(row.bytes / nnz) if nnz else "-",
            "0" if not row.padding else percent(row.padding),
            significant(None if row.conversion_s is None else 1000 * row.conversion_s, 3, 3),
        ]
        alike = modelled.setdefault(row.walks, row.format)
        if row.walks and alike != row.format:
            drawn.add_row(*map(Text, (*first, f"as {alike}")))
            continue
        for number, walk in enumerate(row.walks or (None,)):
            cells = ["-"] * 5
            if walk is not None:
                longest = significant(walk.longest) + ("!" if walk.outlasts else "")
                atomics = f"{walk.atomics:,}" if walk.atomics < 10**7 else significant(walk.atomics)
                cells = [walk.mapping, f"{walk.coalescing:.0%}", f"{walk.lanes:.1f}", longest, atomics]
            drawn.add_row(*map(Text, (*(first if number == 0 else [""] * 5), *cells)))
    return drawn


def _traced_table(rows: Sequence[Tradeoff]) -> Table:
    from rich.text import Text

    from spgraph_bench.units import human_bytes

    drawn = table(console(), "format", "kernel", "requests", "sectors", "ideal", "lanes", "moved", "atomics")
    for column in drawn.columns[2:]:
        column.justify = "right"
    for row in rows:
        for t in row.traced:
            if t.refused is None:
                figures = (f"{t.requests:,}", f"{t.sectors:.1f}", f"{t.ideal:.1f}", f"{t.lanes:.1f}")
                drawn.add_row(*map(Text, (row.format, t.kernel, *figures, human_bytes(t.bytes), f"{t.atomics:,}")))
    return drawn
