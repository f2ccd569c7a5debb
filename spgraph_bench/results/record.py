"""Records: what one cell (variant x matrix x dtype) gave, documented and self-contained.

A record keeps raw samples; medians, intervals and rates are derived when read, never stored in their place.
The schema is described in docs/records.md; :data:`SCHEMA` rises when a field changes meaning.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from types import UnionType
from typing import Any, Literal, Union, cast, get_args, get_origin, get_type_hints

import numpy as np

__all__ = ["SCHEMA", "Ceiling", "Record", "Samples", "Status", "Stopped", "plain"]

SCHEMA = 1

Status = Literal["ok", "skipped", "failed", "wrong"]
Stopped = Literal["converged", "time limit", "sample limit", "interrupted", "failed"]


@dataclass(frozen=True)
class Samples:
    """Raw times of one variant in one cache state, and how they were taken."""

    cache: Literal["cold", "hot"]
    times_ms: tuple[float, ...]
    """In the order taken, dropped samples omitted."""
    clock: Literal["cuda-events", "cpu"]
    gated: bool
    warmups: int
    stopped: Stopped
    """Why sampling stopped."""
    dropped: Mapping[str, int] = field(default_factory=dict)
    """Dropped samples by reason: "throttled", "gate timeout"."""
    sm_clock_mhz: tuple[int, ...] = ()
    """SM clock seen while sampling, (lowest, median, highest); empty where it cannot be read."""
    throttle: tuple[str, ...] = ()
    """Throttle reasons seen."""
    evict_bytes: int = 0
    """Size of the buffer read before each cold sample."""
    cases: tuple[int, ...] = ()
    """The case (place in ``Record.cases``) of each time; empty where there is only one."""
    rule: Mapping[str, Any] = field(default_factory=dict)
    """The stopping rule: precision, min_samples, time_limit_s (for cold and hot together), ..."""


@dataclass(frozen=True)
class Ceiling:
    """What this device can do at all, measured in the same run."""

    read_gbs: float
    """Read bandwidth over at least 1 GiB, decimal GB/s."""
    copy_gbs: float
    """Copy bandwidth, bytes read plus bytes written."""
    floor_ms: float
    """Median of an empty kernel under the same clock: what no row can be below."""
    bytes: int
    zero_ms: float | None = None
    """Median of nothing under the same clock, two events one after the other: its own share of every time.
    Times are kept as read. None in records from before it was measured."""

    @property
    def gbs(self) -> float:
        """The larger of the read and copy bandwidths, in 10^9 bytes per second."""
        return max(self.read_gbs, self.copy_gbs)


@dataclass(frozen=True)
class Record:
    """One cell. Times in ms, sizes in bytes; see docs/records.md."""

    problem: str
    variant: str
    format: str
    library: str | None
    where: Literal["gpu", "cpu"]
    dtype: str
    matrix: Mapping[str, Any]
    """name, sha256, rows, cols, nnz, symmetry, weighted, source, policies."""
    device: Mapping[str, Any]
    """kind, name, arch, memory_bytes, multiprocessors, l2_bytes, driver, toolkit, uuid."""
    environment: Mapping[str, Any]
    run: str
    """Identifies the invocation: all records of one table share it."""
    status: Status
    reason: str = ""
    offsets: str = "int32"
    params: Mapping[str, Any] = field(default_factory=dict)
    reorder: str = "none"
    """The order that rows and columns were put in before packing; x and y are kept in it, untimed."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the problem (spmm: k, layout): records with different ones are not compared."""
    seed: int = 0
    bytes: Mapping[str, int] = field(default_factory=dict)
    """compulsory, stored, gathered, device."""
    operations: int = 0
    rate_unit: str = ""
    times: Mapping[str, float] = field(default_factory=dict)
    """reorder_ms, convert_ms, upload_ms, preprocess_ms, matrix_compile_ms: paid for each matrix before the
    first run; compile_ms: for each machine, once."""
    modules: tuple[Mapping[str, Any], ...] = ()
    """How its kernels were compiled: source, tokens (a hash), options, ms, for_matrix. None for libraries."""
    samples: tuple[Samples, ...] = ()
    check: Mapping[str, Any] = field(default_factory=dict)
    """ok, message and the problem's details."""
    counters: Mapping[str, int] | None = None
    """Events counted by the host device for one run (of the first case)."""
    children: Mapping[str, int] | None = None
    """Launches and allocations on the device in one run (of the first case, or of the one that lost some):
    launched, refused, failed, error, allocations, allocations_failed, and bound, the most that may wait; None
    where kernels do neither."""
    limits: Mapping[str, int] = field(default_factory=dict)
    """Limits set before the first launch: pending_launches, malloc_heap_bytes. Empty where nothing needs
    them."""
    break_even: tuple[Mapping[str, float], ...] = ()
    """Measured in the same run where children were launched: for several numbers of ``children`` the work of
    a task in ``us`` (``low_us`` to ``high_us``) above which launching a child for it is faster than doing it
    where it was found, and ``child_us``, what an empty child costs."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What the problem says of this variant's output, a column of the table each."""
    cases: tuple[Mapping[str, Any], ...] = ()
    """What was solved in turn (traversals: source, levels, reached, edges); empty where there is one case."""
    trace: tuple[Mapping[str, Any], ...] = ()
    """Levels of the first case: how, ms (None on host), vertices, edges, inspected. Only if it was asked
    for."""
    result: Mapping[str, Any] = field(default_factory=dict)
    """The problem's own facts about the answer (of the first case); ``said`` and ``table`` are printed."""
    inspected: int | None = None
    """Edges looked at in all levels of the first case."""
    ceiling: Ceiling | None = None
    notes: tuple[str, ...] = ()
    """What the table says it does not know: throttling, other processes, cache residence."""
    sweep: Mapping[str, Any] = field(default_factory=dict)
    """The sweep that it belongs to, empty for others: ``id``, ``cell`` (the key by which a sweep that goes on finds
    it); over several workers ``worker`` and, where one was lost, ``after``."""
    schema: int = SCHEMA

    def sampled(self, cache: str) -> Samples | None:
        """The samples taken in cache state `cache`, or None."""
        return next((s for s in self.samples if s.cache == cache), None)

    @property
    def for_matrix(self) -> bool:
        """Whether a kernel of it was compiled for this matrix alone."""
        return any(module.get("for_matrix") for module in self.modules)

    def to_json(self) -> dict[str, Any]:
        """A plain dict that json can write: see :func:`plain`."""
        return cast(dict[str, Any], plain(self))

    @property
    def given_options(self) -> dict[str, Any]:
        """The options of the problem, as tables show them: without files, a source and a cutoff that are not given, and
        without how sources are drawn where one is given."""
        given = {k: v for k, v in self.options.items() if v != "" and not (k in ("source", "cutoff") and v == -1)}
        return {k: v for k, v in given.items() if "source" not in given or k not in ("sources", "component")}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Record:
        """The record again; unknown keys (a later version) are ignored. Raises TypeError where one is missing or holds
        something else than its type."""
        known = _known(cls, data)
        known["samples"] = tuple(Samples(**_known(Samples, s)) for s in known.get("samples", ()))
        if (ceiling := known.get("ceiling")) is not None:
            known["ceiling"] = Ceiling(**_known(Ceiling, ceiling))
        record = cls(**known)
        for name, kinds in _WITHIN.items():
            for key, kind in kinds.items():
                _must_be(getattr(record, name).get(key, kind()), kind, f"{name}.{key}")
        _times_must_be_numbers(record)
        _cases_must_fit(record)
        return record


