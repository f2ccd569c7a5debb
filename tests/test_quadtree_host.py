"""Every way to build a quadtree, on the host always, on a GPU where there is one.

The Makefile runs this file a second time under AddressSanitizer.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from generated import EMPTY, inputs_of, oracle_of, prepared, solve, verdict
from proportion import some

from spgraph_bench.device import open_device
from spgraph_bench.device.base import Device
from spgraph_bench.variants import Variant, get_variant, variants
from spgraph_bench.variants.base import Sizes

VARIANTS = variants("quadtree")
CHILDREN = [v for v in VARIANTS if v.limits]
SMALL = {"large": 150, "chunk": 64}
"""So that few points make several blocks and tails."""


def _points(*points: tuple[float, float]) -> dict[str, np.ndarray]:
    return {"points": np.array(points, np.float32)}


_BELOW = float(np.nextafter(np.float32(1), np.float32(0)))
NASTY: dict[str, tuple[dict[str, Any], dict[str, np.ndarray]]] = {
    "one-point": ({}, _points((0.5, 0.5))),
    "corners": ({"leaf": 1}, _points((0, 0), (_BELOW, 0), (0, _BELOW), (_BELOW, _BELOW))),
    "on-the-lines": ({"leaf": 1}, _points(*((x / 8, y / 8) for x in range(8) for y in range(8)))),
    "apart-at-the-last-level": ({"leaf": 1}, _points((0.25, 0.25), (0.25 + 2.0**-16, 0.25))),
    "not-apart-at-any-level": ({"leaf": 1}, _points((0.25, 0.25), (0.25 + 2.0**-17, 0.25))),
    "as-many-as-a-leaf": ({}, inputs_of("quadtree", {"points": 32})),
    "one-more-than-a-leaf": ({}, inputs_of("quadtree", {"points": 33})),
    "depth-1": ({"depth": 1}, inputs_of("quadtree", {"points": 200})),
    "depth-4": ({"depth": 4, "leaf": 3}, inputs_of("quadtree", {"points": 700})),
    "depth-5": ({"depth": 5, "leaf": 3}, inputs_of("quadtree", {"points": 700, "shape": "line"})),
    "depth-9-equal": ({"depth": 9}, inputs_of("quadtree", {"points": 100, "shape": "equal"})),
    "all-equal": ({}, inputs_of("quadtree", {"points": 600, "shape": "equal"})),
    "two-heaps": ({}, {"points": np.repeat(np.array([[0.1, 0.1], [0.9, 0.1]], np.float32), 300, axis=0)}),
    "on-a-line": ({}, inputs_of("quadtree", {"points": 2500, "shape": "line"})),
    "uniform": ({}, inputs_of("quadtree", {"points": 5000, "shape": "uniform"})),
    "clustered": ({"leaf": 4}, inputs_of("quadtree", {"points": 4097})),
}


def _check(
    device: Device,
    variant: Variant,
    options: dict[str, Any],
    inputs: dict[str, np.ndarray],
    runs: int = 2,
    **params: Any,
) -> None:
    ready = prepared(device, variant, options, inputs, **params)
    for _ in range(runs):  # nothing may be left over from the run before
        output, children = solve(device, ready)
        result = verdict(variant, options, inputs, output)
        assert result.ok, result.message
        assert (children.refused, children.failed) == (0, 0)
        assert (children.launched > 0) <= (variant in CHILDREN)


@pytest.mark.parametrize("name", NASTY)
@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: v.name)
def test_battery(device: Device, variant: Variant, name: str) -> None:
    _check(device, variant, *NASTY[name])


@pytest.mark.parametrize("name", ["one-more-than-a-leaf", "depth-4", "all-equal", "on-a-line", "clustered"])
@pytest.mark.parametrize("variant", CHILDREN, ids=lambda v: v.name)
def test_large_nodes(device: Device, variant: Variant, name: str) -> None:
    _check(device, variant, *NASTY[name], **SMALL)


@pytest.mark.parametrize("shape", ["uniform", "clustered"])
@pytest.mark.parametrize("variant", CHILDREN, ids=lambda v: v.name)
def test_all_kinds_of_nodes(device: Device, variant: Variant, shape: str) -> None:
    """Of several blocks, of one block, and finished by one block: the last are those of up to 2,048
    points."""
    _check(device, variant, {}, inputs_of("quadtree", {"points": 20_000, "shape": shape}), 1, large=4000, chunk=1000)


def test_host_driven_in_chunks(device: Device) -> None:
    _check(device, get_variant("quadtree", "host-driven"), *NASTY["clustered"], chunk=100)


@pytest.mark.parametrize("seed", some(range(1, 21), 5))
@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: v.name)
def test_any_order_gives_the_same_tree(variant: Variant, seed: int) -> None:
    device = open_device("host", seed=seed)
    shape = ("uniform", "clustered", "line", "equal")[seed % 4]
    options = {"points": 200, "shape": shape, "leaf": 8, "depth": 6}
    _check(device, variant, options, inputs_of("quadtree", options, seed), 1, **SMALL)


def _bound(variant: Variant, options: dict[str, Any], inputs: dict[str, np.ndarray], params: dict[str, Any]) -> int:
    assert variant.limits
    oracle = oracle_of("quadtree", options, inputs)
    return variant.limits(Sizes(EMPTY, inputs, oracle, params, options)).pending_launches


@pytest.mark.parametrize("seed", some(range(8), 3))
@pytest.mark.parametrize("variant", CHILDREN, ids=lambda v: v.name)
def test_the_bound_on_pending_launches_holds(variant: Variant, seed: int) -> None:
    """With a pool of just the bound, nothing is refused in any order."""
    device = open_device("host", seed=seed)
    options = {"points": 300, "leaf": 1, "depth": 6 if seed % 2 else 16, "shape": "line" if seed % 3 else "uniform"}
    inputs, small = inputs_of("quadtree", options, seed), {"large": 40, "chunk": 32}
    device.set_limit("pending_launches", _bound(variant, options, inputs, small))
    _check(device, variant, options, inputs, 1, **small)


@pytest.mark.parametrize("seed", some(range(1, 21), 5))
@pytest.mark.parametrize("shape", ["uniform", "clustered"])
def test_the_bound_of_child_launch_follows_from_the_nodes(shape: str, seed: int) -> None:
    """Where leaves are far from full, points alone would ask for a pool several times as large."""
    device, variant = open_device("host", seed=seed), get_variant("quadtree", "child-launch")
    options = {"points": 900, "leaf": 2, "depth": 16 if seed % 2 else 5, "shape": shape}
    inputs, params = inputs_of("quadtree", options, seed), {"large": 200 if seed % 3 else 10_000, "chunk": 64}
    bound = _bound(variant, options, inputs, params)
    assert bound < 900 // 3
    device.set_limit("pending_launches", bound)
    _check(device, variant, options, inputs, 1, **params)


@pytest.mark.parametrize("shape", ["uniform", "clustered"])
def test_the_bound_of_child_launch_is_what_it_launches(shape: str) -> None:
    """Without large nodes: a grid for each node with a child that is split, and the root's."""
    device, variant = open_device("host"), get_variant("quadtree", "child-launch")
    options, params = {"points": 900, "leaf": 2, "depth": 16, "shape": shape}, {"large": 10_000}
    inputs = inputs_of("quadtree", options)
    _, children = solve(device, prepared(device, variant, options, inputs, **params))
    assert children.launched > 100
    assert _bound(variant, options, inputs, params) == children.launched + 1


@pytest.mark.parametrize("variant", CHILDREN, ids=lambda v: v.name)
def test_too_small_a_pool_is_reported(variant: Variant) -> None:
    device = open_device("host")
    device.set_limit("pending_launches", 1)
    _, children = solve(device, prepared(device, variant, {"leaf": 1}, NASTY["clustered"][1], **SMALL))
    assert children.refused > 0


@pytest.mark.parametrize("shape", ["uniform", "line"])
@pytest.mark.parametrize("seed", [0, 2, 3])
def test_the_bound_of_hybrid_holds_where_subtrees_are_finished(seed: int, shape: str) -> None:
    device, variant = open_device("host", seed=seed), get_variant("quadtree", "hybrid")
    options = {"points": 9000, "leaf": 3, "shape": shape, "depth": 16}
    inputs, large = inputs_of("quadtree", options, seed), {"large": 5000, "chunk": 1500}
    device.set_limit("pending_launches", _bound(variant, options, inputs, large))
    _check(device, variant, options, inputs, 1, **large)
