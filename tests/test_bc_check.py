"""The oracle of betweenness, its check against corrupted results, normalisation, the command."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from battery import csr, matrix
from click.testing import CliRunner
from commands import spgraph
from graph_battery import graphs

from spgraph_bench.cli.main import group
from spgraph_bench.errors import InputError, UsageError
from spgraph_bench.matrix import CSR
from spgraph_bench.problems import get_problem
from spgraph_bench.problems.bc import check_dependencies, plain_dependencies, scaled
from spgraph_bench.problems.sources import pattern_is_symmetric, plain_levels

FLOAT64 = np.dtype(np.float64)


def _networkx(a: CSR):
    import networkx as nx

    graph = nx.DiGraph()
    graph.add_nodes_from(range(a.rows))
    row = np.repeat(np.arange(a.rows), a.row_lengths())
    graph.add_edges_from(zip(row.tolist(), a.col_idx.tolist(), strict=True))
    return graph if not pattern_is_symmetric(matrix(a)) else graph.to_undirected()


def _exact(a: CSR, source: int) -> np.ndarray:
    """Brandes with Python's integers, whose quotients are rounded once however large they are."""
    level = plain_levels(a, source)
    count = [0] * a.rows
    count[source] = 1
    order = [int(v) for v in np.argsort(level, kind="stable") if level[v] >= 0]
    after = {v: [int(w) for w in a.col_idx[a.row_ptr[v] : a.row_ptr[v + 1]] if level[w] == level[v] + 1] for v in order}
    for v in order:
        for w in after[v]:
            count[w] += count[v]
    result = np.zeros(a.rows)
    for v in reversed(order):
        result[v] = sum(count[v] / count[w] * (1 + result[w]) for w in after[v])
    result[source] = 0
    return result


@pytest.mark.parametrize("name", graphs())
def test_the_oracle_is_what_networkx_and_exact_counting_find(name: str) -> None:
    import networkx as nx

    a, sources = graphs()[name]
    for source in sources[:2]:
        one = plain_dependencies(a, source)
        assert check_dependencies(one.dependency, _exact(a, source), one.tolerance).ok
        # The sum is a matter of distances alone.
        assert np.isclose(one.dependency.sum(), (one.level[one.level > 0] - 1).sum())
    if a.rows > 2000:
        return
    graph = _networkx(a)
    theirs = nx.betweenness_centrality_subset(graph, sources, list(graph))
    ours = sum(plain_dependencies(a, source).dependency for source in sources)
    assert np.allclose(ours / (1 if graph.is_directed() else 2), [theirs[v] for v in range(a.rows)], rtol=1e-9)


def test_the_oracle_counts_beyond_any_type() -> None:
    # 3^800 paths at the end of the diamonds, and a chain with one path in the same levels.
    u, v, last, n = [], [], 0, 1
    for _ in range(800):
        u += [last] * 3 + [n, n + 1, n + 2]
        v += [n, n + 1, n + 2] + [n + 3] * 3
        last, n = n + 3, n + 4
    chain = [0, *range(n, n + 1600)]
    a = csr(n + 1600, n + 1600, np.array(u + chain[:-1] + [chain[-1]]), np.array(v + chain[1:] + [last]), None)
    one = plain_dependencies(a, 0)
    assert check_dependencies(one.dependency, _exact(a, 0), one.tolerance).ok


A, SOURCES = graphs()["skewed"]
ONE = plain_dependencies(A, SOURCES[0])
SOME = int(np.argmax(ONE.dependency))
NONE = int(np.flatnonzero(ONE.dependency == 0)[3])


@pytest.mark.parametrize(
    ("vertex", "value", "message"),
    [
        (SOME, ONE.dependency[SOME] * (1 + 1e-9), "1 of 600 dependencies wrong"),
        (SOME, 0.0, f"the worst is of vertex {SOME}: 0.0, expected"),
        (NONE, 1e-300, f"the worst is of vertex {NONE}: 1e-300, expected 0.0"),
        (SOME, np.nan, "nan, expected"),
        (SOME, np.inf, "inf, expected"),
        (SOME, -ONE.dependency[SOME], "1 of 600"),
    ],
)
def test_a_wrong_dependency_is_found(vertex: int, value: float, message: str) -> None:
    broken = ONE.dependency.copy()
    broken[vertex] = value
    result = check_dependencies(broken, ONE.dependency, ONE.tolerance)
    assert not result.ok
    assert message in result.message


