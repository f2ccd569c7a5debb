"""Shortest paths: the oracle, the checks on corrupted results, refusals with their lines, the command."""

from __future__ import annotations

import csv
import dataclasses
import gzip
import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from battery import csr, matrix
from commands import spgraph
from graph_battery import graphs

from spgraph_bench import readers, recipes
from spgraph_bench.device import open_device
from spgraph_bench.errors import InputError
from spgraph_bench.formats import get_format
from spgraph_bench.matrix import CSR
from spgraph_bench.problems import get_problem, lengths
from spgraph_bench.problems.lengths import check_lengths, check_predecessors, check_within, exact_lengths, predecessors
from spgraph_bench.problems.weights import check_weights
from spgraph_bench.recipes.values import with_values
from spgraph_bench.runner.prepare import prepare
from spgraph_bench.validate import make_validator
from spgraph_bench.validate.base import Graph
from spgraph_bench.validate.sssp import SSSPValidator
from spgraph_bench.variants import get_variant

SSSP = get_problem("sssp")
INT32, FLOAT32 = np.dtype(np.int32), np.dtype(np.float32)


def _weighted(name: str, values: str) -> CSR:
    a, draw = graphs()[name][0], np.random.default_rng(11)
    drawn = draw.integers(0, 4, a.nnz).astype(float) if values == "small" else draw.random(a.nnz)
    return dataclasses.replace(a, values=drawn)


# ---- the oracle ------------------------------------------------------------------------------------------


def _spgraph(*args: str) -> subprocess.CompletedProcess[str]:
    return spgraph(*args, "--device", "host", "--no-save")


