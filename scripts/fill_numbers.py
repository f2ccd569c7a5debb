"""Put the numbers of README.md, docs/*.md and the README.md of results/* and cuda/* in their places, from the records.

    fill_numbers.py            write them
    fill_numbers.py --check    exit status 1 where a number differs from its record, or a mark is missing

A place is what is between ``<!-- numbers: NAME ARGUMENTS -->`` and ``<!-- end -->``; the functions
decorated with ``@place`` below write them. Only whole records are taken: ok, sampled to the end, with an
interval (6 samples or more); what has none is shown as "-". A number gets the mark † where a kernel of
its record has other tokens by now, or where the record does not say which kernel it was. Comments and layout do
not count, nor do changes that left the machine code as it was (results/same_code.toml). A mark too many is no
error: it goes when the script is run.
"""

from __future__ import annotations

import argparse
import csv
import functools
import itertools
import math
import re
import sys
import tomllib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from spgraph_bench.errors import SpgraphError
from spgraph_bench.report import render
from spgraph_bench.report.text import milliseconds, significant
from spgraph_bench.results.cases import traversal
from spgraph_bench.results.interval import Interval
from spgraph_bench.results.launch import costs
from spgraph_bench.results.record import Record
from spgraph_bench.results.statistics import timing
from spgraph_bench.results.store import read_records
from spgraph_bench.toolchain.sources import kernel_tokens

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "results" / "h200"
SAME_CODE = ROOT / "results" / "same_code.toml"
READING_ORDER = ROOT / "cuda" / "reading_order.toml"
MARK = "†"
PLACE = re.compile(r"(<!-- numbers: ([^\n]*?) -->\n)(.*?)(<!-- end -->)", re.DOTALL)

RECIPES = {
    "spmv-banded-4M-27": "banded, 27 diagonals, 4 M rows",
    "spmv-poisson2d-2048": "5-point Poisson 2048^2",
    "spmv-blocks-900-3": "3x3-block Poisson 900^2",
    "spmv-uniform-4M-16": "uniform, 16 a row, 4 M rows",
    "spmv-rmat22": "rmat22",
    "spmv-rmat18": "rmat18",
    "spmv-poisson2d-300": "5-point Poisson 300^2",
}
REAL = {f"spmv-{name}": name for name in ("bcsstk13", "cage10", "bayer10", "arrow", "rajat01")}
DTYPES = ("float32", "float64")


class MissingError(Exception):
    """A place wants something that there is not."""


# ---- records ----------------------------------------------------------------------------------------------


@functools.cache
def records(stem: str) -> tuple[Record, ...]:
    """The records of results/h200/STEM.jsonl; none where there is no such file."""
    path = RESULTS / f"{stem}.jsonl"
    return tuple(read_records(path)) if path.exists() else ()


def whole(record: Record) -> bool:
    """Whether it can be a reference: ok, and not broken off."""
    samples = record.sampled("cold")
    return (
        record.status == "ok"
        and samples is not None
        and samples.stopped not in ("interrupted", "failed")
        and len(samples.times_ms) >= max(6, len(record.cases))
    )


@functools.cache
def _tokens(source: str) -> str:
    try:
        return kernel_tokens(source)
    except SpgraphError:  # it is gone
        return ""


@functools.cache
def _same_code() -> dict[tuple[str, str], str]:
    """Of a source and its tokens before a change that left its machine code as it was, the tokens after it."""
    changes = tomllib.loads(SAME_CODE.read_text(encoding="utf-8"))
    return {(source, before): after for pairs in changes.values() for source, (before, after) in pairs.items()}


def _is_another(source: str, tokens: str) -> bool:
    now, seen = _tokens(source), set()
    while tokens != now and tokens not in seen:
        seen.add(tokens)
        tokens = _same_code().get((source, tokens), tokens)
    return tokens != now


def changed(record: Record) -> bool:
    """Whether a kernel of it is another one now, or it does not say which it was. Libraries have none."""
    if record.library:
        return False
    return not record.modules or any(_is_another(str(m["source"]), m["tokens"]) for m in record.modules)


def marked(text: str, *of: Record | None) -> str:
    """`text`, with the mark where it is due."""
    return text + MARK * any(changed(r) for r in of if r is not None)


