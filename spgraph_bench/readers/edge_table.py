"""The columns of an edge list: vertex, vertex, and perhaps a weight and a timestamp, line by line.

What the columns mean (base, size line, header, direction) is for the readers that call :func:`read_table`.
"""

from __future__ import annotations

import bisect
from array import array
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.errors import InputError
from spgraph_bench.matrix import Finding
from spgraph_bench.readers.common import Input, Progress, require_memory
from spgraph_bench.readers.tokens import Block, Ints, blocks, parse_integer, parse_number, shorten

__all__ = [
    "MAX_VERTICES",
    "Ids",
    "Table",
    "VertexNameError",
    "are_times",
    "close_gaps",
    "is_mirrored",
    "may_be_times",
    "no_edges",
    "read_named",
    "read_table",
    "require_rows",
]

Ids = npt.NDArray[np.integer[Any]]

MAX_VERTICES = 2**31 - 1
"""col_idx is int32."""

HUGE = "give --relabel, which numbers the vertices anew"


class VertexNameError(InputError):
    """A vertex that is not a number, but may be a name."""


@dataclass
class Table:
    """Edges as stored, ids not yet shifted by a base.

    u, v : int32 or int64 [edges]; weights : float64 [edges] or None; `line_of` gives the 1-based input line
    of an edge (slow). `findings` tells of a timestamp column and of weights that are odd.
    """

    u: Ids
    v: Ids
    weights: npt.NDArray[np.float64] | None
    findings: list[Finding]
    line_of: Callable[[int], int]

    def __len__(self) -> int:
        return len(self.u)

    def drop_first(self) -> None:
        """Forget the first edge (it was a size line)."""
        self.u, self.v = self.u[1:], self.v[1:]
        self.weights = None if self.weights is None else self.weights[1:]
        before = self.line_of
        self.line_of = lambda edge: before(edge + 1)

    def line_of_id(self, vertex: int) -> int:
        """The first line that names `vertex`, which must occur."""
        return self.line_of(int(np.argmax((self.u == vertex) | (self.v == vertex))))

    def low(self) -> int:
        """The smallest vertex id. Raises ValueError without edges."""
        return int(min(self.u.min(), self.v.min()))

    def high(self) -> int:
        """The largest vertex id. Raises ValueError without edges."""
        return int(max(self.u.max(), self.v.max()))


def read_table(
    data: Input,
    begin: int,
    end: int,
    columns: int,
    progress: Progress,
    *,
    weight: int | None = 2,
    largest: int = MAX_VERTICES,
    commas: bool = True,
    ragged_remedy: str = "give every line the same columns",
) -> Table:
    """The edges in ``data.data[begin:end]``, whose lines have `columns` (2 or more) fields or are empty.

    The column `weight` (counted from 0; None: none) has weights, others behind the ids are ignored whatever
    they hold. Raises InputError, with its line, for any other number of columns, for ids that are not integers
    from 0 to `largest` and for weights that are not numbers.
    """
    weight = weight if weight is not None and weight < columns else None
    # Room for all edges that the text can hold, of which the system gives what is written to: pieces to be
    # joined would take twice the memory.
    most = (end - begin) // (2 * columns) + 1
    us: Ids = np.empty(most, np.int32)
    vs: Ids = np.empty(most, np.int32)
    ws = None if weight is None else np.empty(most)
    places: list[tuple[int, int, int]] = []  # first edge, first and last byte of each block that has edges
    edges = 0
    for a, b in blocks(data.data, begin, end):
        progress("reading edges", (a - begin) / (end - begin))
        block = Block(data, a, b, commas=commas, comments=True)
        whole, ragged = len(block), None
        if not block.is_table(columns):
            counts = block.per_line()
            if (wrong := (counts != columns) & (counts != 0)).any():
                line = int(np.argmax(wrong))
                whole = int(counts[:line].sum())
                where = "before" if edges or whole else "after it"
                ragged = _ragged(block, whole, int(counts[line]), columns, where, ragged_remedy)
        u, v, w = _parse(block, whole, columns, weight, largest)
        if ragged is not None:  # only now: an error further up has been raised before it
            raise ragged
        if len(u):
            places.append((edges, a, b))
            to = slice(edges, edges := edges + len(u))
            us, vs = (_wide_enough(x, part, to.start) for x, part in ((us, u), (vs, v)))
            us[to], vs[to] = u, v
            if ws is not None and w is not None:
                ws[to] = w
    progress("reading edges", 1.0)
    if not edges:
        raise no_edges(data)
    starts = [first for first, _, _ in places]

    def line_of(edge: int) -> int:
        first, a, b = places[bisect.bisect_right(starts, edge) - 1]
        return Block(data, a, b, commas=commas, comments=True).line((edge - first) * columns)

    table = Table(us[:edges], vs[:edges], None if ws is None else ws[:edges], [], line_of)
    if columns == 4 and weight == 2:
        table.findings.append(Finding("the fourth column is taken for a timestamp and ignored"))
    if table.weights is not None:
        table.findings += _odd_weights(table.weights, line_of)
    return table


