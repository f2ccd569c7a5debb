"""From a file's entries to the canonical matrix: fold, sort, merge, choose values, mirror.

The order matters. Entries of a symmetric (skew, Hermitian) file are first folded into the lower triangle, so
that (i, j) and (j, i) are seen as what they are, duplicates; they are merged there; the triangle then gets
its values (so random ones are symmetric too) and is mirrored last.

Most of the time goes into moving entries to their rows, one by one, all over memory (a counting pass, 10 to
20 ns an entry: for many entries on all cores by `compiled`, else scipy's COO to CSR). So there is one such
pass at most, none for a file in row-major order; a triangle in either order is mirrored in that very pass.
Where a file has no order, a pass by column comes before it; or, by scipy, the rows are sorted after it, and
those with duplicates once more, stably: sums and "first" follow the file's order. (Where these are many, two
more passes are faster.) ``symmetrize`` takes one more pass, which transposes, and merges the rows of both.
"""

from __future__ import annotations

import bisect
import hashlib
import threading
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from spgraph_bench.errors import InputError
from spgraph_bench.matrix import CSR, Duplicates, Finding, Matrix, Policies, Source
from spgraph_bench.readers import compiled
from spgraph_bench.readers.common import Progress, RawEntries, ReadOptions, require_memory, whole

__all__ = ["assemble", "random_values"]

MAX_DIMENSION = 2**31 - 1
_CHUNK = 1 << 22
_SMALL_CHUNK = 1 << 16  # stays in cache

Ints = npt.NDArray[np.integer[Any]]
Values = npt.NDArray[Any]