def find(stem: str, variant: str, **fields: Any) -> Record | None:
    """The whole record of a variant, or None."""
    for r in records(stem):
        if r.variant == variant and whole(r) and all(getattr(r, k) == v for k, v in fields.items()):
            return r
    return None


def span(record: Record) -> Interval:
    """Median and 95 % interval of the cold samples, ms. The record must be whole."""
    timed = timing(record.sampled("cold"))
    assert timed is not None
    assert timed.interval is not None
    return timed.interval


def ms(record: Record | None) -> float | None:
    """Cold median; of traversals the median over sources."""
    if record is None:
        return None
    return traversal(record, "cold").median if record.cases else span(record).median


def shown(record: Record | None, scale: float = 1.0, name: bool = False) -> str:
    """Its time, marked; "-" where there is none."""
    value = ms(record)
    if value is None or record is None:
        return "-"
    return marked(milliseconds(value * scale), record) + (f" {record.variant}" if name else "")


def fastest(candidates: Iterable[Record]) -> Record | None:
    """The whole record with the least cold median, or None."""
    return min((r for r in candidates if whole(r)), key=lambda r: span(r).median, default=None)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


# ---- SpMV -------------------------------------------------------------------------------------------------


def ours(r: Record) -> bool:
    """Whether a kernel of spgraph on the GPU was timed."""
    return r.library is None and r.where == "gpu"


def cusparse(r: Record) -> bool:
    """Whether a routine of cuSPARSE was timed."""
    return r.library == "cuSPARSE"


def spmv(stem: str, dtype: str, keep: Callable[[Record], bool], reorder: str = "none") -> Record | None:
    """The fastest of the records of `stem` with that type and order that `keep` selects."""
    return fastest(r for r in records(stem) if r.dtype == dtype and r.reorder == reorder and keep(r))


def plain_csr(r: Record) -> bool:
    """Whether it is a CSR kernel of spgraph."""
    return ours(r) and r.format == "csr"


def their_csr(r: Record) -> bool:
    """Whether it is a CSR routine of cuSPARSE."""
    return cusparse(r) and r.format == "csr"


def generic(r: Record) -> bool:
    """Not compiled for the matrix; of old records, which do not say, dia was."""
    return ours(r) and not r.for_matrix and (bool(r.modules) or r.variant != "dia")


def ratio(theirs: Record | None, mine: Record | None) -> str:
    """How many times as fast ours is; with "=" where the intervals meet."""
    if theirs is None or mine is None:
        return "-"
    a, b = span(theirs), span(mine)
    return marked(f"{'=' * a.overlaps(b)}{significant(a.median / b.median)}", mine)


Pair = tuple[str, Record | None, Record | None]


def summary(pairs: Sequence[Pair]) -> str:
    """Geometric mean, least, won, tied and lost of (matrix, theirs, ours)."""
    there = [(name, a, b) for name, a, b in pairs if a is not None and b is not None]
    if not there:
        return "-"
    ratios = {name: span(a).median / span(b).median for name, a, b in there}
    least = min(ratios, key=lambda name: ratios[name])
    won = sum(span(b).below(span(a)) for _, a, b in there)
    lost = sum(span(a).below(span(b)) for _, a, b in there)
    mean = math.exp(sum(map(math.log, ratios.values())) / len(ratios))
    text = marked(f"**{significant(mean)}**", *(b for _, _, b in there))
    count = f"{won} won, {len(there) - won - lost} tied, {lost} lost"
    return f"{text}, least {significant(ratios[least])} ({least}); {count}"


def one_for_all(stems: Iterable[str], dtype: str, keep: Callable[[Record], bool]) -> str | None:
    """The variant with the least geometric mean of times among those that ran on all of these matrices."""
    logs: dict[str, list[float]] = {}
    stems = list(stems)
    for stem in stems:
        for r in records(stem):
            if r.dtype == dtype and r.reorder == "none" and keep(r) and whole(r):
                logs.setdefault(r.variant, []).append(math.log(span(r).median))
    everywhere = {name: sum(each) for name, each in logs.items() if len(each) == len(stems)}
    return min(everywhere, key=lambda name: everywhere[name], default=None)


