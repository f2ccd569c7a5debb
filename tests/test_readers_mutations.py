"""Real Matrix Market files with a planted fault or oddity: spgraph's three parsers and scipy's, compared.

Ours (compiled, fast, line by line) must agree on every byte or on the error. Where scipy differs, the difference
has to be one of those that are explained here: what is neither is a failure.
"""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io as sio

from spgraph_bench.errors import InputError
from spgraph_bench.readers import compiled, matrix_market
from spgraph_bench.readers.common import Input, RawEntries, ReadOptions
from spgraph_bench.readers.matrix_market_text import read_body, read_header

Outcome = RawEntries | InputError

# Written by other programs, or by none: put in place of a token, or behind one.
WORDS = [
    b"1.5",
    b"1.2.3",
    b"1e5e6",
    b"4.2-390",
    b"4.2-3",
    b"1.5e",
    b".",
    b"-",
    b"+3",
    b"-1",
    b"0",
    b"00012",
    b"1e400",
    b"-1e-400",
    b"nan",
    b"-Infinity",
    b"infinit",
    b"1.0D+02",
    b"1d2",
    b"1_0",
    b"0x10",
    b"1,5",
    b"7 7",
    b"%",
    b"%7",
    b"1e+.5",
    b"9" * 25,
    b"--1",
    b"1-1",
    b"\xc2\xa05",
    b"1.",
    b".5",
    b"5e-3",
    b"1e5.0",
]
BYTES = b" \t\r\n0159.-+eEdD%,;nai_\x0b\x0c\x7f\xe9"
FILES = {"west0067": 130, "lp_afiro": 130, "gap_4w": 130, "karate": 130, "adder_dcop_05": 10}


