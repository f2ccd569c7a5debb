"""BFS in batches: every mode against the battery of graphs, and what a batch is on the command line and in records."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from battery import csr, matrix
from commands import spgraph
from graph_battery import graphs
from proportion import in_turn

from spgraph_bench.device import open_device
from spgraph_bench.device.base import Device
from spgraph_bench.formats import get_format
from spgraph_bench.matrix import CSR
from spgraph_bench.problems import get_problem
from spgraph_bench.problems.bfs_batch import BFSBatch
from spgraph_bench.problems.sources import batches, pattern_is_symmetric, plain_levels
from spgraph_bench.runner.on_device.judging import Judge
from spgraph_bench.runner.prepare import Prepared, prepare
from spgraph_bench.runner.verify import fresh_cases
from spgraph_bench.validate import make_validator
from spgraph_bench.variants import Variant, get_variant, variants

MODES = variants("bfs-batch")
INT32 = np.dtype(np.int32)
COUNTS = (1, 3, 63, 64, 65, 130)


def _sources(graph: CSR, first: tuple[int, ...], count: int) -> npt.NDArray[np.int32]:
    """`count` sources, those of the battery among them: some are repeated, since small graphs have fewer vertices."""
    drawn = np.random.default_rng(count).integers(0, graph.rows, count).astype(np.int32)
    drawn[: min(len(first), count)] = first[:count]
    return drawn


def _prepare(
    device: Device, mode: Variant, a: CSR, sources: npt.NDArray[np.int32], offsets: str = "int32", **params: Any
) -> Prepared:
    if mode.missing and (reason := mode.missing(device)):
        pytest.skip(reason)
    whole = matrix(a)
    a = dataclasses.replace(a, symmetric=pattern_is_symmetric(whole))
    form = get_format(mode.format)
    own = {k: v for k, v in params.items() if k in form.tunables}
    packed = form.pack(a, INT32, np.dtype(offsets), **own)
    width = min(64, len(sources))
    problem = BFSBatch(width)
    return prepare(
        device, mode, packed, {"sources": batches(sources, width)}, problem.output_arrays(whole, INT32), params
    )


def _output(device: Device, prepared: Prepared, case: int, poisoned: bool = True) -> npt.NDArray[np.int32]:
    prepared.launch.select(case)
    if poisoned:
        prepared.launch.reset()
    prepared.launch.run()
    device.synchronize()
    output: npt.NDArray[np.int32] = prepared.launch.output()
    return output


def _check(device: Device, mode: Variant, name: str, count: int, offsets: str = "int32", **params: Any) -> None:
    a, first = graphs()[name]
    sources = _sources(a, first, count)
    prepared = _prepare(device, mode, a, sources, offsets, **params)
    rows = batches(sources, min(64, count))
    right = {int(s): plain_levels(a, int(s)) for s in sources}
    # The first once more at the end, on the outputs of another one, not poison: nothing may be left over.
    for turn, case in enumerate((*range(len(rows)), 0)):
        output = _output(device, prepared, case, turn < len(rows))
        wanted = rows[case][rows[case] >= 0]
        assert output.shape == (len(wanted), a.rows)
        for source, level in zip(wanted.tolist(), output, strict=True):
            assert np.array_equal(level, right[source]), f"source {source}"


@pytest.mark.parametrize("name", graphs())
@pytest.mark.parametrize("mode", MODES, ids=lambda v: v.name)
def test_battery(device: Device, mode: Variant, name: str) -> None:
    _check(device, mode, name, COUNTS[(list(graphs()).index(name) + MODES.index(mode)) % len(COUNTS)])


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("mode", MODES, ids=lambda v: v.name)
def test_any_number_of_sources(device: Device, mode: Variant, count: int) -> None:
    _check(device, mode, "random-directed", count)


@pytest.mark.parametrize("name", ["hub-of-5000", "skewed-directed", "roots-that-are-not-reached", "isolated-source"])
@pytest.mark.parametrize("mode", MODES, ids=lambda v: v.name)
def test_int64_offsets_and_relabelling(device: Device, mode: Variant, name: str) -> None:
    _check(device, mode, name, 65, "int64", reorder="degree")


@pytest.mark.parametrize("name", ["isolated-source", "roots-that-are-not-reached", "sink-source", "one-edge-each"])
def test_levels_of_a_search_in_turn_begin_anywhere(device: Device, name: str) -> None:
    """Not at a multiple of 16 bytes; what no search reaches keeps the level that it begins with."""
    _check(device, get_variant("bfs-batch", "auto-in-turn"), name, 5, busiest=1, alpha=1e9)


WAYS: list[dict[str, Any]] = [
    {"alpha": 0.0},  # always top-down
    {"alpha": 0.0, "small_vertices": 1024, "small_edges": 10**9},  # the block alone, but where a digit is new
    {"alpha": 1e9, "strip": 64},  # always bottom-up, long rows in strips
    {"alpha": 1e9, "rounds": 0, "team_row": 0, "flight": 4},  # all rows by warps
    {"alpha": 1e9, "rounds": 0, "team_row": 128, "flight": 1},  # short ones by eight lanes
    {"alpha": 1.0, "turn": 0.0, "block": 64},  # to and fro
    {"alpha": 3.0, "turn": 0.0, "small_vertices": 8, "strip": 64},
]


@pytest.mark.parametrize(
    ("params", "name"),
    in_turn(
        [(params,) for params in WAYS for _ in range(2)],
        ["skewed", "star-of-chains", "two-hubs-sharing-leaves", "directed-bush", "in-edges-matter", "one-long-row"],
    ),
    ids=str,
)
def test_every_way_through_multi_source(device: Device, params: dict[str, Any], name: str) -> None:
    _check(device, get_variant("bfs-batch", "multi-source"), name, 64, **params)


@pytest.mark.parametrize("params", [{}, {"small_vertices": 1024}, {"alpha": 1e9, "turn": 0.0}], ids=str)
def test_levels_of_many_digits(device: Device, params: dict[str, Any]) -> None:
    """300 levels: nine digits, each of which a level is the first to need."""
    _check(device, get_variant("bfs-batch", "multi-source"), "chain", 3, **params)


@pytest.mark.parametrize("seed", [2, 3])
@pytest.mark.parametrize("params", [{}, {"small_vertices": 1024, "alpha": 0.0}, {"alpha": 1e9, "strip": 64}], ids=str)
def test_any_schedule_gives_the_same_levels(seed: int, params: dict[str, Any]) -> None:
    device = open_device("host", seed=seed)
    try:
        for name in ("skewed", "star-of-chains", "hub-of-5000"):
            _check(device, get_variant("bfs-batch", "multi-source"), name, 20, **params)
    finally:
        device.close()


def test_searches_share_what_they_look_at() -> None:
    """A vertex that all sources find in one level is claimed once for all of them."""
    device = open_device("host")
    try:
        a, _ = graphs()["hub-of-5000"]
        sources = np.arange(1, 33, dtype=np.int32)  # leaves: all others are found from the hub, in level 2
        claims = {}
        for mode in MODES:
            prepared = _prepare(device, mode, a, sources, alpha=0.0)
            device.reset_counters()
            _output(device, prepared, 0)
            counted = device.counters()
            assert counted is not None
            claims[mode.name] = counted["claims"]
        assert claims["auto-in-turn"] >= 32 * 5000  # each search claims each vertex but its source
        assert 5000 <= claims["multi-source"] < 5000 + 100
    finally:
        device.close()


def test_a_run_does_as_much_as_the_run_before() -> None:
    """What one has counted, such as strips of long rows, the next one counts anew: else it would do them twice."""
    device = open_device("host")
    try:
        a, _ = graphs()["skewed"]
        sources = np.arange(20, dtype=np.int32)
        for mode in MODES:
            prepared = _prepare(device, mode, a, sources, strip=64, busiest=1, alpha=1e9)
            done = []
            for _ in range(3):
                device.reset_counters()
                _output(device, prepared, 0)
                done.append(device.counters())
            assert done[0] == done[1] == done[2]
    finally:
        device.close()


def test_steps_are_levels_and_the_writing() -> None:
    device = open_device("host")
    try:
        a, _ = graphs()["chain"]
        prepared = _prepare(device, get_variant("bfs-batch", "multi-source"), a, np.array([0, 299], np.int32))
        assert prepared.launch.steps is not None
        steps = prepared.launch.steps()
        assert [s["level"] for s in steps] == [*range(300), 300]
        assert [s["vertices"] for s in steps[:3]] == [2, 2, 2]
        assert steps[-1] == {"level": 300, "how": "levels written", "vertices": None, "ms": None}
    finally:
        device.close()


# ---- the check ---------------------------------------------------------------------------------------------


def test_wrong_levels_are_found_in_any_row() -> None:
    a, first = graphs()["skewed"]
    whole = matrix(a)
    whole = dataclasses.replace(whole, csr=dataclasses.replace(a, symmetric=True))
    sources = batches(_sources(a, first, 130), 64)
    problem, inputs = BFSBatch(64), {"sources": sources}
    oracle = problem.oracle(whole, inputs, INT32)
    validator = make_validator(problem, whole.csr, open_device("host"), INT32, inputs)
    assert validator is not None
    for case, place in ((0, (63, 5)), (1, (0, 17)), (2, (1, 599))):
        mine = problem.sources_of(case, inputs)
        output = np.stack([plain_levels(a, s) for s in mine])
        result, known = problem.check_case(case, output, whole.csr, inputs, oracle)
        assert result.ok
        assert known == len(mine)
        assert all(validator.check(o, s).result.ok for o, s in zip(output, mine, strict=True))
        output[place] += 1
        result, _ = problem.check_case(case, output, whole.csr, inputs, oracle)
        assert not result.ok
        assert f"from source {mine[place[0]]:,}: " in result.message
        answers = problem.answers_of(output)
        wrong = [not validator.check(o, s).result.ok for o, s in zip(answers, mine, strict=True)]
        assert np.flatnonzero(wrong).tolist() == [place[0]]
    short = np.stack([plain_levels(a, s) for s in problem.sources_of(0, inputs)[:63]])
    assert not problem.check_case(0, short, whole.csr, inputs, oracle)[0].ok  # a source's levels are missing
    swapped = np.stack([plain_levels(a, s) for s in problem.sources_of(0, inputs)])[::-1]
    assert not problem.check_case(0, swapped, whole.csr, inputs, oracle)[0].ok


def plain(n: int) -> CSR:
    """A circle of `n` vertices, in one direction."""
    return csr(n, n, np.arange(n), (np.arange(n) + 1) % n, None)


def test_the_source_of_a_batch_may_have_a_name() -> None:
    """A sweep knows it by its name before it has read the graph."""
    for name in ("bfs-batch", "bc-batch"):
        assert get_problem(name, {"source": "b"}).width == 1  # type: ignore[attr-defined]


def test_shape_is_compared_where_no_oracle_knows_the_batch() -> None:
    a, _ = graphs()["random"]
    problem, inputs = BFSBatch(2), {"sources": batches(np.arange(2, dtype=np.int32), 2)}
    oracle = problem.oracle(matrix(a), inputs, INT32, check_seconds=0)
    assignment: Any = SimpleNamespace(problem=problem, csr=a)
    cell: Any = None
    result, by, _ = Judge(assignment).result_of_case(cell, 0, np.zeros((3, a.rows), np.int32), inputs, oracle)
    assert result.message.startswith("answers are int32 [3, ")
    assert not by


def test_fresh_batches_are_new_and_whole() -> None:
    a, _ = graphs()["random"]
    sources = batches(np.arange(64, dtype=np.int32), 64)
    fresh = fresh_cases(a, sources)
    assert fresh.shape == (3, 64)
    assert not set(fresh.ravel().tolist()) & set(range(64))
    small, _ = graphs()["complete"]  # of 60 vertices: a batch takes all of them
    few = batches(np.arange(58, dtype=np.int32), 64)
    fresh = fresh_cases(small, few)
    assert fresh.shape == (3, 64)
    for row in fresh:
        assert (row[:58] >= 0).all()
        assert (row[58:] == -1).all()
        assert set(row.tolist()) & {58, 59}
    for a, width, there in ((plain(3), 1, 2), (plain(3), 2, 3), (small, 1, 3), (small, 59, 3)):
        fresh = fresh_cases(a, batches(np.arange(width, dtype=np.int32), width))
        assert fresh.shape == (there, width)
        assert all(len(set(row.tolist())) == width and max(row) >= width for row in fresh)
    spare = fresh_cases(small, batches(np.arange(3, dtype=np.int32), 8))  # no more than there are sources
    assert (spare >= 0).sum(axis=1).tolist() == [3, 3, 3]
    few = batches(np.arange(4, dtype=np.int32), 64)  # and many others: a batch has as many as the first
    fresh = fresh_cases(a, few)
    assert ((fresh >= 0).sum(axis=1) == 4).all()
    assert len(set(fresh[fresh >= 0].tolist()) - {0, 1, 2, 3}) == 12
    alone, _ = graphs()["one-vertex"]
    assert len(fresh_cases(alone, batches(np.zeros(1, np.int32), 1))) == 0


# ---- commands ----------------------------------------------------------------------------------------------


def test_bench_has_a_batch_in_each_run() -> None:
    done = spgraph(
        "bench", "bfs", "rmat:scale=8,symmetrize=1", "--batch", "--sources", "70", "--device", "host", "--json"
    )
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert {r["problem"] for r in records} == {"bfs-batch"}
    assert {r["variant"] for r in records} == {v.name for v in MODES}
    for record in records:
        assert [case["sources"] for case in record["cases"]] == [64, 6]
        assert record["check"]["by_validator"] == record["check"]["by_oracle"] == 70
    one, other = records[0]["cases"], records[1]["cases"]
    assert [c["edges"] for c in one] == [c["edges"] for c in other]


@pytest.mark.parametrize("problem", ["bfs", "bc"])
def test_fewer_sources_than_a_batch_has_places(problem: str, tmp_path: Path) -> None:
    (file := tmp_path / "few.txt").write_text("0 1\n0 2\n0 3\n")  # the others have no out-edge
    done = spgraph("bench", problem, str(file), "--batch", "--sources", "4", "--device", "host", "--json")
    assert {json.loads(line)["status"] for line in done.stdout.splitlines()} == {"ok"}, done.stderr


@pytest.mark.parametrize("problem", ["bfs", "bc"])
def test_last_batch_is_smaller_and_no_other_vertex_is_left(problem: str) -> None:
    """Verifying runs are then of batches that the run has: each is compared as the batch it was."""
    done = spgraph("bench", problem, "chain:n=66", "--batch", "--sources", "66", "--device", "host", "--json")
    assert {json.loads(line)["status"] for line in done.stdout.splitlines()} == {"ok"}, done.stderr


@pytest.mark.parametrize(
    ("arguments", "sources", "title"),
    [
        ("bfs --batch --source 3", "source 3 in one batch; ", "levels of all sources; events of the first batch"),
        ("bfs --source 3", "source 3: 10 vertices, ", "levels of all sources; edges inspected and events of the first"),
        ("sssp --sources 2", "2 sources (seed 1), ", "events of the first"),
    ],
)
def test_what_a_table_is_of(arguments: str, sources: str, title: str) -> None:
    command, *options = arguments.split()
    shown = spgraph(command, "chain:n=10", *options, "--device", "host").stdout
    assert f"\n{sources}" in shown
    assert f"\nchecked, not timed ({title})\n" in shown


def test_edges_of_all_searches_are_counted() -> None:
    arguments = ("rmat:scale=8,symmetrize=1", "--sources", "6", "--device", "host", "--json")
    apart = json.loads(spgraph("bfs", *arguments).stdout.splitlines()[0])
    batch = json.loads(spgraph("bfs", *arguments, "--batch").stdout.splitlines()[0])
    (case,) = batch["cases"]
    assert case["sources"] == len(apart["cases"]) == 6
    assert case["source"] == apart["cases"][0]["source"]
    for name in ("edges", "reached"):
        assert case[name] == sum(each[name] for each in apart["cases"])
    assert case["levels"] == max(each["levels"] for each in apart["cases"])


@pytest.mark.parametrize(
    ("arguments", "cause"),
    [
        (("--batch", "--mode", "push"), "push has one source in a run"),
        (("--batch", "--parents"), "--parents is for one source in a run"),
        (("--batch", "--tune"), "--tune is for one source in a run"),
        (("--batch", "--plot", "-"), "--plot is for one source in a run"),
        (("--batch", "--trace", "--all-modes"), "--all-modes is for one source in a run"),
        (("--mode", "multi-source"), "multi-source is for batches of sources"),
    ],
)
def test_what_follows_one_source_is_refused(arguments: tuple[str, ...], cause: str) -> None:
    done = spgraph("bfs", "chain:n=10", *arguments, "--device", "host")
    assert done.returncode == 2
    assert f"error: {cause}" in done.stderr
    assert "remedy: " in done.stderr
