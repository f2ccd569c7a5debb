"""Writing the answer for every vertex, by the ids of the input."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from spgraph_bench.errors import UsageError
from spgraph_bench.matrix import VertexLabels
from spgraph_bench.writers import check_place, whole_file

__all__ = ["SUFFIXES", "check_answer_path", "needs_map", "save_answer", "save_vertex_map", "vertex_map_path"]

Columns = Mapping[str, npt.NDArray[Any]]

VERTICES = ("parent", "predecessor")
"""Columns that hold vertices, counted from 0; -1: none."""

SUFFIXES = (".npy", ".npz", ".csv", ".mtx")
_ROWS_AT_ONCE = 1 << 16


def check_answer_path(path: Path) -> None:
    """UsageError for a suffix not in SUFFIXES, or if `path` cannot be written. An existing file is replaced."""
    if path.suffix.lower() not in SUFFIXES:
        raise UsageError(
            f"cannot tell a format from {path.name!r}", place=str(path), remedy=f"end the name in {', '.join(SUFFIXES)}"
        )
    check_place(path, overwrite=True)
    try:  # nothing else tells whether a file can be made there
        with tempfile.NamedTemporaryFile(dir=path.resolve().parent, prefix=f".{path.name}."):
            pass
    except OSError as error:
        raise UsageError(
            f"cannot be written: {error.strerror}", place=str(path), remedy="choose another place"
        ) from None


def vertex_map_path(path: Path) -> Path:
    """Where :func:`save_vertex_map` goes beside the answer `path`."""
    return path.with_name(f"{path.name}.vertices.csv")


def needs_map(labels: VertexLabels) -> bool:
    """Whether vertices are called otherwise than by counting from 0 or 1."""
    if not isinstance(labels, np.ndarray):
        return True
    return len(labels) > 0 and not (0 <= labels[0] <= 1 and labels[-1] - labels[0] == len(labels) - 1)


def save_vertex_map(path: Path, labels: VertexLabels) -> None:
    """Write a line for each vertex to `path`: its number, which counts from 0, and what the input calls it.

    Raises UsageError when it cannot be written.
    """
    with whole_file(path, overwrite=True) as file:
        file.write(b"number,vertex\n")
        numbers: npt.NDArray[np.int64] = np.arange(len(labels), dtype=np.int64)
        _lines(file, f"%d,{_label_form(labels)}\n", [numbers, _cells(labels)])


def save_answer(path: Path, labels: VertexLabels, columns: Columns, about: str, what: str = "vertex") -> None:
    """Write `columns` (each ``[n]``, by name) of vertices called `labels` to `path`, whole or not at all. A column of
    a product with several right-hand sides is ``[n, k]``.

    `what` is what the labels are of: "vertex", or "row" of a product.

    .npy: a plain array ``[n]``, the first column; the vertex at place i is the one called ``labels[i]``.
    .npz: an array for each column, by its name, and the labels, int64, called `what`.
    .csv: a head, then a line for each vertex; floats have the digits that give the same float again. A column
    ``[n, k]`` is k columns, y_0, y_1, ....
    .mtx: a vector in Matrix Market's coordinate format from the first column: row i is the vertex i of an
    input that counts from 1, or i - 1 of one that counts from 0 (a comment says which). Vertices without a
    value (NaN, infinite, a negative integer) have no entry.

    The columns VERTICES hold ids too; -1 (.csv of names: nothing) where there is none. Vertices with names
    have their numbers, which count from 0, in .npz and .mtx: :func:`save_vertex_map` says whose they are.

    Raises UsageError when it cannot be written.
    """
    check_answer_path(path)
    kind = path.suffix.lower()
    writer = {".npy": _write_npy, ".npz": _write_npz, ".csv": _write_csv, ".mtx": _write_mtx}[kind]
    known: VertexLabels = labels
    if kind != ".csv" and not isinstance(labels, np.ndarray):
        known = np.arange(len(labels), dtype=np.int64)
    with whole_file(path, overwrite=True) as file:
        writer(file, known, {name: _as_labels(name, column, known) for name, column in columns.items()}, about, what)


def _as_labels(name: str, column: npt.NDArray[Any], labels: VertexLabels) -> npt.NDArray[Any]:
    """A column of vertices by `labels`, any other as it is."""
    if name not in VERTICES or not len(column):
        return column
    if isinstance(labels, np.ndarray):
        return np.where(column >= 0, labels[np.maximum(column, 0)], -1)
    cells: npt.NDArray[Any] = _cells([*labels, ""])[column]  # -1 is the last one: none
    return cells


def _cells(labels: VertexLabels) -> npt.NDArray[Any]:
    """VertexLabels as cells of a .csv file; names that hold commas or quotes are quoted."""
    if isinstance(labels, np.ndarray):
        return labels
    cells = np.empty(len(labels), object)
    for i, name in enumerate(labels):
        special = any(c in name for c in ',"\r\n') or name != name.strip()
        cells[i] = '"' + name.replace('"', '""') + '"' if special else name
    return cells


def _label_form(labels: VertexLabels) -> str:
    return "%d" if isinstance(labels, np.ndarray) else "%s"


def _write_npy(file: BinaryIO, ids: Any, columns: Columns, about: str, what: str) -> None:
    np.save(file, np.ascontiguousarray(next(iter(columns.values()))), allow_pickle=False)


def _write_npz(file: BinaryIO, ids: Any, columns: Columns, about: str, what: str) -> None:
    arrays: dict[str, Any] = {what: np.asarray(ids), **columns}
    np.savez(file, **arrays)


def _digits(column: npt.NDArray[Any]) -> str:
    if column.dtype.kind == "O":
        return "%s"
    if column.dtype.kind != "f":
        return "%d"
    return "%.9g" if column.dtype == np.float32 else "%.17g"


def _lines(file: BinaryIO, form: str, arrays: list[npt.NDArray[Any]]) -> None:
    for begin in range(0, len(arrays[0]), _ROWS_AT_ONCE):
        part = [a[begin : begin + _ROWS_AT_ONCE].tolist() for a in arrays]
        file.write("".join(map(form.__mod__, zip(*part, strict=True))).encode())


def _write_csv(file: BinaryIO, labels: VertexLabels, columns: Columns, about: str, what: str) -> None:
    flat: dict[str, npt.NDArray[Any]] = {}
    for name, column in columns.items():
        flat |= {name: column} if column.ndim == 1 else {f"{name}_{j}": part for j, part in enumerate(column.T)}
    file.write(f"{','.join((what, *flat))}\n".encode())
    form = ",".join((_label_form(labels), *map(_digits, flat.values()))) + "\n"
    _lines(file, form, [_cells(labels), *flat.values()])


def _write_mtx(file: BinaryIO, ids: Any, columns: Columns, about: str, what: str) -> None:
    name, values = next(iter(columns.items()))
    there = values >= 0 if values.dtype.kind == "i" else np.isfinite(values)
    first = 0 if len(ids) and ids[0] == 0 else 1
    if len(ids) and int(ids[-1]) + 1 - first >= 2**63 - 1:
        raise UsageError("a vertex id does not fit into a Matrix Market file", remedy="write .csv or .npy")
    size = int(ids[-1]) + 1 - first if len(ids) else 0
    field = "real" if values.dtype.kind == "f" else "integer"
    counted = f"row i is {what} i" if first else f"row i is {what} i - 1"
    head = f"%%MatrixMarket matrix coordinate {field} general\n% {about}\n% {name}; {counted}\n"
    wide = values[:, None] if values.ndim == 1 else values
    place, column = np.nonzero(there.reshape(wide.shape))
    file.write(f"{head}{size} {wide.shape[1]} {len(place)}\n".encode(errors="backslashreplace"))
    _lines(file, f"%d %d {_digits(values)}\n", [ids[place] + (1 - first), column + 1, wide[place, column]])
