"""SpMM: Y = A X with a sparse matrix A and a dense X of k columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from spgraph_bench.cores import usable_cores
from spgraph_bench.errors import SkipError
from spgraph_bench.formats.base import Packed
from spgraph_bench.matrix import CSR, Matrix
from spgraph_bench.parameters import Parameter
from spgraph_bench.problems.base import CheckResult, Problem, Work, filled_options, register
from spgraph_bench.problems.exact import MOST, Draw, Ranges, choose_ranges, key_of, row_sums, small_x
from spgraph_bench.problems.summation import BOUND_FACTOR, TENSOR_CORE_FACTOR, Judged, judge, plainly_right
from spgraph_bench.problems.vectors import in_type, read_columns
from spgraph_bench.stats import row_ranges

__all__ = ["SpMM", "sum_type"]

_TERMS = 1 << 21
"""Products held at a time by one thread of the oracle: 16 MB in float64."""

_BASES = 8
"""Columns of X that the exact pass draws; the others are these plus a number."""

_HALF_EXACT = 2048
"""float16 counts exactly up to here."""


def sum_type(dtype: npt.DTypeLike) -> np.dtype[Any]:
    """Type of Y and of the sums: float32 for half-precision values, else the values' own."""
    kind = np.dtype(dtype)
    return np.dtype(np.float32) if kind == np.dtype(np.float16) else kind


class _Worst(NamedTuple):
    """An entry with the largest error over its bound. One that was written says more than one that was not."""

    written: bool
    ratio: float
    row: int
    column: int
    bound: float


def _worst(judged: Judged, first: int) -> _Worst:
    """The worst of the entries `judged`, of rows from `first` on."""
    written = judged.wrong & ~judged.unwritten
    any_written = bool(written.any())
    ratio = np.where(written, judged.ratio, -1.0) if any_written else judged.ratio
    place = int(np.argmax(ratio))
    row, column = divmod(place, ratio.shape[1])
    return _Worst(any_written, float(ratio.flat[place]), first + row, column, float(judged.bound.flat[place]))


