"""A vector from a file: the x of a product."""

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

__all__ = ["read_vector"]

_NUMBER = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|[-+]?(?:nan|inf(?:inity)?)", re.IGNORECASE)
_FORMS = "a vector is .npy, .npz with one array, Matrix Market, or text with a number in each line"


def read_vector(path: Path, length: int) -> npt.NDArray[np.float64]:
    """The vector ``[length]`` in the file `path`, as float64.

    .npy or .npz (one array, of one dimension, or of two of which one is 1; nothing is unpickled), Matrix Market
    (array or coordinates), or text: in each line a number, the last one where there are more (what ``--output
    y.csv`` writes), with # or % before comments. Raises InputError, with the line where there is one, for anything
    else, complex numbers, and another length.
    """
    place = str(path)
    data = _content(path)
    if data.startswith((b"\x93NUMPY", b"PK\3\4")):
        vector = _of_numpy(data, place)
    elif data[:14].lower() == b"%%matrixmarket":
        vector = _of_matrix_market(data, place, length)
    else:
        vector = _of_text(data, place)
    if vector.dtype.kind == "c":
        raise InputError("the values are complex, spgraph computes with real ones", place=place, remedy=_FORMS)
    if vector.dtype.kind not in "biuf":
        raise InputError(f"an array of {vector.dtype} is not a vector of numbers", place=place, remedy=_FORMS)
    if vector.size != length or max(vector.shape, default=0) != length:
        shape = " x ".join(f"{count:,}" for count in vector.shape) or "0 dimensions"
        raise InputError(
            f"a vector of {length:,} values is wanted, this one has {shape}",
            place=place,
            remedy="x has a value for each column of the matrix",
        )
    return vector.reshape(length).astype(np.float64)


def _content(path: Path) -> bytes:
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
        raise InputError(f"cannot be read: {reason.lower()}", place=str(path), remedy=_FORMS) from None
    if not data.strip():
        raise InputError("the file is empty", place=str(path), remedy=_FORMS)
    return data


def _of_numpy(data: bytes, place: str) -> npt.NDArray[Any]:
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
        raise InputError(f"no array can be read from it ({why})", place=place, remedy=_FORMS) from None


def _of_matrix_market(data: bytes, place: str, length: int) -> npt.NDArray[Any]:
    from scipy.io import mminfo, mmread

    try:
        rows, cols = mminfo(io.BytesIO(data))[:2]
        if {1, length} != {rows, cols} and (rows, cols) != (1, 1):
            return np.broadcast_to(np.float64(0), (rows, cols))  # whose shape is refused, before it is made
        stored: Any = mmread(io.BytesIO(data))
    except Exception as error:  # scipy's for whatever it does not expect
        why = (str(error).splitlines() or [type(error).__name__])[0][:100]
        raise InputError(f"no vector can be read from it ({why})", place=place, remedy=_FORMS) from None
    return np.asarray(stored.toarray() if hasattr(stored, "toarray") else stored)


def _of_text(data: bytes, place: str) -> npt.NDArray[np.float64]:
    numbers: list[float] = []
    for number, line in enumerate(data.decode("utf-8-sig", "replace").splitlines(), 1):
        words = re.split(r"[\s,;]+", re.split("[#%]", line)[0].strip(" \t,;"))
        if words == [""]:
            continue
        if _NUMBER.fullmatch(words[-1]):
            numbers.append(float(words[-1]))
        elif numbers or number > 1:  # else a line with names of columns
            raise InputError(
                f"{line.strip()[:40]!r} does not end in a number", place=f"{place}:{number}", remedy=_FORMS
            )
    return np.array(numbers)
