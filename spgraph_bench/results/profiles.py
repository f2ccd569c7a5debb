"""Performance profiles: on what share of the matrices a variant is within a factor of the fastest one.

E. D. Dolan and J. J. More, "Benchmarking optimization software with performance profiles", Mathematical Programming 91,
2002. A variant that did not run on a matrix counts as infinitely slow there, so that it cannot win by choosing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Profile", "profile"]


@dataclass(frozen=True)
class Profile:
    """Of one problem in one value type on one device."""

    matrices: tuple[str, ...]
    """Those on which at least one variant was timed."""
    ratios: Mapping[str, tuple[float, ...]]
    """Variant -> its time over that of the fastest variant, rising, one for each matrix; inf where it was not timed."""

    def within(self, variant: str, factor: float) -> float:
        """The share of matrices on which `variant` takes at most `factor` times the fastest one's time."""
        return sum(r <= factor for r in self.ratios[variant]) / len(self.matrices)

    def steps(self, variant: str, most: float) -> tuple[list[float], list[float]]:
        """Corners of its curve up to the factor `most`: factors from 1 on, and the shares from there on."""
        factors, shares = [1.0], [self.within(variant, 1.0)]
        for r in self.ratios[variant]:
            if 1.0 < r <= most and r != factors[-1]:
                factors.append(r)
                shares.append(self.within(variant, r))
        return [*factors, most], [*shares, shares[-1]]

    def by_merit(self) -> list[str]:
        """Variants by the area under their curves over log(factor) up to 10, the largest first."""

        def area(variant: str) -> float:
            return sum(max(0.0, 1 - math.log10(max(r, 1.0))) for r in self.ratios[variant] if math.isfinite(r))

        return sorted(self.ratios, key=lambda v: (-area(v), v))


def profile(rows: Sequence[Mapping[str, Any]]) -> Profile:
    """The profile of tidy `rows` of one problem, value type and device.

    Of several cells of a variant on a matrix (orders, parameters) the fastest counts.
    """
    times: dict[str, dict[str, float]] = {}
    for row in rows:
        if row["median_ms"]:
            of = times.setdefault(row["sha256"] or row["matrix"], {})
            of[row["variant"]] = min(row["median_ms"], of.get(row["variant"], math.inf))
    names = dict.fromkeys(name for of in times.values() for name in of)
    ratios = {name: tuple(sorted(of.get(name, math.inf) / min(of.values()) for of in times.values())) for name in names}
    return Profile(tuple(times), ratios)
