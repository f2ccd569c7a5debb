"""The HTML report: what is in it, that it needs no network, and that names cannot break it."""

from __future__ import annotations

import html
import json
import math
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from test_report import BFS, SPMV, make_record

from spgraph_bench.cli.main import run
from spgraph_bench.report import charts
from spgraph_bench.report.summary import conclusion, failures, summary
from spgraph_bench.results.profiles import profile
from spgraph_bench.results.record import Record
from spgraph_bench.results.store import read_records, to_json_lines
from spgraph_bench.results.sweeps import sweeps
from spgraph_bench.results.tidy import latest, tables, tidy

pytestmark = pytest.mark.slow


def _on(matrix: str, *times: tuple[str, float], library: str = "") -> list[Record]:
    about = {"name": matrix, "sha256": matrix, "rows": 9, "cols": 9, "nnz": 9}
    return [make_record(v, ms, matrix=about, run=matrix, library=library if v == library else None) for v, ms in times]


THREE = [
    *_on("a", ("x", 1.0), ("y", 1.05), ("lib", 3.0), library="lib"),
    *_on("b", ("x", 4.0), ("y", 2.0), ("lib", 3.0), library="lib"),
    *_on("c", ("y", 1.0), ("lib", 0.5), library="lib"),
]


def test_profile() -> None:
    result = profile(tidy(THREE))
    assert len(result.matrices) == 3
    assert result.ratios["x"] == (1.0, 2.0, math.inf)
    assert result.within("y", 1.0) == pytest.approx(1 / 3)
    assert result.within("y", 1.1) == pytest.approx(2 / 3)
    assert result.within("lib", 1e9) == 1.0
    assert result.by_merit()[0] == "y"
    assert result.steps("x", 10.0) == (
        [1.0, 2.0, 10.0],
        [pytest.approx(1 / 3), pytest.approx(2 / 3), pytest.approx(2 / 3)],
    )


def test_sentences() -> None:
    printed = summary(tables(THREE))
    assert printed[0] == "8 cells, 1 problem, 3 matrices, on H: 8 ok."
    assert (
        "is the fastest on 1 of 3 matrices; y is closest to the fastest overall, within 10 % of it on 2" in printed[1]
    )
    assert "spgraph is faster on 2, slower on 1, and the intervals meet on 0" in printed[2]
    one = summary(tables(THREE[:3]))
    assert one[1].startswith("spmv on a, float32: x is the fastest: 1.002 ms")
    assert "lib's best takes 3.00x the time of spgraph's" in one[1]
    assert conclusion(tidy([make_record("x", 1.0, samples=())])) == "1 variant checked, none timed."
    assert conclusion(tidy([make_record("x", 1.0, samples=(), status="skipped")])) == "Nothing ran."
    broken = make_record("x", 1.0, status="wrong", reason="y[0] is 1")
    assert failures([[broken]]) == ["spmv x on m_1, float32: wrong. y[0] is 1"]


def test_a_run_in_full_replaces_the_one_before_it() -> None:
    old, new = [make_record(v, 1.0, run="1") for v in "ab"], [make_record(v, 1.0, run="2") for v in "ab"]
    assert [t[0].run for t in latest([*old, *new])] == ["2"]
    assert [t[0].run for t in latest([*old, new[0]])] == ["1", "2"]  # b is only in the first


class _Reader(HTMLParser):
    """Texts, sorted-by values, and what a page would load."""

    def __init__(self) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.open: list[str] = []
        self.tags: list[str] = []
        self.values: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in ("meta", "link", "img", "input", "br"):
            self.open.append(tag)
        for name, value in attrs:
            if name in ("src", "href", "data", "poster") and not (value or "").startswith("#"):
                self.loads.append(f"{tag} {name}={value}")
            if name == "data-v":
                self.values.append(value or "")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize("file", [SPMV, BFS])
