"""Records as tidy tables, and what is exported of them."""

from __future__ import annotations

import csv
import io
import json
import math
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spgraph_bench.cli.main import run
from spgraph_bench.report.export import export
from spgraph_bench.results.record import Ceiling, Record, Samples
from spgraph_bench.results.store import read_records, to_json_lines
from spgraph_bench.results.tidy import COLUMNS, derived, latest, tables, tidy

ROOT = Path(__file__).resolve().parent.parent
SPMV = ROOT / "results" / "h200" / "spmv-rmat18.jsonl"
BFS = ROOT / "results" / "h200" / "bfs-rmat20-trace.jsonl"


def make_record(variant: str, ms: float, **fields: Any) -> Record:
    """A record of `variant` with 20 samples of about `ms`."""
    times = tuple(ms * (1 + 0.001 * (i % 5)) for i in range(20))
    plain: dict[str, Any] = {
        "problem": "spmv",
        "variant": variant,
        "format": "csr",
        "library": None,
        "where": "gpu",
        "dtype": "float32",
        "matrix": {"name": "m_1", "sha256": "ab", "rows": 10, "cols": 12, "nnz": 50},
        "device": {"name": "H", "kind": "cuda", "l2_bytes": 1},
        "environment": {"cpu": "C"},
        "run": "r",
        "status": "ok",
        "bytes": {"compulsory": 4_000_000, "stored": 5_000_000},
        "operations": 1_000_000,
        "rate_unit": "GFLOP/s",
        "times": {"convert_ms": 1.0},
        "ceiling": Ceiling(4000.0, 3900.0, 0.001, 1 << 30),
        "samples": (Samples("cold", times, "cuda-events", True, 3, "converged"),),
    }
    return Record(**{**plain, **fields})


