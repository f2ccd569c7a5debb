"""The Python API: read a matrix, check and time variants on it, look at what came of it.

::

    import spgraph_bench

    results = spgraph_bench.bench("matrix.mtx", "spmv", variants=["csr-*", "sell"])
    results.best()["variant"]
    results.to_pandas()
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from spgraph_bench import fetching, readers, recipes, writers
from spgraph_bench.device.probe import choose_device
from spgraph_bench.errors import InputError, NothingRanError, UsageError
from spgraph_bench.matrix import Matrix, Source
from spgraph_bench.parameters import BASELINE_SECONDS, MIN_SAMPLES, WARMUP, Parameter
from spgraph_bench.problems import get_problem, problems
from spgraph_bench.problems.base import Problem
from spgraph_bench.readers.assemble import assemble
from spgraph_bench.readers.common import RawEntries, ReadOptions
from spgraph_bench.report import render
from spgraph_bench.report.export import SUFFIXES, export
from spgraph_bench.report.page import html_bytes, tables_html
from spgraph_bench.results.comparison import Comparison, compare_records
from spgraph_bench.results.record import Record
from spgraph_bench.results.store import read_records, to_json_lines
from spgraph_bench.results.tidy import COLUMNS, paired, tidy
from spgraph_bench.runner.assembly import generated_matrix
from spgraph_bench.runner.choosing import check_params, chosen_variants, smaller_on_host, vertex_numbers
from spgraph_bench.runner.run import run
from spgraph_bench.runner.session import Session
from spgraph_bench.runner.settings import Settings

if TYPE_CHECKING:
    import pandas

__all__ = ["Results", "bench", "read"]

Cache = Literal["cold", "hot"]
Names = str | Sequence[str]


class Results(Sequence[Record]):
    """Records, and what follows from them. Immutable; ``a + b`` has the records of both.

    In a notebook it shows itself as tables; ``print(results)`` gives those of the terminal.
    """

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self.records: tuple[Record, ...] = tuple(records)

    @classmethod
    def load(cls, *paths: str | os.PathLike[str]) -> Results:
        """Those in files of records (``.jsonl``) or folders of them. Raises InputError with file and line."""
        return cls(read_records(list(paths), lambda text: warnings.warn(text, stacklevel=4)))

    def __len__(self) -> int:
        return len(self.records)

    def __iter__(self) -> Iterator[Record]:
        return iter(self.records)

    def __getitem__(self, index: Any) -> Any:
        chosen = self.records[index]
        return Results(chosen) if isinstance(index, slice) else chosen

    def __add__(self, other: Iterable[Record]) -> Results:
        return Results([*self.records, *other])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Results) and self.records == other.records

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        what = ", ".join(sorted({r.problem for r in self.records})) or "no records"
        ok = sum(r.status == "ok" for r in self.records)
        return f"<Results: {what}, {len(self)} cells, {ok} ok>"

    def __str__(self) -> str:
        return render(self.records).rstrip("\n")

    def _repr_html_(self) -> str:
        return tables_html(self.records)

    def rows(self, cache: Cache = "cold") -> list[dict[str, Any]]:
        """A dict for each record, with the columns of docs/report.md: medians, intervals, ranks, rates, ratios."""
        return tidy(self.records, cache)

    def to_pandas(self, cache: Cache = "cold") -> pandas.DataFrame:
        """:meth:`rows` as a DataFrame, a row a cell. Raises UsageError where pandas is not installed."""
        try:
            import pandas
        except ImportError:
            raise UsageError("pandas is not installed", remedy="pip install pandas") from None
        return pandas.DataFrame(self.rows(cache), columns=list(COLUMNS))

    def where(self, **columns: Any) -> Results:
        """The records whose row has these values: ``where(dtype="float64", matrix="rmat18")``.

        Raises UsageError for a name that is not a column.
        """
        for name in columns:
            if name not in COLUMNS:
                raise UsageError(f"there is no column {name!r}", remedy=f"one of {', '.join(COLUMNS)}")
        chosen = {
            id(record)
            for record, row in paired(self.records)
            if all(row[name] == value for name, value in columns.items())
        }
        return Results(r for r in self.records if id(r) in chosen)

    def best(self, cache: Cache = "cold", **columns: Any) -> dict[str, Any]:
        """The row of the fastest cell (of those :meth:`where` leaves).

        Raises UsageError where the cells are of several tables, so that their times do not compare, and
        NothingRanError where none was timed, as is the case of kernels on the host device.
        """
        rows = [row for row in self.where(**columns).rows(cache) if row["median_ms"] is not None]
        if not rows:
            raise NothingRanError("no cell was timed", remedy="kernels are timed on a GPU only")
        for name in ("problem", "matrix", "sha256", "dtype", "options", "device"):
            values = list(dict.fromkeys(str(row[name]) for row in rows))
            if len(values) > 1:
                raise UsageError(
                    f"these results differ in {name}: {', '.join(values[:5])}", remedy=f"best({name}=...) chooses"
                )
        return min(rows, key=lambda row: float(row["median_ms"]))

    def compare(
        self, base: Iterable[Record], *, threshold: float = 0.03, cache: Cache = "cold", allow: Iterable[str] = ()
    ) -> Comparison:
        """These against `base`, cell by cell: faster, slower, same or unsure (docs/compare.md).

        Raises UsageError where the two were measured on other devices, drivers, libraries or by other policies that
        `allow` does not name, and NothingRanError where they have no cell in common.
        """
        comparison = compare_records(list(base), self.records, threshold=threshold, cache=cache, allow=tuple(allow))
        if not comparison.cells:
            raise NothingRanError("no cell is in both", remedy="same matrix, problem, variant and dtype make a cell")
        if comparison.refused:
            name, text = next(iter(comparison.refused.items()))
            raise UsageError(f"the sides differ in {name}: {text}", remedy=f"allow=[{name!r}], where that is meant")
        return comparison

    def save(self, path: str | os.PathLike[str], *, cache: Cache = "cold", overwrite: bool = False) -> None:
        """Write them, in the form of the suffix: .jsonl (records), .html, .csv, .md, .tex or .parquet.

        Raises UsageError for another suffix, or where the file is there and `overwrite` is not given.
        """
        target = Path(path)
        suffix = target.suffix.lower()
        if suffix not in (".jsonl", ".html", *SUFFIXES):
            known = ", ".join((".jsonl", ".html", *SUFFIXES))
            raise UsageError("nothing is written with this suffix", place=str(path), remedy=f"one of {known}")
        writers.check_place(target, overwrite)
        if suffix == ".jsonl":
            data = to_json_lines(self.records).encode("utf-8", "backslashreplace")
        else:
            data = (
                html_bytes(self.records, cache) if suffix == ".html" else export(self.records, SUFFIXES[suffix], cache)
            )
        with writers.whole_file(target, overwrite) as stream:
            stream.write(data)


def read(source: Any, **options: Any) -> Matrix:
    """The matrix of `source`.

    Parameters
    ----------
    source : the path of a file, the text of a recipe ("rmat:scale=18"), a name of a collection ("HB/1138_bus",
        "snap:wiki-Vote": fetched where it is not there yet), or a scipy.sparse matrix or array.
    options : how to read a file, the fields of ``ReadOptions``: ``base=0``, ``symmetrize=True``, ``values="ones"``,
        ``duplicates="min"``, ...

    Raises InputError for what cannot be read, UsageError for options where there is no file.
    """
    wanted = ReadOptions(**options)
    if hasattr(source, "tocoo"):
        return _of_scipy(source, wanted)
    text = os.fspath(source)
    if os.path.lexists(text):
        return readers.read(text, wanted)
    if fetching.is_collection_name(text):
        return readers.read(str(fetching.fetch(text)), wanted)
    if text.partition(":")[0] in recipes.names():
        if options:
            raise UsageError("options of reading do not apply to a recipe", remedy="set the recipe's own parameters")
        return recipes.make(text)
    raise InputError(f"{text}: no such file or recipe", remedy="`spgraph list recipes` names the recipes")


def _of_scipy(array: Any, options: ReadOptions) -> Matrix:
    """A matrix in memory; its values as float64, or none where they are bool."""
    if array.ndim != 2:
        raise InputError(f"an array of {array.ndim} dimensions is not a matrix", remedy="give one of two dimensions")
    coo = array.tocoo()
    row, col, values = coo.row, coo.col, coo.data
    if values.dtype.kind == "b":
        row, col, values = row[values], col[values], None
    elif values.dtype.kind not in "fc":
        values = values.astype("float64")
    rows, cols = coo.shape
    # Copies: the assembly gives arrays up, which are the caller's.
    raw = RawEntries(rows, cols, row.copy(), col.copy(), None if values is None else values.copy(), "scipy")
    return assemble(raw, options, "scipy", Source("array", "scipy.sparse", "scipy"))


def bench(
    matrix: Any = None,
    problem: str = "spmv",
    *,
    variants: Names = (),
    formats: Names = (),
    dtypes: Names = (),
    device: str = "auto",
    reorder: Names = "none",
    options: Mapping[str, Any] | None = None,
    params: Mapping[str, Any] | None = None,
    seed: int = 1,
    time_limit: float = 0.25,
    min_samples: int | None = None,
    warmup: int | None = None,
    baseline_seconds: float | None = None,
    force_format: bool = False,
    in_process: bool = False,
    watchdog: float = 60.0,
    progress: Callable[[str], None] | None = None,
    on_record: Callable[[Record], None] | None = None,
) -> Results:
    """Check and time variants of `problem` on `matrix`: what ``spgraph bench`` does, without files and tables.

    Parameters
    ----------
    matrix : a ``Matrix``, or what :func:`read` takes. None for problems that make their own inputs.
    problem : its name: "spmv", "bfs", ...
    variants, formats : globs on names, one or several; none means all that fit.
    dtypes : value types; none means float32, or the problem's own.
    device : "auto", "host", "cuda" or "cuda:1". The host device checks kernels and times none.
    reorder : orders of rows and columns, "none", "degree", "rcm".
    options : the problem's own: ``{"k": 32}`` of spmm, ``{"source": 0}`` of bfs. A vertex is a number from 0 on, or,
        as a str, what the input calls it.
    params : tunables of formats and variants, as ``--param``.
    time_limit : seconds of sampling for each variant and type.
    min_samples : samples of each series at least, from 6, even past the time limit; None: 20, or 6 past it.
    warmup : runs before the first sample; None: 3.
    baseline_seconds : for all CPU baselines together, after the kernels; what it is not enough for is skipped. None:
        10, or no limit where no kernel runs.
    in_process : without a worker process: for profilers; a kernel that hangs then hangs you.
    watchdog : seconds that a launch may take in a worker.
    progress : called with what is being done, often.
    on_record : called with each record as its cell ends; after an exception you have those.

    Raises UsageError, InputError or DeviceError (``spgraph_bench.errors``), each with its remedy. What goes wrong with
    a variant is a record.
    """
    if problem not in problems():
        raise UsageError(f"there is no problem {problem!r}", remedy=f"one of {', '.join(problems())}")
    wanted = get_problem(problem)
    chosen = chosen_variants(problem, _several(variants), _several(formats))
    check_params(chosen, params or {})
    types = _types(wanted, _several(dtypes))
    if wanted.needs_matrix == (matrix is None):
        what = "needs a matrix" if matrix is None else "makes its own inputs and takes no matrix"
        raise UsageError(f"{problem} {what}", remedy="see its options: spgraph show " + problem)
    choice = choose_device(device)
    if choice.warning:
        warnings.warn(choice.warning, stacklevel=2)
    records: list[Record] = []

    def keep(record: Record) -> None:
        records.append(record)
        if on_record is not None:
            on_record(record)

    with Session(choice.name, in_process=in_process, watchdog=watchdog, variants=chosen) as session:
        own = dict(options or {})
        if unknown := own.keys() - wanted.options.keys():
            known = ", ".join(wanted.options) or "it has none"
            raise UsageError(f"{problem} has no option {sorted(unknown)[0]!r}", remedy=known)
        if choice.name == "host":  # emulated kernels are slow
            own = smaller_on_host(wanted, own) | own
        given = _input(wanted, matrix, own)
        own = vertex_numbers(problem, own, given)
        settings = Settings(
            dtypes=types,
            params=dict(params or {}),
            seed=seed,
            force_format=force_format,
            time_limit_s=time_limit,
            min_samples=_checked(MIN_SAMPLES, "min_samples", min_samples),
            warmups=_checked(WARMUP, "warmup", warmup),
            baseline_seconds=_checked(BASELINE_SECONDS, "baseline_seconds", baseline_seconds),
            options=own,
            reorder=tuple(dict.fromkeys(_several(reorder))),
        )
        run(session, given, problem, chosen, settings, keep, progress or (lambda text: None))
    return Results(records)


def _checked(parameter: Parameter, name: str, value: Any) -> Any:
    return None if value is None else parameter.checked(name, value)


def _several(names: Names) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def _input(problem: Problem, matrix: Any, options: Mapping[str, Any]) -> Matrix:
    if matrix is None:
        return generated_matrix(problem, options)
    if isinstance(matrix, Matrix):
        return matrix
    if not hasattr(matrix, "tocoo"):
        text = os.fspath(matrix)
        if not os.path.lexists(text) and fetching.is_collection_name(text):
            text = str(fetching.fetch(text))
        if os.path.lexists(text):
            return readers.read(text, replace(ReadOptions(), parallel=problem.parallel))
    return read(matrix)


def _types(problem: Problem, dtypes: tuple[str, ...]) -> tuple[str, ...]:
    if not dtypes:
        return ("float32",) if "float32" in problem.dtypes else problem.dtypes[:1]
    for dtype in dtypes:
        if dtype not in problem.dtypes:
            raise UsageError(
                f"{problem.name} is not available in {dtype}", remedy=f"one of {', '.join(problem.dtypes)}"
            )
    return dtypes
