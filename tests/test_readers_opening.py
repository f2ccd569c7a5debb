"""Opening inputs: paths, standard input, compression, encodings, the choice of the reader, the cache."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import multiprocessing
import os
import sys

import pytest
import scipy.sparse as sp

from spgraph_bench.cli.main import run
from spgraph_bench.errors import InputError
from spgraph_bench.readers import ReadOptions, cache, read, readers
from spgraph_bench.readers.opening import matrix_name

MTX = b"%%MatrixMarket matrix coordinate real general\n2 2 2\n1 2 3\n2 1 7\n"


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SPGRAPH_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def mtx(tmp_path):
    path = tmp_path / "a.mtx"
    path.write_bytes(MTX)
    return path


def fails(path, cause):
    with pytest.raises(InputError) as caught:
        read(str(path))
    assert cause in caught.value.cause
    assert caught.value.remedy
    assert caught.value.exit_status == 2
    return caught.value


def test_registry_finds_every_module():
    known = readers()
    assert {"matrix-market", "archive", "matlab", "rutherford-boeing", "npz"} <= set(known)
    assert all(one.title and one.suffixes for one in known.values())


@pytest.mark.parametrize(
    ("suffix", "pack"), [(".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress), ("", bytes)]
)
def test_compression_is_recognised_by_content(tmp_path, mtx, suffix, pack):
    plain = read(str(mtx))
    named, misnamed = tmp_path / f"west.mtx{suffix}", tmp_path / "b.mtx"
    for path in (named, misnamed):
        path.write_bytes(pack(MTX))
        assert read(str(path)).sha256 == plain.sha256
    assert read(str(named)).name == "west"
    if suffix:
        whole = pack(MTX)
        named.write_bytes(whole[: len(whole) // 2])
        assert "compression ends too early" in fails(named, "compression").cause
        named.write_bytes(whole[:12] + bytes(b ^ 0x55 for b in whole[12:]))
        fails(named, "compression ends too early" if suffix == ".xz" else "compression is corrupted")


def test_two_gzip_members_are_one_file(tmp_path, mtx):
    path = tmp_path / "two.mtx.gz"
    path.write_bytes(gzip.compress(MTX[:50]) + gzip.compress(MTX[50:]))
    assert read(str(path)).sha256 == read(str(mtx)).sha256


def test_standard_input(monkeypatch, mtx):
    for content in (MTX, gzip.compress(MTX)):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        matrix = read("-")
        assert (matrix.name, matrix.source.kind, matrix.source.text) == ("stdin", "stdin", "-")
        assert matrix.sha256 == read(str(mtx)).sha256
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(MTX.replace(b"2 1 7", b"2 3 7"))))
    assert fails("-", "column 3 is beyond").place == "<stdin>:4"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    fails("-", "empty")
    monkeypatch.setattr(sys, "stdin", None)
    fails("-", "standard input is closed")


def test_options_that_a_format_has_no_use_for_are_refused(tmp_path, mtx):
    def refused(path, **options):
        with pytest.raises(InputError) as caught:
            read(str(path), ReadOptions(**options))
        return f"{caught.value.place}: {caught.value.cause}; {caught.value.remedy}"

    assert "--relabel closes gaps" in refused(mtx, relabel=True)
    npz = tmp_path / "a.npz"
    sp.save_npz(npz, sp.eye_array(2).tocsr())
    assert "scipy npz has no indices to shift; omit --base 1" in refused(npz, base=1)
    assert read(str(mtx), ReadOptions(base=1)).csr.nnz == 2


def test_named_pipe(tmp_path, mtx):
    pipe = tmp_path / "pipe.mtx"
    os.mkfifo(pipe)
    writer = multiprocessing.get_context("fork").Process(target=pipe.write_bytes, args=(MTX,))
    writer.start()
    assert read(str(pipe)).sha256 == read(str(mtx)).sha256
    writer.join()


def test_paths_that_cannot_be_read(tmp_path, mtx):
    fails(tmp_path, "folder")
    assert str(mtx) in fails(tmp_path / "a.mxt", "no such file").remedy
    assert "no folder" in fails(tmp_path / "none" / "a.mtx", "no such file").remedy
    (tmp_path / "link.mtx").symlink_to("gone.mtx")
    assert "link to gone.mtx" in fails(tmp_path / "link.mtx", "no such file").remedy
    fails("/dev/null", "device")
    fails("a\0b", "cannot be read")
    fails(mtx / "x", "cannot be read")
    empty = tmp_path / "empty.mtx"
    empty.touch()
    fails(empty, "empty")
    empty.write_bytes(gzip.compress(b""))
    fails(empty, "empty")


def _as_nobody(path, result):
    if os.getuid() == 0:
        os.setgid(65534)
        os.setuid(65534)
    try:
        read(path)
        result.put("read")
    except InputError as error:
        result.put(str(error))


def test_no_permission(mtx):
    mtx.chmod(0)
    for folder in list(mtx.parents)[:4]:
        if folder.stat().st_uid == os.getuid() and folder != folder.parent:
            folder.chmod(folder.stat().st_mode | 0o011)
    context = multiprocessing.get_context("fork")
    result = context.SimpleQueue()
    process = context.Process(target=_as_nobody, args=(str(mtx), result))
    process.start()
    process.join(20)
    printed = result.get()
    assert "no permission to read it" in printed
    assert "chmod u+r" in printed


@pytest.mark.parametrize(
    ("name", "content", "cause"),
    [
        ("a.mtx", MTX.decode().encode("utf-16"), "UTF-16"),
        ("a.txt", "1 2\n".encode("utf-16-be").join([b"\xfe\xff", b""]), "UTF-16"),
        ("a.mtx", bytes(range(256)) * 40, "binary data of no known kind"),
        ("a", b"\x7fELF" + b"\0" * 100, "binary data of no known kind"),
        ("a.mtx", b"<html><body>Not found</body></html>", "no %%MatrixMarket banner"),
    ],
)
def test_content_that_is_not_a_matrix(tmp_path, name, content, cause):
    path = tmp_path / name
    path.write_bytes(content)
    fails(path, cause)


def test_byte_order_mark_is_harmless(tmp_path, mtx):
    path = tmp_path / "bom.mtx"
    path.write_bytes(b"\xef\xbb\xbf" + MTX)
    assert read(str(path)).sha256 == read(str(mtx)).sha256


def test_input_format_is_forced(tmp_path):
    path = tmp_path / "a.dat"
    path.write_bytes(MTX[MTX.index(b"\n") + 1 :])
    assert read(str(path), ReadOptions(input_format="matrix-market")).csr.nnz == 2
    with pytest.raises(InputError, match="no input format 'mtx'"):
        read(str(path), ReadOptions(input_format="mtx"))


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("mtx", "did you mean matrix-market?"),
        (".MAT", "did you mean matlab?"),
        ("metris", "did you mean metis?"),
        ("hdf5", "`spgraph list readers` names them"),
    ],
)
def test_the_remedy_for_an_unknown_format_is_short(mtx, capsys, name, remedy):
    for command in ("info", "bench"):
        args = [command, *(["spmv"] if command == "bench" else []), str(mtx), "--input-format", name]
        assert run(args) == 2
        assert capsys.readouterr().err == f"error: there is no input format {name!r}\n  remedy: {remedy}\n"


def test_the_remedy_for_content_of_no_known_kind_is_short(tmp_path):
    path = tmp_path / "a.dat"
    path.write_bytes(b"hello\n")
    with pytest.raises(InputError, match="text of no known kind") as error:
        read(str(path))
    assert "spgraph list readers" in error.value.remedy
    assert len(error.value.remedy) < 80


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("west0067.mtx", "west0067"),
        ("a.b.mtx.gz", "a.b"),
        ("n.tar.gz", "n"),
        ("n.tgz", "n"),
        ("wiki-Vote.txt", "wiki-Vote"),
        ("road.v2", "road.v2"),
        (".mtx", ".mtx"),
        ("graph", "graph"),
    ],
)
def test_names(file, name):
    assert matrix_name(file, readers()) == name


def test_progress_is_reported(mtx):
    messages = []
    read(str(mtx), progress=lambda what, fraction: messages.append((what, fraction)))
    assert "reading entries" in {what for what, _ in messages}
    assert all(fraction is None or 0 <= fraction <= 1 for _, fraction in messages)


@pytest.fixture
def slow(monkeypatch, tmp_path):
    """Every file counts as slow to read; the number of times one was parsed."""
    monkeypatch.setattr(cache, "WORTH_SECONDS", -1.0)
    monkeypatch.setattr(cache, "_SMALL", 0)
    parsed = []
    from spgraph_bench.readers import assemble as module

    original = module.assemble
    monkeypatch.setattr(module, "assemble", lambda *args: parsed.append(1) or original(*args))
    return parsed


def entries():
    return sorted(cache._folder().glob("*.npz"))


def test_cache_gives_the_same_matrix(tmp_path, slow):
    path = tmp_path / "a.mtx"
    path.write_bytes(MTX.replace(b"3\n", b"0\n") + b"\n")
    first = read(str(path))
    second = read(str(path))
    assert len(slow) == 1
    assert first.csr.equals(second.csr)
    for part in ("name", "source", "symmetry", "weighted", "policies", "findings", "sha256"):
        assert getattr(first, part) == getattr(second, part)
    assert first.findings


def test_cache_is_by_content_and_options(tmp_path, mtx, slow):
    read(str(mtx))
    copy = tmp_path / "renamed.mtx"
    copy.write_bytes(MTX)
    assert read(str(copy)).name == "renamed"
    assert len(slow) == 1
    assert read(str(mtx), ReadOptions(values="ones")).csr.values is None
    mtx.write_bytes(MTX.replace(b"7", b"8"))
    assert read(str(mtx)).csr.values.tolist() == [3, 8]
    assert len(slow) == 3


@pytest.mark.parametrize("damage", [b"", b"PK\3\4junk", None])
def test_damaged_cache_is_ignored_and_rewritten(mtx, slow, damage):
    good = read(str(mtx))
    (entry,) = entries()
    whole = entry.read_bytes()
    position = whole.index(good.csr.values.tobytes())
    flipped = whole[:position] + bytes([whole[position] ^ 1]) + whole[position + 1 :]
    entry.write_bytes(flipped if damage is None else damage)
    assert read(str(mtx)).csr.equals(good.csr)
    assert len(slow) == 2
    assert read(str(mtx)).csr.equals(good.csr)
    assert len(slow) == 2
    assert not list(entry.parent.glob(".new-*"))


def test_cache_is_bounded_and_drops_the_oldest(tmp_path, slow, monkeypatch):
    monkeypatch.setattr(cache, "MAX_BYTES", 4000)  # an entry takes about 1.5 KB
    for k in range(6):
        path = tmp_path / f"{k}.mtx"
        path.write_bytes(MTX.replace(b"7", str(k).encode()))
        read(str(path))
        newest = max(entries(), key=lambda p: p.stat().st_mtime_ns)
        os.utime(newest, (1000 + k, 1000 + k))
    assert sum(p.stat().st_size for p in entries()) < 4000 + 1500
    assert 1 <= len(entries()) < 6
    assert min(p.stat().st_mtime for p in entries()) > 1000


def test_cache_that_cannot_be_written_is_not_an_error(tmp_path, mtx, slow, monkeypatch):
    blocked = tmp_path / "file"
    blocked.touch()
    monkeypatch.setenv("SPGRAPH_CACHE", str(blocked))
    assert read(str(mtx)).csr.nnz == 2


def _read_often(path):
    for _ in range(5):
        assert read(path).csr.nnz == 2


def test_several_processes_together(mtx, slow):
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_read_often, args=(str(mtx),)) for _ in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(30)
    assert [process.exitcode for process in processes] == [0] * 4
    assert len(entries()) == 1
