"""Edge lists: real files against a plain parse, random ones, broken ones with their line, and the speed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spgraph_bench.errors import InputError
from spgraph_bench.matrix import Matrix, called
from spgraph_bench.readers import read, readers, tokens
from spgraph_bench.readers.common import Input, RawEntries, ReadOptions
from spgraph_bench.readers.opening import choose

Edge = tuple[int, int, float | None]


def parse(text: str | bytes, *, name: str = "edge-list", **options: Any) -> RawEntries:
    data = text.encode() if isinstance(text, str) else text
    return readers()[name].parse(Input(data, "t.txt", "t.txt"), ReadOptions(**options), lambda *_: None)


def edges(raw: RawEntries) -> list[Edge]:
    weights = [None] * len(raw.row) if raw.values is None else raw.values.tolist()
    return list(zip(raw.row.tolist(), raw.col.tolist(), weights, strict=True))


def texts(raw: RawEntries | Matrix) -> str:
    return "\n".join(f.text for f in raw.findings)


def chosen(text: bytes, name: str) -> str | None:
    try:
        result = choose(Input(text, name, name), readers())
    except InputError:
        return None
    return next(key for key, reader in readers().items() if reader is result)


# Real files ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "base", "vertices", "entries", "skipped_lines"),
    [
        ("ca-GrQc.txt", 0, 26197, 28980, 1),
        ("wiki-Vote.txt", 0, 8298, 103689, 0),
        ("facebook_combined.txt", 0, 4039, 176468, 1),
        ("oregon1_010331.txt", 0, 10670, 44004, 1),
    ],
)
def test_real_lists(matrices_dir: Path, name: str, base: int, vertices: int, entries: int, skipped_lines: int) -> None:
    path = matrices_dir / name
    lines = [s for s in path.read_text().split("\n") if s.strip() and not s.startswith("#")][skipped_lines:]
    if lines[-1].strip() == "-1":
        lines.pop()
    plain = Counter((int(t[0]), int(t[1])) for t in map(str.split, lines))
    matrix = read(str(path))
    coo = matrix.csr.to_scipy().tocoo()
    assert matrix.source.format == "edge-list"
    assert matrix.csr.shape == (vertices, vertices)
    assert matrix.csr.nnz == entries == len(plain)
    assert set(zip(coo.row.tolist(), coo.col.tolist(), strict=True)) == {(u - base, v - base) for u, v in plain}
    assert matrix.policies.base == base
    weighted = len(lines[0].split()) == 3
    assert matrix.weighted == weighted
    if weighted:
        assert (coo.data == 1).all()


def test_real_lists_relabelled(matrices_dir: Path) -> None:
    plain, closed = (read(str(matrices_dir / "ca-GrQc.txt"), ReadOptions(relabel=r)) for r in (False, True))
    assert closed.csr.shape == (5242, 5242)
    assert closed.policies.relabelled
    ids = closed.original_ids
    assert ids is not None
    a, b = closed.csr.to_scipy().tocoo(), plain.csr.to_scipy().tocoo()
    assert np.array_equal(ids[a.row], b.row)
    assert np.array_equal(ids[a.col], b.col)


def test_first_line_that_is_not_a_comment_is_named(matrices_dir: Path) -> None:
    finding = read(str(matrices_dir / "ca-GrQc.txt")).findings[0]
    assert finding.line == 1
    assert finding.warning
    assert finding.text.startswith("'https://snap.stanford.edu")


# What lines may look like -------------------------------------------------------------------------------

ids = st.integers(0, 60)
weight = st.one_of(
    st.integers(-(2**53), 2**53).map(lambda i: (str(i), float(i))),
    st.floats(allow_nan=False).map(lambda f: (repr(f), f)),
)
separator = st.sampled_from([" ", "\t", ",", "  ", " , ", "\t ", ";"])
noise = st.sampled_from(["", "", "", "\n", "# 1 2\n", "% x\n", "//\n", "  # ,,\n", " \t\n", "#" * 300 + "\n"])
trailer = st.sampled_from(["", "", " ", "\t# 7 7", " // n", " %"])


@st.composite
def rendered(draw: st.DrawFn) -> tuple[str, list[Edge], int]:
    """A list as text, its edges with ids as written, and how many columns it has."""
    columns = draw(st.integers(2, 4))
    end = draw(st.sampled_from(["\n", "\r\n"]))
    out, expected = [draw(noise)], []
    for u, v in draw(st.lists(st.tuples(ids, ids), min_size=1, max_size=40)):
        word, value = draw(weight)
        fields = [f"{u:0{draw(st.integers(1, 12))}d}", str(v), word, "1234567890.5"][:columns]
        expected.append((u, v, value if columns > 2 else None))
        sep = draw(separator)
        out += [sep.join(fields), draw(trailer), end, draw(noise).replace("\n", end)]
    text = "".join(out)
    return (text[: -len(end)] if draw(st.booleans()) and text.endswith(end) else text), expected, columns


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(rendered(), st.integers(1, 200), st.booleans())
def test_random_lists_come_back_exactly(example: tuple[str, list[Edge], int], block_size: int, relabel: bool) -> None:
    text, expected, columns = example
    # A leading edge that no size line can be: n is below the ids that follow.
    first: Edge = (0, 60, None if columns == 2 else 1.0)
    text = "0 60 1 1".rsplit(" ", 4 - columns)[0] + "\n60 60 2 2".rsplit(" ", 4 - columns)[0] + "\n" + text
    expected = [first, (60, 60, None if columns == 2 else 2.0), *expected]
    before, tokens.BLOCK = tokens.BLOCK, block_size
    try:
        raw = parse(text, relabel=relabel)
        lines = [raw.line_of(i) for i in range(len(expected))]
    finally:
        tokens.BLOCK = before
    back = edges(raw)
    if relabel:
        assert raw.original_ids is not None
        back = [(int(raw.original_ids[u]), int(raw.original_ids[v]), w) for u, v, w in back]
        assert raw.rows == len({i for u, v, _ in expected for i in (u, v)})
    else:
        assert raw.rows == raw.cols == 61
    assert back == expected
    data_lines = [
        number
        for number, line in enumerate(re.split("\n", text), 1)
        if line.strip() and not line.strip().startswith(("#", "%", "//"))
    ]
    assert lines == data_lines


@pytest.mark.parametrize(
    ("text", "base", "vertices"),
    [
        ("0 1\n1 2\n", 0, 3),
        ("1 2\n2 3\n", 1, 3),
        ("2 5\n5 3\n", 0, 6),
        ("5\n2 5\n5 3\n3 2\n", 1, 5),  # the size line says that 5 is the last of 5
        ("6\n2 5\n5 3\n3 2\n", 0, 6),
    ],
)
def test_base_is_found(text: str, base: int, vertices: int) -> None:
    raw = parse(text)
    assert (raw.base, raw.base_from, raw.rows, raw.cols) == (base, "found", vertices, vertices)


def test_base_option_overrides() -> None:
    assert (parse("1 2\n2 1\n", base=0).rows, parse("2 3\n", base=1).rows) == (3, 3)
    assert parse("1 2\n", base=0).base_from == "option"


@pytest.mark.parametrize(
    ("text", "vertices", "count"),
    [
        ("4\n0 1\n1 2\n", 4, 2),
        ("4 2\n0 1\n1 2\n", 4, 2),
        ("4 1\n0 1\n1 0\n", 4, 2),  # the header counts undirected edges, the list has both directions
        ("4 4 2\n0 1\n1 2\n", 4, 2),
        ("4 2\n0 1 5\n1 2 5\n", 4, 2),
        ("4 4 2\n0 1 5\n1 2 5\n", 4, 2),
        ("# c\n4 2\n# c\n3 1\n4 2\n", 4, 2),
        ("source,target\n4,2\n0,1\n1,2\n", 4, 2),
    ],
)
def test_size_lines(text: str, vertices: int, count: int) -> None:
    raw = parse(text)
    assert (raw.rows, len(raw.row)) == (vertices, count)


def test_rectangular_size_line() -> None:
    raw = parse("2 5 2\n1 5\n2 1\n")
    assert (raw.rows, raw.cols, edges(raw)) == (2, 5, [(0, 4, None), (1, 0, None)])


@pytest.mark.parametrize("text", ["2 1\n", "3 2\n0 1\n", "1 2\n0 1\n1 0\n", "4 4 9\n0 1 5\n1 2 5\n"])
def test_edges_that_are_not_a_size_line(text: str) -> None:
    assert len(parse(text).row) == text.count("\n")


def test_a_size_line_of_an_edge_s_width_that_does_not_fit_is_an_edge_with_a_warning() -> None:
    raw = parse("900 700\n0 1\n1 2\n")
    assert len(raw.row) == 3
    assert "looks like a size line" in texts(raw)


def test_lines_know_their_number_after_a_size_line() -> None:
    raw = parse("# c\n4 2\n\n0 1\n# c\n1 2\n")
    assert [raw.line_of(i) for i in range(2)] == [4, 6]


@pytest.mark.parametrize("end", ["-1", "-1\n", "-1\r\n\n"])
def test_last_line_of_minus_one_is_an_end_mark(end: str) -> None:
    raw = parse("3\r\n0 1 1\r\n" + end)
    assert edges(raw) == [(0, 1, 1.0)]
    assert "end mark" in texts(raw)


def test_old_macintosh_line_ends() -> None:
    raw = parse("# c\r0 1\r1 2\r")
    assert edges(raw) == [(0, 1, None), (1, 2, None)]
    assert raw.line_of(1) == 3


def test_timestamps_are_ignored_and_shown() -> None:
    raw = parse("0 1 2.5 1082008561\n1 0 -1 2004-04-15\n")
    assert edges(raw) == [(0, 1, 2.5), (1, 0, -1.0)]
    assert "timestamp" in texts(raw)


def test_times_in_the_third_column_are_skipped_with_a_note() -> None:
    text = "1 2 1082040961\n3 4 1082155839\n1 2 1082414391\n5 2 1082439619\n"
    raw = parse(text)
    assert raw.values is None
    assert [(f.line, f.warning) for f in raw.findings if "times" in f.text] == [(1, True)]
    saved = parse(text, weight_column=3)
    assert saved.values is not None
    assert saved.values[0] == 1082040961
    milliseconds = re.sub(r"\n", "000\n", text)
    assert parse(milliseconds).values is None
    assert parse("source,target,timestamp\n1,2,3\n2,3,5\n").values is None  # the title says it


@pytest.mark.parametrize(
    "text",
    [
        "1 2 1082040961\n2 3 5\n",  # the second is none
        "1 2 1500000000\n2 3 700000000\n3 4 1400000000\n4 5 800000000\n",  # up and down
        "1 2 1082040961.5\n2 3 1082040962\n",
        "1 2 1082040961\n2 3 1082040961\n",  # all the same
        "% asym weighted\n1 2 1082040961\n2 3 1082040962\n",  # the header says weights
    ],
)
def test_large_weights_are_not_times(text: str) -> None:
    raw = parse(text)
    assert raw.values is not None
    assert any(f.warning for f in raw.findings if "times" in f.text) == ("700000000" in text)


def test_a_column_that_grows_is_reported() -> None:
    text = "".join(f"{k % 7} {k % 11} {900 * k}\n" for k in range(120))
    raw = parse(text)
    assert raw.values is not None
    assert any(f.warning and "--weight-column none" in f.text for f in raw.findings)


def test_weight_column() -> None:
    text = "1 2 x 5.5 7\n2 3 y 6.5 8\n"
    with pytest.raises(InputError, match=r"5 columns.*\n.*--weight-column N"):
        parse(text)
    assert edges(parse(text, weight_column=4)) == [(0, 1, 5.5), (1, 2, 6.5)]
    assert edges(parse(text, weight_column=0)) == [(0, 1, None), (1, 2, None)]
    with pytest.raises(InputError, match=r":1: weight 'x' is not a number.*\n.*--weight-column none"):
        parse(text, weight_column=3)
    with pytest.raises(InputError, match="--weight-column 6, but each line has 5 columns"):
        parse(text, weight_column=6)
    assert parse("0 1 4\n1 2 5\n", name="gap-wel", weight_column=0).values is None


def test_weight_column_is_for_edge_lists(tmp_path: Path) -> None:
    path = tmp_path / "a.mtx"
    path.write_text("%%MatrixMarket matrix coordinate real general\n1 1 1\n1 1 5\n")
    with pytest.raises(InputError, match="--weight-column chooses a column of an edge list"):
        read(str(path), ReadOptions(weight_column=3))


def test_attributes_as_networkx_writes_them(tmp_path: Path) -> None:
    networkx = pytest.importorskip("networkx")
    graph = networkx.Graph([(0, 1), (1, 3)])
    networkx.write_edgelist(graph, tmp_path / "a.edgelist")
    assert (tmp_path / "a.edgelist").read_text().endswith("{}\n")
    matrix = read(str(tmp_path / "a.edgelist"))
    assert (matrix.csr.shape, matrix.csr.nnz, matrix.weighted) == ((4, 4), 2, False)
    graph.add_edge(0, 1, weight=2.5, color="red")
    graph.add_edge(1, 3, weight=4)
    networkx.write_edgelist(graph, tmp_path / "b")
    assert sorted(read(str(tmp_path / "b")).csr.value_array().tolist()) == [2.5, 4]
    with pytest.raises(InputError, match=":2: 2 columns where line 1 has 3"):
        parse("0 1 {'weight': 3}\n1 2 {}\n")


def test_names_of_vertices_are_kept(tmp_path: Path) -> None:
    text = "# who trusts whom\nAda Bob 1.5\nBob Zoë 2\n\nZoë 7 1\n"
    with pytest.raises(InputError, match=r":2: vertex 'Ada' is not a number.*\n.*--relabel"):
        parse(text)
    path = tmp_path / "a.txt"
    path.write_text(text)
    matrix = read(str(path), ReadOptions(relabel=True))
    assert [str(called(matrix.labels(), v)) for v in range(4)] == ["Ada", "Bob", "Zoë", "7"]
    assert matrix.csr.to_scipy()[matrix.vertex_index("Bob"), matrix.vertex_index("Zoë")] == 2
    assert parse("1 2\n" * 9 + "2 Bob\n", relabel=True).names == ["1", "2", "Bob"]
    with pytest.raises(InputError, match=":3: 2 columns where other lines have 3"):
        parse("a b 1\nb c 2\nc a\n", relabel=True)


def test_odd_weights_are_kept() -> None:
    raw = parse("0 1 nan\n1 2 -inf\n2 0 9007199254740993\n")
    assert np.array_equal(raw.values, [np.nan, -np.inf, 2.0**53], equal_nan=True)
    assert [(f.line, f.count) for f in raw.findings if "2^53" in f.text] == [(3, 1)]


def test_comments_longer_than_a_block() -> None:
    text = "# " + "x" * (3 * tokens.BLOCK) + "\n0 1\n% " + "1 2 " * tokens.BLOCK + "\n1 0\n"
    assert edges(parse(text)) == [(0, 1, None), (1, 0, None)]


# Headers of KONECT and SNAP -----------------------------------------------------------------------------


def test_konect_undirected() -> None:
    raw = parse("% sym unweighted\n% 3 4 4\n1 2\n3 2\n3 3\n")
    assert (raw.symmetry, raw.base, raw.base_from, raw.rows) == ("symmetric", 1, "format", 4)
    assert raw.undirected
    assert "each edge stored once" in texts(raw)


def test_konect_both_directions_stored() -> None:
    raw = parse("% sym weighted\n1 2 5\n2 1 5\n3 1 7\n1 3 7\n2 2 1\n")
    assert raw.symmetry == "general"
    assert len(raw.row) == 5
    assert "both directions" in texts(raw)
    # Another weight one way: these are edges of their own, not mirrors.
    assert parse("% sym weighted\n1 2 5\n2 1 6\n").symmetry == "symmetric"


def test_undirected_edges_written_both_ways_count_once(tmp_path: Path) -> None:
    path = tmp_path / "out.roads"
    path.write_text("% sym weighted\n1 2 5\n2 1 5\n3 2 7\n1 3 2\n1 3 2\n")
    matrix = read(str(path))
    assert matrix.csr.to_scipy().toarray().tolist() == [[0, 5, 4], [5, 0, 7], [4, 7, 0]]
    assert (matrix.policies.mirrors_found, matrix.policies.duplicates_found) == (1, 1)
    path.write_text("% sym weighted\n1 2 5\n2 3 1\n2 1 6\n")
    with pytest.raises(InputError, match=r":4: undirected, but .* is 6 and .* is 5 \(line 2\)"):
        read(str(path))
    for options in (ReadOptions(duplicates="min"), ReadOptions(parallel="min")):  # parallel edges, then
        assert read(str(path), options).csr.to_scipy()[0, 1] == 5


def test_konect_directed_and_bipartite() -> None:
    raw = parse("% asym positive\n% 2 3 3\n1 2 4\n2 3 5\n")
    assert (raw.symmetry, raw.rows, edges(raw)) == ("general", 3, [(0, 1, 4.0), (1, 2, 5.0)])
    raw = parse("% bip unweighted\n% 2 3 7\n1 6\n3 1\n")
    assert (raw.rows, raw.cols, raw.symmetry) == (3, 7, "general")


def test_konect_unweighted_with_a_column_of_ones() -> None:
    assert parse("% asym unweighted\n1 2 1 99\n2 3 1 98\n").values is None
    assert parse("% asym unweighted\n1 2 1\n2 3 2\n").values is not None


def test_konect_starting_at_zero() -> None:
    raw = parse("% asym unweighted\n0 1\n1 2\n")
    assert (raw.base, raw.rows) == (0, 3)


def test_konect_counts_that_differ_are_shown() -> None:
    raw = parse("% sym unweighted\n% 9 2 2\n1 2\n3 2\n")
    assert raw.rows == 3
    printed = [(f.text, f.line) for f in raw.findings if "promises" in f.text]
    assert printed == [
        ("the header promises 2 x 2 vertices, the ids need 3 x 3", 2),
        ("the header promises 9 edges, the file holds 2", 2),
    ]


def test_a_word_about_direction_is_not_yet_konect() -> None:
    raw = parse("% undirected\n5 2\n2 3\n")
    assert (raw.symmetry, raw.base, raw.base_from, raw.rows) == ("symmetric", 0, "found", 6)
    assert parse("% directed graph\n1 2\n").symmetry == "general"


def test_snap_headers() -> None:
    assert parse("# Undirected graph: x.txt\n# Nodes: 3 Edges: 2\n0 1\n1 2\n").symmetry == "symmetric"
    raw = parse("# Directed graph (each unordered pair of nodes is saved once): x\n# Nodes: 3 Edges: 5\n0 1\n1 2\n")
    assert raw.symmetry == "general"
    assert [f.line for f in raw.findings if "5 edges" in f.text] == [2]


def test_snap_s_number_of_vertices_is_honoured_and_reported() -> None:
    raw = parse("# Nodes: 10 Edges: 3\n0 1\n1 2\n2 3\n")
    assert (raw.rows, raw.cols) == (10, 10)
    assert [(f.line, f.warning) for f in raw.findings if "10 vertices" in f.text] == [(1, True)]
    assert parse("# Nodes: 3 Edges: 2\n0 7\n7 9\n").rows == 10  # ids with gaps
    assert parse("# Nodes: 9 Edges: 2\n3 7\n7 9\n").base == 1  # the last of nine is called 9
    assert "the header says 2 vertices, 3 occur" in texts(parse("# Nodes: 2 Edges: 2\n0 7\n7 9\n"))
    raw = parse("# Nodes: 10 Edges: 2\n3 7\n7 9\n", relabel=True)
    assert raw.rows == 3
    assert "the header says 10 vertices, 3 occur" in texts(raw)


def test_a_bipartite_graph_from_rows_and_columns(tmp_path: Path) -> None:
    path = tmp_path / "out.bip"
    path.write_text("% bip unweighted\n% 3 3 2\n1 1\n2 2\n3 2\n")
    assert read(str(path)).csr.shape == (3, 2)
    matrix = read(str(path), ReadOptions(bipartite=True))
    a = matrix.csr.to_scipy().toarray()
    assert a.shape == (5, 5)
    assert (a == a.T).all()
    assert a[:3, 3:].tolist() == [[1, 0], [0, 1], [0, 1]]
    assert a.sum() == 6
    assert str(called(matrix.labels(), 3)) == "4"  # the first column
    path.write_text("% sym unweighted\n1 2\n")
    with pytest.raises(InputError, match="omit --bipartite"):
        read(str(path), ReadOptions(bipartite=True))


def test_undirected_through_to_the_matrix(tmp_path: Path) -> None:
    path = tmp_path / "out.small"
    path.write_text("% sym unweighted\n1 2\n2 3\n3 3\n")
    matrix = read(str(path))
    assert matrix.csr.to_scipy().todense().tolist() == [[0, 1, 0], [1, 0, 1], [0, 1, 1]]
    assert matrix.policies.mirrored


# Ids ----------------------------------------------------------------------------------------------------


def test_relabelling_closes_gaps_in_rising_order() -> None:
    raw = parse("70 5 1\n5 4000000000000000000 2\n9223372036854775807 5 3\n", relabel=True)
    assert raw.original_ids is not None
    assert raw.original_ids.tolist() == [5, 70, 4 * 10**18, 2**63 - 1]
    assert edges(raw) == [(1, 0, 1.0), (0, 2, 2.0), (3, 0, 3.0)]
    assert raw.relabelled
    assert raw.rows == 4


def test_gaps_are_kept_and_shown() -> None:
    raw = parse("0 9\n9 4\n")
    assert raw.rows == 10
    assert [f.count for f in raw.findings if "occur in no edge" in f.text] == [7]


# Broken ones --------------------------------------------------------------------------------------------

RELABEL = "--relabel"


@pytest.mark.parametrize(
    ("text", "line", "cause", "remedy"),
    [
        ("0 1\n# c\n\n1 -2\n", 4, "vertex id '-2' is negative", "0, 1, 2"),
        ("0 1\n1\n2 3\n3 4\n", 2, "only one column ('1')", "delete"),
        ("0\n1\n2\n", 2, "only one column ('1')", "delete"),
        ("0 1\n1 2\n2 3 4\n", 3, "3 columns where the lines before have 2", "same columns"),
        ("0 1 1\n1 2 1\n2 3\n", 3, "2 columns where the lines before have 3", "same columns"),
        ("0 1\n1 2 3\n2 3\n", 2, "3 columns where the lines before have 2", "same columns"),
        ("1 2 3 4\n1 2\n3 4\n", 1, "4 columns where the lines after it have 2", "same columns"),
        ("# c\n0 1\n\n1 2 3\n", 4, "3 columns where line 2 has 2", "same columns"),
        ("7 9\n7 12 1\n12 3 1\n", 2, "3 columns where line 1 has 2", "same columns (line 1 does not fit"),
        ("0 1 5\n1 2\n3 4\n", 2, "2 columns where line 1 has 3", "same columns"),
        ("1 2\n1 2 3\n2 3 4\n", 1, "promises 1 vertices, line 2 names vertex 2", "an edge, give it 3 columns"),
        ("0 1\n1 2\n1 2 3 4 5\n", 3, "5 columns", "same columns"),
        ("1 2 3 4 5\n1 2 3 4 5\n", 2, "5 columns", "--weight-column N"),
        ("alice bob\nbob carol\n", 1, "vertex 'alice' is not a number", "--relabel"),
        ("0 1\nbob 2\n", 2, "vertex 'bob' is not a number", "--relabel"),
        ("0 1\n1 2.0\n", 2, "vertex id '2.0' is not an integer", "0, 1, 2"),
        ("0 1\n1 1e3\n", 2, "vertex id '1e3' is not an integer", "0, 1, 2"),
        ("0 1 1\n1 2 x\n", 2, "weight 'x' is not a number", "--weight-column none"),
        ("0 1\n0 2147483648\n", 2, "vertex id '2147483648' is above 2,147,483,647", RELABEL),
        ("0 1\n0 99999999999999999999\n", 2, "does not fit in 63 bits", "smaller"),
        ("0 1\n2147483647 0\n", 2, "2,147,483,647 makes more than 2,147,483,647 vertices", RELABEL),
        ("3\n0 1\n1 3\n", 1, "promises 3 vertices, line 3 names vertex 3", "delete the size line"),
        ("3 3\n0 1 1\n1 2 1\n", 1, "promises 3 edges, the file holds 2", "cut short"),
        ("0 1\n1 2\n" + "z" * 99 + " 1\n", 3, "'" + "z" * 40 + "'...", "--relabel"),
        ("0,1\n1,2\n1,\n", 3, "a field is empty", "fill"),
        ("0 1\n1 \x002\n", 2, "byte 0x00 at offset 6", "binary"),
        ("0 1\n1 \u0662\n", 2, "is not a number", "--relabel"),
        ("# only\n% comments\n", None, "no edges", "two vertex ids"),
        ("5\n", 1, "only one column", "delete"),
    ],
)
def test_broken_lists(text: str, line: int | None, cause: str, remedy: str) -> None:
    with pytest.raises(InputError) as error:
        parse(text)
    assert error.value.place == (f"t.txt:{line}" if line else "t.txt")
    assert cause in error.value.cause
    assert remedy in (error.value.remedy or "")
    assert len(str(error.value)) < 260


@pytest.mark.parametrize(
    ("text", "base", "helps"),
    [
        ("3\n1 2\n2 3\n", 0, True),
        ("3\n1 2\n2 4\n", 0, False),
        ("3\n1 2\n2 4\n", 1, False),
        ("3\n1 2\n2 4\n", None, False),
        ("3\n0 1\n1 3\n", None, False),
    ],
)
def test_another_base_is_advised_only_where_it_helps(text: str, base: Any, helps: bool) -> None:
    with pytest.raises(InputError) as error:
        parse(text, base=base)
    assert error.value.remedy == "correct or delete the size line" + ", or give --base 1" * helps
    if helps:
        assert parse(text, base=1).rows == 3


def test_a_size_line_with_too_few_edges_is_a_guess_that_is_shown() -> None:
    guessed, usual = parse("5 6 1\n1 2\n3 4\n1 4\n"), parse("5 5 1\n1 2\n2 1\n")
    assert [(f.text, f.line) for f in guessed.findings if f.warning] == [
        ("the size line promises 1 edges, the file holds 3", 1)
    ]
    assert not any(f.warning for f in usual.findings)


def test_the_first_of_many_errors_is_named_across_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "BLOCK", 64)
    good = "1 2\n" * 100
    with pytest.raises(InputError) as error:
        parse(good + "1 x\n1\n-1 -1\n" + good)
    assert error.value.place == "t.txt:101"
    with pytest.raises(InputError) as error:
        parse(good + "1\n1 x\n")
    assert error.value.place == "t.txt:101"
    with pytest.raises(InputError) as error:
        parse("1 2 3\n" * 100 + "1 2 x\ny 2 3\n")
    assert error.value.place == "t.txt:101"


def test_base_one_with_an_id_zero_names_its_line() -> None:
    with pytest.raises(InputError, match="vertex id 0") as error:
        parse("1 2\n2 3\n3 0\n", base=1)
    assert error.value.place == "t.txt:3"


def test_bipartite_graphs_are_not_relabelled() -> None:
    with pytest.raises(InputError, match="two sets of ids"):
        parse("% bip unweighted\n1 2\n", relabel=True)


@settings(max_examples=300, deadline=None)
@given(st.binary(min_size=1, max_size=200) | st.text("0123 \n\t,#%/-.e", min_size=1, max_size=80).map(str.encode))
def test_any_bytes_are_read_or_refused_properly(text: bytes) -> None:
    try:
        raw = parse(text)
    except InputError:
        return
    assert len(raw.row) == len(raw.col) > 0
    assert 0 <= raw.row.min() <= raw.row.max() < raw.rows
    assert 0 <= raw.col.min() <= raw.col.max() < raw.cols
    lines = text.split(b"\n" if b"\n" in text else b"\r")
    for i in range(len(raw.row)):
        line = raw.line_of(i)
        assert line is not None
        assert raw.symmetry != "general" or str(raw.row[i] + (raw.base or 0)).encode() in lines[line - 1]


# Choosing the reader ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "name", "reader"),
    [
        (b"0 1\n1 2\n", "a.txt", "edge-list"),
        (b"0 1\n1 2\n", "a", "edge-list"),
        (b"0,1,2.5\n1,2,3\n", "a.csv", "edge-list"),
        (b"0\t1\r\n", "a.tsv", "edge-list"),
        (b"source,target\n0,1\n", "a.csv", "edge-list"),
        (b"% sym unweighted\n1 2\n", "out.moreno", "edge-list"),
        (b"1 2 3 4\n", "a.edges", "edge-list"),
        (b"alice bob\nbob carol\n", "a.txt", "edge-list"),  # to be refused with the right reason
        (b"#" * 70000 + b"\n1 2\n", "a.txt", "edge-list"),
        (b"%%MatrixMarket matrix coordinate real general\n1 1 1\n1 1 5\n", "a.txt", "matrix-market"),
        (b"%%MatrixMarket matrix coordinate real general\n1 1 1\n1 1 5\n", "out.a", "matrix-market"),
        (b"3 3 1\n1 1 5\n", "a.mtx", "matrix-market"),
        (b"1 2\n2 3\n", "a.el", "edge-list"),  # no id 0: the base is to be found
        (b"0 1\n", "a.el", "gap-el"),
        (b"0 1 4\n", "a.wel", "gap-wel"),
        (b"c x\np sp 2 1\na 1 2 3\n", "a.txt", "dimacs"),
        (b"2 1\n2\n1\n", "a.graph", "metis"),
        (b"Dear all,\nthis is a letter of some length.\n", "a.md", None),
    ],
)
def test_the_right_reader_is_chosen(text: bytes, name: str, reader: str | None) -> None:
    assert chosen(text, name) == reader


# Speed --------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_speed_and_memory(tmp_path: Path) -> None:
    """A quarter of 100 MB within a quarter of 6 s, peak memory at most five times the file."""
    path = tmp_path / "big.txt"
    rng = np.random.default_rng(1)
    u, v = rng.integers(0, 2_000_000, (2, 400_000)).tolist()
    part = "".join(f"{a}\t{b}\n" for a, b in zip(u, v, strict=True)).encode()
    path.write_bytes(b"# c\n" + part * 4)
    code = (
        "import resource, sys, time\n"
        "from spgraph_bench.readers import ReadOptions, readers\n"
        "from spgraph_bench.readers.opening import open_input, parse\n"
        "all_readers, calls = readers(), []\n"
        "import scipy.sparse\n"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024\n"
        "before, start = peak(), time.process_time()\n"
        "data = open_input(sys.argv[1], lambda *a: None)\n"
        "raw = parse(data, ReadOptions(), lambda what, fraction: calls.append(fraction), all_readers)\n"
        "print(len(raw.row), time.process_time() - start, peak() - before, len(calls), max(calls))\n"
    )
    out = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True, timeout=100
    )
    count, seconds, memory, calls, last = map(float, out.stdout.split())
    size = path.stat().st_size
    assert count == 1_600_000
    assert seconds < 6 * size / 100e6
    assert memory < 5 * size
    assert calls > 10
    assert last == 1


READ_APART = """
import os, sys, time
import scipy.sparse
from spgraph_bench.readers import ReadOptions, cache, compiled, read, readers

