"""The clock of variants that run on the CPU: the libraries that spgraph's kernels are compared with."""

from __future__ import annotations

import concurrent.futures.thread
import gc
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal

import numpy as np

from spgraph_bench.cores import usable_cores
from spgraph_bench.measure.sampling import Cache, Sample
from spgraph_bench.timer import perf_counter_ns
from spgraph_bench.variants.base import Launch

__all__ = ["CpuClock", "last_level_cache_bytes"]


def _join(before: set[threading.Thread]) -> None:
    """Wait for the threads that were started since `before`. Those of a pool, which never end, are its
    executor's: they are left."""
    pools = getattr(concurrent.futures.thread, "_threads_queues", {})
    for thread in threading.enumerate():
        if thread not in before and thread not in pools:
            thread.join()


def last_level_cache_bytes() -> int:
    """Size of the CPU's last-level cache as Linux tells it; 32 MiB where it does not."""
    sizes: list[tuple[int, int]] = []
    for index in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"):
        try:
            level = int((index / "level").read_text())
            text = (index / "size").read_text().strip()
            unit = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1:], 1)
            sizes.append((level, int(text.rstrip("KMG")) * unit))
        except (OSError, ValueError):
            continue
    return max(sizes)[1] if sizes else 32 << 20


class CpuClock:
    """Times CPU variants with ``time.perf_counter_ns``, garbage collection held off.

    A run that leaves threads of Python behind is timed until they have ended: the result is theirs.

    Cold: before the sample a buffer of min(4 x last-level cache, 256 MB) is read, a part of it by each of up
    to four threads. Where the last-level cache is larger than that, or further cores have private caches,
    part of the data may stay cached: the buffer's size is in the record.
    """

    name: Literal["cpu"] = "cpu"

    def __init__(self, evict_bytes: int | None = None) -> None:
        size = min(4 * last_level_cache_bytes(), 256_000_000) if evict_bytes is None else evict_bytes
        # Ones, not zeros: untouched zero pages are all one physical page, which evicts nothing.
        self._buffer = np.ones(size // 8, np.int64)
        threads = min(4, usable_cores())
        self._parts = np.array_split(self._buffer, threads)
        self._readers = ThreadPoolExecutor(threads, "evict")

    @property
    def evict_bytes(self) -> int:
        """Bytes that four threads read before a cold sample."""
        return int(self._buffer.nbytes)

    def gates(self, launch: Launch) -> bool:
        """False: CPU runs need no gate."""
        return False

    def sample(self, launch: Launch, cache: Cache) -> Sample:
        """One run, timed with the monotonic clock, in ms. Raises what the launch raises."""
        launch.reset()
        if cache == "cold":
            for _ in self._readers.map(np.sum, self._parts):
                pass
        collecting = gc.isenabled()
        before = set(threading.enumerate())
        gc.disable()
        try:
            begin = perf_counter_ns()
            launch.run()
            if threading.active_count() != len(before):
                _join(before)
            end = perf_counter_ns()
        finally:
            if collecting:
                gc.enable()
        return Sample((end - begin) / 1e6)
