"""Betweenness from up to 64 sources: together, and for comparison one after another.

The contract of each kernel is in its file.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.device.base import Arg
from spgraph_bench.parameters import Parameter
from spgraph_bench.variants.base import Job, Launch, variant
from spgraph_bench.variants.batches import WORDS, SourceWords, batch_launch, each_source, in_turn
from spgraph_bench.variants.bc.kernels import AUTO, DTYPES, auto_grid
from spgraph_bench.variants.grids import Stamps, needs_cooperative
from spgraph_bench.variants.searches import HOW

__all__: list[str] = []

_SUMS = {
    "shared_row": Parameter(
        512, "edges of a row that a warp sums up alone", (64, 256, 512, 1024, 2048, 4096), macro="SPG_OWN_ROW"
    ),
    "rows": Parameter(8, "neighbours whose numbers a warp has in flight", (1, 2, 4, 8), macro="SPG_ROWS"),
}


def _long_rows(words: SourceWords, ptr: npt.NDArray[Any], most: int) -> tuple[Arg, ...]:
    """Rows of more than `most` entries and their strips, as the kernel takes them; the third is how many rows."""
    lengths = np.diff(ptr)
    rows = np.flatnonzero(lengths > most)
    pieces = -(-lengths[rows] // most)
    strip = np.repeat(np.arange(len(rows)), pieces)
    nth = np.arange(len(strip)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    begin = ptr[rows][strip] + most * nth

    def upload(array: npt.NDArray[Any], dtype: npt.DTypeLike) -> Arg:
        return words.upload(np.append(array, 0).astype(dtype))  # never empty

    offsets = words.job.packed.offsets
    return (
        upload(rows, np.int32),
        np.int32(len(rows)),
        upload(strip, np.int32),
        upload(begin, offsets),
        np.int32(len(strip)),
    )


@variant(
    "bc-batch",
    "multi-source",
    format="adjacency",
    source="bc/multi_source.cu",
    tunables=WORDS | _SUMS,
    dtypes=DTYPES,
    missing=needs_cooperative,
    about="one launch for all: levels by bits, a column of counts and sums for each source",
)
def multi_source(job: Job) -> Launch:
    words, packed, device = SourceWords(job, "bc_multi_source"), job.packed, job.device
    n, width, most = packed.rows, words.width, int(job.params["shared_row"])
    into = _long_rows(words, packed.col_ptr, most)
    out = into if packed.row is packed.col else _long_rows(words, packed.row_ptr, most)
    shared = max(int(np.count_nonzero(np.diff(ptr) > most)) for ptr in (packed.col_ptr, packed.row_ptr))
    sums = (
        words.empty(n * width, np.float64),
        words.empty(2 * n, np.uint64),
        words.empty(n + 2, np.uint64),
        words.zeros(shared * width + 1, np.float64),
    )

    def bound(stamps: Stamps) -> Callable[[], None]:
        result = (job.arrays.get("old_id"), job.buffers["dependency"])
        return words.bind(*words.args, *result, *words.words, *sums, *into, *out, stamps.buffer, stamps.size)

    def watched() -> list[dict[str, Any]]:
        stamps = Stamps(device, n + 3, sides=3)
        levels, forward, back = stamps.read(bound(stamps))
        steps = [{"level": k, "how": HOW[code % 4], "vertices": code // 4, "ms": ms} for k, code, ms in levels]
        steps += [{"level": k, "how": "forward", "vertices": None, "ms": ms} for k, _, ms in forward if k]
        return [*steps, *({"level": k, "how": "back", "vertices": None, "ms": ms} for k, _, ms in back)]

    return batch_launch(
        job,
        "dependency",
        bound(Stamps(device, 0)),
        words.choose,
        lambda output: np.ascontiguousarray(output.T),
        extra_bytes=words.extra_bytes,
        keep=(words, sums, into, out),
        steps=watched,
    )


@variant(
    "bc-batch",
    "auto-in-turn",
    format="adjacency",
    source="bc/auto.cu",
    tunables=AUTO,
    dtypes=DTYPES,
    missing=needs_cooperative,
    about="for comparison: auto of bc, a launch for each source, one after another",
)
def auto_in_turn(job: Job) -> Launch:
    jobs = each_source(job, "dependency")
    grid = auto_grid(jobs[0])
    searches = [grid.launch(grid.paths), *(grid.launch(grid.paths.of(each)) for each in jobs[1:])]
    return in_turn(
        job,
        "dependency",
        searches,
        lambda output: output.reshape(-1, job.packed.rows),  # a row for each source here
        extra_bytes=grid.paths.extra_bytes + 4 * len(searches),
        keep=(grid, searches),
    )
