"""BFS and PageRank: the time of each mode from degrees, levels and size; the one to take.

A search takes ``search + level L + vertex n + edge m + far f`` microseconds with the constants of :class:`Search`: L
levels; n and m millions of reached vertices and their edges; f those of them that do not leave one of the busiest
vertices. If levels are narrow (few edges in each), ``auto`` and ``one-block`` work in one block, with constants of
their own. An iteration of PageRank is a product of the SpMV model's form: see :func:`_pagerank`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from spgraph_bench.advice.costs import NARROW, Costs, Search, fitted
from spgraph_bench.advice.facts import sectors_of, short
from spgraph_bench.advice.spmv import UPLOAD, bandwidth
from spgraph_bench.gpus import GPU, H200
from spgraph_bench.matrix import CSR
from spgraph_bench.stats import row_stats
from spgraph_bench.variants.bfs.cpu import levels_of_tree

__all__ = [
    "BASELINE",
    "DEFAULT",
    "HUBS",
    "MARGIN",
    "RULES",
    "GraphChoice",
    "GraphFacts",
    "Mode",
    "choose",
    "edges_reached",
    "graph_facts",
    "kind",
    "predict",
    "search_us",
]

RULES = ("bfs", "pagerank")
"""Problems that there are rules for."""
BASELINE = {"bfs": "edge-balanced", "pagerank": "pull"}
"""What a gain is relative to: the best search that only goes from the frontier on, a launch for each level; a product
from CSR in each iteration."""
DEFAULT = {"bfs": "auto", "pagerank": "pull"}
"""What stays unless another gains more than MARGIN: what chooses level by level; what needs no setup."""
MARGIN = 0.05
_ROAD = 2.5
"""A graph is road-like if a search has more levels than this times log2 of the vertices that it reaches."""
_NARROW = 8000
"""Levels of fewer edges than this are done faster by one block than by the whole GPU."""
HUBS = 40_000
"""Busiest vertices that searches are counted with. On an H200 pull-hubs has about as many values in shared memory, see
:func:`spgraph_bench.variants.marked_rows.hubs_on`."""


@dataclass(frozen=True)
class GraphFacts:
    """A graph, as advice sees it."""

    vertices: int
    edges: int
    """Stored: both directions of an undirected edge."""
    max_degree: int
    gini: float
    """Of out-degrees."""
    undirected: bool
    hubs: int
    hub_share: float
    """Share of edges that leave the `hubs` vertices with most of them."""
    sectors: float
    """Of 4-byte values that an edge moves into L1, see :class:`Facts`."""
    levels: int
    """Of a search from the vertex with the most edges."""
    reached: int
    """Vertices that it reaches."""

    @property
    def road_like(self) -> bool:
        """Many levels for its size, as of grids, meshes, roads and chains; else a small world."""
        return self.levels > _ROAD * math.log2(max(self.reached, 2))

    def to_json(self) -> dict[str, Any]:
        """In JSON's types, numbers with six digits."""
        made: dict[str, Any] = short(asdict(self))
        return made

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> GraphFacts:
        """What :meth:`to_json` gave."""
        return cls(**data)


@dataclass(frozen=True)
class Mode:
    """One mode, predicted."""

    variant: str
    ms: float
    """A search, or an iteration; cold caches."""
    setup_ms: float
    """Conversion and upload of the graph, and what else the mode prepares, once for each graph."""


@dataclass(frozen=True)
class GraphChoice:
    """The decision."""

    best: Mode
    baseline: Mode
    ranked: tuple[Mode, ...]
    """All modes that are predicted, the choice first."""


def graph_facts(csr: CSR, undirected: bool, hubs: int = HUBS) -> GraphFacts:
    """Count. One search on the host, and a pass over rows; memory of about 12 bytes an edge.

    Parameters
    ----------
    undirected : each edge is stored in both directions.
    hubs : how many of the busiest vertices `hub_share` counts.
    """
    stats = row_stats(csr)
    lengths = csr.row_lengths()
    busiest = np.partition(lengths, -hubs)[-hubs:] if 0 < hubs < csr.rows else lengths
    levels, reached = _levels(csr, int(lengths.argmax())) if csr.rows else (0, 0)
    return GraphFacts(
        vertices=csr.rows,
        edges=csr.nnz,
        max_degree=stats.row_max,
        gini=stats.gini,
        undirected=undirected,
        hubs=hubs,
        hub_share=int(busiest.sum()) / csr.nnz if csr.nnz else 0.0,
        sectors=sectors_of(csr, 4),
        levels=levels,
        reached=reached,
    )


def _levels(csr: CSR, source: int) -> tuple[int, int]:
    """Levels after the first, and vertices, of a search from `source`."""
    from scipy.sparse.csgraph import breadth_first_order

    order, before = breadth_first_order(csr.to_scipy(values=np.ones(csr.nnz)), source)
    return int(levels_of_tree(order, before, csr.rows)[order[-1]]), len(order)


