"""Formats of graphs: edge lists, GAP's, DIMACS', METIS', Pajek's, GML and GraphML."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, BinaryIO

import numpy as np

from spgraph_bench.errors import UsageError
from spgraph_bench.matrix import Matrix
from spgraph_bench.stats import row_blocks
from spgraph_bench.writers.base import (
    is_mirrored,
    refuse,
    require_edges,
    require_no_loops,
    require_undirected,
    require_whole,
    writer,
)
from spgraph_bench.writers.matrices import about

__all__: list[str] = []


def _edge_lines(matrix: Matrix, base: int, lower: bool, form: str = "%d %d", unit: str = "") -> Iterator[bytes]:
    """A line for each entry (`lower`: of the lower triangle): its ends, and its value with 17 digits, else `unit`."""
    csr = matrix.csr
    line = (f"{form}{unit}\n" if csr.values is None else f"{form} %s\n").__mod__
    for block in row_blocks(csr):
        rows, cols = block.row_ids(), block.cols
        wanted = cols <= rows if lower else np.ones(len(cols), bool)
        columns = [(rows[wanted] + base).tolist(), (cols[wanted] + base).tolist()]
        if csr.values is not None:
            columns.append(list(map(_digits, csr.values[block.entries][wanted].tolist())))
        yield "".join(map(line, zip(*columns, strict=True))).encode()


def _digits(value: float) -> str:
    """17 digits, enough for every float64; "-0" would be read as an integer, which has no sign."""
    text = f"{value:.17g}"
    return "-0.0" if text == "-0" else text


def _lower_entries(matrix: Matrix) -> int:
    return sum(int(np.count_nonzero(block.cols <= block.row_ids())) for block in row_blocks(matrix.csr))


@writer(".txt", ".edges", ".tsv", reader="edge-list", title="edge list with KONECT's header", symmetry=True)
def write_konect(matrix: Matrix, stream: BinaryIO, place: str) -> None:
    """1-based, with KONECT's header, which keeps vertices without edges and undirected graphs."""
    require_edges(matrix, place, "an edge list")
    csr, lower = matrix.csr, matrix.symmetry == "symmetric"
    entries = _lower_entries(matrix) if lower else csr.nnz
    kind, weights = "sym" if lower else "asym", "unweighted" if csr.values is None else "weighted"
    stream.write(f"% {kind} {weights}\n% {entries} {csr.rows} {csr.cols}\n% {about(matrix)}\n".encode())
    for lines in _edge_lines(matrix, 1, lower):
        stream.write(lines)


@writer(".el", reader="gap-el", title="GAP edge list")
def write_el(matrix: Matrix, stream: BinaryIO, place: str) -> None:
    """0-based, no header: what the GAP suite reads. Such a list cannot name vertices without edges."""
    _write_gap(matrix, stream, place, weighted=False)


@writer(".wel", reader="gap-wel", title="GAP weighted edge list")
def write_wel(matrix: Matrix, stream: BinaryIO, place: str) -> None:
    """As .el, with weights."""
    _write_gap(matrix, stream, place, weighted=True)


def _write_gap(matrix: Matrix, stream: BinaryIO, place: str, weighted: bool) -> None:
    require_edges(matrix, place, "an edge list")
    _require_weights(matrix, place, weighted, ".el", ".wel")
    csr = matrix.csr
    last_named = csr.row_ptr[-1] > csr.row_ptr[-2] or int(csr.col_idx.max()) == csr.cols - 1
    if csr.row_ptr[1] == 0 or not last_named:
        raise refuse(
            "vertex 0 has no out-edge or the last vertex no edge, which a list without a header cannot say",
            place,
            "write .txt or .mtx",
        )
    for lines in _edge_lines(matrix, 0, False):
        stream.write(lines)


