"""One class of parameter, one way to read numbers."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spgraph_bench.cli.main import run
from spgraph_bench.errors import UsageError
from spgraph_bench.parameters import Parameter, checked_values, exact_number
from spgraph_bench.recipes import parse


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("4000", 4000),
        ("4_000", 4000),
        ("4k", 4000),
        ("4K", None),
        ("4e3", 4000),
        ("4E3", 4000),
        ("4.0", 4),
        (" 7 ", 7),
        ("+7", 7),
        ("-7", -7),
        ("1.5M", 1_500_000),
        ("2G", 2 * 10**9),
        ("1e-3k", 1),
        (".5k", 500),
        ("5.", 5),
        ("", None),
        (".", None),
        ("e3", None),
        ("k", None),
        ("1__0", None),
        ("_1", None),
        ("1_", None),
        ("0x10", None),
        ("1 000", None),
        ("nan", None),
        ("inf", None),
        ("1e9999", None),
        ("٣", None),
    ],
)
def test_numbers(text: str, value: int | None) -> None:
    assert exact_number(text) == value


def test_fractions_are_exact() -> None:
    assert exact_number("0.1") == Fraction(1, 10)
    assert exact_number("1e-3") == Fraction(1, 1000)


@given(st.integers(-(10**18), 10**18))
def test_exact_numbers_in_every_form(value: int) -> None:
    assert exact_number(str(value)) == exact_number(f"{value:_}") == exact_number(f"{value}e0") == value
    assert exact_number(f"{value}k") == 1000 * value


@pytest.mark.parametrize(
    ("parameter", "given_value", "value"),
    [
        (Parameter(256, "", (64, 256)), "64", 64),
        (Parameter(256, "", (64, 1000)), "1k", 1000),
        (Parameter("auto", "", ("auto",), (1, 64)), "auto", "auto"),
        (Parameter("auto", "", ("auto",), (1, 64)), "6.4e1", 64),
        (Parameter(0.5, "", between=(0.0, 1.0)), "1e-1", 0.1),
        (Parameter(Fraction(1, 2), ""), ".25", Fraction(1, 4)),
        (Parameter("none", "", ("none", "degree")), "degree", "degree"),
        (Parameter("", ""), "any text", "any text"),
    ],
)
def test_values(parameter: Parameter, given_value: Any, value: Any) -> None:
    found = parameter.parse(given_value)
    assert found == value
    assert type(found) is type(value)
    assert parameter.parse(parameter.text(found)) == found


@pytest.mark.parametrize(
    ("parameter", "given_value", "words"),
    [
        (Parameter(256, "", (64, 256)), "100", "one of 64, 256"),
        (Parameter("auto", "", ("auto",), (1, 64)), "65", "auto or an integer from 1 to 64"),
        (Parameter(5, "", between=(1, 9)), "5.5", "an integer from 1 to 9"),
        (Parameter(0.5, "", between=(0.0, 1.0)), "nan", "a number from 0 to 1"),
        (Parameter(Fraction(1, 2), ""), "0.1234567891", "a number from 0 to 1"),
    ],
)
def test_wrong_values_say_what_is_taken(parameter: Parameter, given_value: Any, words: str) -> None:
    with pytest.raises(UsageError, match="x cannot be") as caught:
        parameter.checked("x", given_value)
    assert caught.value.remedy == f"take {words}"


def test_names_that_are_not_its_own_are_left_out() -> None:
    assert checked_values("v", {"a": Parameter(1, "")}, {"a": "2", "b": "3"}) == {"a": 2}


def test_the_same_texts_in_recipes_options_and_flags(capsys: pytest.CaptureFixture[str]) -> None:
    assert parse("chain:n=4k")[1]["n"] == parse("chain:n=4_000")[1]["n"] == parse("chain:n=4e3")[1]["n"] == 4000
    for text in ("1k", "1_000", "1e3"):
        options = ["--device", "host", "--no-save", "--curves", text, "--variant", "uniform"]
        assert run(["bench", "bezier", *options]) == 0
        assert "1,000 curves" in capsys.readouterr().out