def test_the_page_is_whole_and_loads_nothing(file: Path, tmp_path: Path) -> None:
    pytest.importorskip("plotly")
    target = tmp_path / "r.html"
    assert run(["report", str(file), "-o", str(target)]) == 0
    text = target.read_text()
    page = _Reader()
    page.feed(text)
    assert page.open == []
    assert page.loads == []
    assert "link" not in page.tags
    assert "default-src 'none'" in text
    assert page.values
    assert all(value == "" or math.isfinite(float(value)) or value == "1e999" for value in page.values)
    figures = json.loads(text.partition('id="figures">')[2].partition("</script>")[0])
    assert text.count('class="chart" data-figure=') == len(figures) >= 2
    assert ("Levels of the search" in text) == (file == BFS)
    assert ("Setup and break-even" in text) == (file == SPMV)
    for record in read_records(file):
        assert record.variant in text


def test_several_matrices_have_a_profile_and_a_roofline() -> None:
    pytest.importorskip("plotly")
    from spgraph_bench.report.page import html_bytes

    text = html_bytes(THREE).decode()
    assert "Performance profile" in text
    assert "Roofline" in text


def test_names_cannot_break_the_page() -> None:
    pytest.importorskip("plotly")
    from spgraph_bench.report.page import html_bytes

    name = "</script><script>alert(1)</script><b>\x1b[31m\u2028"
    matrix = {"name": name, "sha256": name}
    records = [
        make_record(name, 1.0, matrix=matrix),
        make_record("b", 2.0, matrix=matrix),
        make_record("c", 1.0, status="failed", reason=name, samples=(), matrix=matrix),
    ]
    text = html_bytes(records).decode()
    assert "<script>alert" not in text
    assert "\x1b" not in text
    assert text.count("<script") == text.count("</script>") == 3


