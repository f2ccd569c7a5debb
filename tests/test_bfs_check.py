"""The checks of BFS against corrupted results; sources; statistics over sources; the command line."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from battery import csr, matrix
from commands import spgraph
from graph_battery import graphs

from spgraph_bench.cli.main import run
from spgraph_bench.errors import InputError, UsageError
from spgraph_bench.measure.sampling import Entry, Sample, sample_interleaved
from spgraph_bench.measure.stopping import StoppingRule
from spgraph_bench.problems import get_problem
from spgraph_bench.problems.bfs import check_levels, check_tree, plain_parents
from spgraph_bench.problems.sources import draw_sources, pattern_is_symmetric, plain_levels
from spgraph_bench.recipes import make
from spgraph_bench.report.result import render_result
from spgraph_bench.report.traversal_table import render_trace
from spgraph_bench.results.cases import case_medians, compare_traversals, cycles
from spgraph_bench.results.record import Record, Samples
from spgraph_bench.variants import get_variant
from spgraph_bench.variants.base import Launch
from spgraph_bench.variants.bfs.cpu import levels_of_tree

A, SOURCES = graphs()["grid-graph"]
LEVELS = plain_levels(A, 0)


def _tree(a, level, source):
    """A right tree: the least neighbour one level above."""
    parent = np.full(a.rows, -1, np.int32)
    parent[source] = source
    for u in range(a.rows):
        for v in a.col_idx[a.row_ptr[u] : a.row_ptr[u + 1]]:
            if level[u] >= 0 and level[v] == level[u] + 1 and parent[v] < 0:
                parent[v] = u
    return parent


# ---- levels ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", graphs())
def test_the_oracle_is_what_networkx_finds(name: str) -> None:
    import networkx as nx

    a, sources = graphs()[name]
    graph = nx.DiGraph()
    graph.add_nodes_from(range(a.rows))
    row = np.repeat(np.arange(a.rows), a.row_lengths())
    graph.add_edges_from(zip(row.tolist(), a.col_idx.tolist(), strict=True))
    for source in sources:
        expected = np.full(a.rows, -1)
        for v, depth in nx.single_source_shortest_path_length(graph, source).items():
            expected[v] = depth
        assert np.array_equal(plain_levels(a, source), expected)


@pytest.mark.parametrize(
    ("vertex", "value", "message"),
    [
        (700, 51, "1 of 713 levels wrong, the first is of vertex 700: 51, expected 40"),
        (40, -1, "vertex 40: unreached, expected 10"),
        (0, -2139062144, "vertex 0: -2,139,062,144, expected 0"),
    ],
)
def test_a_wrong_level_is_found(vertex: int, value: int, message: str) -> None:
    broken = LEVELS.copy()
    broken[vertex] = value
    result = check_levels(broken, LEVELS)
    assert not result.ok
    assert message in result.message


def test_an_unreached_vertex_marked_reached_is_found() -> None:
    a, _ = graphs()["disconnected"]
    right = plain_levels(a, 0)
    broken = right.copy()
    broken[250] = 3
    assert "vertex 250: 3, expected unreached" in check_levels(broken, right).message
    assert not check_levels(right.astype(np.int64), right).ok
    assert not check_levels(right[:-1], right).ok
    assert check_levels(right, right).ok


# ---- trees: Graph500's rules -----------------------------------------------------------------------------


def _corrupt(**changes: int):
    parent = _tree(A, LEVELS, 0)
    for vertex, value in changes.items():
        parent[int(vertex[1:])] = value
    return check_tree(A, 0, LEVELS, parent)


def test_right_trees_pass_on_every_graph() -> None:
    for name, (a, sources) in graphs().items():
        level = plain_levels(a, sources[0])
        assert check_tree(a, sources[0], level, _tree(a, level, sources[0])).ok, name


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"v1": 2, "v2": 1}, "rules 1 and 2"),  # a cycle
        ({"v5": 5}, "rules 1 and 2"),  # its own parent
        ({"v40": 41}, "rules 1 and 2"),  # a real edge, but within or down the levels
        ({"v40": -1}, "rule 4"),
        ({"v40": 999_999}, "rule 4"),
        ({"v0": 1}, "rule 1"),
        ({"v712": 370}, "rules 1 and 2"),
    ],
)
def test_a_broken_tree_is_found(changes: dict[str, int], message: str) -> None:
    result = _corrupt(**changes)
    assert not result.ok
    assert message in result.message


def test_a_tree_edge_that_does_not_exist_is_found() -> None:
    v = int(np.flatnonzero(LEVELS == 20)[0])
    neighbours = A.col_idx[A.row_ptr[v] : A.row_ptr[v + 1]]
    stranger = next(int(u) for u in np.flatnonzero(LEVELS == 19) if u not in neighbours)
    result = _corrupt(**{f"v{v}": stranger})
    assert result.message == f"there is no edge {stranger} -> {v} (rule 5)"


def test_levels_that_an_edge_contradicts_are_found() -> None:
    a = csr(4, 4, [0, 1, 2, 0], [1, 2, 3, 3])  # 3 is one step from 0, but is said to be three
    result = check_tree(a, 0, np.array([0, 1, 2, 3], np.int32), np.array([0, 0, 1, 2], np.int32))
    assert "the edge 0 -> 3 leads from level 0 to 3 (rule 3)" in result.message
    outside = np.array([0, 1, 2, -1], np.int32)
    assert "to unreached (rule 3)" in check_tree(a, 0, outside, np.array([0, 0, 1, -1], np.int32)).message


# ---- sources ---------------------------------------------------------------------------------------------


def _graph(a):
    return dataclasses.replace(a, symmetric=pattern_is_symmetric(matrix(a)))


def test_sources_have_edges_and_are_of_the_largest_component() -> None:
    two = _graph(csr(50, 50, [*range(9), *range(1, 10), 20, 21, 30], [*range(1, 10), *range(9), 21, 20, 30]))
    assert sorted(draw_sources(two, 1)) == list(range(10))
    assert sorted(draw_sources(two, 1, component="any")) == [*range(10), 20, 21]  # 30 has a self-loop only
    drawn = draw_sources(two, 7, sources=5)
    assert len(set(drawn.tolist())) == 5
    assert drawn.tolist() != draw_sources(two, 8, sources=5).tolist()
    assert drawn.tolist() == draw_sources(two, 7, sources=5).tolist()
    assert draw_sources(two, 7, sources=3).tolist() == drawn[:3].tolist()  # more sources only add some
    assert draw_sources(two, 1, source=30).tolist() == [30]


def test_drawn_sources_are_the_same_everywhere() -> None:
    from spgraph_bench.recipes import make

    assert draw_sources(_graph(make("grid:n=30").csr), 1, sources=4).tolist() == [460, 855, 131, 853]


def test_directed_sources_have_out_edges() -> None:
    a = _graph(graphs()["sink-source"][0])
    assert sorted(draw_sources(a, 1)) == [1, 2, 3]


@pytest.mark.parametrize(
    ("a", "options", "error", "message"),
    [
        (csr(0, 0, [], []), {}, InputError, "0 x 0\n  remedy: take a graph of one vertex or more"),
        (csr(0, 0, [], []), {"source": 0}, InputError, "no vertex to start from"),
        (csr(2, 3, [0], [1]), {}, InputError, "2 x 3"),
        (csr(3, 3, [1], [1]), {}, InputError, "no vertex has an edge to another one"),
        (csr(3, 3, [1], [2]), {"source": 3}, UsageError, "there is no vertex 3"),
    ],
)
def test_impossible_sources(a, options, error, message) -> None:
    with pytest.raises(error, match=message):
        draw_sources(_graph(a), 1, **options)


def test_a_tree_is_checked_in_blocks_of_edges() -> None:
    """All together took 20 bytes an edge: 42 GB of 2^31."""
    a = make("rmat:scale=16,edgefactor=24,symmetrize=1").csr
    level = plain_levels(a, 0)
    parent = plain_parents(a, 0, level)
    tracemalloc.start()
    try:
        assert check_tree(a, 0, level, parent).ok
        assert tracemalloc.get_traced_memory()[1] < 10 * a.nnz
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("name", "halves"), [("skewed", 2), ("skewed-directed", 1)])
def test_edges_count_undirected_ones_once_and_no_loops(name: str, halves: int) -> None:
    bfs = get_problem("bfs")
    whole = dataclasses.replace(matrix(_graph(graphs()[name][0])))
    inputs = bfs.inputs(whole, np.dtype(np.int32), 1, sources=1)
    oracle = bfs.oracle(whole, inputs, np.dtype(np.int32))
    facts = bfs.describe_case(0, oracle["levels"][0], whole.csr, inputs, oracle)
    reached = oracle["levels"][0] >= 0
    row = np.repeat(np.arange(whole.csr.rows), whole.csr.row_lengths())
    arcs = np.sum(reached[row] & (row != whole.csr.col_idx))
    assert facts["edges"] * halves == arcs
    assert facts["reached"] == reached.sum()


def test_levels_from_a_breadth_first_order() -> None:
    import scipy.sparse as sp
    from scipy.sparse.csgraph import breadth_first_order

    for a, sources in graphs().values():
        graph = sp.csr_array((np.ones(a.nnz), a.col_idx, a.row_ptr), shape=a.shape)
        order, parent = breadth_first_order(graph, sources[0])
        assert np.array_equal(levels_of_tree(order, parent, a.rows), plain_levels(a, sources[0]))


# ---- timing several cases --------------------------------------------------------------------------------


class _Clock:
    name = "cpu"
    evict_bytes = 0

    def __init__(self, bad: tuple[int, ...] = ()) -> None:
        self.taken, self.bad = 0, bad

    def gates(self, launch: Launch) -> bool:
        return False

    def sample(self, launch: Launch, cache: str) -> Sample:
        self.taken += 1
        launch.run()
        return Sample(self.now, valid=self.taken not in self.bad, reason="throttled")

    now = 0.0


def _sampled(limit: float, bad: tuple[int, ...] = (), cases: int = 3) -> Samples:
    clock, chosen = _Clock(bad), []
    ticks = iter(range(10**6))

    def run() -> None:
        clock.now = 1.0 + chosen[-1]

    launch = Launch(run=run, reset=lambda: None, output=lambda: np.empty(0), cases=cases, select=chosen.append)
    entry = Entry("bfs", launch, clock, caches=("cold",))
    rule = StoppingRule(time_limit_s=limit)
    *_, end = sample_interleaved([entry], rule, timer=lambda: float(next(ticks)), pause=lambda s: None)
    return end.samples


def test_cases_are_visited_in_turn_and_cycles_are_what_converges() -> None:
    samples = _sampled(1e9)
    assert samples.stopped == "converged"
    assert samples.times_ms == (1.0, 2.0, 3.0) * 6  # six rounds, not twenty samples
    assert samples.cases == (0, 1, 2) * 6
    assert case_medians(samples, 3) == [1, 2, 3]
    assert cycles(samples, 3) == [6.0] * 6


def test_a_dropped_sample_is_taken_again_and_one_full_cycle_always_is() -> None:
    samples = _sampled(0.0, bad=(5, 6))
    assert samples.times_ms == (1.0, 2.0, 3.0)
    assert samples.stopped == "time limit"
    samples = _sampled(1e9, bad=(5, 6))
    assert samples.cases == (0, 1, 2) * 6
    assert samples.times_ms == (1.0, 2.0, 3.0) * 6
    assert samples.dropped == {"throttled": 2}


def _record(variant: str, times: tuple[float, ...], where: str = "gpu") -> Record:
    samples = Samples("cold", times, "cuda-events", False, 3, "converged", cases=(0, 1) * (len(times) // 2))
    cases = ({"source": 1, "edges": 2_000_000, "levels": 5}, {"source": 2, "edges": 8_000_000, "levels": 7})
    return Record(
        problem="bfs",
        variant=variant,
        format="adjacency",
        library=None,
        where=where,
        dtype="int32",  # type: ignore[arg-type]
        matrix={},
        device={},
        environment={},
        run="r",
        status="ok",
        samples=(samples,),
        cases=cases,
    )


def _traced(depth: int, variant: str = "push", **result: Any) -> Record:
    record = _record(variant, ())
    level = {"how": "push", "ms": None, "vertices": 1, "edges": 3, "inspected": 3}
    return dataclasses.replace(
        record, trace=(level,) * depth, result=result, cases=record.cases[:1], check={"ok": True}
    )


def test_a_trace_shows_a_row_where_levels_are_hidden() -> None:
    text = render_trace(_traced(100), 100, False)
    rows = text.splitlines()
    assert sum(line.split()[:2] == ["...", "..."] for line in rows) == 1
    assert "...: 60 levels between are hidden (--json has them)" in text
    assert "vertices: of the frontier" in text
    assert "why: push does every level alike" in text
    assert "..." not in render_trace(_traced(40), 100, False)


def test_steps_have_a_row_for_those_that_are_hidden() -> None:
    steps = tuple({"ms": None, "change": 0.5**k} for k in range(61))
    record = dataclasses.replace(_traced(1), problem="pagerank", trace=steps)
    rows = [line.split() for line in render_result(record, 100, False).splitlines()]
    table = rows[rows.index(["steps"]) :]
    assert [row[0] for row in table if row and row[0].isdigit()] == [str(k) for k in (*range(1, 31), *range(32, 62))]
    assert ["...", "..."] in rows  # a column without times is not shown
    assert "...: 1 steps between are hidden (--json has them)" in render_result(record, 100, False)


def test_a_trace_of_a_small_graph_says_who_found_whom() -> None:
    facts = {"level_vertices": [["a\x1b[31m"], [7, 9], [8]], "found_by": [[], ["a\x1b[31m", "a\x1b[31m"], [9]]}
    text = render_trace(_traced(3, **facts), 100, False)
    assert "\x1b" not in text
    assert "found 7, 9 (push)" in text
    assert "level 2: 9 found 8 (push)" in text
    assert "who found whom" not in render_trace(_traced(3), 100, False)


@pytest.mark.parametrize(
    ("mode", "message"),
    [
        ("auto", "at most 1,024 vertices and 4,096 edges are done by one block; pull where the frontier's edges grow"),
        ("direction", "pull where the frontier's edges grow and, times alpha 4,"),
    ],
)
def test_a_trace_says_why(mode: str, message: str) -> None:
    params = {n: p.default for n, p in get_variant("bfs", mode).tunables.items()}
    for busiest in (0, 1):  # as decided
        params |= {"small_edges": 4096, "busiest": busiest}
        record = dataclasses.replace(_traced(2, mode), params=params)
        text = " ".join(render_trace(record, 100, False).split())
        assert message in text
        assert ("busiest neighbour first" in text) == (mode == "auto" and busiest == 1)
    assert "why" not in render_trace(dataclasses.replace(record, params={}), 100, False)


def test_claims_and_reservations_are_counted_apart_and_explained() -> None:
    counters = {
        "global_atomics": 5003,
        "claims": 5000,
        "reservations": 3,
        "shared_atomics": 77,
        "kernel_launches": 4,
        "barriers": 12,
    }
    record = dataclasses.replace(_traced(1), counters=counters, trace=())
    for width in (60, 100):
        text = render_result(record, width, False)
        head = next(line for line in text.splitlines() if line.startswith("mode"))
        assert "shared atomics" in head  # at any width
        assert head.endswith("launches")
        text = " ".join(text.split())
        assert "reserved: atomics that take places" in text
    assert " 5,000 3 5,003 77 12 4" in text


def test_rates_are_harmonic_means_over_sources() -> None:
    rows = compare_traversals(
        [_record("slow", (4.0, 8.0) * 6), _record("fast", (1.0, 2.0) * 6), _record("cpu", (10.0, 20.0) * 6, "cpu")]
    )
    fast, slow, cpu = rows
    assert [r.record.variant for r in rows] == ["fast", "slow", "cpu"]
    assert fast.median == 1.5
    assert (fast.q1, fast.q3) == (1.0, 2.0)
    assert fast.gteps == pytest.approx(2 / (1 / 2 + 1 / 4))  # 2 and 4 GTEPS
    assert (fast.rank, slow.rank, cpu.rank) == (1, 2, 3)
    assert (fast.to_best, slow.to_best) == (1.0, 4.0)
    assert (fast.to_cpu, cpu.to_cpu) == (10.0, 1.0)


def test_a_table_of_a_gpu_says_why_it_has_no_atomics() -> None:
    from spgraph_bench.report import render

    rows = [_record("frontier", (4.0, 8.0) * 6), _record("frontier-private", (1.0, 2.0) * 6)]
    printed = " ".join(render(rows).split())
    assert "atomics are not counted on a GPU (--device host counts them exactly)" in printed
    counted = [dataclasses.replace(r, counters={"global_atomics": 492}) for r in rows]
    printed = " ".join(render(counted).split())
    assert "not counted on a GPU" not in printed
    assert "492" in printed


# ---- the command line ------------------------------------------------------------------------------------


def test_bfs_without_a_file() -> None:
    done = spgraph("bfs", "--mode", "auto", "--device", "host", "--no-save", "--trace")
    assert done.returncode == 0, done.stderr
    assert "checked from 4 sources: 4 validated, 4 compared with a plain search" in done.stdout
    assert "levels of auto from vertex" in done.stdout
    assert "pull" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 100


ALL_MODES = ("bfs", "rmat:scale=7,symmetrize=1", "--device", "host", "--no-save", "--trace", "--all-modes")


@pytest.mark.slow
def test_the_other_modes_are_watched_from_the_first_source_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Their level times are wanted; slow ones from all sources would take minutes. The graph is read once."""
    from spgraph_bench.cli import running

    read: list[str] = []
    real = running.load_matrix
    monkeypatch.setattr(running, "load_matrix", lambda *args: (read.append("once"), real(*args))[1])
    limits = ("--pending-launches", "4096")  # are for those modes that launch something
    assert run([*ALL_MODES, "--mode", "pull", "--sources", "3", "--json", *limits]) == 0
    first, *others = map(json.loads, capsys.readouterr().out.splitlines())
    assert read == ["once"]
    assert (first["variant"], len(first["cases"]), first["options"]["sources"]) == ("pull", 3, 3)
    assert {r["status"] for r in others} <= {"ok", "skipped"}
    watched = [r for r in others if r["status"] == "ok"]
    assert len(watched) >= 12
    assert all(r["options"]["sources"] == 1 and r["cases"] == first["cases"][:1] for r in watched)
    assert {r["limits"].get("pending_launches") for r in watched} == {4096}
    assert all(len(r["trace"]) == len(first["trace"]) for r in watched if r["trace"])
    # A vertex that was named is the one source of all.
    assert run([*ALL_MODES, "--mode", "auto", "--source", "5", "--json"]) == 0
    data = [r for r in map(json.loads, capsys.readouterr().out.splitlines()) if r["status"] == "ok"]
    assert {tuple(case["source"] for case in r["cases"]) for r in data} == {(5,)}


