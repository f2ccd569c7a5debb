"""What the host functions share whose runs have a batch of sources: see cuda/graph/sources.cuh."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.device.base import Arg, Buffer, Kernel
from spgraph_bench.parameters import Parameter
from spgraph_bench.variants.base import Job, Launch
from spgraph_bench.variants.grids import cooperative_shape, threads_for
from spgraph_bench.variants.searches import POISON, BufferPart, check_tally

__all__ = ["WORDS", "SourceWords", "batch_launch", "each_source", "in_turn"]

_MOST, _RATIO = 2**31 - 1, (0.0, 1e9)  # bounds of tunables

WORDS = {
    "block": Parameter(0, "threads per block; 0: 512, on the host device 128", (0, 64, 128, 256, 512, 1024)),
    "blocks_per_multiprocessor": Parameter(0, "blocks that a multiprocessor gets; 0: as many as fit", between=(0, 64)),
    "alpha": Parameter(
        5.0, "bottom-up where frontier edges x alpha > in-edges of vertices not found from all sources", between=_RATIO
    ),
    "turn": Parameter(0.25, "what looking at all vertices costs, in edges for each", between=_RATIO),
    "small_vertices": Parameter(
        -1, "largest frontier for one block only; -1: 256, on the host device 0", between=(-1, _MOST)
    ),
    "small_edges": Parameter(1024, "most out-edges of a frontier for one block only", between=(0, _MOST)),
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
"""Tunables of searches by words of sources."""


def _counts(sources: npt.NDArray[np.int32]) -> list[int]:
    """How many sources each batch has; -1 fills the last one up."""
    return [int(np.count_nonzero(row >= 0)) for row in sources]


def batch_launch(
    job: Job,
    result: str,
    run: Callable[[], None],
    choose: Callable[[int], None],
    rows: Callable[[npt.NDArray[Any]], npt.NDArray[Any]] = lambda output: output,
    **details: Any,
) -> Launch:
    """A Launch of `run`, which leaves the answer to the batch that `choose` took in the output `result`; `rows` gives
    it with a row for each source."""
    target, device, counts = job.buffers[result], job.device, _counts(job.inputs["sources"])
    chosen = last = 0

    def select(case: int) -> None:
        nonlocal chosen
        chosen = case
        choose(case)

    def run_chosen() -> None:
        nonlocal last
        last = chosen
        run()

    select(0)
    return Launch(
        run=run_chosen,
        reset=lambda: device.fill(target, POISON),
        output=lambda: rows(device.download(target))[: counts[last]],  # another batch may be chosen by now
        cases=len(counts),
        select=select,
        **details,
    )


def each_source(job: Job, result: str) -> list[Job]:
    """A job for each source of a batch: its result is that row of the output `result`, its cases are that source of
    every batch."""
    sources, n = job.inputs["sources"], job.packed.rows
    return [
        replace(
            job,
            buffers={result: BufferPart(job.buffers[result], n * i, n)},
            inputs={"sources": np.maximum(sources[:, i], 0)},  # -1 in the last batch: never run
        )
        for i in range(sources.shape[1])
    ]


def in_turn(
    job: Job,
    result: str,
    searches: Sequence[Launch],
    rows: Callable[[npt.NDArray[Any]], npt.NDArray[Any]] = lambda output: output,
    **details: Any,
) -> Launch:
    """A Launch that runs the first of `searches` one after another, as many as a batch has sources. Each is of one
    source of every batch."""
    counts, active = _counts(job.inputs["sources"]), list(searches)

    def choose(case: int) -> None:
        active[:] = searches[: counts[case]]
        for search in active:
            search.select(case)

    def run() -> None:
        for search in active:
            search.run()

    operations = sum(search.operations for search in searches)
    return batch_launch(job, result, run, choose, rows, operations=operations, **details)


class SourceWords:
    """The kernel `name` of a job, its grid, and what searches by words of sources work on.

    ``args`` come first in the kernel, then `result`, then ``words``.
    """

    def __init__(self, job: Job, name: str) -> None:
        check_tally(job)
        self.job, self.device = job, job.device
        p, a, packed = job.params, job.arrays, job.packed
        self.held: list[Buffer] = []
        self.width = int(job.inputs["sources"].shape[1])
        n = packed.rows
        self.block = int(p["block"]) or (128 if self.device.kind == "host" else 512)
        self.kernel: Kernel = job.kernel(name, SPG_THREADS=self.block)
        shape = {**p, "block": self.block}
        self.grid, _ = cooperative_shape(self.device, self.kernel, shape, threads_for(n, packed.nnz))
        self._sources = self.empty(self.width, np.int32)
        planes, strips = n.bit_length(), 2 * packed.nnz // int(p["strip"]) + 1
        small = int(p["small_vertices"])
        if small < 0:  # where kernels are emulated, a barrier costs nothing
            small = 0 if self.device.kind == "host" else 256
        graph = (a["row_ptr"], a["col"], a["col_ptr"], a["row"])
        self.args: tuple[Arg, ...] = (np.int32(n), np.int32(self.width), self._sources, *graph)
        self.words: tuple[Arg, ...] = (
            self.empty(2 * n, np.uint64),
            self.empty(n, np.uint64),
            self.empty(planes * n, np.uint64),
            np.int32(planes),
            self.empty(2 * n, np.int32),
            self.empty(2 * n, packed.offsets),
            self.empty(20, np.uint64),
            self.empty(strips, np.int32),
            self.empty(strips, packed.offsets),
            self.zeros(1, np.uint32),
            self.empty(1, np.int32),
            self.zeros(1, np.uint32),
            np.int32(small),
            np.int64(p["small_edges"]),
            np.float64(p["alpha"]),
            np.float64(p["turn"]),
        )
        given = job.inputs["sources"]
        self._given = np.where(given >= 0, packed.new_id[given], -1) if "new_id" in a else given

    @property
    def extra_bytes(self) -> int:
        """Bytes of its own arrays."""
        return sum(buffer.nbytes for buffer in self.held)

    def empty(self, size: int, dtype: npt.DTypeLike) -> Buffer:
        """Device memory that counts as the mode's own."""
        self.held.append(self.device.empty(size, dtype))
        return self.held[-1]

    def zeros(self, size: int, dtype: npt.DTypeLike) -> Buffer:
        """The same, of zeros."""
        self.device.fill(buffer := self.empty(size, dtype), 0)
        return buffer

    def upload(self, array: npt.NDArray[Any]) -> Buffer:
        """The same with a copy of `array`."""
        self.held.append(self.device.upload(array))
        return self.held[-1]

    def choose(self, case: int) -> None:
        """Take the sources of batch `case`."""
        self.device.write(self._sources, np.ascontiguousarray(self._given[case], np.int32))

    def bind(self, *args: Arg) -> Callable[[], None]:
        """A launch of the kernel with all of its arguments."""
        return self.kernel.bind(self.grid, self.block, *args, cooperative=True)
