"""`spgraph spmv|spmm|bfs|sssp|... [FILE|RECIPE]`: one mode of a problem, and its answer for every vertex or row.

The commands are made from the problems, one for each with an answer per vertex or row. What only one of them has is in
``_EXTRA``: options that set a tunable, change the graph, or run more than once.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click
from click.shell_completion import CompletionItem

from spgraph_bench.cli import completing
from spgraph_bench.cli.options import PathParam, Positive, TextParam, parameters_of
from spgraph_bench.cli.plotting import check_plot, level_drawing, show_plot
from spgraph_bench.cli.problem_options import (
    ProblemCommand,
    given_own,
    given_reading,
    given_running,
    other_form,
    shared_parameters,
)
from spgraph_bench.cli.running import Opened, Request, Write, exit_status, run_and_show
from spgraph_bench.cli.terminal import console, note
from spgraph_bench.errors import UsageError

if TYPE_CHECKING:
    import numpy.typing as npt

    from spgraph_bench.matrix import Matrix
    from spgraph_bench.problems import Problem
    from spgraph_bench.results.record import Record
    from spgraph_bench.variants.base import Variant

__all__ = ["command_for", "has_answer"]

_MODES = {"cc": "afforest", "pagerank": "pull-hubs", "bfs-batch": "multi-source", "bc-batch": "multi-source"}
"""The default mode, where it is not auto."""
_CHOSEN = {"spmv", "spmm"}
"""Problems of which `auto` is not a variant, but chooses one that needs no conversion, by `spgraph_bench.advice`."""
_WEIGHTED_MODE = "pull"
"""pagerank's with weights, which its default mode does not know."""
_ALL = 2**31 - 1

_TEXTS = {
    "spmv": """Multiply a sparse matrix with a vector: y = A x.

    x is that of --x, else drawn from --seed. y is checked against a plain product in float64 before anything is
    timed. The mode auto takes the kernel of plain CSR that is predicted to be the fastest on the matrix (`spgraph
    advise` looks at other formats too). Without a file or recipe a built-in recipe is used.

    \b
      spgraph spmv matrix.mtx --x x.npy --output y.npy
      spgraph spmv matrix.mtx --x x.csv --output y.csv --dtype float64 --mode csr-vector""",
    "spmm": """Multiply a sparse matrix with a dense one: Y = A X, X of k columns.

    X is that of --x, else drawn from --seed. Y is checked against a plain product in float64 before anything is
    timed. The mode auto takes the kernel of plain CSR that is predicted to be the fastest on the matrix (`spgraph
    advise --problem spmm` looks at other formats too). Without a file or recipe a built-in recipe is used.

    \b
      spgraph spmm matrix.mtx --k 8 --x x.npy --output y.npy
      spgraph spmm matrix.mtx --k 64 --mode csr-tile""",
    "bfs": """Search a graph breadth-first: an entry in row u, column v is an edge from u to v.

    Levels are checked against a plain search before anything is timed. Without a file or recipe a built-in
    recipe is used.

    \b
      spgraph bfs graph.mtx --source 1 --trace --output levels.csv
      spgraph bfs rmat:scale=20,symmetrize=1 --sources 64 --mode auto
      spgraph bfs rmat:scale=20,symmetrize=1 --sources 64 --batch
      spgraph bfs grid:n=1000 --tune""",
    "sssp": """Find the shortest paths from a vertex: an entry in row u, column v is an edge from u to v, that long.

    Lengths are checked against Dijkstra's before anything is timed. Without a file or recipe a built-in
    recipe is used.

    \b
      spgraph sssp graph.mtx --source 1 --output lengths.csv
      spgraph sssp rmat:scale=20,symmetrize=1 --weights integers --dtype int32
      spgraph sssp roads.gr --source 1 --cutoff 5000
      spgraph sssp grid:n=1000,values=none --source 0 --mode auto""",
    "pagerank": """Rank the vertices of a graph by PageRank: an entry in row u, column v is an edge from u to v.

    Weights are used with --weighted only, whose default mode is pull. One more step in float64 checks the
    ranks before anything is timed. Without a file or recipe a built-in recipe is used.

    \b
      spgraph pagerank graph.mtx --top 20 --output ranks.csv
      spgraph pagerank rmat:scale=20,symmetrize=1 --reorder degree
      spgraph pagerank web.txt --dangling self --trace""",
    "cc": """Find the connected components of a graph, and the sizes of the largest.

    Edges count in both directions: of a directed graph these are its weakly connected components. The answer
    is compared with scipy's before anything is timed. --output writes each vertex's component, numbered from
    the largest. Without a file or recipe a built-in recipe is used.

    \b
      spgraph cc graph.mtx
      spgraph cc rmat:scale=20,symmetrize=1 --mode hook
      spgraph cc edges.txt --output component.csv""",
    "bc": """Find the vertices that most shortest paths pass: betweenness centrality, edges without weights.

    From each source every vertex gets its dependency, the sum over targets of the share of shortest paths
    that lead through it; the answer is the sum over sources. Times are per source. Dependencies are compared
    with a plain Brandes before anything is timed. Without a file or recipe a built-in recipe is used.

    \b
      spgraph bc graph.mtx --sources 16
      spgraph bc graph.mtx --sources 64 --batch
      spgraph bc graph.mtx --all-sources --normalize pairs --output betweenness.csv
      spgraph bc grid:n=1000 --source 0 --mode persistent""",
}
"""What `--help` says, where it is more than the problem's title."""

