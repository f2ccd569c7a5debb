"""Archives as collections hand them out: the one matrix in a tar or zip file, read in memory.

Known are the SuiteSparse collection (NAME/NAME.mtx), KONECT (one ``out.*``) and NetworkRepository (a zip file
with the graph and a readme). Nothing is written to disk.
"""

from __future__ import annotations

import io
import itertools
import tarfile
import zipfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import IO, Any, TypeVar, cast

from spgraph_bench.errors import InputError
from spgraph_bench.readers.common import (
    CERTAIN,
    LIKELY,
    NO,
    Input,
    Progress,
    RawEntries,
    ReadOptions,
    is_archive,
    reader,
    require_memory,
)

__all__ = ["parse", "sniff"]

NAME = "archive"
_MOST_MEMBERS = 10_000
_Info = TypeVar("_Info")


@dataclass(frozen=True)
class _Member:
    """A regular file in an archive."""

    name: str
    size: int
    read: Callable[[], bytes]

    @property
    def path(self) -> PurePosixPath:
        return PurePosixPath(self.name)


def sniff(head: bytes, name: str) -> int:
    """The magic of POSIX and GNU tar and of zip; a tar file without it has only its suffix."""
    if is_archive(head):
        return CERTAIN
    return LIKELY if name.endswith((".tar", ".zip")) else NO


@reader(
    NAME,
    title="archive (SuiteSparse, KONECT, NetworkRepository)",
    suffixes=(".tar.gz", ".tgz", ".tar.bz2", ".tar", ".zip"),
    sniff=sniff,
    binary=True,
)
def parse(data: Input, options: ReadOptions, progress: Progress) -> RawEntries:
    """Entries of NAME/NAME.mtx (or .rb, ...), of the only ``out.*``, or of the only matrix in the archive.

    Side files (NAME_b.mtx: right-hand sides, coordinates) are never taken. Members are looked up by name and
    read into memory, so neither their paths nor links among them can do anything.
    """
    from spgraph_bench.readers import readers
    from spgraph_bench.readers.opening import choose

    within = {name: one for name, one in readers().items() if name != NAME}
    suffixes = {suffix for one in within.values() for suffix in one.suffixes}
    progress("reading the archive's headers", None)
    try:
        member, content = _from_zip(data, suffixes) if data.head(2) == b"PK" else _from_tar(data, suffixes)
    except (InputError, MemoryError):
        raise
    except RecursionError:
        raise data.error("the archive's headers are nested too deeply", remedy="fetch it again") from None
    except (RuntimeError, NotImplementedError) as error:  # zipfile: a password, an unknown compression
        raise data.error(
            f"the archive cannot be read ({_shown(str(error))})", remedy="unpack it and name the file in it"
        ) from None
    except Exception as error:  # tarfile, zipfile and zlib each have their own for a damaged file
        why = _shown(str(error)) or type(error).__name__
        raise data.error(f"the archive is damaged ({why})", remedy="fetch it again") from None
    place = f"{data.place}:{_shown(member.name)}"
    if len(content) < member.size:
        raise data.error(f"{_shown(member.name)} in the archive is cut off", remedy="fetch it again")
    inner = Input(content, member.path.name, place)
    if not content:
        raise inner.error("the file is empty", remedy="fetch the archive again")
    forced = within.get(options.input_format or "")
    return (forced or choose(inner, within)).parse(inner, options, progress)


def _from_tar(data: Input, suffixes: set[str]) -> tuple[_Member, bytes]:
    file = cast("IO[bytes]", data.data if not isinstance(data.data, bytes) else io.BytesIO(data.data))
    with tarfile.open(fileobj=file, mode="r:") as tar:

        def reading(info: tarfile.TarInfo) -> Callable[[], bytes]:
            def read() -> bytes:
                stream: Any = tar.extractfile(info)
                return cast("bytes", stream.read())

            return read

        files = [
            _Member(info.name, info.size, reading(info))
            for info in _members(data, tar)
            if info.isreg() and not info.issparse()
        ]
        return _taken(data, files, suffixes)


def _from_zip(data: Input, suffixes: set[str]) -> tuple[_Member, bytes]:
    # zipfile cannot work on a mapped file before Python 3.13
    file = open(data.path, "rb") if data.path is not None else io.BytesIO(data.data[:])  # noqa: SIM115
    with file, zipfile.ZipFile(file) as archive:

        def reading(info: zipfile.ZipInfo) -> Callable[[], bytes]:
            def read() -> bytes:
                with archive.open(info) as stream:
                    return stream.read(info.file_size + 1)

            return read

        infos = [info for info in _members(data, archive.infolist()) if not info.is_dir()]
        files = [_Member(info.filename, info.file_size, reading(info)) for info in infos]
        return _taken(data, files, suffixes)


def _members(data: Input, infos: Iterable[_Info]) -> list[_Info]:
    """All members; InputError where there are more than any archive of one matrix has."""
    members = list(itertools.islice(infos, _MOST_MEMBERS + 1))
    if len(members) > _MOST_MEMBERS:
        raise data.error(
            f"the archive has more than {_MOST_MEMBERS:,} members", remedy="unpack it and name the file that you want"
        )
    return members


def _taken(data: Input, files: Sequence[_Member], suffixes: set[str]) -> tuple[_Member, bytes]:
    member = _chosen(data, files, suffixes)
    require_memory(member.size, f"{_shown(member.name)} in the archive", data.place)
    return member, member.read()


def _chosen(data: Input, members: Sequence[_Member], suffixes: set[str]) -> _Member:
    """The member that is the matrix."""
    archive = data.name.lower().removesuffix(".tar").removesuffix(".zip")
    konect = [m for m in members if m.path.name.startswith("out.") and len(m.path.name) > 4]
    files = [m for m in members if m.path.suffix.lower() in suffixes and not _is_about(m.path)]
    named = [m for m in files if m.path.stem.lower() in (m.path.parent.name.lower(), archive)]
    if named:
        return named[0]
    if len(konect) == 1:
        return konect[0]
    if len(files) == 1 and not files[0].path.stem.startswith(f"{files[0].path.parent.name}_"):
        return files[0]
    names = ", ".join(_shown(m.name) for m in (konect or files)[:5]) or "no file with a known suffix"
    raise data.error(
        f"no matrix called NAME/NAME.mtx (or .rb), nor a single graph, in the archive, but {names}",
        remedy="unpack it and name the file that you want",
    )


def _is_about(path: PurePosixPath) -> bool:
    """Whether a file is there to be read by people, or by a Macintosh."""
    name = path.name.lower()
    return name.startswith(("readme", "license", "meta.", "._")) or "__MACOSX" in path.parts


def _shown(name: str) -> str:
    """A member's name as messages show it: short, without control characters."""
    return "".join(c if c.isprintable() else "?" for c in name)[:100]
