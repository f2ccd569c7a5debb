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
from collections.abc import Sequence
from pathlib import Path
from typing import Any

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
COMMANDS_PAGE = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
INPUTS_PAGE = (ROOT / "docs" / "inputs.md").read_text(encoding="utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
KERNELS = sorted((ROOT / "cuda").rglob("*.cu"))
DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "cuda").glob("*/README.md")),
]


def _console(text: str) -> list[str]:
    blocks = re.findall(r"^```console\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return [line[2:].split("   # ")[0] for block in blocks for line in block.splitlines() if line[:2] == "$ "]


def _spgraph_lines() -> list[str]:
    lines = [line for path in DOCUMENTS for line in _console(path.read_text(encoding="utf-8"))]
    result = [re.sub(r"\s*[>|].*", "", line) for line in lines if line.startswith("spgraph ")]
    return [line for line in result if line.split()[1:3] != ["bench", "rowsum"]]  # an example's own


def _parse(name: str, args: Sequence[str]) -> None:
    """Let click take the arguments, without running the command."""
    command = group.get_command(click.Context(group), name)
    assert command is not None
    with command.make_context(name, list(args)) as context:
        if isinstance(command, click.Group):  # bench: a command for each problem
            _, own, rest = command.resolve_command(context, list(args))
            assert own is not None
            with own.make_context(own.name, rest, parent=context):
                pass


@pytest.mark.parametrize("line", sorted(set(_spgraph_lines())))
def test_commands_parse(line: str) -> None:
    """click takes the arguments as the documents give them."""
    _, name, *args = shlex.split(line)
    _parse(name, args)


def test_runs_of_the_reference_parse() -> None:
    runs = tomllib.loads((ROOT / "scripts" / "reference.toml").read_text(encoding="utf-8"))["run"]
    assert runs
    for run in runs:
        _parse(run["args"][0], run["args"][1:])


def test_the_page_of_commands_shows_every_command() -> None:
    shown = {line.split()[1] for line in _console(COMMANDS_PAGE) if line.startswith("spgraph ")}
    assert set(COMMANDS) <= shown


def test_readme_is_short_and_leads_to_every_page() -> None:
    """What comes before the dependencies is read in five minutes; every page is linked, here or from a page here."""
    assert len(README.split("## Dependencies")[0].split()) <= 900
    linked = set(re.findall(r"\]\(docs/([\w-]+\.md)", README))
    reached = linked | {name for page in linked for name in re.findall(r"\]\(([\w-]+\.md)", _page(page))}
    assert {path.name for path in (ROOT / "docs").glob("*.md")} <= reached


def _page(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def test_every_reader_is_on_the_page_of_inputs_and_only_those() -> None:
    table = INPUTS_PAGE.split("| input | files | notes |")[1].split("\n\n")[0]
    names = [cell for row in table.splitlines()[1:] for cell in row.split("|")[1:2]]
    assert set(re.findall(r"`([\w-]+)`", "".join(names))) == set(readers())


def test_the_page_of_commands_gives_the_statuses_of_the_errors() -> None:
    table = COMMANDS_PAGE.split("| status | meaning |")[1].split("\n\n")[0]
    stated = {int(s) for s in re.findall(r"^\| (\d+) \|", table, re.MULTILINE)}
    kinds = [SpgraphError, *SpgraphError.__subclasses__()]
    assert {kind.exit_status for kind in kinds} | {0, 130, 141} == stated


def test_every_variable_and_dependency_is_named() -> None:
    """SPGRAPH_... read anywhere in the package, and all that pyproject.toml asks for, are in the tables."""
    sources = [*(ROOT / "spgraph_bench").rglob("*.py"), ROOT / "tests" / "conftest.py"]
    used = {v for p in sources for v in re.findall(r"\"(SPGRAPH_[A-Z_]+)\"", p.read_text(encoding="utf-8"))}
    assert used <= set(re.findall(r"`(SPGRAPH_[A-Z_]+)`", COMMANDS_PAGE))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *(r for extra in project["optional-dependencies"].values() for r in extra)]
    table = README.split("## Dependencies")[1].split("\n## ")[0]
    for requirement in wanted:
        name = re.match(r"[\w-]+", requirement)
        assert name
        assert name[0] in table, f"{name[0]} is not in the README's table of dependencies"


@pytest.mark.parametrize("path", KERNELS, ids=lambda p: f"{p.parent.name}/{p.name}")
def test_kernel_files_open_with_their_contract(path: Path) -> None:
    """Labels as in CONTRIBUTING.md. A file that is not a variant's own (answers, clocks) has no rival."""
    contract, _ = opening_comment(path.read_text(encoding="utf-8"))
    own = {v.source for v in variants()}
    rivals = ["Wins", "Loses", "Idea"] if f"{path.parent.name}/{path.name}" in own else []
    matches = re.findall(r"^([A-Z]\w+) +\S", contract, re.MULTILINE)
    wanted = ["Layout", "Mapping", *rivals]
    assert [label for label in matches if label in wanted] == wanted
    assert re.match(r"[\w-]+(\.cu)?(, [\w-]+)*: \S", contract), "the first line says what it computes"


BROKEN_LIST = re.compile(r"(^|\s)\*\* |[.:;)] [*-] [A-Z`]")
"""What is left in the middle of a line where an item was joined to the one before it."""


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: p.name)
def test_items_of_lists_are_lines_of_their_own(path: Path) -> None:
    text = re.sub(r"(?s)```.*?```", "", path.read_text(encoding="utf-8"))
    assert [line for line in text.splitlines() if BROKEN_LIST.search(line)] == []