def edges_reached(facts: GraphFacts) -> float:
    """Edges of the vertices that a search reaches, if they have as many as others."""
    return facts.edges * facts.reached / facts.vertices if facts.vertices else 0.0


def kind(mode: str, facts: GraphFacts) -> str:
    """The name under which the constants of `mode` are kept: its own, or NARROW."""
    narrow = edges_reached(facts) < _NARROW * max(facts.levels, 1)
    return NARROW if narrow and mode in ("auto", "one-block") else mode


def search_us(cost: Search, facts: GraphFacts, speed: float) -> float:
    """Microseconds of a search, on a GPU `speed` times as fast as that of the constants."""
    edges = edges_reached(facts)
    work = cost.vertex * facts.reached + (cost.edge + cost.far * (1 - facts.hub_share)) * edges
    return cost.search + cost.level * facts.levels + work / 1e6 / speed


def _bfs(facts: GraphFacts, gpu: GPU, costs: Costs) -> list[Mode]:
    speed = gpu.multiprocessors / H200.multiprocessors
    modes = []
    for name in (name for name in costs.bfs if name != NARROW):
        by = kind(name, facts)
        if by in costs.bfs:
            us = search_us(costs.bfs[by], facts, 1.0 if by == NARROW else speed)
            modes.append(Mode(name, us / 1e3, _setup(name, facts)))
    return modes


def _pagerank(facts: GraphFacts, gpu: GPU) -> list[Mode]:
    """An iteration: ``base + (bytes^4 + gathers^4 + work^4)^(1/4)``; from rmat20 and a grid of 1,000 x 1,000."""
    speed = gpu.multiprocessors / H200.multiprocessors
    n, m = facts.vertices / 1e6, facts.edges / 1e6
    moved = (4 * facts.edges + 24 * facts.vertices) / bandwidth(gpu)
    sectors = facts.edges * facts.sectors / gpu.multiprocessors / 1e3

    def together(base: float, gathers: float, work: float) -> float:
        return (base + math.sqrt(math.hypot(moved**2, gathers**2, (work / speed) ** 2))) / 1e3

    hubs_ms = 1.9 * m + 2 * n
    return [
        Mode("pull", together(6, 1.4 * sectors, 8 * n + 0.8 * m), _setup("pull", facts)),
        Mode(
            "pull-hubs",
            together(9, 1.2 * sectors * (1 - facts.hub_share), 4 * n + 2.5 * m),
            _setup("pull-hubs", facts) + hubs_ms,
        ),
        Mode("edge", together(8, 0, 5 * n + 13.4 * m), _setup("edge", facts)),
        Mode("push", together(8, 0, 5 * n + 21.6 * m), _setup("push", facts)),
    ]


_FIXED = 0.2
"""Milliseconds of conversion and upload for the smallest graph."""
_TRANSPOSED = {"auto", "direction", "pull", "pull-hubs"}
"""Modes that read the edges into a vertex."""
_TURNING = 25e-6
"""Milliseconds to turn an edge round on the host, where edges go in one direction only."""
_LISTING = 1.5e-6
"""Milliseconds to write an edge's source beside it: mode `edge` of PageRank."""


def _setup(mode: str, facts: GraphFacts) -> float:
    """Milliseconds of conversion and upload."""
    upload = 4 * (facts.edges + facts.vertices) / UPLOAD
    if mode == "edge":
        return _FIXED + 2 * upload + _LISTING * facts.edges
    if mode in _TRANSPOSED and not facts.undirected:
        return _FIXED + 2 * upload + _TURNING * facts.edges
    return _FIXED + upload


def predict(problem: str, facts: GraphFacts, gpu: GPU, costs: Costs | None = None) -> list[Mode]:
    """Each mode on `gpu`, the choice first: that of DEFAULT where no other gains more than MARGIN.

    Parameters
    ----------
    problem : one of RULES.
    costs : None: those that come with spgraph.
    """
    made = _bfs(facts, gpu, costs or fitted()) if problem == "bfs" else _pagerank(facts, gpu)
    modes = sorted(made, key=lambda mode: mode.ms)
    usual = next((mode for mode in modes if mode.variant == DEFAULT[problem]), None)
    if usual is not None and usual.ms <= (1 + MARGIN) * modes[0].ms:
        modes.remove(usual)
        modes.insert(0, usual)
    return modes


def choose(problem: str, facts: GraphFacts, gpu: GPU) -> GraphChoice:
    """The mode to take for `problem`, one of RULES."""
    modes = predict(problem, facts, gpu)
    baseline = next(mode for mode in modes if mode.variant == BASELINE[problem])
    return GraphChoice(modes[0], baseline, tuple(modes))