def test_right_dependencies_pass_and_others_of_another_kind_do_not() -> None:
    right = ONE.dependency
    assert check_dependencies(right, right, ONE.tolerance).ok
    assert check_dependencies(right * (1 + ONE.tolerance / 2), right, ONE.tolerance).ok
    assert not check_dependencies(right.astype(np.float32), right, ONE.tolerance).ok
    assert not check_dependencies(right[:-1], right, ONE.tolerance).ok
    assert not check_dependencies(np.full_like(right, np.nan), right, ONE.tolerance).ok
    assert ONE.tolerance < 1e-12


@pytest.mark.parametrize(
    "name", ["complete-bipartite", "roots-that-are-not-reached", "isolated-source", "one-vertex", "two-vertices"]
)
@pytest.mark.parametrize("count", [None, 1, 7])
def test_pairs_are_what_networkx_divides_by(name: str, count: int | None) -> None:
    import networkx as nx

    a, _ = graphs()[name]
    a = dataclasses.replace(a, symmetric=pattern_is_symmetric(matrix(a)))
    graph = _networkx(a)
    if count is None:
        sources = np.arange(a.rows)
        theirs = nx.betweenness_centrality(graph)
    else:
        sources = np.array(sorted(np.random.default_rng(count).permutation(a.rows)[:count]))
        if count > a.rows:
            return
        from networkx.algorithms.centrality.betweenness import _rescale

        added = nx.betweenness_centrality_subset(graph, sources.tolist(), list(graph))
        twice = 1 if graph.is_directed() else 2
        theirs = _rescale(
            {v: twice * x for v, x in added.items()},
            len(graph),
            normalized=True,
            directed=graph.is_directed(),
            endpoints=False,
            sampled_nodes=sources.tolist(),
        )
    added = sum(plain_dependencies(a, int(s)).dependency for s in sources)
    ours = scaled(added, sources.astype(np.int32), count is None, "pairs")
    assert scaled(added, sources.astype(np.int32), count is None, "none") is added
    if a.rows > 2:
        assert np.allclose(ours, [theirs[v] for v in range(a.rows)], rtol=1e-9, equal_nan=True)
    else:
        assert (ours == 0).all()  # no vertex can be between two others
        assert count is not None or list(theirs.values()) == [0] * a.rows


def test_a_graph_needs_a_square_matrix() -> None:
    with pytest.raises(InputError, match="2 x 3"):
        get_problem("bc").inputs(matrix(csr(2, 3, [0], [2])), FLOAT64, 1)


# ---- the command -----------------------------------------------------------------------------------------


def test_the_command_writes_exact_centrality(tmp_path: Path) -> None:
    graph, out = tmp_path / "g.txt", tmp_path / "b.csv"
    graph.write_text("1 2\n2 3\n3 4\n3 5\n")  # a tree
    done = spgraph(
        "bc",
        str(graph),
        "--symmetrize",
        "--device",
        "host",
        "--no-save",
        "--all-sources",
        "--normalize",
        "pairs",
        "--output",
        str(out),
    )
    assert done.returncode == 0, done.stderr
    assert "betweenness from all vertices" in done.stdout
    table = np.genfromtxt(out, delimiter=",", skip_header=1)
    # Of the 12 ordered pairs of others, 6 join through 2, and 10 through 3.
    assert np.allclose(table, [[1, 0], [2, 6 / 12], [3, 10 / 12], [4, 0], [5, 0]])


def test_bench_runs_all_modes_and_sums_up_their_sources() -> None:
    done = spgraph(
        "bench", "bc", "rmat:scale=7,symmetrize=1", "--device", "host", "--no-save", "--json", "--sources", "3"
    )
    assert done.returncode == 0, done.stderr
    records = [json.loads(line) for line in done.stdout.splitlines()]
    ours = [r for r in records if not r.get("library")]
    assert {r["variant"] for r in ours} >= {"push", "edge", "persistent", "auto"}
    assert all(r["status"] == "ok" and r["check"]["by_oracle"] == 3 for r in ours)
    tops = [[(row[0], round(row[1], 6)) for row in r["result"]["table"]["rows"]] for r in ours]
    assert all(top == tops[0] for top in tops)
    assert len(ours[0]["cases"]) == 3


def test_options_that_exclude_each_other() -> None:
    done = CliRunner().invoke(group, ["bc", "--all-sources", "--source", "3", "--device", "host"])
    assert isinstance(done.exception, UsageError)
    assert "starts from every vertex" in str(done.exception)
