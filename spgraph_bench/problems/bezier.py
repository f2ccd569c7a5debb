"""Bezier curves: each divided into as many points as its curvature asks for.

Work per item that is known only once the item has been looked at; 8 to 256 points of a curve.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.errors import UsageError
from spgraph_bench.matrix import Matrix
from spgraph_bench.parameters import Parameter
from spgraph_bench.problems.base import CheckResult, Problem, Work, filled_options, register

__all__ = ["LEAST", "MOST", "Bezier", "check_points", "chosen_curves", "curve_points", "draw_curves", "points_needed"]

LEAST, MOST = 8, 256
"""Points of a curve, at least and at most; `uniform` gives every curve MOST."""

GRID = 2.0**-20
"""Coordinates are multiples of it, so that curvature is compared exactly: see cuda/bezier/curve.cuh."""

BOUND_FACTOR = 5
"""A coordinate may be off by this times eps (of float32) times the largest of the three control coordinates.

With u = eps / 2, t = j / (n - 1) is off by at most t u, s = 1 - t by u, and so the three weights s^2, 2 t s
and t^2 together by (3 + 2 t) u <= 5 u. Multiplying by the coordinates and two additions add 3 u. That makes
8 u = 4 eps; terms of u^2 and contraction to fused operations stay within the fifth."""

_CHECKED_POINTS = 1 << 23
"""Points that are compared one by one; of larger runs whole curves are drawn. Counts are compared for all."""

_STRAIGHT = (0.0, 1.9 / 256)
"""Curvature of straight curves: 8 or 9 points."""
_GENTLE = (2.0 / 256, 0.1)
"""Of those that are neither: 10 to 33 points."""
_BENT = (0.1, 0.8414)
"""Of strongly bent ones: 33 to 223 points, 128 on average."""


def _uniform(bits: np.random.PCG64, count: int, low: float, high: float) -> npt.NDArray[np.float64]:
    """Raw bits scaled: the same for a seed on any machine and with any numpy."""
    drawn: npt.NDArray[np.uint64] = bits.random_raw(count)
    return low + (high - low) * ((drawn >> np.uint64(11)).astype(np.float64) * 2.0**-53)


def draw_curves(seed: int, curves: int, straight: int, bent: int) -> npt.NDArray[np.float32]:
    """Control points ``[curves, 3, 2]`` in (-1, 1), multiples of 2^-20.

    `straight` percent of the curves (each by its own draw) need 8 or 9 points, `bent` percent 128 on average,
    the rest 10 to 33. Chords are 1/32 to 1/8 long; the middle control point is beside the chord's
    middle, at a height of curvature times length. Raises UsageError where the shares are more than the whole.
    """
    if straight + bent > 100:
        raise UsageError(
            f"{straight} % straight and {bent} % bent curves are more than all", remedy="give shares of at most 100"
        )
    bits = np.random.PCG64(seed)
    first = [_uniform(bits, curves, -0.75, 0.75) for _ in range(2)]
    # A direction without sine or cosine: a point of a ring, by its larger coordinate.
    length, other = _uniform(bits, curves, 1 / 32, 1 / 11.5), _uniform(bits, curves, -1, 1)
    kind = _uniform(bits, curves, 0, 100)
    which, amount = bits.random_raw(curves), _uniform(bits, curves, 0, 1)
    dx = np.where(which & np.uint64(1), length, length * other)
    dy = np.where(which & np.uint64(1), length * other, length)
    dx = np.where(which & np.uint64(2), dx, -dx)
    low, high = (
        np.where(kind < straight, s, np.where(kind < straight + bent, b, g))
        for s, b, g in zip(_STRAIGHT, _BENT, _GENTLE, strict=True)
    )
    height = (low + (high - low) * amount) * np.where(which & np.uint64(4), 1, -1)
    control = np.empty((curves, 3, 2), np.float64)
    control[:, 0, 0], control[:, 0, 1] = first
    control[:, 1, 0], control[:, 1, 1] = first[0] + dx / 2 - dy * height, first[1] + dy / 2 + dx * height
    control[:, 2, 0], control[:, 2, 1] = first[0] + dx, first[1] + dy
    return (np.rint(control / GRID) * GRID).astype(np.float32)


def points_needed(control: npt.NDArray[np.float32]) -> npt.NDArray[np.int32]:
    """n = clamp(8 + 256 k, 8, 256) of each curve, int32 ``[curves]``; k = |cross| / len^2, see
    cuda/bezier/curve.cuh. Exact for coordinates that are multiples of 2^-20."""
    p = control.astype(np.float64)
    a, b = p[:, 1] - p[:, 0], p[:, 2] - p[:, 0]
    cross = np.abs(a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0])
    square = (b * b).sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        n = np.minimum(LEAST + 256 * cross / square, MOST)
    no_chord = square == 0
    n[no_chord] = np.where((a[no_chord] == 0).all(axis=1), LEAST, MOST)
    whole: npt.NDArray[np.int32] = n.astype(np.int32)
    return whole


def curve_points(control: npt.NDArray[np.float32], count: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.float64]:
    """Points of all curves one after another, float64 ``[sum(count), 2]``; curve i has ``count[i]``, at
    t = j / (count[i] - 1)."""
    curve = np.repeat(np.arange(len(count)), count)
    j = np.arange(len(curve)) - np.repeat(np.cumsum(count, dtype=np.int64) - count, count)
    t = (j / (count.astype(np.float64)[curve] - 1))[:, None]
    p = control.astype(np.float64)
    s = 1 - t
    points: npt.NDArray[np.float64] = s * s * p[curve, 0] + 2 * t * s * p[curve, 1] + t * t * p[curve, 2]
    return points


def chosen_curves(count: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.int64]:
    """Curves whose points are compared: all of them up to 2^23 points, else the first and the last 1,000 and
    as many drawn ones as that allows at 256 points each, in rising order."""
    curves = len(count)
    if int(count.sum(dtype=np.int64)) <= _CHECKED_POINTS:
        return np.arange(curves)
    drawn = np.random.PCG64(curves).random_raw(_CHECKED_POINTS // MOST - 2000) % np.uint64(curves)
    ends = np.arange(1000)
    return np.unique(np.concatenate((ends, curves - 1 - ends, drawn.astype(np.int64)))) % curves


def check_points(
    count: npt.NDArray[Any], points: npt.NDArray[Any], right: npt.NDArray[np.int32], control: npt.NDArray[np.float32]
) -> CheckResult:
    """Counts of all curves exactly; points of :func:`chosen_curves` against float64, each coordinate within
    :data:`BOUND_FACTOR` eps times the largest control coordinate of that axis.

    Parameters
    ----------
    count : points of each curve ``[curves]``.
    points : of the chosen curves, one after another, float32 ``[.., 2]``.
    right : the count that each curve should have.
    """
    curves = len(control)
    details: dict[str, Any] = {}
    if count.shape != right.shape or points.dtype != np.float32 or points.shape[1:] != (2,):
        return CheckResult(False, f"{count.shape} counts, points are {points.dtype} {list(points.shape)}")
    if len(wrong := np.flatnonzero(count != right)):
        first = int(wrong[0])
        return CheckResult(
            False,
            f"{len(wrong):,} of {curves:,} curves have a wrong number of points, the first is curve {first:,}: "
            f"{count[first]:,}, expected {right[first]:,}",
            {"wrong_curves": len(wrong)},
        )
    chosen = chosen_curves(right)
    own = right[chosen]
    if len(points) != own.sum():
        return CheckResult(False, f"{len(points):,} points were fetched, expected {own.sum():,}", details)
    eps = float(np.finfo(np.float32).eps)
    worst, place, checked = 0.0, (0, 0), 0
    unwritten = bad = 0
    for part in np.array_split(np.arange(len(chosen)), max(1, len(points) >> 20)):
        n = own[part]
        exact = curve_points(control[chosen[part]], n)
        mine = points[checked : checked + len(exact)].astype(np.float64)
        checked += len(exact)
        largest = np.abs(control[chosen[part]]).max(axis=1).astype(np.float64)
        bound = np.repeat(BOUND_FACTOR * eps * np.maximum(largest, 2.0**-100), n, axis=0)
        with np.errstate(invalid="ignore"):
            ratio = np.abs(mine - exact) / bound
        missing = np.isnan(ratio)
        unwritten += int(missing.any(axis=1).sum())
        bad += int((ratio > 1).any(axis=1).sum())
        ratio[missing] = np.inf
        if ratio.size and ratio.max() > worst:
            row = int(np.argmax(ratio.max(axis=1)))
            worst = float(ratio.max())
            curve = int(np.searchsorted(np.cumsum(n), row, side="right"))
            place = int(chosen[part[curve]]), row - int(n[:curve].sum())
    details |= {
        "checked_points": checked,
        "wrong_points": bad + unwritten,
        "worst_curve": place[0],
        "max_error_ratio": worst if np.isfinite(worst) else None,
    }
    if not bad + unwritten:
        return CheckResult(True, "", details)
    where = f"curve {place[0]:,}, point {place[1]}"
    if unwritten:
        return CheckResult(
            False, f"{unwritten:,} of {checked:,} points never written or not a number, one is {where}", details
        )
    return CheckResult(
        False, f"{bad:,} of {checked:,} points wrong, the worst is {where}: {worst:.3g} times its bound", details
    )


class Bezier(Problem):
    """Input ``control`` float32 ``[curves, 3, 2]``; output a mapping: ``count`` int32 ``[curves]``,
    ``points`` float32 ``[.., 2]`` of the curves that are checked, ``uniform`` bool: every curve has 256
    points by design."""

    name = "bezier"
    title = "quadratic Bezier curves, each into as many points as it needs"
    rate_unit = "Gpoints/s"
    outputs: tuple[str, ...] = ("points",)
    dtypes: tuple[str, ...] = ("float32",)
    needs_matrix = False
    options: Mapping[str, Parameter] = MappingProxyType(
        {
            "curves": Parameter(10_000, "curves", between=(1, 10**7)),
            "straight": Parameter(70, "percent of the curves that need 8 or 9 points", between=(0, 100)),
            "bent": Parameter(30, "percent of the curves that need 128 points on average", between=(0, 100)),
        }
    )
    host_defaults: Mapping[str, Any] = MappingProxyType({"curves": 500})

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        filled = filled_options(self, options or {})
        self.curves, self.straight, self.bent = (int(filled[name]) for name in ("curves", "straight", "bent"))

    def configured(self, options: Mapping[str, Any]) -> Bezier:
        return Bezier(options)

    def inputs(self, matrix: Matrix, dtype: np.dtype[Any], seed: int, **_: Any) -> dict[str, npt.NDArray[Any]]:
        """See :func:`draw_curves`."""
        return {"control": draw_curves(seed, self.curves, self.straight, self.bent)}

    def oracle(
        self, matrix: Matrix, inputs: Mapping[str, npt.NDArray[Any]], dtype: np.dtype[Any], **_: Any
    ) -> dict[str, npt.NDArray[Any]]:
        """``needed`` int32 ``[curves]``; the points themselves are computed when they are compared."""
        return {"needed": points_needed(inputs["control"])}

    def check(self, output: Any, oracle: Mapping[str, npt.NDArray[Any]], dtype: np.dtype[Any]) -> CheckResult:
        """See :func:`check_points`. Facts: points written, and how many times fewer than 256 for each."""
        needed = oracle["needed"]
        right = np.full_like(needed, MOST) if output["uniform"] else needed
        result = check_points(output["count"], output["points"], right, oracle["control"])
        points = int(output["count"].sum(dtype=np.int64))
        saved = f"{MOST * len(needed) / points:.1f}x" if points > 0 else "-"
        return replace(result, facts={"saved": saved, "points": points}, operations=points)

    def describe_inputs(self, inputs: Mapping[str, npt.NDArray[Any]]) -> str:
        needed = points_needed(inputs["control"])
        return (
            f"{len(needed):,} curves that need {needed.mean():.1f} points on average, {needed.min()} to "
            f"{needed.max()}; {(needed <= LEAST + 1).mean():.1%} need 8 or 9"
        )

    def map(
        self, inputs: Mapping[str, npt.NDArray[Any]], oracle: Mapping[str, npt.NDArray[Any]], most: int
    ) -> dict[str, npt.NDArray[Any]]:
        """The first `most` curves, each with the points that it needs."""
        count = oracle["needed"][:most].astype(np.int64)
        return {"points": curve_points(inputs["control"][:most], count), "count": count}

    def work_of(self, inputs: Mapping[str, npt.NDArray[Any]], oracle: Mapping[str, npt.NDArray[Any]]) -> Work:
        """Control points read and the points that are needed written, once each."""
        points = int(oracle["needed"].sum(dtype=np.int64))
        return Work(points, inputs["control"].nbytes + 8 * points, inputs["control"].nbytes, 0)


register(Bezier())
