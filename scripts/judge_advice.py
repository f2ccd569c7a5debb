"""Judge `spgraph advise` by records of all variants, and fit its constants.

    judge_advice.py count RECORDS...                 count what advice is made from, for matrices not counted yet
    judge_advice.py count-ahead WORDS...             the same for what `spgraph sweep WORDS` will measure
    judge_advice.py fit RECORDS... [-o costs.toml]   fit the constants of SpMV
    judge_advice.py loo RECORDS...                   each matrix judged by constants fitted on all other shapes
    judge_advice.py split FITTED JUDGED              fitted on the records of FITTED, judged on those of JUDGED
    judge_advice.py csr RECORDS...                   the choice among kernels of CSR against the best, and cuSPARSE's
    judge_advice.py spmm RECORDS...                  SpMM: each matrix judged by constants fitted on all other shapes
    judge_advice.py condense RECORDS... -o FILE.csv  keep what judging uses, a line for each variant of a matrix

RECORDS are files or folders of JSON Lines, as `spgraph sweep` and `spgraph bench` leave them, or what `condense` wrote.
Of a folder its advice_*.csv are read too; their times count where its other files have the same cell. Counts are kept
in --facts (default results/h200/advice_facts.json), by the sha256 of the matrix; `count` reads the matrices again:
recipes by their text, files from the folder SPGRAPH_MATRICES or where the record says. `loo`, `split` and `csr` print a
table; with --write they put it into docs/advice.md, between the marks of its name. Modes of BFS are fitted and judged
likewise. PageRank's constants are not fitted here: its records are judged in both. `csr` judges the constants that come
with spgraph. It and `count` read JSON Lines only, since condensed records have no sources, and libraries of SpMM only.
"""

from __future__ import annotations

import argparse
import csv
import functools
import json
import os
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
import numpy as np
import numpy.typing as npt
from scipy.optimize import least_squares
from sweeps import blocks_of, with_matrices

from spgraph_bench.advice import graphs, spmm
from spgraph_bench.advice.costs import NARROW, Cost, Costs, Search, SetUp
from spgraph_bench.advice.costs import fitted as shipped
from spgraph_bench.advice.facts import SECTOR_BYTES, Facts, facts_of
from spgraph_bench.advice.spmv import NOT_PREDICTED, UPLOAD, Terms, choose, predicted_us, promising, terms
from spgraph_bench.errors import InputError, SpgraphError, UsageError
from spgraph_bench.gpus import get_gpu
from spgraph_bench.matrix import Matrix
from spgraph_bench.problems.sources import check_square, pattern_is_symmetric
from spgraph_bench.readers import ReadOptions, read
from spgraph_bench.recipes import make
from spgraph_bench.reorder import reorder
from spgraph_bench.report.text import percent
from spgraph_bench.results.cases import traversal
from spgraph_bench.results.record import Record
from spgraph_bench.results.statistics import SETUP, timing
from spgraph_bench.results.store import read_records
from spgraph_bench.sweep.plan import Block
from spgraph_bench.variants import variants

ROOT = Path(__file__).resolve().parent.parent
FACTS = ROOT / "results" / "h200" / "advice_facts.json"
COSTS = ROOT / "spgraph_bench" / "advice" / "costs.toml"
PAGE = ROOT / "docs" / "advice.md"
PLAIN = "csr-adaptive"
"""The kernel of plain CSR to take always, if a single one is to be taken."""
HUBS = "csr-hubs"
"""The kernel of plain CSR that older records are without."""
NEAR = 1.1
"""A choice within this factor of the fastest variant is good."""
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
    gpu: str = ""
    commit: str = ""
    k: int = 0
    """Columns of X, of SpMM."""


# ---- records ----------------------------------------------------------------------------------------------


def observed(paths: Iterable[Path], wanted: Callable[[Record], bool] | None = None) -> list[Observed]:
    """Variants on a GPU, timed: those that are predicted, or those that are `wanted`. The last record of a cell counts.
    A matrix in another order is another matrix."""
    wanted, problems = wanted or _predicted, ("spmv", "spmm", "bfs", "pagerank")
    latest: dict[tuple[str, str, int, str, int], Observed] = {}
    for path in paths:
        if path.suffix == ".csv":
            latest |= {(o.problem, o.variant, o.size, o.sha, o.k): o for o in _condensed(path)}
            continue
        for r in read_records(path, lambda text: print(text, file=sys.stderr)):
            if r.problem in problems and wanted(r) and (ms := _ms(r)):
                setup = sum(r.times.get(f"{step}_ms", 0.0) for step in SETUP)
                order = "" if _order(r) == "none" else f", {_order(r)}"
                size = 4 if r.dtype == "float32" else 8
                k = int(r.options["k"]) if r.problem == "spmm" else 0
                latest[r.problem, r.variant, size, _key(r), k] = Observed(
                    r.problem, r.variant, r.format, size, _key(r),
                    f"{r.matrix['name']}{order}", ms, setup, r.times.get("matrix_compile_ms", 0.0),
                    r.bytes.get("stored", 0), str(r.matrix["source"]["text"]).partition(":")[0],
                    str(r.device.get("name", "")), str(r.environment.get("git_commit") or "")[:12], k,
                )  # fmt: skip
    return list(latest.values())


