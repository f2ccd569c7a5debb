"""docs/architecture.md walks a matrix from reader to table: the functions that it names are called, in that order."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

from spgraph_bench.cli.main import run

ARCHITECTURE = Path(__file__).resolve().parent.parent / "docs" / "architecture.md"
MATRIX = "%%MatrixMarket matrix coordinate real general\n3 3 4\n1 1 2\n2 3 1\n3 1 1\n3 3 5\n"


def _walk(text: str) -> list[str]:
    """The names in the first column of the section's table."""
    section = text.partition("\n## A walk\n")[2].partition("\n## ")[0]
    return re.findall(r"^\| `([\w.]+)` \|", section, re.MULTILINE)


def _function(name: str) -> Callable[..., Any]:
    """What ``a.b.C.d`` is in the package. AttributeError where there is no such thing."""
    parts = name.split(".")
    module = importlib.import_module("spgraph_bench")
    while parts:
        try:
            module = importlib.import_module(f"{module.__name__}.{parts[0]}")
        except ModuleNotFoundError:
            break
        del parts[0]
    result: Any = module
    for part in parts:
        result = getattr(result, part)
    assert callable(result), name
    return inspect.unwrap(result)


def _first_calls(command: list[str]) -> tuple[int, list[CodeType]]:
    """The exit status, and every Python function that was called, in the order of first calls; what is called to
    find out what will be compiled is not of the walk."""
    called: dict[CodeType, None] = {}
    aside = _function("runner.rehearsal.rehearsed").__code__
    rehearsing = False

    def note(frame: FrameType, event: str, _: Any) -> None:
        nonlocal rehearsing
        if event == "call" and not rehearsing:
            called.setdefault(frame.f_code)
        if frame.f_code is aside and event in ("call", "return"):
            rehearsing = event == "call"

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        status = run(command)
    finally:
        sys.setprofile(before)
    return status, list(called)


def _faults(names: list[str], called: list[CodeType]) -> list[str]:
    """Names whose function was not called, or before that of the name above."""
    place = {code: number for number, code in enumerate(called)}
    faults, last = [], -1
    for name in names:
        number = place.get(_function(name).__code__)
        if number is None:
            faults.append(f"{name} is not called")
        elif number < last:
            faults.append(f"{name} is called before the one above it")
        else:
            last = number
    return faults


def test_the_walk_is_the_one_that_a_matrix_takes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = _walk(ARCHITECTURE.read_text(encoding="utf-8"))
    assert len(names) > 30
    file = tmp_path / "walk.mtx"
    file.write_text(MATRIX)
    status, called = _first_calls(
        [
            "bench",
            "spmv",
            str(file),
            "--device",
            "host",
            "--in-process",
            "--no-save",
            "--time-limit",
            "0.01",
            "--variant",
            "csr-scalar",
            "--variant",
            "scipy",
        ]
    )
    assert status == 0, capsys.readouterr().err
    assert _faults(names, called) == []
    swapped = [names[1], names[0], *names[2:]]
    assert _faults(swapped, called) == [f"{names[0]} is called before the one above it"]
    assert _faults(["runner.serving.serve"], called) == ["runner.serving.serve is not called"]
    with pytest.raises(AttributeError):
        _function("runner.run.walk")
