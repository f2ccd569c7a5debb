"""PageRank: the check against corrupted ranks, networkx, personalisations, the command line."""

from __future__ import annotations

import dataclasses
import json
import subprocess
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
from battery import csr, matrix
from commands import spgraph
from graph_battery import graphs

from spgraph_bench.cli.main import run
from spgraph_bench.errors import InputError, UsageError
from spgraph_bench.matrix import Matrix
from spgraph_bench.problems import get_problem
from spgraph_bench.problems.pagerank import edge_chances, power_iteration, read_personalization

A = graphs()["skewed-directed"][0]
_DRAWN = np.random.default_rng(3).integers(0, 9, A.nnz).astype(float)
_DRAWN[A.row_ptr[17] : A.row_ptr[18]] = 0  # dangles, once weights count
_DRAWN[A.row_ptr[18] : A.row_ptr[19]] *= 1e307  # their sum is infinite
W = dataclasses.replace(A, values=_DRAWN)
F32, F64 = np.dtype(np.float32), np.dtype(np.float64)


def _oracle(**options: Any) -> tuple[Any, dict[str, np.ndarray]]:
    problem = get_problem("pagerank", {"damping": 0.85, **options})
    a = W if options.get("weighted") == "yes" else A
    return problem, problem.oracle(matrix(a), {}, F64) | {"row_ptr": A.row_ptr, "col_idx": A.col_idx}


# ---- the oracle and the check ----------------------------------------------------------------------------


@pytest.mark.parametrize("damping", [0.5, 0.85, 0.97])
def test_the_oracle_is_networkx(damping: float) -> None:
    graph = nx.from_scipy_sparse_array(A.to_scipy(), create_using=nx.DiGraph)
    even = dict.fromkeys(graph, 1)
    theirs = nx.pagerank(graph, damping, weight=None, tol=1e-13, max_iter=1000, dangling=even)
    ours, _, change = power_iteration(A, damping=damping, tolerance=1e-13, max_iterations=2000)
    assert change <= 1e-13
    assert np.abs(ours - np.array([theirs[v] for v in range(A.rows)])).sum() < 1e-9


@pytest.mark.parametrize("dangling", ["jump", "uniform"])
@pytest.mark.parametrize("weighted", ["no", "yes"])
def test_the_oracle_is_networkx_personalised(dangling: str, weighted: str) -> None:
    values = np.minimum(_DRAWN, 50)  # networkx adds weights up as they are
    a = dataclasses.replace(A, values=values)
    graph = nx.from_scipy_sparse_array(a.to_scipy(), create_using=nx.DiGraph)
    jump = np.zeros(A.rows)
    jump[[5, 40]] = 0.75, 0.25
    theirs = nx.pagerank(
        graph,
        personalization={5: 3, 40: 1},
        weight="weight" if weighted == "yes" else None,
        tol=1e-13,
        max_iter=1000,
        dangling=None if dangling == "jump" else dict.fromkeys(graph, 1),
    )
    ours, _, _ = power_iteration(a, jump, tolerance=1e-13, max_iterations=1000, dangling=dangling, weighted=weighted)
    assert np.abs(ours - np.array([theirs[v] for v in range(A.rows)])).sum() < 1e-9


def test_chances_of_weights_whose_sum_is_too_large_or_nothing() -> None:
    chance = edge_chances(W)
    assert chance is not None
    sums = np.bincount(np.repeat(np.arange(A.rows), A.row_lengths()), chance, minlength=A.rows)
    assert sums[18] == pytest.approx(1)
    assert sums[17] == 0
    assert edge_chances(A) is None


@pytest.mark.parametrize(("weight", "what"), [(-1.0, "negative"), (np.inf, "infinite"), (np.nan, "number")])
def test_a_weight_that_is_not_a_share_is_refused_with_its_edge(weight: float, what: str) -> None:
    a = csr(3, 3, [0, 1], [2, 0], [1.0, weight])
    with pytest.raises(InputError, match=f"the weight of the edge 1 -> 0 is .*{what}"):
        get_problem("pagerank", {"weighted": "yes"}).inputs(matrix(a), F32, 1)
    assert get_problem("pagerank").inputs(matrix(a), F32, 1) == {}


