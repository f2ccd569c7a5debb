"""Breadth-first searches from up to 64 sources: together, and for comparison one after another.

The contract of each kernel is in its file.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.device.base import Buffer
from spgraph_bench.parameters import Parameter
from spgraph_bench.variants.base import Job, Launch, variant
from spgraph_bench.variants.bfs.by_level import DTYPES
from spgraph_bench.variants.bfs.direction import on_gpu
from spgraph_bench.variants.bfs.whole_search import AUTO, Auto
from spgraph_bench.variants.grids import Stamps, cooperative_shape, needs_cooperative, threads_for
from spgraph_bench.variants.searches import POISON, BufferPart, Levels, check_tally

__all__: list[str] = []

_MOST = 2**31 - 1
_RATIO = (0.0, 1e9)
_WATCHED = 1 << 16
"""Levels that --trace keeps at most."""
_HOW = ("push", "pull", "one block", "levels written")
_BLOCK = {
    "block": Parameter(0, "threads per block; 0: 512, on the host device 128", (0, 64, 128, 256, 512, 1024)),
    "blocks_per_multiprocessor": Parameter(0, "blocks that a multiprocessor gets; 0: as many as fit", between=(0, 64)),
}
_RULE = {
    "alpha": Parameter(
        5.0, "bottom-up where frontier edges x alpha > in-edges of vertices not found from all sources", between=_RATIO
    ),
    "turn": Parameter(0.25, "what looking at all vertices costs, in edges for each", between=_RATIO),
    "small_vertices": Parameter(
        -1, "largest frontier for one block only; -1: 256, on the host device 0", between=(-1, _MOST)
    ),
    "small_edges": Parameter(1024, "most out-edges of a frontier for one block only", between=(0, _MOST)),
}
_ROWS = {
    "strip": Parameter(
        16384,
        "in-edges of a row that a warp looks through; longer rows are cut",
        (64, 1024, 4096, 16384),
        macro="SPG_STRIP",
    ),
    "rounds": Parameter(2, "times four in-edges that a lane looks at alone", (0, 1, 2, 4), macro="SPG_ROUNDS"),
    "team_row": Parameter(
        64, "in-edges left that eight lanes look through; more: a warp", (0, 32, 64, 128), macro="SPG_TEAM_ROW"
    ),
    "flight": Parameter(2, "loads that a lane has in flight", (1, 2, 4), macro="SPG_FLIGHT"),
}


def _valid(sources: npt.NDArray[np.int32]) -> list[int]:
    """Sources of each batch; -1 fills the last one up."""
    return [int(np.count_nonzero(row >= 0)) for row in sources]


def _launch(
    job: Job, run: Callable[[], None], choose: Callable[[int], None], *, operations: int, extra_bytes: int, keep: Any
) -> Launch:
    """A Launch of `run`, which leaves the levels of the batch that `choose` took in ``level``."""
    result, device, valid = job.buffers["level"], job.device, _valid(job.inputs["sources"])
    chosen = 0

    def select(case: int) -> None:
        nonlocal chosen
        chosen = case
        choose(case)

    select(0)
    return Launch(
        run=run,
        reset=lambda: device.fill(result, POISON),
        output=lambda: device.download(result)[: valid[chosen]],
        operations=operations,
        extra_bytes=extra_bytes,
        keep=keep,
        cases=len(valid),
        select=select,
    )


def _step(level: int, code: int, ms: float | None) -> dict[str, Any]:
    """What the trace keeps of a step."""
    vertices, how = divmod(code, 4)
    return {"level": level, "how": _HOW[how], "vertices": vertices if how < 3 else None, "ms": ms}


@variant(
    "bfs-batch",
    "multi-source",
    format="adjacency",
    source="bfs/multi_source.cu",
    tunables=_BLOCK | _RULE | _ROWS,
    dtypes=DTYPES,
    missing=needs_cooperative,
    about="one launch for all: a bit for each source in a word for each vertex",
)
def multi_source(job: Job) -> Launch:
    check_tally(job)
    p, a, device, packed = job.params, job.arrays, job.device, job.packed
    n, width = packed.rows, job.inputs["sources"].shape[1]
    held: list[Buffer] = []

    def empty(size: int, dtype: npt.DTypeLike) -> Buffer:
        held.append(device.empty(size, dtype))
        return held[-1]

    def zeros(size: int, dtype: npt.DTypeLike) -> Buffer:
        device.fill(empty(size, dtype), 0)
        return held[-1]

    block = int(p["block"]) or (128 if device.kind == "host" else 512)
    kernel = job.kernel("bfs_multi_source", SPG_THREADS=block)
    grid, _ = cooperative_shape(device, kernel, {**p, "block": block}, threads_for(n, packed.nnz))
    planes = n.bit_length()
    strips = 2 * packed.nnz // int(p["strip"]) + 1
    sources = empty(width, np.int32)
    arguments = (
        np.int32(n),
        np.int32(width),
        sources,
        a["row_ptr"],
        a["col"],
        a["col_ptr"],
        a["row"],
        a.get("new_id"),
        job.buffers["level"],
        empty(2 * n, np.uint64),
        empty(n, np.uint64),
        empty(planes * n, np.uint64),
        np.int32(planes),
        empty(2 * n, np.int32),
        empty(2 * n, packed.offsets),
        empty(20, np.uint64),
        empty(strips, np.int32),
        empty(strips, packed.offsets),
        zeros(1, np.uint32),
        empty(1, np.int32),
        zeros(1, np.uint32),
        np.int32(on_gpu(job, "small_vertices", 256)),
        np.int64(p["small_edges"]),
        np.float64(p["alpha"]),
        np.float64(p["turn"]),
    )

    def bound(stamps: Stamps) -> Callable[[], None]:
        return kernel.bind(grid, block, *arguments, stamps.buffer, stamps.size, cooperative=True)

    def watched() -> list[dict[str, Any]]:
        stamps = Stamps(device, min(n + 3, _WATCHED))
        (steps,) = stamps.read(bound(stamps))
        return [_step(*step) for step in steps]

    given = job.inputs["sources"]
    if "new_id" in a:
        given = np.where(given >= 0, packed.new_id[given], -1)

    def choose(case: int) -> None:
        device.write(sources, given[case].astype(np.int32))

    launch = _launch(
        job, bound(Stamps(device, 0)), choose, operations=1, extra_bytes=sum(b.nbytes for b in held), keep=held
    )
    launch.steps = watched
    return launch


@variant(
    "bfs-batch",
    "auto-in-turn",
    format="adjacency",
    source="bfs/auto.cu",
    tunables=AUTO,
    dtypes=DTYPES,
    missing=needs_cooperative,
    about="for comparison: auto of bfs, a launch for each source, one after another",
)
def auto_in_turn(job: Job) -> Launch:
    sources, n = job.inputs["sources"], job.packed.rows
    each: list[Levels] = []
    for i in range(sources.shape[1]):
        row = BufferPart(job.buffers["level"], n * i, n)
        # -1 in the last batch: never run
        each.append(Levels(replace(job, buffers={"level": row}, inputs={"sources": np.maximum(sources[:, i], 0)})))
    shared = Auto(job, each[0])
    searches = [shared.launch(levels) for levels in each]
    valid = _valid(sources)
    active: list[Launch] = []

    def choose(case: int) -> None:
        active[:] = searches[: valid[case]]
        for search in active:
            search.select(case)

    def run() -> None:
        for search in active:
            search.run()

    launch = _launch(
        job,
        run,
        choose,
        operations=sum(search.operations for search in searches),
        extra_bytes=sum(search.extra_bytes for search in searches),
        keep=(shared, searches),
    )
    launch.preprocess_ms = searches[0].preprocess_ms  # once for all
    return launch
