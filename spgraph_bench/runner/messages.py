"""What a worker says to its parent while a call works."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:  # the parent starts a worker's process before it loads anything large
    from spgraph_bench.measure.sampling import Ended, Taken
    from spgraph_bench.runner.plan import Cell

__all__ = ["Event", "Message", "NextCell", "Part", "Stage", "Verified", "Wrong"]


@dataclass(frozen=True)
class Message:
    """Any of them."""

    frequent: ClassVar[bool] = False
    """Whether it comes by the thousand, and may wait for others to be sent with."""


@dataclass(frozen=True)
class Stage(Message):
    """What is being done."""

    text: str
    guarded: bool
    """Whether it is done on the device, under the watchdog."""


@dataclass(frozen=True)
class NextCell(Message):
    """The cell whose launch comes next: it is to blame for a hang."""

    cell: Cell


@dataclass(frozen=True)
class Event(Message):
    """A sample, or the end of a series."""

    event: Taken | Ended
    frequent: ClassVar[bool] = True


@dataclass(frozen=True)
class Part(Message):
    """What a part of the cell's run takes alone."""

    cell: Cell
    name: str
    """Of the time in the record: "parents_ms"."""
    ms: float


@dataclass(frozen=True)
class Verified(Message):
    """Outputs of the cell after timing were right; comes before its last :class:`Event`."""

    cell: Cell
    details: Mapping[str, Any]
    """For ``Record.check``."""


@dataclass(frozen=True)
class Wrong(Message):
    """One of them was not."""

    cell: Cell
    reason: str
