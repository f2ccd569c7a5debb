"""The cells of a sweep, in blocks: what one call of ``runner.run`` measures, and what a worker gets as one task."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from spgraph_bench.device.base import Limit
from spgraph_bench.problems import filled_options, get_problem
from spgraph_bench.runner.choosing import smaller_on_host
from spgraph_bench.runner.plan import Cell, planned_cells
from spgraph_bench.sweep.config import Entry
from spgraph_bench.sweep.inputs import Input
from spgraph_bench.variants import get_variant
from spgraph_bench.variants.base import Variant

__all__ = ["Block", "Plan", "make_plan"]


@dataclass(frozen=True)
class Block:
    """One matrix and one problem with one set of options: its variants are compared with each other.

    It holds texts and numbers only, so that it can be sent to a worker on another machine.
    """

    key: str
    """Tells it from all others, the same in every session: 12 hex digits."""
    input: Input
    problem: str
    cells: tuple[Cell, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    """The problem's own, vertices as the input calls them."""
    params: Mapping[str, str] = field(default_factory=dict)
    seed: int = 1
    time_limit: float = 0.25
    offsets: str | None = None
    force_format: bool = False
    ids: str = "file"
    """"0": vertices of options are numbers that count from 0."""
    min_samples: int | None = None
    warmup: int | None = None
    baseline_seconds: float | None = None
    limits: Mapping[Limit, int] = field(default_factory=dict)
    """Of launches and allocations on the device, where they were asked for."""
    place: str = ""
    """``file:line`` of the run in its config."""

    def cell_key(self, cell: Cell) -> str:
        """What the journal calls this cell."""
        return f"{self.key}/{cell.key}"

    @property
    def variants(self) -> list[Variant]:
        """The variants of its cells."""
        return [get_variant(self.problem, name) for name in dict.fromkeys(cell.variant for cell in self.cells)]

    @property
    def dtypes(self) -> tuple[str, ...]:
        """The value types of its cells, each once."""
        return tuple(dict.fromkeys(cell.dtype for cell in self.cells))

    @property
    def orders(self) -> tuple[str, ...]:
        """The orders of its cells, each once."""
        return tuple(dict.fromkeys(cell.reorder for cell in self.cells))

    @property
    def title(self) -> str:
        """ "spmm poisson2d-32, k 8", for progress and tables."""
        parts = [f"{name} {value}" for name, value in self.options.items()]
        return ", ".join([f"{self.problem} {self.input.name}".strip(), *parts])

    def without(self, done: Collection[str]) -> Block | None:
        """The block with the cells that are not `done`; None where that is none."""
        left = tuple(cell for cell in self.cells if self.cell_key(cell) not in done)
        return replace(self, cells=left) if left else None


@dataclass(frozen=True)
class Plan:
    """All blocks, those of one matrix one after another."""

    blocks: tuple[Block, ...]
    repeated: int = 0
    """Cells that were asked for more than once and are measured once."""

    @property
    def cells(self) -> int:
        """Number of cells of all blocks."""
        return sum(len(block.cells) for block in self.blocks)


def _key(entry: Entry, given: Input, options: Mapping[str, Any]) -> str:
    filled = {**filled_options(get_problem(entry.problem), {}), **options}
    what = [
        entry.problem,
        given.identity,
        filled,
        dict(entry.params),
        entry.seed,
        entry.offsets,
        entry.force_format,
        entry.ids,
    ]
    text = json.dumps(what, sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:12]


def make_plan(entries: Sequence[Entry], device_kind: str, limits: Mapping[Limit, int] | None = None) -> Plan:
    """The blocks of `entries`, whose inputs have their digests. `device_kind`: on "host", problems have smaller
    defaults."""
    blocks: dict[str, Block] = {}
    repeated = 0
    for given, entry in _by_input(entries):
        options = dict(entry.options)
        problem = get_problem(entry.problem)
        if device_kind == "host":
            options = {**smaller_on_host(problem, options), **options}
        key = _key(entry, given, options)
        variants = [get_variant(entry.problem, name) for name in entry.variants]
        cells = planned_cells(variants, entry.dtypes, entry.reorder)
        there = blocks.get(key)
        if there is not None:
            new = [cell for cell in cells if cell not in there.cells]
            repeated += len(cells) - len(new)
            blocks[key] = replace(there, cells=(*there.cells, *new))
            continue
        blocks[key] = Block(
            key,
            given,
            entry.problem,
            tuple(cells),
            options,
            dict(entry.params),
            entry.seed,
            entry.time_limit,
            entry.offsets,
            entry.force_format,
            entry.ids,
            entry.min_samples,
            entry.warmup,
            entry.baseline_seconds,
            # Limits that were asked for go to variants that launch something; if none does, the run would refuse them.
            dict(limits or {}) if any(v.limits for v in variants) else {},
            entry.place,
        )
    return Plan(tuple(blocks.values()), repeated)


def _by_input(entries: Iterable[Entry]) -> list[tuple[Input, Entry]]:
    """Every input with every entry that has it, in the order in which inputs are first met."""
    pairs_by_input: dict[tuple[str, str, str], list[tuple[Input, Entry]]] = {}
    for entry in entries:
        for given in entry.inputs:
            # Read differently for two problems, a file is still one file, in the disk's cache at least.
            own = entry.problem if given.kind == "options" else ""
            pairs_by_input.setdefault((given.kind, given.text, own), []).append((given, entry))
    return [pair for pairs in pairs_by_input.values() for pair in pairs]
