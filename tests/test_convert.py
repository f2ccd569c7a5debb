"""`spgraph convert`: every format gives the same matrix again, or says what it cannot hold."""

from __future__ import annotations

import itertools
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import coo_array

import spgraph_bench
from spgraph_bench import readers, writers
from spgraph_bench.cli.main import group, run
from spgraph_bench.errors import UsageError
from spgraph_bench.matrix import Matrix

READ_ONLY = {"archive"}
"""Readers without a writer: an archive has files of other formats in it."""
EXTREMES = [5e-324, -5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, 0.1, -0.0, 1 / 3, 2.0**53, -(2.0**63)]
EXTREMES += [float(np.float32(1e-45)), float(np.finfo(np.float32).max), 123456789012345678.0, -1.0]


def _matrix(rows: list[int], cols: list[int], values: list[float] | None, shape: tuple[int, int]) -> Matrix:
    data: NDArray[np.generic] = np.ones(len(rows), bool) if values is None else np.array(values)
    return spgraph_bench.read(coo_array((data, (rows, cols)), shape=shape))


def _graph(weighted: bool) -> Matrix:
    """Undirected, every vertex with an edge: all formats of graphs hold it."""
    u, v = [0, 1, 2, 3, 0], [1, 2, 3, 4, 4]
    values = [3.0, 1.0, 250.0, 2147483647.0, 7.0] if weighted else None
    made = _matrix(u + v, v + u, None if values is None else values + values, (5, 5))
    return replace(made, symmetry="symmetric")


def _again(matrix: Matrix, path: Path) -> Matrix:
    writers.save(matrix, path, overwrite=True)
    return readers.read(str(path))


HOLD = {False: set(writers.writers()) - {".wel", ".wsg", ".gr"}, True: set(writers.writers()) - {".el", ".sg", ".col"}}


def test_every_reader_has_a_writer() -> None:
    assert {w.reader for w in writers.writers().values()} == set(readers.readers()) - READ_ONLY


