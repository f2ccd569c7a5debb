"""What a claim is, what a rule may look at, and the list of claims."""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

from spgraph_bench.registry import Registry
from spgraph_bench.report.text import significant
from spgraph_bench.results.record import Record
from spgraph_bench.results.tidy import paired

__all__ = [
    "Claim",
    "Evidence",
    "Figure",
    "NotMeasuredError",
    "Rule",
    "Run",
    "Status",
    "Verdict",
    "claim",
    "claims",
    "factor",
    "over",
]

Status = Literal["holds", "holds if", "does not", "needs a GPU", "not measured"]
"""The last two are not verdicts: the claim is about times, and there are none."""


@dataclass(frozen=True)
class Run:
    """Variants of a problem on one input, as ``bench`` runs them."""

    problem: str
    variants: tuple[str, ...]
    """Globs."""
    input: str | None = None
    """A recipe; None for a problem that makes its own inputs."""
    small: str | None = None
    """The recipe where kernels are emulated."""
    options: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    """The problem's, on a GPU."""
    small_options: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    dtype: str | None = None
    force_format: bool = False
    """Pack though a format wastes memory: its waste may be the point."""


@dataclass(frozen=True)
class Figure:
    """A number with its 95 % interval, where it has one."""

    what: str
    value: float
    low: float | None = None
    high: float | None = None
    unit: str = ""
    """"ms", "bytes", ...; empty for a count; "x" for a ratio."""

    @property
    def least(self) -> float:
        """The lower end, or the value where there is no interval."""
        return self.value if self.low is None else self.low

    @property
    def most(self) -> float:
        """The upper end, or the value."""
        return self.value if self.high is None else self.high


def over(what: str, a: Figure, b: Figure) -> Figure:
    """a / b; its interval is from the least to the most that the intervals of both allow."""

    def divided(x: float, y: float) -> float:
        return x / y if y > 0 else math.inf

    if None in (a.low, a.high, b.low, b.high):
        return Figure(what, divided(a.value, b.value), unit="x")
    return Figure(what, divided(a.value, b.value), divided(a.least, b.most), divided(a.most, b.least), "x")


def factor(value: float, digits: int = 2) -> str:
    """A factor, or a number in a sentence: 1.0, 3.7, 76."""
    return significant(value, digits)


@dataclass(frozen=True)
class Verdict:
    """What came of a claim."""

    status: Status
    why: str
    """One or two sentences; of "holds if" the condition first."""
    figures: tuple[Figure, ...] = ()
    changed: tuple[str, ...] = ()
    """Kernels that are others now than those measured."""


class NotMeasuredError(Exception):
    """A rule wants a figure that the records do not have; the message says which."""


class Evidence:
    """The records of a claim's runs, one sequence for each run, and what rules want to know of them."""

    def __init__(self, runs: Sequence[Sequence[Record]]) -> None:
        self.runs = [list(records) for records in runs]
        self._rows = [{id(record): row for record, row in paired(records)} for records in self.runs]
        self.used: list[Record] = []
        """Records that a rule took a figure from."""

    @property
    def emulated(self) -> bool:
        """Whether kernels ran on the host device, which counts and does not time."""
        return any(r.device.get("kind") == "host" for records in self.runs for r in records)

    def records(self, run: int, *globs: str) -> list[Record]:
        """The right ones of the variants that `globs` name, in the order met."""
        return [r for r in self.runs[run] if r.status == "ok" and any(fnmatch.fnmatchcase(r.variant, g) for g in globs)]

    def record(self, run: int, variant: str) -> Record:
        """The right record of a variant. Raises NotMeasuredError, with the reason of one that is not right."""
        matching = self.records(run, variant)
        if matching:
            self.used.append(matching[-1])
            return matching[-1]
        other = next((r for r in self.runs[run] if r.variant == variant), None)
        raise NotMeasuredError(f"{variant} is {other.status}: {other.reason}" if other else f"{variant} was not run")

    def time(self, run: int, variant: str) -> Figure:
        """Its cold median, in ms; of traversals that of a source."""
        record = self.record(run, variant)
        row = self._rows[run].get(id(record))
        if row is None or row["median_ms"] is None:
            raise NotMeasuredError(f"{variant} was not timed")
        return Figure(
            f"{variant} on {record.matrix.get('name')}", float(row["median_ms"]), row["low_ms"], row["high_ms"], "ms"
        )

    def fastest(self, run: int, *globs: str) -> tuple[str, Figure]:
        """The variant with the least median among those that were timed, and its time."""
        names = [r.variant for r in self.records(run, *globs) if (self._rows[run].get(id(r)) or {}).get("median_ms")]
        if not names:
            raise NotMeasuredError(f"none of {', '.join(globs)} was timed")
        timed = [(name, self.time(run, name)) for name in dict.fromkeys(names)]
        best = min(timed, key=lambda pair: pair[1].value)
        del self.used[-len(timed) :]
        self.record(run, best[0])
        return best

    def pays_after(self, run: int, variant: str) -> float:
        """Products until its setup is paid back against the best CSR variant of the same run; inf: never."""
        row = self._rows[run].get(id(self.record(run, variant)))
        if row is None or row["pays_after"] is None:
            raise NotMeasuredError(f"from when {variant} pays was not measured")
        return float(row["pays_after"])

    def count(self, run: int, variant: str, counter: str) -> Figure:
        """An event that the host device counts ("global_atomics", "kernel_launches", "reservations")."""
        record = self.record(run, variant)
        if record.counters is None or counter not in record.counters:
            raise NotMeasuredError(f"{counter} of {variant} are counted on the host device only")
        name = counter.replace("_", " ")
        return Figure(f"{name} of {variant} on {record.matrix.get('name')}", float(record.counters[counter]))

    def stored(self, run: int, variant: str) -> Figure:
        """Bytes of the matrix in its format."""
        record = self.record(run, variant)
        if not record.bytes.get("stored"):
            raise NotMeasuredError(f"the bytes of {variant} were not recorded")
        return Figure(f"{record.format} of {record.matrix.get('name')}", float(record.bytes["stored"]), unit="bytes")

    def per_nonzero(self, run: int, figure: Figure, scale: float = 1.0) -> Figure:
        """`figure` over the nonzeros of the run's matrix, times `scale`."""
        nnz = next(int(r.matrix["nnz"]) for r in self.runs[run])
        parts = [None if v is None else v * scale / max(1, nnz) for v in (figure.value, figure.low, figure.high)]
        assert parts[0] is not None
        return Figure(figure.what, parts[0], parts[1], parts[2], figure.unit)


Rule = Callable[[Evidence], Verdict]


@dataclass(frozen=True)
class Claim:
    """Something that is taught, what has to be run, and the rule that judges it."""

    name: str
    text: str
    taught: str
    """Where, in general terms."""
    runs: tuple[Run, ...]
    rule: Rule
    counted: bool
    """Whether counts judge it, which the host device has; else it is about times."""


_CLAIMS: Registry[str, Claim] = Registry("claim", "spgraph_bench.claims")


def claim(name: str, *, text: str, taught: str, runs: Sequence[Run], counted: bool = False) -> Callable[[Rule], Rule]:
    """Enter the decorated rule as a claim and return it unchanged. A name that is there twice is an error at import."""

    def enter(rule: Rule) -> Rule:
        _CLAIMS.enter(name, Claim(name, text, taught, tuple(runs), rule, counted))
        return rule

    return enter


def claims() -> Mapping[str, Claim]:
    """All claims by name, in the order of their modules."""
    return _CLAIMS.entries()
