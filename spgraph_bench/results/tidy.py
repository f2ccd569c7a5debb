"""Records as a tidy table: one row a cell, one column a figure. Exports, reports and notebooks are made of it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from spgraph_bench.results.cases import Traversal, compare_traversals
from spgraph_bench.results.record import Record, plain
from spgraph_bench.results.statistics import SETUP, Ratio, Row, compare, ratio

__all__ = ["COLUMNS", "Cache", "derived", "latest", "paired", "table_key", "tables", "tidy"]

COLUMNS: dict[str, str] = {
    "problem": "what was solved",
    "matrix": "name of the matrix, or of the inputs",
    "sha256": "its hash",
    "rows": "rows of the matrix",
    "cols": "columns of the matrix",
    "nnz": "stored entries",
    "dtype": "type of the values",
    "offsets": "type of row offsets",
    "reorder": "order of rows and columns",
    "options": "the problem's options, JSON",
    "variant": "name of the variant",
    "format": "sparse format that it reads",
    "library": "library that it belongs to; empty: spgraph's own",
    "where": "gpu, cpu, or host for kernels that were emulated",
    "params": "tunables, JSON",
    "device": "name of the device",
    "run": "identifies the invocation: ranks and ratios are within one run",
    "status": "ok, wrong, failed or skipped",
    "reason": "why it is not ok",
    "cache": "cold or hot: which samples the figures are of",
    "samples": "how many samples there are",
    "median_ms": "median time; of several sources the median over cycles through all of them, for one source",
    "low_ms": "lower end of its 95 % interval; empty below 6 samples (cycles)",
    "high_ms": "upper end",
    "q1_ms": "lower quartile of the samples; of the sources' medians, if there are several",
    "q3_ms": "upper quartile",
    "rank": "1 + the number of cells of the table that are clearly faster",
    "tied": "whether it is tied with another cell of the table",
    "rate": "operations a second, in rate_unit",
    "rate_unit": "GFLOP/s, GTEPS, ...",
    "gbs": "compulsory bytes over the median, decimal GB/s",
    "ceiling_share": "gbs over the device's measured bandwidth",
    "to_best": "time over that of the fastest cell of the table",
    "to_best_low": "lower end of its interval, at least 90 %",
    "to_best_high": "upper end",
    "to_library": "time over that of the fastest library, on the GPU if there is one",
    "setup_ms": "setup cost, once for each matrix: reorder, convert, upload, preprocess, compile",
    "pays_after": "runs until setup is paid back against the best CSR cell; inf: never",
    "stored_bytes": "size of the matrix in this format",
    "stopped": "why sampling stopped",
}
"""Column -> what it is, in order."""

Cache = Literal["cold", "hot"]


def table_key(record: Record) -> tuple[Any, ...]:
    """What the records of one table share; the first five name its header: run, problem, matrix, device."""
    return (
        record.run,
        record.problem,
        record.matrix.get("sha256"),
        record.device.get("uuid"),
        record.device.get("name"),
        record.dtype,
        record.offsets,
        tuple(record.options.items()),
    )


def tables(records: Iterable[Record]) -> list[list[Record]]:
    """`records` by the table that they belong to, in the order met."""
    groups: dict[tuple[Any, ...], list[Record]] = {}
    for record in records:
        groups.setdefault(table_key(record), []).append(record)
    return list(groups.values())


def latest(records: Iterable[Record]) -> list[list[Record]]:
    """:func:`tables` without those of which a later run on a device of the same name has every cell again."""
    newest: list[list[Record]] = []
    again: dict[tuple[Any, ...], set[tuple[str, ...]]] = {}
    for table in reversed(tables(records)):
        _, problem, matrix, _, *others = table_key(table[0])
        cells = {(r.variant, r.format, r.reorder, json.dumps(plain(r.params))) for r in table}
        later = again.setdefault((problem, matrix, *others), set())
        if not cells <= later:
            newest.append(table)
        later |= cells
    return newest[::-1]


def tidy(records: Sequence[Record], cache: Cache = "cold") -> list[dict[str, Any]]:
    """A row for each of `records` with the keys of :data:`COLUMNS`: plain numbers, texts, and None where there is none.

    Rows of one table follow each other, the fastest first. Times in ms, sizes in bytes.
    """
    return [row for _, row in paired(records, cache)]


def paired(records: Sequence[Record], cache: Cache = "cold") -> list[tuple[Record, dict[str, Any]]]:
    """The rows of :func:`tidy`, each with its record."""
    rows: list[tuple[Record, dict[str, Any]]] = []
    for table in tables(records):
        if any(record.cases for record in table):
            searches = compare_traversals(table, cache)
            best = next((s for s in sorted(searches, key=_mean) if s.cycle is not None), None)
            rows += [(s.record, _search(s, best, cache)) for s in searches]
        else:
            rows += [(row.record, _product(row, cache)) for row in compare(table, cache)]
    return rows


_DERIVED = (
    "median_ms",
    "low_ms",
    "high_ms",
    "q1_ms",
    "q3_ms",
    "rank",
    "tied",
    "rate",
    "rate_unit",
    "gbs",
    "ceiling_share",
    "to_best",
    "to_best_low",
    "to_best_high",
    "to_library",
    "setup_ms",
    "pays_after",
)


def derived(records: Sequence[Record]) -> list[dict[str, Any]]:
    """For each of `records`, in their order, what follows from them: {"where": ..., "cold": {...}, "hot": {...}} with
    those of :data:`COLUMNS` that are not facts of the record itself. Missing figures are omitted; an
    infinite one is "inf". A record without samples has neither "cold" nor "hot"."""
    figures: dict[int, dict[str, Any]] = {id(record): {"where": _where(record)} for record in records}
    caches: tuple[Cache, ...] = ("cold", "hot")
    for cache in caches:
        for record, row in paired(records, cache):
            if record.sampled(cache) is not None:
                values = {k: row[k] for k in _DERIVED if row[k] is not None}
                figures[id(record)][cache] = {k: "inf" if v == math.inf else v for k, v in values.items()}
    return [figures[id(record)] for record in records]


def _where(record: Record) -> str:
    """Where the variant ran: "gpu", "cpu", or "host" for a kernel that was emulated."""
    return "host" if record.where == "gpu" and record.device.get("kind") == "host" else record.where


def _mean(search: Traversal) -> float:
    return math.inf if search.mean is None else search.mean


def _cell(record: Record, cache: Cache) -> dict[str, Any]:
    """What a record says by itself."""
    matrix, device = record.matrix, record.device
    plain = record.to_json()
    samples = record.sampled(cache)
    sizes = {k: matrix.get(k) for k in ("rows", "cols", "nnz")} if record.format != "none" else {}
    return dict.fromkeys(COLUMNS) | {
        "problem": record.problem,
        "matrix": matrix.get("name"),
        "sha256": matrix.get("sha256"),
        **sizes,
        "dtype": record.dtype,
        "offsets": record.offsets,
        "reorder": record.reorder,
        "options": json.dumps(plain["options"]),
        "variant": record.variant,
        "format": record.format,
        "library": record.library,
        "where": _where(record),
        "params": json.dumps(plain["params"]),
        "device": device.get("name"),
        "run": record.run,
        "status": record.status,
        "reason": record.reason or None,
        "cache": cache,
        "samples": len(samples.times_ms) if samples else 0,
        "stored_bytes": record.bytes.get("stored"),
        "stopped": samples.stopped if samples else None,
    }


def _ratio(value: Ratio | None) -> dict[str, Any]:
    if value is None:
        return {}
    return {"to_best": value.value, "to_best_low": value.low, "to_best_high": value.high}


def _product(row: Row, cache: Cache) -> dict[str, Any]:
    cell = _cell(row.record, cache) | {"setup_ms": row.setup_ms if row.record.times else None}
    main = row.main
    if main is None:
        return cell
    span = main.interval
    return cell | {
        "median_ms": main.median,
        "low_ms": span.low if span else None,
        "high_ms": span.high if span else None,
        "q1_ms": main.q1,
        "q3_ms": main.q3,
        "rank": row.rank,
        "tied": row.tied,
        "rate": row.rate,
        "rate_unit": row.record.rate_unit,
        "gbs": row.gbs,
        "ceiling_share": row.ceiling_share,
        **_ratio(row.to_best),
        "to_library": row.to_library.value if row.to_library else None,
        "pays_after": row.pays_after,
    }


def _search(search: Traversal, best: Traversal | None, cache: Cache) -> dict[str, Any]:
    record = search.record
    setup = sum(record.times.get(f"{step}_ms", 0.0) for step in SETUP)
    cell = _cell(record, cache) | {"setup_ms": setup if record.times else None}
    if search.mean is None:
        return cell
    span, count = search.cycle, max(len(record.cases), 1)
    to_best = ratio(span, best.cycle) if span and best and best.cycle else None
    return cell | {
        "median_ms": span.median / count if span else search.mean,
        "low_ms": span.low / count if span else None,
        "high_ms": span.high / count if span else None,
        "q1_ms": search.q1,
        "q3_ms": search.q3,
        "rank": search.rank,
        "rate": search.gteps,
        "rate_unit": record.rate_unit if search.gteps is not None else None,
        **(_ratio(to_best) or {"to_best": search.to_best}),
    }
