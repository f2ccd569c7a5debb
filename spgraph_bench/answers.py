"""Writing what a run found out about every vertex, by the ids of the input."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from spgraph_bench.errors import UsageError
from spgraph_bench.writers import check_place, whole_file

__all__ = ["SUFFIXES", "check_answer_path", "save_answer"]

Columns = Mapping[str, npt.NDArray[Any]]

SUFFIXES = (".npy", ".csv", ".mtx")
_ROWS_AT_ONCE = 1 << 16


def check_answer_path(path: Path) -> None:
    """UsageError if `path` has none of SUFFIXES or no file can be written there; an older one is replaced."""
    if path.suffix.lower() not in SUFFIXES:
        raise UsageError(
            f"cannot tell a format from {path.name!r}",
            place=str(path),
            remedy=f"end the name in {', '.join(SUFFIXES)}",
        )
    check_place(path, overwrite=True)
    try:  # nothing else tells whether a file can be made there
        with tempfile.NamedTemporaryFile(dir=path.resolve().parent, prefix=f".{path.name}."):
            pass
    except OSError as error:
        raise UsageError(
            f"cannot be written: {error.strerror}", place=str(path), remedy="choose another place"
        ) from None


def save_answer(path: Path, ids: npt.NDArray[np.int64], columns: Columns, about: str) -> None:
    """Write `columns` (each ``[n]``, by name) of the vertices `ids` to `path`, whole or not at all.

    .npy: a structured array ``[n]`` with the fields ``vertex`` (int64) and one for each column.
    .csv: a head, then a line for each vertex; floats have the digits that give the same float again.
    .mtx: a vector in Matrix Market's coordinate format from the first column: row i is the vertex i of an
    input that counts from 1, or i - 1 of one that counts from 0 (a comment says which). Vertices without a
    value (NaN, infinite) have no entry.

    Raises UsageError when it cannot be written.
    """
    check_answer_path(path)
    writer = {".npy": _write_npy, ".csv": _write_csv, ".mtx": _write_mtx}[path.suffix.lower()]
    with whole_file(path, overwrite=True) as file:
        writer(file, ids, columns, about)


def _write_npy(file: BinaryIO, ids: npt.NDArray[np.int64], columns: Columns, about: str) -> None:
    table = np.empty(len(ids), [("vertex", np.int64), *((name, a.dtype) for name, a in columns.items())])
    table["vertex"] = ids
    for name, column in columns.items():
        table[name] = column
    np.save(file, table, allow_pickle=False)


def _digits(column: npt.NDArray[Any]) -> str:
    if column.dtype.kind != "f":
        return "%d"
    return "%.9g" if column.dtype == np.float32 else "%.17g"


def _lines(file: BinaryIO, form: str, arrays: list[npt.NDArray[Any]]) -> None:
    for begin in range(0, len(arrays[0]), _ROWS_AT_ONCE):
        part = [a[begin : begin + _ROWS_AT_ONCE].tolist() for a in arrays]
        file.write("".join(map(form.__mod__, zip(*part, strict=True))).encode())


def _write_csv(file: BinaryIO, ids: npt.NDArray[np.int64], columns: Columns, about: str) -> None:
    file.write(f"{','.join(('vertex', *columns))}\n".encode())
    form = ",".join(("%d", *map(_digits, columns.values()))) + "\n"
    _lines(file, form, [ids, *columns.values()])


def _write_mtx(file: BinaryIO, ids: npt.NDArray[np.int64], columns: Columns, about: str) -> None:
    name, values = next(iter(columns.items()))
    there = np.isfinite(values)
    first = 0 if len(ids) and ids[0] == 0 else 1
    if len(ids) and int(ids[-1]) + 1 - first >= 2**63 - 1:
        raise UsageError("a vertex id does not fit into a Matrix Market file", remedy="write .csv or .npy")
    rows = ids[there] + (1 - first)
    size = int(ids[-1]) + 1 - first if len(ids) else 0
    field = "real" if values.dtype.kind == "f" else "integer"
    counted = "row i is vertex i" if first else "row i is vertex i - 1"
    head = f"%%MatrixMarket matrix coordinate {field} general\n% {about}\n% {name}; {counted}\n"
    file.write(f"{head}{size} 1 {len(rows)}\n".encode(errors="backslashreplace"))
    _lines(file, f"%d 1 {_digits(values)}\n", [rows, values[there]])