_BATCH = click.option("--batch", is_flag=True, help="Up to 64 sources in each run, by --mode multi-source.")

_EXTRA = {
    "bfs": (
        click.option(
            "--all-modes",
            is_flag=True,
            help="With --trace: the other modes too, from that source; which is fastest in each level.",
        ),
        _BATCH,
        click.option("--parents", is_flag=True, help="Find a parent of every vertex too; checked by Graph500's rules."),
        click.option(
            "--plot",
            metavar="FILE|-",
            shell_complete=completing.file,
            help="Trace the first run; draw frontiers and levels over time to a .png, .svg or .pdf file, or to the "
            "terminal (-).",
        ),
        click.option("--tune", is_flag=True, help="Try settings of --mode on this graph and keep the best for it."),
    ),
    "sssp": (
        click.option(
            "--weights",
            type=click.Choice(["file", "ones", "integers"]),
            default="file",
            show_default=True,
            help="The graph's own (1 where it has none), all 1, or drawn from 1 to 255 with --seed.",
        ),
        click.option(
            "--delta",
            type=Positive(),
            metavar="LENGTH",
            help="How far the threshold of near-far and auto rises at a time [default: from the weights].",
        ),
    ),
    "bc": (_BATCH, click.option("--all-sources", is_flag=True, help="Start from every vertex: the exact centrality.")),
}


class _ModeName(TextParam):
    """A variant of a problem, spgraph's or a library's."""

    name = "mode"

    def __init__(self, problem: str) -> None:
        self._problem = problem

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from spgraph_bench.variants import variants

        known = [*(("auto",) if self._problem in _CHOSEN else ()), *(v.name for v in variants(self._problem))]
        known += [v.name for v in variants(f"{self._problem}-batch")]
        if value not in known:
            close = difflib.get_close_matches(value, known, n=1)
            hint = f" Did you mean {close[0]}?" if close else ""
            self.fail(f"{value!r} is not one of {', '.join(known)}.{hint}", param, ctx)
        return str(value)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
        """The modes."""
        auto = [CompletionItem("auto")] if self._problem in _CHOSEN and "auto".startswith(incomplete) else []
        return [*auto, *completing.variants(ctx, param, incomplete)]


_TRACE = click.option("--trace", is_flag=True, help="Show every step of the first run.")
_OUTPUT_HELP = (
    "Write the answer for every vertex: a plain array in FILE.npy, all columns in .npz, .csv or, by the input's ids, "
    ".mtx; if ids do not just count, also FILE.vertices.csv with the number of each."
)


def has_answer(problem: Problem) -> bool:
    """Whether it answers something about each vertex or row: then it has a command of its own.

    The product with A^T is not among them: `bench spmv --transpose` measures it. Batches are `--batch` of theirs.
    """
    from spgraph_bench.problems.base import Problem as Base

    other = getattr(problem, "transposes", False) or getattr(problem, "is_batch", False)
    return type(problem).columns is not Base.columns and not other


def _default_mode(problem: str) -> str:
    from spgraph_bench.variants import variants

    names = [v.name for v in variants(problem)]
    return _MODES.get(problem, "auto" if "auto" in names or problem in _CHOSEN else names[0])


