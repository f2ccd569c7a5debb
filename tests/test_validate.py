"""The validators against corrupted answers of each kind: numpy and kernels find the same."""

from __future__ import annotations

import dataclasses
import gc
import json
import os
import subprocess
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from battery import csr
from graph_battery import graphs

from spgraph_bench.device import open_device
from spgraph_bench.device.base import Device
from spgraph_bench.errors import DeviceError
from spgraph_bench.matrix import CSR
from spgraph_bench.problems import get_problem
from spgraph_bench.problems.bc import plain_dependencies
from spgraph_bench.problems.cc import plain_components
from spgraph_bench.problems.lengths import exact_lengths
from spgraph_bench.problems.pagerank import power_iteration
from spgraph_bench.problems.sources import counted_edges, plain_levels, proper_degrees
from spgraph_bench.validate import kernels, make_validator
from spgraph_bench.validate.base import Graph, Validator
from spgraph_bench.validate.cc import count_components
from spgraph_bench.validate.search import reached_from

FLOAT32, FLOAT64, INT32 = np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.int32)


@pytest.fixture(scope="module", params=["numpy", "kernels", pytest.param("cuda", marks=pytest.mark.gpu)])
def form(request: pytest.FixtureRequest) -> Iterator[Device | None]:
    """Where rules are looked at: numpy (None), the kernels emulated, the kernels on a GPU."""
    if request.param == "numpy":
        yield None
        return
    try:
        device = open_device("host" if request.param == "kernels" else "cuda")
    except DeviceError as cause:
        if request.param == "kernels":
            raise
        pytest.skip(str(cause))
    yield device
    device.close()


def make(name: str, a: CSR, form: Device | None, dtype: Any, inputs: Any = None, **options: Any) -> Validator:
    result = make_validator(get_problem(name, options), a, form, dtype, inputs or {}, Graph(a, form))  # type: ignore[arg-type]
    assert result is not None
    return result


def small(form: Device | None) -> list[tuple[str, CSR, tuple[int, ...]]]:
    """The battery; without its larger graphs where kernels are emulated."""
    most = 3000 if form is not None and form.kind == "host" else 10**9
    return [(name, a, starts) for name, (a, starts) in graphs().items() if a.rows < most]


def tree(a: CSR, level: np.ndarray, source: int) -> np.ndarray:
    """A right one: the last neighbour one level above."""
    row = np.repeat(np.arange(a.rows), a.row_lengths())
    parent = np.full(a.rows, -1, np.int32)
    fits = (level[row] >= 0) & (level[a.col_idx] == level[row] + 1)
    parent[a.col_idx[fits]] = row[fits]
    parent[source] = source
    return parent


# ---- bfs -------------------------------------------------------------------------------------------------


def test_right_levels_and_parents_pass_on_every_graph(form: Device | None) -> None:
    for name, a, starts in small(form):
        validator = make("bfs", a, form, INT32)
        for source in starts:
            level = plain_levels(a, source)
            both = np.stack((level, tree(a, level, source)))
            for output in (level, both):
                checked = validator.check(output, source)
                assert checked.result.ok, (name, source, checked.result.message)
            assert reached_from(validator.graph, source) == int((level >= 0).sum())


GRID = graphs()["grid-graph"][0]
APART = graphs()["disconnected"][0]
ONE_WAY = graphs()["in-edges-matter"][0]


