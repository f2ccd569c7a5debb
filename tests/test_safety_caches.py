"""Caches are this user's: what others own or may change is refused, what is damaged counts as absent."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spgraph_bench.cli.main import run
from spgraph_bench.device.base import DeviceInfo
from spgraph_bench.errors import CacheError
from spgraph_bench.paths import cache_dir, cache_lock
from spgraph_bench.readers import ReadOptions, cache, read
from spgraph_bench.runner.tuned import load_tuned, save_tuned, tuned_path
from spgraph_bench.toolchain import compilers, modules
from spgraph_bench.toolchain.modules import Request

ROOT = Path(__file__).resolve().parent.parent
BENCH = ["bench", "spmv", "grid:n=4", "--device", "host", "--variant", "csr-scalar", "--no-save"]


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPGRAPH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(compilers, "_identities", {})
    return tmp_path / "cache"


def _make(target: Path) -> str:
    target.write_text("machine code")
    target.chmod(0o777)
    return ""


def test_folders_and_files_are_the_users_alone(root: Path) -> None:
    before = os.umask(0)
    try:
        built = modules.build(Request(("a",), _make, ".so"))
        save_tuned("bfs", "0" * 64, DeviceInfo("host", "CPU", "", 1, 2, 3), "auto", {"alpha": 1.0})
    finally:
        os.umask(before)
    for path in [root, *root.rglob("*")]:
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path
    assert built.read_text() == "machine code"


@pytest.mark.parametrize("below", [".", "modules", "modules/XX"])
def test_a_folder_that_others_can_write_to_is_refused(
    root: Path, below: str, capsys: pytest.CaptureFixture[str]
) -> None:
    built = modules.build(Request(("a",), _make, ".so"))
    folder = root / below.replace("XX", built.parent.name)
    folder.chmod(0o777)
    with pytest.raises(CacheError, match="other users may write to the cache folder") as caught:
        modules.build(Request(("a",), _make, ".so"))
    assert caught.value.place == str(folder)
    assert f"chmod go-w {folder}" in str(caught.value)
    if below != "modules/XX":
        assert run(BENCH) == 2
        assert "chmod go-w" in capsys.readouterr().err


def test_a_folder_for_data_is_called_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (open_to_all := tmp_path / "data").mkdir(0o777)
    open_to_all.chmod(0o777)
    monkeypatch.setenv("SPGRAPH_DATA", str(open_to_all))
    assert run(["compare", "--baseline", "main", "records.jsonl"]) == 2
    printed = capsys.readouterr().err
    assert "other users may write to the folder for data" in printed
    assert "set SPGRAPH_DATA" in printed


def test_a_cache_that_is_not_there_is_an_error_where_files_are_fetched_to(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("/proc/none", "/dev/null/none"):
        monkeypatch.setenv("SPGRAPH_CACHE", folder)
        for command in (["fetch", "HB/1138_bus"], ["info", "HB/1138_bus"]):
            assert run(command) == 2
            printed = capsys.readouterr().err
            assert "no cache for what is fetched: " in printed
            assert "\n  remedy: set SPGRAPH_CACHE" in printed


def test_what_another_user_owns_is_refused(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    request = Request(("a",), _make, ".so")
    modules.build(request)
    with monkeypatch.context() as patch:
        patch.setattr(os, "geteuid", lambda: os.getuid() + 1)
        for take in (modules.cached, modules.build):
            with pytest.raises(CacheError, match="belongs to another user"):
                take(request)
        with pytest.raises(CacheError, match="set SPGRAPH_CACHE to a folder of your own"):
            cache_dir("matrices")


def test_an_entry_that_others_can_write_to_is_refused() -> None:
    request = Request(("a",), _make, ".so")
    built = modules.build(request)
    for path in (built, built.with_suffix(".json")):
        path.chmod(0o666)
        with pytest.raises(CacheError, match="other users may write to the cache entry"):
            modules.cached(request)
        path.chmod(0o600)
    target = built.rename(built.with_suffix(".moved"))
    built.symlink_to(target)  # a link is not an entry
    assert modules.cached(request) is None


def test_tuned_parameters_of_others_or_without_end_are_not_taken() -> None:
    info = DeviceInfo("host", "CPU", "", 1, 2, 3)
    path = save_tuned("bfs", "0" * 64, info, "auto", {"alpha": 1.0})
    assert path == tuned_path("bfs", "0" * 64, info)
    path.chmod(0o622)
    with pytest.raises(CacheError):
        load_tuned("bfs", "0" * 64, info)
    path.chmod(0o600)
    path.write_text("[" * 200_000)
    assert load_tuned("bfs", "0" * 64, info) == {}


def test_what_killed_processes_left_is_removed_by_the_next(root: Path, tmp_path: Path) -> None:
    held = modules.build(Request(("held",), _make, ".so")).parent
    free = next(root / "modules" / f"{k:02x}" for k in range(256) if f"{k:02x}" != held.name)
    for folder in (held, free):
        folder.mkdir(exist_ok=True, mode=0o700)
        (folder / "building-abc").mkdir()
        (folder / "building-abc" / "half.so").touch()
        (folder / "old.lock").touch()
    unfinished = cache_dir("matrices") / ".new-abc.tmp"
    unfinished.touch()
    modules._swept.clear()
    with cache_lock(f"modules-{held.name}"):
        modules.sweep()
    assert not list(free.glob("building-*"))
    assert not list(free.glob("*.lock"))
    assert (held / "building-abc" / "half.so").exists(), "a process that compiles lost its folder"
    modules._swept.clear()
    modules.sweep()
    assert [p.suffix for p in sorted(held.iterdir())] == [".json", ".so"]
    with cache_lock("matrices"):
        cache.worth_looking(1 << 20)
    assert unfinished.exists(), "a process that writes lost its file"
    cache.worth_looking(1 << 20)
    assert not unfinished.exists()


def test_a_relative_cache_works(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "spgraph_bench", *BENCH],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "SPGRAPH_CACHE": "here/cache", "PYTHONPATH": str(ROOT)},
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert list((tmp_path / "here/cache/modules").glob("*/*.so"))


# ---- parsed matrices -------------------------------------------------------------------------------------


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """A file, and its entry in the cache."""
    monkeypatch.setattr(cache, "WORTH_SECONDS", -1.0)
    monkeypatch.setattr(cache, "_SMALL", 0)
    file = tmp_path / "a.mtx"
    file.write_text("%%MatrixMarket matrix coordinate real general\n3 3 2\n1 1 5\n3 2 7\n")
    read(str(file))
    (entry,) = cache_dir("matrices").glob("*.npz")
    return file, entry


def _values(file: Path) -> list[float]:
    values = read(str(file)).csr.values
    assert values is not None
    return [float(x) for x in values]


def test_every_byte_of_an_entry_may_be_damaged(stored: tuple[Path, Path]) -> None:
    file, entry = stored
    whole = entry.read_bytes()
    key, draw = entry.stem, np.random.default_rng(1)
    result = 0
    matrix = read(str(file))
    for position in range(0, len(whole), 3):
        entry.write_bytes(
            whole[:position] + bytes([whole[position] ^ (1 << int(draw.integers(8)))]) + whole[position + 1 :]
        )
        loaded = cache.load(key, "a", matrix.source)
        result += loaded is not None
        assert loaded is None or loaded.csr.equals(matrix.csr)
    assert result < len(whole) // 3  # what is not looked at may be damaged: dates, attributes
    for size in range(0, len(whole), 40):
        entry.write_bytes(whole[:size])
        assert cache.load(key, "a", matrix.source) is None
    assert _values(file) == [5.0, 7.0]


def test_an_entry_whose_matrix_is_not_the_one_kept_is_not_taken(stored: tuple[Path, Path]) -> None:
    file, entry = stored
    with np.load(entry) as parts:
        arrays: dict[str, Any] = dict(parts)
    arrays["values"] = np.array([5.0, 8.0])
    np.savez(entry, **arrays)
    assert _values(file) == [5.0, 7.0]
    arrays["about"] = np.frombuffer(json.dumps({"rows": 3}).encode(), np.uint8)
    np.savez(entry, **arrays)
    assert _values(file) == [5.0, 7.0]


def test_an_entry_of_others_is_refused(stored: tuple[Path, Path]) -> None:
    file, entry = stored
    assert entry.stat().st_mode & 0o777 == 0o600
    entry.chmod(0o620)
    with pytest.raises(CacheError, match="cache entry"):
        read(str(file), ReadOptions())
