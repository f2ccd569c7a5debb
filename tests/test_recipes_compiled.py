"""Compiled code draws what numpy draws, bit by bit, with any number of threads."""

from __future__ import annotations

import numpy as np
import pytest

from spgraph_bench import cores, recipes, threads
from spgraph_bench.matrix import Matrix
from spgraph_bench.recipes import compiled

pytestmark = pytest.mark.skipif(compiled._library() is None, reason="no C++ compiler")


def _equal(one: Matrix, other: Matrix) -> bool:
    arrays = [(getattr(one.csr, name), getattr(other.csr, name)) for name in ("row_ptr", "col_idx", "values")]
    same = all(np.array_equal(a, b) and (a is None or a.dtype == b.dtype) for a, b in arrays)
    return same and one.policies == other.policies and one.symmetry == other.symmetry


@pytest.mark.parametrize("threads_there", [1, 3])
@pytest.mark.parametrize(
    "text",
    [
        *(f"rmat:scale={scale},symmetrize={scale % 2},seed={scale}" for scale in (1, 2, 7, 8, 9, 11)),
        "rmat:scale=3,edgefactor=400",  # all edges there are, each often
        "rmat:scale=5,a=1,b=0,c=0",  # loops alone: no edge at all
        "rmat:scale=17,edgefactor=1,symmetrize=1,values=integers",  # three groups of levels, several buckets
        "uniform:n=700,degree=9",
        "uniform:n=5,degree=40",
        "powerlaw:n=2000",
        "powerlaw:n=900,exponent=1.2,max_degree=300,values=integers",
        "poisson2d:n=9,values=random",
    ],
)
def test_the_same_bit_by_bit(text: str, threads_there: int, monkeypatch: pytest.MonkeyPatch) -> None:
    by_numpy = recipes.make(text)
    monkeypatch.setattr(threads, "WORTH_ENTRIES", 0)
    monkeypatch.setattr(compiled, "_BUCKET", 1 << 9)
    monkeypatch.setattr(cores, "_limit", threads_there)
    assert _equal(recipes.make(text), by_numpy)


def test_small_recipes_load_no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "_library", lambda: pytest.fail("loaded"))
    for text in ("rmat:scale=8", "uniform:n=300", "powerlaw:n=500"):
        recipes.make(text)


def test_without_a_compiler_numpy_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    with_it = recipes.make("rmat:scale=6")
    monkeypatch.setattr(threads, "WORTH_ENTRIES", 0)
    monkeypatch.setattr(compiled, "_library", lambda: None)
    assert _equal(recipes.make("rmat:scale=6"), with_it)


def test_progress_is_told_from_none_to_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "WORTH_ENTRIES", 0)
    shares: dict[str, list[float]] = {}
    for text in ("rmat:scale=6", "uniform:n=300"):
        recipes.make(text, lambda doing, share: shares.setdefault(doing, []).append(share or 0.0))
    for doing in ("drawing edges", "sorting edges", "drawing columns", "drawing values"):
        assert max(shares[doing]) == 1.0, doing
        assert min(shares[doing]) < 1.0, doing