def _pairs(stems: dict[str, str], dtype: str, row: str, prefix: str = "") -> tuple[str, list[Pair]]:
    """For a row of the headlines: which variants, if one for all, and the pairs."""
    keep = {"all": (cusparse, ours), "generic": (cusparse, generic), "csr": (their_csr, plain_csr)}
    if row != "one":
        theirs, mine = keep[row]
        return "", [
            (stem.removeprefix("spmv-"), spmv(prefix + stem, dtype, theirs), spmv(prefix + stem, dtype, mine))
            for stem in stems
        ]
    names = [*RECIPES, *REAL]
    mine_name, theirs_name = (one_for_all(names, dtype, keep) for keep in (generic, cusparse))
    if mine_name is None or theirs_name is None:
        return "", []
    pairs = [
        (
            stem.removeprefix("spmv-"),
            find(prefix + stem, theirs_name, dtype=dtype, reorder="none"),
            find(prefix + stem, mine_name, dtype=dtype, reorder="none"),
        )
        for stem in stems
    ]
    return f"{mine_name} against {theirs_name}: ", pairs


ROWS = {
    "all": "best of all against cuSPARSE's best in any format",
    "generic": "the same without what is compiled for the matrix (dia-jit)",
    "csr": "best on plain CSR against cuSPARSE's best on CSR",
    "one": "the best single variant for all matrices against cuSPARSE's best single routine",
}


def place(name: str) -> Callable[[Callable[..., str]], Callable[..., str]]:
    """Register the decorated function as what writes the places called `name`."""

    def enter(function: Callable[..., str]) -> Callable[..., str]:
        PLACES[name] = function
        return function

    return enter


PLACES: dict[str, Callable[..., str]] = {}


@place("spmv-headlines")
def spmv_headlines() -> str:
    """Table: cuSPARSE's time over spgraph's, geometric means over recipes and real files, by value type."""
    head = ["cuSPARSE's time over spgraph's", "matrices", *DTYPES]
    rows = []
    for row, about in ROWS.items():
        for number, (kind, stems) in enumerate((("recipes", RECIPES), ("real files", REAL))):
            cells = []
            for dtype in DTYPES:
                names, pairs = _pairs(stems, dtype, row)
                cells.append(names + summary(pairs))
            rows.append([about if not number else "", f"{len(stems)} {kind}", *cells])
    return table(head, rows) + "\n" + _where_it_loses()


def _where_it_loses() -> str:
    lost: dict[str, list[str]] = {}
    for row in ("all", "generic", "csr"):
        for dtype, stems in itertools.product(DTYPES, (RECIPES, REAL)):
            for name, a, b in _pairs(stems, dtype, row)[1]:
                if a is not None and b is not None and span(a).below(span(b)):
                    lost.setdefault(row, []).append(f"{name} {dtype} ({significant(span(a).median / span(b).median)})")
    if not lost:
        return "It loses on none of them.\n"
    words = {"all": "best of all", "generic": "without dia-jit", "csr": "plain CSR"}
    return "It loses: " + "; ".join(f"{words[row]}: {', '.join(each)}" for row, each in lost.items()) + ".\n"


@place("spmv-second-gpu")
def spmv_second_gpu() -> str:
    """Table: the same ratios from the records of a second GPU."""
    head = ["on a second H200", *DTYPES]
    rows = []
    for row, about in list(ROWS.items())[:3]:
        rows.append([about, *(summary(_pairs(RECIPES, dtype, row, "second-gpu/")[1]) for dtype in DTYPES)])
    return table(head, rows)


@place("spmv")
def spmv_table(dtype: str, kind: str = "recipes") -> str:
    """Table: for each matrix the best kernel of spgraph and of cuSPARSE, and the best in CSR."""
    stems = RECIPES if kind == "recipes" else REAL
    head = ["matrix", "best", "without dia-jit", "cuSPARSE's best", "ratio", "plain CSR", "cuSPARSE's CSR", "ratio"]
    rows = []
    for stem, name in stems.items():
        best, plain, theirs, mine, csr = (
            spmv(stem, dtype, keep) for keep in (ours, generic, cusparse, plain_csr, their_csr)
        )
        rows.append(
            [
                name,
                *(shown(r, name=True) for r in (best, plain, theirs)),
                ratio(theirs, best),
                *(shown(r, name=True) for r in (mine, csr)),
                ratio(csr, mine),
            ]
        )
    return table(head, rows)


