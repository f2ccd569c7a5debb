"""Ranges in a recipe's text, which then stands for several recipes: ``poisson2d:n=2^5..2^8``.

===========  ===================================================================================
``A..B``     powers of one base (``2^5..2^8``): all powers between them; else whole numbers, one by one
``A..B:+S``  A, A + S, A + 2 S, ... as long as they are not above B
``A..B:xF``  A, A F, A F^2, ... as long as they are not above B
===========  ===================================================================================

Several ranges in one text give all combinations, the last one running fastest. ``2^10`` alone is 1024.
"""

from __future__ import annotations

import itertools
import re
from fractions import Fraction

from spgraph_bench.errors import InputError
from spgraph_bench.parameters import exact_number

__all__ = ["MOST", "expand"]

MOST = 1000
"""Recipes that one text may stand for: more of them are a slip of the pen."""

_HOW = "write A..B, A..B:+STEP, A..B:xFACTOR or BASE^K..BASE^L"
_POWER = re.compile(r"([^\^]+)\^([0-9]{1,3})")


def expand(text: str) -> list[str]:
    """The recipes that `text` stands for, in order; `text` itself where nothing in it is a range or a power.

    Raises InputError for a range that cannot be read, is empty, or has more than :data:`MOST` values.
    """
    name, colon, rest = text.partition(":")
    if not colon:
        return [text]
    items = [_values(item, text) for item in rest.split(",")]
    count = 1
    for values in items:
        count *= len(values)
    if count > MOST:
        raise InputError(f"these ranges give {count:,} recipes, more than {MOST:,}", place=text, remedy=_HOW)
    return [f"{name}:{','.join(combined)}" for combined in itertools.product(*items)]


def _values(item: str, text: str) -> list[str]:
    """``NAME=VALUE`` of each value of one parameter."""
    name, equals, value = item.partition("=")
    if not equals or (".." not in value and "^" not in value):
        return [item]
    first, dots, rest = value.partition("..")
    if not dots:
        return [f"{name}={_text(_number(value, text)[0])}"]
    last, colon, step = rest.partition(":")
    (low, low_base), (high, high_base) = _number(first, text), _number(last, text)
    factor = low_base if low_base == high_base else None
    added = None if factor else Fraction(1)
    if colon:
        by = exact_number(step[1:])
        if by is None or step[:1] not in ("+", "x"):
            raise InputError(f"{step!r} is not a step", place=text, remedy=_HOW)
        factor, added = (by, None) if step[0] == "x" else (None, by)
    return [f"{name}={_text(number)}" for number in _steps(low, high, factor, added, text)]


def _number(value: str, text: str) -> tuple[Fraction, Fraction | None]:
    """The number, and its base where it is written as a power."""
    power = _POWER.fullmatch(value.strip())
    number = exact_number(power[1] if power else value)
    if number is None:
        raise InputError(f"{value.strip()!r} is not a number", place=text, remedy=_HOW)
    return (number ** int(power[2]), number) if power else (number, None)


def _steps(low: Fraction, high: Fraction, factor: Fraction | None, added: Fraction | None, text: str) -> list[Fraction]:
    if low > high:
        raise InputError(f"the range begins above its end ({_text(low)} and {_text(high)})", place=text, remedy=_HOW)
    if (added is not None and added <= 0) or (factor is not None and (factor <= 1 or low <= 0)):
        raise InputError("this range never comes to its end", place=text, remedy=_HOW)
    steps = []
    while low <= high:
        steps.append(low)
        if len(steps) > MOST:
            raise InputError(f"this range has more than {MOST:,} values", place=text, remedy=_HOW)
        low = low * factor if factor is not None else low + (added or 1)
    return steps


def _text(number: Fraction) -> str:
    """A whole number, or a decimal of at most nine digits after the point, as recipes take them."""
    if number.denominator == 1:
        return str(number.numerator)
    return f"{float(number):.9f}".rstrip("0").rstrip(".")
