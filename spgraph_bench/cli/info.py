"""`spgraph info`: what a matrix looks like, before anything is measured."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from spgraph_bench.cli.inputs import load_matrix, progress_on_stderr, warn_of_findings
from spgraph_bench.cli.options import PathParam, input_options, json_option, matrix_argument, threads_option
from spgraph_bench.cli.plotting import check_picture
from spgraph_bench.cli.terminal import console, note, out_json, table
from spgraph_bench.units import quantity

if TYPE_CHECKING:
    from rich.console import Console

    from spgraph_bench.matrix import Matrix
    from spgraph_bench.readers.common import ReadOptions
    from spgraph_bench.stats import MatrixStats
    from spgraph_bench.structure import Structure

__all__ = ["command"]

_DEFAULT_RECIPE = "rmat:scale=16"
_VALUE_BYTES = {"float32": 4, "float64": 8}


@dataclass(frozen=True)
class FormatSize:
    """Predicted bytes of one format, by dtype, and why it would be refused, if it would."""

    format: str
    about: str
    bytes: dict[str, int]
    refused: str | None


@dataclass(frozen=True)
class Facts:
    """All that `info` tells; tables and JSON both come from it."""

    matrix: Matrix
    stats: MatrixStats
    structure: Structure
    formats: Sequence[FormatSize]

    @property
    def dense_bytes(self) -> dict[str, int]:
        """Bytes of a dense matrix, by value type."""
        cells = self.stats.rows * self.stats.cols
        return {name: cells * size for name, size in _VALUE_BYTES.items()}

    @property
    def bitmap_bytes(self) -> int:
        """Bytes of a bit per place."""
        return -(-self.stats.rows * self.stats.cols // 8)


@click.command("info")
@matrix_argument
@threads_option
@input_options
@json_option
@click.option(
    "--plot",
    "picture",
    type=PathParam(dir_okay=False),
    metavar="FILE",
    help="Draw spy plot and row lengths to a .png, .svg or .pdf file as well.",
)
def command(argument: str | None, read_options: ReadOptions, as_json: bool, picture: Path | None) -> None:
    """Statistics of a matrix, its row lengths and its picture, its bytes in every format, and what was odd
    in the file. Everything is counted exactly, nothing is timed.
    """
    if picture is not None:
        check_picture(picture)
    matrix = load_matrix(argument, read_options, _DEFAULT_RECIPE)
    warn_of_findings(matrix)
    facts = _gather(matrix)
    if picture is not None:
        _draw(facts, picture)
    if as_json:
        out_json(_as_json(facts), indent=None)
    else:
        _show(facts, console())


def _gather(matrix: Matrix) -> Facts:
    from spgraph_bench.formats.base import formats
    from spgraph_bench.formats.common import offsets_for
    from spgraph_bench.memory import require_memory
    from spgraph_bench.runner.figures import analysis_bytes
    from spgraph_bench.stats import row_stats
    from spgraph_bench.structure import analyse

    shape = f"the analysis of {matrix.csr.rows:,} x {matrix.csr.cols:,} with {matrix.csr.nnz:,} entries"
    require_memory(analysis_bytes(matrix.csr), shape, matrix.source.text)
    stats = row_stats(matrix.csr)
    with progress_on_stderr(f"analysing {matrix.name}") as progress:
        structure = analyse(matrix.csr, progress)
    offset_bytes = offsets_for(stats.nnz).itemsize
    sizes = [
        FormatSize(
            name,
            f.title,
            {dtype: f.predict_bytes(stats, size, offset_bytes) for dtype, size in _VALUE_BYTES.items()},
            f.refuse(stats, None, _VALUE_BYTES["float32"]),
        )
        for name, f in formats().items()
    ]
    return Facts(matrix, stats, structure, sizes)


def _draw(facts: Facts, path: Path) -> None:
    from spgraph_bench.report.picture import save_picture

    csr, stats = facts.matrix.csr, facts.stats
    save_picture(path, facts.matrix.name, csr.row_ptr, csr.col_idx, csr.shape, stats.lengths, stats.length_counts)
    note(f"drawn: {path}")


# JSON ---------------------------------------------------------------------------------------------------


def _plain(value: Any) -> Any:
    """`value` in JSON's types: arrays as lists, NaN and infinities as null (JSON has neither).

    Fields that a class keeps out of its repr (the matrix behind its statistics) stay out here, too.
    """
    import numpy as np

    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in fields(value) if f.repr}
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _as_json(facts: Facts) -> dict[str, Any]:
    matrix, stats, structure = facts.matrix, facts.stats, facts.structure
    return {
        "schema": "spgraph-info-1",
        "matrix": {
            "name": matrix.name,
            "sha256": matrix.sha256,
            "entries_sha256": matrix.entries_sha256,
            "source": asdict(matrix.source),
            "symmetry": matrix.symmetry,
            "weighted": matrix.weighted,
            "policies": asdict(matrix.policies),
        },
        "findings": [asdict(finding) for finding in matrix.findings],
        "rows": _plain(stats) | {"density": stats.density},
        "structure": _plain(structure) | {"block_size": structure.block_size},
        "formats": [asdict(size) for size in facts.formats],
        "dense": {"bytes": facts.dense_bytes, "bitmap_bytes": facts.bitmap_bytes},
    }


# Text ---------------------------------------------------------------------------------------------------


def _show(facts: Facts, target: Console) -> None:
    from rich.text import Text

    from spgraph_bench.report.plots import histogram, spy
    from spgraph_bench.report.text import clean

    ascii_only = not target.is_terminal or not target.encoding.lower().startswith("utf")
    width = min(target.width, 100)

    def head(title: str) -> None:
        target.print()
        target.print(Text(title, style="bold"))

    def pairs(rows: Iterator[tuple[str, str]]) -> None:
        from rich.table import Table

        grid = Table.grid(padding=(0, 2))
        grid.add_column(no_wrap=True)
        grid.add_column(overflow="fold")
        for name, text in rows:
            grid.add_row(Text(f"  {name}", style="dim"), Text(clean(text)))
        target.print(grid, width=width)

    target.print(Text(clean(facts.matrix.name), style="bold"))
    pairs(_identity(facts))
    head("Entries per row and column")
    _lengths_table(facts, target)
    head("Structure")
    pairs(_structure(facts))
    head("Bytes in each format")
    _bytes_table(facts, target, width)
    if facts.matrix.findings:
        head("Notes on the input")
        for finding in facts.matrix.findings:
            place = f"line {finding.line:,}: " if finding.line is not None else ""
            counted = finding.count == 1 or f"{finding.count:,}" in finding.text
            often = "" if counted else f" ({finding.count:,} times)"
            target.print(Text(f"  {place}{clean(finding.text)}{often}"), width=width)
    csr, stats = facts.matrix.csr, facts.stats
    head("Rows by their number of nonzeros")
    click.echo(histogram(stats.lengths, stats.length_counts, width, ascii_only), nl=False)
    head("Where the nonzeros are")
    click.echo(spy(csr.row_ptr, csr.col_idx, *csr.shape, min(width, 72), 32, ascii_only), nl=False)


def _identity(facts: Facts) -> Iterator[tuple[str, str]]:
    matrix, stats = facts.matrix, facts.stats
    yield "source", f"{matrix.source.text} ({matrix.source.format})"
    entries = quantity(stats.nnz, "entry", "entries")
    yield "shape", f"{stats.rows:,} x {stats.cols:,}, {entries}, density {stats.density:.3g}"
    kind = "weighted" if matrix.weighted else "pattern, no values"
    yield "kind", f"{kind}; declared {matrix.symmetry}"
    if steps := matrix.policies.summary():
        yield "made with" if matrix.source.kind == "recipe" else "read as", "; ".join(steps)
    yield "sha256", matrix.sha256


def _lengths_table(facts: Facts, target: Console) -> None:
    from spgraph_bench.report.text import significant
    from spgraph_bench.stats import length_stats

    drawn = table(target, "", "mean", "median", "std", "min", "max", "empty", "Gini")
    for column in drawn.columns[1:]:
        column.justify = "right"
    rows = length_stats(facts.matrix.csr.row_lengths())
    for name, of in (("row", rows), ("column", facts.structure.columns)):
        shape = (significant(value, 4) for value in (of.mean, of.median, of.std))
        counts = (f"{count:,}" for count in (of.min, of.max, of.empty))
        drawn.add_row(f"  {name}", *shape, *counts, f"{of.gini:.3f}")
    target.print(drawn)


def _share(share: float) -> str:
    """A percentage that says 0 and 100 only where it is."""
    if share in (0, 1):
        return f"{share:.0%}"
    return "<0.1%" if share < 0.001 else ">99.9%" if share > 0.999 else f"{share:.1%}"


def _structure(facts: Facts) -> Iterator[tuple[str, str]]:
    from spgraph_bench.report.text import significant
    from spgraph_bench.structure import BLOCK_FILL, DISTINCT_LIMIT

    s = facts.structure
    away = significant(s.mean_distance)
    yield "bandwidth", f"lower {s.lower_bandwidth:,}, upper {s.upper_bandwidth:,}, mean |row - col| {away}"
    yield "profile", f"{s.profile:,} places from the first entry of each row to the diagonal"
    yield "row span", f"widest {s.widest_row:,} columns; {s.wide_rows:,} rows wider than 65,536"
    d = s.diagonals
    yield "diagonals", f"{d.occupied:,} occupied, {_share(d.fill)} full; {d.full:,} without a gap"
    held = _share(d.well_filled_share)
    yield "", f"{d.well_filled:,} at least {BLOCK_FILL:.0%} full, with {held} of all entries"
    yield "main diagonal", f"{d.main:,} of {d.main_length:,} places"
    if s.symmetry is None:
        yield "symmetry", "not square"
    else:
        shares = s.symmetry
        text = f"pattern {_share(shares.pattern)}, values {_share(shares.value)}, skew {_share(shares.skew)}"
        yield "symmetry", f"{text} of the entries off the diagonal"
    fills = ", ".join(f"{b.size}x{b.size} {_share(b.fill)}" for b in s.blocks)
    best = f"{s.block_size}x{s.block_size} suits BSR" if s.block_size else f"none reaches {BLOCK_FILL:.0%}"
    yield "block fill", f"{fills}; {best}"
    v = s.values
    if v is None:
        return
    distinct = f"more than {DISTINCT_LIMIT:,}" if v.distinct is None else f"{v.distinct:,}"
    equal = ", all equal" if v.distinct == 1 else ""
    yield "values", f"{v.min:.12g} to {v.max:.12g}, {distinct} distinct{equal}"
    yield "", f"{v.zeros:,} stored zeros, {v.negative:,} negative, {v.nonfinite:,} NaN or infinite"


def _bytes_table(facts: Facts, target: Console, width: int) -> None:
    from rich.text import Text

    from spgraph_bench.report.text import significant
    from spgraph_bench.units import human_bytes

    nnz = facts.stats.nnz
    drawn = table(target, "  format", "float32", "float64", "B/nonzero", "")
    for column in drawn.columns[1:4]:
        column.justify = "right"

    def row(name: str, sizes: dict[str, int], about: str) -> None:
        each = significant(sizes["float32"] / nnz) if nnz else "-"
        drawn.add_row(*map(Text, (f"  {name}", *(human_bytes(sizes[t]) for t in _VALUE_BYTES), each, about)))

    for size in facts.formats:
        row(size.format, size.bytes, f"refused: {size.refused}" if size.refused else size.about)
    row("dense", facts.dense_bytes, "every place stored, for contrast")
    bitmap = human_bytes(facts.bitmap_bytes)
    each = significant(facts.bitmap_bytes / nnz) if nnz else "-"
    drawn.add_row(*map(Text, ("  dense bitmap", bitmap, bitmap, each, "a bit for each place, for contrast")))
    target.print(drawn, width=width)
