"""Matrix Market: coordinate and array, every field and symmetry, with and without its banner.

The format is R. F. Boisvert, R. Pozo, K. Remington, "The Matrix Market exchange formats", NISTIR 5935, 1996.
Large bodies that are plainly sound are parsed by compiled code (see `compiled`). Other well-formed ones are
parsed by scipy's multi-threaded reader, under a header that says "general", so that entries arrive as they
are stored; what it would misread or crash at is kept from it (see `scan`). Anything else goes through a slow
pass that reads what can be read and names the line of what cannot.

Measured on two cores to canonical CSR, against what scipy's mmread takes to COO, checking nothing, and in
all to CSR (scripts/bench_readers.py; four million entries; real values, 138 MB): row-major 0.09 s against
0.13 and 0.15, column-major 0.11 against 0.13 and 0.18, a symmetric triangle 0.12 against 0.15 and 0.22, no
order 0.14 against 0.13 and 0.22 (in CPU time, 0.25 against 0.26 and 0.35); a pattern, 54 MB, 0.04 against
0.06 and 0.11; a symmetric pattern 0.05 against 0.08 and 0.14. Of column-major's CPU time, 0.20 s, the parser
takes two thirds, counting lines and the text's first touch, sorting, and checks of ranges, order and odd
values the rest. Without a compiler, checking the text takes as long as scipy takes to parse it (see `scan`).
Since then the entries are hashed too, in a thread beside the sorting: 0.04 s of CPU time.
"""

from __future__ import annotations

import mmap
import re
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.matrix import Finding
from spgraph_bench.readers.common import (
    CERTAIN,
    LIKELY,
    NO,
    Input,
    Progress,
    RawEntries,
    ReadOptions,
    line_number,
    reader,
)
from spgraph_bench.readers.compiled import read_entries
from spgraph_bench.readers.matrix_market_text import (
    BANNER,
    Body,
    Header,
    Triangle,
    lines,
    miscounted,
    read_body,
    read_header,
    text_end,
)
from spgraph_bench.readers.scan import line_end, scan

__all__ = ["parse", "sniff"]

NAME = "matrix-market"
_PIECE = 1 << 18
_COMMENT = re.compile(rb"^[ \t\r]*%[^\n]*\n?", re.MULTILINE)
_BLANK = re.compile(rb"\n(?:[ \t\r]*\n)+")
_WORD = re.compile(rb"[nNiI][a-zA-Z]*")
_SPECIAL = re.compile(rb"nan|inf(?:inity)?", re.IGNORECASE)
_REALS = ("real", "complex")
_FORTRAN = bytes.maketrans(b"dD", b"ee")


def sniff(head: bytes, name: str) -> int:
    """The banner is certain; without it the suffix decides, so that errors are reported as Matrix Market's."""
    if BANNER.match(head):
        return CERTAIN
    return LIKELY if name.endswith((".mtx", ".mm")) and b"\0" not in head else NO


@reader(NAME, title="Matrix Market", suffixes=(".mtx", ".mm"), sniff=sniff)
def parse(data: Input, options: ReadOptions, progress: Progress) -> RawEntries:
    """Entries of a Matrix Market file; InputError with the line for anything wrong in it."""
    if data.data.find(b"\n") < 0:  # one line, or line ends of the old Macintosh
        data = replace(data, data=data.data[:].replace(b"\r", b"\n"))
    head = read_header(data, options.base)
    if head.field == "complex" and options.part is None and options.values == "file":
        raise data.error(
            "the values are complex, spgraph computes with real ones",
            line=1,
            remedy="choose what to take: --part real|imag|abs",
        )
    if head.layout == "array" and head.symmetry != "general":
        _choose_triangle(data, head)
    return _entries(data, head, _fast(data, head, progress) or read_body(data, head, progress), options)


