"""Orders of rows and columns: the permuted matrix is the same one, results come back in its own order."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import scipy.io
from battery import battery, csr, random_rows

from spgraph_bench.cli.main import run
from spgraph_bench.errors import UsageError
from spgraph_bench.matrix import CSR
from spgraph_bench.reorder import ORDERS, reorder
from spgraph_bench.stats import row_ranges
from spgraph_bench.variants import variants

SQUARE = [name for name, a in battery().items() if a.rows == a.cols]


def _check(a: CSR, how: str) -> None:
    new = reorder(a, how)
    assert sorted(new.row_order.tolist()) == list(range(a.rows))
    assert sorted(new.col_order.tolist()) == list(range(a.cols))
    assert new.csr.row_ptr.dtype == np.int64
    assert new.csr.col_idx.dtype == np.int32
    for i in range(a.rows):
        row = slice(int(new.csr.row_ptr[i]), int(new.csr.row_ptr[i + 1]))
        was = slice(int(a.row_ptr[new.row_order[i]]), int(a.row_ptr[new.row_order[i] + 1]))
        assert (np.diff(new.csr.col_idx[row]) > 0).all()
        cols = new.col_order[new.csr.col_idx[row]]
        order = np.argsort(cols)
        assert cols[order].tolist() == a.col_idx[was].tolist()
        if a.values is not None:
            assert new.csr.values is not None
            np.testing.assert_array_equal(new.csr.values[row][order], a.values[was])
        else:
            assert new.csr.values is None


@pytest.mark.parametrize("name", battery())
def test_degree_is_a_permutation(name: str) -> None:
    _check(battery()[name], "degree")


@pytest.mark.parametrize("name", SQUARE)
def test_rcm_is_a_permutation(name: str) -> None:
    _check(battery()[name], "rcm")


@pytest.mark.parametrize("how", ["degree", "rcm"])
def test_permuting_in_several_chunks(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_ranges, "__defaults__", (7, 1))
    _check(battery()["random-257"], how)


def test_degree_falls() -> None:
    a = battery()["random-257"]
    new = reorder(a, "degree").csr
    both = new.row_lengths() + np.bincount(new.col_idx, minlength=a.cols)
    assert (np.diff(both) <= 0).all()
    wide = reorder(battery()["wide"], "degree").csr
    assert (np.diff(wide.row_lengths()) <= 0).all()
    assert (np.diff(np.bincount(wide.col_idx, minlength=wide.cols)) <= 0).all()


def test_equal_degrees_keep_their_order() -> None:
    new = reorder(csr(4, 4, [0, 1, 2, 3], [0, 1, 2, 3]), "degree")
    assert new.row_order.tolist() == [0, 1, 2, 3]


def test_rcm_narrows_a_shuffled_band() -> None:
    shuffled = np.random.default_rng(0).permutation(300)
    band = battery()["tridiagonal"].to_scipy().tocoo()
    a = csr(300, 300, shuffled[band.row], shuffled[band.col], band.data)
    new = reorder(a, "rcm").csr
    row = np.repeat(np.arange(300), new.row_lengths())
    assert np.abs(row - new.col_idx).max() == 1


def test_rcm_needs_a_square_matrix() -> None:
    with pytest.raises(UsageError, match="rcm orders square matrices only, this one is 20 x 1,000"):
        reorder(battery()["wide"], "rcm")
    with pytest.raises(UsageError, match="there is no order 'size'"):
        reorder(battery()["tridiagonal"], "size")


# ---- through the command line ----------------------------------------------------------------------------

RUN = ["--device", "host", "--in-process", "--no-save", "--time-limit", "0.01"]


def _bench(capsys: pytest.CaptureFixture[str], *args: str) -> list[dict]:
    assert run(["bench", *args, *RUN, "--json"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize("problem", [["spmv"], ["spmv", "--transpose"], ["spmv-transposed"]])
def test_results_come_back_in_the_matrix_own_order(problem: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    own = [flag for order in ORDERS for flag in ("--reorder", order)]
    records = _bench(capsys, *problem, "rmat:scale=7", *own, "--variant", "cs*-vector", "--variant", "scipy*")
    # The matrix is not symmetric: without the way back, the check would fail.
    assert [r["status"] for r in records] == ["ok"] * len(records)
    assert {r["reorder"] for r in records} == set(ORDERS)
    assert {r["problem"] for r in records} == {"spmv" if problem == ["spmv"] else "spmv-transposed"}
    for r in records:
        assert ("reorder_ms" in r["times"]) == (r["reorder"] != "none")
        assert r["times"].get("reorder_ms", 1) > 0
    assert len({r["matrix"]["sha256"] for r in records}) == 1


@pytest.mark.slow
@pytest.mark.parametrize("where", ["host", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("layout", ["row", "column"])
def test_x_and_y_of_spmm_are_reordered_in_both_layouts(
    layout: str, dtype: str, where: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wide = random_rows([3, 0, 9, 1, 30, 5, 2, 2, 17, 4] * 4, 70)
    scipy.io.mmwrite(tmp_path / "wide.mtx", wide.to_scipy())
    for source, orders in (("rmat:scale=6", ORDERS), (str(tmp_path / "wide.mtx"), ORDERS[:2])):
        own = [flag for order in orders for flag in ("--reorder", order)]
        args = ["spmm", source, "--k", "5", "--layout", layout, "--dtype", dtype, "--force-format", *own]
        assert run(["bench", *args, *RUN, "--device", where, "--json"]) == 0
        data = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        # X has different columns and the matrix is not symmetric: one way omitted fails the check.
        assert {r["status"] for r in data} <= {"ok", "skipped"}, [r["reason"] for r in data]
        done = {(r["variant"], r["reorder"]) for r in data if r["status"] == "ok"}
        own_kernels = {v.name for v in variants("spmm") if v.kernel and dtype in v.dtypes}
        assert {(name, order) for name in own_kernels for order in orders} <= done
        for r in data:
            if r["status"] == "ok":
                assert ("reorder_ms" in r["times"]) == (r["reorder"] != "none")


def test_tables_name_the_order_and_say_where_x_and_y_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "spmv", "rmat:scale=7", "--reorder", "degree", "--variant", "csr-vector", *RUN]) == 0
    shown = capsys.readouterr().out
    assert "csr-vector by degree" in shown
    assert "reorder ms" in shown
    assert "x and y are in the new order too" in shown


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["bfs", "--reorder", "degree"], "No such option"),
        (["bfs", "--transpose"], "No such option"),
        (["spmv", "--reorder", "size"], "'size' is not one of"),
        (["spmv", "--transpose", "--variant", "csr-vector"], "csc-vector"),
    ],
)
def test_what_cannot_be_is_a_usage_error(args: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", args[0], "rmat:scale=5", *args[1:], *RUN]) == 2
    assert message in capsys.readouterr().err
