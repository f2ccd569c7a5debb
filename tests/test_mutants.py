"""The planted faults of scripts/mutants.toml fit the sources they are planted in."""

from __future__ import annotations

import importlib.util
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent


def _script() -> Any:
    spec = importlib.util.spec_from_file_location("mutants", ROOT / "scripts" / "mutants.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["mutants"] = module  # dataclasses look there
    spec.loader.exec_module(module)
    return module


SCRIPT = _script()
MUTANTS = SCRIPT.mutants()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.name.replace(" ", "-"))
def test_each_fits_in_exactly_one_place(mutant: Any) -> None:
    text = (ROOT / mutant.file).read_text()
    assert text.count(mutant.old) == 1
    assert mutant.new != mutant.old
    files = [word for word in shlex.split(mutant.tests) if word.startswith("tests/")]
    assert files
    assert all((ROOT / name).is_file() for name in files)


def test_there_are_many_of_every_family_and_kind() -> None:
    assert len(MUTANTS) >= 40
    assert len({m.name for m in MUTANTS}) == len(MUTANTS)
    families = {m.family for m in MUTANTS}
    assert families >= {"spmv", "spmm", "bfs", "pagerank", "sssp", "cc", "bc", "quadtree", "bezier", "refine", "launch"}
    kinds = {m.kind for m in MUTANTS}
    assert kinds >= {
        "dropped entry",
        "off by one row",
        "stale output",
        "atomic made plain",
        "missing barrier",
        "missing fence",
        "missing reset",
        "first source only",
        "wrong last slot",
        "wrong bound",
    }


def test_a_mutant_that_does_not_fit_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.cu").write_text("x x")
    twice = SCRIPT.Mutant("twice", "spmv", "k", "a.cu", "x", "y", "", "")
    with pytest.raises(ValueError, match=r"twice: a\.cu has its text 2 times"):
        twice.apply(tmp_path)


def test_what_ended_how(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def verdict(code: str) -> str:
        printed: str = SCRIPT._verdict([sys.executable, "-c", code], tmp_path, {}, {1})
        return printed

    assert verdict("raise SystemExit(1)") == "found"
    assert verdict("pass") == "not found"
    assert verdict("import os; os.abort()") == "found"
    assert verdict("print('no such file'); raise SystemExit(2)").startswith("status 2: no such file")
    monkeypatch.setattr(SCRIPT, "SECONDS", 0.5)
    assert verdict("import time; time.sleep(60)") == "hangs"


def test_the_table_says_what_is_found_and_why_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    three = [
        SCRIPT.Mutant(name, "spmv", "kind", "a.cu", "x", "y", "", "spmv", why)
        for name, why in (("one", ""), ("two", "order of memory"), ("three", ""))
    ]
    host = {
        "one": {"tests": "found", "bench": "hangs"},
        "two": {"tests": "not found", "bench": "not found"},
        "three": {"tests": "found", "bench": ""},
    }
    page = tmp_path / "page.md"
    page.write_text(f"before\n{SCRIPT.BEGIN}\nold\n{SCRIPT.END}\nafter\n")
    monkeypatch.setattr(SCRIPT, "PAGE", page)
    SCRIPT.write(SCRIPT.table(three, {"host": host}))
    text = page.read_text()
    assert "tests on the host find 2 of 3" in text.lower()
    assert "checks of `spgraph bench` on the host find 1 of 2" in text
    assert "| one | spmv | kind | yes | yes (hangs) |  |" in text
    assert "| two | spmv | kind | **no** | **no** | order of memory |" in text
    host["two"]["races"] = "found"
    races = SCRIPT.table(three, {"host": host})
    assert "| fault | in | kind | tests, host | race detector, host | checks, host | why not |" in races
    assert "| one | spmv | kind | yes | - | yes (hangs) |  |" in races
    assert "| two | spmv | kind | **no** | yes | **no** | order of memory |" in races
    assert "find 2 of 3; the race detector finds 1 of the 1 that they do not find;" in races
    del host["two"]["races"]
    gpu = {"one": {"tests": "", "bench": "found"}}  # the checks alone
    with_gpu = SCRIPT.table(three, {"host": host, "cuda": gpu})
    assert "| fault | in | kind | tests, host | checks, host | checks, GPU | why not |" in with_gpu
    assert "| one | spmv | kind | yes | yes (hangs) | yes |  |" in with_gpu
    assert "checks of `spgraph bench` on the GPU find 1 of 1" in with_gpu
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "old" not in text


@pytest.mark.parametrize(
    ("outcome", "why", "expected"),
    [
        ({"tests": "found", "races": "", "bench": "found"}, "", False),
        ({"tests": "not found", "races": "not found", "bench": "found"}, "", True),
        ({"tests": "not found", "races": "found", "bench": "not found"}, "", False),
        ({"tests": "found", "races": "", "bench": "not found"}, "", True),
        ({"tests": "found", "races": "", "bench": "not found"}, "equivalent", False),
    ],
)
def test_what_is_not_found_must_be_explained(outcome: dict[str, str], why: str, expected: bool) -> None:
    mutant = SCRIPT.Mutant("one", "spmv", "kind", "a.cu", "x", "y", "", "spmv", why)
    assert SCRIPT._unexplained(mutant, outcome) == expected


def test_the_page_has_the_marks() -> None:
    text = SCRIPT.PAGE.read_text()
    assert re.search(re.escape(SCRIPT.BEGIN) + r".*" + re.escape(SCRIPT.END), text, re.S)
