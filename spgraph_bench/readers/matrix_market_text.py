"""The text of Matrix Market files: the header, and the body line by line where speed must wait for care."""

from __future__ import annotations

import mmap
import re
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from spgraph_bench.errors import InputError
from spgraph_bench.matrix import Finding, Symmetry
from spgraph_bench.readers.common import Input, Progress
from spgraph_bench.units import quantity

__all__ = ["BANNER", "Body", "Header", "Triangle", "lines", "miscounted", "read_body", "read_header", "text_end"]

Text = bytes | mmap.mmap
Triangle = Literal["full", "lower", "strict"]
Field = Literal["real", "integer", "complex", "pattern"]

BANNER = re.compile(rb"\s*%+\s*MatrixMarket\b", re.IGNORECASE)
_LAYOUTS: dict[str, Literal["coordinate", "array"]] = {"coordinate": "coordinate", "array": "array"}
_FIELDS: dict[str, Field] = {
    "real": "real",
    "double": "real",
    "integer": "integer",
    "unsigned-integer": "integer",
    "complex": "complex",
    "pattern": "pattern",
}
_SYMMETRIES: dict[str, Symmetry] = {
    "general": "general",
    "symmetric": "symmetric",
    "skew-symmetric": "skew-symmetric",
    "hermitian": "hermitian",
}
_VALUES: dict[Field, tuple[str, ...]] = {
    "real": ("value",),
    "integer": ("value",),
    "complex": ("real", "imaginary"),
    "pattern": (),
}
_INTEGER = re.compile(rb"[+-]?[0-9]{1,30}")
_REAL = re.compile(
    rb"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))(?:(?:([ed])([+-]?[0-9]+))|([+-][0-9]{3}))?"
    rb"|([+-]?(?:nan|inf(?:inity)?))",
    re.IGNORECASE,
)
_BARE = "Fortran exponents without a letter (1.0-100)"


@dataclass
class Header:
    """What is above the entries."""

    layout: Literal["coordinate", "array"]
    field: Field
    symmetry: Symmetry
    rows: int
    cols: int
    count: int
    """Entries (coordinate) or values (array) that the body has to hold."""
    size_line: int
    body: int
    """Offset of the first byte after the size line."""
    standard: bool
    """The banner is the first line and as the standard writes it."""
    findings: list[Finding]
    base: Literal[0, 1] = 1
    """The first index."""
    triangle: Triangle = "full"
    """What an array body holds: all, or the lower triangle with or without the diagonal, by columns."""

    @property
    def parts(self) -> tuple[str, ...]:
        """The numbers of one entry."""
        return (("row", "column") if self.layout == "coordinate" else ()) + _VALUES[self.field]

    @property
    def tokens(self) -> int:
        """Numbers that the body has to hold."""
        return self.count * len(self.parts)


@dataclass
class Body:
    """Numbers as stored. `row` and `col` (0-based) are None for the array layout."""

    row: npt.NDArray[Any] | None
    col: npt.NDArray[Any] | None
    values: npt.NDArray[Any] | None
    plain: bool
    """Entry k is in line k of the body: no blank lines, no comments."""


def lines(data: Text, number: int, offset: int) -> Iterator[tuple[int, int, bytes]]:
    """(line number, offset after it, stripped content) of the lines from offset `offset`, line `number`."""
    size = len(data)
    while offset < size:
        end = data.find(b"\n", offset) + 1 or size
        yield number, end, data[offset:end].strip()
        number, offset = number + 1, end


def text_end(data: Text) -> int:
    """Offset after the last byte that is not blank."""
    end = len(data)
    while end:
        begin = max(0, end - 4096)
        if tail := data[begin:end].rstrip():
            return begin + len(tail)
        end = begin
    return 0


def quote(word: bytes) -> str:
    """A piece of the file as messages show it: one line, at most 40 characters."""
    return repr(word[:40].decode("utf-8", "replace")) + ("…" if len(word) > 40 else "")


