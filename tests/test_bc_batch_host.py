"""Betweenness in batches: every mode against the battery of graphs, and what a batch is in records."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from battery import matrix
from commands import spgraph
from test_bc_host import GRAPHS, _own, _right

from spgraph_bench.device import open_device
from spgraph_bench.device.base import Device
from spgraph_bench.formats import get_format
from spgraph_bench.problems.bc import check_dependencies
from spgraph_bench.problems.bc_batch import BCBatch
from spgraph_bench.problems.sources import batches, pattern_is_symmetric
from spgraph_bench.runner.prepare import Prepared, prepare
from spgraph_bench.validate import make_validator
from spgraph_bench.variants import Variant, get_variant, variants

MODES = variants("bc-batch")
FLOAT64 = np.dtype(np.float64)
COUNTS = (1, 3, 5)
"""Sources of the battery: emulated, a source takes as long as in a run of its own."""
LONG = [*_own(), "chain", "one-long-row", "layers-of-about-a-warp"]
"""Graphs of many levels, each of which is a pass over all vertices."""


def _sources(name: str, count: int) -> npt.NDArray[np.int32]:
    a, first = GRAPHS[name]
    drawn = np.random.default_rng(count).integers(0, a.rows, count).astype(np.int32)
    drawn[: min(len(first), count)] = first[:count]
    return drawn


def _prepare(
    device: Device, mode: Variant, name: str, sources: npt.NDArray[np.int32], offsets: str = "int32", **params: Any
) -> Prepared:
    if mode.missing and (reason := mode.missing(device)):
        pytest.skip(reason)
    a = GRAPHS[name][0]
    whole = matrix(a)
    a = dataclasses.replace(a, symmetric=pattern_is_symmetric(whole))
    form = get_format(mode.format)
    own = {k: v for k, v in params.items() if k in form.tunables}
    packed = form.pack(a, FLOAT64, np.dtype(offsets), **own)
    width = min(64, len(sources))
    outputs = BCBatch(width).output_arrays(whole, FLOAT64)
    return prepare(device, mode, packed, {"sources": batches(sources, width)}, outputs, params)


def _check(device: Device, mode: Variant, name: str, count: int, offsets: str = "int32", **params: Any) -> None:
    sources = _sources(name, count)
    prepared = _prepare(device, mode, name, sources, offsets, **params)
    rows = batches(sources, min(64, count))
    # The first once more at the end, on the outputs of another one, not poison: nothing may be left over.
    for turn, case in enumerate((*range(len(rows)), 0)):
        prepared.launch.select(case)
        if turn < len(rows):
            prepared.launch.reset()
        prepared.launch.run()
        device.synchronize()
        output = prepared.launch.output()
        wanted = rows[case][rows[case] >= 0].tolist()
        assert output.shape == (len(wanted), GRAPHS[name][0].rows)
        for source, dependency in zip(wanted, output, strict=True):
            right = _right(name, source)
            result = check_dependencies(dependency, right.dependency, right.tolerance)
            assert result.ok, f"source {source}: {result.message}"


@pytest.mark.parametrize("name", [name for name in GRAPHS if name != "too-far-apart"])
@pytest.mark.parametrize("mode", MODES, ids=lambda v: v.name)
def test_battery(device: Device, mode: Variant, name: str) -> None:
    count = COUNTS[(list(GRAPHS).index(name) + MODES.index(mode)) % len(COUNTS)]
    _check(device, mode, name, 1 if device.kind == "host" and name in LONG else count)


@pytest.mark.parametrize("count", [63, 64, 65, 130])
@pytest.mark.parametrize("mode", MODES, ids=lambda v: v.name)
def test_any_number_of_sources(device: Device, mode: Variant, count: int) -> None:
    _check(device, mode, "complete-bipartite", count)


@pytest.mark.parametrize("name", ["skewed-directed", "in-edges-matter", "isolated-source"])
@pytest.mark.parametrize("mode", MODES, ids=lambda v: v.name)
def test_int64_offsets_and_relabelling(device: Device, mode: Variant, name: str) -> None:
    _check(device, mode, name, 3, "int64", reorder="degree")


# complete-bipartite has rows of 64.
@pytest.mark.parametrize("name", ["skewed", "skewed-directed", "two-hubs-sharing-leaves", "complete-bipartite"])
@pytest.mark.parametrize("params", [{"shared_row": 64, "rows": 1}, {"shared_row": 64, "rows": 8, "block": 64}], ids=str)
def test_rows_that_warps_share(device: Device, params: dict[str, Any], name: str) -> None:
    _check(device, get_variant("bc-batch", "multi-source"), name, 34, **params)


def test_each_source_has_its_own_scale(device: Device) -> None:
    """9^340 paths from one source in a level to which another one has a single path."""
    graph, _ = GRAPHS["diamonds"]
    end = graph.rows - 41  # the last diamond's; then comes the chain
    prepared = _prepare(device, get_variant("bc-batch", "multi-source"), "diamonds", np.array([0, end], np.int32))
    prepared.launch.reset()
    prepared.launch.run()
    device.synchronize()
    for source, dependency in zip((0, end), prepared.launch.output(), strict=True):
        right = _right("diamonds", source)
        assert check_dependencies(dependency, right.dependency, right.tolerance).ok


def test_what_cannot_be_kept_is_never_wrong_in_silence(device: Device) -> None:
    prepared = _prepare(device, get_variant("bc-batch", "multi-source"), "too-far-apart", np.array([0], np.int32))
    prepared.launch.reset()
    prepared.launch.run()
    device.synchronize()
    right = _right("too-far-apart", 0)
    (dependency,) = prepared.launch.output()
    assert not check_dependencies(dependency, right.dependency, right.tolerance).ok
    assert not np.isfinite(dependency).all()


@pytest.mark.parametrize("seed", [2, 3])
def test_any_schedule_gives_the_same(seed: int) -> None:
    device = open_device("host", seed=seed)
    try:
        _check(device, get_variant("bc-batch", "multi-source"), "skewed", 5, shared_row=64)
    finally:
        device.close()


def test_a_run_does_as_much_as_the_run_before() -> None:
    """What one has counted, such as strips of long rows, the next one counts anew: else it would do them twice."""
    device = open_device("host")
    try:
        for mode in MODES:
            prepared = _prepare(device, mode, "skewed", np.arange(3, dtype=np.int32), strip=64, alpha=1e9)
            done = []
            for _ in range(3):
                device.reset_counters()
                prepared.launch.run()
                device.synchronize()
                done.append(device.counters())
            assert done[0] == done[1] == done[2]
    finally:
        device.close()


def test_wrong_dependencies_are_found_in_any_row() -> None:
    a, _ = GRAPHS["skewed"]
    whole = matrix(a)
    whole = dataclasses.replace(whole, csr=dataclasses.replace(a, symmetric=True))
    inputs = {"sources": batches(np.arange(5, dtype=np.int32), 3), "everything": np.array([False])}
    problem = BCBatch(3)
    oracle = problem.oracle(whole, inputs, FLOAT64)
    validator = make_validator(problem, whole.csr, open_device("host"), FLOAT64, inputs)
    assert validator is not None
    for case, row in ((0, 2), (1, 1)):
        mine = problem.sources_of(case, inputs)
        output = np.stack([_right("skewed", s).dependency for s in mine])
        result, known = problem.check_case(case, output, whole.csr, inputs, oracle)
        assert result.ok
        assert known == len(mine)
        v = int(np.argmax(output[row]))
        output[row, v] *= 1 + 1e-9
        result, _ = problem.check_case(case, output, whole.csr, inputs, oracle)
        assert not result.ok
        assert result.message.startswith(f"from source {mine[row]}: ")
        wrong = [not validator.check(o, s).result.ok for o, s in zip(problem.answers_of(output), mine, strict=True)]
        assert np.flatnonzero(wrong).tolist() == [row]


def test_a_batch_adds_up_to_what_its_sources_do() -> None:
    arguments = ("rmat:scale=7,symmetrize=1", "--sources", "6", "--device", "host", "--json", "--no-save")
    apart = json.loads(spgraph("bc", *arguments).stdout.splitlines()[0])
    batch = json.loads(spgraph("bc", *arguments, "--batch").stdout.splitlines()[0])
    (case,) = batch["cases"]
    assert case["sources"] == len(apart["cases"]) == 6
    for name in ("edges", "reached"):
        assert case[name] == sum(each[name] for each in apart["cases"])
    assert case["levels"] == max(each["levels"] for each in apart["cases"])
    assert batch["check"]["by_validator"] == batch["check"]["by_oracle"] == 6
    ours, theirs = batch["result"]["table"]["rows"], apart["result"]["table"]["rows"]
    assert [row[0] for row in ours] == [row[0] for row in theirs]
    assert [row[1] for row in ours] == pytest.approx([row[1] for row in theirs], rel=1e-12)
    assert batch["result"]["sources"] == 6
