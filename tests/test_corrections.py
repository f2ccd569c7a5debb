"""docs/corrections.md: its arithmetic is right, and what it says of this project is so."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest

from spgraph_bench.formats.base import formats
from spgraph_bench.problems.bezier import curve_points, points_needed

PAGE = (Path(__file__).resolve().parent.parent / "docs" / "corrections.md").read_text(encoding="utf-8")
EQUATIONS = [equation for equation in re.findall(r"`([^`\n]+)`", PAGE) if " = " in equation]
UNITS = {"": 1.0, "B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "G": 1e9}


def _value(text: str) -> float:
    """A sum or product as the page writes it: ^ for powers; units of factors do not count, one at the end does."""
    number, unit = re.fullmatch(r"(.*?)\s*(kB|MB|GB|TB|G|B)?", text.strip()).groups()  # type: ignore[union-attr]
    plain = re.sub(r"(?<=\d) [Bs]\b", "", number).replace("^", "**")
    assert re.fullmatch(r"[\d.+\-*/() ]+", plain), f"not arithmetic: {text}"
    return float(eval(plain)) * UNITS[unit or ""]


def test_there_are_equations() -> None:
    assert len(EQUATIONS) >= 10


@pytest.mark.parametrize("equation", EQUATIONS)
def test_equations_hold(equation: str) -> None:
    left, right = equation.split(" = ")
    assert _value(left) == pytest.approx(2**31 if right == "2^31" else _value(right), rel=5e-3)


def test_a_wrong_equation_is_found() -> None:
    assert _value("10^6 * 10^6 / 8 * 1 B") != pytest.approx(_value("1 TB"), rel=5e-3)
    assert _value("(2^20 + 1) * 4 B") == 4 * (2**20 + 1)


@pytest.mark.parametrize("k", [0.05, 0.5])
def test_the_error_of_a_curve_is_as_stated(k: float) -> None:
    control = np.array([[[0, 0], [0.5, k], [1, 0]]], np.float32)
    (n,) = points_needed(control)
    fine = 64 * (int(n) - 1) + 1
    points, curve = (curve_points(control, np.array([count])) for count in (n, fine))
    t = np.linspace(0, 1, fine)
    chords = np.stack([np.interp(t, np.linspace(0, 1, int(n)), points[:, axis]) for axis in (0, 1)], axis=1)
    worst = np.hypot(*(chords - curve).T).max()
    assert worst == pytest.approx(k / (2 * (int(n) - 1) ** 2), rel=1e-3)
    assert f"{worst:.2e}".replace("e-0", " * 10^-") in PAGE


def test_fill_is_multiplied_where_the_page_says_so() -> None:
    assert {name for name, form in formats().items() if not form.keeps_zeros} >= {"dia", "bsr"}
    assert all(formats()[name].keeps_zeros for name in ("ell", "sell", "hyb", "jds"))
    assert math.isnan(0.0 * math.inf)
