"""Matrix Market: every field, layout and symmetry; every error with its line; the same answer as scipy."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import scipy.io as sio
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from proportion import in_turn

from spgraph_bench.errors import InputError
from spgraph_bench.matrix import Matrix, Source
from spgraph_bench.readers import ReadOptions, compiled, matrix_market, read
from spgraph_bench.readers.assemble import assemble
from spgraph_bench.readers.common import Input
from spgraph_bench.readers.matrix_market import _fast, parse
from spgraph_bench.readers.matrix_market_text import read_body, read_header
from spgraph_bench.readers.scan import scan


@pytest.fixture(scope="module", params=["compiled", "python"], autouse=True)
def way(request: pytest.FixtureRequest) -> Iterator[str]:
    """Everything twice: with the compiled parser for the shortest of texts too, and as without a compiler."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "python":
            patch.setattr(compiled, "library", lambda: None)
        elif compiled.library() is None:
            pytest.skip("no compiler for the parser")
        patch.setattr(compiled, "WORTH_BYTES", 0)
        patch.setattr(compiled, "WORTH_ENTRIES", 0)
        patch.setattr(compiled, "_PIECE", 64)
        yield request.param


def text(kind: str, body: str) -> bytes:
    return f"%%MatrixMarket matrix {kind}\n{body}".encode()


def load(content: bytes, **options: object) -> Matrix:
    chosen = ReadOptions(**options)  # type: ignore[arg-type]
    entries = parse(Input(content, "x.mtx", "x.mtx"), chosen, lambda what, fraction: None)
    return assemble(entries, chosen, "x", Source("file", "x.mtx", entries.format))


def dense(content: bytes, **options: object) -> list[list[float]]:
    return load(content, **options).csr.to_scipy().toarray().tolist()


def findings(content: bytes, **options: object) -> list[tuple[str, int | None, int]]:
    return [(f.text, f.line, f.count) for f in load(content, **options).findings]


@pytest.mark.parametrize(
    ("kind", "body", "options", "expected"),
    [
        ("coordinate real general", "2 3 2\n1 3 .5\n2 1 -1e2\n", {}, [[0, 0, 0.5], [-100, 0, 0]]),
        ("coordinate integer general", "2 2 1\n2 1 -7\n", {}, [[0, 0], [-7, 0]]),
        ("coordinate pattern general", "2 2 1\n2 1\n", {}, [[0, 0], [1, 0]]),
        ("coordinate real symmetric", "2 2 2\n1 1 5\n2 1 3\n", {}, [[5, 3], [3, 0]]),
        ("coordinate real skew-symmetric", "2 2 1\n2 1 3\n", {}, [[0, -3], [3, 0]]),
        ("coordinate complex general", "1 2 1\n1 2 3 -4\n", {"part": "real"}, [[0, 3]]),
        ("coordinate complex general", "1 2 1\n1 2 3 -4\n", {"part": "imag"}, [[0, -4]]),
        ("coordinate complex general", "1 2 1\n1 2 3 -4\n", {"part": "abs"}, [[0, 5]]),
        ("coordinate complex general", "1 2 1\n1 2 3 -4\n", {"values": "ones"}, [[0, 1]]),
        ("coordinate complex hermitian", "2 2 2\n1 1 7 0\n2 1 3 4\n", {"part": "real"}, [[7, 3], [3, 0]]),
        ("coordinate complex hermitian", "2 2 2\n1 1 7 0\n2 1 3 4\n", {"part": "imag"}, [[0, -4], [4, 0]]),
        ("coordinate complex hermitian", "2 2 2\n1 1 7 0\n2 1 3 4\n", {"part": "abs"}, [[7, 5], [5, 0]]),
        ("coordinate complex hermitian", "2 2 1\n1 2 3 4\n", {"part": "imag"}, [[0, 4], [-4, 0]]),
        ("coordinate complex skew-symmetric", "2 2 1\n2 1 3 4\n", {"part": "imag"}, [[0, -4], [4, 0]]),
        ("array real general", "2 3\n1\n2\n3\n4\n5\n0\n", {}, [[1, 3, 5], [2, 4, 0]]),
        ("array real general", "2 2\n1 2\n3 4\n", {}, [[1, 3], [2, 4]]),
        ("array integer symmetric", "2 2\n1\n2\n3\n", {}, [[1, 2], [2, 3]]),
        ("array real skew-symmetric", "3 3\n1\n2\n3\n", {}, [[0, -1, -2], [1, 0, -3], [2, 3, 0]]),
        ("array complex hermitian", "2 2\n1 0\n2 3\n4 0\n", {"part": "imag"}, [[0, -3], [3, 0]]),
    ],
)
def test_fields_layouts_symmetries(kind, body, options, expected):
    assert dense(text(kind, body), **options) == expected


