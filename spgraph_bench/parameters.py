"""One parameter: of a format or variant (``--param``), a problem (``--k``) or a recipe (``rmat:scale=20``).

There is one class and one way to read numbers, so that ``4000``, ``4_000``, ``4k`` and ``4e3`` are the same
value wherever a number may be given. Nothing heavy is imported here: the command line reads numbers at its
start.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from spgraph_bench.errors import UsageError

__all__ = ["BASELINE_SECONDS", "MAX_INDEX", "MIN_SAMPLES", "WARMUP", "Parameter", "checked_values", "exact_number"]

MAX_INDEX = 2**31 - 1
"""The largest row or column index: indices are int32."""

_SCALES = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9}
_DIGITS = r"[0-9]{1,40}(?:_[0-9]{1,40}){0,20}"
_NUMBER = re.compile(rf"([+-]?)({_DIGITS})?(?:\.({_DIGITS})?)?(?:[eE]([+-]?[0-9]{{1,3}}))?([kMG]?)")
_FRACTION_DIGITS = 9
"""Digits after the point that an exact decimal may have: recipes give the same matrix everywhere."""


def exact_number(text: str) -> Fraction | None:
    """The number that `text` is, exactly, or None: 5000, 5_000, 5k, 1.5M, 2G, 1e6, .25."""
    match = _NUMBER.fullmatch(text.strip())
    if match is None or not (match[2] or match[3]):
        return None
    sign, whole, part, exponent, scale = match.groups(default="")
    whole, part = whole.replace("_", ""), part.replace("_", "")
    value = Fraction(int(whole + part or "0"), 10 ** len(part)) * Fraction(10) ** int(exponent or 0)
    return (-1 if sign == "-" else 1) * value * _SCALES[scale]


def _exact(given: Any) -> Fraction | None:
    """`given`, text or a number, exactly; None where it is not a finite number."""
    if isinstance(given, float) and not math.isfinite(given):
        return None
    return Fraction(given) if isinstance(given, int | float | Fraction) else exact_number(str(given))


@dataclass(frozen=True)
class Parameter:
    """A parameter that a user may set; its name is its key in the mapping that holds it.

    Its kind is the type of `default` (int, float, Fraction for exact decimals, str) unless `kind` says
    otherwise.
    """

    default: Any
    """A value, or of a recipe a function of the parameters before it that gives one."""
    about: str
    """What it is, one line for lists and ``--help``."""
    choices: tuple[Any, ...] | None = None
    """The values it may have; with `between` words that may be in a number's place ("auto")."""
    between: tuple[Any, Any] | None = None
    """Least and largest value of a number."""
    check: Callable[[Any], Any] | None = None
    """For text with rules of its own: raises UsageError where it cannot be."""
    kind: type | None = None
    macro: str = ""
    """The name of the ``-D`` that the kernels of a variant get its value as: "SPG_AHEAD"."""
    unsaid: bool = False
    """A record does not name it where it was not given."""
    vertex: bool = False
    """A vertex: on the command line as the input calls it, here its number, which counts from 0."""

    @property
    def number(self) -> type | None:
        """int, float or Fraction where it is a number (with `choices`, beside its words), else None."""
        kind = self.kind or type(self.default)
        if self.kind is None and (callable(self.default) or (kind is str and self.between is not None)):
            return int
        return kind if kind in (int, float, Fraction) else None

    @property
    def ranged(self) -> bool:
        """Whether it takes any number within its bounds."""
        return self.number is not None and (self.between is not None or not self.choices)

    def parse(self, given: Any) -> Any:
        """`given`, text or a value, as a value of the parameter.

        Raises ValueError, whose text says what is wrong, and UsageError from `check`.
        """
        if isinstance(given, bool):  # which Python takes for a number
            raise ValueError(f"cannot be {given!r}")
        for choice in self.choices or ():
            if given == choice or str(given).strip() == str(choice):
                return choice
        if self.ranged:
            return self._parse_number(given)
        if self.choices:
            value = _exact(given)
            if value is not None and value in self.choices:  # 1e3 or 1k for 1000
                return int(value)
            raise ValueError(f"cannot be {given!r}")
        if self.check is not None:
            self.check(given)
        return given

    def _parse_number(self, given: Any) -> int | float | Fraction:
        kind, value = self.number, _exact(given)
        if value is None or (kind is int and value.denominator != 1):
            raise ValueError(f"cannot be {given!r}")
        if kind is Fraction and (value * 10**_FRACTION_DIGITS).denominator != 1:
            raise ValueError(f"cannot be {given!r}: more than {_FRACTION_DIGITS} digits after the point")
        low, high = self._bounds()
        if not low <= value <= high:
            raise ValueError(f"cannot be {given!r}: it is not in {self.domain}")
        number: int | float | Fraction = int(value) if kind is int else kind(value)  # type: ignore[misc]
        return number

    def _bounds(self) -> tuple[Any, Any]:
        if self.between is not None:
            return self.between
        return (0, 1) if self.number is Fraction else (-(2**31), MAX_INDEX)

    def checked(self, name: str, given: Any) -> Any:
        """As :meth:`parse`; raises UsageError, with `name` ("--k", "ell: block") as what messages call it."""
        try:
            return self.parse(given)
        except ValueError as error:
            raise UsageError(f"{name} {error}", remedy=f"take {self.expected}") from None

    def default_in(self, earlier: Mapping[str, Any]) -> Any:
        """The default, given the values of the parameters before it."""
        return self.default(earlier) if callable(self.default) else self.default

    def text(self, value: Any) -> str:
        """The text of `value`; ``parse(text(value)) == value``."""
        if not isinstance(value, Fraction):
            return str(value)
        sign, scaled = "-" if value < 0 else "", abs(value) * 10**_FRACTION_DIGITS
        whole, part = divmod(int(scaled), 10**_FRACTION_DIGITS)
        return f"{sign}{whole}.{part:0{_FRACTION_DIGITS}d}".rstrip("0").rstrip(".")

    @property
    def default_text(self) -> str:
        """The default as lists show it."""
        if callable(self.default):
            return inspect.getdoc(self.default) or "computed"
        return self.text(self.default)

    @property
    def domain(self) -> str:
        """What it takes, for lists: "1..31", "random|ones|none", "auto|1..64", "FILE"."""
        if self.vertex:
            return "VERTEX"
        words = [str(choice) for choice in self.choices or ()]
        if self.ranged:
            words.append("..".join(map(self._bound, self._bounds())))
        return "|".join(words) or "FILE"  # a text without choices is the name of a file

    @property
    def expected(self) -> str:
        """What it takes, in words: "an integer from 1 to 512 (k, M and G may follow)"."""
        words = ", ".join(str(choice) for choice in self.choices or ())
        if not self.ranged:
            return f"one of {words}" if words else "text"
        low, high = self._bounds()
        what = "an integer" if self.number is int else "a number"
        scales = " (k, M and G may follow)" if self.number is int and high >= 1000 else ""
        words += " or " if words else ""
        return f"{words}{what} from {self._bound(low)} to {self._bound(high)}{scales}"

    def _bound(self, value: Any) -> str:
        if isinstance(value, Fraction):
            return self.text(value)
        if isinstance(value, float):
            return f"{value:g}"
        bits = (int(value) + 1).bit_length() - 1
        return f"2^{bits}-1" if value > 10**9 and value == 2**bits - 1 else str(value)


MIN_SAMPLES = Parameter(20, "samples of each variant at least, even past the time limit", between=(6, 1_000_000))
"""Below 6 a median has no 95 % interval."""
WARMUP = Parameter(3, "runs before the first sample, which are not counted", between=(0, 1_000_000))
BASELINE_SECONDS = Parameter(10.0, "seconds of all CPU baselines of a run together", between=(0.0, 1e6))


def checked_values(owner: str, parameters: Mapping[str, Parameter], given: Mapping[str, Any]) -> dict[str, Any]:
    """A value for each of `parameters`: of `given` where it has one, checked, else the default.

    Names of `given` that are not parameters are ignored: one set of ``--param`` reaches all variants. Raises
    UsageError with `owner`, "csr-vector", in its text; "" for none.
    """
    prefix = f"{owner}: " if owner else ""
    return {
        name: parameter.checked(f"{prefix}{name}", given.get(name, parameter.default))
        for name, parameter in parameters.items()
    }
