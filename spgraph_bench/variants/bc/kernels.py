"""spgraph's own betweenness centralities. The contract of each is in its kernel file."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.device.base import Buffer
from spgraph_bench.errors import LaunchError
from spgraph_bench.parameters import Parameter
from spgraph_bench.variants.base import Job, Launch, variant
from spgraph_bench.variants.grids import BLOCK, GRID, Stamps, cooperative_shape, needs_cooperative, threads_for
from spgraph_bench.variants.searches import EDGE_BITS, HOW, check_tally

__all__ = ["AUTO", "DTYPES", "Paths", "auto_grid"]

DTYPES = ("float64",)
"""Value types of betweenness."""
_MOST, _RATIO = 2**31 - 1, (0.0, 1e9)  # bounds of tunables
_HOW = (*HOW, "scatter", "gather")
_EDGE_BITS = np.uint64(EDGE_BITS)  # of a tally, see graph/frontier.cuh


class Paths:
    """What graph/paths.cuh works on, and the source; the same for every mode."""

    def __init__(self, job: Job, queued: bool) -> None:
        self.job, self.device = job, job.device
        n = job.packed.rows
        self.n = np.int32(n)
        self.extra_bytes = 0
        self.source = self.empty(1, np.int32)
        self.level = self.empty(n, np.int32)
        self.paths = self.empty(2 * n, np.float64)
        self.scale = self.empty(n + 3, np.int32)
        self.queue = self.empty(n, np.int32) if queued else None
        self.old_id = job.arrays.get("old_id")
        self.result = job.buffers["dependency"]
        sources = job.inputs["sources"]
        self._sources = job.packed.new_id[sources] if "new_id" in job.arrays else sources

    def of(self, job: Job) -> Paths:
        """The same arrays for the sources and the result of `job`, on the same graph."""
        other = copy.copy(self)
        other.job, other.extra_bytes, other.result = job, 0, job.buffers["dependency"]
        other.source = other.empty(1, np.int32)
        sources = job.inputs["sources"]
        other._sources = job.packed.new_id[sources] if "new_id" in job.arrays else sources
        return other

    def empty(self, shape: int, dtype: npt.DTypeLike) -> Buffer:
        """Device memory that counts as the mode's own."""
        buffer = self.device.empty(shape, dtype)
        self.extra_bytes += buffer.nbytes
        return buffer

    def launch(self, run: Callable[[], None], steps: Callable[[], list[dict[str, Any]]], gated: bool = True) -> Launch:
        """A Launch from the chosen source; `steps` runs it once and tells of each level."""

        def select(case: int) -> None:
            self.device.write(self.source, self._sources[case : case + 1].astype(np.int32))

        select(0)
        return self.job.launch(
            run,
            output="dependency",
            gated=gated,
            extra_bytes=self.extra_bytes,
            keep=self,
            cases=len(self._sources),
            select=select,
            steps=steps,
        )


