"""Writing a matrix to a file that gives the same matrix, bit by bit, when it is read again."""

from __future__ import annotations

import contextlib
import gzip
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import numpy as np

from spgraph_bench.errors import UsageError
from spgraph_bench.matrix import Matrix
from spgraph_bench.stats import row_blocks

__all__ = ["SUFFIXES", "check_place", "check_target", "save", "whole_file", "write"]

SUFFIXES = (".mtx", ".npz", ".txt", ".edges", ".tsv", ".el", ".wel")
"""What can be written; all but .npz also with .gz behind."""


def write(matrix: Matrix, stream: BinaryIO, kind: str, place: str) -> None:
    """Write `matrix` to `stream` as `kind`, one of SUFFIXES.

    Of a symmetric matrix the text formats hold the lower triangle, where they can say so. Values have 17
    significant digits, enough for every float64. Raises UsageError where `kind` cannot hold this matrix, and
    then writes nothing.
    """
    _WRITERS[kind](matrix, stream, place)


def check_target(path: Path, overwrite: bool) -> str:
    """The kind that `path` asks for; UsageError if it has none or cannot be written to."""
    kind = _kind(path)
    check_place(path, overwrite)
    return kind


def check_place(path: Path, overwrite: bool) -> None:
    """UsageError if no file can be made at `path`."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as error:  # a link to itself, a name too long, a folder that cannot be entered
        raise UsageError(
            f"cannot be written: {error.strerror}", place=str(path), remedy="choose another place"
        ) from None
    if path.exists() and not path.is_file():
        raise UsageError("is not a regular file", place=str(path), remedy="name a file")
    if path.exists() and not overwrite:
        raise UsageError("exists already", place=str(path), remedy="--force overwrites it")
    if not path.parent.is_dir():
        raise UsageError(f"there is no folder {path.parent}", place=str(path), remedy="make it first")
    if not os.access(path.parent, os.W_OK):
        raise UsageError(
            f"the folder {path.parent} cannot be written to", place=str(path), remedy="choose another place"
        )


def save(matrix: Matrix, path: Path, overwrite: bool = False) -> None:
    """Write `matrix` to `path`, in the format of its suffix; the file appears whole or not at all."""
    kind = check_target(path, overwrite)
    with whole_file(path, overwrite) as file:
        if path.suffix.lower() == ".gz":
            # No time and no name in the header: the same matrix gives the same file.
            with gzip.GzipFile("", "wb", compresslevel=6, fileobj=file, mtime=0) as packed:
                write(matrix, packed, kind, str(path))  # type: ignore[arg-type]
        else:
            write(matrix, file, kind, str(path))


@contextmanager
def whole_file(path: Path, overwrite: bool) -> Iterator[BinaryIO]:
    """A file to write, which appears at `path` whole when the block ends, or not at all.

    Raises UsageError when it cannot be written, or is there by then and `overwrite` is not given.
    """
    path = path.resolve()  # a link stays a link
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if overwrite:
            part.replace(path)
        else:
            try:
                os.link(part, path)  # unlike a rename, fails if another process made the file meanwhile
            except FileExistsError:
                raise UsageError("exists already", place=str(path), remedy="--force overwrites it") from None
            except OSError:  # a file system without hard links
                part.replace(path)
    except OSError as error:  # a full disk, a quota, a folder in which no file can be made
        raise UsageError(
            f"cannot be written: {error.strerror or error}",
            place=str(path),
            remedy="make room there, or choose another place",
        ) from None
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)


def _kind(path: Path) -> str:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    packed = suffixes[-1:] == [".gz"]
    kind = "".join(suffixes[-2:-1] if packed else suffixes[-1:])
    if kind not in SUFFIXES or (packed and kind == ".npz"):
        raise UsageError(
            f"cannot tell a format from {path.name!r}",
            place=str(path),
            remedy=f"end the name in {', '.join(SUFFIXES)} (text formats may have .gz behind)",
        )
    return kind


def _about(matrix: Matrix) -> str:
    return f"spgraph {matrix.source.kind} {' '.join(matrix.source.text.split())}"


def _write_mtx(matrix: Matrix, stream: BinaryIO, place: str) -> None:
    from scipy.io import mmwrite
    from scipy.sparse import coo_array

    csr = matrix.csr
    symmetric = matrix.symmetry == "symmetric"
    rows = np.repeat(np.arange(csr.rows, dtype=np.int32), csr.row_lengths())
    cols, values = csr.col_idx, csr.value_array(np.int8 if csr.values is None else np.float64)
    if symmetric:
        lower = cols <= rows
        rows, cols, values = rows[lower], cols[lower], values[lower]
    entries = coo_array((values, (rows, cols)), shape=csr.shape)
    # mmwrite is multi-threaded C++ and would take the symmetric half itself, but in wider copies.
    mmwrite(
        stream,
        entries,
        comment=_about(matrix),
        field="pattern" if csr.values is None else "real",
        precision=17,
        symmetry="symmetric" if symmetric else "general",
    )


def _write_npz(matrix: Matrix, stream: BinaryIO, place: str) -> None:
    from scipy.sparse import csr_array, save_npz

    csr = matrix.csr
    values = np.ones(csr.nnz, bool) if csr.values is None else csr.values
    # A pattern is stored as booleans.
    save_npz(stream, csr_array((values, csr.col_idx, csr.row_ptr), shape=csr.shape), compressed=False)


def _edge_lines(matrix: Matrix, base: int, lower: bool) -> Iterator[bytes]:
    csr = matrix.csr
    form = ("%d %d\n" if csr.values is None else "%d %d %.17g\n").__mod__
    for block in row_blocks(csr):
        rows, cols = block.row_ids(), block.cols
        kept = cols <= rows if lower else np.ones(len(cols), bool)
        columns = [(rows[kept] + base).tolist(), (cols[kept] + base).tolist()]
        if csr.values is not None:
            columns.append(csr.values[block.entries][kept].tolist())
        yield "".join(map(form, zip(*columns, strict=True))).encode()


def _require_graph(matrix: Matrix, place: str) -> None:
    csr = matrix.csr
    if csr.rows != csr.cols:
        cause = f"an edge list cannot hold a matrix of {csr.rows:,} x {csr.cols:,}"
    elif csr.nnz == 0:
        cause = "an edge list cannot hold a graph without edges"
    else:
        return
    raise UsageError(cause, place=place, remedy="write .mtx")


def _write_konect(matrix: Matrix, stream: BinaryIO, place: str) -> None:
    """1-based, with KONECT's header, which keeps vertices without edges and undirected graphs."""
    _require_graph(matrix, place)
    csr, lower = matrix.csr, matrix.symmetry == "symmetric"
    entries = csr.nnz
    if lower:
        entries = sum(int(np.count_nonzero(block.cols <= block.row_ids())) for block in row_blocks(csr))
    kind, weights = "sym" if lower else "asym", "unweighted" if csr.values is None else "weighted"
    header = f"% {kind} {weights}\n% {entries} {csr.rows} {csr.cols}\n% {_about(matrix)}\n"
    stream.write(header.encode())
    for lines in _edge_lines(matrix, 1, lower):
        stream.write(lines)


