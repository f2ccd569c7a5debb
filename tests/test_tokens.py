"""The tokenizer against plain Python, on text made to break it."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spgraph_bench.errors import InputError
from spgraph_bench.readers import tokens
from spgraph_bench.readers.common import Input
from spgraph_bench.readers.tokens import Block, blocks, parse_integer, parse_number, shorten


def block(text: bytes, **how: bool) -> Block:
    return Block(Input(text, "t", "t"), 0, len(text), **how)


def split(text: bytes) -> list[list[bytes]]:
    """Tokens of each line, the plain way."""
    return [line.split() for line in re.sub(rb"\n\Z", b"", text).split(b"\n")]


number_like = st.one_of(
    st.integers().map(str),
    st.integers(-(2**64), 2**64).map(str),
    st.integers(0, 10**9).map(lambda i: f"{i:012d}"),
    st.floats().map(repr),
    st.floats(-1e6, 1e6).map(lambda f: f"{f:.3f}"),
    st.text("0123456789+-.eEinfaINF_x/:", min_size=1, max_size=24),
).map(str.encode)
gaps = st.text(" \t\r\n", min_size=1, max_size=4).map(str.encode)


@settings(max_examples=400, deadline=None)
@given(st.lists(st.tuples(number_like, gaps), min_size=1, max_size=30), gaps)
def test_tokens_and_numbers_equal_plain_python(parts: list[tuple[bytes, bytes]], lead: bytes) -> None:
    text = lead + b"".join(token + gap for token, gap in parts)
    here = block(text)
    expected = split(text)
    flat = [token for line in expected for token in line]
    assert [here.token(i) for i in range(len(here))] == flat
    assert here.per_line().tolist() == [len(line) for line in expected]
    for columns in (1, 2, 3):
        assert here.is_table(columns) == all(len(line) == columns for line in expected)

    value, good = here.integers(slice(None))
    for token, v, ok in zip(flat, value.tolist(), good.tolist(), strict=True):
        exact = parse_integer(token)
        assert ok == (exact is not None and -(2**63) <= exact < 2**63), token
        if ok:
            assert v == exact
    number, good = here.numbers(slice(None))
    for token, x, ok in zip(flat, number.tolist(), good.tolist(), strict=True):
        exact = parse_number(token)
        assert ok == (exact is not None), token
        if exact is not None:
            assert x == exact or (math.isnan(x) and math.isnan(exact))


@pytest.mark.parametrize("digits", range(1, 25))
def test_every_length_of_integer(digits: int) -> None:
    numbers = [10**digits - 1, 10 ** (digits - 1), int("1234567890123456789012345"[:digits])]
    here = block(" ".join(map(str, numbers)).encode())
    value, good = here.integers(slice(None))
    assert good.tolist() == [n < 2**63 for n in numbers]
    assert [v for v, ok in zip(value.tolist(), good, strict=True) if ok] == [n for n in numbers if n < 2**63]
    assert here.numbers(slice(None))[0].tolist() == [float(n) for n in numbers]


def test_no_byte_but_a_digit_passes_for_one() -> None:
    for bad in set(range(33, 256)) - set(b"0123456789"):
        byte = bytes([bad])
        for token in (b"1" + byte + b"2", b"12" + byte, b"1" * 9 + byte, b"9" + byte * 8):
            assert not block(token).integers(slice(None))[1].any(), token
        assert block(byte + b"12").integers(slice(None))[1].tolist() == [byte in b"+-"]


@pytest.mark.parametrize(
    ("token", "value"),
    [
        ("1e999", math.inf),
        ("-inf", -math.inf),
        (".5", 0.5),
        ("5.", 5.0),
        ("1E-3", 1e-3),
        ("+2.5e+1", 25.0),
        ("9007199254740993", 9007199254740992.0),
        ("0" * 60 + "1", 1.0),
        ("0." + "1" * 60, 1 / 9),
    ],
)
def test_numbers_that_are_accepted(token: str, value: float) -> None:
    number, good = block(token.encode()).numbers(slice(None))
    assert good.all()
    assert number[0] == value


@pytest.mark.parametrize("token", ["1_000", "0x10", ".", "-", "e5", "1e", "1d3", "--1", "1.2.3", "nan1", "\u0663"])
def test_numbers_that_are_refused(token: str) -> None:
    # Beside good decimals, so that the batch conversion has to find the offender.
    number, good = block(f"0.5 {token} 1.5".encode()).numbers(slice(None))
    assert good.tolist() == [True, False, True]
    assert number[[0, 2]].tolist() == [0.5, 1.5]


def test_comments_begin_at_tokens_only() -> None:
    text = b"# a\n1 2 # b 3\n//c\n3 4 //5\n%\n5%6 7\nhttp://x 1\n,#,\n"
    here = block(text, comments=True)
    result = [here.token(i) for i in range(len(here))]
    assert result == [b"1", b"2", b"3", b"4", b"5%6", b"7", b"http://x", b"1", b","]
    assert [here.line(i) for i in range(len(here))] == [2, 2, 4, 4, 6, 6, 7, 7, 8]


@pytest.mark.parametrize(("text", "line"), [(b"1,2\n1,,2\n", 2), (b",1\n", 1), (b"1,2,\n", 1), (b"1 2\n\n1, ;2", 3)])
def test_empty_fields_are_errors(text: bytes, line: int) -> None:
    with pytest.raises(InputError, match="a field is empty") as error:
        block(text, commas=True)
    assert error.value.place == f"t:{line}"


def test_commas_with_blanks() -> None:
    here = block(b"1, 2\n 3 ,4\n5;6\r\n7 8\n", commas=True)
    assert here.integers(slice(None))[0].tolist() == [1, 2, 3, 4, 5, 6, 7, 8]


@pytest.mark.parametrize("byte", [0, 1, 8, 14, 27, 31])
def test_control_characters_are_errors(byte: int) -> None:
    with pytest.raises(InputError, match=f"{byte:#04x} at offset 5") as error:
        block(b"1 2\n1%c2\n" % byte)
    assert error.value.place == "t:2"


@given(st.lists(st.integers(0, 30), max_size=40), st.booleans(), st.integers(1, 60))
def test_blocks_are_whole_lines(lengths: list[int], closed: bool, size: int) -> None:
    text = b"\n".join(b"x" * n for n in lengths) + b"\n" * closed
    before, tokens.BLOCK = tokens.BLOCK, size
    try:
        bounds = list(blocks(text, 0, len(text)))
    finally:
        tokens.BLOCK = before
    assert b"".join(text[a:b] for a, b in bounds) == text
    assert all(text[b - 1 : b] == b"\n" for _, b in bounds[:-1])


def test_quoted_tokens_are_short() -> None:
    assert shorten(b"x" * 1000) == "'" + "x" * 40 + "'..."
    assert shorten(b"\xff\x07") == "'\ufffd\\x07'"


def test_integers_of_a_selection() -> None:
    here = block(b"5 x 7 -8\n")
    value, good = here.integers(np.array([0, 3]))
    assert value.tolist() == [5, -8]
    assert good.all()
