"""Rutherford-Boeing, MATLAB, npz and archives."""

from __future__ import annotations

import contextlib
import io
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
import scipy.io as sio
import scipy.sparse as sp

from spgraph_bench.errors import InputError
from spgraph_bench.readers import ReadOptions, read


@pytest.fixture
def save(tmp_path):
    def put(name, content):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return str(path)

    return put


def dense(path, **options):
    return read(path, ReadOptions(**options)).csr.to_scipy().toarray().tolist()


# Rutherford-Boeing: title, cards, type and sizes, formats, then the columns of the matrix.
RB = """A matrix of three rows and columns                                      key
             4             1             1             2
{type}                        3             3             4             0
(4I3)           (10I3)          {format}
{pointers}
  1  3  2  3
{values}
"""


VALUES = "  1.000D+00 -2.500D+00\n  3.000D+00    4.0-100"


def rb(kind="rua", fmt="(1P,2D11.3)", pointers="  1  3  4  5", values=VALUES):
    return RB.format(type=kind, format=fmt, pointers=pointers, values=values)


def test_rutherford_boeing_fields_that_touch(save):
    path = save("a.rb", rb())
    assert dense(path) == [[1, 0, 0], [0, 3, 0], [-2.5, 0, 4e-100]]
    touching = save("b.rua", rb(fmt="(2E5.1)", values="-1.50-2.50\n3.0  4.   "))
    assert dense(touching) == [[-1.5, 0, 0], [0, 3, 0], [-2.5, 0, 4]]
    assert read(path).source.format == "rutherford-boeing"


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("rsa", [[1, 0, 2], [0, 3, 0], [2, 0, 4]]),
        ("iua", [[1, 0, 0], [0, 3, 0], [2, 0, 4]]),
        ("RRA", [[1, 0, 0], [0, 3, 0], [2, 0, 4]]),
        ("pua", [[1, 0, 0], [0, 1, 0], [1, 0, 1]]),
        ("psa", [[1, 0, 1], [0, 1, 0], [1, 0, 1]]),
    ],
)
def test_rutherford_boeing_types(save, kind, expected):
    assert dense(save("a.rb", rb(kind, "(10I3)", values="  1  2  3  4"))) == expected


def test_rutherford_boeing_skew_and_complex(save):
    skew = rb("rza", "(10I3)", values="  0  2  0  0")
    assert dense(save("a.rb", skew)) == [[0, 0, -2], [0, 0, 0], [2, 0, 0]]
    hermitian = save("b.rb", rb("cha", "(10I3)", values="  1  0  2  5  3  0  4  0"))
    assert dense(hermitian, part="imag") == [[0, 0, -5], [0, 0, 0], [5, 0, 0]]
    with pytest.raises(InputError, match=r"b\.rb:3: the values are complex"):
        read(hermitian)


def test_harwell_boeing_with_right_hand_sides(save):
    lines = rb().splitlines()
    lines[1] += "             3"
    lines[3] = lines[3].ljust(52) + "(3E20.12)"
    lines.insert(4, "F                          1             0")
    matrix = read(save("a.hb", "\r\n".join([*lines, "1. 2. 3."])))
    assert matrix.csr.to_scipy().toarray().tolist() == [[1, 0, 0], [0, 3, 0], [-2.5, 0, 4e-100]]
    assert [(f.text, f.line) for f in matrix.findings] == [
        ("right-hand sides are skipped", 5),
        ("Fortran exponents without a letter (1.0-100)", 9),
    ]


@pytest.mark.parametrize("symmetric", [False, True])
def test_rutherford_boeing_as_scipy_writes_it(save, symmetric):
    a = sp.random_array((40, 40), density=0.1, format="csc", rng=np.random.default_rng(3))
    if symmetric:
        a = (a + a.T).tocsc()
    else:
        a.data[0], a.data[1] = -1e-120, 1e120
    file = io.StringIO()
    sio.hb_write(file, a)
    assert np.array_equal(read(save("a.hb", file.getvalue())).csr.to_scipy().toarray(), a.toarray())