@place("spmv-degree")
def spmv_degree() -> str:
    """Table: rmat18 in its own order and ordered by degree."""
    rows = []
    for order in ("none", "degree"):
        stem = "spmv-rmat18" if order == "none" else "spmv-rmat18-degree"
        best, theirs = (spmv(stem, "float32", keep, order) for keep in (ours, cusparse))
        mine, csr = (spmv(stem, "float32", keep, order) for keep in (plain_csr, their_csr))
        rows.append(
            [
                {"none": "as it is", "degree": "by degree"}[order],
                *(shown(r, name=True) for r in (best, theirs)),
                ratio(theirs, best),
                *(shown(r, name=True) for r in (mine, csr)),
                ratio(csr, mine),
            ]
        )
    head = ["rmat18, float32", "best", "cuSPARSE's best", "ratio", "plain CSR", "cuSPARSE's CSR", "ratio"]
    return table(head, rows)


@place("spmv-ones")
def spmv_ones() -> str:
    """Table: times in us on matrices whose values are all 1."""
    stems = {"spmv-banded-4M-27-ones": "band of ones", "spmv-poisson2d-2048-ones": "Poisson 2048^2 of ones"}
    names = dict.fromkeys(r.variant for stem in stems for r in records(stem) if whole(r))
    rows = [[f"`{n}`", *(shown(find(stem, n), 1e3) for stem in stems)] for n in names]
    return table(["us", *stems.values()], rows)


@place("spmv-setup")
def spmv_setup() -> str:
    """Table: time, setup cost and break-even of the fastest variants."""
    head = ["matrix, float32", "variant", "ms", "setup, ms", "of it compile", "pays after"]
    from spgraph_bench.results.statistics import compare

    rows = []
    for stem, name in RECIPES.items():
        ranked = compare([r for r in records(stem) if r.dtype == "float32" and whole(r)])
        best = [next((r for r in ranked if keep(r.record)), None) for keep in (ours, generic)]
        for row in dict.fromkeys(id(r) for r in best if r is not None):
            best_row = next(r for r in best if id(r) == row)
            assert best_row is not None
            compile_ms = best_row.record.times.get("matrix_compile_ms")
            after = best_row.pays_after
            rows.append(
                [
                    name,
                    best_row.record.variant,
                    shown(best_row.record),
                    significant(best_row.setup_ms),
                    significant(compile_ms) if compile_ms else "",
                    "-" if after is None else "never" if math.isinf(after) else f"{after:,.0f}",
                ]
            )
    return table(head, rows)


@place("table")
def printed(stem: str, dtype: str, until: str = "setup, once for each matrix") -> str:
    """One table as it is printed, up to the line `until`."""
    chosen = [r for r in records(stem) if r.dtype == dtype]
    if not chosen:
        raise MissingError(f"no records of {stem} {dtype}")
    text = render(chosen)
    text = text[: text.index(until)] if until in text else text
    stale = {r.variant for r in chosen if changed(r)}
    lines = []
    for line in text.rstrip().splitlines():
        words = line.split()
        ranked = len(words) > 2 and re.fullmatch(r"=?\d+|\?", words[0]) and words[1] in stale
        lines.append(line + f" {MARK}" if ranked else line)
    return "```text\n" + "\n".join(lines) + "\n```\n"


# ---- SpMM -------------------------------------------------------------------------------------------------


@place("spmm")
def spmm() -> str:
    """Table: the kernels of spgraph and of cuSPARSE for k = 32."""
    stems = {
        "spmm-rmat18-k32": "rmat18",
        "spmm-poisson2d-1000-k32": "5-point Poisson 1000^2",
        "spmm-bcsstk13-k32": "bcsstk13",
        "spmm-cage10-k32": "cage10",
    }
    rows = []
    for stem, name in stems.items():
        best, theirs = fastest(filter(ours, records(stem))), fastest(filter(cusparse, records(stem)))
        each = [shown(find(stem, v)) for v in ("csr-row", "csr-tile", "ell")]
        rows.append([name, *each, shown(theirs, name=True), ratio(theirs, best)])
    return table(["matrix", "csr-row", "csr-tile", "ell", "cuSPARSE's best", "ratio"], rows)


# ---- graphs -----------------------------------------------------------------------------------------------

