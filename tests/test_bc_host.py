"""Every way to betweenness against the battery of graphs: on the host always, on a GPU where there is one.

The Makefile runs this file a second time under AddressSanitizer.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np
import pytest
from battery import csr, matrix
from graph_battery import graphs

from spgraph_bench.device import open_device
from spgraph_bench.device.base import Device
from spgraph_bench.errors import SkipError
from spgraph_bench.formats import get_format
from spgraph_bench.matrix import CSR
from spgraph_bench.problems import get_problem
from spgraph_bench.problems.bc import Dependencies, check_dependencies, plain_dependencies
from spgraph_bench.problems.sources import pattern_is_symmetric
from spgraph_bench.runner.prepare import Prepared, prepare
from spgraph_bench.variants import Variant, get_variant, variants

BC = get_problem("bc")
MODES = [v for v in variants("bc") if v.kernel]
FLOAT64 = np.dtype(np.float64)


def _diamonds(count: int, ways: int, tail: int) -> CSR:
    """So many diamonds in a row, each `ways` vertices wide, and a chain beside them from the same source."""
    u, v, last = [], [], 0
    n = 1
    for _ in range(count):
        between = np.arange(n, n + ways)
        u += [last] * ways + between.tolist()
        v += between.tolist() + [n + ways] * ways
        last, n = n + ways, n + ways + 1
    chain = [0, *range(n, n + tail)]
    u, v, n = u + chain[:-1], v + chain[1:], n + tail
    return csr(n, n, np.array(u + v), np.array(v + u), None)


@functools.cache
def _own() -> dict[str, tuple[CSR, tuple[int, ...]]]:
    """Graphs with more shortest paths than any type can count."""
    return {
        # 9^340 paths: counts are scaled twice, in levels that also hold a count of 1.
        "diamonds": (_diamonds(340, 9, 40), (0,)),
        "wide-diamonds": (_diamonds(90, 30, 100), (0,)),
        # A chain beside them whose count of 1 cannot be kept at the scale of 9^480.
        "too-far-apart": (_diamonds(480, 9, 960), (0,)),
    }


GRAPHS = graphs() | _own()


@functools.cache
def _right(name: str, source: int) -> Dependencies:
    return plain_dependencies(GRAPHS[name][0], source)


def _prepare(device: Device, mode: Variant, name: str, offsets: str = "int32", **params: Any) -> Prepared:
    if mode.missing and (reason := mode.missing(device)):
        pytest.skip(reason)
    a, sources = GRAPHS[name]
    whole = matrix(a)
    a = dataclasses.replace(a, symmetric=pattern_is_symmetric(whole))
    form = get_format(mode.format)
    own = {k: v for k, v in params.items() if k in form.tunables}
    packed = form.pack(a, FLOAT64, np.dtype(offsets), **own)
    inputs = {"sources": np.array(sources, np.int32)}
    try:
        return prepare(device, mode, packed, inputs, BC.output_arrays(whole, FLOAT64), params)
    except SkipError as reason:
        pytest.skip(str(reason))


def _check(device: Device, mode: Variant, name: str, offsets: str = "int32", **params: Any) -> None:
    _, sources = GRAPHS[name]
    prepared = _prepare(device, mode, name, offsets, **params)
    # The first once more at the end, on the outputs of another one, not poison: nothing may be left over.
    for turn, case in enumerate((*range(len(sources)), 0)):
        prepared.launch.select(case)
        if turn < len(sources):
            prepared.launch.reset()
        prepared.launch.run()
        device.synchronize()
        right = _right(name, sources[case])
        result = check_dependencies(prepared.launch.output(), right.dependency, right.tolerance)
        assert result.ok, f"source {sources[case]}: {result.message}"


@pytest.mark.parametrize("name", [name for name in GRAPHS if name != "too-far-apart"])
@pytest.mark.parametrize("mode", MODES, ids=lambda v: v.name)
def test_battery(device: Device, mode: Variant, name: str) -> None:
    if device.kind == "host" and mode.name == "edge" and name in _own():
        pytest.skip("hundreds of levels of all edges take long here")
    _check(device, mode, name)


@pytest.mark.parametrize("name", ["hub-of-5000", "skewed-directed", "in-edges-matter", "isolated-source"])
@pytest.mark.parametrize("mode", MODES, ids=lambda v: v.name)
def test_int64_offsets_and_relabelling(device: Device, mode: Variant, name: str) -> None:
    _check(device, mode, name, "int64", reorder="degree")


@pytest.mark.parametrize("name", ["skewed", "skewed-directed", "grid-graph", "complete-bipartite", "wide-diamonds"])
@pytest.mark.parametrize(
    "params",
    [
        {"small_vertices": 0, "alpha": 0.0, "beta": 1e9},  # the grid, from each level's own side
        {"small_vertices": 0, "alpha": 1e9, "beta": 0.0},  # the grid, always from the other side
        {"small_vertices": 0},
        {"small_vertices": 20, "small_edges": 90, "alpha": 3.0, "beta": 1.0},  # to and fro
        {"small_edges": 10**9},  # the block alone where degrees are low
        {"block": 32},
        {"block": 256},
    ],
    ids=lambda p: ",".join(f"{k}={v:g}" for k, v in p.items()),
)
def test_every_way_through_auto(device: Device, params: dict[str, Any], name: str) -> None:
    _check(device, get_variant("bc", "auto"), name, **params)


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("mode", [m for m in MODES if m.name != "edge"], ids=lambda v: v.name)
def test_any_schedule_gives_the_same_dependencies(mode: Variant, seed: int) -> None:
    device = open_device("host", seed=seed)
    try:
        for name in ("skewed", "loops-and-repeats"):
            _check(device, mode, name)
        if mode.name == "auto" and seed == 1:
            _check(device, mode, "layers-of-about-a-warp", block=64, small_vertices=60)
    finally:
        device.close()


@pytest.mark.parametrize("mode", MODES, ids=lambda v: v.name)
def test_steps_tell_every_level_forward_and_back(device: Device, mode: Variant) -> None:
    a, sources = GRAPHS["star-of-chains"]
    prepared = _prepare(device, mode, "star-of-chains")
    prepared.launch.reset()
    assert prepared.launch.steps is not None
    steps = prepared.launch.steps()
    level = _right("star-of-chains", sources[0]).level
    depth = int(level.max()) + 1
    # Only cooperative modes look for vertices without out-edges beyond the last level.
    last = depth - 1 if mode.name in ("persistent", "auto") else depth - 2
    assert [step["level"] for step in steps] == [*range(depth), *range(last, 0, -1)]
    assert all((step["ms"] is None) == (device.kind == "host") for step in steps)
    if mode.name == "edge":
        return
    assert [step["vertices"] for step in steps] == [int(np.sum(level == step["level"])) for step in steps]
    if mode.name in ("persistent", "auto"):
        degree = a.row_lengths()
        assert all(step["edges"] == degree[level == step["level"]].sum() for step in steps)


@pytest.mark.parametrize("mode", ["push", "auto"])
def test_counts_too_far_apart_give_no_number(device: Device, mode: str) -> None:
    """What float64 cannot hold must not pass for an answer."""
    prepared = _prepare(device, get_variant("bc", mode), "too-far-apart")
    prepared.launch.reset()
    prepared.launch.run()
    device.synchronize()
    output = prepared.launch.output()
    assert not np.isfinite(output).all()
    right = _right("too-far-apart", 0)
    assert np.isfinite(right.dependency).all()
    assert not check_dependencies(output, right.dependency, right.tolerance).ok


def test_levels_of_one_block_cost_no_grid_barrier() -> None:
    device = open_device("host")
    try:
        counted = {}
        for mode in ("persistent", "auto"):
            prepared = _prepare(device, get_variant("bc", mode), "chain", block=64)
            prepared.launch.reset()
            device.reset_counters()
            prepared.launch.run()
            device.synchronize()
            events = device.counters()
            assert events is not None
            counted[mode] = events["global_atomics"]
        blocks, levels = 4, 300
        # A vertex found: a claim and an addition; forward and back: a barrier for each level, or one in all.
        assert counted["auto"] == blocks * 3 + 2 * (levels - 1)
        # And a place in the queue, and back an addition for all but the source and the last.
        assert counted["persistent"] == blocks * (2 * levels) + 3 * (levels - 1) + levels - 2
    finally:
        device.close()
