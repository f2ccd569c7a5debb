"""Every way to find components against the battery: on the host always, on a GPU where there is one.

The Makefile runs this file a second time under AddressSanitizer.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from battery import csr, matrix
from graph_battery import graphs

from spgraph_bench.device import open_device
from spgraph_bench.device.base import Device
from spgraph_bench.errors import SkipError
from spgraph_bench.formats import get_format
from spgraph_bench.formats.common import INT32_ENTRIES
from spgraph_bench.matrix import CSR
from spgraph_bench.problems import get_problem
from spgraph_bench.problems.cc import check_labels, plain_components
from spgraph_bench.problems.sources import pattern_is_symmetric
from spgraph_bench.runner.prepare import Prepared, prepare
from spgraph_bench.variants import Variant, get_variant, variants

CC = get_problem("cc")
MODES = [v for v in variants("cc") if v.kernel]
INT32 = np.dtype(np.int32)


def _own() -> dict[str, CSR]:
    """Graphs whose components matter more than their distances."""
    draw = np.random.default_rng(3)
    i = np.arange(1500)
    # Hubs outside the largest component: the second star's, in either direction.
    leaves = draw.permutation(np.arange(2, 2902))
    star = np.repeat([0, 1], [1600, 1300])
    permuted = draw.permutation(800)
    pairs = draw.permutation(500).reshape(-1, 2)
    parts = 40 * draw.integers(0, 20, 900)
    return {
        "no-vertices": csr(0, 0, [], [], None),
        "no-edges": csr(75, 75, [], [], None),
        "two-stars-outwards": csr(2902, 2902, star, leaves, None),
        "two-stars-inwards": csr(2902, 2902, leaves, star, None),
        "a-chain-in-any-order": csr(800, 800, permuted[:-1], permuted[1:], None),
        "a-chain-downwards": csr(1500, 1500, i[1:], i[:-1], None),
        "pairs": csr(500, 500, pairs[:, 0], pairs[:, 1], None),
        "small-parts": csr(800, 800, parts + draw.integers(0, 40, 900), parts + draw.integers(0, 40, 900), None),
        # Trees that grow into each other from both ends: the joins of high roots come first.
        "binary-tree-leaves-first": csr(1023, 1023, 1022 - (i[1:1023] - 1) // 2, 1022 - i[1:1023], None),
    }


GRAPHS = {name: a for name, (a, _) in graphs().items()} | _own()


def _prepare(device: Device, mode: Variant, a: CSR, offsets: str = "int32", **params: Any) -> Prepared:
    if mode.missing and (reason := mode.missing(device)):
        pytest.skip(reason)
    whole = matrix(a)
    a = dataclasses.replace(a, symmetric=pattern_is_symmetric(whole))
    form = get_format(mode.format)
    own = {k: v for k, v in params.items() if k in form.tunables}
    packed = form.pack(a, INT32, np.dtype(offsets), **own)
    try:
        return prepare(device, mode, packed, {}, CC.output_arrays(whole, INT32), params)
    except SkipError as reason:
        pytest.skip(str(reason))


def _check(device: Device, mode: Variant, a: CSR, offsets: str = "int32", **params: Any) -> None:
    prepared = _prepare(device, mode, a, offsets, **params)
    right = plain_components(a)
    for _ in range(2):  # once more: nothing may be left over from the run before
        prepared.launch.reset()
        prepared.launch.run()
        device.synchronize()
        result = check_labels(prepared.launch.output(), right)
        assert result.ok, result.message


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("mode", MODES, ids=lambda v: v.name)
def test_battery(device: Device, mode: Variant, name: str) -> None:
    _check(device, mode, GRAPHS[name])


@pytest.mark.parametrize("name", ["hub-of-5000", "skewed-directed", "disconnected", "no-edges", "two-stars-inwards"])
@pytest.mark.parametrize("mode", MODES, ids=lambda v: v.name)
def test_int64_offsets_and_relabelling(device: Device, mode: Variant, name: str) -> None:
    _check(device, mode, GRAPHS[name], "int64", reorder="degree")


@pytest.mark.parametrize(
    "name", ["two-stars-outwards", "two-stars-inwards", "complete", "skewed-directed", "small-parts", "grid-graph"]
)
@pytest.mark.parametrize(
    "params",
    [
        {"rounds": 0},
        {"rounds": 1},
        {"rounds": 5},
        {"rounds": 0, "long_list": 1},
        {"rounds": 0, "long_list": 37},
        {"long_list": 300},
        {"hub_degree": 0},
        {"hub_degree": 0, "probes": 1, "long_list": 1},
        {"hub_degree": 2**31 - 1},
        {"block": 32},
        {"block": 512, "blocks_per_multiprocessor": 1},
    ],
    ids=lambda p: ",".join(f"{k}={v}" for k, v in p.items()),
)
def test_every_way_through_afforest(device: Device, params: dict[str, Any], name: str) -> None:
    _check(device, get_variant("cc", "afforest"), GRAPHS[name], **params)


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("mode", MODES, ids=lambda v: v.name)
def test_any_schedule_gives_the_same_labels(mode: Variant, seed: int) -> None:
    device = open_device("host", seed=seed)
    try:
        for name in ("skewed-directed", "binary-tree-leaves-first", "small-parts"):
            _check(device, mode, GRAPHS[name])
    finally:
        device.close()


@pytest.mark.parametrize(
    ("mode", "first", "fewest"),
    [("label", "every edge", 2), ("hook", "hooking", 3), ("afforest", "first neighbour", 7)],
)
def test_steps_are_reported(device: Device, mode: str, first: str, fewest: int) -> None:
    prepared = _prepare(device, get_variant("cc", mode), GRAPHS["grid-graph"])
    prepared.launch.reset()
    assert prepared.launch.steps is not None
    steps = prepared.launch.steps()
    assert steps[0]["how"] == first
    assert len(steps) >= fewest
    assert all((step["ms"] is None) == (device.kind == "host") for step in steps)


def test_a_neighbour_below_is_joined_without_an_atomic() -> None:
    """All vertices of a complete graph begin beneath the hub: barriers are left, and one for the label."""
    device = open_device("host")
    try:
        prepared = _prepare(device, get_variant("cc", "afforest"), GRAPHS["complete"])
        prepared.launch.reset()
        device.reset_counters()
        prepared.launch.run()
        device.synchronize()
        counted = device.counters()
        assert counted is not None
        assert counted["kernel_launches"] == 1
        assert counted["global_atomics"] == 6 * 2 + 1  # of the two blocks that 3,540 edges get
    finally:
        device.close()


def test_a_list_is_no_longer_than_int32_offsets_have_room_for() -> None:
    # The kernel adds it to an offset, which may be INT32_ENTRIES.
    most = get_variant("cc", "afforest").tunables["long_list"].between
    assert most is not None
    assert INT32_ENTRIES + most[1] < 2**31
