"""docs/learn.md as a student goes through it: every command runs, and prints what the page quotes."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from spgraph_bench.cli.main import run
from spgraph_bench.device import host_compiler
from spgraph_bench.formats.base import formats

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "learn.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)

pytestmark = pytest.mark.skipif(host_compiler.available() is not None, reason=str(host_compiler.available()))


@dataclass(frozen=True)
class Step:
    """A command with what the page quotes of its output, block by block: pieces between empty lines and "...", in this
    order."""

    command: str
    quoted: tuple[tuple[str, ...], ...]


def _plain(text: str, folder: str = "") -> str:
    """Without line breaks, paths and numbers of lines, which change with the width and with every comment."""
    text = text.replace(f"{folder}/", "") if folder else text
    text = re.sub(r"\| +\d+ ", "| ", text)
    return " ".join(re.sub(r"(\.cuh?):\d+", r"\1", text).split())


def _steps() -> list[Step]:
    steps: list[Step] = []
    for language, text in BLOCK.findall(PAGE.partition("## One matrix")[2]):
        if language == "console":
            steps += [Step(line[2:], ()) for line in text.splitlines()]
        elif language == "text" and steps and not text.startswith("0 1\n"):
            pieces = [piece for piece in re.split(r"^(?:\.\.\.)?\n", text, flags=re.MULTILINE) if piece.strip()]
            steps[-1] = Step(steps[-1].command, (*steps[-1].quoted, tuple(pieces)))
    return steps


STEPS = _steps()
PLAIN = [step for step in STEPS if step.command.startswith("spgraph ")]


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The files of the page, in the folder where its commands are run. Its path is short: a message with a long one
    would be broken within a file's name."""
    short = Path(tempfile.mkdtemp())
    blocks = BLOCK.findall(PAGE)
    files = {
        "small.mtx": next(text for _, text in blocks if text.startswith("%%MatrixMarket")),
        "graph.txt": next(text for _, text in blocks if text.startswith("0 1\n")),
        "entry_sum.cu": next(text for language, text in blocks if language == "cuda"),
        "mine.py": next(text for language, text in blocks if language == "python"),
    }
    for name, text in files.items():
        assert f"`{name}`" in PAGE
        (short / name).write_text(text)
    monkeypatch.chdir(short)
    yield short
    shutil.rmtree(short)


def _compare(step: Step, printed: str, folder: Path) -> None:
    for block in step.quoted:
        rest = _plain(printed, str(folder))
        for piece in block:
            before, match, rest = rest.partition(_plain(piece))
            assert match, f"`{step.command}` does not print this (any more):\n{piece}\nbut:\n{before}"


def _slow_profile(step: Step) -> Any:
    """`step`; a profile, which takes seconds, is marked slow."""
    return pytest.param(step, marks=pytest.mark.slow) if step.command.startswith("spgraph profile") else step


@pytest.mark.parametrize("step", [_slow_profile(step) for step in PLAIN], ids=lambda s: s.command[8:60])
def test_commands_print_what_is_quoted(step: Step, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    args = shlex.split(step.command)[1:]
    assert run([*args, *(["--in-process"] if args[0] in ("bench", "bfs") else [])]) == 0
    _compare(step, capsys.readouterr().out, folder)


def test_every_format_is_there() -> None:
    shown = {m for step in STEPS for m in re.findall(r"--format (\S+)", step.command)}
    assert {"coo", "csr", "csr-16", "csc", "ell", "hyb", "jds", "sell", "dia", "bsr"} <= shown
    assert [name for name in formats() if name not in shown and f"`{name}`" not in PAGE] == []


def test_a_wrong_quote_is_found(folder: Path) -> None:
    step = Step("spgraph", (("a  b\n", "x.cu:3: c\n"),))
    _compare(step, "a\nb and x.cu:7: c", folder)
    with pytest.raises(AssertionError, match="does not print this"):
        _compare(step, "a\nc and x.cu:7: c", folder)
    with pytest.raises(AssertionError, match="does not print this"):
        _compare(step, "x.cu:7: c a b", folder)


def _typed(command: str) -> subprocess.CompletedProcess[str]:
    words = shlex.split(command)
    place = words.index("spgraph")
    own = dict(word.split("=", 1) for word in words[:place])
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1", "COLUMNS": "100", **own}
    line = [sys.executable, "-m", "spgraph_bench", *words[place + 1 :]]
    return subprocess.run(line, capture_output=True, text=True, env=environment, timeout=120)


@pytest.mark.slow
def test_the_race_is_found_and_cured(folder: Path) -> None:
    plain, detected = [step for step in STEPS if "entry-sum" in step.command]
    done = _typed(plain.command)
    assert done.returncode == 0, done.stderr
    _compare(plain, done.stdout, folder)
    done = _typed(detected.command)
    assert done.returncode == 1, done.stderr
    _compare(detected, done.stdout, folder)
    line = next(text for language, text in BLOCK.findall(PAGE)[::-1] if language == "cuda").strip()
    source = folder / "entry_sum.cu"
    original = source.read_text()
    source.write_text(re.sub(r"    if \(e < nnz\).*", f"    {line}", original))
    assert source.read_text() != original
    done = _typed(detected.command)
    assert done.returncode == 0, done.stdout
    assert re.search(r"entry-sum  coo     ok +8 ", done.stdout)
