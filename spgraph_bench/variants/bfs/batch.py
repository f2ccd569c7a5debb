"""Breadth-first searches from up to 64 sources: together, and for comparison one after another.

The contract of each kernel is in its file.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from spgraph_bench.variants.base import Job, Launch, variant
from spgraph_bench.variants.batches import WORDS, SourceWords, batch_launch, each_source, in_turn
from spgraph_bench.variants.bfs.by_level import DTYPES
from spgraph_bench.variants.bfs.whole_search import AUTO, Auto
from spgraph_bench.variants.grids import Stamps, needs_cooperative
from spgraph_bench.variants.searches import HOW, Levels

__all__: list[str] = []


def _step(level: int, code: int, ms: float | None) -> dict[str, Any]:
    """What the trace keeps of a step."""
    vertices, how = divmod(code, 4)
    named = (*HOW, "levels written")[how]
    return {"level": level, "how": named, "vertices": vertices if how < len(HOW) else None, "ms": ms}


@variant(
    "bfs-batch",
    "multi-source",
    format="adjacency",
    source="bfs/multi_source.cu",
    tunables=WORDS,
    dtypes=DTYPES,
    missing=needs_cooperative,
    about="one launch for all: a bit for each source in a word for each vertex",
)
def multi_source(job: Job) -> Launch:
    words = SourceWords(job, "bfs_multi_source")

    def bound(stamps: Stamps) -> Callable[[], None]:
        result = (job.arrays.get("new_id"), job.buffers["level"])
        return words.bind(*words.args, *result, *words.words, stamps.buffer, stamps.size)

    def watched() -> list[dict[str, Any]]:
        stamps = Stamps(job.device, job.packed.rows + 3)
        (steps,) = stamps.read(bound(stamps))
        return [_step(*step) for step in steps]

    return batch_launch(
        job,
        "level",
        bound(Stamps(job.device, 0)),
        words.choose,
        extra_bytes=words.extra_bytes,
        keep=words,
        steps=watched,
    )


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
    each = [Levels(one) for one in each_source(job, "level")]
    shared = Auto(job, each[0])
    searches = [shared.launch(levels) for levels in each]
    extra_bytes = sum(search.extra_bytes for search in searches)
    launch = in_turn(job, "level", searches, extra_bytes=extra_bytes, keep=(shared, searches))
    launch.preprocess_ms = searches[0].preprocess_ms  # once for all
    return launch
