"""GML and GraphML, by networkx (``pip install networkx``), which knows their many dialects.

It needs about a kilobyte of memory for each edge: such files are for graphs of up to some millions of edges.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from spgraph_bench.errors import InputError
from spgraph_bench.matrix import Finding
from spgraph_bench.readers.common import (
    CERTAIN,
    LIKELY,
    NO,
    Input,
    Progress,
    RawEntries,
    ReadOptions,
    reader,
    require_memory,
)
from spgraph_bench.readers.edge_table import no_edges

__all__: list[str] = []

_GML = re.compile(
    rb"\s*(?:#[^\n]*\n\s*|(?:creator|version|comment|label|directed)\b[^\n\[]*\n\s*)*graph\s*\[", re.IGNORECASE
)
_GRAPH = re.compile(r"\bgraph\s*\[", re.IGNORECASE)
_PLACE = re.compile(r"\((\d+), \d+\)")
_BYTES_FOR_BYTE = 30
"""What networkx takes in memory for a byte of the file."""


def _sniff_gml(head: bytes, name: str) -> int:
    if _GML.match(head):
        return CERTAIN
    return LIKELY if name.endswith(".gml") and b"\0" not in head else NO


def _sniff_graphml(head: bytes, name: str) -> int:
    if b"<graphml" in head[:8192]:
        return CERTAIN
    return LIKELY if name.endswith(".graphml") and b"\0" not in head else NO


@reader("gml", title="GML", suffixes=(".gml",), sniff=_sniff_gml)
def parse_gml(data: Input, options: ReadOptions, progress: Progress) -> RawEntries:
    """Edges as the file says, directed or not; vertices by their labels; ``weight`` or ``value`` as weights."""

    def read(networkx: Any) -> Any:
        text = data.data[:].decode("utf-8", "replace")
        if not re.search(r"\bmultigraph\s+[01]", text):  # parallel edges are legal, networkx needs the attribute
            text = _GRAPH.sub("graph [ multigraph 1", text, count=1)
        return networkx.parse_gml(text.split("\n"), label="id")

    return _parse(data, "gml", read, progress, ("label", "name"))


@reader("graphml", title="GraphML", suffixes=(".graphml",), sniff=_sniff_graphml)
def parse_graphml(data: Input, options: ReadOptions, progress: Progress) -> RawEntries:
    """Edges as the file says, directed or not; vertices by ``name``, ``label`` or id; ``weight`` as weights."""
    if data.data.find(b"<!ENTITY") >= 0:
        raise data.error("the file declares XML entities", remedy="write it without a document type")

    def read(networkx: Any) -> Any:
        return networkx.read_graphml(io.BytesIO(data.data[:]), force_multigraph=True)

    return _parse(data, "graphml", read, progress, ("name", "label"))


def _parse(
    data: Input, kind: str, read: Callable[[Any], Any], progress: Progress, called: tuple[str, ...]
) -> RawEntries:
    try:
        import networkx
    except ImportError:
        raise data.error(
            f"{kind} files are read by networkx, which is not installed", remedy="pip install networkx"
        ) from None
    require_memory(_BYTES_FOR_BYTE * len(data.data), f"reading {kind} by networkx", data.place)
    progress(f"reading {kind}", None)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of types that are not declared: what is not a number is found below
            graph = read(networkx)
    except MemoryError:
        raise
    except Exception as error:  # networkx and the XML parser have their own for each error
        raise _input_error(data, kind, error) from None
    vertices = list(graph)
    if not graph.number_of_edges():
        raise no_edges(data)
    number = {vertex: k for k, vertex in enumerate(vertices)}
    names = [str(vertex) for vertex in vertices]
    for attribute in called:
        labels = [graph.nodes[vertex].get(attribute) for vertex in vertices]
        if all(name is not None for name in labels) and len(set(map(str, labels))) == len(labels):
            names = [str(name) for name in labels]
            break
    findings: list[Finding] = []
    edges = list(graph.edges(data=True))
    u = np.array([number[a] for a, _, _ in edges], np.int32)
    v = np.array([number[b] for _, b, _ in edges], np.int32)
    directed = bool(graph.is_directed())
    n = len(vertices)
    return RawEntries(
        n,
        n,
        u,
        v,
        _weights(data, edges, names, number, findings),
        kind,
        symmetry="general" if directed else "symmetric",
        undirected=not directed,
        names=names,
        findings=tuple(findings),
    )


def _weights(data: Input, edges: list[Any], names: list[str], number: dict[Any, int], findings: list[Finding]) -> Any:
    """The weights of all edges, or None where none has any."""
    for attribute in ("weight", "value"):
        weights = [about.get(attribute) for _, _, about in edges]
        missing = sum(value is None for value in weights)
        if missing == len(weights):
            continue
        if missing:
            text = f"edges without a {attribute}: taken for 1"
            findings.append(Finding(text, count=missing, warning=True))
        for value, (a, b, _) in zip(weights, edges, strict=True):
            if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float))):
                raise data.error(
                    f"the {attribute} of edge {names[number[a]]} - {names[number[b]]} is {value!r:.40}, not a number",
                    remedy="correct it, or remove the attribute",
                )
        return np.array([1.0 if value is None else float(value) for value in weights])
    return None


def _input_error(data: Input, kind: str, error: Exception) -> InputError:
    reason = (str(error).splitlines() or [type(error).__name__])[0][:100]
    position = getattr(error, "position", None)  # of an XML parser
    place = _PLACE.search(reason)
    line = position[0] if position else int(place[1]) if place else None
    return data.error(f"no graph can be read from it ({reason})", line=line, remedy=f"correct the {kind} file")
