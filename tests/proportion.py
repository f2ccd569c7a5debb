"""How much of a cross product is tested: per commit what covers every pair, weekly (``make test-full``) all of it.

Set ``SPGRAPH_TESTS=full`` for all. Parameters are drawn by fixed rules, so that the same tests run each time.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations, product
from typing import Any, TypeVar

__all__ = ["FULL", "in_turn", "pairwise", "some"]

FULL = os.environ.get("SPGRAPH_TESTS") == "full"

T = TypeVar("T")


def some(values: Iterable[T], few: int) -> list[T]:
    """`few` of the values, spread evenly over them, first and last included; all of them in full."""
    there = list(values)
    if FULL or len(there) <= few:
        return there
    return [there[round(i * (len(there) - 1) / max(few - 1, 1))] for i in range(few)]


def in_turn(rows: Iterable[tuple[Any, ...]], others: Sequence[Any], start: int = 0) -> list[tuple[Any, ...]]:
    """Each row with one of `others`, which go round from number `start` on; in full with all of them."""
    if FULL:
        return [(*row, other) for row in rows for other in others]
    return [(*row, others[(start + i) % len(others)]) for i, row in enumerate(rows)]


def pairwise(choices: Mapping[str, Sequence[Any]], defaults: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Settings among which every two choices of two parameters occur together, but the defaults alone.

    Greedy: each setting takes the values that bring most pairs not had yet. In full: each choice by itself,
    too, as someone would set it.
    """
    names = sorted(choices)
    if len(names) == 1:
        return [{names[0]: value} for value in choices[names[0]] if value != defaults[names[0]]]
    left = {((a, x), (b, y)) for a, b in combinations(names, 2) for x, y in product(choices[a], choices[b])}
    collected: list[dict[str, Any]] = []
    while left:
        setting: dict[str, Any] = dict(min(left, key=str))
        for name in names:
            if name in setting:
                continue

            gains = [
                sum(tuple(sorted(((name, value), other))) in left for other in setting.items())
                for value in choices[name]
            ]
            setting[name] = choices[name][gains.index(max(gains))]
        left -= set(combinations(sorted(setting.items()), 2))
        collected.append({name: value for name, value in setting.items() if value != defaults[name]})
    if FULL:
        collected += [{name: value} for name in names for value in choices[name] if value != defaults[name]]
    return [setting for i, setting in enumerate(collected) if setting and setting not in collected[:i]]
