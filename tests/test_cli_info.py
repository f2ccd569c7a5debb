"""`spgraph info`: one set of facts, as tables and as JSON."""

from __future__ import annotations

import importlib.util
import io
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spgraph_bench import recipes
from spgraph_bench.cli.info import _share
from spgraph_bench.cli.main import run
from spgraph_bench.formats import common
from spgraph_bench.formats.base import formats
from spgraph_bench.report.picture import density_grid
from spgraph_bench.stats import row_stats


def _json(capsys: pytest.CaptureFixture[str], *args: str) -> Any:
    assert run(["info", *args, "--json"]) == 0
    out = capsys.readouterr().out

    def no_constant(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    return json.loads(out, parse_constant=no_constant)


def _text(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    assert run(["info", *args]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("json_too", [[], ["--json"]])
def test_a_file_without_a_banner_is_warned_of_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], json_too: list[str]
) -> None:
    path = tmp_path / "bare.mtx"
    path.write_text("% no banner\n2 2 2\n1 1 2.5\n2 1 3\n")
    assert run(["info", str(path), *json_too]) == 0
    assert capsys.readouterr().err == (
        f"warning: {path}:2: no %%MatrixMarket banner: read as a coordinate matrix, real general\n"
    )


def test_json_holds_everything(capsys: pytest.CaptureFixture[str]) -> None:
    data = _json(capsys, "blocks:n=8,block=3")
    matrix = recipes.make("blocks:n=8,block=3")
    assert data["schema"] == "spgraph-info-1"
    assert data["matrix"]["name"] == "blocks-8-3"
    assert data["matrix"]["sha256"] == matrix.sha256
    assert data["matrix"]["source"]["text"] == "blocks:n=8,block=3,values=random,seed=1"
    assert (data["rows"]["rows"], data["rows"]["nnz"]) == (192, 9 * (5 * 64 - 4 * 8))
    assert data["structure"]["symmetry"] == {"pattern": 1.0, "value": 1.0, "skew": 0.0}
    assert data["structure"]["block_size"] == 3
    assert data["structure"]["columns"]["max"] == 15
    assert data["findings"] == []
    assert data["dense"] == {"bytes": {"float32": 192 * 192 * 4, "float64": 192 * 192 * 8}, "bitmap_bytes": 4608}
    assert [f["format"] for f in data["formats"]] == list(formats())


@pytest.mark.parametrize("text", ["rmat:scale=7", "grid:n=5", "dense:rows=3,cols=50"])
def test_bytes_are_those_of_the_packed_formats(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    csr = recipes.make(text).csr
    for entry in _json(capsys, text)["formats"]:
        form = formats()[entry["format"]]
        assert entry["refused"] == form.refuse(row_stats(csr), None)
        for dtype, size in entry["bytes"].items():
            stored = form.pack(csr, dtype).stored_bytes
            assert stored == size or (stored < size and not form.predicts_exactly)


def test_bytes_are_those_with_the_offsets_of_a_run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs take int64 from 2^31 - 2^16 nonzeros on; `info` counted with int32 up to 2^31."""
    csr = recipes.make("grid:n=5").csr
    monkeypatch.setattr(common, "INT32_ENTRIES", csr.nnz - 1)
    sizes = {entry["format"]: entry["bytes"]["float32"] for entry in _json(capsys, "grid:n=5")["formats"]}
    assert sizes["csr"] == formats()["csr"].pack(csr, np.float32, np.int64).stored_bytes


def test_refusal_is_reported_with_its_figures(capsys: pytest.CaptureFixture[str]) -> None:
    ell = next(f for f in _json(capsys, "star:n=2000")["formats"] if f["format"] == "ell")
    assert "the longest row has 1,999 nonzeros" in ell["refused"]
    assert "refused: ELL stores" in _text(capsys, "star:n=2000")


def test_text_is_plain_and_fits(capsys: pytest.CaptureFixture[str]) -> None:
    for text in ("arrow:n=3000", "rmat:scale=9", "dense:rows=2,cols=900", "poisson2d:n=20,values=stencil"):
        out = _text(capsys, text)
        assert max(map(len, out.splitlines())) <= 100
        assert "\x1b" not in out
        assert out.isascii()
        for message in ("Entries per row", "bandwidth", "block fill", "Bytes in each format", "dense bitmap", "+---"):
            assert message in out, (text, message)
        assert all(f"  {name} " in out for name in formats())


def test_what_the_text_says(capsys: pytest.CaptureFixture[str]) -> None:
    out = _text(capsys, "poisson2d:n=20,values=stencil")
    for message in (
        "poisson2d:n=20,values=stencil,seed=1 (recipe)",
        "400 x 400, 1,920 entries, density 0.012",
        "weighted; declared symmetric",
        "lower 20, upper 20",
        "5 occupied, 98.1% full; 3 without a gap",
        "400 of 400 places",
        "pattern 100%, values 100%, skew 0%",
        "-1 to 4, 2 distinct",
        "0 stored zeros, 1,520 negative, 0 NaN or infinite",
    ):
        assert message in out


def test_a_matrix_without_entries(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "empty.mtx"
    path.write_text("%%MatrixMarket matrix coordinate real general\n3 5 0\n")
    data = _json(capsys, str(path))
    assert data["structure"]["symmetry"] is None
    assert data["structure"]["values"]["min"] is None
    out = _text(capsys, str(path))
    assert "3 x 5, 0 entries" in out
    assert "not square" in out


def test_values_that_json_does_not_have(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "odd.mtx"
    path.write_text("%%MatrixMarket matrix coordinate real general\n2 2 3\n1 1 nan\n2 2 inf\n1 2 0\n")
    values = _json(capsys, str(path))["structure"]["values"]
    assert values == {"min": 0.0, "max": 0.0, "zeros": 1, "negative": 0, "nonfinite": 2, "distinct": 3}


def test_findings_of_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "list.txt"
    path.write_text("Source Target\n3 4\n4 5\n9 3\n")
    assert run(["info", str(path)]) == 0
    printed = capsys.readouterr()
    assert "Notes on the input" in printed.out
    assert "line 1: 'Source Target'" in printed.out or "line 1: Source Target" in printed.out
    assert f"warning: {path}" in printed.err
    assert _json(capsys, str(path))["findings"][0]["line"] == 1
    assert "Notes on the input" not in _text(capsys, "chain:n=4")


def test_names_from_outside_cannot_command_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a\x1b[31m[bold]b.mtx"
    path.write_text("%%MatrixMarket matrix coordinate pattern general\n1 1 1\n1 1\n")
    out = _text(capsys, str(path))
    assert "\x1b" not in out
    assert "[bold]b" in out


def test_without_an_argument_a_recipe_is_taken(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["info", "--json"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["matrix"]["name"] == "rmat16"
    assert "using the recipe rmat:scale=16" in printed.err


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("absent.mtx",), "absent.mtx"),
        (("rmat:scale=99",), "scale cannot be '99': it is not in 1..30"),
        (("chain:n=5", "--plot", "a.doc"), "end the name in .png, .svg, .pdf"),
    ],
)
def test_errors(args: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["info", *args]) == 2
    assert message in capsys.readouterr().err


def test_plot_without_matplotlib_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert run(["info", "chain:n=5", "--plot", str(tmp_path / "a.png")]) == 2
    assert "remedy: pip install 'spgraph[plot]'" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["rmat:scale=7", "dense:rows=1,cols=9", "chain:n=1"])
def test_picture(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    every = ((".svg", b"<?xml"), (".png", b"\x89PNG"), (".pdf", b"%PDF"))
    for suffix, magic in every if text.startswith("rmat") else every[:1]:
        path = tmp_path / f"a{suffix}"
        assert run(["info", text, "--plot", str(path)]) == 0
        assert path.read_bytes().startswith(magic)
    capsys.readouterr()


@pytest.mark.parametrize(("rows", "cols"), [(5, 5), (3, 900), (1200, 7), (601, 600), (1, 1)])
def test_density_grid_counts_every_nonzero_in_its_cell(rows: int, cols: int) -> None:
    csr = recipes.make(f"dense:rows={rows},cols={cols},values=none").csr
    grid = density_grid(csr.row_ptr, csr.col_idx, rows, cols)
    assert grid.sum() == rows * cols
    assert grid.min() > 0
    assert max(grid.shape) <= 600
    down, across = grid.shape
    row, col = rows - 1, cols // 2
    one = np.zeros(rows + 1, np.int64)
    one[row + 1 :] = 1
    position = np.argwhere(density_grid(one, np.array([col]), rows, cols))
    assert position.tolist() == [[row * down // rows, col * across // cols]]


def test_share_says_all_and_none_only_where_it_is() -> None:
    shares = [0.0, 1e-9, 0.001, 0.5, 0.999, 1 - 1e-9, 1.0]
    assert list(map(_share, shares)) == ["0%", "<0.1%", "0.1%", "50.0%", "99.9%", ">99.9%", "100%"]


def test_warnings_about_standard_input_name_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"5 6\n6 7\n")))
    assert run(["info", "-"]) == 0
    assert capsys.readouterr().err.startswith("warning: <stdin>: the smallest id is 5")
