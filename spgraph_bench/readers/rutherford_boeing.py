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

from spgraph_bench.errors import InputError
from spgraph_bench.matrix import Finding, Symmetry
from spgraph_bench.readers.common import CERTAIN, LIKELY, NO, Input, Progress, RawEntries, ReadOptions, reader
from spgraph_bench.readers.scan import scan
from spgraph_bench.readers.tokens import parse_integer, parse_number

__all__ = ["parse", "sniff"]

NAME = "rutherford-boeing"
_SUFFIXES = (".rb", ".hb", ".rua", ".rsa", ".rra", ".rza", ".pua", ".psa", ".pra", ".cua", ".csa", ".cha")
_TYPE = re.compile(rb"\s*([rcipqx])([suhzr])([ae])\b", re.IGNORECASE)
_FORMAT = re.compile(r"\((\d{0,6})\(?(?:\d{0,6}P,?)?(\d{0,6})([IEDFG])(\d{1,6})(?!\d)", re.IGNORECASE)
_SYMMETRIES: dict[str, Symmetry] = {
    "s": "symmetric",
    "u": "general",
    "h": "hermitian",
    "z": "skew-symmetric",
    "r": "general",
}
_GLUED = re.compile(rb"(?<=[0-9.])([+-])(?=[0-9]{3}$)")
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