@pytest.mark.parametrize(
    ("graph", "source", "changes", "message"),
    [
        ("grid-graph", 0, {0: 1}, "the source 0 is at level 1, not at level 0"),
        ("grid-graph", 0, {0: -1}, "the source 0 is unreached"),
        ("grid-graph", 0, {40: -(2**31)}, "vertex 40 is at -2,147,483,648, which is not a level"),
        ("grid-graph", 0, {40: -2139062144}, "which is not a level"),
        ("grid-graph", 0, {40: 713}, "vertex 40 is at 713, which is not a level"),
        ("grid-graph", 0, {40: 2**31 - 1}, "which is not a level"),
        ("grid-graph", 0, {350: 0}, "vertex 350 is at level 0 and not the source"),
        ("grid-graph", 0, {712: -1}, "vertex 712 is unreached, yet an edge from a reached vertex"),
        ("grid-graph", 0, {712: 53}, "vertex 712 is at level 53, yet an edge leads to it from above level 52"),
        ("grid-graph", 0, {712: 51}, "vertex 712 is at level 51, yet no edge leads to it from level 50"),
        ("disconnected", 0, {350: 3}, "yet no edge leads to it from level 2"),
        # The whole other component, at levels that agree with each other.
        ("disconnected", 0, {v: v - 198 for v in range(200, 300)}, "vertex 200 is at level 2, yet no edge"),
        ("disconnected", 0, dict.fromkeys(range(50, 100), -1), "vertex 50 is unreached, yet an edge"),
        # Edges are followed forwards only.
        ("in-edges-matter", 0, {101: 2}, "vertex 101 is at level 2, yet no edge"),
        ("in-edges-matter", 0, {201: 3}, "vertex 201 is at level 3, yet an edge leads to it from"),
    ],
)
def test_a_wrong_level_is_found(
    form: Device | None, graph: str, source: int, changes: dict[int, int], message: str
) -> None:
    a, _ = graphs()[graph]
    level = plain_levels(a, source)
    for vertex, value in changes.items():
        level[vertex] = value
    result = make("bfs", a, form, INT32).check(level, 0).result
    assert not result.ok
    assert message in result.message


def test_levels_off_by_one_are_found_wherever_they_are(form: Device | None) -> None:
    a, _ = graphs()["skewed-directed"]
    right = plain_levels(a, 0)
    validator = make("bfs", a, form, INT32)
    for vertex in range(0, a.rows, 7):
        for step in (-1, 1):
            level = right.copy()
            level[vertex] += step
            assert not validator.check(level, 0).result.ok, (vertex, step)


@pytest.mark.parametrize(
    ("vertex", "parent", "message"),
    [
        (0, 1, "the source 0 has parent 1, not itself"),
        (40, -1, "vertex 40 is at level 10 and has parent -1"),
        (40, 713, "vertex 40 is at level 10 and has parent 713"),
        (40, 40, "vertex 40 is at level 10 and has parent 40 at level 10"),
        (40, 41, "vertex 40 is at level 10 and has parent 41 at level 11"),
        (40, 71, "vertex 40 is at level 10 and has parent 71 at level 11"),
        (40, 279, "vertex 40 has parent 279, which has no edge to it"),
    ],
)
def test_a_wrong_parent_is_found(form: Device | None, vertex: int, parent: int, message: str) -> None:
    level = plain_levels(GRID, 0)
    both = np.stack((level, tree(GRID, level, 0)))
    both[1, vertex] = parent
    result = make("bfs", GRID, form, INT32).check(both, 0).result
    assert not result.ok
    assert message in result.message, result.message


def test_a_parent_of_an_unreached_vertex_is_found(form: Device | None) -> None:
    level = plain_levels(APART, 0)
    both = np.stack((level, tree(APART, level, 0)))
    both[1, 250] = 249
    result = make("bfs", APART, form, INT32).check(both, 0).result
    assert "vertex 250 is unreached and has parent 249" in result.message


def test_a_shape_or_type_of_another_kind_is_found(form: Device | None) -> None:
    level = plain_levels(GRID, 0)
    validator = make("bfs", GRID, form, INT32)
    for output in (level.astype(np.int64), level[:-1], np.stack((level, level, level))):
        assert "not int32 [713]" in validator.check(output, 0).result.message