def _require_weights(matrix: Matrix, place: str, weighted: bool, without: str, with_: str) -> None:
    """UsageError where a graph with weights goes to a format without, or the other way."""
    if (matrix.csr.values is not None) == weighted:
        return
    if weighted:
        raise refuse("the graph is unweighted", place, f"write {without}, or draw weights: --values integers")
    raise refuse("the graph is weighted", place, f"write {with_}, or drop the weights: --values ones")


@writer(".sg", reader="gap-sg", title="GAP binary graph")
def write_sg(matrix: Matrix, stream: BinaryIO, place: str) -> None:
    """Both directions of a directed graph, little-endian; see readers/gap_binary.py."""
    _write_binary(matrix, stream, place, weighted=False)


@writer(".wsg", reader="gap-sg", title="GAP binary weighted graph")
def write_wsg(matrix: Matrix, stream: BinaryIO, place: str) -> None:
    """As .sg, with weights, which are int32."""
    _write_binary(matrix, stream, place, weighted=True)


def _write_binary(matrix: Matrix, stream: BinaryIO, place: str, weighted: bool) -> None:
    require_edges(matrix, place, "a binary graph")
    _require_weights(matrix, place, weighted, ".sg", ".wsg")
    require_whole(matrix, place, "a binary graph", -(2**31))
    csr = matrix.csr
    directed = not is_mirrored(matrix)
    stream.write(bytes([directed]) + np.array([csr.nnz, csr.rows], "<i8").tobytes())
    sides: list[Any] = [csr.to_scipy()]
    if directed:
        sides.append(sides[0].T.tocsr())
        sides[1].sort_indices()
    for side in sides:
        stream.write(np.asarray(side.indptr, "<i8").tobytes())
        words = np.empty((csr.nnz, 2 if weighted else 1), "<i4")
        words[:, 0] = side.indices
        if weighted:
            words[:, 1] = side.data
        stream.write(words.tobytes())


@writer(".gr", reader="dimacs", title="DIMACS shortest paths")
def write_gr(matrix: Matrix, stream: BinaryIO, place: str) -> None:
    """Directed edges with integer lengths, 1-based; of an unweighted graph all are 1."""
    require_edges(matrix, place, "a DIMACS graph")
    require_whole(matrix, place, "a DIMACS graph", 0)
    csr = matrix.csr
    stream.write(f"c {about(matrix)}\np sp {csr.rows} {csr.nnz}\n".encode())
    for lines in _edge_lines(matrix, 1, False, "a %d %d", " 1"):
        stream.write(lines)


@writer(".col", reader="dimacs", title="DIMACS colouring", symmetry=True)
def write_col(matrix: Matrix, stream: BinaryIO, place: str) -> None:
    """Undirected edges without weights, 1-based."""
    require_edges(matrix, place, "a DIMACS colouring graph")
    _require_weights(matrix, place, False, ".col", ".gr")
    require_undirected(matrix, place, "a DIMACS colouring graph")
    require_no_loops(matrix, place, "a DIMACS colouring graph")
    stream.write(f"c {about(matrix)}\np edge {matrix.csr.rows} {_lower_entries(matrix)}\n".encode())
    for lines in _edge_lines(matrix, 1, True, "e %d %d"):
        stream.write(lines)


@writer(".graph", reader="metis", title="METIS graph")
def write_metis(matrix: Matrix, stream: BinaryIO, place: str) -> None:
    """Line i lists the neighbours of vertex i, 1-based, each with its weight where there are weights."""
    require_edges(matrix, place, "a METIS graph")
    require_undirected(matrix, place, "a METIS graph")
    require_no_loops(matrix, place, "a METIS graph")
    require_whole(matrix, place, "a METIS graph", 1)
    csr = matrix.csr
    stream.write(f"% {about(matrix)}\n{csr.rows} {csr.nnz // 2}{'' if csr.values is None else ' 001'}\n".encode())
    for block in row_blocks(csr):
        words = (block.cols + 1).astype(np.int64)
        if csr.values is not None:
            words = np.stack([words, csr.values[block.entries].astype(np.int64)], axis=1).ravel()
        width = 1 if csr.values is None else 2
        text = list(map(str, words.tolist()))
        ends = ((block.row_ptr - block.row_ptr[0]) * width).tolist()
        lines = (" ".join(text[begin:end]) for begin, end in pairwise(ends))
        stream.write("".join(f"{line}\n" for line in lines).encode())


