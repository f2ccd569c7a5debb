"""What kernels launched and allocated on the device, and whether all of it was run.

A launch from the device that finds the pool of waiting launches full is not run, and nothing says so but the
error that the launching thread sees. Kernels count both (cuda/common/children.cuh); here the counts are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from spgraph_bench.device.base import Limit
from spgraph_bench.errors import LaunchError
from spgraph_bench.units import human_bytes
from spgraph_bench.variants.base import CHILD_WORDS, Job

__all__ = ["DEFAULT_LIMITS", "LIMIT_WORDS", "Children", "ChildrenLostError", "children_of"]

DEFAULT_LIMITS: Mapping[Limit, int] = {"pending_launches": 2048, "malloc_heap_bytes": 8 << 20}
"""CUDA's own."""

LIMIT_WORDS: Mapping[Limit, str] = {
    "pending_launches": "a pool of {:,} waiting launches",
    "malloc_heap_bytes": "a heap of {:,} bytes on the device",
}


class ChildrenLostError(LaunchError):
    """Work that was launched on the device was not done, or memory asked for there was not given."""


@dataclass(frozen=True)
class Children:
    """Counts since they were cleared, in the order of CHILD_WORDS."""

    launched: int = 0
    refused: int = 0
    failed: int = 0
    error: int = 0
    allocations: int = 0
    allocations_failed: int = 0

    def words(self) -> dict[str, int]:
        """What a record keeps: by name, all but an error that did not occur and allocations if there are
        none."""
        counts = asdict(self)
        if not self.failed:
            del counts["error"]
        if not self.allocations + self.allocations_failed:
            del counts["allocations"], counts["allocations_failed"]
        return counts

    def must_be_whole(self, needs: Mapping[Limit, int], limits: Mapping[Limit, int]) -> None:
        """Raise ChildrenLostError when a launch or an allocation failed.

        `needs`: the variant's own bounds; `limits`: what was set, CUDA's own values for the others.
        """
        losses = []
        if self.refused:
            pool = limits.get("pending_launches", DEFAULT_LIMITS["pending_launches"])
            needed = self.launched + self.refused
            bound = needs.get("pending_launches", 0)
            losses.append(
                f"{self.refused:,} of {needed:,} child launches were refused (pending-launch pool {pool:,}; "
                f"needs about {bound if bound > pool else needed:,}: --pending-launches)"
            )
        if self.failed:
            losses.append(f"{self.failed:,} child launches failed with CUDA error {self.error}")
        if self.allocations_failed:
            heap = limits.get("malloc_heap_bytes", DEFAULT_LIMITS["malloc_heap_bytes"])
            needed = self.allocations + self.allocations_failed
            bound = needs.get("malloc_heap_bytes", 0)
            more = f"needs about {human_bytes(bound)}" if bound > heap else "needs more"
            losses.append(
                f"{self.allocations_failed:,} of {needed:,} allocations on the device failed "
                f"(heap {human_bytes(heap)}; {more}: --heap)"
            )
        if losses:
            raise ChildrenLostError("; ".join(losses))


def children_of(job: Job) -> Children | None:
    """The counts of `job`, or None where its kernels launch and allocate nothing."""
    if job.child_words is None:
        return None
    words = job.device.download(job.child_words)
    return Children(**{name: int(word) for name, word in zip(CHILD_WORDS, words, strict=True)})
