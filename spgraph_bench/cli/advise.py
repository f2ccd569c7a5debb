"""`spgraph advise FILE|RECIPE`: which variant to take: predicted from counts, then measured where there is a GPU."""

from __future__ import annotations

import re
import textwrap
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import click

from spgraph_bench.cli import completing
from spgraph_bench.cli.inputs import load_matrix, progress_on_stderr, warn_of_findings
from spgraph_bench.cli.options import (
    ParameterType,
    RunOptions,
    TextParam,
    device_option,
    input_options,
    json_option,
    matrix_argument,
    threads_option,
)
from spgraph_bench.cli.running import GRAPH_RECIPE, MATRIX_RECIPE, Request, opened
from spgraph_bench.cli.terminal import console, note, out, out_json, table, warn
from spgraph_bench.errors import UsageError
from spgraph_bench.parameters import Parameter
from spgraph_bench.units import human_bytes, quantity

if TYPE_CHECKING:
    from spgraph_bench.advice.graphs import GraphChoice, GraphFacts
    from spgraph_bench.advice.sentences import Answer
    from spgraph_bench.advice.spmv import Choice
    from spgraph_bench.gpus import GPU
    from spgraph_bench.matrix import Matrix
    from spgraph_bench.readers.common import ReadOptions
    from spgraph_bench.results.record import Record
    from spgraph_bench.variants.base import Variant

__all__ = ["command"]

_MODES = 4
"""Modes of the best predicted that are measured, beside the one that gains are relative to."""
_SHOWN = 8
_LEAST = 0.02
"""Seconds of sampling for each, however small the budget."""
_GRAPH_DTYPES = {"bfs": "int32", "pagerank": "float32"}
"""Levels; the type of ranks that times were fitted on."""
_COLUMNS = 32
"""Of X, where --k does not say."""
_RECIPES = {
    "spmv": MATRIX_RECIPE["cuda"],
    "spmm": MATRIX_RECIPE["cuda"],
    "bfs": GRAPH_RECIPE["cuda"],
    "pagerank": GRAPH_RECIPE["cuda"],
}
"""Those for a GPU also where there is none: counting them takes seconds."""


class _Budget(TextParam):
    """Seconds: 2s, 500ms, 1.5, 0."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Seconds, or a usage error."""
        match = re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*(ms|s|m|min)?\s*", str(value))
        if match is None:
            self.fail(f"{value!r} is not a time such as 2s, 500ms or 0.", param, ctx)
        seconds = float(match[1]) * {"ms": 1e-3, "m": 60.0, "min": 60.0}.get(match[2] or "s", 1.0)
        if seconds > 86400:
            self.fail(f"{value!r} is more than a day.", param, ctx)
        return seconds


@dataclass(frozen=True)
class _Case:
    """What is advised on."""

    problem: str
    matrix: Matrix
    dtype: str
    k: int = _COLUMNS
    """Columns of X, of spmm."""

    @property
    def value_bytes(self) -> int:
        return 4 if self.dtype == "float32" else 8


@dataclass(frozen=True)
class _Predicted:
    """What was predicted, with what it was predicted from: one of the pairs."""

    gpu: GPU
    choice: Choice | None = None
    graph: tuple[GraphFacts, GraphChoice] | None = None


