"""Judge `spgraph advise` by records of all variants, and fit its constants.

    judge_advice.py count RECORDS...                 count what advice is made from, for matrices not counted yet
    judge_advice.py fit RECORDS... [-o costs.toml]   fit the constants of SpMV
    judge_advice.py loo RECORDS...                   each matrix judged by constants fitted on all other shapes
    judge_advice.py split FITTED JUDGED              fitted on the records of FITTED, judged on those of JUDGED

RECORDS are files or folders of JSON Lines, as `spgraph sweep` and `spgraph bench` leave them. Counts are kept in
--facts (default results/h200/advice_facts.json), by the sha256 of the matrix; `count` reads the matrices again: recipes
by their text, files from the folder SPGRAPH_MATRICES or where the record says. `loo` and `split` print a table; with
--write they put it into docs/advice.md, between the marks of its name. BFS and PageRank have rules, not
constants: their records are judged in both.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import least_squares

from spgraph_bench.advice import graphs
from spgraph_bench.advice.costs import Cost, Costs, SetUp
from spgraph_bench.advice.facts import Facts, facts_of
from spgraph_bench.advice.spmv import NOT_PREDICTED, UPLOAD, Terms, choose, predicted_us, terms
from spgraph_bench.errors import InputError, SpgraphError, UsageError
from spgraph_bench.gpus import get_gpu
from spgraph_bench.matrix import Matrix
from spgraph_bench.problems.sources import pattern_is_symmetric
from spgraph_bench.readers import ReadOptions, read
from spgraph_bench.recipes import make
from spgraph_bench.report.text import percent
from spgraph_bench.results.cases import traversal
from spgraph_bench.results.record import Record
from spgraph_bench.results.statistics import SETUP, timing
from spgraph_bench.results.store import read_records
from spgraph_bench.variants import variants

ROOT = Path(__file__).resolve().parent.parent
FACTS = ROOT / "results" / "h200" / "advice_facts.json"
COSTS = ROOT / "spgraph_bench" / "advice" / "costs.toml"
PAGE = ROOT / "docs" / "advice.md"
NEAR = 1.1
"""A choice within this factor of the fastest variant is good."""
MEASURED = 4
"""Variants that the command measures where it can."""
DTYPES = {4: "float32", 8: "float64"}


@dataclass(frozen=True)
class Observed:
    """One record of one variant."""

    problem: str
    variant: str
    format: str
    size: int
    sha: str
    name: str
    ms: float
    setup_ms: float
    compile_ms: float
    stored: int
    shape: str = ""
    """The name of its recipe, or of its file."""


# ---- records ----------------------------------------------------------------------------------------------


def observed(paths: Iterable[Path], problems: Sequence[str] = ("spmv", "bfs", "pagerank")) -> list[Observed]:
    """spgraph's own variants on a GPU, timed, in the matrix's own order. The last record of a cell counts."""
    latest: dict[tuple[str, ...], Observed] = {}
    for path in paths:
        for r in read_records(path, lambda text: print(text, file=sys.stderr)):
            if (
                r.problem in problems
                and r.where == "gpu"
                and not r.library
                and r.variant not in NOT_PREDICTED
                and _plain(r)
                and (ms := _ms(r))
            ):
                setup = sum(r.times.get(f"{step}_ms", 0.0) for step in SETUP)
                latest[r.problem, r.variant, r.dtype, str(r.matrix["sha256"])] = Observed(
                    r.problem, r.variant, r.format, 4 if r.dtype == "float32" else 8, str(r.matrix["sha256"]),
                    str(r.matrix["name"]), ms, setup, r.times.get("matrix_compile_ms", 0.0), r.bytes.get("stored", 0),
                    str(r.matrix["source"]["text"]).partition(":")[0],
                )  # fmt: skip
    return list(latest.values())


def _plain(record: Record) -> bool:
    own = record.where == "gpu" and not record.library and record.variant not in NOT_PREDICTED
    return own and record.status == "ok" and record.reorder == "none" and record.params.get("reorder", "none") == "none"


def _ms(record: Record) -> float | None:
    if record.cases:
        return traversal(record, "cold").mean
    timed = timing(record.sampled("cold"))
    return timed.median if timed else None


def count(paths: Iterable[Path], store: Path) -> None:
    """Count the matrices of SpMV and graph records that `store` does not have."""
    known: dict[str, Any] = json.loads(store.read_text(encoding="utf-8")) if store.exists() else {}
    names = {
        v.format for v in variants("spmv") if v.library is None and v.where == "gpu" and v.name not in NOT_PREDICTED
    }
    for path in paths:
        for r in read_records(path):
            sha, source = str(r.matrix["sha256"]), r.matrix["source"]
            kind = "graph" if r.problem in ("bfs", "pagerank") else "facts" if r.problem == "spmv" else None
            if kind is None or r.where != "gpu" or kind in known.get(sha, {}) or r.reorder != "none":
                continue
            matrix = _again(source)
            if matrix.sha256 != sha:
                raise InputError(f"{source['text']} is another matrix now", remedy="measure it again")
            if kind == "facts":
                made = facts_of(matrix.csr, names).to_json()
            else:
                made = graphs.graph_facts(matrix.csr, pattern_is_symmetric(matrix)).to_json()
            known.setdefault(sha, {"name": matrix.name})[kind] = made
            print(f"{matrix.name}: {kind}", flush=True)
            lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in sorted(known.items()))
            store.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")


def _again(source: Mapping[str, Any]) -> Matrix:
    """The matrix that a record was measured on."""
    text = str(source["text"])
    if source["kind"] == "recipe":
        return make(text)
    places = Path(os.environ.get("SPGRAPH_MATRICES", ".")) / Path(text).name, Path(text)
    file = next((place for place in places if place.exists()), None)
    if file is None:
        raise InputError(f"{text} is not here", remedy="set SPGRAPH_MATRICES to the folder that has it")
    return read(str(file), ReadOptions())


# ---- fitting ----------------------------------------------------------------------------------------------

PRIOR = Cost(base=6.0, bytes=1.1, gathers=1.0, entries=3.0, rows=3.0, chain=0.1)
"""Where a fit begins and what it is drawn to: a few launches' time, the whole bandwidth, a sector a nanosecond."""
SPREAD = Cost(base=0.4, bytes=0.2, gathers=0.3, entries=1.0, rows=1.0, chain=1.0)
"""Standard deviations of the logarithms around it."""
SCATTER = 0.05
"""That of a measured time around the model."""
LIKE = {
    "pattern-csr": "csr-adaptive", "pattern-csr-16": "csr-16", "pattern-sell": "sell", "pattern-jds": "jds",
    "pattern-ell": "ell", "pattern-hyb": "hyb", "pattern-coo": "coo-segmented", "dia-jit": "dia", "pattern-dia": "dia",
    "bsr-sliced": "bsr",
}  # fmt: skip
"""A variant with few records begins where the one that works alike ended."""
FIELDS = tuple(PRIOR.__dataclass_fields__)
Vector = npt.NDArray[np.float64]


