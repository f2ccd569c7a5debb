"""What the documents tell people to type works."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import pytest

from spgraph_bench.cli.main import COMMANDS, group
from spgraph_bench.cli.show import opening_comment
from spgraph_bench.errors import SpgraphError
from spgraph_bench.formats.base import formats
from spgraph_bench.readers import readers
from spgraph_bench.variants import variants

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
KERNELS = sorted((ROOT / "cuda").rglob("*.cu"))
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def _console(text: str) -> list[str]:
    blocks = re.findall(r"^```console\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return [line[2:].split("   # ")[0] for block in blocks for line in block.splitlines() if line[:2] == "$ "]


def _spgraph_lines() -> list[str]:
    lines = [line for path in DOCUMENTS for line in _console(path.read_text(encoding="utf-8"))]
    return [re.sub(r"\s*[>|].*", "", line) for line in lines if line.startswith("spgraph ")]


@pytest.mark.parametrize("line", sorted(set(_spgraph_lines())))
def test_commands_parse(line: str) -> None:
    """click takes the arguments as the documents give them, without running the command."""
    _, name, *args = shlex.split(line)
    command = group.get_command(click.Context(group), name)
    assert command is not None
    with command.make_context(name, args):
        pass


def test_readme_shows_every_command() -> None:
    shown = {line.split()[1] for line in _console(README) if line.startswith("spgraph ")}
    assert set(COMMANDS) <= shown


def test_readme_names_every_reader_and_only_those() -> None:
    table = README.split("| input | files | notes |")[1].split("\n\n")[0]
    names = [cell for row in table.splitlines()[1:] for cell in row.split("|")[1:2]]
    assert set(re.findall(r"`([\w-]+)`", "".join(names))) == set(readers())


def test_readme_gives_the_statuses_of_the_errors() -> None:
    table = README.split("| status | meaning |")[1].split("\n\n")[0]
    stated = {int(s) for s in re.findall(r"^\| (\d+) \|", table, re.MULTILINE)}
    kinds = [SpgraphError, *SpgraphError.__subclasses__()]
    assert {kind.exit_status for kind in kinds} | {0, 130, 141} == stated


def test_readme_names_every_variable_and_dependency() -> None:
    """SPGRAPH_... read anywhere in the package, and all that pyproject.toml asks for, stand in the tables."""
    sources = [*(ROOT / "spgraph_bench").rglob("*.py"), ROOT / "tests" / "conftest.py"]
    used = {v for p in sources for v in re.findall(r"\"(SPGRAPH_[A-Z_]+)\"", p.read_text(encoding="utf-8"))}
    assert used <= set(re.findall(r"`(SPGRAPH_[A-Z_]+)`", README))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [
        *project["dependencies"],
        *(r for extra in project["optional-dependencies"].values() for r in extra),
    ]
    table = README.split("## Dependencies")[1].split("\n## ")[0]
    for requirement in wanted:
        name = re.match(r"[\w-]+", requirement)
        assert name
        assert name[0] in table, f"{name[0]} is not in the README's table of dependencies"


@pytest.mark.parametrize("path", KERNELS, ids=lambda p: f"{p.parent.name}/{p.name}")
def test_kernel_files_open_with_their_contract(path: Path) -> None:
    """Labels as in CONTRIBUTING.md. A file that is no variant's own (answers, clocks) has no rival."""
    contract, _ = opening_comment(path.read_text(encoding="utf-8"))
    own = {v.source for v in variants()}
    rivals = ["Wins", "Loses", "Idea"] if f"{path.parent.name}/{path.name}" in own else []
    found = re.findall(r"^([A-Z]\w+) +\S", contract, re.MULTILINE)
    wanted = ["Layout", "Mapping", *rivals]
    assert [label for label in found if label in wanted] == wanted
    assert re.match(r"[\w-]+(\.cu)?(, [\w-]+)*: \S", contract), "the first line says what it computes"


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: p.name)
def test_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", path.read_text(encoding="utf-8")):
        assert (path.parent / target).exists(), f"{path.name} links to {target}"


