"""MATLAB .mat files up to version 7: the SuiteSparse collection's Problem.A, or a sparse variable.

The elements of a file are walked here, each within the bounds of the one that holds it, and only sparse
matrices are taken: scipy's reader ends the process where a bit of a tag is wrong. zlib's checksum is verified
before anything is taken from a compressed variable. The formats are those of MathWorks, "MAT-File Format"
(levels 4 and 5).
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.readers.common import (
    CERTAIN,
    LIKELY,
    NO,
    Input,
    Progress,
    RawEntries,
    ReadOptions,
    reader,
    require_memory,
)

__all__ = ["parse", "sniff"]

NAME = "matlab"
_HDF5 = b"\x89HDF\r\n\x1a\n"
_HEADER = 128
_MATRIX, _COMPRESSED = 14, 15  # types of elements
_STRUCT, _SPARSE = 2, 5  # classes of arrays
_TYPES = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
_TYPES_4 = ("f8", "f4", "i4", "i2", "u2", "u1")
_COMPLEX, _LOGICAL = 0x0800, 0x0200
_DEFLATE = 1032
"""No byte of a deflated stream gives more."""
_PEEK = 4096
_MOST_FIELDS = 4096


class _DamageError(ValueError):
    """Something that cannot be in a sound file; the text says what."""


@dataclass
class _Sparse:
    rows: int
    cols: int
    row: npt.NDArray[Any]
    col: npt.NDArray[Any]
    values: npt.NDArray[Any] | None
    """None: logical."""


@dataclass
class _Variable:
    """A variable of a file: its name, what class of array it is, and its bytes, or where to get them."""

    name: str
    kind: int
    content: memoryview
    compressed: bool = False


def sniff(head: bytes, name: str) -> int:
    """The text at the start of versions 5 to 7.3; older files have only their suffix."""
    if head.startswith((b"MATLAB 5.0", b"MATLAB 7.3")):
        return CERTAIN
    return LIKELY if name.endswith(".mat") else NO


@reader(NAME, title="MATLAB", suffixes=(".mat",), sniff=sniff, binary=True)
def parse(data: Input, options: ReadOptions, progress: Progress) -> RawEntries:
    """Entries of Problem.A (with the explicit zeros that Problem.Zeros lists) or of a sparse variable.

    As in the collection's other files, a Problem.A whose values are all 1 is a pattern.
    """
    head = data.head(1024)
    if head.startswith((b"MATLAB 7.3", _HDF5)) or head[512:520] == _HDF5:
        raise data.error(
            "a MATLAB 7.3 (HDF5) file",
            remedy="save it as version 7: save name.mat Problem -v7, or fetch the Matrix Market file",
        )
    progress("reading variables", None)
    try:
        file = _Level4(data) if 0 in head[:4] else _Level5(data)
        matrix, zeros, pattern = _chosen(data, file, progress)
        row, col, values = matrix.row, matrix.col, matrix.values
        same = zeros is not None and (zeros.rows, zeros.cols) == (matrix.rows, matrix.cols)
        if zeros is not None and same and values is not None:
            row, col = np.concatenate([row, zeros.row]), np.concatenate([col, zeros.col])
            values = np.concatenate([values, np.zeros(len(zeros.row), values.dtype)])
    except (_DamageError, zlib.error) as error:
        raise data.error(f"no MATLAB variable can be read from it ({error})", remedy="fetch the file again") from None
    if values is not None and pattern and bool(np.all(values == 1)):
        values = None
    elif values is not None and values.dtype.kind not in "fc":
        values = values.astype(np.float64)
    return RawEntries(matrix.rows, matrix.cols, row, col, values, NAME)


def _chosen(data: Input, file: _Level4 | _Level5, progress: Progress) -> tuple[_Sparse, _Sparse | None, bool]:
    """The matrix, its explicit zeros or None, and whether ones may stand for a pattern."""
    variables = {variable.name: variable for variable in file.variables()}
    problem = variables.get("Problem")
    if problem is not None and problem.kind == _STRUCT:
        assert isinstance(file, _Level5)
        progress("reading Problem", None)
        fields = file.fields(problem, ("A", "Zeros"))
        if "A" in fields:
            return fields["A"], fields.get("Zeros"), True
    sparse = {name: variable for name, variable in variables.items() if variable.kind == _SPARSE}
    chosen = next(iter(sparse.values())) if len(sparse) == 1 else sparse.get("A")
    if chosen is not None:
        progress(f"reading {chosen.name}", None)
        return file.sparse(chosen), None, False
    names = ", ".join(sorted(variables)) or "none"
    what = f"{len(sparse)} sparse variables, none called A" if sparse else "no sparse matrix in it"
    raise data.error(f"{what} (variables: {names[:100]})", remedy="save one: A = sparse(A); save name.mat A -v7")


class _Level5:
    """A file of level 5: versions 5, 6 and 7."""

    def __init__(self, data: Input) -> None:
        self._data = data
        head = data.head(_HEADER)
        if len(head) < _HEADER:
            raise _DamageError("the header of 128 bytes is cut off")
        self._order = {b"IM": "<", b"MI": ">"}.get(head[126:128], "")
        if not self._order:
            raise _DamageError("the header has no byte order")

    # ---- elements ------------------------------------------------------------------------------------

    def _word(self, view: memoryview, offset: int) -> int:
        return int.from_bytes(view[offset : offset + 4], "little" if self._order == "<" else "big")

    def _element(self, view: memoryview, offset: int) -> tuple[int, memoryview, int]:
        """Type and content of the element at byte `offset` of `view`, and where the next one begins."""
        if offset + 8 > len(view):
            raise _DamageError("an element is cut off")
        kind, size = self._word(view, offset), self._word(view, offset + 4)
        if kind >> 16:  # a small one: size and type in one word, up to four bytes in the next
            kind, size = kind & 0xFFFF, kind >> 16
            if size > 4:
                raise _DamageError("a small element of more than 4 bytes")
            return kind, view[offset + 4 : offset + 4 + size], offset + 8
        end = offset + 8 + size
        if end > len(view):
            raise _DamageError("an element is longer than its container")
        return kind, view[offset + 8 : end], end if kind == _COMPRESSED else min(len(view), end + -size % 8)

    def _numbers(self, view: memoryview, offset: int, what: str, integer: bool) -> tuple[npt.NDArray[Any], int]:
        """The numbers of the element at byte `offset`, as it stores them, and where the next one begins."""
        kind, content, after = self._element(view, offset)
        dtype = np.dtype(f"{self._order}{_TYPES[kind]}") if kind in _TYPES else None
        if dtype is None or len(content) % dtype.itemsize or (integer and dtype.kind not in "iu"):
            raise _DamageError(f"{what} are not numbers of a known type")
        return np.frombuffer(content, dtype), after

    def _text(self, view: memoryview, offset: int, what: str) -> tuple[bytes, int]:
        kind, content, after = self._element(view, offset)
        if kind not in (1, 2, 16):
            raise _DamageError(f"{what} is not text")
        return bytes(content), after

    # ---- arrays --------------------------------------------------------------------------------------

    def variables(self) -> Iterator[_Variable]:
        """The variables, in order; not decompressed yet."""
        raw = self._data.data
        view, offset = memoryview(raw), _HEADER
        while offset < len(view):
            if not any(view[offset : offset + 8]) and not any(raw[offset : offset + 4096]):  # padding at the end
                return
            kind, content, offset = self._element(view, offset)
            head = content
            if kind == _COMPRESSED:
                head = memoryview(zlib.decompressobj().decompress(content, _PEEK))
                if len(head) < 8:
                    raise _DamageError("a compressed variable is cut off")
                kind, head = self._word(head, 0), head[8:]
                name, array = self._about(head) if kind == _MATRIX else ("", -1)
                yield _Variable(name, array, content, compressed=True)
            elif kind == _MATRIX:
                name, array = self._about(content)
                yield _Variable(name, array, content)

    def _about(self, content: memoryview) -> tuple[str, int]:
        """Name and class of the array in `content`, of which the beginning is enough."""
        if not len(content):
            return "", -1
        (flags, _), _, name, _ = self._head(content)
        return name, flags & 0xFF

    def _head(self, content: memoryview) -> tuple[tuple[int, int], tuple[int, ...], str, int]:
        """Flags and nzmax, dimensions, name, and where the rest begins."""
        flags, offset = self._numbers(content, 0, "an array's flags", True)
        if len(flags) != 2:
            raise _DamageError("an array's flags are not two words")
        kind = int(flags[0]) & 0xFF
        if kind == 17:  # an object of MATLAB's newer kind, which has no dimensions
            return (kind, 0), (), "", offset
        dimensions, offset = self._numbers(content, offset, "dimensions", True)
        if not 2 <= len(dimensions) <= 64 or int(dimensions.min()) < 0:
            raise _DamageError("an array's dimensions are not 2 or more numbers from 0 on")
        name, offset = self._text(content, offset, "a name")
        shape = tuple(int(n) for n in dimensions)
        return (int(flags[0]), int(flags[1])), shape, name.decode("utf-8", "backslashreplace"), offset

    def _content(self, variable: _Variable) -> memoryview:
        """The whole content of a variable, out of its compression."""
        if not variable.compressed:
            return variable.content
        first = zlib.decompressobj().decompress(variable.content, 8)
        size = self._word(memoryview(first), 4) + 8
        if size > _DEFLATE * len(variable.content) + _DEFLATE:
            raise _DamageError("a variable claims more bytes than its compression can hold")
        what = f"the variable {variable.name} ({size:,} bytes decompressed)"
        require_memory(2 * size, what, self._data.place)
        stream = zlib.decompressobj()
        whole = stream.decompress(variable.content, size)
        while not stream.eof:  # what is left is the checksum, which must be right
            more = stream.decompress(stream.unconsumed_tail, 64)
            if more or not stream.unconsumed_tail:
                break
        if not stream.eof or len(whole) != size:
            raise _DamageError("a variable's compression and size contradict each other")
        _, content, _ = self._element(memoryview(whole), 0)
        return content

    def sparse(self, variable: _Variable) -> _Sparse:
        """The matrix of a variable of class sparse."""
        return self._sparse(self._content(variable))

    def fields(self, variable: _Variable, names: tuple[str, ...]) -> dict[str, _Sparse]:
        """The sparse matrices among the fields `names` of the first element of a struct."""
        content = self._content(variable)
        _, shape, _, offset = self._head(content)
        width, offset = self._numbers(content, offset, "the lengths of field names", True)
        text, offset = self._text(content, offset, "a list of field names")
        if len(width) != 1 or not 0 < (step := int(width[0])) <= _MOST_FIELDS or len(text) % step:
            raise _DamageError("a struct's field names have no length")
        matrices: dict[str, _Sparse] = {}
        if math.prod(shape) == 0:
            return matrices
        for k in range(0, len(text), step):
            kind, inner, offset = self._element(content, offset)
            if kind != _MATRIX:
                raise _DamageError("a field is not an array")
            name = text[k : k + step].split(b"\0")[0].decode("latin-1")
            if name in names and len(inner) and self._about(inner)[1] == _SPARSE:
                matrices[name] = self._sparse(inner)
        return matrices

    def _sparse(self, content: memoryview) -> _Sparse:
        (flags, _), shape, _, offset = self._head(content)
        if len(shape) != 2:
            raise _DamageError("a sparse matrix of more than two dimensions")
        rows, cols = shape
        row, offset = self._numbers(content, offset, "row indices", True)
        ptr, offset = self._numbers(content, offset, "column offsets", True)
        values, offset = self._numbers(content, offset, "values", False)
        if len(ptr) != cols + 1:
            raise _DamageError(f"{len(ptr)} column offsets for {cols} columns")
        ptr = ptr.astype(np.int64)
        count = int(ptr[-1])
        if ptr[0] != 0 or bool(np.any(ptr[1:] < ptr[:-1])):
            raise _DamageError("column offsets do not rise from 0")
        if count > min(len(row), len(values)):
            raise _DamageError(f"{count} entries, but {min(len(row), len(values))} are stored")
        row = row[:count].astype(np.int64)
        if count and not (int(row.min()) >= 0 and int(row.max()) < rows):
            raise _DamageError("a row index is out of range")
        values = _native(values[:count])
        if flags & _COMPLEX:
            imaginary, offset = self._numbers(content, offset, "imaginary values", False)
            if count > len(imaginary):
                raise _DamageError("imaginary values are cut off")
            values = values + 1j * _native(imaginary[:count])
        col = np.repeat(np.arange(cols, dtype=np.int64), np.diff(ptr))
        if flags & _LOGICAL:
            nonzero = values != 0
            return _Sparse(rows, cols, row[nonzero], col[nonzero], None)
        return _Sparse(rows, cols, row, col, values)


class _Level4:
    """A file of level 4, without compression: each variable is a header of 20 bytes, a name, numbers."""

    def __init__(self, data: Input) -> None:
        self._data = data

    def variables(self) -> Iterator[_Variable]:
        """The variables, in order."""
        view, offset = memoryview(self._data.data), 0
        while offset < len(view):
            if offset + 20 > len(view):
                raise _DamageError("a header is cut off")
            order = "<" if int.from_bytes(view[offset : offset + 4], "little") < 10_000 else ">"
            kind, rows, cols, imaginary, length = (int(n) for n in np.frombuffer(view, f"{order}i4", 5, offset))
            precision = kind // 10 % 10
            sound = kind in range(5_000) and precision < len(_TYPES_4) and kind % 10 <= 2
            if not sound or min(rows, cols, length) < 0 or imaginary not in (0, 1):
                raise _DamageError("a header makes no sense")
            dtype = np.dtype(f"{order}{_TYPES_4[precision]}")
            begin = offset + 20 + length
            end = begin + rows * cols * dtype.itemsize * (1 + imaginary)
            if end > len(view):
                raise _DamageError("a variable is cut off")
            name = bytes(view[offset + 20 : begin]).rstrip(b"\0").decode("latin-1")
            yield _Variable(name, _SPARSE if kind % 10 == 2 else -1, view[offset:end])
            offset = end

    def sparse(self, variable: _Variable) -> _Sparse:
        """The matrix of a sparse variable: rows of (row, column, value), the shape in the last one."""
        view = variable.content
        order = "<" if int.from_bytes(view[:4], "little") < 10_000 else ">"
        kind, count, width, _, length = (int(n) for n in np.frombuffer(view, f"{order}i4", 5))
        dtype = np.dtype(f"{order}{_TYPES_4[kind // 10 % 10]}")
        if count < 1 or width not in (3, 4):
            raise _DamageError("a sparse matrix is not a table of three or four columns")
        table = np.frombuffer(view, dtype, count * width, 20 + length).reshape(width, count)
        index = table[:2].astype(np.float64)
        rows, cols = index[:, -1]
        with np.errstate(invalid="ignore"):
            if not (np.all(index == np.floor(index)) and 0 <= rows < 2**53 and 0 <= cols < 2**53):
                raise _DamageError("indices are not whole numbers")
        row, col = index[0, :-1] - 1, index[1, :-1] - 1
        if count > 1 and not (min(row.min(), col.min()) >= 0 and row.max() < rows and col.max() < cols):
            raise _DamageError("an index is out of range")
        values = _native(table[2, :-1])
        if width == 4:
            values = values + 1j * _native(table[3, :-1])
        return _Sparse(int(rows), int(cols), row.astype(np.int64), col.astype(np.int64), values)


def _native(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """`values` in the machine's byte order, in memory of their own."""
    return values.astype(values.dtype.newbyteorder("="))
