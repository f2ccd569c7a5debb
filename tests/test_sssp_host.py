"""Shortest paths in every mode on the battery of graphs: on the host always, on a GPU where there is one.

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
from proportion import FULL

from spgraph_bench.device import open_device
from spgraph_bench.device.base import Device
from spgraph_bench.errors import SkipError
from spgraph_bench.formats import get_format
from spgraph_bench.matrix import CSR
from spgraph_bench.problems import get_problem
from spgraph_bench.problems.lengths import check_lengths, exact_lengths, unreached
from spgraph_bench.runner.prepare import Prepared, prepare
from spgraph_bench.variants import Variant, get_variant, variants

SSSP = get_problem("sssp")
MODES = [v for v in variants("sssp") if v.kernel]


@functools.cache
def weighted(name: str, weights: str, dtype: str) -> CSR:
    """A graph of the battery with weights: none; wide apart; 0, 1 and 2, so that ties are many; or all 3."""
    a, _ = graphs()[name]
    draw = np.random.default_rng(len(name))
    values = {
        "none": None,
        "spread": draw.integers(1, 256, a.nnz).astype(float) if dtype == "int32" else draw.random(a.nnz),
        "zeros": draw.integers(0, 3, a.nnz).astype(float),
        "equal": np.full(a.nnz, 3.0),
    }[weights]
    return dataclasses.replace(a, values=values)


@functools.cache
def _right(name: str, weights: str, dtype: str, source: int) -> np.ndarray:
    return exact_lengths(weighted(name, weights, dtype), source, np.dtype(dtype))[0]


def _prepare(
    device: Device,
    mode: Variant,
    a: CSR,
    sources: tuple[int, ...],
    dtype: str,
    offsets: str,
    options: dict[str, Any] | None = None,
    **params: Any,
) -> Prepared:
    if mode.missing and (reason := mode.missing(device)):
        pytest.skip(reason)
    kind, form = np.dtype(dtype), get_format(mode.format)
    own = {k: v for k, v in params.items() if k in form.tunables}
    packed = form.pack(a, kind, np.dtype(offsets), **own)
    outputs = SSSP.output_arrays(matrix(a), kind)
    try:
        inputs = {"sources": np.array(sources, np.int32)}
        return prepare(device, mode, packed, inputs, outputs, params, options=options)
    except SkipError as reason:
        pytest.skip(str(reason))


def _run(device: Device, prepared: Prepared, case: int, poisoned: bool = True) -> np.ndarray:
    prepared.launch.select(case)
    if poisoned:
        prepared.launch.reset()
    prepared.launch.run()
    device.synchronize()
    return prepared.launch.output()


def _check(
    device: Device, mode: Variant, name: str, weights: str, dtype: str, offsets: str = "int32", **params: Any
) -> Prepared:
    a, sources = weighted(name, weights, dtype), graphs()[name][1]
    prepared = _prepare(device, mode, a, sources, dtype, offsets, **params)
    # The first once more at the end, on the outputs of another one, not poison: nothing may be left over.
    for turn, case in enumerate((*range(len(sources)), 0)):
        output = _run(device, prepared, case, turn < len(sources))
        result = check_lengths(output, _right(name, weights, dtype, sources[case]))
        assert result.ok, f"source {sources[case]}, {weights}: {result.message}"
    return prepared


@pytest.mark.parametrize("name", graphs())
@pytest.mark.parametrize("mode", MODES, ids=lambda v: v.name)
def test_battery(device: Device, mode: Variant, name: str) -> None:
    if mode.name != "auto" and "layers" in name:
        pytest.skip("made for one block only")
    kinds = [("spread", "float32"), ("zeros", "int32"), *[("none", "int32")] * (mode.name == "auto")]
    turn = list(graphs()).index(name) + MODES.index(mode)
    for weights, dtype in kinds if FULL else [kinds[turn % len(kinds)]]:
        _check(device, mode, name, weights, dtype)


@pytest.mark.parametrize("name", ["two-hubs-sharing-leaves", "skewed-directed", "isolated-source"])
@pytest.mark.parametrize("mode", MODES, ids=lambda v: v.name)
def test_int64_offsets_and_relabelling(device: Device, mode: Variant, name: str) -> None:
    for dtype in ("float32", "int32"):
        _check(device, mode, name, "spread", dtype, "int64", reorder="degree")
    _check(device, mode, name, "equal", "float32", reorder="degree")


@pytest.mark.parametrize("name", ["skewed", "star-of-chains"])
@pytest.mark.parametrize(
    "params",
    [
        {"small_vertices": 0, "small_waiting": 0},  # always the grid
        {"small_vertices": 0},  # near by the grid, far by one block
        {"small_waiting": 0},  # far by the grid
        {"small_vertices": 7, "small_edges": 30, "small_waiting": 20},  # to and fro
        {"small_vertices": 1024, "small_edges": 10**9, "small_waiting": 10**9},  # the block alone
        {"block": 32},
        {"block": 256},
    ],
    ids=lambda p: ",".join(f"{k}={v}" for k, v in p.items()),
)
@pytest.mark.parametrize("delta", [0.3, 1e30])
def test_every_way_through_auto(device: Device, delta: float, params: dict[str, Any], name: str) -> None:
    _check(device, get_variant("sssp", "auto"), name, "spread", "float32", delta=delta, **params)
    _check(device, get_variant("sssp", "auto"), name, "zeros", "int32", delta=delta, **params)


@pytest.mark.parametrize("params", [{"small_vertices": 33}, {"small_vertices": 7, "small_waiting": 20}], ids=str)
@pytest.mark.parametrize("name", ["layers-of-about-a-warp", "ternary-tree"])
def test_a_block_takes_over_and_hands_back(device: Device, params: dict[str, Any], name: str) -> None:
    _check(device, get_variant("sssp", "auto"), name, "spread", "float32", delta=0.5, **params)


@pytest.mark.parametrize("delta", [0.1, 1.0, 300.0])
@pytest.mark.parametrize("name", ["random-directed", "two-hubs-sharing-leaves"])
def test_near_far_by_any_delta(device: Device, name: str, delta: float) -> None:
    for dtype, weights in (("float32", "spread"), ("int32", "zeros"), ("float32", "equal")):
        _check(device, get_variant("sssp", "near-far"), name, weights, dtype, delta=delta)


@pytest.mark.parametrize(
    ("mode", "seed"), [("bellman-ford", 4), ("frontier", 3), ("near-far", 5), ("auto", 2), ("auto", 3)]
)
def test_any_schedule_gives_the_same_lengths(mode: str, seed: int) -> None:
    device = open_device("host", seed=seed)
    try:
        for name in ("random", "star-of-chains"):
            _check(device, get_variant("sssp", mode), name, "spread", "float32")
            _check(device, get_variant("sssp", mode), name, "zeros", "int32")
    finally:
        device.close()


def _graph(n: int, edges: list[tuple[int, int, float]]) -> CSR:
    row, col, weight = zip(*edges, strict=True)
    return csr(n, n, row, col, weight)


MOST = 2**31 - 1
EXTREMES = {
    # A sum beyond int32 must not come out small: the direct edge is the shortest way.
    "sums-beyond-int32": ("int32", _graph(3, [(0, 1, MOST - 1), (1, 2, MOST - 1), (0, 2, MOST - 1)])),
    "longest-int32": ("int32", _graph(4, [(0, 1, MOST - 3), (1, 2, 1), (2, 3, 1)])),
    "a-delta-that-floats-swallow": ("float32", _graph(4, [(0, 1, 3e38), (0, 2, 1e-30), (2, 3, 1e-38), (3, 1, 2e38)])),
    "denormals": ("float32", _graph(4, [(0, 1, 1e-45), (1, 2, 1e-45), (0, 2, 3e-45), (2, 3, 1e-40)])),
    "all-zero": ("float32", _graph(4, [(0, 1, 0), (1, 2, 0), (2, 0, 0)])),
    "zeros-and-one": ("int32", _graph(5, [(0, 1, 0), (1, 2, 0), (2, 0, 0), (2, 3, 1), (3, 4, 0)])),
    "a-loop-of-any-weight": ("int32", _graph(2, [(0, 0, 5), (0, 1, 7), (1, 1, 0)])),
}


@pytest.mark.parametrize("name", EXTREMES)
@pytest.mark.parametrize("mode", MODES, ids=lambda v: v.name)
def test_extreme_weights(device: Device, mode: Variant, name: str) -> None:
    dtype, a = EXTREMES[name]
    right = exact_lengths(a, 0, np.dtype(dtype))[0]
    for delta in (0.0, 1.0):
        prepared = _prepare(device, mode, a, (0,), dtype, "int32", delta=delta)
        result = check_lengths(_run(device, prepared, 0), right)
        assert result.ok, result.message


@pytest.mark.parametrize("name", ["skewed-directed", "star-of-chains", "grid-graph"])
@pytest.mark.parametrize("mode", MODES, ids=lambda v: v.name)
def test_a_cutoff_leaves_what_is_farther_and_saves_the_work(device: Device, mode: Variant, name: str) -> None:
    source = graphs()[name][1][0]
    for dtype, weights in (("float32", "spread"), ("int32", "spread"), ("int32", "zeros")):
        a, whole = weighted(name, weights, dtype), _right(name, weights, dtype, source)
        known = np.unique(whole[whole < unreached(whole.dtype)])
        for cutoff in (0.0, float(known[len(known) // 3])):  # one that is some vertex's length
            right = exact_lengths(a, source, np.dtype(dtype), cutoff)[0]
            assert (right == whole).sum() < len(whole) or cutoff == 0
            prepared = _prepare(device, mode, a, (source,), dtype, "int32", {"cutoff": cutoff})
            result = check_lengths(_run(device, prepared, 0), right)
            assert result.ok, f"{weights} {dtype} {cutoff}: {result.message}"
            if cutoff == 0 and weights == "spread":  # the source's own edges, and nothing after them
                assert prepared.launch.facts()["relaxed"] == a.row_lengths()[source]


def test_equal_weights_relax_every_edge_once(device: Device) -> None:
    """By frontier or with nothing far, as a breadth-first search would; and the facts say so."""
    a, sources = graphs()["grid-graph"]
    prepared = _check(device, get_variant("sssp", "auto"), "grid-graph", "equal", "int32")
    _run(device, prepared, 0)
    facts = prepared.launch.facts()
    assert facts["relaxed"] == a.nnz
    assert facts["splits"] == 0
    assert facts["delta"] is None
    levels = 1 + int(_right("grid-graph", "equal", "int32", sources[0]).max()) // 3
    assert facts["phases"] == levels
    # The level of the last vertices is relaxed too, and finds nothing.
    plain = _check(device, get_variant("sssp", "frontier"), "grid-graph", "equal", "int32")
    _run(device, plain, 0)
    assert plain.launch.facts() == {"phases": levels, "relaxed": a.nnz}


def test_bellman_ford_relaxes_all_that_is_reached_in_every_round(device: Device) -> None:
    """Only the source has out-edges, so the order of threads does not matter here: the second round lowers nothing."""
    a = _graph(300, [(7, v, 1.0 + v) for v in range(300) if v != 7])
    prepared = _prepare(device, get_variant("sssp", "bellman-ford"), a, (7, 8), "int32", "int32")
    for source, rounds, edges in ((0, 2, 2 * 299), (1, 1, 0)):
        _run(device, prepared, source)
        assert prepared.launch.facts() == {"phases": rounds, "relaxed": edges}
        assert [step["edges"] for step in prepared.launch.steps()] == [edges // rounds] * rounds


def test_bellman_ford_takes_a_round_an_edge_where_threads_come_in_the_wrong_order() -> None:
    """On the host device threads run from the first to the last, so a path towards lower numbers is the worst."""
    n = 40
    a = _graph(n, [(v, v - 1, 2.0) for v in range(1, n)])
    device = open_device("host")
    try:
        prepared = _prepare(device, get_variant("sssp", "bellman-ford"), a, (n - 1,), "float32", "int32")
        assert (_run(device, prepared, 0) == 2.0 * np.arange(n)[::-1]).all()
        assert prepared.launch.facts() == {"phases": n, "relaxed": n * (n - 1) // 2 + n - 1}
    finally:
        device.close()


def test_a_smaller_delta_relaxes_less() -> None:
    device = open_device("host")
    try:
        relaxed = []
        for delta in (2.0, 30.0, 1e9):
            prepared = _check(device, get_variant("sssp", "auto"), "complete", "spread", "int32", delta=delta)
            _run(device, prepared, 0)
            relaxed.append(prepared.launch.facts()["relaxed"])
        assert relaxed[0] < relaxed[1] < relaxed[2]
    finally:
        device.close()


def test_a_split_takes_one_atomic_a_block_for_what_it_keeps() -> None:
    """Of a star's leaves most are far at first; to keep or to drop one must not cost an atomic each."""
    n = 2001
    a = _graph(n, [(0, v, float(v)) for v in range(1, n)])
    device = open_device("host")
    try:
        prepared = _prepare(device, get_variant("sssp", "near-far"), a, (0,), "int32", "int32", delta=1000.0)
        prepared.launch.select(0)
        prepared.launch.reset()
        device.reset_counters()
        prepared.launch.run()
        device.synchronize()
        counted = device.counters()
        assert counted is not None
        # Leaves below 1,000 are near immediately, but have no edges. Each leaf: lowered, then stamped or marked;
        # each far one: its bit cleared. 1,001 far ones come in gathers of 32 by each of 4 or more warps.
        near, far, splits = 999, 1001, prepared.launch.facts()["splits"]
        least = 2 * near + 3 * far
        assert least < counted["global_atomics"] < least + 3 * far / 32 + 40 * splits
    finally:
        device.close()


@pytest.mark.parametrize("mode", MODES, ids=lambda v: v.name)
def test_steps_tell_every_phase(device: Device, mode: Variant) -> None:
    for name, weights, delta in (("grid-graph", "equal", 0.0), ("random-directed", "spread", 0.1)):
        prepared = _check(device, mode, name, weights, "float32", delta=delta)
        _run(device, prepared, 0)
        facts = prepared.launch.facts()
        prepared.launch.reset()
        steps = prepared.launch.steps()
        assert all((s["ms"] is None) == (device.kind == "host") for s in steps)
        again = prepared.launch.facts()  # on a GPU a run may do a little more or less than the one before
        assert len(steps) == again["phases"]
        assert sum(s["edges"] or 0 for s in steps) == again["relaxed"]
        splits = [s for s in steps if "split" in s["how"]]
        assert len(splits) == again.get("splits", 0)
        assert all(s["waiting"] > 0 and s["edges"] is None for s in splits)
        assert mode.name not in ("bellman-ford", "frontier") or all(s["waiting"] is None for s in steps)
        assert device.kind != "host" or again == facts
