"""What a run is made of: cells, the task that they share, and what came of checking each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from spgraph_bench.device.base import Limit
from spgraph_bench.results.record import Status
from spgraph_bench.variants.base import Variant

__all__ = ["Cell", "Outcome", "Task", "planned_cells"]


@dataclass(frozen=True)
class Cell:
    """One variant with one value type."""

    variant: str
    dtype: str
    reorder: str = "none"
    """The order of the matrix's rows and columns, one of spgraph_bench.reorder.ORDERS."""

    @property
    def key(self) -> str:
        """``variant/dtype``, with ``/order`` if rows and columns are reordered; unique in a run."""
        order = "" if self.reorder == "none" else f"/{self.reorder}"
        return f"{self.variant}/{self.dtype}{order}"


@dataclass(frozen=True)
class Task:
    """What all cells of a run share."""

    problem: str
    outputs: Mapping[str, Mapping[str, tuple[tuple[int, ...], str]]]
    """dtype -> output name -> (shape, dtype), from ``Problem.output_arrays``."""
    params: Mapping[str, Any] = field(default_factory=dict)
    force_format: bool = False
    offsets: str = "int32"
    tuned: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Parameters found by tuning, by variant; `params` win over them."""
    trace: bool = False
    """Keep the levels of the first case."""
    keep_answer: bool = False
    """Keep the first right answer until the parent asks for it."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """The problem's declared options, all of them (spmm: k, layout)."""
    limits: Mapping[Limit, int] = field(default_factory=dict)
    """Limits to set before the first launch; the device's own for the others."""
    needs: Mapping[str, Mapping[Limit, int]] = field(default_factory=dict)
    """What each variant's bound says it needs, for those that launch or allocate on the device."""

    def params_of(self, variant: str) -> dict[str, Any]:
        """Parameters for `variant`."""
        return {**self.tuned.get(variant, {}), **self.params}


@dataclass
class Outcome:
    """What checking a cell gave."""

    status: Status
    reason: str = ""
    bytes: dict[str, int] = field(default_factory=dict)
    operations: int = 0
    times: dict[str, float] = field(default_factory=dict)
    check: dict[str, Any] = field(default_factory=dict)
    params: dict[str, Any] = field(default_factory=dict)
    counters: dict[str, int] | None = None
    children: dict[str, int] | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    modules: tuple[dict[str, Any], ...] = ()
    """How its kernels were compiled, as ``Record.modules`` has it."""
    replace_worker: bool = False
    """The next launch may hang: this worker must not be asked to do anything more."""
    device_bytes: int = 0
    run_s: float = 0.0
    """Seconds of its first run, of all cases."""
    cases: tuple[dict[str, Any], ...] = ()
    trace: tuple[dict[str, Any], ...] = ()
    inspected: int | None = None
    result: dict[str, Any] = field(default_factory=dict)


def planned_cells(variants: Sequence[Variant], dtypes: Sequence[str], orders: Sequence[str]) -> list[Cell]:
    """The cells of a run. Those of one format and type follow each other, so that each conversion happens
    once; CPU variants come last."""
    in_turn = sorted(variants, key=lambda v: (v.where == "cpu", v.format))
    return [Cell(v.name, dtype, order) for dtype in dtypes for order in orders for v in in_turn]
