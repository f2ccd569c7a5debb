"""Opening an input: find it, decompress it, choose its reader, read it or take it from the cache."""

from __future__ import annotations

import contextlib
import difflib
import io
import mmap
import os
import stat
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import IO, Any

import numpy as np

from spgraph_bench.errors import ISSUES, InputError, SpgraphError
from spgraph_bench.matrix import Matrix, Source
from spgraph_bench.memory import available_memory, require_memory
from spgraph_bench.readers.common import NO, Input, Progress, RawEntries, Reader, ReadOptions, is_archive
from spgraph_bench.units import human_bytes

__all__ = ["choose", "matrix_name", "open_input", "parse", "read_input", "unknown_format"]

STDIN = "<stdin>"
UNEXPECTED = "it cannot be read as"
"""How a message begins that says that a reader failed in a way that is not its own; tests/fuzz looks for it."""
_PIECE = 1 << 23
_TELLING = 1 << 26  # so many bytes decompressed tell the rate
_SURELY = 2  # by so much the estimate must be beyond what there is
_COMPRESSIONS = {"gzip": b"\x1f\x8b", "bzip2": b"BZh", "xz": b"\xfd7zXZ\x00"}
_COMPRESSED_SUFFIXES = {".gz": "", ".bz2": "", ".xz": "", ".tgz": ".tar", ".tbz2": ".tar", ".txz": ".tar"}
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_UTF8_BOM = b"\xef\xbb\xbf"


def read_input(path: str, options: ReadOptions, progress: Progress, readers: Mapping[str, Reader]) -> Matrix:
    """The matrix in the file `path` ("-": standard input); see :func:`spgraph_bench.readers.read`."""
    from spgraph_bench.readers import cache
    from spgraph_bench.readers.assemble import assemble

    if options.input_format is not None and options.input_format not in readers:
        raise unknown_format(options.input_format, readers)
    kind, place, file_name = ("stdin", STDIN, "stdin") if path == "-" else ("file", path, os.path.basename(path))
    start = time.perf_counter()
    try:
        raw_bytes = _load(path, progress)
        name = matrix_name(file_name, readers)
        source = Source("stdin" if kind == "stdin" else "file", "-" if kind == "stdin" else path, "")
        key = cache.key(raw_bytes, file_name, options) if cache.worth_looking(len(raw_bytes)) else None
        if key is not None and (cached := cache.load(key, name, source)) is not None:
            return _locatable(cached, path, options, readers)
        try:
            data = _decompressed(raw_bytes, file_name, place, progress)
            entries = parse(data, options, progress, readers)
        finally:
            _require_whole(raw_bytes, place)
        _unload(data.data)
        source = replace(source, format=entries.format)
        matrix = assemble(entries, options, name, replace(source, text=place), progress)
        if place != source.text:
            matrix = replace(matrix, source=source)
    except MemoryError:
        raise InputError(
            f"reading it needs more memory than the {human_bytes(available_memory())} available",
            remedy="use a machine with more memory, or a part of the matrix",
            place=place,
        ) from None
    if time.perf_counter() - start > cache.WORTH_SECONDS:
        progress("keeping the parsed matrix", None)
        cache.store(key or cache.key(raw_bytes, file_name, options), matrix)
    return _locatable(matrix, path, options, readers)


