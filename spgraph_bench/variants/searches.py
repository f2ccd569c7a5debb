"""What the host functions of all traversals share: sources, results, loops over levels, cooperative grids."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.device.base import Arg, Buffer, Kernel
from spgraph_bench.errors import LaunchError, SkipError
from spgraph_bench.parameters import Parameter
from spgraph_bench.variants.base import Job, Launch, LevelTime
from spgraph_bench.variants.grids import Stamps, cooperative_shape, threads_for

__all__ = ["EDGE_BITS", "HOW", "PARENTS", "POISON", "BufferPart", "Levels", "check_tally", "cooperative", "per_level"]

PARENTS = {"parents": Parameter(0, "1: find a parent for every vertex too, in a pass after the levels", (0, 1))}

EDGE_BITS = 33
"""Bits of a tally that count the edges of a frontier; the others count vertices (graph/frontier.cuh)."""

POISON = 0x80
"""Fills results before a run: 0x80808080 is neither a level nor a vertex, and not -1."""
HOW = ("push", "pull", "one block")
"""Codes of how a level of a search was done, in stamps."""

Walk = Callable[[], Iterator[str | None]]
"""Yields None once everything is begun, then after each level how it was done."""


class BufferPart:
    """`count` elements of a device buffer, from element `first` on."""

    def __init__(self, buffer: Buffer, first: int, count: int) -> None:
        self._whole = buffer
        self.dtype = buffer.dtype
        self.shape = (count,)
        self.ptr = buffer.ptr + first * buffer.dtype.itemsize
        self.nbytes = count * buffer.dtype.itemsize

    def free(self) -> None:
        """Belongs to the whole buffer."""


def check_tally(job: Job, times: int = 1) -> None:
    """SkipError where a frontier may have more edges than a tally counts. `times`: how often an edge may be
    counted in one frontier."""
    most = (1 << EDGE_BITS) - 1
    if times * job.packed.nnz > most:
        raise SkipError(
            f"counts the edges of a frontier in {EDGE_BITS} bits: up to {most // times:,} edges, "
            f"this graph has {job.packed.nnz:,}"
        )


class Levels:
    """The source, the levels and what comes after them, the same for every mode.

    Parameters
    ----------
    job : its format is a graph's, perhaps relabelled.
    result : the output that the levels go to, of a type of 32 bits.

    ``source`` is a device word with the vertex to start from and ``level`` the array that the mode fills,
    both by the ids of the packed graph. Where these are not the input's, bringing the levels back is part of
    the run.
    """

    def __init__(self, job: Job, result: str = "level") -> None:
        self.job = job
        self.device = job.device
        self.n = np.int32(job.packed.rows)
        self.result = job.buffers[result]
        self.relabelled = "new_id" in job.arrays
        self.level = self.empty(job.packed.rows, self.result.dtype) if self.relabelled else self.result
        self.source = self.empty(1, np.int32)
        self.parent = self.empty(job.packed.rows, np.int32) if job.params.get("parents") else None
        self._after: list[Callable[[], None]] = []
        self._sources = job.inputs["sources"]
        if self.relabelled:
            self._sources = job.packed.new_id[self._sources]
        self._add_passes()

    extra_bytes = 0

    def empty(self, shape: int, dtype: npt.DTypeLike) -> Buffer:
        """Device memory that counts as the mode's own."""
        buffer = self.job.device.empty(shape, dtype)
        self.extra_bytes += buffer.nbytes
        return buffer

    def zeros(self, shape: int, dtype: npt.DTypeLike) -> Buffer:
        """Device memory of zeros, enqueued on the stream."""
        buffer = self.empty(shape, dtype)
        self.device.fill(buffer, 0)
        return buffer

    def blocks(self, threads: int) -> int:
        """Blocks for one thread per item."""
        return -(-int(threads) // int(self.job.params["block"]))

    def stride_blocks(self, threads: int) -> int:
        """At most so many blocks that each multiprocessor has some thousand threads; kernels then stride."""
        info = self.device.info()
        enough = info.multiprocessors * max(1, info.gpu.threads_per_sm // int(self.job.params["block"]))
        return max(1, min(self.blocks(threads), enough))

    def _add_passes(self) -> None:
        job, arrays, packed = self.job, self.job.arrays, self.job.packed
        grid, block = -(-packed.rows // 256), 256
        if self.relabelled:
            restore = job.kernel("restore", "graph/results.cu")
            self._after.append(restore.bind(grid, block, self.n, arrays["new_id"], self.level, self.result))
        self._parents: list[Callable[[], None]] = []
        if self.parent is not None:
            old = arrays.get("old_id")
            begin = job.kernel("parents_begin", "graph/results.cu")
            self._parents.append(begin.bind(grid, block, self.n, self.source, old, self.parent))
            if "row_ptr" in arrays:
                adopt = job.kernel("parents_rows", "graph/results.cu").bind(
                    -(-32 * packed.rows // block),
                    block,
                    self.n,
                    arrays["row_ptr"],
                    arrays["col"],
                    self.level,
                    old,
                    self.parent,
                )
            else:
                adopt = job.kernel("parents_edges", "graph/results.cu").bind(
                    -(-packed.nnz // block),
                    block,
                    packed.offsets.type(packed.nnz),
                    arrays["row"],
                    arrays["col"],
                    self.level,
                    old,
                    self.parent,
                )
            self._parents.append(adopt)
        self._after += self._parents

    def launch(
        self,
        run: Callable[[], None],
        *,
        operations: int,
        gated: bool = True,
        trace: Callable[[], list[LevelTime]] | None = None,
        every_level: str = "",
    ) -> Launch:
        """A Launch of `run` and the passes after it."""
        after = self._after

        def whole() -> None:
            run()
            for step in after:
                step()

        def select(case: int) -> None:
            self.device.write(self.source, self._sources[case : case + 1].astype(np.int32))

        def reset() -> None:
            for buffer in {id(b): b for b in (self.level, self.result, self.parent) if b is not None}.values():
                self.device.fill(buffer, POISON)

        def output() -> npt.NDArray[Any]:
            levels = self.device.download(self.result)
            return levels if self.parent is None else np.stack((levels, self.device.download(self.parent)))

        def parents() -> None:
            for step in self._parents:
                step()

        select(0)
        return Launch(
            run=whole if after else run,
            reset=reset,
            output=output,
            operations=operations + len(after),
            gated=gated,
            extra_bytes=self.extra_bytes,
            keep=self,
            cases=len(self._sources),
            select=select,
            trace=trace,
            every_level=every_level,
            parts={"parents": parents} if self._parents else {},
        )

    def walked(self, walk: Walk) -> Launch:
        """A Launch of a mode that the host drives level by level."""

        def run() -> None:
            for _ in walk():
                pass

        def trace() -> list[LevelTime]:
            done: list[LevelTime] = []
            emulated = self.device.kind == "host"
            before = 0.0
            for how in walk():
                self.device.synchronize()
                now = time.perf_counter()
                if how is not None:
                    done.append(LevelTime(how, None if emulated else (now - before) * 1e3))
                before = now
            return done

        return self.launch(run, operations=1, gated=False, trace=trace)


def per_level(bind: Callable[[int], Callable[[], None]]) -> Callable[[int], None]:
    """Calls ``bind(k)()``, binding each level once: the level is an argument of the kernels."""
    bound: list[Callable[[], None]] = []

    def step(k: int) -> None:
        while len(bound) <= k:
            bound.append(bind(len(bound)))
        bound[k]()

    return step


def counted(levels: Levels, begin: Callable[[], None], step: Callable[[int], None], sizes: Buffer, how: str) -> Walk:
    """One `step` per level until the host reads that level k + 1 is empty, ``sizes[(k + 1) % 3]``."""

    def walk() -> Iterator[str | None]:
        begin()
        yield None
        k, more = 0, True
        while more:
            step(k)
            k += 1
            more = bool(levels.device.download(sizes)[k % 3])
            yield how
            if k > int(levels.n):
                raise LaunchError(f"{levels.job.variant.name} does not end: more levels than vertices")

    return walk


def cooperative(
    levels: Levels, kernel: Kernel, args: Callable[[Buffer | None, np.int32], tuple[Arg, ...]], shared: int = 0
) -> Launch:
    """A Launch of one cooperative kernel: as many blocks as fit, but no more than have vertices or edges.

    `args` gives the arguments for the buffer of :class:`Stamps` and its size, or for None and 0; `shared` is the
    dynamic shared memory of a block in bytes.
    """
    packed = levels.job.packed
    threads = threads_for(packed.rows, packed.nnz)
    grid, block = cooperative_shape(levels.device, kernel, levels.job.params, threads, shared)

    def bound(stamps: Stamps) -> Callable[[], None]:
        return kernel.bind(grid, block, *args(stamps.buffer, stamps.size), shared=shared, cooperative=True)

    def trace() -> list[LevelTime]:
        stamps = Stamps(levels.device, packed.rows + 2)
        (steps,) = stamps.read(bound(stamps))
        return [LevelTime(HOW[code], ms) for _, code, ms in steps]

    return levels.launch(bound(Stamps(levels.device, 0)), operations=1, trace=trace)