def test_without_plotly(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for module in ("plotly", "plotly.offline", "plotly.graph_objects"):
        monkeypatch.setitem(sys.modules, module, None)
    records = tmp_path / "a.jsonl"
    records.write_text(to_json_lines([make_record("a", 1.0)]))
    assert run(["report", str(records), "-o", str(tmp_path / "r.html")]) == 2
    assert "pip install 'spgraph[report]'" in capsys.readouterr().err
    assert not (tmp_path / "r.html").exists()


def test_labels_are_unique() -> None:
    rows = tidy([make_record("a", 1.0, params={"k": 1}), make_record("a", 2.0, params={"k": 2}), make_record("a", 3.0)])
    names = charts.labels(rows)
    assert len(set(names)) == 3
    assert names[0] == "a"


_PROBE = """<script>addEventListener("load", () => setTimeout(() => {
  const table = document.querySelector("table.sortable"), found = { sorted: {} };
  [...table.tHead.rows[0].cells].forEach((head, i) => {
    const column = () => [...table.tBodies[0].rows].map(row => row.cells[i].textContent);
    head.firstChild.click(); const up = column(), ups = head.getAttribute("aria-sort");
    head.firstChild.click(); found.sorted[head.textContent] = [ups, up, head.getAttribute("aria-sort"), column()];
  });
  setTimeout(() => {
    found.charts = document.querySelectorAll(".chart").length;
    found.drawn = document.querySelectorAll(".chart.js-plotly-plot").length;
    found.dark = matchMedia("(prefers-color-scheme: dark)").matches;
    found.ink = document.querySelector(".xtick text").style.fill;
    document.body.innerHTML = ""; document.body.textContent = JSON.stringify(found);
  }, 1000);
}, 300));</script></body>"""
_BROWSER = next(filter(None, map(shutil.which, ("chromium", "google-chrome", "chromium-browser"))), None)


def _in_browser(page: Path, folder: Path, *flags: str) -> tuple[dict[str, Any], list[str]]:
    """What the probe found in `page`, and what the browser said on its console."""
    assert _BROWSER is not None
    done = subprocess.run(
        [
            _BROWSER,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            f"--user-data-dir={folder / 'profile'}",
            "--window-size=1200,15000",
            "--virtual-time-budget=5000",
            "--enable-logging=stderr",
            "--dump-dom",
            *flags,
            page.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
    )
    body = html.unescape(done.stdout.partition("<body>")[2].partition("</body>")[0])
    return json.loads(body), [line for line in done.stderr.splitlines() if "CONSOLE" in line]


def _number(cell: str) -> float:
    return math.inf if cell == "never" else float(re.sub("[,x%=]| to .*", "", cell))


@pytest.mark.skipif(_BROWSER is None, reason="no Chromium here")
@pytest.mark.parametrize("dark", [False, True])
def test_in_a_browser(dark: bool, tmp_path: Path) -> None:
    pytest.importorskip("plotly")
    from spgraph_bench.report.page import html_bytes

    page = tmp_path / "r.html"
    text = html_bytes(read_records([SPMV, BFS])).decode()
    page.write_text(text.replace("</body>", _PROBE))
    result, printed = _in_browser(page, tmp_path, *(["--blink-settings=preferredColorScheme=0"] if dark else []))
    assert printed == []
    assert result["charts"] == result["drawn"] >= 5
    assert (result["dark"], result["ink"]) == (dark, "rgb(230, 233, 237)" if dark else "rgb(27, 31, 36)")
    for title, (ups, up, downs, down) in result["sorted"].items():
        assert (ups, downs) == ("ascending", "descending"), title
        assert sorted(up) == sorted(down), title
        filled = [[cell for cell in cells if cell != "-"] for cells in (up, down)]
        if title in ("variant", "format"):
            assert filled[0] == sorted(filled[0]), title
        else:
            numbers = [[_number(cell) for cell in cells] for cells in filled]
            assert numbers[0] == sorted(numbers[0]), title
            assert numbers[1] == sorted(numbers[1], reverse=True), title
            assert up[len(filled[0]) :] == down[len(filled[1]) :] == ["-"] * (len(up) - len(filled[0])), title


@pytest.mark.skipif(_BROWSER is None, reason="no Chromium here")
def test_the_browser_notices_what_a_page_loads(tmp_path: Path) -> None:
    pytest.importorskip("plotly")
    from spgraph_bench.report.page import html_bytes

    page = tmp_path / "r.html"
    planted = '<img src="https://example.org/a.png">' + _PROBE
    page.write_text(html_bytes(read_records(BFS)).decode().replace("</body>", planted))
    _, printed = _in_browser(page, tmp_path)
    assert any("Content Security Policy" in line for line in printed)


def _swept(scale: int, ms: float, **fields: Any) -> Record:
    source = {"kind": "recipe", "text": f"rmat:scale={scale},edgefactor=16,seed=1"}
    about = {"name": f"rmat{scale}", "sha256": str(scale), "source": source}
    return make_record("csr", ms, matrix=about, run=str(scale), **fields)


def test_sweeps() -> None:
    swept = [_swept(10, 1.0), _swept(14, 4.0), _swept(12, 2.0)]
    (result,) = sweeps(tables(swept))
    assert (result.title, result.parameter, list(result.tables)) == (
        "spmv, rmat, float32, H",
        "scale",
        [10.0, 12.0, 14.0],
    )
    assert sweeps(tables(swept[:2])) == []
    assert sweeps(tables([*swept[:2], _swept(12, 2.0, dtype="float64")])) == []
    by_k = [_swept(10, 1.0, options={"k": k, "layout": "row"}, problem="spmm") for k in (1, 8, 64)]
    assert [s.parameter for s in sweeps(tables(by_k))] == ["k"]
    assert sweeps(tables(THREE)) == []


def test_a_sweep_has_a_chart() -> None:
    pytest.importorskip("plotly")
    from spgraph_bench.report.page import html_bytes

    swept = [_swept(10, 1.0), _swept(12, 2.0), _swept(14, 4.0)]
    assert "spmv, rmat, float32, H: along scale" in html_bytes(swept).decode()
    (result,) = sweeps(tables(swept))
    figure = json.loads(charts.sweep_chart(result, "cold") or "")
    assert figure["data"][0]["x"] == [10, 12, 14]
    assert figure["data"][0]["y"][0] == pytest.approx(4 * figure["data"][0]["y"][2])


def test_emulated_kernels_lose_nothing_to_a_timed_library() -> None:
    host = {"name": "C", "kind": "host"}
    rows = tidy([make_record("csr", 1.0, device=host, samples=()), make_record("scipy", 1.0, device=host, where="cpu")])
    assert "scipy is the only one timed: 1.002 ms" in conclusion(rows)
    assert conclusion(rows).endswith(". 1 emulated kernel checked, not timed.")