def _logs(cost: Cost) -> Vector:
    return np.log([getattr(cost, name) for name in FIELDS])


def _cost(logs: Vector) -> Cost:
    return Cost(**dict(zip(FIELDS, map(float, np.exp(logs)), strict=True)))


def _fit(counted: Sequence[tuple[Terms, float]], center: Vector, spread: Vector) -> Vector:
    """Maximum a posteriori, outliers weighted down; `center` where nothing was measured."""
    if not counted:
        return center

    def off(logs: Vector) -> Vector:
        cost = _cost(logs)
        times = [np.log(predicted_us(cost, t)[0] / (ms * 1e3)) / SCATTER for t, ms in counted]
        return np.concatenate((times, (logs - center) / spread))

    return np.asarray(least_squares(off, center, loss="soft_l1").x)


def fit(records: Sequence[Observed], facts: Mapping[str, Facts], gpu: str = "H200") -> Costs:
    """All constants from `records` of SpMV: of each variant for all types first, then for each type around those."""
    by_variant: dict[str, list[Observed]] = defaultdict(list)
    for o in records:
        if o.problem == "spmv" and o.sha in facts and not facts[o.sha].formats[o.format][o.size].refused:
            by_variant[o.variant].append(o)
    spread, logs = np.array([getattr(SPREAD, name) for name in FIELDS]), {}
    spmv: dict[str, dict[int, Cost]] = {}
    for name in sorted(by_variant, key=lambda n: (n in LIKE, n)):
        counted = {
            size: [
                (terms(o.variant, o.format, o.size, facts[o.sha], get_gpu(gpu)), o.ms)
                for o in by_variant[name]
                if o.size == size
            ]
            for size in (4, 8)
        }
        begin = logs.get(LIKE.get(name, ""), _logs(PRIOR))
        logs[name] = _fit(counted[4] + counted[8], begin, spread)
        spmv[name] = {size: _cost(_fit(counted[size], logs[name], spread / 2)) for size in (4, 8)}
    used = [o for each in by_variant.values() for o in each]
    setup = {name: _setup(each, facts) for name, each in by_variant.items()}
    return Costs(gpu, len(used), len({o.sha for o in used}), spmv, setup)