GRAPHS = {
    "bfs-rmat18": "rmat18, symmetrised",
    "bfs-rmat20": "rmat20, symmetrised",
    "bfs-rmat20-degree": "rmat20, neighbours by degree",
    "bfs-rmat22": "rmat22, symmetrised",
    "bfs-rmat22-degree": "rmat22, neighbours by degree",
    "bfs-uniform-1M-16": "uniform, 2^20 x 16",
    "bfs-powerlaw-1M": "power law, 10^6",
    "bfs-star-1M": "star, 10^6",
    "bfs-wiki-Vote": "wiki-Vote",
    "bfs-delaunay_n16": "delaunay_n16",
    "bfs-bcspwr10": "bcspwr10",
    "bfs-grid-1000": "grid 1000 x 1000 from a corner, 1,999 levels",
    "bfs-chain-10k": "chain of 10,000 from its end",
}


@place("batches")
def batches(*stems: str) -> str:
    """Table: 64 sources in a run, together and one after another."""
    rows = [
        [
            GRAPHS["bfs-" + stem.removesuffix("-batch").partition("-")[2]],
            *_modes(stem, ("multi-source", "auto-in-turn")),
        ]
        for stem in stems
    ]
    return table(["graph", "multi-source, ms for 64", "auto-in-turn, ms for 64"], rows)


@place("bfs")
def bfs() -> str:
    """Table: `auto` and the best other mode on each graph."""
    rows = []
    for stem, name in GRAPHS.items():
        auto = find(stem, "auto")
        timed = traversal(auto, "cold") if auto else None
        rivals = [(r, traversal(r, "cold").mean) for r in records(stem) if ours(r) and r.variant != "auto" and whole(r)]
        best = min(rivals, key=lambda pair: pair[1] or math.inf, default=(None, None))[0]
        share = timed.mean / (traversal(best, "cold").mean or 1) if timed and timed.mean and best else None
        rows.append(
            [
                name,
                str(len(auto.cases)) if auto else "-",
                shown(auto),
                marked(significant(timed.gteps), auto) if timed and timed.gteps else "-",
                shown(best, name=True),
                marked(significant(share), auto, best) if share else "",
            ]
        )
    return table(
        ["graph", "sources", "auto, ms", "GTEPS, harmonic mean", "best other mode, ms", "auto's mean over its mean"],
        rows,
    )


def _modes(stem: str, names: Sequence[str], scale: float = 1.0) -> list[str]:
    return [shown(find(stem, name), scale) for name in names]


@place("modes")
def modes(stem: str, unit: str, *names: str) -> str:
    """One record file: a line for each variant."""
    rows = [[f"`{n}`", shown(find(stem, n), 1e3 if unit == "us" else 1.0)] for n in names]
    return table(["mode", unit], rows)


@place("bfs-trace")
def bfs_trace() -> str:
    """Level by level, rmat20: how auto did it, and which watched mode was fastest."""
    there = {r.variant: r for r in records("bfs-rmat20-trace") if r.trace and r.status == "ok"}
    auto = there.get("auto")
    if auto is None:
        return "-\n"
    rows = []
    for k, level in enumerate(auto.trace):
        watched = {n: r.trace[k]["ms"] for n, r in there.items() if k < len(r.trace) and r.trace[k].get("ms")}
        best = min(watched, key=lambda n: watched[n])
        rows.append(
            [
                str(k),
                *(f"{level[key]:,}" for key in ("vertices", "edges", "inspected")),
                str(level["how"]),
                marked(significant(level["ms"] * 1e3), auto),
                best if best == "auto" else f"{best} {marked(significant(watched[best] * 1e3), there[best])}",
            ]
        )
    return table(["level", "vertices", "edges", "looked at", "way", "us", "fastest"], rows)


@place("pagerank")
def pagerank() -> str:
    """Table: time and rate of each mode on rmat20, in both orders."""
    rows = []
    for stem, order in (("pagerank-rmat20", "as it is"), ("pagerank-rmat20-degree", "by degree")):
        for r in sorted(filter(whole, records(stem)), key=lambda r: ms(r) or 0):
            if ours(r):
                n = int(r.result.get("iterations", 0))
                each = marked(milliseconds((ms(r) or 0) / n), r) if n else "-"
                setup = sum(r.times.get(f"{s}_ms", 0.0) for s in ("convert", "upload", "preprocess"))
                rows.append([f"`{r.variant}`", order, str(n), shown(r), each, significant(setup)])
    return table(["mode", "order", "iterations", "ms to tolerance", "ms an iteration", "setup, ms"], rows)


