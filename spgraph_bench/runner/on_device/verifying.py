"""Time: runs between the samples that see whether outputs are still right."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np

from spgraph_bench.errors import LaunchError
from spgraph_bench.measure.sampling import Cache, Ended, Taken
from spgraph_bench.measure.stopping import StoppingRule
from spgraph_bench.runner.messages import Event, Verified, Wrong
from spgraph_bench.runner.on_device.announcing import Announcer
from spgraph_bench.runner.on_device.assignment import Assignment
from spgraph_bench.runner.on_device.launches import Launches
from spgraph_bench.runner.on_device.second_look import SecondLook
from spgraph_bench.runner.on_device.stopwatches import Stopwatches
from spgraph_bench.runner.plan import Cell
from spgraph_bench.runner.prepare import Prepared
from spgraph_bench.runner.verify import Memory, WrongOutputError, error_text, listed
from spgraph_bench.tampering import replaced_functions
from spgraph_bench.timer import perf_counter

__all__ = ["VerifiedEvents", "Verifier"]

_ASLEEP_S = 0.02
"""After so long without work a GPU's clocks may have fallen."""


class Verifier:
    """Makes verifying runs of cells that are being timed."""

    def __init__(
        self,
        assignment: Assignment,
        launches: Launches,
        second_look: SecondLook,
        stopwatches: Stopwatches,
        announcer: Announcer,
    ) -> None:
        self._assignment, self._launches, self._second_look = assignment, launches, second_look
        self._stopwatches, self._announcer = stopwatches, announcer

    def run(self, cell: Cell, cache: Cache, number: int) -> float:
        """Verifying run `number` of `cell`, as a sample in this cache state; its time in ms.

        Raises WrongOutputError for whatever is wrong, a failing launch included (LaunchError where the device
        is of no more use).
        """
        self._announcer.announce_alone(cell)
        begin = perf_counter()
        prepared = self.prepared(cell)
        try:
            ms = self._second_look.run_again(cell, prepared, number, cache)
            if replaced := replaced_functions():
                raise WrongOutputError(f"it replaced {listed(replaced)}")
            if prepared.job.variant.where == "gpu" and perf_counter() - begin > _ASLEEP_S:
                self._stopwatches.cuda_clock().wake()
            return ms
        except WrongOutputError:
            raise
        except LaunchError as error:
            if not self._assignment.device_answers():
                raise
            raise WrongOutputError(f"after {prepared.runs:,} runs: {error}") from None
        except BaseException as error:  # Ctrl-C only sets a flag while variants are timed
            raise WrongOutputError(f"after {prepared.runs:,} runs: {error_text(error)}") from None
        finally:
            self._announcer.forget()

    def prepared(self, cell: Cell) -> Prepared:
        """The cell's variant, which is there while it is timed."""
        prepared = self._launches.ready(cell)
        assert prepared is not None
        return prepared


class VerifiedEvents:
    """The events of a timing call on their way to the parent, and the verifying runs between them.

    Each cell has three: after the last cold sample, after the last hot one, and one after a sample that is
    drawn from the seed, all taken as samples are. They are made between turns (:meth:`catch_up`), so that no
    hot sample finds its caches spoilt, and the end of a series goes out once its run was right.
    """

    def __init__(
        self, assignment: Assignment, verifier: Verifier, cells: Sequence[Cell], rule: StoppingRule, seed: int
    ) -> None:
        self.cells = {cell.key: cell for cell in cells}
        self._emit, self._verifier = assignment.emit, verifier
        self._memory = {key: Memory() for key in self.cells}
        self._middle: dict[str, int] = {}
        """After how many more samples the drawn one comes; gone when it was made."""
        for key in self.cells:
            drawn = int(np.random.PCG64([seed, zlib.crc32(key.encode())]).random_raw())
            self._middle[key] = 1 + drawn % (2 * rule.floor_samples - 1)
        self._due: list[tuple[str, Cache]] = []
        self._held: list[Ended] = []
        self._right: dict[str, list[str]] = {key: [] for key in self.cells}
        self._wrong: set[str] = set()

    def take(self, event: Taken | Ended) -> None:
        """A sample goes on; an end waits for its verifying run."""
        if isinstance(event, Ended):
            self._held.append(event)
            return
        if event.sample.valid:
            self._memory[event.key].seen(event.cache, event.sample.ms)
        if event.key in self._middle:
            self._middle[event.key] -= 1
            if self._middle[event.key] <= 0:
                del self._middle[event.key]
                self._due.append((event.key, event.cache))
        self._emit(Event(event))

    def catch_up(self) -> None:
        """Make the runs that are due."""
        due, self._due = self._due, []
        held, self._held = self._held, []
        for key, cache in due:
            self._verify(key, cache, 0)
        for end in held:
            if end.samples.stopped not in ("failed", "interrupted"):
                if self._middle.pop(end.key, None) is not None:
                    self._verify(end.key, end.cache, 0)
                self._verify(end.key, end.cache, 1 if end.cache == "cold" else 2)
            self._emit(Event(end))

    def _verify(self, key: str, cache: Cache, number: int) -> None:
        if key in self._wrong:
            return
        cell = self.cells[key]
        try:
            ms = self._verifier.run(cell, cache, number)
            self._memory[key].unseen(cache, ms)
        except WrongOutputError as error:
            self._wrong.add(key)
            self._emit(Wrong(cell, str(error)))
            return
        self._right[key].append(cache)
        right, runs = self._right[key], self._verifier.prepared(cell).runs
        self._emit(Verified(cell, {"verified": len(right), "verified_as": list(right), "runs": runs}))