@pytest.mark.parametrize(
    "content",
    [
        b"%%MATRIXMARKET MATRIX COORDINATE REAL GENERAL\n2 2 2\n1 1 2\n2 1 3\n",
        b"%%MatrixMarket\tmatrix   coordinate\treal  General \r\n2 2 2\r\n1 1 2\r\n2 1 3\r\n",
        b"%%MatrixMarket matrix coordinate double general\n\n% c\n2 2 2\n1 1 2\n2 1 3",
        b"%%MatrixMarket matrix coordinate real general\r2 2 2\r1 1 2\r2 1 3\r",
        b"\n%%MatrixMarket matrix coordinate real general\n2 2 2\n1 1 +2\n2 1 +3.0E+00\n",
        b"%%MatrixMarket matrix coordinate real general\n  2\t2 2\n\n1\t1   2.0  \n% c\n   2 1 3\t\n\n",
        b"%%MatrixMarket matrix coordinate real general\n2 2 2\n1 1 2.0D0\n2 1 .3d+1\n",
        b"%%MatrixMarket matrix coordinate real general\n2 2 2\n1 1 2 % first\n2 1 3\n",
        b"2 2 2\n1 1 2\n2 1 3\n",
        b"% no banner\n2 2 2\n1 1 2\n2 1 3\n",
    ],
)
def test_ways_to_write_one_matrix(content):
    assert dense(content) == [[2, 0], [3, 0]]


REAL, INTEGER, PATTERN = "coordinate real general", "coordinate integer general", "coordinate pattern general"