@pytest.mark.parametrize(
    ("content", "line", "cause"),
    [
        (rb("matrix"), ":3", "no Rutherford-Boeing matrix type"),
        ("1 2\n3 4\n", "", "the header of four lines is cut off"),
        (rb("rue"), ":3", "only assembled matrices"),
        (rb(pointers="  1  3  2  5"), ":5", "column pointer 3 is 2"),
        (rb(pointers="  1  3  4  6"), ":5", "column pointer 4 is 6"),
        (rb(pointers="  1  x  4  5"), ":5", "'x' among the column pointers is not a number"),
        (rb().replace("  1  3  2  3\n", "  1  3  2  9\n"), ":6", "row 9 is beyond the declared 3 rows"),
        (rb().replace("  1  3  2  3\n", "  1  0  2  3\n"), ":6", "row index 0 (indices start at 1)"),
        (rb(values=VALUES[:23] + "abc"), ":8", "'abc' among the values is not a number"),
        (rb()[:-12], ":8", "the values end too early"),
        (rb()[:-23], "", "the file ends within the values"),
        (rb(fmt="(E)"), ":4", "Fortran formats"),
        (rb(fmt="(999999999E99999)"), ":4", "Fortran formats"),
        (rb(pointers="").replace("3             4 ", "9999999999999 4 "), "", "ends within the column pointers"),
    ],
)
def test_broken_rutherford_boeing(save, content, line, cause):
    path = save("a.rb", content)
    with pytest.raises(InputError) as caught:
        read(path)
    assert caught.value.place == path + line
    assert cause in caught.value.cause


@pytest.mark.parametrize(
    ("name", "size", "nnz", "weighted"),
    [("cage10", 11397, 150645, True), ("delaunay_n16", 65536, 393150, False), ("PGPgiantcompo", 10680, 48632, True)],
)
def test_real_matlab_files(matrices_dir: Path, name, size, nnz, weighted):
    matrix = read(str(matrices_dir / f"{name}.mat"))
    assert (matrix.name, matrix.source.format, matrix.weighted) == (name, "matlab", weighted)
    assert (matrix.csr.shape, matrix.csr.nnz) == ((size, size), nnz)


def matlab(**variables):
    file = io.BytesIO()
    sio.savemat(file, variables)
    return file.getvalue()


A = sp.csc_array(np.array([[0, 2.5], [-1, 0], [0, 3]]))


def test_matlab_variables(save):
    assert dense(save("a.mat", matlab(anything=A, x=1.0))) == A.toarray().tolist()
    assert dense(save("b.mat", matlab(A=A, B=2 * A))) == A.toarray().tolist()
    zeros = sp.csc_array(np.array([[1.0, 0], [0, 0], [0, 0]]))
    matrix = read(save("c.mat", matlab(Problem={"A": A, "Zeros": zeros, "name": "x"})))
    assert (matrix.csr.nnz, matrix.policies.explicit_zeros) == (4, 1)
    ones = sp.csc_array(np.array([[0, 1.0], [1, 0]]))
    assert not read(save("d.mat", matlab(Problem={"A": ones}))).weighted
    assert read(save("e.mat", matlab(A=ones))).weighted
    assert dense(save("f.mat", matlab(A=A * 1j)), part="imag") == A.toarray().tolist()


def test_matlab_levels_and_orders_as_scipy_reads_them(save):
    """Level 4 and 5, compressed or not, big-endian, one value, none, negative and complex ones."""
    draw = np.random.default_rng(1)
    for k, shape in enumerate([(3, 3), (1, 1), (40, 7), (7, 40), (5, 0), (300, 300)]):
        a = sp.random_array(shape, density=0.2, format="csc", rng=draw)
        a.data = np.round(a.data * 10 - 5) if k % 2 else a.data
        for level, packed in (("4", False), ("5", False), ("5", True)):
            if level == "4" and not a.nnz:
                continue  # scipy writes no empty one
            file = io.BytesIO()
            sio.savemat(file, {"A": a}, format=level, do_compression=packed)
            result = read(save(f"{level}.mat", file.getvalue()))
            assert result.csr.to_scipy().toarray().tolist() == a.toarray().tolist()
    # Levels 4 and 5 as a big-endian machine writes them.
    table = np.array([[1, 1, 5.0], [3, 2, 7.0], [3, 3, 0.0]])
    four = np.array([1002, 3, 3, 0, 2], ">i4").tobytes() + b"A\0" + table.T.astype(">f8").tobytes()
    assert dense(save("big4.mat", four)) == [[5, 0, 0], [0, 0, 0], [0, 7, 0]]

    def element(kind, numbers, dtype):
        content = np.array(numbers, dtype).tobytes()
        return np.array([kind, len(content)], ">u4").tobytes() + content + bytes(-len(content) % 8)

    array = element(6, [5, 2], ">u4") + element(5, [3, 3], ">i4") + element(1, [65], ">i1")
    array += element(5, [0, 2], ">i4") + element(5, [0, 1, 2, 2], ">i4") + element(3, [5, -7], ">i2")
    header = b"MATLAB 5.0".ljust(124) + b"\1\0MI"
    five = header + np.array([14, len(array)], ">u4").tobytes() + array
    assert dense(save("big5.mat", five)) == [[5, 0, 0], [0, 0, 0], [0, -7, 0]]


