"""The Python API: read, bench, Results."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from test_report import SPMV, make_record

import spgraph_bench
from spgraph_bench.api import Results, bench, read
from spgraph_bench.errors import InputError, NothingRanError, SpgraphError, UsageError
from spgraph_bench.results.tidy import COLUMNS

pytestmark = pytest.mark.slow


def test_the_package_offers_it_without_importing_it() -> None:
    code = (
        "import sys, spgraph_bench; assert 'numpy' not in sys.modules; "
        "assert {'read', 'bench', 'Results'} <= set(dir(spgraph_bench)); "
        "spgraph_bench.bench; assert 'numpy' in sys.modules"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0
    assert spgraph_bench.bench is bench
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        spgraph_bench.nothing  # type: ignore[attr-defined]  # noqa: B018


def test_read(tmp_path: Path) -> None:
    dense = np.array([[0, 2.5, 0], [1, 0, 0], [0, 0, -1]])
    array = sp.coo_array(dense)
    matrix = read(array)
    assert (matrix.csr.rows, matrix.csr.nnz, matrix.source.kind) == (3, 3, "array")
    assert matrix.csr.values is not None
    assert matrix.csr.values.tolist() == [2.5, 1, -1]
    assert array.data.tolist() == [2.5, 1, -1]
    assert read(sp.csr_array(dense != 0)).csr.values is None
    assert read(array, symmetrize=True).csr.nnz == 3
    path = tmp_path / "a.mtx"
    path.write_text("%%MatrixMarket matrix coordinate real general\n3 3 3\n1 2 2.5\n2 1 1\n3 3 -1\n")
    assert read(path).sha256 == matrix.sha256
    assert read("poisson2d:n=3").csr.rows == 9
    with pytest.raises(InputError, match="no such file"):
        read("nothing.mtx")
    with pytest.raises(UsageError, match="do not apply to a recipe"):
        read("poisson2d:n=3", base=0)


def test_bench_on_the_host() -> None:
    messages: list[str] = []
    seen = []
    results = bench(
        sp.eye_array(20, format="csr"),
        variants=["csr-scalar", "scipy"],
        device="host",
        in_process=True,
        progress=messages.append,
        on_record=seen.append,
    )
    assert {r.variant: r.status for r in results} == {"csr-scalar": "ok", "scipy": "ok"}
    assert list(results) == seen
    assert messages
    assert results.best()["variant"] == "scipy"
    with pytest.raises(NothingRanError):
        results.best(variant="csr-scalar")
    assert "csr-scalar" in str(results)
    assert repr(results) == "<Results: spmv, 2 cells, 2 ok>"
    assert results.compare(results).count("same") + results.compare(results).count("unsure") == 1


def test_bench_of_a_graph_and_of_made_inputs() -> None:
    (record,) = bench("grid:n=4", "bfs", variants="push", device="host", in_process=True, options={"source": 0})
    assert (record.status, len(record.cases)) == ("ok", 1)
    (record,) = bench(problem="bezier", variants="uniform", device="host", in_process=True, options={"curves": 10})
    assert record.status == "ok"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"problem": "spvm"}, "no problem 'spvm'"),
        ({"variants": "nothing*"}, "no variant of spmv matches"),
        ({"formats": "nothing"}, "reads a format"),
        ({"dtypes": "float128"}, "is not available in float128"),
        ({"matrix": None}, "needs a matrix"),
        ({"problem": "bezier"}, "takes no matrix"),
        ({"options": {"kk": 3}}, "no option 'kk'"),
        ({"problem": "spmm", "options": {"k": -1}}, "k"),
        ({"matrix": "no-such-file.mtx"}, "no such file"),
        ({"device": "cuda:999"}, "cuda:999"),
    ],
)
def test_bad_arguments(arguments: dict[str, object], text: str) -> None:
    given: dict[str, object] = {"matrix": "poisson2d:n=3", "device": "host", "in_process": True, **arguments}
    with pytest.raises(SpgraphError, match=text) as caught:
        bench(**given)  # type: ignore[arg-type]
    assert caught.value.remedy


def test_results() -> None:
    results = Results.load(SPMV)
    assert len(results.where(dtype="float64")) * 2 == len(results)
    assert results.best(dtype="float32")["rank"] == 1
    assert all(r["rank"] == 1 for r in results.where(rank=1).rows())
    assert len(results.where(rank=1)) < 10
    with pytest.raises(UsageError, match="differ in dtype"):
        results.best()
    with pytest.raises(UsageError, match="no column 'speed'"):
        results.where(speed=1)
    assert results[:3] + results[3:] == results
    html = results._repr_html_()
    assert html.count("<table") == html.count("</table>") >= 2
    assert "<script" not in html
    same = results.compare(results)
    assert same.count("same") + same.count("unsure") + same.count("not timed") == len(results)


def test_a_slowdown_is_seen() -> None:
    base, slow = Results([make_record("a", 1.0)]), Results([make_record("a", 1.2)])
    assert slow.compare(base).count("slower") == 1
    with pytest.raises(UsageError, match="differ in device"):
        slow.compare([make_record("a", 1.0, device={"name": "other"})])
    with pytest.raises(NothingRanError):
        slow.compare([make_record("b", 1.0)])


def test_save(tmp_path: Path) -> None:
    results = Results([make_record("a", 1.0), make_record("b", 2.0)])
    for name in ("r.jsonl", "r.csv", "r.md", "r.tex"):
        results.save(tmp_path / name)
        assert (tmp_path / name).stat().st_size > 100
    assert Results.load(tmp_path / "r.jsonl") == results
    with pytest.raises(UsageError, match="exists already"):
        results.save(tmp_path / "r.csv")
    results.save(tmp_path / "r.csv", overwrite=True)
    with pytest.raises(UsageError, match="suffix"):
        results.save(tmp_path / "r.xls")


def test_to_pandas() -> None:
    pandas = pytest.importorskip("pandas")
    table = Results([make_record("a", 1.0), make_record("b", 2.0)]).to_pandas()
    assert isinstance(table, pandas.DataFrame)
    assert list(table.columns) == list(COLUMNS)
    assert table.median_ms.tolist() == pytest.approx([1.002, 2.004])


def test_to_pandas_without_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UsageError, match="pandas is not installed"):
        Results().to_pandas()


def test_a_parameter_that_no_variant_has_is_refused() -> None:
    with pytest.raises(UsageError, match="no parameter is called 'blok'"):
        spgraph_bench.bench("poisson2d:n=5", "spmv", variants="csr-*", device="host", params={"blok": 3})
