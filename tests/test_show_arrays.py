"""`spgraph show FILE --format F`: the picture holds the matrix; every name that `list` prints can be shown."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from spgraph_bench.cli.listing import rows_of
from spgraph_bench.cli.main import run
from spgraph_bench.formats import formats, get_format
from spgraph_bench.recipes import make
from spgraph_bench.report.arrays import draw_arrays, list_arrays

ROW = re.compile(r"^ *row (\d+) +(.*)$")


def _drawn(lines: list[str]) -> dict[tuple[int, int], float]:
    """Entries of a picture whose cells are column:value, or column alone."""
    collected = {}
    for line in lines:
        if match := ROW.match(line):
            for cell in match[2].split():
                if cell != ".":
                    col, _, value = cell.partition(":")
                    collected[int(match[1]), int(col)] = float(value or 1)
        collected |= {(int(r), int(c)): float(v or 1) for r, c, v in re.findall(r"\((\d+),(\d+)(?::([\d.]+))?\)", line)}
    return collected


@pytest.mark.parametrize("text", ["arrow:n=9", "rmat:scale=4", "chain:n=40", "dense:rows=3,cols=5"])
@pytest.mark.parametrize(
    "name", ["csr", "csr-16", "ell", "ell-rows", "hyb", "jds", "sell", "pattern-csr", "pattern-ell"]
)
def test_rows_of_the_picture_are_the_matrix(name: str, text: str) -> None:
    csr = make(f"{text},values={'ones' if name.startswith('pattern') else 'integers'}").csr
    packed = get_format(name).pack(csr)
    assert csr.values is not None
    rows = np.repeat(np.arange(csr.rows), csr.row_lengths())
    expected = dict(zip(zip(rows.tolist(), csr.col_idx.tolist(), strict=True), csr.values, strict=True))
    assert _drawn(draw_arrays(packed.arrays, packed.meta, packed.rows, most=99, width=9999)) == expected


def test_diagonals_and_blocks() -> None:
    packed = get_format("dia").pack(make("banded:n=3,diagonals=3,values=ones").csr)
    lines = draw_arrays(packed.arrays, packed.meta, 3)
    assert [line.split() for line in lines[1:]] == [
        ["-1", "+0", "+1"],
        ["row", "0", ".", "1", "1"],
        ["row", "1", "1", "1", "1"],
        ["row", "2", "1", "1", "."],
    ]
    packed = get_format("bsr").pack(make("blocks:n=2,block=2,values=ones").csr)
    lines = draw_arrays(packed.arrays, packed.meta, 8)
    assert lines[0].split() == ["block", "row", "0", *["[", "1", "1]"] * 3]
    assert "from column 0, 2, 4" in lines[2]


@pytest.mark.parametrize("name", list(formats()))
def test_every_format_says_when_it_wins_and_shows_an_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert formats()[name].wins
    assert run(["show", name, "--kind", "format"]) == 0
    out = capsys.readouterr().out
    assert "Example" in out
    assert "Layout" in out


def test_every_name_that_list_prints_can_be_shown(capsys: pytest.CaptureFixture[str]) -> None:
    for kind, listed in (("problem", "problems"), ("recipe", "recipes"), ("reader", "readers"), ("config", "configs")):
        for row in rows_of(listed):
            assert run(["show", row["name"], "--kind", kind]) == 0, row["name"]
    capsys.readouterr()
    assert run(["show", "auto"]) == 2
    assert "--problem bfs" in capsys.readouterr().err


def test_large_ones_are_cut(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["show", "arrow:n=500", "--format", "csr", "--rows", "3"]) == 0
    out = capsys.readouterr().out
    assert "... 497 more rows" in out
    assert max(map(len, out.splitlines())) <= 100
    assert list_arrays({"x": np.arange(1000)}, {}, 40)[0].endswith(" ...")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["arrow:n=4", "--format", "csx"], "no format is called 'csx'"),
        (["nothing.mtx", "--format", "csr"], "no such file"),
        (["rmat:scale=8", "--format", "dia"], "DIA would be"),
        (["csr", "--kind", "recipe"], "no recipe is called 'csr'"),
        (["nonsense"], "no variant is called 'nonsense'"),
    ],
)
def test_wrong_names(args: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["show", *args]) == 2
    err = capsys.readouterr().err
    assert words in err
    assert len(err.strip().splitlines()) <= 2


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["show", "chain:n=4", "--format", "pattern-csr", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["arrays"]["row_ptr"] == [0, 1, 3, 5, 6]


@pytest.mark.parametrize("name", ["binned", "binned-chunks", "bsr-sliced"])
def test_a_layout_without_a_picture_has_none(name: str) -> None:
    """Bins have an array `col`, too, but not one of slots."""
    packed = get_format(name).pack(make("arrow:n=32").csr)
    assert draw_arrays(packed.arrays, packed.meta, packed.rows) == []
