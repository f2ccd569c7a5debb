"""Rutherford-Boeing and Harwell-Boeing: compressed columns in fixed-width Fortran fields.

I. S. Duff, R. G. Grimes, J. G. Lewis, "The Rutherford-Boeing sparse matrix collection", RAL-TR-97-031, 1997.
Fields may touch each other, so they are cut by width. Assembled matrices of every kind are read; matrices
that are sums of finite elements (third letter E) are refused. Right-hand sides are left alone.
"""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.matrix import Finding, Symmetry
from spgraph_bench.readers.common import CERTAIN, LIKELY, NO, Input, Progress, RawEntries, ReadOptions, reader

__all__ = ["parse", "sniff"]

NAME = "rutherford-boeing"
_SUFFIXES = (".rb", ".hb", ".rua", ".rsa", ".rra", ".rza", ".pua", ".psa", ".pra", ".cua", ".csa", ".cha")
_TYPE = re.compile(rb"\s*([rcipqx])([suhzr])([ae])\b", re.IGNORECASE)
_FORMAT = re.compile(r"(\d*)\(?(?:\d*P,?)?(\d*)([IEDFG])(\d+)", re.IGNORECASE)
_SYMMETRIES: dict[str, Symmetry] = {
    "s": "symmetric", "u": "general", "h": "hermitian", "z": "skew-symmetric", "r": "general",
}  # fmt: skip
_GLUED = re.compile(rb"(?<=[0-9.])([+-])(?=[0-9]+$)")
_LONGEST_LINE = 4096  # Fortran's own limit was 80; a format that promises more would only cost memory
_FORTRAN = bytes.maketrans(b"dDqQ", b"eeee")


