"""The compiled parser reads what is plainly sound, bit by bit as scipy, and nothing else; the passes that
sort entries do what scipy's do."""

from __future__ import annotations

import ctypes
import io
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io as sio
from hypothesis import given, settings
from hypothesis import strategies as st

from spgraph_bench.errors import InputError
from spgraph_bench.readers import compiled, read
from spgraph_bench.readers.common import Input
from spgraph_bench.readers.matrix_market import _coordinate
from spgraph_bench.readers.matrix_market_text import Body, Header, read_body, read_header, text_end
from spgraph_bench.readers.rows import by_row, order_of, sorted_rows
from spgraph_bench.toolchain.library import in_threads


def quiet(what: str, fraction: float | None) -> None:
    pass


@pytest.fixture(scope="module", autouse=True)
def any_size() -> Iterator[None]:
    if compiled.library() is None:
        pytest.skip("no compiler for the parser")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled, "WORTH_BYTES", 0)
        patch.setattr(compiled, "WORTH_ENTRIES", 0)
        patch.setattr(compiled, "_PIECE", 16)
        yield


def opened(kind: str, sizes: str, body: str | bytes) -> tuple[Input, Header]:
    text = body.encode("latin-1") if isinstance(body, str) else body
    source = Input(f"%%MatrixMarket matrix coordinate {kind}\n{sizes}\n".encode() + text, "x.mtx", "x.mtx")
    return source, read_header(source)


def parsed(source: Input, head: Header) -> Body | None:
    return compiled.read_entries(source.data, head.body, max(head.body, text_end(source.data)), head, quiet)


def same(one: Body, other: Body) -> bool:
    """Bit by bit: 0.0 is not -0.0."""
    parts = [(getattr(one, part), getattr(other, part)) for part in ("row", "col", "values")]
    return all(
        (a is None) == (b is None)
        and (a is None or (a.dtype == b.dtype and a.tobytes() == b.astype(a.dtype).tobytes()))
        for a, b in parts
    )


# ---- numbers ------------------------------------------------------------------------------------------


def values_of(words: list[str]) -> np.ndarray | None:
    body = "".join(f"{k} 1 {word}\n" for k, word in enumerate(words, 1))
    result = parsed(*opened("real general", f"{len(words)} 1 {len(words)}", body))
    return None if result is None else result.values


def scipys(words: list[str]) -> np.ndarray:
    body = "".join(f"{k} 1 {word}\n" for k, word in enumerate(words, 1))
    head = f"%%MatrixMarket matrix coordinate real general\n{len(words)} 1 {len(words)}\n"
    return sio.mmread(io.BytesIO((head + body).encode())).data


digits = st.text("0123456789", max_size=30)
numbers = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).flatmap(
        lambda x: st.sampled_from([repr(x), f"{x:.16e}", f"{x:.3e}", f"{x:.25E}", f"{x:.12g}"])
    ),
    st.builds("{}{}.{}".format, st.sampled_from(["", "-"]), digits, digits).filter(lambda w: w[-1:].isdigit()),
    st.builds("{}{}e{}".format, st.sampled_from(["", "-", "0."]), digits.filter(bool), st.integers(-280, 250)),
    st.builds("{}".format, st.integers(-(10**25), 10**25)),
)


@given(st.lists(numbers.filter(lambda w: np.isfinite(float(w))), min_size=1, max_size=20))
@settings(max_examples=300, deadline=None)
def test_values_are_scipys_to_the_bit(words):
    result = values_of(words)
    assert result is not None
    assert result.tobytes() == scipys(words).tobytes() == np.array([float(w) for w in words]).tobytes()


@pytest.mark.parametrize(
    "word",
    [
        "9007199254740993",
        "9007199254740992.9999999999999999999999",
        "2.2250738585072011e-308",
        "2.2250738585072014e-308",
        "4.9406564584124654e-324",
        "5e-324",
        "1.7976931348623157e308",
        "0.1",
        "-0",
        "-0.0",
        "0e999",
        "5.",
        ".5",
        "-.5e-1",
        "1E5",
        "1e+5",
        "1e-05",
        "000.1",
        "1.00000000000000011102230246251565404236316680908203125",
        "1.00000000000000011102230246251565404236316680908203124",
        "1.00000000000000011102230246251565404236316680908203126",
        "8.98846567431158e307",
        "1e23",
        "1e22",
        "0." + "0" * 300 + "1e300",
        "1" + "0" * 300 + "e-300",
        "123456789012345678901234567890",
    ],
)
def test_numbers_that_are_hard_to_round(word):
    (result,) = values_of([word])
    assert result.tobytes() == scipys([word])[0].tobytes() == np.float64(word).tobytes()