def test_modes_that_cannot_be_watched_are_reported(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(list(ALL_MODES)) == 0
    printed = capsys.readouterr().out
    assert "cannot be watched level by level: tail-launch" in printed
    assert "other modes watched; which is fastest shows on a GPU" in printed


def test_of_all_modes_those_that_go_wrong_are_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import spgraph_bench.runner.run as runner

    real = runner.run
    lost = {"edge": ("wrong", "vertex 3 is not at level 9"), "pull": ("failed", "out of luck")}

    def spoilt(session, matrix, problem, variants, settings, on_record, *more) -> None:
        def record(each: Record) -> None:
            if each.variant in lost:
                status, reason = lost[each.variant]
                each = dataclasses.replace(each, status=status, reason=reason, check={"ok": False})
            on_record(each)

        real(session, matrix, problem, variants, settings, record, *more)

    monkeypatch.setattr(runner, "run", spoilt)
    assert run(list(ALL_MODES)) == 1
    printed = capsys.readouterr().out
    assert "wrong: edge: vertex 3 is not at level 9\n" in printed
    assert "failed: pull: out of luck\n" in printed
    assert "watched level by level: tail-launch\n" in printed


@pytest.mark.slow
def test_all_modes_interrupted_show_what_is_finished(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import spgraph_bench.runner.run as runner

    real, calls = runner.run, []

    def interrupted(session, matrix, problem, variants, settings, on_record, *more) -> None:
        calls.append([v.name for v in variants])

        def record(each: Record) -> None:
            on_record(each)
            if each.variant == "edge":
                raise KeyboardInterrupt

        real(session, matrix, problem, variants, settings, record, *more)

    monkeypatch.setattr(runner, "run", interrupted)
    assert run([*ALL_MODES, "--mode", "pull"]) == 130
    printed = capsys.readouterr()
    assert calls[0] == ["pull"]
    assert "edge" in calls[1]
    assert "pull" not in calls[1]
    assert "checked from 4 sources: 4 validated, 4 compared with a plain search" in printed.out
    assert "levels of pull from vertex" in printed.out
    assert printed.err.endswith("interrupted\n")


@pytest.mark.slow
def test_bench_bfs_on_a_directed_graph_with_parents() -> None:
    done = spgraph(
        "bench",
        "bfs",
        "rmat:scale=7",
        "--device",
        "host",
        "--no-save",
        "--json",
        "--sources",
        "3",
        "--check-seconds",
        "0",
        "--param",
        "parents=1",
        "--param",
        "reorder=degree",
    )
    assert done.returncode == 0, done.stderr
    records = {r["variant"]: r for r in map(json.loads, done.stdout.splitlines())}
    assert {r["status"] for r in records.values()} <= {"ok", "skipped"}
    auto = records["auto"]
    assert len(auto["cases"]) == 3
    assert auto["inspected"] > 0
    # Its levels cannot be watched, but all of them are top-down.
    assert records["tail-launch"]["inspected"] == records["edge-balanced"]["inspected"] > 0
    assert auto["check"]["by_oracle"] == 0
    assert auto["check"]["by_validator"] == 3
    ok = [r for r in records.values() if r["status"] == "ok"]
    assert len(ok) >= 12
    assert all(r["cases"] == auto["cases"] for r in ok)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--mode", "pul"), "Did you mean pull?"),
        (("--source", "9", "--sources", "2"), "--source names the vertex"),
        (("--source", "25"), "there is no vertex 25"),
        (("--all-modes",), "--trace"),
        (("--variant", "push"), "No such option"),
        (("--any-component", "--source", "3"), "--source names the vertex"),
        (("--dtype", "float64"), "No such option"),
        (("--tune", "--mode", "push"), "nothing to tune"),
        (("--param", "alhpa=2"), "alpha"),
    ],
)
def test_usage_errors(args: tuple[str, ...], message: str) -> None:
    done = spgraph("bfs", "grid:n=5", "--device", "host", "--no-save", *args)
    assert done.returncode == 2, done.stderr
    assert message in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("command", [("bfs", "--mode"), ("bench", "bfs", "--variant")])
