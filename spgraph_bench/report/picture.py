"""A picture file of a matrix: where its nonzeros lie, and how long its rows are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["save_picture"]

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
        taken = col_idx[int(row_ptr[edges[band]]) : int(row_ptr[edges[band + 1]])]
        cell = taken.astype(np.int64) * across // cols
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
