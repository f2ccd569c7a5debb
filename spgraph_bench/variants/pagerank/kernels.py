"""spgraph's own PageRanks. The contract of each is in its kernel file, what they share in power.cuh."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.device.base import Arg, Buffer, Kernel
from spgraph_bench.errors import SkipError
from spgraph_bench.parameters import Parameter
from spgraph_bench.problems.pagerank import DANGLING
from spgraph_bench.timer import perf_counter
from spgraph_bench.variants.base import Job, Launch, variant
from spgraph_bench.variants.grids import BLOCK, blocks_for, needs_cooperative
from spgraph_bench.variants.marked_rows import HUBS, TILE, MarkedRows, hub_shape
from spgraph_bench.variants.pagerank.cpu import edge_order
from spgraph_bench.variants.spmv.csr_balanced import ADAPTIVE, tile_of

__all__: list[str] = []

_TRACED = 1 << 16


class _Power:
    """Ranks, scalars and results of the power iteration, the same for every mode.

    Parameters
    ----------
    job : its format is adjacency, pattern-csr or pattern-coo, perhaps relabelled.
    """

    extra_bytes = 0

    def __init__(self, job: Job) -> None:
        self.job, self.device = job, job.device
        self.n, self.m = job.packed.rows, job.packed.nnz
        relabelled = "new_id" in job.arrays
        self.result = job.buffers["rank"]
        self.rank = self.empty(self.n, job.dtype) if relabelled else self.result
        self.new_id = job.arrays["new_id"] if relabelled else None
        self.teleport: Buffer | None = job.buffers.get("teleport")
        if relabelled and self.teleport is not None:
            self.teleport = self.upload(job.inputs["teleport"][job.packed.old_id])
        self.totals, self.barrier = self.zeros(8, np.float64), self.zeros(1, np.uint32)
        self.outcome = self.zeros(2, np.float64)
        self.chance: Buffer | None = None
        self.defines: dict[str, str] = {}
        if self.teleport is not None and job.options["dangling"] == "jump":
            self.defines["SPG_JUMP"] = "1"
        if "chance" in job.inputs:
            self.defines["SPG_WEIGHTED"] = "1"
            begin = time.perf_counter()
            self._weigh(job.inputs["chance"])
            self.preprocess_ms = (time.perf_counter() - begin) * 1e3
        else:
            self.share = self.empty(self.n, job.dtype)
            self.preprocess_ms = job.timed_ms(self._shares())

    def empty(self, shape: int, dtype: npt.DTypeLike) -> Buffer:
        """Device memory that counts as the mode's own."""
        buffer = self.device.empty(shape, dtype)
        self.extra_bytes += buffer.nbytes
        return buffer

    def upload(self, array: npt.NDArray[Any]) -> Buffer:
        buffer = self.device.upload(array)
        self.extra_bytes += buffer.nbytes
        return buffer

    def zeros(self, shape: int, dtype: npt.DTypeLike) -> Buffer:
        buffer = self.empty(shape, dtype)
        self.device.fill(buffer, 0)
        return buffer

    def _weigh(self, chance: npt.NDArray[Any]) -> None:
        """``chance`` in the order of the mode's edges, and as ``share`` which vertices pass their rank on."""
        a = self.job.packed
        order, source = edge_order(a)
        passes = np.zeros(self.n, self.job.dtype)
        mine = chance if order is None else chance[order]
        passes[source[mine > 0]] = 1
        self.share = self.upload(passes)
        self.chance = self.job.buffers["chance"] if order is None else self.upload(mine)

    def _shares(self) -> Callable[[], None]:
        """What makes ``share``, once per graph."""
        job, n, source = self.job, np.int32(self.n), "pagerank/shares.cu"
        grid = -(-self.n // 256)
        if "row_ptr" in job.arrays:
            rows = job.kernel("shares_of_rows", source)
            return rows.bind(grid, 256, n, job.arrays["row_ptr"], self.share)
        degree = self.empty(self.n, np.uint32)
        count = job.kernel("count_edges", source).bind(
            -(-self.m // 256), 256, job.packed.offsets.type(self.m), job.arrays["row"], degree
        )
        invert = job.kernel("shares_of_degrees", source).bind(grid, 256, n, degree, self.share)

        def make() -> None:
            self.device.fill(degree, 0)
            count()
            invert()

        return make

    def _args(self, trace: Buffer | None, traced: int) -> tuple[Arg, ...]:
        """The parameters that every kernel begins with (POWER_PARAMETERS)."""
        o = self.job.options
        out = self.result if self.new_id is not None else None
        return (
            np.int32(self.n),
            np.int32(o["max_iterations"]),
            np.float64(o["tolerance"]),
            np.float64(o["damping"]),
            np.int32(DANGLING[str(o["dangling"])]),
            self.share,
            self.teleport,
            self.rank,
            self.totals,
            self.barrier,
            self.outcome,
            self.new_id,
            out,
            trace,
            np.int32(traced),
        )

    def launch(
        self,
        kernel: Kernel,
        block: int,
        most_blocks: int,
        own: Sequence[Arg],
        *,
        each: int = 0,
        preprocess_ms: float = 0.0,
        shared: int = 0,
    ) -> Launch:
        """One cooperative launch of `kernel`: as many blocks as fit (`each` per multiprocessor at most, 0: no
        limit), but no more than have something to do."""
        fitting = kernel.resident_blocks(block, shared)
        if self.device.kind == "host":
            fitting = min(fitting, 4)
        elif each:
            fitting = min(fitting, each * self.device.info().multiprocessors)
        grid = max(1, min(fitting, most_blocks))

        def bound(trace: Buffer | None, traced: int) -> Callable[[], None]:
            args = (*self._args(trace, traced), *own)
            return kernel.bind(grid, block, *args, cooperative=True, shared=shared)

        def facts() -> Mapping[str, Any]:
            iterations, change = self.device.download(self.outcome)
            return {"iterations": int(iterations), "change": float(change)}

        def steps() -> Sequence[Mapping[str, Any]]:
            traced = min(int(self.job.options["max_iterations"]), _TRACED) + 1
            buffer = self.device.empty(2 * traced, np.float64)
            bound(buffer, traced)()
            pairs = self.device.download(buffer).reshape(-1, 2)
            done = min(int(self.device.download(self.outcome)[0]), traced - 1)
            ms = np.diff(pairs[: done + 1, 0]) / 1e6
            emulated = self.device.kind == "host"
            return [{"ms": None if emulated else float(ms[k]), "change": float(pairs[k + 1, 1])} for k in range(done)]

        return Launch(
            run=bound(None, 0),
            reset=self._reset,
            output=lambda: self.device.download(self.result),
            preprocess_ms=self.preprocess_ms + preprocess_ms,
            extra_bytes=self.extra_bytes,
            keep=(self, own),
            facts=facts,
            steps=steps,
        )

    def by_host(self, add_up: Callable[[Buffer, Buffer], Callable[[], None]]) -> Launch:
        """Iterations that the host launches: `add_up` gives the launch of the mode's own kernel, from what each
        vertex gives and the sums, and iterate.cu does the rest. The host reads the change after each."""
        job, device, block = self.job, self.device, int(self.job.params["block"])
        x, sums = self.empty(self.n, job.dtype), self.empty(self.n, np.float64)
        args, grid = self._args(None, 0), blocks_for(self.n, block)
        most, tolerance = int(job.options["max_iterations"]), float(job.options["tolerance"])

        def kernel(name: str, *own: Arg) -> Callable[[], None]:
            return job.kernel(name, "pagerank/iterate.cu", **self.defines).bind(grid, block, *args, *own)

        begin, step = kernel("power_begin", x, sums), add_up(x, sums)
        renew = [kernel("power_renew", np.int32(k), x, sums) for k in range(4)]  # 3 stands for 0 later on
        end = None if self.new_id is None else kernel("power_end")
        outcome: dict[str, Any] = {"iterations": 0, "change": 0.0}

        def iterations() -> Iterator[float]:
            """The change of each, once it is done; after the last one ranks are where they belong."""
            device.fill(self.totals, 0)
            begin()
            for k in range(most):
                step()
                renew[k if k < 4 else (k - 1) % 3 + 1]()
                change = float(device.download(self.totals)[2 * (k % 3)])
                outcome.update(iterations=k + 1, change=change)
                last = change <= tolerance or k + 1 == most
                if last and end is not None:
                    end()
                yield change
                if last:
                    return

        def run() -> None:
            for _ in iterations():
                pass

        def steps() -> Sequence[Mapping[str, Any]]:
            done: list[Mapping[str, Any]] = []
            device.synchronize()
            since = perf_counter()
            for change in iterations():
                now = perf_counter()
                ms = None if device.kind == "host" else (now - since) * 1e3
                done.append({"ms": ms, "change": change})
                since = now
            return done

        return Launch(
            run=run,
            reset=self._reset,
            output=lambda: device.download(self.result),
            gated=False,
            preprocess_ms=self.preprocess_ms,
            extra_bytes=self.extra_bytes,
            keep=(self, x, sums),
            facts=lambda: dict(outcome),
            steps=steps,
        )

    def _reset(self) -> None:
        for buffer in {id(b): b for b in (self.rank, self.result)}.values():
            self.device.fill(buffer, 0xFF)


_PULL = ADAPTIVE | {"depth": Parameter(1, "quads of edges that a thread has in flight", (1, 2, 4), macro="SPG_DEPTH")}


@variant(
    "pagerank",
    "pull",
    format="adjacency",
    source="pagerank/pull.cu",
    tunables=_PULL,
    missing=needs_cooperative,
    about="in-edges gathered, blocks of equal work, one launch for all iterations",
)
def pull(job: Job) -> Launch:
    power, a, p = _Power(job), job.arrays, job.params
    tiles = -(-(power.n + power.m) // tile_of(job))
    table = [power.empty(tiles + 1, kind) for kind in (np.dtype(np.int32), job.packed.offsets, np.dtype(np.int32))]
    fill = job.kernel("pagerank_pull_table", **power.defines).bind(
        -(-(tiles + 1) // 256), 256, np.int32(power.n), np.int32(tiles), a["col_ptr"], *table
    )
    preprocess_ms = job.timed_ms(fill)
    partial, arrived = power.empty(2 * tiles, job.dtype), power.zeros(tiles, np.uint32)
    x = [power.empty(power.n, job.dtype) for _ in range(2)]
    own = (
        job.packed.offsets.type(power.m),
        np.int32(tiles),
        *table,
        partial,
        arrived,
        a["col_ptr"],
        a["row"],
        *x,
        power.chance,
    )
    kernel = job.kernel("pagerank_pull", **power.defines)
    return power.launch(kernel, p["block"], tiles, own, preprocess_ms=preprocess_ms)


def _by_falling(degree: npt.NDArray[Any]) -> npt.NDArray[np.intp]:
    """The order of falling `degree`, ties as they were; by 16 bits, which numpy sorts in linear time."""
    key = degree.max(initial=0) - degree
    order = np.argsort((key & 0xFFFF).astype(np.uint16), kind="stable")
    while key.max(initial=0) > 0xFFFF:
        key >>= 16
        order = order[np.argsort((key[order] & 0xFFFF).astype(np.uint16), kind="stable")]
    return order


@variant(
    "pagerank",
    "pull-hubs",
    format="adjacency",
    source="pagerank/pull_hubs.cu",
    tunables=HUBS,
    missing=needs_cooperative,
    about="in-edges gathered, the busiest sources' values from shared memory",
)
def pull_hubs(job: Job) -> Launch:
    if "chance" in job.inputs:
        raise SkipError("pull-hubs does not use weights", remedy="--mode pull uses weights")
    power, a, p, device = _Power(job), job.packed, job.params, job.device
    begin = time.perf_counter()
    block, sums, hubs = hub_shape(job, power.n)
    warps = block // 32 * device.info().multiprocessors
    chunks = MarkedRows(a.col_ptr, warps * int(p["chunks"]), int(p["row_cost"]))
    place = None
    if a.meta["reorder"] == "none":
        # Only x is put in order, by how often it is gathered; rows and ranks stay where they are.
        order = _by_falling(np.diff(a.row_ptr))
        place_of = np.empty(power.n, np.int32)
        place_of[order] = np.arange(power.n, dtype=np.int32)
        place = power.upload(place_of)
    row_of, bare = power.upload(chunks.row_of), power.upload(chunks.bare)
    own_tables = (chunks.tile_begin, chunks.first_row, chunks.leader[:-1], chunks.pieces[:-1], chunks.pieces[1:])
    tables = [power.upload(np.ascontiguousarray(table)) for table in own_tables]
    preprocess_ms = (time.perf_counter() - begin) * 1e3
    places, n, m = chunks.tiles * TILE, np.int32(power.n), np.int64(power.m)
    edge = power.empty(places, np.uint32)
    fill = job.kernel("hubs_edges").bind(-(-places // 256), 256, np.int64(places), m, n, job.arrays["row"], place, edge)
    mark = job.kernel("hubs_marks").bind(
        -(-len(chunks.row_of) // 256), 256, np.int32(len(chunks.row_of)), row_of, job.arrays["col_ptr"], edge
    )

    def edges() -> None:
        fill()
        mark()

    preprocess_ms += job.timed_ms(edges)
    partial, arrived = power.empty(2 * chunks.count, job.dtype), power.zeros(chunks.count, np.uint32)
    x = [power.zeros(power.n + 1, job.dtype) for _ in range(2)]
    own = (
        np.int32(hubs),
        np.int32(chunks.count),
        edge,
        row_of,
        np.int32(len(chunks.bare)),
        bare,
        place,
        *tables,
        partial,
        arrived,
        *x,
    )
    blocks = max(-(-32 * chunks.count // block), power.n // (4 * block))
    return power.launch(
        job.kernel("pagerank_pull_hubs", **power.defines),
        block,
        blocks,
        own,
        preprocess_ms=preprocess_ms,
        shared=hubs * job.dtype.itemsize + sums,
    )


@variant(
    "pagerank",
    "pull-naive",
    format="adjacency",
    source="pagerank/pull_naive.cu",
    tunables=BLOCK,
    about="in-edges gathered, a thread per vertex, two launches an iteration",
)
def pull_naive(job: Job) -> Launch:
    power, a, block = _Power(job), job.arrays, job.params["block"]
    kernel = job.kernel("pagerank_pull_naive", **power.defines)

    def add_up(x: Buffer, sums: Buffer) -> Callable[[], None]:
        own = (np.int32(power.n), a["col_ptr"], a["row"], x, sums, power.chance)
        return kernel.bind(blocks_for(power.n, block), block, *own)

    return power.by_host(add_up)


@variant(
    "pagerank",
    "push",
    format="pattern-csr",
    source="pagerank/push.cu",
    tunables=BLOCK,
    about="out-edges scattered, a warp per vertex, an atomic per edge, two launches an iteration",
)
def push(job: Job) -> Launch:
    power, a, block = _Power(job), job.arrays, job.params["block"]
    kernel = job.kernel("pagerank_push", **power.defines)

    def add_up(x: Buffer, sums: Buffer) -> Callable[[], None]:
        own = (np.int32(power.n), a["row_ptr"], a["col"], x, sums, power.chance)
        return kernel.bind(blocks_for(32 * power.n, block), block, *own)

    return power.by_host(add_up)


@variant(
    "pagerank",
    "edge",
    format="pattern-coo",
    source="pagerank/edge.cu",
    tunables=BLOCK,
    about="a thread and an atomic per edge, two launches an iteration",
)
def edge(job: Job) -> Launch:
    power, a, block = _Power(job), job.arrays, job.params["block"]
    kernel = job.kernel("pagerank_edge", **power.defines)

    def add_up(x: Buffer, sums: Buffer) -> Callable[[], None]:
        own = (job.packed.offsets.type(power.m), a["row"], a["col"], x, sums, power.chance)
        return kernel.bind(blocks_for(power.m, block), block, *own)

    return power.by_host(add_up)