def _parameters(problem: Problem) -> list[click.Parameter]:
    from spgraph_bench.formats import get_format
    from spgraph_bench.variants import variants

    orders = problem.is_graph and any("reorder" in get_format(v.format).tunables for v in variants(problem.name))
    own = [
        click.option(
            "--mode",
            type=_ModeName(problem.name),
            default=_default_mode(problem.name),
            show_default=True,
            help="Variant to run (`spgraph list variants`).",
        ),
        *(
            (
                click.option(
                    "--reorder",
                    type=click.Choice(["none", "degree"]),
                    default="none",
                    show_default=True,
                    help="Number the vertices by degree first; results are by the input's ids.",
                ),
            )
            if orders
            else ()
        ),
        *((_TRACE,) if problem.is_graph else ()),
        click.option(
            "--output",
            type=PathParam(),
            metavar="FILE",
            help=_OUTPUT_HELP if problem.is_graph else "Write y to FILE.npy, .npz, .csv or .mtx.",
        ),
        *_EXTRA.get(problem.name, ()),
    ]
    argument, *shared = shared_parameters(problem, choose=False)
    return [argument, *parameters_of(*own), *shared]


def command_for(problem: str) -> click.Command:
    """The command that solves the problem of that name."""
    return ProblemCommand(problem, problem, _parameters, _run, lambda entry: _TEXTS.get(problem, f"{entry.title}."))


def _all_sources(own: Mapping[str, Any]) -> dict[str, Any]:
    if "source" in own or "sources" in own:
        raise UsageError("--all-sources starts from every vertex", remedy="omit --source and --sources")
    return {**own, "sources": _ALL, "component": "any"}


def _mode(problem: Problem, given: Mapping[str, Any], own: Mapping[str, Any]) -> str:
    from spgraph_bench.variants import variants

    chosen = click.get_current_context().get_parameter_source("mode") is not click.core.ParameterSource.DEFAULT
    mode, names = str(given["mode"]), [v.name for v in variants(problem.name)]
    if given.get("batch"):
        if not chosen:
            return _default_mode(problem.name)
        if mode not in names:
            raise UsageError(f"{mode} has one source in a run", remedy=f"--mode {' or '.join(names)}, or omit --batch")
    elif chosen and mode not in names and problem.name not in _CHOSEN:
        raise UsageError(f"{mode} is for batches of sources", remedy="add --batch")
    if own.get("weighted") == "yes" and not chosen:
        return _WEIGHTED_MODE
    return mode


def _batch(problem: Problem, given: Mapping[str, Any]) -> Problem:
    """The problem whose runs have a batch of sources each. Raises UsageError for what follows one source only."""
    for name in ("parents", "all_modes", "plot", "tune"):
        if given.get(name):
            raise UsageError(f"--{name.replace('_', '-')} is for one source in a run", remedy="omit it, or --batch")
    return other_form(problem, "batch") or problem


def _params(problem: Problem, mode: str, given: Mapping[str, Any], params: Mapping[str, Any]) -> dict[str, Any]:
    """The tunables: those of --param, and those that have an option of their own."""
    from spgraph_bench.variants import get_variant

    filled = dict(params)
    for name in ("parents", "reorder", "delta"):
        if name not in given or (name == "parents" and given.get("batch")):
            continue
        if name in params and (given[name] is not None or name != "delta"):
            raise UsageError(f"--param {name} is a separate option here", remedy=f"--{name} alone")
        if given[name] is not None:
            filled[name] = int(given[name]) if name == "parents" else given[name]
    if given.get("delta") is not None and "delta" not in get_variant(problem.name, mode).tunables:
        raise UsageError(f"{mode} has no threshold", remedy="--mode near-far or auto")
    return filled


def _weighted(weights: Literal["file", "ones", "integers"], seed: int) -> Callable[[Matrix], Matrix] | None:
    """What becomes of the graph with --weights."""
    if weights == "file":
        return None

    def change(matrix: Matrix) -> Matrix:
        from spgraph_bench.problems.sources import pattern_is_symmetric
        from spgraph_bench.recipes.values import with_values

        return with_values(matrix, weights, seed, pattern_is_symmetric(matrix))

    return change


