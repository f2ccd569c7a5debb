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
from collections.abc import Callable, Iterator
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
_BLANK = re.compile(rb"\n[ \t\r]*\n")
_STRANGE = re.compile(rb"[^\s0-9.eE+-]")
_TOKEN = re.compile(rb"\S{1,12}")
_SPECIAL = re.compile(rb"[+-]?(?:nan|inf(?:inity)?)", re.IGNORECASE)
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
    """A header of ours, then a piece of the original, without a copy of the whole."""

    def __init__(self, header: bytes, data: bytes | mmap.mmap, begin: int, end: int, say: Progress) -> None:
        self.header, self.data, self.begin, self.at, self.end, self.say = header, data, begin, begin, end, say
        self.said = 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        if self.header:
            header, self.header = self.header, b""
            return header
        stop = self.end if size < 0 else min(self.at + size, self.end)
        piece = self.data[self.at : stop]
        self.at = stop
        if stop - self.said > _PIECE:  # it is read by the kilobyte
            self.said = stop
            self.say("reading entries", (stop - self.begin) / (self.end - self.begin))
        return piece


def _fast(data: Input, head: Header, progress: Progress) -> Body | None:
    """The body by scipy's parser, or None if it is not certain to read it right."""
    from scipy.io import mmread

    if head.count == 0:
        return None
    text: bytes | mmap.mmap = data.data
    begin, end, width = head.body, max(head.body, text_end(text)), len(head.parts)
    findings: list[Finding] = []
    seen = scan(text, begin, end)
    if seen.strange or seen.plus:
        text, begin, findings = _repaired(data, head, end)
        end = len(text)
        seen = scan(text, begin, end)
    if seen.glued or seen.plus or (seen.strange and not _only_special(text, begin, end, seen.strange)):
        return None
    if head.field in ("integer", "pattern") and (seen.exponents or text.find(b".", begin, end) >= 0):
        return None
    blanks = seen.line_feeds + 1 - head.count
    if seen.tokens != head.count * width:
        found, rest = divmod(seen.tokens, width)
        if not rest and not seen.strange and seen.line_feeds == found - 1:
            raise miscounted(data, head, found)  # clean otherwise, so the slow pass would say the same
        return None
    if blanks < 0:
        return None
    progress("reading entries", None)
    found_ = None
    for source in _sources(data, head, text, begin, end, progress):
        try:
            found_ = mmread(source)
            break
        except (ValueError, OverflowError):
            continue
    if found_ is None:
        return None
    if blanks and (blank := _BLANK.search(data.data, head.body - 1)):
        findings.append(Finding("blank lines", line_number(data.data, blank.start()) + 1, blanks))
    head.findings += findings
    plain = text is data.data and not blanks
    if isinstance(found_, np.ndarray):
        return Body(None, None, found_.ravel(), plain)
    return Body(found_.row, found_.col, None if head.field == "pattern" else found_.data, plain)


def _sources(
    data: Input, head: Header, text: bytes | mmap.mmap, begin: int, end: int, progress: Progress
) -> Iterator[Any]:
    """What scipy may read: the file itself (a little faster) if nothing in it need be changed; then the body
    under a header of ours."""
    unchanged = text is data.data and head.layout == "coordinate" and head.symmetry == "general"
    safe = head.standard and data.data.find(b"\0", 0, head.body) < 0
    if unchanged and safe and data.path and not data.path.endswith((".gz", ".bz2")):
        yield data.path
    shape = f"{head.rows} {head.cols} {head.count}" if head.layout == "coordinate" else f"{head.count} 1"
    header = f"%%MatrixMarket matrix {head.layout} {head.field} general\n{shape}\n".encode()
    yield _Rewritten(header, text, begin, end, progress)


def _repaired(data: Input, head: Header, end: int) -> tuple[bytes, int, list[Finding]]:
    """The body without comments, D exponents and plus signs; where it begins there; what was found."""
    findings = []
    body = b"\n" + data.data[head.body : end]
    if comment := _COMMENT.search(body, 1):
        line = line_number(data.data, head.body + comment.start() - 1)
        body, count = _COMMENT.subn(b"", body)
        body = body.rstrip()
        findings.append(Finding("comments between entries", line, count))
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
    seen = 0
    for line, _, text in lines(data.data, head.size_line + 1, head.body):
        if text and not text.startswith(b"%"):
            words = len(text.split(b"%")[0].split())
            seen += 1 if head.layout == "coordinate" else words // len(head.parts)
            if seen > number:
                return line
    return None
