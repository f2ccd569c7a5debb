"""Matrices that scipy.sparse.save_npz wrote; nothing in them is unpickled."""

from __future__ import annotations

import io
import math
import zipfile
from typing import IO, Any

import numpy as np

from spgraph_bench.errors import InputError
from spgraph_bench.matrix import Finding
from spgraph_bench.readers.common import (
    CERTAIN,
    NO,
    Input,
    Progress,
    RawEntries,
    ReadOptions,
    reader,
    require_memory,
    without_false,
)

__all__ = ["parse", "sniff"]

NAME = "npz"
_DEFLATE = 1032
"""No byte of a deflated stream gives more."""


def sniff(head: bytes, name: str) -> int:
    """A zip file whose first member is a numpy array."""
    return CERTAIN if head.startswith(b"PK\3\4") and b".npy" in head[:512] else NO


@reader(NAME, title="scipy npz", suffixes=(".npz",), sniff=sniff, binary=True)
def parse(data: Input, options: ReadOptions, progress: Progress) -> RawEntries:
    """Entries of a scipy.sparse .npz file of any format; InputError if it is none."""
    import scipy.sparse as sp

    if not data.head(2).startswith(b"PK"):
        raise data.error("an .npz file is a zip archive, this file is not", remedy="omit --input-format")
    progress("reading arrays", None)
    content = io.BytesIO(data.data[:])
    try:
        _require_memory(content, data.place)
        content.seek(0)
        with np.load(content, allow_pickle=False) as arrays:
            if "format" not in arrays.files:
                raise ValueError(f"only arrays: {', '.join(arrays.files)}")
            shape = arrays["shape"].ravel().tolist() if "shape" in arrays.files else []
            if shape and all(isinstance(count, int) for count in shape):
                # scipy counts the entries of each row of some formats on the way.
                what = f"a matrix of {' x '.join(f'{count:,}' for count in shape)}"
                require_memory(28 * sum(shape), what, data.place)
            matrix: Any = _of_other_precision(arrays)
        content.seek(0)
        matrix = sp.load_npz(content) if matrix is None else matrix
        if matrix.ndim != 2:
            raise ValueError(f"an array of {matrix.ndim} dimensions")
        if matrix.format in ("csr", "csc", "bsr"):
            matrix.check_format(full_check=True)  # the conversion trusts its offsets
        coo = matrix.tocoo()
    except (MemoryError, InputError):
        raise
    except Exception as error:  # zip, zlib, numpy and scipy each have their own for a damaged file
        raise data.error(
            f"no sparse matrix can be read from it ({_first_line(error)})", remedy="write it with scipy.sparse.save_npz"
        ) from None
    row, col, values = coo.row, coo.col, coo.data
    findings: tuple[Finding, ...] = ()
    if values.dtype == np.bool_:
        row, col, findings = without_false(row, col, values)
        values = None
    if values is not None and values.dtype.kind not in "fc":
        values = values.astype(np.float64)
    rows, cols = coo.shape
    return RawEntries(rows, cols, row, col, values, NAME, findings=findings)


def _of_other_precision(arrays: Any) -> Any:
    """The matrix in double precision, if its values are in half or extended, which scipy does not load."""
    import scipy.sparse as sp

    data = arrays["data"]
    if data.dtype.kind != "f" or data.dtype.itemsize in (4, 8):
        return None
    form, shape, data = (bytes(arrays["format"].item()).decode("ascii"), arrays["shape"], data.astype(np.float64))
    if form == "dia":
        return sp.dia_array((data, arrays["offsets"]), shape=shape)
    if form == "coo":
        places = arrays["coords"] if "coords" in arrays.files else (arrays["row"], arrays["col"])
        return sp.coo_array((data, tuple(places)), shape=tuple(shape))
    make: Any = {"csr": sp.csr_array, "csc": sp.csc_array, "bsr": sp.bsr_array}[form]
    return make((data, arrays["indices"], arrays["indptr"]), shape=tuple(shape))


def _require_memory(content: io.BytesIO, place: str) -> None:
    """InputError where the arrays take more memory than there is; ValueError where their headers claim what is
    not there. Nothing but headers is decompressed."""
    total = most = 0
    with zipfile.ZipFile(content) as archive:
        for member in archive.infolist():
            if member.file_size > _DEFLATE * member.compress_size + _DEFLATE:
                raise ValueError(f"{member.filename} claims more bytes than its compression can hold")
            if not member.filename.endswith(".npy"):
                continue
            with archive.open(member) as file:
                version = np.lib.format.read_magic(file)
                header = np.lib.format.read_array_header_1_0 if version == (1, 0) else _later_header
                shape, _, dtype = header(file)
                size = math.prod(shape) * dtype.itemsize
                if min(shape, default=0) < 0 or size + file.tell() > member.file_size:
                    raise ValueError(f"{member.filename} claims {size:,} bytes, and has {member.file_size:,}")
            total += size
            most = max(most, math.prod(shape))
    # The arrays as they are, as entries, and what tells which places of a band are entries.
    require_memory(2 * total + 40 * most, f"the arrays in it ({total:,} bytes)", place)


def _later_header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    return np.lib.format.read_array_header_2_0(file)


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:100]