@pytest.mark.parametrize("word", ["1e400", "-1e400", "1" + "0" * 400, "nan", "-nan", "inf", "-inf", "infinity"])
def test_what_is_not_finite_is_left_to_others(word):
    assert values_of(["1", word, "2"]) is None


@pytest.mark.parametrize(
    "word",
    [
        "1e",
        "1E+",
        "1e.5",
        "1ee5",
        "1e--5",
        "1-5",
        "1+5",
        "--1",
        "-",
        ".",
        "-.",
        "1..5",
        "1.2.3",
        "1,5",
        "1/5",
        "1d5",
        "1_0",
        "1\0",
        "1\xff",
        "1\v",
        "%",
        "x",
        "1f",
        "0x10",
        "+1",
        "1e5e6",
        "+",
        "1 2",
        "1\n",
        "",
        "1 %",
        "1\r2",
    ],
)
def test_what_is_not_a_number_is_left_to_others(word):
    assert values_of(["1", word, "2"]) is None


@pytest.mark.parametrize("word", ["1.5", "1e3", "9223372036854775808", "-9223372036854775809", ".", "+1", "-"])
def test_what_is_not_an_integer_is_left_to_others(word):
    assert parsed(*opened("integer general", "1 1 1", f"1 1 {word}\n")) is None


@pytest.mark.parametrize("number", [0, -1, 7, -(2**63), 2**63 - 1])
def test_integers(number):
    assert parsed(*opened("integer general", "1 1 1", f"1 1 {number}\n")).values.tolist() == [number]


# ---- lines --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["", "\n", " ", " \t\r\n", "\n\n \n"])
@pytest.mark.parametrize("line", ["{} 2 .5", " {}\t 2  .5 ", "{} 2 .5\r", "000000{} 02 .5"])
@pytest.mark.parametrize("count", [1, 2, 7, 40])
def test_blanks_and_ends(line, end, count):
    body = "\n".join(line.format(k) for k in range(1, count + 1)) + end
    result = parsed(*opened("real general", f"{count} 2 {count}", body))
    assert result.row.tolist() == list(range(count))
    assert result.col.tolist() == [1] * count
    assert result.values.tolist() == [0.5] * count
    assert result.plain


@pytest.mark.parametrize("place", [0, 1, 20, 38, 39])
@pytest.mark.parametrize(
    "line",
    [
        "0 1 5",
        "1 0 5",
        "41 1 5",
        "1 4 5",
        "-1 1 5",
        "1.0 1 5",
        "1 1.0 5",
        "1 1",
        "1 1 ",
        "1",
        "",
        " ",
        "% c",
        "1 1 5 5",
        "1 1 5 %",
        "x",
        "1\t\v1 5",
        "18446744073709551617 1 5",
        "1 18446744073709551617 5",
        "1" + "0" * 40 + " 1 5",
        "1 1 5\n1 1 5",
        "1 1 5\r1 1 5",
        "1 1\n5",
        "1,1,5",
        "1 1-5",
        "1 1.5",
        "1 1 5\0",
        "\0",
    ],
)
def test_an_odd_line_anywhere_leaves_all_to_others(place, line):
    lines = [f"{k} 2 {k}.5" for k in range(1, 41)]
    lines[place] = line
    assert parsed(*opened("real general", "40 3 40", "\n".join(lines) + "\n")) is None


@pytest.mark.parametrize("declared", [0, 1, 38, 39, 41, 42, 10**15])
def test_another_count_than_declared_is_left_to_others(declared):
    assert parsed(*opened("pattern general", f"40 3 {declared}", "1 1\n" * 40)) is None


