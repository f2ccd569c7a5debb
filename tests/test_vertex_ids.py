"""A vertex is called as in the input: in options, tables, files, messages and records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spgraph_bench.cli.main import run
from spgraph_bench.matrix import label_arrays, labels_of, with_labels
from spgraph_bench.problems import CheckResult

EDGES = "1 2\n2 3\n3 1\n4 1\n"
FILES = {
    "from-1.txt": EDGES,
    "from-0.txt": "0 1\n1 2\n2 0\n3 0\n",
    "gaps.txt": "9001 9003\n9002 9002\n9003 9001\n",
    "a.mtx": "%%MatrixMarket matrix coordinate pattern general\n4 4 4\n" + EDGES,
    "a.gr": "p sp 4 4\na 1 2 1\na 2 3 1\na 3 1 1\na 4 1 1\n",
    "a.graph": "4 3\n2 3\n1 4\n1\n2\n",
}


def _spgraph(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    status = run([*args, "--device", "host", "--no-save", "--in-process"])
    out, err = capsys.readouterr()
    return status, out, err


@pytest.mark.parametrize(
    ("name", "source", "vertices", "number"),
    [
        ("from-1.txt", "4", [1, 2, 3, 4], 3),
        ("from-0.txt", "3", [0, 1, 2, 3], 3),
        ("gaps.txt", "9003", [9001, 9002, 9003], 2),
        ("a.mtx", "4", [1, 2, 3, 4], 3),
        ("a.gr", "4", [1, 2, 3, 4], 3),
        ("a.graph", "4", [1, 2, 3, 4], 3),
        ("chain:n=4", "3", [0, 1, 2, 3], 3),
    ],
)
def test_a_source_is_called_as_in_the_file(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    source: str,
    vertices: list[int],
    number: int,
) -> None:
    monkeypatch.chdir(tmp_path)
    if name in FILES:
        Path(name).write_text(FILES[name], encoding="utf-8")
    relabel = ["--relabel"] if name == "gaps.txt" else []
    given = ["bfs", name, *relabel, "--source", source]
    status, out, err = _spgraph(capsys, *given, "--output", "a.csv", "--trace", "--json")
    assert status == 0, err
    record = json.loads(out)
    case = record["cases"][0]
    assert (case["source"], str(case["source_id"])) == (number, source)
    head, *lines = Path("a.csv").read_text().splitlines()
    rows = [line.split(",") for line in lines]
    assert head == "vertex,level,parent"
    assert [int(row[0]) for row in rows] == vertices
    assert rows[number] == [source, "0", source]
    assert {int(row[2]) for row in rows} <= {-1, *vertices}
    assert Path("a.csv.vertices.csv").exists() == bool(relabel)
    # By numbers that count from 0 the same search; what each is called is beside it.
    status, out, err = _spgraph(
        capsys, "bfs", name, *relabel, "--source", str(number), "--ids", "0", "--output", "b.csv"
    )
    assert status == 0, err
    assert f"source {number}:" in out
    counted = [line.split(",") for line in Path("b.csv").read_text().splitlines()[1:]]
    assert [row[1] for row in counted] == [row[1] for row in rows]
    assert [int(row[0]) for row in counted] == list(range(len(rows)))
    if relabel:
        assert Path("b.csv.vertices.csv").read_text() == "number,vertex\n0,9001\n1,9002\n2,9003\n"
    # One beyond what there is.
    for command in (["bfs", name], ["sssp", name], ["bench", "bfs", name]):
        status, out, err = _spgraph(capsys, *command, *relabel, "--source", str(vertices[-1] + 1))
        assert (status, out) == (2, "")
        assert f"there is no vertex {vertices[-1] + 1}" in err
        assert f"{vertices[0]} " in err.split("remedy:")[1]


def test_bench_takes_the_file_s_ids_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("gaps.txt").write_text(FILES["gaps.txt"], encoding="utf-8")
    given = ["bench", "bfs", "gaps.txt", "--relabel", "--variant", "push"]
    status, out, err = _spgraph(capsys, *given, "--source", "9003")
    assert status == 0, err
    assert "source 9003:" in out
    status, out, err = _spgraph(capsys, *given, "--source", "2", "--ids", "0")
    assert status == 0, err
    assert "source 2:" in out


@pytest.mark.parametrize("problem", ["pagerank", "cc", "bc", "sssp"])
def test_tables_and_results_have_ids_and_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], problem: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("g.txt").write_text("10007 5000\n5000 90001\n90001 10007\n7 5000\n", encoding="utf-8")
    given = [problem, "g.txt", "--relabel"] + (["--source", "7"] if problem in ("sssp", "bc") else [])
    status, out, err = _spgraph(capsys, *given, "--json")
    assert status == 0, err
    ids, result = [7, 5000, 10007, 90001], json.loads(out)["result"]
    if problem == "sssp":
        assert (result["farthest"], result["farthest_number"]) == (10007, 2)
        return
    position = 1 if problem == "cc" else 0
    assert [row[position] for row in result["table"]["rows"]] == [ids[v] for v in result["table"]["numbers"]]
    status, out, _ = _spgraph(capsys, *given)
    assert status == 0
    assert "90,001" not in out  # what can be copied
    assert "7" in out


def test_a_message_calls_vertices_as_the_file_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from spgraph_bench.problems import bfs

    monkeypatch.chdir(tmp_path)
    Path("gaps.txt").write_text(FILES["gaps.txt"], encoding="utf-8")

    def wrong(level: Any, right: Any) -> CheckResult:
        return CheckResult(False, "vertex 1: unreached, parent 2", {"worst_vertex": 1})

    monkeypatch.setattr(bfs, "check_levels", wrong)
    status, out, _ = _spgraph(capsys, "bfs", "gaps.txt", "--relabel", "--source", "9003", "--json")
    record = json.loads(out)
    assert (status, record["status"]) == (1, "wrong")
    assert record["reason"] == "case 1 of 1 (source 9003): vertex 9002: unreached, parent 9003"
    assert (record["check"]["worst_vertex"], record["check"]["worst_vertex_id"]) == (1, 9002)


def test_numbers_in_a_message_become_labels() -> None:
    ids = np.array([5, 70, 900, 4000])
    assert with_labels("vertex 1, which", ids) == "vertex 70, which"
    assert with_labels("the edge 0 -> 3 leads; 2 vertices", ids) == "the edge 5 -> 4000 leads; 2 vertices"
    assert with_labels("vertex 9 has parent 1,234", ids) == "vertex 9 has parent 1,234"
    assert with_labels("vertex 1: 3", ["a", "b c"]) == "vertex b c: 3"
    assert with_labels("vertex 1,000", np.arange(2000) + 1) == "vertex 1001"


def test_labels_reach_the_worker(tmp_path: Path) -> None:
    import dataclasses

    from battery import csr, matrix

    a = matrix(csr(3, 3, [], [], None))
    assert label_arrays(a) == {}
    for labels in (np.array([5, 6, 10**12]), ["ü", "", "New York"]):
        named = dataclasses.replace(a, **({"names": labels} if isinstance(labels, list) else {"original_ids": labels}))
        assert list(labels_of(label_arrays(named), 3)) == list(labels)
    assert list(labels_of({}, 3)) == [0, 1, 2]
