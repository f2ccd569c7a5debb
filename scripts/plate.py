"""Make scripts/plate.mtx.gz, the matrix of `make demo`: heat conduction in a plate with a hole, of two materials.

Linear finite elements on a triangulation of jittered points. Vertices are ordered by quarter of the plate, those
between quarters last, as a solver for several processors orders them: four bands on the diagonal, and a border that
couples them. So the structure can be seen. The file is checked in, since another version of scipy may triangulate
otherwise.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from scipy.sparse import coo_array
from scipy.spatial import Delaunay

import spgraph_bench
from spgraph_bench import writers

__all__ = ["plate"]

FILE = Path(__file__).resolve().parent / "plate.mtx.gz"
_ACROSS = 26
"""Points along the shorter side."""


def _points() -> np.ndarray:
    """Points of the plate, 2 x 1 with a hole in the middle, float64 ``[n, 2]``."""
    x, y = np.meshgrid(np.linspace(0, 2, 2 * _ACROSS - 1), np.linspace(0, 1, _ACROSS))
    points = np.stack([x.ravel(), y.ravel()], axis=1)
    inside = (points > 0).all(axis=1) & (points[:, 0] < 2) & (points[:, 1] < 1)
    jitter = np.random.Generator(np.random.PCG64(1)).uniform(-0.3, 0.3, points.shape) / (_ACROSS - 1)
    points[inside] += jitter[inside]
    return points[np.hypot(points[:, 0] - 1, points[:, 1] - 0.5) > 0.2]


def plate() -> coo_array:
    """The stiffness matrix plus a small mass: symmetric, positive definite; values of 6 digits."""
    points = _points()
    corners = Delaunay(points).simplices
    middle = points[corners].mean(axis=1)
    corners = corners[np.hypot(middle[:, 0] - 1, middle[:, 1] - 0.5) > 0.2]
    edges = points[corners[:, [2, 0, 1]]] - points[corners[:, [1, 2, 0]]]  # opposite to each corner
    area = 0.5 * np.abs(edges[:, 0, 0] * edges[:, 1, 1] - edges[:, 0, 1] * edges[:, 1, 0])
    material = np.where(points[corners].mean(axis=1)[:, 0] < 1, 1.0, 4.0)
    local = np.einsum("tik,tjk->tij", edges, edges) * (material / (4 * area))[:, None, None]
    local += np.eye(3) * (area / 3)[:, None, None]
    row, col = np.repeat(corners, 3, axis=1).ravel(), np.tile(corners, 3).ravel()
    quarter = 2 * (points[:, 0] > 1) + (points[:, 1] > 0.5)
    between = np.zeros(len(points), bool)
    other = quarter[row] > quarter[col]
    between[row[other]] = True
    order = np.lexsort((points[:, 1], points[:, 0], np.where(between, 4, quarter)))
    place = np.argsort(order)
    full = coo_array((local.ravel(), (place[row], place[col])), shape=(len(points), len(points))).tocsr()
    lower = full.tocoo()
    triangle = lower.row >= lower.col
    values = np.array([float(f"{v:.6g}") for v in lower.data[triangle]])
    r, c = lower.row[triangle], lower.col[triangle]
    below = r > c
    return coo_array(
        (np.concatenate([values, values[below]]), (np.concatenate([r, c[below]]), np.concatenate([c, r[below]]))),
        shape=full.shape,
    )


def main() -> int:
    """Write the file; the exit status."""
    from dataclasses import replace

    matrix = spgraph_bench.read(plate())
    matrix = replace(matrix, symmetry="symmetric", source=replace(matrix.source, text="scripts/plate.py"))
    writers.save(matrix, FILE, overwrite=True)
    print(
        f"{FILE}: {matrix.csr.rows:,} x {matrix.csr.cols:,}, {matrix.csr.nnz:,} entries, {FILE.stat().st_size:,} bytes"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
