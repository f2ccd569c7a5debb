"""Ways to build a quadtree. The contract of each is in its kernel file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.device.base import Buffer
from spgraph_bench.parameters import Parameter
from spgraph_bench.problems.quadtree import most_split
from spgraph_bench.variants.base import Job, Launch, Limits, Sizes, variant

__all__: list[str] = []

_POISON = 0xFF
_DTYPES = ("float32",)
_SORT_TILE, _SORT_THREADS, _DIGITS = 4096, 256, 256  # cuda/quadtree/radix.cuh
_COUNTERS = 4 * _DIGITS + 4
_SPLIT_TILE = 8 * 256  # cuda/quadtree/flattened.cu
_FINISH = 2048  # SPG_FINISH of cuda/quadtree/hybrid.cu

Run = Callable[[], None]
Ids = npt.NDArray[np.int64]


class _Tree:
    """What all variants have: the points, and room for as many nodes as this number of points can make."""

    def __init__(self, job: Job) -> None:
        self.job, self.device = job, job.device
        self.points = job.buffers["points"]
        self.count = len(job.inputs["points"])
        self.leaf, self.depth = int(job.options["leaf"]), int(job.options["depth"])
        self.n = np.int32(self.count)
        self.rules = np.int32(self.leaf), np.int32(self.depth)
        self.split = most_split(self.count, self.leaf, self.depth)
        self.order = self.device.empty(self.count, np.int32)

    def room(self) -> tuple[Buffer, Buffer]:
        """nodes int32 ``[.., 4]``, and their number."""
        return self.device.empty((1 + 4 * self.split, 4), np.int32), self.device.empty(1, np.int32)

    def pairs(self) -> tuple[Buffer, Buffer]:
        """Two buffers for codes with points, uint32 ``[n, 2]``."""
        return self.device.empty((self.count, 2), np.uint32), self.device.empty((self.count, 2), np.uint32)

    def make_pairs(self, pairs: Buffer) -> Run:
        blocks = min(-(-self.count // 256), 8 * self.device.info().multiprocessors)
        return self.job.kernel("make_pairs").bind(blocks, 256, self.n, self.points, pairs)

    def launch(
        self, run: Run, nodes: Buffer, node_count: Buffer, operations: int, work: Sequence[Buffer], **details: Any
    ) -> Launch:
        """A Launch whose nodes are in `nodes`; its other buffers are in `work`."""

        def reset() -> None:
            for buffer in (nodes, node_count, self.order):
                self.device.fill(buffer, _POISON)

        def output() -> dict[str, npt.NDArray[Any]]:
            count = int(self.device.download(node_count)[0])
            there = self.device.download(nodes)
            return {"nodes": there[: count if count > 0 else 0], "order": self.device.download(self.order)}

        held = (nodes, node_count, self.order, *work)
        return Launch(
            run=run,
            reset=reset,
            output=output,
            operations=operations,
            extra_bytes=sum(b.nbytes for b in held),
            keep=(self, held),
            **details,
        )


@variant(
    "quadtree",
    "flattened",
    format="none",
    source="quadtree/flattened.cu",
    dtypes=_DTYPES,
    about="radix sort by Morton code; all nodes read off the sorted codes together",
)
def flattened(job: Job) -> Launch:
    """Digits of 8 bits; as many passes as the depth needs."""
    tree = _Tree(job)
    device, n, count = tree.device, tree.n, tree.count
    passes = -(-2 * tree.depth // 8)
    first_bit = 32 - 8 * passes
    tiles, split_tiles = -(-count // _SORT_TILE), -(-count // _SPLIT_TILE)
    blocks = 2 * device.info().multiprocessors
    pairs = tree.pairs() if passes > 1 else ()
    codes, rank = device.empty(count, np.uint32), device.empty(count, np.int32)
    split, total = device.empty((max(tree.split, 1), 2), np.int32), device.empty(1, np.int64)
    nodes, node_count = tree.room()
    counters = device.empty(_COUNTERS, np.uint32)
    status = device.empty(passes * tiles * _DIGITS, np.uint32)
    scan = device.upload(np.zeros(1 + split_tiles, np.uint64))
    steps = [
        job.kernel("digit_histograms").bind(
            min(2 * blocks, -(-count // 4096)), 512, n, np.int32(first_bit), np.int32(passes), tree.points, counters
        )
    ]
    source: Buffer | None = None
    for k in range(passes):
        shape, digit = (tiles, _SORT_THREADS), (n, np.int32(k), np.int32(first_bit + 8 * k))
        state = (counters, status)
        if k == passes - 1:
            last = job.kernel("sort_last")
            steps.append(last.bind(*shape, *digit, tree.points, source, *state, codes, tree.order))
        else:
            kernel = job.kernel("sort_points" if source is None else "sort_pairs")
            steps.append(kernel.bind(*shape, *digit, source or tree.points, *state, pairs[k % 2]))
            source = pairs[k % 2]
    steps.append(job.kernel("find_split").bind(split_tiles, 256, n, *tree.rules, codes, rank, split, total, scan))
    writers = max(1, min(8 * blocks, -(-4 * tree.split // 256)))
    steps.append(
        job.kernel("write_nodes").bind(writers, 256, n, *tree.rules, codes, rank, split, total, nodes, node_count)
    )

    def run() -> None:
        for buffer in (counters, status):
            device.fill(buffer, 0)
        for step in steps:
            step()

    work = (*pairs, codes, rank, split, total, counters, status, scan)
    return tree.launch(run, nodes, node_count, 2 + len(steps), work)


def _chunked(begin: Ids, end: Ids, chunk: int) -> npt.NDArray[np.int32]:
    """Nodes cut into chunks, int32 ``[chunks, 4]``: which node, begin, end, 0."""
    pieces = -(-(end - begin) // chunk)
    node = np.repeat(np.arange(len(begin)), pieces)
    number = np.arange(len(node)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    first = begin[node] + chunk * number
    return np.stack((node, first, np.minimum(first + chunk, end[node]), 0 * node), axis=1).astype(np.int32)


SplitLevel = Callable[[int, Ids, Ids], tuple[Ids, npt.NDArray[np.bool_]]]
"""Of a depth, and where the points of its nodes that are split begin and end: what :func:`_quarters` gives."""


def _quarters(tree: _Tree, depth: int, begin: Ids, counted: Buffer) -> tuple[Ids, npt.NDArray[np.bool_]]:
    """Of nodes of that depth, whose points begin there and were `counted` by quadrant: where their children's
    points begin and end, ``[nodes, 5]``, and which of the children are split in turn, ``[nodes, 4]``."""
    points = tree.device.download(counted).astype(np.int64)
    edges = np.concatenate((begin[:, None], begin[:, None] + np.cumsum(points, axis=1)), axis=1)
    return edges, (points > tree.leaf) & (depth + 1 < tree.depth)


def _by_levels(tree: _Tree, start: Run, split_level: SplitLevel, work: Sequence[Buffer]) -> Launch:
    """A Launch that splits the nodes of one level after another, after `start`. Nodes are made by the host, and sent
    to the device at the end; buffers of the whole run are in `work`."""
    device, depth = tree.device, tree.depth
    built: list[Buffer] = []

    def run() -> None:
        start()
        root = np.array([[0, tree.count, -1, 0]], np.int32)
        nodes, made = [root], 1
        begin, end = root[:, 0].astype(np.int64), root[:, 1].astype(np.int64)
        if tree.count <= tree.leaf:
            device.write(tree.order, np.arange(tree.count, dtype=np.int32))
            begin = end = np.zeros(0, np.int64)
        else:
            root[0, 2] = 1
        for d in range(depth):
            if not len(begin):
                break
            edges, splits = split_level(d, begin, end)
            new = np.empty((len(begin), 4, 4), np.int32)
            new[:, :, 0], new[:, :, 1], new[:, :, 2], new[:, :, 3] = edges[:, :4], edges[:, 1:], -1, d + 1
            # The children of those that are split follow after all nodes of this level.
            made += 4 * len(begin)
            new[splits, 2] = made + 4 * np.arange(int(splits.sum()))
            nodes.append(new.reshape(-1, 4))
            begin, end = edges[:, :4][splits], edges[:, 1:][splits]
        for old in built:
            old.free()
        built[:] = [device.upload(np.concatenate(nodes))]

    def reset() -> None:
        for buffer in (tree.order, *built):
            device.fill(buffer, _POISON)

    def output() -> dict[str, npt.NDArray[Any]]:
        return {"nodes": device.download(built[0]), "order": device.download(tree.order)}

    # What a level needs and the nodes are as large as the tree is; their bound stands for them here.
    held = tree.order.nbytes + sum(b.nbytes for b in work) + 16 * (1 + 4 * tree.split)
    return Launch(
        run=run, reset=reset, output=output, operations=2 * depth + 1, gated=False, extra_bytes=held, keep=work
    )


@variant(
    "quadtree",
    "per-point",
    format="none",
    source="quadtree/per_point.cu",
    dtypes=_DTYPES,
    about="level by level, a thread per point; the host reads the counts and plans",
)
def per_point(job: Job) -> Launch:
    tree = _Tree(job)
    device, blocks = tree.device, -(-tree.count // 256)
    node = device.empty(tree.count, np.int32)
    count_points, place_points = job.kernel("count_points"), job.kernel("place_points")

    def start() -> None:
        device.fill(node, 0)

    def split_level(d: int, begin: Ids, end: Ids) -> tuple[Ids, npt.NDArray[np.bool_]]:
        counted = device.upload(np.zeros((len(begin), 4), np.int32))
        count_points(blocks, 256, tree.n, np.int32(d), tree.points, node, counted)
        edges, splits = _quarters(tree, d, begin, counted)
        child = np.where(splits, np.cumsum(splits).reshape(splits.shape) - 1, -1).astype(np.int32)
        cursor = device.upload(edges[:, :4].astype(np.int32))
        place_points(blocks, 256, tree.n, np.int32(d), tree.points, device.upload(child), node, cursor, tree.order)
        return edges, splits

    return _by_levels(tree, start, split_level, (node,))


@variant(
    "quadtree",
    "host-driven",
    format="none",
    source="quadtree/host_driven.cu",
    dtypes=_DTYPES,
    about="level by level: the host reads the counts, plans and launches again",
    tunables={"chunk": Parameter(4096, "points that a block takes", between=(32, 1 << 20))},
)
def host_driven(job: Job) -> Launch:
    tree = _Tree(job)
    device, chunk = tree.device, int(job.params["chunk"])
    pairs = tree.pairs()
    count_chunks, scatter_chunks = job.kernel("count_chunks"), job.kernel("scatter_chunks")
    quadrants = np.arange(4)

    def split_level(d: int, begin: Ids, end: Ids) -> tuple[Ids, npt.NDArray[np.bool_]]:
        plan = _chunked(begin, end, chunk)
        chunks, counted = device.upload(plan), device.upload(np.zeros((len(begin), 4), np.int32))
        count_chunks(len(plan), 256, np.int32(d), chunks, pairs[d % 2], counted)
        edges, splits = _quarters(tree, d, begin, counted)
        leaves = device.upload((~splits << quadrants).sum(axis=1).astype(np.int32))
        scatter_chunks(
            len(plan),
            256,
            np.int32(d),
            chunks,
            leaves,
            device.upload(edges[:, :4].astype(np.int32)),
            pairs[d % 2],
            pairs[(d + 1) % 2],
            tree.order,
        )
        return edges, splits

    return _by_levels(tree, tree.make_pairs(pairs[0]), split_level, pairs)


_GROW = {
    "large": Parameter(16_384, "points from which a node gets several blocks", between=(1, 2**30)),
    "chunk": Parameter(4096, "points of a large node that a block takes", between=(32, 2**20)),
}


def _growth_limits(sizes: Sizes) -> Limits:
    """See cuda/quadtree/grow.cuh: nodes that are pending together hold different points, more than a leaf
    each."""
    points, leaf, depth = len(sizes.inputs["points"]), int(sizes.options["leaf"]), int(sizes.options["depth"])
    groups = min(points // (leaf + 1), 4 ** (depth - 1) + points // int(sizes.params["large"]))
    return Limits(pending_launches=groups + 2)


def _child_launch_limits(sizes: Sizes) -> Limits:
    """Also, nodes that a block each can split are launched with their sisters: in the whole run a grid for
    each node that has a child that is split."""
    families = int(sizes.oracle["parents"].sum()) + len(sizes.inputs["points"]) // int(sizes.params["large"])
    return Limits(pending_launches=min(families + 2, _growth_limits(sizes).pending_launches))


def _hybrid_limits(sizes: Sizes) -> Limits:
    """Also, only nodes of more points than one block finishes launch anything: once they are split, two
    groups of their smaller children at most."""
    points, depth = len(sizes.inputs["points"]), int(sizes.options["depth"])
    few = 2 * most_split(points, min(_FINISH, int(sizes.params["large"])), depth) + 2
    return Limits(pending_launches=min(few, _growth_limits(sizes).pending_launches))


def _grown(job: Job) -> Launch:
    """A tree that grows by launching children (cuda/quadtree/grow.cuh)."""
    tree = _Tree(job)
    device, large = tree.device, int(job.params["large"])
    even, odd = tree.pairs()
    nodes, node_count = tree.room()
    slots = tree.depth * (tree.count // (large + 1)) + 1
    tally, slot_count = device.empty((slots, 8), np.int32), device.empty(1, np.int32)
    make_pairs = tree.make_pairs(even)
    grow = job.kernel("grow").bind(
        1,
        128,
        tree.n,
        *tree.rules,
        np.int32(large),
        np.int32(job.params["chunk"]),
        even,
        odd,
        nodes,
        tree.order,
        node_count,
        tally,
        slot_count,
        job.children(),
    )

    def run() -> None:
        device.fill(tally, 0)
        make_pairs()
        grow()

    return tree.launch(run, nodes, node_count, 3, (even, odd, tally, slot_count))


@variant(
    "quadtree",
    "child-launch",
    format="none",
    source="quadtree/child_launch.cu",
    dtypes=_DTYPES,
    tunables=_GROW,
    limits=_child_launch_limits,
    about="recursion: every node that is split launches its children, a block each",
)
def child_launch(job: Job) -> Launch:
    return _grown(job)


@variant(
    "quadtree",
    "hybrid",
    format="none",
    source="quadtree/hybrid.cu",
    dtypes=_DTYPES,
    tunables=_GROW,
    limits=_hybrid_limits,
    about=f"children above {_FINISH:,} points; below, a block finishes by sorting",
)
def hybrid(job: Job) -> Launch:
    return _grown(job)