def test_options_are_called_alike_and_numbers_read_alike(command: tuple[str, ...]) -> None:
    """Of the problem, whichever command runs it; the old name of --component any is taken, too."""
    *names, choose = command
    for component in (("--component", "any"), ("--any-component",)):
        done = spgraph(
            *names,
            "grid:n=5",
            choose,
            "push",
            "--sources",
            "1k",
            *component,
            "--device",
            "host",
            "--no-save",
            "--json",
            "--in-process",
        )
        assert done.returncode == 0, done.stderr
        (record,) = map(json.loads, done.stdout.splitlines())
        assert (record["options"]["sources"], record["options"]["component"]) == (1000, "any")
        assert len(record["cases"]) == 25


@pytest.mark.slow
def test_tuning_needs_times() -> None:
    done = spgraph("bfs", "grid:n=5", "--device", "host", "--no-save", "--tune")
    assert done.returncode == 1
    assert "timed on a GPU only" in done.stderr


class _Tuning:
    """Stands for what is opened: settings take the time that `ms` says; Ctrl-C in the one numbered `stop`."""

    def __init__(self, ms, stop: int = 10**6) -> None:
        self.ms, self.stop, self.settings, self.own = ms, stop, [], {}

    def __call__(self, request):
        return contextlib.nullcontext(self)

    def run(self, variants, params, *, options, echo) -> Record:
        if len(self.settings) == self.stop:
            raise KeyboardInterrupt
        self.settings.append(dict(params))
        one = _record("auto", (self.ms(params),) * 12)
        device = {
            "kind": "cuda",
            "name": "GPU",
            "arch": "sm_90",
            "memory_bytes": 1,
            "multiprocessors": 1,
            "l2_bytes": 1,
            "uuid": "GPU-1",
        }
        return dataclasses.replace(one, matrix={"sha256": "ab" * 32}, device=device)


