"""Picture files, by matplotlib: of a matrix (where its nonzeros lie, how long its rows are), and of drawings."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from spgraph_bench.report.drawing import Bars, Dots, Drawing, Panel

__all__ = ["save_drawing", "save_picture"]

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#8a8f98", "#b8a800")
"""Colours of Wong (Nature Methods 8, 2011), told apart by most colour-blind readers."""

_CELLS = 600  # along the longer side of the spy plot


def density_grid(
    row_ptr: npt.NDArray[np.integer[Any]], col_idx: npt.NDArray[np.integer[Any]], rows: int, cols: int
) -> npt.NDArray[np.int64]:
    """Nonzeros in each cell of a grid laid over a CSR matrix, int64 ``[down, across]``; all are counted."""
    longer = max(rows, cols)
    down, across = (max(1, min(n, round(n * _CELLS / longer))) for n in (rows, cols))
    grid = np.zeros((down, across), np.int64)
    edges = [-(-band * rows // down) for band in range(down + 1)]
    for band in range(down):
        columns = col_idx[int(row_ptr[edges[band]]) : int(row_ptr[edges[band + 1]])]
        cell = columns.astype(np.int64) * across // cols
        grid[band] = np.bincount(cell, minlength=across)
    return grid


def save_picture(
    path: Path,
    title: str,
    row_ptr: npt.NDArray[np.integer[Any]],
    col_idx: npt.NDArray[np.integer[Any]],
    shape: tuple[int, int],
    lengths: npt.NDArray[np.integer[Any]],
    counts: npt.NDArray[np.integer[Any]],
) -> None:
    """Draw with matplotlib, in the format of the suffix of `path` (.png, .svg, .pdf).

    `lengths` and `counts` are the distinct row lengths and how many rows have each (as in MatrixStats).
    Raises ImportError without matplotlib, ValueError for a suffix that it does not know.
    """
    from matplotlib.colors import LogNorm  # type: ignore[import-not-found,unused-ignore]
    from matplotlib.figure import Figure  # type: ignore[import-not-found,unused-ignore]

    rows, cols = shape
    figure = Figure(figsize=(11, 5), layout="constrained")
    figure.suptitle(title)
    spy, histogram = figure.subplots(1, 2)
    spy.set(title=f"{int(row_ptr[-1]):,} nonzeros", xlabel="column", ylabel="row")
    if rows and cols:
        grid = density_grid(row_ptr, col_idx, rows, cols)
        drawn = spy.imshow(
            np.ma.masked_equal(grid, 0),
            norm=LogNorm(1, max(2, int(grid.max()))),
            cmap="viridis_r",
            extent=(0, cols, rows, 0),
            interpolation="nearest",
        )
        figure.colorbar(drawn, ax=spy, label="nonzeros per cell", shrink=0.8)
    # A row without entries has no place on a logarithmic axis: it gets a line of its own.
    filled = lengths > 0
    histogram.set(xlabel="nonzeros in the row", ylabel="rows", title="row lengths")
    if filled.any():
        histogram.plot(lengths[filled], counts[filled], ".", markersize=4)
        histogram.set(xscale="log", yscale="log")
    empty = int(counts[~filled].sum())
    if empty:
        histogram.text(0.98, 0.96, f"{empty:,} empty rows", ha="right", va="top", transform=histogram.transAxes)
    figure.savefig(path, dpi=150)


def save_drawing(stream: BinaryIO, drawing: Drawing, form: str) -> None:
    """Write `drawing` to `stream` as `form` ("svg", "png" or "pdf"). The same drawing gives the same SVG.

    Raises ImportError without matplotlib.
    """
    import matplotlib  # type: ignore[import-not-found,unused-ignore]
    from matplotlib.figure import Figure  # type: ignore[import-not-found,unused-ignore]

    fixed = {"svg.hashsalt": "spgraph", "svg.fonttype": "none", "path.simplify": True, "font.size": 9}
    with matplotlib.rc_context(fixed):
        heights = [_height(panel) for panel in drawing.panels]
        figure = Figure(figsize=(8, sum(heights) + 0.6), layout="constrained")
        figure.suptitle(drawing.title)
        axes = figure.subplots(max(1, len(heights)), 1, squeeze=False, height_ratios=heights or [1])
        shown_labels: list[str] = []
        for panel, (axis,) in zip(drawing.panels, axes, strict=False):
            _draw_panel(axis, panel)
            labels = [part.label for part in panel.parts if part.label]
            if labels and labels != shown_labels:  # the same lines in the same colours are told once
                axis.legend(fontsize=8, frameon=False)
            shown_labels = labels
        if drawing.notes:
            figure.supxlabel("\n".join(drawing.notes), fontsize=8)
        metadata = {"Date": None} if form == "svg" else {}
        figure.savefig(stream, format=form, dpi=150, metadata=metadata)


def _height(panel: Panel) -> float:
    """Inches."""
    if panel.equal:
        return 7.0
    bars = max((len(p.names) for p in panel.parts if isinstance(p, Bars)), default=0)
    return 0.9 + 0.2 * bars if bars else 3.2


def _draw_panel(axis: Any, panel: Panel) -> None:
    axis.set(xlabel=panel.x, ylabel=panel.y)
    axis.set_title(textwrap.fill(panel.title, 90), fontsize=9)
    for index, part in enumerate(panel.parts):
        colour = _COLOURS[index % len(_COLOURS)]
        label = part.label or None
        if isinstance(part, Bars):
            place = np.arange(len(part.names))
            error = None
            if part.low is not None and part.high is not None:
                both = np.stack((part.values - part.low, part.high - part.values))
                error = np.maximum(np.nan_to_num(both), 0)
            axis.barh(place, part.values, xerr=error, color=colour, ecolor="#333333", capsize=2, label=label)
            axis.set_yticks(place, part.names)
            axis.invert_yaxis()
        elif isinstance(part, Dots):
            size = 1.5 if panel.equal else 5
            axis.plot(part.x, part.y, ".", color=colour, markersize=size, label=label, rasterized=len(part.x) > 2000)
        else:
            style = {"marker": ".", "markersize": 4} if part.marks else {}
            wide = 0.5 if panel.equal else 1.2
            axis.plot(part.x, part.y, color=colour, linewidth=wide, label=label, **style)
    if panel.log_x:
        axis.set_xscale("log")
    if panel.log_y:
        axis.set_yscale("log")
    if panel.equal:
        axis.set_aspect("equal")
        axis.set(xticks=[], yticks=[])
