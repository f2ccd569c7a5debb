"""Two sets of records, cell by cell: what became faster or slower, and how sure that is.

A cell is one variant with its parameters on one matrix in one value type. Two cells differ only where the intervals
of their medians do not meet *and* the medians differ by more than a threshold: either test alone raises false alarms,
the first on tiny shifts that every second run has, the second on noise.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from spgraph_bench.results.cases import case_medians, cycles
from spgraph_bench.results.interval import SMALLEST, median_interval
from spgraph_bench.results.record import Record, Samples, plain
from spgraph_bench.results.statistics import Ratio, ratio

__all__ = ["ALLOWED", "Cell", "Comparison", "Verdict", "compare_records", "difference", "regressed", "verdict_of"]

Verdict = Literal["faster", "slower", "same", "unsure", "broken", "repaired", "lost", "not timed"]
"""broken: ok before, wrong or failed now; repaired: the other way round; lost: ok before, skipped now."""

ALLOWED: dict[str, str] = {
    "device": "another GPU or CPU",
    "driver": "another driver or CUDA version",
    "library": "another version of a library that was timed",
    "policy": "another way of measuring (gate, eviction) or of reading the file",
}
"""What two records may differ in only where it is allowed, and what that means."""


@dataclass(frozen=True)
class Cell:
    """One cell of both sides."""

    base: Record
    new: Record
    verdict: Verdict
    times: Ratio | None
    """Time of the new one over that of the base; None where there are too few samples or none."""
    base_ms: float | None = None
    new_ms: float | None = None
    notes: tuple[str, ...] = ()
    """What differs in a pair that was matched all the same."""


@dataclass(frozen=True)
class Comparison:
    """All cells of two sets of records."""

    cells: tuple[Cell, ...]
    only_base: tuple[Record, ...]
    only_new: tuple[Record, ...]
    threshold: float
    refused: dict[str, str] = field(default_factory=dict)
    """What differs that was not allowed, with both values: {"driver": "580.1 and 590.2"}. No verdict then counts."""

    def count(self, verdict: Verdict) -> int:
        """How many cells have this verdict."""
        return sum(cell.verdict == verdict for cell in self.cells)


def _key(record: Record) -> tuple[str, ...]:
    """What a cell is, its parameters omitted."""
    options = json.dumps(plain(record.options), sort_keys=True)
    return (
        str(record.matrix.get("sha256")),
        record.problem,
        record.variant,
        record.where,
        record.dtype,
        record.offsets,
        record.reorder,
        options,
        str(record.seed),
    )


def _params(record: Record) -> str:
    return json.dumps(plain(record.params), sort_keys=True)


def _gathered(records: Iterable[Record]) -> dict[tuple[str, ...], dict[str, list[Record]]]:
    """Key -> parameters -> records, in the order met: a cell may have been run several times."""
    groups: dict[tuple[str, ...], dict[str, list[Record]]] = {}
    for record in records:
        groups.setdefault(_key(record), {}).setdefault(_params(record), []).append(record)
    return groups


def _pairs(
    base: Sequence[Record], new: Sequence[Record]
) -> tuple[list[tuple[list[Record], list[Record]]], list[Record], list[Record]]:
    """Runs of the same cell on both sides; first those whose parameters agree, then what is left over of a cell, where
    that is one on each side: a default that changed must not hide a regression."""
    before, after = _gathered(base), _gathered(new)
    pairs, only_base, only_new = [], [], []
    for key, sets in before.items():
        others = dict(after.pop(key, {}))
        left = []
        for params, runs in sets.items():
            if params in others:
                pairs.append((runs, others.pop(params)))
            else:
                left.append(runs)
        if len(left) == len(others) == 1:
            pairs.append((left.pop(), others.popitem()[1]))
        only_base += [runs[-1] for runs in left]
        only_new += [runs[-1] for runs in others.values()]
    only_new += [runs[-1] for sets in after.values() for runs in sets.values()]
    return pairs, only_base, only_new


def _facts(record: Record, cache: str) -> dict[str, str]:
    """What has to agree, by the name in :data:`ALLOWED`."""
    device, samples = record.device, record.sampled(cache)
    on_cpu = record.where == "cpu"
    name = record.environment.get("cpu") if on_cpu else device.get("name")
    policies = {k: v for k, v in dict(record.matrix.get("policies", {})).items() if not k.endswith("_found")}
    measured = (samples.clock, samples.gated, samples.evict_bytes) if samples else ()
    facts = {"device": str(name), "policy": json.dumps([policies, measured], sort_keys=True, default=str)}
    if not on_cpu:
        facts["driver"] = f"{device.get('driver')}, CUDA {device.get('toolkit')}"
    if record.library:
        versions = record.environment.get("libraries", {})
        facts["library"] = f"{record.library} {versions.get(record.library, '')}".strip()
    return facts


def _differing(base: Record, new: Record, cache: str) -> dict[str, str]:
    before, after = _facts(base, cache), _facts(new, cache)
    both_timed = base.sampled(cache) is not None and new.sampled(cache) is not None
    return {
        name: f"{before.get(name, 'none')} and {after.get(name, 'none')}"
        for name in before | after
        if before.get(name) != after.get(name) and (both_timed or name in ("device", "driver"))
    }


def _series(runs: Sequence[Record], cache: str) -> list[Samples]:
    return [samples for record in runs if (samples := record.sampled(cache)) and samples.times_ms]


def _cases(runs: Sequence[Record]) -> tuple[Any, ...]:
    return tuple(case.get("source") for case in runs[-1].cases)


def difference(base: Sequence[Record], new: Sequence[Record], cache: str) -> tuple[Ratio | None, float, float]:
    """Time of `new` over `base` (runs of one cell each) with its interval, and both medians in ms.

    One case: the ratio of the medians of all samples (see :func:`spgraph_bench.results.statistics.ratio`). Several
    (sources): the median over cases of the ratio of a case's medians, with its distribution-free interval: sources
    differ from each other by far more than a source does from itself. None below 6 samples.
    """
    before, after = _series(base, cache), _series(new, cache)
    count = len(base[-1].cases)
    if count < SMALLEST:
        flat = [[t for s in side for t in (cycles(s, count) if count > 1 else s.times_ms)] for side in (before, after)]
        spans = [median_interval(times) for times in flat]
        medians = [_median(times) / max(count, 1) for times in flat]
        if spans[0] is None or spans[1] is None:
            return None, medians[0], medians[1]
        return ratio(spans[1], spans[0]), medians[0], medians[1]
    each = [_joined(side, count) for side in (before, after)]
    medians = [sum(side) / len(side) if side else math.nan for side in each]
    if len(each[0]) != count or len(each[1]) != count:
        return None, medians[0], medians[1]
    span = median_interval([b / a if a > 0 else math.inf for a, b in zip(*each, strict=True)])
    return Ratio(span.median, span.low, span.high) if span else None, medians[0], medians[1]


def _median(times: Sequence[float]) -> float:
    rising = sorted(times)
    return rising[len(rising) // 2] if rising else math.nan


def _joined(side: Sequence[Samples], count: int) -> list[float]:
    """Median of each case over several series."""
    whole = [medians for s in side if len(medians := case_medians(s, count)) == count]
    return [_median([medians[i] for medians in whole]) for i in range(count)] if whole else []


def verdict_of(times: Ratio | None, threshold: float) -> Verdict:
    """What an interval of new over base says, `threshold` 0.03 for 3 %."""
    if times is None:
        return "unsure"
    most = 1 + threshold
    if times.low > 1 and times.value > most:
        return "slower"
    if times.high < 1 and times.value < 1 / most:
        return "faster"
    return "same" if times.high <= most and times.low >= 1 / most else "unsure"


def _verdict(base: Record, new: Record, times: Ratio | None, threshold: float) -> Verdict:
    if base.status == "ok" and new.status in ("wrong", "failed"):
        return "broken"
    if base.status == "ok" and new.status == "skipped":
        return "lost"
    if new.status == "ok" and base.status in ("wrong", "failed"):
        return "repaired"
    if base.status != "ok" or new.status != "ok" or not (base.samples and new.samples):
        return "not timed"
    return verdict_of(times, threshold)


def compare_records(
    base: Sequence[Record],
    new: Sequence[Record],
    *,
    threshold: float = 0.03,
    cache: Literal["cold", "hot"] = "cold",
    allow: Iterable[str] = (),
) -> Comparison:
    """Every cell of `base` and `new` with its verdict.

    Parameters
    ----------
    base, new : records of any number of runs; runs of the same cell are taken together.
    threshold : what is too small to count, as a share: 0.03 is 3 %.
    cache : the samples compared.
    allow : names of :data:`ALLOWED` in which the sides may differ.
    """
    pairs, only_base, only_new = _pairs(base, new)
    cells: list[Cell] = []
    refused: dict[str, str] = {}
    for before, after in pairs:
        a, b = before[-1], after[-1]
        differing = _differing(a, b, cache)
        refused |= {name: text for name, text in differing.items() if name not in allow}
        notes = [f"{name}: {text}" for name, text in differing.items() if name != "policy"]
        if (p := _params(a)) != (q := _params(b)):
            notes.append(f"parameters {p} and {q}")
        if _cases(before) != _cases(after):
            notes.append("other sources")
            times, one, two = None, math.nan, math.nan
        else:
            times, one, two = difference(before, after, cache)
        medians = [None if math.isnan(ms) else ms for ms in (one, two)]
        cells.append(Cell(a, b, _verdict(a, b, times, threshold), times, medians[0], medians[1], tuple(notes)))
    return Comparison(tuple(cells), tuple(only_base), tuple(only_new), threshold, refused)


def regressed(comparison: Comparison, *, strict: bool = False) -> bool:
    """Whether CI should fail: something is slower or broken; with `strict` also unsure, lost or on one side only."""
    bad: set[str] = {"slower", "broken"}
    if strict:
        bad |= {"unsure", "lost"}
    return any(cell.verdict in bad for cell in comparison.cells) or (strict and bool(comparison.only_base))
