"""A fast look at text that should hold nothing but numbers, before a tolerant parser gets it.

scipy's Matrix Market parser takes the longest number it finds and skips the rest of the line: 1.0D+03 reads
as 1, "1 1 2 7" as a value of 2, an integer field's 1.5 as 1; a null character crashes it. So the text is
first checked here: only known characters, signs and exponents where they may be, as many tokens as there
should be. Text that fails goes to a slow parser which says what is wrong and where. (What passes and is still
no number has a second point or exponent, 1.2.3 or 1e5e6, and reads as 1.2 and 1e5.) The check is a few passes
of numpy over blocks that stay in cache, in stripes on several threads, at a part of the parser's own time.
"""

from __future__ import annotations

import mmap
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["Scan", "scan"]

_BLOCK = 1 << 17
_STRIPE = 1 << 22  # no thread is worth starting for less
_THREADS = 16


@dataclass(frozen=True)
class Scan:
    """Counts over a piece of text."""

    tokens: int = 0
    line_feeds: int = 0
    strange: int = 0
    """Bytes that are neither blank, digit, sign, point nor e or E; control characters may count as blank."""
    exponents: int = 0
    """Letters e and E."""
    plus: int = 0
    """Plus signs other than those of exponents (1e+10)."""
    misplaced: int = 0
    """Minus signs right after a digit, a sign or a point (1.5-103), exponents without digits (1e, 1e+)."""

    def __add__(self, other: Scan) -> Scan:
        return Scan(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))


def scan(data: bytes | mmap.mmap, begin: int, end: int) -> Scan:
    """Counts over ``data[begin:end]``; `begin` is at least 1 and follows a blank."""
    text = np.frombuffer(data, np.uint8)
    threads = max(1, min(_THREADS, os.cpu_count() or 1, (end - begin) // _STRIPE))
    cuts = [begin + (end - begin) * k // threads for k in range(threads + 1)]
    if threads == 1:
        return _stripe(text, begin, end)
    with ThreadPoolExecutor(threads) as pool:  # numpy works without the lock
        return sum(pool.map(_stripe, [text] * threads, cuts[:-1], cuts[1:]), Scan())


def _stripe(text: npt.NDArray[np.uint8], begin: int, end: int) -> Scan:
    """Counts over ``text[begin:end]``; the byte before belongs to the first block as a neighbour."""
    tokens = line_feeds = strange = exponents = plus = misplaced = 0

    def count(mask: npt.NDArray[np.bool_]) -> int:
        return int(np.count_nonzero(mask))

    blanks, numbers, flags = (np.empty(_BLOCK + 1, np.bool_) for _ in range(3))
    shifted = np.empty(_BLOCK + 1, np.uint8)
    for at in range(begin, end, _BLOCK):
        part = text[at - 1 : min(at + _BLOCK, end)]
        here, size = part[1:], len(part) - 1
        blank, number, flag = blanks[: size + 1], numbers[: size + 1], flags[:size]
        np.less_equal(part, 32, out=blank)
        np.less(np.subtract(part, 45, out=shifted[: size + 1]), 13, out=number)  # - . / 0-9
        tokens += count(np.greater(blank[:-1], blank[1:], out=flag))
        if not np.logical_or(blank[1:], number[1:], out=flag).all():
            letter, sign = (part | np.uint8(32)) == 101, here == 43
            strange += size - count(flag) - count(letter[1:]) - count(sign)
            exponents += count(letter[1:])
            plus += count(sign) - count(sign & letter[:-1])
            sign |= here == 45
            misplaced += count(letter[:-1] & ~(((here - np.uint8(48)) < 10) | sign))
            misplaced += count(((part[:-1] == 43) | (part[:-1] == 45)) & (blank[1:] | sign))
        line_feeds += count(np.equal(here, 10, out=flag))
        np.equal(here, 45, out=flag)
        if np.logical_and(flag, number[:-1], out=flag).any():
            misplaced += count(flag)
        if np.equal(here, 47, out=flag).any():  # within the range of numbers, yet no part of one
            strange += count(flag)
        if here.min() < 9:
            strange += count(here < 9)
    return Scan(tokens, line_feeds, strange, exponents, plus, misplaced)
