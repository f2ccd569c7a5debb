"""What is tested per commit covers what it says."""

from __future__ import annotations

import importlib
from itertools import combinations, product
from pathlib import Path

import pytest
from battery import battery
from proportion import FULL, in_turn, pairwise, some

from spgraph_bench.formats import get_format
from spgraph_bench.problems import problems
from spgraph_bench.variants import Variant, variants

few = pytest.mark.skipif(FULL, reason="all of it is tested")


def test_pairwise_has_every_pair() -> None:
    choices = {"a": ("auto", 1, 2, 3), "b": (64, 128, 256), "c": (0, 1), "d": ("x", "y", "z")}
    defaults = {"a": "auto", "b": 128, "c": 0, "d": "x"}
    rows = [{**defaults, **row} for row in [{}, *pairwise(choices, defaults)]]
    for one, other in combinations(choices, 2):
        covered = {(row[one], row[other]) for row in rows}
        assert covered == set(product(choices[one], choices[other])), (one, other)


@few
def test_pairwise_is_much_less_than_the_product() -> None:
    choices = {name: tuple(range(5)) for name in "abcde"}
    assert 25 <= len(pairwise(choices, dict.fromkeys("abcde", 0))) + 1 <= 50  # of 3,125


@few
def test_others_go_round() -> None:
    assert in_turn([("a",), ("b",), ("c",)], [32, 64]) == [("a", 32), ("b", 64), ("c", 32)]
    assert in_turn([("a",), ("b",), ("c",)], [32, 64], 1) == [("a", 64), ("b", 32), ("c", 64)]
    assert some(range(1, 21), 4) == [1, 7, 14, 20]
    assert some([1, 2], 4) == [1, 2]


def test_every_kernel_meets_nearly_the_whole_battery() -> None:
    """Filters at collection omit what a variant or its format refuses, and nothing else."""
    import test_spmv_host as spmv

    for variant in variants("spmv"):
        matrices = {case.values[1] for case in spmv.BATTERY if case.values[0] is variant}
        needs_one_value = not get_format(variant.format).keeps_values
        assert len(matrices) >= (6 if needs_one_value else 0.75 * len(battery())), variant.name
        assert {case.values[2] for case in spmv.BATTERY if case.values[0] is variant} == set(variant.dtypes)


BATTERIES = {"launch": "test_counts_are_exact"}
"""What the test of all kernels is called where it is not test_battery."""


def _tested(problem: str) -> set[str]:
    """Names of the variants that the battery of `problem` runs, in tests/test_<problem>*_host.py."""
    collected: set[str] = set()
    for path in Path(__file__).parent.glob(f"test_{problem.replace('-', '_')}*_host.py"):
        test = getattr(importlib.import_module(path.stem), BATTERIES.get(problem, "test_battery"), None)
        for mark in getattr(test, "pytestmark", []):
            cases = mark.args[1] if mark.name == "parametrize" else ()
            values = [v for case in cases for v in getattr(case, "values", (case,))]
            collected |= {v.name for v in values if isinstance(v, Variant) and v.problem == problem}
    return collected


@pytest.mark.parametrize("problem", problems())
def test_every_problem_has_a_battery(problem: str) -> None:
    missing = {v.name for v in variants(problem) if v.kernel} - _tested(problem)
    assert not missing, (
        f"no test_battery in tests/test_{problem.replace('-', '_')}_host.py runs {', '.join(sorted(missing))}"
    )