def test_the_plain_search_counts(form: Device | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside the rules: were they to pass, the count still tells."""
    from spgraph_bench.validate import bfs
    from spgraph_bench.validate.base import Faults

    validator = make("bfs", GRID, form, INT32)
    monkeypatch.setattr(bfs.BFSValidator, "faults", lambda *_: Faults.none(10))
    level = plain_levels(GRID, 0)
    level[700] = -1
    printed = validator.check(level, 0).result.message
    assert printed == "712 vertices are reached, a plain search reaches 713"


# ---- sssp ------------------------------------------------------------------------------------------------


def weighted(name: str, seed: int = 3) -> CSR:
    a, _ = graphs()[name]
    draw = np.random.default_rng(seed)
    return dataclasses.replace(a, values=draw.integers(0, 9, a.nnz) * 0.1)


def test_right_lengths_pass_on_every_graph(form: Device | None) -> None:
    for name, a, starts in small(form):
        whole = dataclasses.replace(a, values=np.random.default_rng(2).integers(0, 4, a.nnz).astype(float))
        for graph, kind in ((weighted(name), FLOAT32), (whole, INT32), (a, FLOAT32)):
            validator = make("sssp", graph, form, kind)
            for source in starts:
                exact, real, _ = exact_lengths(graph, source, kind)
                for output in (exact, real):
                    checked = validator.check(output, source)
                    assert checked.result.ok, (name, source, kind, checked.result.message)


@pytest.mark.parametrize(
    ("vertex", "value", "message"),
    [
        (0, 1e-45, "the source 0 is at length 1.4"),
        (0, np.inf, "the source 0 is unreached"),
        (40, np.nan, "vertex 40 is at length nan, which is not a length"),
        (40, -1.0, "vertex 40 is at length -1, which is not a length"),
        (40, np.inf, "vertex 40 is unreached, yet an edge from a reached vertex leads to it"),
        (700, "up", "yet an edge leads to it by a shorter way"),
        (700, "down", "vertex 700 is at length 8.29999828, yet no edges as long as they say lead to it"),
        (350, 0.0, "vertex"),
    ],
)
def test_one_bit_of_one_length_is_found(form: Device | None, vertex: int, value: Any, message: str) -> None:
    a = weighted("grid-graph")
    length = exact_lengths(a, 0, FLOAT32)[0]
    if isinstance(value, str):
        value = np.nextafter(length[vertex], np.float32(np.inf if value == "up" else 0))
    length[vertex] = value
    result = make("sssp", a, form, FLOAT32).check(length, 0).result
    assert not result.ok
    assert message in result.message, result.message


def test_zero_weights_cannot_support_each_other(form: Device | None) -> None:
    """0 -> 1 of 5; 1 <-> 2 and 3 <-> 4 of 0; 1 -> 3 of 1, and 3 and 4 claim 4 of each other."""
    a = csr(6, 6, [0, 1, 2, 3, 4, 1], [1, 2, 1, 4, 3, 3], [5, 0, 0, 0, 0, 1])
    for kind in (INT32, FLOAT32, FLOAT64):
        right = exact_lengths(a, 0, FLOAT32 if kind == FLOAT64 else kind)[0].astype(kind)
        validator = make("sssp", a, form, FLOAT32 if kind == FLOAT64 else kind)
        assert validator.check(right, 0).result.ok
        for wrong, message in (
            ({3: 4, 4: 4}, "vertex 3"),
            ({1: 4, 2: 4, 3: 5, 4: 5}, "vertex 1"),
            ({5: 9}, "vertex 5"),
        ):
            length = right.copy()
            for vertex, value in wrong.items():
                length[vertex] = value
            result = validator.check(length, 0).result
            assert not result.ok
            assert f"{message} is at length" in result.message, result.message


def test_lost_roundings_cannot_support_each_other(form: Device | None) -> None:
    """At 2^24 a weight of 0.5 is swallowed: 2 <-> 3 keep each other at any length, however short."""
    a = csr(4, 4, [0, 1, 2, 3], [1, 2, 3, 2], [2.0**25, 0.5, 0.5, 0.5])
    right = exact_lengths(a, 0, FLOAT32)[0]
    validator = make("sssp", a, form, FLOAT32)
    assert validator.check(right, 0).result.ok
    length = right.copy()
    length[2:] = 2.0**24 + 2
    assert "no edges as long as they say" in validator.check(length, 0).result.message


def test_a_long_chain_of_zero_weights_is_followed(form: Device | None) -> None:
    a, _ = graphs()["chain"]
    a = dataclasses.replace(a, values=np.zeros(a.nnz))
    validator = make("sssp", a, form, FLOAT32)
    assert validator.check(np.zeros(a.rows, np.float32), 0).result.ok


@pytest.mark.parametrize("kind", [INT32, FLOAT32])
def test_a_sum_that_was_dropped_is_found(form: Device | None, kind: np.dtype[Any]) -> None:
    """Vertex 2 is not unreached, it is too far."""
    far = float(2**31 - 2) if kind == INT32 else float(np.finfo(np.float32).max)
    a = csr(3, 3, [0, 1], [1, 2], [far, far])
    dropped = np.array([0, far, 2**31 - 1 if kind == INT32 else np.inf]).astype(kind)
    printed = make("sssp", a, form, kind).check(dropped, 0).result.message
    assert f"there are paths longer than the largest {kind}" in printed


def test_lengths_of_another_kind_are_found(form: Device | None) -> None:
    a = weighted("grid-graph")
    validator = make("sssp", a, form, FLOAT32)
    length = exact_lengths(a, 0, FLOAT32)[0]
    for output in (length[:-1], length.astype(np.int32), length.astype(np.float16)):
        assert "not float32 [713]" in validator.check(output, 0).result.message


# ---- cc --------------------------------------------------------------------------------------------------


def test_right_labels_pass_on_every_graph(form: Device | None) -> None:
    for name, a, _ in small(form):
        validator, label = make("cc", a, form, INT32, {}), plain_components(a)
        checked = validator.check(label, 0)
        assert checked.result.ok, (name, checked.result.message)
        assert count_components(validator.graph) == len(np.unique(label))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({40: -1}, "vertex 40 has the label of vertex -1, which is not a vertex"),
        ({40: 400}, "vertex 40 has the label of vertex 400, which is not a vertex"),
        ({150: 399}, "vertex 150 has the label of vertex 399, not the least"),
        ({40: 1}, "vertex 40 has the label of vertex 1, which itself has that of vertex 0"),
        ({150: 0}, "there are 201 labels, and 202 components"),  # one more vertex joined
        (dict.fromkeys(range(200, 300), 0), "there are 201 labels"),  # two components merged
        (dict.fromkeys(range(50, 100), 50), "and an edge joins it with one of another label"),  # one split
        (dict.fromkeys(range(200, 300), 201), "vertex 200 has the label of vertex 201, not the least"),
    ],
)
def test_wrong_labels_are_found(form: Device | None, changes: dict[int, int], message: str) -> None:
    label = plain_components(APART)
    for vertex, value in changes.items():
        label[vertex] = value
    result = make("cc", APART, form, INT32, {}).check(label, 0).result
    assert not result.ok
    assert message in result.message, result.message


# ---- pagerank --------------------------------------------------------------------------------------------


def ranks(a: CSR, **options: Any) -> np.ndarray:
    return power_iteration(a, **options)[0]


@pytest.mark.parametrize("dangling", ["none", "uniform", "self"])
def test_right_ranks_pass_on_every_graph(form: Device | None, dangling: str) -> None:
    for name, a, _ in small(form):
        for options in ({}, {"max_iterations": 3}, {"tolerance": 0.0, "damping": 0.5}):
            chosen: dict[str, Any] = {"dangling": dangling, **options}
            rank = ranks(a, **chosen)
            for kind in (FLOAT32, FLOAT64):
                validator = make("pagerank", a, form, kind, {}, **chosen)
                checked = validator.check(rank.astype(kind), 0)
                assert checked.result.ok, (name, chosen, kind, checked.result.message)


def test_wrong_ranks_are_found(form: Device | None) -> None:
    a, _ = graphs()["skewed-directed"]
    right = ranks(a)
    validator = make("pagerank", a, form, FLOAT32, {})
    moved, scaled, swapped = right.copy(), right * 1.001, right.copy()
    moved[[3, 0]] += [2e-5, -2e-5]
    swapped[[0, 599]] = swapped[[599, 0]]
    for output, message in (
        (moved, "one more float64 step changes the ranks by"),
        (swapped, "one more float64 step"),
        (scaled, "the ranks add up to 1.001"),
        (np.where(right == right[7], np.nan, right), "has rank nan"),
        (np.where(right == right[7], np.inf, right), "has rank inf"),
        (-right, "vertex 0 has rank -"),
        (0 * right, "the ranks add up to 0"),
        (0 * right + 1 / 600, "one more float64 step"),
    ):
        result = validator.check(output.astype(np.float32), 0).result
        assert not result.ok, message
        assert message in result.message, result.message


def test_another_policy_for_dangling_vertices_is_found(form: Device | None) -> None:
    a, _ = graphs()["skewed-directed"]
    for policy in ("none", "uniform", "self"):
        validator = make("pagerank", a, form, FLOAT64, {}, dangling=policy)
        for other in ("none", "uniform", "self"):
            assert validator.check(ranks(a, dangling=other), 0).result.ok == (policy == other)


def test_jumps_to_some_vertices(form: Device | None) -> None:
    a, _ = graphs()["random-directed"]
    jump = np.zeros(a.rows)
    jump[[5, 9]] = 0.25, 0.75
    validator = make("pagerank", a, form, FLOAT64, {"teleport": jump})
    assert validator.check(power_iteration(a, jump)[0], 0).result.ok
    assert not validator.check(ranks(a), 0).result.ok


# ---- bc --------------------------------------------------------------------------------------------------


def test_right_dependencies_pass_on_every_graph(form: Device | None) -> None:
    for name, a, starts in small(form):
        validator = make("bc", a, form, FLOAT64)
        for source in starts:
            right = plain_dependencies(a, source)
            checked = validator.check(right.dependency, source)
            assert checked.result.ok, (name, source, checked.result.message)
            assert checked.facts == {
                "levels": int(right.level.max()) + 1,
                "reached": int((right.level >= 0).sum()),
                "edges": counted_edges(a, proper_degrees(a), right.level >= 0),
            }


def test_wrong_dependencies_are_found(form: Device | None) -> None:
    a, starts = graphs()["skewed"]
    right = plain_dependencies(a, starts[0]).dependency
    validator = make("bc", a, form, FLOAT64)
    inner = np.flatnonzero(right)
    for v in (int(inner[0]), int(inner[-1]), int(inner[np.argmin(right[inner])])):
        for value in (right[v] * (1 + 1e-11), right[v] * (1 - 1e-11), 0.0, -1.0, np.nan, np.inf):
            broken = right.copy()
            broken[v] = value
            assert not validator.check(broken, 0).result.ok, (v, value)
    broken = right.copy()
    broken[starts[0]] = 1e-300
    assert "yet it is the source" in validator.check(broken, 0).result.message
    assert not validator.check(2 * right, 0).result.ok


def test_the_sum_of_dependencies_tells_too(form: Device | None, monkeypatch: pytest.MonkeyPatch) -> None:
    from spgraph_bench.validate import bc

    monkeypatch.setattr(bc, "verdict", lambda *_: bc.CheckResult(True))
    right = plain_dependencies(GRID, 0).dependency
    validator = make("bc", GRID, form, FLOAT64)
    assert validator.check(right, 0).result.ok
    right[350] *= 1 + 1e-6
    assert "the dependencies add up to" in validator.check(right, 0).result.message


def test_more_paths_than_a_double_holds(form: Device | None) -> None:
    """Layers of 16, each joined wholly to the next: 16^400 paths."""
    layers, width = 400, 16
    position = np.arange(layers * width).reshape(layers, width)
    u, v = np.repeat(position[:-1], width, axis=1).ravel(), np.tile(position[1:], (1, width)).ravel()
    a = csr(layers * width, layers * width, u, v, None)
    right = plain_dependencies(a, 0).dependency
    validator = make("bc", a, form, FLOAT64)
    assert validator.check(right, 0).result.ok
    right[width * 200] *= 1 + 1e-9
    assert not validator.check(right, 0).result.ok


# ---- both forms ------------------------------------------------------------------------------------------


def test_both_forms_count_the_same_errors() -> None:
    """Answers of noise: every rule is broken somewhere."""
    device = open_device("host")
    draw = np.random.default_rng(11)
    try:
        for name in ("skewed-directed", "grid-graph", "disconnected", "loops-and-repeats"):
            a = weighted(name)
            n = a.rows
            level = draw.integers(-3, 9, n).astype(np.int32)
            level[draw.integers(0, n, 3)] = n
            parent = draw.integers(-2, n + 1, n).astype(np.int32)
            label = np.minimum(draw.integers(-1, n + 1, n), np.arange(n) + 2).astype(np.int32)
            length = draw.choice([0, 0.1, 0.2, 0.3, 0.4, np.inf, np.nan, -1], n).astype(np.float32)
            pairs = [
                [make("bfs", a, form, INT32).faults(0, level, parent) for form in (None, device)],  # type: ignore[attr-defined]
                [make("cc", a, form, INT32, {}).faults(label)[0] for form in (None, device)],  # type: ignore[attr-defined]
                [make("sssp", a, form, FLOAT32).faults(0, length) for form in (None, device)],  # type: ignore[attr-defined]
            ]
            dependency = np.where(draw.random(n) < 0.1, -1.0, draw.random(n))
            pairs.append(
                [make("bc", a, form, FLOAT64).measured(0, dependency).faults for form in (None, device)]  # type: ignore[attr-defined]
            )
            for plain, compiled in pairs:
                assert plain.counts.tolist() == compiled.counts.tolist(), name
                assert plain.least.tolist() == compiled.least.tolist(), name
                assert plain.counts.sum() > n // 4
    finally:
        device.close()


def test_weighted_steps_agree() -> None:
    from spgraph_bench.validate.pagerank import Walk, one_step, one_step_on_device

    device = open_device("host")
    try:
        a = weighted("skewed-directed")
        rank = np.random.default_rng(1).random(a.rows)
        for dangling in ("none", "uniform", "self", "jump"):
            jump = rank / rank.sum()
            walk = Walk(0.85, dangling, jump, a.values)
            graph = Graph(a, device)
            plain, compiled = one_step(a, walk, rank), one_step_on_device(graph, walk, rank)
            assert np.allclose(plain.after, graph.download(compiled.after), rtol=1e-12)
            for name in ("change", "total", "terms"):
                assert getattr(plain, name) == pytest.approx(getattr(compiled, name), rel=1e-12)
    finally:
        device.close()


def test_every_graph_problem_has_a_validator_and_its_kernels() -> None:
    from spgraph_bench.paths import cuda_dir
    from spgraph_bench.problems import problems

    for problem in map(get_problem, problems()):
        wanted = kernels(problem.name, problem.dtypes[0])
        assert bool(wanted) == problem.is_graph, problem.name
        assert all((cuda_dir() / source).is_file() for source, _ in wanted)


def test_validators_share_no_code_with_kernels_under_test() -> None:
    import re

    from spgraph_bench.paths import cuda_dir

    for path in sorted((cuda_dir() / "check").iterdir()):
        included = set(re.findall(r'#include "(.*)"', path.read_text()))
        assert included <= {"faults.cuh", "../common/spg.cuh"}, path


# ---- the runner ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("problem", ["bfs", "sssp", "bc"])
@pytest.mark.parametrize("device", ["host", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_a_variant_that_is_right_from_one_source_only_is_wrong(problem: str, device: str) -> None:
    """Alone, without a mode to compare it with, and with no oracle for the later sources."""
    plugin = str(Path(__file__).parent / "plugins" / "wrong_later.py")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "spgraph_bench",
            "bench",
            problem,
            "rmat:scale=7,symmetrize=1",
            "--device",
            device,
            "--no-save",
            "--json",
            "--sources",
            "4",
            "--check-seconds",
            "0",
            "--variant",
            "wrong-later",
        ],
        capture_output=True,
        text=True,
        env={**os.environ, "SPGRAPH_PLUGINS": plugin},
    )
    assert done.returncode == 1, done.stderr
    (record,) = map(json.loads, done.stdout.splitlines())
    assert record["status"] == "wrong"
    assert record["reason"].startswith("case 2 of 4")
    assert record["check"]["by_oracle"] == 0


@pytest.mark.parametrize("problem", ["bfs", "sssp", "bc", "cc", "pagerank"])
def test_graphs_too_large_for_the_oracle_are_validated(problem: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from spgraph_bench import recipes
    from spgraph_bench.problems import sources
    from spgraph_bench.report import render
    from spgraph_bench.results.record import Record
    from spgraph_bench.runner.run import run
    from spgraph_bench.runner.session import Session
    from spgraph_bench.runner.settings import Settings
    from spgraph_bench.variants import variants

    monkeypatch.setattr(sources, "ORACLE_EDGES", 10)
    modes = [v for v in variants(problem) if v.where == "gpu" and v.library is None][:2]
    records: list[Record] = []
    with Session("host", in_process=True) as session:
        settings = Settings(
            dtypes=get_problem(problem).dtypes[:1], options={"sources": 3} if problem in ("bfs", "sssp", "bc") else {}
        )
        run(session, recipes.make("rmat:scale=6,symmetrize=1"), problem, modes, settings, records.append)
    for record in records:
        assert (record.status, record.reason) == ("ok", "")
        assert record.check["by_validator"] == max(1, len(record.cases))
        assert not record.check.get("by_oracle")
        assert all(case["edges"] > 0 and case["levels"] > 0 for case in record.cases if problem != "sssp")
    if problem == "bfs":
        assert "checked from 3 sources: 3 validated" in " ".join(render(records, width=200).split())


def test_a_graph_is_not_kept_when_it_was_validated() -> None:
    """Its arrays may be mapped from memory that a file in /dev/shm takes."""
    a = weighted("grid-graph")
    graph = Graph(dataclasses.replace(a, col_idx=a.col_idx.copy()))
    assert reached_from(graph, 0) == a.rows
    there = weakref.ref(graph.csr.col_idx)
    del graph
    gc.collect()
    assert there() is None
