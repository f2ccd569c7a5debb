"""Duplicates, entries at the same place of a matrix: notes about them, and what the policy makes of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.errors import InputError
from spgraph_bench.matrix import Finding, Source
from spgraph_bench.readers.common import RawEntries, ReadOptions
from spgraph_bench.readers.rows import Ints, Rows, Values

__all__ = ["Joining", "place_of"]

_CHUNK = 1 << 22

_RULES = {
    "sum": "summed",
    "min": "the least is kept",
    "max": "the largest is kept",
    "first": "first kept",
    "last": "last kept",
    "merge": "merged",
}
_REDUCE: dict[str, Any] = {"sum": np.add, "min": np.minimum, "max": np.maximum}


class Joining:
    """Entries at the same place of a sorted matrix, and what becomes of them.

    In a symmetric matrix (`upper` tells which entries come from above the diagonal) an entry and its mirror
    are not duplicates: duplicates are joined on either side, then both sides must agree.
    """

    def __init__(
        self,
        raw: RawEntries,
        row: Ints,
        col: Ints,
        values: Values | None,
        upper: npt.NDArray[np.bool_] | None,
        rows: Rows,
        same: npt.NDArray[np.bool_],
    ) -> None:
        self.raw, self.row, self.col, self.rows, self.same = raw, row, col, rows, same
        self.merged = int(np.count_nonzero(same))
        self.two_sided = upper is not None and bool(upper.any())
        self.mirrors = 0
        """Places that are stored on both sides of the diagonal."""
        if upper is None or not self.two_sided:
            return
        # The entries of all places that occur more than once: by place, then side, then as in the file.
        position = np.flatnonzero(same)
        keys = np.unique(rows.row_of(position) * raw.cols + rows.col[position])
        entries, places = [], []
        for start in range(0, len(row), _CHUNK):
            part = slice(start, start + _CHUNK)
            key = row[part].astype(np.int64) * raw.cols + col[part]
            place = np.minimum(np.searchsorted(keys, key), len(keys) - 1)
            hit = np.flatnonzero(keys[place] == key)
            entries.append(start + hit)
            places.append(place[hit])
        entry, place = np.concatenate(entries), np.concatenate(places)
        order = np.lexsort((upper[entry], place))  # stable
        self.entry, place = entry[order], place[order]
        side = upper[self.entry]
        begins = np.append(True, (place[1:] != place[:-1]) | (side[1:] != side[:-1]))
        self.begin = np.flatnonzero(begins)
        """The first entry of each group: the entries of a place on one side."""
        self.place = place[self.begin]
        self.second = np.flatnonzero(self.place[1:] == self.place[:-1]) + 1
        """The groups above the diagonal whose place has one below it too."""
        self.mirrors = len(self.second)
        self.values = None if values is None else values[self.entry]

    def findings(self, how: str, options: ReadOptions, source: Source) -> list[Finding]:
        """Notes for the user; InputError where duplicates are not allowed."""
        out, raw = [], self.raw
        if self.mirrors:
            entry = int(self.entry[self.begin[self.second[0]]])
            text = (
                "undirected edges written both ways, counted once"
                if raw.undirected
                else f"declared {raw.symmetry}, yet stored on both sides of the diagonal: counted once"
            )
            out.append(Finding(text, raw.line_of(entry), self.mirrors))
        if self.merged == self.mirrors:
            return out
        if self.two_sided:
            ends = np.append(self.begin[1:], len(self.entry))
            position = int(self.begin[np.argmax(ends - self.begin > 1)])
            before, entry = (int(e) for e in self.entry[position : position + 2])
        else:
            first = np.flatnonzero(self.same)[:1]
            i, j = int(self.rows.row_of(first)[0]), int(self.rows.col[first[0]])
            before, entry = (int(e) for e in np.flatnonzero((self.row == i) & (self.col == j))[:2])
        base, line = raw.base or 0, raw.line_of(entry)
        where = f"row {int(raw.row[entry]) + base}, column {int(raw.col[entry]) + base}"
        if options.duplicates == "error":
            earlier = raw.line_of(before)
            raise InputError(
                f"{where} is stored more than once" + (f" (first in line {earlier})" if earlier else ""),
                remedy="join duplicates with --duplicates sum, min, max, first or last",
                place=place_of(source, line),
            )
        out.append(Finding(f"duplicate entries ({_RULES[how]}), such as {where}", line, self.merged - self.mirrors))
        return out

    def rows_joined(self, how: str, resolve: bool, source: Source) -> Rows:
        """The matrix with one entry at each place.

        `resolve`: where the two sides contradict each other, the policy (but not a sum) chooses. InputError
        where it may not.
        """
        out, position = self.rows.keep(~self.same), np.flatnonzero(self.same)
        if out.values is None or self.rows.values is None or how == "merge":
            return out
        if self.two_sided:
            first = position[np.append(True, np.diff(position) > 1)] - 1
            out.values[first - np.searchsorted(position, first)] = self._agreed(how, resolve, source)
            return out
        target, more = position - np.arange(1, len(position) + 1), self.rows.values[position]
        if how == "last":
            out.values[target] = more  # of several for one place, numpy keeps the last
        elif how != "first" and how != "error":
            _REDUCE[how].at(out.values, target, more)
        return out

    def _agreed(self, how: str, resolve: bool, source: Source) -> Values:
        """The value of each place that occurs more than once."""
        assert self.values is not None
        ends = np.append(self.begin[1:], len(self.entry))
        if how in _REDUCE:
            group = _REDUCE[how].reduceat(self.values, self.begin)
        else:
            group = self.values[ends - 1 if how == "last" else self.begin]
        below, above = group[self.second - 1], group[self.second]
        differ = (below != above) & ~(np.isnan(below) & np.isnan(above))
        if differ.any():
            if not resolve or how in ("sum", "error"):
                self._contradiction(int(np.argmax(differ)), above, source)
            if how in _REDUCE:
                group[self.second] = _REDUCE[how](below, above)
            else:
                edge = ends - 1 if how == "last" else self.begin
                later = self.entry[edge[self.second]] > self.entry[edge[self.second - 1]]
                group[self.second] = np.where(later == (how == "last"), above, below)
        agreed = np.empty(int(self.place[-1]) + 1, group.dtype)
        agreed[self.place] = group  # of two groups the second, which holds what was agreed on
        return agreed

    def _contradiction(self, which: int, above: Values, source: Source) -> None:
        raw, group = self.raw, self.second[which]
        entries = self.entry[self.begin[[group - 1, group]]]
        first, second = (int(e) for e in np.sort(entries))
        line, base = raw.line_of(first), raw.base or 0
        written = raw.values if raw.values is not None else above

        def value_text(entry: int) -> str:
            value = f"{written[entry]:.6g}"
            return f"row {int(raw.row[entry]) + base}, column {int(raw.col[entry]) + base} is {value}"

        kind = "undirected" if raw.undirected else f"declared {raw.symmetry}"
        raise InputError(
            f"{kind}, but {value_text(second)} and {value_text(first)}" + (f" (line {line})" if line else ""),
            remedy="correct one of them, or choose with --duplicates min, max, first or last",
            place=place_of(source, raw.line_of(second)),
        )


def place_of(source: Source, line: int | None) -> str:
    """``file:line``, or the file where the line is not known."""
    return f"{source.text}:{line}" if line else source.text