@pytest.mark.parametrize("kind", ["complex general", "pattern symmetric"])
def test_fields(kind):
    result = parsed(*opened(kind, "9 9 2", "1 1\n9 8\n" if kind.startswith("p") else "1 1 1 1\n9 8 1 1\n"))
    if kind.startswith("c"):
        assert result is None
    else:
        assert (result.row.tolist(), result.col.tolist(), result.values) == ([0, 8], [0, 7], None)


def test_the_largest_indices():
    n = 2**31 - 1
    result = parsed(*opened("pattern general", f"{n} {n} 2", f"{n} 1\n1 {n}\n"))
    assert (result.row.tolist(), result.col.tolist()) == ([n - 1, 0], [0, n - 1])
    assert parsed(*opened("pattern general", f"{n} {n} 2", f"{n + 1} 1\n1 {n}\n")) is None


def test_a_text_without_a_line_feed():
    assert parsed(*opened("real general", "9 9 1", "1 1 " + "5" * 10_000)) is None
    assert parsed(*opened("real general", "9 9 1", "1 1 5")).values.tolist() == [5]


@given(data=st.data(), field=st.sampled_from(["real", "integer", "pattern"]))
@settings(max_examples=500, deadline=None)
def test_where_it_answers_the_other_ways_answer_the_same(data, field):
    value = {"real": "1.5e-3", "integer": "-12", "pattern": ""}[field]
    body = "".join(f"{k} {k + 1} {value}\n" for k in range(1, 6))
    for _ in range(data.draw(st.integers(0, 3))):
        position = data.draw(st.integers(0, len(body) - 1))
        new = data.draw(st.sampled_from(["", *"0159 .-+eEdDn%,/\n\r\t\0_x", "1.5-10", "nan", "\n\n"]))
        body = body[:position] + new + body[position + data.draw(st.integers(0, 1)) :]
    source, head = opened(f"{field} general", "9 9 5", body)
    result = parsed(source, head)
    if result is None:
        return
    by_scipy = _coordinate(source, head, source.data, head.body, text_end(source.data), quiet)
    assert by_scipy is not None
    assert same(result, by_scipy)
    assert same(result, read_body(source, read_header(source), quiet))


def test_it_reads_no_byte_beyond_a_piece():
    # Under AddressSanitizer (make test-sanitized) a read or a write beyond these arrays ends the test.
    result = compiled.library()
    for content in (b"1 1 5\n", b"1 1 \n", b"1 1\n", b"1\n", b" \n", b"\n", b"1 1 1e\n", b"1 1 -\n", b"11111111\n"):
        text = np.frombuffer(content, np.uint8).copy()
        row, col, values = np.zeros(1, np.int32), np.zeros(1, np.int32), np.zeros(1)
        for count in (0, 1):
            for field in (b"r", b"i", b"p"):
                given = (len(text), count, 9, 9, 1, row.ctypes.data, col.ctypes.data, values.ctypes.data, field)
                assert result.spg_entries(text.ctypes.data, *given) in (0, 1)
        assert result.spg_lines(text.ctypes.data, len(text)) == 1


@pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 4079, 4080, 4081, 100_000])
def test_lines_are_counted(size):
    text = np.random.default_rng(size).integers(9, 12, size).astype(np.uint8)
    assert compiled.library().spg_lines(text.ctypes.data, size) == np.count_nonzero(text == 10)
    text[:] = 10
    assert compiled.library().spg_lines(text.ctypes.data, size) == size


# ---- threads ------------------------------------------------------------------------------------------


def long_body(entries: int) -> str:
    return "".join(f"{k} {k % 7 + 1} {k / 7!r}\n" for k in range(1, entries + 1))


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_any_number_of_threads_gives_the_same(monkeypatch, threads):
    source, head = opened("real general", "5000 7 5000", long_body(5000))
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(threads)))
    assert same(parsed(source, head), read_body(source, read_header(source), quiet))


def test_an_error_that_one_thread_finds_is_not_lost_on_another():
    source, head = opened("real general", "50 7 50", long_body(50))
    work = compiled._Work(compiled.library(), source.data, head.body, len(source.data), head, quiet)

    class Meanwhile:
        def spg_lines(self, *arguments: int) -> int:
            work.sound = False  # another thread gets a page fault while this one counts lines
            return int(compiled.library().spg_lines(*arguments))

    work.library = Meanwhile()
    work.take()
    assert not work.sound
    assert work.take() is None


