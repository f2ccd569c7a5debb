"""What a user may ask of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from spgraph_bench.device.base import Limit

__all__ = ["Settings"]


@dataclass(frozen=True)
class Settings:
    """What a user may ask of a run."""

    dtypes: tuple[str, ...] = ("float32",)
    params: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    seed: int = 1
    force_format: bool = False
    time_limit_s: float = 0.25
    min_samples: int | None = None
    """Samples of each series at least, even past the time limit; None: 20, or 6 when the time is up."""
    warmups: int | None = None
    """Runs before the first sample, which are not counted; None: 3, or fewer where they take a second."""
    baseline_seconds: float | None = None
    """For all CPU baselines of a run together, from their first check on; None: 10 where kernels run beside them, else
    no limit."""
    offsets: str | None = None
    """"int32", "int64" or None: see :func:`spgraph_bench.formats.common.offsets_for`."""
    options: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    """The problem's own (bfs: source, sources, component, check_seconds)."""
    reorder: tuple[str, ...] = ("none",)
    """Orders of rows and columns to run in, of spgraph_bench.reorder.ORDERS."""
    trace: bool = False
    """Keep the levels of the first case in the records."""
    pending_launches: int | None = None
    """How many launches from the device may wait at the same time; None: as many as the variants' bounds ask for."""
    heap_bytes: int | None = None
    """The heap of ``malloc`` on the device; None: as the variants' bounds ask for."""
    break_even: bool = True
    """Measure from where child launches pay, where a variant made some."""

    def limits(self) -> dict[Limit, int]:
        """The limits that were asked for."""
        requested: dict[Limit, int | None] = {
            "pending_launches": self.pending_launches,
            "malloc_heap_bytes": self.heap_bytes,
        }
        return {name: value for name, value in requested.items() if value is not None}