class SpMM(Problem):
    """Y = A X.

    Input ``x`` of the run's value type, output ``y`` of :func:`sum_type`. Row-major: ``x`` ``[cols, k]``,
    ``y`` ``[rows, k]``; column-major: ``x`` ``[k, cols]``, ``y`` ``[k, rows]``. X has the same numbers in
    both. The oracle takes A and X as the kernel gets them, that is rounded to the value type (in float16 runs
    to half precision, after which their products are exact in float32), so that the bound speaks of summation
    only. A run's operations are 2 nnz k.
    """

    name = "spmm"
    title = "sparse matrix times dense matrix, Y = A X"
    rate_unit = "GFLOP/s"
    outputs: tuple[str, ...] = ("y",)
    dtypes: tuple[str, ...] = ("float32", "float64", "float16")
    is_product = True
    options: Mapping[str, Parameter] = MappingProxyType(
        {
            "k": Parameter(32, "columns of X and Y", between=(1, 512)),
            "layout": Parameter("row", "order in which X and Y are stored", choices=("row", "column")),
            "x": Parameter(
                "", "file of X, a row a line: .npy, .npz, .mtx, or text (default: drawn from the seed)", unsaid=True
            ),
        }
    )

    def __init__(self, k: int = 32, layout: str = "row") -> None:
        self.k, self.layout = k, layout

    @property
    def axes(self) -> Mapping[str, tuple[str, ...]]:
        if self.layout == "row":
            return {"x": ("cols", "k"), "y": ("rows", "k")}
        return {"x": ("k", "cols"), "y": ("k", "rows")}

    def configured(self, options: Mapping[str, Any]) -> SpMM:
        """This problem with these options (defaults for those not given). Raises UsageError for bad ones."""
        filled = filled_options(self, options)
        return SpMM(int(filled["k"]), str(filled["layout"]))

    def inputs(self, matrix: Matrix, dtype: np.dtype[Any], seed: int, **options: Any) -> dict[str, npt.NDArray[Any]]:
        """``x``, uniform in [0, 1): the same for a seed on any machine and any numpy; or that of the file `x`, which is
        ``[cols, k]`` in any layout.

        Drawn from PCG64's raw output, since numpy keeps that stable but not its distributions. Raises InputError
        for a file that cannot be read, and for values that `dtype` does not have.
        """
        cols = matrix.csr.cols
        if options.get("x"):
            x = in_type(read_columns(path := Path(options["x"]), cols, self.k), dtype, str(path))
            return {"x": x if self.layout == "row" else np.ascontiguousarray(x.T)}
        draw = np.random.PCG64(seed)
        flat = np.empty(cols * self.k, dtype)
        below_one = np.nextafter(dtype.type(1), dtype.type(0))  # rounding can reach 1, which is outside
        for first in range(0, flat.size, _TERMS):
            part = flat[first : first + _TERMS]
            raw = draw.random_raw(part.size)
            np.minimum(((raw >> np.uint64(11)) * 2.0**-53).astype(dtype), below_one, out=part)
        x = flat.reshape(cols, self.k)
        return {"x": x if self.layout == "row" else np.ascontiguousarray(x.T)}

    def columns(
        self, output: npt.NDArray[Any], csr: CSR, inputs: Mapping[str, npt.NDArray[Any]]
    ) -> dict[str, npt.NDArray[Any]]:
        """Y, ``[rows, k]`` in any layout."""
        return {"y": output if self.layout == "row" else np.ascontiguousarray(output.T)}

    def output_arrays(self, matrix: Matrix, dtype: np.dtype[Any]) -> dict[str, tuple[tuple[int, ...], np.dtype[Any]]]:
        rows = matrix.csr.rows
        return {"y": ((rows, self.k) if self.layout == "row" else (self.k, rows), sum_type(dtype))}

    def oracle(
        self, matrix: Matrix, inputs: Mapping[str, npt.NDArray[Any]], dtype: np.dtype[Any], **options: Any
    ) -> dict[str, npt.NDArray[Any]]:
        """``r`` = A X and ``absax`` = |A| |X|, float64 ``[rows, k]``; ``lengths``, int64 ``[rows]``.

        Multiply, then add up each row: one numpy call each, a few rows and columns at a time, on as many
        threads as there are cores (at most 8), no scipy (which is itself among the variants). Tests hold it
        against a plain loop with math.fsum. Terms with a NaN or Inf factor count in r as IEEE has it,
        whatever the order; absax skips them. ``absax`` is missing where it is r: no term is negative, as
        in all recipes.
        """
        csr = matrix.csr
        x = inputs["x"] if self.layout == "row" else np.ascontiguousarray(inputs["x"].T)
        r = np.zeros((csr.rows, self.k))
        plain = bool((csr.values is None or (csr.values >= 0).all()) and (x >= 0).all())
        if plain and csr.values is not None:
            with np.errstate(over="ignore"):
                plain = bool(np.isfinite(csr.values.max(initial=0).astype(dtype)))
        absax = None if plain else np.zeros((csr.rows, self.k))

        def work(piece: tuple[int, int, int, int]) -> None:
            _add_up(csr, x, dtype, r, absax, *piece)

        with ThreadPoolExecutor(min(8, usable_cores())) as pool:
            for _ in pool.map(work, self._pieces(csr)):
                pass
        answer = {"r": r, "lengths": csr.row_lengths()}
        return answer if absax is None else {**answer, "absax": absax}

    def _pieces(self, csr: CSR) -> Iterator[tuple[int, int, int, int]]:
        """Rows and columns ``(first, last, left, right)`` of at most about :data:`_TERMS` products each."""
        for first, last in row_ranges(csr.row_ptr, max(1, _TERMS // self.k)):
            entries = int(csr.row_ptr[last] - csr.row_ptr[first])
            width = max(1, min(self.k, _TERMS // max(entries, 1)))
            for left in range(0, self.k, width):
                yield first, last, left, min(left + width, self.k)

    def check(
        self, output: npt.NDArray[Any], oracle: Mapping[str, npt.NDArray[Any]], dtype: np.dtype[Any]
    ) -> CheckResult:
        """Every entry within its bound, column by column the bound of SpMV (see :func:`judge`): c (nnz_i + 2)
        eps (|A| |X|)_ij, with eps of the type that sums are made in, c = :data:`BOUND_FACTOR`, in float16
        runs :data:`TENSOR_CORE_FACTOR`.

        In float16 runs a library may hand back Y in half precision: its rounding is allowed for.

        What this cannot see is what SpMV's check cannot: in a row of n entries a lost entry of average size
        shows up to n = 2,900 with float32 sums (1,450 in float16 runs).
        """
        r, lengths = oracle["r"], oracle["lengths"]
        absax = oracle.get("absax", r)
        kind, (rows, k) = sum_type(dtype), r.shape
        shape = (rows, k) if self.layout == "row" else (k, rows)
        if output.shape != shape or output.dtype not in (kind, dtype):
            return CheckResult(False, f"y is {output.dtype} {list(output.shape)}, not {kind} {list(shape)}")
        y = output if self.layout == "row" else output.T
        factor = TENSOR_CORE_FACTOR if dtype == np.dtype(np.float16) else BOUND_FACTOR
        if plain := plainly_right(y, r, absax, lengths, factor, kind):
            row, column = divmod(plain[0], k)
            counts = dict.fromkeys(("wrong_entries", "unwritten_entries", "wrong_columns"), 0)
            place = {"worst_row": row, "worst_column": column, "worst_row_length": int(lengths[row])}
            return CheckResult(True, "", {**counts, **place, "max_error_ratio": plain[1]})
        wrong = unwritten = 0
        in_columns = np.zeros(k, np.int64)
        worst: _Worst | None = None
        step = max(1, _TERMS // k)
        for first in range(0, rows, step):
            part = slice(first, first + step)
            judged = judge(y[part], r[part], absax[part], lengths[part, None], factor, kind)
            wrong += int(judged.wrong.sum())
            unwritten += int(judged.unwritten.sum())
            in_columns += judged.wrong.sum(axis=0)
            candidate = _worst(judged, first)
            if worst is None or candidate[:2] > worst[:2]:
                worst = candidate
        details: dict[str, Any] = {
            "wrong_entries": wrong,
            "unwritten_entries": unwritten,
            "wrong_columns": int((in_columns > 0).sum()),
        }
        if worst is None:
            return CheckResult(True, "", details)
        row, column = worst.row, worst.column
        details |= {
            "worst_row": row,
            "worst_column": column,
            "worst_row_length": int(lengths[row]),
            "max_error_ratio": worst.ratio if np.isfinite(worst.ratio) else None,
        }
        if not wrong:
            return CheckResult(True, "", details)
        where = f"row {row:,}, column {column} ({lengths[row]:,} nonzeros)"
        of = f"of {rows * k:,} entries"
        if not worst.written:
            return CheckResult(False, f"{unwritten:,} {of} never written, the first is {where}", details)
        error = abs(float(y[row, column]) - float(r[row, column]))
        message = (
            f"{wrong:,} {of} wrong, in {details['wrong_columns']} of {k} columns, the worst is {where}: "
            f"y = {y[row, column]:.9g}, expected {r[row, column]:.9g}, error {error:.3g} exceeds its bound "
            f"{worst.bound:.3g}"
        )
        return CheckResult(False, message + (f"; {unwritten:,} never written" if unwritten else ""), details)

    def scaled(
        self, inputs: Mapping[str, npt.NDArray[Any]], oracle: Mapping[str, npt.NDArray[Any]], factor: float
    ) -> tuple[dict[str, npt.NDArray[Any]], dict[str, npt.NDArray[Any]]]:
        """See :class:`spgraph_bench.problems.base.Problem`."""
        x, absax = inputs["x"], oracle.get("absax", oracle["r"])
        changed = {"r": oracle["r"] * factor, "absax": absax * abs(factor)}
        return {**inputs, "x": x * x.dtype.type(factor)}, {**oracle, **changed}

    def turned(
        self, csr: CSR, inputs: Mapping[str, npt.NDArray[Any]], oracle: Mapping[str, npt.NDArray[Any]]
    ) -> tuple[dict[str, npt.NDArray[Any]], dict[str, npt.NDArray[Any]]]:
        """The next column of X in the place of each, so that the oracle need not be computed again; with one column
        X and Y are negated."""
        if self.k == 1:
            return self.scaled(inputs, oracle, -1.0)
        axis = 1 if self.layout == "row" else 0
        columns = {name: np.roll(oracle[name], 1, axis=1) for name in ("r", "absax") if name in oracle}
        return {**inputs, "x": np.roll(inputs["x"], 1, axis)}, {**oracle, **columns}

    def exact(self, csr: CSR, dtype: np.dtype[Any], draw: int) -> Draw | str:
        """See :class:`spgraph_bench.problems.base.Problem`.

        X is made of a few drawn columns b (:data:`_BASES`, more from k = 256 on) and numbers t: column j is
        b_(j mod 8) + j / 8, so that the expected Y takes nine passes over the entries and not k. No two
        columns are the same, unless rows are too long to leave numbers for that.
        """
        lengths = csr.row_lengths()
        ranges = choose_ranges(int(lengths.max(initial=0)), dtype)
        if isinstance(ranges, str):
            return ranges
        bases = min(self.k, max(_BASES, -(-self.k // (MOST // 2))))
        steps = min(-(-self.k // bases), max(1, ranges.x // 2))
        drawn = small_x(draw, (csr.cols, bases), min(MOST, ranges.x - steps + 1), dtype)
        base, step = np.arange(self.k) % bases, np.arange(self.k) // bases % steps
        x = drawn[:, base] + step.astype(dtype)
        key = key_of(draw)
        ones = np.ones((csr.cols, 1), dtype)
        sums = row_sums(csr, np.hstack((drawn, ones)), dtype, key, ranges.values)

        def compare(output: npt.NDArray[Any]) -> str:
            y = output if self.layout == "row" else output.T
            wrong, place = 0, (0, 0, 0.0)
            for first in range(0, csr.rows, at_once := max(1, _TERMS // self.k)):
                part = sums[first : first + at_once]
                expected = part[:, base] + part[:, -1:] * step
                if output.dtype == np.float16 and expected.max(initial=0) > _HALF_EXACT:
                    raise SkipError(
                        f"Y is float16, which counts exactly to {_HALF_EXACT:,}; sums reach {expected.max():,.0f}"
                    )
                different = y[first : first + at_once] != expected
                if different.any() and not wrong:
                    first_wrong = int(np.argmax(different))
                    place = first + first_wrong // self.k, first_wrong % self.k, float(expected.flat[first_wrong])
                wrong += int(different.sum())
            if not wrong:
                return ""
            row, column, right = place
            return (
                f"{wrong:,} of {csr.rows * self.k:,} sums of integers differ, the first in row {row:,}, "
                f"column {column} ({lengths[row]:,} nonzeros): y = {y[row, column]:.9g}, expected {right:.9g}"
            )

        stored = x if self.layout == "row" else np.ascontiguousarray(x.T)
        return Draw(Ranges(ranges.values, ranges.x), key, {"x": stored}, compare)

    def work(self, matrix_shape: tuple[int, int], packed: Packed) -> Work:
        rows, cols = matrix_shape
        value = packed.dtype.itemsize
        dense = self.k * (cols * value + rows * sum_type(packed.dtype).itemsize)
        return Work(
            operations=2 * packed.nnz * self.k,
            compulsory_bytes=packed.compulsory_bytes + dense,
            stored_bytes=packed.stored_bytes,
            gathered_bytes=packed.nnz * self.k * value,
        )


def _add_up(
    csr: CSR,
    x: npt.NDArray[Any],
    dtype: np.dtype[Any],
    r: npt.NDArray[np.float64],
    absax: npt.NDArray[np.float64] | None,
    begin: int,
    end: int,
    left: int,
    right: int,
) -> None:
    """Rows ``[begin, end)`` and columns ``[left, right)`` of `r` and `absax`, which are zero there."""
    first, last = int(csr.row_ptr[begin]), int(csr.row_ptr[end])
    # reduceat gives a wrong answer for an empty segment, so only rows with entries take part.
    row = begin + np.flatnonzero(np.diff(csr.row_ptr[begin : end + 1]))
    if not len(row):
        return
    starts = csr.row_ptr[row] - first
    with np.errstate(over="ignore", invalid="ignore"):
        terms = x[csr.col_idx[first:last], left:right].astype(np.float64)
        finite = np.isfinite(terms)
        if csr.values is not None:
            a = csr.values[first:last].astype(dtype).astype(np.float64)[:, None]
            finite &= np.isfinite(a)
            terms *= a
        if not finite.all():
            r[row, left:right] = np.add.reduceat(np.where(finite, 0.0, terms), starts)
            terms[~finite] = 0.0
        r[row, left:right] += np.add.reduceat(terms, starts)
        if absax is not None:
            absax[row, left:right] = np.add.reduceat(np.abs(terms, out=terms), starts)


register(SpMM())
