"""Claims about traversals and PageRank: edges, queues, directions."""

from __future__ import annotations

from spgraph_bench.claims.base import Evidence, Figure, NotMeasuredError, Run, Verdict, claim, factor, over

__all__: list[str] = []

_GRAPH, _SMALL = "rmat:scale=20,symmetrize=1,values=none", "rmat:scale=9,symmetrize=1,values=none"
_ONE_SOURCE = {"sources": 1}


def _bfs(*variants: str) -> Run:
    return Run("bfs", variants, _GRAPH, _SMALL, _ONE_SOURCE, _ONE_SOURCE)


@claim(
    "edge-centric",
    text="A thread per edge is slower than a thread per vertex on power-law graphs.",
    taught="chapters on graph search",
    runs=[_bfs("edge", "push", "frontier", "balanced")],
)
def edge_centric(e: Evidence) -> Verdict:
    """Against a thread per vertex that looks at all vertices in each level (push), and against the best queue."""
    edge, push = e.time(0, "edge"), e.time(0, "push")
    name, queue = e.fastest(0, "frontier", "balanced")
    same, best = over("edge over push", edge, push), over(f"edge over {name}", edge, queue)
    figures = (same, best)
    if same.least > 1 and best.least > 1:
        return Verdict("holds", "every level looks at every edge", figures)
    if same.most < 1 and best.most < 1:
        why = (
            "a thread per vertex is as slow as its longest row; a thread per edge is not, though it looks at every edge"
        )
        return Verdict("does not", f"{why} in every level", figures)
    what = name if best.least > 1 else "push"
    return Verdict("holds if", f"compared with {what}; it is {factor(1 / same.value)} times as fast as push", figures)


@claim(
    "privatisation",
    text="A private queue in each block cuts contention: an atomic on the global counter for a block, not a vertex.",
    taught="chapters on parallel patterns and graph search",
    runs=[_bfs("frontier", "frontier-private", "frontier-warp")],
    counted=True,
)
def privatisation(e: Evidence) -> Verdict:
    """Reservations in the global queue, where they are counted; times, where there are any."""
    try:
        plain, private = (e.count(0, name, "reservations") for name in ("frontier", "frontier-private"))
    except NotMeasuredError:
        faster = over("frontier over frontier-private, time", *(e.time(0, n) for n in ("frontier", "frontier-private")))
        if faster.least > 1:
            return Verdict("holds", f"the search is {factor(faster.value)} times as fast", (faster,))
        why = "it saves atomics, but no time: they are not what the search waits for"
        return Verdict("holds if", f"atomics are counted (the host device does): {why}", (faster,))
    fewer = over("reservations, frontier over frontier-private", plain, private)
    if fewer.value >= 8:
        return Verdict("holds", f"{factor(fewer.value, 3)} times fewer reservations", (plain, private, fewer))
    if fewer.value > 1.5:
        why = f"frontiers are large against a block; here there are {factor(fewer.value)} times fewer reservations"
        return Verdict("holds if", why, (plain, private, fewer))
    return Verdict("does not", "there are about as many reservations", (plain, private, fewer))


@claim(
    "direction",
    text="Switching direction makes a search of a power-law graph 5 to 10 times as fast.",
    taught="Beamer, Asanovic, Patterson, SC 2012, and most courses since",
    runs=[_bfs("auto", "direction", "persistent", "edge-balanced", "frontier", "push")],
    counted=True,
)
def direction(e: Evidence) -> Verdict:
    """Edges looked at, where kernels are emulated; times against the best search that never switches."""
    if e.emulated:
        one, both = e.record(0, "frontier").inspected, e.record(0, "direction").inspected
        if not one or not both:
            raise NotMeasuredError("edges looked at were not counted")
        fewer = over("edges looked at, frontier over direction", Figure("", one), Figure("", both))
        counted = (Figure("edges looked at by frontier", one), Figure("edges looked at by direction", both), fewer)
        if fewer.value >= 5:
            return Verdict("holds", f"in edges looked at: {factor(fewer.value)} times fewer; times need a GPU", counted)
        if fewer.value > 1.2:
            why = f"the graph is large: here {factor(fewer.value)} times fewer edges are looked at; times need a GPU"
            return Verdict("holds if", why, counted)
        return Verdict("does not", "about as many edges are looked at; times need a GPU", counted)
    name, single = e.fastest(0, "persistent", "edge-balanced", "frontier", "push")
    best_name, switched = e.fastest(0, "auto", "direction")
    best = over(f"{name} over {best_name}", single, switched)
    by_host = over("frontier over direction", e.time(0, "frontier"), e.time(0, "direction"))
    figures = (best, by_host)
    if best.least >= 5:
        return Verdict("holds", "against the fastest search that goes top-down in every level", figures)
    if by_host.least >= 5:
        why = (
            f"compared with a plain queue; against {name}, the fastest that never switches, it is {factor(best.value)}"
        )
        return Verdict("holds if", f"{why} times as fast", figures)
    return Verdict("does not", f"against {name} it is {factor(best.value)} times as fast", figures)


@claim(
    "pagerank-pull",
    text="Pull beats push for PageRank, since it needs no atomics.",
    taught="chapters on graph algorithms",
    runs=[Run("pagerank", ("pull", "pull-hubs", "pull-naive", "push"), _GRAPH, _SMALL)],
    counted=True,
)
def pagerank_pull(e: Evidence) -> Verdict:
    """Atomics, where they are counted; else times, of a thread per vertex and of pull cut into equal parts."""
    try:
        pull, push = (e.count(0, name, "global_atomics") for name in ("pull", "push"))
    except NotMeasuredError:
        best_name, best = e.fastest(0, "pull", "pull-hubs")
        push, naive = e.time(0, "push"), e.time(0, "pull-naive")
        gain, plain = over(f"push over {best_name}", push, best), over("push over pull-naive", push, naive)
        if gain.least > 1 and plain.least > 1:
            return Verdict(
                "holds", "even a thread per vertex pulls faster than a warp per vertex pushes", (gain, plain)
            )
        if gain.least > 1:
            why = (
                f"vertices are cut into equal parts ({factor(gain.value)} times as fast as push); a thread per vertex "
                f"is as slow as its longest row, atomics or not"
            )
            return Verdict("holds if", why, (gain, plain))
        return Verdict("does not", "push is as fast", (gain, plain))
    if push.value >= 10 * max(1.0, pull.value):
        why = f"in atomics: push adds one for each edge and iteration, pull has {pull.value:,.0f}; times need a GPU"
        return Verdict("holds", why, (pull, push))
    return Verdict("does not", "pull has about as many atomics", (pull, push))
