"""Every way to refine a field's cells, on the host always, on a GPU where there is one.

The Makefile runs this file a second time under AddressSanitizer.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from generated import EMPTY, inputs_of, prepared, solve, verdict
from proportion import some

from spgraph_bench.device import open_device
from spgraph_bench.device.base import Device
from spgraph_bench.variants import Variant, get_variant, variants
from spgraph_bench.variants.base import Sizes

VARIANTS = variants("refine")

FIELDS: dict[str, dict[str, Any]] = {
    "coarsest-only": {"depth": 3},
    "one-more": {"depth": 4, "fronts": 1},
    "one-front": {"depth": 7, "fronts": 1},
    "many-fronts": {"depth": 5, "fronts": 40},
    "flat": {"tolerance": 1e6},
    "to-the-end-everywhere": {"depth": 5, "tolerance": 1e-9, "fronts": 30},
}


def _check(
    device: Device, variant: Variant, options: dict[str, Any], inputs: dict[str, np.ndarray], runs: int = 2
) -> None:
    ready = prepared(device, variant, options, inputs)
    for _ in range(runs):  # nothing may be left over from the run before
        output, children = solve(device, ready)
        result = verdict(variant, options, inputs, output)
        assert result.ok, result.message
        assert (children.refused, children.failed) == (0, 0)


@pytest.mark.parametrize("name", FIELDS)
@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: v.name)
def test_battery(device: Device, variant: Variant, name: str) -> None:
    _check(device, variant, FIELDS[name], inputs_of("refine", FIELDS[name], 3))


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: v.name)
def test_a_variation_of_just_the_tolerance_does_not_split(device: Device, variant: Variant) -> None:
    """A front far wider than the square, so that no value is cut off; the tolerance is the variation of one
    cell to the last bit."""
    from spgraph_bench.problems.refine import field_values

    front = np.array([[0.5, 0.5, 0.5, 0.25, 1.0]])
    position = np.arange(3) / 16
    v = field_values(front, position[None, :], position[:, None])
    tolerance = float(v.max() - v.min())
    options = {"fronts": 1, "depth": 4, "tolerance": tolerance}
    output, _ = solve(device, prepared(device, variant, options, {"fronts": front}))
    assert 64 in output  # the cell at the corner
    below = {**options, "tolerance": float(np.nextafter(tolerance, 0))}
    output, _ = solve(device, prepared(device, variant, below, {"fronts": front}))
    assert 64 not in output


@pytest.mark.parametrize("seed", some(range(1, 21), 4))
@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: v.name)
def test_any_order_gives_the_same_cells(variant: Variant, seed: int) -> None:
    device, options = open_device("host", seed=seed), {"depth": 5, "fronts": 3}
    if variant.limits:  # with a pool of just the bound nothing is refused
        bound = variant.limits(Sizes(EMPTY, {}, {}, {}, options)).pending_launches
        device.set_limit("pending_launches", bound)
    _check(device, variant, options, inputs_of("refine", options, seed), 1)


def test_too_small_a_pool_is_reported() -> None:
    device, options = open_device("host"), {"depth": 6}
    device.set_limit("pending_launches", 5)
    ready = prepared(device, get_variant("refine", "child-launch"), options, inputs_of("refine", options))
    _, children = solve(device, ready)
    assert children.launched > 0
    assert children.refused > 0