@place("sssp")
def sssp() -> str:
    """Table: each mode on each graph."""
    stems = {
        "sssp-rmat20": "rmat20, symmetrised, equal weights",
        "sssp-rmat20-integers": "the same, weights 1 to 255",
        "sssp-grid-1000": "grid 1000 x 1000 from a corner, equal weights",
        "sssp-grid-1000-integers": "the same, weights 1 to 255",
        "sssp-cage10": "cage10",
        "sssp-PGPgiantcompo": "PGPgiantcompo",
        "sssp-wiki-Vote": "wiki-Vote, equal weights",
    }
    rows = []
    for stem, name in stems.items():
        auto = find(stem, "auto")
        result = auto.result if auto else {}
        phases = [f"{result[key]:,}" if key in result else "-" for key in ("phases", "relaxed")]
        rows.append([name, *_modes(stem, ("auto", "near-far", "frontier")), *phases])
    return table(["graph", "auto, ms", "near-far", "frontier", "auto's phases", "edges relaxed"], rows)


@place("cc")
def cc() -> str:
    """Table: each mode on each graph."""
    stems = {"cc-rmat20": "rmat20, symmetrised", "cc-grid-1000": "grid 1000 x 1000", "cc-chain-1M": "chain of 10^6"}
    rows = [[name, *_modes(stem, ("afforest", "hook", "label"))] for stem, name in stems.items()]
    return table(["graph", "afforest, ms", "hook", "label"], rows)


@place("bc")
def bc() -> str:
    """Table: each mode on each graph."""
    stems = {
        "bc-rmat20": "rmat20, symmetrised, 4 sources",
        "bc-grid-1000": "grid 1000 x 1000 from a corner",
        "bc-chain-10k": "chain of 10,000 from its end",
    }
    rows = [[name, *_modes(stem, ("auto", "persistent", "edge", "push"))] for stem, name in stems.items()]
    return table(["graph, ms a source", "auto", "persistent", "edge", "push"], rows)


# ---- launches from the device -----------------------------------------------------------------------------

CHAINS = (
    "one-block",
    "graph",
    "grid-sync",
    "graph-while",
    "device-graph",
    "host-packed",
    "host-loop",
    "tail",
    "host-readback",
)
MANY = ("fire-and-forget", "default-stream", "fire-and-forget-one")


@place("launch")
def launch(kind: str) -> str:
    """Table: us per task of the mechanisms of `kind`: "chain" or "many"."""
    rows = []
    for name in {"chain": CHAINS, "many": MANY}[kind]:
        r = find("launch", name)
        last = costs(r).last if r else None
        rows.append([f"`{name}`", marked(significant(last), r) if last else "-"])
    about = {"chain": "tasks that each need the one before", "many": "10,000 tasks that need nothing"}
    return table([about[kind], "us a task"], rows)


@place("break-even")
def break_even() -> str:
    """Table: the work per child from which a launch is faster, by children at a time."""
    r = next((r for r in records("launch") if r.break_even), None)
    if r is None:
        return "-\n"
    rows = [
        [
            f"{int(b['children']):,}",
            marked(significant(b["us"]), r),
            f"{significant(b['low_us'])} to {significant(b['high_us'])}",
        ]
        for b in r.break_even
    ]
    return table(["children at a time", "break-even (us of work)", "95 % interval"], rows)


# ---- reading order ----------------------------------------------------------------------------------------


def _time_of_step(problem: str, stem: str, variant: str, dtype: str | None) -> tuple[float | None, Record | None]:
    """Its time, in ms, of `launch` in us a task; and the record."""
    r = find(stem, variant, **({"dtype": dtype} if dtype else {}))
    if r is None:
        return None, None
    return (costs(r).last if problem == "launch" else ms(r)), r


@place("steps")
def steps(problem: str, where: str) -> str:
    """The kernels of a problem as cuda/reading_order.toml has them; links from `where`: docs or folder."""
    if (order := tomllib.loads(READING_ORDER.read_text(encoding="utf-8")).get(problem)) is None:
        raise MissingError(f"{READING_ORDER.name} has no problem {problem}")
    above = {"docs": f"../cuda/{problem}/", "folder": ""}[where]
    unit = "us a task" if problem == "launch" else "ms"
    first: dict[str, float] = {}
    rows = []
    for step in order["step"]:
        cells = []
        for stem, _ in order["records"]:
            variant = step.get("variant")
            value, r = _time_of_step(problem, stem, variant, order.get("dtype")) if variant else (None, None)
            if value is None:
                cells.append("-")
                continue
            gain = first.setdefault(stem, value) / value
            cells.append(
                f"{marked(significant(value) if problem == 'launch' else milliseconds(value), r)}"
                f" ({significant(gain, 2)}x)"
            )
        name = step["file"]
        rows.append([step["level"], f"[{name}]({above}{name})", step["new"], *cells])
    return table(["step", "file", "what is new in it", *(f"{n}, {unit}" for _, n in order["records"])], rows)


