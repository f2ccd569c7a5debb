"""Random numbers that are the same everywhere: raw 64-bit words and exact arithmetic on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["AliasTable", "Words", "below", "unit"]

UInt64Array = npt.NDArray[np.uint64]


class Words:
    """An endless stream of 64-bit words, given by a seed and the number of the stream.

    PCG64 (O'Neill 2014): numpy keeps its raw output, and the seeding from a list of integers, unchanged
    between versions. How many words are taken at a time does not change what comes.
    """

    def __init__(self, seed: int, stream: int, first: int = 0) -> None:
        """`first`: the number of the word to begin with."""
        self._generator = np.random.PCG64(np.random.SeedSequence([seed, stream])).advance(first)

    def take(self, count: int) -> UInt64Array:
        """The next `count` words."""
        words: UInt64Array = np.asarray(self._generator.random_raw(count), np.uint64)
        return words

    def state(self) -> UInt64Array:
        """Upper and lower half of the generator's state, and of its increment: uint64 ``[4]``."""
        inner: Any = self._generator.state["state"]
        return np.array([half for name in ("state", "inc") for half in divmod(inner[name], 1 << 64)], np.uint64)


def unit(words: UInt64Array) -> npt.NDArray[np.float64]:
    """Floats uniform in [0, 1): the upper 53 bits of each word, times 2^-53 (both steps are exact)."""
    floats: npt.NDArray[np.float64] = np.multiply(words >> np.uint64(11), 2.0**-53, dtype=np.float64)
    return floats


def below(words: UInt64Array, bound: int) -> npt.NDArray[np.int64]:
    """Integers uniform in [0, bound), bound up to 2^31 (off by at most 2^-22 of each probability).

    One multiplication, rounded as IEEE 754 says, so the same everywhere. It cannot round up to `bound`:
    (1 - 2^-53) * bound is at least half a spacing below it.
    """
    return (unit(words) * bound).astype(np.int64)


class AliasTable:
    """Draws from any finite distribution with one word and one look-up per draw.

    Walker's alias method, built as by Vose (1991), in integers throughout. The table is padded to a power of
    two: the low bits of a word choose a column, the others decide between it and its alias. Each probability
    is right to 2^-64 of the whole.
    """

    def __init__(self, weights: Sequence[int]) -> None:
        self.bits = max(1, (len(weights) - 1).bit_length())
        size, total = 1 << self.bits, sum(weights)
        # Each column holds `total`; columns hold their own weight * size up to that, aliases fill the rest.
        rest = [weight * size for weight in weights] + [0] * (size - len(weights))
        alias = list(range(size))
        own = [total] * size
        small = [i for i in range(size) if rest[i] < total]
        large = [i for i in range(size) if rest[i] > total]
        while small:
            low, high = small.pop(), large[-1]
            own[low], alias[low] = rest[low], high
            rest[high] -= total - rest[low]
            if rest[high] <= total:
                large.pop()
                if rest[high] < total:
                    small.append(high)
        scale = 1 << (64 - self.bits)
        self.threshold = np.array([share * scale // total for share in own], np.uint64)
        self.alias = np.array(alias, np.int64)

    def draw(self, words: UInt64Array) -> npt.NDArray[np.int64]:
        """One outcome (index into the weights) per word."""
        column = (words & np.uint64((1 << self.bits) - 1)).view(np.int64)
        keeps = (words >> np.uint64(self.bits)) < self.threshold[column]
        return np.where(keeps, column, self.alias[column])
