"""Kernels whose blocks wait for others: none relies on the order in which blocks start."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from battery import matrix, random_rows
from generated import inputs_of, prepared, solve, verdict
from graph_battery import graphs

from spgraph_bench.device import open_device
from spgraph_bench.device.base import DeviceInfo
from spgraph_bench.errors import SkipError
from spgraph_bench.formats import get_format
from spgraph_bench.matrix import CSR
from spgraph_bench.problems import get_problem
from spgraph_bench.runner.prepare import prepare
from spgraph_bench.variants import get_variant, searches, variants
from spgraph_bench.variants.grids import cooperative_shape, threads_for


# A seed shuffles all blocks of a grid, far more than are live at a time: one that waited for the block before
# it by index would wait forever, and the test would run into its time limit.
@pytest.mark.timeout(60)
@pytest.mark.parametrize("seed", [1, 3])
def test_tiles_of_a_cut_row_wait_for_blocks_that_have_started(seed: int) -> None:
    device, problem = open_device("host", seed=seed), get_problem("spmv")
    whole = matrix(random_rows([2100] * 100, 2200))
    kind = np.dtype("float32")
    inputs = problem.inputs(whole, kind, 1)
    packed = get_format("csr").pack(whole.csr, kind)
    ready = prepare(
        device,
        get_variant("spmv", "csr-segmented"),
        packed,
        inputs,
        problem.output_arrays(whole, kind),
        {"block": 512, "launches": 1},
    )
    for _ in range(2):  # the count of started blocks is 0 again after a launch
        ready.launch.reset()
        ready.launch.run()
        device.synchronize()
        result = problem.check(ready.launch.output(), problem.oracle(whole, inputs, kind), kind)
        assert result.ok, result.message
    device.close()


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("problem", "options", "params"),
    [("bezier", {"curves": 32 * 60}, {"tile": 32, "block": 256}), ("quadtree", {"points": 100_000, "leaf": 500}, {})],
)
def test_prefix_sums_over_more_blocks_than_are_live(
    problem: str, options: dict[str, Any], params: dict[str, Any]
) -> None:
    device, variant = open_device("host", seed=1), get_variant(problem, "flattened")
    inputs = inputs_of(problem, options)
    ready = prepared(device, variant, options, inputs, **params)
    for _ in range(2):
        output, _ = solve(device, ready)
        result = verdict(variant, options, inputs, output)
        assert result.ok, result.message
    device.close()


def _gpu(fitting: int, multiprocessors: int = 132) -> tuple[Any, Any]:
    info = DeviceInfo.__new__(DeviceInfo)
    object.__setattr__(info, "multiprocessors", multiprocessors)
    device = SimpleNamespace(kind="cuda", info=lambda: info)
    return device, SimpleNamespace(resident_blocks=lambda block, shared=0: fitting)


@pytest.mark.parametrize(
    ("vertices", "edges", "blocks"),
    [
        (16_000, 100_000_000, 132),  # few vertices, many edges: every multiprocessor has work
        (16_000, 16 * 16_000, 16),
        (10_000, 20_000, 10),  # a chain: more blocks would only make its barriers slower
        (10_000_000, 20_000_000, 132),
        (1, 0, 1),
    ],
)
def test_cooperative_grids_are_capped_by_vertices_and_edges(vertices: int, edges: int, blocks: int) -> None:
    device, kernel = _gpu(132)
    params = {"block": 1024, "blocks_per_multiprocessor": 0}
    shape = cooperative_shape(device, kernel, params, threads_for(vertices, edges))
    assert shape == (blocks, 1024)


TALLIED = [
    variant
    for problem in ("bfs", "sssp", "bc")
    for variant in variants(problem)
    if variant.source is not None
    and (
        variant.name in ("edge-balanced", "direction", "persistent", "one-block", "graph", "graph-while", "auto")
        or (problem == "sssp" and variant.name != "bellman-ford")
    )
]


def _prepare(name: str, problem_name: str, a: CSR) -> None:
    device, problem = open_device("host"), get_problem(problem_name)
    variant = get_variant(problem_name, name)
    if variant.missing and variant.missing(device):
        pytest.skip("not on this device")
    whole, kind = matrix(a), np.dtype(variant.dtypes[0])
    inputs = problem.inputs(whole, kind, 1)
    packed = get_format(variant.format).pack(a, kind)
    prepare(device, variant, packed, inputs, problem.output_arrays(whole, kind), {})


@pytest.mark.parametrize("variant", TALLIED, ids=lambda v: f"{v.problem}-{v.name}")
def test_more_edges_than_a_tally_counts_are_refused(variant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    a = graphs()["complete"][0]
    _prepare(variant.name, variant.problem, a)
    monkeypatch.setattr(searches, "EDGE_BITS", 11)  # the graph has 3,540 edges, 11 bits count 2,047
    most = "1,023" if variant.problem == "sssp" else "2,047"
    with pytest.raises(SkipError, match=f"in 11 bits: up to {most} edges, this graph has 3,540"):
        _prepare(variant.name, variant.problem, a)


def test_two_to_the_33_edges_are_one_too_many() -> None:
    def job(edges: int) -> Any:
        return SimpleNamespace(packed=SimpleNamespace(nnz=edges))

    searches.check_tally(job(2**33 - 1))
    with pytest.raises(SkipError, match="up to 8,589,934,591 edges, this graph has 8,589,934,592"):
        searches.check_tally(job(2**33))