def condense(records: Iterable[Observed], path: Path) -> int:
    """Write `records` to `path`, times with six digits. Returns how many."""
    rows = [
        {name: f"{value:.6g}" if isinstance(value, float) else value for name, value in asdict(o).items()}
        for o in records
    ]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Observed)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return len(rows)


def _condensed(path: Path) -> list[Observed]:
    """What :func:`condense` wrote. Raises InputError for another CSV file."""
    types: dict[str, Callable[[str], Any]] = {"str": str, "int": int, "float": float}
    read_as = {field.name: types[str(field.type)] for field in fields(Observed)}
    with path.open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file)
        if list(rows.fieldnames or ()) not in (list(read_as), list(read_as)[:-1]):  # older ones are without k
            raise InputError("not condensed records", place=str(path), remedy="judge_advice.py condense RECORDS...")
        try:
            return [Observed(**{name: read_as[name](text) for name, text in row.items()}) for row in rows]
        except (TypeError, ValueError, KeyError) as error:
            raise InputError(
                f"not an observation: {error}",
                place=f"{path}:{rows.line_num}",
                remedy="judge_advice.py condense RECORDS...",
            ) from error


def _plain(record: Record) -> bool:
    return record.where == "gpu" and not record.library and record.status == "ok"


def _cusparse_csr(record: Record) -> bool:
    return record.problem == "spmv" and record.status == "ok" and record.variant.startswith("cusparse-csr-")


def _predicted(record: Record) -> bool:
    """What is predicted: spgraph's own variants. Of SpMM those in float32 or float64 and row-major, and cuSPARSE's."""
    if record.problem != "spmm":
        return _plain(record)
    timed = record.where == "gpu" and record.status == "ok"
    return timed and record.options.get("layout") == "row" and record.dtype != "float16"


def _order(record: Record) -> str:
    """Of rows and columns, or of vertices: "none", "degree", "rcm"."""
    return record.reorder if record.reorder != "none" else str(record.params.get("reorder", "none"))


def _key(record: Record) -> str:
    """What counts are stored under."""
    return _key_of(str(record.matrix["sha256"]), _order(record))


def _key_of(sha: str, order: str) -> str:
    return sha if order == "none" else f"{sha}-{order}"


def _ms(record: Record) -> float | None:
    if record.cases:
        return traversal(record, "cold").mean
    timed = timing(record.sampled("cold"))
    return timed.median if timed else None


def count(paths: Iterable[Path], store: Path) -> None:
    """Count the matrices of SpMV and graph records that `store` does not have."""
    known = _counted(store)
    for path in paths:
        for r in read_records(path):
            key, source, order = _key(r), r.matrix["source"], _order(r)
            if not _plain(r) or (kind := _kind(r.problem)) is None or _is_counted(r.problem, known.get(key, {})):
                continue
            matrix = _again(source)
            if matrix.sha256 != r.matrix["sha256"]:
                raise InputError(f"{source['text']} is another matrix now", remedy="measure it again")
            _count_one(matrix, kind, order, known, store)


def count_ahead(blocks: Sequence[Block], store: Path) -> None:
    """Count the matrices of the blocks of a sweep that `store` does not have. Raises InputError for one that cannot be
    read."""
    known = _counted(store)
    for block, matrix in with_matrices([block for block in blocks if _kind(block.problem)]):
        if isinstance(matrix, SpgraphError):
            raise matrix
        kind = _kind(block.problem)
        assert matrix is not None
        assert kind is not None
        orders = [block.params["reorder"]] if "reorder" in block.params else block.orders
        for order in orders:
            if not _is_counted(block.problem, known.get(_key_of(matrix.sha256, order), {})):
                _count_one(matrix, kind, order, known, store)


def _kind(problem: str) -> str | None:
    """What is counted for a problem: "facts" for a product, "graph" for a mode; None where nothing is."""
    return {"spmv": "facts", "spmm": "facts", "bfs": "graph", "pagerank": "graph"}.get(problem)


def _is_counted(problem: str, of_matrix: Mapping[str, Any]) -> bool:
    """Whether the counts of a matrix have what `problem` needs; older ones are without rows of X."""
    counted = of_matrix.get(_kind(problem) or "")
    return counted is not None and (problem != "spmm" or str(SECTOR_BYTES) in counted["sectors"])


