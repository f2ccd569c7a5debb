"""Formats of matrices: Matrix Market, scipy's .npz, MATLAB, Rutherford-Boeing."""

from __future__ import annotations

import io
from typing import Any, BinaryIO, Literal

import numpy as np
import numpy.typing as npt

from spgraph_bench.matrix import Matrix
from spgraph_bench.writers.base import refuse, writer

__all__ = ["about"]

_INT32 = 2**31 - 1


def about(matrix: Matrix) -> str:
    """A comment that says where the matrix came from."""
    text = f"spgraph {matrix.source.kind} {' '.join(matrix.source.text.split())}"
    return text.encode(errors="backslashreplace").decode()  # names of files may be no UTF-8


def _triangle(matrix: Matrix) -> Literal["general", "symmetric", "skew-symmetric"]:
    """What the file says of the symmetry, in Matrix Market's words."""
    if matrix.symmetry == "symmetric":
        return "symmetric"
    if matrix.symmetry == "skew-symmetric":
        csr = matrix.csr
        on_diagonal = csr.col_idx == np.repeat(np.arange(csr.rows, dtype=np.int32), csr.row_lengths())
        return "general" if on_diagonal.any() else "skew-symmetric"  # which has no place for the diagonal
    return "general"


@writer(".mtx", reader="matrix-market", title="Matrix Market", symmetry=True)
def write_mtx(matrix: Matrix, stream: BinaryIO, place: str) -> None:
    """Coordinates; of a symmetric matrix the lower triangle. Values have 17 digits."""
    from scipy.io import mmwrite
    from scipy.sparse import coo_array

    csr, symmetry = matrix.csr, _triangle(matrix)
    rows = np.repeat(np.arange(csr.rows, dtype=np.int32), csr.row_lengths())
    cols, values = csr.col_idx, csr.value_array(np.int8 if csr.values is None else np.float64)
    if symmetry != "general":
        lower = cols <= rows
        rows, cols, values = rows[lower], cols[lower], values[lower]
    entries = coo_array((values, (rows, cols)), shape=csr.shape)
    # mmwrite is multi-threaded C++ and would take the symmetric half itself, but in wider copies.
    mmwrite(
        stream,
        entries,
        comment=about(matrix),
        field="pattern" if csr.values is None else "real",
        precision=17,
        symmetry=symmetry,
    )


@writer(".npz", reader="npz", title="scipy npz", compressible=False)
def write_npz(matrix: Matrix, stream: BinaryIO, place: str) -> None:
    """As scipy.sparse.save_npz writes it; a pattern as booleans."""
    from scipy.sparse import csr_array, save_npz

    csr = matrix.csr
    values = np.ones(csr.nnz, bool) if csr.values is None else csr.values
    save_npz(stream, csr_array((values, csr.col_idx, csr.row_ptr), shape=csr.shape), compressed=False)


@writer(".mat", reader="matlab", title="MATLAB")
def write_mat(matrix: Matrix, stream: BinaryIO, place: str) -> None:
    """A sparse variable ``A`` of version 5; a pattern is logical. The same matrix gives the same file."""
    from scipy.io import savemat
    from scipy.sparse import csr_array

    csr = matrix.csr
    if csr.nnz > _INT32:
        raise refuse(f"a MATLAB file cannot hold {csr.nnz:,} entries", place, "write .npz")
    values = np.ones(csr.nnz, bool) if csr.values is None else csr.values
    made = io.BytesIO()  # the writer goes back to fill in sizes, which a compressed stream cannot
    target: Any = made  # any stream will do
    savemat(target, {"A": csr_array((values, csr.col_idx, csr.row_ptr), shape=csr.shape).tocsc()})
    text = b"MATLAB 5.0 MAT-file, " + about(matrix).encode("ascii", "replace")
    made.seek(0)
    made.write(text[:116].ljust(116))  # scipy puts the time there
    stream.write(made.getbuffer())


@writer(".rb", reader="rutherford-boeing", title="Rutherford-Boeing", symmetry=True)
def write_rb(matrix: Matrix, stream: BinaryIO, place: str) -> None:
    """Compressed columns; of a symmetric matrix the lower triangle. Values have 17 digits."""
    from scipy.sparse import tril

    csr, symmetry = matrix.csr, _triangle(matrix)
    if csr.nnz == 0:
        raise refuse("a Rutherford-Boeing file cannot hold a matrix without entries", place, "write .mtx")
    if csr.values is not None and not np.isfinite(csr.values).all():
        raise refuse("Rutherford-Boeing has no infinite values and no nan", place, "write .mtx or .npz")
    whole = csr.to_scipy()
    columns: Any = whole.tocsc() if symmetry == "general" else tril(whole, format="csc")
    columns.sort_indices()
    shape = {"symmetric": "s", "skew-symmetric": "z"}.get(symmetry, "u" if csr.rows == csr.cols else "r")
    sections = [_integers(one.astype(np.int64) + 1) for one in (columns.indptr, columns.indices)]
    if csr.values is not None:
        sections.append((3, 25, "(3E25.16)", "%25.16E", columns.data))
    cards = [-(-len(numbers) // per_line) for per_line, _, _, _, numbers in sections]
    counts = [sum(cards), *cards, *[0] * (3 - len(cards))]
    title = about(matrix).encode("ascii", "replace").decode()[:72]
    key = matrix.name.encode("ascii", "replace").decode()[:8]
    formats = f"{sections[0][2]:<16}{sections[1][2]:<16}{sections[2][2] if len(sections) > 2 else '':<20}"
    head = (
        f"{title:<72}{key:<8}\n{counts[0]:14d}" + "".join(f" {count:13d}" for count in counts[1:]) + "\n"
        f"{'p' if csr.values is None else 'r'}{shape}a{'':11}"
        f"{csr.rows:14d} {csr.cols:13d} {len(columns.indices):13d} {0:13d}\n{formats}\n"
    )
    stream.write(head.encode())
    for per_line, _, _, form, numbers in sections:
        for begin in range(0, len(numbers), 4096 * per_line):
            stream.write(_lines(numbers[begin : begin + 4096 * per_line], per_line, form))


def _integers(numbers: npt.NDArray[Any]) -> tuple[int, int, str, str, npt.NDArray[Any]]:
    """Fields per line, their width, Fortran's and Python's format, and the numbers."""
    width = len(str(int(numbers.max(initial=1)))) + 1
    per_line = 80 // width
    return per_line, width, f"({per_line}I{width})", f"%{width}d", numbers


def _lines(numbers: npt.NDArray[Any], per_line: int, form: str) -> bytes:
    cells = [form % number for number in numbers.tolist()]
    return "".join("".join(cells[begin : begin + per_line]) + "\n" for begin in range(0, len(cells), per_line)).encode()
