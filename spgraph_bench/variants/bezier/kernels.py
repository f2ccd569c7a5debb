"""Ways to write the points of Bezier curves. The contract of each is in its kernel file."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.device.base import Buffer
from spgraph_bench.errors import SkipError
from spgraph_bench.parameters import Parameter
from spgraph_bench.problems.bezier import MOST, chosen_curves, points_needed
from spgraph_bench.variants.base import Job, Launch, Limits, Sizes, variant

__all__: list[str] = []

_POISON = 0xFF
_DTYPES = ("float32",)
_POINT = 8  # bytes

Run = Callable[[], None]
Output = dict[str, Any]


class _Curves:
    """What all variants have: control points, a count for each curve, and a way to fetch what was written."""

    def __init__(self, job: Job) -> None:
        self.job, self.device = job, job.device
        self.control = job.buffers["control"]
        self.curves = len(job.inputs["control"])
        self.n = np.int32(self.curves)
        self.count = self.device.empty(self.curves, np.int32)
        self._collect = job.kernel("collect", "bezier/collect.cu")

    def fetch(
        self,
        *,
        address: Buffer | None = None,
        start: Buffer | None = None,
        vertices: Buffer | None = None,
        uniform: bool = False,
    ) -> Output:
        """Counts, and the points of the curves that are checked; parameters as cuda/bezier/collect.cu has
        them."""
        count = self.device.download(self.count)
        points = np.zeros((0, 2), np.float32)
        if count.min() >= 0 and count.max() <= MOST:  # else they lead nowhere, and the check says so
            chosen = chosen_curves(count).astype(np.int32)
            own = count[chosen].astype(np.int64)
            out = self.device.empty((int(own.sum()), 2), np.float32)
            self.device.fill(out, _POISON)
            self._collect(
                -(-len(chosen) // 4),
                128,
                np.int32(len(chosen)),
                self.device.upload(chosen),
                self.device.upload(np.cumsum(own) - own),
                self.count,
                address,
                start,
                vertices,
                out,
            )
            points = self.device.download(out)
        return {"count": count, "points": points, "uniform": uniform}

    def room(self) -> tuple[Buffer, Buffer]:
        """Room for 256 points of every curve, and where each curve's begins."""
        return (
            self.device.empty((self.curves, MOST, 2), np.float32),
            self.device.upload(np.arange(self.curves, dtype=np.int64) * MOST),
        )

    def launch(
        self, run: Run, written: Sequence[Buffer], output: Callable[[], Output], operations: int, **details: Any
    ) -> Launch:
        """A Launch that poisons the counts and the buffers in `written` before each run."""

        def reset() -> None:
            for buffer in (self.count, *written):
                self.device.fill(buffer, _POISON)

        return Launch(
            run=run,
            reset=reset,
            output=output,
            operations=operations,
            extra_bytes=self.count.nbytes + sum(b.nbytes for b in written),
            keep=self,
            **details,
        )


