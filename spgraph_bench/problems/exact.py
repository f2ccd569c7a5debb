"""The exact pass: small integers in place of a matrix's values and of x, so that sums have no rounding.

A bound on rounding is blind to a lost entry of a long row. With integers so small that no partial sum can
pass what the type counts exactly (2^24 in float32, 2^53 in float64), every order of summation gives the same
bits, and a result is right or wrong.

Values are replaced by a function of their own bits, ``small_values``: wherever a format has put a value, and
however often it has padded with zeros, the same function gives what the entry is now. Nothing is converted
again, and the structure stays as it is. (A format that stores a value in parts puts them together first,
``Format.replaced``.)
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.formats.base import Packed, get_format
from spgraph_bench.matrix import CSR
from spgraph_bench.problems import compiled
from spgraph_bench.stats import row_ranges
from spgraph_bench.threads import over

__all__ = ["DRAWS", "Draw", "Ranges", "choose_ranges", "row_sums", "small_packed", "small_values", "small_x"]

DRAWS = 2
"""Draws of integers: a misplaced entry that the first does not show is likely to be shown by the second."""

MOST = 64
"""The largest integer drawn: more would find little more."""

_KEYS = (0x9E3779B1, 0x85EBCA77)
_AT_ONCE = 1 << 16
_TERMS = 1 << 19
_COLUMN_TERMS = 1 << 22


@dataclass(frozen=True)
class Ranges:
    """Values are drawn from 1 to `values`, elements of x from 1 to `x`."""

    values: int
    x: int


@dataclass(frozen=True)
class Draw:
    """One draw: the problem's inputs, and what must come out."""

    ranges: Ranges
    key: int
    inputs: Mapping[str, npt.NDArray[Any]]
    compare: Callable[[npt.NDArray[Any]], str]
    """What is wrong with an output, in the matrix's own order; empty if nothing is."""


def choose_ranges(longest: int, sums: np.dtype[Any]) -> Ranges | str:
    """Ranges such that `longest` products add up exactly in the type `sums`, or why there are none.

    float16 stands for products of halves that tensor cores add up in single precision, where some keep fewer
    bits than float32 has while they align terms: 2^22 is taken.
    """
    most = 2 ** {"float16": 22, "float32": 24, "float64": 53}[sums.name]
    room = most // max(longest, 1)
    if room < 1:
        return f"a row of {longest:,} nonzeros: {sums} counts exactly to {most:,} only"
    values = min(MOST, math.isqrt(room))
    return Ranges(values, min(MOST, room // values))


def small_values(values: npt.NDArray[Any], key: int, most: int) -> npt.NDArray[Any]:
    """Integers from 1 to `most`, of the shape and type of `values`, each a function of the value's bits; 0
    for 0 and -0, which cannot be distinguished from fill."""
    flat = np.ascontiguousarray(values).reshape(-1)
    out = compiled.small_values(flat, key, most)
    if out is None:
        out = np.empty_like(flat)
        for begin in range(0, len(flat), _AT_ONCE):
            part = slice(begin, begin + _AT_ONCE)
            out[part] = _integers(flat[part], key, most)
    return out.reshape(values.shape)


def _integers(values: npt.NDArray[Any], key: int, most: int) -> npt.NDArray[Any]:
    """Of :func:`small_values`, for a few values."""
    bits = values.view(f"u{values.itemsize}").astype(np.uint64)
    bits = (bits ^ (bits >> np.uint64(32))) * np.uint64(key | 1) & np.uint64(0xFFFFFFFF)
    bits = (bits ^ (bits >> np.uint64(15))) * np.uint64(0x2C1B3C6D) & np.uint64(0xFFFFFFFF)
    bits ^= bits >> np.uint64(13)
    return np.where(values == 0, 0, 1 + (bits * np.uint64(most) >> np.uint64(32)))


def small_x(draw: int, shape: tuple[int, ...], most: int, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Integers from 1 to `most`, drawn from PCG64's raw bits: the same on any machine."""
    raw = np.random.PCG64(1000 + draw).random_raw(math.prod(shape)).reshape(shape)
    return (1 + ((raw >> np.uint64(32)) * np.uint64(most) >> np.uint64(32))).astype(dtype)


def small_packed(packed: Packed, key: int, most: int) -> Packed:
    """`packed` with the values of a draw. Every array of floating point holds values, and so does the scalar
    ``value`` of formats for matrices of one value; what else there is stays, the same objects."""
    new: dict[str, npt.NDArray[Any]] = {}
    done: dict[int, npt.NDArray[Any]] = {}
    form = get_format(packed.format)
    for name, array in packed.arrays.items():
        if array.dtype.kind != "f":
            new[name] = array
            continue
        if id(array) not in done:
            done[id(array)] = form.replaced(packed, array, lambda values: small_values(values, key, most))
        new[name] = done[id(array)]
    meta = dict(packed.meta)
    if (value := meta.get("value")) is not None:
        with np.errstate(over="ignore"):
            one = np.array([value]).astype(packed.dtype)
        meta["value"] = float(small_values(one, key, most)[0])
    return dataclasses.replace(packed, arrays=MappingProxyType(new), meta=MappingProxyType(meta))


def row_sums(
    csr: CSR, x: npt.NDArray[Any], dtype: np.dtype[Any], key: int, most: int, transposed: bool = False
) -> npt.NDArray[np.float64]:
    """A X, or A^T X, with the integers of a draw for A's values: float64 ``[rows or cols, columns of x]``.

    Every partial sum is an integer below 2^53, so that any order is exact. One pass over the entries for each
    column, a block of rows at a time.
    """
    one = None
    if csr.values is None:
        one = float(small_values(np.ones(1, dtype), key, most)[0])
    if not transposed:
        sums = compiled.integer_sums(csr, x.astype(np.float64), dtype, key, most, int(one or 0))
        if sums is not None:
            return sums
    lengths = csr.row_lengths()
    columns = [np.ascontiguousarray(x[:, j], np.float64) for j in range(x.shape[1])]
    out = np.zeros((csr.cols if transposed else csr.rows, len(columns)))

    def add_up(thread: int, begin: int, end: int) -> None:
        first, last = int(csr.row_ptr[begin]), int(csr.row_ptr[end])
        if first == last:
            return
        col = csr.col_idx[first:last]
        if csr.values is None:
            a: Any = one
        else:
            with np.errstate(over="ignore"):
                a = _integers(csr.values[first:last].astype(dtype), key, most).astype(np.float64)
        row = begin + np.flatnonzero(lengths[begin:end])
        for j, column in enumerate(columns):
            if transposed:
                terms = a * np.repeat(column[begin:end], lengths[begin:end])
                out[:, j] += np.bincount(col, terms, minlength=csr.cols)
            else:
                # reduceat gives a wrong answer for an empty segment, so only rows with entries take part.
                out[row, j] = np.add.reduceat(a * column[col], csr.row_ptr[row] - first)

    ranges = list(row_ranges(csr.row_ptr, max(_COLUMN_TERMS, csr.cols) if transposed else _TERMS))
    # Transposed, a thread needs 8 bytes a column and more; numpy's repeat keeps Python's lock, so several gain nothing.
    over(ranges, add_up, 1 if transposed else None)
    return out


def key_of(draw: int) -> int:
    """What the values of this draw are hashed with."""
    return _KEYS[draw % len(_KEYS)]