def mutated(rng: np.random.Generator, text: bytes, body: int) -> bytes:
    """`text` with one or two changes behind offset `body`."""
    for _ in range(1 + int(rng.random() < 0.3)):
        position = int(rng.integers(body, len(text)))
        byte = BYTES[int(rng.integers(len(BYTES)))]
        word = WORDS[int(rng.integers(len(WORDS)))]
        tokens = [m.span() for m in re.finditer(rb"[^\s]+", text[max(body, position - 40) : position + 40])]
        begin, end = (max(body, position - 40) + x for x in tokens[len(tokens) // 2])
        line_end = text.find(b"\n", position) + 1 or len(text)
        match int(rng.integers(9)):
            case 0:
                text = text[:position] + bytes([byte]) + text[position + 1 :]
            case 1:
                text = text[:position] + bytes([byte]) + text[position:]
            case 2:
                text = text[:position] + text[position + 1 :]
            case 3 | 4 | 5:
                text = text[:begin] + word + text[end:]
            case 6:
                text = text[:end] + b" " + word + text[end:]
            case 7:
                text = text[:line_end] + b"% a remark\n\n"[int(rng.integers(2)) * 11 :] + text[line_end:]
            case 8:
                text = text[:position] + text[line_end:]
    return text.rstrip() + b"\n"  # scipy reads past the end of a text that ends in a blank


def outcome(content: bytes, way: str) -> Outcome:
    data, quiet = Input(content, "m.mtx", "m.mtx"), lambda what, fraction: None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled, "WORTH_BYTES", 0)
        if way != "compiled":
            patch.setattr(compiled, "library", lambda: None)
        try:
            if way == "by line":
                head = read_header(data)
                return matrix_market._entries(data, head, read_body(data, head, quiet), ReadOptions())
            return matrix_market.parse(data, ReadOptions(), quiet)
        except InputError as error:
            return error


def same(a: Outcome, b: Outcome) -> bool:
    if isinstance(a, InputError) and isinstance(b, InputError):
        # Of a wrong count and another error, the fast way, which counts first, reports the count.
        return str(a) == str(b) or "are declared, the file has" in a.cause
    if isinstance(a, InputError) or isinstance(b, InputError):
        return False
    values = (a.values is None) == (b.values is None) and (
        a.values is None or b.values is None or np.array_equal(a.values, b.values, equal_nan=True)
    )
    places = np.array_equal(a.row, b.row) and np.array_equal(a.col, b.col)
    return values and places and (a.rows, a.cols) == (b.rows, b.cols)


def by_scipy(content: bytes) -> Any:
    """What mmread makes of it, or None where it refuses."""
    try:
        return sio.mmread(io.BytesIO(content))
    except (ValueError, OverflowError):
        return None


REAL = rb"-?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
ENTRY = {
    field: re.compile(rb"[ \t]*([0-9]+)[ \t]+([0-9]+)" + value + rb"[ \t\r]*")
    for field, value in {"real": rb"[ \t]+" + REAL, "integer": rb"[ \t]+(-?[0-9]+)", "pattern": rb""}.items()
}


def is_plain(content: bytes) -> bool:
    """Whether every line is an entry in bounds to the letter, and as many as declared: no reason to refuse it."""
    lines = content.rstrip().split(b"\n")
    size = next(k for k, line in enumerate(lines) if not line.startswith(b"%"))
    rows, cols, count = (int(word) for word in lines[size].split())
    field = lines[0].split()[3].decode()
    result = [ENTRY[field].fullmatch(line) for line in lines[size + 1 :]]
    return len(result) == count and all(
        m is not None
        and 1 <= int(m[1]) <= rows
        and 1 <= int(m[2]) <= cols
        and (field != "integer" or -(2**63) <= int(m[3]) < 2**63)
        for m in result
    )


def difference(content: bytes, ours: Outcome, theirs: Any) -> str | None:
    """Where scipy and we differ: why that is right. None where they agree; AssertionError where nothing tells."""
    if isinstance(ours, InputError):
        if theirs is None:
            return None
        assert not is_plain(content), f"refused, though it is sound: {ours}"
        return "scipy takes the number that a word begins with, and what is behind it for the next, or skips it"
    text = " ".join(f.text for f in ours.findings)
    if theirs is not None:
        values = np.ones(len(ours.row)) if ours.values is None else ours.values
        if (
            np.array_equal(theirs.row, ours.row)
            and np.array_equal(theirs.col, ours.col)
            and np.array_equal(np.asarray(theirs.data, np.float64), values, equal_nan=True)
        ):
            return None
        for odd in ("Fortran exponents", "comments behind entries"):
            if odd in text:
                return f"scipy does not know {odd}"
        raise AssertionError("another matrix, and nothing odd was found in the file")
    for odd in ("Fortran exponents", "comments between entries", "comments behind entries", "blank lines"):
        if odd in text:
            return f"scipy refuses {odd}"
    body = content.partition(b"\n")[2]
    for pattern, why in (
        (rb"\s\+[0-9.]", "scipy refuses a plus sign"),
        (rb"(?i)nan|inf", "scipy knows fewer spellings of NaN and infinity"),
        (rb"[eE][+-]?[0-9]{3}", "scipy refuses what is beyond float64's range"),
        (rb"[\v\f]", "scipy takes fewer characters for blanks"),
        (rb"\r", "scipy refuses a carriage return within a line"),
    ):
        if re.search(pattern, body):
            return why
    raise AssertionError("scipy refuses it, and nothing tells why we do not")


def compare(content: bytes) -> tuple[bool, str | None]:
    """Whether we read it, and how scipy differs; AssertionError where spgraph's parsers disagree."""
    ours = outcome(content, "by line")
    for way in ("compiled", "fast"):
        assert same(outcome(content, way), ours), way
    return not isinstance(ours, InputError), difference(content, ours, by_scipy(content))


def real_file(folder: Path, name: str) -> tuple[bytes, int]:
    """A file with the banner general (entries are compared as stored), and where its entries begin."""
    first, _, rest = (folder / f"{name}.mtx").read_bytes().partition(b"\n")
    text = first.replace(b"symmetric", b"general") + b"\n" + rest
    return text, read_header(Input(text, "m.mtx", "m.mtx")).body


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_every_difference_on_mutated_files_is_explained(matrices_dir: Path, name: str) -> None:
    text, body = real_file(matrices_dir, name)
    rng = np.random.default_rng([1, *name.encode()])
    read = explained = 0
    for _ in range(FILES[name]):
        content = mutated(rng, text, body)
        try:
            good, why = compare(content)
        except AssertionError as error:
            changed = [(a, b) for a, b in zip(text.split(b"\n"), content.split(b"\n"), strict=False) if a != b]
            raise AssertionError(f"{error}: {changed[:3]}") from None
        read += good
        explained += why is not None
    if FILES[name] > 100:
        assert read > 10, "the mutations are too rough"
        assert explained > 10, "the mutations are too mild"


SMALL = b"%%%%MatrixMarket matrix coordinate real general\n9 9 4\n1 1 5\n2 %b\n3 3 7\n4 4 1e3\n"


@pytest.mark.parametrize("line", [b"1.5 3.0", b"2 1.2.3", b"2 1e5e6", b"2 5 7", b"2 4.2-39"])
def test_the_comparison_sees_a_misread(monkeypatch: pytest.MonkeyPatch, line: bytes) -> None:
    content = SMALL % line
    assert compare(content)[0] is False
    # A check of the text that is content with as many words as there should be leaves scipy's parser its way.
    monkeypatch.setattr(matrix_market, "scan", lambda text, begin, end, *rest: 12)
    with pytest.raises(AssertionError, match=r"compiled|fast"):
        compare(content)


def test_the_comparison_sees_what_we_refuse_without_need() -> None:
    sound = SMALL % b"2 5"
    assert compare(sound) == (True, None)
    with pytest.raises(AssertionError, match="refused, though it is sound"):
        difference(sound, InputError("no"), by_scipy(sound))
    other = outcome(SMALL % b"2 6", "fast")
    with pytest.raises(AssertionError, match="another matrix"):
        difference(sound, other, by_scipy(sound))