def test_keeping_dangling_rank_is_a_loop_and_losing_it_is_not() -> None:
    loose = np.flatnonzero(A.row_lengths() == 0)
    assert len(loose) > 5
    row = np.concatenate((np.repeat(np.arange(A.rows), A.row_lengths()), loose))
    looped = csr(A.rows, A.rows, row, np.concatenate((A.col_idx, loose)), None)
    saved, _, _ = power_iteration(A, dangling="self", tolerance=1e-12)
    assert np.allclose(saved, power_iteration(looped, tolerance=1e-12)[0], atol=1e-14)
    lost, _, _ = power_iteration(A, dangling="none", tolerance=1e-12)
    assert saved.sum() == pytest.approx(1, abs=1e-12)
    assert 0.15 < lost.sum() < 0.999


@pytest.mark.parametrize("dtype", [F32, F64])
@pytest.mark.parametrize(
    ("dangling", "weighted"), [("jump", "no"), ("uniform", "no"), ("self", "no"), ("none", "no"), ("jump", "yes")]
)
def test_right_ranks_pass_and_wrong_ones_fail(dtype: np.dtype[Any], dangling: str, weighted: str) -> None:
    problem, oracle = _oracle(dangling=dangling, weighted=weighted)
    own = {"dangling": dangling, "weighted": weighted}
    right = oracle["rank"].astype(dtype)
    assert problem.check(right, oracle, dtype).ok
    # What a step on from there gives is right too.
    later = power_iteration(W, **own, tolerance=1e-9)[0].astype(dtype)
    assert problem.check(later, oracle, dtype).ok

    def corrupted(change: Any) -> np.ndarray:
        wrong = right.copy()
        change(wrong)
        return wrong

    top = int(np.argmax(right))
    bad = {
        "one vertex 1 % high": corrupted(lambda r: r.__setitem__(top, r[top] * 1.01)),
        "one is 0": corrupted(lambda r: r.__setitem__(9, 0)),
        "not a number": corrupted(lambda r: r.__setitem__(9, np.nan)),
        "scaled": (right * 1.001).astype(dtype),
        "two changed places": corrupted(lambda r: r.__setitem__([top, 9], r[[9, top]])),
        "an iteration too early": power_iteration(W, **own, tolerance=1e-4)[0].astype(dtype),
        "another policy": power_iteration(W, dangling="self" if dangling != "self" else "jump", weighted=weighted)[
            0
        ].astype(dtype),
        "weights taken for ones or the other way": power_iteration(
            W, dangling=dangling, weighted="no" if weighted == "yes" else "yes"
        )[0].astype(dtype),
        "the graph turned": power_iteration(
            csr(A.rows, A.rows, A.col_idx, np.repeat(np.arange(A.rows), A.row_lengths()), None), dangling=dangling
        )[0].astype(dtype),
        "another damping": power_iteration(W, damping=0.86, **own)[0].astype(dtype),
        "never written": np.full(A.rows, np.nan, dtype),
    }
    for what, wrong in bad.items():
        result = problem.check(wrong, oracle, dtype)
        assert not result.ok, what
        assert result.message
    assert not problem.check(right[:-1], oracle, dtype).ok
    assert not problem.check(right.astype(np.float16), oracle, dtype).ok


def test_a_tolerance_that_float32_cannot_reach_is_not_an_error_of_the_kernel() -> None:
    problem, oracle = _oracle(tolerance=1e-12)
    assert problem.check(oracle["rank"].astype(F32), oracle, F32).ok
    problem, oracle = _oracle(max_iterations=3)
    assert problem.check(power_iteration(A, max_iterations=3)[0], oracle, F64).ok
    assert not problem.check(power_iteration(A, max_iterations=2)[0], oracle, F64).ok


def test_top_vertices_are_by_rank_then_by_id() -> None:
    problem = get_problem("pagerank", {"top": 3})
    rank = np.array([0.1, 0.3, 0.1, 0.1, 0.4], np.float32)
    a = csr(5, 5, [0, 1, 2, 3], [1, 1, 1, 1], None)
    ids = np.array([10, 20, 30, 40, 50])
    facts = problem.summary(rank, {"iterations": 4, "change": 1e-7}, a, {}, {}, ids)
    assert [row[0] for row in facts["table"]["rows"]] == [50, 20, 10]
    assert (facts["dangling_vertices"], facts["iterations"], facts["converged"]) == (1, 4, True)
    none = get_problem("pagerank", {"top": 0}).summary(rank, {}, a, {}, {}, ids)
    assert none["table"]["rows"] == []