@pytest.mark.parametrize("most", [0, 1])
def test_where_no_thread_can_be_started_one_does_all(monkeypatch, most):
    started, start = [], threading.Thread.start

    def refuse(self):
        if len(started) == most:
            raise RuntimeError("can't start new thread")
        started.append(self)
        start(self)

    source, head = opened("real general", "5000 7 5000", long_body(5000))
    done = []
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        patch.setattr(compiled, "_most_threads", lambda: 4)
        result = parsed(source, head)
        started.clear()
        in_threads(done.append, 4)
    assert same(result, read_body(source, read_header(source), quiet))
    assert sorted(done) == [0, 1, 2, 3]


def test_what_goes_wrong_in_a_thread_is_not_lost():
    def fail(number):
        if number:
            raise MemoryError

    with pytest.raises(MemoryError):
        in_threads(fail, 2)


def test_progress_rises_and_an_interrupt_ends_all_threads():
    source, head = opened("real general", "5000 7 5000", long_body(5000))
    reports = []
    end = text_end(source.data)
    compiled.read_entries(source.data, head.body, end, head, lambda what, fraction: reports.append(fraction))
    assert reports == sorted(reports)
    assert 0 <= reports[0] < reports[-1] <= 1

    def interrupt(what, fraction):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compiled.read_entries(source.data, head.body, end, head, interrupt)


# ---- sorting ------------------------------------------------------------------------------------------


@st.composite
def entries_of(draw: st.DrawFn) -> tuple[int, int, np.ndarray, np.ndarray, np.ndarray | None]:
    """Rows, columns and entries in no order, with duplicates; square half of the time."""
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    rows, count = draw(st.integers(1, 30)), draw(st.integers(0, 200))
    cols = rows if draw(st.booleans()) else draw(st.integers(1, 30))
    row = rng.integers(0, draw(st.integers(1, rows)), count, np.int32)
    col = rng.integers(0, draw(st.integers(1, cols)), count, np.int32)
    return rows, cols, row, col, rng.standard_normal(count) if draw(st.booleans()) else None


def as_scipy_does(*arguments: Any) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled, "library", lambda: None)
        return arguments[0](*arguments[1:])


@given(given_=entries_of(), mirror=st.sampled_from([0, 1, -1]), threads=st.integers(1, 5))
@settings(max_examples=300, deadline=None)
def test_entries_are_sortedby_row_as_scipy_does(given_, mirror, threads):
    rows, cols, row, col, values = given_
    mirror = mirror if rows == cols else 0
    expected = as_scipy_does(by_row, rows, cols, row, col, values, mirror)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled, "_most_threads", lambda: threads)
        ptr, to_col, to_values = compiled.by_row(rows, row, col, values, mirror)
    assert (ptr.dtype, to_col.dtype) == (np.int64, np.int32)
    assert np.array_equal(ptr, expected.ptr)
    assert np.array_equal(to_col, expected.col)
    assert (to_values is None) == (values is None)
    assert values is None or to_values.tobytes() == expected.values.tobytes()


@given(given_=entries_of())
@settings(max_examples=200, deadline=None)
def test_entries_without_an_order_are_sorted_stably(given_):
    rows, cols, row, col, values = given_
    result = sorted_rows(rows, cols, row, col, values, order_of(row, col))
    position = np.lexsort((col, row))
    assert np.array_equal(result.ptr, np.concatenate([[0], np.cumsum(np.bincount(row, minlength=rows))]))
    assert np.array_equal(result.col, col[position])
    assert values is None or result.values.tobytes() == values[position].tobytes()


def test_what_is_left_to_scipy(monkeypatch):
    row, values = np.array([0, 1], np.int32), np.array([1.0, 2.0])
    assert compiled.by_row(2, row, row, values) is not None
    for odd in ((row.astype(np.int64), row, values), (row, row, values.astype(complex)), (row[::-1], row, values)):
        assert compiled.by_row(2, *odd) is None
    monkeypatch.setattr(compiled, "WORTH_ENTRIES", 3)
    monkeypatch.setattr(compiled, "library", lambda: pytest.fail("loaded"))
    assert compiled.by_row(2, row, row, values) is None