@variant(
    "bezier",
    "uniform",
    format="none",
    source="bezier/uniform.cu",
    dtypes=_DTYPES,
    about="256 points for every curve, a block each: the baseline for adapting",
)
def uniform(job: Job) -> Launch:
    """Vertices float32 ``[curves, 256, 2]``. The counts are not computed: they are 256 by design."""
    curves = _Curves(job)
    vertices, start = curves.room()
    blocks = min(-(-curves.curves // 4), 8 * curves.device.info().multiprocessors)
    run = job.kernel("uniform").bind(blocks, MOST, curves.n, curves.control, vertices)

    def output() -> Output:
        curves.device.write(curves.count, np.full(curves.curves, MOST, np.int32))
        return curves.fetch(start=start, vertices=vertices, uniform=True)

    return curves.launch(run, [vertices], output, 1)


@variant(
    "bezier",
    "flattened",
    format="none",
    source="bezier/flattened.cu",
    dtypes=_DTYPES,
    about="counts, their prefix sum, and points cut into equal parts, all in one launch",
    tunables={
        "tile": Parameter(
            0,
            "curves that a block takes; 0: for two blocks a multiprocessor, if that is few, else 128",
            between=(0, 256),
        ),
        "block": Parameter(
            0, "threads per block; 0: 512 for two blocks a multiprocessor, else 256", choices=(0, 256, 512, 1024)
        ),
    },
)
def flattened(job: Job) -> Launch:
    """Vertices one curve after another, `start` says where each begins. How many there will be is not known
    before, so there is room for 256 of each; the part beyond the total is never touched."""
    curves = _Curves(job)
    device = curves.device
    # With few curves all blocks are on the GPU together, and the last one is waited for: all get the same.
    few = curves.curves <= 128 * device.info().multiprocessors
    even = -(-curves.curves // (2 * device.info().multiprocessors))
    tile = int(job.params["tile"]) or (max(even, 1) if few else 128)
    block = int(job.params["block"]) or (512 if few and not job.params["tile"] else 256)
    tiles = -(-curves.curves // tile)
    vertices, start = curves.room()
    total = device.empty(1, np.int64)
    state = device.upload(np.zeros(1 + tiles, np.uint64))
    run = job.kernel("flattened").bind(
        tiles, block, curves.n, np.int32(tile), curves.control, curves.count, start, vertices, total, state
    )

    def output() -> Output:
        return curves.fetch(start=start, vertices=vertices)

    return curves.launch(run, [vertices, start, total], output, 1)


@variant(
    "bezier",
    "host-driven",
    format="none",
    source="bezier/host_driven.cu",
    dtypes=_DTYPES,
    about="the host reads the counts, takes memory and launches again, a warp per curve",
)
def host_driven(job: Job) -> Launch:
    """Each run takes memory for exactly the vertices there are, and gives back that of the run before."""
    curves = _Curves(job)
    device = curves.device
    count_points = job.kernel("count_points").bind(
        -(-curves.curves // 256), 256, curves.n, curves.control, curves.count
    )
    write_points = job.kernel("write_points")
    start = device.empty(curves.curves, np.int64)
    held: list[Buffer] = []

    def run() -> None:
        count_points()
        count = device.download(curves.count)
        ends = np.cumsum(count, dtype=np.int64)
        device.write(start, ends - count)
        for old in held:
            old.free()
        held[:] = [device.empty((int(ends[-1]), 2), np.float32)]
        write_points(-(-curves.curves // 8), 256, curves.n, curves.control, curves.count, start, held[0])

    def reset() -> None:
        for buffer in (curves.count, start, *held):
            device.fill(buffer, _POISON)

    # The host is needed in between, so nothing can be queued ahead.
    return Launch(
        run=run,
        reset=reset,
        output=lambda: curves.fetch(start=start, vertices=held[0]),
        operations=2,
        gated=False,
        extra_bytes=curves.count.nbytes + start.nbytes + _POINT * int(points_needed(job.inputs["control"]).sum()),
        keep=curves,
    )


_PIECE = {
    "piece": Parameter(1 << 16, "curves of one launch, and so child grids that wait at most", between=(1, 1 << 24))
}


def _pending(sizes: Sizes) -> int:
    return min(len(sizes.inputs["control"]), int(sizes.params["piece"]))


def _heap_bytes(needed: npt.NDArray[np.int32]) -> int:
    """Heap for the vertices of all curves. An allocation is rounded up to 16 bytes and gets a head of 16;
    how the allocator cuts up its heap is not documented, so there are a factor and a constant."""
    each = (_POINT * needed.astype(np.int64) + 15) // 16 * 16 + 16
    return 2 * int(each.sum()) + (8 << 20)


def _pieces(curves: _Curves, bind: Callable[[int, np.int32, np.int32], Run]) -> list[Run]:
    """``bind(blocks, first, last)`` for stretches of curves; the children of one are done before the next
    begins."""
    piece = int(curves.job.params["piece"])
    stretches = ((first, min(first + piece, curves.curves)) for first in range(0, curves.curves, piece))
    return [bind(-(-(last - first) // 128), np.int32(first), np.int32(last)) for first, last in stretches]


@variant(
    "bezier",
    "child-launch-preallocated",
    format="none",
    source="bezier/child_launch_preallocated.cu",
    dtypes=_DTYPES,
    tunables=_PIECE,
    limits=lambda sizes: Limits(pending_launches=_pending(sizes)),
    about="a child grid for every curve, into room for 256 points of each",
)
def child_launch_preallocated(job: Job) -> Launch:
    """Vertices float32 ``[curves, 256, 2]``, of which each curve's first ones are written."""
    curves = _Curves(job)
    vertices, start = curves.room()
    kernel, children = job.kernel("launch_curves"), job.children()
    steps = _pieces(
        curves,
        lambda blocks, first, last: kernel.bind(
            blocks, 128, first, last, curves.control, curves.count, vertices, children
        ),
    )

    def run() -> None:
        for step in steps:
            step()

    def output() -> Output:
        return curves.fetch(start=start, vertices=vertices)

    return curves.launch(run, [vertices], output, len(steps))


class _Heap:
    """Where vertices on the device's heap are; gives them back at the latest when nothing needs it any more,
    since the heap outlives a launch."""

    def __init__(self, curves: _Curves) -> None:
        device = curves.device
        self.address = device.upload(np.zeros(curves.curves, np.uint64))
        self.free = curves.job.kernel("free_curves").bind(-(-curves.curves // 128), 128, curves.n, self.address)

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # the device may be gone
            self.free()


_MOST_CURVES = {
    "most_curves": Parameter(
        100_000,
        "curves up to which it is run: allocations are serialized, and 1 M took many seconds on an H200",
        between=(1, 10**7),
    )
}


def _malloc_limits(sizes: Sizes) -> Limits:
    if len(sizes.inputs["control"]) > int(sizes.params["most_curves"]):
        return Limits()  # it will not be run
    return Limits(_pending(sizes), _heap_bytes(sizes.oracle["needed"]))


@variant(
    "bezier",
    "child-launch-malloc",
    format="none",
    source="bezier/child_launch_malloc.cu",
    dtypes=_DTYPES,
    tunables=_PIECE | _MOST_CURVES,
    limits=_malloc_limits,
    about="a child grid for every curve, into memory that the device allocates for it",
)
def child_launch_malloc(job: Job) -> Launch:
    """Vertices on the device's heap, an address for each curve. They are given back before the next run,
    untimed."""
    curves = _Curves(job)
    if curves.curves > int(job.params["most_curves"]):
        raise SkipError(
            f"{curves.curves:,} allocations on the device take their time (1 M: many seconds on an H200); "
            f"--param most_curves={curves.curves} runs it"
        )
    device, heap = curves.device, _Heap(curves)
    kernel, children = job.kernel("launch_curves"), job.children()
    steps = _pieces(
        curves,
        lambda blocks, first, last: kernel.bind(
            blocks, 128, first, last, curves.control, curves.count, heap.address, children
        ),
    )

    def run() -> None:
        for step in steps:
            step()

    def reset() -> None:
        heap.free()
        device.fill(curves.count, _POISON)

    needed = points_needed(job.inputs["control"])
    return Launch(
        run=run,
        reset=reset,
        output=lambda: curves.fetch(address=heap.address),
        operations=len(steps),
        extra_bytes=curves.count.nbytes + heap.address.nbytes + _heap_bytes(needed),
        keep=heap,
    )
