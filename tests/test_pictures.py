"""Pictures: what they show is the answer, they are drawn, and what cannot be is told before the run."""

from __future__ import annotations

import importlib.util
import io
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spgraph_bench.cli.main import run
from spgraph_bench.cli.plotting import result_drawing
from spgraph_bench.device import host_compiler
from spgraph_bench.problems import get_problem
from spgraph_bench.problems.quadtree import draw_points, leaf_boxes, point_codes
from spgraph_bench.report.braille import draw
from spgraph_bench.report.drawing import Bars, Dots, Drawing, Line, Panel, curves, levels, roofline, times
from spgraph_bench.results.store import read_records
from spgraph_bench.runner.assembly import generated_matrix

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "results" / "h200"


def _map(problem: str, most: int = 3000, **options: Any) -> tuple[dict[str, Any], Any]:
    of = get_problem(problem, options)
    matrix, dtype = generated_matrix(of, options), np.dtype(of.dtypes[0])
    inputs = of.inputs(matrix, dtype, 1, **options)
    oracle = of.oracle(matrix, inputs, dtype, **options)
    return of.map(inputs, oracle, most), oracle


@pytest.mark.parametrize("shape", ["uniform", "clustered", "line", "equal"])
def test_leaves_cover_the_square_and_hold_few_points(shape: str) -> None:
    shapes, _ = _map("quadtree", points=900, shape=shape, leaf=16, depth=8)
    corner, side, points = shapes["corner"], shapes["side"], shapes["points"]
    assert (side * side).sum() == pytest.approx(1)
    inside = (points[:, None] >= corner).all(axis=2) & (points[:, None] < corner + side[:, None]).all(axis=2)
    assert (inside.sum(axis=1) == 1).all()
    assert inside.sum(axis=0)[side > 2.0**-8].max(initial=0) <= 16


def test_boxes_that_are_too_many_are_drawn_as_their_parents() -> None:
    codes = point_codes(draw_points(1, 5000, "uniform"))
    whole, few = leaf_boxes(codes, 4, 16, 10**9), leaf_boxes(codes, 4, 16, 300)
    assert len(few[0]) <= 300 < len(whole[0])
    assert (4.0 ** -few[1]).sum() == pytest.approx(1)


def test_refined_cells_cover_the_square() -> None:
    shapes, oracle = _map("refine", depth=6)
    assert len(shapes["side"]) == len(oracle["right"])
    assert (shapes["side"] ** 2).sum() == pytest.approx(1)
    assert len(np.unique(shapes["corner"], axis=0)) == len(shapes["corner"])
    few, _ = _map("refine", most=300, depth=6)
    assert len(few["side"]) <= 300
    assert (few["side"] ** 2).sum() == pytest.approx(1)


def test_curves_have_the_points_they_need() -> None:
    shapes, oracle = _map("bezier", curves=50)
    assert (shapes["count"] == oracle["needed"]).all()
    panel = curves(shapes["points"], shapes["count"], "curves")
    line, dots = panel.parts
    assert isinstance(line, Line)
    assert isinstance(dots, Dots)
    assert len(dots.x) == oracle["needed"][:36].sum()
    assert np.isnan(line.x).sum() == 36
    cells = np.unique(np.floor(dots.x) + 100 * np.floor(dots.y))
    assert len(cells) == 36


def test_a_line_is_drawn_where_it_is() -> None:
    both = np.array([0.0, 1.0])
    text = draw(Drawing("t", (Panel("p", "x", "y", (Line(both, both),)),)), 40, ascii=True)
    body = [line.partition("|")[2].rpartition("|")[0] for line in text.splitlines() if "|" in line]
    assert body[0].rstrip().endswith("*")
    assert body[-1].startswith("*")
    columns = [line.index("*") for line in body]
    assert columns == sorted(columns, reverse=True)
    broken = draw(Drawing("t", (Panel("p", "x", "y", (Line(np.array([0, np.nan, 1.0]), np.array([0, 0, 1.0])),)),)), 40)
    assert sum(0x2800 < ord(c) < 0x2900 for c in broken) == 2


def test_bars_show_their_intervals() -> None:
    bars = Bars(("a", "bb"), np.array([1.0, 2.0]), np.array([0.9, np.nan]), np.array([1.2, np.nan]))
    text = draw(Drawing("t", (Panel("p", "ms", parts=(bars,)),), ("a note",)), 60)
    assert "0.9000 to 1.200" in text
    assert text.count("█") > 10
    assert text.endswith("a note\n")
    assert all(len(line) <= 60 for line in text.splitlines())


@pytest.mark.parametrize("drawn", [Panel("p"), Panel("p", parts=(Dots(np.zeros(0), np.zeros(0)),), log_y=True)])
def test_nothing_is_drawn_of_nothing(drawn: Panel) -> None:
    assert draw(Drawing("t", (drawn,)), 40).startswith("t\n")