@dataclass
class _Rows:
    """CSR in the making: columns rise within rows, duplicates may be side by side."""

    ptr: npt.NDArray[np.int64]
    col: npt.NDArray[np.int32]
    values: Values | None

    def row_of(self, entries: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        return np.searchsorted(self.ptr, entries, side="right") - 1

    def row_of_all(self) -> npt.NDArray[np.int32]:
        return np.repeat(np.arange(len(self.ptr) - 1, dtype=np.int32), np.diff(self.ptr))

    def keys(self, begin: int, end: int, cols: int) -> npt.NDArray[np.int64]:
        """``(row - begin) * cols + col`` of each entry in the rows from `begin` to before `end`: rising."""
        row = np.repeat(np.arange(end - begin) * cols, np.diff(self.ptr[begin : end + 1]))
        return row + self.col[self.ptr[begin] : self.ptr[end]]

    def keep(self, mask: npt.NDArray[np.bool_]) -> _Rows:
        gone = np.flatnonzero(~mask)
        return _Rows(
            self.ptr - np.searchsorted(gone, self.ptr),
            self.col[mask],
            None if self.values is None else self.values[mask],
        )


def assemble(
    raw: RawEntries, options: ReadOptions, name: str, source: Source, progress: Progress | None = None
) -> Matrix:
    """The matrix of `raw` under `options`.

    Linear in the number of entries; the peak is below three times the input plus the output, for which `raw`
    gives up its arrays once they are no longer needed. InputError, with the line where `raw` knows it, for
    an index out of range, a duplicate under ``duplicates="error"``, complex values without a chosen part,
    ``symmetrize`` of a rectangular matrix, a dimension beyond 2^31 - 1.
    """
    say = progress or (lambda what, fraction: None)
    _check(raw, options, source)
    if options.bipartite:
        raw = _as_bipartite(raw, source)
    digest = _Digest(raw)
    findings = list(raw.findings)
    if raw.values is not None:
        findings += _odd_values(raw)
    row, col, values = raw.row, raw.col, raw.values
    if raw.symmetry != "general":
        row, col, values, upper = _folded(raw, source, findings)
    how = _how(raw, options)
    if how in ("min", "max") and values is not None and _is_complex(values):
        values = _part(values, options.part)
    say("sorting entries", None)
    order = _order(row, col)
    if not (order.by_row or order.by_col):
        findings.append(Finding("entries are sorted neither by row nor by column"))
    policies = Policies(
        base=raw.base,
        base_from=raw.base_from,
        relabelled=raw.relabelled,
        values=options.values,
        duplicates=how,
        bipartite=options.bipartite,
        part=options.part if _is_complex(raw.values) and options.values == "file" else None,
    )
    triangle = raw.symmetry != "general"
    sign = _sign(raw.symmetry, policies.part)
    if triangle and order.is_canonical and options.values not in ("random", "integers") and not options.drop_zeros:
        policies = replace(policies, mirrored=True, explicit_zeros=_stored_zeros(row, col, values))
        # The entries of a row follow each other, and so do those of a column, which are the ones that the row
        # gets from the other triangle: a stable pass over one after the other leaves rows sorted.
        rows = _by_row(raw.rows, raw.cols, row, col, _chosen(values, len(row), options), mirror=sign)
        policies = replace(policies, self_loops=int(np.count_nonzero(row == col)))
        return _finished(raw, rows, name, source, policies, findings, digest)

    rows = _sorted(raw.rows, raw.cols, row, col, values, order)
    say("merging duplicates", None)
    if not order.is_canonical and (merged := int(np.count_nonzero(same := _repeats(rows)))):
        sides = upper if triangle and not (raw.undirected and values is None) else None
        joined = _Joining(raw, row, col, values, sides, rows, same)
        findings += joined.findings(how, options, source)
        policies = replace(policies, duplicates_found=merged - joined.mirrors, mirrors_found=joined.mirrors)
        rows = joined.rows_joined(how, raw.undirected or options.duplicates is not None, source)
        del joined, same
    rows, policies = _zeros(rows, triangle, options.drop_zeros, policies)
    if raw.rows == raw.cols:
        stored = not policies.duplicates_found and not policies.zeros_dropped
        diagonal = row == col if stored else rows.row_of_all() == rows.col
        policies = replace(policies, self_loops=int(np.count_nonzero(diagonal)))
        del diagonal
    del row, col, values
    digest.finish()
    raw.row = raw.col = np.empty(0, np.int32)
    raw.values = None
    rows.values = _chosen(rows.values, len(rows.col), options)
    if triangle or options.symmetrize:
        say("mirroring", None)
        rows = _mirrored(rows, sign) if triangle else _symmetrized(rows, findings)
        policies = replace(policies, mirrored=True)
    return _finished(raw, rows, name, source, policies, findings, digest)


def _finished(
    raw: RawEntries,
    rows: _Rows,
    name: str,
    source: Source,
    policies: Policies,
    findings: list[Finding],
    digest: _Digest,
) -> Matrix:
    csr = CSR(raw.rows, raw.cols, rows.ptr, rows.col, rows.values)
    return Matrix(
        name,
        csr,
        source,
        symmetry=raw.symmetry,
        weighted=csr.values is not None,
        policies=policies,
        findings=tuple(findings),
        entries_sha256=digest.hex(),
        original_ids=raw.original_ids,
        names=raw.names,
    )


def _as_bipartite(raw: RawEntries, source: Source) -> RawEntries:
    """The undirected graph of the rows, then the columns: entry (i, j) is the edge between i and rows + j."""
    if raw.symmetry != "general" or raw.relabelled or raw.names is not None:
        kind = f"declared {raw.symmetry}" if raw.symmetry != "general" else "relabelled or named"
        raise InputError(
            f"{kind}: rows and columns are the same vertices, not two sides",
            remedy="omit --bipartite",
            place=source.text,
        )
    vertices = raw.rows + raw.cols
    if vertices > MAX_DIMENSION:
        raise InputError(
            f"{vertices:,} vertices: more than 2^31 - 1 cannot be indexed with 32 bits",
            remedy="split the matrix",
            place=source.text,
        )
    base = raw.base or 0
    finding = Finding(
        f"as a bipartite graph: rows are vertices {base} to {raw.rows - 1 + base}, columns {raw.rows + base} "
        f"to {vertices - 1 + base}"
    )
    return replace(
        raw,
        rows=vertices,
        cols=vertices,
        col=raw.col + raw.rows,
        symmetry="symmetric",
        undirected=True,
        findings=(*raw.findings, finding),
    )


class _Digest:
    """The hash of the entries as read, worked out in a thread of its own beside the sorting.

    SHA-256 of sizes, symmetry and kind of values, then rows and columns as int32 and values as float64 (or
    complex128), little-endian, in the file's order.
    """

    def __init__(self, raw: RawEntries) -> None:
        kind = "pattern" if raw.values is None else "complex" if _is_complex(raw.values) else "real"
        head = f"spgraph-entries-1 {raw.rows} {raw.cols} {len(raw.row)} {raw.symmetry} {kind}"
        self._hash = hashlib.sha256(head.encode())
        self._arrays: list[tuple[npt.NDArray[Any], str]] = [(raw.row, "<i4"), (raw.col, "<i4")]
        if raw.values is not None:
            self._arrays.append((raw.values, "<c16" if kind == "complex" else "<f8"))
        self._thread: threading.Thread | None = None
        if len(raw.row) >= _CHUNK // 64:
            try:
                self._thread = threading.Thread(target=self._run)
                self._thread.start()
            except RuntimeError:  # no more threads to be had
                self._thread = None

    def _run(self) -> None:
        while self._arrays:
            array, kind = self._arrays.pop(0)
            for begin in range(0, len(array), _CHUNK):
                self._hash.update(np.ascontiguousarray(array[begin : begin + _CHUNK], kind).data)

    def finish(self) -> None:
        """Wait until the arrays are no longer needed."""
        if self._thread is not None:
            self._thread.join()
        else:
            self._run()

    def hex(self) -> str:
        self.finish()
        return self._hash.hexdigest()


def _how(raw: RawEntries, options: ReadOptions) -> Duplicates | Literal["merge"]:
    """What entries at the same place become."""
    if options.duplicates == "error":
        return "error"
    if raw.values is None or options.values != "file":
        return "merge"
    return options.duplicates or options.parallel


def random_values(count: int, seed: int) -> npt.NDArray[np.float64]:
    """float64 ``[count]``, uniform in [0, 1): the top 53 bits of PCG64's raw output, stable across numpys."""
    out = np.empty(count)
    bits = np.random.PCG64(seed)
    for begin in range(0, count, _CHUNK):
        raw = bits.random_raw(min(_CHUNK, count - begin))
        np.multiply(raw >> np.uint64(11), 2.0**-53, out=out[begin : begin + len(raw)])
    return out


def _is_complex(values: Values | None) -> bool:
    return values is not None and np.issubdtype(values.dtype, np.complexfloating)


def _check(raw: RawEntries, options: ReadOptions, source: Source) -> None:
    for count, what in ((raw.rows, "rows"), (raw.cols, "columns")):
        if count > MAX_DIMENSION:
            raise InputError(
                f"{count:,} {what}: more than 2^31 - 1 cannot be indexed with 32 bits",
                remedy="close gaps in the ids with --relabel, or split the matrix",
                place=source.text,
            )
    square = raw.rows == raw.cols
    if raw.symmetry != "general" and not square:
        raise InputError(
            f"declared {raw.symmetry}, but {raw.rows:,} x {raw.cols:,} is not square",
            remedy="declare it general",
            place=source.text,
        )
    if options.symmetrize and not square:
        raise InputError(
            f"{raw.rows:,} x {raw.cols:,} is not square: it cannot be symmetrized",
            remedy="omit --symmetrize",
            place=source.text,
        )
    if _is_complex(raw.values) and options.part is None and options.values == "file":
        raise InputError(
            "the values are complex, spgraph computes with real ones",
            remedy="choose what to take: --part real|imag|abs",
            place=source.text,
        )
    _check_range(raw, raw.row, raw.rows, "row", source)
    _check_range(raw, raw.col, raw.cols, "column", source)
    # One counting pass holds two offset arrays; the sorted copies come on top. Any use of the matrix takes as
    # much again for its rows and columns.
    per_entry = 4 + (0 if raw.values is None else raw.values.itemsize)
    sides = 2 if raw.symmetry != "general" or options.symmetrize else 1
    needed = 28 * (raw.rows + raw.cols) + (1 + sides) * per_entry * len(raw.row)
    require_memory(needed, f"a matrix of {raw.rows:,} x {raw.cols:,} with {len(raw.row):,} entries", source.text)


def _check_range(raw: RawEntries, index: Ints, count: int, what: str, source: Source) -> None:
    if not len(index) or (int(index.min()) >= 0 and int(index.max()) < count):
        return
    entry = int(np.flatnonzero((index < 0) | (index >= count))[0])
    base = raw.base or 0
    index_read = int(index[entry]) + base
    if index_read < base:
        cause, remedy = f"{what} index {index_read} (indices start at {base})", f"number {what}s from {base}"
    else:
        cause = f"{what} {index_read} is beyond the declared {count} {what}s"
        remedy = "correct the index or the size line"
    raise InputError(cause, remedy=remedy, place=_place(source, raw.line_of(entry)))


def _place(source: Source, line: int | None) -> str:
    return f"{source.text}:{line}" if line else source.text


def _odd_values(raw: RawEntries) -> list[Finding]:
    assert raw.values is not None
    findings = []
    with np.errstate(invalid="ignore", over="ignore"):  # inf and -inf together make NaN: just what is asked
        total = raw.values.sum() if len(raw.values) else 0.0
    if not np.isfinite(total):  # one cheap pass tells that all are finite (or that the sum overflowed)
        for text, test in (("NaN", np.isnan), ("infinite", np.isinf)):
            if len(odd := np.flatnonzero(test(raw.values))):
                findings.append(Finding(f"{text} values", raw.line_of(int(odd[0])), len(odd)))
    zero = raw.values == 0
    if count := int(np.count_nonzero(zero)):
        findings.append(Finding("explicit zeros", raw.line_of(int(np.argmax(zero))), count))
    return findings


def _folded(
    raw: RawEntries, source: Source, findings: list[Finding]
) -> tuple[Ints, Ints, Values | None, npt.NDArray[np.bool_]]:
    """Row, column and value of every entry moved to the lower triangle, and which were above it."""
    row, col, values = raw.row, raw.col, raw.values
    if values is not None and raw.symmetry in ("skew-symmetric", "hermitian"):
        bad = row == col
        bad[bad] = values[bad] != 0 if raw.symmetry == "skew-symmetric" else values[bad].imag != 0
        if bad.any():
            entry = int(np.argmax(bad))
            if raw.symmetry == "skew-symmetric":
                raise InputError(
                    f"{values[entry]} on the diagonal of a skew-symmetric matrix, which must be zero there",
                    remedy="declare the file general, or remove the entry",
                    place=_place(source, raw.line_of(entry)),
                )
            count = int(np.count_nonzero(bad))
            findings.append(Finding("diagonal entries of a Hermitian matrix are not real", raw.line_of(entry), count))
    upper = row < col
    if count := int(np.count_nonzero(upper)):
        line = raw.line_of(int(np.argmax(upper)))
        below = len(row) - count - int(np.count_nonzero(row == col))
        if not raw.undirected and (below or raw.format == "matrix-market"):
            findings.append(Finding(f"declared {raw.symmetry}, yet entries above the diagonal", line, count))
        if values is not None and raw.symmetry != "symmetric":
            flipped = -values[upper] if raw.symmetry == "skew-symmetric" else values[upper].conj()
            values = values.copy()
            values[upper] = flipped
        row, col = np.maximum(row, col), np.minimum(row, col)
    return row, col, values, upper


class _Order(NamedTuple):
    """How the entries of an input follow each other."""

    by_row: bool
    """Rows never fall."""
    by_col: bool
    row_major: bool
    """Rows never fall, nor columns within a row."""
    col_major: bool
    distinct: bool
    """No entry has the place of the one before it."""

    @property
    def is_canonical(self) -> bool:
        """No duplicates, and one counting pass by row sorts the entries and their mirror images."""
        return self.distinct and (self.row_major or self.col_major)


def _order(row: Ints, col: Ints) -> _Order:
    by_row = by_col = row_major = col_major = distinct = True
    for begin in range(0, len(row) - 1, _SMALL_CHUNK):
        r, c = row[begin : begin + _SMALL_CHUNK + 1], col[begin : begin + _SMALL_CHUNK + 1]
        row_falls, col_falls = r[1:] < r[:-1], c[1:] < c[:-1]
        by_row = by_row and not row_falls.any()
        by_col = by_col and not col_falls.any()
        if not (by_row or by_col):
            return _Order(False, False, False, False, False)
        row_stays, col_stays = r[1:] == r[:-1], c[1:] == c[:-1]
        row_major = by_row and row_major and not (col_falls & row_stays).any()
        col_major = by_col and col_major and not (row_falls & col_stays).any()
        distinct = distinct and not (row_stays & col_stays).any()
    return _Order(by_row, by_col, row_major, col_major, distinct)


def _sorted(rows: int, cols: int, row: Ints, col: Ints, values: Values | None, order: _Order) -> _Rows:
    """Entries in row-major order, equal ones in input order; no copies if they are so already."""
    if order.row_major:
        ends = np.flatnonzero(np.append(row[1:] != row[:-1], np.ones(min(1, len(row)), np.bool_))) + 1
        ptr = np.zeros(rows + 1, np.int64)
        ptr[row[ends - 1] + 1] = ends
        np.maximum.accumulate(ptr, out=ptr)  # empty rows end where the one before does
        contiguous = None if values is None else np.ascontiguousarray(values)
        return _Rows(ptr, np.ascontiguousarray(col, np.int32), contiguous)
    by_col = order.by_col
    if not by_col and (passed := compiled.by_row(cols, col, row, values)) is not None:
        ptr, row, values = passed  # a second pass takes no longer than sorting the rows, and is stable
        col, by_col = np.repeat(np.arange(cols, dtype=np.int32), np.diff(ptr)), True
    out = _by_row(rows, cols, row, col, values)
    if not by_col:
        csr = _as_scipy(out, cols)
        csr.has_sorted_indices = False
        csr.sort_indices()  # not stable
        out = _from_scipy(csr, values is not None)
    if by_col or values is None or not (same := _repeats(out)).any():
        return out
    mixed = np.zeros(rows, np.bool_)
    mixed[out.row_of(np.flatnonzero(same))] = True
    entry = np.flatnonzero(mixed[row])
    if len(entry) < len(row) // 4:
        assert out.values is not None
        entry = entry[np.lexsort((col[entry], row[entry]))]  # stable
        out.values[np.repeat(mixed, np.diff(out.ptr))] = values[entry]
        return out
    del out, csr, same, entry
    return _from_scipy(_as_scipy(_by_row(cols, rows, col, row, values), rows).T.tocsr(), True)


def _by_row(rows: int, cols: int, row: Ints, col: Ints, values: Values | None, mirror: int = 0) -> _Rows:
    """The entries by one stable counting pass; columns in input order, duplicates kept.

    `mirror`: 1 puts every entry off the diagonal of a square matrix once more behind all of them, as
    (col, row); -1 with its value negated.
    """
    import scipy.sparse as sp

    if (sorted_ := compiled.by_row(rows, row, col, values, mirror)) is not None:
        return _Rows(*sorted_)
    if mirror:
        off = row != col
        if values is not None:
            values = np.concatenate([values, -values[off] if mirror < 0 else values[off]])
        row, col = np.concatenate([row, col[off]]), np.concatenate([col, row[off]])
    carried = np.zeros(len(row), np.int8) if values is None else values
    coo = sp.coo_array((carried, (row, col)), shape=(rows, cols))
    coo.has_canonical_format = True  # do not merge duplicates: they are counted here
    csr = coo.tocsr()
    csr.has_canonical_format = False  # which the CSR takes over, and with it that its rows are sorted
    csr.has_sorted_indices = False
    return _from_scipy(csr, values is not None)


def _as_scipy(rows: _Rows, cols: int) -> Any:
    """A scipy CSR array of the same memory; zeros of a byte as values of a pattern."""
    import scipy.sparse as sp

    carried = np.zeros(len(rows.col), np.int8) if rows.values is None else rows.values
    return sp.csr_array((carried, rows.col, rows.ptr), shape=(len(rows.ptr) - 1, cols))


def _from_scipy(csr: Any, weighted: bool) -> _Rows:
    ptr, col = csr.indptr.astype(np.int64, copy=False), csr.indices.astype(np.int32, copy=False)
    return _Rows(ptr, col, csr.data if weighted else None)


def _repeats(rows: _Rows) -> npt.NDArray[np.bool_]:
    """True where an entry has the row and column of the one before."""
    same = np.zeros(len(rows.col), np.bool_)
    np.equal(rows.col[1:], rows.col[:-1], out=same[1:])
    starts = rows.ptr[:-1]
    same[starts[starts < len(same)]] = False
    return same


_RULES = {
    "sum": "summed",
    "min": "the least is kept",
    "max": "the largest is kept",
    "first": "first kept",
    "last": "last kept",
    "merge": "merged",
}
_REDUCE: dict[str, Any] = {"sum": np.add, "min": np.minimum, "max": np.maximum}


class _Joining:
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
        rows: _Rows,
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
                place=_place(source, line),
            )
        out.append(Finding(f"duplicate entries ({_RULES[how]}), such as {where}", line, self.merged - self.mirrors))
        return out

    def rows_joined(self, how: str, resolve: bool, source: Source) -> _Rows:
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
            place=_place(source, raw.line_of(second)),
        )