def _entries(data: Input, head: Header, body: Body, options: ReadOptions) -> RawEntries:
    values = body.values
    if values is not None and np.issubdtype(values.dtype, np.integer):
        values = _as_real(values, head, lambda k: _line_of(data, head, body.plain, k))
    if body.row is not None and body.col is not None:
        return RawEntries(
            head.rows,
            head.cols,
            body.row,
            body.col,
            values,
            NAME,
            symmetry=head.symmetry,
            base=head.base,
            base_from="format" if options.base is None else "option",
            findings=tuple(head.findings),
            line_of=lambda k: _line_of(data, head, body.plain, k),
        )
    assert values is not None
    stored = values != 0
    if head.triangle == "full" and head.symmetry != "general":
        stored &= _is_lower(data, head, values, body.plain)
        values = np.where(stored, values, 0)
    stored = np.flatnonzero(stored)
    if zeros := len(values) - len(stored):
        head.findings.append(Finding("array layout: zeros are not taken as entries", count=zeros))
    row, col = _positions(head, stored)
    return RawEntries(
        head.rows,
        head.cols,
        row,
        col,
        values[stored],
        NAME,
        symmetry=head.symmetry,
        findings=tuple(head.findings),
        line_of=lambda k: _line_of(data, head, body.plain, int(stored[k])),
    )


class _Feed:
    """What scipy reads: a new header, the original by pieces without a copy of the whole, a line feed.

    scipy's parser must meet one entry in every line and a line feed behind the last one: it crashes at a null
    character, reads past the end of a text that ends in a blank, and fails where there are more lines than
    entries. So each piece is checked before it is handed out, and one with an error ends the text.
    """

    def __init__(
        self, head: Header, text: bytes | mmap.mmap, begin: int, end: int, say: Progress, checked: bool
    ) -> None:
        sizes = f"{head.rows} {head.cols} {head.count}"
        self.header = f"%%MatrixMarket matrix coordinate {head.field} general\n{sizes}\n".encode()
        self.head, self.text, self.begin, self.offset, self.end = head, text, begin, begin, end
        self.say, self.checked, self.tokens, self.last = say, checked, 0, b"\n"

    def read(self, size: int) -> bytes:
        """The next piece. scipy asks for a kilobyte at a time, but takes what it gets, in less time."""
        if self.header:
            piece, self.header = self.header, b""
            return piece
        stop = line_end(self.text, self.offset, self.end, _PIECE)
        if stop == self.offset or not (self.checked or self._is_sound(stop)):
            piece, self.last = self.last, b""
            return piece
        piece, self.offset = self.text[self.offset : stop], stop
        self.say("reading entries", (stop - self.begin) / (self.end - self.begin))
        return piece

    def _is_sound(self, stop: int) -> bool:
        head = self.head
        tokens = scan(self.text, self.offset, stop, head.field in _REALS, len(head.parts))
        if tokens is None or self.tokens + tokens > head.tokens:
            return False
        self.tokens += tokens
        return True

    @property
    def is_right(self) -> bool:
        """Whether all was read, and holds as many numbers as it should: one entry in every line."""
        return self.offset == self.end and not self.last and (self.checked or self.tokens == self.head.tokens)


def _fast(data: Input, head: Header, progress: Progress) -> Body | None:
    """The body by a fast parser, or None if it is not certain to read it right."""
    if head.count == 0:
        return None
    begin, end = head.body, max(head.body, text_end(data.data))
    body = None
    if head.layout == "coordinate":
        body = read_entries(data.data, begin, end, head, progress)
        if body is None:
            body = _coordinate(data, head, data.data, begin, end, progress)
    if body is None:
        body = _checked(data, head, data.data, begin, end, progress)
    if body is None:
        text, begin, findings = _repaired(data, head, end)
        body = _checked(data, head, text, begin, len(text), progress)
        if body is not None:
            head.findings += findings
    return body


