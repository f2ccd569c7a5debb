"""Launches from the device: every mechanism, and what launches children, on the host device in twenty orders.

The Makefile runs this file a second time under AddressSanitizer. On a GPU the same kernels run as they are.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from battery import matrix
from graph_battery import graphs
from proportion import some

from spgraph_bench.device import open_device
from spgraph_bench.device.base import Device
from spgraph_bench.errors import SkipError
from spgraph_bench.formats import get_format
from spgraph_bench.matrix import CSR
from spgraph_bench.problems import get_problem
from spgraph_bench.problems.bfs import check_levels
from spgraph_bench.problems.sources import plain_levels
from spgraph_bench.runner.children import ChildrenLostError, children_of
from spgraph_bench.runner.prepare import Prepared, filled_params, prepare
from spgraph_bench.variants import Variant, get_variant, variants
from spgraph_bench.variants.base import Sizes

LUCK = str(Path(__file__).resolve().parent / "kernels" / "host_luck.cu")
EMPTY = CSR(0, 0, np.zeros(1, np.int64), np.empty(0, np.int32), None)
ORDERS = range(1, 21)
INT32 = np.dtype(np.int32)


def _mechanism(device: Device, mechanism: Variant, launches: int = 300, items: int = 700, **params: Any) -> Prepared:
    if mechanism.missing and (reason := mechanism.missing(device)):
        pytest.skip(reason)
    problem = get_problem("launch", {"launches": launches, "items": items})
    inputs = problem.inputs(matrix(EMPTY), np.dtype(np.float32), 1)
    try:
        return prepare(
            device,
            mechanism,
            get_format("none").pack(EMPTY),
            inputs,
            problem.output_arrays(matrix(EMPTY), np.dtype(np.float32)),
            params,
        )
    except SkipError as reason:
        pytest.skip(str(reason))


def _exact(device: Device, prepared: Prepared, launches: int = 300, items: int = 700) -> None:
    """Every case of `prepared` counts exactly, and no child is lost."""
    problem: Any = get_problem("launch", {"launches": launches, "items": items})
    inputs = prepared.job.inputs
    oracle = problem.oracle(matrix(EMPTY), inputs, np.dtype(np.float32))
    for case in (*range(prepared.launch.cases), 0):
        prepared.launch.select(case)
        prepared.launch.reset()
        prepared.launch.run()
        device.synchronize()
        result, _ = problem.check_case(case, prepared.launch.output(), EMPTY, inputs, oracle)
        assert result.ok, f"{inputs['tasks'][case]} tasks of {inputs['items'][case]} items: {result.message}"
    if (children := children_of(prepared.job)) is not None:
        assert (children.refused, children.failed) == (0, 0)


@pytest.mark.parametrize("mechanism", variants("launch"), ids=lambda v: v.name)
def test_counts_are_exact(device: Device, mechanism: Variant) -> None:
    _exact(device, _mechanism(device, mechanism))


@pytest.mark.parametrize("mechanism", [v for v in variants("launch") if v.limits], ids=lambda v: v.name)
def test_children_count_exactly_in_any_order(mechanism: Variant) -> None:
    for seed in some(ORDERS, 6):
        device = open_device("host", seed=seed)
        _exact(device, _mechanism(device, mechanism, 20, 150), 20, 150)
        device.close()


@pytest.mark.parametrize(
    "name", ["fire-and-forget", "fire-and-forget-one", "default-stream", "child-streams", "nested", "tail"]
)
def test_every_launch_is_counted(device: Device, name: str) -> None:
    prepared = _mechanism(device, get_variant("launch", name), 100, 0)
    prepared.launch.select(2)  # 100 tasks
    device.reset_counters()
    prepared.launch.run()
    device.synchronize()
    children = children_of(prepared.job)
    assert children is not None
    assert children.words() == {"launched": 100 - (name == "tail"), "refused": 0, "failed": 0}
    counted = device.counters()
    assert counted is None or counted["child_launches"] == children.launched


@pytest.mark.parametrize("depth", [1, 7, 24])
def test_nested_tasks_wait_one_to_a_chain(depth: int) -> None:
    """50 tasks in chains of so many levels: a place in the pool for each chain is enough, and one less is not."""
    chains = -(-50 // depth)
    for places in (chains, chains - 1):
        device: Any = open_device("host")
        device.set_limit("pending_launches", places)
        prepared = _mechanism(device, get_variant("launch", "nested"), 50, 0, depth=depth)
        prepared.launch.select(prepared.launch.cases - 1)
        prepared.launch.reset()
        prepared.launch.run()
        device.synchronize()
        children = children_of(prepared.job)
        assert children is not None
        assert (children.refused > 0) == (places < chains)
        assert (prepared.launch.output()[0] == 50) == (places == chains)
        device.close()


def test_the_check_of_counts_can_fail() -> None:
    problem: Any = get_problem("launch", {"launches": 10, "items": 64})
    inputs = problem.inputs(matrix(EMPTY), np.dtype(np.float32), 1)
    oracle = problem.oracle(matrix(EMPTY), inputs, np.dtype(np.float32))
    right = np.zeros(1025, np.uint64)
    right[[0, 7]] = 10, oracle["sums"][2]
    assert problem.check_case(2, right, EMPTY, inputs, oracle)[0].ok
    lost, wrong = right.copy(), right.copy()
    lost[0] -= np.uint64(1)
    wrong[1000] += np.uint64(1)
    assert "9 of 10 tasks" in problem.check_case(2, lost, EMPTY, inputs, oracle)[0].message
    assert "add up to" in problem.check_case(2, wrong, EMPTY, inputs, oracle)[0].message
    assert not problem.check(np.zeros(1025, np.uint64), {**inputs, **oracle}, np.dtype(np.float32)).ok


# ---- order -----------------------------------------------------------------------------------------------


def _sum_of_squares(kernel: str, seed: int, count: int = 12) -> int:
    """What `kernel` makes of values that start at -1000; the right sum is 506."""
    device = open_device("host", seed=seed)
    values = device.upload(np.full(count, -1000, np.int32))
    total, children = device.upload(np.zeros(1, np.int32)), device.upload(np.zeros(6, np.uint64))
    device.compile(LUCK).kernel(kernel)(1, 1, np.int32(count), values, total, children)
    result = int(device.download(total)[0])
    assert (device.download(values) == np.arange(count) ** 2).all()
    assert device.download(children).tolist()[1:] == [0] * 5
    device.close()
    return result


@pytest.mark.parametrize("kernel", ["reads_children", "later_child_adds_up"])
def test_a_kernel_that_depends_on_luck_fails_in_some_order(kernel: str) -> None:
    result = [_sum_of_squares(kernel, seed) for seed in ORDERS]
    assert any(total != 506 for total in result)


@pytest.mark.parametrize("kernel", ["tail_adds_up", "stream_adds_up"])
def test_tails_and_streams_keep_their_order_in_every_one(kernel: str) -> None:
    assert {_sum_of_squares(kernel, seed) for seed in (0, *ORDERS)} == {506}


def test_a_later_child_may_even_run_first() -> None:
    """The order is varied enough that an error of this kind is found by nearly any seed."""
    result = [_sum_of_squares("later_child_adds_up", seed) for seed in ORDERS]
    assert len(set(result)) > 5


def test_a_tail_waits_for_grandchildren() -> None:
    for seed in (0, *ORDERS):
        device = open_device("host", seed=seed)
        leaves, total = (device.upload(np.zeros(1, np.int32)) for _ in range(2))
        device.compile(LUCK).kernel("tail_after_grandchildren")(1, 1, np.int32(4), leaves, total)
        assert device.download(total)[0] == 81
        device.close()


# ---- breadth-first search --------------------------------------------------------------------------------


@functools.cache
def _levels(name: str, source: int) -> Any:
    return plain_levels(graphs()[name][0], source)


def _search(device: Device, mode: str, name: str, seed_said: str = "", **params: Any) -> Prepared:
    a, sources = graphs()[name]
    variant, packed = get_variant("bfs", mode), get_format("pattern-csr").pack(a, INT32)
    outputs = get_problem("bfs").output_arrays(matrix(a), INT32)
    prepared = prepare(device, variant, packed, {"sources": np.array(sources, np.int32)}, outputs, params)
    for case, source in enumerate(sources):
        prepared.launch.select(case)
        prepared.launch.reset()
        prepared.launch.run()
        device.synchronize()
        result = check_levels(prepared.launch.output(), _levels(name, source))
        assert result.ok, f"{name} {seed_said} source {source}: {result.message}"
    return prepared


def _bound(mode: str, name: str, **params: Any) -> int:
    variant, (a, _) = get_variant("bfs", mode), graphs()[name]
    assert variant.limits is not None
    return variant.limits(Sizes(a, {}, {}, filled_params(variant, params), {})).pending_launches


SOME = ("star-of-chains", "skewed-directed", "in-edges-matter")


@pytest.mark.parametrize("name", SOME)
@pytest.mark.parametrize(("mode", "params"), [("child-launch", {"hub_from": 3}), ("tail-launch", {})])
def test_searches_lose_no_child_in_any_order(mode: str, params: dict[str, Any], name: str) -> None:
    for seed in some(ORDERS, 6):
        device: Any = open_device("host", seed=seed)
        device.set_limit("pending_launches", max(1, _bound(mode, name, **params)))
        children = children_of(_search(device, mode, name, f"seed {seed}", **params).job)
        assert children is not None
        assert (children.refused, children.failed) == (0, 0)
        device.close()


@pytest.mark.parametrize("name", graphs())
@pytest.mark.parametrize("hub_from", [1, 30])
def test_hubs_of_any_degree(device: Device, hub_from: int, name: str) -> None:
    a, sources = graphs()[name]
    if device.kind == "cuda" and _bound("child-launch", name, hub_from=hub_from) > 2048:
        pytest.skip("more children than the pool takes that the other tests share")
    if device.kind == "host":
        device.set_limit("pending_launches", max(2048, _bound("child-launch", name, hub_from=hub_from)))
    children = children_of(_search(device, "child-launch", name, hub_from=hub_from).job)
    assert children is not None
    reached = [np.flatnonzero(_levels(name, source) >= 0) for source in sources]
    hubs = sum(int((a.row_lengths()[r] >= hub_from).sum()) for r in reached)
    assert (children.launched, children.refused, children.failed) == (hubs, 0, 0)


def test_a_pool_below_the_bound_is_detected() -> None:
    device: Any = open_device("host")
    bound = _bound("child-launch", "hub-of-5000", hub_from=1)
    assert bound == 5001
    device.set_limit("pending_launches", 100)
    a, _ = graphs()["hub-of-5000"]
    outputs = get_problem("bfs").output_arrays(matrix(a), INT32)
    prepared = prepare(
        device,
        get_variant("bfs", "child-launch"),
        get_format("pattern-csr").pack(a, INT32),
        {"sources": np.array([0], np.int32)},
        outputs,
        {"hub_from": 1},
    )
    prepared.launch.reset()
    prepared.launch.run()
    device.synchronize()
    children = children_of(prepared.job)
    assert children is not None
    assert children.refused > 0
    with pytest.raises(ChildrenLostError, match=r"of 5,001 child launches were refused \(pending-launch pool 100;"):
        children.must_be_whole({"pending_launches": bound}, {"pending_launches": 100})
    device.close()