def _counted(store: Path) -> dict[str, Any]:
    return _read_facts(store) if store.exists() else {}


def _read_facts(store: Path) -> dict[str, Any]:
    try:
        known = json.loads(store.read_text(encoding="utf-8"))
    except ValueError:
        known = None
    if isinstance(known, dict) and all(isinstance(of, dict) for of in known.values()):
        return known
    raise InputError("this is no file of counts", place=str(store), remedy="`judge_advice.py count RECORDS` makes one")


def _count_one(matrix: Matrix, kind: str, order: str, known: dict[str, Any], store: Path) -> None:
    """Count `matrix` in `order`, and keep it in `known` and `store`."""
    csr = matrix.csr if order == "none" else reorder(matrix.csr, order).csr
    if kind == "facts":
        own = (v for v in variants("spmv") if v.library is None and v.where == "gpu")
        made = facts_of(csr, {v.format for v in own if v.name not in NOT_PREDICTED}).to_json()
    else:
        check_square(csr)
        made = graphs.graph_facts(csr, pattern_is_symmetric(matrix)).to_json()
    name = matrix.name if order == "none" else f"{matrix.name}, {order}"
    known.setdefault(_key_of(matrix.sha256, order), {"name": name})[kind] = made
    print(f"{name}: {kind}", flush=True)
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
        return np.array([np.log(predicted_us(cost, t)[0] / (ms * 1e3)) / SCATTER for t, ms in counted])

    return _nearest(off, center, spread)


def _nearest(off: Callable[[Vector], Vector], center: Vector, spread: Vector) -> Vector:
    """Where the residuals `off` and the distance from `center` are least; large residuals count less (soft l1)."""

    def all_off(logs: Vector) -> Vector:
        return np.concatenate((off(logs), (logs - center) / spread))

    def loss(squares: Vector) -> Vector:
        rho = np.vstack((squares, np.ones_like(squares), np.zeros_like(squares)))
        measured = 1 + squares[: len(squares) - len(center)]
        rho[:, : len(measured)] = 2 * (np.sqrt(measured) - 1), measured**-0.5, -0.5 * measured**-1.5
        return rho

    return np.asarray(least_squares(all_off, center, loss=loss).x)


def fit(
    records: Sequence[Observed],
    facts: Mapping[str, Facts],
    of_graphs: Mapping[str, graphs.GraphFacts] | None = None,
    gpu: str = "H200",
) -> Costs:
    """All constants. Of SpMV: of each variant for all types first, then for each type around those. Of BFS: those that
    come with spgraph if there are no records of it."""
    by_variant: dict[str, list[Observed]] = defaultdict(list)
    for o in records:
        if o.problem != "spmv" or o.sha not in facts or o.variant in NOT_PREDICTED:
            continue
        if not facts[o.sha].formats[o.format][o.size].refused:
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
    bfs = fit_searches(records, of_graphs or {}) or shipped().bfs
    products = fit_spmm(records, facts, gpu) or (shipped().spmm, shipped().spmm_setup)
    return Costs(gpu, len(used), len({o.sha for o in used}), spmv, setup, bfs, *products)


def fit_spmm(
    records: Sequence[Observed], facts: Mapping[str, Facts], gpu: str = "H200"
) -> tuple[dict[str, Cost], dict[str, SetUp]] | None:
    """The constants of SpMM from its records, for all types and numbers of columns together; None without records."""
    by: dict[str, list[Observed]] = defaultdict(list)
    for o in _products(records, facts):
        if o.variant not in spmm.NOT_PREDICTED and not o.variant.startswith("cusparse-"):
            by[o.variant].append(o)

    def fitted(variant: str) -> Cost:
        counted = [(spmm.terms(variant, o.format, o.size, o.k, facts[o.sha], get_gpu(gpu)), o.ms) for o in by[variant]]
        return _cost(_fit(counted, _logs(PRIOR), np.array([getattr(SPREAD, name) for name in FIELDS])))

    return ({n: fitted(n) for n in sorted(by)}, {n: _setup(by[n], facts) for n in sorted(by)}) if by else None


def _products(records: Iterable[Observed], facts: Mapping[str, Facts]) -> list[Observed]:
    """The records of SpMM whose matrices are counted for it."""
    return [o for o in records if o.problem == "spmm" and o.sha in facts and SECTOR_BYTES in facts[o.sha].sectors]