@click.command("advise")
@matrix_argument
@click.option(
    "--problem",
    type=click.Choice(["spmv", "spmm", "bfs", "pagerank"]),
    default="spmv",
    show_default=True,
    help="What is to be computed.",
)
@click.option(
    "--dtype",
    type=click.Choice(["float32", "float64"]),
    default="float32",
    show_default=True,
    help="Type of values, of spmv and spmm.",
)
@click.option(
    "--k",
    type=ParameterType(Parameter(_COLUMNS, "columns of X and Y", between=(1, 512))),
    default=_COLUMNS,
    show_default=True,
    metavar="N",
    help="Columns of X and Y, of spmm (row-major).",
)
@click.option(
    "--budget",
    type=_Budget(),
    default="2s",
    show_default=True,
    metavar="TIME",
    help="Time for measuring the most promising variants; 0: only predict.",
)
@click.option(
    "--gpu",
    "gpu_name",
    metavar="NAME",
    shell_complete=completing.gpus,
    help="Predict for this GPU and measure nothing: T4, A100, sm_89.",
)
@device_option
@threads_option
@input_options
@json_option
def command(
    argument: str | None,
    problem: str,
    dtype: str,
    k: int,
    budget: float,
    gpu_name: str | None,
    device: str,
    read_options: ReadOptions,
    as_json: bool,
) -> int:
    """Which format and kernel to take for a matrix, or which mode for a graph, in three sentences.

    Times are predicted from counts of rows, columns and formats, by a model that was fitted on an H200. If there is a
    GPU, the most promising variants are then checked and measured on it. If not, the prediction is for an H200, or for
    --gpu.

    \b
      spgraph advise matrix.mtx
      spgraph advise rmat:scale=20,symmetrize=1 --problem bfs
      spgraph advise matrix.mtx --dtype float64 --budget 10s
      spgraph advise matrix.mtx --problem spmm --k 64
      spgraph advise HB/1138_bus --gpu A100
    """
    from spgraph_bench.device.probe import choose_device
    from spgraph_bench.gpus import H200, get_gpu

    if problem != "spmm" and _was_given("k"):
        raise UsageError("--k is for spmm", remedy="--problem spmm, or omit it")
    if problem in _GRAPH_DTYPES and _was_given("dtype"):
        raise UsageError(
            f"--dtype is for spmv and spmm: {problem} is advised on in {_GRAPH_DTYPES[problem]}", remedy="omit it"
        )
    if gpu_name is not None and (given := [name for name in ("budget", "device") if _was_given(name)]):
        raise UsageError(f"with --gpu nothing is measured, so --{given[0]} has no meaning", remedy="omit one of them")
    named = get_gpu(gpu_name) if gpu_name is not None else None
    dtype = _GRAPH_DTYPES.get(problem, dtype)
    if named is None and budget > 0:
        choice = choose_device(device)
        if choice.name != "host":
            return _measure(argument, problem, dtype, k, budget, choice.name, read_options, as_json)
        if choice.warning:
            warn(choice.warning)
    matrix = load_matrix(argument, read_options, _RECIPES[problem], problem)
    warn_of_findings(matrix)
    case = _Case(problem, matrix, dtype, k)
    if named is None:
        whys = ("--budget is 0", budget == 0), ("the host gives no GPU times", device == "host"), ("no GPU found", True)
        why = next(text for text, applies in whys if applies)
        note(f"{why}: predicted for the H200 (--gpu names another)")
    return _show(case, _predict(case, named or H200), [], "", [], as_json)


def _was_given(option: str) -> bool:
    return click.get_current_context().get_parameter_source(option) is not click.core.ParameterSource.DEFAULT


# ---- predicted --------------------------------------------------------------------------------------------


def _own(problem: str) -> dict[str, Variant]:
    """spgraph's own variants for the GPU."""
    from spgraph_bench.variants import variants

    return {v.name: v for v in variants(problem) if v.library is None and v.where == "gpu"}


def _predict(case: _Case, gpu: GPU) -> _Predicted:
    from spgraph_bench.advice import graphs, spmm, spmv
    from spgraph_bench.advice.costs import fitted
    from spgraph_bench.advice.facts import facts_of
    from spgraph_bench.memory import require_memory
    from spgraph_bench.problems.sources import check_square, pattern_is_symmetric
    from spgraph_bench.runner.assembly import placed_errors
    from spgraph_bench.runner.figures import analysis_bytes
    from spgraph_bench.variants.marked_rows import hubs_on

    csr = case.matrix.csr
    require_memory(analysis_bytes(csr), f"the analysis of {csr.nnz:,} entries", case.matrix.source.text)
    with progress_on_stderr(f"analysing {case.matrix.name}") as progress:
        progress("counting", None)
        if case.problem in ("spmv", "spmm"):
            own = {name: v.format for name, v in _own(case.problem).items()}
            known = fitted().spmv if case.problem == "spmv" else fitted().spmm
            counted = {form for name, form in own.items() if name in known}
            facts = facts_of(csr, counted, lambda doing: progress(doing, None), gpu)
            if case.problem == "spmm":
                return _Predicted(gpu, spmm.choose(facts, gpu, case.value_bytes, case.k, own))
            return _Predicted(gpu, spmv.choose(facts, gpu, case.value_bytes, own))
        with placed_errors(case.matrix.source):
            check_square(csr)
        hubs = hubs_on(gpu, 4) if case.problem == "pagerank" else graphs.HUBS
        of_graph = graphs.graph_facts(csr, pattern_is_symmetric(case.matrix), hubs)
        return _Predicted(gpu, graph=(of_graph, graphs.choose(case.problem, of_graph, gpu)))


