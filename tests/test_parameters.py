"""One class of parameter, one way to read numbers."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spgraph_bench.cli.main import group, run
from spgraph_bench.cli.options import ParameterType, Positive
from spgraph_bench.errors import UsageError
from spgraph_bench.parameters import Parameter, checked_values, exact_number
from spgraph_bench.recipes import parse
from spgraph_bench.variants import get_variant


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
    result = parameter.parse(given_value)
    assert result == value
    assert type(result) is type(value)
    assert parameter.parse(parameter.text(result)) == result


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


def test_names_that_are_not_its_own_are_ignored() -> None:
    assert checked_values("v", {"a": Parameter(1, "")}, {"a": "2", "b": "3"}) == {"a": 2}


def test_the_same_texts_in_recipes_options_and_flags(capsys: pytest.CaptureFixture[str]) -> None:
    assert parse("chain:n=4k")[1]["n"] == parse("chain:n=4_000")[1]["n"] == parse("chain:n=4e3")[1]["n"] == 4000
    for text in ("1k", "1_000", "1e3"):
        options = ["--device", "host", "--no-save", "--curves", text, "--variant", "uniform"]
        assert run(["bench", "bezier", *options]) == 0
        assert "1,000 curves" in capsys.readouterr().out


# ---- everywhere that a number is given -----------------------------------------------------------------------


def _options(group: click.Group, names: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Parameter]]:
    """All options and arguments of all commands, with the words that lead to them."""
    ctx = click.Context(group)
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from _options(command, (*names, name))
        yield from (((*names, name), parameter) for parameter in command.params)


OPTIONS = list(_options(group))


def test_no_option_reads_numbers_in_a_way_of_its_own() -> None:
    own = (click.types.IntParamType, click.types.FloatParamType)
    assert [(words, p.name) for words, p in OPTIONS if isinstance(p.type, own)] == []


def _taking(kind: type) -> list[Any]:
    result = {p.opts[0]: (words, p) for words, p in OPTIONS if isinstance(p.type, kind) and p.opts[0].startswith("-")}
    return [pytest.param(p, id=f"{' '.join(words)} {name}") for name, (words, p) in sorted(result.items())]


@pytest.mark.parametrize("option", _taking(Positive))
def test_every_option_of_a_positive_number_takes_all_ways_to_write_it(option: click.Parameter) -> None:
    for text, value in (("4k", 4000.0), ("4_000", 4000.0), ("4e3", 4000.0), (".5", 0.5), ("1M", 1e6)):
        assert option.type.convert(text, option, None) == value
    for text in ("0", "-1", "nan", "inf", "1e999", "1e-999", "k", "4kk", "", "4 000", "0x10"):
        with pytest.raises(click.BadParameter, match="is not a number above 0"):
            option.type.convert(text, option, None)


@pytest.mark.parametrize("option", _taking(ParameterType))
def test_every_option_of_a_number_takes_all_ways_to_write_it(option: click.Parameter) -> None:
    parameter = option.type._parameter  # type: ignore[attr-defined]
    if not parameter.ranged:
        pytest.skip("it takes words")
    low, high = parameter._bounds()
    for plain, texts in ((2000, ("2k", "2_000", "2e3", "2.0k")), (10, ("1e1", "1_0", ".01k"))):
        for text in texts if low <= plain <= high else ():
            assert option.type.convert(text, option, None) == parameter.parse(plain)
    for text in ("nan", "inf", "k", "1kk", "", "1 000", "0x10"):
        with pytest.raises(click.BadParameter, match="cannot be"):
            option.type.convert(text, option, None)


@pytest.mark.parametrize(
    ("text", "column"), [("3", 3), ("1e1", 10), ("1_0", 10), ("none", 0), ("2", None), ("1k", None), ("3.5", None)]
)
def test_a_weight_column_is_read_as_other_numbers_are(text: str, column: int | None) -> None:
    option = next(p for _, p in OPTIONS if p.name == "weight_column")
    if column is not None:
        assert option.type.convert(text, option, None) == column
        return
    with pytest.raises(click.BadParameter, match="is not a column from 3 on"):
        option.type.convert(text, option, None)


def test_tunables_read_numbers_as_options_do() -> None:
    tunables = get_variant("pagerank", "pull-hubs").tunables
    for text in ("4k", "4_000", "4e3"):
        assert checked_values("pull-hubs", tunables, {"hubs": text})["hubs"] == 4000
