"""Bounds on sums: how far a result may differ from the double-precision one, whatever the order of summation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.problems import compiled

__all__ = ["BOUND_FACTOR", "TENSOR_CORE_FACTOR", "Judged", "judge", "plainly_right"]

BOUND_FACTOR = 1.0
"""c in the bound c (nnz_i + 2) eps (|A| |x|)_i that every sum is held to.

n products summed in any order, fused or not, err by at most n u (|A| |x|)_i with u = eps / 2 (Jeannerod and
Rump, "Improved error bounds for inner products in floating-point arithmetic", SIAM J. Matrix Anal. Appl.
2013; Higham, "Accuracy and Stability of Numerical Algorithms", chapter 3, with n u / (1 - n u)). The oracle's
own sum errs by as much in double precision, so two float64 results may be n eps apart: c = 1 is what is
needed there, and twice what is needed in float32. The 2 covers the rounding of y and of the bound itself.
"""

TENSOR_CORE_FACTOR = 2.0
"""c for half-precision inputs with float32 sums, eps being float32's.

Products of two halves are exact in float32. Tensor cores align the terms of a partial sum to the largest of
them and cut off instead of rounding (Fasi, Higham, Mikaitis and Pranesh, "Numerical behavior of NVIDIA tensor
cores", PeerJ Computer Science 2021): each of the n products, and the running sum once for each of at most n
steps that have a product, loses less than eps (|A| |x|)_i.
"""


@dataclass(frozen=True)
class Judged:
    """What :func:`judge` found, arrays of the results' shape."""

    wrong: npt.NDArray[np.bool_]
    """Unwritten ones are wrong too."""
    unwritten: npt.NDArray[np.bool_]
    ratio: npt.NDArray[np.float64]
    """Error over bound; Inf for what is wrong without a finite error above its bound."""
    error: npt.NDArray[np.float64]
    bound: npt.NDArray[np.float64]


def _underflow(made_in: Any) -> float:
    """What one addition in this type may lose to underflow."""
    return float(made_in.smallest_normal if made_in.dtype == np.float32 else made_in.smallest_subnormal)


def plainly_right(
    output: npt.NDArray[np.floating[Any]],
    r: npt.NDArray[np.float64],
    absax: npt.NDArray[np.float64],
    lengths: npt.NDArray[np.int64],
    factor: float = BOUND_FACTOR,
    sums: np.dtype[Any] | None = None,
) -> tuple[int, float] | None:
    """What :func:`judge` says of many sums that are all right, without its arrays: the place of the largest ratio,
    counted row by row, and that ratio. None where one is wrong or may overflow, and where it was not looked at.

    `lengths` has one element a row of the output, which may have columns.
    """
    if output.dtype != (sums or output.dtype):  # rounded once more
        return None
    limits = np.finfo(output.dtype)
    tiny = max(float(limits.smallest_subnormal), _underflow(limits))
    return compiled.all_within(output, r, absax, lengths, (factor, float(limits.eps), tiny, float(limits.max)))


def judge(
    output: npt.NDArray[np.floating[Any]],
    r: npt.NDArray[np.float64],
    absax: npt.NDArray[np.float64],
    lengths: npt.NDArray[np.int64],
    factor: float = BOUND_FACTOR,
    sums: np.dtype[Any] | None = None,
) -> Judged:
    """Hold sums to `factor` (lengths + 2) eps absax around r, plus lengths times what underflow may cost: the
    smallest subnormal, or in float32 the smallest normal number, since a GPU's float32 atomics flush
    subnormals to zero (PTX ISA, "atom", .add.f32 on global memory). eps is that of `sums`, the type in which
    they were made (None: that of `output`); where `output` is less precise, its own eps times |r| is added.

    Where r is NaN or Inf, the output must be the same. Where partial sums can pass the largest value, it may
    also be what an overflow makes of it: Inf of r's sign if all terms have one sign, else Inf or NaN. (Where
    absax overflows even float64, anything that was written passes.) A result whose bits are all ones was
    never written: no arithmetic gives that NaN. `lengths` has the shape of the others, or broadcasts to it.
    """
    limits = np.finfo(output.dtype)
    made_in = np.finfo(sums or output.dtype)
    eps, largest = float(made_in.eps), float(limits.max)
    rounding = float(limits.eps) if made_in.eps < limits.eps else 0.0
    bits = np.ascontiguousarray(output).view(f"u{output.dtype.itemsize}")
    unwritten = bits == np.iinfo(bits.dtype).max
    y = output.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        error = np.abs(y - r)
        slack = (lengths + 2) * eps
        bound = factor * slack * absax + lengths * max(float(limits.smallest_subnormal), _underflow(made_in))
        if rounding:
            bound = bound + rounding * np.abs(r)
        right = (error <= bound) | (y == r) | (np.isnan(y) & np.isnan(r))
        overflow = absax * (1 + slack + rounding) >= largest
        if overflow.any():
            # A term of the other sign can be lost in r's rounding, and yet overflow by itself.
            one_sign = (np.abs(r) == absax) & (absax * (lengths + 1) * 2.0**-53 < largest)
            allowed = np.where(one_sign, y == np.copysign(np.inf, r), ~np.isfinite(y))
            right |= overflow & (allowed | np.isinf(absax))
        wrong = ~right | unwritten
        ratio = np.nan_to_num(error / bound, nan=0.0, posinf=0.0)
    ratio[wrong & ~(ratio > 1)] = np.inf  # NaN, Inf, unwritten, or not exactly 0 in an empty row
    return Judged(wrong, unwritten, ratio, error, bound)
