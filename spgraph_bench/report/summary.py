"""What records say, in sentences."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from spgraph_bench.report.text import clean, milliseconds, percent, significant, times
from spgraph_bench.results.profiles import profile
from spgraph_bench.results.record import Record
from spgraph_bench.results.tidy import Cache, tidy

__all__ = ["by_problem", "conclusion", "counts", "failures", "inputs_word", "summary"]

Rows = Sequence[Mapping[str, Any]]


def _number(count: int, what: str, many: str | None = None) -> str:
    return f"{count:,} {what if count == 1 else many or what + 's'}"


def counts(tables: Sequence[Sequence[Record]]) -> str:
    """How much there is: "120 cells, 3 problems, 9 matrices, on NVIDIA H200: 100 ok, 20 skipped."."""
    records = [r for table in tables for r in table]
    problems = {r.problem for r in records}
    matrices = {r.matrix.get("sha256") for r in records if r.format != "none"}
    devices = sorted({str(r.device.get("name", "?")) for r in records})
    states = [(s, sum(r.status == s for r in records)) for s in ("ok", "wrong", "failed", "skipped")]
    parts = [_number(len(records), "cell"), _number(len(problems), "problem")]
    if matrices:
        parts.append(_number(len(matrices), "matrix", "matrices"))
    of = ", ".join(f"{n:,} {s}" for s, n in states if n)
    return clean(f"{', '.join(parts)}, on {', '.join(devices)}: {of}.")


def failures(tables: Sequence[Sequence[Record]]) -> list[str]:
    """A sentence for each cell that was wrong or failed."""
    return [
        clean(f"{r.problem} {r.variant} on {r.matrix.get('name', '?')}, {r.dtype}: {r.status}. {r.reason}".strip())
        for table in tables
        for r in table
        if r.status in ("wrong", "failed")
    ]


def by_problem(tables: Sequence[Sequence[Record]], cache: Cache = "cold") -> dict[str, list[dict[str, Any]]]:
    """Tidy rows of all tables by what may be compared: problem and its options, value type, device."""
    rows_of: dict[str, list[dict[str, Any]]] = {}
    for table in tables:
        first = table[0]
        options = [f"{name} {value}" for name, value in first.given_options.items() if first.format != "none"]
        parts = [first.problem, first.dtype, *(options if first.problem == "spmm" else [])]
        rows_of.setdefault(clean(f"{', '.join(parts)} on {first.device.get('name', '?')}"), []).extend(
            tidy(table, cache)
        )
    return rows_of


def conclusion(rows: Rows) -> str:
    """One sentence on one table."""
    timed = [r for r in rows if r["median_ms"] is not None]
    if not timed:
        ok = sum(r["status"] == "ok" for r in rows)
        return f"{_number(ok, 'variant')} checked, none timed." if ok else "Nothing ran."
    best = timed[0]
    rate = f", {significant(best['rate'])} {best['rate_unit']}" if best["rate"] else ""
    share = f", {percent(best['ceiling_share'])} of the measured bandwidth" if best["ceiling_share"] else ""
    what = "is the fastest" if len(timed) > 1 else "is the only one timed"
    text = f"{best['variant']} {what}: {milliseconds(best['median_ms'])} ms{rate}{share}"
    ties = [r["variant"] for r in timed[1:] if r["rank"] == 1]
    if ties:
        shown = ", ".join(ties[:3]) + (f" and {len(ties) - 3} more" if len(ties) > 3 else "")
        text += f"; {shown} {'is' if len(ties) == 1 else 'are'} tied with it"
    library = next((r for r in timed if r["library"] and r["where"] == "gpu"), None)
    own = next((r for r in timed if not r["library"]), None)
    if library and own and own["median_ms"]:
        factor = times(library["median_ms"] / own["median_ms"])
        text += f". {library['library']}'s best takes {factor} the time of spgraph's"
    emulated = sum(r["where"] == "host" and r["status"] == "ok" for r in rows)
    if emulated:
        text += f". {_number(emulated, 'emulated kernel')} checked, not timed"
    return clean(text + ".")


def inputs_word(rows: Rows) -> str:
    """What several inputs of a problem are called."""
    return "inputs" if all(r["format"] == "none" for r in rows) else "matrices"


def _overall(name: str, rows: Rows) -> list[str]:
    """Sentences on one problem over several matrices."""
    shares = profile(rows)
    if len(shares.matrices) < 2:
        return []
    n = len(shares.matrices)
    first = shares.by_merit()[0]
    most = max(shares.ratios, key=lambda v: shares.within(v, 1.0))
    many = inputs_word(rows)

    def on(variant: str, factor: float) -> str:
        count = round(shares.within(variant, factor) * n)
        return f"all {n}" if count == n else str(count)

    text = f"{name}: {most} is the fastest on {on(most, 1.0)} of {n} {many}".replace(
        f"on all {n} of {n}", f"on all {n}"
    )
    if first != most:
        text += f"; {first} is closest to the fastest overall"
    if shares.within(most, 1.0) < 1:
        text += f", within 10 % of it on {on(first, 1.1)} and within a factor of 2 on {on(first, 2.0)}"
    sentences = [text + "."]
    ratios, won, lost = [], 0, 0
    for matrix in {r["sha256"] for r in rows}:
        timed = [r for r in rows if r["sha256"] == matrix and r["median_ms"] and r["where"] == "gpu"]
        own = min((r for r in timed if not r["library"]), key=lambda r: r["median_ms"], default=None)
        library = min((r for r in timed if r["library"]), key=lambda r: r["median_ms"], default=None)
        if own and library:
            ratios.append(library["median_ms"] / own["median_ms"])
            known = own["low_ms"] is not None and library["low_ms"] is not None
            won += known and own["high_ms"] < library["low_ms"]
            lost += known and library["high_ms"] < own["low_ms"]
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        sentences.append(
            f"{name}: the best GPU library takes {times(mean)} the time of spgraph's best kernel in geometric mean "
            f"over {_number(len(ratios), 'matrix', 'matrices')}; spgraph is faster on {won}, slower on {lost}, and the "
            f"intervals meet on {len(ratios) - won - lost}."
        )
    return [clean(s) for s in sentences]


def summary(tables: Sequence[Sequence[Record]], cache: Cache = "cold") -> list[str]:
    """The sentences that a report opens with; :func:`failures` are apart."""
    sentences = [counts(tables)]
    groups = by_problem(tables, cache)
    overall = [s for name, rows in groups.items() for s in _overall(name, rows)]
    if not overall:  # few tables: each has its sentence
        for table in tables[:10]:
            first = table[0]
            name = first.problem if first.format == "none" else f"{first.problem} on {first.matrix.get('name', '?')}"
            sentences.append(clean(f"{name}, {first.dtype}: {conclusion(tidy(table, cache))}"))
    return sentences + overall
