"""Messages about a sweep: progress on stderr while it runs, and a summary on stdout when it has ended."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from spgraph_bench.cli.terminal import console, out, say, table
from spgraph_bench.errors import NothingRanError

if TYPE_CHECKING:
    from spgraph_bench.results.record import Record
    from spgraph_bench.sweep.journal import Done, Journal
    from spgraph_bench.sweep.local import Ended
    from spgraph_bench.sweep.plan import Plan

__all__ = ["Lines", "duration", "exit_status", "records_of", "summarise"]

_LONGEST_TABLE = 60
"""Rows of the summary; of a longer sweep only what went wrong is listed."""


class Lines:
    """What is told on stderr: a line for each block that has ended, and in a terminal what is being done."""

    def __init__(self) -> None:
        self._console = console(stderr=True) if sys.stderr.isatty() else None
        self._status = self._console.status("starting") if self._console else None
        self._shown = 0.0
        self._left = ""

    def __enter__(self) -> Lines:
        if self._status is not None:
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._status is not None:
            self._status.stop()

    def doing(self, text: str) -> None:
        """Show what is being done: in a terminal only."""
        if self._status is not None and (now := time.monotonic()) - self._shown > 0.1:
            from rich.text import Text

            self._shown = now
            self._status.update(Text(f"{text}{self._left}"))

    def warning(self, text: str) -> None:
        """Say that something is not as it should be, while the sweep goes on."""
        self._say(f"warning: {text}")

    def ended(self, end: Ended, seconds_left: float) -> None:
        """Say what came of a block."""
        counts = _counts(record.status for record in end.records)
        self._left = f" ({duration(seconds_left)} left)" if seconds_left >= 0.5 else ""
        took = f" in {end.seconds:.1f} s" if end.seconds else ""
        where = f" on worker {end.worker}" if end.worker else ""
        self._say(f"{end.block.title}: {counts}{took}{where}{self._left}")

    def _say(self, text: str) -> None:
        if self._console is None:
            say(text)
        else:
            from rich.text import Text

            self._console.print(Text(text))


def _counts(statuses: Iterator[str] | Sequence[str]) -> str:
    listed = list(statuses)
    parts = [f"{listed.count(s):,} {s}" for s in ("ok", "skipped", "failed", "wrong") if s in listed]
    return ", ".join(parts) or "nothing"


def duration(seconds: float) -> str:
    """ "40 s", "12 min", "3 h 20 min"."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def _done_cells(plan: Plan, journal: Journal) -> list[Done]:
    """What the journal has of this plan, in its order."""
    by_cell: dict[str, list[Done]] = {}
    for done in journal.done.values():
        by_cell.setdefault(done.cell, []).append(done)
    return [done for block in plan.blocks for cell in block.cells for done in by_cell.get(block.cell_key(cell), ())]


def records_of(plan: Plan, journal: Journal) -> list[Record]:
    """The records of the plan's cells, from the file or from memory."""
    from spgraph_bench.results.store import read_records

    known = {block.cell_key(cell) for block in plan.blocks for cell in block.cells}
    records = read_records(journal.path) if journal.path is not None and journal.done else journal.records
    return [record for record in records if record.sweep.get("cell") in known]


def summarise(plan: Plan, journal: Journal) -> None:
    """On stdout: a line for each table, what failed, and the totals."""
    groups: dict[tuple[str, str, str, str, str], list[Done]] = {}
    for done in _done_cells(plan, journal):
        block_key = done.cell.partition("/")[0]
        groups.setdefault((done.matrix, done.problem, done.dtype, done.device, block_key), []).append(done)
    if not groups:
        return
    if len(groups) <= _LONGEST_TABLE:
        _draw(plan, groups)
    bad = [done for cells in groups.values() for done in cells if done.status in ("failed", "wrong")]
    reasons: dict[tuple[str, str, str, str], list[str]] = {}
    for done in bad:
        reasons.setdefault((done.status, done.problem, done.matrix, done.reason), []).append(done.variant)
    for (status, problem, matrix, reason), names in list(reasons.items())[:_LONGEST_TABLE]:
        some = ", ".join(dict.fromkeys(names)) if len(names) < 4 else f"{len(names)} cells"
        out(f"{status}: {problem} {matrix}, {some}: {' '.join(reason.split())}")
    everything = [done.status for cells in groups.values() for done in cells]
    out(f"{len(everything):,} of {plan.cells:,} cells: {_counts(everything)}")


def _draw(plan: Plan, groups: Mapping[tuple[str, str, str, str, str], Sequence[Done]]) -> None:
    from rich.text import Text

    options = {block.key: ", ".join(f"{k} {v}" for k, v in block.options.items()) for block in plan.blocks}
    target = console()
    drawn = table(target, "matrix", "problem", "type", "options", "fastest", "ms", "ok", "skipped", "bad")
    for column in drawn.columns[5:]:
        column.justify = "right"
    for (matrix, problem, dtype, _, key), cells in groups.items():
        timed = [done for done in cells if done.median_ms is not None and done.status == "ok"]
        best = min(timed, key=lambda done: done.median_ms or 0.0, default=None)
        statuses = [done.status for done in cells]
        texts = [
            matrix,
            problem,
            dtype,
            options.get(key, ""),
            best.variant if best else "",
            f"{best.median_ms:.4g}" if best else "",
            *(f"{statuses.count(status):,}" for status in ("ok", "skipped")),
            f"{statuses.count('failed') + statuses.count('wrong'):,}",
        ]
        drawn.add_row(*(Text(text) for text in texts))
    target.print(drawn)


def exit_status(plan: Plan, journal: Journal) -> int:
    """The exit status: 1 where something failed or was wrong. Raises NothingRanError where all was skipped."""
    statuses = {done.status for done in _done_cells(plan, journal)}
    if statuses & {"failed", "wrong"}:
        return 1
    if statuses and "ok" not in statuses:
        raise NothingRanError("nothing ran: every cell was skipped", remedy="`--dry-run` shows the reasons")
    return 0