def _setup(records: Sequence[Observed], facts: Mapping[str, Facts]) -> SetUp:
    """A line through what is left without the upload: medians of small matrices and of large ones."""
    left = [(facts[o.sha].nnz, max(0.0, o.setup_ms - o.compile_ms - o.stored / UPLOAD)) for o in records]
    small = [ms for nnz, ms in left if nnz < 1 << 18] or [0.0]
    fixed = float(np.median(small))
    large = [max(0.0, ms - fixed) / nnz * 1e6 for nnz, ms in left if nnz >= 1 << 18]
    return SetUp(fixed, float(np.median(large)) if large else 0.0, float(np.median([o.compile_ms for o in records])))


SEARCH = Search(search=20.0, level=15.0, vertex=10.0, edge=10.0, far=3.0)
"""Where a fit of a mode of BFS begins and what it is drawn to."""
SEARCH_SPREAD = 1.5
"""Standard deviations of the logarithms around it."""
MODES = ("auto", "one-block", "persistent", "direction", "edge-balanced")
"""Modes of BFS that are fitted: the fastest on some graph, and the one that gains are relative to."""


def fit_searches(records: Sequence[Observed], facts: Mapping[str, graphs.GraphFacts]) -> dict[str, Search]:
    """The constants of the modes of BFS from their records."""
    by: dict[str, list[tuple[graphs.GraphFacts, float]]] = defaultdict(list)
    for o in records:
        if o.problem == "bfs" and o.variant in MODES and o.sha in facts:
            by[graphs.kind(o.variant, facts[o.sha])].append((facts[o.sha], o.ms))
    names = tuple(SEARCH.__dataclass_fields__)
    center = np.log([getattr(SEARCH, name) for name in names])

    def cost(logs: Vector) -> Search:
        return Search(**dict(zip(names, map(float, np.exp(logs)), strict=True)))

    def fitted(counted: Sequence[tuple[graphs.GraphFacts, float]]) -> Search:
        def off(logs: Vector) -> Vector:
            made = cost(logs)
            return np.array([np.log(graphs.search_us(made, f, 1.0) / (ms * 1e3)) / SCATTER for f, ms in counted])

        return cost(_nearest(off, center, np.full(len(center), SEARCH_SPREAD)))

    return {name: fitted(by[name]) for name in (*MODES, NARROW) if by[name]}


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

    def row(name: str, made: Cost | SetUp | Search) -> str:
        values = ", ".join(f"{field} = {getattr(made, field):.4g}" for field in made.__dataclass_fields__)
        return f"{name} = {{ {values} }}"

    for name, sizes in sorted(costs.spmv.items()):
        lines += ["", f"[spmv.{name}]", *(row(DTYPES[size], cost) for size, cost in sizes.items())]
    lines += ["", "[setup]", *(row(n, made) for n, made in sorted(costs.setup.items()))]
    lines += ["", "[bfs]", *(row(n, made) for n, made in costs.bfs.items())]
    lines += ["", "[spmm]", *(row(n, made) for n, made in sorted(costs.spmm.items()))]
    lines += ["", "[spmm_setup]", *(row(n, made) for n, made in sorted(costs.spmm_setup.items()))]
    return "\n".join([*lines, ""])


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
    plain: float | None = None
    """The regret among kernels of plain CSR of always taking PLAIN."""


def kind_of(facts: Facts) -> str:
    """The class of a matrix, for the table."""
    if facts.nnz < 1 << 20:
        return "fewer than 2^20 entries"
    if facts.gini > 0.5:
        return "skewed rows"
    return "even rows, scattered columns" if facts.sectors[4] > 0.5 else "even rows, local columns"


Chooser = Callable[[Facts, int, Mapping[str, str]], tuple[str, Sequence[str]] | None]
"""Of a matrix, bytes of a value and variants with their formats: the variant to take, and those to measure."""


def adviser(costs: Costs) -> Chooser:
    """The decision function of the command with these constants."""

    def chooser(facts: Facts, size: int, names: Mapping[str, str]) -> tuple[str, Sequence[str]] | None:
        made = choose(facts, get_gpu(costs.gpu), size, names, costs)
        return None if made is None else (made.best.variant, promising(made)[0])

    return chooser


def judge(records: Sequence[Observed], facts: Mapping[str, Facts], chooser: Chooser) -> list[Judged]:
    """Every matrix and type of `records` of SpMV with two variants or more."""
    cells: dict[tuple[str, int], dict[str, Observed]] = defaultdict(dict)
    for o in records:
        if o.problem == "spmv" and o.sha in facts:
            cells[o.sha, o.size][o.variant] = o
    return [one for (sha, size), by in cells.items() if len(by) > 1 and (one := _judged(by, facts[sha], size, chooser))]