def test_a_joined_item_is_found() -> None:
    for line in ("** `push`: a thread", "  enough. ** `one-block`: while", "it ends. * Then"):
        assert BROKEN_LIST.search(line)
    assert not BROKEN_LIST.search("* **Flatten.** Count 2 * 3, **once**")


def _unclosed(text: str) -> list[str]:
    """Paragraphs outside of code in which bold text begins and does not end."""
    text = re.sub(r"(?s)```.*?```|`[^`\n]*`", "", text)
    text = re.sub(r"(?m)^ {4,}.*$", "", text)
    return [part for part in re.split(r"\n\s*\n", text) if part.count("**") % 2]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: p.name)
def test_bold_text_ends(path: Path) -> None:
    assert _unclosed(path.read_text(encoding="utf-8")) == []


def test_bold_text_that_does_not_end_is_found() -> None:
    assert _unclosed("**Tasks* that wait") == ["**Tasks* that wait"]
    assert _unclosed("**Tasks** that wait\n\n`a**b` is a power\n\n    2**3") == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: p.name)
def test_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", path.read_text(encoding="utf-8")):
        assert (path.parent / target).exists(), f"{path.name} links to {target}"


PIECES = re.findall(r"^(New file|Append to) `([\w/.]+)`:\n\n```\w+\n(.*?)^```", CONTRIBUTING, re.DOTALL | re.MULTILINE)
"""What the examples of CONTRIBUTING.md add: how, where, and the text."""


@pytest.fixture(scope="module")
def extended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project with the examples of CONTRIBUTING.md added."""
    tree = tmp_path_factory.mktemp("extended")
    ignore = shutil.ignore_patterns("__pycache__")
    for folder in ("spgraph_bench", "cuda", "configs", "tests"):
        shutil.copytree(ROOT / folder, tree / folder, ignore=ignore)
    shutil.copy(ROOT / "pyproject.toml", tree)
    assert len(PIECES) == 12
    for kind, name, text in PIECES:
        path = tree / name
        assert path.exists() == (kind == "Append to"), name
        path.parent.mkdir(exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(text if kind == "New file" else f"\n\n{text}")
    return tree


def _in(tree: Path, *args: str, cwd: Path | None = None, **more: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(tree), **more}
    return subprocess.run(args, capture_output=True, text=True, cwd=cwd or tree, env=environment, timeout=240)


def _bench(tree: Path, *args: str, **more: Any) -> list[dict[str, Any]]:
    done = _in(
        tree, sys.executable, "-m", "spgraph_bench", "bench", *args, "--device", "host", "--json", "--no-save", **more
    )
    assert done.returncode == 0, done.stderr
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert all(r["status"] == "ok" and r["check"]["ok"] for r in records)
    return records


@pytest.mark.slow
@pytest.mark.slow
@pytest.mark.parametrize(("problem", "name"), [("spmv", "csr-quad"), ("spmv", "ellr"), ("rowsum", "scalar")])
def test_examples_of_contributing_compute_right(extended: Path, problem: str, name: str) -> None:
    for recipe in ("poisson2d:n=9", "arrow:n=40", "rmat:scale=6"):
        records = _bench(extended, problem, recipe, "--variant", name, "--dtype", "both", "--in-process")
        assert [r["variant"] for r in records] == [name] * 2


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


def test_example_reader_reads(extended: Path) -> None:
    code = """
import sys
from spgraph_bench.errors import InputError
from spgraph_bench.readers import read
a = read("tests/data/triangle.lgr")
assert a.source.format == "leda" and a.csr.to_scipy().toarray().tolist() == [[0, .5, 4], [.5, 0, 2], [4, 2, 0]]
text = open("tests/data/triangle.lgr").read()
for number, (old, new, said) in enumerate([
    ("3 1 0", "3 4 0", "12: "), ("{2}", "{x}", "11: "), ("-2", "-3", "4: "), ("3 1 0 |{4}|\\n", "", "after 2 of 3"),
    ("\\n3\\n1 2", "\\n99999999999\\n1 2", "after 3 of"), ("1 2 0 |{0.5}|", "1", "10: "),
]):
    assert old in text
    with open("bad.lgr", "w") as file:
        file.write(text.replace(old, new))
    try:
        read("bad.lgr")
    except InputError as error:
        assert said in f"{error.place}: {error}", (said, error.place, str(error))
    else:
        raise AssertionError(new)