def _setup(records: Sequence[Observed], facts: Mapping[str, Facts]) -> SetUp:
    """A line through what is left without the upload: medians of small matrices and of large ones."""
    left = [(facts[o.sha].nnz, max(0.0, o.setup_ms - o.compile_ms - o.stored / UPLOAD)) for o in records]
    small = [ms for nnz, ms in left if nnz < 1 << 18] or [0.0]
    fixed = float(np.median(small))
    large = [max(0.0, ms - fixed) / nnz * 1e6 for nnz, ms in left if nnz >= 1 << 18]
    return SetUp(fixed, float(np.median(large)) if large else 0.0, float(np.median([o.compile_ms for o in records])))


def to_toml(costs: Costs) -> str:
    """The text of a costs.toml."""
    lines = [
        "# Written by scripts/judge_advice.py fit. What each constant is: spgraph_bench/advice/costs.py; how well they",
        "# predict, and where they come from: docs/advice.md.",
        "",
        "[fitted]",
        f'gpu = "{costs.gpu}"',
        f"cells = {costs.cells}",
        f"matrices = {costs.matrices}",
    ]

    def row(name: str, made: Cost | SetUp) -> str:
        values = ", ".join(f"{field} = {getattr(made, field):.4g}" for field in made.__dataclass_fields__)
        return f"{name} = {{ {values} }}"

    for name, sizes in sorted(costs.spmv.items()):
        lines += ["", f"[spmv.{name}]", *(row(DTYPES[size], cost) for size, cost in sizes.items())]
    return "\n".join([*lines, "", "[setup]", *(row(n, made) for n, made in sorted(costs.setup.items())), ""])


# ---- judging ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Judged:
    """One matrix in one type: what was chosen, and what is the fastest."""

    kind: str
    name: str
    shape: str
    dtype: str
    chosen: str
    best: str
    regret: float
    """Time of the choice over that of the fastest, less 1."""
    measured: float
    """The same of the fastest of those that would be measured."""
    csr: float | None
    """Of the choice among kernels of plain CSR, over the fastest of those."""
    csr_chosen: str = ""


def kind_of(facts: Facts) -> str:
    """The class of a matrix, for the table."""
    if facts.nnz < 1 << 20:
        return "fewer than 2^20 entries"
    if facts.gini > 0.5:
        return "skewed rows"
    return "even rows, scattered columns" if facts.sectors[4] > 0.5 else "even rows, local columns"


Chooser = Callable[[Facts, int, Mapping[str, str]], Sequence[str]]
"""Of a matrix, bytes of a value and variants with their formats: variants, the first choice first."""


def adviser(costs: Costs) -> Chooser:
    """The decision function of the command with these constants."""

    def chooser(facts: Facts, size: int, names: Mapping[str, str]) -> list[str]:
        made = choose(facts, get_gpu(costs.gpu), size, names, costs)
        if made is None:
            return []
        return list(dict.fromkeys((made.best.variant, *(p.variant for p in made.ranked))))

    return chooser


