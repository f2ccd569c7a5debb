"""Tests that need the GPU alone run alone, and are not overtaken forever."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
import time
from pathlib import Path

import pytest
from gpu_turn import gpu_turn

TESTS = Path(__file__).resolve().parent


def _use(folder: str, alone: bool, stay: float, log: object) -> None:
    with gpu_turn(Path(folder), alone):
        begin = time.monotonic()
        time.sleep(stay)
        log.put((alone, begin, time.monotonic()))  # type: ignore[attr-defined]


def test_one_alone_or_many_together(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    log = context.Queue()
    stays = [(k % 3 == 1, 0.1 if k % 3 == 1 else 0.4) for k in range(9)]
    users = [context.Process(target=_use, args=(str(tmp_path), *stay, log), daemon=True) for stay in stays]
    for user in users:
        user.start()
    spans = [log.get(timeout=30) for _ in users]
    for user in users:
        user.join()
    together = 0
    for i, (alone, begin, end) in enumerate(spans):
        others = [s for j, s in enumerate(spans) if j != i and s[1] < end and begin < s[2]]
        assert not (alone and others)
        together += bool(others)
    assert together > 0  # ordinary ones do share it


def test_who_wants_it_alone_is_not_overtaken(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    log = context.Queue()
    order = [(False, 0.6), (True, 0.05), (False, 0.05), (False, 0.05)]
    users = []
    for alone, stay in order:
        users.append(context.Process(target=_use, args=(str(tmp_path), alone, stay, log), daemon=True))
        users[-1].start()
        time.sleep(0.1)
    spans = [log.get(timeout=30) for _ in users]
    assert [alone for alone, *_ in sorted(spans, key=lambda s: s[1])] == [False, True, False, False]


def test_a_test_that_needs_the_gpu_alone_is_a_gpu_test(tmp_path: Path) -> None:
    for name in ("conftest.py", "gpu_turn.py"):
        (tmp_path / name).write_text((TESTS / name).read_text())
    (tmp_path / "test_it.py").write_text("import pytest\n@pytest.mark.gpu_alone\ndef test_it():\n    pass\n")
    markers = ["-o", "markers=gpu: x", "-o", "addopts=", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *markers, str(tmp_path)], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode != 0
    assert "test_it is marked gpu_alone, but not gpu" in done.stdout + done.stderr


@pytest.mark.gpu
@pytest.mark.gpu_alone
def test_marks_are_known() -> None:
    """`--strict-markers` refuses what pyproject.toml does not name."""
