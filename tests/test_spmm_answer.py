"""`spgraph spmm FILE --x X --output Y`: the product as a command; dense matrices from files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.io import mmwrite
from scipy.sparse import coo_array, random_array

from spgraph_bench.cli.main import run
from spgraph_bench.errors import InputError
from spgraph_bench.problems.vectors import read_columns

A = random_array((40, 30), density=0.2, rng=np.random.default_rng(3), format="csr")
X = np.random.default_rng(4).standard_normal((30, 3))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    mmwrite(tmp_path / "a.mtx", coo_array(A), precision=17)
    np.save("x.npy", X)
    return tmp_path


def _spmm(*args: str) -> int:
    return run(["spmm", "a.mtx", "--k", "3", "--device", "host", "--no-save", "--in-process", *args])


@pytest.mark.parametrize("layout", ["row", "column"])
def test_y_is_a_times_x(layout: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ("--x", "x.npy", "--dtype", "float64", "--layout", layout, "--mode", "csr-row")
    assert _spmm(*given, "--output", "y.npy") == 0
    y = np.load("y.npy")
    assert y.dtype == np.float64
    assert np.allclose(y, A @ X, rtol=1e-14, atol=0)
    shown = capsys.readouterr()
    assert "Y = A X: 40 x 3 values from" in shown.out
    assert "y of 40 rows in y.npy" in shown.err
    for name in ("y.csv", "y.mtx", "y.npz"):
        assert _spmm(*given, "--output", name) == 0
        assert np.array_equal(read_columns(Path(name), 40, 3), y), name  # and is taken as an X
    assert Path("y.csv").read_text().splitlines()[0] == "row,y_0,y_1,y_2"


def test_auto_takes_a_kernel_of_csr(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _spmm("--json") == 0
    shown = capsys.readouterr()
    record = json.loads(shown.out)
    assert record["format"] == "csr"
    assert record["library"] is None
    assert record["options"] == {"k": 3, "layout": "row"}
    assert f"auto takes {record['variant']}, predicted to be the fastest of those that read CSR" in shown.err
    assert _spmm("--json", "--layout", "column") == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["variant"] == "csr-tile"
    assert "auto takes csr-tile" in shown.err


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.txt", "1 -2.5\n# a comment\n3e2, 4\n"),
        ("x.csv", "row,y_0,y_1\n1,1,-2.5\n2,300,4\n"),
        ("x.mtx", "%%MatrixMarket matrix array real general\n2 2\n1\n300\n-2.5\n4\n"),
        ("coo.mtx", "%%MatrixMarket matrix coordinate real general\n2 2 4\n2 1 300\n1 1 1\n1 2 -2.5\n2 2 4\n"),
    ],
)
def test_forms_of_dense_matrices(name: str, content: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content)
    assert read_columns(tmp_path / name, 2, 2).tolist() == [[1, -2.5], [300, 4]]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("short", "1 2\n", "an array of 2 x 2 values is wanted, this one has 1 x 2"),
        ("narrow", "a b\n1\n2\n", "narrow:2: '1' does not end in 2 numbers"),
        ("tall.mtx", "%%MatrixMarket matrix array real general\n2 1\n1\n2\n", "this one has 2 x 1"),
        ("huge.mtx", "%%MatrixMarket matrix array real general\n99999999 99999\n1\n", "this one has 99,999,999 x"),
    ],
)
def test_what_is_not_the_dense_matrix(name: str, content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError) as error:
        read_columns(tmp_path / name, 2, 2)
    assert message in str(error.value)
    assert error.value.remedy


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--x", "absent.npy"], "cannot be read"),
        (["--x", "x.npy", "--k", "2"], "an array of 30 x 2 values is wanted, this one has 30 x 3"),
        (["--x", "x.npy", "--output", "x.npy"], "is the input itself"),
        (["--x", "large.npy"], "which is beyond float32"),
        (["--mode", "csr-rwo"], "Did you mean csr-row?"),
        (["--mode", "auto", "--param", "block=64"], "auto chooses the kernel, and --param is for one kernel"),
        (["--mode", "auto", "--param", "slots=4"], "remedy: add --mode csr-row"),
        (["--mode", "auto", "--param", "nonsense=4"], "remedy: omit --param"),
        (["--dtype", "float16"], "auto has no kernel of float16\n  remedy: add --mode blocked-ell"),
    ],
)
def test_wrong_command_lines(args: list[str], message: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save("large.npy", np.full((30, 3), 1e300))
    assert _spmm(*args) == 2
    err = capsys.readouterr().err
    assert message in err
    assert len(err.splitlines()) <= 3