@pytest.mark.parametrize(
    ("content", "place", "cause"),
    [
        (text(REAL, "5 5 2\n1 1 2\n0 1 3\n"), "x.mtx:4", "row index 0 (indices start at 1)"),
        (text(REAL, "5 5 2\n% c\n1 1 2\n1 -2 3\n"), "x.mtx:5", "column index -2 (indices start at 1)"),
        (text(REAL, "5 5 2\n1 1 2\n2 9 3\n"), "x.mtx:4", "column 9 is beyond the declared 5 columns"),
        (text(REAL, "5 5 1\n99999999999999999999 1 2\n"), "x.mtx:3", "is beyond the declared 5 rows"),
        (text(REAL, "5 5 3\n1 1 2\n2 2 3\n"), "x.mtx:2", "3 entries are declared, the file has 2"),
        (text(REAL, "5 5 3\n1 1 2\n2 2 3"), "x.mtx:2", "seems truncated"),
        (text(REAL, "5 5 1\n1 1 2\n2 2 3\n"), "x.mtx:2", "1 entry is declared, the file has 2"),
        (text(REAL, "5 5 0\n1 1 2\n"), "x.mtx:2", "0 entries are declared, the file has 1"),
        (text(REAL, "5 5 1000000000000000\n1 1 2\n"), "x.mtx:2", "the file has 1"),
        (text(REAL, "5 5 2\n1 1 2\n2 2"), "x.mtx:4", "the file ends within an entry"),
        (text(REAL, "5 5 2\n1 1 2\n2 x 3\n"), "x.mtx:4", "'x' is not a column index"),
        (text(REAL, "5 5 1\n1.0 1 2\n"), "x.mtx:3", "'1.0' is not a row index"),
        (text(REAL, "5 5 2\n1 1 2\n2 1.0 3\n"), "x.mtx:4", "'1.0' is not a column index"),
        (text(REAL, "5 5 1\n1 1 1.2.3\n"), "x.mtx:3", "'1.2.3' is not a number"),
        (text(REAL, "5 5 2\n1 1 2\n2 1 abc\n"), "x.mtx:4", "'abc' is not a number"),
        (text(REAL, "5 5 1\n1 1 1,5\n"), "x.mtx:3", "'1,5' is not a number"),
        (text(REAL, "5 5 1\n1 1 5nan\n"), "x.mtx:3", "is not a number"),
        (text(REAL, "5 5 1\n1 1 1_0\n"), "x.mtx:3", "is not a number"),
        (text(REAL, "5 5 1\n1 1 0x10\n"), "x.mtx:3", "is not a number"),
        (text(REAL, "5 5 1\n1 1 1\0\n"), "x.mtx:3", "is not a number"),
        (text(REAL, "5 5 1\n1 1 \u0661\n"), "x.mtx:3", "is not a number"),
        (text(REAL, "5 5 1\n1 1 2 7\n"), "x.mtx:3", "4 words, but an entry of the real field has 3"),
        (text(REAL, "5 5 1\n1\n1\n2\n"), "x.mtx:3", "1 word, but"),
        (text(REAL, "5 5 2\n1 1 2 2 2 3\n"), "x.mtx:3", "6 words, but"),
        (text(PATTERN, "5 5 2\n1 1\n2 2 5\n"), "x.mtx:4", "3 words, but an entry of the pattern field has 2"),
        (text(INTEGER, "5 5 1\n1 1 1.5\n"), "x.mtx:3", "'1.5' is not an integer"),
        (text(INTEGER, "5 5 1\n1 1 1e3\n"), "x.mtx:3", "'1e3' is not an integer"),
        (text(INTEGER, "5 5 1\n1 1 9223372036854775808\n"), "x.mtx:3", "does not fit in 64 bits"),
        (text(REAL, ""), "x.mtx", "the size line is missing"),
        (text(REAL, "% c\n"), "x.mtx", "the size line is missing"),
        (text(REAL, "5 5\n1 1 2\n"), "x.mtx:2", "'5 5' is not a size line"),
        (text(REAL, "-5 5 1\n1 1 2\n"), "x.mtx:2", "-5 rows are declared"),
        (text(REAL, "5000000000 5 1\n1 1 2\n"), "x.mtx:2", "more than 2^31 - 1"),
        (text("coordinate real symmetric", "3 4 1\n1 1 1\n"), "x.mtx:2", "is not square"),
        (text("coordinate real skew-symmetric", "3 3 1\n2 2 1\n"), "x.mtx:3", "diagonal of a skew-symmetric"),
        (text("coordinate pattern hermitian", "3 3 1\n2 1\n"), "x.mtx:1", "a pattern has no values"),
        (text("array real general", "2 2\n1\n2\n3\n"), "x.mtx:2", "4 values are declared, the file has 3"),
        (text("coordinate real", "3 3 1\n1 1 1\n"), "x.mtx:1", "the banner's symmetry is missing"),
        (text("coordinate quaternion general", ""), "x.mtx:1", "'quaternion' is not known"),
        (b"%%MatrixMarket vector coordinate real general\n", "x.mtx:1", "'vector' is not known"),
        (text("coordinate complex general", "3 3 1\n1 1 1 1\n"), "x.mtx:1", "the values are complex"),
        (b"hello\n", "x.mtx:1", "no %%MatrixMarket banner"),
        (b"1 2 3 4\n1 1 1\n", "x.mtx:1", "no %%MatrixMarket banner"),
    ],
)
def test_errors_are_reported_with_their_line(content, place, cause):
    with pytest.raises(InputError) as caught:
        load(content)
    assert caught.value.place == place
    assert cause in caught.value.cause
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("content", "text_", "line", "count"),
    [
        (text(REAL, "3 3 2\n\n1 1 1\n% c\n2 2 3\n"), "comments between entries", 5, 1),
        (text(REAL, "3 3 2\n\n1 1 1\n% c\n2 2 3\n"), "blank lines", 3, 1),
        (text(REAL, "3 3 2\n1 1 0\n2 2 -0.0\n"), "explicit zeros", 3, 2),
        (text(REAL, "3 3 2\n\n1 1 3\n2 2 0\n"), "explicit zeros", 5, 1),
        (text(REAL, "3 3 2\n1 1 nan\n2 2 -Inf\n"), "NaN values", 3, 1),
        (text(REAL, "3 3 2\n1 1 nan\n2 2 -Inf\n"), "infinite values", 4, 1),
        (
            text(REAL, "3 3 4\n1 1 3.4028235e38\n1 2 -1e39\n2 2 nan\n3 3 1e300\n"),
            "values beyond float32, infinite in that type",
            4,
            2,
        ),
        (text(REAL, "3 3 1\n1 1 1.0D+03\n"), "Fortran exponents (1.0D+00)", None, 1),
        (text(REAL, "3 3 1\n1 1 1.5-103\n"), "Fortran exponents without a letter (1.0-100)", 3, 1),
        (text(REAL, "3 3 3\n2 2 1\n1 3 1\n3 1 1\n"), "entries are sorted neither by row nor by column", None, 1),
        (text(REAL, "3 3 2\n1 2 4\n1 2 5\n"), "duplicate entries (summed), such as row 1, column 2", 4, 1),
        (text(PATTERN, "3 3 2\n1 2\n1 2\n"), "duplicate entries (merged), such as row 1, column 2", 4, 1),
        (b"3 3 1\n1 1 1\n", "no %%MatrixMarket banner: read as a coordinate matrix, real general", 1, 1),
        (
            text("coordinate real symmetric", "3 3 2\n1 1 1\n1 2 3\n"),
            "declared symmetric, yet entries above the diagonal",
            4,
            1,
        ),
        (
            text("coordinate real symmetric", "3 3 2\n1 2 3\n2 1 3\n"),
            "declared symmetric, yet stored on both sides of the diagonal: counted once",
            3,
            1,
        ),
        (
            text(INTEGER, "3 3 2\n1 1 9007199254740992\n2 2 9007199254740993\n"),
            "integers beyond 2^53 lose digits as float64",
            4,
            1,
        ),
        (text("array real general", "2 1\n0\n1\n"), "array layout: zeros are not taken as entries", None, 1),
    ],
)
def test_oddities_are_found(content, text_, line, count):
    result = {f[0]: f[1:] for f in findings(content)}
    assert text_ in result
    assert result[text_][1] == count
    assert line is None or result[text_][0] == line