def _tuned_ms(params) -> float:
    return 1.0 + (params["alpha"] != 2) + 0.5 * (params["probes"] != 8) + (params["small_vertices"] == 0)


def _tune(monkeypatch: pytest.MonkeyPatch, cache: Path, tuning: _Tuning, *args: str) -> int:
    monkeypatch.setenv("SPGRAPH_CACHE", str(cache))
    monkeypatch.setattr("spgraph_bench.cli.tuning.opened", tuning)
    return run(["bfs", "grid:n=5", "--tune", "--no-save", *args])


def test_tuning_shows_a_column_for_each_tunable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _tune(monkeypatch, tmp_path, _Tuning(_tuned_ms)) == 0
    printed = capsys.readouterr()
    head, names, _, *rows = printed.out.splitlines()
    assert head == "auto: settings tried"
    assert names.split() == ["alpha", "beta", "vertices", "edges", "probes", "bitmap", "ms", "regret"]
    assert rows[0].split()[:9] == ["8", "100000", "1024", "auto", "8", "1", "2.000", "100%", "default"]
    assert [row.split()[:2] for row in rows if row.endswith(" best")] == [["2", "100000"]]
    assert rows[-1] == "vertices, edges, bitmap: small_vertices, small_edges, shared_bitmap"
    assert all(len(row) <= 100 for row in rows)
    assert len(rows) == 1 + len({tuple(p[k] for k in sorted(p)) for p in _settings(printed.out)})
    assert "saved for this graph and GPU" in printed.err
    (file,) = (tmp_path / "tuned").glob("*.json")
    assert json.loads(file.read_text())["auto"]["alpha"] == 2