# ---- files, and machines without a compiler ------------------------------------------------------------


def file_of(folder: Path, body: str, count: int) -> Path:
    path = folder / "a.mtx"
    path.write_text(f"%%MatrixMarket matrix coordinate real general\n5000 7 {count}\n{body}")
    return path


@pytest.mark.skipif("SPGRAPH_HOST_SANITIZE" in os.environ, reason="AddressSanitizer trips at what scipy throws")
def test_an_error_is_reported_as_without_the_parser(tmp_path, monkeypatch):
    path = file_of(tmp_path, long_body(4999) + "5001 1 2\n", 5000)
    reports = []
    for report in (compiled.library(), None):
        monkeypatch.setattr(compiled, "library", lambda report=report: report)
        with pytest.raises(InputError) as caught:
            read(str(path))
        reports.append((caught.value.cause, caught.value.place, caught.value.remedy))
    assert reports[0] == reports[1]
    assert reports[0][:2] == ("row 5001 is beyond the declared 5000 rows", f"{path}:5002")


CODE = """
import sys
from spgraph_bench.readers import compiled, read
compiled.WORTH_BYTES = 0
a = read(sys.argv[1]).csr
print(compiled.library() is not None, a.nnz)
"""


@pytest.mark.parametrize(
    ("environment", "is_compiled"),
    [
        ({}, True),
        ({"CXX": "/there/is/no/compiler"}, False),
        ({"CXX": "false"}, False),
        ({"CXX": "'"}, False),
        ({"CXX": "{folder}/old"}, False),
        ({"SPGRAPH_CACHE": "{folder}/a.mtx"}, False),
        ({"SPGRAPH_HOST_SANITIZE": "nonsense"}, False),
        ({"SPGRAPH_HOST_SANITIZE": "address"}, False),  # not loaded before Python
        ({"SPGRAPH_HOST_SANITIZE": "undefined"}, True),
    ],
)
def test_without_a_compiler_files_are_read_all_the_same(tmp_path, environment, is_compiled):
    path = file_of(tmp_path, long_body(5000), 5000)
    old = tmp_path / "old"  # answers --version, but compiles nothing
    old.write_text("#!/bin/sh\ntest \"$1\" = --version && echo 'c++ 1.0' || { echo 'no such header' >&2; exit 1; }\n")
    old.chmod(0o755)
    env = {k: v for k, v in os.environ.items() if k not in ("LD_PRELOAD", "SPGRAPH_HOST_SANITIZE", "CXX")}
    env |= {"SPGRAPH_CACHE": str(tmp_path / "cache")}
    env |= {name: value.format(folder=tmp_path) for name, value in environment.items()}
    done = subprocess.run([sys.executable, "-c", CODE, path], capture_output=True, text=True, env=env, timeout=120)
    assert (done.stdout, done.stderr) == (f"{is_compiled} 5000\n", "")


def test_it_is_compiled_once(tmp_path):
    path = file_of(tmp_path, long_body(10), 10)
    env = {**os.environ, "SPGRAPH_CACHE": str(tmp_path / "cache")}
    runs = [
        subprocess.Popen([sys.executable, "-c", CODE, path], stdout=subprocess.PIPE, env=env, text=True)
        for _ in range(3)
    ]
    assert [run.communicate(timeout=120)[0] for run in runs] == ["True 10\n"] * 3
    assert len(list((tmp_path / "cache").rglob("*.so"))) == 1


def test_a_small_file_needs_no_parser(tmp_path, monkeypatch):
    monkeypatch.setattr(compiled, "WORTH_BYTES", 1 << 24)
    monkeypatch.setattr(compiled, "library", lambda: pytest.fail("loaded"))
    assert read(str(file_of(tmp_path, long_body(5000), 5000))).csr.nnz == 5000


def test_the_parser_is_called_without_the_lock_of_the_interpreter():
    assert isinstance(compiled.library(), ctypes.CDLL)
    assert not isinstance(compiled.library(), ctypes.PyDLL)
