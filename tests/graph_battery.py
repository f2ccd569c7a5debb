"""Graphs that every traversal must get right: small, and nasty in one way each."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from battery import csr

from spgraph_bench.matrix import CSR

__all__ = ["graphs"]


def _both(n: int, u: npt.ArrayLike, v: npt.ArrayLike) -> CSR:
    """Undirected: every edge stored both ways."""
    u, v = np.asarray(u), np.asarray(v)
    return csr(n, n, np.concatenate((u, v)), np.concatenate((v, u)), None)


def _grid_graph(rows: int, cols: int) -> CSR:
    position = np.arange(rows * cols).reshape(rows, cols)
    return _both(
        rows * cols,
        np.concatenate((position[:, :-1].ravel(), position[:-1].ravel())),
        np.concatenate((position[:, 1:].ravel(), position[1:].ravel())),
    )


def _layers(widths: Sequence[int], n: int, seed: int) -> tuple[CSR, tuple[int, ...]]:
    """Layers of so many vertices, each with one or two neighbours in the layer before; n vertices, any order.

    From the first vertex a level is a layer. The other source is in the last layer.
    """
    draw = np.random.default_rng(seed)
    ids = draw.permutation(n)
    first = np.concatenate(([0], np.cumsum(widths)))
    u, v = [], []
    for k in range(1, len(widths)):
        mine = np.arange(first[k], first[k + 1])
        for shift in {0, widths[k - 1] // 2}:
            u.append(ids[mine])
            v.append(ids[first[k - 1] + (mine - first[k] + shift) % widths[k - 1]])
    return _both(n, np.concatenate(u), np.concatenate(v)), (int(ids[0]), int(ids[first[-1] - 1]))


@functools.cache
def graphs() -> dict[str, tuple[CSR, tuple[int, ...]]]:
    """Name -> graph and the sources to try."""
    draw = np.random.default_rng(5)
    i = np.arange(300)
    arms, length = 40, 12
    even = 2 + 2 * np.arange(3900)
    bush, many = np.arange(1920), np.arange(400)
    arm = np.arange(arms * length).reshape(arms, length) + 1
    random = draw.integers(0, 700, (2, 4000))
    sparse = draw.integers(0, 900, (2, 1200))
    skewed = (draw.random((2, 9000)) ** 4 * 600).astype(np.int64)
    return {
        "one-vertex": (csr(1, 1, [], [], None), (0,)),
        "one-vertex-with-a-loop": (csr(1, 1, [0], [0], None), (0,)),
        "isolated-source": (_both(70, i[:40], i[1:41]), (60, 0)),
        "two-vertices": (_both(2, [0], [1]), (0, 1)),
        "hub-of-5000": (_both(5001, np.zeros(5000, int), np.arange(1, 5001)), (0, 77)),
        "two-hubs-sharing-leaves": (_both(1502, np.repeat([0, 1], 1500), np.tile(np.arange(2, 1502), 2)), (0, 1, 900)),
        "chain": (_both(300, i[:-1], i[1:]), (0, 150)),
        "grid-graph": (_grid_graph(23, 31), (0, 350)),
        "complete": (_both(60, *np.triu_indices(60, 1)), (0, 59)),
        "star-of-chains": (
            _both(
                1 + arms * length,
                np.concatenate((np.zeros(arms, int), arm[:, :-1].ravel())),
                np.concatenate((arm[:, 0], arm[:, 1:].ravel())),
            ),
            (0, 12, 7),
        ),
        # Directed from here on: out-edges and in-edges differ.
        "directed-cycle-with-a-tail": (
            csr(
                260,
                260,
                np.concatenate((i[:200], i[200:259], [199])),
                np.concatenate(((i[:200] + 1) % 200, i[201:260], [200])),
                None,
            ),
            (0, 100, 230),
        ),
        # Pulling along out-edges would reach the vertices that point at the source.
        "in-edges-matter": (
            csr(
                202,
                202,
                np.concatenate((np.zeros(100, int), np.arange(101, 201), [50])),
                np.concatenate((np.arange(1, 101), np.zeros(100, int), [201])),
                None,
            ),
            (0, 50, 150),
        ),
        # A vertex that nothing leads to must not look visited: its targets would be found from it.
        "roots-that-are-not-reached": (
            csr(
                130,
                130,
                np.concatenate((i[:20], np.arange(64, 128))),
                np.concatenate((i[1:21], np.arange(0, 64))),
                None,
            ),
            (0, 64),
        ),
        "sink-source": (csr(40, 40, [1, 2, 3], [0, 0, 0], None), (0, 2)),
        "loops-and-repeats": (
            csr(90, 90, np.concatenate((i[:90], i[:89], i[:89])), np.concatenate((i[:90], i[1:90], i[1:90])), None),
            (0, 45),
        ),
        "disconnected": (
            _both(400, np.concatenate((i[:99], i[200:299])), np.concatenate((i[1:100], i[201:300]))),
            (0, 250),
        ),
        # Frontiers of 900 and 3,000 vertices of one edge each. In CSR the edges of their targets are between.
        "one-edge-each": (
            csr(
                7802,
                7802,
                np.concatenate((np.repeat([0, 1], [900, 3000]), even, even + 1)),
                np.concatenate((even, draw.permutation(even) + 1, 0 * even)),
                None,
            ),
            (0, 1),
        ),
        # Of more than 8,192 vertices from here on: such frontiers of low degree go a way of their own.
        # Frontiers that are now one warp's affair, now the block's.
        "layers-of-about-a-warp": _layers([1, *draw.choice([1, 3, 20, 31, 32, 33, 40, 90], 120).tolist()], 8200, 1),
        # Wide ones, whose vertices often share a place in a table of 2,048.
        "wide-layers": _layers([1, 50, 600, *[700] * 9, 3, 2, 1], 8500, 2),
        # More found than a block keeps at hand: 2,187 together.
        "ternary-tree": (_both(9841, (np.arange(1, 9841) - 1) // 3, np.arange(1, 9841)), (0, 9840)),
        # A frontier of few edges on average, of which one vertex has 400 and another 37 of the same.
        "one-long-row": (
            _both(
                8200,
                np.concatenate((0 * i[:200], i[1:201], 0 * many + 1, 0 * many[:37] + 77, i[1:20])),
                np.concatenate((i[1:201], i[1:201] + 200, 401 + many, 500 + many[:37], 801 + i[1:20])),
            ),
            (0, 600),
        ),
        # 32 vertices that find 1,920 together, more than a block keeps at hand. Half of those lead on;
        # the other half and the last level lead nowhere: few enough are left after all.
        "directed-bush": (
            csr(
                2913,
                2913,
                np.concatenate((np.zeros(32, int), bush // 60 + 1, 33 + 2 * np.arange(960))),
                np.concatenate((np.arange(1, 33), 33 + bush, 1953 + np.arange(960))),
                None,
            ),
            (0, 5, 33),
        ),
        "random": (_both(700, *random), (0, 699)),
        "random-directed": (csr(700, 700, *random, None), (0, 699)),
        "sparse": (_both(900, *sparse), (int(sparse[0, 0]), 5)),
        "skewed": (_both(600, *skewed), (0, 599)),
        "skewed-directed": (csr(600, 600, *skewed, None), (0, 599)),
        "complete-bipartite": (_both(96, np.repeat(i[:32], 64), np.tile(i[32:96], 32)), (0, 95)),
    }
