"""Every PageRank kernel against the battery of graphs: on the host always, on a GPU where there is one.

The Makefile runs this file a second time under AddressSanitizer.
"""

from __future__ import annotations

import dataclasses
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
from spgraph_bench.problems.pagerank import PageRank, power_iteration
from spgraph_bench.problems.sources import pattern_is_symmetric
from spgraph_bench.runner.prepare import Prepared, prepare
from spgraph_bench.variants import Variant, get_variant, variants
from spgraph_bench.variants.marked_rows import MarkedRows

MODES = [v for v in variants("pagerank") if v.kernel]
_DRAW = np.random.default_rng(11)
_I = np.arange(200)
OWN = {
    "no-vertex": csr(0, 0, [], [], None),
    "no-edge": csr(40, 40, [], [], None),
    # Half of the vertices dangle, among them all that the others point at.
    "all-into-dangling": csr(150, 150, np.repeat(_I[:75], 4), 75 + _DRAW.integers(0, 75, 300), None),
    # In-edges of one vertex over several blocks, of equal parts: what plain float32 adding would get wrong.
    "in-star-of-9000": csr(9001, 9001, np.arange(1, 9001), np.zeros(9000, int), None),
}
SHARED = (
    "one-vertex",
    "one-vertex-with-a-loop",
    "hub-of-5000",
    "two-hubs-sharing-leaves",
    "grid-graph",
    "complete",
    "directed-cycle-with-a-tail",
    "in-edges-matter",
    "loops-and-repeats",
    "disconnected",
    "skewed-directed",
    "sparse",
)
GRAPHS: dict[str, CSR] = OWN | {name: graphs()[name][0] for name in SHARED}


def _problem(**options: Any) -> PageRank:
    problem = get_problem("pagerank", {"max_iterations": 60, **options})
    assert isinstance(problem, PageRank)
    return problem


def _prepare(
    device: Device,
    mode: Variant,
    a: CSR,
    problem: PageRank,
    dtype: str = "float32",
    offsets: str = "int32",
    teleport: np.ndarray | None = None,
    **params: Any,
) -> Prepared:
    if mode.missing and (reason := mode.missing(device)):
        pytest.skip(reason)
    kind, whole = np.dtype(dtype), matrix(a)
    a = dataclasses.replace(a, symmetric=pattern_is_symmetric(whole))
    form = get_format(mode.format)
    own = {k: v for k, v in params.items() if k in form.tunables}
    packed = form.pack(a, kind, np.dtype(offsets), **own)
    inputs = problem.inputs(whole, kind, 1)
    if teleport is not None:
        inputs["teleport"] = teleport.astype(kind)
    outputs = problem.output_arrays(whole, kind)
    return prepare(device, mode, packed, inputs, outputs, params, options=problem.values)


def _run(device: Device, prepared: Prepared) -> np.ndarray:
    prepared.launch.reset()
    prepared.launch.run()
    device.synchronize()
    return prepared.launch.output()


def _check(
    device: Device,
    mode: Variant,
    a: CSR,
    dtype: str = "float32",
    offsets: str = "int32",
    teleport: np.ndarray | None = None,
    params: dict[str, Any] | None = None,
    **options: Any,
) -> None:
    problem = _problem(**options)
    prepared = _prepare(device, mode, a, problem, dtype, offsets, teleport, **(params or {}))
    inputs = prepared.job.inputs
    oracle = problem.oracle(matrix(a), inputs, np.dtype(dtype))
    oracle |= {"row_ptr": a.row_ptr, "col_idx": a.col_idx}
    for _ in range(2):  # nothing may be left over from the first run
        result = problem.check(_run(device, prepared), oracle, np.dtype(dtype))
        assert result.ok, result.message
        facts = prepared.launch.facts()
        assert abs(facts["iterations"] - oracle["ended"][0]) <= (1 if dtype == "float32" else 0)


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("mode", MODES, ids=lambda v: v.name)
def test_battery(device: Device, mode: Variant, name: str) -> None:
    _check(device, mode, GRAPHS[name], max_iterations=60 if FULL else 20)


