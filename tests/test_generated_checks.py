"""The checks of bezier, quadtree and refine: what is wrong in any way must not pass. No kernel runs here."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from generated import inputs_of, problem_of

from spgraph_bench.errors import UsageError
from spgraph_bench.problems import get_problem
from spgraph_bench.problems.bezier import MOST, check_points, chosen_curves, curve_points, draw_curves, points_needed
from spgraph_bench.problems.quadtree import check_tree, draw_points, most_split, point_codes, split_nodes
from spgraph_bench.problems.refine import check_cells, draw_fronts, field_values, refined_cells

# ---- bezier ---------------------------------------------------------------------------------------------


def test_points_needed_by_hand() -> None:
    def needed(*p: float) -> int:
        return int(points_needed(np.array(p, np.float32).reshape(1, 3, 2))[0])

    assert needed(0, 0, 0.5, 0, 1, 0) == 8
    assert needed(0, 0, 0.5, 0.5, 1, 0) == 8 + 128  # a triangle half as high as long
    assert needed(0, 0, 0.25, 0.25, 0.5, 0) == 8 + 128  # the same, smaller
    assert needed(0, 0, 0.5, 1, 1, 0) == 256
    assert needed(0, 0, 1, 0, 0, 0) == 256
    assert needed(0, 0, 0, 0, 0, 0) == 8


def test_shares_of_curves() -> None:
    control = draw_curves(7, 20_000, 70, 30)
    assert np.abs(control).max() < 1
    grid = control.astype(np.float64) * 2**20
    assert (grid == np.rint(grid)).all()
    n = points_needed(control)
    straight = n <= 9
    assert abs(straight.mean() - 0.7) < 0.02
    assert abs(n[~straight].mean() - 128) < 3
    assert MOST / n.mean() >= 5  # at most a fifth of the points
    gentle = points_needed(draw_curves(7, 2000, 0, 0))
    assert gentle.min() >= 9
    assert gentle.max() <= 34
    np.testing.assert_array_equal(control, draw_curves(7, 20_000, 70, 30))
    assert (control != draw_curves(8, 20_000, 70, 30)).any()
    with pytest.raises(UsageError, match="more than all"):
        draw_curves(1, 10, 80, 30)


def test_curve_points_by_hand() -> None:
    control = np.array([[[0, 0], [1, 2], [2, 0]]], np.float32)
    np.testing.assert_array_equal(curve_points(control, np.array([3])), [[0, 0], [1, 1], [2, 0]])


def test_chosen_curves_of_a_large_run() -> None:
    chosen = chosen_curves(np.full(200_000, 200, np.int32))
    assert (np.diff(chosen) > 0).all()
    assert set(chosen[:1000]) == set(range(1000))
    assert set(chosen[-1000:]) == set(range(199_000, 200_000))
    assert len(chosen) > 10_000
    assert len(chosen_curves(np.full(1000, 200, np.int32))) == 1000


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda c, p: None, ""),
        (lambda c, p: c.__setitem__(17, c[17] + 1), "curve 17: "),
        (lambda c, p: p.__setitem__((40, 1), np.nan), "never written"),
        (lambda c, p: p.__setitem__((40, 0), p[40, 0] + 2e-6), "1 of .* points wrong"),
        (lambda c, p: p.__setitem__(slice(None), np.roll(p, 1, axis=0)), "points wrong"),
        (lambda c, p: p.__setitem__(slice(None), p[:, ::-1].copy()), "points wrong"),
        (lambda c, p: p.__setitem__(3, -p[3]), "the worst is curve 0, point 3"),
    ],
)
def test_points_that_are_wrong(spoil: Callable[[Any, Any], None], message: str) -> None:
    control = draw_curves(3, 50, 50, 50)
    right = points_needed(control)
    count, points = right.copy(), curve_points(control, right).astype(np.float32)
    spoil(count, points)
    result = check_points(count, points, right, control)
    assert result.ok == (not message)
    if message:
        assert re.search(message, result.message), result.message


def test_points_that_are_missing() -> None:
    control = draw_curves(3, 50, 50, 50)
    right = points_needed(control)
    points = curve_points(control, right).astype(np.float32)
    assert not check_points(right, points[:-1], right, control).ok
    assert not check_points(right[:-1], points, right, control).ok
    assert not check_points(right, points.astype(np.float64), right, control).ok


# ---- quadtree -------------------------------------------------------------------------------------------


def plain_tree(codes: np.ndarray, leaf: int, depth: int) -> tuple[np.ndarray, np.ndarray]:
    """A quadtree by plain recursion."""
    nodes: list[list[int]] = [[0, len(codes), -1, 0]]
    order: list[int] = []

    def grow(node: int, members: list[int], d: int) -> None:
        nodes[node][0], nodes[node][3] = len(order), d
        if len(members) <= leaf or d == depth:
            order.extend(members)
        else:
            first = nodes[node][2] = len(nodes)
            nodes.extend([0, 0, -1, 0] for _ in range(4))
            for q in range(4):
                grow(first + q, [m for m in members if int(codes[m]) >> (30 - 2 * d) & 3 == q], d + 1)
        nodes[node][1] = len(order)

    grow(0, list(range(len(codes))), 0)
    return np.array(nodes, np.int32), np.array(order, np.int32)


def _tree(points: int = 400, leaf: int = 5, depth: int = 7, shape: str = "clustered") -> tuple[Any, ...]:
    codes = point_codes(draw_points(4, points, shape))
    return *plain_tree(codes, leaf, depth), codes, split_nodes(codes, leaf, depth)[0], leaf, depth


@pytest.mark.parametrize("shape", ["uniform", "clustered", "line", "equal"])
@pytest.mark.parametrize(("points", "leaf", "depth"), [(1, 1, 1), (400, 5, 7), (300, 1, 16), (50, 60, 9), (64, 1, 2)])
def test_a_plain_tree_passes(shape: str, points: int, leaf: int, depth: int) -> None:
    tree = _tree(points, leaf, depth, shape)
    result = check_tree(*tree)
    assert result.ok, result.message
    assert result.facts["nodes"] == len(tree[0])
    assert len(tree[0]) <= 1 + 4 * most_split(points, leaf, depth)


@pytest.mark.parametrize("shape", ["uniform", "clustered", "line", "equal"])
@pytest.mark.parametrize(("points", "leaf", "depth"), [(1, 1, 1), (400, 5, 7), (300, 1, 16), (50, 60, 9)])
def test_nodes_that_are_split_are_counted(shape: str, points: int, leaf: int, depth: int) -> None:
    """Those of each depth, and those with a child that is split: as a plain tree has them."""
    codes = point_codes(draw_points(4, points, shape))
    nodes, _ = plain_tree(codes, leaf, depth)
    split, parents = split_nodes(codes, leaf, depth)
    inner = nodes[nodes[:, 2] >= 0]
    assert split.tolist() == np.bincount(inner[:, 3], minlength=depth).tolist()
    launching = inner[[bool((nodes[child : child + 4, 2] >= 0).any()) for child in inner[:, 2]]]
    assert parents.tolist() == np.bincount(launching[:, 3], minlength=depth).tolist()


def test_codes_are_boxes() -> None:
    p = np.array([[0, 0], [0.5, 0], [0, 0.5], [0.5, 0.5], [0.75, 0.25], [1 - 2.0**-20, 1 - 2.0**-20]], np.float32)
    codes = point_codes(p)
    assert [int(c) >> 30 for c in codes] == [0, 1, 2, 3, 1, 3]
    assert int(codes[4]) >> 28 & 3 == 3
    assert codes[5] == 0xFFFFFFFF


def _inner(nodes: np.ndarray) -> int:
    return int(np.flatnonzero(nodes[:, 2] >= 0)[3])


def _full_leaf(nodes: np.ndarray) -> int:
    return int(np.flatnonzero((nodes[:, 2] < 0) & (nodes[:, 1] - nodes[:, 0] > 1))[0])


def _swap_leaves(nodes: np.ndarray, order: np.ndarray) -> None:
    """Two points of different leaves."""
    full = np.flatnonzero((nodes[:, 2] < 0) & (nodes[:, 1] > nodes[:, 0]))
    a, b = nodes[full[0], 0], nodes[full[-1], 0]
    order[[a, b]] = order[[b, a]]


def _make_leaf(nodes: np.ndarray, order: np.ndarray) -> None:
    nodes[_inner(nodes), 2] = -1


def _split_more(nodes: np.ndarray, order: np.ndarray) -> None:
    nodes[_full_leaf(nodes), 2] = 1


def _move_edge(nodes: np.ndarray, order: np.ndarray) -> None:
    nodes[_full_leaf(nodes), 1] -= 1


def _two_parents(nodes: np.ndarray, order: np.ndarray) -> None:
    inner = np.flatnonzero(nodes[:, 2] >= 0)
    nodes[inner[2], 2] = nodes[inner[1], 2]


def _beyond(nodes: np.ndarray, order: np.ndarray) -> None:
    nodes[_inner(nodes), 2] = len(nodes) - 2


def _point_twice(nodes: np.ndarray, order: np.ndarray) -> None:
    order[7] = order[8]


def _no_point(nodes: np.ndarray, order: np.ndarray) -> None:
    order[7] = -1


def _wrong_depth(nodes: np.ndarray, order: np.ndarray) -> None:
    nodes[_full_leaf(nodes), 3] += 1


def _wrong_root(nodes: np.ndarray, order: np.ndarray) -> None:
    nodes[0, 1] -= 1


@pytest.mark.parametrize(
    "spoil",
    [
        _swap_leaves,
        _make_leaf,
        _split_more,
        _move_edge,
        _two_parents,
        _beyond,
        _point_twice,
        _no_point,
        _wrong_depth,
        _wrong_root,
    ],
)
def test_trees_that_are_wrong(spoil: Callable[[np.ndarray, np.ndarray], None]) -> None:
    nodes, order, *rest = _tree()
    spoil(nodes, order)
    assert not check_tree(nodes, order, *rest).ok


def test_trees_of_the_wrong_size() -> None:
    nodes, order, *rest = _tree()
    assert not check_tree(nodes[:0], order, *rest).ok
    assert not check_tree(nodes[:-4], order, *rest).ok
    assert not check_tree(np.concatenate((nodes, nodes[-4:])), order, *rest).ok
    assert not check_tree(nodes, order[:-1], *rest).ok


# ---- refine ---------------------------------------------------------------------------------------------


def test_fields_are_flat_away_from_their_fronts() -> None:
    front = np.array([[0.5, 0.5, 0.04, 100.0, 2.0]])  # radius 0.2, a band of 0.01 in squared distance
    position = np.array([0.5, 0.5 + 0.2, 0.95])
    np.testing.assert_allclose(field_values(front, position, np.full(3, 0.5)), [-2, 0, 2], atol=1e-12)


@pytest.mark.parametrize(("tolerance", "depth"), [(0.05, 5), (1e9, 8), (1e-9, 4)])
def test_cells_cover_the_square_once(tolerance: float, depth: int) -> None:
    cells = refined_cells(draw_fronts(2, 5), tolerance, depth)
    depths = (np.floor(np.log2(cells.astype(np.float64))) / 2).astype(int)
    assert depths.min() >= 3
    assert depths.max() <= depth
    # Each cell is a stretch of the deepest level's numbers; together they are all of them.
    first = (cells.astype(np.int64) - 4**depths) << 2 * (depth - depths)
    rising = np.argsort(first)
    ends = first[rising] + 4 ** (depth - depths[rising])
    assert first[rising][0] == 0
    assert ends[-1] == 4**depth
    np.testing.assert_array_equal(first[rising][1:], ends[:-1])


def test_cells_that_are_wrong() -> None:
    right = refined_cells(draw_fronts(2, 5), 0.05, 6)
    shuffled = right.copy()
    np.random.default_rng(1).shuffle(shuffled)
    assert check_cells(shuffled, right).ok
    assert check_cells(shuffled, right).facts == {"cells": len(right)}
    one_more = shuffled.copy()
    one_more[5] = 3
    for wrong, message in [
        (shuffled[:-1], "1 missing"),
        (np.append(shuffled, shuffled[0]), "1 more than once"),
        (one_more, "1 missing, 1 that should not be"),
        (shuffled[:0], "missing"),
    ]:
        result = check_cells(wrong, right)
        assert not result.ok
        assert message in result.message


# ---- the problems ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["bezier", "quadtree", "refine"])
def test_problems_are_generated_ones(name: str) -> None:
    problem = get_problem(name)
    assert not problem.needs_matrix
    assert set(problem.host_defaults) <= set(problem.options)
    inputs = inputs_of(name, problem.host_defaults)
    again = inputs_of(name, problem.host_defaults)
    other = inputs_of(name, problem.host_defaults, seed=2)
    for key in inputs:
        np.testing.assert_array_equal(inputs[key], again[key])
        assert (inputs[key] != other[key]).any()
    printed = problem_of(name, problem.host_defaults).describe_inputs(inputs)
    assert printed
    assert "\n" not in printed


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("bezier", {"curves": 0}),
        ("bezier", {"straight": 101}),
        ("quadtree", {"shape": "round"}),
        ("quadtree", {"depth": 17}),
        ("quadtree", {"points": "many"}),
        ("refine", {"depth": 2}),
        ("refine", {"tolerance": 0.0}),
    ],
)
def test_bad_options(name: str, options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        get_problem(name, options)