def _settings(out: str) -> list[dict[str, str]]:
    """The rows of a tuning table."""
    _, names, _, *rows = out.splitlines()
    heads = names.split()[:6]
    return [dict(zip(heads, row.split(), strict=False)) for row in rows if row[:8].split()[0][0].isdigit()]


@pytest.mark.parametrize("stop", [0, 1, 9])
def test_tuning_interrupted_shows_what_was_tried_and_keeps_nothing(
    stop: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _tune(monkeypatch, tmp_path, _Tuning(_tuned_ms, stop)) == 130
    printed = capsys.readouterr()
    assert printed.out.startswith("auto: settings tried") if stop else not printed.out
    assert len(_settings(printed.out) if stop else []) == stop
    assert "tuning was interrupted and nothing saved: auto keeps its old settings" in printed.err
    assert printed.err.endswith("interrupted\n")
    assert not list(tmp_path.rglob("*.json"))


def test_tuning_interrupted_with_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _tune(monkeypatch, tmp_path, _Tuning(_tuned_ms, 3), "--json") == 130
    assert len([json.loads(line) for line in capsys.readouterr().out.splitlines()]) == 3


@pytest.mark.slow
def test_tuned_parameters_are_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from spgraph_bench.device import open_device
    from spgraph_bench.recipes import make
    from spgraph_bench.runner.tuned import load_tuned, save_tuned

    monkeypatch.setenv("SPGRAPH_CACHE", str(tmp_path))
    info = open_device("host").info()
    sha = make("grid:n=5").sha256
    save_tuned("bfs", sha, info, "auto", {"alpha": 3.5, "probes": 2})
    path = save_tuned("bfs", sha, info, "direction", {"alpha": 9.0})
    assert load_tuned("bfs", sha, info) == {"auto": {"alpha": 3.5, "probes": 2}, "direction": {"alpha": 9.0}}
    for extra, alpha in (((), 3.5), (("--param", "alpha=7"), 7.0)):
        done = spgraph("bfs", "grid:n=5", "--device", "host", "--no-save", "--json", *extra)
        assert done.returncode == 0, done.stderr
        (record,) = map(json.loads, done.stdout.splitlines())
        assert record["params"]["alpha"] == alpha
        assert record["params"]["probes"] == 2
    path.write_text("not json")
    assert load_tuned("bfs", sha, info) == {}


def test_work_in_pieces_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """A graph of half a billion edges is gone through in pieces; here pieces of seven edges."""
    from spgraph_bench.formats import get_format
    from spgraph_bench.problems import sources as searches

    for name in ("skewed-directed", "hub-of-5000", "loops-and-repeats"):
        a, sources = graphs()[name]
        packed = get_format("adjacency").pack(a)
        whole = searches.plain_levels(a, sources[0])
        work, degrees = searches.level_work(packed, whole), searches.proper_degrees(a)
        with monkeypatch.context() as small:
            small.setattr(searches, "_EDGES_AT_ONCE", 7)
            assert np.array_equal(searches.plain_levels(a, sources[0]), whole)
            assert np.array_equal(searches.proper_degrees(a), degrees)
            again = searches.level_work(packed, whole)
        assert np.array_equal(work.pull, again.pull)
        assert degrees.sum() == a.nnz - np.sum(np.repeat(np.arange(a.rows), a.row_lengths()) == a.col_idx)
