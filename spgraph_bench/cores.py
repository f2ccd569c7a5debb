"""How many CPUs there are to work with, and work for all of them."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

__all__ = ["core_limit", "limit_cores", "on_all_cores", "usable_cores"]

T = TypeVar("T")
Item = TypeVar("Item")


_limit: int | None = None


def usable_cores() -> int:
    """CPUs that this process may use: those of its affinity mask, where the system has one, else all; no more than
    :func:`limit_cores` allows."""
    there = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return there if _limit is None else min(there, _limit)


def core_limit() -> int | None:
    """What :func:`limit_cores` was called with last."""
    return _limit


def limit_cores(most: int | None) -> None:
    """Let recipes, readers, conversions, compiling and CPU variants of this process, and of workers that it starts from
    now on, take `most` threads at most; None: as many as there are CPUs. Raises ValueError below 1."""
    global _limit
    if most is not None and most < 1:
        raise ValueError(f"{most} threads: at least 1 is needed")
    _limit = most


def on_all_cores(work: Callable[[Item], T], items: Iterable[Item]) -> Iterator[tuple[Item, T]]:
    """``(item, work(item))`` for each item, in order, in threads: for what numpy does without Python's lock.

    No more than two items a thread are at work or wait to be taken.
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
