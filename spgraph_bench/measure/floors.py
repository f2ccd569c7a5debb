"""What no cold time can be below: the bytes that must be moved, at the bandwidth that was measured."""

from __future__ import annotations

import math
from statistics import median

from spgraph_bench.results.record import Ceiling, Samples
from spgraph_bench.units import human_bytes

__all__ = ["SHARE", "below_floor"]

SHARE = 0.97
"""Of the floor: what two measurements of one bandwidth may differ by."""


def below_floor(cold: Samples, compulsory: int, spared: int, ceiling: Ceiling, l2_bytes: int) -> str | None:
    """Why the median of `cold` cannot be a time of the whole work, or None.

    Parameters
    ----------
    compulsory : bytes read and written once, see ``Work.compulsory_bytes``; where they fit in the L2 there is
        no floor.
    spared : bytes among them that need not pass the memory after all: outputs still in the L2 when time stops,
        elements of x that no entry meets.
    """
    if compulsory <= l2_bytes or not cold.times_ms:
        return None
    moved = compulsory - spared
    floor_ms, cold_ms = moved / ceiling.gbs / 1e6, median(cold.times_ms)
    if not math.isfinite(floor_ms) or cold_ms >= SHARE * floor_ms:
        return None
    return (
        f"{cold_ms:.4g} ms cold is less than moving its {human_bytes(moved)} once takes at "
        f"{ceiling.gbs:,.0f} GB/s, {floor_ms:.4g} ms: either not all work was done or the caches were not cold"
    )
