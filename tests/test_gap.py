"""GAP's formats: .el and .wel, DIMACS (.gr) and METIS (.graph)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spgraph_bench.errors import InputError
from spgraph_bench.readers import read, readers, tokens
from spgraph_bench.readers.common import Input, RawEntries, ReadOptions

Edge = tuple[int, int, float | None]


def parse(name: str, text: str, **options: Any) -> RawEntries:
    data = Input(text.encode(), "t", "t")
    return readers()[name].parse(data, ReadOptions(**options), lambda *_: None)


def edges(raw: RawEntries) -> list[Edge]:
    weights = [None] * len(raw.row) if raw.values is None else raw.values.tolist()
    return list(zip(raw.row.tolist(), raw.col.tolist(), weights, strict=True))


def texts(raw: RawEntries) -> str:
    return "\n".join(f.text for f in raw.findings)


# One graph in all formats -------------------------------------------------------------------------------


def plain(path: Path) -> list[tuple[int, int, int]]:
    """(u, v, weight or 1) of each line of a .el or .wel file."""
    rows = [[int(t) for t in line.split()] for line in path.read_text().splitlines()]
    return [(r[0], r[1], r[2] if len(r) == 3 else 1) for r in rows]


@pytest.mark.parametrize("duplicates", ["sum", "first"])
def test_lists_dimacs_and_matrix_market_agree(matrices_dir: Path, duplicates: str) -> None:
    options = ReadOptions(duplicates=duplicates)  # type: ignore[arg-type]
    el, wel, gr, mtx, mtx_weighted = (
        read(str(matrices_dir / f"gap_4{rest}"), options) for rest in (".el", ".wel", ".gr", ".mtx", "w.mtx")
    )
    assert [m.source.format for m in (el, wel, gr, mtx)] == ["gap-el", "gap-wel", "dimacs", "matrix-market"]
    listed = plain(matrices_dir / "gap_4.wel")
    assert len(listed) == 256
    weight: dict[tuple[int, int], int] = {}
    for u, v, w in listed:
        if duplicates == "sum":
            weight[u, v] = weight.get((u, v), 0) + w
        else:
            weight.setdefault((u, v), w)
    assert len(weight) == 58
    for matrix in (el, wel, gr, mtx, mtx_weighted):
        coo = matrix.csr.to_scipy().tocoo()
        assert matrix.csr.shape == (14, 14)
        assert set(zip(coo.row.tolist(), coo.col.tolist(), strict=True)) == set(weight)
        assert matrix.policies.duplicates_found == 256 - 58
        assert matrix.policies.self_loops == 5
    assert el.csr.equals(mtx.csr)
    assert not el.weighted
    assert wel.csr.equals(gr.csr)
    coo = wel.csr.to_scipy().tocoo()
    assert dict(zip(zip(coo.row.tolist(), coo.col.tolist(), strict=True), coo.data.tolist(), strict=True)) == weight
    if duplicates == "sum":  # the order of duplicates differs in this file
        assert wel.csr.equals(mtx_weighted.csr)
    assert (el.policies.base, el.policies.base_from) == (0, "format")
    assert (gr.policies.base, gr.policies.base_from) == (1, "format")


def test_graph_files_hold_the_same_graph_without_loops_and_duplicates(matrices_dir: Path) -> None:
    lightest: dict[tuple[int, int], int] = {}
    for u, v, w in plain(matrices_dir / "gap_4.wel"):
        if u != v:
            lightest[u, v] = min(w, lightest.get((u, v), w))
    unweighted, weighted = (read(str(matrices_dir / f"gap_4{w}.graph")) for w in ("", "w"))
    assert unweighted.source.format == "metis"
    for matrix in (unweighted, weighted):
        coo = matrix.csr.to_scipy().tocoo()
        assert matrix.csr.shape == (14, 14)
        assert matrix.csr.nnz == 53
        assert set(zip(coo.row.tolist(), coo.col.tolist(), strict=True)) == set(lightest)
        assert any("counts entries, not edges: directed" in f.text for f in matrix.findings)
    assert not unweighted.weighted
    assert weighted.csr.to_scipy().todok()[0, 1] == 19
    assert [lightest[u, v] for u, v in sorted(lightest)] == weighted.csr.value_array().tolist()


# .el and .wel -------------------------------------------------------------------------------------------


def test_every_line_is_an_edge_and_ids_start_at_zero() -> None:
    raw = parse("gap-el", "4 2\n1 2\n2 3\n")
    assert (edges(raw), raw.rows, raw.base, raw.base_from) == (
        [(4, 2, None), (1, 2, None), (2, 3, None)],
        5,
        0,
        "format",
    )
    assert parse("gap-el", "1 2\n", base=1).rows == 2
    assert edges(parse("gap-wel", "1 2 -0.5\n")) == [(1, 2, -0.5)]


@pytest.mark.parametrize(
    ("name", "text", "line"), [("gap-el", "0 1\n1 2 3\n", 2), ("gap-wel", "0 1 2\n1 2\n", 2), ("gap-el", "0 x\n", 1)]
)
def test_other_columns_are_errors(name: str, text: str, line: int) -> None:
    with pytest.raises(InputError) as error:
        parse(name, text)
    assert error.value.place == f"t:{line}"
    assert "x" in text or "edge-list" in (error.value.remedy or "")


# DIMACS -------------------------------------------------------------------------------------------------


def test_dimacs() -> None:
    raw = parse("dimacs", "c hello\nc\n\np sp 4 3\nc a 1 2 3\na 1 2 7\nc\na 4 1 0\r\n\na 2 2 1.5")
    assert (raw.rows, raw.cols, raw.base) == (4, 4, 1)
    assert edges(raw) == [(0, 1, 7.0), (3, 0, 0.0), (1, 1, 1.5)]
    assert [raw.line_of(i) for i in range(3)] == [6, 8, 10]


def test_dimacs_relabelled() -> None:
    raw = parse("dimacs", "p sp 100 2\na 90 2 7\na 2 50 1\n", relabel=True)
    assert raw.original_ids is not None
    assert raw.original_ids.tolist() == [2, 50, 90]
    assert edges(raw) == [(2, 0, 7.0), (0, 1, 1.0)]


@pytest.mark.parametrize(
    ("text", "line", "cause"),
    [
        ("c x\np sp 3 2\na 1 2 1\n", 2, "2 arcs are promised, the file holds 1"),
        ("p sp 3 1\na 1 2 1\nc\na 2 3 1\n", 4, "more arcs than the 1 that line 1 promises"),
        ("p sp 3 2\na 1 2 1\na 4 1 1\n", 3, "vertex '4' is not in 1..3"),
        ("p sp 3 2\na 1 0 1\na 1 1 1\n", 2, "vertex '0' is not in 1..3"),
        ("p sp 3 1\na -1 1 1\n", 2, "vertex '-1' is not in 1..3"),
        ("p sp 3 1\na 1 x 1\n", 2, "vertex 'x' is not an integer"),
        ("p sp 3 1\na 1 2 x\n", 2, "weight 'x' is not a number"),
        ("p sp 3 2\na 1 2 1\na 1 2\n", 3, "this one has 2"),
        ("p sp 3 2\na 9 2 1\na 1 2\n", 2, "vertex '9' is not in 1..3"),
        ("p sp 3 1\np sp 3 1\na 1 2 3\n", 2, "a line that begins with 'p'"),
        ("p sp 3 1\ne 1 2 3\n", 2, "a line that begins with 'e'"),
        ("p sp 3 1\nabc 1 2 3\n", 2, "a line that begins with 'abc'"),
        ("c\np max 3 1\na 1 2 3\n", 2, "kind 'max'"),
        ("a 1 2 3\n", 1, "expected 'p sp VERTICES ARCS' or 'p edge VERTICES EDGES', found 'a 1 2 3'"),
        ("p sp 3\n", 1, "expected 'p sp VERTICES ARCS'"),
        ("p sp 3 -1\n", 1, "expected 'p sp VERTICES ARCS'"),
        ("p sp 9999999999 1\na 1 2 1\n", 1, "9,999,999,999 vertices"),
        ("c nothing\n", 1, "found nothing"),
        ("p sp 3 0\n", None, "no edges"),
        ("p sp 3 1\na 1 \x01 2\n", 2, "byte 0x01"),
    ],
)
def test_broken_dimacs(text: str, line: int | None, cause: str) -> None:
    with pytest.raises(InputError) as error:
        parse("dimacs", text)
    assert error.value.place == (f"t:{line}" if line else "t")
    assert cause in error.value.cause


def test_formats_that_fix_the_base_refuse_another() -> None:
    for name, text in (("dimacs", "p sp 2 1\na 1 2 1\n"), ("metis", "2 1\n2\n1\n")):
        assert parse(name, text, base=1).rows == 2
        with pytest.raises(InputError, match="1-based by definition"):
            parse(name, text, base=0)


# METIS --------------------------------------------------------------------------------------------------

TRIANGLE: list[Edge] = [(0, 1, None), (0, 2, None), (1, 0, None), (1, 2, None), (2, 0, None), (2, 1, None)]
WEIGHTED: list[Edge] = [(0, 1, 5.0), (0, 2, 6.0), (1, 0, 5.0), (1, 2, 7.0), (2, 0, 6.0), (2, 1, 7.0)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("% c\n3 3\n% c\n2 3\n1 3\n\t% c\n1 2\n", TRIANGLE),
        ("3 3 0\n2 3\n1 3\n1 2", TRIANGLE),
        ("3 3 1\r\n2 5 3 6\r\n1 5 3 7\r\n1 6 2 7\r\n", WEIGHTED),
        ("3 3 010\n9 2 3\n9 1 3\n9 1 2\n", TRIANGLE),
        ("3 3 10 2\n9 8 2 3\n9 8 1 3\n9 8 1 2\n", TRIANGLE),
        ("3 3 011 2\n9 8 2 5 3 6\n9 8 1 5 3 7\n9 8 1 6 2 7\n", WEIGHTED),
        ("3 3 100\n4 2 3\n4 1 3\n4 1 2\n", TRIANGLE),  # METIS: vertex sizes
        ("3 6 100\n2 3\n1 3\n1 2\n", TRIANGLE),  # tenth DIMACS challenge: M counts entries
        ("3 3 111 1\n4 9 2 5 3 6\n4 9 1 5 3 7\n4 9 1 6 2 7\n", WEIGHTED),
        ("3 3 101\n4 2 5 3 6\n4 1 5 3 7\n4 1 6 2 7\n", WEIGHTED),
    ],
)
def test_metis_weights_and_sizes(text: str, expected: list[Edge]) -> None:
    raw = parse("metis", text)
    assert edges(raw) == expected
    assert (raw.rows, raw.cols, raw.base) == (3, 3, 1)


def test_metis_isolated_vertices_and_trailing_blank_lines() -> None:
    raw = parse("metis", "5 1\n\n5\n\n\n2\n\n\n")
    assert edges(raw) == [(1, 4, None), (4, 1, None)]
    assert [raw.line_of(i) for i in range(2)] == [3, 6]
    raw = parse("metis", "5 1\n\n3\n2")
    assert raw.rows == 5
    assert "ends 2 vertices early" in texts(raw)


def test_metis_loops_listed_once() -> None:
    assert edges(parse("metis", "2 2\n1 2\n1\n")) == [(0, 0, None), (0, 1, None), (1, 0, None)]


def test_metis_directed_entries_are_shown() -> None:
    assert "directed, as stored" in texts(parse("metis", "3 2\n2\n3\n\n"))
    assert "listed by one end only" in texts(parse("metis", "3 1\n2\n3\n\n"))
    assert "as stored" not in texts(parse("metis", "3 2\n2\n1 3\n2\n"))


def test_metis_relabelled() -> None:
    raw = parse("metis", "5 1\n\n5\n\n\n2\n", relabel=True)
    assert raw.original_ids is not None
    assert (raw.original_ids.tolist(), edges(raw)) == ([2, 5], [(0, 1, None), (1, 0, None)])


@pytest.mark.parametrize(
    ("text", "line", "cause"),
    [
        ("3 3\n2 3\n1 3\n", 1, "3 edges promised, 4 entries found, not twice as many, and it ends 1 vertices early"),
        ("3 4\n2 3\n1 3\n1 2\n", 1, "4 edges promised, 6 entries found"),
        ("3 3\n2 3\n1 3\n1 2\n% c\n\n1\n", 7, "more lines than the 3 vertices that line 1 promises"),
        ("3 3\n2 3\n1 4\n1 2\n", 3, "neighbour '4' is not in 1..3"),
        ("3 3\n2 3\n% c\n1 0\n1 2\n", 4, "neighbour '0' is not in 1..3"),
        ("3 3\n2 3\n1 x\n1 2\n", 3, "neighbour 'x' is not in 1..3"),
        ("3 3 1\n2 5 3 6\n1 5 3\n1 6 2 7\n", 3, "3 numbers; the header (line 1) asks for pairs"),
        ("3 3 1\n2 5 3 6\n1 y 3 7\n1 6 2 7\n", 3, "edge weight 'y' is not a number"),
        ("3 3 1\n2 5 3 6\n1 5 3 7\n1 6 2 z 8\n", 4, "5 numbers"),
        ("3 3 1\n2 q 3 6\n1 5 3 7\n1 6 2 z 8\n", 2, "edge weight 'q'"),
        ("3 3 10\n9 2 3\n\n9 1 2\n", 3, "0 numbers; the header (line 1) asks for 1 weights"),
        ("%\n3 3 2\n2 3\n1 3\n1 2\n", 2, "FMT '2'"),
        ("3 3 1000\n", 1, "FMT '1000'"),
        ("3\n", 1, "expected the header"),
        ("x y\n", 1, "found 'x y'"),
        ("3 -3\n", 1, "expected the header"),
        ("% only\n", 1, "found nothing"),
        ("3 0\n\n\n\n", None, "no edges"),
        ("3000000000 1\n", 1, "3,000,000,000 vertices"),
    ],
)
def test_broken_metis(text: str, line: int | None, cause: str) -> None:
    with pytest.raises(InputError) as error:
        parse("metis", text)
    assert error.value.place == (f"t:{line}" if line else "t")
    assert cause in error.value.cause


@st.composite
def metis_graph(draw: st.DrawFn) -> tuple[str, list[Edge]]:
    n = draw(st.integers(1, 12))
    pairs = draw(st.sets(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), min_size=1, max_size=30))
    pairs = {(min(p), max(p)) for p in pairs if p[0] != p[1]}
    sizes, ncon, weighted = draw(st.booleans()), draw(st.integers(0, 3)), draw(st.booleans())
    weight = {p: draw(st.integers(1, 10**9)) for p in sorted(pairs)}
    comment = st.sampled_from(["", "", "% 1 2\n", "  %\n"])
    out = [draw(comment), f"{n} {len(pairs)} {sizes:d}{ncon > 0:d}{weighted:d} {max(ncon, 1)}\n"]
    expected: list[Edge] = []
    for u in range(n):
        fields = [str(draw(st.integers(0, 99))) for _ in range(sizes + ncon)]
        for v in draw(st.permutations(range(n))):
            if (key := (min(u, v), max(u, v))) in pairs and u != v:
                expected.append((u, v, float(weight[key]) if weighted else None))
                fields += [str(v + 1), str(weight[key])][: 1 + weighted]
        out += [draw(comment), draw(st.sampled_from([" ", "\t", "  "])).join(fields), "\n"]
    return "".join(out), expected


@settings(max_examples=200, deadline=None)
@given(metis_graph(), st.integers(1, 80))
def test_random_metis_graphs_come_back_exactly(example: tuple[str, list[Edge]], block_size: int) -> None:
    text, expected = example
    before, tokens.BLOCK = tokens.BLOCK, block_size
    try:
        if expected:
            raw = parse("metis", text)
            assert edges(raw) == expected
            assert "as stored" not in texts(raw)
            lines = [raw.line_of(i) for i in range(len(expected))]
            vertex_lines = [i for i, s in enumerate(text.split("\n"), 1) if not s.strip().startswith("%")][1:]
            assert lines == [vertex_lines[u] for u, _, _ in expected]
    finally:
        tokens.BLOCK = before


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(["dimacs", "metis", "gap-el", "gap-wel"]), st.text("0123 \n%cap-.", max_size=80), st.booleans())
def test_any_text_is_read_or_refused_properly(name: str, text: str, headed: bool) -> None:
    head = {"dimacs": "p sp 3 2\n", "metis": "3 2\n"}.get(name, "0 1 2\n") if headed else " "
    try:
        raw = parse(name, head + text)
    except InputError:
        return
    assert raw.rows == raw.cols
    assert np.all((raw.row >= 0) & (raw.row < raw.rows) & (raw.col >= 0) & (raw.col < raw.cols))