def read_named(
    data: Input, lines: Iterable[tuple[int, list[bytes]]], columns: int, weight: int | None
) -> tuple[Table, list[str]]:
    """The edges of `lines` (1-based number, fields) whose ids are names, and the names by first appearance.

    Raises InputError, with its line, as :func:`read_table` does.
    """
    number_of: dict[bytes, int] = {}
    us, vs, ws, places = array("i"), array("i"), array("d"), array("q")
    for number, fields in lines:
        if len(fields) != columns:
            raise data.error(
                f"{len(fields)} columns where other lines have {columns}",
                line=number,
                remedy="give every line the same columns",
            )
        us.append(number_of.setdefault(fields[0], len(number_of)))
        vs.append(number_of.setdefault(fields[1], len(number_of)))
        places.append(number)
        if weight is not None and weight < columns:
            value = parse_number(fields[weight])
            if value is None:
                raise data.error(
                    f"weight {shorten(fields[weight])} is not a number",
                    line=number,
                    remedy="correct it, or --weight-column none skips the column",
                )
            ws.append(value)
    if not us:
        raise no_edges(data)
    weights = np.array(ws) if ws else None
    table = Table(np.array(us, np.int32), np.array(vs, np.int32), weights, [], lambda edge: places[edge])
    if weights is not None:
        table.findings += _odd_weights(weights, table.line_of)
    return table, [name.decode("utf-8", "replace") for name in number_of]


def may_be_times(column: npt.NDArray[np.float64]) -> bool:
    """Whether numbers are whole and in the range of times of Unix, in seconds or milliseconds: 1990 to 2030."""
    low, high = float(column.min()), float(column.max())
    unit = 1e3 if low >= 6.3e11 else 1.0
    return 6.3e8 * unit <= low < high <= 1.9e9 * unit and bool((column == np.floor(column)).all())


def are_times(column: npt.NDArray[np.float64]) -> bool:
    """Whether numbers that may be times are rather these than weights.

    They mostly follow each other in time; of a thousand or more, in any order.
    """
    steps = len(column) - 1
    rising = int(np.count_nonzero(column[1:] >= column[:-1]))
    falling = int(np.count_nonzero(column[1:] <= column[:-1]))
    return steps >= 999 or max(rising, falling) >= 0.9 * steps


def _wide_enough(column: Ids, part: Ids, filled: int) -> Ids:
    """`column`, or a copy of the part that is filled with room for the ids of `part`."""
    if part.itemsize <= column.itemsize:
        return column
    wide = np.empty(len(column), part.dtype)
    wide[:filled] = column[:filled]
    return wide


def no_edges(data: Input) -> InputError:
    """The error of a file without edges; to be raised."""
    return data.error("no edges in it", remedy="give a file with one edge (two vertex ids) on each line")


def _parse(
    block: Block, tokens: int, columns: int, weight: int | None, largest: int
) -> tuple[Ids, Ids, npt.NDArray[np.float64] | None]:
    """Columns of the first `tokens` tokens of `block`."""
    faults: list[int] = []

    def note(bad: npt.NDArray[np.bool_], column: int, step: int) -> None:
        if bad.any():
            faults.append(column + step * int(np.argmax(bad)))

    def ids(which: slice, column: int, step: int) -> Ints:
        value, good = block.integers(which)
        note(~good | (value < 0) | (value > largest), column, step)
        return value

    weights = None
    if columns == 2:
        both = ids(slice(0, tokens), 0, 1)
        u, v = both[0::2], both[1::2]
    else:
        u, v = (ids(slice(column, tokens, columns), column, columns) for column in (0, 1))
    if weight is not None:
        weights, good = block.numbers(slice(weight, tokens, columns))
        note(~good, weight, columns)
    if faults:
        raise _bad_token(block, min(faults), min(faults) % columns > 1, largest)
    small = np.int32 if not len(u) or max(u.max(), v.max()) < 2**31 else np.int64
    return u.astype(small), v.astype(small), weights


def _ragged(block: Block, token: int, width: int, columns: int, where: str, remedy: str) -> InputError:
    if width == 1:
        return block.error(
            token,
            f"only one column ({shorten(block.token(token))}) where an edge needs two vertex ids",
            "delete the line, or turn it into a comment with '#'",
        )
    if width > 4 >= columns:
        return block.error(token, f"{width} columns where the lines {where} have {columns}", remedy)
    return block.error(token, f"{width} columns where the lines {where} have {columns}", remedy)