# ---- measured ---------------------------------------------------------------------------------------------


def _measure(
    argument: str | None,
    problem: str,
    dtype: str,
    k: int,
    budget: float,
    where: str,
    read_options: ReadOptions,
    as_json: bool,
) -> int:
    from spgraph_bench.problems import get_problem

    own = _own(problem)
    options = RunOptions(dtypes=(dtype,), device=where, save=False)
    columns = {"k": k} if problem == "spmm" else {}
    request = Request(get_problem(problem), list(own.values()), options, columns, argument, read_options)
    with opened(request) as bench:
        info = bench.session.info()
        case = _Case(problem, bench.matrix, dtype, k)
        predicted = _predict(case, info.gpu)
        names, left, seconds = _to_measure(predicted, budget) if bench.matrix.csr.nnz else ([], [], budget)
        started = time.monotonic()
        if names:
            bench.run([own[name] for name in names], {}, echo=False, time_limit_s=seconds)
        bench.session.release()
        if names:
            note(f"measured {len(names)} of {len(own)} variants in {time.monotonic() - started:.3g} s")
        return _show(case, predicted, bench.records, info.name, left, as_json)


def _to_measure(predicted: _Predicted, budget: float) -> tuple[list[str], list[str], float]:
    """Variants to measure, those omitted for their setup, and seconds of sampling for each.

    The best predicted, two of CSR, and the mode that gains are relative to. Half the budget is for setup: what takes
    more is omitted.
    """
    from spgraph_bench.advice import spmv

    if predicted.graph is not None:
        _, choice = predicted.graph
        modes = dict.fromkeys(mode.variant for mode in (*choice.ranked[:_MODES], choice.baseline))
        setup = max(mode.setup_ms for mode in choice.ranked) / 1e3  # modes share what they read
        return list(modes), [], max(_LEAST, (budget - setup) / len(modes))
    if predicted.choice is None:
        return [], [], budget
    names, left, setup = spmv.promising(predicted.choice, budget)
    return names, left, max(_LEAST, (budget - setup) / max(len(names), 1))


# ---- shown ------------------------------------------------------------------------------------------------


def _show(
    case: _Case, predicted: _Predicted, records: Sequence[Record], measured_on: str, left: Sequence[str], as_json: bool
) -> int:
    from spgraph_bench.advice.sentences import sentences

    csr = case.matrix.csr
    answer = _answer(case, predicted, records, measured_on) if csr.nnz else None
    bad = [r for r in records if r.status in ("wrong", "failed")]
    for record in bad:
        warn(f"{record.variant} is {record.status}: {record.reason}")
    if measured_on and answer is not None and not answer.measured_on:
        warn("nothing could be measured: this is predicted")
    lines = _without_answer(case, predicted) if answer is None else sentences(answer)
    hints = _hints(predicted, answer, left)
    if as_json:
        out_json(_as_json(case, predicted, answer, records, lines, hints))
        return int(bool(bad))
    problem = case.problem + (f", k = {case.k}" if case.problem == "spmm" else "")
    entries = quantity(csr.nnz, "entry", "entries")
    out(f"{case.matrix.name}: {csr.rows:,} x {csr.cols:,}, {entries}, {problem}, {case.dtype}\n\n")
    for sentence in lines:
        out(textwrap.fill(sentence, min(console().width, 100)))
    if answer is not None:
        _show_table(predicted, records)
    for hint in hints:
        note(hint)
    return int(bool(bad))


def _without_answer(case: _Case, predicted: _Predicted) -> list[str]:
    """What is said where there is nothing to choose from."""
    if case.matrix.csr.nnz == 0:
        return ["The matrix has no entries: any variant does."]
    return [f"No variant fits into the memory of the {predicted.gpu.name}, {human_bytes(predicted.gpu.memory_bytes)}."]


