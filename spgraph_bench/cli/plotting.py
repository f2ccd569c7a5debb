"""Pictures that commands draw: to a file by matplotlib, or into the terminal."""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from spgraph_bench.cli import completing
from spgraph_bench.cli.terminal import console, note, out
from spgraph_bench.errors import UsageError

if TYPE_CHECKING:
    from spgraph_bench.report.drawing import Drawing, Panel
    from spgraph_bench.results.record import Record
    from spgraph_bench.results.tidy import Cache

__all__ = ["check_picture", "check_plot", "level_drawing", "plot_option", "result_drawing", "show_plot"]

_SUFFIXES = (".png", ".svg", ".pdf")
_MOST_SHAPES = 3000
"""Curves or squares of a map; more cannot be told apart."""


def plot_option(about: str) -> click.Option:
    """``--plot FILE|-``, which draws `about`."""
    return click.Option(
        ["--plot"],
        metavar="FILE|-",
        shell_complete=completing.file,
        help=f"Draw {about} to a .png, .svg or .pdf file, or to the terminal (-).",
    )


def check_picture(path: Path) -> None:
    """Before any work: UsageError where no picture can be written to `path`; an older one is replaced."""
    from spgraph_bench.writers import check_place

    if path.suffix.lower() not in _SUFFIXES:
        raise UsageError(f"cannot draw {path.name!r}", remedy=f"end the name in {', '.join(_SUFFIXES)}")
    if importlib.util.find_spec("matplotlib") is None:
        raise UsageError("--plot needs matplotlib", remedy="pip install 'spgraph[plot]'")
    check_place(path, overwrite=True)
    try:  # nothing else tells whether a file can be made there
        with tempfile.NamedTemporaryFile(dir=path.resolve().parent, prefix=f".{path.name[:100]}."):
            pass
    except OSError as error:
        raise UsageError(
            f"cannot be written: {error.strerror}", place=str(path), remedy="choose another place"
        ) from None


def check_plot(target: str | None, as_json: bool) -> None:
    """:func:`check_picture` of the value of --plot; ``-`` and --json would share stdout."""
    if target is None:
        return
    if target != "-":
        check_picture(Path(target))
    elif as_json:
        raise UsageError("--plot - and --json both write to stdout", remedy="--plot FILE.svg")


def show_plot(target: str | None, drawing: Drawing | None) -> None:
    """Draw to `target`, the value of --plot; says so where there is nothing to draw."""
    if target is None:
        return
    if drawing is None or not drawing.panels:
        note("there is nothing to draw: no variant gave a right answer")
        return
    if target == "-":
        from spgraph_bench.report.braille import draw

        screen = console()
        out("\n" + draw(drawing, min(screen.width, 100), ascii=not screen.encoding.lower().startswith("utf")))
        return
    from spgraph_bench.report.picture import save_drawing
    from spgraph_bench.writers import whole_file

    path = Path(target)
    with whole_file(path, overwrite=True) as stream:
        save_drawing(stream, drawing, path.suffix.lower()[1:])
    note(f"drawn: {path}")


_EMULATED = "Kernels are emulated here (host device): counts of theirs, no times."
_ORACLE = "The map is the answer that every variant's output was compared with."
_MERGED = "Squares too small to see are drawn as the one that holds them."


def _map(record: Record) -> tuple[list[Panel], list[str]]:
    """The answer in the plane, of a problem that has one, from the inputs of `record`, with its notes."""
    import numpy as np

    from spgraph_bench.problems import get_problem
    from spgraph_bench.report.drawing import curves, points_and_boxes
    from spgraph_bench.runner.assembly import generated_matrix

    problem = get_problem(record.problem, record.options)
    if problem.needs_matrix:
        return [], []
    matrix, dtype = generated_matrix(problem, record.options), np.dtype(record.dtype)
    inputs = problem.inputs(matrix, dtype, record.seed, **record.options)
    oracle = problem.oracle(matrix, inputs, dtype, **record.options)
    shapes = problem.map(inputs, oracle, _MOST_SHAPES)
    about = problem.describe_inputs(inputs).partition(";")[0]
    if "count" in shapes:
        return [curves(shapes["points"], shapes["count"], about)], [_ORACLE]
    if "corner" in shapes:
        squares = points_and_boxes(shapes.get("points"), shapes["corner"], shapes["side"], about)
        return [squares], [_ORACLE, _MERGED]
    return [], []


def result_drawing(records: Sequence[Record], cache: Cache) -> Drawing | None:
    """Of `bench`: the answer as a map where it has one, bars of times (or counts), and the roofline."""
    from spgraph_bench.report.drawing import Drawing, roofline, times

    right = [r for r in records if r.status == "ok"]
    if not right:
        return None
    panels, notes = _map(right[0])
    panels += times(records, cache)
    if (roof := roofline(records, cache)) is not None:
        panels.append(roof)
    if any(r.where == "gpu" and not r.samples for r in right):
        notes.append(_EMULATED)
    return Drawing(f"{right[0].problem} on {right[0].device.get('name', '')}", tuple(panels), tuple(notes))


def level_drawing(records: Sequence[Record]) -> Drawing | None:
    """Of a traced search: frontiers, times of levels, levels over time."""
    from spgraph_bench.report.drawing import Drawing, levels

    right = [r for r in records if r.trace and r.check.get("ok")]
    if not right:
        return None
    first = right[0]
    untimed = all(level.get("ms") is None for r in right for level in r.trace)
    return Drawing(
        f"{first.problem} on {first.matrix['name']}, {first.device.get('name', '')}",
        tuple(levels(right)),
        (_EMULATED,) if untimed else (),
    )
