"""A vector, or a dense matrix, from a file: the x of a product."""

from __future__ import annotations

import io
import os
import re
import stat
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.errors import InputError
from spgraph_bench.memory import require_memory
from spgraph_bench.units import human_bytes

__all__ = ["in_type", "read_columns", "read_vector"]

_NUMBER = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|[-+]?(?:nan|inf(?:inity)?)", re.IGNORECASE)
_FORMS = "a vector is .npy, .npz with one array, Matrix Market, or text with a number in each line"
_WIDE = "X is .npy, .npz with one array, Matrix Market, or text with the values of a row in each line"


def read_vector(path: Path, length: int) -> npt.NDArray[np.float64]:
    """The vector ``[length]`` in the file `path`, as float64; see :func:`read_columns`. It may also have one row."""
    return read_columns(path, length).reshape(length)


def read_columns(path: Path, rows: int, columns: int = 1) -> npt.NDArray[np.float64]:
    """The array ``[rows, columns]`` in the file `path`, as float64.

    .npy or .npz (one array; nothing is unpickled), Matrix Market (array or coordinates), or text: in each line the
    values of a row, the last numbers where there are more (what ``--output y.csv`` writes), with # or % before
    comments. Raises InputError, with the line where there is one, for anything else, complex numbers, and another
    shape.
    """
    place, forms = str(path), _FORMS if columns == 1 else _WIDE
    data = _content(path, forms)
    if data.startswith((b"\x93NUMPY", b"PK\3\4")):
        array = _of_numpy(data, place, forms)
    elif data[:14].lower() == b"%%matrixmarket":
        array = _of_matrix_market(data, place, rows, columns)
    else:
        array = _of_text(data, place, columns)
    if array.dtype.kind == "c":
        raise InputError("the values are complex, spgraph computes with real ones", place=place, remedy=forms)
    if array.dtype.kind not in "biuf":
        raise InputError(f"an array of {array.dtype} is not a vector of numbers", place=place, remedy=forms)
    right = array.shape == (rows, columns)
    if columns == 1:
        right = array.size == rows == max(array.shape, default=0)
    if not right:
        shape = " x ".join(f"{count:,}" for count in array.shape) or "0 dimensions"
        wanted = f"a vector of {rows:,} values" if columns == 1 else f"an array of {rows:,} x {columns:,} values"
        raise InputError(
            f"{wanted} is wanted, this one has {shape}",
            place=place,
            remedy="x has a value for each column of the matrix"
            if columns == 1
            else "X has a row for each column of the matrix; --k is the number of its columns",
        )
    return array.reshape(rows, columns).astype(np.float64)


def in_type(values: npt.NDArray[np.float64], dtype: np.dtype[Any], place: str) -> npt.NDArray[Any]:
    """`values`, read from `place`, rounded to `dtype`. Raises InputError for those that it does not have."""
    with np.errstate(over="ignore"):
        x = values.astype(dtype)
    if (beyond := np.isinf(x) & np.isfinite(values)).any():
        value = float(values.flat[int(np.argmax(beyond))])
        raise InputError(
            f"x has {value:.9g}, which is beyond {dtype}", place=place, remedy="--dtype float64 or smaller values"
        )
    return x


def _content(path: Path, forms: str) -> bytes:
    try:
        mode = os.stat(path).st_mode
        if not stat.S_ISREG(mode) and not stat.S_ISFIFO(mode):
            what = "a folder" if stat.S_ISDIR(mode) else "a device, not a file"
            raise InputError(f"this is {what}", place=str(path), remedy="name a file")
        size = path.stat().st_size
        require_memory(4 * size, f"a vector of {human_bytes(size)}", str(path))
        data = path.read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"cannot be read: {reason.lower()}", place=str(path), remedy=forms) from None
    if not data.strip():
        raise InputError("the file is empty", place=str(path), remedy=forms)
    return data


def _of_numpy(data: bytes, place: str, forms: str) -> npt.NDArray[Any]:
    try:
        if not data.startswith(b"PK"):
            return np.asarray(np.load(io.BytesIO(data), allow_pickle=False))
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            sizes = sum(member.file_size for member in archive.infolist())
        require_memory(2 * sizes, f"the arrays in it ({human_bytes(sizes)})", place)
        with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
            names = [name for name in arrays.files if name not in ("row", "vertex")]
            if len(names) != 1:
                raise ValueError(f"arrays: {', '.join(arrays.files[:5]) or 'none'}")
            return np.asarray(arrays[names[0]])
    except (MemoryError, InputError):
        raise
    except Exception as error:  # numpy and zipfile each have their own for a damaged file
        why = (str(error).splitlines() or [type(error).__name__])[0][:100]
        raise InputError(f"no array can be read from it ({why})", place=place, remedy=forms) from None


def _of_matrix_market(data: bytes, place: str, wanted_rows: int, columns: int) -> npt.NDArray[Any]:
    from scipy.io import mminfo, mmread

    try:
        rows, cols = mminfo(io.BytesIO(data))[:2]
        shapes = ({wanted_rows, 1}, {1}) if columns == 1 else ()
        if {rows, cols} not in shapes and (rows, cols) != (wanted_rows, columns):
            return np.broadcast_to(np.float64(0), (rows, cols))  # whose shape is refused, before it is made
        stored: Any = mmread(io.BytesIO(data))
    except Exception as error:  # scipy's for whatever it does not expect
        why = (str(error).splitlines() or [type(error).__name__])[0][:100]
        raise InputError(
            f"no vector can be read from it ({why})", place=place, remedy=_FORMS if columns == 1 else _WIDE
        ) from None
    return np.asarray(stored.toarray() if hasattr(stored, "toarray") else stored)


def _of_text(data: bytes, place: str, columns: int) -> npt.NDArray[np.float64]:
    numbers: list[float] = []
    for number, line in enumerate(data.decode("utf-8-sig", "replace").splitlines(), 1):
        words = re.split(r"[\s,;]+", re.split("[#%]", line)[0].strip(" \t,;"))
        if words == [""]:
            continue
        last = words[-columns:]
        if len(last) == columns and all(map(_NUMBER.fullmatch, last)):
            numbers += map(float, last)
        elif numbers or number > 1:  # else a line with names of columns
            what = "a number" if columns == 1 else f"{columns:,} numbers"
            raise InputError(
                f"{line.strip()[:40]!r} does not end in {what}",
                place=f"{place}:{number}",
                remedy=_FORMS if columns == 1 else _WIDE,
            )
    return np.array(numbers) if columns == 1 else np.array(numbers).reshape(-1, columns)
