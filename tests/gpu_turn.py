"""Who may use the GPU when several tests run at a time: many together, or one alone.

Two files are locked with ``flock``, which the system drops with the process. A test that wants the GPU alone
waits for the others with the first file in hand, so that no new one overtakes it.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["gpu_turn"]


@contextmanager
def gpu_turn(folder: Path, alone: bool) -> Iterator[None]:
    """Hold the GPU: with others, or `alone`. All who share it name the same `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "gpu.queue").open("a") as queue, (folder / "gpu.use").open("a") as use:
        fcntl.flock(queue, fcntl.LOCK_EX)
        fcntl.flock(use, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        fcntl.flock(queue, fcntl.LOCK_UN)
        yield