def _bad_token(block: Block, token: int, is_weight: bool, largest: int) -> InputError:
    text = block.token(token)
    quoted = shorten(text)
    if is_weight:
        return block.error(
            token, f"weight {quoted} is not a number", "correct it, or --weight-column none skips the column"
        )
    value = parse_integer(text)
    if value is None and parse_number(text) is not None:
        return block.error(token, f"vertex id {quoted} is not an integer", "vertex ids must be 0, 1, 2, ...")
    if value is None:
        error = block.error(token, f"vertex {quoted} is not a number", "if vertices have names: --relabel numbers them")
        return VertexNameError(error.cause, remedy=error.remedy, place=error.place)
    if value < 0:
        return block.error(token, f"vertex id {quoted} is negative", "vertex ids must be 0, 1, 2, ...")
    if value >= 2**63:
        return block.error(token, f"vertex id {quoted} does not fit in 63 bits", "replace such ids by smaller ones")
    return block.error(token, f"vertex id {quoted} is above {largest:,} (2^31 - 1)", HUGE)


def _odd_weights(weights: npt.NDArray[np.float64], line_of: Callable[[int], int]) -> list[Finding]:
    # NaN and infinity are reported with the values of any format; here is what only an edge list has.
    out: list[Finding] = []
    odd = np.isfinite(weights) & (np.abs(weights) >= 2**53)
    if odd.any():
        line = line_of(int(np.argmax(odd)))
        out.append(Finding("weights of 2^53 or more: integers may be rounded", line, int(odd.sum())))
    if len(weights) > 1 and weights.min() == weights.max() == 1:
        out.append(Finding("every weight is 1"))
    return out


def require_rows(data: Input, table: Table, vertices: int, base: int) -> None:
    """InputError if so many vertices have no 32-bit index or no memory for a row pointer each."""
    if vertices > MAX_VERTICES:
        raise data.error(
            f"vertex id {vertices - 1 + base:,} makes more than {MAX_VERTICES:,} vertices",
            line=table.line_of_id(vertices - 1 + base),
            remedy=HUGE,
        )
    # Sorting the entries takes two offset arrays over rows and over columns, any use of it as much again.
    require_memory(56 * vertices, f"a graph of {vertices:,} vertices", data.place, HUGE)


def close_gaps(u: Ids, v: Ids) -> tuple[Ids, Ids, npt.NDArray[np.int64]]:
    """Ids replaced by their rank among all ids; also the ids, rising, int64 [vertices]."""
    high = int(max(u.max(), v.max()))
    if high < 8 * len(u) + (1 << 20):
        used = np.zeros(high + 1, bool)
        used[u] = True
        used[v] = True
        rank: Ids = np.cumsum(used, dtype=np.int32) if high < MAX_VERTICES else np.cumsum(used)
        np.subtract(rank, 1, out=rank)
        return rank[u], rank[v], np.flatnonzero(used)
    both = np.concatenate([u, v]).astype(np.int64, copy=False)
    order = np.argsort(both)
    both = both[order]
    new = np.concatenate([[True], both[1:] != both[:-1]])
    rank = np.empty(len(both), np.int64)
    rank[order] = np.cumsum(new) - 1
    return rank[: len(u)], rank[len(u) :], both[new]


def is_mirrored(u: Ids, v: Ids, weights: npt.NDArray[np.float64] | None) -> bool:
    """Whether every edge is stored in both directions, equally often and with equal weights.

    Compares sums of a 64-bit hash of (u, v, weight) and of (v, u, weight): linear, and wrong once in 2^64.
    """
    if np.count_nonzero(u < v) != np.count_nonzero(u > v):
        return False
    total = 0
    for a in range(0, len(u), step := 1 << 20):
        x, y = u[a : a + step].astype(np.uint64), v[a : a + step].astype(np.uint64)
        w = np.uint64(0) if weights is None else weights[a : a + step].view(np.uint64)
        total += int(_hash(x, y, w).sum(dtype=np.uint64)) - int(_hash(y, x, w).sum(dtype=np.uint64))
    return total % 2**64 == 0


def _hash(x: Any, y: Any, w: Any) -> npt.NDArray[np.uint64]:
    # The finaliser of splitmix64 (Steele, Lea, Flood 2014) over the three words.
    out: npt.NDArray[np.uint64] = x * np.uint64(0x9E3779B97F4A7C15)
    for word in (y, w):
        out ^= out >> np.uint64(30)
        out *= np.uint64(0xBF58476D1CE4E5B9)
        out ^= out >> np.uint64(27)
        out += word
        out *= np.uint64(0x94D049BB133111EB)
    out ^= out >> np.uint64(31)
    return out
