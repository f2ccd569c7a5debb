"""Recipes drawn at random: R-MAT, uniform and power-law."""

from __future__ import annotations

from dataclasses import replace
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import lru_cache, reduce
from math import lcm

import numpy as np
import numpy.typing as npt

from spgraph_bench.cores import on_all_cores
from spgraph_bench.parameters import MAX_INDEX, Parameter
from spgraph_bench.readers.common import Progress
from spgraph_bench.recipes import compiled
from spgraph_bench.recipes.base import Pattern, Size, recipe
from spgraph_bench.recipes.draw import AliasTable, Words, below
from spgraph_bench.recipes.patterns import (
    CHUNK,
    WORKING_BYTES,
    chunks,
    fresh,
    from_sorted_keys,
    random_order,
    sorted_keys,
)
from spgraph_bench.stats import row_ptr_of, row_ranges

# Streams of words; a recipe uses each for one thing.
_PERMUTATION, _LENGTHS, _COLUMNS, _EDGES = range(4)

_NO_EDGE = np.uint64(2**64 - 1)  # comes last when edges are sorted
_LEVELS_AT_ONCE = 8  # 4^8 outcomes: the table stays in L2


def _rmat_size(scale: int, edgefactor: int, a: Fraction, b: Fraction, c: Fraction, symmetrize: int) -> Size:
    if a + b + c > 1:
        raise ValueError("a + b + c is more than 1")
    edges = (edgefactor << scale) * (1 + symmetrize)
    return Size(1 << scale, 1 << scale, edges, scratch=16 * edges + (24 << scale) + min(WORKING_BYTES, 100 * edges))


