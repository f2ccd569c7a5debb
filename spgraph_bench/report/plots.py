"""Two pictures of a matrix in a terminal: the lengths of its rows, and where its nonzeros are."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt

__all__ = ["DOTS", "bar", "frame", "histogram", "spy"]

_EIGHTHS = " ▏▎▍▌▋▊▉█"
_SHADES = {False: " ░▒▓█", True: " .:+*#@"}
_SAMPLE = 16_000_000
"""Nonzeros that a spy plot looks at. Of more, runs of neighbours are drawn: single entries at a fixed
distance would lose whole diagonals of a regular matrix."""
_RUN = 1021
DOTS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]])
"""Bit of each dot of a braille character, by row and column (Unicode chapter 21.1)."""


def histogram(
    lengths: npt.NDArray[np.integer], counts: npt.NDArray[np.integer], width: int = 80, ascii: bool = False
) -> str:
    """Rows by their number of nonzeros, in bins that double (0, 1, 2-3, 4-7, ...).

    `lengths`: distinct row lengths, rising; `counts`: how many rows have each (``MatrixStats`` has both). A
    bar's length is the bin's share of the rows, the fullest bin's fills the width; a bin that is not empty
    shows at least a sliver. Beside it: rows, and the bin's shares of all rows and of all nonzeros.
    """
    lengths, counts = np.asarray(lengths, np.int64), np.asarray(counts, np.int64)
    rows, nonzeros = int(counts.sum()), int((lengths * counts).sum())
    if rows == 0:
        return "no rows\n"
    # Bin 0 holds length 0, bin b the lengths from 2^(b-1) to 2^b - 1; frexp's exponent is exactly b.
    bins = np.frexp(lengths.astype(np.float64))[1]
    first, last = int(bins.min()), int(bins.max())
    in_bin = np.bincount(bins - first, counts, last - first + 1).astype(np.int64)
    held = np.bincount(bins - first, counts * lengths, last - first + 1)

    def label(b: int) -> str:
        low, high = (0, 0) if b == 0 else (1 << (b - 1), (1 << b) - 1)
        return f"{low:,}" if low == high else f"{low:,}-{high:,}"

    head = ("nonzeros", "rows", "% rows", "% nnz")
    table = [
        (
            label(b + first),
            f"{in_bin[b]:,}",
            f"{100 * in_bin[b] / rows:.1f}",
            f"{100 * held[b] / nonzeros:.1f}" if nonzeros else "-",
        )
        for b in range(len(in_bin))
    ]
    widths = [max(len(line[i]) for line in (head, *table)) for i in range(4)]
    room = max(8, width - sum(widths) - 8)

    def line(cells: tuple[str, ...], bar: str) -> str:
        return "  ".join([*(c.rjust(w) for c, w in zip(cells, widths, strict=True)), bar]).rstrip()

    bars = [bar(int(n), int(in_bin.max()), room, ascii) for n in in_bin]
    return "\n".join([line(head, ""), *map(line, table, bars)]) + "\n"


def bar(value: int, most: int, room: int, ascii: bool) -> str:
    """A bar of `value` where one of `most` fills `room` characters; a sliver at least unless it is 0."""
    eighths = max(value * room * 8 // most, 1 if value else 0)
    if ascii:
        return "#" * -(-eighths // 8) if value else ""
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


def spy(
    row_ptr: npt.NDArray[np.integer],
    col_idx: npt.NDArray[np.integer],
    rows: int,
    cols: int,
    width: int = 60,
    height: int = 24,
    ascii: bool = False,
) -> str:
    """Where the nonzeros of a CSR matrix are, framed, at most `width` x `height` characters in all.

    The picture keeps the matrix's proportions (a character is twice as high as wide). A sparse picture is
    drawn in braille, a dot for each nonzero; a picture with over half of its dots set says more in
    shades: then, and always in ASCII, a character is darker the more nonzeros it covers, on a logarithmic
    scale. Of more than 16 million nonzeros an even sample is drawn, and the last line says so.
    """
    nnz = int(row_ptr[-1]) if len(row_ptr) else 0
    if rows == 0 or cols == 0:
        return f"nothing to draw: {rows:,} x {cols:,}\n"
    # No more characters than entries: 1 of them in a shaded character, 2 x 4 in braille.
    most = (cols, rows) if ascii else (-(-cols // 2), -(-rows // 4))
    wide, high = _box(rows, cols, max(width - 2, 1), max(height - 2, 1))
    wide, high = min(wide, most[0]), min(high, most[1])
    step = max(1, -(-nnz // _SAMPLE))
    fine = _count(row_ptr, col_idx, rows, cols, 4 * high, 2 * wide, step)
    cells = fine.reshape(high, 4, wide, 2)
    possible = min(rows, 4 * high) * min(cols, 2 * wide)
    if not ascii and np.count_nonzero(fine) <= possible / 2:
        codes = ((cells > 0) * DOTS[None, :, None, :]).sum(axis=(1, 3))
        body = ["".join(chr(0x2800 + int(c)) if c else " " for c in line) for line in codes]
    else:
        body = _shades(cells.sum(axis=(1, 3)), _SHADES[ascii])
    note = "" if step == 1 else f"(a sample: 1 of {step} nonzeros)\n"
    return frame(body, wide, ascii) + note


def _box(rows: int, cols: int, wide: int, high: int) -> tuple[int, int]:
    """Characters across and down: the largest box of the matrix's proportions, at least 1 x 1."""
    if rows * wide > 2 * high * cols:
        return max(1, min(wide, round(2 * high * cols / rows))), high
    return wide, max(1, min(high, round(wide * rows / (2 * cols))))


def _count(
    row_ptr: npt.NDArray[np.integer],
    col_idx: npt.NDArray[np.integer],
    rows: int,
    cols: int,
    down: int,
    across: int,
    step: int,
) -> npt.NDArray[np.int64]:
    """Nonzeros (one run of every `step` runs) in each cell of a `down` x `across` grid over the matrix.

    The rows of one band are neighbours in CSR, so a band is one slice; the loop is over bands, not rows.
    """
    grid = np.zeros((down, across), np.int64)
    edges = [-(-band * rows // down) for band in range(down + 1)]
    for band, (top, bottom) in enumerate(pairwise(edges)):
        columns = col_idx[int(row_ptr[top]) : int(row_ptr[bottom])]
        if step > 1 and (stretches := len(columns) // (step * _RUN)):
            columns = columns[: stretches * step * _RUN].reshape(stretches, -1)[:, :_RUN].ravel()
        if len(columns):
            cell = (columns * (across / cols)).astype(np.int64)
            grid[band] = np.bincount(np.minimum(cell, across - 1), minlength=across)
    return grid


def _shades(counts: npt.NDArray[np.int64], ramp: str) -> list[str]:
    most = int(counts.max())
    steps = len(ramp) - 1
    if most <= 1:
        level = np.where(counts > 0, steps, 0)
    else:
        level = np.where(counts > 0, 1 + np.rint(np.log(np.maximum(counts, 1)) / np.log(most) * (steps - 1)), 0)
    return ["".join(ramp[int(i)] for i in line) for line in level]


def frame(body: list[str], wide: int, ascii: bool) -> str:
    """`body`, lines of `wide` characters, in a frame."""
    if ascii:
        rule = "+" + "-" * wide + "+"
        return "\n".join([rule, *(f"|{line}|" for line in body), rule]) + "\n"
    return "\n".join(["┌" + "─" * wide + "┐", *(f"│{line}│" for line in body), "└" + "─" * wide + "┘"]) + "\n"