def test_a_stored_false_in_matlab_is_not_an_entry(save):
    logical = sp.csc_array(np.array([[True, False], [True, True]]))
    matrix = read(save("a.mat", matlab(A=logical)))
    assert not matrix.weighted
    assert matrix.csr.nnz == 3


def test_real_matlab_files_as_scipy_reads_them(matrices_dir: Path):
    for name in ("PGPgiantcompo", "cage10"):
        a = sio.loadmat(matrices_dir / f"{name}.mat")["Problem"].flat[0]["A"]
        assert abs(read(str(matrices_dir / f"{name}.mat")).csr.to_scipy() - a).nnz == 0


@pytest.mark.parametrize("packed", [False, True])
def test_no_bit_of_a_matlab_file_ends_the_process(save, packed, monkeypatch):
    """scipy's reader dies of some of them."""
    monkeypatch.setattr("spgraph_bench.memory.available_memory", lambda: 2**20)  # some declare millions of rows
    file = io.BytesIO()
    sio.savemat(file, {"x": 1.0, "A": A, "s": {"A": A}}, do_compression=packed)
    whole = file.getvalue()
    for position in range(116, len(whole)):
        content = bytearray(whole)
        content[position] ^= 1 << position % 8
        with contextlib.suppress(InputError):
            read(save("a.mat", bytes(content)))
    for size in range(0, len(whole), 7):
        with contextlib.suppress(InputError):
            read(save("a.mat", whole[:size]))


@pytest.mark.parametrize(
    ("content", "cause"),
    [
        (b"MATLAB 7.3 MAT-file, Platform: GLNXA64" + b" " * 600, "MATLAB 7.3"),
        (b"\x89HDF\r\n\x1a\n" + b"\0" * 600, "MATLAB 7.3"),
        (matlab(x=np.eye(2)), "no sparse matrix in it (variables: x)"),
        (matlab(B=A, C=A), "2 sparse variables"),
        (matlab(A=A)[:200], "no MATLAB variable can be read"),
        (b"MATLAB 5.0 MAT-file" + b"\xff" * 400, "no MATLAB variable can be read"),
    ],
)
def test_broken_matlab(save, content, cause):
    with pytest.raises(InputError) as caught:
        read(save("a.mat", content))
    assert cause in caught.value.cause
    assert caught.value.remedy


def npz(matrix):
    file = io.BytesIO()
    sp.save_npz(file, matrix)
    return file.getvalue()


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "bsr", "dia"])
def test_npz(save, form):
    assert dense(save("a.npz", npz(sp.coo_array(A).asformat(form)))) == A.toarray().tolist()
    assert read(save("b.npz", npz(sp.csr_array(A.toarray() != 0)))).csr.values is None


def test_what_is_not_an_npz(save):
    with pytest.raises(InputError, match=r"an \.npz file is a zip archive, this file is not"):
        read(save("a.txt", b"1 2\n3 4\n"), ReadOptions(input_format="npz"))


def test_broken_npz(save):
    bad = sp.csr_array(A)
    bad.indptr = np.array([0, 3, -5, 3], np.int32)
    pickled = io.BytesIO()
    np.savez(pickled, format=np.array([object()], object))
    arrays = io.BytesIO()
    np.savez(arrays, x=np.ones(3))
    for content in (npz(bad), npz(A)[:-100], pickled.getvalue(), arrays.getvalue()):
        with pytest.raises(InputError, match="no sparse matrix can be read"):
            read(save("a.npz", content))
    with pytest.raises(InputError, match=r"only arrays: x\)"):
        read(save("a.npz", arrays.getvalue()))


