"""SuiteSparse archives: the matrix in a tar file, read in memory; nothing is written to disk."""

from __future__ import annotations

import io
import tarfile
from pathlib import PurePosixPath
from typing import IO, Any, cast

from spgraph_bench.readers.common import (
    CERTAIN,
    LIKELY,
    NO,
    Input,
    Progress,
    RawEntries,
    ReadOptions,
    reader,
    require_memory,
)

__all__ = ["parse", "sniff"]

NAME = "archive"


def sniff(head: bytes, name: str) -> int:
    """The magic of POSIX and GNU tar; a tar file without it has only its suffix."""
    if head[257:262] == b"ustar":
        return CERTAIN
    return LIKELY if name.endswith(".tar") else NO


@reader(NAME, title="SuiteSparse archive", suffixes=(".tar.gz", ".tgz", ".tar"), sniff=sniff)
def parse(data: Input, options: ReadOptions, progress: Progress) -> RawEntries:
    """Entries of NAME/NAME.mtx (or .rb, ...) or of the only matrix in the archive.

    Side files (NAME_b.mtx: right-hand sides, coordinates) are never taken. Members are looked up by name and
    read into memory, so neither their paths nor links among them can do anything.
    """
    from spgraph_bench.readers import readers
    from spgraph_bench.readers.opening import choose

    within = {name: one for name, one in readers().items() if name != NAME}
    suffixes = {suffix for one in within.values() for suffix in one.suffixes}
    progress("looking into the archive", None)
    try:
        file = cast("IO[bytes]", data.data if not isinstance(data.data, bytes) else io.BytesIO(data.data))
        with tarfile.open(fileobj=file, mode="r:") as tar:
            member = _chosen(data, tar.getmembers(), suffixes)
            require_memory(member.size, f"{_shown(member.name)} in the archive", data.place)
            stream: Any = tar.extractfile(member)
            content = stream.read()
    except (tarfile.TarError, EOFError, OSError, ValueError) as error:
        raise data.error(f"the archive is damaged ({error})", remedy="fetch it again") from None
    place = f"{data.place}:{_shown(member.name)}"
    if len(content) < member.size:
        raise data.error(f"{_shown(member.name)} in the archive is cut off", remedy="fetch it again")
    inner = Input(content, PurePosixPath(member.name).name, place)
    if not content:
        raise inner.error("the file is empty", remedy="fetch the archive again")
    return choose(inner, within).parse(inner, options, progress)


def _chosen(data: Input, members: list[tarfile.TarInfo], suffixes: set[str]) -> tarfile.TarInfo:
    """The member that is the matrix."""
    files = [
        (PurePosixPath(m.name), m)
        for m in members
        if m.isreg() and not m.issparse() and PurePosixPath(m.name).suffix.lower() in suffixes
    ]
    archive = data.name.lower().removesuffix(".tar")
    named = [m for path, m in files if path.stem.lower() in (path.parent.name.lower(), archive)]
    if named:
        return named[0]
    if len(files) == 1 and not files[0][0].stem.startswith(f"{files[0][0].parent.name}_"):
        return files[0][1]
    names = ", ".join(_shown(m.name) for _, m in files[:5]) or "no file with a known suffix"
    raise data.error(
        f"no matrix called NAME/NAME.mtx (or .rb) in the archive, but {names}",
        remedy="unpack it and name the file that you want",
    )


def _shown(name: str) -> str:
    """A member's name as messages show it: short, without control characters."""
    return "".join(c if c.isprintable() else "?" for c in name)[:100]