@pytest.mark.parametrize("name", graphs())
def test_the_oracle_is_what_networkx_finds(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With zero weights too: stored zeros are edges."""
    import networkx as nx

    a, sources = _weighted(name, "small"), graphs()[name][1]
    graph = nx.DiGraph()
    graph.add_nodes_from(range(a.rows))
    row = np.repeat(np.arange(a.rows), a.row_lengths())
    graph.add_weighted_edges_from(zip(row.tolist(), a.col_idx.tolist(), a.value_array().tolist(), strict=True))
    for source in sources:
        expected = np.full(a.rows, 2**31 - 1)
        for v, length in nx.single_source_dijkstra_path_length(graph, source).items():
            expected[v] = length
        assert np.array_equal(exact_lengths(a, source, INT32)[0], expected)
        as_floats = np.where(expected == 2**31 - 1, np.inf, expected).astype(np.float32)
        assert np.array_equal(exact_lengths(a, source, FLOAT32)[0], as_floats)
        # The same by the way that weights with fractions go.
        monkeypatch.setattr(lengths, "_WHOLE_FLOATS", 0.0)
        assert np.array_equal(exact_lengths(a, source, FLOAT32)[0], as_floats)
        monkeypatch.undo()


@pytest.mark.parametrize("name", ["random", "skewed-directed", "grid-graph", "chain", "wide-layers"])
def test_float32_lengths_are_the_least_sums_of_any_walk(name: str) -> None:
    a, sources = _weighted(name, "random"), graphs()[name][1]
    weight, row = a.value_array(np.float32), np.repeat(np.arange(a.rows), a.row_lengths())
    exact, real, edges = exact_lengths(a, sources[0], FLOAT32)
    least = np.full(a.rows, np.inf, np.float32)
    least[sources[0]] = 0
    for _ in range(a.rows):  # Bellman and Ford's own way: all edges, until nothing changes
        before = least.copy()
        np.minimum.at(least, a.col_idx, before[row] + weight)
        if np.array_equal(before, least):
            break
    assert np.array_equal(exact, least)
    reached = np.isfinite(real)
    assert np.array_equal(reached, np.isfinite(exact))
    # A sum of k numbers of one sign is right to k roundings.
    off = np.abs(exact[reached] - real[reached])
    assert (off <= edges[reached] * 2.0**-24 * real[reached]).all()


@pytest.mark.parametrize("cutoff", [0.0, 3.0, 4.5])
@pytest.mark.parametrize("name", ["skewed-directed", "grid-graph"])
def test_a_cutoff_is_networkx_s(name: str, cutoff: float) -> None:
    import networkx as nx

    a, (source, *_) = _weighted(name, "small"), graphs()[name][1]
    graph, row = nx.DiGraph(), np.repeat(np.arange(a.rows), a.row_lengths())
    graph.add_weighted_edges_from(zip(row.tolist(), a.col_idx.tolist(), a.value_array().tolist(), strict=True))
    theirs = nx.single_source_dijkstra_path_length(graph, source, cutoff=cutoff)
    for dtype in (INT32, FLOAT32):
        exact, real, _ = exact_lengths(a, source, dtype, cutoff)
        reached = exact != lengths.unreached(dtype)
        assert {int(v): float(exact[v]) for v in np.flatnonzero(reached)} == theirs
        whole = exact_lengths(a, source, dtype)[0]
        assert np.array_equal(reached, whole <= cutoff)
        assert np.array_equal(exact[reached], whole[reached])
        assert np.array_equal(np.isfinite(real), reached)


@pytest.mark.parametrize("values", ["small", "drawn"])
@pytest.mark.parametrize("name", ["skewed-directed", "grid-graph", "star-of-chains", "isolated-source"])
def test_predecessors_chain_back_and_wrong_ones_are_found(name: str, values: str) -> None:
    a, (source, *_) = _weighted(name, values), graphs()[name][1]
    weight = a.value_array(np.float32)
    length = exact_lengths(a, source, FLOAT32)[0]
    before = predecessors(a, weight, source, length)
    assert check_predecessors(a, weight, source, length, before).ok
    assert before[source] == source
    assert np.array_equal(before == -1, np.isinf(length))
    child = np.flatnonzero((before >= 0) & (np.arange(a.rows) != source))
    if not len(child):
        return
    v = int(child[-1])

    def error_of(vertex: int, wrong: int) -> str:
        bad = before.copy()
        bad[vertex] = wrong
        result = check_predecessors(a, weight, source, length, bad)
        assert not result.ok
        return result.message

    assert f"-> {v:,} is as long" in error_of(v, v)
    assert "its predecessor is vertex -1" in error_of(v, -1)
    assert "source" in error_of(source, v)
    for u in np.flatnonzero(np.isinf(length))[:1]:
        assert f"vertex {u:,} is unreached" in error_of(int(u), source)


def test_a_circle_of_edges_of_nothing_is_not_a_path() -> None:
    """0 -> 1 -> 2 -> 1, the last two of weight 0: 1 and 2 bear each other out, and the source is 0."""
    a = csr(3, 3, [0, 1, 2], [1, 2, 1], [1.0, 0.0, 0.0])
    weight, length = a.value_array(np.float32), np.array([0, 1, 1], np.float32)
    before = predecessors(a, weight, 0, length)
    assert before.tolist() == [0, 0, 1]
    round_and_round = np.array([0, 2, 1], np.int32)
    result = check_predecessors(a, weight, 0, length, round_and_round)
    assert not result.ok
    assert "do not lead to the source" in result.message


def test_a_float_that_swallows_a_weight_still_has_a_predecessor() -> None:
    a = csr(4, 4, [0, 1, 2, 3, 2], [1, 2, 3, 2, 1], [1e8, 1.0, 1.0, 1.0, 1.0])
    length = exact_lengths(a, 0, FLOAT32)[0]
    assert length.tolist() == [0, 1e8, 1e8, 1e8]
    assert predecessors(a, a.value_array(np.float32), 0, length).tolist() == [0, 0, 1, 2]


def test_lengths_beyond_int32_are_an_error() -> None:
    a = csr(3, 3, [0, 1], [1, 2], [2**31 - 2, 1])
    with pytest.raises(InputError, match=r"2,147,483,647 long, beyond int32"):
        exact_lengths(a, 0, INT32)
    assert exact_lengths(csr(2, 2, [0], [1], [2**31 - 2]), 0, INT32)[0].tolist() == [0, 2**31 - 2]


def test_lengths_beyond_float32_are_an_error() -> None:
    """Kernels would give infinity, which is no fault of theirs."""
    a = csr(3, 3, [0, 1], [1, 2], [3e38, 3e38])
    with pytest.raises(InputError, match=r"from vertex 0 is 6e\+38 long, beyond float32"):
        exact_lengths(a, 0, FLOAT32)
    assert exact_lengths(a, 0, FLOAT32, 3.1e38)[0].tolist() == [0, np.float32(3e38), np.inf]
    assert exact_lengths(a, 1, FLOAT32)[0].tolist() == [np.inf, 0, np.float32(3e38)]


# ---- the checks ------------------------------------------------------------------------------------------

A = _weighted("grid-graph", "random")
EXACT, REAL, EDGES = exact_lengths(A, 0, FLOAT32)


@pytest.mark.parametrize(
    ("vertex", "value", "message"),
    [
        (700, np.nextafter(EXACT[700], np.float32(9)), "1 of 713 lengths wrong, the first is of vertex 700"),
        (40, np.inf, "vertex 40: unreached"),
        (5, np.nan, "vertex 5: nan"),
        (0, 1e-45, "vertex 0: 1.4"),
    ],
)
def test_one_bit_of_one_length_is_found(vertex: int, value: float, message: str) -> None:
    broken = EXACT.copy()
    broken[vertex] = value
    assert message in check_lengths(broken, EXACT).message
    assert check_lengths(EXACT, EXACT).ok


def test_lengths_of_another_kind_are_found() -> None:
    assert "float64" in check_lengths(EXACT.astype(np.float64), EXACT).message
    assert "[712]" in check_lengths(EXACT[:-1], EXACT).message
    a, _ = graphs()["disconnected"]
    right = exact_lengths(a, 0, INT32)[0]
    broken = right.copy()
    broken[250] = 3
    assert "vertex 250: 3, expected unreached" in check_lengths(broken, right).message


def test_float64_answers_may_differ_by_roundings_only() -> None:
    assert check_within(REAL, REAL, EDGES).ok
    assert check_within(np.nextafter(REAL, np.inf) * (REAL > 0), REAL, EDGES).ok
    for wrong in (REAL * (1 + 1e-12), EXACT.astype(float), np.where(REAL > 5, np.inf, REAL), REAL * np.nan):
        assert not check_within(wrong, REAL, EDGES).ok


@pytest.mark.parametrize("name", ["skewed-directed", "grid-graph", "isolated-source"])
@pytest.mark.parametrize("reorder", ["none", "degree"])
@pytest.mark.parametrize("peer", ["scipy", "graphblas"])
def test_cpu_libraries_agree(peer: str, reorder: str, name: str) -> None:
    variant, sources = get_variant("sssp", peer), np.array(graphs()[name][1], np.int32)
    device = open_device("host")
    try:
        if variant.missing and (reason := variant.missing(device)):
            pytest.skip(reason)
        for kind, values in ((INT32, "small"), (FLOAT32, "random")):
            a = _weighted(name, values)
            packed = get_format(variant.format).pack(a, kind, reorder=reorder)
            launch = prepare(device, variant, packed, {"sources": sources}, {}).launch
            validator = make_validator(SSSP, a, device, kind, {})
            assert validator is not None
            for case, source in enumerate(sources):
                actual = [np.stack([each]) for each in exact_lengths(a, int(source), kind)]
                oracle = dict(zip(("exact", "real", "edges"), actual, strict=True))
                launch.select(case)
                launch.reset()
                launch.run()
                result, known = SSSP.check_case(0, launch.output(), a, {}, oracle)
                assert known
                assert result.ok, result.message
                checked = validator.check(launch.output(), int(source)).result
                assert checked.ok, checked.message
    finally:
        device.close()


# ---- weights ---------------------------------------------------------------------------------------------


def _refused(path: Path, dtype: Any = FLOAT32, **options: Any) -> InputError:
    with pytest.raises(InputError) as caught:
        check_weights(readers.read(str(path), readers.ReadOptions(**options)), dtype)
    return caught.value


@pytest.mark.parametrize(
    ("name", "text", "line", "edge"),
    [
        ("a.mtx", "%%MatrixMarket matrix coordinate real general\n% x\n3 3 3\n3 1 2\n2 3 -2\n1 2 1\n", 5, "2 -> 3"),
        # Of a stored triangle the mirror may come first.
        ("s.mtx", "%%MatrixMarket matrix coordinate real symmetric\n3 3 2\n2 1 1\n3 1 -7\n", 4, "1 -> 3"),
        ("a.wel", "0 1 4\n1 2 5\n2 0 -0.5\n", 3, "2 -> 0"),
        ("ids.txt", "# ids\n10 20 1\n20 31 -3\n", 3, "20 -> 31"),
        # Added up: of the entries at one place the negative one is the cause.
        ("d.mtx", "%%MatrixMarket matrix coordinate real general\n2 2 2\n1 2 1\n1 2 -4\n", 4, "1 -> 2"),
    ],
)
def test_a_negative_weight_is_refused_with_its_line(tmp_path: Path, name: str, text: str, line: int, edge: str) -> None:
    path, packed = tmp_path / name, tmp_path / f"{name}.gz"
    path.write_text(text)
    packed.write_bytes(gzip.compress(text.encode()))
    for file in (path, packed):
        error = _refused(file, relabel=name == "ids.txt")
        assert error.place == f"{file}:{line}"
        assert f"the weight of the edge {edge} is negative" in error.cause
        assert "--values ones" in str(error.remedy)


def test_other_weights_that_cannot_be_used() -> None:
    def cause(values: list[float], dtype: Any) -> str:
        with pytest.raises(InputError) as caught:
            check_weights(matrix(csr(3, 3, [0, 1], [1, 2], values)), dtype)
        return caught.value.cause

    assert cause([1, np.nan], FLOAT32) == "the weight of the edge 1 -> 2 is not a number: nan"
    assert cause([np.inf, np.inf], FLOAT32) == "the weight of the edge 0 -> 1 is infinite: inf (2 edges in all)"
    assert "is negative: -1 (2 edges in all)" in cause([-1, -2], INT32)
    assert cause([1, 0.5], INT32) == "the weight of the edge 1 -> 2 is not a whole number: 0.5"
    assert "beyond 2,147,483,646" in cause([2.0**31 - 1, 1], INT32)
    assert cause([1, 3.5e38], FLOAT32) == "the weight of the edge 1 -> 2 is beyond float32: 3.5e+38"
    check_weights(matrix(csr(3, 3, [0, 1], [1, 2], [float(np.finfo(np.float32).max), 1])), FLOAT32)
    for dtype in (INT32, FLOAT32):
        check_weights(matrix(csr(3, 3, [0, 1], [1, 2], [0.0, 7])), dtype)
        check_weights(matrix(csr(3, 3, [0, 1], [1, 2], None)), dtype)


@pytest.mark.parametrize("text", ["rmat:scale=9,symmetrize=1,values=integers", "grid:n=40,values=integers,seed=5"])
def test_whole_values_of_recipes(text: str) -> None:
    made = recipes.make(text)
    values = made.csr.value_array()
    assert set(values) <= set(range(1, 256))
    assert len(set(values)) > 250
    whole = made.csr.to_scipy()
    assert (whole != whole.T).nnz == 0
    assert made.sha256 == recipes.make(text).sha256
    assert made.sha256 != recipes.make(text.replace("integers", "random")).sha256
    plain = recipes.make(text.replace("integers", "none"))
    drawn = with_values(plain, "integers", 5 if "seed=5" in text else 1, True)
    assert drawn.csr.equals(made.csr)
    assert drawn.sha256 == made.sha256
    assert drawn.policies.values == "integers"
    plain = with_values(made, "ones", 1, True)
    assert plain.csr.values is None
    assert not plain.weighted
    directed = with_values(made, "integers", 1, False)
    whole = directed.csr.to_scipy()
    assert (whole != whole.T).nnz > 0
    assert directed.symmetry == "general"


@pytest.mark.parametrize("kind", ["general", "symmetric"])
def test_whole_values_of_files(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "a.mtx"
    edges = [(i, j) for i in range(2, 40) for j in range(1, i) if (i * j) % 3]
    body = "".join(f"{i} {j}\n" for i, j in edges)
    path.write_text(f"%%MatrixMarket matrix coordinate pattern {kind}\n40 40 {len(edges)}\n{body}")
    read = readers.read(str(path), readers.ReadOptions(values="integers", seed=3))
    assert set(read.csr.value_array()) <= set(range(1, 256))
    assert read.policies.values == "integers"
    whole = read.csr.to_scipy()
    assert ((whole != whole.T).nnz == 0) == (kind == "symmetric")
    other = readers.read(str(path), readers.ReadOptions(values="integers", seed=4))
    assert not np.array_equal(read.csr.values, other.csr.values)


# ---- the command line ------------------------------------------------------------------------------------


def test_lengths_are_written(tmp_path: Path) -> None:
    out = tmp_path / "lengths.csv"
    done = _spgraph("sssp", "grid:n=5,values=none", "--source", "0", "--dtype", "int32", "--output", str(out))
    assert done.returncode == 0, done.stderr
    assert "the farthest is 24 at 8" in done.stdout
    assert "checked from 1 source: 1 validated, 1 compared with a plain search" in done.stdout
    assert " times those it reaches" in done.stdout
    rows = list(csv.reader(out.read_text().splitlines()))
    assert rows[0] == ["vertex", "distance", "predecessor"]
    assert [int(d) for _, d, _ in rows[1:]] == [i + j for i in range(5) for j in range(5)]


def test_bench_on_drawn_weights() -> None:
    done = spgraph(
        "bench",
        "sssp",
        "rmat:scale=7,values=integers",
        "--dtype",
        "int32",
        "--sources",
        "3",
        "--check-seconds",
        "0",
        "--param",
        "reorder=degree",
        "--json",
    )
    assert done.returncode == 0, done.stderr
    records = {r["variant"]: r for r in map(json.loads, done.stdout.splitlines())}
    ok = {name: r for name, r in records.items() if r["status"] == "ok"}
    assert set(ok) >= {"frontier", "near-far", "auto", "scipy"}
    assert all(r["cases"] == ok["auto"]["cases"] for r in ok.values())
    assert ok["auto"]["result"]["phases"] > 1
    assert ok["auto"]["result"]["relaxed"] > 0


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--mode", "frontier", "--delta", "3"), "frontier has no threshold"),
        (("--delta", "3", "--param", "delta=4"), "--delta alone"),
        (("--dtype", "float64"), "is not one of 'float32', 'int32'"),
        (("--dtype", "int32"), "not a whole number"),
    ],
)
def test_usage_errors(args: tuple[str, ...], message: str) -> None:
    done = _spgraph("sssp", "grid:n=5,values=random", *args)
    assert done.returncode == 2, done.stderr
    assert message in done.stderr


def test_a_slow_library_is_asked_for_fewer_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    from spgraph_bench.report import render
    from spgraph_bench.results.record import Record
    from spgraph_bench.runner.run import run
    from spgraph_bench.runner.session import Session
    from spgraph_bench.runner.settings import Settings
    from spgraph_bench.variants.sssp import cpu

    monkeypatch.setattr(cpu, "_ENTRIES", 1)
    records: list[Record] = []
    modes = [get_variant("sssp", name) for name in ("scipy", "frontier", "auto")]
    with Session("host", in_process=True) as session:
        settings = Settings(dtypes=("int32",), options={"sources": 5, "check_seconds": 0}, time_limit_s=0.01)
        run(session, recipes.make("rmat:scale=6,values=integers"), "sssp", modes, settings, records.append)
    assert {r.variant: (r.status, len(r.cases)) for r in records} == {
        "scipy": ("ok", 1),
        "frontier": ("ok", 5),
        "auto": ("ok", 5),
    }
    assert [r.check["by_validator"] for r in records] == [len(r.cases) for r in records]
    assert "from fewer sources because slow: scipy 1" in " ".join(render(records, width=200).split())


@pytest.mark.parametrize("on_device", [False, True])
def test_answers_with_a_cutoff_are_validated(on_device: bool) -> None:
    a, (source, *_) = _weighted("skewed-directed", "drawn"), graphs()["skewed-directed"][1]
    whole = exact_lengths(a, source, FLOAT32)[0]
    cutoff = float(np.median(whole[np.isfinite(whole)]))
    right = exact_lengths(a, source, FLOAT32, cutoff)[0]
    device = open_device("host") if on_device else None
    try:
        inputs = {"sources": np.array([source], np.int32)}
        graph = Graph(a, device)

        def error_of(length: np.ndarray, most: float = cutoff) -> str:
            problem = get_problem("sssp", {"cutoff": most})
            return SSSPValidator(graph, problem, FLOAT32, inputs).check(length, source).result.message

        assert error_of(right) == ""
        assert error_of(whole, -1.0) == ""
        assert "which is not a length" in error_of(whole)  # beyond the cutoff
        assert "leads to it" in error_of(right, -1.0)
        missed = right.copy()
        missed[np.argmax(np.where(np.isfinite(right), right, -1))] = np.inf
        assert "leads to it" in error_of(missed)
    finally:
        if device is not None:
            device.close()