# ---- options and files -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given",
    [
        {"damping": 1.0},
        {"damping": "x"},
        {"damping": "nan"},
        {"tolerance": -1},
        {"max_iterations": 0},
        {"dangling": "lose"},
        {"top": 1.5},
    ],
)
def test_bad_options_are_usage_errors(given: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        get_problem("pagerank", given)


def _called(*ids: int) -> Matrix:
    """A graph of vertices with these ids."""
    a = matrix(csr(len(ids), len(ids), [], [], None))
    return dataclasses.replace(a, original_ids=np.array(ids, np.int64))


def test_a_personalisation_is_read_by_the_ids_of_the_input(tmp_path: Path) -> None:
    path = tmp_path / "seeds.txt"
    path.write_text("# seeds\n70 3\n\n5, 1  % half\n", encoding="utf-8")
    assert read_personalization(path, _called(5, 6, 70)).tolist() == [0.25, 0.0, 0.75]
    path.write_bytes(b"\xef\xbb\xbf5 1\r\n6 +3e0\r\n")
    assert read_personalization(path, _called(5, 6, 70)).tolist() == [0.25, 0.75, 0.0]


def test_a_personalisation_by_names_that_may_have_spaces(tmp_path: Path) -> None:
    path, a = tmp_path / "seeds.txt", matrix(csr(4, 4, [0], [1], None))
    named = dataclasses.replace(a, names=("New York", "Oslo", "7", "a b"))
    path.write_text("New York 3\nOslo\n7 2\na b, 2\n", encoding="utf-8")
    assert read_personalization(path, named).tolist() == [3 / 8, 1 / 8, 2 / 8, 2 / 8]
    path.write_text("Oslo\nOlso 1\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"seeds.txt:2: no vertex is called 'Olso'.*\n.*Oslo"):
        read_personalization(path, named)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("5\n71 1\n", "seeds.txt:2: there is no vertex 71"),
        ("5 -1\n", "seeds.txt:1: '5 -1' is not a vertex with a weight"),
        ("5 nan\n", "seeds.txt:1:"),
        ("x\n", "seeds.txt:1:"),
        ("5 1 1\n", "seeds.txt:1:"),
        ("5 1\n6 1\n5 2\n", "seeds.txt:3: vertex 5 was named in line 1"),
        ("5 0\n", "no vertex has a weight above 0"),
        ("# nothing\n", "no vertex has a weight above 0"),
        ("99999999999999999999 1\n", "seeds.txt:1: '99999999999999999999' is not a vertex id"),
        ("7_0 1\n", "seeds.txt:1: '7_0 1' is not a vertex with a weight"),
        ("5 1\n6 \0\n", "seeds.txt:2: the line holds binary data"),
        ("5 1\n" + " " * 5000, "seeds.txt:2: the line is longer than 4,096 bytes"),
        ("5 1e308\n6 1e308\n", "the weights add up to infinity"),
    ],
)
@pytest.mark.filterwarnings("error")
def test_a_bad_personalisation_names_its_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "seeds.txt"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        read_personalization(path, _called(5, 6, 70))
    assert message in str(caught.value)


def test_a_device_is_not_a_personalisation() -> None:
    with pytest.raises(InputError, match="this is a device"):
        read_personalization(Path("/dev/zero"), _called(0))  # would never end


def test_a_matrix_that_is_not_a_graph_is_refused() -> None:
    with pytest.raises(InputError, match="square"):
        get_problem("pagerank").inputs(matrix(csr(3, 4, [0], [3], None)), F32, 1)


# ---- the command line ------------------------------------------------------------------------------------