def resident(field):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith(field))

cache.WORTH_SECONDS = 1e9
readers(), compiled.library()
for way in "compiled", "python":
    for options in {}, {"symmetrize": True}, {"relabel": True, "symmetrize": True}:
        sys.stdout.flush()
        if os.fork():
            assert os.wait()[1] == 0
            continue
        if way == "python":
            compiled.library = lambda: None
        with open("/proc/self/clear_refs", "w") as clear:
            clear.write("5")  # VmHWM starts again from what is resident now
        before, start = resident("VmRSS"), time.process_time()
        nnz = read(sys.argv[1], ReadOptions(**options)).csr.nnz
        print(way, *options, nnz, time.process_time() - start, resident("VmHWM") - before)
        sys.stdout.flush()
        os._exit(0)
"""


@pytest.mark.slow
@pytest.mark.skipif(not os.access("/proc/self/clear_refs", os.W_OK), reason="Linux tells the peak")
@pytest.mark.skipif("SPGRAPH_HOST_SANITIZE" in os.environ, reason="a sanitizer keeps what is freed")
@pytest.mark.parametrize("head", ["# directed", "% asym weighted", "% sym weighted"])
def test_memory_to_the_matrix(tmp_path: Path, head: str) -> None:
    """Read, mirrored by an option or by its header, relabelled: at most five times the file, in no order."""
    path = tmp_path / "big.txt"
    rng = np.random.default_rng(1)
    columns = [*rng.integers(100_000, 300_000, (2, 1_100_000)), rng.integers(1, 256, 1_100_000)]
    columns[2] = columns[0] + columns[1]  # the same in both directions
    columns = columns[: 3 if head.endswith(" weighted") else 2]
    rows = zip(*(c.tolist() for c in columns), strict=True)
    path.write_text(head + "\n" + "\n".join(" ".join(map(str, row)) for row in rows) + "\n")
    # The C library keeps up to 64 MB that were freed: little of 100 MB, much of this file.
    env = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "262144", "MALLOC_TRIM_THRESHOLD_": "262144"}
    out = subprocess.run(
        [sys.executable, "-c", READ_APART, str(path)], capture_output=True, text=True, check=True, timeout=100, env=env
    )
    size = path.stat().st_size
    lines = [line.split() for line in out.stdout.splitlines()]
    assert len(lines) == 6
    for *what, nnz, seconds, memory in lines:
        assert int(nnz) > (2_100_000 if "symmetrize" in what or " sym " in head else 1_000_000), what
        assert float(seconds) < 6 * size / 100e6, what
        assert int(memory) < 5 * size, (what, int(memory) / size)