@pytest.mark.parametrize("weighted", [False, True])
def test_all_pairs_of_formats(weighted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From each format to each other one: the same entries, and the reader that the writer names."""
    monkeypatch.setattr("os.fsync", lambda file: None)
    graph = _graph(weighted)
    first = {suffix: _again(graph, tmp_path / f"a{suffix}") for suffix in sorted(HOLD[weighted])}
    for suffix, entry in first.items():
        assert entry.source.format == writers.writers()[suffix].reader
        assert entry.weighted == weighted
    for (one, entry), other in itertools.product(first.items(), sorted(HOLD[weighted])):
        assert entry.sha256 == graph.sha256, one
        assert _again(entry, tmp_path / f"b{other}").sha256 == graph.sha256, (one, other)


@pytest.mark.parametrize("kind", [".mtx", ".npz", ".mat", ".rb", ".txt", ".wel", ".net", ".graphml", ".gml"])
def test_values_at_the_ends_of_their_range(kind: str, tmp_path: Path) -> None:
    n = len(EXTREMES)
    matrix = _matrix([*range(n)], [*range(1, n), 0], EXTREMES, (n, n))
    result = _again(matrix, tmp_path / f"a{kind}")
    assert np.array_equal(result.csr.values, matrix.csr.values)  # type: ignore[arg-type]
    assert result.sha256 == matrix.sha256  # -0.0 among them


@pytest.mark.parametrize("kind", writers.writers())
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_not_a_number_is_kept_or_refused(kind: str, value: float, tmp_path: Path) -> None:
    matrix = _matrix([0, 1], [1, 0], [value, value], (2, 2))
    path = tmp_path / f"a{kind}"
    try:
        result = _again(matrix, path)
    except UsageError:
        assert not path.exists()
    else:
        assert result.csr.equals(matrix.csr)


@pytest.mark.parametrize("kind", [".mtx", ".npz", ".mat", ".rb"])
@pytest.mark.parametrize("symmetry", ["rectangular", "skew-symmetric", "zeros", "no entries"])
def test_matrices_that_are_not_graphs(kind: str, symmetry: str, tmp_path: Path) -> None:
    made = {
        "rectangular": _matrix([0, 2, 2], [6, 0, 3], [1.5, -2, 0.25], (3, 7)),
        "skew-symmetric": replace(_matrix([0, 1], [1, 0], [2.5, -2.5], (3, 3)), symmetry="skew-symmetric"),
        "zeros": _matrix([0, 1, 1], [0, 0, 1], [0.0, 1.0, 0.0], (2, 2)),
        "no entries": _matrix([], [], [], (4, 3)),
    }[symmetry]
    if kind == ".rb" and symmetry == "no entries":
        with pytest.raises(UsageError, match="without entries"):
            writers.save(made, tmp_path / "a.rb")
        return
    result = _again(made, tmp_path / f"a{kind}")
    assert result.csr.equals(made.csr)
    if kind in (".mtx", ".rb") and symmetry == "skew-symmetric":
        assert result.symmetry == symmetry


@pytest.mark.parametrize("kind", sorted(set(writers.writers()) - {".mtx", ".npz", ".mat", ".rb"}))
def test_a_rectangular_matrix_is_not_a_graph(kind: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot hold a matrix of 3 x 7|is (un)?weighted"):
        writers.save(_matrix([0, 2], [6, 0], [1.0, 2.0], (3, 7)), tmp_path / f"a{kind}")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("packed", [".gz", ".bz2", ".xz"])
def test_compressed(packed: str, tmp_path: Path) -> None:
    graph = _graph(False)
    for kind in HOLD[False] - {".npz"}:
        assert _again(graph, tmp_path / f"a{kind}{packed}").sha256 == graph.sha256


def test_names_are_kept_or_written_beside(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "a.net"
    source.write_text('*Vertices 3\n1 "Ann"\n2 "Bo, & <Co>"\n3 "Çelik"\n*Arcs\n1 2 2.5\n3 1 1\n', encoding="utf-8")
    names = ["Ann", "Bo, & <Co>", "Çelik"]
    for kind in (".gml", ".graphml", ".net"):
        out = tmp_path / f"b{kind}"
        assert run(["convert", str(source), str(out)]) == 0
        assert list(readers.read(str(out)).names or ()) == names
        assert not list(tmp_path.glob("*.vertices.csv"))
    capsys.readouterr()
    assert run(["convert", str(source), str(tmp_path / "b.mtx")]) == 0
    assert "no names of vertices" in capsys.readouterr().err
    assert (tmp_path / "b.mtx.vertices.csv").read_text(encoding="utf-8").splitlines()[1] == "0,Ann"
    (tmp_path / "b.mtx").unlink()
    assert run(["convert", str(source), str(tmp_path / "b.mtx")]) == 2
    assert "b.mtx.vertices.csv: exists already" in capsys.readouterr().err


def test_what_a_format_does_not_say(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "a.mtx"
    writers.save(_graph(False), source)
    for kind, message in ((".npz", "is symmetric: both triangles"), (".gr", "all are 1"), (".rb", "")):
        assert run(["convert", str(source), str(tmp_path / f"b{kind}")]) == 0
        assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("body", "out", "message", "options"),
    [
        ("real general\n2 2 1\n1 2 1.5", ".graph", "add --symmetrize", ["--symmetrize", "--values", "ones"]),
        ("real symmetric\n2 2 2\n1 1 1\n2 1 3", ".graph", "--drop-diagonal", ["--drop-diagonal"]),
        ("real symmetric\n2 2 1\n2 1 1.5", ".graph", "--values integers", ["--values", "integers"]),
        ("real symmetric\n2 2 1\n2 1 0", ".graph", "from 1 to", ["--values", "ones"]),
        ("real symmetric\n2 2 1\n2 1 1.5", ".wsg", "has 1.5", ["--values", "integers"]),
        ("real symmetric\n2 2 1\n2 1 3e9", ".gr", "has 3000000000", ["--values", "integers"]),
        ("real symmetric\n2 2 1\n2 1 1.5", ".col", "drop the weights", ["--values", "ones"]),
        ("pattern symmetric\n2 2 1\n2 1", ".wel", "--values integers", ["--values", "integers"]),
        ("complex general\n2 2 1\n2 1 1 2", ".npz", "--part real|imag|abs", ["--part", "imag"]),
    ],
)
def test_what_cannot_be_written_says_what_helps(
    body: str, out: str, message: str, options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And with those options it can."""
    (tmp_path / "a.mtx").write_text(f"%%MatrixMarket matrix coordinate {body}\n")
    made = tmp_path / f"b{out}"
    assert run(["convert", str(tmp_path / "a.mtx"), str(made)]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert len(err.splitlines()) == 2
    assert not made.exists()
    assert run(["convert", str(tmp_path / "a.mtx"), str(made), *options]) == 0
    assert readers.read(str(made)).csr.nnz


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["a.mtx"], "Missing argument 'OUT'"),
        (["absent.mtx", "b.mtx"], "no such file"),
        (["a.mtx", "b.xyz"], "cannot tell a format"),
        (["a.mtx", "b.npz.gz"], "cannot tell a format"),
        (["a.mtx", "a.mtx"], "exists already"),
        (["a.mtx", "nowhere/b.mtx"], "there is no folder"),
        (["empty.mtx", "b.mtx"], "the file is empty"),
        (["rmat:scale=3", "b.mtx", "--symmetrize"], "options of reading do not apply"),
    ],
)
def test_wrong_command_lines(
    args: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.mtx").touch()
    writers.save(_graph(False), tmp_path / "a.mtx")
    assert run(["convert", *args]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert len(err.splitlines()) <= 2
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.mtx", "empty.mtx"]


def test_recipes_standard_output_and_help(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert run(["convert", "chain:n=4", "-"]) == 0
    assert capfdbinary.readouterr().out.startswith(b"%%MatrixMarket matrix coordinate pattern symmetric")
    assert run(["convert", "chain:n=4", str(tmp_path / "a.mtx")]) == 0
    assert run(["convert", str(tmp_path / "a.mtx"), str(tmp_path / "a.mtx"), "--force"]) == 0
    assert group.main(["convert", "--help"], standalone_mode=False) in (0, None)
    text = capfdbinary.readouterr().out.decode()
    assert all(suffix in text for suffix in writers.writers())


@pytest.mark.parametrize("suffix", [".mtx", ".txt", ".gr", ".net", ".gml"])
def test_a_name_that_is_no_utf8_is_written_with_escapes(tmp_path: Path, suffix: str) -> None:
    source = tmp_path / os.fsdecode(b"bad\xff.mtx")
    source.write_text("%%MatrixMarket matrix coordinate real general\n2 2 1\n1 2 4\n")
    assert run(["convert", str(source), str(tmp_path / f"made{suffix}")]) == 0
    assert b"udcff" in (tmp_path / f"made{suffix}").read_bytes()