def _spgraph(*args: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return spgraph(*args, "--device", "host", "--no-save", cwd=cwd)


def test_the_command_names_the_top_and_writes_all_by_the_ids_of_the_file(tmp_path: Path) -> None:
    edges = "100 7\n7 9000000000\n9000000000 7\n12 7\n12 100\n"
    (tmp_path / "g.txt").write_text(edges, encoding="utf-8")
    (tmp_path / "seeds.txt").write_text("12\n100\n", encoding="utf-8")
    done = _spgraph(
        "pagerank",
        "g.txt",
        "--relabel",
        "--output",
        "r.csv",
        "--trace",
        "--reorder",
        "degree",
        "--personalize",
        "seeds.txt",
        "--dtype",
        "float64",
        "--top",
        "2",
        "--in-process",
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    printed = " ".join(done.stdout.split())
    assert "converged after" in printed
    assert "2 vertices of seeds.txt" in printed
    assert "steps step change" in printed
    head, *lines = (tmp_path / "r.csv").read_text().splitlines()
    ranks = {int(v): float(r) for v, r in (line.split(",") for line in lines)}
    graph = nx.DiGraph([tuple(map(int, line.split())) for line in edges.splitlines()])
    theirs = nx.pagerank(graph, personalization={12: 1, 100: 1}, tol=1e-12, max_iter=500)
    assert head == "vertex,rank"
    assert ranks == pytest.approx(theirs, abs=1e-5)
    assert printed.split("vertices of highest rank vertex rank ")[1].split()[1] == "7"


def test_a_personalised_walk_that_dangles_jumps(tmp_path: Path) -> None:
    """Two vertices, an edge from the first to the second, jumps to the second: networkx gives 0 and 1."""
    (tmp_path / "g.txt").write_text("1 2\n", encoding="utf-8")
    (tmp_path / "seed.txt").write_text("2 1\n", encoding="utf-8")
    args = ["pagerank", "g.txt", "--personalize", "seed.txt", "--output", "r.csv", "--in-process"]
    assert _spgraph(*args, cwd=tmp_path).returncode == 0
    assert (tmp_path / "r.csv").read_text() == "vertex,rank\n1,0\n2,1\n"
    done = _spgraph(*args, "--dangling", "uniform", cwd=tmp_path)
    assert done.returncode == 0
    assert "spread over all vertices" in " ".join(done.stdout.split())
    ranks = [float(line.split(",")[1]) for line in (tmp_path / "r.csv").read_text().splitlines()[1:]]
    assert ranks == pytest.approx([0.298246, 0.701754], abs=1e-5)


def test_weights_change_the_default_mode_and_the_header(tmp_path: Path) -> None:
    (tmp_path / "g.wel").write_text("0 1 3\n0 2 1\n1 0 1\n2 0 1\n", encoding="utf-8")
    done = _spgraph("pagerank", "g.wel", "--weighted", "--output", "r.csv", "--in-process", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    printed = " ".join(done.stdout.split())
    assert "edges in proportion to their weights" in printed
    assert "pull-hubs" not in printed
    ranks = [float(line.split(",")[1]) for line in (tmp_path / "r.csv").read_text().splitlines()[1:]]
    graph = nx.DiGraph()
    graph.add_weighted_edges_from([(0, 1, 3), (0, 2, 1), (1, 0, 1), (2, 0, 1)])
    theirs = nx.pagerank(graph, tol=1e-12, max_iter=500)
    assert ranks == pytest.approx([theirs[v] for v in range(3)], abs=1e-5)
    done = _spgraph("pagerank", "g.wel", "--weighted", "--mode", "pull-hubs", "--in-process", cwd=tmp_path)
    assert done.returncode == 1
    assert "does not use weights" in done.stderr


def test_json_has_the_result_and_errors_come_before_any_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done = _spgraph("pagerank", "chain:n=30", "--json", "--output", "r.npy", "--mode", "push", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert record["result"]["converged"]
    assert record["operations"] == record["matrix"]["nnz"] * record["result"]["iterations"]
    ranks = np.load(tmp_path / "r.npy")
    assert ranks.shape == (record["matrix"]["rows"],)
    assert ranks.sum() == pytest.approx(1, abs=1e-5)
    seeds, own = tmp_path / "seeds.csv", "3 1\n"
    seeds.write_text(own)
    for bad in (
        ["--personalize", str(seeds), "--output", str(seeds)],
        ["--output", str(tmp_path / "r.txt")],
        ["--output", str(tmp_path / "none" / "r.npy")],
        ["--personalize", "none.txt"],
    ):
        assert run(["pagerank", "chain:n=30", "--device", "host", "--no-save", "--in-process", *bad]) == 2, bad
        out, err = capsys.readouterr()
        assert (out, "Traceback" in err, "error: " in err) == ("", False, True)
    assert seeds.read_text() == own


def test_bench_has_every_mode_and_the_rule(tmp_path: Path) -> None:
    done = _spgraph("bench", "pagerank", "chain:n=30", "--tolerance", "1e-4", "--damping", "0.5", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    printed = " ".join(done.stdout.split())
    assert "damping 0.5" in printed
    assert "at most 0.0001, not scaled by n" in printed
    assert "pull-naive" in done.stdout
