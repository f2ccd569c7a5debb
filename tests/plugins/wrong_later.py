"""Traversals whose answers are right from the first source only; loaded through SPGRAPH_PLUGINS."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from spgraph_bench.variants import get_variant
from spgraph_bench.variants.base import Job, Launch, variant


def _spoilt(job: Job, problem: str, spoil: Callable[[np.ndarray], None]) -> Launch:
    """The launch of `auto`, whose outputs are spoilt from the second case on."""
    real = get_variant(problem, "auto")
    launch = real.prepare(replace(job, variant=real))
    chosen = 0

    def select(case: int) -> None:
        nonlocal chosen
        chosen = case
        launch.select(case)

    def output() -> Any:
        result = launch.output()
        if chosen:
            spoil(result)
        return result

    return replace(launch, select=select, output=output)


def _swap(report: np.ndarray) -> None:
    """The largest two levels or lengths that differ change places: the values as a whole stay the same."""
    order = np.argsort(report, kind="stable")
    one = order[-1]
    other = next(v for v in order[::-1] if report[v] != report[one])
    report[[one, other]] = report[[other, one]]


def _less(report: np.ndarray) -> None:
    report[np.argmax(report)] *= 1 - 1e-6


_AUTO = {name: get_variant(name, "auto") for name in ("bfs", "sssp", "bc")}


@variant(
    "bfs",
    "wrong-later",
    format=_AUTO["bfs"].format,
    source=_AUTO["bfs"].source,
    dtypes=("int32",),
    tunables=_AUTO["bfs"].tunables,
    about="right from the first source only",
)
def bfs(job: Job) -> Launch:
    return _spoilt(job, "bfs", _swap)


@variant(
    "sssp",
    "wrong-later",
    format=_AUTO["sssp"].format,
    source=_AUTO["sssp"].source,
    dtypes=("float32", "int32"),
    tunables=_AUTO["sssp"].tunables,
    about="right from the first source only",
)
def sssp(job: Job) -> Launch:
    return _spoilt(job, "sssp", _swap)


@variant(
    "bc",
    "wrong-later",
    format=_AUTO["bc"].format,
    source=_AUTO["bc"].source,
    dtypes=("float64",),
    tunables=_AUTO["bc"].tunables,
    about="right from the first source only",
)
def bc(job: Job) -> Launch:
    return _spoilt(job, "bc", _less)
