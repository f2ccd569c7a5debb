"""The cache of compiled modules: keys, concurrency, damage; and reading what compilers say."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from spgraph_bench.errors import CompileError
from spgraph_bench.paths import cache_dir
from spgraph_bench.toolchain import compilers, modules, sources
from spgraph_bench.toolchain.modules import Request


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPGRAPH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


class Maker:
    def __init__(self, text: str = "machine code") -> None:
        self.text = text
        self.calls = 0

    def __call__(self, target: Path) -> str:
        self.calls += 1
        target.write_text(self.text)
        return f"log {self.calls}"


def test_second_build_comes_from_the_cache() -> None:
    make = Maker()
    first = modules.build(Request(("a",), make, ".so"))
    again = modules.build(Request(("a",), make, ".so"))
    assert first == again
    assert make.calls == 1
    assert json.loads(first.with_suffix(".json").read_text())["log"] == "log 1"
    assert sorted(p.suffix for p in first.parent.iterdir()) == [".json", ".so"]


def test_every_part_and_its_border_count() -> None:
    keys = {Request(parts, Maker(), s).key for parts in (("ab", "c"), ("a", "bc"), ("abc",)) for s in (".so", ".o")}
    assert len(keys) == 6


@pytest.mark.parametrize("damage", ["", "machine cod", "machine codf"])
def test_a_damaged_entry_is_rebuilt(damage: str) -> None:
    make = Maker()
    request = Request(("a",), make, ".so")
    modules.build(request).write_text(damage)
    assert modules.build(request).read_text() == "machine code"
    assert make.calls == 2


def test_a_lost_or_broken_note_means_rebuilding() -> None:
    make = Maker()
    request = Request(("a",), make, ".so")
    note = modules.build(request).with_suffix(".json")
    note.write_text("{")
    modules.build(request)
    note.unlink()
    modules.build(request)
    assert make.calls == 3


def test_a_failure_leaves_nothing_and_is_tried_again(cache: Path) -> None:
    def fail(target: Path) -> str:
        target.write_text("half")
        raise CompileError("bad")

    request = Request(("a",), fail, ".so")
    for _ in range(2):
        with pytest.raises(CompileError, match="bad"):
            modules.build(request)
    assert [p for p in (cache / "modules").rglob("*") if p.is_file()] == []


def test_two_processes_compile_once(tmp_path: Path) -> None:
    script = tmp_path / "one.py"
    script.write_text(
        "import sys, time\nfrom pathlib import Path\nfrom spgraph_bench.toolchain import modules\n"
        "def make(target):\n"
        "    with open(sys.argv[1], 'a') as f: f.write('made\\n')\n"
        "    target.write_text('x' * 1000); time.sleep(0.3)\n"
        "for i in range(3):\n"
        "    p = modules.build(modules.Request((str(i),), make, '.so'))\n"
        "    assert p.read_text() == 'x' * 1000\n"
    )
    made = tmp_path / "made"
    env = {**os.environ, "PYTHONPATH": str(Path(modules.__file__).parents[2])}
    runs = [subprocess.Popen([sys.executable, str(script), str(made)], env=env) for _ in range(4)]
    assert [run.wait(60) for run in runs] == [0] * 4
    assert made.read_text() == "made\n" * 3


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_cache_that_cannot_be_written_is_named(cache: Path) -> None:
    cache.mkdir()
    cache.chmod(0o500)
    with pytest.raises(CompileError, match="SPGRAPH_CACHE"):
        modules.build(Request(("a",), Maker(), ".so"))


def test_a_cache_below_a_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SPGRAPH_CACHE", str(tmp_path / "file"))
    with pytest.raises(CompileError, match="SPGRAPH_CACHE"):
        modules.build(Request(("a",), Maker(), ".so"))


def test_without_a_home_there_is_no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """HOME unset and a user the system has no entry of: containers with a number for a user."""

    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("SPGRAPH_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", no_home)
    with pytest.raises(OSError, match="set SPGRAPH_CACHE"):
        cache_dir("matrices")
    with pytest.raises(CompileError, match="SPGRAPH_CACHE"):
        modules.build(Request(("a",), Maker(), ".so"))


def test_a_compiler_is_known_without_a_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("SPGRAPH_CACHE", str(tmp_path / "file"))
    monkeypatch.setattr(compilers, "_identities", {})
    assert "Python 3" in compilers.compiler_identity(sys.executable)


def test_build_all_runs_in_parallel_and_returns_failures() -> None:
    def slow(target: Path) -> None:
        time.sleep(0.2)
        target.write_text("x")

    def fail(target: Path) -> None:
        raise CompileError("no such thing", place="a.cu:3")

    seen: list[tuple[int, int, str]] = []
    wanted = [Request((str(i),), slow, ".so", f"k{i}") for i in range(5)]
    wanted += [Request(("bad",), fail, ".so", "bad"), wanted[0]]
    begin = time.perf_counter()
    results = modules.build_all(wanted, jobs=6, progress=lambda *now: seen.append(now))
    assert time.perf_counter() - begin < 0.8
    assert results[0] == results[6]
    assert isinstance(results[5], CompileError)
    assert all(isinstance(r, Path) for r in results[:5])
    assert [s[:2] for s in seen] == [(i, 6) for i in range(1, 7)]
    assert {s[2] for s in seen} == {"bad", "k0", "k1", "k2", "k3", "k4"}
    seen.clear()
    modules.build_all(wanted[:5], progress=lambda *now: seen.append(now))
    assert seen == []


# ---- sources ---------------------------------------------------------------------------------------------


def test_digest_follows_headers_of_headers(tmp_path: Path) -> None:
    (tmp_path / "k").mkdir()
    (tmp_path / "inc").mkdir()
    kernel, near, far = tmp_path / "k/a.cu", tmp_path / "k/near.cuh", tmp_path / "inc/far.cuh"
    kernel.write_text('#include "near.cuh"\n  #  include "missing.h"\n#include <cstdio>\n')
    near.write_text('#pragma once\n#include "far.cuh"\n#include "a.cu"\n')
    far.write_text("int x;\n")
    assert sources.source_files(kernel, [tmp_path / "inc"]) == [kernel, near, far]
    before = sources.source_digest(kernel, [tmp_path / "inc"])
    far.write_text("int y;\n")
    after = sources.source_digest(kernel, [tmp_path / "inc"])
    assert before != after
    (tmp_path / "missing.h").write_text("")
    assert sources.source_digest(kernel, [tmp_path / "inc", tmp_path]) != after


def test_a_missing_source_is_a_compile_error() -> None:
    with pytest.raises(CompileError, match="No such file") as caught:
        sources.source_digest(Path("/nowhere/x.cu"))
    assert caught.value.place == "/nowhere/x.cu"


# ---- compilers -------------------------------------------------------------------------------------------


def test_identity_is_remembered_until_the_compiler_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = tmp_path / "cc"
    compiler.write_text(f"#!/bin/sh\necho asked >> {tmp_path}/asked\necho compiler 1.0\n")
    compiler.chmod(0o755)
    first = compilers.compiler_identity(str(compiler))
    monkeypatch.setattr(compilers, "_identities", {})
    assert compilers.compiler_identity(str(compiler)) == first
    assert "compiler 1.0" in first
    assert (tmp_path / "asked").read_text() == "asked\n"
    compiler.write_text("#!/bin/sh\necho compiler 2.0.0\n")
    monkeypatch.setattr(compilers, "_identities", {})
    assert "compiler 2.0.0" in compilers.compiler_identity(str(compiler))


def test_no_compiler() -> None:
    with pytest.raises(CompileError, match="no compiler"):
        compilers.compiler_identity("/nowhere/g++")


def test_a_compiler_that_writes_nothing() -> None:
    with pytest.raises(CompileError, match="wrote nothing") as error:
        modules.build(modules.Request(("idle",), lambda target: "", ".so", "x.cu"))
    assert "CXX" in (error.value.remedy or "")


@pytest.mark.parametrize(
    ("script", "why"), [("#!/bin/sh\nexit 7\n", "exit status 7$"), ("#!/nowhere\n", "No such file")]
)
def test_a_compiler_that_does_not_answer(tmp_path: Path, script: str, why: str) -> None:
    compiler = tmp_path / "cc"
    compiler.write_text(script)
    compiler.chmod(0o755)
    with pytest.raises(CompileError) as error:
        compilers.compiler_identity(str(compiler))
    assert re.search(f"cc --version does not answer: .*{why}", error.value.cause)
    assert "CXX" in (error.value.remedy or "")


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        (
            "a/b.cu: In function 'f':\na/b.cu:12:5: error: 'x' was not declared\n",
            ("a/b.cu", 12, "'x' was not declared"),
        ),
        ("x.hpp:3: error: no column\n", ("x.hpp", 3, "no column")),
        ("b.cu:1:10: fatal error: q.h: No such file or directory\n", ("b.cu", 1, "q.h: No such file or directory")),
        ('/t/b.cu(7): error: identifier "x" is undefined\n', ("/t/b.cu", 7, 'identifier "x" is undefined')),
        ("b.cu(7): error #20014-D: calling a host function\n", ("b.cu", 7, "calling a host function")),
        ("b.cu(4): catastrophic error: cannot open q.h\n", ("b.cu", 4, "cannot open q.h")),
        ("b.cu(3): warning #177-D: unused\nb.cu(9): error: first\nb.cu(2): error: second\n", ("b.cu", 9, "first")),
        ("ptxas fatal   : Unresolved extern function 'f'\n", (None, None, "Unresolved extern function 'f'")),
        ("ptxas error   : Entry uses too much shared data\n", (None, None, "Entry uses too much shared data")),
        ("nvcc fatal   : Unsupported architecture\n", (None, None, "Unsupported architecture")),
        ("/usr/bin/ld: a.o:\na.cu:3: undefined reference to `g'\n", (None, None, "undefined reference to `g'")),
        ("g++: fatal error: no input files\n", (None, None, "no input files")),
        ("a.cu:3:1: warning: error: is only a word here\n", None),
        ("", None),
    ],
)
def test_first_error(log: str, expected: tuple[str | None, int | None, str] | None) -> None:
    result = compilers.first_error(log)
    assert (result and (result.file, result.line, result.text)) == expected


def test_run_compiler_names_a_full_disk(tmp_path: Path) -> None:
    """What the linker says, and what g++ says of the linker."""
    script = tmp_path / "g++"
    script.write_text(
        "#!/bin/sh\necho '/usr/bin/ld: final link failed: No space left on device' >&2\n"
        "echo 'collect2: error: ld returned 1 exit status' >&2\nexit 1\n"
    )
    script.chmod(0o755)
    with pytest.raises(CompileError, match="No space left on device") as caught:
        compilers.run_compiler([str(script)], "a.cpp")
    assert "SPGRAPH_CACHE" in str(caught.value)


def alive(process: str) -> bool:
    """Whether it runs: it is neither gone nor a zombie that waits for its new parent."""
    try:
        return Path(f"/proc/{process}/stat").read_text().split()[2] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_compiler_that_hangs_is_ended_with_what_it_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compilers, "COMPILE_SECONDS", 0.5)
    script = tmp_path / "g++"
    script.write_text(f"#!/bin/sh\nsleep 60 &\necho $! > {tmp_path}/started\nwait\n")
    script.chmod(0o755)
    begin = time.monotonic()
    with pytest.raises(CompileError, match=r"a\.cpp: g\+\+ was ended after 0\.5 s"):
        compilers.run_compiler([str(script)], "a.cpp")
    assert time.monotonic() - begin < 20
    started = (tmp_path / "started").read_text().strip()
    until = time.monotonic() + 20  # a process that was killed may still be on its way out
    while alive(started) and time.monotonic() < until:
        time.sleep(0.02)
    assert not alive(started)


def test_run_compiler_names_the_place(tmp_path: Path) -> None:
    from spgraph_bench.paths import cuda_dir

    log = f"{cuda_dir()}/spmv/x.cu:8:2: error: nonsense"
    with pytest.raises(CompileError) as caught:
        compilers.run_compiler([sys.executable, "-c", f"import sys; sys.exit({log!r})"], "spmv/x.cu")
    assert caught.value.place == "spmv/x.cu:8"
    assert caught.value.cause.endswith(": nonsense")
    with pytest.raises(CompileError, match="killed by signal 9") as caught:
        compilers.run_compiler(["/bin/sh", "-c", "kill -9 $$"], "spmv/x.cu")
    assert caught.value.place == "spmv/x.cu"
    with pytest.raises(CompileError, match="cannot run"):
        compilers.run_compiler(["/nowhere/g++"], "spmv/x.cu")
    assert compilers.run_compiler(["/bin/echo", "fine"], "x.cu") == "fine"
