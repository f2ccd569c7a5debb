"""Matrix Market: coordinate and array, every field and symmetry, with and without its banner.

The format is R. F. Boisvert, R. Pozo, K. Remington, "The Matrix Market exchange formats", NISTIR 5935, 1996.
Well-formed bodies are parsed by scipy's multi-threaded reader, under a header that says "general", so that
the entries arrive as they are stored; what it would misread is found before (see `scan`). Anything else goes
through a slow pass that reads what can be read and names the line of what cannot.
"""

from __future__ import annotations

import io
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
from spgraph_bench.readers.scan import scan

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
    body = _fast(data, head, progress) or read_body(data, head, progress)
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
    if head.count == 0:
        return None
    text: bytes | mmap.mmap = data.data
    begin, end, width = head.body, max(head.body, text_end(text)), len(head.parts)
    findings: list[Finding] = []
    seen = scan(text, begin, end)
    if seen.strange or seen.plus or seen.line_feeds >= head.count:
        text, begin, findings = _repaired(data, head, end)
        end = len(text)
        seen = scan(text, begin, end)
    if seen.misplaced or seen.plus or (seen.strange and not _only_special(text, begin, end, seen.strange)):
        return None
    if text[end - 1 : end] in (b"e", b"E", b"+", b"-"):
        return None
    if head.field in ("integer", "pattern") and (seen.exponents or text.find(b".", begin, end) >= 0):
        return None
    if seen.tokens != head.count * width:
        found, rest = divmod(seen.tokens, width)
        if not rest and not seen.strange and seen.line_feeds == found - 1:
            raise miscounted(data, head, found)  # clean otherwise, so the slow pass would say the same
        return None
    progress("reading entries", None)
    if head.layout == "array":
        body = _array(text[begin:end], head)
    elif seen.line_feeds == head.count - 1 and _sample_fits(text, begin, end, head.field):
        body = _coordinate(data, head, text, begin, end, progress)
    else:
        return None
    if body is not None:
        head.findings += findings
    return body


def _coordinate(
    data: Input, head: Header, text: bytes | mmap.mmap, begin: int, end: int, progress: Progress
) -> Body | None:
    """The entries by scipy: from the file itself if nothing need be changed, else under a header of ours.

    Its parser must meet one entry in every line and a line feed behind the last one: it reads past the end
    of a text that ends in a blank, and writes past its arrays where there are more lines than entries.
    """
    from scipy.io import mmread

    sources: list[Any] = []
    same = text is data.data and head.symmetry == "general" and text[end:] in (b"\n", b"\r\n")
    safe = head.standard and data.data.find(b"\0", 0, head.body) < 0
    if same and safe and data.path and not data.path.endswith((".gz", ".bz2")):
        sources.append(data.path)
    header = f"%%MatrixMarket matrix coordinate {head.field} general\n{head.rows} {head.cols} {head.count}\n"
    sources.append(_Rewritten(header.encode(), text, begin, end, progress))
    for source in sources:
        try:
            found: Any = mmread(source)
        except (ValueError, OverflowError):
            continue
        values = None if head.field == "pattern" else np.asarray(found.data)
        return Body(found.row, found.col, values, text is data.data)
    return None


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