def _checked(
    data: Input, head: Header, text: bytes | mmap.mmap, begin: int, end: int, progress: Progress
) -> Body | None:
    """The body, checked before it is parsed: arrays, NaNs, and whether anything but the count is wrong."""
    tokens = _tokens(text, begin, end, head)
    if tokens is None:
        return None
    if tokens != head.tokens:
        entries, rest = divmod(tokens, len(head.parts))
        if not rest and (head.layout == "coordinate" or _lines(text, begin, end) == entries):
            raise miscounted(data, head, entries)  # all numbers: no need of the slow pass, for its bounds
        return None
    progress("reading entries", None)
    if head.layout == "array":
        return _array(text[begin:end], head)
    return _coordinate(data, head, text, begin, end, progress, checked=True)


def _lines(text: bytes | mmap.mmap, begin: int, end: int) -> int:
    return line_number(text, end) - line_number(text, begin) + 1


def _coordinate(
    data: Input, head: Header, text: bytes | mmap.mmap, begin: int, end: int, progress: Progress, checked: bool = False
) -> Body | None:
    """The entries by scipy, checked on their way unless they are `checked`."""
    from scipy.io import mmread

    if head.base == 0 or end - begin < 2 * head.tokens - 1:  # scipy counts from 1; and nothing
        # is allocated for a wrong count
        return None
    feed: Any = _Feed(head, text, begin, end, progress, checked)
    try:
        coo: Any = mmread(feed)
    except (ValueError, OverflowError):
        return None
    if not feed.is_right:
        return None
    return Body(coo.row, coo.col, None if head.field == "pattern" else coo.data, text is data.data)


def _tokens(text: bytes | mmap.mmap, begin: int, end: int, head: Header) -> int | None:
    """As `scan`, with NaNs and infinities taken for numbers."""
    real, width = head.field in _REALS, len(head.parts) if head.layout == "coordinate" else 0
    tokens = scan(text, begin, end, real, width)
    if tokens is None and real and _WORD.search(text, begin, end):
        plain = b"\n" + _WORD.sub(_special_as_zero, text[begin:end])
        tokens = scan(plain, 1, len(plain), True, width)
    return tokens


def _special_as_zero(word: re.Match[bytes]) -> bytes:
    """0 for a NaN or an infinity (all but its sign), the word itself for anything else."""
    start, end, text = word.start(), word.end(), word.string
    before = text[max(0, start - 2) : start]
    alone = before[-1:].isspace() or (before[-1:] in (b"+", b"-") and before[:1].isspace())
    if alone and (end == len(text) or text[end : end + 1].isspace()) and _SPECIAL.fullmatch(word.group()):
        return b"0"
    return word.group()


def _array(text: bytes, head: Header) -> Body | None:
    """The values of the array layout, in whatever lines."""
    dtype = np.int64 if head.field == "integer" else np.float64
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            values: npt.NDArray[Any] = np.fromstring(text, dtype, sep=" ")
    except (ValueError, DeprecationWarning):
        return None
    if len(values) != head.count * len(head.parts):
        return None
    if head.field == "integer" and np.isin(values, (-(2**63), 2**63 - 1)).any():
        return None  # as these, integers beyond 64 bits are read
    return Body(None, None, values.view(np.complex128) if head.field == "complex" else values, False)


def _repaired(data: Input, head: Header, end: int) -> tuple[bytes, int, list[Finding]]:
    """The body without comments, blank lines, D exponents and plus signs; where it begins; and notes on it."""
    findings = []
    body = b"\n" + data.data[head.body : end]
    if comment := _COMMENT.search(body, 1):
        line = line_number(data.data, head.body + comment.start() - 1)
        body, count = _COMMENT.subn(b"", body)
        body = body.rstrip()
        findings.append(Finding("comments between entries", line, count))
    if _BLANK.search(body) and (blank := _BLANK.search(data.data, head.body - 1)):
        before = body.count(b"\n")
        body = _BLANK.sub(b"\n", body)
        line = line_number(data.data, blank.start()) + 1
        findings.append(Finding("blank lines", line, before - body.count(b"\n")))
    if head.field in ("real", "complex") and (b"D" in body or b"d" in body):
        findings.append(Finding("Fortran exponents (1.0D+00)"))
        body = body.translate(_FORTRAN)
    if b"+" in body:
        body = re.sub(rb"(?<=[ \t\n])\+(?=[0-9.])", b" ", body)
    return body, min(1, len(body)), findings