@dataclass(frozen=True)
class _Fields:
    """A section of fixed-width fields."""

    what: str
    first_line: int
    per_line: int
    width: int
    count: int

    @property
    def lines(self) -> int:
        return -(-self.count // self.per_line)

    def line_of(self, field: int) -> int:
        return self.first_line + field // self.per_line


def sniff(head: bytes, name: str) -> int:
    """Certain where line 3 begins with a matrix type and line 4 with a format; else the suffix decides."""
    first = head.split(b"\n", 4)
    if len(first) >= 4 and _TYPE.match(first[2]) and first[3].lstrip().startswith(b"("):
        return CERTAIN
    return LIKELY if name.endswith(_SUFFIXES) and b"\0" not in head else NO


@reader(NAME, title="Rutherford-Boeing", suffixes=_SUFFIXES, sniff=sniff)
def parse(data: Input, options: ReadOptions, progress: Progress) -> RawEntries:
    """Entries of a Rutherford-Boeing (Harwell-Boeing) file; InputError with the line for anything wrong."""
    lines = data.data[:].rstrip().split(b"\n")
    if len(lines) < 4:
        raise data.error("the header of four lines is cut off", remedy="fetch the file again")
    matched = _TYPE.match(lines[2])
    if matched is None:
        raise data.error(
            "no Rutherford-Boeing matrix type, such as RSA, begins the third line",
            line=3,
            remedy="fetch the file again, or name the format with --input-format",
        )
    kind, shape, storage = (letter.decode().lower() for letter in matched.groups())
    if storage == "e" or kind in "qx":
        raise data.error(
            f"matrix type {matched.group().strip().decode().upper()}: only assembled matrices with their own"
            " values are read",
            line=3,
            remedy="convert it to an assembled Rutherford-Boeing or Matrix Market file",
        )
    if kind == "c" and options.part is None and options.values == "file":
        raise data.error(
            "the values are complex, spgraph computes with real ones",
            line=3,
            remedy="choose what to take: --part real|imag|abs",
        )
    cards = _integers(data, lines, 2, 0, 4)
    rows, cols, count = _integers(data, lines, 3, matched.end(), 3)[:3]
    if min(rows, cols, count) < 0:
        raise data.error("a negative size", line=3, remedy="fetch the file again")
    formats = _formats(data, lines[3], 2 if kind == "p" else 3)
    with_rhs = len(cards) > 4 and cards[4] > 0
    pointers = _Fields("column pointers", 6 if with_rhs else 5, *formats[0], cols + 1)
    indices = _Fields("row indices", pointers.first_line + pointers.lines, *formats[1], count)
    findings = [Finding("right-hand sides are left out", 5)] if with_rhs else []

    progress("reading column pointers", None)
    ptr = _numbers(data, lines, pointers, np.int64)
    bad = np.flatnonzero(np.diff(ptr, prepend=1) < 0)
    if ptr[0] != 1 or ptr[-1] != count + 1 or len(bad):
        at = int(bad[0]) if len(bad) else (0 if ptr[0] != 1 else cols)
        raise data.error(
            f"column pointer {at + 1} is {ptr[at]}: pointers rise from 1 to {count + 1} (entries + 1)",
            line=pointers.line_of(at),
            remedy="fetch the file again",
        )
    progress("reading row indices", None)
    row = _numbers(data, lines, indices, np.int64) - 1
    values = None
    if kind != "p":
        progress("reading values", None)
        fields = _Fields("values", indices.first_line + indices.lines, *formats[2], count)
        if kind == "c":
            fields = _Fields("values", fields.first_line, *formats[2], 2 * count)
        values = _numbers(data, lines, fields, np.float64)
        if kind == "c":
            values = values.view(np.complex128)
    col = np.repeat(np.arange(cols, dtype=np.int64), np.diff(ptr))
    return RawEntries(
        rows, cols, row, col, values, NAME, symmetry=_SYMMETRIES[shape], base=1, findings=tuple(findings),
        line_of=indices.line_of,
    )  # fmt: skip


def _integers(data: Input, lines: list[bytes], number: int, start: int, least: int) -> list[int]:
    words = lines[number - 1][start:].split()
    try:
        found = [int(word) for word in words]
    except ValueError:
        found = []
    if len(found) < least:
        raise data.error(
            f"header line {number} holds no {least} numbers", line=number, remedy="fetch the file again"
        )
    return found


def _formats(data: Input, line: bytes, needed: int) -> list[tuple[int, int]]:
    """(fields per line, width) of the Fortran formats in header line 4."""
    text = line.decode("ascii", "replace").replace(" ", "")
    found = []
    for piece in re.findall(r"\((?:[^()]|\([^()]*\))*\)", text):
        if matched := _FORMAT.search(piece):
            outer, inner, _, width = matched.groups()
            found.append((int(outer or 1) * int(inner or 1), int(width)))
    if len(found) < needed or not all(0 < per_line * width <= _LONGEST_LINE for per_line, width in found):
        raise data.error(
            f"{needed} Fortran formats such as (10I8) are expected here",
            line=4,
            remedy="fetch the file again",
        )
    return found


def _numbers(data: Input, lines: list[bytes], fields: _Fields, dtype: type[Any]) -> npt.NDArray[Any]:
    """The numbers of a section; InputError with the line of the first field that is none."""
    section = lines[fields.first_line - 1 : fields.first_line - 1 + fields.lines]
    if len(section) < fields.lines:
        raise data.error(
            f"the file ends within the {fields.what}: {fields.lines} lines of them are declared",
            remedy="it is truncated: fetch it again",
        )
    full = fields.per_line * fields.width
    joined = b"".join([line.rstrip(b"\r")[:full].ljust(full) for line in section])
    cells = np.frombuffer(joined, np.uint8)[: fields.count * fields.width].reshape(-1, fields.width)
    text = np.full((len(cells), fields.width + 1), ord(" "), np.uint8)  # a blank behind each field
    text[:, :-1] = cells
    spaced = text.tobytes()
    if dtype is np.float64:
        spaced = spaced.translate(_FORTRAN)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = np.fromstring(spaced, dtype, sep=" ")
        if len(found) == fields.count:
            return found
    except (ValueError, DeprecationWarning):
        pass
    return np.array(
        [
            _number(data, spaced[at : at + fields.width].strip(), fields, k, dtype)
            for k, at in enumerate(range(0, len(spaced), fields.width + 1))
        ],
        dtype,
    )


def _number(data: Input, word: bytes, fields: _Fields, k: int, dtype: type[Any]) -> int | float:
    if not word:
        raise data.error(
            f"the {fields.what} end too early", line=fields.line_of(k), remedy="fetch the file again"
        )
    try:
        # Fortran leaves out the letter of an exponent of three digits: 1.5-103.
        return int(word) if dtype is np.int64 else float(_GLUED.sub(rb"e\1", word))
    except ValueError:
        raise data.error(
            f"{word.decode('utf-8', 'replace')!r} among the {fields.what} is not a number",
            line=fields.line_of(k),
            remedy="fetch the file again",
        ) from None
