"""What the memory trace of the host device counted (``cuda/host/spg_trace.hpp``), by kernel and line of source."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields

from spgraph_bench.toolchain.places import Frame, frames_of

__all__ = ["Counts", "KernelTrace", "added", "parse"]

SECTOR_BYTES = 32
_READ, _WRITE = 1, 2


@dataclass
class Counts:
    """Totals over the requests of warps.

    A request is one memory instruction of one warp. Sectors have 32 bytes. Hits are those of a model.
    """

    requests: int = 0
    lanes: int = 0
    """Lanes that took part, over all requests."""
    bytes: int = 0
    """Asked for by those lanes."""
    sectors: int = 0
    ideal: int = 0
    """Sectors that could hold the distinct bytes asked for."""
    l1_hits: int = 0
    l2_hits: int = 0
    memory_sectors: int = 0
    """Sectors found in neither cache."""
    passes: int = 0
    """Of shared memory; more than `ideal_passes` where lanes want different words of one bank."""
    ideal_passes: int = 0
    addresses: int = 0
    """Distinct addresses of each request, over all."""
    most: int = 0
    """The most lanes of one request at one address."""

    def add(self, other: Counts) -> None:
        """Add the counts of `other`; of `most` the larger stays."""
        for f in fields(self):
            mine, theirs = getattr(self, f.name), getattr(other, f.name)
            setattr(self, f.name, max(mine, theirs) if f.name == "most" else mine + theirs)

    def scaled(self, whole: int, part: int) -> Counts:
        """Of `whole` blocks, where these are of `part`."""
        if whole == part:
            return self
        values = {f.name: round(getattr(self, f.name) * whole / part) for f in fields(self)}
        return Counts(**{**values, "most": self.most})

    @property
    def sectors_per_request(self) -> float:
        """Mean sectors of 32 bytes that a request moves; 0.0 without requests."""
        return self.sectors / self.requests if self.requests else 0.0

    @property
    def ideal_per_request(self) -> float:
        """Mean sectors that could hold the distinct bytes of a request; 0.0 without requests."""
        return self.ideal / self.requests if self.requests else 0.0

    @property
    def lanes_per_request(self) -> float:
        """Mean active lanes of a request, up to 32; 0.0 without requests."""
        return self.lanes / self.requests if self.requests else 0.0

    @property
    def lanes_per_address(self) -> float:
        """Mean lanes of a request at one address; 0.0 without addresses."""
        return self.lanes / self.addresses if self.addresses else 0.0


Key = tuple[Frame, str]
"""A line of source, and what is done there: "load", "store", "atomic", "shared load", "shared store",
"shared atomic"."""


@dataclass
class KernelTrace:
    """One kernel, all its launches."""

    name: str
    launches: int
    blocks: int
    warps: int
    threads: int
    traced: int
    """Blocks that were traced: of large launches not all. Counts are scaled to all blocks."""
    lines: dict[Key, Counts] = field(default_factory=dict)

    def total(self, what: str) -> Counts:
        """Of "load", "store", ... over all lines."""
        return added(c for (_, kind), c in self.lines.items() if kind == what)


def added(counts: Iterable[Counts]) -> Counts:
    """The sum of all `counts`, as a new object."""
    total = Counts()
    for c in counts:
        total.add(c)
    return total


def _line(frames: list[Frame]) -> Frame:
    # Where the kernel's author would look: not into the shim, and not into the helpers that every kernel uses.
    own = [f for f in frames if not f[0].startswith("host/")]
    return next((f for f in own if not f[0].startswith("common/")), own[0] if own else ("unknown", 0))


def parse(text: str) -> list[KernelTrace]:
    """The kernels in the order of their first launch, from ``spg_trace_text``."""
    rows = [line.split("\t") for line in text.splitlines()]
    kernels = [
        KernelTrace(name, int(launches), int(blocks), int(warps), int(threads), int(traced))
        for _, name, launches, blocks, warps, threads, traced in (r for r in rows if r[0] == "kernel")
    ]
    places = [r for r in rows if r[0] != "kernel"]
    frames = frames_of(r[2] for r in places)
    for space, kernel, place, what, _bytes, *numbers in places:
        both = int(what) & (_READ | _WRITE)
        kind = {_READ: "load", _WRITE: "store"}.get(both, "atomic")
        kind = f"shared {kind}" if space == "shared" else kind
        key = (_line(frames.get(place, [])), kind)
        of = kernels[int(kernel)]
        of.lines.setdefault(key, Counts()).add(Counts(*map(int, numbers)).scaled(of.blocks, of.traced))
    return kernels