def read_header(data: Input, base: Literal[0, 1] | None = None) -> Header:
    """Banner and size line; without a banner, what the file plainly is. InputError for anything else."""
    layout: Literal["coordinate", "array"] = "coordinate"
    field: Field = "real"
    symmetry: Symmetry = "general"
    findings: list[Finding] = []
    banner = size = None
    standard = False
    body, line = 0, b""
    for number, after, line in lines(data.data, 1, 0):
        if banner is None and BANNER.match(line):
            banner = number
            layout, field, symmetry = _read_banner(data, number, line)
            standard = number == 1 and data.data[:15] == b"%%MatrixMarket "
            if number > 1 or not line.startswith(b"%%M"):
                findings.append(Finding("the banner is not a first line of the form %%MatrixMarket …", number))
        elif line and not line.startswith(b"%"):
            size, body = number, after
            break
    if size is None:
        raise data.error("the size line is missing", remedy="was the file downloaded whole?")
    if banner is None:
        field = _field_without_banner(data, size, body, line)
        text = f"no %%MatrixMarket banner: read as a coordinate matrix, {field} general"
        findings.append(Finding(text, size, warning=True))
    rows, cols, count = _sizes(data, size, line, layout)
    declared = count
    if symmetry != "general" and rows != cols:
        raise data.error(
            f"{rows} x {cols} is not square, yet declared {symmetry}",
            line=size,
            remedy="declare it general, or correct the size line",
        )
    triangle: Triangle = "full"
    if layout == "array":
        if symmetry != "general":
            triangle = "strict" if symmetry == "skew-symmetric" else "lower"
        sizes = {"full": rows * cols, "lower": rows * (rows + 1) // 2, "strict": rows * (rows - 1) // 2}
        count = sizes[triangle]
        counts = {rows * cols} if symmetry == "general" else set(sizes.values())
        if declared is not None and declared not in counts:
            raise data.error(
                f"{declared:,} values are declared, an array of {rows:,} x {cols:,} has {count:,}",
                line=size,
                remedy="correct the size line: an array's is 'rows columns'",
            )
        if declared is not None:
            findings.append(Finding("the size line of an array has a count", size))
    return Header(
        layout,
        field,
        symmetry,
        rows,
        cols,
        count or 0,
        size,
        body,
        standard,
        findings,
        1 if base is None else base,
        triangle,
    )


def _read_banner(data: Input, number: int, line: bytes) -> tuple[Literal["coordinate", "array"], Field, Symmetry]:
    words = BANNER.sub(b"", line, count=1).decode("utf-8", "replace").lower().split()
    kinds = {"object": ("matrix",), "layout": _LAYOUTS, "field": _FIELDS, "symmetry": _SYMMETRIES}
    for position, (kind, known) in enumerate(kinds.items()):
        if position >= len(words) or words[position] not in known:
            error = f"{words[position][:40]!r} is not known" if position < len(words) else "is missing"
            raise data.error(f"the banner's {kind} {error}", line=number, remedy=f"it is one of: {', '.join(known)}")
    layout, field, symmetry = _LAYOUTS[words[1]], _FIELDS[words[2]], _SYMMETRIES[words[3]]
    if field == "pattern" and (layout == "array" or symmetry in ("skew-symmetric", "hermitian")):
        raise data.error(
            f"a pattern has no values, so it cannot be {layout if layout == 'array' else symmetry}",
            line=number,
            remedy="correct the banner",
        )
    return layout, field, symmetry


def _sizes(data: Input, number: int, line: bytes, layout: str) -> tuple[int, int, int | None]:
    parts = ("rows", "columns", "entries") if layout == "coordinate" else ("rows", "columns")
    words = line.split()
    counted = layout == "array" and len(words) == 3  # some write the count there too
    if not (counted or len(words) == len(parts)) or not all(_INTEGER.fullmatch(w) for w in words):
        edges = "; if each line is an edge, read it with --input-format edge-list"
        raise data.error(
            f"{quote(line)} is not a size line ({' '.join(parts)})",
            line=number,
            remedy=f"insert one above this line{edges if layout == 'coordinate' else ''}",
        )
    sizes = [int(w) for w in words]
    for size, part in zip(sizes, ("rows", "columns", "entries"), strict=False):
        if size < 0:
            raise data.error(f"{size} {part} are declared", line=number, remedy="correct the size line")
        if part != "entries" and size > 2**31 - 1:
            raise data.error(
                f"{size:,} {part} are declared, more than 2^31 - 1 cannot be indexed with 32 bits",
                line=number,
                remedy="correct the size line, or split the matrix",
            )
    return sizes[0], sizes[1], sizes[2] if len(sizes) == 3 else None


def _field_without_banner(data: Input, size: int, body: int, line: bytes) -> Field:
    """The field that the first entry speaks for; InputError unless the file is plainly coordinate."""
    words = line.split()
    if len(words) == 3 and all(_INTEGER.fullmatch(w) for w in words):
        entry = next((t.split() for _, _, t in lines(data.data, 1, body) if t and t[:1] != b"%"), None)
        if entry is None:
            return "real"
        fields: dict[int, Field] = {2: "pattern", 3: "real", 4: "complex"}
        if len(entry) in fields and all(_INTEGER.fullmatch(w) for w in entry[:2]):
            return fields[len(entry)]
    raise data.error(
        "no %%MatrixMarket banner, and not plainly a coordinate file either",
        line=size,
        remedy="put a banner in front, such as %%MatrixMarket matrix coordinate real general, "
        "or choose another --input-format, such as edge-list",
    )


def miscounted(data: Input, head: Header, entries: int) -> InputError:
    """The error of a body that holds `entries` entries instead of the declared ones."""
    count = quantity(head.count, *(("entry", "entries") if head.layout == "coordinate" else ("value",)))
    if entries == head.count:  # of complex values, the last without its imaginary part
        return data.error("the last value is incomplete", remedy="fetch the file again")
    is_declared = "is declared" if head.count == 1 else "are declared"
    cut = entries < head.count and data.data[-1:] != b"\n"
    return data.error(
        f"{count} {is_declared}, the file has {entries:,}{' and seems truncated' if cut else ''}",
        line=head.size_line,
        remedy="fetch the file again, or correct the size line",
    )


class _Careful:
    """The slow pass: one line at a time, knowing where it is."""

    def __init__(self, data: Input, head: Header) -> None:
        self.data, self.head, self.line = data, head, 0
        self.notes: dict[str, tuple[int, int]] = {}

    def note(self, text: str) -> None:
        first, count = self.notes.get(text, (self.line, 0))
        self.notes[text] = (first, count + 1)

    def error(self, cause: str, remedy: str = "correct the line") -> InputError:
        return self.data.error(cause, line=self.line, remedy=remedy)

    def read(self, progress: Progress) -> Body:
        data, head = self.data.data, self.head
        coordinate, width = head.layout == "coordinate", len(head.parts)
        row, col = array("i"), array("i")
        values: array[Any] = array("q" if head.field == "integer" else "d")
        entries, last = 0, text_end(data)
        for self.line, after, line in lines(data, head.size_line + 1, head.body):
            if self.line % 65536 == 0:
                progress("reading entries", after / len(data))
            if not line or line.startswith(b"%"):
                if after <= last or line:
                    self.note("comments between entries" if line else "blank lines")
                continue
            if b"%" in line:
                self.note("comments behind entries")
                line = line[: line.index(b"%")]
            words = line.split()
            if coordinate and len(words) != width:
                raise self.wrong_width(len(words), after >= last and entries < head.count)
            if coordinate:
                row.append(self.index(words[0], "row", head.rows))
                col.append(self.index(words[1], "column", head.cols))
                words = words[2:]
            values.extend(map(self.integer if head.field == "integer" else self.real, words))
            entries = len(row) if coordinate else -(-len(values) // width)
        if entries != head.count or len(values) % max(1, len(_VALUES[head.field])):
            raise miscounted(self.data, head, entries)
        head.findings += [
            Finding(text, line, count, warning=text == _BARE) for text, (line, count) in self.notes.items()
        ]
        numbers = None if head.field == "pattern" else np.array(values)
        if numbers is not None and head.field == "complex":
            numbers = numbers.view(np.complex128)
        if not coordinate:
            return Body(None, None, numbers, False)
        return Body(np.array(row, np.int32), np.array(col, np.int32), numbers, not self.notes)

    def wrong_width(self, words: int, last: bool) -> InputError:
        parts = self.head.parts
        if last and words < len(parts):
            return self.error("the file ends within an entry", "it is truncated: fetch it again")
        text = f"{words} {'word' if words == 1 else 'words'}"
        return self.error(
            f"{text}, but an entry of the {self.head.field} field has {len(parts)} ({', '.join(parts)})",
            "correct the line, or the field in the banner",
        )

    def index(self, word: bytes, what: str, count: int) -> int:
        if not _INTEGER.fullmatch(word):
            raise self.error(f"{quote(word)} is not a {what} index")
        base = self.head.base
        number = int(word) - base
        if number < 0:
            remedy = f"number {what}s from {base}"
            if number == -1 and base == 1:
                remedy = "give --base 0 if the file counts from 0, or " + (
                    f"number {what}s from 1" if self.head.standard else "--input-format edge-list for edges"
                )
            raise self.error(f"{what} index {number + base} (indices start at {base})", remedy)
        if number >= count:
            last = f", the last of which is {count - 1}" if base == 0 else ""
            raise self.error(
                f"{what} {number + base} is beyond the declared {count} {what}s{last}",
                "correct the index or the size line"
                + ("" if base == 0 else f"; if line {self.head.size_line} is an edge: --input-format edge-list"),
            )
        return number

    def integer(self, word: bytes) -> int:
        if not _INTEGER.fullmatch(word):
            if _REAL.fullmatch(word):
                raise self.error(
                    f"{quote(word)} is not an integer, but the banner's field is integer", "declare the field real"
                )
            raise self.error(f"{quote(word)} is not an integer")
        number = int(word)
        if not -(2**63) <= number < 2**63:
            raise self.error(f"the integer {number} does not fit in 64 bits", "declare the field real")
        return number

    def real(self, word: bytes) -> float:
        parts = _REAL.fullmatch(word)
        if parts is None:
            raise self.error(f"{quote(word)} is not a number")
        mantissa, letter, exponent, bare, special = parts.groups()
        if special is not None:
            return float(special)
        if bare is not None:
            self.note(_BARE)
            return float(mantissa + b"e" + bare)
        if exponent is None:
            return float(mantissa)
        if letter in b"dD":
            self.note("Fortran exponents (1.0D+00)")
        return float(mantissa + b"e" + exponent)


def read_body(data: Input, head: Header, progress: Progress) -> Body:
    """The body line by line (about 1 s per million entries).

    What is odd is added to the header's findings; what is wrong is an InputError with its line.
    """
    return _Careful(data, head).read(progress)
