"""What a sweep on a cluster does about lost workers, and how long it waits for a scheduler that does not answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from spgraph_bench.errors import DeviceError
from spgraph_bench.sweep.plan import Block
from spgraph_bench.timer import monotonic

__all__ = ["Next", "Patience", "after_loss"]

_ATTEMPTS = 2
"""After so many workers that died of it, a block's cells are given out one by one."""


@dataclass
class Patience:
    """Waits for something to be well again, but not forever."""

    problem: str
    """What the error says."""
    limit_s: float
    _since: float | None = None
    """When it was first not well."""

    def check(self, well: bool) -> None:
        """Called again and again with how it is now. Raises DeviceError where it was not well for too long."""
        if well:
            self._since = None
            return
        self._since = self._since or monotonic()
        if monotonic() - self._since > self.limit_s:
            raise self.error()

    def error(self) -> DeviceError:
        """What is raised in the end."""
        return DeviceError(self.problem, remedy="start it again, and give the same command: what is measured is kept")


@dataclass(frozen=True)
class Next:
    """What becomes of the blocks of a worker that was lost."""

    again: tuple[tuple[tuple[Block, ...], int], ...]
    """Tasks to give out next, in this order: (blocks, the attempt that this is at the first of them)."""
    failed: Block | None = None
    """The block of one cell that is a failure."""


def after_loss(left: Sequence[Block], losses: int) -> Next:
    """What to do with `left`: blocks with the cells that have no record, first the one that was being measured.

    `losses`: workers that were lost while they measured that one. All goes to another worker. A block that costs two
    workers is given out cell by cell, and a cell that costs one more is a failure.
    """
    current, others = left[0], tuple(left[1:])
    if losses < _ATTEMPTS:
        return Next(((tuple(left), losses + 1),))
    rest = ((others, 1),) if others else ()
    if len(current.cells) == 1:
        return Next(rest, current)
    alone = tuple(((replace(current, cells=(cell,)),), _ATTEMPTS) for cell in current.cells)
    return Next((*alone, *rest))
