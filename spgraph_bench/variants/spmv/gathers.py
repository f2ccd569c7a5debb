"""Where a kernel that reads x by columns will find it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["scattered"]

_RUNS = 256
"""Reads of a warp that :func:`scattered` looks at."""


def _blocks(threads: int, block: int) -> int:
    return -(-threads // block)


def scattered(col: npt.NDArray[np.int32], value_bytes: int) -> bool:
    """Whether warps that read `col` in its order, 32 at a time, find more than every second x in a sector (32
    bytes) of its own. Seen from up to 256 reads, spread evenly; negative columns are padding.

    Such a kernel is bound by the sectors of x that an SM can wait for at a time, whatever it asks for ahead.
    """
    flat = col.reshape(-1)
    if not flat.size:
        return False
    starts = np.unique(np.linspace(0, flat.size - 1, _RUNS).astype(np.int64) // 32)
    places = np.minimum(32 * starts[:, None] + np.arange(32), flat.size - 1)
    x = np.sort(flat[places].astype(np.int64), axis=1)
    real, sector = x >= 0, x * value_bytes // 32
    first = real & (sector != np.roll(sector, 1, axis=1))  # in its sector, of the read
    first[:, 0] = real[:, 0]
    return bool(2 * first.sum() > real.sum())
