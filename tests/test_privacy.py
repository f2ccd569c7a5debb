"""Records and messages do not tell which GPU, whose home, which user or which host it was."""

from __future__ import annotations

import json
import runpy
import subprocess
from pathlib import Path

import pytest

from spgraph_bench import privacy
from spgraph_bench.cli.main import run
from spgraph_bench.privacy import pseudonym, without_home, without_names

ROOT = Path(__file__).resolve().parent.parent
UUID = "GPU-01234567-89ab-cdef-0123-456789abcdef"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home" / "alice"
    home.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("SPGRAPH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(privacy, "_names", lambda: ("alice", "node-17"))
    privacy._salt.cache_clear()
    return home


def test_a_gpu_has_one_name_within_a_machines_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    first = pseudonym("gpu", UUID)
    assert first.startswith("gpu-")
    assert "0123" not in first[4:8] or UUID[4:] not in first
    privacy._salt.cache_clear()  # as another process has it
    assert pseudonym("gpu", UUID) == first
    assert pseudonym("gpu", UUID[:-1] + "0") != first
    assert pseudonym("gpu", "") == ""
    (salt,) = (tmp_path / "cache" / "machine").iterdir()
    assert salt.stat().st_mode & 0o777 == 0o600
    monkeypatch.setenv("SPGRAPH_CACHE", str(tmp_path / "other"))
    privacy._salt.cache_clear()
    assert pseudonym("gpu", UUID) != first, "the UUID alone must not give the pseudonym"
    (tmp_path / "file").touch()
    monkeypatch.setenv("SPGRAPH_CACHE", str(tmp_path / "file"))
    privacy._salt.cache_clear()
    assert pseudonym("gpu", UUID) == pseudonym("gpu", UUID)


def test_names_are_taken_out_and_nothing_else(home: Path) -> None:
    assert without_home(f"{home}/a.mtx:3: wrong") == "~/a.mtx:3: wrong"
    assert without_home(f"{home}ia/a.mtx, x{home}") == f"{home}ia/a.mtx, x{home}"
    assert without_names("/scratch/alice/a.mtx and /scratch/alice") == "/scratch/user/a.mtx and /scratch/user"
    assert without_names("alice.mtx /data/alices/x") == "alice.mtx /data/alices/x"
    assert without_names("on node-17.example.org: no-node-17") == "on host.example.org: no-node-17"


@pytest.mark.parametrize("host", ["cuda", "spmv", "float32x"])
def test_hosts_that_are_called_like_something_else(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(privacy, "_names", lambda: ("", host if host != "float32x" else "matrix"))
    text = '"kind":"cuda","problem":"spmv","matrix":1'
    assert without_names(text) == text


def test_records_and_messages_hold_no_names(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = home / "a.mtx"
    file.write_text("%%MatrixMarket matrix coordinate real general\n2 2 1\n1 1 5\n")
    bench = ["bench", "spmv", str(file), "--device", "host", "--variant", "csr-scalar", "--json"]
    assert run([*bench, "--results", str(home / "results")]) == 0
    out, err = capsys.readouterr()
    (path,) = (home / "results").glob("*.jsonl")
    for text in (out, err, path.read_text()):
        assert str(home) not in text
        assert "alice" not in text
    assert json.loads(out)["matrix"]["source"]["text"] == "~/a.mtx"
    file.write_text("%%MatrixMarket matrix coordinate real general\n2 2 1\n1 1 x\n")
    assert run(["info", str(file)]) == 2
    assert capsys.readouterr().err.startswith("error: ~/a.mtx:3: ")


def test_no_record_that_we_ship_names_a_gpu() -> None:
    for file in (ROOT / "results").rglob("*.jsonl"):
        assert not runpy.run_path(str(ROOT / "scripts/clean_records.py"))["_UUID"].search(file.read_text())


def test_records_of_before_are_cleaned(tmp_path: Path, home: Path) -> None:
    import sys

    files = [tmp_path / f"{k}.jsonl" for k in range(2)]
    for k, file in enumerate(files):
        file.write_text(f'{{"uuid":"{UUID}","x":"{UUID[:-1]}{k}","text":"{home}/m.mtx"}}\n')
    script = str(ROOT / "scripts/clean_records.py")
    subprocess.run([sys.executable, script, *map(str, files)], check=True, capture_output=True)
    first, second = (json.loads(file.read_text()) for file in files)
    assert first["uuid"] == second["uuid"] != UUID
    assert first["uuid"].startswith("gpu-")
    assert first["x"] != second["x"]
    assert first["text"] == "~/m.mtx"
