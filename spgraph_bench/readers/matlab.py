"""MATLAB .mat files up to version 7: the SuiteSparse collection's Problem.A, or a sparse variable."""

from __future__ import annotations

import io
from typing import Any, cast

import numpy as np

from spgraph_bench.errors import InputError
from spgraph_bench.matrix import Finding
from spgraph_bench.readers.common import (
    CERTAIN,
    LIKELY,
    NO,
    Input,
    Progress,
    RawEntries,
    ReadOptions,
    reader,
    without_false,
)

__all__ = ["parse", "sniff"]

NAME = "matlab"
_HDF5 = b"\x89HDF\r\n\x1a\n"


def sniff(head: bytes, name: str) -> int:
    """The text at the start of versions 5 to 7.3; older files have only their suffix."""
    if head.startswith((b"MATLAB 5.0", b"MATLAB 7.3")):
        return CERTAIN
    return LIKELY if name.endswith(".mat") else NO


@reader(NAME, title="MATLAB", suffixes=(".mat",), sniff=sniff)
def parse(data: Input, options: ReadOptions, progress: Progress) -> RawEntries:
    """Entries of Problem.A (with the explicit zeros that Problem.Zeros lists) or of a sparse variable.

    As in the collection's other files, a Problem.A whose values are all 1 is a pattern.
    """
    from scipy.io import loadmat

    head = data.head(1024)
    if head.startswith((b"MATLAB 7.3", _HDF5)) or head[512:520] == _HDF5:
        raise data.error(
            "a MATLAB 7.3 (HDF5) file",
            remedy="save it as version 7: save name.mat Problem -v7, or fetch the Matrix Market file",
        )
    progress("reading variables", None)
    try:
        found = loadmat(cast("Any", io.BytesIO(data.data[:])))
        matrix, zeros, pattern = _chosen(data, found)
        _check(matrix)
        coo = matrix.tocoo()
        row, col, values = coo.row, coo.col, coo.data
        if zeros is not None and zeros.shape == matrix.shape:
            _check(zeros)
            more = zeros.tocoo()
            row, col = np.concatenate([row, more.row]), np.concatenate([col, more.col])
            values = np.concatenate([values, np.zeros(len(more.row), values.dtype)])
    except (InputError, MemoryError):
        raise
    except Exception as error:  # a damaged file fails anywhere within scipy's parser
        reason = (str(error).splitlines() or [type(error).__name__])[0][:100]
        raise data.error(
            f"no MATLAB variable can be read from it ({reason})", remedy="fetch the file again"
        ) from None
    rows, cols = matrix.shape
    findings: tuple[Finding, ...] = ()
    if values.dtype == np.bool_:
        row, col, findings = without_false(row, col, values)
        values = None
    elif pattern and bool(np.all(values == 1)):
        values = None
    elif values.dtype.kind not in "fc":
        values = values.astype(np.float64)
    return RawEntries(rows, cols, row, col, values, NAME, findings=findings)


def _check(matrix: Any) -> None:
    """ValueError where offsets lead astray, which conversions trust. Earlier versions of scipy give COO."""
    if matrix.format != "coo":
        matrix.check_format(full_check=True)


def _chosen(data: Input, found: dict[str, Any]) -> tuple[Any, Any, bool]:
    """The matrix, its explicit zeros or None, and whether ones may stand for a pattern."""
    import scipy.sparse as sp

    problem = found.get("Problem")
    if problem is not None and problem.dtype.names and "A" in problem.dtype.names and problem.size:
        record = problem.flat[0]
        matrix, zeros = record["A"], record["Zeros"] if "Zeros" in problem.dtype.names else None
        if sp.issparse(matrix):
            return matrix, zeros if sp.issparse(zeros) else None, True
    sparse: dict[str, Any] = {name: value for name, value in found.items() if sp.issparse(value)}
    if len(sparse) == 1:
        return next(iter(sparse.values())), None, False
    if "A" in sparse:
        return sparse["A"], None, False
    names = ", ".join(sorted(name for name in found if not name.startswith("__"))) or "none"
    what = f"{len(sparse)} sparse variables, none called A" if sparse else "no sparse matrix in it"
    raise data.error(
        f"{what} (variables: {names[:200]})", remedy="save one: A = sparse(A); save name.mat A -v7"
    )
