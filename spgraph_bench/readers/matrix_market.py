"""Matrix Market: coordinate and array, every field and symmetry, with and without its banner.

The format is R. F. Boisvert, R. Pozo, K. Remington, "The Matrix Market exchange formats", NISTIR 5935, 1996.
Well-formed bodies are parsed by scipy's multi-threaded reader, so that the entries arrive as they are stored;
what would crash it is found before, what it would misread beside the work that follows (see `scan`). Anything
else goes through a slow pass that reads what can be read and names the line of what cannot.
"""

from __future__ import annotations

import importlib
import io
import mmap
import re
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
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
from spgraph_bench.readers.matrix_market_text import (
    BANNER,
    Body,
    Header,
    lines,
    miscounted,
    read_body,
    read_header,
    text_end,
)
from spgraph_bench.readers.scan import Scan, glance, scan

__all__ = ["parse", "sniff"]

NAME = "matrix-market"
_PIECE = 1 << 22
_COMMENT = re.compile(rb"^[ \t\r]*%[^\n]*\n?", re.MULTILINE)
_BLANK = re.compile(rb"\n(?:[ \t\r]*\n)+")
_STRANGE = re.compile(rb"[^\s0-9.eE+-]")
_TOKEN = re.compile(rb"\S{1,12}")
_SPECIAL = re.compile(rb"[+-]?(?:nan|inf(?:inity)?)", re.IGNORECASE)
_REAL = rb"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|(?i:nan|inf(?:inity)?))"
_LINES = {
    field: re.compile(
        rb"(?:[ \t]*+" + rb"[ \t]++".join([rb"[0-9]++", rb"[0-9]++", *values]) + rb"[ \t\r]*+(?:\n|$))*+"
    )
    for field, values in {
        "real": [_REAL], "integer": [rb"-?[0-9]+"], "complex": [_REAL, _REAL], "pattern": [],
    }.items()
}  # fmt: skip
_SAMPLE = 1 << 14
_FORTRAN = bytes.maketrans(b"dD", b"ee")


def sniff(head: bytes, name: str) -> int:
    """The banner is certain; without it the suffix decides, so that faults are told as Matrix Market's."""
    if BANNER.match(head):
        return CERTAIN
    return LIKELY if name.endswith((".mtx", ".mm")) and b"\0" not in head else NO


@reader(NAME, title="Matrix Market", suffixes=(".mtx", ".mm"), sniff=sniff)
def parse(data: Input, options: ReadOptions, progress: Progress) -> RawEntries:
    """Entries of a Matrix Market file; InputError with the line for anything wrong in it."""
    if data.data.find(b"\n") < 0:  # one line, or line ends of the old Macintosh
        data = replace(data, data=data.data[:].replace(b"\r", b"\n"))
    head = read_header(data)
    if head.field == "complex" and options.part is None and options.values == "file":
        raise data.error(
            "the values are complex, spgraph computes with real ones",
            line=1,
            remedy="choose what to take: --part real|imag|abs",
        )
    if (found := _parsed(data, head, progress)) is None:
        return _entries(data, head, _checked(data, head, progress) or read_body(data, head, progress))
    body, is_right = found
    entries = _entries(data, head, body)

    def confirm() -> RawEntries | None:
        if is_right():
            return None
        again = read_header(data)  # without the findings of the first attempt
        return _entries(data, again, _checked(data, again, progress) or read_body(data, again, progress))

    entries.confirm = confirm
    return entries


def _entries(data: Input, head: Header, body: Body) -> RawEntries:
    values = body.values
    if values is not None and np.issubdtype(values.dtype, np.integer):
        values = _as_real(values, head, lambda k: _line_of(data, head, body.plain, k))
    if body.row is not None and body.col is not None:
        return RawEntries(
            head.rows, head.cols, body.row, body.col, values, NAME, symmetry=head.symmetry, base=1,
            findings=tuple(head.findings), line_of=lambda k: _line_of(data, head, body.plain, k),
        )  # fmt: skip
    assert values is not None
    stored = np.flatnonzero(values != 0)
    if zeros := len(values) - len(stored):
        head.findings.append(Finding("array layout: zeros are not taken as entries", count=zeros))
    row, col = _positions(head, stored)
    return RawEntries(
        head.rows, head.cols, row, col, values[stored], NAME, symmetry=head.symmetry,
        findings=tuple(head.findings), line_of=lambda k: _line_of(data, head, body.plain, int(stored[k])),
    )  # fmt: skip