@place("claims")
def judged_claims() -> str:
    """What the records of the H200 say of the claims of `spgraph claims`."""
    from spgraph_bench.claims import claims, judge_records
    from spgraph_bench.cli.claims import markdown

    return markdown(judge_records([*claims().values()], read_records(RESULTS)))


@place("learn")
def learn(*names: str) -> str:
    """SpMV kernels on two unlike matrices, float32, in us."""
    stems = {"spmv-poisson2d-300": "5-point Poisson 300^2", "spmv-rmat18": "rmat18"}
    rows = [[f"`{n}`", *(shown(find(stem, n, dtype="float32"), 1e3) for stem in stems)] for n in names]
    return table(["us on an H200, cold", *stems.values()], rows)


@place("generated")
def generated(*stems: str) -> str:
    """Records of problems without a matrix: variants down, cases across."""
    names = dict.fromkeys(r.variant for stem in stems for r in records(stem) if whole(r))
    rows = []
    for name in names:
        cells: list[str] = []
        for stem in stems:
            r = find(stem, name)
            cells.append(shown(r))
            children = (r.children or {}).get("launched") if r else None
            cells.append(f"{children:,}" if children else "")
        rows.append([f"`{name}`", *cells])
    head = ["variant"]
    for stem in stems:
        head += [f"`{stem}`, ms", "children"]
    return table(head, rows)


# ---- what Nsight Compute said -----------------------------------------------------------------------------


@place("clock")
def clock(stem: str) -> str:
    """Table: the clock's cold medians beside ncu's, from a CSV file of clock_against_ncu.py."""
    with (RESULTS / f"clock-{stem}.csv").open(encoding="utf-8") as file:
        cold = [row for row in csv.DictReader(file) if row["cache"] == "cold"]
    rows = [
        [
            row["variant"],
            *(significant(float(row[k])) for k in ("ncu", "spgraph")),
            significant(float(row["spgraph"]) - float(row["zero"])),
            significant(float(row["difference"]))
            if float(row["difference"]) >= 0
            else "-" + significant(-float(row["difference"])),
        ]
        for row in sorted(cold, key=lambda row: float(row["ncu"]))
    ]
    return table([f"{stem}, cold, us", "Nsight Compute", "spgraph", "less zero", "difference"], rows)


STALLS = {
    "long_scoreboard": "loads",
    "lg_throttle": "load queue",
    "short_scoreboard": "shared",
    "mio_throttle": "shared queue",
    "wait": "fixed",
    "not_selected": "turn",
}
SHARES = ("dram_percent", "l2_percent", "sectors_per_request", "warps_percent", "issue_percent")


@place("counters")
def counters(*wanted: str) -> str:
    """FILE:kernel ... of results/h200/counters-FILE.csv, a line for each."""
    rows = []
    for each in wanted:
        stem, _, kernel = each.partition(":")
        with (RESULTS / f"counters-{stem}.csv").open(encoding="utf-8") as file:
            row = next((r for r in csv.DictReader(file) if r["kernel"] == kernel), None)
        if row is None:
            raise MissingError(f"counters-{stem}.csv has no kernel {kernel}")
        stalls = {
            STALLS.get(k.removeprefix("stall_"), k.removeprefix("stall_").replace("_", " ")): float(v or 0)
            for k, v in row.items()
            if k.startswith("stall_") and k != "stall_selected"
        }
        top = sorted(stalls.items(), key=lambda pair: -pair[1])[:3]
        dram, l2, sectors, warps, issue = (float(row[key]) for key in SHARES)
        rows.append(
            [
                f"`{kernel}`",
                stem.partition("-")[2],
                significant(float(row["us"])),
                f"{dram:.0f}",
                f"{l2:.0f}",
                f"{sectors:.1f}",
                f"{warps:.0f}",
                f"{issue:.0f}",
                ", ".join(f"{name} {share:.0f}" for name, share in top if share >= 5),
            ]
        )
    return table(["kernel", "matrix", "us", "DRAM", "L2", "sectors", "warps", "issue", "waits"], rows)


