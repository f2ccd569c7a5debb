"""Every BFS mode against the battery of graphs: on the host always, on a GPU where there is one.

The Makefile runs this file a second time under AddressSanitizer.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np
import pytest
from battery import csr, matrix
from graph_battery import graphs

from spgraph_bench.device import open_device
from spgraph_bench.device.base import Device
from spgraph_bench.errors import SkipError, UsageError
from spgraph_bench.formats import get_format
from spgraph_bench.matrix import CSR
from spgraph_bench.problems import get_problem
from spgraph_bench.problems.bfs import check_levels, check_tree
from spgraph_bench.problems.sources import level_work, pattern_is_symmetric, plain_levels
from spgraph_bench.recipes import make
from spgraph_bench.runner.prepare import Prepared, prepare
from spgraph_bench.variants import Variant, get_variant, variants

BFS = get_problem("bfs")
MODES = [v for v in variants("bfs") if v.kernel]
INT32 = np.dtype(np.int32)
COOPERATIVE = ("persistent", "one-block", "auto")


def _prepare(
    device: Device, mode: Variant, a: CSR, sources: tuple[int, ...], offsets: str = "int32", **params: Any
) -> Prepared:
    if mode.missing and (reason := mode.missing(device)):
        pytest.skip(reason)
    whole = matrix(a)
    a = dataclasses.replace(a, symmetric=pattern_is_symmetric(whole))
    form = get_format(mode.format)
    own = {k: v for k, v in params.items() if k in form.tunables}
    packed = form.pack(a, INT32, np.dtype(offsets), **own)
    outputs = BFS.output_arrays(whole, INT32)
    try:
        return prepare(device, mode, packed, {"sources": np.array(sources, np.int32)}, outputs, params)
    except SkipError as reason:
        pytest.skip(str(reason))


def _run(device: Device, prepared: Prepared, case: int, poisoned: bool = True) -> np.ndarray:
    prepared.launch.select(case)
    if poisoned:
        prepared.launch.reset()
    prepared.launch.run()
    device.synchronize()
    return prepared.launch.output()


@functools.cache
def _right(name: str, source: int) -> np.ndarray:
    return plain_levels(graphs()[name][0], source)


def _check(device: Device, mode: Variant, name: str, offsets: str = "int32", **params: Any) -> None:
    a, sources = graphs()[name]
    prepared = _prepare(device, mode, a, sources, offsets, **params)
    # The first once more at the end, on the outputs of another one, not poison: nothing may be left over.
    for turn, case in enumerate((*range(len(sources)), 0)):
        output = _run(device, prepared, case, turn < len(sources))
        levels = output[0] if output.ndim == 2 else output
        result = check_levels(levels, _right(name, sources[case]))
        assert result.ok, f"source {sources[case]}: {result.message}"
        if output.ndim == 2:
            result = check_tree(a, sources[case], output[0], output[1])
            assert result.ok, f"source {sources[case]}: {result.message}"


@pytest.mark.parametrize("name", graphs())
@pytest.mark.parametrize("mode", MODES, ids=lambda v: v.name)
def test_battery(device: Device, mode: Variant, name: str) -> None:
    # Left alone, no mode turns to bottom-up on graphs as small as these on a GPU.
    _check(device, mode, name, alpha=1e9, beta=12.0)


@pytest.mark.parametrize("name", ["hub-of-5000", "skewed-directed", "in-edges-matter", "isolated-source"])
@pytest.mark.parametrize("mode", MODES, ids=lambda v: v.name)
def test_int64_offsets_parents_and_relabelling(device: Device, mode: Variant, name: str) -> None:
    _check(device, mode, name, "int64", parents=1, reorder="degree")


@pytest.mark.parametrize("name", ["two-hubs-sharing-leaves", "random-directed", "one-vertex"])
@pytest.mark.parametrize("mode", MODES, ids=lambda v: v.name)
def test_parents(device: Device, mode: Variant, name: str) -> None:
    _check(device, mode, name, parents=1)


@pytest.mark.parametrize("name", ["skewed", "grid-graph", "star-of-chains", "directed-bush"])
@pytest.mark.parametrize(
    "params",
    [
        {"small_vertices": 0},  # always the grid
        {"small_vertices": 0, "alpha": 1e9, "beta": 1e9},  # always bottom-up
        {"small_vertices": 0, "alpha": 0.0},  # never bottom-up
        {"small_vertices": 3, "small_edges": 9, "alpha": 1e9, "beta": 12.0},  # to and fro
        {"small_vertices": 1024, "small_edges": 10**9},  # the block alone
        {"alpha": 1e9, "beta": 3.0, "probes": 0, "small_vertices": 8},  # all scans by warps
        {"block": 32},
        {"block": 256, "probes": 1},
        {"shared_bitmap": 0},
        {"small_vertices": 30, "block": 64},
        {"busiest": 0},
        {"busiest": 0, "small_vertices": 3, "small_edges": 9, "alpha": 1e9, "beta": 12.0},
        {"busiest": 1, "small_vertices": 3, "small_edges": 9, "alpha": 1e9, "beta": 12.0},
        {"busiest": 1, "small_vertices": 0, "alpha": 1e9, "beta": 1e9, "block": 32},  # many words for each warp
        {"busiest": 1, "alpha": 1e9, "beta": 3.0, "probes": 0},
    ],
    ids=lambda p: ",".join(f"{k}={v:g}" for k, v in p.items()),
)
@pytest.mark.parametrize("mode", ["auto", "one-block"])
def test_every_way_through_the_adaptive_modes(device: Device, mode: str, params: dict[str, Any], name: str) -> None:
    _check(device, get_variant("bfs", mode), name, alone_from=0, **params)


@pytest.mark.parametrize(
    ("mode", "params"),
    [
        ("auto", {"busiest": 1}),
        ("auto", {"busiest": 1, "probes": 0}),
        ("auto", {"busiest": 0, "shared_bitmap": 0}),
        ("direction", {}),
        ("pull", {}),
    ],
    ids=str,
)
def test_the_only_visited_in_neighbour_is_found_anywhere_in_a_list(
    device: Device, mode: str, params: dict[str, Any]
) -> None:
    """Vertex 200 + i has 100 in-edges, of which number i is the source's. The others' vertices are busier."""
    place, source = np.arange(100), 100
    others = [source + k - i for i in place.tolist() for k in place.tolist() if k != i]
    ring = np.arange(200)
    ring = ring[ring != source]
    rows = np.concatenate((np.full(100, source), others, ring, ring))
    cols = np.concatenate((200 + place, 200 + np.repeat(place, 99), np.roll(ring, 1), np.roll(ring, 2)))
    a = csr(300, 300, rows, cols, None)
    prepared = _prepare(
        device,
        get_variant("bfs", mode),
        a,
        (source,),
        alpha=1e9,
        beta=1e9,
        turn=0,
        small_vertices=0,
        alone_from=0,
        **params,
    )
    expected = np.full(300, -1)
    expected[source], expected[200:] = 0, 1
    assert np.array_equal(_run(device, prepared, 0), expected)


@pytest.mark.parametrize("offsets", ["int32", "int64"])
@pytest.mark.parametrize("name", graphs())
def test_busiest_neighbours_are_what_a_loop_finds(device: Device, name: str, offsets: str) -> None:
    a, sources = graphs()[name]
    prepared = _prepare(device, get_variant("bfs", "auto"), a, sources, offsets, busiest=0)
    job, n, words = prepared.job, a.rows, -(-a.rows // 32)
    busiest, bare = device.empty(n, np.int32), device.upload(np.zeros(words + 1, np.uint32))
    arrays = [job.arrays[x] for x in ("row_ptr", "col_ptr", "row")]
    job.kernel("bfs_find_busiest")(3, 64, np.int32(n), *arrays, busiest, bare)
    in_edges = np.diff(job.packed.col_ptr)
    isolated = (in_edges == 0) & (a.row_lengths() == 0)
    expected = np.empty(n, np.int32)
    for v in range(n):
        # The first 1,024 are looked at.
        of = job.packed.row[job.packed.col_ptr[v] : job.packed.col_ptr[v + 1]][:1024]
        best = of[np.argmax(in_edges[of])] if len(of) else v
        expected[v] = best if in_edges[v] > 1 else ~best
    assert np.array_equal(device.download(busiest), expected)
    *bits, count = device.download(bare)
    assert count == isolated.sum()
    rest = np.concatenate((isolated, np.ones(32 * words - n, bool)))
    assert np.array_equal(np.unpackbits(np.array(bits, np.uint32).view(np.uint8), bitorder="little"), rest)


@pytest.mark.parametrize(
    ("recipe", "likely"),
    [
        ("rmat:scale=9,symmetrize=1", True),
        ("uniform:n=500,degree=20", True),
        ("grid:n=20", False),
        ("chain:n=500", False),
    ],
)
def test_busiest_neighbours_are_found_where_bottom_up_may_pay(device: Device, recipe: str, likely: bool) -> None:
    a = make(recipe).csr
    auto = get_variant("bfs", "auto")
    plain = _prepare(device, auto, a, (0,), busiest=0, turn=0, shared_bitmap=0, alone_from=0)
    default = _prepare(device, auto, a, (0,), turn=0, shared_bitmap=0, alone_from=0)
    words = -(-a.rows // 32)
    assert default.launch.extra_bytes - plain.launch.extra_bytes == (4 * (a.rows + words + 1) if likely else 0)
    # Nor where turning costs more looks than there are edges.
    few = _prepare(device, auto, a, (0,), turn=a.nnz, shared_bitmap=0, alone_from=0)
    assert few.launch.extra_bytes == plain.launch.extra_bytes
    assert [p.job.params["busiest"] for p in (plain, default, few)] == [0, int(likely), 0]


def test_small_graphs_of_uneven_degrees_are_left_to_persistent(device: Device) -> None:
    auto, params = get_variant("bfs", "auto"), {"turn": 1 << 20, "alone_from": 1 << 20}
    for name in ("skewed", "random-directed", "hub-of-5000", "isolated-source"):
        _check(device, auto, name, "int64", **params)
        _check(device, auto, name, parents=1, **params)
    a, sources = graphs()["skewed"]

    def sources_of(**own: int) -> set[str]:
        return {m.source for m in _prepare(device, auto, a, sources, **params, **own).job.modules}

    assert "bfs/persistent.cu" in sources_of()
    assert sources_of(busiest=1) == {"bfs/auto.cu"}


@pytest.mark.parametrize("name", ["skewed", "random-directed", "grid-graph"])
@pytest.mark.parametrize(
    "params",
    [
        {"alpha": 1e9, "beta": 1e9},
        {"alpha": 0.0},
        {"rule": "plain"},
        {"alpha": 1e9, "beta": 12.0},
        {"rule": "textbook"},
        {"rule": "textbook", "alpha": 15.0, "beta": 18.0},
    ],
)
def test_direction_by_every_rule(device: Device, params: dict[str, Any], name: str) -> None:
    _check(device, get_variant("bfs", "direction"), name, **params)


@pytest.mark.parametrize("name", ["skewed", "random-directed", "grid-graph", "star-of-chains"])
@pytest.mark.parametrize(("alpha", "beta"), [(0.0, 18.0), (2.0, 200.0), (15.0, 18.0), (1e9, 3.0)])
def test_the_textbook_rule_is_meant_literally(device: Device, alpha: float, beta: float, name: str) -> None:
    """Bottom-up when frontier edges > unexplored edges / alpha, back when the frontier < n / beta."""
    a, sources = graphs()[name]
    params = {"rule": "textbook", "alpha": alpha, "beta": beta}
    prepared = _prepare(device, get_variant("bfs", "direction"), a, sources[:1], **params)
    work = level_work(prepared.job.packed, plain_levels(a, sources[0]))
    expected, pulled, unexplored = [], False, a.nnz
    for vertices, edges in zip(work.vertices.tolist(), work.edges.tolist(), strict=True):
        unexplored -= edges
        pulled = vertices >= a.rows / beta if pulled else bool(alpha) and edges > unexplored / alpha
        expected.append("pull" if pulled else "push")
    prepared.launch.reset()
    assert prepared.launch.trace is not None
    assert [level.how for level in prepared.launch.trace()][: len(expected)] == expected


@pytest.mark.parametrize("name", ["hub-of-5000", "skewed", "complete"])
@pytest.mark.parametrize("params", [(1, 2, 3), (2, 8, 32), (4, 4, 4), (1, 1, 1), (9999, 9999, 9999)])
def test_balanced_by_every_class(device: Device, params: tuple[int, ...], name: str) -> None:
    warp, block, grid = params
    mode = get_variant("bfs", "balanced")
    _check(device, mode, name, warp_from=warp, block_from=block, grid_from=grid)


@pytest.mark.parametrize("seed", [2, 3])
@pytest.mark.parametrize("mode", [m for m in MODES if m.name != "edge"], ids=lambda v: v.name)
def test_any_schedule_gives_the_same_levels(mode: Variant, seed: int) -> None:
    device = open_device("host", seed=seed)
    try:
        for name in ("skewed", "star-of-chains", "two-hubs-sharing-leaves"):
            _check(device, mode, name, parents=1, alone_from=0)
    finally:
        device.close()


@pytest.mark.parametrize("seed", [2, 3])
@pytest.mark.parametrize(
    ("mode", "params"),
    [
        ("one-block", {}),
        ("one-block", {"shared_bitmap": 0}),
        ("one-block", {"small_vertices": 60}),
        ("one-block", {"block": 64}),
        ("auto", {}),
    ],
    ids=str,
)
def test_a_warp_may_fall_behind_by_many_levels(mode: str, params: dict[str, Any], seed: int) -> None:
    """The first warp goes alone through levels of up to 32 vertices; what others are to read must stay."""
    device = open_device("host", seed=seed)
    try:
        for name in ("layers-of-about-a-warp", "wide-layers", "ternary-tree"):
            _check(device, get_variant("bfs", mode), name, alone_from=0, **params)
    finally:
        device.close()


def _counters(device: Device, mode: str, name: str, **params: Any) -> dict[str, int]:
    a, sources = graphs()[name]
    prepared = _prepare(device, get_variant("bfs", mode), a, sources, **params)
    prepared.launch.select(0)
    prepared.launch.reset()
    device.reset_counters()
    prepared.launch.run()
    device.synchronize()
    counted = device.counters()
    assert counted is not None
    return counted


def test_private_queues_save_atomics_exactly() -> None:
    """In the natural order a vertex is claimed by one atomicCAS. frontier reserves a place for each vertex
    found, frontier-private one stretch for each block that found any, and one each time its queue was full."""
    device = open_device("host")
    try:
        result = 5000  # all leaves, by the one block that has the hub
        plain = _counters(device, "frontier", "hub-of-5000")
        private = _counters(device, "frontier-private", "hub-of-5000")
        assert plain["global_atomics"] == 2 * result
        assert private["global_atomics"] == result + 3  # 2,048 places: full twice
        assert private["shared_atomics"] == result  # one thread finds them all, a step each
        assert (plain["claims"], plain["reservations"]) == (result, result)
        assert (private["claims"], private["reservations"]) == (result, 3)
        # Where everything fits: fewer by the mean number of vertices that a block finds, here 40.
        plain = _counters(device, "frontier", "star-of-chains", block=64)
        private = _counters(device, "frontier-private", "star-of-chains", block=64)
        levels = 12  # each finds 40 vertices, all by one block
        assert plain["global_atomics"] == 2 * 480
        assert private["global_atomics"] == 480 + levels
        assert private["reservations"] == levels
        assert private["shared_atomics"] < 480 / 4  # an atomic for all finders of a warp
    finally:
        device.close()


def test_larger_blocks_reserve_less_and_no_vertex_is_lost_where_queues_are_full() -> None:
    device = open_device("host")
    try:
        a = make("uniform:n=20000,degree=8").csr
        right = plain_levels(a, 0)

        def reserved(block: int, queue: int) -> tuple[int, int]:
            mode = get_variant("bfs", "frontier-private")
            prepared = _prepare(device, mode, a, (0,), block=block, queue=queue)
            prepared.launch.select(0)
            prepared.launch.reset()
            device.reset_counters()
            prepared.launch.run()
            device.synchronize()
            assert np.array_equal(prepared.launch.output(), right)
            counted, facts = device.counters(), prepared.launch.facts()
            assert counted is not None
            assert counted["claims"] == counted["global_atomics"] - counted["reservations"]
            assert facts["places"] == queue or 8 * block
            return counted["reservations"], facts["spills"]

        # Of about 20,000 vertices that are found; frontier reserves that many places one by one.
        counts = [reserved(block, 0) for block in (64, 256, 1024)]
        # The order of blocks, which the seed and the device decide, moves the counts a little.
        assert [spills for _, spills in counts] == [0, 0, 0]
        assert [places for places, _ in counts] == pytest.approx([204, 62, 20], abs=3)
        # With room for one step only a queue is full before each step that might not fit.
        few, full = reserved(256, 256)
        assert full > 100
        assert full < few <= 63 + full  # a queue that was emptied may have nothing left at the end
        with pytest.raises(UsageError, match="queue=64 holds fewer vertices"):
            reserved(256, 64)
    finally:
        device.close()


def test_a_grid_barrier_is_one_atomic_per_block() -> None:
    device = open_device("host")
    try:
        counted = _counters(device, "persistent", "chain", block=64)
        blocks, levels = 4, 300
        # 300 vertices are 5 blocks of 64, of which 4 run. A barrier after the begin and one per level. A
        # level of one vertex: one atomicOr (the other neighbour is seen to be visited) and one reservation.
        assert counted["global_atomics"] == blocks * (levels + 1) + 2 * (levels - 1)
        assert counted["kernel_launches"] == 1
    finally:
        device.close()


# ---- traces ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES, ids=lambda v: v.name)
def test_traces_tell_every_level(device: Device, mode: Variant) -> None:
    a, sources = graphs()["grid-graph"]
    prepared = _prepare(device, mode, a, sources)
    if prepared.launch.trace is None:
        pytest.skip("does not report its levels")
    prepared.launch.reset()
    done = prepared.launch.trace()
    depth = int(plain_levels(a, sources[0]).max()) + 1
    assert len(done) == depth
    assert all((t.ms is None) == (device.kind == "host") for t in done)
    allowed = {
        "pull": {"pull"},
        "edge": {"edge"},
        "direction": {"push", "pull"},
        "one-block": {"push", "one block"},
        "auto": {"push", "pull", "one block"},
    }
    assert {t.how for t in done} <= allowed.get(mode.name, {"push"})


@pytest.mark.parametrize("reorder", ["none", "degree"])
@pytest.mark.parametrize("name", ["skewed-directed", "grid-graph", "isolated-source"])
def test_work_per_level_is_what_a_loop_counts(name: str, reorder: str) -> None:
    a, sources = graphs()[name]
    packed = get_format("adjacency").pack(a, reorder=reorder)
    levels = plain_levels(a, sources[0])
    work = level_work(packed, levels)
    level = levels[packed.old_id] if reorder == "degree" else levels
    for k in range(int(levels.max()) + 1):
        looks = 0
        for v in np.flatnonzero((level < 0) | (level > k)):
            for u in packed.row[packed.col_ptr[v] : packed.col_ptr[v + 1]]:
                looks += 1
                if level[u] == k:
                    break
        assert work.pull[k] == looks
        assert work.vertices[k] == np.sum(levels == k)
        assert work.edges[k] == a.row_lengths()[levels == k].sum()
