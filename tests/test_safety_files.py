"""Files that change while they are read, and inputs that once ended the process or were internal errors."""

from __future__ import annotations

import io
import mmap
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest

from spgraph_bench.errors import InputError
from spgraph_bench.readers import ReadOptions, compiled, opening, read

ROOT = Path(__file__).resolve().parent.parent


def test_a_mapped_file_may_be_cut_while_it_is_read(tmp_path: Path) -> None:
    """In a process of its own: without the guard it ends by SIGBUS."""
    if compiled.library() is None:
        pytest.skip("no C++ compiler")
    file = tmp_path / "a.el"
    code = f"""
import mmap, os
from spgraph_bench.readers import compiled
path = {str(file)!r}
open(path, "wb").write(b"1 2\\n" * 100_000)
with open(path, "rb") as f:
    mapped, other = (mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) for _ in range(2))
assert compiled.guard(mapped) and not compiled.was_cut(mapped)
os.truncate(path, 5000)
assert compiled.was_cut(mapped)
assert mapped[:4] == b"1 2\\n" and mapped[-4:] == bytes(4) and mapped.find(b"x") == -1
assert mapped[8192:8196] == bytes(4)
os.truncate(path, 400_000)
assert compiled.was_cut(mapped)
del mapped
print("well", flush=True)
os.truncate(path, 5000)
other[-1]  # not guarded
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.stdout == "well\n", done.stderr
    assert done.returncode == -7, "the guard swallows what is not its own"


def test_a_file_that_was_cut_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if compiled.library() is None:
        pytest.skip("no C++ compiler")
    file = tmp_path / "a.el"
    file.write_bytes(b"1 2\n" * 10_000)
    monkeypatch.setattr(compiled, "WORTH_BYTES", 1)
    load = opening._load

    def cut(path: str, progress: object) -> object:
        data = load(path, progress)  # type: ignore[arg-type]
        assert isinstance(data, mmap.mmap)
        os.truncate(path, 1000)
        return data

    with monkeypatch.context() as patch:
        patch.setattr(opening, "_load", cut)
        with pytest.raises(InputError, match=r"a\.el: the file was cut while it was read"):
            read(str(file))
    monkeypatch.setattr(compiled, "library", lambda: None)  # not mapped where it cannot be guarded
    assert read(str(file)).csr.nnz == 1


def _saved(tmp_path: Path, name: str, content: bytes) -> str:
    (tmp_path / name).write_bytes(content)
    return str(tmp_path / name)


def test_headers_of_headers_without_end(tmp_path: Path) -> None:
    block = io.BytesIO()
    with tarfile.open(fileobj=block, mode="w", format=tarfile.PAX_FORMAT) as tar:
        about = tarfile.TarInfo("x")
        about.pax_headers = {"comment": "y"}
        tar.addfile(about)
    header = block.getvalue()[:1024]
    path = _saved(tmp_path, "a.tar", header * 3000)
    with pytest.raises(InputError, match="headers are nested too deeply"):
        read(path)
    members = io.BytesIO()
    with tarfile.open(fileobj=members, mode="w") as tar:
        for k in range(10_050):
            tar.addfile(tarfile.TarInfo(f"m{k}"))
    with pytest.raises(InputError, match="more than 10,000 members"):
        read(_saved(tmp_path, "b.tar", members.getvalue()))


@pytest.mark.parametrize("digits", [400, 5000])
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.rb", "t\n2 1 1 0 0\nrua 3 3 4 0\n({n}I3) (10I3) (3F8.1)\n1 2 3 5\n"),
        ("a.rb", "t\n2 1 1 0 0\nrua 3 3 4 0\n(4I{n}) (10I3) (3F8.1)\n1 2 3 5\n"),
        ("a.rb", "t\n2 1 1 0 0\nrua {n} {n} {n} 0\n(4I3) (10I3) (3F8.1)\n1 2 3 5\n"),
        ("a.mtx", "%%MatrixMarket matrix coordinate real general\n{n} {n} 1\n1 1 1\n"),
        ("a.mtx", "%%MatrixMarket matrix coordinate real general\n3 3 1\n{n} 1 1\n"),
        ("a.mtx", "%%MatrixMarket matrix coordinate integer general\n3 3 1\n1 1 {n}\n"),
        ("a.txt", "% sym\n% {n} {n}\n1 2\n{n} 1\n"),
        ("a.gr", "p sp {n} {n}\na 1 2 3\n"),
        ("a.graph", "{n} 1\n2\n1\n"),
        ("a.el", "{n} 1\n2 1\n"),
    ],
)
def test_numbers_of_any_length_are_not_an_internal_error(name: str, text: str, digits: int, tmp_path: Path) -> None:
    path = _saved(tmp_path, name, text.replace("{n}", "9" * digits).encode())
    with pytest.raises(InputError) as caught:
        read(path)
    assert not caught.value.cause.startswith(opening.UNEXPECTED)


def test_arrays_that_claim_more_than_there_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def npz(**shapes: tuple[int, ...]) -> bytes:
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
            for member, shape in shapes.items():
                with archive.open(f"{member}.npy", "w") as file:
                    header = {"descr": "<f8", "fortran_order": False, "shape": shape}
                    np.lib.format.write_array_header_1_0(file, header)
                    file.write(bytes(8 * min(10_000, int(np.prod(shape)))))
        return out.getvalue()

    with pytest.raises(InputError, match=r"data\.npy claims 80,000,000,000 bytes, and has"):
        read(_saved(tmp_path, "a.npz", npz(data=(10_000_000_000,), format=(1,))))
    monkeypatch.setattr("spgraph_bench.memory.available_memory", lambda: 100_000)
    with pytest.raises(InputError, match=r"the arrays in it \(80,000 bytes\) needs 560 kB of memory"):
        read(_saved(tmp_path, "b.npz", npz(data=(100, 100))))


def test_a_shape_alone_may_be_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import scipy.sparse as sp

    monkeypatch.setattr("spgraph_bench.memory.available_memory", lambda: 1 << 30)
    for k, matrix in enumerate(
        (
            sp.dia_array((np.ones((1, 5)), [0]), shape=(2**31 - 1, 2**31 - 1)),
            sp.coo_array((np.ones(1), ([0], [0])), shape=(2**31 - 1, 3)),
        )
    ):
        sp.save_npz(tmp_path / f"{k}.npz", matrix)
        with pytest.raises(InputError, match=r"a matrix of 2,147,483,647 x .* needs .* GB of memory"):
            read(str(tmp_path / f"{k}.npz"))
    with pytest.raises(InputError, match=r"a graph of 25,000,001 vertices needs 1\.4 GB of memory, 1\.07 GB"):
        read(_saved(tmp_path, "far.txt", b"0 1\n1 25000000\n"))


def test_what_decompresses_to_too_much_is_refused_early(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import gzip

    path = _saved(tmp_path, "a.mtx.gz", gzip.compress(bytes(1 << 22), 1) * 40)  # 160 MiB
    monkeypatch.setattr(opening, "available_memory", lambda: 1 << 24)
    monkeypatch.setattr(opening, "_TELLING", 1 << 23)
    with pytest.raises(InputError, match=r"the content \(about \d+\.?\d* MB\) is larger than the 16\.8 MB of"):
        read(path)


def test_a_reader_that_fails_in_its_own_way_is_not_an_internal_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dataclasses import replace

    path = _saved(tmp_path, "a.el", b"0 1\n")

    def fail(*_: object) -> None:
        raise IndexError("x")

    from spgraph_bench.readers import common

    monkeypatch.setitem(common._READERS._entries, "gap-el", replace(common._READERS.get("gap-el"), parse=fail))
    with pytest.raises(InputError, match=r"it cannot be read as GAP edge list \(IndexError: x\)"):
        read(path, ReadOptions(input_format="gap-el"))