class _Rewritten(io.RawIOBase):
    """A header of ours, a piece of the original, a line feed; without a copy of the whole."""

    def __init__(self, header: bytes, data: bytes | mmap.mmap, begin: int, end: int, say: Progress) -> None:
        self.ends = [b"\n", header]
        self.data, self.begin, self.at, self.end, self.say, self.said = data, begin, begin, end, say, begin

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        if len(self.ends) == 2 or (self.at == self.end and self.ends):
            return self.ends.pop()
        stop = self.end if size < 0 else min(self.at + size, self.end)
        piece = self.data[self.at : stop]
        self.at = stop
        if stop - self.said > _PIECE:  # it is read by the kilobyte
            self.said = stop
            self.say("reading entries", (stop - self.begin) / (self.end - self.begin))
        return piece


def _fast(data: Input, head: Header, progress: Progress) -> Body | None:
    """The body by a fast parser, or None if it is not certain to read it right."""
    if (found := _parsed(data, head, progress)) is not None and found[1]():
        return found[0]
    return _checked(data, head, progress)


def _parsed(data: Input, head: Header, progress: Progress) -> tuple[Body, Callable[[], bool]] | None:
    """The entries of a body that does not crash scipy's parser, and what tells if it read them right."""
    text = data.data
    begin, end = head.body, max(head.body, text_end(text))
    if head.layout == "array" or head.count == 0:
        return None
    line_feeds, lowest = glance(text, begin, end)
    if line_feeds != head.count - 1 or lowest < 9 or not _sample_fits(text, begin, end, head.field):
        return None
    progress("reading entries", None)
    body = _coordinate(data, head, text, begin, end, progress)
    if body is None:
        return None
    if _to_the_letter(body, head, text, begin, end):
        return body, lambda: True

    def is_right() -> bool:
        return _reads_right(scan(text, begin, end), head, text, begin, end)

    if end - begin < _PIECE:
        return body, is_right
    pool = ThreadPoolExecutor(1)
    outcome = pool.submit(is_right)
    pool.shutdown(wait=False)
    return body, outcome.result


def _checked(data: Input, head: Header, progress: Progress) -> Body | None:
    """As `_fast`, of bodies that need mending first or are an array; checked before they are parsed."""
    if head.count == 0:
        return None
    text: bytes | mmap.mmap = data.data
    begin, end, width = head.body, max(head.body, text_end(text)), len(head.parts)
    findings: list[Finding] = []
    line_feeds, lowest = glance(text, begin, end)
    seen = scan(text, begin, end)
    if lowest < 9 or seen.strange or seen.plus or line_feeds >= head.count:
        text, begin, findings = _repaired(data, head, end)
        end = len(text)
        line_feeds, lowest = glance(text, begin, end)
        seen = scan(text, begin, end)
    if lowest < 9 or not _reads_right(seen, head, text, begin, end):
        found, rest = divmod(seen.tokens, width)
        clean = lowest >= 9 and not seen.strange and _is_spelled_right(seen, head, text, begin, end)
        if clean and found != head.count and not rest and line_feeds == found - 1:
            raise miscounted(data, head, found)  # clean otherwise, so the slow pass would say the same
        return None
    progress("reading entries", None)
    if head.layout == "array":
        body = _array(text[begin:end], head)
    elif line_feeds == head.count - 1 and _sample_fits(text, begin, end, head.field):
        body = _coordinate(data, head, text, begin, end, progress)
    else:
        return None
    if body is not None:
        head.findings += findings
    return body


def _reads_right(seen: Scan, head: Header, text: bytes | mmap.mmap, begin: int, end: int) -> bool:
    """Whether scipy's parser reads all of a text in which `seen` was counted."""
    return seen.tokens == head.count * len(head.parts) and _is_spelled_right(seen, head, text, begin, end)


def _is_spelled_right(seen: Scan, head: Header, text: bytes | mmap.mmap, begin: int, end: int) -> bool:
    if seen.misplaced or seen.plus or text[end - 1 : end] in (b"e", b"E", b"+", b"-"):
        return False
    if seen.strange and not _only_special(text, begin, end, seen.strange):
        return False
    is_real = head.field in ("real", "complex")
    return is_real or not (seen.exponents or text.find(b".", begin, end) >= 0)