def _answer(case: _Case, predicted: _Predicted, records: Sequence[Record], measured_on: str) -> Answer | None:
    from spgraph_bench.advice import sentences

    if predicted.graph is not None:
        facts, choice = predicted.graph
        measured = sentences.of_graph_records(records, facts, measured_on)
        return measured or sentences.of_graph_choice(case.problem, choice, facts, predicted.gpu.name)
    if predicted.choice is None:
        return None
    return sentences.of_records(records, measured_on) or sentences.of_choice(
        predicted.choice, predicted.gpu.name, case.problem
    )


def _hints(predicted: _Predicted, answer: Answer | None, left: Sequence[str]) -> list[str]:
    """What the sentences do not say: formats that were not measured although they are promising."""
    if answer is None or predicted.choice is None:
        return []
    known = {p.variant: p for p in predicted.choice.ranked}
    promising = [known[name] for name in left if (known[name].ms or 0.0) < answer.take.ms]
    return [
        f"{p.variant} is predicted to take {p.ms:.3g} ms; its setup takes {p.setup_ms / 1e3:.2g} s: "
        f"--budget {2.5 * p.setup_ms / 1e3:.0f}s measures it"
        for p in promising
    ]


def _rows(predicted: _Predicted, records: Sequence[Record]) -> list[dict[str, Any]]:
    """A row for each candidate, the fastest predicted first."""
    from spgraph_bench.advice.sentences import timed

    times = {way.variant: way.ms for way, _ in timed(records)}
    if predicted.graph is not None:
        modes = predicted.graph[1].ranked
        return [{**asdict(mode), "measured_ms": times.get(mode.variant)} for mode in modes]
    assert predicted.choice is not None
    return [{**asdict(p), "measured_ms": times.get(p.variant)} for p in predicted.choice.ranked]


def _show_table(predicted: _Predicted, records: Sequence[Record]) -> None:
    from rich.text import Text

    from spgraph_bench.report.text import milliseconds, significant

    rows = _rows(predicted, records)
    shown = [row for i, row in enumerate(rows) if i < _SHOWN or row["measured_ms"] is not None]
    target = console()
    measured = ["measured, ms"] if any(row["measured_ms"] for row in shown) else []
    formats = predicted.choice is not None
    titles = ["variant", *(["format"] if formats else []), "predicted, ms", *measured, "setup, ms"]
    drawn = table(target, *titles, *(["bytes", "mostly"] if formats else []))
    for column in drawn.columns[2 if formats else 1 : 6]:
        column.justify = "right"
    for row in shown:
        cells = [row["variant"], *([row["format"]] if formats else []), milliseconds(row["ms"])]
        cells += [milliseconds(row["measured_ms"])] if measured else []
        cells.append(significant(row["setup_ms"]))
        cells += [human_bytes(row["stored_bytes"]), row["limit"]] if formats else []
        drawn.add_row(*map(Text, cells))
    target.print()
    target.print(drawn)


def _as_json(
    case: _Case,
    predicted: _Predicted,
    answer: Answer | None,
    records: Sequence[Record],
    lines: Sequence[str],
    hints: Sequence[str],
) -> dict[str, Any]:
    csr = case.matrix.csr
    shape = {"rows": csr.rows, "cols": csr.cols, "nnz": csr.nnz, "sha256": case.matrix.sha256}
    refused = [] if predicted.choice is None else predicted.choice.refused
    described = None if answer is None else {**asdict(answer), "stays": answer.stays}
    if described is not None and described["pays_after"] == float("inf"):
        described["pays_after"] = None
    return {
        "schema": "spgraph-advice-1",
        "problem": case.problem,
        "matrix": {"name": case.matrix.name, **shape},
        "dtype": case.dtype,
        **({"k": case.k} if case.problem == "spmm" else {}),
        "gpu": predicted.gpu.name,
        "answer": described,
        "sentences": list(lines),
        "notes": list(hints),
        "candidates": _rows(predicted, records) if answer is not None else [],
        "refused": {p.variant: p.refused for p in refused},
    }