def judge(records: Sequence[Observed], facts: Mapping[str, Facts], chooser: Chooser) -> list[Judged]:
    """Every matrix and type of `records` of SpMV with two variants or more."""
    cells: dict[tuple[str, int], dict[str, Observed]] = defaultdict(dict)
    for o in records:
        if o.problem == "spmv" and o.sha in facts:
            cells[o.sha, o.size][o.variant] = o
    return [one for (sha, size), by in cells.items() if len(by) > 1 and (one := _judged(by, facts[sha], size, chooser))]


def _judged(by: Mapping[str, Observed], facts: Facts, size: int, chooser: Chooser) -> Judged:
    some = next(iter(by.values()))
    best = min(by.values(), key=lambda o: o.ms)

    def regret(names: Sequence[str], fastest: Observed) -> float:
        return min((by[n].ms for n in names), default=float("inf")) / fastest.ms - 1

    picked = chooser(facts, size, {name: o.format for name, o in by.items()})
    plain = {name: o for name, o in by.items() if o.format == "csr"}
    in_csr = chooser(facts, size, {name: o.format for name, o in plain.items()})[:1] if len(plain) > 1 else []
    return Judged(
        kind_of(facts),
        some.name,
        some.shape,
        DTYPES[size],
        picked[0] if picked else "",
        best.variant,
        regret(picked[:1], best),
        regret(picked[:MEASURED], best),
        regret(in_csr, min(plain.values(), key=lambda o: o.ms)) if in_csr else None,
        in_csr[0] if in_csr else "",
    )


def leave_one_out(records: Sequence[Observed], facts: Mapping[str, Facts]) -> list[Judged]:
    """Each matrix, in all types, judged by constants that were fitted without it, and without any of its recipe."""
    judged: list[Judged] = []
    known = [o for o in records if o.problem == "spmv" and o.sha in facts]
    for shape in dict.fromkeys(o.shape for o in known):
        others = fit([o for o in known if o.shape != shape], facts)
        judged += judge([o for o in known if o.shape == shape], facts, adviser(others))
    return judged


def table(judged: Sequence[Judged]) -> str:
    """Markdown: what was judged; a line for each class, then all."""
    names = {j.name: j.shape for j in judged}
    files = sum("." in shape for shape in names.values())
    recipes = len({shape for shape in names.values() if "." not in shape})
    made = f"{files} files, the others of {recipes} recipes"
    about = f"{len(judged)} cells (a matrix in one type) of {len(names)} matrices: {made}."
    titles = ("matrices", "cells", "within 10 %", "mean regret", "worst", "best of 4, mean", "CSR only: mean, worst")
    rows = [about, "", f"| {' | '.join(titles)} |", "| --- " * len(titles) + "|"]
    kinds = sorted({j.kind for j in judged})
    for title, some in [*((kind, [j for j in judged if j.kind == kind]) for kind in kinds), ("**all**", list(judged))]:
        regrets = [j.regret for j in some]
        worst = max(some, key=lambda j: j.regret)
        good = sum(r <= NEAR - 1 for r in regrets) / len(regrets)
        plain = [j.csr for j in some if j.csr is not None]
        of_csr = f"{percent(float(np.mean(plain)))}, {percent(max(plain))}" if plain else "-"
        where = f"{percent(worst.regret)} ({worst.name} {worst.dtype}: {worst.chosen} for {worst.best})"
        rows.append(
            f"| {title} | {len(some)} | {good:.0%} | {percent(float(np.mean(regrets)))} | "
            f"{where if worst.regret else '0%'} | {percent(float(np.mean([j.measured for j in some])))} | {of_csr} |"
        )
    return "\n".join(rows) + "\n"


def details(judged: Sequence[Judged]) -> str:
    """Text: a line for each cell whose first choice is not the fastest."""
    return "".join(
        f"{j.name:28} {j.dtype} {j.chosen:15} for {j.best:15} {percent(j.regret):>6}, of 4 {percent(j.measured):>6}; "
        f"CSR: {j.csr_chosen} {percent(j.csr)}\n"
        for j in judged
        if j.regret > 0 or j.csr
    )