@writer(".net", reader="pajek", title="Pajek network", names=True, symmetry=True)
def write_pajek(matrix: Matrix, stream: BinaryIO, place: str) -> None:
    """Vertices with names, where the input has some; directed or undirected edges."""
    require_edges(matrix, place, "a Pajek network")
    csr, lower = matrix.csr, matrix.symmetry == "symmetric"
    stream.write(f"% {about(matrix)}\n*Vertices {csr.rows}\n".encode(errors="backslashreplace"))
    if (names := _names(matrix)) is not None:
        for k, name in enumerate(names, 1):
            if '"' in name or not name.isprintable():
                raise refuse(f"a Pajek network cannot hold the name {name!r}", place, "write .graphml")
            stream.write(f'{k} "{name}"\n'.encode(errors="backslashreplace"))
    stream.write(b"*Edges\n" if lower else b"*Arcs\n")
    for lines in _edge_lines(matrix, 1, lower):
        stream.write(lines)


def _names(matrix: Matrix) -> list[str] | None:
    """What the input calls vertices, unless these count from 0 or 1."""
    if matrix.names is not None:
        return list(matrix.names)
    return None if matrix.original_ids is None else [str(k) for k in matrix.original_ids.tolist()]


@writer(".gml", reader="gml", title="GML", names=True, symmetry=True)
def write_gml(matrix: Matrix, stream: BinaryIO, place: str) -> None:
    """By networkx; vertices with their names as labels."""
    networkx, graph = _networkx_graph(matrix, place, "GML")
    if matrix.csr.values is not None and not np.isfinite(matrix.csr.values).all():
        raise refuse("GML has no infinite values and no nan", place, "write .graphml or .mtx")
    creator = about(matrix).replace("&", "+").replace('"', "'")
    stream.write(f'Creator "{creator}"\n'.encode("ascii", "replace"))
    for line in networkx.generate_gml(graph):
        stream.write(f"{line}\n".encode("ascii", "xmlcharrefreplace"))


@writer(".graphml", reader="graphml", title="GraphML", names=True, symmetry=True)
def write_graphml(matrix: Matrix, stream: BinaryIO, place: str) -> None:
    """By networkx; vertices with their names as ids."""
    networkx, graph = _networkx_graph(matrix, place, "GraphML")
    for line in networkx.generate_graphml(graph):
        stream.write(f"{line}\n".encode())


def _networkx_graph(matrix: Matrix, place: str, what: str) -> tuple[Any, Any]:
    try:
        import networkx
    except ImportError:
        raise UsageError(
            f"{what} is written by networkx, which is not installed", place=place, remedy="pip install networkx"
        ) from None
    require_edges(matrix, place, what)
    csr, lower = matrix.csr, matrix.symmetry == "symmetric"
    names = _names(matrix) or [str(k + matrix.first_id) for k in range(csr.rows)]
    if len(set(names)) < len(names):
        raise refuse(f"{what} cannot hold two vertices of the same name", place, "write .net, or add --relabel")
    graph = networkx.Graph() if lower else networkx.DiGraph()
    graph.add_nodes_from(names)
    values = None if csr.values is None else csr.values.tolist()
    for block in row_blocks(csr):
        begin = block.entries.start
        for k, (u, v) in enumerate(zip(block.row_ids().tolist(), block.cols.tolist(), strict=True)):
            if lower and v > u:
                continue
            if values is None:
                graph.add_edge(names[u], names[v])
            else:
                graph.add_edge(names[u], names[v], weight=values[begin + k])
    return networkx, graph
