"""SpMV: y = A x with a sparse matrix A."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.formats.base import Packed
from spgraph_bench.matrix import CSR, Matrix
from spgraph_bench.parameters import Parameter
from spgraph_bench.problems.base import CheckResult, Problem, Work, register
from spgraph_bench.problems.exact import Draw, choose_ranges, key_of, row_sums, small_x
from spgraph_bench.problems.summation import BOUND_FACTOR, judge, plainly_right
from spgraph_bench.problems.vectors import in_type, read_vector
from spgraph_bench.stats import row_ranges
from spgraph_bench.threads import over

__all__ = ["BOUND_FACTOR", "SpMV"]

_TURN_SEED = 20


class SpMV(Problem):
    """y = A x.

    Input ``x`` ``[cols]``, output ``y`` ``[rows]``, both of the run's value type. The oracle takes A and x as
    the kernel gets them, that is rounded to the value type, so that the bound speaks of summation only. A run's
    operations are 2 nnz.
    """

    name = "spmv"
    title = "sparse matrix times dense vector, y = A x"
    rate_unit = "GFLOP/s"
    outputs: tuple[str, ...] = ("y",)
    dtypes: tuple[str, ...] = ("float32", "float64")
    is_product = True
    options: Mapping[str, Parameter] = MappingProxyType(
        {"x": Parameter("", "file of x: .npy, .npz, .mtx, or text (default: drawn from the seed)", unsaid=True)}
    )
    axes: Mapping[str, tuple[str, ...]] = MappingProxyType({"x": ("cols",), "y": ("rows",)})

    def inputs(self, matrix: Matrix, dtype: np.dtype[Any], seed: int, **options: Any) -> dict[str, npt.NDArray[Any]]:
        """``x``, uniform in [0, 1): the same for a seed on any machine and any numpy; or that of the file `x`.

        Drawn from PCG64's raw output, since numpy keeps that stable but not its distributions. Raises InputError
        for a file that cannot be read, and for values that `dtype` does not have.
        """
        if options.get("x"):
            path = Path(options["x"])
            return {"x": in_type(read_vector(path, matrix.csr.cols), dtype, str(path))}
        raw = np.random.PCG64(seed).random_raw(matrix.csr.cols)
        x = ((raw >> np.uint64(11)) * 2.0**-53).astype(dtype)
        # Rounding to float32 can reach 1, which is outside.
        return {"x": np.minimum(x, np.nextafter(dtype.type(1), dtype.type(0)))}

    def columns(
        self, output: npt.NDArray[Any], csr: CSR, inputs: Mapping[str, npt.NDArray[Any]]
    ) -> dict[str, npt.NDArray[Any]]:
        """y, of each row."""
        return {"y": output}

    def output_arrays(self, matrix: Matrix, dtype: np.dtype[Any]) -> dict[str, tuple[tuple[int, ...], np.dtype[Any]]]:
        return {"y": ((matrix.csr.rows,), dtype)}

    def oracle(
        self, matrix: Matrix, inputs: Mapping[str, npt.NDArray[Any]], dtype: np.dtype[Any], **options: Any
    ) -> dict[str, npt.NDArray[Any]]:
        """``r`` = A x and ``absax`` = |A| |x|, float64 ``[rows]``; ``lengths``, int64 ``[rows]``.

        Multiply, then add up each row: one numpy call each, a block of rows at a time, no scipy (which is
        itself among the variants). Tests hold it against a plain loop with math.fsum. Terms with a NaN or Inf
        factor count in r as IEEE has it, whatever the order; absax skips them.
        """
        csr = matrix.csr
        x = inputs["x"].astype(np.float64)
        r, absax = np.zeros(csr.rows), np.zeros(csr.rows)
        lengths = csr.row_lengths()

        def add_up(thread: int, begin: int, end: int) -> None:
            first, last = int(csr.row_ptr[begin]), int(csr.row_ptr[end])
            # reduceat gives a wrong answer for an empty segment, so only rows with entries take part.
            row = begin + np.flatnonzero(lengths[begin:end])
            starts = csr.row_ptr[row] - first
            if not len(row):
                return
            with np.errstate(over="ignore", invalid="ignore"):
                a = np.ones(last - first) if csr.values is None else csr.values[first:last].astype(dtype)
                a = a.astype(np.float64)
                gathered = x[csr.col_idx[first:last]]
                terms = a * gathered
                finite = np.isfinite(a) & np.isfinite(gathered)
                if not finite.all():
                    r[row] = np.add.reduceat(np.where(finite, 0.0, terms), starts)
                    terms[~finite] = 0.0
                r[row] += np.add.reduceat(terms, starts)
                absax[row] = np.add.reduceat(np.abs(terms), starts)

        over(list(row_ranges(csr.row_ptr)), add_up)
        return {"r": r, "absax": absax, "lengths": lengths}

    def check(
        self, output: npt.NDArray[Any], oracle: Mapping[str, npt.NDArray[Any]], dtype: np.dtype[Any]
    ) -> CheckResult:
        """Every row within :data:`BOUND_FACTOR` (nnz_i + 2) eps absax_i of r_i, plus nnz_i times what
        underflow may cost (see :func:`spgraph_bench.problems.summation.judge`).

        Where r_i is NaN or Inf, y_i must be the same. Where the partial sums of a row can pass the largest
        value of `dtype`, y_i may also be what an overflow makes of it: Inf of r_i's sign if all terms have
        one sign, else Inf or NaN. (Where |A| |x| overflows even float64, anything that was written passes.)
        A row whose bits are all ones was never written: no arithmetic gives that NaN.

        What this cannot see: in a row of n entries the bound is n + 2 units in the last place of |A| |x|, so
        a lost entry of average size shows up to n = 2,900 in float32 and 67 M in float64. The battery runs in
        both.
        """
        r, absax, lengths = oracle["r"], oracle["absax"], oracle["lengths"]
        if output.shape != r.shape or output.dtype != dtype:
            return CheckResult(False, f"y is {output.dtype} {list(output.shape)}, not {dtype} {list(r.shape)}")
        if plain := plainly_right(output, r, absax, lengths):
            worst, highest = plain
            facts = {"worst_row": worst, "worst_row_length": int(lengths[worst]), "max_error_ratio": highest}
            return CheckResult(True, "", {"wrong_rows": 0, "unwritten_rows": 0, **facts})
        judged = judge(output, r, absax, lengths)
        wrong, unwritten, ratio = judged.wrong, judged.unwritten, judged.ratio
        written = wrong & ~unwritten
        wrong_rows, unwritten_rows = int(wrong.sum()), int(unwritten.sum())
        details: dict[str, Any] = {"wrong_rows": wrong_rows, "unwritten_rows": unwritten_rows}
        if len(r):
            # The worst row that was written says more than one that was not.
            worst = int(np.argmax(np.where(written, ratio, -1.0) if written.any() else ratio))
            details["worst_row"] = worst
            details["worst_row_length"] = int(lengths[worst])
            details["max_error_ratio"] = float(ratio[worst]) if np.isfinite(ratio[worst]) else None
        if not wrong_rows:
            return CheckResult(True, "", details)
        where = f"row {worst:,} ({lengths[worst]:,} nonzeros)"
        if written.any():
            message = (
                f"{wrong_rows:,} of {len(r):,} rows wrong, the worst is {where}: y = {output[worst]:.9g}, "
                f"expected {r[worst]:.9g}, error {judged.error[worst]:.3g} exceeds its bound "
                f"{judged.bound[worst]:.3g}"
            )
            if unwritten_rows:
                message += f"; {unwritten_rows:,} never written"
        else:
            message = f"{unwritten_rows:,} of {len(r):,} rows never written, the first is {where}"
        return CheckResult(False, message, details)

    def scaled(
        self, inputs: Mapping[str, npt.NDArray[Any]], oracle: Mapping[str, npt.NDArray[Any]], factor: float
    ) -> tuple[dict[str, npt.NDArray[Any]], dict[str, npt.NDArray[Any]]]:
        """See :class:`spgraph_bench.problems.base.Problem`."""
        x = inputs["x"]
        changed = {"r": oracle["r"] * factor, "absax": oracle["absax"] * abs(factor)}
        return {**inputs, "x": x * x.dtype.type(factor)}, {**oracle, **changed}

    def turned(
        self, csr: CSR, inputs: Mapping[str, npt.NDArray[Any]], oracle: Mapping[str, npt.NDArray[Any]]
    ) -> tuple[dict[str, npt.NDArray[Any]], dict[str, npt.NDArray[Any]]]:
        """Elements of x with signs changed at random, the same every time. |A| |x| is what it was."""
        x = inputs["x"]
        minus = np.random.PCG64(_TURN_SEED).random_raw(len(x)) >> np.uint64(63) == 1
        changed = np.where(minus, -x, x)
        return {**inputs, "x": changed}, {**oracle, "r": self._product(csr, changed.astype(np.float64), x.dtype)}

    def _product(self, csr: CSR, x: npt.NDArray[np.float64], dtype: np.dtype[Any]) -> npt.NDArray[np.float64]:
        """A x, or A^T x where that is the problem, in float64; A rounded to `dtype`."""
        out = np.zeros(csr.cols if self.transposes else csr.rows)
        lengths = csr.row_lengths()

        def add_up(thread: int, begin: int, end: int) -> None:
            first, last = int(csr.row_ptr[begin]), int(csr.row_ptr[end])
            row, col = begin + np.flatnonzero(lengths[begin:end]), csr.col_idx[first:last]
            with np.errstate(over="ignore", invalid="ignore"):
                a = np.ones(last - first) if csr.values is None else csr.values[first:last].astype(dtype)
                if self.transposes:
                    terms = a * np.repeat(x[begin:end], lengths[begin:end])
                    out[:] += np.bincount(col, terms, minlength=csr.cols)
                elif len(row):
                    # reduceat gives a wrong answer for an empty segment, so only rows with entries take part.
                    out[row] = np.add.reduceat(a * x[col], csr.row_ptr[row] - first)

        over(list(row_ranges(csr.row_ptr)), add_up, 1 if self.transposes else None)
        return out

    transposes = False

    def exact(self, csr: CSR, dtype: np.dtype[Any], draw: int) -> Draw | str:
        """See :class:`spgraph_bench.problems.base.Problem`."""
        lengths = np.bincount(csr.col_idx, minlength=csr.cols) if self.transposes else csr.row_lengths()
        ranges = choose_ranges(int(lengths.max(initial=0)), dtype)
        if isinstance(ranges, str):
            return ranges
        x = small_x(draw, (csr.rows if self.transposes else csr.cols, 1), ranges.x, dtype)
        key = key_of(draw)
        expected = row_sums(csr, x, dtype, key, ranges.values, self.transposes)[:, 0]

        def compare(y: npt.NDArray[Any]) -> str:
            wrong = y != expected
            if not wrong.any():
                return ""
            row = int(np.argmax(wrong))
            return (
                f"{int(wrong.sum()):,} of {len(expected):,} sums of integers differ, the first in row "
                f"{row:,} ({lengths[row]:,} nonzeros): y = {y[row]:.9g}, expected {expected[row]:.9g}"
            )

        return Draw(ranges, key, {"x": x[:, 0]}, compare)

    def work(self, matrix_shape: tuple[int, int], packed: Packed) -> Work:
        rows, cols = matrix_shape
        value = packed.dtype.itemsize
        return Work(
            operations=2 * packed.nnz,
            compulsory_bytes=packed.compulsory_bytes + (rows + cols) * value,
            stored_bytes=packed.stored_bytes,
            gathered_bytes=packed.nnz * value,
        )


register(SpMV())
