"""`spgraph spmv FILE --x X --output Y`: the product as a command; vectors from files."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from scipy.io import mmwrite
from scipy.sparse import coo_array, random_array

from spgraph_bench.cli.main import run
from spgraph_bench.errors import InputError
from spgraph_bench.problems.vectors import read_vector

A = random_array((40, 30), density=0.2, rng=np.random.default_rng(3), format="csr")
X = np.random.default_rng(4).standard_normal(30)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    mmwrite(tmp_path / "a.mtx", coo_array(A), precision=17)
    np.save("x.npy", X)
    return tmp_path


def _spmv(*args: str) -> int:
    return run(["spmv", "a.mtx", "--device", "host", "--no-save", "--in-process", "--mode", "csr-scalar", *args])


def test_y_is_a_times_x(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _spmv("--x", "x.npy", "--output", "y.npy", "--dtype", "float64") == 0
    y = np.load("y.npy")
    assert y.dtype == np.float64
    assert np.allclose(y, A @ X, rtol=1e-14, atol=0)
    shown = capsys.readouterr()
    assert "y = A x: 40 values from" in shown.out
    assert "y of 40 rows in y.npy" in shown.err
    for name in ("y.csv", "y.mtx", "y.npz"):
        assert _spmv("--x", "x.npy", "--output", name, "--dtype", "float64") == 0
        assert np.array_equal(read_vector(Path(name), 40), y), name  # and is taken as an x


def test_the_record_names_x_only_where_there_is_one(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for args, options in ((("--x", "x.npy"), {"x": "x.npy"}), ((), {})):
        assert _spmv("--json", *args) == 0
        record = json.loads(capsys.readouterr().out)
        assert record["options"] == options
        assert record["derived"]["where"] == "host"


def test_a_wrong_y_is_not_written(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from spgraph_bench.problems.spmv import SpMV
    from spgraph_bench.problems.summation import judge

    def wrong(y: np.ndarray, r: np.ndarray, *rest: np.ndarray) -> object:
        return judge(y, r + 1, *rest)

    monkeypatch.setattr("spgraph_bench.problems.spmv.judge", wrong)
    assert SpMV.is_product
    assert _spmv("--x", "x.npy", "--output", "y.npy") == 1
    assert not Path("y.npy").exists()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.txt", "1\n-2.5\n# a comment\n3e2\n"),
        ("x.csv", "row,y\n1,1\n2,-2.5\n3,300\n"),
        ("x.mtx", "%%MatrixMarket matrix array real general\n3 1\n1\n-2.5\n300\n"),
        ("coo.mtx", "%%MatrixMarket matrix coordinate real general\n3 1 3\n2 1 -2.5\n1 1 1\n3 1 300\n"),
        ("row.mtx", "%%MatrixMarket matrix array real general\n1 3\n1\n-2.5\n300\n"),
    ],
)
def test_forms_of_vectors(name: str, content: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content)
    assert read_vector(tmp_path / name, 3).tolist() == [1, -2.5, 300]


def test_forms_of_numpy_vectors(tmp_path: Path) -> None:
    for array in (np.array([1, 2, 3]), np.array([[1], [2], [3]], np.float32), np.array([[1, 2, 3]], np.int8)):
        np.save(tmp_path / "x.npy", array)
        assert read_vector(tmp_path / "x.npy", 3).tolist() == [1, 2, 3]
    np.save(tmp_path / "x.npy", np.array([True, False]))
    assert read_vector(tmp_path / "x.npy", 2).tolist() == [1, 0]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("absent", None, "cannot be read"),
        ("empty", b"", "is empty"),
        ("short", b"1\n2\n", "3 values is wanted, this one has 2"),
        ("words", b"1\nabc\n3\n", r"words:2: 'abc' does not end in a number"),
        ("under_score", b"1\n1_0\n3\n", ":2"),
        ("cut.npy", b"\x93NUMPY\x01\x00v", "no array can be read"),
        ("cut.npz", b"PK\3\4junk", "no array can be read"),
        ("bad.mtx", b"%%MatrixMarket matrix array real general\n3 1\n1\n", "no vector can be read"),
        ("huge.mtx", b"%%MatrixMarket matrix array real general\n999999999 999999\n1\n", "this one has 999,999,999 x"),
        ("square.mtx", b"%%MatrixMarket matrix array real general\n3 3\n" + b"1\n" * 9, "this one has 3 x 3"),
        ("complex.mtx", b"%%MatrixMarket matrix array complex general\n3 1\n" + b"1 1\n" * 3, "complex"),
    ],
)
def test_what_is_not_a_vector(name: str, content: bytes | None, message: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError) as error:
        read_vector(tmp_path / name, 3)
    assert re.search(message, str(error.value))
    assert error.value.remedy


def test_numpy_files_that_hold_no_vector(tmp_path: Path) -> None:
    for array, message in (
        (np.array([1j, 2, 3]), "complex"),
        (np.array(["a", "b", "c"]), "is not a vector of numbers"),
        (np.array([None, 1, 2]), "no array can be read"),  # pickled
        (np.ones((3, 3)), "this one has 3 x 3"),
        (np.float64(1), "0 dimensions"),
    ):
        np.save(tmp_path / "x.npy", array)
        with pytest.raises(InputError, match=message):
            read_vector(tmp_path / "x.npy", 3)
    with pytest.raises(InputError, match="this is a folder"):
        read_vector(tmp_path, 3)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--x", "absent.npy"], "cannot be read"),
        (["--x", "a.mtx"], "this one has 40 x 30"),
        (["--x", "x.npy", "--output", "x.npy"], "is the input itself"),
        (["--x", "x.npy", "--output", "y.xyz"], "cannot tell a format"),
        (["--x", "large.npy"], "which is beyond float32"),
        (["--trace"], "No such option"),
        (["--ids", "0"], "No such option"),
        (["--mode", "csr-adaptiv"], "Did you mean csr-adaptive?"),
        (["--mode", "auto", "--param", "block=64"], "auto chooses the kernel, and --param is for one kernel"),
    ],
)
def test_wrong_command_lines(args: list[str], message: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save("large.npy", np.full(30, 1e300))
    assert _spmv(*args) == 2
    err = capsys.readouterr().err
    assert message in err
    assert len(err.splitlines()) <= 3


def test_auto_takes_what_is_predicted_to_be_fastest(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """For each type: the same choice as that of `spgraph advise` among kernels of plain CSR."""
    from spgraph_bench.advice.facts import facts_of
    from spgraph_bench.advice.spmv import choose
    from spgraph_bench.gpus import H200
    from spgraph_bench.readers import read
    from spgraph_bench.variants import variants

    assert _spmv("--mode", "auto", "--x", "x.npy", "--output", "y.npy", "--dtype", "both", "--json") == 0
    shown = capsys.readouterr()
    records = [json.loads(line) for line in shown.out.splitlines()]
    plain = {v.name: v.format for v in variants("spmv") if v.format == "csr" and v.library is None and v.where == "gpu"}
    for record, size in zip(records, (4, 8), strict=True):
        choice = choose(facts_of(read("a.mtx").csr, {"csr"}), H200, size, plain)
        assert choice is not None
        assert record["variant"] == choice.best.variant
        assert f"auto takes {choice.best.variant}, predicted to be the fastest of those that read CSR" in shown.err
    assert [record["dtype"] for record in records] == ["float32", "float64"]
    assert np.load("y.npy").dtype == np.float32


def test_auto_counts_once_and_for_the_gpu_at_hand(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What csr-hubs keeps in shared memory was counted for an H200."""
    from spgraph_bench.advice import facts

    count, sized = facts.facts_of, []
    monkeypatch.setattr(facts, "facts_of", lambda *args, **how: sized.append(how["gpu"].name) or count(*args, **how))
    assert _spmv("--mode", "auto", "--dtype", "both", "--limits", "T4") == 0
    assert sized == ["T4"]


def test_a_tunable_needs_to_fit_the_mode_only(folder: Path) -> None:
    """block=128 is not a choice of every variant."""
    assert _spmv("--mode", "csr-vector", "--param", "block=128") == 0


def test_bench_takes_x_too(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save("z.npy", np.arange(40.0))
    args = ["--device", "host", "--no-save", "--in-process", "--json"]
    assert run(["bench", "spmv", "a.mtx", "--x", "x.npy", "--variant", "csr-scalar", *args]) == 0
    assert run(["bench", "spmv", "a.mtx", "--transpose", "--x", "z.npy", "--variant", "csr-scatter", *args]) == 0
