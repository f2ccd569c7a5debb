"""Writing a matrix to a file that gives the same matrix, bit by bit, when it is read again.

A format that cannot hold a matrix refuses it with a remedy; `losses` lists what it does not keep (names, the word
"symmetric"). ``spgraph generate`` and ``spgraph convert`` write in this one way.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
from pathlib import Path
from typing import BinaryIO, cast

from spgraph_bench.errors import UsageError
from spgraph_bench.matrix import Matrix
from spgraph_bench.writers.base import Writer, writers
from spgraph_bench.writers.files import check_place, whole_file

__all__ = ["Writer", "check_place", "check_target", "losses", "save", "whole_file", "write", "writers"]

_COMPRESSIONS = (".gz", ".bz2", ".xz")


def write(matrix: Matrix, stream: BinaryIO, kind: str, place: str) -> None:
    """Write `matrix` to `stream` as `kind`, a suffix of :func:`writers`.

    Of a symmetric matrix the formats that can say so hold the lower triangle. Values have 17 significant digits,
    enough for every float64. Raises UsageError where `kind` cannot hold this matrix, and then writes nothing.
    """
    writers()[kind].write(matrix, stream, place)


def losses(matrix: Matrix, kind: str) -> list[str]:
    """What a file of `kind` does not say about `matrix`, each as a sentence."""
    to = writers()[kind]
    texts = []
    if (matrix.names is not None or matrix.original_ids is not None) and not to.names:
        texts.append(f"{kind} has no names of vertices: they are numbers there")
    if matrix.symmetry != "general" and not to.symmetry:
        texts.append(f"{kind} does not say that a matrix is {matrix.symmetry}: both triangles are stored")
    if kind == ".gr" and matrix.csr.values is None:
        texts.append(".gr has no graphs without lengths: all are 1")
    return texts


def check_target(path: Path, overwrite: bool) -> str:
    """The kind that `path` asks for; UsageError if it has none or cannot be written to."""
    kind = _kind(path)
    check_place(path, overwrite)
    return kind


def save(matrix: Matrix, path: Path, overwrite: bool = False) -> None:
    """Write `matrix` to `path`, in the format and compression of its suffixes; it appears whole or not at all."""
    kind = check_target(path, overwrite)
    with whole_file(path, overwrite) as file:
        suffix = path.suffix.lower()
        if suffix not in _COMPRESSIONS:
            write(matrix, file, kind, str(path))
            return
        packed: gzip.GzipFile | bz2.BZ2File | lzma.LZMAFile
        if suffix == ".gz":  # no time and no name in the header: the same matrix gives the same file
            packed = gzip.GzipFile("", "wb", compresslevel=6, fileobj=file, mtime=0)
        else:
            packed = (bz2.BZ2File if suffix == ".bz2" else lzma.LZMAFile)(file, "wb")
        with packed:
            write(matrix, cast("BinaryIO", _Forward(packed)), kind, str(path))


class _Forward:
    """A stream that is written from its beginning to its end: scipy would seek in it, which compression cannot."""

    def __init__(self, stream: io.BufferedIOBase) -> None:
        self._stream = stream

    def write(self, data: bytes) -> int:
        return self._stream.write(data)

    def flush(self) -> None:
        self._stream.flush()


def _kind(path: Path) -> str:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    packed = suffixes[-1:] and suffixes[-1] in _COMPRESSIONS
    kind = "".join(suffixes[-2:-1] if packed else suffixes[-1:])
    known = writers()
    if kind not in known or (packed and not known[kind].compressible):
        raise UsageError(
            f"cannot tell a format from {path.name!r}",
            place=str(path),
            remedy=f"end the name in {', '.join(known)}; .gz, .bz2 or .xz may follow, but not .npz",
        )
    return kind
