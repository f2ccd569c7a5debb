"""Quadtrees: boxes halved in both directions until each holds few points.

Recursion whose depth depends on the data.
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

__all__ = [
    "CODE_DEPTH",
    "SHAPES",
    "Quadtree",
    "box_places",
    "check_tree",
    "draw_points",
    "leaf_boxes",
    "most_split",
    "point_codes",
    "split_nodes",
]

Points = npt.NDArray[np.float32]
Codes = npt.NDArray[np.uint32]

CODE_DEPTH = 16
"""Levels that a code tells apart: 16 bits of x and y each."""

SHAPES = ("uniform", "clustered", "line", "equal")

_CLUSTERS = 64


def _to_unit(raw: npt.NDArray[np.uint64]) -> npt.NDArray[np.float64]:
    """Raw bits as numbers in [0, 1): the same for a seed on any machine and with any numpy."""
    return (raw >> np.uint64(11)).astype(np.float64) * 2.0**-53


def draw_points(seed: int, points: int, shape: str) -> Points:
    """Points ``[points, 2]`` in [0, 1), float32.

    Parameters
    ----------
    shape : "uniform"; "clustered": 64 clusters whose points get denser towards the middle (each coordinate's
        distance from it is the product of three uniform draws, at most 1/8); "line": on a line across the
        square; "equal": all the same.
    """
    bits = np.random.PCG64(seed)

    def uniform() -> npt.NDArray[np.float64]:
        return _to_unit(bits.random_raw(points))

    p = np.empty((points, 2), np.float64)
    if shape == "uniform":
        p[:, 0], p[:, 1] = uniform(), uniform()
    elif shape == "clustered":
        middle = 0.125 + 0.75 * _to_unit(bits.random_raw(2 * _CLUSTERS)).reshape(-1, 2)
        of = bits.random_raw(points) % np.uint64(_CLUSTERS)
        for axis in range(2):
            away = uniform() * uniform() * (2 * uniform() - 1) / 8
            p[:, axis] = middle[of, axis] + away
    elif shape == "line":
        t = uniform()
        p[:, 0], p[:, 1] = t, 0.1 + 0.7 * t
    else:
        p[:] = (0.3, 0.6)
    return np.minimum(p, 1 - 2.0**-20).astype(np.float32)


def point_codes(points: Points) -> Codes:
    """Morton codes, uint32 ``[n]``: see cuda/quadtree/tree.cuh. In float64: 65,536 x is exact."""

    def spread(v: Codes) -> Codes:
        for shift, mask in ((8, 0x00FF00FF), (4, 0x0F0F0F0F), (2, 0x33333333), (1, 0x55555555)):
            v = (v | v << np.uint32(shift)) & np.uint32(mask)
        return v

    cell = np.minimum(np.floor(points.astype(np.float64) * 65536), 65535).astype(np.uint32)
    return spread(cell[:, 0]) | spread(cell[:, 1]) << np.uint32(1)


def split_nodes(codes: Codes, leaf: int, depth: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """How many nodes of each depth are split, int64 ``[depth]``: the boxes that hold more than `leaf`
    points; and how many of each depth have a child that is split in turn."""
    rising = np.sort(codes)
    counts, parents = np.zeros(depth, np.int64), np.zeros(depth, np.int64)
    for d in range(depth):
        prefix = rising >> np.uint32(32 - 2 * d) if d else np.zeros(len(rising), np.uint32)
        # A box of more than `leaf` points: its first point and the one `leaf` places on share the prefix.
        starts = np.concatenate(([True], prefix[1:] != prefix[:-1])) if len(prefix) else np.zeros(0, bool)
        first = np.flatnonzero(starts[: max(len(prefix) - leaf, 0)])
        boxes = prefix[first][prefix[first] == prefix[first + leaf]]
        counts[d] = len(boxes)
        if not counts[d]:
            break
        if d:  # boxes rise, so those of one parent are neighbours
            parents[d - 1] = 1 + np.count_nonzero(np.diff(boxes >> np.uint32(2)))
    return counts, parents


def leaf_boxes(codes: Codes, leaf: int, depth: int, most: int) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
    """The boxes that are not split: their codes' first 2 d bits, uint64 ``[n]``, and depths d, int64 ``[n]``.

    The boxes of a depth at which more than `most` there would be in all are not split.
    """
    rising = np.sort(codes).astype(np.uint64)
    level: npt.NDArray[np.uint64] = np.zeros(1, np.uint64)
    leaves: list[npt.NDArray[np.uint64]] = []
    depths: list[npt.NDArray[np.int64]] = []
    for d in range(depth + 1):
        shift = np.uint64(32 - 2 * d)
        first, end = (np.searchsorted(rising, (level + np.uint64(k)) << shift) for k in (0, 1))
        split = (end - first > leaf) & (d < depth)
        if sum(len(boxes) for boxes in leaves) + len(level) + 3 * np.count_nonzero(split) > most:
            split[:] = False
        leaves.append(level[~split])
        depths.append(np.full(len(leaves[-1]), d, np.int64))
        level = np.repeat(level[split] << np.uint64(2), 4)
        level |= np.tile(np.arange(4, dtype=np.uint64), len(level) // 4)
        if not len(level):
            break
    return np.concatenate(leaves), np.concatenate(depths)


def box_places(
    prefix: npt.NDArray[np.uint64], depth: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Lower left corners ``[n, 2]`` and sides ``[n]`` of the boxes with these Morton prefixes and depths."""
    corner = np.zeros((len(prefix), 2))
    for bit in range(CODE_DEPTH):
        for axis in range(2):
            corner[:, axis] += (prefix >> np.uint64(2 * bit + axis) & np.uint64(1)).astype(np.float64) * 2.0**bit
    side = 2.0 ** -depth.astype(np.float64)
    return corner * side[:, None], side


