"""Kernels are there to be read: short headers, lines that fit, tuning notes whose tables are whole."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from spgraph_bench.problems.base import problems
from spgraph_bench.variants import variants

ROOT = Path(__file__).resolve().parent.parent
CUDA = ROOT / "cuda"
KERNELS = sorted([*CUDA.rglob("*.cu"), *CUDA.rglob("*.cuh")])
TUNING = sorted((ROOT / "docs" / "tuning").glob("*.md"))
HEADER_LINES = 15
COLUMNS = 120
RESULT = re.compile(r"\b(yes|no|replaced|experiment|not timed)\b|^for \w+: yes$")


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
        elif inside and not line.startswith("| ---") and not RESULT.search(cells[-1]):
            rows.append(line)
    return rows


@pytest.mark.parametrize("path", KERNELS, ids=lambda p: f"{p.parent.name}/{p.name}")
def test_kernel_files_have_short_headers_and_lines(path: Path) -> None:
    assert layout_errors(path.read_text(encoding="utf-8")) == []


def test_other_sources_fit_in_120_columns() -> None:
    sources = [
        p for folder in (CUDA, ROOT / "spgraph_bench") for kind in ("*.[ch]pp", "*.h") for p in folder.rglob(kind)
    ]
    long = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in sources
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if len(line) > COLUMNS
    ]
    assert sources
    assert long == []


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


# ---- written once -----------------------------------------------------------------------------------------

ONCE = {
    "a mask of all lanes": (r"_sync\(0xf{8}u?,|FULL_WARP\s*(=|0x)", {"common/spg.cuh"}),
    "the sum over a warp": (r"/= 2\) \w+ \+= __shfl_(xor|down)_sync\(\w+, \w+, \w+\);", {"common/warp.cuh"}),
    "the prefix sum over a warp": (
        r"__shfl_up_sync\(\w+, (\w+), distance\);\n\s*if \(lane >= [^\n]*distance\) \1 \+=",
        {"common/warp.cuh", "graph/one_block.cuh"},
    ),
    "a relaxed access": (r"\b(ld|st)\.relaxed|SPG_ORDERED_\w+\(\w+, relaxed", {"common/warp.cuh"}),
}
PARTS_OF_A_WARP = {"spmv/csr_subwarp.cu", "spmm/csr_row.cu", "spmm/csr_row_columns.cu"}
"""They add up over some lanes only."""


def repeats(files: dict[str, str]) -> list[str]:
    """What stands in `files` (name: text) though warp.cuh or spg.cuh has it for all."""
    repeated = []
    for what, (pattern, homes) in ONCE.items():
        for name, text in files.items():
            if name not in homes | PARTS_OF_A_WARP and re.search(pattern, text, re.I):
                repeated.append(f"{name}: {what}")
    return repeated


def test_mask_sums_and_relaxed_accesses_are_written_once() -> None:
    texts = {p.relative_to(CUDA).as_posix(): p.read_text(encoding="utf-8") for p in KERNELS if "host" not in p.parts}
    assert repeats(texts) == []
    for what, (pattern, homes) in ONCE.items():
        assert any(re.search(pattern, texts[home], re.I) for home in homes), what


@pytest.mark.parametrize(
    "text",
    [
        "#define FULL_WARP 0xffffffffu\n",
        "const unsigned open = __ballot_sync(0xffffffffu, x);\n",
        "for (int d = 16; d > 0; d /= 2) sum += __shfl_down_sync(SPG_FULL_WARP, sum, d);\n",
        "T below = __shfl_up_sync(SPG_FULL_WARP, sum, distance);\n        if (lane >= distance) sum += below;\n",
        'asm volatile("ld.relaxed.gpu.u32 %0, [%1];" : "=r"(v) : "l"(p));\n',
        "SPG_ORDERED_LOAD(my_load, relaxed, gpu)\n",
    ],
)
def test_a_repeated_mask_sum_or_access_is_found(text: str) -> None:
    assert repeats({"spmv/mine.cu": text})


# ---- the reading order ------------------------------------------------------------------------------------

ORDER: dict[str, Any] = tomllib.loads((CUDA / "reading_order.toml").read_text(encoding="utf-8"))
PAGE_OF = dict.fromkeys(("launch", "bezier", "quadtree", "refine"), "dynamic-parallelism")
LINES_TO_READ = 200
"""Of code, of a naive or middle step with all that it includes; comments and empty lines not counted."""


def included(path: Path) -> set[Path]:
    """`path` and the headers that it includes from cuda/, but for those of the host device."""
    collected: set[Path] = set()
    waiting = [path]
    while waiting:
        if (file := waiting.pop().resolve()) not in collected:
            collected.add(file)
            names = re.findall(r'^\s*#\s*include "([^"]+)"', file.read_text(encoding="utf-8"), re.MULTILINE)
            waiting += [file.parent / name for name in names if "/host/" not in f"/{name}"]
    return collected


def code_lines(paths: set[Path]) -> int:
    lines = [line.strip() for path in paths for line in path.read_text(encoding="utf-8").splitlines()]
    return sum(bool(line) and not line.startswith("//") for line in lines)


def test_naive_and_middle_steps_read_alone() -> None:
    longer = set()
    for problem, order in ORDER.items():
        for step in order["step"]:
            path = CUDA / problem / step["file"]
            if step["level"] != "best" and code_lines(included(path)) > LINES_TO_READ:
                longer.add(f"{problem}/{step['file']}")
    assert longer == set()


def test_lines_are_counted_through_includes(tmp_path: Path) -> None:
    (tmp_path / "a.cu").write_text('// a\n#include "b.cuh"\n#include <cstdint>\n\nint a;\n')
    (tmp_path / "b.cuh").write_text('#pragma once\n#include "a.cu"\nint b; // b\n')
    assert code_lines(included(tmp_path / "a.cu")) == 6


@pytest.mark.parametrize("problem", ORDER)
def test_steps_are_kernels_of_their_variants(problem: str) -> None:
    source = {v.name: v.source for v in variants() if v.problem == problem}
    levels = [step["level"] for step in ORDER[problem]["step"]]
    assert levels == sorted(levels, key=["naive", "middle", "best"].index)
    for step in ORDER[problem]["step"]:
        assert (CUDA / problem / step["file"]).is_file()
        assert "variant" not in step or source[step["variant"]] == f"{problem}/{step['file']}"


@pytest.mark.parametrize("problem", ORDER)
def test_pages_and_folders_open_with_the_reading_order(problem: str) -> None:
    page = (ROOT / "docs" / f"{PAGE_OF.get(problem, problem)}.md").read_text(encoding="utf-8")
    folder = (CUDA / problem / "README.md").read_text(encoding="utf-8")
    assert f"<!-- numbers: steps {problem} docs -->" in page.split("\n## ")[1]
    assert f"<!-- numbers: steps {problem} folder -->" in folder


def test_every_problem_has_a_reading_order() -> None:
    assert {name.removesuffix("-transposed").removesuffix("-batch") for name in problems()} <= set(ORDER)
