"""Recipes of finite elements: matrices that are summed from the entries of many small ones."""

from __future__ import annotations

import numpy as np

from spgraph_bench.parameters import MAX_INDEX, Parameter
from spgraph_bench.readers.common import Progress
from spgraph_bench.recipes.base import Pattern, Size, recipe
from spgraph_bench.recipes.draw import Words
from spgraph_bench.stats import row_ptr_of

_DIAGONALS = 0  # the stream of words that says how each rhombus is cut

# Stiffness of linear elements (the gradients of their hat functions, multiplied and integrated), times 2 sqrt(3): off
# the diagonal it is minus the cotangent of the opposite angle (60, 30 or 120 degrees), and rows add up to 0.
_EQUILATERAL = np.array([[2, -1, -1], [-1, 2, -1], [-1, -1, 2]], np.float64)
_OBTUSE = np.array([[2, -3, 1], [-3, 6, -3], [1, -3, 2]], np.float64)  # the corner of 120 degrees is the second


def _fem2d_size(n: int) -> Size:
    entries = 18 * (n - 1) ** 2
    return Size(n * n, n * n, entries, scratch=48 * entries)


@recipe(
    "fem2d",
    {"n": Parameter(500, "vertices along each side", between=(2, MAX_INDEX))},
    about="linear finite elements on n x n squares, each cut into two triangles at random",
    short="fem2d-{n}",
    size=_fem2d_size,
    own_values=("stiffness", "of the Laplace operator, whole numbers"),
)
def fem2d(n: int, seed: int, progress: Progress) -> Pattern:
    """A parallelogram of rhombi with angles of 60 degrees, each cut into two triangles, along the short or the long
    diagonal. Each triangle adds 3 x 3 entries; those of one position are summed. Rows add up to 0 (natural
    boundaries)."""
    corner = np.arange(n * (n - 1), dtype=np.int64).reshape(n - 1, n)[:, :-1].ravel()
    a, b, c, d = corner, corner + 1, corner + n, corner + n + 1
    long = (Words(seed, _DIAGONALS).take(len(corner)) >> np.uint64(63)).astype(bool)
    progress("assembling elements", 0.0)
    # The two triangles of each rhombus, the corner of 120 degrees second: a b d and a c d, or a b c and b d c.
    triangles = np.stack(
        [
            np.stack([a, b, np.where(long, d, c)], 1),
            np.stack([np.where(long, a, b), np.where(long, c, d), np.where(long, d, c)], 1),
        ],
        1,
    )
    keys = (triangles[..., :, None] * (n * n) + triangles[..., None, :]).reshape(-1)
    stiffness = np.where(long[:, None, None, None], _OBTUSE, _EQUILATERAL)
    values = np.broadcast_to(stiffness, (len(corner), 2, 3, 3)).reshape(-1)
    order = np.argsort(keys, kind="stable")
    progress("summing duplicates", 0.5)
    keys = keys[order]
    first = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1])))
    row, col = np.divmod(keys[first], n * n)
    return Pattern(
        n * n,
        n * n,
        row_ptr_of(np.bincount(row, minlength=n * n)),
        col.astype(np.int32),
        merged=len(keys) - len(first),
        symmetric=True,
        values=np.add.reduceat(values[order], first),
    )