def _stored_zeros(row: Ints, col: Ints, values: Values | None) -> int:
    """Stored zeros of a triangle, counted as entries of the whole matrix."""
    if values is None:
        return 0
    entry = np.flatnonzero(values == 0)
    return len(entry) + int(np.count_nonzero(row[entry] != col[entry]))


def _zeros(rows: _Rows, triangle: bool, drop: bool, policies: Policies) -> tuple[_Rows, Policies]:
    """Count stored zeros as entries of the whole matrix, and drop them if asked to."""
    if rows.values is None:
        return rows, policies
    zero = rows.values == 0
    entry = np.flatnonzero(zero)
    if not len(entry):
        return rows, policies
    count = len(entry)
    if triangle:
        count += int(np.count_nonzero(rows.row_of(entry) != rows.col[entry]))
    if drop:
        return rows.keep(~zero), replace(policies, zeros_dropped=count)
    return rows, replace(policies, explicit_zeros=count)


def _chosen(values: Values | None, count: int, options: ReadOptions) -> npt.NDArray[np.float64] | None:
    if options.values == "ones":
        return None
    if options.values in ("random", "integers"):
        drawn = random_values(count, options.seed)
        return drawn if options.values == "random" else whole(drawn)
    if values is not None and _is_complex(values):
        values = _part(values, options.part)
    return None if values is None else values.astype(np.float64, copy=False)


