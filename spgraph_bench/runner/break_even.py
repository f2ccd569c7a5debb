"""From how much work per child a launch from the device pays on this GPU: measured, not assumed.

A thread that finds a task can do it by itself or launch a child grid for it. For several numbers of such
threads the size of the task is raised until launching is the faster way; there both are measured with care.
The kernels are those of `spgraph bench launch`: `inline` and `fire-and-forget`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np

from spgraph_bench.device.base import Device
from spgraph_bench.errors import LaunchError
from spgraph_bench.formats import get_format
from spgraph_bench.matrix import CSR
from spgraph_bench.measure.sampling import Sample
from spgraph_bench.problems.launch import SUMS
from spgraph_bench.results.interval import Interval, median_interval
from spgraph_bench.results.launch import crossing
from spgraph_bench.runner.children import children_of
from spgraph_bench.runner.prepare import Prepared, prepare
from spgraph_bench.variants.base import Launch, get_variant

__all__ = ["COUNTS", "measure_break_even"]

COUNTS = (1, 10, 100, 1000, 10_000)
"""Tasks at a time; those that the pool of waiting launches has room for are measured."""

_MOST_ITEMS = 1 << 20
_GLANCES, _SAMPLES, _FEWEST = 5, 25, 7
_SECONDS = 0.5
"""Time for measuring with care, for each number of tasks."""
_LONGEST_MS = 20.0
"""A task that takes longer than this is beyond what anybody asks about."""


class _Clock(Protocol):
    def sample(self, launch: Launch, cache: Literal["cold", "hot"]) -> Sample: ...


@dataclass
class _Way:
    """One of the two ways, for one number of tasks."""

    prepared: Prepared
    cases: dict[int, int]
    """Which case has so many items."""
    clock: _Clock

    def times(self, items: int, count: int) -> list[float]:
        """`count` times in ms, hot. Raises LaunchError when samples are not valid."""
        self.prepared.launch.select(self.cases[items])
        samples = [self.clock.sample(self.prepared.launch, "hot") for _ in range(count + 1)][1:]
        if bad := next((sample for sample in samples if not sample.valid), None):
            raise LaunchError(f"{self.prepared.job.variant.name} cannot be timed: {bad.reason}")
        return [sample.ms for sample in samples]


def _sizes() -> list[int]:
    """Items of a task to try: none, then four sizes to each doubling."""
    steps = 4 * int(np.log2(_MOST_ITEMS))
    return [0, *sorted({round(2 ** (step / 4)) for step in range(steps + 1)})]


def _prepared(device: Device, name: str, tasks: int, sizes: Sequence[int]) -> Prepared:
    empty = CSR(0, 0, np.zeros(1, np.int64), np.empty(0, np.int32), None)
    inputs = {"tasks": np.full(len(sizes), tasks, np.int32), "items": np.array(sizes, np.int32)}
    outputs = {"result": ((1 + SUMS,), np.dtype(np.uint64))}
    packed = get_format("none").pack(empty)
    return prepare(device, get_variant("launch", name), packed, inputs, outputs)


def measure_break_even(
    device: Device, clock: _Clock, pending_launches: int, progress: Callable[[str], None]
) -> tuple[dict[str, Any], ...]:
    """For each number of children: the work of a task in us above which launching it is the faster way.

    Each is a mapping of ``children``, ``us`` and its interval ``low_us`` and ``high_us``, and ``child_us``,
    what launching an empty child costs when so many are launched side by side. The work is the time that one
    thread needs for the task by itself, while the others do theirs. Numbers of children for which launching
    never paid are omitted. `progress` hears what is being done.
    """
    sizes = _sizes()
    cases = {items: number for number, items in enumerate(sizes)}
    points = []
    start = 4
    for tasks in COUNTS:
        if tasks > pending_launches:
            break
        progress(f"{tasks:,} children at a time")
        inline, child = (
            _Way(_prepared(device, name, tasks, sizes), cases, clock) for name in ("inline", "fire-and-forget")
        )
        bracket = _bracket(inline, child, sizes, start)
        if bracket is not None:
            start = bracket[-1]
            around = [sizes[k] for k in bracket]
            one = inline.times(around[-1], 1)[0] + child.times(around[-1], 1)[0]
            samples = max(_FEWEST, min(_SAMPLES, int(_SECONDS * 1e3 / (2 * len(around) * one))))
            series: dict[int, tuple[list[float], list[float]]] = {items: ([], []) for items in around}
            for _ in range(samples):  # in turns, so that drift hits all alike
                for items in around:
                    series[items][0].extend(inline.times(items, 1))
                    series[items][1].extend(child.times(items, 1))
            spans: list[tuple[Interval, Interval]] = []
            for items in around:
                done, launched = (median_interval(times) for times in series[items])
                if done is not None and launched is not None:
                    spans.append((done, launched))
            if (us := crossing(spans, _middle(inline.times(0, _FEWEST)))) is not None:
                empty = _middle(child.times(0, _FEWEST)) * 1e3 / tasks
                points.append({"children": tasks, "us": us[0], "low_us": us[1], "high_us": us[2], "child_us": empty})
        if (lost := children_of(child.prepared.job)) is not None:
            lost.must_be_whole({}, {"pending_launches": pending_launches})
    return tuple(points)


def _bracket(inline: _Way, child: _Way, sizes: Sequence[int], step: int) -> range | None:
    """Places in `sizes`, at a glance: at the first doing a task is the faster way, at the last launching is.

    None where launching does not pay for any task that takes a thread less than 20 ms.
    """

    def pays(k: int) -> bool:
        return _middle(child.times(sizes[k], _GLANCES)) < _middle(inline.times(sizes[k], _GLANCES))

    while step > 4 and pays(step - 4):
        step -= 4
    while not pays(step):
        if step + 4 >= len(sizes) or inline.times(sizes[step], 1)[0] > _LONGEST_MS:
            return None
        step += 4
    # A step to each side, in case the glance was not good enough.
    return range(max(1, step - 5), min(len(sizes), step + 2))


def _middle(times: Sequence[float]) -> float:
    return float(np.median(times))
