"""Kernels are there to be read: short headers, lines that fit, tuning notes whose tables are whole."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
CUDA = ROOT / "cuda"
KERNELS = sorted([*CUDA.rglob("*.cu"), *CUDA.rglob("*.cuh")])
TUNING = sorted((ROOT / "docs" / "tuning").glob("*.md"))
HEADER_LINES = 15
COLUMNS = 120
KEPT = re.compile(r"\b(yes|no|replaced|experiment|not timed)\b|^for \w+: yes$")


def opening_lines(text: str) -> int:
    """How many lines of comment a kernel file opens with."""
    lines = text.splitlines()
    return next((n for n, line in enumerate(lines) if not line.startswith("//")), len(lines))


def layout_errors(text: str) -> list[str]:
    """What is wrong with the layout of a kernel file; tuning history belongs in docs/tuning."""
    errors = []
    if (opening := opening_lines(text)) > HEADER_LINES:
        errors.append(f"opens with {opening} lines of comment, {HEADER_LINES} are allowed")
    for number, line in enumerate(text.splitlines(), 1):
        if len(line) > COLUMNS:
            errors.append(f"line {number} has {len(line)} columns")
        if re.match(r"\s*// (Tuned|Floors) ", line) or "notebook.md" in line:
            errors.append(f"line {number}: tuning history belongs in docs/tuning")
    return errors


def attempts_without_result(text: str) -> list[str]:
    """Rows of the tables "tried" of a tuning page that do not say whether the attempt was kept."""
    rows: list[str] = []
    inside = False
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("|"):
            inside = False
        elif cells[0] in ("tried", "version"):
            inside = True
            if cells[-1] != "kept" or cells[0] == "version":
                rows.append(line)
        elif inside and not line.startswith("| ---") and not KEPT.search(cells[-1]):
            rows.append(line)
    return rows


@pytest.mark.parametrize("path", KERNELS, ids=lambda p: f"{p.parent.name}/{p.name}")
def test_kernel_files_have_short_headers_and_lines(path: Path) -> None:
    assert layout_errors(path.read_text(encoding="utf-8")) == []


def test_long_headers_long_lines_and_tuning_history_are_found() -> None:
    right = "// a: b.\n" * HEADER_LINES + "int x;\n"
    assert layout_errors(right) == []
    assert layout_errors("// c\n" + right)
    assert layout_errors(right + "// " + "x" * COLUMNS)
    assert layout_errors(right + "// Tuned    by hand")
    assert layout_errors(right + "// see docs/notebook.md")


@pytest.mark.parametrize("path", TUNING, ids=lambda p: p.stem)
def test_tuning_tables_say_what_was_kept(path: Path) -> None:
    assert attempts_without_result(path.read_text(encoding="utf-8")) == []


def test_an_attempt_without_result_is_found() -> None:
    head = "| tried | predicted | measured | kept |\n| --- | --- | --- | --- |\n"
    assert attempts_without_result(head + "| a | 1 | 2 | yes |\n") == []
    assert attempts_without_result(head + "| a | 1 | 2 |\n")
    assert attempts_without_result(head.replace(" kept |", "") + "| a | 1 | yes |\n")


def test_the_index_names_every_tuning_page() -> None:
    index = (ROOT / "docs" / "notebook.md").read_text(encoding="utf-8")
    assert set(re.findall(r"\(tuning/([\w-]+)\.md\)", index)) == {path.stem for path in TUNING}
