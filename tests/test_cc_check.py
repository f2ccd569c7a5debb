"""The check of components against corrupted partitions, what is told of them, the command."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from battery import csr, matrix
from commands import spgraph
from graph_battery import graphs

from spgraph_bench.errors import InputError
from spgraph_bench.problems import get_problem
from spgraph_bench.problems.cc import check_labels, least_labels, plain_components

CC = get_problem("cc")
A, _ = graphs()["disconnected"]
RIGHT = plain_components(A)  # 0..99 and 200..299 are chains, the others alone


@pytest.mark.parametrize("name", graphs())
def test_the_oracle_is_what_networkx_finds(name: str) -> None:
    import networkx as nx

    a, _ = graphs()[name]
    graph = nx.DiGraph()
    graph.add_nodes_from(range(a.rows))
    row = np.repeat(np.arange(a.rows), a.row_lengths())
    graph.add_edges_from(zip(row.tolist(), a.col_idx.tolist(), strict=True))
    expected = np.empty(a.rows, np.int32)
    for part in nx.weakly_connected_components(graph):
        expected[list(part)] = min(part)
    assert np.array_equal(plain_components(a), expected)


def _broken(changes: dict[int, int]):
    label = RIGHT.copy()
    for vertex, value in changes.items():
        label[vertex] = value
    return check_labels(label, RIGHT)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        # one vertex on its own
        (
            {40: 40},
            "1 of 400 labels wrong, the first is of vertex 40: 40; it is connected with vertex 0, whose label is 0",
        ),
        # two components joined
        (
            dict.fromkeys(range(200, 300), 0),
            "100 of 400 labels wrong, the first is of vertex 200: 0, expected 200; vertex 0 has it too, and is "
            "not connected with it",
        ),
        # a component cut in two
        (dict.fromkeys(range(50, 100), 50), "the first is of vertex 50: 50; it is connected with vertex 0"),
        # the right partition by another name
        (dict.fromkeys(range(100), 7), "vertex 0: 7, but the least vertex of its component is 0"),
        ({150: -1}, "but the least vertex of its component is 150"),
        ({399: -2139062144}, "vertex 399: -2,139,062,144, but"),
    ],
)
def test_a_corrupted_partition_is_found(changes: dict[int, int], message: str) -> None:
    result = _broken(changes)
    assert not result.ok
    assert message in result.message


def test_right_labels_pass_and_others_of_another_kind_do_not() -> None:
    assert check_labels(RIGHT, RIGHT).ok
    assert not check_labels(RIGHT.astype(np.int64), RIGHT).ok
    assert not check_labels(RIGHT[:-1], RIGHT).ok
    assert not check_labels(np.full_like(RIGHT, -1), RIGHT).ok
    assert check_labels(RIGHT[:0], RIGHT[:0]).ok


def test_any_numbering_becomes_least_vertices() -> None:
    assert np.array_equal(least_labels(np.array([5, 3, 5, 9, 3])), [0, 1, 0, 3, 1])
    assert len(least_labels(np.zeros(0, int))) == 0


def test_summary_of_components() -> None:
    ids = np.arange(1, 401)
    facts = CC.summary(RIGHT, {}, A, {}, {}, ids)
    assert facts["components"] == 202
    assert facts["largest"] == 100
    assert facts["isolated"] == 200
    assert facts["table"]["rows"][:3] == [[0, 1, 100, 198], [1, 201, 100, 198], [2, 101, 1, 0]]
    column = CC.columns(RIGHT, A, {})["component"]
    assert (column[0], column[299], column[100], column[399]) == (0, 1, 2, 201)


def test_a_graph_needs_a_square_matrix() -> None:
    with pytest.raises(InputError, match="2 x 3"):
        CC.inputs(matrix(csr(2, 3, [0], [2])), np.dtype(np.int32), 1)


def test_the_command_writes_components(tmp_path: Path) -> None:
    graph = tmp_path / "g.mtx"
    graph.write_text("%%MatrixMarket matrix coordinate pattern general\n6 6 3\n2 1\n3 2\n5 6\n")
    out = tmp_path / "c.csv"
    done = spgraph("cc", str(graph), "--device", "host", "--no-save", "--output", str(out))
    assert done.returncode == 0, done.stderr
    assert (
        "3 components; the largest has 3 vertices (50 %); 1 of one vertex; the graph is directed"
        in " ".join(done.stdout.split())  # wherever lines break
    )
    assert out.read_text().split() == ["vertex,component", "1,0", "2,0", "3,0", "4,2", "5,1", "6,1"]


def test_bench_runs_all_modes() -> None:
    done = spgraph("bench", "cc", "rmat:scale=7,symmetrize=1", "--device", "host", "--no-save", "--json")
    assert done.returncode == 0, done.stderr
    records = [json.loads(line) for line in done.stdout.splitlines()]
    ours = [r for r in records if not r.get("library")]
    assert {r["variant"] for r in ours} >= {"label", "hook", "afforest"}
    assert all(r["status"] == "ok" for r in ours)
    assert len({r["result"]["components"] for r in ours}) == 1