@recipe(
    "rmat",
    {
        "scale": Parameter(20, "2^scale vertices", between=(1, 30)),
        "edgefactor": Parameter(16, "edges drawn per vertex", between=(1, 4096)),
        "a": Parameter(Fraction("0.57"), "share of edges in the upper left quarter"),
        "b": Parameter(Fraction("0.19"), "share in the upper right"),
        "c": Parameter(Fraction("0.19"), "share in the lower left"),
        "symmetrize": Parameter(0, "1: undirected, every edge stored both ways", between=(0, 1)),
    },
    about="R-MAT (Graph500's) graph: power-law degrees, vertex ids permuted, no self-loops",
    short="rmat{scale}",
    size=_rmat_size,
)
def rmat(
    scale: int, edgefactor: int, a: Fraction, b: Fraction, c: Fraction, symmetrize: int, seed: int, progress: Progress
) -> Pattern:
    """R-MAT (Chakrabarti, Zhan and Faloutsos 2004) without noise, several of its levels per draw."""
    vertices, edges = 1 << scale, edgefactor << scale
    renamed = random_order(Words(seed, _PERMUTATION).take(vertices), progress)
    groups = [_LEVELS_AT_ONCE] * (scale // _LEVELS_AT_ONCE) + [scale % _LEVELS_AT_ONCE] * (scale % _LEVELS_AT_ONCE > 0)
    tables = {levels: AliasTable(_quarter_weights(levels, a, b, c)) for levels in set(groups)}
    streams = [(seed, _EDGES + group) for group in range(len(groups))]
    by_group = [(levels, tables[levels]) for levels in groups]
    made = compiled.rmat(compiled.Draws(scale, edges, by_group, streams, renamed, symmetrize), progress)
    if made is not None:
        return Pattern(vertices, vertices, row_ptr_of(made[0]), *made[1:], symmetric=bool(symmetrize))
    keys = np.empty(edges * (1 + symmetrize), np.uint64)

    def draw(edge_range: tuple[int, int]) -> int:
        """Keys of a range of edges that are not loops, where undirected both ways; how many."""
        first, last = edge_range
        source, target = np.zeros(last - first, np.int64), np.zeros(last - first, np.int64)
        for (levels, table), stream in zip(by_group, streams, strict=True):
            outcome = table.draw(Words(*stream, first).take(last - first))
            source = source << levels | outcome >> levels
            target = target << levels | outcome & ((1 << levels) - 1)
        proper = source != target
        i, j = renamed[source[proper]], renamed[target[proper]]
        mine = keys[first * (1 + symmetrize) : last * (1 + symmetrize)]
        np.bitwise_or(i << np.uint64(32), j, out=mine[: len(i)])
        if symmetrize:
            np.bitwise_or(j << np.uint64(32), i, out=mine[len(i) : 2 * len(i)])
        mine[(1 + symmetrize) * len(i) :] = _NO_EDGE
        return (1 + symmetrize) * len(i)

    filled = 0
    for (_, last), count in on_all_cores(draw, chunks(edges)):
        filled += count
        progress("drawing edges", last / edges)
    progress("sorting edges", None)
    pattern = from_sorted_keys(sorted_keys(keys, progress)[:filled], vertices)
    return replace(pattern, symmetric=bool(symmetrize))


def _quarter_weights(levels: int, a: Fraction, b: Fraction, c: Fraction) -> list[int]:
    """Weights of the 4^levels quarters-of-quarters; the index is ``row << levels | column``."""
    shares = (a, b, c, 1 - a - b - c)
    scale = reduce(lcm, (share.denominator for share in shares))
    one = [int(share * scale) for share in shares]
    weights = [1]
    for level in range(levels):  # the new level becomes the lowest bit of row and of column
        side = range(1 << level)
        weights = [
            weights[row << level | col] * one[low_row << 1 | low_col]
            for row in side
            for low_row in (0, 1)
            for col in side
            for low_col in (0, 1)
        ]
    return weights


def _drawn_columns(lengths: npt.NDArray[np.int64], cols: int, seed: int, stream: int, progress: Progress) -> Pattern:
    """For each row `lengths[row]` columns drawn uniformly from `cols`, duplicates merged."""
    if (made := compiled.drawn_columns(lengths, cols, seed, stream, progress)) is not None:
        return Pattern(len(lengths), cols, row_ptr_of(made[0]), *made[1:])
    drawn = row_ptr_of(lengths)
    total = int(drawn[-1])
    col_idx = np.empty(total, np.int32)
    kept_lengths = np.empty(len(lengths), np.int64)

    def draw(rows: tuple[int, int]) -> npt.NDArray[np.int64]:
        """Columns of a range of rows; sets their lengths."""
        first, last = rows
        keys = np.repeat(np.arange(last - first, dtype=np.int64) << 32, lengths[first:last])
        keys |= below(Words(seed, stream, int(drawn[first])).take(len(keys)), cols)
        keys.sort()
        drawn_keys = keys[fresh(keys)]
        kept_lengths[first:last] = np.bincount(drawn_keys >> 32, minlength=last - first)
        drawn_keys &= 0xFFFFFFFF
        return drawn_keys

    filled = 0
    for (_, last), drawn_keys in on_all_cores(draw, row_ranges(drawn, CHUNK)):
        col_idx[filled : filled + len(drawn_keys)] = drawn_keys
        filled += len(drawn_keys)
        progress("drawing columns", int(drawn[last]) / max(1, total))
    col_idx.resize(filled, refcheck=False)  # gives the tail back; it has no other reference
    return Pattern(len(lengths), cols, row_ptr_of(kept_lengths), col_idx, total - filled)


def _uniform_size(n: int, degree: int) -> Size:
    entries = n * degree
    return Size(n, n, entries, scratch=24 * n + min(WORKING_BYTES, 100 * entries))


@recipe(
    "uniform",
    {
        "n": Parameter(4_000_000, "rows and columns", between=(1, MAX_INDEX)),
        "degree": Parameter(16, "columns drawn per row", between=(1, MAX_INDEX)),
    },
    about="every row draws its columns uniformly, duplicates merged: no locality at all",
    short="uniform-{n}-{degree}",
    size=_uniform_size,
)
def uniform(n: int, degree: int, seed: int, progress: Progress) -> Pattern:
    return _drawn_columns(np.full(n, degree, np.int64), n, seed, _COLUMNS, progress)


def _at_most_n(values: dict[str, int]) -> int:
    """min(n, 10000)"""
    return min(values["n"], 10_000)


def _powerlaw_size(n: int, exponent: Fraction, max_degree: int) -> Size:
    if max_degree > n:
        raise ValueError(f"max_degree={max_degree} is more than the n={n} columns")
    weights = _power_weights(exponent, max_degree)
    mean = sum(k * weight for k, weight in enumerate(weights, 1)) / sum(weights)
    spread = (sum(k * k * weight for k, weight in enumerate(weights, 1)) / sum(weights)) ** 0.5
    entries = int(n * mean + 10 * spread * n**0.5)  # ten standard deviations of the sum above its mean
    return Size(n, n, min(entries, n * max_degree), scratch=32 * n + min(WORKING_BYTES, 100 * entries))


@recipe(
    "powerlaw",
    {
        "n": Parameter(1_000_000, "rows and columns", between=(1, MAX_INDEX)),
        "exponent": Parameter(
            Fraction("2.1"),
            "a row of length k is drawn with weight k^-exponent",
            between=(Fraction(1, 10), Fraction(10)),
        ),
        "max_degree": Parameter(_at_most_n, "longest row drawn, at most n", between=(1, 1_000_000)),
    },
    about="row lengths from a power law, columns uniform, duplicates merged: skew without structure",
    short="powerlaw-{n}",
    size=_powerlaw_size,
)
def powerlaw(n: int, exponent: Fraction, max_degree: int, seed: int, progress: Progress) -> Pattern:
    table = AliasTable(_power_weights(exponent, max_degree))
    words = Words(seed, _LENGTHS)
    lengths = np.empty(n, np.int64)
    for first in range(0, n, CHUNK):
        part = lengths[first : first + CHUNK]
        part[:] = table.draw(words.take(len(part))) + 1
    return _drawn_columns(lengths, n, seed, _COLUMNS, progress)


@lru_cache(maxsize=1)  # asked for twice: for the size and for the matrix
def _power_weights(exponent: Fraction, longest: int) -> list[int]:
    """``k^-exponent`` for k = 1..longest, as whole multiples of 2^-96.

    In decimals of 40 digits, where every machine gets the same, cut to 29.
    Powers of primes only; the others are products.
    """
    context = Context(prec=40)
    minus = context.divide(Decimal(-exponent.numerator), Decimal(exponent.denominator))
    divisor = list(range(longest + 1))  # becomes each number's smallest prime factor
    for p in range(2, int(longest**0.5) + 1):
        if divisor[p] == p:
            for multiple in range(p * p, longest + 1, p):
                divisor[multiple] = min(divisor[multiple], p)
    power = [Decimal(1)] * (longest + 1)
    for k in range(2, longest + 1):
        p = divisor[k]
        power[k] = context.power(Decimal(p), minus) if p == k else context.multiply(power[p], power[k // p])
    unit = Decimal(2**96)
    return [
        int(context.multiply(power[k], unit).to_integral_value(ROUND_FLOOR, context)) for k in range(1, longest + 1)
    ]