# ---- where it all is from ---------------------------------------------------------------------------------


@place("provenance")
def provenance() -> str:
    """Which code, machine and libraries the records are of."""
    files = sorted([*RESULTS.glob("*.jsonl"), *RESULTS.glob("*/*.jsonl")])
    groups: dict[tuple[str, ...], list[str]] = {}
    for path in files:
        stem = path.relative_to(RESULTS).as_posix().removesuffix(".jsonl")
        for r in records(stem)[:1]:
            e, d = r.environment, r.device
            commit = str(e.get("git_commit", ""))[:12] or "not recorded"
            clean = {True: "", False: ", changed", None: ""}[e.get("git_clean")] if e.get("code") else ""
            libraries = ", ".join(f"{k} {v}" for k, v in (e.get("libraries") or {}).items() if k == "cuSPARSE")
            alone = {True: "yes", False: "no", None: "not recorded"}[e.get("gpu_alone")]
            gpu = f"{d.get('name')}, driver {d.get('driver')}"
            code = str(e.get("code", ""))[:12] or "-"
            key = (f"{commit}{clean}", code, gpu, f"CUDA {d.get('toolkit')}", libraries or "-", alone)
            groups.setdefault(key, []).append(stem)
    merged: dict[tuple[str, ...], list[str]] = {}
    for key, stems in groups.items():  # a run without cuSPARSE names none
        other = next((k for k in groups if k[:4] == key[:4] and k[5] == key[5] and k[4] != "-"), key)
        merged.setdefault(other if key[4] == "-" else key, []).extend(stems)
    rows = [[f"{len(stems)} files", *key] for key, stems in merged.items()]
    return table(["records", "commit", "code", "GPU", "toolkit", "libraries", "GPU alone"], rows)


# ---- the documents ----------------------------------------------------------------------------------------


def documents() -> list[Path]:
    """README.md, docs/*.md, and the README.md of each folder below results and cuda."""
    pages = sorted((ROOT / "docs").glob("*.md"))
    pages += [p for top in ("results", "cuda") for p in sorted((ROOT / top).glob("*/README.md"))]
    return [ROOT / "README.md", *pages]


def filled(text: str, name: str) -> str:
    """`text` with its places filled. Raises MissingError, with `name`."""

    def fill(match: re.Match[str]) -> str:
        words = match[2].split()
        if words[0] not in PLACES:
            raise MissingError(f"{name}: no numbers are called {words[0]!r}")
        try:
            return match[1] + PLACES[words[0]](*words[1:]) + match[4]
        except (MissingError, OSError) as error:
            raise MissingError(f"{name}: {match[2]}: {error}") from None

    return PLACE.sub(fill, text)


def missing(text: str, right: str) -> list[str]:
    """Lines of `right` that `text` does not have in their places, marks too many aside."""
    mine, due = text.splitlines(), right.splitlines()
    if len(mine) != len(due):
        return [line for line in due if line not in mine] or [f"{len(due)} lines are due, there are {len(mine)}"]

    def fits(line: str, wanted: str) -> bool:
        spare = f"(?: ?{MARK})?"  # marks that are due are in `wanted`
        return line == wanted or re.fullmatch(spare.join(map(re.escape, wanted)) + spare, line) is not None

    return [wanted for line, wanted in zip(mine, due, strict=True) if not fits(line, wanted)]


def main(words: Sequence[str] | None = None) -> int:
    """Write the numbers, or with --check compare them. Exit status 1 where one differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing, exit status 1 where something differs")
    check = parser.parse_args(words).check
    bad = 0
    for path in documents():
        text, name = path.read_text(encoding="utf-8"), path.relative_to(ROOT).as_posix()
        try:
            right = filled(text, name)
        except (MissingError, SpgraphError) as error:
            print(f"error: {error}", file=sys.stderr)
            bad += 1
            continue
        if check:
            for line in missing(text, right):
                print(f"{name}: the records say: {line}", file=sys.stderr)
                bad += 1
        elif right != text:
            path.write_text(right, encoding="utf-8")
            print(f"{name}: written")
    if check and bad:
        print("remedy: python scripts/fill_numbers.py", file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