def test_clean_file_has_no_findings():
    assert findings(text(REAL, "3 3 2\n1 1 1\n2 2 3\n")) == []


@pytest.mark.parametrize(
    ("value", "expected"),
    [("1.5-103", 1.5e-103), ("1.5D+02", 150.0), ("+2", 2.0), ("1e400", np.inf), ("5.", 5.0), ("-.5E-1", -0.05)],
)
def test_numbers_that_scipy_misreads_or_refuses(value, expected):
    assert load(text(REAL, f"1 1 1\n1 1 {value}\n")).csr.values.tolist() == [expected]


@pytest.mark.parametrize(
    "line",
    [
        "1 1 1.5e+00",
        "1 1 1.5E-3",
        "1 1 -1.5e+10",
        "1 1 .5",
        "1\t1  1e5 ",
        "1 1 nan",
        "1 1 -Inf",
        "1 1 1.5D+02",
        "1 1 +1.5",
    ],
)
def test_what_is_well_formed_or_nearly_takes_the_fast_way(monkeypatch, line):
    def slow(*arguments):
        raise AssertionError("read line by line")

    monkeypatch.setattr("spgraph_bench.readers.matrix_market.read_body", slow)
    assert load(text(REAL, f"% c\n1 1 3\n{line}\n\n% c\n{line}\n{line}\n")).csr.nnz == 1


@pytest.mark.parametrize("ending", ["1 ", "1\t", "1\r", "1.5e-3 ", "1\n\n\n", "1\n%", "1\n% c"])
def test_endings_that_crash_scipy(tmp_path, ending):
    content = text(REAL, "5 5 3\n1 1 1\n1 2 1\n1 3 " + ending)
    path = tmp_path / "a.mtx"
    path.write_bytes(content)
    assert load(content).csr.nnz == read(str(path)).csr.nnz == 3


def test_complex_values_of_an_array_come_in_pairs():
    assert dense(text("array complex general", "1 2\n1\n2 3\n4"), part="imag") == [[2, 4]]
    with pytest.raises(InputError, match="the last value is incomplete"):
        load(text("array complex general", "1 2\n1 2\n3\n"), part="imag")


@pytest.mark.parametrize("line", [0, 4999])
def test_float_indices_are_seen_at_both_ends_of_a_long_file(line):
    rows = [f"{k} 1 2.5\n" for k in range(1, 5001)]
    assert load(text(REAL, "5000 1 5000\n" + "".join(rows))).csr.nnz == 5000
    rows[line] = f"{line + 1} 1.0 2.5\n"
    with pytest.raises(InputError, match=rf"x\.mtx:{line + 3}: '1\.0' is not a column index"):
        load(text(REAL, "5000 1 5000\n" + "".join(rows)))