def _run(problem: Problem, given: Mapping[str, Any]) -> int:
    from spgraph_bench.runner.choosing import check_params
    from spgraph_bench.variants import variants

    options, own = given_running(problem, given), given_own(problem, given)
    if given.get("batch"):
        problem = _batch(problem, given)
    if given.get("all_sources"):
        own = _all_sources(own)
    mode, output, trace = _mode(problem, given, own), given["output"], given.get("trace", False)
    plot = given.get("plot")
    check_plot(plot, options.json)
    every = {v.name: v for v in variants(problem.name)}
    chosen, others = [every[mode]] if mode in every else _plain_csr(every.values()), []
    if given.get("all_modes"):
        if not trace and plot is None:
            raise UsageError("--all-modes shows the fastest mode of each level", remedy="add --trace")
        others = [v for v in every.values() if v.kernel and v.name != mode]
    params = _params(problem, mode, given, options.params)
    if mode in every:
        check_params([*chosen, *others], options.params)
    elif options.params:
        having = [v.name for v in (*chosen, *every.values()) if options.params.keys() <= v.tunables.keys()]
        raise UsageError(
            "auto chooses the kernel, and --param is for one kernel",
            remedy=f"add --mode {having[0]}" if having else "omit --param, or name a kernel with --mode",
        )
    check_params([*every.values()], {name: params[name] for name in params if name not in options.params})
    if output is not None:
        if given.get("tune"):
            raise UsageError("--tune tries several settings, so there is no single answer", remedy="omit --output")
        texts = [str(own[name]) for name, p in problem.options.items() if p.domain == "FILE" and own.get(name)]
        _check_output(output, [name for name in (given["argument"], *texts) if name])
    request = Request(
        problem,
        [*chosen, *others],
        options,
        own,
        given["argument"],
        given_reading(problem, given),
        ids=given.get("ids", "file"),
        change=_weighted(given.get("weights", "file"), options.seed),
    )
    if given.get("tune"):
        if plot is not None:
            raise UsageError("--tune tries several settings, so there are no levels to draw", remedy="omit --plot")
        from spgraph_bench.cli.tuning import tune

        return tune(request, params)

    products: list[str] = []
    modes = {mode}

    def go(bench: Opened) -> None:
        write = None if output is None else _answer_writer(output, bench)
        if not problem.is_graph:
            write = _described(write, products)
        if mode not in every:
            for i, (dtype, variant) in enumerate(_chosen(chosen, bench, options.dtypes).items()):
                modes.add(variant.name)
                bench.run([variant], params, write=None if i else write, dtypes=(dtype,))
            return
        bench.run(chosen, params, write=write, trace=trace or plot is not None)
        if others:  # watched from the first source only; from where child launches pay is not measured for them
            once = {**bench.own, "sources": 1}
            bench.run(others, params, options=once, trace=True, break_even=False)

    def show(records: Sequence[Record]) -> None:
        if not options.json:
            _show(records, modes, trace)
            for text in products:
                click.echo(text)
        if plot is not None:
            show_plot(plot, level_drawing(records))

    return exit_status(run_and_show(request, go, show))


def _plain_csr(known: Iterable[Variant]) -> list[Variant]:
    """spgraph's own variants for a GPU that read CSR as it is."""
    return [v for v in known if v.format == "csr" and v.library is None and v.where == "gpu"]