def _by_variant(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {row["variant"]: row for row in rows}


def test_figures_of_a_product() -> None:
    records = [
        make_record("slow", 2.0),
        make_record("fast", 1.0),
        make_record("old", 1.0, samples=(), status="failed", reason="it broke"),
        make_record("mkl", 4.0, library="MKL", where="cpu"),
        make_record("sell", 1.5, format="sell", times={"convert_ms": 3.0, "upload_ms": 0.5}),
    ]
    rows = tidy(records)
    assert [row["variant"] for row in rows] == ["fast", "sell", "slow", "mkl", "old"]
    assert all(list(row) == list(COLUMNS) for row in rows)
    fast, slow, old, sell = (_by_variant(rows)[name] for name in ("fast", "slow", "old", "sell"))
    assert fast["median_ms"] == pytest.approx(1.002)
    assert fast["low_ms"] <= fast["median_ms"] <= fast["high_ms"]
    assert (fast["rank"], sell["rank"], slow["rank"], old["rank"]) == (1, 2, 3, None)
    assert slow["to_best"] == pytest.approx(2.0)
    assert slow["to_best_low"] < 2.0 < slow["to_best_high"]
    assert fast["to_library"] == pytest.approx(0.25)
    assert fast["rate"] == pytest.approx(1e6 / 1.002e-3 / 1e9)
    assert fast["gbs"] == pytest.approx(4e6 / 1.002e-3 / 1e9)
    assert fast["ceiling_share"] == pytest.approx(fast["gbs"] / 4000)
    assert sell["setup_ms"] == 3.5
    assert sell["pays_after"] == math.inf
    assert old["median_ms"] is None
    assert old["reason"] == "it broke"


def test_emulated_kernels_are_on_the_host() -> None:
    (row,) = tidy([make_record("a", 1.0, device={"name": "C", "kind": "host"}, samples=())])
    assert row["where"] == "host"


def test_figures_of_searches_are_for_one_source() -> None:
    times = (1.0, 3.0) * 10
    samples = Samples("cold", times, "cuda-events", True, 3, "converged", cases=(0, 1) * 10)
    cases = ({"source": 1, "edges": 1_000_000}, {"source": 2, "edges": 3_000_000})
    (row,) = tidy([make_record("push", 1.0, problem="bfs", cases=cases, samples=(samples,), rate_unit="GTEPS")])
    assert (row["median_ms"], row["low_ms"], row["high_ms"]) == (2.0, 2.0, 2.0)
    assert row["rate"] == pytest.approx(1.0)
    assert (row["rank"], row["to_best"]) == (1, 1.0)


def test_every_shipped_record_has_its_row() -> None:
    for file in sorted((ROOT / "results" / "h200").glob("*.jsonl")):
        records = read_records(file)
        rows = tidy(records)
        assert len(rows) == len(records), file
        timed = [r for r in rows if r["median_ms"] is not None]
        assert all(r["low_ms"] is None or r["low_ms"] <= r["median_ms"] <= r["high_ms"] for r in timed), file
        assert not timed or min(r["rank"] or 1 for r in timed) == 1, file


def test_tables_and_the_latest_of_them() -> None:
    first, again, other = (
        make_record("a", 1.0),
        make_record("a", 2.0, run="s"),
        make_record("a", 1.0, dtype="float64"),
    )
    assert [len(t) for t in tables([first, again, other])] == [1, 1, 1]
    assert [t[0].run for t in latest([first, again, other])] == ["s", "r"]


def test_two_gpus_of_one_name_are_never_compared() -> None:
    """As in a sweep that was resumed on the machine's other GPU: one run, one matrix."""
    slow, fast = make_record("csr-vector", 2.0), make_record("csr-scalar", 1.0)
    assert {row["to_best"] for row in tidy([slow, fast])} == {1.0, 2.0}
    fast.device["uuid"] = "another"
    assert [row["to_best"] for row in tidy([slow, fast])] == [1.0, 1.0]


def test_csv_gives_the_same_figures_again() -> None:
    records = read_records(SPMV)
    back = list(csv.DictReader(io.StringIO(export(records, "csv").decode())))
    rows = tidy(records)
    assert len(back) == len(records) == len(rows)
    for line, row in zip(back, rows, strict=True):
        assert line["variant"] == row["variant"]
        assert line["median_ms"] == ("" if row["median_ms"] is None else repr(row["median_ms"]))


def test_parquet_gives_the_same_figures_again() -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    records = [make_record("a", 1.0), make_record("b", 1.0, samples=(), status="skipped")]
    table = parquet.read_table(io.BytesIO(export(records, "parquet")))
    assert table.to_pylist() == tidy(records)


def test_parquet_without_pyarrow(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    target = tmp_path / "a.parquet"
    assert run(["report", str(SPMV), "--format", "parquet", "-o", str(target)]) == 2
    assert "pip install 'spgraph[parquet]'" in capsys.readouterr().err
    assert not target.exists()


def test_markdown() -> None:
    records = [make_record("a|b", 1.0), make_record("c", 1.0, samples=(), status="skipped", reason="<no>\x1b")]
    text = export(records, "md").decode()
    assert text.startswith("### spmv: m\\_1, float32, H\n")
    assert "| a\\|b | csr | 1.002 | 1.001 to 1.003 |" in text
    assert "- skipped: c (\\<no\\>\\\\x1b)" in text


def test_latex() -> None:
    text = export([make_record("a_b&c", 1.0), make_record("d", 2.0)], "latex").decode()
    assert r"a\_b\&c & csr & 1.002" in text
    assert r"95 \% interval" in text
    assert text.count(r"\begin{table}") == text.count(r"\end{table}") == 1
    (spec,) = [line for line in text.splitlines() if r"\begin{tabular}" in line]
    columns = spec.rpartition("{")[2].rstrip("}")
    assert all(line.count(" & ") == len(columns) - 1 for line in text.splitlines() if " & " in line)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    records = tmp_path / "r"
    records.mkdir()
    (records / "a.jsonl").write_text(to_json_lines([make_record("a", 1.0)]))
    assert run(["report", str(records), "--format", "csv"]) == 0
    assert capsys.readouterr().out.startswith("problem,matrix,")
    target = tmp_path / "t.md"
    assert run(["report", str(records), "--format", "md", "-o", str(target)]) == 0
    assert target.read_text().startswith("### spmv")
    assert run(["report", str(records), "--format", "md", "-o", str(target)]) == 2
    assert "--force overwrites it" in capsys.readouterr().err
    (records / "b.jsonl").write_text("{}\n")
    assert run(["report", str(records), "--format", "csv"]) == 2
    assert "b.jsonl:1: JSON, but not a record" in capsys.readouterr().err
    empty = tmp_path / "empty.jsonl"
    empty.touch()
    assert run(["report", str(empty), "--format", "md"]) == 2
    assert "there are no records" in capsys.readouterr().err


def test_bench_exports(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, page = tmp_path / "t.csv", tmp_path / "t.md"
    line = [
        "bench",
        "spmv",
        "poisson2d:n=4",
        "--device",
        "host",
        "--variant",
        "csr-scalar",
        "--no-save",
        "--in-process",
        "--export-csv",
        str(table),
        "--export-markdown",
        str(page),
    ]
    assert run(line) == 0
    (row,) = csv.DictReader(io.StringIO(table.read_text()))
    assert (row["variant"], row["where"], row["status"]) == ("csr-scalar", "host", "ok")
    assert "checked, not timed: csr-scalar" in page.read_text()
    line[-1] = str(tmp_path / "no" / "t.md")
    assert run(line) == 2
    assert "there is no folder" in capsys.readouterr().err


def test_the_page_names_every_column() -> None:
    page = (ROOT / "docs" / "report.md").read_text()
    assert all(f"| `{name}` | {about} |" in page for name, about in COLUMNS.items())


def test_derived_values() -> None:
    hot = make_record("slow", 2.0).samples[0]
    records = [
        make_record("slow", 2.0, samples=(hot, replace(hot, cache="hot"))),
        make_record("sell", 3.0, format="sell"),
        make_record("off", 1.0, samples=(), status="skipped"),
        make_record("fast", 1.0),
    ]
    slow, sell, off, fast = derived(records)
    rows = {row["variant"]: row for row in tidy(records)}
    for values, name in ((slow, "slow"), (sell, "sell"), (fast, "fast")):
        assert {k: v for k, v in values["cold"].items() if v != "inf"}.items() <= rows[name].items()
    assert (fast["cold"]["rank"], slow["cold"]["rank"], slow["hot"]["rank"]) == (1, 2, 1)
    assert sell["cold"]["pays_after"] == "inf"
    assert off == {"where": "gpu"}
    text = to_json_lines(records, derived(records))
    assert [json.loads(line)["derived"] for line in text.splitlines()] == [slow, sell, off, fast]


def test_json_has_derived_values(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = "bench spmv poisson2d:n=4 --device host --variant scipy --variant csr-scalar --json --no-save --in-process"
    assert run(line.split()) == 0
    out = capsys.readouterr().out
    parsed = {(data := json.loads(text))["variant"]: data["derived"] for text in out.splitlines()}
    assert parsed["csr-scalar"] == {"where": "host"}
    assert parsed["scipy"]["where"] == "cpu"
    assert parsed["scipy"]["cold"]["rank"] == 1
    records = tmp_path / "a.jsonl"
    records.write_text(out)
    assert {r.variant: d for r, d in zip(read_records(records), derived(read_records(records)), strict=True)} == parsed


@pytest.mark.parametrize("suffix", [".csv", ".md", ".tex", ".CSV"])
def test_the_suffix_says_the_form(tmp_path: Path, suffix: str) -> None:
    target = tmp_path / f"made{suffix}"
    assert run(["report", str(SPMV), "-o", str(target)]) == 0
    assert not target.read_bytes().startswith(b"<!doctype")
    named = tmp_path / "named"
    form = {".csv": "csv", ".md": "md", ".tex": "latex"}[suffix.lower()]
    assert run(["report", str(SPMV), "--format", form, "-o", str(named)]) == 0
    assert target.read_bytes() == named.read_bytes()