def _part(values: Values, part: str | None) -> Values:
    return np.abs(values) if part == "abs" else (values.imag if part == "imag" else values.real).copy()


def _sign(symmetry: str, part: str | None) -> int:
    """What mirroring does to a real value (or to this part of a complex one)."""
    if part == "abs":
        return 1
    if symmetry == "skew-symmetric":
        return -1
    return -1 if symmetry == "hermitian" and part == "imag" else 1


def _transposed(rows: _Rows, keep: npt.NDArray[np.bool_] | None = None) -> _Rows:
    """The transpose (of the entries in `keep`) of a square matrix, in one counting pass."""
    import scipy.sparse as sp

    part = rows if keep is None else rows.keep(keep)
    size = len(rows.ptr) - 1
    if (passed := compiled.by_row(size, part.col, part.row_of_all(), part.values)) is not None:
        return _Rows(*passed)
    carried = np.zeros(len(part.col), np.int8) if part.values is None else part.values
    csc = sp.csr_array((carried, part.col, part.ptr), shape=(size, size)).tocsc()
    return _from_scipy(csc, part.values is not None)


def _side_by_side(left: _Rows, right: _Rows) -> _Rows:
    """Each row of `left` followed by the same row of `right`."""
    lengths = np.empty(2 * (len(left.ptr) - 1), np.int64)
    lengths[0::2], lengths[1::2] = np.diff(left.ptr), np.diff(right.ptr)
    from_left = np.repeat(np.tile(np.array([True, False]), len(left.ptr) - 1), lengths)
    out = _Rows(left.ptr + right.ptr, np.empty(len(from_left), np.int32), None)
    out.col[from_left], out.col[~from_left] = left.col, right.col
    if left.values is not None and right.values is not None:
        out.values = np.empty(len(from_left), left.values.dtype)
        out.values[from_left], out.values[~from_left] = left.values, right.values
    return out