def test_pictures_of_records() -> None:
    records = [r for r in read_records(RESULTS / "spmv-rmat18.jsonl") if r.dtype == "float32"]
    (panel,) = times(records)
    (bars,) = panel.parts
    assert isinstance(bars, Bars)
    assert list(bars.values) == sorted(bars.values)
    assert bars.low is not None
    assert (bars.low <= bars.values).all()
    roof = roofline(records)
    assert roof is not None
    line = roof.parts[0]
    assert isinstance(line, Line)
    assert line.y[0] / line.x[0] == pytest.approx(max(r.ceiling.gbs for r in records if r.ceiling))
    fastest = max(float(p.y.max()) for p in roof.parts if isinstance(p, Dots))
    best = next(r for r in records if r.variant == bars.names[0])
    assert fastest >= 0.99 * best.operations / bars.values[0] / 1e6
    traced = read_records(RESULTS / "bfs-rmat20-trace.jsonl")
    frontier, each, over = levels(traced)
    assert next(p.label for p in each.parts) == "auto"
    assert all(isinstance(p, Line) and (np.diff(p.x) >= 0).all() for p in over.parts)
    assert frontier.log_y


@pytest.mark.parametrize("form", ["svg", "png", "pdf"])
def test_files_are_drawn(form: str) -> None:
    pytest.importorskip("matplotlib")
    from spgraph_bench.report.picture import save_drawing

    bars = Bars(("a", "b"), np.array([1.0, 2.0]), np.array([0.9, np.nan]), np.array([1.1, np.nan]))
    line = Line(np.arange(3.0), np.array([1.0, np.nan, 2.0]), "a", True)
    drawing = Drawing("t", (Panel("bars", parts=(bars,)), Panel("map", parts=(line,), equal=True)), ("a note",))
    files = [io.BytesIO(), io.BytesIO()]
    for file in files:
        save_drawing(file, drawing, form)
    assert files[0].getvalue()[:5] in (b"<?xml", b"\x89PNG\r", b"%PDF-")
    if form == "svg":
        assert files[0].getvalue() == files[1].getvalue()


@pytest.mark.skipif(host_compiler.available() is not None, reason=str(host_compiler.available()))
def test_what_is_emulated_has_counts(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    own = ["--variant", "co*", "--device", "host", "--results", str(tmp_path), "--in-process"]
    assert run(["bench", "spmv", "rmat:scale=6", *own, "--plot", "-"]) == 0
    out = capsys.readouterr().out
    assert "global atomics" in out
    assert "Kernels are emulated here" in out
    drawing = result_drawing(read_records(tmp_path), "cold")
    assert drawing is not None
    assert not any("ms" in panel.x for panel in drawing.panels)
    assert run(["bfs", "grid:n=5", "--device", "host", "--no-save", "--in-process", "--plot", "-"]) == 0
    out = capsys.readouterr().out
    assert "vertices in the frontier" in out


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("a.doc", "end the name in .png, .svg, .pdf"),
        ("a", "end the name in"),
        ("absent/a.svg", "no folder"),
        ("folder.svg", "folder.svg"),
        ("/proc/a.svg", "/proc/a.svg"),
    ],
)
@pytest.mark.parametrize("command", [["bench", "bezier"], ["bfs", "grid:n=5"], ["info", "grid:n=5"]])
def test_what_cannot_be_drawn_is_reported_before_the_run(
    command: list[str], target: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    (tmp_path / "folder.svg").mkdir()
    assert run([*command, "--plot", target]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert len(err.splitlines()) <= 2


@pytest.mark.parametrize("command", [["bench", "bezier"], ["bfs", "grid:n=5"]])
def test_what_a_plot_needs(command: list[str], monkeypatch: pytest.MonkeyPatch, capsys: Any, tmp_path: Path) -> None:
    assert run([*command, "--json", "--plot", "-"]) == 2
    assert "both write to stdout" in capsys.readouterr().err
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert run([*command, "--plot", str(tmp_path / "a.svg")]) == 2
    assert "remedy: pip install 'spgraph[plot]'" in capsys.readouterr().err


def _script() -> Any:
    spec = importlib.util.spec_from_file_location("pictures", ROOT / "scripts" / "pictures.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["pictures"] = module
    spec.loader.exec_module(module)
    return module


def test_pictures_of_the_documents_are_those_of_the_records(monkeypatch: pytest.MonkeyPatch) -> None:
    pictures = _script()
    assert pictures.stale() == [], "run scripts/pictures.py"
    assert {p.stem for p in (ROOT / "docs" / "pictures").glob("*.svg")} == set(pictures.PICTURES)
    assert all(p.stat().st_size < 60_000 for p in (ROOT / "docs" / "pictures").iterdir())
    other = Drawing("t", (Panel("p", parts=(Dots(np.zeros(1), np.ones(1)),)),))
    monkeypatch.setitem(pictures.PICTURES, "bezier", lambda: other)
    assert pictures.stale() == ["bezier"]
