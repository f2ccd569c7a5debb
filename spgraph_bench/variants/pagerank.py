"""spgraph's own PageRanks. The contract of each is in its kernel file, what they share in power.cuh."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.device.base import Arg, Buffer, Kernel
from spgraph_bench.formats.base import Tunable
from spgraph_bench.problems.pagerank import DANGLING
from spgraph_bench.variants.base import Job, Launch, variant
from spgraph_bench.variants.spmv import ADAPTIVE, changed
from spgraph_bench.variants.traversal import needs_cooperative

__all__: list[str] = []

_TRACED = 1 << 16
_GRID = {
    "block": Tunable(
        0, "threads per block; 0: 512, on the host device 128", (0, 32, 64, 128, 256, 512, 1024)
    ),
    "blocks_per_multiprocessor": Tunable(
        0, "blocks that a multiprocessor gets; 0: as many as fit", between=(0, 64)
    ),
}


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
            self.teleport = self.device.upload(job.inputs["teleport"][job.packed.old_id])
            self.extra_bytes += self.teleport.nbytes
        self.totals, self.barrier = self.zeros(8, np.float64), self.zeros(1, np.uint32)
        self.outcome = self.zeros(2, np.float64)
        self.share = self.empty(self.n, job.dtype)
        self.preprocess_ms = job.timed_ms(self._shares())

    def empty(self, shape: int, dtype: npt.DTypeLike) -> Buffer:
        """Device memory that counts as the mode's own."""
        buffer = self.device.empty(shape, dtype)
        self.extra_bytes += buffer.nbytes
        return buffer

    def zeros(self, shape: int, dtype: npt.DTypeLike) -> Buffer:
        buffer = self.empty(shape, dtype)
        self.device.fill(buffer, 0)
        return buffer

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
            np.int32(self.n), np.int32(o["max_iterations"]), np.float64(o["tolerance"]),
            np.float64(o["damping"]), np.int32(DANGLING[str(o["dangling"])]), self.share, self.teleport,
            self.rank, self.totals, self.barrier, self.outcome, self.new_id, out, trace, np.int32(traced),
        )  # fmt: skip

    def launch(
        self, kernel: Kernel, block: int, most_blocks: int, own: Sequence[Arg], *, each: int = 0,
        preprocess_ms: float = 0.0, shared: int = 0,
    ) -> Launch:  # fmt: skip
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
            return [
                {"ms": None if emulated else float(ms[k]), "change": float(pairs[k + 1, 1])}
                for k in range(done)
            ]

        def reset() -> None:
            for buffer in {id(b): b for b in (self.rank, self.result)}.values():
                self.device.fill(buffer, 0xFF)

        return Launch(
            run=bound(None, 0),
            reset=reset,
            output=lambda: self.device.download(self.result),
            preprocess_ms=self.preprocess_ms + preprocess_ms,
            extra_bytes=self.extra_bytes,
            keep=(self, own),
            facts=facts,
            steps=steps,
        )

    def plain(self, kernel: Kernel, items: int, own: Sequence[Arg]) -> Launch:
        """A launch with the tunables of _GRID; `items`: threads that have something to do."""
        block = int(self.job.params["block"]) or (128 if self.device.kind == "host" else 512)
        each = int(self.job.params["blocks_per_multiprocessor"])
        return self.launch(kernel, block, -(-items // block), own, each=each)


_PULL = ADAPTIVE | {"depth": Tunable(2, "quads of edges that a thread has under way", (1, 2, 4))}


@variant("pagerank", "pull", format="adjacency", source="pagerank/pull.cu", tunables=_PULL,
         missing=needs_cooperative,
         about="in-edges gathered, blocks of equal work, one launch for all iterations")  # fmt: skip
def pull(job: Job) -> Launch:
    power, a, p = _Power(job), job.arrays, job.params
    defines = changed(p, _PULL, SPG_BLOCK="block", SPG_TILE="tile", SPG_THREADS="threads", SPG_DEPTH="depth")
    tiles = -(-(power.n + power.m) // p["tile"])
    table = [
        power.empty(tiles + 1, kind) for kind in (np.dtype(np.int32), job.packed.offsets, np.dtype(np.int32))
    ]
    fill = job.kernel("pagerank_pull_table", **defines).bind(
        -(-(tiles + 1) // 256), 256, np.int32(power.n), np.int32(tiles), a["col_ptr"], *table
    )
    preprocess_ms = job.timed_ms(fill)
    partial, arrived = power.empty(2 * tiles, job.dtype), power.zeros(tiles, np.uint32)
    x = [power.empty(power.n, job.dtype) for _ in range(2)]
    own = (
        job.packed.offsets.type(power.m), np.int32(tiles), *table, partial, arrived, a["col_ptr"], a["row"],
        *x,
    )  # fmt: skip
    kernel = job.kernel("pagerank_pull", **defines)
    return power.launch(kernel, p["block"], tiles, own, preprocess_ms=preprocess_ms)


@variant("pagerank", "pull-naive", format="adjacency", source="pagerank/pull_naive.cu", tunables=_GRID,
         missing=needs_cooperative, about="in-edges gathered, a thread per vertex")  # fmt: skip
def pull_naive(job: Job) -> Launch:
    power, a = _Power(job), job.arrays
    x = [power.empty(power.n, job.dtype) for _ in range(2)]
    return power.plain(job.kernel("pagerank_pull_naive"), power.n, (a["col_ptr"], a["row"], *x))


@variant("pagerank", "push", format="pattern-csr", source="pagerank/push.cu", tunables=_GRID,
         missing=needs_cooperative,
         about="out-edges scattered, a warp per vertex, an atomic per edge")  # fmt: skip
def push(job: Job) -> Launch:
    power, a = _Power(job), job.arrays
    sums = power.empty(power.n, np.float64)
    return power.plain(job.kernel("pagerank_push"), 32 * power.n, (a["row_ptr"], a["col"], sums))


@variant("pagerank", "edge", format="pattern-coo", source="pagerank/edge.cu", tunables=_GRID,
         missing=needs_cooperative, about="a thread and an atomic per edge")  # fmt: skip
def edge(job: Job) -> Launch:
    power, a = _Power(job), job.arrays
    x, sums = power.empty(power.n, job.dtype), power.empty(power.n, np.float64)
    own = (job.packed.offsets.type(power.m), a["row"], a["col"], x, sums)
    return power.plain(job.kernel("pagerank_edge"), max(power.n, power.m), own)
