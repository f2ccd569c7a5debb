"""What the race detector of the host device found (``cuda/host/spg_races.hpp``), as an error."""

from __future__ import annotations

from dataclasses import dataclass

from spgraph_bench.errors import LaunchError
from spgraph_bench.toolchain.places import Frame, frames_of

__all__ = ["Access", "Race", "error_of", "reported"]

_RULES = {
    "race": ("data race", "nothing orders them"),
    "nc": ("read-only data is written", "a kernel never writes what it reads through the read-only cache"),
    "restrict": (
        "const __restrict__ data is written",
        "nvcc may read it through the read-only cache, while another parameter writes it",
    ),
}
_REMEDY = "order them (barrier, release and acquire), or make both atomic or relaxed: docs/races.md"


@dataclass(frozen=True)
class Access:
    """One of the two. `what`: "a plain write"; `place`: "spmv/x.cu:12"; `thread`: kernel, thread, block."""

    what: str
    place: str
    thread: str


@dataclass(frozen=True)
class Race:
    """Two accesses of one address. `rule`: "race", "nc" or "restrict"; `array`: "y[17]"."""

    rule: str
    kernel: str
    array: str
    bytes: int
    first: Access
    second: Access


def _place(frames: list[Frame]) -> str:
    # A place in the shim is of no use; for a shared header, the kernel that uses it is named.
    own = [f for f in frames if not f[0].startswith("host/")]
    if not own:
        return "unknown place"
    inner = "{}:{}".format(*own[0])
    outer = next((f for f in own if f[0].endswith(".cu")), None)
    return inner if outer is None or outer == own[0] else f"{inner} (from {outer[0]}:{outer[1]})"


def reported(text: bytes) -> tuple[list[Race], int] | None:
    """What ``spg_findings`` says: races at distinct places, and how often in all; None if there are none."""
    count, *lines = text.decode(errors="replace").splitlines()
    rows = [line.split("\t") for line in lines]
    if not rows:
        return None
    frames = frames_of(place for row in rows for place in (row[7], row[10]))
    result: dict[tuple[str, ...], Race] = {}
    for rule, kernel, array, index, size, shared, *both in rows:
        name = f"{array}[{index}]" if array else f"byte {index} of an allocation"
        name = f"shared {name}" if shared == "1" else name
        first, second = (
            Access(what, _place(frames.get(place, [])), thread) for what, place, thread in (both[:3], both[3:])
        )
        key = (rule, kernel, *sorted((first.place, second.place)))
        result.setdefault(key, Race(rule, kernel, name, int(size), first, second))
    return list(result.values()), int(count)


def _words(race: Race) -> str:
    what, why = _RULES[race.rule]
    first, second = race.first, race.second
    return (
        f"{race.kernel}: {what} on {race.array}: {first.what} at {first.place} by {first.thread}, and "
        f"{second.what} at {second.place} by {second.thread}; {why}"
    )


def error_of(races: list[Race], count: int) -> LaunchError:
    """The first race in words, the others by their places."""
    text = _words(races[0])
    if len(races) > 1:
        others = ", ".join(f"{r.array} ({r.first.place}, {r.second.place})" for r in races[1:4])
        more = f" and {len(races) - 4} more" if len(races) > 4 else ""
        text += f"; also on {others}{more}"
    elif count > 1:
        text += f" ({count:,} times)"
    return LaunchError(text, remedy=_REMEDY, place=races[0].second.place.split(" ")[0])