def most_split(points: int, leaf: int, depth: int) -> int:
    """A bound on the nodes that are split: of each depth at most 4^d, and at most as many as have leaf + 1
    points."""
    return sum(min(4**d, points // (leaf + 1)) for d in range(depth))


def check_tree(
    nodes: npt.NDArray[Any], order: npt.NDArray[Any], codes: Codes, split: npt.NDArray[np.int64], leaf: int, depth: int
) -> CheckResult:
    """Whether nodes and order are the quadtree of the points with these `codes` (of which there is one, up
    to the numbering of nodes and the order of points in a leaf).

    Walking down from the root, level by level: children share the range of their node, in order of quadrant
    (boxes nest by construction: a node's box follows from the way to it); nodes are split exactly if they
    have more than `leaf` points above `depth`; every node is reached once; every point is in `order` once,
    and is in the box of its leaf; as many nodes of each depth are split as the codes say (`split`).

    Parameters
    ----------
    nodes : int32 ``[nodes, 4]``: begin, end, child, depth, see cuda/quadtree/tree.cuh.
    order : int32 ``[points]``.
    """
    count, n = len(nodes), len(codes)

    def wrong(message: str) -> CheckResult:
        return CheckResult(False, message)

    if count < 1 or len(order) != n:
        return wrong(f"{count:,} nodes and {len(order):,} points in order, expected one or more and {n:,}")
    if why := _wrong_order(order):
        return wrong(why)
    reached = np.zeros(count, bool)
    node, prefix = np.zeros(1, np.int64), np.zeros(1, np.uint64)
    if tuple(nodes[0, :2]) != (0, n):
        return wrong(f"the root has points {nodes[0, 0]:,} to {nodes[0, 1]:,}, expected 0 to {n:,}")
    deepest = 0
    for d in range(depth + 1):
        reached[node] = True
        begin, end, child = (nodes[node, k].astype(np.int64) for k in range(3))
        if len(bad := np.flatnonzero(nodes[node, 3] != d)):
            return wrong(f"node {node[bad[0]]:,} says depth {nodes[node[bad[0]], 3]}, it is reached at {d}")
        splits = (end - begin > leaf) & (d < depth)
        if len(bad := np.flatnonzero(splits != (child >= 0))):
            b = bad[0]
            what = "is a leaf" if splits[b] else "is split"
            return wrong(f"node {node[b]:,} of depth {d} with {end[b] - begin[b]:,} points {what}")
        if d < depth and splits.sum() != split[d]:
            return wrong(f"{splits.sum():,} nodes of depth {d} are split, expected {split[d]:,}")
        leaf_nodes = ~splits
        if why := _wrong_leaves(codes, order, begin[leaf_nodes], end[leaf_nodes], prefix[leaf_nodes], d):
            return wrong(why)
        deepest = d
        if not splits.any():
            break
        child, begin, end = child[splits], begin[splits], end[splits]
        if child.max() + 4 > count or child.min() < 1:
            return wrong(f"a node of depth {d} has children beyond the {count:,} nodes")
        children = child[:, None] + np.arange(4)
        if why := _wrong_ranges(nodes, children, begin, end):
            return wrong(why)
        node = children.reshape(-1)
        if reached[node].any() or len(np.unique(node)) != len(node):
            return wrong(f"a node of depth {d + 1} has two parents")
        prefix = (prefix[splits][:, None] * np.uint64(4) + np.arange(4, dtype=np.uint64)).reshape(-1)
    if not reached.all():
        return wrong(f"node {int(np.argmin(reached)):,} is not the child of any node")
    facts = {"deepest": deepest, "nodes": count}
    return CheckResult(True, "", facts=facts)


def _wrong_order(order: npt.NDArray[Any]) -> str:
    """Why `order` does not have every point once, or ""."""
    n = len(order)
    if not ((order >= 0) & (order < n)).all():
        return "order has an entry that is not a point"
    present = np.zeros(n, bool)
    present[order] = True
    if not present.all():
        return f"point {int(np.argmin(present)):,} is missing in order, so another one is there twice"
    return ""


def _wrong_leaves(
    codes: Codes,
    order: npt.NDArray[Any],
    begin: npt.NDArray[np.int64],
    end: npt.NDArray[np.int64],
    prefix: npt.NDArray[np.uint64],
    depth: int,
) -> str:
    """Which point of these leaves of one `depth` has not the prefix of its leaf, or ""."""
    sizes = end - begin
    places = np.repeat(begin - np.cumsum(sizes) + sizes, sizes) + np.arange(sizes.sum())
    actual = codes[order[places]].astype(np.uint64) >> np.uint64(32 - 2 * depth)
    if len(bad := np.flatnonzero(actual != np.repeat(prefix, sizes))):
        return f"point {order[places[bad[0]]]:,} is in a leaf of depth {depth} whose box it is not in"
    return ""


def _wrong_ranges(
    nodes: npt.NDArray[Any], children: npt.NDArray[np.int64], begin: npt.NDArray[np.int64], end: npt.NDArray[np.int64]
) -> str:
    """Which `children`, ``[nodes, 4]``, do not divide the range of their node in order, or ""."""
    edges = np.concatenate((nodes[children, 0], nodes[children[:, 3:], 1]), axis=1)
    fits = (edges[:, 0] == begin) & (edges[:, 4] == end) & (nodes[children, 1] == edges[:, 1:]).all(axis=1)
    fits &= (np.diff(edges, axis=1) >= 0).all(axis=1)
    if fits.all():
        return ""
    first, last = children[int(np.argmin(fits)), [0, 3]]
    return f"the children {first:,} to {last:,} do not share the range of their node"


class Quadtree(Problem):
    """Input ``points`` float32 ``[n, 2]`` in [0, 1); output a mapping: ``nodes`` int32 ``[nodes, 4]``,
    ``order`` int32 ``[n]``, see cuda/quadtree/tree.cuh."""

    name = "quadtree"
    title = "a quadtree of points: boxes split until each holds few"
    rate_unit = "Mpoints/s"
    outputs: tuple[str, ...] = ("nodes",)
    dtypes: tuple[str, ...] = ("float32",)
    needs_matrix = False
    options: Mapping[str, Parameter] = MappingProxyType(
        {
            "points": Parameter(1_000_000, "points", between=(1, 5 * 10**7)),
            "shape": Parameter("clustered", "distribution of the points", choices=SHAPES),
            "leaf": Parameter(32, "points that a leaf holds at most", between=(1, 10_000)),
            "depth": Parameter(16, "depth at which a box is a leaf, whatever it holds", between=(1, CODE_DEPTH)),
        }
    )
    host_defaults: Mapping[str, Any] = MappingProxyType({"points": 2000})

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        filled = filled_options(self, options or {})
        self.points, self.shape = int(filled["points"]), str(filled["shape"])
        self.leaf, self.depth = int(filled["leaf"]), int(filled["depth"])

    def configured(self, options: Mapping[str, Any]) -> Quadtree:
        return Quadtree(options)

    def inputs(self, matrix: Matrix, dtype: np.dtype[Any], seed: int, **_: Any) -> dict[str, npt.NDArray[Any]]:
        """See :func:`draw_points`."""
        return {"points": draw_points(seed, self.points, self.shape)}

    def oracle(
        self, matrix: Matrix, inputs: Mapping[str, npt.NDArray[Any]], dtype: np.dtype[Any], **_: Any
    ) -> dict[str, npt.NDArray[Any]]:
        """``codes`` uint32 ``[n]`` of the points; ``split`` and ``parents`` int64 ``[depth]``: nodes of each
        depth that are split, and that have a child that is."""
        codes = point_codes(inputs["points"])
        split, parents = split_nodes(codes, self.leaf, self.depth)
        return {"codes": codes, "split": split, "parents": parents}

    def check(self, output: Any, oracle: Mapping[str, npt.NDArray[Any]], dtype: np.dtype[Any]) -> CheckResult:
        """See :func:`check_tree`. Facts: depth of the deepest leaf, nodes."""
        return check_tree(output["nodes"], output["order"], oracle["codes"], oracle["split"], self.leaf, self.depth)

    def describe_inputs(self, inputs: Mapping[str, npt.NDArray[Any]]) -> str:
        lie = {"uniform": "uniform", "clustered": "in clusters", "line": "on a line", "equal": "all the same"}
        leaves = f"leaves of at most {self.leaf:,} or at depth {self.depth}"
        return f"{self.points:,} points, {lie[self.shape]}; {leaves}"

    def map(
        self, inputs: Mapping[str, npt.NDArray[Any]], oracle: Mapping[str, npt.NDArray[Any]], most: int
    ) -> dict[str, npt.NDArray[Any]]:
        """The leaves, and the points."""
        corner, side = box_places(*leaf_boxes(oracle["codes"], self.leaf, self.depth, most))
        return {"corner": corner, "side": side, "points": inputs["points"].astype(np.float64)}

    def work_of(self, inputs: Mapping[str, npt.NDArray[Any]], oracle: Mapping[str, npt.NDArray[Any]]) -> Work:
        """Points read, order and nodes (16 bytes each) written, once each."""
        points = len(inputs["points"])
        nodes = 1 + 4 * int(oracle["split"].sum())
        return Work(points, 12 * points + 16 * nodes, 8 * points, 0)


register(Quadtree())