def _by_level(
    job: Job,
    queued: bool,
    forward: Callable[[Paths, int, int, int, Buffer], None],
    backward: Callable[[Paths, int, int, int], None],
) -> Launch:
    """A mode that the host drives level by level: ``forward(paths, k, first, size, sizes)`` for every level,
    then ``backward(paths, k, first, size)`` for those between the last and the source."""
    p = Paths(job, queued)
    sizes = p.empty(3, np.int32)
    block = job.params["block"]
    grid = max(1, min(-(-int(p.n) // block), 16 * job.device.info().multiprocessors))
    begin = job.kernel("bc_begin", "bc/results.cu").bind(
        grid, block, p.n, p.source, p.level, p.paths, p.scale, p.queue, sizes
    )
    end = job.kernel("bc_end", "bc/results.cu").bind(grid, block, p.n, p.source, p.paths, p.old_id, p.result)

    def walk() -> Iterator[dict[str, Any]]:
        begin()
        yield {}
        first, size = [0], 1
        while size:
            k = len(first) - 1
            forward(p, k, first[k], size, sizes)
            first.append(first[k] + size)
            yield {"level": k, "how": "push", "vertices": size if queued else None}
            size = int(job.device.download(sizes)[(k + 1) % 3])
            if k > int(p.n):
                raise LaunchError(f"{job.variant.name} does not end: more levels than vertices")
        for k in range(len(first) - 3, 0, -1):
            backward(p, k, first[k], first[k + 1] - first[k])
            yield {"level": k, "how": "gather", "vertices": first[k + 1] - first[k] if queued else None}
        end()

    def run() -> None:
        for _ in walk():
            pass

    def watched() -> list[dict[str, Any]]:
        done, before = [], 0.0
        for step in walk():
            job.device.synchronize()
            now = time.perf_counter()
            if step:
                done.append({**step, "ms": None if job.device.kind == "host" else (now - before) * 1e3})
            before = time.perf_counter()
        return done

    return p.launch(run, watched, gated=False)


@variant(
    "bc",
    "push",
    format="pattern-csr",
    source="bc/push.cu",
    tunables=BLOCK,
    dtypes=DTYPES,
    about="a thread per vertex of each level, forward and back",
)
def push(job: Job) -> Launch:
    a, block = job.arrays, job.params["block"]
    out, back = job.kernel("bc_push_forward"), job.kernel("bc_push_backward")

    def forward(p: Paths, k: int, first: int, size: int, sizes: Buffer) -> None:
        out(
            -(-size // block),
            block,
            np.int32(k),
            np.int64(first),
            np.int32(size),
            a["row_ptr"],
            a["col"],
            p.level,
            p.paths,
            p.scale,
            p.queue,
            sizes,
        )

    def backward(p: Paths, k: int, first: int, size: int) -> None:
        back(
            -(-size // block),
            block,
            np.int32(k),
            np.int64(first),
            np.int32(size),
            a["row_ptr"],
            a["col"],
            p.level,
            p.paths,
            p.scale,
            p.queue,
        )

    return _by_level(job, True, forward, backward)


@variant(
    "bc",
    "edge",
    format="pattern-coo",
    source="bc/edge.cu",
    tunables=BLOCK,
    dtypes=DTYPES,
    about="a thread per edge in every level, forward and back",
)
def edge(job: Job) -> Launch:
    a, block, nnz = job.arrays, job.params["block"], job.packed.nnz
    out, back = job.kernel("bc_edge_forward"), job.kernel("bc_edge_backward")
    # One block at least: it does what a level has to do once.
    grid, edges = max(1, -(-nnz // block)), job.packed.offsets.type(nnz)

    def forward(p: Paths, k: int, first: int, size: int, sizes: Buffer) -> None:
        out(grid, block, edges, np.int32(k), a["row"], a["col"], p.level, p.paths, p.scale, sizes)

    def backward(p: Paths, k: int, first: int, size: int) -> None:
        back(grid, block, edges, np.int32(k), a["row"], a["col"], p.level, p.paths, p.scale)

    return _by_level(job, False, forward, backward)


class _Grid:
    """A cooperative kernel and what its searches share, which run one after another: with the arrays `graph` and
    after the common arguments `words` int64 of its own, the barrier, and `more`."""

    def __init__(self, job: Job, name: str, graph: tuple[Buffer, ...], *more: np.generic, words: int = 0) -> None:
        check_tally(job)
        self.paths = p = Paths(job, True)
        self._start = p.empty(job.packed.rows, job.packed.offsets)
        self._tally, barrier = p.empty(job.packed.rows + 3, np.uint64), p.empty(1, np.uint32)
        own = (p.empty(words, np.int64),) if words else ()
        job.device.fill(barrier, 0)
        self._kernel, self._graph, self._more = job.kernel(name), graph, (*own, barrier, *more)
        threads = threads_for(job.packed.rows, job.packed.nnz)
        self._shape = cooperative_shape(job.device, self._kernel, job.params, threads)

    def launch(self, p: Paths) -> Launch:
        """A Launch from the source of `p` to its result."""
        grid, block = self._shape

        def bound(stamps: Stamps) -> Callable[[], None]:
            return self._kernel.bind(
                grid,
                block,
                p.n,
                p.source,
                *self._graph,
                p.old_id,
                p.level,
                p.paths,
                p.scale,
                p.queue,
                self._start,
                self._tally,
                p.result,
                *self._more,
                stamps.buffer,
                stamps.size,
                cooperative=True,
            )

        def watched() -> list[dict[str, Any]]:
            stamps = Stamps(p.device, int(p.n) + 2, sides=2)
            out, back = stamps.read(bound(stamps))
            words = p.device.download(self._tally)
            counts, edges = words >> _EDGE_BITS, words & ((np.uint64(1) << _EDGE_BITS) - np.uint64(1))

            def step_of(k: int, code: int, ms: float | None) -> dict[str, Any]:
                size = {"vertices": int(counts[k]), "edges": int(edges[k])}
                return {"level": k, "how": _HOW[code], **size, "ms": ms}

            return [step_of(*step) for step in (*out, *back)]

        launch = p.launch(bound(Stamps(p.device, 0)), watched)
        launch.keep = (p, self)
        return launch


@variant(
    "bc",
    "persistent",
    format="pattern-csr",
    source="bc/persistent.cu",
    tunables=GRID,
    dtypes=DTYPES,
    missing=needs_cooperative,
    about="one launch, edges of each level in equal parts",
)
def persistent(job: Job) -> Launch:
    grid = _Grid(job, "bc_persistent", (job.arrays["row_ptr"], job.arrays["col"]))
    return grid.launch(grid.paths)


_CHOICE = {
    "small_vertices": Parameter(1024, "largest frontier for one block only", between=(0, 1024)),
    "small_edges": Parameter(4096, "most out-edges of a frontier for one block only", between=(0, _MOST)),
    "alpha": Parameter(
        0.75, "pull forward once frontier edges x alpha > unexplored edges + vertices / 8", between=_RATIO
    ),
    "beta": Parameter(
        4.0, "scatter backward where a level has more than beta times the edges of the next", between=_RATIO
    ),
}


AUTO = GRID | _CHOICE
"""Tunables of auto."""


def auto_grid(job: Job) -> _Grid:
    """auto's kernel, for searches that run one after another."""
    a, t = job.arrays, job.params
    return _Grid(
        job,
        "bc_auto",
        (a["row_ptr"], a["col"], a["col_ptr"], a["row"]),
        np.int32(t["small_vertices"]),
        np.int64(t["small_edges"]),
        np.float64(t["alpha"]),
        np.float64(t["beta"]),
        np.int32(job.packed.row is job.packed.col),
        words=5,
    )


@variant(
    "bc",
    "auto",
    format="adjacency",
    source="bc/auto.cu",
    tunables=AUTO,
    dtypes=DTYPES,
    missing=needs_cooperative,
    about="one launch; one block or the cheaper side of a level",
)
def auto(job: Job) -> Launch:
    grid = auto_grid(job)
    return grid.launch(grid.paths)