def _mirrored(lower: _Rows, sign: int) -> _Rows:
    """The whole of a matrix from its lower triangle: the columns above the diagonal follow those below."""
    upper = _transposed(lower, lower.row_of_all() != lower.col)
    if sign < 0 and upper.values is not None:
        np.negative(upper.values, out=upper.values)
    return _side_by_side(lower, upper)


def _symmetrized(rows: _Rows, findings: list[Finding]) -> _Rows:
    """Every entry and its mirror; where both are stored, each keeps its own value.

    The rows of the matrix and those of its transpose, both sorted, are merged some at a time, right to where
    they stay, so that nothing else of that size is held.
    """
    size, back = len(rows.ptr) - 1, _transposed(rows)
    out = _Rows(np.zeros(size + 1, np.int64), np.empty(2 * len(rows.col), np.int32), None)
    if rows.values is not None:
        out.values = np.empty(len(out.col), rows.values.dtype)
    begin = filled = differ = 0
    while begin < size:
        end = _part_end(rows, back, begin)
        own, other = (slice(int(r.ptr[begin]), int(r.ptr[end])) for r in (rows, back))
        keys = np.concatenate([r.keys(begin, end, size) for r in (rows, back)])
        order = np.argsort(keys, kind="stable")  # merges two runs; an own entry comes before its mirror
        keys = keys[order]
        fresh = np.append(np.ones(min(1, len(keys)), np.bool_), keys[1:] != keys[:-1])
        to = slice(filled, filled := filled + int(np.count_nonzero(fresh)))
        out.col[to] = np.concatenate([rows.col[own], back.col[other]])[order[fresh]]
        out.ptr[begin + 1 : end + 1] = to.start + np.searchsorted(keys[fresh], np.arange(1, end - begin + 1) * size)
        if rows.values is not None and back.values is not None and out.values is not None:
            values = np.concatenate([rows.values[own], back.values[other]])[order]
            out.values[to] = values[fresh]
            position = np.flatnonzero(~fresh)
            own_values, mirrored = values[position - 1], values[position]
            differ += int(np.count_nonzero((own_values != mirrored) & ~(np.isnan(own_values) & np.isnan(mirrored))))
        begin = end
    if differ:
        text = "entries whose mirror is stored with another value (each keeps its own)"
        findings.append(Finding(text, count=differ))
    return _Rows(out.ptr, out.col[:filled], None if out.values is None else out.values[:filled])


def _part_end(rows: _Rows, back: _Rows, begin: int) -> int:
    """Where to end a part that begins at a row, so that it stays in cache: one row at least."""
    last = min(len(rows.ptr) - 1, begin + _SMALL_CHUNK)
    limit = rows.ptr[begin] + back.ptr[begin] + _SMALL_CHUNK
    fits = bisect.bisect_right(range(begin + 1, last + 1), limit, key=lambda r: rows.ptr[r] + back.ptr[r])
    return begin + max(1, fits)