def _choose_triangle(data: Input, head: Header) -> None:
    """Set what a symmetric array body holds, by how many values it has.

    The standard stores the lower triangle, without the diagonal where that is zero (skew-symmetric); others
    write the diagonal's zeros too, or the whole matrix.
    """
    n = head.rows
    counts: dict[int, Triangle] = {n * n: "full", n * (n + 1) // 2: "lower"}
    if head.symmetry == "skew-symmetric":
        counts[n * (n - 1) // 2] = "strict"
    entries, rest = divmod(len(_COMMENT.sub(b"", data.data[head.body :]).split()), len(head.parts))
    if not rest and entries != head.count and entries in counts:
        head.triangle, head.count = counts[entries], entries
        what = {"full": "both triangles", "lower": "the diagonal too"}[counts[entries]]
        head.findings.append(Finding(f"declared {head.symmetry}, {what} stored", head.size_line))


def _is_lower(data: Input, head: Header, values: npt.NDArray[Any], plain: bool) -> npt.NDArray[np.bool_]:
    """Which of the values of a whole symmetric matrix are in its lower triangle.

    InputError, with the line, where a value contradicts its mirror.
    """
    square = values.reshape(head.rows, head.rows).T
    mirror = square.T
    if head.symmetry == "hermitian":
        mirror = mirror.conj()
    elif head.symmetry == "skew-symmetric":
        mirror = -mirror
    differ = (square != mirror) & ~(np.isnan(square) & np.isnan(mirror))
    np.fill_diagonal(differ, False)  # a forbidden diagonal is reported as for any other file
    if differ.any():
        col, row = np.argwhere(np.triu(differ).T)[0]
        raise data.error(
            f"declared {head.symmetry}, but row {row + 1}, column {col + 1} is {square[row, col]} and row "
            f"{col + 1}, column {row + 1} is {square[col, row]}",
            line=_line_of(data, head, plain, int(col * head.rows + row)),
            remedy="declare the file general, or correct one of them",
        )
    lower: npt.NDArray[np.bool_] = np.tri(head.rows, dtype=np.bool_).T.ravel()
    return lower


def _as_real(
    values: npt.NDArray[np.integer[Any]], head: Header, line_of: Callable[[int], int | None]
) -> npt.NDArray[np.float64]:
    """Integers as float64, with a finding if that loses digits."""
    real = values.astype(np.float64)
    large = np.flatnonzero(np.abs(real) >= 2.0**53)
    lost = [k for k in large.tolist() if int(real[k]) != int(values[k])]
    if lost:
        text = "integers beyond 2^53 lose digits as float64"
        head.findings.append(Finding(text, line_of(lost[0]), len(lost)))
    return real


def _positions(head: Header, k: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Row and column of the k-th values of an array body, which runs down the columns (of the triangle)."""
    if head.triangle == "full":
        return k % max(1, head.rows), k // max(1, head.rows)
    skip = 1 if head.triangle == "strict" else 0
    starts = np.concatenate([[0], np.cumsum(np.arange(head.rows - skip, -skip, -1))])
    col = np.searchsorted(starts, k, side="right") - 1
    return k - starts[col] + col + skip, col


def _line_of(data: Input, head: Header, plain: bool, number: int) -> int | None:
    """The line of the stored `number`; found by walking where they do not match one to one."""
    if plain:
        return head.size_line + 1 + number
    seen, width = 0, 1 if head.layout == "coordinate" else len(head.parts)
    for line, _, text in lines(data.data, head.size_line + 1, head.body):
        if text and not text.startswith(b"%"):
            seen += 1 if head.layout == "coordinate" else len(text.split(b"%")[0].split())
            if seen > number * width:
                return line
    return None