@pytest.fixture(scope="module")
def extended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project with the examples of CONTRIBUTING.md added."""
    tree = tmp_path_factory.mktemp("extended")
    ignore = shutil.ignore_patterns("__pycache__")
    for folder in ("spgraph_bench", "cuda", "configs"):
        shutil.copytree(ROOT / folder, tree / folder, ignore=ignore)
    pieces = re.findall(
        r"^(New file|Append to) `([\w/.]+)`:\n\n```\w+\n(.*?)^```", CONTRIBUTING, re.DOTALL | re.MULTILINE
    )
    assert len(pieces) == 5
    for kind, name, text in pieces:
        path = tree / name
        assert path.exists() == (kind == "Append to"), name
        with path.open("a", encoding="utf-8") as file:
            file.write(text if kind == "New file" else f"\n\n{text}")
    return tree


def _in(tree: Path, *args: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    return subprocess.run(args, capture_output=True, text=True, cwd=tree, env=environment, timeout=240)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "dtype"), [("csr-quad", "both"), ("ellr", "both")])
def test_examples_of_contributing_compute_right(extended: Path, name: str, dtype: str) -> None:
    for recipe in ("poisson2d:n=9", "arrow:n=40", "rmat:scale=6"):
        done = _in(
            extended, sys.executable, "-m", "spgraph_bench", "bench", "spmv", recipe, "--variant", name,
            "--dtype", dtype, "--device", "host", "--json", "--no-save", "--in-process",
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        records = [json.loads(line) for line in done.stdout.splitlines()]
        assert [(r["variant"], r["status"], r["check"]["ok"]) for r in records] == [(name, "ok", True)] * 2


def test_example_format_keeps_its_promises(extended: Path) -> None:
    code = """
import numpy as np
from spgraph_bench.formats.base import get_format
from spgraph_bench.recipes import make
from spgraph_bench.stats import row_stats
f = get_format("ellr")
for text in ("rmat:scale=6", "poisson2d:n=5", "chain:n=4"):
    csr = make(text).csr
    packed = f.pack(csr, np.float64)
    assert f.unpack(packed).equals(csr)
    assert f.predict_bytes(row_stats(csr), 8) == packed.stored_bytes
"""
    done = _in(extended, sys.executable, "-c", code)
    assert done.returncode == 0, done.stderr
    assert "ellr" not in formats()  # the example is not part of spgraph itself


def test_examples_pass_the_linter(extended: Path) -> None:
    """In the new file, and in the appended part of the other."""
    shutil.copy(ROOT / "pyproject.toml", extended)
    variants = "spgraph_bench/variants/spmv/kernels.py"
    own = len((ROOT / variants).read_text(encoding="utf-8").splitlines())
    lint = _in(
        extended, sys.executable, "-m", "ruff", "check", "--output-format=concise",
        "spgraph_bench/formats/ellr.py", variants,
    )  # fmt: skip
    found = re.findall(r"^(\S+?):(\d+):\d+: .*", lint.stdout, re.MULTILINE)
    assert not [f"{file}:{line}" for file, line in found if file != variants or int(line) > own]
    form = _in(extended, sys.executable, "-m", "ruff", "format", "--check", "spgraph_bench/formats/ellr.py")
    assert form.returncode == 0, form.stdout


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc")
@pytest.mark.parametrize("source", ["csr_quad.cu", "ellr.cu"])
def test_examples_compile_for_a_gpu(extended: Path, source: str, tmp_path: Path) -> None:
    done = _in(
        extended, "nvcc", "-arch=sm_90", "-std=c++17", "-Werror", "all-warnings", "-cubin",
        "-o", str(tmp_path / "out.cubin"), f"cuda/spmv/{source}",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
