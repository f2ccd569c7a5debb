"""How many CPUs there are to work with, and work for all of them."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

__all__ = ["on_all_cores", "usable_cores"]

T = TypeVar("T")
Item = TypeVar("Item")


def usable_cores() -> int:
    """CPUs that this process may use: those of its affinity mask, where the system has one, else all."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def on_all_cores(work: Callable[[Item], T], items: Iterable[Item]) -> Iterator[tuple[Item, T]]:
    """``(item, work(item))`` for each item, in order, in threads: for what numpy does without Python's lock.

    No more than two items a core are at work or wait to be taken.
    """
    cores = usable_cores()
    with ThreadPoolExecutor(cores) as pool:
        waiting: deque[tuple[Item, Future[T]]] = deque()
        for item in items:
            waiting.append((item, pool.submit(work, item)))
            if len(waiting) == 2 * cores:
                done, result = waiting.popleft()
                yield done, result.result()
        while waiting:
            done, result = waiting.popleft()
            yield done, result.result()