def _to_the_letter(body: Body, head: Header, text: bytes | mmap.mmap, begin: int, end: int) -> bool:
    """Whether the text is no longer than the entries read from it: then nothing in it was skipped.

    Of non-negative integers only, whose digits can be counted without looking at the text.
    """
    numbers = [body.row, body.col] if head.field == "pattern" else [body.row, body.col, body.values]
    if head.field not in ("pattern", "integer") or (body.values is not None and body.values.min() < 0):
        return False
    digits = sum(_digits(part, 0 if part is body.values else 1) for part in numbers if part is not None)
    blanks = head.count * len(numbers) - 1
    return digits + blanks == end - begin and text.find(b"\r", begin, end) < 0


def _digits(numbers: npt.NDArray[np.integer[Any]], base: int) -> int:
    """Decimal digits of all `numbers` + `base`, which are not negative."""
    total, largest = 0, int(numbers.max())
    for at in range(0, len(numbers), _SAMPLE):
        part, bound = numbers[at : at + _SAMPLE], 10
        total += len(part)
        while bound - base <= largest:
            total += int(np.count_nonzero(part >= bound - base))
            bound *= 10
    return total


def _coordinate(
    data: Input, head: Header, text: bytes | mmap.mmap, begin: int, end: int, progress: Progress
) -> Body | None:
    """The entries by scipy: from the file itself if nothing need be changed, else under a header of ours.

    Its parser must meet one entry in every line and a line feed behind the last one: it reads past the end
    of a text that ends in a blank, and writes past its arrays where there are more lines than entries.
    """
    from scipy.io import mmread

    found: tuple[Any, Any, Any] | None = None
    same = text is data.data and text[end:] in (b"\n", b"\r\n")
    safe = head.standard and data.data.find(b"\0", 0, head.body) < 0
    if same and safe and data.path and not data.path.endswith((".gz", ".bz2")):
        found = _stored(data.path)
    if found is None:
        sizes = f"{head.rows} {head.cols} {head.count}"
        header = f"%%MatrixMarket matrix coordinate {head.field} general\n{sizes}\n".encode()
        try:
            stream: Any = _Rewritten(header, text, begin, end, progress)
            coo: Any = mmread(stream)
        except (ValueError, OverflowError):
            return None
        found = coo.row, coo.col, coo.data
    row, col, values = found
    return Body(row, col, None if head.field == "pattern" else values, text is data.data)


def _stored(path: str) -> tuple[Any, Any, Any] | None:
    """Row, column and value of the entries that the file holds; None if scipy does not read it.

    This is what scipy's mmread calls. mmread itself mirrors a stored triangle, which is ours to do, and from
    anything but a path it reads by the kilobyte, which takes twice the time.
    """
    try:
        fast: Any = importlib.import_module("scipy.io._fast_matrix_market")
        cursor, _ = fast._get_read_cursor(path)
        (values, (row, col)), _ = fast._read_body_coo(cursor, generalize_symmetry=False)
    except (ImportError, AttributeError, TypeError, ValueError, OverflowError):
        return None
    return row, col, values


def _sample_fits(text: bytes | mmap.mmap, begin: int, end: int, field: str) -> bool:
    """Whether the first and the last lines are entries to the letter.

    What `scan` cannot tell from its counts is seen here, if it is the way of the whole file: column indices
    that are written as 1.0 and would be read as a column 1 and a value of .0.
    """
    line = _LINES[field]
    first = text[begin : min(begin + _SAMPLE, end)]
    if begin + _SAMPLE < end:
        first = first[: first.rfind(b"\n") + 1]
        last = text[max(begin, end - _SAMPLE) : end]
        return bool(line.fullmatch(first) and line.fullmatch(last[last.find(b"\n") + 1 :]))
    return bool(line.fullmatch(first))


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
    """The body without comments, blank lines, D exponents and plus signs; where it begins; what was found."""
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


def _only_special(text: bytes | mmap.mmap, begin: int, end: int, strange: int) -> bool:
    """Whether all strange bytes belong to tokens that spell a NaN or an infinity."""
    if strange > 1_000_000:  # a loop over them is no faster than the slow pass
        return False
    done = 0
    for found in _STRANGE.finditer(text, begin, end):
        start = found.start()
        if start < done:
            continue
        while start > begin and not text[start - 1 : start].isspace():
            start -= 1
        token = _TOKEN.match(text, start, end)
        if token is None or not _SPECIAL.fullmatch(token.group()):
            return False
        done = token.end()
    return True


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
    if head.symmetry == "general":
        return k % max(1, head.rows), k // max(1, head.rows)
    skip = 1 if head.symmetry == "skew-symmetric" else 0
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
