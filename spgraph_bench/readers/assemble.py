"""From a file's entries to the canonical matrix: fold, sort, merge, choose values, mirror.

The order matters. Entries of a symmetric (skew, Hermitian) file are first folded into the lower triangle, so
that (i, j) and (j, i) are seen as what they are, duplicates; they are merged there; the triangle then gets
its values (so random ones are symmetric too) and is mirrored last.
"""

from __future__ import annotations

import hashlib
import threading
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from spgraph_bench.errors import InputError
from spgraph_bench.matrix import CSR, Duplicates, Finding, Matrix, Policies, Source
from spgraph_bench.readers.common import Progress, RawEntries, ReadOptions, require_memory, whole
from spgraph_bench.readers.duplicates import Joining, place_of
from spgraph_bench.readers.rows import Ints, Rows, Values, by_row, mirrored, order_of, repeats, sorted_rows, symmetrized
from spgraph_bench.units import quantity

__all__ = ["assemble", "random_values"]

MAX_DIMENSION = 2**31 - 1
_CHUNK = 1 << 22


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
    order = order_of(row, col)
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
        rows = by_row(raw.rows, raw.cols, row, col, _chosen(values, len(row), options), mirror=sign)
        policies = replace(policies, self_loops=int(np.count_nonzero(row == col)))
        return _finished(raw, rows, name, source, policies, findings, digest)

    rows = sorted_rows(raw.rows, raw.cols, row, col, values, order)
    say("merging duplicates", None)
    if not order.is_canonical and (merged := int(np.count_nonzero(same := repeats(rows)))):
        sides = upper if triangle and not (raw.undirected and values is None) else None
        joined = Joining(raw, row, col, values, sides, rows, same)
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
        rows = mirrored(rows, sign) if triangle else symmetrized(rows, findings)
        policies = replace(policies, mirrored=True)
    return _finished(raw, rows, name, source, policies, findings, digest)


def _finished(
    raw: RawEntries, rows: Rows, name: str, source: Source, policies: Policies, findings: list[Finding], digest: _Digest
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
    entries = quantity(len(raw.row), "entry", "entries")
    require_memory(needed, f"a matrix of {raw.rows:,} x {raw.cols:,} with {entries}", source.text)


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
    raise InputError(cause, remedy=remedy, place=place_of(source, raw.line_of(entry)))


def _odd_values(raw: RawEntries) -> list[Finding]:
    assert raw.values is not None
    findings = []
    with np.errstate(invalid="ignore", over="ignore"):  # inf and -inf together make NaN: just what is asked
        total = raw.values.sum() if len(raw.values) else 0.0
    if not np.isfinite(total):  # one cheap pass tells that all are finite (or that the sum overflowed)
        for text, test in (("NaN", np.isnan), ("infinite", np.isinf)):
            if len(odd := np.flatnonzero(test(raw.values))):
                findings.append(Finding(f"{text} values", raw.line_of(int(odd[0])), len(odd)))
    if np.isrealobj(raw.values) and (beyond := _beyond_float32(raw.values)).size:
        text = "values beyond float32, infinite in that type"
        findings.append(Finding(text, raw.line_of(int(beyond[0])), len(beyond)))
    zero = raw.values == 0
    if count := int(np.count_nonzero(zero)):
        findings.append(Finding("explicit zeros", raw.line_of(int(np.argmax(zero))), count))
    return findings


def _beyond_float32(values: Values) -> npt.NDArray[np.int64]:
    """Places of finite values that float32 rounds to infinity."""
    least = (2 - 2.0**-24) * 2.0**127  # half of a last place above the largest float32
    low, high = (of.reduce(values, initial=0) for of in (np.fmin, np.fmax))  # cheap: of most files this is all
    if -least < low and high < least:
        return np.empty(0, np.int64)
    return np.flatnonzero(np.isfinite(values) & (np.abs(values) >= least))


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
                    place=place_of(source, raw.line_of(entry)),
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


def _stored_zeros(row: Ints, col: Ints, values: Values | None) -> int:
    """Stored zeros of a triangle, counted as entries of the whole matrix."""
    if values is None:
        return 0
    entry = np.flatnonzero(values == 0)
    return len(entry) + int(np.count_nonzero(row[entry] != col[entry]))


def _zeros(rows: Rows, triangle: bool, drop: bool, policies: Policies) -> tuple[Rows, Policies]:
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
