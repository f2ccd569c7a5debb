"""CPU baselines: checked and timed after the kernels, as long as their time lasts; the others are skipped."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from spgraph_bench.device.base import DeviceInfo
from spgraph_bench.parameters import BASELINE_SECONDS
from spgraph_bench.runner.contact import Contact
from spgraph_bench.runner.plan import Cell, Outcome
from spgraph_bench.runner.recording import Recorder
from spgraph_bench.runner.rounds import time_cells
from spgraph_bench.runner.screening import OnAnswer, screen
from spgraph_bench.runner.settings import Settings
from spgraph_bench.timer import monotonic

__all__ = ["run_baselines"]

_RUNS = 13
"""Of a baseline at least: a warm-up and six samples of each series."""


def run_baselines(
    contact: Contact,
    cells: Sequence[Cell],
    records: Recorder,
    timed: Callable[[Cell], bool],
    settings: Settings,
    info: DeviceInfo,
    progress: Callable[[str], None],
    on_answer: OnAnswer | None,
    *,
    beside_kernels: bool,
) -> None:
    """Check and time `cells`, all of CPU variants, within the seconds of `settings`; `beside_kernels`: some ran in this
    run. What there is no time left for is recorded as skipped. A check may take half of the time that is left, so that
    a slow baseline leaves some to time the others."""
    seconds = settings.baseline_seconds
    if seconds is None:
        seconds = float(BASELINE_SECONDS.default) if beside_kernels else math.inf
    ends = monotonic() + seconds
    too_few = f"the {seconds:g} s of all CPU baselines are not enough to {{}} it too: --baseline-seconds"
    late, records.out_of_time = too_few.format("check"), too_few.format("time")
    right: list[Cell] = []
    for cell in cells:
        if (now := monotonic()) < ends:
            half = now + (ends - now) / 2
            right += screen(contact, [cell], records, timed, progress, on_answer, ends=half, late=late)
        else:
            records.record(cell, Outcome("skipped", late))
    for group in _in_turn(right, records, ends - monotonic()):
        if monotonic() < ends:
            time_cells(contact, group, records, settings, info, progress, ends=ends)
        else:
            for cell in group:
                records.record_out_of_time(cell)


def _in_turn(cells: Sequence[Cell], records: Recorder, left: float) -> list[list[Cell]]:
    """Groups to time: first those together that should end within `left` seconds by their first runs, then each of the
    others alone, whose first run may have taken longer than later ones do."""
    rising = sorted(cells, key=lambda cell: records.outcomes[cell.key].run_s)
    together: list[Cell] = []
    for cell in rising:
        left -= _RUNS * records.outcomes[cell.key].run_s
        if left < 0:
            break
        together.append(cell)
    alone = [[cell] for cell in rising[len(together) :]]
    return [[cell for cell in cells if cell in together], *alone] if together else alone
