"""A fast look at text that should hold nothing but numbers, before a tolerant parser gets it.

scipy's Matrix Market parser takes the longest number it finds and skips the rest of the line: 1.0D+03 reads
as 1, "1 1 2 7" as a value of 2, an integer field's 1.5 as 1; a null character crashes it. So the text is
first checked here with a few passes of numpy over blocks that stay in cache (about a quarter of the parser's
own time): only known characters, no sign glued to a digit, as many tokens as there should be. Text that fails
goes to a slow parser which says what is wrong and where.
"""

from __future__ import annotations

import mmap
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, dataclass

import numpy as np

__all__ = ["Scan", "scan"]

_BLOCK = 1 << 17


@dataclass(frozen=True)
class Scan:
    """Counts over a piece of text."""

    tokens: int = 0
    line_feeds: int = 0
    strange: int = 0
    """Bytes that are neither blank, digit, sign, point nor e or E."""
    points: int = 0
    exponents: int = 0
    plus: int = 0
    glued: int = 0
    """Signs right after a digit or a point, as in 1.5-103."""

    def __add__(self, other: Scan) -> Scan:
        return Scan(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))


def scan(data: bytes | mmap.mmap, begin: int, end: int) -> Scan:
    """Counts over ``data[begin:end]``; `begin` is at least 1 and follows a blank."""
    text = np.frombuffer(data, np.uint8)
    starts = range(begin, end, _BLOCK)
    if len(starts) < 8:
        return sum((_block(text[at - 1 : min(at + _BLOCK, end)]) for at in starts), Scan())
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:  # numpy works without the lock
        return sum(pool.map(lambda at: _block(text[at - 1 : min(at + _BLOCK, end)]), starts), Scan())


def _block(text: np.ndarray[tuple[int], np.dtype[np.uint8]]) -> Scan:
    """Counts over ``text[1:]``; the first byte is the one before."""
    here = text[1:]
    count = np.count_nonzero
    blank = text <= 32
    number = (text - np.uint8(46)) < 12  # . / 0-9
    minus, plus = here == 45, here == 43
    plus_count, line_feeds = count(plus), count(here == 10)
    exponents = count((here | np.uint8(32)) == 101)
    known = count(blank[1:]) + count(number[1:]) + count(minus) + plus_count + exponents
    control = count(here < 32) - line_feeds
    if control:
        control -= count(here == 9) + count(here == 13)
    sign = minus | plus if plus_count else minus
    return Scan(
        tokens=int(count(blank[:-1] > blank[1:])),
        line_feeds=int(line_feeds),
        strange=int(len(here) - known + control + count(here == 47)),
        points=int(count(here == 46)),
        exponents=int(exponents),
        plus=int(plus_count),
        glued=int(count(sign & number[:-1])),
    )
