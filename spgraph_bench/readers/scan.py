"""A fast and strict look at text that should hold nothing but numbers, beside a tolerant parser.

scipy's Matrix Market parser takes the longest number it finds and skips the rest of the line: 1.0D+03 reads
as 1, "1 1 2 7" as a value of 2, a column 1.5 as a column 1 and a value of .5; a null character crashes it. So
the text is checked first: only known characters, each behind one that it may follow; at most one point and
one exponent in a number; as many numbers in each line as there should be, the first two of them without sign,
point or exponent. Text that fails goes to a slow parser which says what is wrong and where.

The parser is handed the text piece by piece, and each piece is checked when it is in cache anyway, while the
parser works on those before it. The check takes 5 ns a byte, about as long as the parser.
"""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["line_end", "scan"]

_BLOCK = 1 << 17  # stays in cache

# The high half of a byte's code is what it is, the low half what may not follow it; so a pair is wrong where
# the low half of one meets the high half of the next. START alone is not an error: that is where tokens begin.
_START, _END, _SIGN, _POINT = 1, 2, 4, 8
_STRANGE = 255
_CODES = {  # what it is, what may not follow
    b" \t\r\n": (_END, _START),
    b"0123456789": (_START, _SIGN),
    b".": (_START | _POINT, _SIGN | _POINT),
    b"-": (_START | _SIGN, _END | _SIGN),
    b"+": (_START | _SIGN, _END | _SIGN | _POINT),
    b"eE": (_START | _END, _END | _POINT),
}


def _table(known: bytes) -> bytes:
    codes = {c: 16 * what | without for chars, (what, without) in _CODES.items() for c in chars}
    return bytes(codes[c] if c in known else _STRANGE for c in range(256))


_REAL, _INTEGER = _table(b" \t\r\n0123456789.-+eE"), _table(b" \t\r\n0123456789-")
_DIGIT_CODE, _POINT_CODE, _EXPONENT_CODE, _MINUS_CODE, _PLUS_CODE = (_REAL[c] for c in b"0.e-+")


def line_end(data: bytes | mmap.mmap, begin: int, end: int, size: int) -> int:
    """Where to cut: behind the last whole line of `size` bytes from `begin`, or behind a longer first line."""
    if begin + size >= end:
        return end
    return data.rfind(b"\n", begin, begin + size) + 1 or data.find(b"\n", begin + size, end) + 1 or end


def scan(
    data: bytes | mmap.mmap, begin: int, end: int, real: bool = True, width: int = 0, indices: int = 2
) -> int | None:
    """The numbers in ``data[begin:end]``, which are whole lines; None if it is not all numbers.

    `begin` is at least 1, and behind a blank or a line end. Without `real`, points and exponents are not part
    of a number. With `width`, there are so many numbers in each line, the first `indices` of digits alone.
    """
    if data[end - 1 : end] in (b"e", b"E", b"+", b"-"):
        return None
    table, count, offset = _REAL if real else _INTEGER, 0, begin
    while offset < end:
        stop = line_end(data, offset, end, _BLOCK)
        raw = data[offset - 1 : stop]
        codes = np.frombuffer(raw.translate(table), np.uint8)
        pairs = codes[:-1] << np.uint8(4)  # the low half is now the high one
        pairs &= codes[1:]
        if codes.max() == _STRANGE or pairs.max() > 16 * _START:
            return None
        starts = np.flatnonzero(pairs != 0)  # the byte before each number, in `codes`
        starts += 1
        if width and not _fills_lines(np.frombuffer(raw, np.uint8), starts, width):
            return None
        if not _are_numbers(codes, starts, width, indices if width else 0):
            return None
        count += len(starts)
        offset = stop
    return count


def _fills_lines(raw: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], width: int) -> bool:
    """Whether `width` tokens begin in every line of `raw` (whose first byte is before the first line)."""
    ends = np.flatnonzero(raw[1:] == ord("\n"))
    ends += 1
    if not len(ends) or ends[-1] != len(raw) - 1:  # the last line has no line feed
        ends = np.append(ends, len(raw))
    if len(starts) != width * len(ends):
        return False
    return bool((starts[width - 1 :: width] < ends).all() and (starts[width::width] > ends[:-1]).all())


def _are_numbers(codes: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], width: int, indices: int) -> bool:
    """Whether tokens of sound pairs are numbers, the first `indices` of `width` in a line of digits alone."""

    def tokens(places: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        return np.searchsorted(starts, places, side="right") - 1

    points = np.flatnonzero(codes[1:] == _POINT_CODE) + 1
    exponents = np.flatnonzero(codes[1:] == _EXPONENT_CODE) + 1
    for places in (points, exponents):
        token = tokens(places)
        if (token[1:] == token[:-1]).any() or (indices and (token % width < indices).any()):
            return False
    if indices:
        signs = np.flatnonzero((codes[1:] == _MINUS_CODE) | (codes[1:] == _PLUS_CODE)) + 1
        if len(signs) and (tokens(signs) % width < indices).any():
            return False
    if len(points):
        digit = codes == _DIGIT_CODE
        after = digit[np.minimum(points + 1, len(codes) - 1)]
        if not (digit[points - 1] | after).all():  # a point alone
            return False
    if len(exponents):
        token = tokens(exponents)
        if (starts[token] == exponents).any():
            return False
        next_token = np.append(starts, len(codes))[token + 1]
        if (np.searchsorted(points, exponents) != np.searchsorted(points, next_token)).any():
            return False  # a point behind the exponent
    return True
