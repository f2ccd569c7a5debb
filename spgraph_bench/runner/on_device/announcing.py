"""Time: the parent knows whose launch comes next, so that it knows whom to blame for a hang."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from spgraph_bench.errors import LaunchError
from spgraph_bench.measure.sampling import Clock, Sample
from spgraph_bench.runner.messages import Message, NextCell
from spgraph_bench.runner.plan import Cell
from spgraph_bench.runner.prepare import Prepared
from spgraph_bench.runner.verify import error_text
from spgraph_bench.timer import monotonic
from spgraph_bench.variants.base import Launch

__all__ = ["Announcer", "AnnouncingClock"]


class Announcer:
    """Tells which cell runs next, unless a message was sent less than a second ago: samples are short."""

    def __init__(self, emit: Callable[[Message], None]) -> None:
        self._emit = emit
        self._last: tuple[Cell | None, float] = (None, 0.0)

    def announce(self, cell: Cell) -> None:
        """Send it, unless it was sent just now."""
        now = monotonic()
        if cell is not self._last[0] or now - self._last[1] > 1.0:
            self._last = (cell, now)
            self._emit(NextCell(cell))

    def announce_alone(self, cell: Cell) -> None:
        """Send it in any case; :meth:`announce` sends its own again after :meth:`forget`."""
        self._emit(NextCell(cell))

    def forget(self) -> None:
        """Something else ran in between."""
        self._last = (None, 0.0)


class AnnouncingClock:
    """A clock that announces each sample."""

    def __init__(self, clock: Clock, cell: Cell, prepared: Prepared, announcer: Announcer) -> None:
        self._clock, self._cell, self._prepared, self._announcer = clock, cell, prepared, announcer
        self.name = clock.name
        self.evict_bytes = clock.evict_bytes

    def gates(self, launch: Launch) -> bool:
        """See :class:`spgraph_bench.measure.sampling.Clock`."""
        return self._clock.gates(launch)

    def sample(self, launch: Launch, cache: Any) -> Sample:
        """See :class:`spgraph_bench.measure.sampling.Clock`."""
        self._announcer.announce(self._cell)
        self._prepared.runs += 1
        try:
            return self._clock.sample(launch, cache)
        except (
            SystemExit,
            KeyboardInterrupt,
            GeneratorExit,
        ) as error:  # a host function's: Ctrl-C only sets a flag here
            raise LaunchError(f"its host function raised {error_text(error)}") from None
        except LaunchError:
            raise
        except Exception as error:
            raise LaunchError(error_text(error)) from error