MTX = b"%%MatrixMarket matrix coordinate real general\n2 2 1\n2 1 7\n"


def tar(*members, mode="w:gz"):
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode=mode) as archive:
        for name, content in members:
            info = tarfile.TarInfo(name)
            if content is None:
                info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
            info.size = len(content or b"")
            archive.addfile(info, io.BytesIO(content or b""))
    return file.getvalue()


def test_archive_takes_the_matrix_and_never_a_side_file(save):
    side = MTX.replace(b"7", b"9")
    path = save("n.tar.gz", tar(("n/n_b.mtx", side), ("n/n.mtx", MTX), ("n/n_coord.mtx", side)))
    matrix = read(path)
    assert (matrix.name, matrix.csr.values.tolist(), matrix.source.format) == ("n", [7], "matrix-market")
    assert dense(save("n.tgz", tar(("n/n_b.mtx", side), ("n/n.rb", rb("pua").encode())))) == [
        [1, 0, 0],
        [0, 1, 0],
        [1, 0, 1],
    ]
    assert dense(save("other.tar", tar(("x/y.mtx", MTX), ("x/readme", b"hello"), mode="w"))) == [[0, 0], [7, 0]]
    with pytest.raises(InputError, match=r"no matrix called NAME/NAME\.mtx .* n/n_b\.mtx"):
        read(save("n.tar.gz", tar(("n/n_b.mtx", side))))


def test_hostile_archives_are_harmless(save, tmp_path):
    before = sorted(tmp_path.parent.rglob("*"))
    path = save("n.tar.gz", tar(("../../n/n.mtx", MTX), ("/etc/evil.mtx", MTX)))
    assert dense(path) == [[0, 0], [7, 0]]
    assert sorted(p for p in tmp_path.parent.rglob("*") if p != Path(path)) == before
    with pytest.raises(InputError, match="no file with a known suffix"):
        read(save("m.tar.gz", tar(("n/n.mtx", None))))
    with pytest.raises(InputError, match=r"n\.mtx: the file is empty"):
        read(save("e.tar.gz", tar(("n/n.mtx", b""))))
    with pytest.raises(InputError) as caught:
        read(save("c.tar.gz", tar(("n/\x1b[31mn.mtx", MTX[:-4]))))
    assert "\x1b" not in str(caught.value)


def test_errors_within_an_archive_name_the_member_and_line(save):
    with pytest.raises(InputError, match=r"n\.tar\.gz:n/n\.mtx:3: row index 0"):
        read(save("n.tar.gz", tar(("n/n.mtx", MTX.replace(b"2 1 7", b"0 1 7")))))


def test_cut_off_archive(save):
    whole = tar(("n/n.mtx", MTX * 1000), mode="w")
    with pytest.raises(InputError, match=r"damaged|cut off"):
        read(save("n.tar", whole[:3000]))
    with pytest.raises(InputError, match="gzip compression ends too early"):
        read(save("n.tar.gz", tar(("n/n.mtx", MTX))[:-20]))


def test_harwell_boeing_as_scipy_writes_it(save, tmp_path):
    # Its values are a character narrower than the format in the file says.
    a = sp.diags_array([[-1.0] * 6, [4.0] * 7, [-1.0] * 6], offsets=[-1, 0, 1]).tocsc()
    sio.hb_write(tmp_path / "a.dat", a)
    assert np.array_equal(dense(str(tmp_path / "a.dat")), a.toarray())


@pytest.mark.parametrize(
    ("values", "cause"),
    [
        ("  1.000D+00 -2.5.00D0\n  3.000D+00    4.0-100", "'-2.5.00e0'"),
        ("  1.000D+00           \n  3.000D+00 4.0 5.0-1", "the values end too early"),  # as many numbers
        ("  1.000D+00 -2.500D+00\n  3.000D+00     4.0-10", "'4.0-10'"),
        ("  1.000D+00 -2.500D+00\n  3.000D+00      1_000", "'1_000'"),
    ],
)
def test_values_that_are_nearly_numbers(save, values, cause):
    with pytest.raises(InputError, match=rf"a\.rb:[78]: .*{cause}"):
        read(save("a.rb", rb(values=values)))