def _unload(data: bytes | mmap.mmap) -> None:
    """Give back the memory of what was read of a mapped file: a message that needs it reads it again."""
    if isinstance(data, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        with contextlib.suppress(OSError):
            data.madvise(mmap.MADV_DONTNEED)


def _locatable(matrix: Matrix, path: str, options: ReadOptions, readers: Mapping[str, Reader]) -> Matrix:
    """`matrix`, able to say which line an entry comes from: by reading the file again."""

    def locate(row: int, col: int) -> int | None:
        def quiet(doing: str, fraction: float | None) -> None:
            pass

        try:
            raw = parse(open_input(path, quiet), options, quiet, readers)
        except (SpgraphError, MemoryError):
            return None  # it has changed since, or is too large to be read twice
        entries = np.flatnonzero((raw.row == row) & (raw.col == col))
        if not len(entries):  # the mirror of a stored entry
            entries = np.flatnonzero((raw.row == col) & (raw.col == row))
        if len(entries) > 1 and raw.values is not None:  # of several that were added up, one that is not above 0
            entries = np.concatenate((entries[~(raw.values[entries].real >= 0)], entries))
        return raw.line_of(int(entries[0])) if len(entries) else None

    if path == "-":
        return matrix
    return replace(matrix, locate=locate)


def open_input(path: str, progress: Progress) -> Input:
    """The decompressed content of the file `path` ("-": standard input); InputError if there is none."""
    place, name = (STDIN, "stdin") if path == "-" else (path, os.path.basename(path))
    return _decompressed(_load(path, progress), name, place, progress)


def parse(data: Input, options: ReadOptions, progress: Progress, readers: Mapping[str, Reader]) -> RawEntries:
    """The entries of `data`, by the reader that fits it best or that `options` names.

    InputError, too, where the format has no use for an option that was given: ids to close the gaps of, or an
    index base other than its own.
    """
    chosen = choose(data, readers) if options.input_format is None else readers[options.input_format]
    if options.input_format is not None and is_archive(data.head()):
        chosen = readers["archive"]  # the format is that of the file in it
    if not chosen.binary:  # an entry takes more bytes in memory than in text
        size = len(data.data)
        require_memory(3 * size // 2, f"reading {size:,} bytes of text", data.place)
    try:
        entries = chosen.parse(data, options, progress)
    except (SpgraphError, MemoryError):
        raise
    except Exception as error:  # of the input all the same: its reader met what it does not expect
        raise data.error(
            f"{UNEXPECTED} {chosen.title} ({type(error).__name__}: {error})",
            remedy=f"check the file; if it is sound, report this at {ISSUES}",
        ) from error
    title = readers[entries.format].title if entries.format in readers else entries.format
    if options.relabel and not entries.relabelled:
        raise data.error(
            f"--relabel closes gaps in the vertex ids of graphs; {title} has "
            + ("names" if entries.names is not None else "rows and columns"),
            remedy="omit --relabel",
        )
    if options.weight_column is not None and not entries.has_columns:
        raise data.error(
            f"--weight-column chooses a column of an edge list; {title} has none to choose from",
            remedy="omit --weight-column",
        )
    if options.base is not None and entries.base != options.base:
        own = "has no indices to shift" if entries.base is None else f"is {entries.base}-based by definition"
        raise data.error(f"{title} {own}", remedy=f"omit --base {options.base}")
    return entries


def choose(data: Input, readers: Mapping[str, Reader]) -> Reader:
    """The reader with the highest score for `data`; InputError where none scores."""
    head = data.head()
    if head.startswith(_UTF16):
        raise data.error(
            "the text is in UTF-16, which is not what matrix files are written in",
            remedy="convert it: iconv -f UTF-16 -t UTF-8",
        )
    scores = {name: reader.sniff(head, data.name.lower()) for name, reader in readers.items()}
    best = max(scores, key=lambda name: scores[name])
    if scores[best] > NO:
        return readers[best]
    what = "binary data of no known kind" if b"\0" in head else "text of no known kind"
    raise data.error(
        f"{what}: spgraph does not read this format",
        remedy="`spgraph list readers` names those; --input-format forces one",
    )


def unknown_format(name: str, readers: Mapping[str, Reader]) -> InputError:
    """The error of an input format that there is not, with the one that may be meant: by name or suffix."""
    close = [r.name for r in readers.values() if f".{name.lower().lstrip('.')}" in r.suffixes][:1]
    close = close or difflib.get_close_matches(name, readers, n=2)
    return InputError(
        f"there is no input format {name!r}",
        remedy=f"did you mean {' or '.join(close)}?" if close else "`spgraph list readers` names them",
    )


def matrix_name(file_name: str, readers: Mapping[str, Reader]) -> str:
    """The file name without its compression and format suffixes: "west0067.mtx.gz" is "west0067"."""
    suffixes = {s for reader in readers.values() for s in reader.suffixes} | {".txt", ".tar"}
    name = _without_compression(file_name).removeprefix("download.tsv.")  # as KONECT calls its archives
    while True:
        stem, suffix = os.path.splitext(name)
        if not stem or suffix.lower() not in suffixes:
            return name
        name = stem


def _without_compression(name: str) -> str:
    stem, suffix = os.path.splitext(name)
    return stem + _COMPRESSED_SUFFIXES[suffix.lower()] if stem and suffix.lower() in _COMPRESSED_SUFFIXES else name


def _load(path: str, progress: Progress) -> bytes | mmap.mmap:
    """The content as it is on disk: a regular file is mapped, anything else is read to its end."""
    if path == "-":
        if sys.stdin is None or sys.stdin.isatty():
            raise InputError(
                f"standard input is {'closed' if sys.stdin is None else 'a terminal'}",
                remedy="pipe a file into it: spgraph … - < file.mtx",
                place=STDIN,
            )
        return _not_empty(_slurp(sys.stdin.buffer, STDIN, "reading standard input", progress), STDIN)
    try:
        mode = os.stat(path).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError
        if stat.S_ISCHR(mode) or stat.S_ISBLK(mode) or stat.S_ISSOCK(mode):
            raise InputError("this is a device, not a file", remedy="name a file", place=path)
        with open(path, "rb") as file:
            if not stat.S_ISREG(mode):
                return _not_empty(_slurp(file, path, "reading", progress), path)
            if os.fstat(file.fileno()).st_size == 0:
                return _not_empty(b"", path)
            return _mapped(file, path, progress)
    except FileNotFoundError:
        raise InputError("there is no such file", remedy=_similar(path), place=path) from None
    except IsADirectoryError:
        raise InputError("this is a folder", remedy="name a file in it", place=path) from None
    except PermissionError:
        raise InputError(
            "no permission to read it", remedy=f"ask its owner, or: chmod u+r {path}", place=path
        ) from None
    except (OSError, ValueError) as error:  # ValueError: a null character in the path
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(
            f"cannot be read: {reason.lower()}", remedy="check the path and the disk", place=path
        ) from None


def _mapped(file: IO[bytes], path: str, progress: Progress) -> bytes | mmap.mmap:
    """A regular file that is not empty: read where it is small, else mapped, if it may be cut meanwhile."""
    from spgraph_bench.readers.compiled import WORTH_BYTES, guard

    if os.fstat(file.fileno()).st_size >= WORTH_BYTES:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        if guard(mapped):
            return mapped
    return _not_empty(_slurp(file, path, "reading", progress), path)


def _require_whole(data: bytes | mmap.mmap, place: str) -> None:
    """InputError if the file was cut since it was mapped: what was read of it is worth nothing."""
    from spgraph_bench.readers.compiled import was_cut

    if isinstance(data, mmap.mmap) and was_cut(data):
        raise InputError(
            "the file was cut while it was read", remedy="wait until it is written, then read it", place=place
        )


def _similar(path: str) -> str:
    folder, name = os.path.split(path)
    if os.path.islink(path):
        return f"it is a link to {os.readlink(path)}, which is not there"
    try:
        near = difflib.get_close_matches(name, os.listdir(folder or "."), n=1)
    except OSError:
        return f"there is no folder {folder} either: check the path"
    return f"did you mean {os.path.join(folder, near[0])}?" if near else "check the path"


def _not_empty(data: bytes, place: str) -> bytes:
    if not data:
        raise InputError("the file is empty", remedy="was it downloaded whole?", place=place)
    return data


def _slurp(
    stream: IO[bytes], place: str, what: str, progress: Progress, read: Callable[[], float] | None = None
) -> bytes:
    """Everything in `stream`, within available memory.

    `read`: which share of the compressed file behind it has been read, if there is one. A file that will be
    much too large at the rate so far is refused early: a small one may decompress to more than any memory.
    """
    out, limit = io.BytesIO(), available_memory()
    while piece := stream.read(_PIECE):
        out.write(piece)
        progress(what, None)
        size = out.tell()
        expected = int(size / share) if read and size >= _TELLING and (share := read()) else size
        if size > limit or expected > _SURELY * limit:
            raise InputError(
                f"the content ({'about' if expected > size else 'over'} {human_bytes(expected)}) is larger than"
                f" the {human_bytes(limit)} of memory available",
                remedy="use a machine with more memory",
                place=place,
            )
    return out.getvalue()


class _Counted(io.RawIOBase):
    """A read-only stream over a buffer that reports how far it was read."""

    def __init__(self, data: bytes | mmap.mmap, report: Progress, what: str) -> None:
        self.data, self.offset, self.report, self.what = data, 0, report, what

    def readable(self) -> bool:
        return True

    def share(self) -> float:
        """Which part has been read."""
        return self.offset / len(self.data)

    def readinto(self, buffer: Any) -> int:
        piece = self.data[self.offset : self.offset + len(buffer)]
        buffer[: len(piece)] = piece
        self.offset += len(piece)
        self.report(self.what, self.offset / len(self.data))
        return len(piece)


def _is_utf8(path: str) -> bool:
    try:
        return bool(path.encode())
    except UnicodeEncodeError:  # bytes that are none, as surrogates
        return False


def _decompressed(data: bytes | mmap.mmap, file_name: str, place: str, progress: Progress) -> Input:
    """`data` without its compression, which is recognised by content, and without a byte order mark."""
    import bz2
    import gzip
    import lzma
    import zlib

    name = _without_compression(file_name)
    kind = next((k for k, magic in _COMPRESSIONS.items() if data[: len(magic)] == magic), None)
    if kind is not None:
        opener: Any = {"gzip": gzip.GzipFile, "bzip2": bz2.BZ2File, "xz": lzma.LZMAFile}[kind]
        counted = _Counted(data, progress, "decompressing")
        stream = io.BufferedReader(counted, 1 << 16)
        file = opener(fileobj=stream) if kind == "gzip" else opener(stream)
        try:
            share = counted.share
            data = _slurp(file, place, "decompressing", lambda what, fraction: None, share)
        except (EOFError, OSError, lzma.LZMAError, zlib.error) as error:
            what = "ends too early" if isinstance(error, EOFError) else f"is corrupted ({error})"
            raise InputError(
                f"the {kind} compression {what}", remedy="fetch or copy the file again", place=place
            ) from None
        _not_empty(data, place)
    if marked := data[:3] == _UTF8_BOM:
        data = data[3:]
        _not_empty(data, place)
    # scipy's reader takes paths in UTF-8 only; a file name may be any bytes.
    on_disk = kind is None and not marked and _is_utf8(place) and os.path.isfile(place)
    return Input(data, name, place, path=place if on_disk else None)
