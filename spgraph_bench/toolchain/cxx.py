"""The machine's C++ compiler, and the sanitizers that kernels and parsers are built with."""

from __future__ import annotations

import os
import shlex
import shutil

from spgraph_bench.errors import DeviceError

__all__ = ["SANITIZERS", "chosen_sanitizers", "find_compiler"]

SANITIZERS = ("address", "undefined", "race")


def find_compiler() -> list[str] | None:
    """The C++ compiler's command (CXX, else the first of the usual ones on PATH), or None."""
    if named := os.environ.get("CXX"):
        try:
            words = shlex.split(named)
        except ValueError:  # a quote that is never closed
            return None
        return words if words and shutil.which(words[0]) else None
    return next(([name] for name in ("g++", "c++", "clang++") if shutil.which(name)), None)


def chosen_sanitizers() -> tuple[str, ...]:
    """What SPGRAPH_HOST_SANITIZE names, of "address", "undefined" and "race".

    Raises DeviceError for another name, and for "address" with "race".
    """
    chosen = tuple(s.strip() for s in os.environ.get("SPGRAPH_HOST_SANITIZE", "").split(",") if s.strip())
    if unknown := [s for s in chosen if s not in SANITIZERS]:
        raise DeviceError(
            f"SPGRAPH_HOST_SANITIZE has no {unknown[0]!r}",
            remedy="use address, race or undefined, or one of the first two and undefined",
        )
    if "address" in chosen and "race" in chosen:
        raise DeviceError("SPGRAPH_HOST_SANITIZE cannot be both address and race", remedy="run once with each of them")
    return chosen
