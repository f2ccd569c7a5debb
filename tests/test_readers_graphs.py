"""Graphs as other programs write them: GAP's binary files, DIMACS colouring, Pajek, GML, GraphML."""

from __future__ import annotations

import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spgraph_bench.errors import InputError
from spgraph_bench.matrix import Matrix, called
from spgraph_bench.readers import ReadOptions, read


def load(tmp_path: Path, name: str, content: str | bytes, **options: Any) -> Matrix:
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read(str(path), ReadOptions(**options))


def dense(matrix: Matrix) -> list[list[float]]:
    rows: list[list[float]] = matrix.csr.to_scipy().toarray().tolist()
    return rows


# GAP's binary files -------------------------------------------------------------------------------------


def gap(directed: bool, ptr: list[int], neighbours: list[int], behind: bytes = b"") -> bytes:
    edges = ptr[-1]
    head = struct.pack("<?qq", directed, edges, len(ptr) - 1)
    return head + np.array(ptr, "<i8").tobytes() + np.array(neighbours, "<i4").tobytes() + behind


IN_EDGES = np.array([0, 1, 1, 3], "<i8").tobytes()


def test_gap_binary_graphs(tmp_path: Path) -> None:
    directed = gap(True, [0, 2, 2, 3], [1, 2, 0], IN_EDGES + np.array([2, 0, 0], "<i4").tobytes())
    matrix = load(tmp_path, "a.sg", directed)
    assert dense(matrix) == [[0, 1, 1], [0, 0, 0], [1, 0, 0]]
    assert (matrix.weighted, matrix.policies.base, matrix.source.format) == (False, 0, "gap-sg")
    weighted = load(tmp_path, "a.wsg", gap(False, [0, 1, 2], [1, 7, 0, 7]))
    assert dense(weighted) == [[0, 7], [7, 0]]


@pytest.mark.parametrize(
    ("content", "cause"),
    [
        (gap(False, [0, 1, 2], [1, 0])[:-1], "do not fit a file"),
        (gap(True, [0, 1, 2], [1, 0]), "do not fit a file"),  # the in-edges are missing
        (gap(False, [0, 1, 2], [1, 2]), r"neighbour 2 \(edge 1\)"),
        (gap(False, [0, 1, 2], [-1, 0]), r"neighbour -1 \(edge 0\)"),
        (gap(False, [0, 3, 2], [1, 0]), "offset 1 is 3"),
        (struct.pack("<?qq", False, 2**62, 2**40), "do not fit a file"),
        (b"\0" * 9, "not its header"),
    ],
)
def test_broken_gap_binary_graphs(tmp_path: Path, content: bytes, cause: str) -> None:
    with pytest.raises(InputError, match=cause):
        load(tmp_path, "a.sg", content)


# DIMACS: colouring and cliques --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "c triangle with a tail\np edge 4 4\nn 1 2\ne 1 2\ne 2 3\nc\ne 3 1\ne 3 4\n",
        "p col 4 4\ne 1 2\ne 2 1\ne 2 3\ne 3 2\ne 3 1\ne 1 3\ne 3 4\ne 4 3\n",  # both directions listed
        "p edge 4 8\ne 1 2\ne 2 3\ne 3 1\ne 3 4\n",  # both directions counted
    ],
)
def test_dimacs_edges(tmp_path: Path, text: str) -> None:
    matrix = load(tmp_path, "a.col", text)
    assert dense(matrix) == [[0, 1, 1, 0], [1, 0, 1, 0], [1, 1, 0, 1], [0, 0, 1, 0]]
    assert (matrix.policies.base, matrix.weighted) == (1, False)


def test_dimacs_edges_with_weights_and_errors(tmp_path: Path) -> None:
    assert dense(load(tmp_path, "a.clq", "p edge 2 1\ne 1 2 4.5\n")) == [[0, 4.5], [4.5, 0]]
    for text, fault in (
        ("p edge 3 3\ne 1 2\n", ":1: 3 edges are promised, the file holds 1"),
        ("p edge 3 1\ne 1 2\ne 2 3\ne 3 1\n", ":4: more edges than the 1"),
        ("p edge 3 2\ne 1 2\ne 1 9\n", ":3: vertex '9' is not in 1..3"),
        ("p edge 3 2\ne 1 2\ne 1 2 3\n", ":3: an edge has two numbers"),
        ("p max 3 2\na 1 2 3\n", ":1: a DIMACS problem of kind 'max'"),
    ):
        with pytest.raises(InputError, match=fault):
            load(tmp_path, "a.col", text)


# Pajek --------------------------------------------------------------------------------------------------

PAJEK = '*Network roads\n% made up\n*Vertices 4\n1 "Bad Ems" 0.1 0.2\n2 Köln ic Red\n4 "Ulm"\n'