@pytest.fixture
def long_file(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Lines of a file that goes to the parser in many pieces, which are shorter for that."""
    monkeypatch.setattr(matrix_market, "_PIECE", 1 << 14)
    return [f"{k} 1 {k / 7:.16e}\n" for k in range(1, 15_001)]


def written(folder: Path, triangle: str, lines: list[str], entries: int | None = None) -> str:
    path = folder / "a.mtx"
    sizes = f"15000 15000 {entries or len(lines)}\n"
    path.write_bytes(text(f"coordinate real {triangle}", sizes + "".join(lines)))
    assert path.stat().st_size > 10 * matrix_market._PIECE
    return str(path)


@pytest.mark.parametrize(
    ("line", "fault", "triangle"),
    in_turn(
        [
            ("5 1 2.5 7", "4 words, but an entry"),
            ("5 1 2,5", "'2,5' is not a number"),
            ("5 1 1e", "'1e' is not a number"),
            ("5 1 1e+", "'1e+' is not a number"),
            ("5 1 1e.5", "'1e.5' is not a number"),
            ("5 1 1--5", "'1--5' is not a number"),
            ("5 1.5 3.0", "'1.5' is not a column index"),
            ("5 1.2.3 1.0", "'1.2.3' is not a column index"),
            ("5 1 1.2.3", "'1.2.3' is not a number"),
            ("5 1 1e5e6", "'1e5e6' is not a number"),
            ("5 1 1e5.3", "'1e5.3' is not a number"),
            ("5 1 .", "'.' is not a number"),
            ("5 1 4.2-390041", "'4.2-390041' is not a number"),
            ("5 1 1.5-4", "'1.5-4' is not a number"),
            ("5e0 1 1.5", "'5e0' is not a row index"),
            ("5 1 2.5\0", "is not a number"),
            ("5\n1 2.5", "1 word, but an entry"),
            ("5 149999999999 2.5", "is beyond the declared"),
        ],
        ["general", "symmetric"],
    ),
)
def test_an_error_in_the_middle_of_a_long_file(tmp_path, long_file, triangle, line, fault):
    path = written(tmp_path, triangle, [*long_file[:4999], line + "\n", *long_file[5000:]])
    duplicates = "error" if triangle == "general" else "sum"  # most make a duplicate of entry 5: no word of that
    with pytest.raises(InputError) as caught:
        read(path, ReadOptions(duplicates=duplicates))
    assert fault in caught.value.cause
    assert caught.value.place == f"{path}:5002"


@pytest.mark.parametrize(("value", "expected"), [("2.5D+01", 25.0), ("2.5-101", 2.5e-101), ("nan", np.nan)])
def test_what_scipy_misreads_in_the_middle_of_a_long_file(tmp_path, long_file, value, expected):
    path = written(tmp_path, "symmetric", [*long_file[:4999], f"5000 1 {value}\n", *long_file[5000:]])
    matrix = read(path)
    assert matrix.csr.nnz == 2 * 15_000 - 1
    assert np.array_equal(matrix.csr.values[[4998, 4999, 5000]], [4999 / 7, expected, 5001 / 7], equal_nan=True)


def test_blank_lines_in_the_middle_of_a_long_file_are_reported_and_counted(tmp_path, long_file):
    lines = [*long_file[:7000], "\n", " \r\n", *long_file[7000:7999], "8000 1 1e400\n", *long_file[8000:]]
    path = written(tmp_path, "general", lines, 15_000)
    result = {f.text: (f.line, f.count) for f in read(path).findings}
    assert result["blank lines"] == (7003, 2)
    assert result["infinite values"] == (8004, 1)


def test_a_long_sound_file_is_read_once(tmp_path, long_file, monkeypatch):
    monkeypatch.setattr("spgraph_bench.readers.matrix_market._checked", lambda *a: pytest.fail("read twice"))
    for triangle in ("general", "symmetric"):
        a = read(written(tmp_path, triangle, long_file)).csr
        expected = sp.csr_array(sio.mmread(tmp_path / "a.mtx"))
        assert np.array_equal(a.row_ptr, expected.indptr)
        assert np.array_equal(a.col_idx, expected.indices)
        assert np.array_equal(a.values, expected.data)


@pytest.mark.parametrize(
    ("field", "bad", "fault"),
    [
        ("pattern", "3 1 5", "3 words"),
        ("pattern", "3 1.", "'1.' is not a column index"),
        ("integer", "3 1 5.5", "'5.5' is not an integer"),
        ("integer", "3 1-5", "2 words"),
        ("integer", "3 1-5 7", "'1-5' is not a column index"),
    ],
)
@pytest.mark.parametrize("good", ["3  1", "3 1", "03 1", "3 1 "])
def test_a_short_line_does_not_hide_a_long_one(field, bad, fault, good):
    end = " 5" if field == "integer" else ""
    body = f"1 1{end}\n{bad}\n{good}{end}\n"
    with pytest.raises(InputError, match=fault):
        load(text(f"coordinate {field} general", "9 9 3\n" + body))


def test_a_huge_declared_count_allocates_nothing():
    import tracemalloc

    tracemalloc.start()
    with pytest.raises(InputError, match="the file has 3"):
        load(text(REAL, f"100 100 {10**15}\n" + "1 1 2\n" * 3))
    assert tracemalloc.get_traced_memory()[1] < 10_000_000
    tracemalloc.stop()


@pytest.mark.parametrize("block", [1, 2, 7, 64, 1 << 17])
def test_a_text_is_checked_in_blocks(monkeypatch, block):
    monkeypatch.setattr("spgraph_bench.readers.scan._BLOCK", block)
    body = b"\n" + b"".join(b"%d 1  -%d.5e-%d\n" % (k, k, k % 7) for k in range(300))
    assert scan(body, 1, len(body)) == 900
    assert scan(body, 1, len(body), width=3) == 900
    for bad in (b"1.5 1 2", b"1 2", b"1 2 3 4", b"-1 1 2", b"1 1e2 2", b"1 1 2e5.1", b"1 1 2e5e6", b"1 1 .e5", b""):
        assert scan(body + bad + b"\n" + body[1:], 1, 2 * len(body) + len(bad), width=3) is None


@pytest.mark.parametrize("number", [b"1", b"-1", b"1.", b".5", b"-.5", b"1e5", b"1E+5", b"-1.5e-05", b"+1"])
def test_numbers_are_counted(number):
    assert scan(b"\n1 2 " + number, 1, 5 + len(number)) == 3
    assert scan(b"\n1 2 " + number + b"\r\n", 1, 7 + len(number)) == 3


@pytest.mark.parametrize(
    "word",
    [
        "1e",
        "1E+",
        "1e-",
        "1e.5",
        "1e+.5",
        "1ee5",
        "1e--5",
        "1e+-5",
        "1-5",
        "1.-5",
        "1+5",
        "--1",
        "1..5",
        "5-",
        "1,5",
        "1/5",
        "1e/5",
        "1d5",
        "nan",
        "1_0",
        "1\0",
        "1\x7f",
        "1\xff",
        "1\v",
        "\x1f",
        "%",
        "x",
        ")1",
        "1f",
    ],
)
def test_what_is_not_a_number_is_not_counted(word):
    for around in ("\n1 1 {}", "\n1 1 {} ", "\n1 1 {}\r\n2 2 2\n", "\n1 1 1 {}\n2 2\n"):
        body = around.format(word).encode("latin-1")
        assert scan(body, 1, len(body)) is None


@pytest.mark.parametrize("word", ["1.", ".5", "1e5", "+1", "5E1"])
def test_only_integers_are_counted_where_they_have_to_be(word):
    body = f"\n1 1 {word}\n".encode()
    assert (scan(body, 1, len(body)), scan(body, 1, len(body), real=False)) == (3, None)


@pytest.mark.parametrize("value", ["5nan", "nan5", "1e+nan", "-nanx", "infinit", "5-inf", "n", "+-inf"])
def test_nothing_hides_in_a_nan(value):
    with pytest.raises(InputError, match="is not a number"):
        load(text(REAL, f"9 9 3\n1 1 nan\n2 2 {value}\n3 3 -Infinity\n"))


@given(
    rows=st.integers(1, 12),
    cols=st.integers(1, 12),
    seed=st.integers(0, 2**31),
    symmetric=st.booleans(),
    field=st.sampled_from(["real", "integer", "pattern"]),
)
@settings(max_examples=60, deadline=None)
def test_reads_what_scipy_writes(rows, cols, seed, symmetric, field):
    rng = np.random.default_rng(seed)
    cols = rows if symmetric else cols
    a = rng.integers(-5, 6, (rows, cols)) * (rng.random((rows, cols)) < 0.4)
    a = a + a.T if symmetric else a
    a = a * np.pi if field == "real" else a
    file = io.BytesIO()
    sio.mmwrite(file, sp.coo_array(a), field=field, symmetry="symmetric" if symmetric else "general")
    matrix = load(file.getvalue())
    expected = (a != 0).astype(float) if field == "pattern" else a
    assert np.array_equal(matrix.csr.to_scipy().toarray(), expected)
    assert matrix.csr.nnz == np.count_nonzero(a)


@given(content=st.binary(max_size=60), kind=st.sampled_from([REAL, INTEGER, PATTERN, "array real symmetric"]))
@settings(max_examples=200, deadline=None)
def test_any_bytes_are_read_or_refused(content, kind):
    for body in (content, b"3 3 2\n1 1 " + content, b"2 2 1\n" + content + b"\n2 1 5\n"):
        with contextlib.suppress(InputError):
            load(text(kind, "") + body, part="real")


@given(
    data=st.data(),
    field=st.sampled_from(["real", "integer", "pattern", "complex"]),
    layout=st.sampled_from(["coordinate", "array"]),
)
@settings(max_examples=300, deadline=None)
def test_the_fast_way_says_what_the_slow_way_says(data, field, layout):
    # A well-formed body with a few characters changed: where the fast way answers, it is right.
    values = {"real": "1.5e-3", "integer": "-12", "pattern": "", "complex": "1 -2.5"}[field]
    if layout == "array" and field == "pattern":
        return
    body = "".join(f"{k} {k + 1} {values}\n" if layout == "coordinate" else f"{values}\n" for k in range(1, 5))
    for _ in range(data.draw(st.integers(0, 3))):
        position = data.draw(st.integers(0, len(body) - 1))
        new = data.draw(st.sampled_from(["", *"0159 .-+eEdDn%,/\n\r\t\0_x", "1.5-10", "nan", "% c\n", "\n\n"]))
        body = body[:position] + new + body[position + data.draw(st.integers(0, 1)) :]
    content = text(f"{layout} {field} general", ("9 9 4\n" if layout == "coordinate" else "2 2\n") + body)
    source = Input(content, "x.mtx", "x.mtx")
    try:
        slow = read_body(source, read_header(source), lambda what, fraction: None)
    except InputError:
        slow = None
    try:
        fast = _fast(source, read_header(source), lambda what, fraction: None)
    except InputError:
        assert slow is None
        return
    if fast is not None:
        assert slow is not None, f"{body!r} was taken for {fast}"
        for part in ("row", "col", "values"):
            one, other = getattr(fast, part), getattr(slow, part)
            assert (one is None) == (other is None)
            assert one is None or np.array_equal(one, other, equal_nan=True)


KNOWN = {
    "Franz6_id1959_aug": (10592, 3016, 48472),
    "adder_dcop_05": (1813, 1813, 11097),
    "arrow": (46500, 46500, 139498),
    "bayer10": (13436, 13436, 94926),
    "bcspwr10": (5300, 5300, 21842),
    "bcsstk13": (2003, 2003, 83883),
    "bips98_606": (7135, 7135, 34738),
    "chesapeake": (39, 39, 340),
    "comments_west0067": (67, 67, 295),
    "cryg2500": (2500, 2500, 12349),
    "gap_4": (14, 14, 58),
    "gap_4w": (14, 14, 58),
    "jagmesh7": (1138, 1138, 7450),
    "karate": (34, 34, 156),
    "lap3D_7pt_n20": (8000, 8000, 53600),
    "lp_afiro": (27, 51, 102),
    "olm1000": (1000, 1000, 3996),
    "pushpull": (4000, 4000, 196305),
    "rajat01": (6833, 6833, 43250),
    "west0067": (67, 67, 294),
    "west0067_jumbled": (67, 67, 294),
    "west0067_noheader": (67, 67, 294),
    "zenios": (2873, 2873, 27191),
}


@pytest.mark.parametrize("name", KNOWN)
def test_real_files(matrices_dir: Path, name: str):
    path = matrices_dir / f"{name}.mtx"
    matrix = read(str(path))
    assert (matrix.name, matrix.source.format) == (name, "matrix-market")
    assert (matrix.csr.rows, matrix.csr.cols, matrix.csr.nnz) == KNOWN[name]
    if name not in ("west0067_jumbled", "west0067_noheader"):  # scipy reads neither
        expected = sp.csr_array(sio.mmread(path))
        expected.sum_duplicates()
        if matrix.csr.values is None:
            expected.data[:] = 1
        assert np.array_equal(matrix.csr.row_ptr, expected.indptr)
        assert np.array_equal(matrix.csr.col_idx, expected.indices)
        assert np.array_equal(matrix.csr.value_array(), expected.data, equal_nan=True)


def test_one_matrix_several_ways(matrices_dir: Path):
    plain, *others = (read(str(matrices_dir / f"west0067{s}.mtx")) for s in ("", "_jumbled", "_noheader"))
    assert {m.sha256 for m in others} == {plain.sha256}
    # The file with comments holds one entry more, a NaN in the corner.
    commented = read(str(matrices_dir / "comments_west0067.mtx")).csr
    assert np.isnan(commented.values[0])
    assert np.array_equal(commented.col_idx[1:], plain.csr.col_idx)
    assert np.array_equal(commented.values[1:], plain.csr.values)


def test_base_0_is_honoured():
    body = "3 4 3\n0 3\n2 0\n1 1\n"
    matrix = load(text("coordinate pattern general", body), base=0)
    assert matrix.csr.to_scipy().toarray().tolist() == [[0, 0, 0, 1], [0, 1, 0, 0], [1, 0, 0, 0]]
    assert (matrix.policies.base, matrix.policies.base_from) == (0, "option")
    with pytest.raises(InputError, match=r":3: row index 0 .*\n.*--base 0"):
        load(text("coordinate pattern general", body))
    with pytest.raises(InputError, match=r":4: row 3 is beyond the declared 3 rows, the last of which is 2"):
        load(text("coordinate pattern general", "3 4 2\n0 3\n3 0\n"), base=0)
    with pytest.raises(InputError, match=r":2: row index 0 .*\n.*--base 0.*--input-format edge-list"):
        load(b"5 5 2\n0 3\n3 2\n")


def test_without_a_size_line_the_edge_list_is_offered_and_reads_every_edge(tmp_path):
    path = tmp_path / "a.mtx"
    path.write_bytes(text("coordinate pattern general", "% c\n2 1\n3 1\n4 3\n"))
    with pytest.raises(InputError, match=r":3: '2 1' is not a size line.*\n.*--input-format edge-list"):
        read(str(path))
    matrix = read(str(path), ReadOptions(input_format="edge-list"))
    assert (matrix.csr.shape, matrix.csr.nnz, matrix.policies.base) == ((4, 4), 3, 1)
    path.write_bytes(text("coordinate real symmetric", "2 1 .5\n3 1 7\n"))
    weighted = read(str(path), ReadOptions(input_format="edge-list"))
    assert weighted.csr.to_scipy().toarray().tolist() == [[0, 0.5, 7], [0.5, 0, 0], [7, 0, 0]]


@pytest.mark.parametrize(
    ("kind", "body", "expected"),
    [
        ("array real general", "2 2 4\n1\n2\n3\n4\n", [[1, 3], [2, 4]]),
        ("array real symmetric", "2 2 3\n1\n2\n3\n", [[1, 2], [2, 3]]),
        ("array real symmetric", "2 2 4\n1\n2\n2\n3\n", [[1, 2], [2, 3]]),
        ("array integer symmetric", "2 2\n1 2 2 3\n", [[1, 2], [2, 3]]),
        ("array real skew-symmetric", "3 3\n% c\n0 4 -1\n0 2.5\n0\n", [[0, -4, 1], [4, 0, -2.5], [-1, 2.5, 0]]),
        ("array real skew-symmetric", "2 2 3\n0 4 0\n", [[0, -4], [4, 0]]),
        ("array real skew-symmetric", "2 2\n0 4 -4 0\n", [[0, -4], [4, 0]]),
        ("array complex hermitian", "2 2\n1 0\n2 3\n2 -3\n5 0\n", [[1, 2], [2, 5]]),
    ],
)
def test_arrays_as_they_are_also_written(kind, body, expected):
    part = {"part": "real"} if "complex" in kind else {}
    assert dense(text(kind, body), **part) == expected


@pytest.mark.parametrize(
    ("kind", "body", "fault"),
    [
        ("array real general", "2 2 3\n1\n2\n3\n4\n", ":2: 3 values are declared, an array of 2 x 2 has 4"),
        ("array real skew-symmetric", "2 2\n1\n4\n0\n", ":3: 1.0 on the diagonal of a skew-symmetric"),
        ("array real symmetric", "2 2\n1\n2\n7\n3\n", ":5: declared symmetric, but row 1, column 2 is 7.0 and"),
        ("array real symmetric", "2 2\n1\n2\n", "3 values are declared, the file has 2"),
    ],
)
def test_arrays_that_contradict_themselves(kind, body, fault):
    with pytest.raises(InputError, match=fault):
        load(text(kind, body))
