"""Every way to write Bezier curves, on the host always, on a GPU where there is one.

The Makefile runs this file a second time under AddressSanitizer.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from generated import inputs_of, prepared, solve, verdict
from proportion import some

from spgraph_bench.device import open_device
from spgraph_bench.device.base import Device
from spgraph_bench.problems.bezier import points_needed
from spgraph_bench.runner.children import ChildrenLostError
from spgraph_bench.variants import Variant, get_variant, variants

VARIANTS = variants("bezier")
CHILDREN = [v for v in VARIANTS if v.name.startswith("child-launch")]
STEP = 2.0**-20


def _curves(*curves: list[float]) -> dict[str, np.ndarray]:
    return {"control": np.array(curves, np.float32).reshape(-1, 3, 2)}


NASTY = {
    "one-curve": _curves([0, 0, 0.5, 0.25, 1, 0]),
    "a-mere-point": _curves([0.5, 0.5, 0.5, 0.5, 0.5, 0.5]),
    "there-and-back": _curves([0, 0, 0.5, 0.25, 0, 0]),
    "collinear": _curves([-1, -1, 0, 0, 1, 1], [0, 0, 1, 1, 0.5, 0.5]),
    "shortest-chord": _curves([0, 0, 1, 1, STEP, 0], [0, 0, STEP, STEP, STEP, 0]),
    "about-the-most": _curves(*([0, 0, 0, k / 256, 1, 0] for k in (246, 247, 248, 249))),
    "from-8-to-9": _curves(*([0, 0, 0, k * STEP, 1, 0] for k in (0, 4095, 4096, 4097, 8191, 8192))),
    "at-the-corners": _curves([-1, 1, 1, 1, 1, -1], [1, -1, -1, -1, -1, 1]),
    "one-below-a-tile": inputs_of("bezier", {"curves": 63}),
    "a-tile": inputs_of("bezier", {"curves": 64}),
    "one-above-a-tile": inputs_of("bezier", {"curves": 65}),
    "all-straight": inputs_of("bezier", {"curves": 300, "straight": 100, "bent": 0}),
    "all-bent": inputs_of("bezier", {"curves": 100, "straight": 0, "bent": 100}),
    "gentle": inputs_of("bezier", {"curves": 100, "straight": 0, "bent": 0}),
}


def _check(device: Device, variant: Variant, inputs: dict[str, np.ndarray], **params: Any) -> None:
    ready = prepared(device, variant, {}, inputs, **params)
    for _ in range(2):  # nothing may be left over from the run before
        output, children = solve(device, ready)
        result = verdict(variant, {}, inputs, output)
        assert result.ok, result.message
        expected = len(inputs["control"]) if variant in CHILDREN else 0
        assert (children.launched, children.refused, children.failed) == (expected, 0, 0)


@pytest.mark.parametrize("name", NASTY)
@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: v.name)
def test_battery(device: Device, variant: Variant, name: str) -> None:
    _check(device, variant, NASTY[name])


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("flattened", {"tile": 64, "block": 256}),
        ("flattened", {"tile": 256, "block": 512}),
        ("child-launch-malloc", {"piece": 7}),
        ("child-launch-preallocated", {"piece": 100}),
    ],
)
def test_parameters(device: Device, name: str, params: dict[str, Any]) -> None:
    _check(device, get_variant("bezier", name), inputs_of("bezier", {"curves": 250}), **params)


def test_flattened_many_times_over(device: Device) -> None:
    """Its tiles tell launches apart by a count of 8 bits, which comes round."""
    inputs = inputs_of("bezier", {"curves": 40})
    ready = prepared(device, get_variant("bezier", "flattened"), {}, inputs, tile=32, block=256)
    for _ in range(255):
        ready.launch.run()
    for _ in range(3):
        output, _ = solve(device, ready)
        assert verdict(ready.job.variant, {}, inputs, output).ok


@pytest.mark.parametrize("seed", some(range(1, 7), 3))
def test_flattened_takes_no_sum_of_the_launch_before(seed: int) -> None:
    """With other curves each time, and in an order in which a tile may look before others have published."""
    device, variant = open_device("host", seed=seed), get_variant("bezier", "flattened")
    either = [inputs_of("bezier", {"curves": 600}, k) for k in (1, 2)]
    ready = prepared(device, variant, {}, either[0], tile=5, block=256)
    for k in (1, 0, 1):
        device.write(ready.job.buffers["control"], either[k]["control"])
        output, _ = solve(device, ready)
        result = verdict(variant, {}, either[k], output)
        assert result.ok, result.message


def _many_tiles(device: Device) -> None:
    inputs = inputs_of("bezier", {"curves": 32 * 300, "straight": 100, "bent": 0})
    _check(device, get_variant("bezier", "flattened"), inputs, tile=32, block=256)


def test_flattened_with_more_tiles_than_one_look_back(device: Device) -> None:
    _many_tiles(device)


def test_flattened_with_many_tiles_in_another_order() -> None:
    _many_tiles(open_device("host", seed=1))


@pytest.mark.parametrize("seed", some(range(1, 21), 4))
@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: v.name)
def test_any_order_gives_the_same_points(variant: Variant, seed: int) -> None:
    _check(open_device("host", seed=seed), variant, inputs_of("bezier", {"curves": 90}, seed))


@pytest.mark.parametrize("variant", CHILDREN, ids=lambda v: v.name)
def test_too_small_a_pool_is_reported(variant: Variant) -> None:
    device = open_device("host")
    device.set_limit("pending_launches", 60)
    ready = prepared(device, variant, {}, inputs_of("bezier", {"curves": 100}))
    _, children = solve(device, ready)
    assert (children.launched, children.refused) == (60, 40)
    with pytest.raises(ChildrenLostError, match="40 of 100 child launches were refused"):
        children.must_be_whole({}, {"pending_launches": 60})


def test_too_small_a_heap_is_reported_and_what_was_taken_is_given_back() -> None:
    device, variant = open_device("host"), get_variant("bezier", "child-launch-malloc")
    inputs = inputs_of("bezier", {"curves": 100})
    needed = 8 * int(points_needed(inputs["control"]).sum())
    device.set_limit("malloc_heap_bytes", needed - 1)
    ready = prepared(device, variant, {}, inputs)
    for _ in range(3):
        _, children = solve(device, ready)
        assert children.allocations + children.allocations_failed == 100
        assert children.allocations_failed > 0
    # The host's heap is of the whole process: it must be as empty as before, or this would not fit.
    del ready
    device.set_limit("malloc_heap_bytes", needed)
    ready = prepared(device, variant, {}, inputs)
    assert solve(device, ready)[1].allocations_failed == 0


def test_limits_are_bounds() -> None:
    from generated import EMPTY

    from spgraph_bench.variants.base import Sizes

    inputs = inputs_of("bezier", {"curves": 200})
    needed = points_needed(inputs["control"])
    for variant in CHILDREN:
        assert variant.limits
        sizes = Sizes(EMPTY, inputs, {"needed": needed}, {"piece": 150, "most_curves": 200}, {})
        result = variant.limits(sizes)
        assert result.pending_launches == 150
        assert result.heap_bytes == 0 or result.heap_bytes > 8 * needed.sum()
