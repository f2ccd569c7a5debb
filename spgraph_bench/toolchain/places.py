"""Where in the source compiled code is: what addr2line says, by address."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable

from spgraph_bench.toolchain.sources import source_place

__all__ = ["Frame", "frames_of", "line_of"]

Frame = tuple[str, int]  # file, as source_place names it, and line


def frames_of(places: Iterable[str]) -> dict[str, list[Frame]]:
    """For each ``library+0xoffset`` the place in the source, innermost first, then those it is inlined into.

    What is unknown (no addr2line, which comes with the linker; no debug information) has no frames.
    """
    by_library: dict[str, dict[str, str]] = {}
    for place in dict.fromkeys(places):
        library, plus, offset = place.rpartition("+0x")
        if plus:
            by_library.setdefault(library, {})[f"0x{int(offset, 16):016x}"] = place
    frames: dict[str, list[Frame]] = {}
    for library, offsets in by_library.items():
        ask = ["addr2line", "-a", "-i", "-e", library]
        try:
            output = subprocess.run(ask, input="\n".join(offsets), capture_output=True, text=True, timeout=60).stdout
        except (OSError, subprocess.SubprocessError):
            continue
        frames_here: list[Frame] = []
        for text in output.splitlines():
            if text.startswith("0x"):
                frames_here = frames.setdefault(offsets[text.strip()], [])
                continue
            file, _, line = text.split(" ")[0].rpartition(":")
            if file and "?" not in file and line.isdigit():
                name, _, number = source_place(file, int(line)).rpartition(":")
                frames_here.append((name, int(number)))
    return frames


def line_of(place: str) -> str | None:
    """``file:line`` as it is, ``library+0xoffset`` as addr2line tells it."""
    if "+0x" in place:
        frames = frames_of([place]).get(place)
        return "{}:{}".format(*frames[0]) if frames and frames[0][1] else None
    if not place or "?" in place:
        return None
    file, _, line = place.rpartition(":")
    return source_place(file, int(line)) if line.isdigit() else place
