"""Adaptive refinement: cells of a field are split where it is steep.

The case that launching from the device was made for: where work is, is found out while working.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.matrix import Matrix
from spgraph_bench.parameters import Parameter
from spgraph_bench.problems.base import CheckResult, Problem, Work, filled_options, register
from spgraph_bench.problems.quadtree import box_places

__all__ = ["BASE", "Refine", "check_cells", "draw_fronts", "field_values", "refined_cells"]

Cells = npt.NDArray[np.uint32]

BASE = 3
"""Depth of the coarsest cells: 8 x 8."""

_AT_ONCE = 1 << 15
"""Cells judged at a time."""


def draw_fronts(seed: int, fronts: int) -> npt.NDArray[np.float64]:
    """Circular fronts, float64 ``[fronts, 5]``: centre x and y, radius squared, sharpness, amplitude: see
    cuda/refine/field.cuh. Centres in the unit square, radii 0.05 to 0.45, bands of 1/512 to 1/128 on either
    side of the circle, amplitudes 0.25 to 1."""
    bits = np.random.PCG64(seed)

    def uniform(low: float, high: float) -> npt.NDArray[np.float64]:
        drawn: npt.NDArray[np.uint64] = bits.random_raw(fronts)
        return low + (high - low) * ((drawn >> np.uint64(11)).astype(np.float64) * 2.0**-53)

    x, y, radius = uniform(0, 1), uniform(0, 1), uniform(0.05, 0.45)
    band, amplitude = uniform(1 / 512, 1 / 128), uniform(0.25, 1)
    return np.stack((x, y, radius * radius, 1 / (2 * radius * band), amplitude), axis=1)


def field_values(
    fronts: npt.NDArray[np.float64], x: npt.NDArray[np.float64], y: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """The field at (x, y): operation by operation as value_at of cuda/refine/field.cuh has it, so the same
    bits."""
    total = np.zeros(np.broadcast_shapes(x.shape, y.shape))
    for cx, cy, square, sharpness, amplitude in fronts:
        dx, dy = x - cx, y - cy
        s = np.clip(((dx * dx + dy * dy) - square) * sharpness, -1.0, 1.0)
        total = total + amplitude * (s * (1.5 - 0.5 * (s * s)))
    return total


def _spread(cell: npt.NDArray[np.uint64]) -> npt.NDArray[np.float64]:
    """Every second bit of `cell`, from the lowest on, as a number."""
    value = np.zeros(len(cell), np.uint64)
    for bit in range(16):
        value |= (cell >> np.uint64(2 * bit) & np.uint64(1)) << np.uint64(bit)
    return value.astype(np.float64)


def _split(fronts: npt.NDArray[np.float64], tolerance: float, cells: Cells, depth: int) -> npt.NDArray[np.bool_]:
    """Whether the field varies by more than `tolerance` over each of `cells`, all of this depth."""
    is_split = np.zeros(len(cells), bool)
    for begin in range(0, len(cells), _AT_ONCE):
        part = cells[begin : begin + _AT_ONCE].astype(np.uint64)
        place = part ^ np.uint64(1 << 2 * depth)
        step = 2.0 ** -(depth + 1)
        along = np.arange(3)
        x = (2 * _spread(place)[:, None, None] + along[None, None, :]) * step
        y = (2 * _spread(place >> np.uint64(1))[:, None, None] + along[None, :, None]) * step
        v = field_values(fronts, x, y).reshape(len(part), 9)
        is_split[begin : begin + _AT_ONCE] = v.max(axis=1) - v.min(axis=1) > tolerance
    return is_split


def refined_cells(fronts: npt.NDArray[np.float64], tolerance: float, depth: int) -> Cells:
    """The cells that are not split, uint32, rising; codes as cuda/refine/field.cuh has them. Level by level,
    in float64."""
    level = np.arange(4**BASE, 2 * 4**BASE, dtype=np.uint32)
    leaves: list[Cells] = []
    for d in range(BASE, depth + 1):
        split = _split(fronts, tolerance, level, d) if d < depth else np.zeros(len(level), bool)
        leaves.append(level[~split])
        level = (level[split][:, None] * np.uint32(4) + np.arange(4, dtype=np.uint32)).reshape(-1)
        if not len(level):
            break
    return np.sort(np.concatenate(leaves))


def check_cells(cells: npt.NDArray[Any], right: Cells) -> CheckResult:
    """The very same cells as the float64 build, each once, in any order."""
    if not isinstance(cells, np.ndarray) or cells.dtype != right.dtype or cells.ndim != 1:
        what = f"{cells.dtype} {list(cells.shape)}" if isinstance(cells, np.ndarray) else type(cells).__name__
        return CheckResult(False, f"cells are {what}, not {right.dtype} [cells]")
    computed = np.sort(cells)
    if len(computed) == len(right) and (computed == right).all():
        return CheckResult(True, facts={"cells": len(computed)})
    missing, extra = np.setdiff1d(right, computed), np.setdiff1d(computed, right)
    twice = len(computed) - len(np.unique(computed))
    worst = missing if len(missing) else extra
    where = f", one is {_word(int(worst[0]))}" if len(worst) else ""
    return CheckResult(
        False,
        f"{len(computed):,} cells, expected {len(right):,}: {len(missing):,} missing, {len(extra):,} that "
        f"should not be, {twice:,} more than once{where}",
        {"missing": len(missing), "extra": len(extra), "twice": twice},
    )


def _word(cell: int) -> str:
    depth = (cell.bit_length() - 1) // 2
    return f"cell {cell - 4**depth} of depth {depth}" if depth >= 0 and cell > 0 else f"code {cell}"


class Refine(Problem):
    """Input ``fronts`` float64 ``[fronts, 5]``; output ``cells`` uint32: those that are not split, in any
    order; codes as cuda/refine/field.cuh has them."""

    name = "refine"
    title = "a field's cells, split where it is steep"
    rate_unit = "Mcells/s"
    outputs: tuple[str, ...] = ("cells",)
    dtypes: tuple[str, ...] = ("float64",)
    needs_matrix = False
    options: Mapping[str, Parameter] = MappingProxyType(
        {
            "fronts": Parameter(16, "circular fronts of the field: work per cell", between=(1, 1000)),
            "tolerance": Parameter(0.05, "by how much the field may vary over a cell", between=(1e-9, 1e9)),
            "depth": Parameter(10, "depth at which a cell is not split any more", between=(BASE, 12)),
        }
    )
    host_defaults: Mapping[str, Any] = MappingProxyType({"depth": 6})

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        filled = filled_options(self, options or {})
        self.fronts, self.depth = int(filled["fronts"]), int(filled["depth"])
        self.tolerance = float(filled["tolerance"])

    def configured(self, options: Mapping[str, Any]) -> Refine:
        return Refine(options)

    def inputs(self, matrix: Matrix, dtype: np.dtype[Any], seed: int, **_: Any) -> dict[str, npt.NDArray[Any]]:
        """See :func:`draw_fronts`."""
        return {"fronts": draw_fronts(seed, self.fronts)}

    def oracle(
        self, matrix: Matrix, inputs: Mapping[str, npt.NDArray[Any]], dtype: np.dtype[Any], **_: Any
    ) -> dict[str, npt.NDArray[Any]]:
        """``right`` uint32, rising: see :func:`refined_cells`."""
        return {"right": refined_cells(inputs["fronts"], self.tolerance, self.depth)}

    def check(
        self, output: npt.NDArray[Any], oracle: Mapping[str, npt.NDArray[Any]], dtype: np.dtype[Any]
    ) -> CheckResult:
        """See :func:`check_cells`. Facts: cells."""
        return check_cells(output, oracle["right"])

    def describe_inputs(self, inputs: Mapping[str, npt.NDArray[Any]]) -> str:
        return (
            f"{self.fronts:,} circular fronts; cells of depth {BASE} to {self.depth}, split where the field "
            f"varies by more than {self.tolerance:g}"
        )

    def map(
        self, inputs: Mapping[str, npt.NDArray[Any]], oracle: Mapping[str, npt.NDArray[Any]], most: int
    ) -> dict[str, npt.NDArray[Any]]:
        """The cells that are not split."""
        cells = oracle["right"]
        while len(cells) > most and (deepest := int(cells.max()).bit_length() // 2) > BASE:
            fine = cells >= 4**deepest
            cells = np.unique(np.concatenate((cells[~fine], cells[fine] >> np.uint32(2))))
        depth = (np.frexp(cells.astype(np.float64))[1] - 1).astype(np.int64) // 2
        prefix = cells.astype(np.uint64) - np.uint64(4) ** depth.astype(np.uint64)
        corner, side = box_places(prefix, depth)
        return {"corner": corner, "side": side}

    def work_of(self, inputs: Mapping[str, npt.NDArray[Any]], oracle: Mapping[str, npt.NDArray[Any]]) -> Work:
        """Cells are written once; the fronts are few."""
        cells = len(oracle["right"])
        return Work(cells, 4 * cells + inputs["fronts"].nbytes, inputs["fronts"].nbytes, 0)


register(Refine())