def _judged(by: Mapping[str, Observed], facts: Facts, size: int, chooser: Chooser) -> Judged | None:
    some = next(iter(by.values()))
    best = min(by.values(), key=lambda o: o.ms)

    def regret(names: Iterable[str], fastest: Observed) -> float:
        return min((by[n].ms for n in names), default=float("inf")) / fastest.ms - 1

    picked = chooser(facts, size, {name: o.format for name, o in by.items()})
    if picked is None:  # there are no constants of any of them
        return None
    plain = {name: o for name, o in by.items() if o.format == "csr"}
    in_csr = chooser(facts, size, {name: o.format for name, o in plain.items()}) if len(plain) > 1 else None
    return Judged(
        kind_of(facts),
        some.name,
        some.shape,
        DTYPES[size],
        picked[0],
        best.variant,
        regret(picked[:1], best),
        regret(picked[1], best),
        regret(in_csr[:1], min(plain.values(), key=lambda o: o.ms)) if in_csr else None,
        in_csr[0] if in_csr else "",
        regret([PLAIN], min(plain.values(), key=lambda o: o.ms)) if PLAIN in plain and in_csr else None,
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
    titles = (
        *("matrices", "cells", "within 10 %", "mean regret", "worst", "measured: mean, worst"),
        *("CSR only: mean, worst", f"CSR only, always {PLAIN}: mean, worst"),
    )
    rows = [about, "", f"| {' | '.join(titles)} |", "| --- " * len(titles) + "|"]
    kinds = sorted({j.kind for j in judged})
    for title, some in [*((kind, [j for j in judged if j.kind == kind]) for kind in kinds), ("**all**", list(judged))]:
        regrets = [j.regret for j in some]
        worst = max(some, key=lambda j: j.regret)
        good = sum(r <= NEAR - 1 for r in regrets) / len(regrets)
        where = f"{percent(worst.regret)} ({worst.name} {worst.dtype}: {worst.chosen} for {worst.best})"
        others = (_mean_and_worst([getattr(j, name) for j in some]) for name in ("measured", "csr", "plain"))
        rows.append(
            f"| {title} | {len(some)} | {good:.0%} | {percent(float(np.mean(regrets)))} | "
            f"{where if worst.regret else '0%'} | {' | '.join(others)} |"
        )
    return "\n".join(rows) + "\n"


def _mean_and_worst(regrets: Iterable[float | None]) -> str:
    known = [r for r in regrets if r is not None]
    return f"{percent(float(np.mean(known)))}, {percent(max(known))}" if known else "-"


def details(judged: Sequence[Judged]) -> str:
    """Text: a line for each cell whose first choice is not the fastest."""
    return "".join(
        f"{j.name:28} {j.dtype} {j.chosen:15} for {j.best:15} {percent(j.regret):>6}, "
        f"measured {percent(j.measured):>6}; CSR: {j.csr_chosen} {percent(j.csr)}\n"
        for j in judged
        if j.regret > 0 or j.csr
    )


@dataclass(frozen=True)
class JudgedCSR:
    """One matrix in one type, as CSR arrays that stay as they are."""

    name: str
    dtype: str
    is_file: bool
    chosen: str
    missing: bool
    """Whether the choice would be HUBS, of which there is no record; `chosen` is the best predicted of the others."""
    regret: float
    """Time of the choice over that of spgraph's fastest on CSR, less 1."""
    cusparse: float
    """Time of cuSPARSE's fastest on CSR over that of the choice."""


def judge_csr(
    records: Sequence[Observed], libraries: Sequence[Observed], facts: Mapping[str, Facts], chooser: Chooser
) -> list[JudgedCSR]:
    """Every matrix and type with two of spgraph's kernels on CSR or more, and one of cuSPARSE's."""
    theirs: dict[tuple[str, int], float] = {}
    for o in libraries:
        theirs[o.sha, o.size] = min(o.ms, theirs.get((o.sha, o.size), o.ms))
    cells: dict[tuple[str, int], dict[str, Observed]] = defaultdict(dict)
    for o in records:
        if o.problem == "spmv" and o.format == "csr" and o.sha in facts and (o.sha, o.size) in theirs:
            cells[o.sha, o.size][o.variant] = o
    judged = []
    for (sha, size), by in cells.items():
        picked = chooser(facts[sha], size, {name: o.format for name, o in by.items()})
        if len(by) > 1 and picked is not None:
            mine, best = by[picked[0]], min(o.ms for o in by.values())
            regret, gain = mine.ms / best - 1, theirs[sha, size] / mine.ms
            wanted = chooser(facts[sha], size, {**{name: o.format for name, o in by.items()}, HUBS: "csr"})
            missing = wanted is not None and wanted[0] not in by
            judged.append(JudgedCSR(mine.name, DTYPES[size], "." in mine.shape, picked[0], missing, regret, gain))
    return judged


def csr_table(judged: Sequence[JudgedCSR]) -> str:
    """Markdown: a line for recipes and for files in each type, then all."""
    titles = ("matrices", "cells", "over spgraph's best on CSR: mean, worst", "cuSPARSE's best on CSR over it", "least")
    rows = [f"| {' | '.join(titles)} |", "| --- " * len(titles) + "|"]
    kinds = [
        (
            f"{'files' if is_file else 'recipes'}, {dtype}",
            [j for j in judged if (j.is_file, j.dtype) == (is_file, dtype)],
        )
        for is_file in (False, True)
        for dtype in DTYPES.values()
    ]
    for title, some in [*kinds, ("**all**", list(judged))]:
        if some:
            worst, least = max(some, key=lambda j: j.regret), min(some, key=lambda j: j.cusparse)
            where = f" ({worst.name}: {worst.chosen})" if worst.regret else ""
            mean = float(np.exp(np.mean([np.log(j.cusparse) for j in some])))
            rows.append(
                f"| {title} | {len(some)} | {percent(float(np.mean([j.regret for j in some])))}, "
                f"{percent(worst.regret)}{where} | {mean:.2f} | {least.cusparse:.3g} ({least.name}: {least.chosen}) |"
            )
    below = [f"{j.name} {j.dtype} ({j.cusparse:.3g})" for j in judged if j.cusparse < 1]
    missing = [f"{j.name} {j.dtype}" for j in judged if j.missing]
    rows += ["", f"cuSPARSE's is faster in {len(below)} of {len(judged)}{': ' if below else ''}{', '.join(below)}."]
    if missing:
        rows += [
            f"The choice would be {HUBS}, which was not measured, in {', '.join(missing)}: there the best predicted of "
            "the measured kernels counts."
        ]
    return "\n".join(rows) + "\n"


@dataclass(frozen=True)
class JudgedProduct:
    """SpMM of one matrix in one type with so many columns."""

    name: str
    is_file: bool
    k: int
    chosen: str
    regret: float
    """Time of the choice over that of spgraph's fastest, less 1."""
    csr_chosen: str
    csr_regret: float
    """The same among kernels of CSR."""
    cusparse: float | None
    """Time of cuSPARSE's fastest in any format over that of the choice among kernels of CSR."""


def judge_spmm(
    records: Sequence[Observed], facts: Mapping[str, Facts], costs_of: Callable[[str], Costs]
) -> list[JudgedProduct]:
    """Every matrix, type and number of columns of `records`. `costs_of`: of a recipe or file the constants to take."""
    cells: dict[tuple[str, int, int], list[Observed]] = defaultdict(list)
    for o in _products(records, facts):
        cells[o.sha, o.size, o.k].append(o)
    judged = []
    for every in cells.values():
        by = {o.variant: o for o in every if not o.variant.startswith("cusparse-")}
        theirs = [o.ms for o in every if o.variant.startswith("cusparse-")]
        some = every[0]

        def chosen(only: str = "", by: Mapping[str, Observed] = by, some: Observed = some) -> tuple[str, float]:
            own = {name: o.format for name, o in by.items() if only in ("", o.format)}
            made = spmm.choose(facts[some.sha], get_gpu("H200"), some.size, some.k, own, costs_of(some.shape))
            if made is None:
                return "", 0.0
            return made.best.variant, by[made.best.variant].ms / min(by[name].ms for name in own) - 1

        (take, regret), (plain, over) = chosen(), chosen("csr")
        if plain:
            gain = min(theirs) / by[plain].ms if theirs else None
            judged.append(JudgedProduct(some.name, "." in some.shape, some.k, take, regret, plain, over, gain))
    return judged


def spmm_table(judged: Sequence[JudgedProduct]) -> str:
    """Markdown: recipes and files with each number of columns, then all."""
    titles = (
        *("matrices", "cells", "within 10 %", "mean regret", "worst", "CSR only: mean, worst"),
        *("cuSPARSE's best over the choice on CSR", "least"),
    )
    rows = [f"| {' | '.join(titles)} |", "| --- " * len(titles) + "|"]
    kinds = [
        (f"{'files' if is_file else 'recipes'}, k = {k}", [j for j in judged if (j.is_file, j.k) == (is_file, k)])
        for is_file in (False, True)
        for k in sorted({j.k for j in judged})
    ]
    for title, some in [*kinds, ("**all**", list(judged))]:
        if not some:
            continue
        worst, least = max(some, key=lambda j: j.regret), min(some, key=lambda j: j.cusparse or np.inf)
        where = f"{percent(worst.regret)}" + (f" ({worst.name}: {worst.chosen})" if worst.regret else "")
        gains = [np.log(j.cusparse) for j in some if j.cusparse]
        against = (
            f"{np.exp(np.mean(gains)):.2f} | {least.cusparse:.3g} ({least.name}: {least.csr_chosen})"
            if gains
            else "- | -"
        )
        rows.append(
            f"| {title} | {len(some)} | {np.mean([j.regret <= NEAR - 1 for j in some]):.0%} | "
            f"{percent(float(np.mean([j.regret for j in some])))} | {where} | "
            f"{_mean_and_worst(j.csr_regret for j in some)} | {against} |"
        )
    below = [f"{j.name} k = {j.k} ({j.cusparse:.3g})" for j in judged if j.cusparse and j.cusparse < 1]
    rows += ["", f"cuSPARSE's is faster in {len(below)} of {len(judged)}{': ' if below else ''}{', '.join(below)}."]
    return "\n".join(rows) + "\n"


@dataclass(frozen=True)
class JudgedMode:
    """One graph: the mode chosen, and what is the fastest."""

    problem: str
    name: str
    chosen: str
    best: str
    regret: float
    usual: float | None
    """The regret of always taking the default mode."""


def judge_modes(
    records: Sequence[Observed], facts: Mapping[str, graphs.GraphFacts], costs_for: Callable[[Observed], Costs]
) -> list[JudgedMode]:
    """Every graph of `records` with two modes or more that are predicted. `costs_for`: the constants to judge it by."""
    cells: dict[tuple[str, str], dict[str, Observed]] = defaultdict(dict)
    for o in records:
        if o.problem in graphs.RULES and o.sha in facts:
            cells[o.problem, o.sha][o.variant] = o
    judged = []
    for (problem, sha), by in cells.items():
        some, best = next(iter(by.values())), min(by.values(), key=lambda o: o.ms)
        modes = graphs.predict(problem, facts[sha], get_gpu("H200"), costs_for(some))
        ranked = [mode.variant for mode in modes if mode.variant in by]
        if len(ranked) > 1:
            usual = by.get(graphs.DEFAULT[problem])
            others = None if usual is None else usual.ms / best.ms - 1
            judged.append(
                JudgedMode(problem, some.name, ranked[0], best.variant, by[ranked[0]].ms / best.ms - 1, others)
            )
    return judged


def without_shape(records: Sequence[Observed], facts: Mapping[str, graphs.GraphFacts]) -> Callable[[Observed], Costs]:
    """For a graph the constants of BFS that are fitted without its recipe."""

    @functools.cache
    def of(shape: str) -> Costs:
        return replace(shipped(), bfs=fit_searches([o for o in records if o.shape != shape], facts))

    return lambda o: of(o.shape)


def mode_details(judged: Sequence[JudgedMode]) -> list[str]:
    """A line for each graph on which the chosen mode is not the fastest."""
    return [f"{j.problem} {j.name}: {j.chosen} for {j.best}, {percent(j.regret)}" for j in judged if j.regret > 0]


def graph_table(judged: Sequence[JudgedMode]) -> str:
    """Markdown: BFS and PageRank, a line for each problem."""
    titles = ("problem", "graphs", "within 10 %", "mean regret", "worst", "always the default: mean, worst")
    rows = [f"| {' | '.join(titles)} |", "| --- " * len(titles) + "|"]
    for problem in graphs.RULES:
        some = [j for j in judged if j.problem == problem]
        if some:
            good = np.mean([j.regret <= NEAR - 1 for j in some])
            worst = max(some, key=lambda j: j.regret)
            always = _mean_and_worst(j.usual for j in some)
            where = f" ({worst.name}: {worst.chosen} for {worst.best})" if worst.regret else ""
            rows.append(
                f"| {problem} | {len(some)} | {good:.0%} | {percent(float(np.mean([j.regret for j in some])))} | "
                f"{percent(worst.regret)}{where} | {graphs.DEFAULT[problem]}: {always} |"
            )
    return "\n".join(rows) + "\n"


def put(text: str, name: str, made: str) -> str:
    """`text` with `made` between the marks of `name`. Raises UsageError where it has none."""
    place = re.compile(rf"(<!-- advice: {name} -->\n).*?(<!-- end -->)", re.DOTALL)
    if not place.search(text):
        raise UsageError(f"no mark <!-- advice: {name} --> in {PAGE}", remedy="add it, and <!-- end --> after it")
    return place.sub(lambda m: m[1] + made + m[2], text)


# ---- command ----------------------------------------------------------------------------------------------


def _files(paths: Iterable[Path], *patterns: str) -> list[Path]:
    """Of a folder its JSON Lines, then what is condensed: there all variants of a cell are of one sweep."""
    patterns = patterns or ("*.jsonl", "advice_*.csv")
    return [
        file
        for path in paths
        for file in ([f for each in patterns for f in sorted(path.glob(each))] if path.is_dir() else [path])
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one of the commands. Returns the exit status."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("command", choices=["count", "count-ahead", "fit", "loo", "split", "csr", "spmm", "condense"])
    parser.add_argument("--facts", type=Path, default=FACTS)
    if words[:1] == ["count-ahead"]:  # all else is the sweep's, in its order
        given, swept = parser.parse_known_args(words)
        given.records = swept
    else:
        parser.add_argument("records", nargs="+", help="files or folders")
        parser.add_argument("-o", "--output", type=Path, help=f"of fit ({COSTS.relative_to(ROOT)}) and condense")
        parser.add_argument("--write", action="store_true", help="put the table into docs/advice.md")
        given = parser.parse_args(words)
    try:
        return _run(given)
    except SpgraphError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_status
    except OSError as error:
        print(f"error: {error.filename}: {error.strerror}", file=sys.stderr)
        return 2


def _run(given: argparse.Namespace) -> int:
    if given.command == "count-ahead":
        status, blocks = blocks_of(given.records)
        count_ahead(blocks, given.facts)
        return status
    given.records = [Path(text) for text in given.records]
    if given.command == "count":
        count(_files(given.records, "*.jsonl"), given.facts)
        return 0
    if given.command == "condense":
        if given.output is None or given.output.suffix != ".csv":
            raise UsageError("condense writes a .csv file", remedy="-o FILE.csv")
        written = condense(observed(_files(given.records)), given.output)
        print(f"{given.output}: {written} observations")
        return 0
    known = _read_facts(given.facts)
    try:
        facts = {sha: Facts.from_json(of["facts"]) for sha, of in known.items() if "facts" in of}
        of_graphs = {sha: graphs.GraphFacts.from_json(of["graph"]) for sha, of in known.items() if "graph" in of}
    except (KeyError, TypeError):
        other = "these are the counts of another version"
        raise InputError(other, place=str(given.facts), remedy="remove it and count again") from None
    if given.command == "csr":
        files = _files(given.records, "*.jsonl")
        on_csr = judge_csr(observed(files), observed(files, _cusparse_csr), facts, adviser(shipped()))
        if not on_csr:
            why = "no records of two kernels on CSR and of cuSPARSE's, of matrices that are counted"
            raise InputError(why, remedy="judge_advice.py count RECORDS..., or more records")
        _show({"csr": csr_table(on_csr)}, [], given.write)
        return 0
    if given.command == "spmm":
        records = observed(_files(given.records))

        @functools.cache
        def without(shape: str) -> Costs:
            made = fit_spmm([o for o in records if o.shape != shape], facts)
            return shipped() if made is None else replace(shipped(), spmm=made[0], spmm_setup=made[1])

        if not (products := judge_spmm(records, facts, without)):
            raise InputError("no records of SpMM whose matrices are counted", remedy="judge_advice.py count RECORDS...")
        lines = (
            f"{j.name:28} k = {j.k:3} {j.chosen:12} {percent(j.regret):>6}; CSR: {j.csr_chosen} {percent(j.csr_regret)}"
            for j in products
            if j.regret or j.csr_regret
        )
        _show({"spmm": spmm_table(products)}, lines, given.write)
        return 0
    if given.command == "split":
        if len(given.records) != 2:
            raise UsageError("split takes two files or folders", remedy="the records to fit on, then those to judge")
        fitted, records = (observed(_files([path])) for path in given.records)
        if both := {o.sha for o in fitted} & {o.sha for o in records}:
            raise UsageError(f"{len(both)} matrices are in both sets of records", remedy="judge on others")
        costs = fit(fitted, facts, of_graphs)
        judged, modes = judge(records, facts, adviser(costs)), judge_modes(records, of_graphs, lambda o: costs)
    else:
        records = observed(_files(given.records))
        if given.command == "fit":
            costs = fit(records, facts, of_graphs)
            output = given.output or COSTS
            output.write_text(to_toml(costs), encoding="utf-8")
            print(f"{output}: {costs.cells} records of {costs.matrices} matrices")
            return 0
        judged = leave_one_out(records, facts)
        modes = judge_modes(records, of_graphs, without_shape(records, of_graphs))
    if not judged and not modes:
        why = "no records of two variants whose matrices are counted, and of another recipe than those fitted on"
        raise InputError(why, remedy="judge_advice.py count RECORDS..., or more records")
    made = {given.command: table(judged)} if judged else {}
    if len(modes) > 1:  # one graph is no table
        made[f"{given.command}-graphs"] = graph_table(modes)
    _show(made, [details(judged), *mode_details(modes)], given.write)
    return 0


def _show(made: Mapping[str, str], more: Iterable[str], write: bool) -> None:
    """Print tables, and `more` below them; put the tables into the page where that is wanted."""
    print(*made.values(), *more, sep="\n")
    if write:
        text = PAGE.read_text(encoding="utf-8")
        for name, each in made.items():
            text = put(text, name, each)
        PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
