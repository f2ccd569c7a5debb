"""What is tested per commit covers what it says."""

from __future__ import annotations

from itertools import combinations, product

import pytest
from battery import battery
from proportion import FULL, in_turn, pairwise, some

from spgraph_bench.formats import get_format
from spgraph_bench.variants import variants

few = pytest.mark.skipif(FULL, reason="all of it is tested")


def test_pairwise_has_every_pair() -> None:
    choices = {"a": ("auto", 1, 2, 3), "b": (64, 128, 256), "c": (0, 1), "d": ("x", "y", "z")}
    defaults = {"a": "auto", "b": 128, "c": 0, "d": "x"}
    rows = [{**defaults, **row} for row in [{}, *pairwise(choices, defaults)]]
    for one, other in combinations(choices, 2):
        had = {(row[one], row[other]) for row in rows}
        assert had == set(product(choices[one], choices[other])), (one, other)


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
    """Filters at collection leave out what a format refuses, and nothing else."""
    import test_spmv_host as spmv

    for variant in variants("spmv"):
        met = {case.values[1] for case in spmv.BATTERY if case.values[0] is variant}
        needs_one_value = not get_format(variant.format).packs_all
        assert len(met) >= (6 if needs_one_value else 0.75 * len(battery())), variant.name
        assert {case.values[2] for case in spmv.BATTERY if case.values[0] is variant} == set(variant.dtypes)