@pytest.mark.parametrize("dangling", ["jump", "uniform", "self", "none"])
@pytest.mark.parametrize("name", ["all-into-dangling", "skewed-directed"])
@pytest.mark.parametrize("mode", MODES, ids=lambda v: v.name)
def test_dangling_personalised_by_degree_in_double(device: Device, mode: Variant, name: str, dangling: str) -> None:
    """With 64-bit offsets too."""
    a = GRAPHS[name]
    teleport = np.zeros(a.rows)
    teleport[[3, 7, a.rows - 1]] = 0.5, 0.25, 0.25
    _check(device, mode, a, "float64", "int64", teleport, {"reorder": "degree"}, dangling=dangling)


@pytest.mark.parametrize("order", ["none", "degree"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("mode", MODES, ids=lambda v: v.name)
def test_weights(device: Device, mode: Variant, dtype: str, order: str) -> None:
    for name in ("skewed-directed", "in-star-of-9000", "no-edge"):
        a = GRAPHS[name]
        values = np.random.default_rng(5).integers(0, 6, a.nnz).astype(float)
        a = dataclasses.replace(a, values=values)
        given: dict[str, Any] = {"params": {"reorder": order}, "weighted": "yes"}
        if mode.name == "pull-hubs":
            with pytest.raises(SkipError, match="does not use weights"):
                _check(device, mode, a, dtype, **given)
        else:
            _check(device, mode, a, dtype, **given)


@pytest.mark.parametrize("mode", MODES, ids=lambda v: v.name)
def test_the_last_iteration_is_the_last(device: Device, mode: Variant) -> None:
    a = GRAPHS["skewed-directed"]
    for most in (1, 2, 4):
        _check(device, mode, a, "float64", "int64", max_iterations=most, tolerance=0.0)


@pytest.mark.parametrize("mode", MODES, ids=lambda v: v.name)
def test_steps_tell_the_change_of_every_iteration(device: Device, mode: Variant) -> None:
    a, problem = GRAPHS["sparse"], _problem()
    prepared = _prepare(device, mode, a, problem, "float64", "int64")
    assert prepared.launch.steps is not None
    steps = prepared.launch.steps()
    for k, step in enumerate(steps, 1):
        _, _, change = power_iteration(a, max_iterations=k, tolerance=0.0)
        assert step["change"] == pytest.approx(change, rel=1e-9)
        assert (step["ms"] is None) == (device.kind == "host")
    assert prepared.launch.facts() == {"iterations": len(steps), "change": steps[-1]["change"]}
    assert steps[-1]["change"] <= 1e-6 < steps[-2]["change"]


@pytest.mark.parametrize(("dtype", "tile"), [("float32", 2048), ("float64", 1024)])
def test_tiles_of_pull(device: Device, dtype: str, tile: int) -> None:
    pull = get_variant("pagerank", "pull")
    for name in ("in-star-of-9000", "skewed-directed"):
        for given in ("auto", 512, 1024, 2048):
            for block in (128, 512):
                params = {"tile": given, "block": block}
                _check(device, pull, GRAPHS[name], dtype, params=params, max_iterations=5)
    assert _prepare(device, pull, GRAPHS["sparse"], _problem(), dtype).job.params["tile"] == tile


@pytest.mark.parametrize("name", ["in-star-of-9000", "skewed-directed", "hub-of-5000", "all-into-dangling"])
@pytest.mark.parametrize(
    "params",
    [
        {"hubs": 0, "chunks": 8, "block": 256},  # all from global memory, chunks of a tile or two
        {"hubs": 5, "chunks": 1, "row_cost": 0},
        {"hubs": 300, "row_cost": 1024, "reorder": "degree"},
    ],
    ids=lambda p: ",".join(f"{k}={v}" for k, v in p.items()),
)
def test_hubs_in_shared_memory_or_not(device: Device, params: dict[str, Any], name: str) -> None:
    _check(device, get_variant("pagerank", "pull-hubs"), GRAPHS[name], params=params)


@pytest.mark.parametrize("wanted", [1, 3, 16, 1000])
@pytest.mark.parametrize("row_cost", [0, 4, 300])
def test_chunks_are_all_edges_and_rows_once(wanted: int, row_cost: int) -> None:
    for name in ("in-star-of-9000", "skewed-directed", "no-edge", "hub-of-5000"):
        turned = GRAPHS[name].to_scipy().T.tocsr()
        in_ptr, cut = turned.indptr.astype(np.int64), MarkedRows(turned.indptr, wanted, row_cost)
        begin, first, leader, head, tail = cut.tile_begin, cut.first_row, cut.leader, cut.pieces[:-1], cut.pieces[1:]
        assert (cut.count, begin[-1]) == (len(begin) - 1, -(-turned.nnz // 128))
        assert (np.diff(begin) > 0).all()
        seen = np.zeros(cut.count, int)  # pieces that have this chunk as their leader
        for c in range(cut.count):
            low, high = begin[c] * 128, begin[c + 1] * 128
            rows = [v for v in cut.row_of if in_ptr[v] < high and in_ptr[v + 1] > low]
            assert cut.row_of[first[c]] == rows[0]
            assert (head[c] > 0) == (in_ptr[rows[0]] < low)
            assert (tail[c] > 0) == (in_ptr[rows[-1] + 1] > high)
            if head[c]:
                seen[leader[c]] += 1
                assert leader[c] < c
        for c in range(cut.count):
            begins_here = tail[c] > 0 and not (head[c] and in_ptr[cut.row_of[first[c]] + 1] > begin[c + 1] * 128)
            assert seen[c] == (tail[c] - 1 if begins_here else 0)


@pytest.mark.parametrize(
    ("wanted", "tiles"), [(1, 1), (8, 8), (8, 9), (7, 100), (3, 96 * 3), (3, 96 * 3 + 1), (64, 20)]
)
def test_warps_have_equally_many_chunks(wanted: int, tiles: int) -> None:
    """And no chunk has more than 96 tiles, where all cost the same."""
    cut = MarkedRows(np.arange(0, 128 * tiles + 1, 32), wanted, 4)
    assert cut.tiles == tiles
    assert cut.count % wanted == 0 if tiles >= wanted else cut.count == tiles
    sizes = np.diff(cut.tile_begin)
    assert sizes.max() - sizes.min() <= 1
    assert sizes.max() <= 96


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("mode", MODES, ids=lambda v: v.name)
def test_any_schedule_gives_the_same_ranks(mode: Variant, seed: int) -> None:
    device = open_device("host", seed=seed)
    try:
        _check(device, mode, GRAPHS["skewed-directed"], max_iterations=5)
        _check(device, mode, GRAPHS["in-star-of-9000"], max_iterations=3)
    finally:
        device.close()


def test_two_launches_an_iteration_and_an_atomic_per_edge_or_none() -> None:
    """Global atomics: at the start and in each iteration every block's two sums; pushing adds one per edge."""
    device = open_device("host")
    try:
        a, n = GRAPHS["skewed-directed"], 7
        counted = {}
        for name in ("pull-naive", "push", "edge"):
            problem = _problem(max_iterations=n, tolerance=0.0)
            prepared = _prepare(device, get_variant("pagerank", name), a, problem)
            device.reset_counters()
            _run(device, prepared)
            counters = device.counters()
            assert counters is not None
            assert counters["kernel_launches"] == 1 + 2 * n
            counted[name] = counters["global_atomics"]
        blocks = -(-a.rows // 256)
        assert counted["pull-naive"] <= blocks * 2 * (n + 1)
        assert counted["push"] == counted["edge"]
        assert counted["push"] - counted["pull-naive"] == n * a.nnz
    finally:
        device.close()