def _write_gap(matrix: Matrix, stream: BinaryIO, place: str) -> None:
    """0-based, no header: what the GAP suite reads. Such a list cannot name vertices without edges."""
    _require_graph(matrix, place)
    csr = matrix.csr
    weighted = csr.values is not None
    name = place.lower().removesuffix(".gz")
    if weighted != name.endswith(".wel"):
        right = ".wel" if weighted else ".el"
        raise UsageError(
            f"the graph is {'weighted' if weighted else 'unweighted'}",
            place=place,
            remedy=f"write {right}, or make it with values={'none' if weighted else 'random'}",
        )
    last_named = csr.row_ptr[-1] > csr.row_ptr[-2] or int(csr.col_idx.max()) == csr.cols - 1
    if csr.row_ptr[1] == 0 or not last_named:
        raise UsageError(
            "vertex 0 has no out-edge or the last vertex no edge, which a list without a header cannot say",
            place=place,
            remedy="write .txt or .mtx",
        )
    for lines in _edge_lines(matrix, 0, False):
        stream.write(lines)


_WRITERS: dict[str, Callable[[Matrix, BinaryIO, str], None]] = {
    ".mtx": _write_mtx,
    ".npz": _write_npz,
    ".txt": _write_konect,
    ".edges": _write_konect,
    ".tsv": _write_konect,
    ".el": _write_gap,
    ".wel": _write_gap,
}