"""
    done = _in(extended, sys.executable, "-c", code)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_example_problem_has_a_battery_and_passes_it(extended: Path) -> None:
    """A new problem without one is found."""
    battery = extended / "tests" / "test_rowsum_host.py"
    check = ("tests/test_proportion.py", "-k", "test_every_problem_has_a_battery")
    pytest_ = (sys.executable, "-m", "pytest", "-q", "-m", "not gpu", "-p", "no:cacheprovider")
    done = _in(extended, *pytest_, *check, str(battery))
    assert done.returncode == 0, done.stdout
    done = _in(extended, *pytest_, str(battery))
    assert done.returncode == 0, done.stdout
    hidden = battery.rename(extended / "hidden.py")
    done = _in(extended, *pytest_, *check)
    hidden.rename(battery)
    assert done.returncode == 1
    assert "no test_battery in tests/test_rowsum_host.py runs scalar" in done.stdout
    assert "1 failed" in done.stdout


def _outside(folder: Path) -> Path:
    """The plug-in that CONTRIBUTING.md gives, with its kernel, in `folder`."""
    section = CONTRIBUTING.split("### Outside the project")[1]
    code = re.search(r"^```python\n(.*?)^```", section, re.DOTALL | re.MULTILINE)
    assert code is not None
    kernel = next(text for _, name, text in PIECES if name == "cuda/spmv/csr_quad.cu")
    folder.mkdir(exist_ok=True)
    (folder / "csr_quad.cu").write_text(kernel.replace('"../common/spg.cuh"', '"common/spg.cuh"'))
    (folder / "quad.py").write_text(code[1])
    return folder / "quad.py"


def test_the_plug_in_works_as_typed(tmp_path: Path) -> None:
    plugin = _outside(tmp_path)
    assert f"SPGRAPH_PLUGINS={plugin.name} " in CONTRIBUTING
    args = ("spmv", "rmat:scale=6", "--variant", "my-quad")
    assert len(_bench(ROOT, *args, cwd=tmp_path, SPGRAPH_PLUGINS=plugin.name)) == 1


def _package(site: Path) -> Path:
    """An installed package with the plug-in, as CONTRIBUTING.md declares it."""
    plugin = _outside(site / "my_package")
    (site / "my_package" / "__init__.py").touch()
    declared = tomllib.loads(re.findall(r"^```toml\n(.*?)^```", CONTRIBUTING, re.DOTALL | re.MULTILINE)[0])
    info = site / "my_package-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 1.0\n")
    lines = [
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in points.items())
        for group, points in declared["project"]["entry-points"].items()
    ]
    (info / "entry_points.txt").write_text("".join(lines))
    return plugin


def test_installed_packages_bring_variants(tmp_path: Path) -> None:
    """In the worker, too: without --in-process it runs them."""
    plugin = _package(tmp_path)
    path = os.pathsep.join((str(ROOT), str(tmp_path)))
    args = ("spmv", "rmat:scale=6", "--variant", "my-quad")
    assert len(_bench(ROOT, *args, PYTHONPATH=path)) == 1
    plugin.write_text("import not_installed\n")
    for command in (("list", "variants"), ("bench", *args, "--device", "host")):
        done = _in(ROOT, sys.executable, "-m", "spgraph_bench", *command, PYTHONPATH=path)
        assert done.returncode == 2
        assert done.stderr.splitlines() == [
            "error: my-package: entry point quad = my_package.quad (spgraph.variants): ModuleNotFoundError: "
            "No module named 'not_installed'",
            "  remedy: fix or uninstall my-package",
        ]


def test_examples_pass_the_linter(extended: Path) -> None:
    """In new files, and in the appended parts of others."""
    names = [name for _, name, _ in PIECES if name.endswith(".py")]
    appended = {
        name: len((ROOT / name).read_text(encoding="utf-8").splitlines())
        for kind, name, _ in PIECES
        if kind == "Append to"
    }
    plugin = _outside(extended / "outside").relative_to(extended)
    lint = _in(extended, sys.executable, "-m", "ruff", "check", "--output-format=concise", *names, str(plugin))
    matches = re.findall(r"^(\S+?):(\d+):\d+: .*", lint.stdout, re.MULTILINE)
    assert not [f"{file}:{line}" for file, line in matches if int(line) > appended.get(file, 0)], lint.stdout
    new = [name for name in names if name not in appended]
    form = _in(extended, sys.executable, "-m", "ruff", "format", "--diff", *new, str(plugin))
    assert form.returncode == 0, form.stdout


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc")
@pytest.mark.parametrize("source", ["spmv/csr_quad.cu", "spmv/ellr.cu", "rowsum/scalar.cu"])
def test_examples_compile_for_a_gpu(extended: Path, source: str, tmp_path: Path) -> None:
    done = _in(
        extended,
        "nvcc",
        "-arch=sm_90",
        "-std=c++17",
        "-Werror",
        "all-warnings",
        "-DSPG_VALUE=float",
        "-DSPG_OFFSET=int",
        "-cubin",
        "-o",
        str(tmp_path / "out.cubin"),
        f"cuda/{source}",
    )
    assert done.returncode == 0, done.stderr