def graph_table(records: Sequence[Observed], known: Mapping[str, Any]) -> str:
    """Markdown: BFS and PageRank, a line for each problem."""
    cells: dict[tuple[str, str], dict[str, Observed]] = defaultdict(dict)
    for o in records:
        if o.problem in graphs.RULES and "graph" in known.get(o.sha, {}):
            cells[o.problem, o.sha][o.variant] = o
    rows = ["| problem | graphs | within 10 % | mean regret | worst |", "| --- | --- | --- | --- | --- |"]
    for problem in graphs.RULES:
        regrets: list[tuple[float, str]] = []
        for (of, sha), by in cells.items():
            if of == problem and len(by) > 1:
                facts = graphs.GraphFacts.from_json(known[sha]["graph"])
                ranked = [p.variant for p in graphs.predict(problem, facts, get_gpu("H200")) if p.variant in by]
                best = min(by.values(), key=lambda o: o.ms)
                if ranked:
                    regrets.append((by[ranked[0]].ms / best.ms - 1, f"{best.name}: {ranked[0]} for {best.variant}"))
        if regrets:
            good = sum(r <= NEAR - 1 for r, _ in regrets) / len(regrets)
            worst = max(regrets)
            mean = float(np.mean([r for r, _ in regrets]))
            rows.append(
                f"| {problem} | {len(regrets)} | {good:.0%} | {percent(mean)} | {percent(worst[0])} ({worst[1]}) |"
            )
    return "\n".join(rows) + "\n"


def put(text: str, name: str, made: str) -> str:
    """`text` with `made` between the marks of `name`. Raises UsageError where it has none."""
    place = re.compile(rf"(<!-- advice: {name} -->\n).*?(<!-- end -->)", re.DOTALL)
    if not place.search(text):
        raise UsageError(f"no mark <!-- advice: {name} --> in {PAGE}", remedy="add it, and <!-- end --> after it")
    return place.sub(lambda m: m[1] + made + m[2], text)


# ---- command ----------------------------------------------------------------------------------------------


def _files(paths: Iterable[Path]) -> list[Path]:
    return [file for path in paths for file in (sorted(path.glob("*.jsonl")) if path.is_dir() else [path])]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one of the commands. Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["count", "fit", "loo", "split"])
    parser.add_argument("records", nargs="+", type=Path)
    parser.add_argument("--facts", type=Path, default=FACTS)
    parser.add_argument("-o", "--output", type=Path, default=COSTS, help="of fit (%(default)s)")
    parser.add_argument("--write", action="store_true", help="put the table into docs/advice.md")
    given = parser.parse_args(arguments)
    try:
        return _run(given)
    except SpgraphError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_status
    except OSError as error:
        print(f"error: {error.filename}: {error.strerror}", file=sys.stderr)
        return 2


def _run(given: argparse.Namespace) -> int:
    if given.command == "count":
        count(_files(given.records), given.facts)
        return 0
    known = json.loads(given.facts.read_text(encoding="utf-8"))
    facts = {sha: Facts.from_json(of["facts"]) for sha, of in known.items() if "facts" in of}
    if given.command == "split":
        if len(given.records) != 2:
            raise UsageError("split takes two files or folders", remedy="the records to fit on, then those to judge")
        fitted, judged_records = (observed(_files([path])) for path in given.records)
        if both := {o.sha for o in fitted} & {o.sha for o in judged_records}:
            raise UsageError(f"{len(both)} matrices are in both sets of records", remedy="judge on others")
        judged = judge(judged_records, facts, adviser(fit(fitted, facts)))
        records = judged_records
    else:
        records = observed(_files(given.records))
        if given.command == "fit":
            costs = fit(records, facts)
            given.output.write_text(to_toml(costs), encoding="utf-8")
            print(f"{given.output}: {costs.cells} records of {costs.matrices} matrices")
            return 0
        judged = leave_one_out(records, facts)
    if not judged:
        raise InputError("no records of SpMV whose matrices are counted", remedy="judge_advice.py count RECORDS...")
    made, of_graphs = table(judged), graph_table(records, known)
    print(made, of_graphs, details(judged), sep="\n")
    if given.write:
        text = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(put(put(text, given.command, made), f"{given.command}-graphs", of_graphs), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