def test_formats_of_many_digits(save):
    with pytest.raises(InputError, match=r"a\.rb:4: 3 Fortran formats"):
        read(save("a.rb", rb(fmt=f"(2D{'1' * 5000}.3)")))


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "bsr", "dia"])
def test_npz_of_half_precision(tmp_path, form):
    a = sp.coo_array(([1.5, -2, 0.25], ([0, 1, 1], [1, 0, 1])), shape=(2, 2)).asformat(form)
    a.data = a.data.astype(np.float16)
    sp.save_npz(tmp_path / "a.npz", a)
    assert dense(str(tmp_path / "a.npz")) == [[0, 1.5], [-2, 0.25]]


def test_a_stored_false_is_not_an_entry(tmp_path):
    a = sp.csr_array((np.array([True, False, True]), ([0, 0, 1], [0, 1, 1])), shape=(2, 2))
    assert a.nnz == 3
    sp.save_npz(tmp_path / "a.npz", a)
    matrix = read(str(tmp_path / "a.npz"))
    assert (matrix.csr.nnz, matrix.weighted) == (2, False)
    assert [f.count for f in matrix.findings if "false" in f.text] == [1]


def packed(kind: str, files: dict[str, str]) -> bytes:
    out = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in files.items():
                archive.writestr(name, content)
    else:
        with tarfile.open(fileobj=out, mode="w:bz2") as tar:
            for name, content in files.items():
                info = tarfile.TarInfo(name)
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content.encode()))
    return out.getvalue()


KONECT = {
    "kon/README.kon": "1 2 3\n",
    "kon/meta.kon": "name: kon\n",
    "kon/ent.kon.id.txt": "1 2\n",
    "kon/out.kon": "% asym unweighted\n1 2\n3 1\n",
}


@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_downloads_of_konect_and_networkrepository(save, kind):
    suffix = "zip" if kind == "zip" else "tar.bz2"
    konect = read(save(f"download.tsv.kon.{suffix}", packed(kind, KONECT)))
    assert (konect.csr.nnz, konect.name) == (2, "kon")
    mtx = "%%MatrixMarket matrix coordinate pattern symmetric\n3 3 2\n2 1\n3 2\n"
    for name, content in (("nr.mtx", mtx), ("other.edges", "% a graph\n1 2\n2 3\n")):
        files = {"readme.html": "<p>", "readme.txt": "1 2\n", "__MACOSX/._nr.mtx": "x", name: content}
        assert read(save(f"nr.{suffix}", packed(kind, files))).csr.rows == 3
    forced = read(save(f"a.{suffix}", packed(kind, {"a.mtx": "2 1\n3 1\n"})), ReadOptions(input_format="edge-list"))
    assert forced.csr.nnz == 2
    with pytest.raises(InputError, match=r"but one\.txt, two\.txt\n.*name the file"):
        read(save(f"b.{suffix}", packed(kind, {"one.txt": "1 2\n", "two.txt": "1 2\n"})))
    with pytest.raises(InputError, match=rf"c\.{suffix}:c\.mtx:3: 'x' is not a row index"):
        read(save(f"c.{suffix}", packed(kind, {"c.mtx": mtx.replace("2 1", "x 1")})))


def test_broken_zip(save):
    content = packed("zip", {"a.txt": "".join(f"{k} {k + 1}\n" for k in range(999))})
    for broken in (content[:-30], content[:60] + b"\xff" * 9 + content[69:]):
        with pytest.raises(InputError, match="the archive is damaged"):
            read(save("a.zip", broken))


def test_headers_nested_without_end_are_damage(save):
    out = io.BytesIO()
    for _ in range(2000):  # each names the next, so that looking for the file nests
        info = tarfile.TarInfo("././@PaxHeader")
        info.type, info.size = tarfile.XHDTYPE, 11
        out.write(info.tobuf(tarfile.USTAR_FORMAT))
        out.write(b"11 path=ab\n".ljust(512, b"\0"))
    with pytest.raises(InputError, match="nested too deeply"):
        read(save("a.tar", out.getvalue()))
