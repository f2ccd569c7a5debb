"""Matrices that scipy.sparse.save_npz wrote; nothing in them is unpickled."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from spgraph_bench.readers.common import CERTAIN, NO, Input, Progress, RawEntries, ReadOptions, reader

__all__ = ["parse", "sniff"]

NAME = "npz"


def sniff(head: bytes, name: str) -> int:
    """A zip file whose first member is a numpy array."""
    return CERTAIN if head.startswith(b"PK\3\4") and b".npy" in head[:512] else NO


@reader(NAME, title="scipy npz", suffixes=(".npz",), sniff=sniff)
def parse(data: Input, options: ReadOptions, progress: Progress) -> RawEntries:
    """Entries of a scipy.sparse .npz file of any format; InputError if it is none."""
    import scipy.sparse as sp

    if not data.head(2).startswith(b"PK"):
        raise data.error("an .npz file is a zip archive, this is none", remedy="leave --input-format out")
    progress("reading arrays", None)
    content = io.BytesIO(data.data[:])
    try:
        with np.load(content, allow_pickle=False) as arrays:
            if "format" not in arrays.files:
                raise ValueError(f"only arrays: {', '.join(arrays.files)}")
        content.seek(0)
        matrix: Any = sp.load_npz(content)
        if matrix.ndim != 2:
            raise ValueError(f"an array of {matrix.ndim} dimensions")
        if matrix.format in ("csr", "csc", "bsr"):
            matrix.check_format(full_check=True)  # the conversion trusts its offsets
        coo = matrix.tocoo()
    except MemoryError:
        raise
    except Exception as error:  # zip, zlib, numpy and scipy each have their own for a damaged file
        raise data.error(
            f"no sparse matrix can be read from it ({_first_line(error)})",
            remedy="write it with scipy.sparse.save_npz",
        ) from None
    values = None if coo.data.dtype == np.bool_ else coo.data
    if values is not None and values.dtype.kind not in "fc":
        values = values.astype(np.float64)
    rows, cols = coo.shape
    return RawEntries(rows, cols, coo.row, coo.col, values, NAME)


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:100]
