"""The fuzzer finds what it is there for; and what CI runs is named to the last byte."""

from __future__ import annotations

import importlib
import os
import re
import signal
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from spgraph_bench import readers
from spgraph_bench.errors import InputError

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def fuzzer(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "tests" / "fuzz"))
    return importlib.import_module("run")


def test_inputs_are_the_same_everywhere_and_differ(fuzzer: ModuleType) -> None:
    made = [fuzzer.case(1, k) for k in range(60)]
    assert made == [fuzzer.case(1, k) for k in range(60)]
    assert len({content for _, content in made}) > 50


def test_what_is_sound_is_read(fuzzer: ModuleType, tmp_path: Path) -> None:
    later = {"colour.col", "net.net", "graph.gml", "graph.graphml", "complex.mtx", "complex0.mat", "complex1.mat"}
    for name, content in fuzzer.sound_files().items():
        kind, printed = fuzzer.outcome(tmp_path, name, content, by_command=False)
        assert kind == "read" or name in later, f"{name}: {printed}"


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (lambda *_: 1 // 0, "traceback"),
        (lambda *_: os.kill(os.getpid(), signal.SIGSEGV), "signal 11"),
        (lambda *_: time.sleep(60), "slow"),
        (lambda *_: (_ for _ in ()).throw(InputError("it cannot be read as x")), "unexpected"),
        (lambda *_: (_ for _ in ()).throw(InputError("no place")), "message"),
    ],
)
def test_a_planted_fault_is_found(
    fault: Any, kind: str, fuzzer: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readers, "read", fault)
    monkeypatch.setattr(fuzzer, "_SLOW_SECONDS", 0.3)
    counts = fuzzer.fuzz(1, 3, None, 1, tmp_path / "kept", first=1)
    assert counts == {kind: 3}
    assert kind == "slow" or len(list((tmp_path / "kept").iterdir())) == 3


def test_actions_are_pinned_and_versions_are_named() -> None:
    for file in (ROOT / ".github" / "workflows").glob("*.yml"):
        text = file.read_text()
        for action in re.findall(r"uses: *(\S+)", text):
            assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", action), f"{file.name}: {action}"
        assert "PIP_CONSTRAINT" in text, file.name
    lines = (ROOT / ".ci" / "constraints.txt").read_text().splitlines()
    named = {line.partition("==")[0].lower() for line in lines if "==" in line}
    assert {"numpy", "scipy", "click", "rich", "filelock", "pytest", "ruff", "mypy"} <= named
