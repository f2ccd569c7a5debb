"""`spgraph bench bezier`, `quadtree` and `refine`: options, facts, limits and refusals, by the command."""

from __future__ import annotations

import json
from typing import Any

import pytest

from spgraph_bench.variants import variants
from tests.test_cli_main import spgraph

pytestmark = pytest.mark.slow

BENCH = ("--device", "host", "--no-save", "--time-limit", "0.1", "--in-process")
SMALL = {"bezier": ("--curves", "40"), "quadtree": ("--points", "0.3k", "--leaf", "5"), "refine": ("--depth", "4")}


def _records(*args: str, status: int = 0) -> dict[str, Any]:
    done = spgraph("bench", *args, *BENCH, "--json")
    assert done.returncode == status, done.stderr
    return {found["variant"]: found for found in map(json.loads, done.stdout.splitlines())}


@pytest.mark.parametrize("problem", SMALL)
def test_every_variant_is_a_record(problem: str) -> None:
    found = _records(problem, *SMALL[problem])
    assert set(found) == {v.name for v in variants(problem)}
    for variant in variants(problem):
        kept = found[variant.name]
        assert kept["status"] == "ok", kept["reason"]
        assert kept["facts"]
        launched = (kept["children"] or {}).get("launched", 0)
        assert (launched > 0) == (variant.limits is not None)
        assert kept["bytes"]["device"] > 0
    assert len({kept["matrix"]["sha256"] for kept in found.values()}) == 1


def test_facts_of_curves() -> None:
    found = _records("bezier", "--curves", "300", "--straight", "70")
    adaptive = {kept["facts"]["points"] for name, kept in found.items() if name != "uniform"}
    assert len(adaptive) == 1
    points = adaptive.pop()
    assert found["uniform"]["facts"] == {"points": 300 * 256, "saved": "1.0x"}
    assert found["flattened"]["facts"]["saved"] == f"{300 * 256 / points:.1f}x"
    # The rate counts the points that this variant wrote.
    assert found["uniform"]["operations"] == 300 * 256
    assert found["flattened"]["operations"] == points
    assert found["child-launch-malloc"]["children"]["allocations"] == 300


def test_options_reach_the_problem() -> None:
    found = _records("quadtree", "--points", "300", "--shape", "equal", "--depth", "3", "--variant", "flattened")
    assert found["flattened"]["facts"] == {"deepest": 3, "nodes": 13}
    found = _records("refine", "--tolerance", "1e6", "--variant", "host-driven")
    assert found["host-driven"]["facts"] == {"cells": 64}


def test_refused_launches_and_allocations_are_failures() -> None:
    found = _records("bezier", "--curves", "70", "--pending-launches", "60", status=1)
    assert {n for n, kept in found.items() if kept["status"] == "failed"} == {
        "child-launch-malloc",
        "child-launch-preallocated",
    }
    reason = found["child-launch-malloc"]["reason"]
    assert "10 of 70 child launches were refused (pending-launch pool 60" in reason
    found = _records("bezier", "--curves", "70", "--heap", "2000", "--variant", "*malloc", status=1)
    assert "of 70 allocations on the device failed (heap 2" in found["child-launch-malloc"]["reason"]
    found = _records("refine", "--pending-launches", "2", "--depth", "5", "--variant", "child*", status=1)
    assert "child launches were refused" in found["child-launch"]["reason"]


def test_as_many_allocations_as_take_their_time_are_not_tried() -> None:
    found = _records("bezier", "--curves", "50", "--param", "most_curves=49")
    assert found["child-launch-malloc"]["status"] == "skipped"
    assert "50 allocations" in found["child-launch-malloc"]["reason"]
    assert found["child-launch-preallocated"]["status"] == "ok"


def test_bad_options_are_usage_errors() -> None:
    for args, message in [
        (("bezier", "--straight", "80", "--bent", "21"), "more than all"),
        (("quadtree", "--shape", "round"), "uniform, clustered, line, equal"),
        (("refine", "--depth", "2"), "from 3 to 12"),
    ]:
        done = spgraph("bench", *args, *BENCH)
        assert done.returncode == 2
        assert message in done.stderr
