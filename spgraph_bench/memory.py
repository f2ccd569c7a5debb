"""How much memory can be taken, and refusing what needs more before anything is allocated.

The kernel ends a process that takes more than its limit without a word (exit status 137), so every stage that
may be large states its need first. Limits are the machine's (``MemAvailable``), those of the control groups
that the process is in (a container's, a batch job's; version 1 and 2), and ``ulimit``.
"""

from __future__ import annotations

import contextlib
import resource
from collections.abc import Iterator
from pathlib import Path

from spgraph_bench.errors import TooLargeError
from spgraph_bench.units import human_bytes

__all__ = ["available_memory", "oom_kills", "require_memory"]

_UNKNOWN = 1 << 62
_HEADROOM = 48 << 20
"""Kept for the interpreter, the worker's start and what is not worth a figure."""


def available_memory(proc: Path = Path("/proc"), groups: Path = Path("/sys/fs/cgroup")) -> int:
    """Bytes that can be taken without swapping or being ended for it, less some head-room.

    2^62 where the system does not say.
    """
    left = min(_machine(proc), _address_space(proc), *_group_limits(proc, groups), _UNKNOWN)
    return left if left == _UNKNOWN else max(0, left - min(_HEADROOM, left // 8))


def require_memory(needed: int, what: str, place: str | None, remedy: str | None = None) -> None:
    """TooLargeError if `needed` bytes for `what` are more than there is, before anything is allocated."""
    if needed > (there := available_memory()):
        raise TooLargeError(
            f"{what} needs {human_bytes(needed)} of memory, {human_bytes(there)} are available",
            remedy=remedy or "use a machine with more memory",
            place=place,
        )


def _machine(proc: Path) -> int:
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in (proc / "meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return _UNKNOWN


def _address_space(proc: Path) -> int:
    """What ``ulimit -v`` and ``ulimit -d`` leave."""
    left = _UNKNOWN
    for kind, label in ((resource.RLIMIT_AS, "VmSize:"), (resource.RLIMIT_DATA, "VmData:")):
        limit = resource.getrlimit(kind)[0]
        if limit == resource.RLIM_INFINITY:
            continue
        used = 0
        with contextlib.suppress(OSError, ValueError, IndexError):
            for line in (proc / "self" / "status").read_text().splitlines():
                if line.startswith(label):
                    used = int(line.split()[1]) * 1024
        left = min(left, max(0, limit - used))
    return left


def _group_limits(proc: Path, groups: Path) -> Iterator[int]:
    """What the limit of each control group around this process leaves; files in cache can be given back."""
    for folder, first in _groups(proc, groups):
        files = ("memory.limit_in_bytes", "memory.usage_in_bytes") if first else ("memory.max", "memory.current")
        limit, used = (_number(folder / name) for name in files)
        if limit is not None and limit < 1 << 60:
            yield max(0, limit - (used or 0) + _inactive(folder / "memory.stat", first))


def _groups(proc: Path, groups: Path) -> Iterator[tuple[Path, bool]]:
    """Folders of the groups that this process is in, inner ones first, and whether they are of version 1."""
    with contextlib.suppress(OSError, ValueError):
        for line in (proc / "self" / "cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            first = "memory" in controllers.split(",")
            if not first and controllers:
                continue
            roots = [groups / "memory"] if first else [groups, groups / "unified"]
            for root in roots:
                # In a container the path may be the host's: then the root is our group.
                parts = [p for p in path.split("/") if p not in ("", "..")]
                for count in range(len(parts), -1, -1):
                    if (folder := root.joinpath(*parts[:count])).is_dir():
                        yield folder, first


def _number(file: Path) -> int | None:
    try:
        return int(file.read_text())
    except (OSError, ValueError):  # "max" among others
        return None


def _inactive(file: Path, first: bool) -> int:
    """Bytes of files in cache that the group has not used lately."""
    name = "total_inactive_file" if first else "inactive_file"
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in file.read_text().splitlines():
            if line.startswith(f"{name} "):
                return int(line.split()[1])
    return 0


def oom_kills(proc: Path = Path("/proc"), groups: Path = Path("/sys/fs/cgroup")) -> int:
    """How many processes the kernel has ended because memory ran out: of our control groups and the machine."""
    files = [proc / "vmstat"]
    files += [f / ("memory.oom_control" if v1 else "memory.events") for f, v1 in _groups(proc, groups)]
    total = 0
    for file in files:
        with contextlib.suppress(OSError, ValueError, IndexError):
            total += sum(
                int(line.split()[1])
                for line in file.read_text().splitlines()
                if line.startswith(("oom_kill ", "oom_group_kill "))
            )
    return total