def _chosen(candidates: Sequence[Variant], bench: Opened, dtypes: Sequence[str]) -> dict[str, Variant]:
    """By value type, the one of `candidates`, which read CSR, that is predicted to be the fastest on the matrix.

    Raises UsageError where none has a type.
    """
    from spgraph_bench.advice import spmm, spmv
    from spgraph_bench.advice.facts import facts_of
    from spgraph_bench.problems import filled_options
    from spgraph_bench.variants import variants

    name, options = bench.request.problem.name, filled_options(bench.request.problem, bench.own)
    for dtype in dtypes:
        if not any(dtype in v.dtypes for v in candidates):
            others = [v.name for v in variants(name) if v.library is None and v.where == "gpu" and dtype in v.dtypes]
            raise UsageError(f"auto has no kernel of {dtype}", remedy=f"add --mode {' or '.join(others)}")
    known = {v.name: v for v in candidates}
    if options.get("layout") == "column":
        note(f"auto takes {spmm.COLUMN_MAJOR}, which depends least on the matrix if X is column-major")
        return dict.fromkeys(dtypes, known[spmm.COLUMN_MAJOR])
    gpu, formats = bench.session.info().gpu, {v.name: v.format for v in candidates}
    facts = facts_of(bench.matrix.csr, {"csr"}, gpu=gpu)
    chosen: dict[str, Variant] = {}
    for dtype in dtypes:
        size = 8 if dtype == "float64" else 4
        if name == "spmm":
            choice = spmm.choose(facts, gpu, size, int(options["k"]), formats)
        else:
            choice = spmv.choose(facts, gpu, size, formats)
        chosen[dtype] = known[choice.best.variant] if choice is not None else candidates[0]
        if choice is not None:  # else more than the memory of the GPU: whichever is run says so
            best = choice.best.variant
            note(f"auto takes {best}, predicted to be the fastest of those that read CSR on the {gpu.name}")
    return chosen


def _show(records: Sequence[Record], modes: Collection[str], trace: bool) -> None:
    from spgraph_bench.report.result import render_result
    from spgraph_bench.report.traversal_table import render_trace

    out = console()
    own = [r for r in records if r.variant in modes]
    for record in own:
        click.echo(render_result(record, out.width, out.is_terminal), nl=False)
    if trace and own and own[0].problem == "bfs" and own[0].check.get("ok"):
        # An interrupt may leave modes that were watched, but not timed.
        shown_records = [r for r in records if r.check.get("ok") or r.status in ("wrong", "failed")]
        text = render_trace(own[0], out.width, out.is_terminal, [r for r in shown_records if r is not own[0]])
        click.echo(f"\n{text}", nl=False)


def _described(write: Write | None, texts: list[str]) -> Write:
    """`write`, which also puts a line about the product into `texts`."""

    def both(columns: Mapping[str, npt.NDArray[Any]]) -> None:
        import numpy as np

        if write is not None:
            write(columns)
        for name, column in columns.items():
            y = column.astype(np.float64)
            size = f"{name} = A x: {len(y):,} values"
            if y.ndim == 2:
                size = f"Y = A X: {y.shape[0]:,} x {y.shape[1]:,} values"
            if y.size:
                with np.errstate(over="ignore", invalid="ignore"):
                    norm = float(np.sqrt((y * y).sum()))
                size += f" from {float(y.min()):.6g} to {float(y.max()):.6g}, 2-norm {norm:.6g}"
            texts.append(size)

    return both


def _answer_writer(path: Path, bench: Opened) -> Write:
    """A function that writes an answer to `path`."""
    from spgraph_bench.answers import needs_map, save_answer, save_vertex_map, vertex_map_path
    from spgraph_bench.matrix import called

    matrix, graph = bench.matrix, bench.request.problem.is_graph

    def write(columns: Mapping[str, npt.NDArray[Any]]) -> None:
        labels = matrix.labels()
        about = f"spgraph {matrix.source.kind} {' '.join(matrix.source.text.split())}"
        what = "vertex" if graph else "row"
        save_answer(path, labels, columns, about, what)
        known = vertex_map_path(path) if needs_map(bench.of_input) else None
        if known is not None:
            save_vertex_map(known, bench.of_input)
        based = ""
        if known is not None:
            based = f", what each is called in {known}"
        elif len(labels) and called(labels, 0) == 1:
            based = ", the first is 1 there" if path.suffix.lower() != ".npy" else ""
        written = list(columns)[:1] if path.suffix.lower() == ".npy" else list(columns)
        if len(written) < len(columns):
            based += f"; {path.with_suffix('.npz').name} would have {', '.join(list(columns)[1:])} too"
        note(f"{', '.join(written)} of {len(labels):,} {'vertices' if graph else 'rows'} in {path}{based}")

    return write


def _check_output(path: Path, inputs: Sequence[str]) -> None:
    """Before any work: UsageError where no answer can be written to `path`, or it is one of the `inputs`."""
    from spgraph_bench.answers import check_answer_path, vertex_map_path

    check_answer_path(path)
    for target in (path, vertex_map_path(path)):
        for name in inputs:
            if target.exists() and Path(name).exists() and target.samefile(name):
                raise UsageError("is the input itself", place=str(target), remedy="name another file")
