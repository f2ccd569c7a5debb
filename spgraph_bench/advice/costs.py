"""The fitted constants of ``costs.toml``: what a product costs a variant, and what its format costs to set up."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["NARROW", "Cost", "Costs", "Search", "SetUp", "fitted"]

NARROW = "narrow"
"""Under this name: searches of `auto` and `one-block` if their levels are narrow. One block does them then."""


@dataclass(frozen=True)
class Cost:
    """One variant of SpMV in one value type, or of SpMM, on the GPU that it was fitted on; ``terms`` of ``spmv`` and
    ``spmm`` counts what constants are multiplied with."""

    base: float
    """Microseconds of a product of nothing: launches, and trips to memory that wait for each other."""
    bytes: float
    """Time for a byte over that at the memory's bandwidth."""
    gathers: float
    """Nanoseconds in which a multiprocessor gets a sector of x from the L2."""
    entries: float
    """Microseconds for a million entries on the whole GPU: instructions."""
    rows: float
    """Microseconds for a million rows."""
    chain: float
    """Microseconds for a step of the warp, or for the event, that the others wait for."""


@dataclass(frozen=True)
class SetUp:
    """One format, from CSR on the host to the device."""

    fixed: float
    """Milliseconds for any matrix."""
    entry: float
    """Nanoseconds for an entry: the conversion on the host."""
    compile: float = 0.0
    """Milliseconds of compiling for the matrix."""


@dataclass(frozen=True)
class Search:
    """One mode of BFS, in microseconds."""

    search: float
    level: float
    vertex: float
    """For a million vertices."""
    edge: float
    """For a million edges."""
    far: float
    """For a million edges that do not leave a busy vertex, in addition."""


@dataclass(frozen=True)
class Costs:
    """All constants."""

    gpu: str
    """The GPU that they were fitted on."""
    cells: int
    """Records that they were fitted on."""
    matrices: int
    spmv: Mapping[str, Mapping[int, Cost]]
    """Variant -> bytes of a value -> constants."""
    setup: Mapping[str, SetUp]
    """Variant -> constants."""
    bfs: Mapping[str, Search] = field(default_factory=dict)
    """Mode, or NARROW -> constants."""
    spmm: Mapping[str, Cost] = field(default_factory=dict)
    """Variant -> constants, for all value types and numbers of columns."""
    spmm_setup: Mapping[str, SetUp] = field(default_factory=dict)
    """Variant of SpMM -> constants."""


def costs_of(data: Mapping[str, object]) -> Costs:
    """From the tables of a costs.toml."""
    about, spmv, setup, bfs = (_table(data, name) for name in ("fitted", "spmv", "setup", "bfs"))
    spmm, spmm_setup = (_table({"spmm": {}, "spmm_setup": {}, **data}, name) for name in ("spmm", "spmm_setup"))
    sizes = {"float32": 4, "float64": 8}
    return Costs(
        gpu=str(about["gpu"]),
        cells=int(str(about["cells"])),
        matrices=int(str(about["matrices"])),
        spmv={name: {sizes[kind]: Cost(**_floats(each, kind)) for kind in each} for name, each in _tables(spmv)},
        setup={name: SetUp(**_floats(setup, name)) for name in setup},
        bfs={name: Search(**_floats(bfs, name)) for name in bfs},
        spmm={name: Cost(**_floats(spmm, name)) for name in spmm},
        spmm_setup={name: SetUp(**_floats(spmm_setup, name)) for name in spmm_setup},
    )


def _table(data: Mapping[str, object], name: str) -> Mapping[str, object]:
    table = data[name]
    assert isinstance(table, dict)
    return table


def _tables(data: Mapping[str, object]) -> list[tuple[str, Mapping[str, object]]]:
    return [(name, _table(data, name)) for name in data]


def _floats(data: Mapping[str, object], name: str) -> dict[str, float]:
    return {key: float(str(value)) for key, value in _table(data, name).items()}


@functools.cache
def fitted() -> Costs:
    """The constants that come with spgraph."""
    return costs_of(tomllib.loads((Path(__file__).parent / "costs.toml").read_text(encoding="utf-8")))
