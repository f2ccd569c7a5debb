"""The interval of the median and the rule that stops on it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from spgraph_bench.measure.stopping import Precision, StoppingRule
from spgraph_bench.results.interval import Interval, interval_ranks, median_interval


def run(rule: StoppingRule, draws: Iterator[float], cost_s: float = 0.0) -> tuple[str, int, Interval | None]:
    """Feed `draws`, each taking `cost_s`, until the rule stops."""
    state = Precision(rule)
    for n in itertools.count(1):
        state.add(next(draws))
        if why := state.verdict(n * cost_s):
            return why, n, state.interval()
    raise AssertionError


def bits(seed: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


# -- the interval


def test_smallest_sample_with_an_interval_is_six() -> None:
    assert interval_ranks(5) is None
    assert interval_ranks(6) == (1, 6, 0.96875)
    assert median_interval([1.0] * 5) is None


@pytest.mark.parametrize(
    ("n", "ranks"), [(10, (2, 9)), (20, (6, 15)), (50, (18, 33)), (100, (40, 61)), (1000, (469, 532))]
)
def test_ranks_are_those_of_published_tables(n: int, ranks: tuple[int, int]) -> None:
    # The binomial table of order-statistic intervals (e.g. Le Boudec, Performance Evaluation, appendix A).
    result = interval_ranks(n)
    assert result is not None
    assert result[:2] == ranks


def _heads(most: int, tosses: int) -> float:
    """The chance of `most` heads or fewer, from whole numbers."""
    ways = itertools.accumulate(range(most), lambda before, k: before * (tosses - k) // (k + 1), initial=1)
    return sum(ways) / 2**tosses


@pytest.mark.parametrize("n", [6, 7, 20, 21, 333, 5000])
@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.99])
def test_coverage_is_exact_and_the_interval_the_shortest(n: int, confidence: float) -> None:
    result = interval_ranks(n, confidence)
    if result is None:
        assert 1 - 2 * _heads(0, n) < confidence
        return
    low, high, coverage = result
    assert low + high == n + 1
    assert coverage == pytest.approx(1 - 2 * _heads(low - 1, n), abs=1e-12)
    assert coverage >= confidence - 1e-12
    if low < high - 2:  # one rank further in would not cover enough
        assert 1 - 2 * _heads(low, n) < confidence


def test_interval_does_not_need_sorted_values() -> None:
    span = median_interval([5.0, 1.0, 4.0, 2.0, 6.0, 3.0])
    assert span is not None
    assert (span.low, span.median, span.high) == (1.0, 3.5, 6.0)
    assert span.half_width == pytest.approx(2.5 / 3.5)


def test_a_confidence_outside_zero_and_one_is_refused() -> None:
    with pytest.raises(ValueError, match="confidence"):
        interval_ranks(10, 1.0)


def test_overlap_and_below() -> None:
    a, b, c = Interval(1, 2, 3, 0.95), Interval(3, 4, 5, 0.95), Interval(3.1, 4, 5, 0.95)
    assert a.overlaps(b)
    assert not a.below(b)
    assert a.below(c)
    assert not c.below(a)
    assert not a.overlaps(c)


@pytest.mark.parametrize(
    ("name", "draw", "median"),
    [
        ("normal", lambda g, n: g.standard_normal(n), 0.0),
        ("exponential", lambda g, n: g.exponential(size=n), math.log(2)),
        ("Cauchy", lambda g, n: g.standard_cauchy(n), 0.0),
        ("two modes", lambda g, n: g.standard_normal(n) + np.where(g.random(n) < 0.5, -4.0, 4.0), 0.0),
    ],
)
def test_interval_covers_the_median_of_any_distribution(
    name: str, draw: Callable[[np.random.Generator, int], np.ndarray], median: float
) -> None:
    g, trials, n = bits(7), 2000, 30
    ranks = interval_ranks(n)
    assert ranks is not None
    rising = np.sort(draw(g, trials * n).reshape(trials, n), axis=1)
    hits = np.mean((rising[:, ranks[0] - 1] <= median) & (median <= rising[:, ranks[1] - 1]))
    # Exact coverage at n = 30 is 95.7 %; four standard errors of 2,000 trials are 1.8 %.
    assert abs(hits - ranks[2]) < 0.018, name


# -- the rule


def test_a_constant_clock_stops_at_the_minimum() -> None:
    assert run(StoppingRule(), itertools.repeat(3.0))[:2] == ("converged", 20)


def test_within_one_percent_means_both_ends() -> None:
    # Sorted, ranks 6 and 15 of 20 are the ends. Skewed: 0 below, `far` above the median.
    def samples(far: float) -> Iterator[float]:
        return iter([100.0] * 11 + [100.0 + far] * 9)

    assert run(StoppingRule(max_samples=20), samples(1.0))[0] == "converged"
    assert run(StoppingRule(max_samples=20), samples(1.01))[0] == "sample limit"


def test_noise_costs_samples_and_the_interval_is_narrow_enough() -> None:
    g = bits(1)
    counts = []
    for sigma in (0.01, 0.05):
        why, n, span = run(StoppingRule(), (float(1 + sigma * z) for z in g.standard_normal(10_000)))
        assert why == "converged"
        assert span is not None
        assert span.half_width <= 0.01
        counts.append(n)
    assert counts[0] < counts[1]


def test_heavy_tails_do_not_hold_up_the_median() -> None:
    draws = (float(1 + 0.002 * abs(z)) for z in bits(2).standard_cauchy(10_000))
    why, n, _ = run(StoppingRule(), draws)
    assert why == "converged"
    assert n < 100


def test_two_equal_modes_never_converge_and_end_at_the_sample_limit() -> None:
    # Two modes 10 % apart, weight one half each: the median is in the gap, its interval spans it.
    g = bits(3)
    draws = (1.0 if u < 0.5 else 1.1 for u in g.random(5000))
    assert run(StoppingRule(max_samples=500), draws)[:2] == ("sample limit", 500)


def test_drift_ends_at_the_time_limit() -> None:
    draws = (1 + 0.01 * i for i in itertools.count())
    why, n, _ = run(StoppingRule(time_limit_s=1.0), draws, cost_s=0.01)
    assert (why, n) == ("time limit", 100)


def test_a_six_second_kernel_ends_after_six_samples() -> None:
    assert run(StoppingRule(time_limit_s=5.0), itertools.repeat(6000.0), cost_s=6.0)[:2] == ("time limit", 6)


def test_convergence_wins_over_a_limit_reached_at_the_same_sample() -> None:
    assert run(StoppingRule(time_limit_s=2.0), itertools.repeat(1.0), cost_s=0.1)[0] == "converged"


def test_a_zero_time_converges_instead_of_dividing_by_zero() -> None:
    assert run(StoppingRule(), itertools.repeat(0.0))[0] == "converged"


@pytest.mark.parametrize(
    ("name", "draw", "median"),
    [
        ("normal, 2 %", lambda g, n: 1 + 0.02 * g.standard_normal(n), 1.0),
        ("log-normal, 3 %", lambda g, n: np.exp(0.03 * g.standard_normal(n)), 1.0),
        ("one-sided Cauchy", lambda g, n: 1 + 0.01 * np.abs(g.standard_cauchy(n)), 1.01),
    ],
)
def test_stopping_costs_little_coverage(
    name: str, draw: Callable[[np.random.Generator, int], np.ndarray], median: float
) -> None:
    g, trials, hits = bits(11), 300, 0
    for _ in range(trials):
        _, _, span = run(StoppingRule(), iter(draw(g, 2000).tolist()))
        assert span is not None
        hits += span.low <= median <= span.high
    # Nominal 95 %, some of it lost to looking more than once; four standard errors are 5 %.
    assert hits / trials > 0.88, name


def test_looks_grow_apart_so_that_judging_stays_cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = 0
    original = Precision.interval

    def counted(self: Precision) -> Interval | None:
        nonlocal looks
        looks += 1
        return original(self)

    monkeypatch.setattr(Precision, "interval", counted)
    draws = iter(bits(5).random(10_000).tolist())
    assert run(StoppingRule(precision=1e-6, max_samples=10_000), draws)[:2] == ("sample limit", 10_000)
    assert looks < 150


def test_resumed_values_count() -> None:
    state = Precision(StoppingRule(), [2.0] * 19)
    assert state.verdict(0) is None
    state.add(2.0)
    assert state.verdict(0) == "converged"
    assert len(state) == 20


@pytest.mark.parametrize(
    "wrong",
    [
        {"precision": 0},
        {"precision": math.nan},
        {"time_limit_s": -1},
        {"time_limit_s": math.nan},
        {"floor_samples": 30},
        {"max_samples": 10},
        {"floor_samples": 0},
    ],
)
def test_impossible_rules_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"must|need"):
        StoppingRule(**wrong)  # type: ignore[arg-type]


def test_an_unlimited_time_is_null_in_a_record() -> None:
    assert StoppingRule(time_limit_s=math.inf).to_json()["time_limit_s"] is None
    assert StoppingRule().to_json()["precision"] == 0.01
