"""`spgraph generate`: what is written reads back as the same matrix; nothing is lost by accident."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from spgraph_bench import recipes, writers
from spgraph_bench.cli.main import run
from spgraph_bench.errors import UsageError
from spgraph_bench.readers import read

TEXTS = [
    "rmat:scale=6",
    "rmat:scale=6,values=none,symmetrize=1",
    "poisson2d:n=5,values=stencil",
    "uniform:n=70,degree=3,values=none",
    "grid:n=4",
    "banded:n=30,diagonals=4",
]
ANY = [".mtx", ".mtx.gz", ".npz", ".txt", ".txt.gz", ".edges", ".tsv"]


def _generate(*args: str) -> int:
    return run(["generate", *args])


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("suffix", ANY)
def test_reading_back_gives_the_same_matrix(text: str, suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"made{suffix}"
    assert _generate(text, "-o", str(path)) == 0
    expected, result = recipes.make(text), read(str(path))
    assert result.sha256 == expected.sha256
    assert result.weighted == expected.weighted
    if suffix != ".npz":  # it has no place for the symmetry
        assert result.symmetry == expected.symmetry
        opened = gzip.open if suffix.endswith(".gz") else open
        with opened(path, "rt") as file:
            assert expected.source.text in file.read()
    assert list(tmp_path.iterdir()) == [path]  # no temporary file stays


@pytest.mark.parametrize(
    ("text", "suffix"),
    [("chain:n=20", ".el"), ("grid:n=4", ".el.gz"), ("banded:n=9,diagonals=3", ".wel"), ("star:n=5", ".el")],
)
def test_gap_lists(text: str, suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"made{suffix}"
    assert _generate(text, "-o", str(path)) == 0
    result = read(str(path))
    assert result.sha256 == recipes.make(text).sha256
    assert result.source.format.startswith("gap")


@pytest.mark.parametrize("text", ["dense:rows=3,cols=7", "dense:rows=7,cols=3,values=ones", "chain:n=1"])
@pytest.mark.parametrize("suffix", [".mtx", ".npz"])
def test_shapes_that_no_edge_list_can_hold(text: str, suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"made{suffix}"
    assert _generate(text, "-o", str(path)) == 0
    assert read(str(path)).sha256 == recipes.make(text).sha256


@pytest.mark.parametrize(
    ("text", "suffix", "cause", "remedy"),
    [
        ("dense:rows=3,cols=7", ".txt", "cannot hold a matrix of 3 x 7", "write .mtx"),
        ("chain:n=1", ".txt", "without edges", "write .mtx"),
        ("banded:n=9", ".el", "has only", ""),
        ("arrow:n=9", ".el", "is weighted", "write .wel, or drop the weights: --values ones"),
        ("chain:n=9", ".wel", "is unweighted", "write .el"),
        ("rmat:scale=8,edgefactor=1,values=none", ".el", "vertex 0 has no out-edge", "write .txt"),
        ("chain:n=9", ".png", "cannot tell a format", "end the name in .mtx"),
        ("chain:n=9", ".npz.gz", "cannot tell a format", "end the name in .mtx"),
        ("chain:n=9", "", "cannot tell a format", "end the name in .mtx"),
        ("chian:n=9", ".mtx", "no recipe 'chian'", "did you mean chain?"),
    ],
)
def test_what_cannot_be_written_leaves_no_file(
    text: str, suffix: str, cause: str, remedy: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _generate(text, "-o", str(tmp_path / f"made{suffix}")) == 2
    printed = capsys.readouterr()
    assert cause in printed.err
    assert remedy in printed.err
    assert printed.out == ""
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_overwritten_without_force(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "kept.mtx"
    path.write_text("precious")
    assert _generate("chain:n=3", "-o", str(path)) == 2
    assert "exists already\n  remedy: --force overwrites it" in capsys.readouterr().err
    assert path.read_text() == "precious"
    assert _generate("chain:n=3", "-o", str(path), "--force") == 0
    assert read(str(path)).sha256 == recipes.make("chain:n=3").sha256


def test_a_file_made_meanwhile_is_not_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "late.mtx"
    write = lambda *_: path.write_text("another's") and None  # noqa: E731
    other = {**writers.writers(), ".mtx": replace(writers.writers()[".mtx"], write=write)}
    monkeypatch.setattr(writers, "writers", lambda: other)
    with pytest.raises(UsageError, match="exists already"):
        writers.save(recipes.make("chain:n=3"), path)
    assert path.read_text() == "another's"
    assert list(tmp_path.iterdir()) == [path]


def test_an_interrupted_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "old.mtx"
    path.write_text("old")

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    other = {**writers.writers(), ".mtx": replace(writers.writers()[".mtx"], write=interrupted)}
    monkeypatch.setattr(writers, "writers", lambda: other)
    assert _generate("chain:n=3", "-o", str(path), "--force") == 130
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "link.mtx").symlink_to(tmp_path / "real.mtx")
    (tmp_path / "real.mtx").write_text("")
    assert _generate("chain:n=3", "-o", str(tmp_path / "link.mtx"), "--force") == 0
    assert (tmp_path / "link.mtx").is_symlink()
    assert (tmp_path / "real.mtx").read_text().startswith("%%MatrixMarket")


def test_targets_that_are_not_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "folder.mtx").mkdir()
    assert _generate("chain:n=3", "-o", str(tmp_path / "folder.mtx"), "--force") == 2
    assert "is not a regular file" in capsys.readouterr().err
    assert _generate("chain:n=3", "-o", str(tmp_path / "absent" / "a.mtx")) == 2
    assert "there is no folder" in capsys.readouterr().err


def test_new_files_have_the_usual_permissions(tmp_path: Path) -> None:
    mask = os.umask(0o027)
    try:
        assert _generate("chain:n=3", "-o", str(tmp_path / "a.mtx")) == 0
    finally:
        os.umask(mask)
    assert (tmp_path / "a.mtx").stat().st_mode & 0o777 == 0o640


def test_the_same_recipe_gives_the_same_file(tmp_path: Path) -> None:
    for name in ("a.mtx.gz", "b.mtx.gz"):
        assert _generate("rmat:scale=5", "-o", str(tmp_path / name)) == 0
    assert (tmp_path / "a.mtx.gz").read_bytes() == (tmp_path / "b.mtx.gz").read_bytes()


def test_stdout_and_a_reader_that_leaves() -> None:
    command = [sys.executable, "-m", "spgraph_bench", "generate"]
    whole = subprocess.run([*command, "chain:n=3", "-o", "-"], capture_output=True, timeout=60)
    assert whole.returncode == 0
    lines = whole.stdout.decode().splitlines()
    assert lines[0] == "%%MatrixMarket matrix coordinate pattern symmetric"
    assert [line for line in lines if not line.startswith("%")] == ["3 3 2", "2 1", "3 2"]
    assert b"sha256" in whole.stderr
    with subprocess.Popen(
        [*command, "banded:n=100000,diagonals=9", "-o", "-"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as early:
        assert early.stdout is not None
        assert early.stderr is not None
        early.stdout.read(10)
        early.stdout.close()
        assert b"Traceback" not in early.stderr.read()
        assert early.wait(60) == 141


def test_list_names_every_recipe_and_parameter(capsys: pytest.CaptureFixture[str]) -> None:
    assert _generate("--list") == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 100
    for name, recipe in recipes.recipes().items():
        assert f"{name} - {recipe.about}" in out
        assert all(f"  {name} " in out for name in recipe.parameters)


@pytest.mark.parametrize(("args", "message"), [((), "no recipe given"), (("chain",), "add -o FILE, e.g. -o chain.mtx")])
def test_incomplete_commands(args: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert _generate(*args) == 2
    assert message in capsys.readouterr().err
