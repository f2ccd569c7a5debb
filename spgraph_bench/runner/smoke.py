"""What `spgraph smoke` runs: small inputs that together launch every kernel of spgraph at least once.

Each :class:`SmokeCase` is one input of one problem. Inputs are small enough for the host device; what they miss in size
they make up for in shape, a recipe of each family among them, and one is read back from a Matrix Market file.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from types import MappingProxyType

from spgraph_bench.errors import ISSUES, DeviceError, NothingRanError, SpgraphError
from spgraph_bench.matrix import Matrix
from spgraph_bench.problems import get_problem
from spgraph_bench.results.record import Record
from spgraph_bench.runner.assembly import generated_matrix
from spgraph_bench.runner.run import run
from spgraph_bench.runner.session import Session
from spgraph_bench.runner.settings import Settings
from spgraph_bench.variants import select
from spgraph_bench.variants.base import Variant

__all__ = ["SMOKE_CASES", "SmokeCase", "run_case", "smoke_dtype", "smoke_variants", "unmet"]

_TIME_LIMIT_S = 0.05


@dataclass(frozen=True)
class SmokeCase:
    """One input of one problem, and the variants that run on it."""

    problem: str
    recipe: str = ""
    """The matrix; "" where the problem makes its own inputs."""
    variants: tuple[str, ...] = ()
    """Globs on names; none means all."""
    required: tuple[str, ...] = ()
    """Globs on names of variants that must not be skipped."""
    dtype: str = "float32"
    options: Mapping[str, int | float | str] = field(default_factory=lambda: MappingProxyType({}))
    params: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    from_file: bool = False
    """The matrix is written to a Matrix Market file and read again."""

    @property
    def title(self) -> str:
        """Problem, input and value type in words."""
        where = f"{self.recipe} from a .mtx file" if self.from_file else self.recipe or "made from options"
        return f"{self.problem}, {where}, {smoke_dtype(self)}"


_GRAPH = "rmat:scale=9,symmetrize=1"

SMOKE_CASES: tuple[SmokeCase, ...] = (
    SmokeCase(
        "spmv",
        "poisson2d:n=32",
        (
            "csr-scalar",
            "csr-vector",
            "csr-subwarp",
            "csr-16",
            "dia",
            "ell",
            "sell",
            "cusparse-csr*",
            "cusparse-sell",
            "scipy",
            "mkl",
        ),
        ("csr-*", "dia", "ell", "sell"),
        from_file=True,
    ),
    SmokeCase(
        "spmv",
        "rmat:scale=9",
        (
            "coo-*",
            "csr-adaptive",
            "csr-segmented",
            "csr-merge",
            "csr-hubs",
            "hyb*",
            "jds",
            "binned*",
            "csc-scatter",
            "cusparse-coo*",
            "cusparse-csc*",
            "scipy",
        ),
        ("coo-*", "csr-*", "hyb*", "jds", "binned*", "csc-scatter"),
        "float64",
    ),
    SmokeCase("spmv", "fem2d:n=20", ("coo-unsorted", "ell-rows"), ("coo-unsorted", "ell-rows")),
    SmokeCase("spmv", "blocks:n=16", ("bsr*", "cusparse-bsr"), ("bsr*",)),
    SmokeCase("spmv", "arrow:n=1000", ("csr-adaptive", "csr-merge", "csr-segmented", "hyb"), ("csr-*", "hyb")),
    SmokeCase("spmv", "banded:n=2000,diagonals=9", ("dia-jit",), ("dia-jit",), params={"from": "0"}),
    SmokeCase("spmv", "banded:n=2000,diagonals=9,values=ones", ("pattern-*",), ("pattern-*",)),
    SmokeCase("spmv-transposed", "uniform:n=1000,degree=8", required=("cs[rc]-*",)),
    SmokeCase("spmv-transposed", "rmat:scale=9,values=ones", ("pattern-*",), ("pattern-*",)),
    SmokeCase(
        "spmm",
        "poisson2d:n=24",
        ("csr-*", "ell", "cusparse-csr*", "cusparse-coo", "scipy", "mkl"),
        ("csr-*", "ell"),
        options={"k": 16},
    ),
    SmokeCase("spmm", "blocks:n=12", ("bsr", "cusparse-bsr"), ("bsr",), options={"k": 16}),
    SmokeCase("spmm", "blocks:n=8,block=16", ("*blocked-ell",), ("blocked-ell",), "float16", {"k": 16}),
    SmokeCase("bfs", _GRAPH, ("[!ct]*",), ("auto", "push", "direction", "persistent"), options={"sources": 2}),
    SmokeCase(
        "bfs", _GRAPH, ("child-launch", "tail-launch"), ("*-launch",), options={"sources": 2}, params={"hub_from": "32"}
    ),
    SmokeCase("bfs", "chain:n=300", ("auto", "one-block", "tail-launch"), ("auto", "one-block"), options={"source": 0}),
    SmokeCase("bfs", "star:n=2000", ("auto", "balanced"), ("auto", "balanced"), options={"source": 5}),
    SmokeCase("bfs-batch", _GRAPH, (), ("multi-source", "auto-in-turn"), options={"sources": 5}),
    SmokeCase(
        "sssp",
        f"{_GRAPH},values=integers",
        (),
        ("auto", "bellman-ford", "frontier", "near-far"),
        "int32",
        {"sources": 2},
    ),
    SmokeCase("sssp", "grid:n=20,values=random", (), ("auto",), options={"source": 0}),
    SmokeCase("cc", "powerlaw:n=1000", required=("label", "hook", "afforest")),
    SmokeCase("pagerank", "rmat:scale=9", required=("pull*", "push", "edge")),
    SmokeCase("bc", _GRAPH, (), ("push", "edge", "persistent", "auto"), options={"sources": 2}),
    SmokeCase("bc-batch", _GRAPH, (), ("multi-source", "auto-in-turn"), options={"sources": 3}),
    SmokeCase("launch", required=("host-loop", "fire-and-forget*", "tail", "flattened")),
    SmokeCase("bezier", required=("flattened", "child-launch*")),
    SmokeCase("quadtree", required=("flattened", "child-launch", "hybrid", "per-point")),
    SmokeCase("refine", required=("flattened", "child-launch")),
)
"""In the order run. tests/test_smoke.py holds that problems, kernels and families of recipes are all among them."""


def smoke_variants(case: SmokeCase) -> list[Variant]:
    """The variants of `case`, those that cannot compute its type omitted."""
    return [v for v in select(case.problem, case.variants) if smoke_dtype(case) in v.dtypes]


def smoke_dtype(case: SmokeCase) -> str:
    """The value type of `case`; problems without a choice have their own."""
    offered = get_problem(case.problem).dtypes
    return case.dtype if case.dtype in offered else offered[0]


def _matrix(case: SmokeCase, folder: Path) -> Matrix:
    """The matrix of `case`. Raises NothingRanError where a file gives another one than was written."""
    from spgraph_bench import readers, recipes, writers

    matrix = recipes.make(case.recipe)
    if not case.from_file:
        return matrix
    path = folder / f"{matrix.name}.mtx"
    writers.save(matrix, path)
    back = readers.read(str(path), readers.ReadOptions())
    if back.sha256 != matrix.sha256:
        raise NothingRanError(
            f"{path.name} gives another matrix than was written: {back.sha256[:12]}, not {matrix.sha256[:12]}",
            remedy=f"report it at {ISSUES}",
        )
    return back


def run_case(session: Session, case: SmokeCase, on_record: Callable[[Record], None]) -> list[str]:
    """Check and time `case`; `on_record` gets its records as they come. Returns what is wrong beside them.

    Raises DeviceError where the device cannot be used (any more).
    """
    chosen = smoke_variants(case)
    records: list[Record] = []
    problem = get_problem(case.problem)
    options = dict(case.options)

    def keep(record: Record) -> None:
        records.append(record)
        on_record(record)

    try:
        with tempfile.TemporaryDirectory(prefix="spgraph-smoke-") as folder:
            if not problem.needs_matrix:
                options = {**problem.host_defaults, **options}  # small
                matrix = generated_matrix(problem, options)
            else:
                matrix = _matrix(case, Path(folder))
            settings = Settings(
                dtypes=(smoke_dtype(case),),
                params=case.params,
                time_limit_s=_TIME_LIMIT_S,
                options=options,
                break_even=False,
            )
            run(session, matrix, case.problem, chosen, settings, keep)
    except DeviceError:
        raise
    except SpgraphError as error:
        return [error.cause]
    return unmet(case, records)


def unmet(case: SmokeCase, records: list[Record]) -> list[str]:
    """What `records` of `case` do not show although they must, a line each."""
    there = {record.variant: record for record in records}
    missing = []
    for glob in case.required:
        matching = [there[name] for name in there if fnmatchcase(name, glob)]
        if not matching:
            missing.append(f"no variant {glob} ran")
        missing += [f"{r.variant} must run, but was skipped: {r.reason}" for r in matching if r.status == "skipped"]
    if not any(r.status == "ok" for r in records):
        missing.append("nothing ran")
    return list(dict.fromkeys(missing))
