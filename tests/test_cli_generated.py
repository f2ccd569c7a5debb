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
    return {data["variant"]: data for data in map(json.loads, done.stdout.splitlines())}


@pytest.mark.parametrize("problem", SMALL)
def test_every_variant_is_a_record(problem: str) -> None:
    records = _records(problem, *SMALL[problem])
    assert set(records) == {v.name for v in variants(problem)}
    for variant in variants(problem):
        record = records[variant.name]
        assert record["status"] == "ok", record["reason"]
        assert record["facts"]
        launched = (record["children"] or {}).get("launched", 0)
        assert (launched > 0) == (variant.limits is not None)
        assert record["bytes"]["device"] > 0
    assert len({record["matrix"]["sha256"] for record in records.values()}) == 1


def test_facts_of_curves() -> None:
    records = _records("bezier", "--curves", "300", "--straight", "70")
    adaptive = {record["facts"]["points"] for name, record in records.items() if name != "uniform"}
    assert len(adaptive) == 1
    points = adaptive.pop()
    assert records["uniform"]["facts"] == {"points": 300 * 256, "saved": "1.0x"}
    assert records["flattened"]["facts"]["saved"] == f"{300 * 256 / points:.1f}x"
    # The rate counts the points that this variant wrote.
    assert records["uniform"]["operations"] == 300 * 256
    assert records["flattened"]["operations"] == points
    assert records["child-launch-malloc"]["children"]["allocations"] == 300


def test_options_reach_the_problem() -> None:
    records = _records("quadtree", "--points", "300", "--shape", "equal", "--depth", "3", "--variant", "flattened")
    assert records["flattened"]["facts"] == {"deepest": 3, "nodes": 13}
    records = _records("refine", "--tolerance", "1e6", "--variant", "host-driven")
    assert records["host-driven"]["facts"] == {"cells": 64}


def test_refused_launches_and_allocations_are_failures() -> None:
    records = _records("bezier", "--curves", "70", "--pending-launches", "60", status=1)
    assert {n for n, record in records.items() if record["status"] == "failed"} == {
        "child-launch-malloc",
        "child-launch-preallocated",
    }
    reason = records["child-launch-malloc"]["reason"]
    assert "10 of 70 child launches were refused (pending-launch pool 60" in reason
    records = _records("bezier", "--curves", "70", "--heap", "2000", "--variant", "*malloc", status=1)
    assert "of 70 allocations on the device failed (heap 2" in records["child-launch-malloc"]["reason"]
    records = _records("refine", "--pending-launches", "2", "--depth", "5", "--variant", "child*", status=1)
    assert "child launches were refused" in records["child-launch"]["reason"]


def test_as_many_allocations_as_take_their_time_are_not_tried() -> None:
    records = _records("bezier", "--curves", "50", "--param", "most_curves=49")
    assert records["child-launch-malloc"]["status"] == "skipped"
    assert "50 allocations" in records["child-launch-malloc"]["reason"]
    assert records["child-launch-preallocated"]["status"] == "ok"


def test_bad_options_are_usage_errors() -> None:
    for args, message in [
        (("bezier", "--straight", "80", "--bent", "21"), "more than all"),
        (("quadtree", "--shape", "round"), "uniform, clustered, line, equal"),
        (("refine", "--depth", "2"), "from 3 to 12"),
    ]:
        done = spgraph("bench", *args, *BENCH)
        assert done.returncode == 2
        assert message in done.stderr
