"""Drawings in a terminal: braille dots for lines and points, block characters for bars. Nothing but numpy is needed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from spgraph_bench.report.drawing import Bars, Dots, Drawing, Floats, Line, Panel
from spgraph_bench.report.plots import DOTS, bar, frame
from spgraph_bench.report.text import significant

__all__ = ["draw"]

_HEIGHT = 12
"""Lines of a chart."""
_STEP = 0.5
"""Dots between two points of a line."""


def draw(drawing: Drawing, width: int = 80, ascii: bool = False) -> str:
    """`drawing` as text at most `width` characters wide; with `ascii` without braille and box characters.

    Lines of one panel that have names are drawn one below the other with the same axes, since a terminal does not tell
    them apart.
    """
    lines = [drawing.title]
    for panel in drawing.panels:
        lines += ["", panel.title]
        for part in (p for p in panel.parts if isinstance(p, Bars)):
            lines += _bars(part, panel, width, ascii)
        plotted = [p for p in panel.parts if not isinstance(p, Bars)]
        if not plotted:
            continue
        named = [p for p in plotted if isinstance(p, Line) and p.label]
        groups = [[p] for p in plotted] if len(named) > 1 else [plotted]
        bounds = _bounds(panel, plotted)
        for group in groups:
            if len(groups) > 1 or panel.log_x:
                lines.append("  " + ", ".join(p.label for p in group if p.label))
            lines += _chart(panel, group, bounds, width, ascii)
    lines += ["", *drawing.notes] if drawing.notes else []
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _bars(part: Bars, panel: Panel, width: int, ascii: bool) -> list[str]:
    names = max((len(n) for n in part.names), default=0)
    texts = []
    for i, value in enumerate(part.values):
        text = f"{value:,.0f}" if float(value).is_integer() else significant(float(value), 4)
        if part.low is not None and part.high is not None and np.isfinite(part.low[i]) and np.isfinite(part.high[i]):
            text += f" ({significant(float(part.low[i]), 4)} to {significant(float(part.high[i]), 4)})"
        texts.append(text)
    wide = max((len(t) for t in texts), default=0)
    room = max(8, width - names - wide - 4)
    scaled = np.nan_to_num(part.values)
    if panel.log_x and (scaled > 0).all():
        scaled = np.log(scaled / scaled.min()) + 1
    most = float(scaled.max(initial=0)) or 1.0
    lines = [f"{panel.x}{', bars on a log scale' if panel.log_x else ''}"]
    for name, text, value in zip(part.names, texts, scaled, strict=True):
        lines.append(f"{name:<{names}}  {text:>{wide}}  {bar(round(1000 * float(value) / most), 1000, room, ascii)}")
    return lines


def _scaled(values: Floats, log: bool) -> Floats:
    if not log:
        return values
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(values > 0, np.log10(values), np.nan)


Bounds = tuple[float, float, float, float]


def _bounds(panel: Panel, parts: Sequence[Line | Dots]) -> Bounds:
    ends: list[float] = []
    for axis, log in (("x", panel.log_x), ("y", panel.log_y)):
        values = np.concatenate([_scaled(getattr(p, axis), log) for p in parts])
        values = values[np.isfinite(values)]
        low, high = (float(values.min()), float(values.max())) if len(values) else (0.0, 1.0)
        ends += [low, high if high > low else low + 1]
    return ends[0], ends[1], ends[2], ends[3]


def _chart(panel: Panel, parts: Sequence[Line | Dots], bounds: Bounds, width: int, ascii: bool) -> list[str]:
    left, right, bottom, top = bounds
    labels = [] if panel.equal else [significant(10**v if panel.log_y else v) for v in (top, bottom)]
    margin = max((len(text) for text in labels), default=0)
    wide, high = max(4, width - margin - 3), _HEIGHT
    if panel.equal:  # a character is twice as high as wide
        high = 30
        wide = max(4, min(width - 2, round(2 * high * (right - left) / (top - bottom))))
        high = max(2, min(high, round(wide * (top - bottom) / (2 * (right - left)))))
    across, down = (wide, high) if ascii else (2 * wide, 4 * high)
    grid = np.zeros((down, across), bool)
    for part in parts:
        x = (_scaled(part.x, panel.log_x) - left) / (right - left) * (across - 1)
        y = (top - _scaled(part.y, panel.log_y)) / (top - bottom) * (down - 1)
        if isinstance(part, Line) and len(x) > 1:
            x, y = _between(x, y)
        finite = np.isfinite(x) & np.isfinite(y)
        grid[np.rint(y[finite]).astype(int), np.rint(x[finite]).astype(int)] = True
    if ascii:
        body = ["".join("*" if dot else " " for dot in line) for line in grid]
    else:
        codes = (grid.reshape(high, 4, wide, 2) * DOTS[None, :, None, :]).sum(axis=(1, 3))
        body = ["".join(chr(0x2800 + int(c)) if c else " " for c in line) for line in codes]
    framed = frame(body, wide, ascii).rstrip("\n").splitlines()
    if panel.equal:
        return framed
    marked = {1: labels[0], len(framed) - 2: labels[1]}
    lines = [f"{marked.get(n, ''):>{margin}} {line}" for n, line in enumerate(framed)]
    ends = [significant(10**v if panel.log_x else v) for v in (left, right)]
    scale = ", ".join(axis for axis, log in (("x", panel.log_x), ("y", panel.log_y)) if log)
    middle = f"{panel.y} over {panel.x}" + (f" (log {scale})" if scale else "")
    space = max(1, wide - len(ends[0]) - len(ends[1]) - len(middle))
    before = " " * (space // 2)
    return [*lines, " " * (margin + 2) + ends[0] + before + middle + " " * (space - len(before)) + ends[1]]


def _between(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """The points of a line in dots that are close to each other; broken where a point is NaN."""
    gap = np.hypot(np.diff(x), np.diff(y))
    steps = np.where(np.isfinite(gap), np.ceil(np.nan_to_num(gap) / _STEP), 0).astype(np.int64) + 1
    piece = np.repeat(np.arange(len(gap)), steps)
    place: npt.NDArray[np.int64] = np.arange(len(piece)) - np.repeat(np.cumsum(steps) - steps, steps)
    share = place / np.maximum(steps[piece] - 1, 1)
    xs = x[piece] + share * np.nan_to_num(np.diff(x))[piece]
    ys = y[piece] + share * np.nan_to_num(np.diff(y))[piece]
    broken = ~np.isfinite(gap)[piece]
    xs[broken], ys[broken] = x[piece][broken], y[piece][broken]
    return np.append(xs, x[-1]), np.append(ys, y[-1])
