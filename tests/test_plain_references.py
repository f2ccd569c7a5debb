"""The plain C++ beside the kernels of each problem gives what the oracles in Python give."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from graph_battery import graphs

from spgraph_bench.matrix import CSR
from spgraph_bench.problems.base import problems
from spgraph_bench.problems.bc import plain_dependencies
from spgraph_bench.problems.bezier import curve_points, draw_curves, points_needed
from spgraph_bench.problems.cc import plain_components
from spgraph_bench.problems.launch import item_values
from spgraph_bench.problems.lengths import exact_lengths
from spgraph_bench.problems.pagerank import power_iteration
from spgraph_bench.problems.quadtree import check_tree, point_codes, split_nodes
from spgraph_bench.problems.refine import draw_fronts, refined_cells
from spgraph_bench.problems.sources import plain_levels

ROOT = Path(__file__).resolve().parent.parent
REFERENCES = sorted((ROOT / "cuda").glob("*/reference.cpp"))
WARNINGS = ("-Wall", "-Wextra", "-Werror")
Array = npt.NDArray[Any]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """All references in one library."""
    compiler = shutil.which("g++")
    assert compiler
    path = tmp_path_factory.mktemp("plain") / "plain.so"
    flags = ("-std=c++17", "-O1", "-ffp-contract=off", "-shared", "-fPIC", *WARNINGS)
    subprocess.run([compiler, *flags, *map(str, REFERENCES), "-o", str(path)], check=True)
    return ctypes.CDLL(str(path))


def call(function: Any, *arguments: Any) -> Any:
    """`function` with pointers to arrays, int32 for int and double for float."""
    ready = [
        ctypes.c_void_p(a.ctypes.data)
        if isinstance(a, np.ndarray)
        else ctypes.c_double(a)
        if isinstance(a, float)
        else a
        for a in arguments
    ]
    return function(*ready)


def _edges(graph: CSR) -> tuple[Array, Array]:
    return np.ascontiguousarray(graph.row_ptr, np.int64), np.ascontiguousarray(graph.col_idx, np.int32)


def _cases() -> list[tuple[str, CSR, int]]:
    return [(name, graph, sources[0]) for name, (graph, sources) in graphs().items() if graph.rows]


def test_every_problem_has_one() -> None:
    folders = {path.parent.name for path in REFERENCES}
    assert {name.removesuffix("-transposed").removesuffix("-batch") for name in problems()} <= folders


def test_spmv_and_spmm(plain: ctypes.CDLL) -> None:
    draw = np.random.default_rng(3)
    for rows, cols, k in ((1, 1, 1), (40, 70, 5), (70, 3, 2)):
        dense = draw.standard_normal((rows, cols)) * (draw.random((rows, cols)) < 0.2)
        present = dense != 0
        row_ptr = np.concatenate(([0], np.cumsum(present.sum(axis=1)))).astype(np.int64)
        col = np.nonzero(present)[1].astype(np.int32)
        x, y = draw.standard_normal((cols, k)), np.full((rows, k), np.nan)
        call(plain.spmm_reference, rows, k, row_ptr, col, dense[present], x, y)
        np.testing.assert_allclose(y, dense @ x, rtol=1e-13, atol=1e-13)
        one, single = np.ascontiguousarray(x[:, 0]), np.full(rows, np.nan)
        call(plain.spmv_reference, rows, row_ptr, col, dense[present], one, single)
        np.testing.assert_allclose(single, dense @ one, rtol=1e-13, atol=1e-13)


def _bfs(plain: ctypes.CDLL, graph: CSR, source: int) -> tuple[Array, Array]:
    level = np.full(graph.rows, 7, np.int32)
    call(plain.bfs_reference, graph.rows, *_edges(graph), source, level)
    return level, plain_levels(graph, source)


def _sssp(plain: ctypes.CDLL, graph: CSR, source: int) -> tuple[Array, Array]:
    weight = np.random.default_rng(source).integers(0, 1000, graph.nnz).astype(np.float32) / np.float32(7)
    weighted = CSR(graph.rows, graph.cols, graph.row_ptr, graph.col_idx, weight.astype(np.float64))
    length = np.empty(graph.rows, np.float32)
    call(plain.sssp_reference, graph.rows, *_edges(graph), weight, source, length)
    right = exact_lengths(weighted, source, np.dtype(np.float32))[0]
    return length, right


def _cc(plain: ctypes.CDLL, graph: CSR, source: int) -> tuple[Array, Array]:
    label = np.empty(graph.rows, np.int32)
    call(plain.cc_reference, graph.rows, *_edges(graph), label)
    return label, plain_components(graph)


@pytest.mark.parametrize("answers", [_bfs, _sssp, _cc])
def test_searches_are_equal(
    plain: ctypes.CDLL, answers: Callable[[ctypes.CDLL, CSR, int], tuple[Array, Array]]
) -> None:
    for name, graph, source in _cases():
        mine, right = answers(plain, graph, source)
        assert (mine == right).all(), name


def test_bc_and_pagerank_agree(plain: ctypes.CDLL) -> None:
    for name, graph, source in _cases():
        dependency, rank = np.empty(graph.rows), np.empty(graph.rows)
        call(plain.bc_reference, graph.rows, *_edges(graph), source, dependency)
        right = plain_dependencies(graph, source)
        np.testing.assert_allclose(dependency, right.dependency, rtol=right.tolerance, err_msg=name)
        iterations = call(plain.pagerank_reference, graph.rows, *_edges(graph), 0.85, 1e-6, 100, rank)
        wanted, done, _ = power_iteration(graph)
        assert iterations == done, name
        np.testing.assert_allclose(rank, wanted, rtol=1e-12, err_msg=name)


def test_bezier(plain: ctypes.CDLL) -> None:
    control = draw_curves(1, 300, 60, 30)
    control[0] = control[0, 0]  # a mere point
    control[1, 2] = control[1, 0]  # returns to its start
    count = np.empty(len(control), np.int32)
    call(plain.bezier_count_reference, len(control), control, count)
    assert (count == points_needed(control)).all()
    points = np.empty((count.sum(), 2))
    call(plain.bezier_points_reference, len(control), control, count, points)
    np.testing.assert_allclose(points, curve_points(control, count), rtol=1e-14, atol=1e-15)


def test_quadtree(plain: ctypes.CDLL) -> None:
    points = np.random.default_rng(2).random((2000, 2)).astype(np.float32) ** 3
    points[:40] = points[0]
    codes, leaf, depth = point_codes(points), 8, 10
    nodes, order = np.empty((20_000, 4), np.int32), np.empty(len(points), np.int32)
    count = call(plain.quadtree_reference, len(points), points, leaf, depth, len(nodes), nodes, order)
    split, _ = split_nodes(codes, leaf, depth)
    result = check_tree(nodes[:count], order, codes, split, leaf, depth)
    assert result.ok, result.message
    assert call(plain.quadtree_reference, len(points), points, leaf, depth, 5, nodes, order) == -1


def test_refine_and_launch(plain: ctypes.CDLL) -> None:
    fronts = draw_fronts(3, 5)
    cells = np.empty(100_000, np.uint32)
    plain.refine_reference.restype = ctypes.c_int64
    room = ctypes.c_int64(len(cells))
    count = call(plain.refine_reference, len(fronts), fronts, 0.05, 7, room, cells)
    assert (np.sort(cells[:count]) == refined_cells(fronts, 0.05, 7)).all()
    result = np.empty(2, np.uint64)
    call(plain.launch_reference, 3, 50, result)
    assert result.tolist() == [3, 3 * int(item_values(50).sum(dtype=np.uint64))]