_WITHIN: Mapping[str, Mapping[str, Any]] = {
    "matrix": {
        **dict.fromkeys(("name", "sha256", "symmetry"), str),
        **dict.fromkeys(("rows", "cols", "nnz"), int),
        "source": dict,
        "policies": dict,
        "said": list,
    },
    "device": {
        **dict.fromkeys(("kind", "name", "arch", "driver", "toolkit", "uuid"), str),
        **dict.fromkeys(("memory_bytes", "multiprocessors", "l2_bytes"), int),
        "extra": dict,
    },
    "environment": {"libraries": dict, **dict.fromkeys(("spgraph", "git_commit", "code"), str)},
    "check": {"message": str},
    "result": {"said": list},
}
"""What tables and pages read of fields that hold anything."""

_IN_CASES = ("source", "sources", "levels", "reached", "edges", "tasks", "items")
"""What tables count with in each of the cases."""

_NOT_FINITE = ("nan", "inf", "-inf")


def _known(cls: type[Any], data: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of `cls` in `data`, lists as tuples."""
    types = _types(cast(Hashable, cls))
    names = types.keys() & data.keys()
    if missing := [name for name in _needed(cast(Hashable, cls)) if name not in names]:
        raise TypeError(f"it has no {', no '.join(missing)}")
    for name in names:
        _must_be(data[name], types[name], name)
    return {k: tuple(data[k]) if isinstance(data[k], list) else data[k] for k in names}


@functools.cache
def _types(cls: Any) -> dict[str, Any]:
    hints = get_type_hints(cls)
    return {f.name: hints[f.name] for f in fields(cls)}


@functools.cache
def _needed(cls: Any) -> list[str]:
    return [f.name for f in fields(cls) if f.default is MISSING and f.default_factory is MISSING]


def _times_must_be_numbers(record: Record) -> None:
    """Raise TypeError for "nan" and "inf": fields that hold anything have them, no time is one."""
    numbers: dict[str, Iterable[Any]] = {"times": record.times.values()}
    numbers["samples.times_ms"] = [ms for samples in record.samples for ms in samples.times_ms]
    if record.ceiling is not None:
        numbers["ceiling"] = vars(record.ceiling).values()
    for name, values in numbers.items():
        if wrong := next((value for value in values if isinstance(value, str)), None):
            raise TypeError(f"{name} has {wrong}")


def _cases_must_fit(record: Record) -> None:
    """Raise TypeError unless the cases are those of a problem, and the samples are of them, each in turn."""
    for case in record.cases:
        for key in _IN_CASES:
            _must_be(case.get(key, 0), int, f"cases.{key}")
        if not {"source", "edges"} <= case.keys() and not {"tasks", "items"} <= case.keys():
            raise TypeError(f"cases are {list(record.cases)!r:.60}")
    count = max(1, len(record.cases))
    for samples in record.samples:
        rounds = range(len(samples.times_ms))
        if samples.cases != (tuple(i % count for i in rounds) if count > 1 else samples.cases[:0]):
            raise TypeError(f"samples.cases are {list(samples.cases)!r:.60} of {count}")


def _must_be(value: Any, kind: Any, name: str) -> None:
    """Raise TypeError unless `value`, as JSON has it, is of the type `kind`."""
    if not _check_of(kind)(value):
        raise TypeError(f"{name} is {value!r:.60}")


@functools.cache
def _check_of(kind: Any) -> Callable[[Any], bool]:
    """Whether a value, as JSON has it, is of the type `kind`: a function, since records hold thousands of values of few
    types."""
    origin, parts = get_origin(kind), get_args(kind)
    if kind is Any:
        return lambda value: True
    if origin is Literal:
        return lambda value: value in parts
    if origin in (Union, UnionType):
        either = [_check_of(part) for part in parts]
        return lambda value: any(check(value) for check in either)
    if origin is tuple:
        item = _check_of(parts[0])
        return lambda value: isinstance(value, list) and all(map(item, value))
    if origin is Mapping:
        held = _check_of(parts[1])
        return lambda value: isinstance(value, dict) and all(map(held, value.values()))
    if is_dataclass(kind):
        return lambda value: isinstance(value, dict)  # its own fields are looked at when it is made
    if kind is float:
        return lambda value: type(value) in (float, int) or value in _NOT_FINITE
    if kind is int:
        return lambda value: type(value) is int and abs(value) < 2**63
    return lambda value: isinstance(value, kind)


def plain(value: Any) -> Any:
    """`value` as json can write it; numbers that JSON does not have are "nan", "inf" and "-inf"."""
    kind = type(value)
    if kind is float:  # most values are samples
        return value if math.isfinite(value) else str(value)
    if kind is str or kind is int or value is None:
        return value
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, bool | int | float | str):
        return value
    if is_dataclass(value):
        return {f.name: plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple | set | frozenset | np.ndarray):
        return [plain(v) for v in value]
    return str(value)