def _matrix_type(data: Input, line: bytes, options: ReadOptions) -> tuple[str, str, int]:
    """Of the third line: the kind of values ("r", "c", "i", "p"), the symmetry, and where its numbers begin."""
    matched = _TYPE.match(line)
    if matched is None:
        raise data.error(
            "no Rutherford-Boeing matrix type, such as RSA, begins the third line",
            line=3,
            remedy="fetch the file again, or choose another --input-format",
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
    return kind, shape, matched.end()


@reader(NAME, title="Rutherford-Boeing", suffixes=_SUFFIXES, sniff=sniff)
def parse(data: Input, options: ReadOptions, progress: Progress) -> RawEntries:
    """Entries of a Rutherford-Boeing (Harwell-Boeing) file; InputError with the line for anything wrong."""
    lines = data.data[:].rstrip().split(b"\n")
    if len(lines) < 4:
        raise data.error("the header of four lines is cut off", remedy="fetch the file again")
    kind, shape, end = _matrix_type(data, lines[2], options)
    cards = _integers(data, lines, 2, 0, 4)
    rows, cols, count = _integers(data, lines, 3, end, 3)[:3]
    if min(rows, cols, count) < 0:
        raise data.error("a negative size", line=3, remedy="fetch the file again")
    formats = _formats(data, lines[3], 2 if kind == "p" else 3)
    with_rhs = len(cards) > 4 and cards[4] > 0
    pointers = _Fields("column pointers", 6 if with_rhs else 5, *formats[0], cols + 1)
    indices = _Fields("row indices", pointers.first_line + pointers.lines, *formats[1], count)
    findings = [Finding("right-hand sides are skipped", 5)] if with_rhs else []

    progress("reading column pointers", None)
    ptr = _numbers(data, lines, pointers, np.int64, findings)
    bad = np.flatnonzero(np.diff(ptr, prepend=1) < 0)
    if ptr[0] != 1 or ptr[-1] != count + 1 or len(bad):
        position = int(bad[0]) if len(bad) else (0 if ptr[0] != 1 else cols)
        raise data.error(
            f"column pointer {position + 1} is {ptr[position]}: pointers rise from 1 to {count + 1} (entries + 1)",
            line=pointers.line_of(position),
            remedy="fetch the file again",
        )
    progress("reading row indices", None)
    row = _numbers(data, lines, indices, np.int64, findings) - 1
    values = None
    if kind != "p":
        progress("reading values", None)
        fields = _Fields("values", indices.first_line + indices.lines, *formats[2], count)
        if kind == "c":
            fields = _Fields("values", fields.first_line, *formats[2], 2 * count)
        values = _numbers(data, lines, fields, np.float64, findings)
        if kind == "c":
            values = values.view(np.complex128)
    col = np.repeat(np.arange(cols, dtype=np.int64), np.diff(ptr))
    return RawEntries(
        rows,
        cols,
        row,
        col,
        values,
        NAME,
        symmetry=_SYMMETRIES[shape],
        base=1,
        findings=tuple(findings),
        line_of=indices.line_of,
    )


def _integers(data: Input, lines: list[bytes], number: int, start: int, least: int) -> list[int]:
    words = lines[number - 1][start:].split()
    values = [value for word in words if (value := parse_integer(word)) is not None]
    if len(values) != len(words) or len(values) < least:
        raise data.error(f"header line {number} holds no {least} numbers", line=number, remedy="fetch the file again")
    return values


def _formats(data: Input, line: bytes, needed: int) -> list[tuple[int, int]]:
    """(fields per line, width) of the Fortran formats in header line 4."""
    text = line.decode("ascii", "replace").replace(" ", "")
    widths = []
    for piece in re.findall(r"\((?:[^()]|\([^()]*\))*\)", text):
        if matched := _FORMAT.match(piece):
            outer, inner, _, width = matched.groups()
            widths.append((int(outer or 1) * int(inner or 1), int(width)))
    if len(widths) < needed or not all(0 < per_line * width <= _LONGEST_LINE for per_line, width in widths):
        raise data.error(
            f"{needed} Fortran formats such as (10I8) are expected here", line=4, remedy="fetch the file again"
        )
    return widths


def _numbers(
    data: Input, lines: list[bytes], fields: _Fields, dtype: type[Any], findings: list[Finding]
) -> npt.NDArray[Any]:
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
    text = np.full((len(cells), fields.width + 1), ord("\n"), np.uint8)  # each field is a line
    text[:, :-1] = cells
    lined = text.tobytes()
    if dtype is np.float64:
        lined = lined.translate(_FORTRAN)
    if scan(b"\n" + lined, 1, len(lined) + 1, dtype is np.float64, 1, 0) == fields.count:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return np.fromstring(lined, dtype, sep=" ")
    words = [lined[begin : begin + fields.width].strip() for begin in range(0, len(lined), fields.width + 1)]
    wrong = next((k for k, word in enumerate(words) if _value(word, dtype) is None), None)
    if wrong is not None and (other := _by_blanks(section, fields, dtype)) is not None:
        text_ = f"the {fields.what} are not as wide as the format in line 4 says: separated by blanks"
        findings.append(Finding(text_, fields.first_line))
        return other
    if wrong is not None:
        raise _no_number(data, words[wrong], fields, wrong)
    if glued := [k for k, word in enumerate(words) if _GLUED.search(word)]:
        text_ = "Fortran exponents without a letter (1.0-100)"
        findings.append(Finding(text_, fields.line_of(glued[0]), len(glued), warning=True))
    return np.array([_value(word, dtype) for word in words], dtype)


def _value(word: bytes, dtype: type[Any]) -> int | float | None:
    """The number that `word` spells, or None. Fortran may write exponents of three digits without their letter."""
    if dtype is np.float64:
        return parse_number(_GLUED.sub(rb"e\1", word))
    value = parse_integer(word)
    return value if value is not None and abs(value) < 2**63 else None


def _by_blanks(section: list[bytes], fields: _Fields, dtype: type[Any]) -> npt.NDArray[Any] | None:
    """The numbers, if blanks separate as many in each line as the format says (scipy's hb_write); or None."""
    words = [line.split() for line in section]
    counts = [min(fields.per_line, fields.count - begin) for begin in range(0, fields.count, fields.per_line)]
    if [len(line) for line in words] != counts:
        return None
    translated = [word.translate(_FORTRAN) if dtype is np.float64 else word for line in words for word in line]
    values = [_value(word, dtype) for word in translated]
    return None if any(value is None for value in values) else np.array(values, dtype)


def _no_number(data: Input, word: bytes, fields: _Fields, k: int) -> InputError:
    if not word:
        return data.error(f"the {fields.what} end too early", line=fields.line_of(k), remedy="fetch the file again")
    return data.error(
        f"{word.decode('utf-8', 'replace')!r} among the {fields.what} is not a number",
        line=fields.line_of(k),
        remedy="fetch the file again",
    )
