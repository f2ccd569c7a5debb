"""Answers as files: the ids of the input, whole or not at all, and errors before any work."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import numpy as np
import pytest
from scipy.io import mmread

from spgraph_bench.answers import SUFFIXES, check_answer_path, needs_map, save_answer, save_vertex_map, vertex_map_path
from spgraph_bench.errors import UsageError

IDS = np.array([5, 70, 4 * 10**9], np.int64)
RANK = np.array([0.1, 1e-30, 0.7], np.float32)


def test_npy_is_a_plain_array_and_npz_has_every_column(tmp_path: Path) -> None:
    columns = {"rank": RANK, "near": np.arange(3)}
    for suffix in (".npy", ".npz"):
        save_answer(tmp_path / f"ranks{suffix}", IDS, columns, "about")
    plain = np.load(tmp_path / "ranks.npy")
    assert plain.dtype == np.float32
    assert np.array_equal(plain, RANK)
    with np.load(tmp_path / "ranks.npz", allow_pickle=False) as arrays:
        assert arrays.files == ["vertex", "rank", "near"]
        assert arrays["vertex"].tolist() == IDS.tolist()
        assert np.array_equal(arrays["rank"], RANK)


def test_answers_about_rows(tmp_path: Path) -> None:
    for suffix in (".csv", ".mtx", ".npz"):
        save_answer(tmp_path / f"y{suffix}", np.arange(3) + 1, {"y": RANK}, "about", "row")
    assert (tmp_path / "y.csv").read_text().startswith("row,y\n1,")
    assert "row i is row i\n" in (tmp_path / "y.mtx").read_text()
    assert np.load(tmp_path / "y.npz").files == ["row", "y"]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
def test_csv_gives_the_same_numbers_again(tmp_path: Path, dtype: type) -> None:
    path = tmp_path / "ranks.csv"
    values = (np.random.default_rng(1).random(70000) * 1000).astype(dtype)
    save_answer(path, np.arange(70000) + 1, {"rank": values}, "about")
    with path.open() as file:
        head, *rows = csv.reader(file)
    assert head == ["vertex", "rank"]
    assert [int(v) for v, _ in rows] == list(range(1, 70001))
    assert np.array_equal(np.array([float(x) for _, x in rows]).astype(dtype), values)


def test_csv_says_what_has_no_value(tmp_path: Path) -> None:
    path = tmp_path / "far.csv"
    save_answer(path, IDS, {"distance": np.array([0.0, np.inf, np.nan])}, "about")
    assert path.read_text().splitlines()[1:] == ["5,0", "70,inf", "4000000000,nan"]


@pytest.mark.parametrize(("first", "message"), [(0, "vertex i - 1"), (1, "vertex i\n")])
def test_mtx_is_a_vector_with_a_row_per_vertex(tmp_path: Path, first: int, message: str) -> None:
    path = tmp_path / "far.mtx"
    save_answer(path, np.arange(4) + first, {"distance": np.array([0.5, np.inf, 0.0, 2.0])}, "recipe\xe9 x")
    assert message in path.read_text()
    back = mmread(path)
    assert back.shape == (4, 1)
    assert back.row.tolist() == [0, 2, 3]
    assert back.data.tolist() == [0.5, 0.0, 2.0]


def test_mtx_of_integers_and_of_no_vertex(tmp_path: Path) -> None:
    path = tmp_path / "label.mtx"
    save_answer(path, np.array([5, 70]), {"component": np.array([3, 3], np.int32)}, "about")
    assert mmread(path).toarray()[[4, 69], 0].tolist() == [3, 3]
    save_answer(path, np.zeros(0, np.int64), {"component": np.zeros(0, np.int32)}, "about")
    assert "0 1 0" in path.read_text()


PARENTS = {"level": np.array([0, 1, -1], np.int32), "parent": np.array([0, 0, -1], np.int32)}


def test_columns_of_vertices_hold_their_ids(tmp_path: Path) -> None:
    save_answer(tmp_path / "p.csv", IDS, PARENTS, "about")
    assert (tmp_path / "p.csv").read_text() == "vertex,level,parent\n5,0,5\n70,1,5\n4000000000,-1,-1\n"
    save_answer(tmp_path / "p.npz", IDS, PARENTS, "about")
    assert np.load(tmp_path / "p.npz")["parent"].tolist() == [5, 5, -1]
    save_answer(tmp_path / "p.mtx", np.arange(3), PARENTS, "about")
    assert mmread(tmp_path / "p.mtx").row.tolist() == [0, 1]  # what is not reached has no level


def test_names_are_in_csv_and_in_a_map_beside_the_others(tmp_path: Path) -> None:
    names = ["New York", 'the "Hub", here', " x"]
    for suffix in SUFFIXES:
        save_answer(tmp_path / f"p{suffix}", names, PARENTS, "about")
    with (tmp_path / "p.csv").open(newline="") as file:
        rows = list(csv.reader(file))
    assert rows == [
        ["vertex", "level", "parent"],
        [names[0], "0", names[0]],
        [names[1], "1", names[0]],
        [names[2], "-1", ""],
    ]
    assert np.load(tmp_path / "p.npy").tolist() == [0, 1, -1]
    assert np.load(tmp_path / "p.npz", allow_pickle=False)["parent"].tolist() == [0, 0, -1]
    assert "row i is vertex i - 1" in (tmp_path / "p.mtx").read_text()
    known = vertex_map_path(tmp_path / "p.npy")
    save_vertex_map(known, names)
    with known.open(newline="") as file:
        assert list(csv.reader(file)) == [["number", "vertex"], *([str(i), n] for i, n in enumerate(names))]
    assert needs_map(names)
    assert needs_map(IDS)
    assert not needs_map(np.arange(5) + 1)
    assert not needs_map(np.zeros(0, np.int64))


def test_errors_come_before_any_work(tmp_path: Path) -> None:
    long = tmp_path / f"{'r' * 250}.csv"  # no name of a part of it is short enough
    loop = tmp_path / "loop.csv"
    loop.symlink_to(loop)
    longer = tmp_path / f"{'r' * 300}.csv"
    for path in (
        loop,
        longer,
        tmp_path / "ranks.txt",
        tmp_path / "ranks",
        tmp_path / "no" / "ranks.csv",
        tmp_path,
        long,
    ):
        with pytest.raises(UsageError):
            check_answer_path(path)


def test_a_read_only_folder_has_a_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)  # root can write to any
    with pytest.raises(UsageError, match="cannot be written to") as caught:
        check_answer_path(tmp_path / "ranks.csv")
    assert caught.value.remedy == "choose another place"


def test_a_failure_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "ranks.csv"
    path.write_text("old")
    with pytest.raises(ValueError, match="argument 2 is shorter"):
        save_answer(path, IDS, {"rank": RANK[:2]}, "about")
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["ranks.csv"]
