"""Keeps a worker of a cluster to its share of the cores, so that neighbours do not slow what it times.

Dask runs :func:`dask_setup` in a worker's process before its first task (``preload``). This module imports nothing of
spgraph, so that what counts cores while it is imported counts those of the share.
"""

from __future__ import annotations

import contextlib
import os
import signal

__all__ = ["CORES", "dask_setup", "pin", "shares"]

CORES = "SPGRAPH_CORES"
"""Environment variable: numbers of the cores of this worker, with commas between."""


def shares(cores: list[int], workers: int, each: int | None = None) -> list[list[int]]:
    """The cores of each worker: neighbouring ones, as many for each, none for two; `each`: so many.

    Empty lists where there are fewer cores than that takes: then no worker is pinned.
    """
    size = each or len(cores) // workers
    if size < 1 or size * workers > len(cores):
        return [[] for _ in range(workers)]
    return [cores[i * size : (i + 1) * size] for i in range(workers)]


def pin(cores: list[int]) -> None:
    """Keep all threads of this process, and what it starts from now on, to `cores`. On Linux only."""
    if not cores or not hasattr(os, "sched_setaffinity"):
        return
    for thread in os.listdir("/proc/self/task"):
        try:
            os.sched_setaffinity(int(thread), cores)
        except OSError:
            continue  # it has ended, or a container does not let us


def dask_setup(worker: object) -> None:
    """Called by Dask in each worker's process. A terminal sends it Ctrl-C, too, which is the driver's to handle."""
    with contextlib.suppress(ValueError):  # not the main thread: a worker that was started in another way
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    pin([int(number) for number in os.environ.get(CORES, "").split(",") if number])