def test_pajek(tmp_path: Path) -> None:
    matrix = load(tmp_path, "a.net", PAJEK + "*Arcs\n1 2 5\n2 1 6.5 w 2\n*Edges\n2 4 7 c Blue\n1 1 2\n")
    assert dense(matrix) == [[2, 5, 0, 0], [6.5, 0, 0, 7], [0, 0, 0, 0], [0, 7, 0, 0]]
    assert [str(called(matrix.labels(), v)) for v in range(4)] == ["Bad Ems", "Köln", "3", "Ulm"]
    assert matrix.policies.base == 1
    edges = load(tmp_path, "b.net", "*vertices 3\n*edges\n1 2\n2 1\n2 3\n")
    assert dense(edges) == [[0, 1, 0], [1, 0, 1], [0, 1, 0]]
    assert (edges.weighted, edges.names) == (False, None)
    lists = load(tmp_path, "c", "*Vertices 3\n*Arcslist\n1 2 3\n*Edgeslist\n2 3\n*Partition x\n1\n1\n2\n")
    assert dense(lists) == [[0, 1, 1], [0, 0, 1], [0, 1, 0]]
    assert any("*partition" in f.text for f in lists.findings)
    full = load(tmp_path, "d.net", "*Vertices 2\n*Matrix\n0 1.5\n2 0\n")
    assert dense(full) == [[0, 1.5], [2, 0]]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("*Arcs\n1 5\n", ":8: vertex '5' is not in 1..4"),
        ("*Arcs\n1 2 1.2.3\n", ":8: weight '1.2.3' is not a number"),
        ("*Edges\n1\n", ":8: one vertex"),
        ("*Matrix\n1 2\n", ":8: 2 values in row 1 of a matrix of 4"),
        ("*Arcs\n", "no edges in it"),
        ("9 x\n*Arcs\n1 2\n", ":7: vertex '9' is not in 1..4"),
    ],
)
def test_broken_pajek(tmp_path: Path, text: str, fault: str) -> None:
    with pytest.raises(InputError, match=fault):
        load(tmp_path, "a.net", PAJEK + text)


# GML and GraphML ----------------------------------------------------------------------------------------

GML = """Creator "made up"
graph [
  directed {directed}
  node [ id 7 label "Ann" ]
  node [ id 9 label "Bob" ]
  node [ id 8 label "Cid &amp; Co" ]
  edge [ source 7 target 9 weight 2 ]
  edge [ source 7 target 9 weight 3 ]
  edge [ source 8 target 7 weight 1.5 ]
]
"""


@pytest.fixture
def networkx() -> Any:
    return pytest.importorskip("networkx")


def test_gml(tmp_path: Path, networkx: Any) -> None:
    directed = load(tmp_path, "a.gml", GML.format(directed=1), parallel="min")
    assert dense(directed) == [[0, 2, 0], [0, 0, 0], [1.5, 0, 0]]
    assert [str(called(directed.labels(), v)) for v in range(3)] == ["Ann", "Bob", "Cid & Co"]
    undirected = load(tmp_path, "b", GML.format(directed=0))
    assert dense(undirected) == [[0, 5, 1.5], [5, 0, 0], [1.5, 0, 0]]
    assert undirected.source.format == "gml"


def test_graphml(tmp_path: Path, networkx: Any) -> None:
    graph = networkx.DiGraph()
    graph.add_edge("x", "y", weight=2)
    graph.add_edge("y", "z", weight=4)
    networkx.write_graphml(graph, tmp_path / "a.graphml")
    matrix = read(str(tmp_path / "a.graphml"))
    assert dense(matrix) == [[0, 2, 0], [0, 0, 4], [0, 0, 0]]
    assert [str(called(matrix.labels(), v)) for v in range(3)] == ["x", "y", "z"]
    networkx.write_graphml(networkx.path_graph(3), tmp_path / "b.graphml")
    path = read(str(tmp_path / "b.graphml"))
    assert (dense(path), path.weighted) == ([[0, 1, 0], [1, 0, 1], [0, 1, 0]], False)


@pytest.mark.parametrize(
    ("name", "content", "fault"),
    [
        ("a.gml", GML.format(directed=1).replace("source 8", "source 6"), "no graph can be read"),
        ("a.gml", GML.format(directed=1).replace("]\n]", "]\n"), "no graph can be read"),
        ("a.gml", GML.format(directed=1).replace("weight 3", 'weight "x"'), "edge Ann - Bob is 'x', not a number"),
        ("a.gml", "graph [\n node [ id 1 ]\n]\n", "no edges"),
        ("a.graphml", "<graphml>\n<graph edgedefault='directed'>\n<node></graphml>", ":3: no graph can be read"),
        ("a.graphml", "<!DOCTYPE x [<!ENTITY a 'aa'>]>\n<graphml/>", "declares XML entities"),
        ("a.graphml", "<graphml/>", "no graph can be read"),
    ],
)
def test_broken_gml_and_graphml(tmp_path: Path, networkx: Any, name: str, content: str, fault: str) -> None:
    with pytest.raises(InputError, match=fault):
        load(tmp_path, name, content)


def test_without_networkx_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "networkx", None)
    with pytest.raises(InputError, match=r"not installed\n.*pip install networkx"):
        load(tmp_path, "a.gml", GML.format(directed=1))
