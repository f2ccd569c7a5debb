"""Arrays handed between processes: what a killed run leaves is removed by the next, and nothing else is."""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spgraph_bench.errors import InputError
from spgraph_bench.matrix import CSR
from spgraph_bench.runner import spool
from spgraph_bench.runner.payload import Payload, ReorderedMatrix, load_columns, save_columns
from spgraph_bench.runner.spool import Spool, load, sweep

ROOT = Path(__file__).resolve().parent.parent
OWNER = """
import pathlib, sys, time
import numpy as np
from spgraph_bench.runner import spool
spool._SHM = pathlib.Path(sys.argv[1])
made = spool.Spool(0)
made.save({"x": np.arange(10)})
print(made.path, flush=True)
time.sleep(60)
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that stands for /dev/shm, and is TMPDIR as well."""
    monkeypatch.setattr(spool, "_SHM", tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    return tmp_path


def _python(*before: str, code: str, place: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*before, sys.executable, "-c", code, str(place)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


@pytest.fixture
def owner(place: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A process that has a spool, and where that is."""
    process = _python(code=OWNER, place=place)
    assert process.stdout
    yield process, Path(process.stdout.readline().strip())
    process.kill()
    process.communicate()


def _left(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    process.wait()


def test_a_spool_of_a_killed_process_is_removed(owner: tuple[subprocess.Popen[str], Path]) -> None:
    process, path = owner
    sweep(path.parent)
    assert list(load(path)) == ["x"], "that of a living process was touched"
    _left(process)
    assert (path / "x.npy").exists()
    Spool(0).close()
    assert not list(path.parent.iterdir())


def test_the_lock_decides_where_process_ids_say_nothing(place: Path) -> None:
    """In a pid namespace of its own, as in a container: there it is process 1 or 2, which others are here."""
    apart = ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child")
    if not shutil.which("unshare") or subprocess.run([*apart, "true"], capture_output=True).returncode:
        pytest.skip("no namespaces here")
    process = _python(*apart, code=OWNER, place=place)
    assert process.stdout
    path = Path(process.stdout.readline().strip())
    try:
        sweep(place)
        assert list(load(path)) == ["x"]
    finally:
        _left(process)
        process.communicate()
    # The namespace's process may outlive its starter for a moment.
    with (path / "owner.lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
    sweep(place)
    assert not path.exists()


def test_what_may_belong_to_others_stays(
    owner: tuple[subprocess.Popen[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    process, path = owner
    _left(process)
    place = path.parent
    running = (path / "boot").read_bytes()

    def made(name: str, boot: bytes | None = running, lock: bool = True) -> Path:
        (place / name).mkdir()
        (place / name / "x.npy").touch()
        if lock:
            (place / name / "owner.lock").touch()
        if boot is not None:
            (place / name / "boot").write_bytes(boot)
        return place / name

    other = made("matrices")
    stay = [
        other,
        made("spgraph-without-a-lock", lock=False),
        made("spgraph-being-made", None),
        made("spgraph-of-another-boot", b"0000\n"),
        made("spgraph-with-something-else"),
        made("spgraph-with-a-folder"),
    ]
    (stay[-2] / "thesis.tex").touch()
    (stay[-1] / "more").mkdir()
    (place / "spgraph-link").symlink_to(other)
    (place / "spgraph-file").touch()
    with monkeypatch.context() as patch:
        patch.setattr(os, "geteuid", lambda: os.getuid() + 1)
        sweep(place)
    assert path.exists(), "that of another user was removed"
    sweep(place)
    assert not path.exists()
    assert [p.name for p in stay if not (p / "x.npy").exists()] == []
    assert (place / "spgraph-link").is_symlink()
    assert (place / "spgraph-file").exists()
    sweep(place / "nowhere")


def test_many_together_lose_nothing(place: Path) -> None:
    code = """
import pathlib, sys
import numpy as np
from spgraph_bench.runner import spool
spool._SHM = pathlib.Path(sys.argv[1])
for k in range(150):
    made = spool.Spool(0)
    made.save({"x": np.arange(k)})
    spool.sweep(spool._SHM)
    assert spool.load(made.path)["x"].size == k
    assert (made.path / "owner.lock").exists()
    if k % 3:
        made.close()
"""
    running = [_python(code=code, place=place) for _ in range(4)]
    assert [process.wait(120) for process in running] == [0] * 4
    for process in running:
        process.communicate()
    sweep(place)
    assert not list(place.iterdir())


def test_where_there_are_no_locks_nothing_living_is_swept(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(file: int, how: int) -> None:
        raise OSError(errno.ENOSYS, "no locks")

    monkeypatch.setattr(fcntl, "flock", refuse)
    made = Spool(0)
    made.save({"x": np.arange(3)})
    sweep(place)
    assert list(load(made.path)) == ["x"]
    made.close()
    assert not list(place.iterdir())


def test_shared_memory_that_cannot_be_written_is_done_without(
    place: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_only = tmp_path_factory.mktemp("shm")
    make = tempfile.mkdtemp

    def mkdtemp(**given: Any) -> str:
        if given["dir"] == read_only:
            raise OSError(errno.EROFS, "Read-only file system", str(read_only))
        return make(**given)

    monkeypatch.setattr(spool, "_SHM", read_only)
    monkeypatch.setattr(tempfile, "mkdtemp", mkdtemp)
    made = Spool(0)
    assert made.path.parent == place
    made.close()


def test_no_room_for_the_folder_or_its_lock_is_shown(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    for where in ("tempfile.mkdtemp", "pathlib.Path.write_bytes"):
        with monkeypatch.context() as patch:
            patch.setattr(where, full)
            patch.setattr("tempfile.tempdir", str(place))  # found already
            with pytest.raises(InputError, match="No space left on device"):
                Spool(0)
        assert not list(place.iterdir())


def test_an_array_that_is_cut_short_is_shown(place: Path) -> None:
    """By a limit on files here; a full disk looks the same to numpy, whose error has neither number nor text of it."""
    arrays = {"short": np.ones(10), "long": np.ones(1 << 18), "longer": np.ones(1 << 19)}
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, limits[1]))
    try:
        with pytest.raises(InputError, match=r"there is no room \(\d+ requested and \d+ written\)") as caught:
            spool.save(place, arrays)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert caught.value.place == str(place)


def _csr(symmetric: bool | None, *, values: bool) -> CSR:
    weights = np.array([1.5, 2.5]) if values else None
    return CSR(2, 3, np.array([0, 1, 2]), np.array([2, 0], np.int32), weights, symmetric)


@pytest.mark.parametrize("symmetric", [None, False, True])
def test_a_payload_comes_out_of_a_spool_as_it_went_in(place: Path, symmetric: bool | None) -> None:
    order = ReorderedMatrix(_csr(symmetric, values=True), np.array([1, 0], np.int32), np.array([2, 1, 0], np.int32))
    sent = Payload(
        _csr(symmetric, values=False),
        labels={"names.text": np.arange(3, dtype=np.uint8), "names.end": np.array([1, 3])},
        orders={"rcm": order},
        inputs={"float32": {"x": np.ones(3, np.float32), "a.b": np.zeros(0)}, "int32": {}},
        oracles={"float32": {"r": np.arange(2.0)}},
    )
    made = Spool(sent.nbytes)
    made.save(sent.named_arrays())
    save_columns(made.path, {"rank": np.arange(4)})
    loaded = Payload.load(made.path)
    assert (loaded.csr.shape, loaded.csr.symmetric, loaded.csr.values) == ((2, 3), symmetric, None)
    assert loaded.matrix("none") is loaded.csr
    assert loaded.matrix("rcm").symmetric is symmetric
    assert set(loaded.inputs) == {"float32"}  # a type without inputs leaves nothing
    for name, array in sent.named_arrays().items():
        np.testing.assert_array_equal(loaded.named_arrays()[name], array)
        assert loaded.named_arrays()[name].dtype == array.dtype
    assert set(loaded.named_arrays()) == set(sent.named_arrays())
    np.testing.assert_array_equal(load_columns(made.path, ["rank"])["rank"], np.arange(4))
    made.close()
