"""Imports flow one way: cli -> runner -> the working packages; and nothing below cli prints."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "spgraph_bench"
WORKING = {"readers", "recipes", "formats", "problems", "variants", "device", "measure", "results"}
FREE = {"errors", "paths", "matrix", "stats", "structure", "writers", "answers", "__init__", "__main__"}
"""Modules of the package itself, which anything may import."""

MODULES = sorted(PACKAGE.rglob("*.py"))


def _unit(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def _imports(path: Path, *, running: bool = False) -> set[str]:
    """Full names of what `path` imports of spgraph_bench; with `running`, not what only types need."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped = {
        id(node)
        for test in ast.walk(tree)
        if running and isinstance(test, ast.If) and "TYPE_CHECKING" in ast.unparse(test.test)
        for part in test.body
        for node in ast.walk(part)
    }
    names: set[str] = set()
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {n for n in names if n.split(".")[0] == "spgraph_bench"}


def _allowed(unit: str) -> set[str]:
    if unit == "cli" or unit in FREE:
        return {"cli", "runner", "report", *WORKING, *FREE}
    if unit == "runner":
        return {"runner", *WORKING, *FREE}
    if unit == "report":
        return {"report", "results", *FREE}
    return {*WORKING, *FREE}


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_direction(path: Path) -> None:
    unit = _unit(path)
    for name in _imports(path):
        parts = name.split(".")
        target = parts[1] if len(parts) > 1 else "__init__"
        known = target in {*WORKING, *FREE, "cli", "runner", "report"}
        assert (target if known else "__init__") in _allowed(unit), f"{unit} must not import {name}"


@pytest.mark.parametrize("unit", ["problems", "variants"])
def test_devices_are_given_not_imported(unit: str) -> None:
    for path in (PACKAGE / unit).glob("*.py"):
        for name in _imports(path):
            if name.startswith("spgraph_bench.device"):
                assert name.startswith("spgraph_bench.device.base"), f"{path.name} imports {name}"


@pytest.mark.parametrize(
    "path",
    [p for p in MODULES if _unit(p) not in {"cli", "__main__"}],
    ids=lambda p: str(p.relative_to(PACKAGE)),
)
def test_nothing_below_cli_prints(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            assert called not in {"print", "click.echo", "sys.exit"}, f"line {node.lineno}: {called}"
            assert not called.startswith(("sys.stdout", "sys.stderr")), f"line {node.lineno}: {called}"
        if isinstance(node, ast.Import):
            roots = {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            roots = {str(node.module).split(".")[0]}
        else:
            continue
        assert "click" not in roots, f"line {node.lineno}"
        assert "rich" not in roots or _unit(path) == "report", f"line {node.lineno}"  # it builds tables


def test_the_checks_can_fail() -> None:
    assert "runner" not in _allowed("measure")
    assert "cli" not in _allowed("runner")
    assert "problems" not in _allowed("report")
    assert any("spgraph_bench.errors" in n for n in _imports(PACKAGE / "cli" / "main.py"))


@pytest.mark.parametrize("heavy", ["numpy", "scipy", "rich", "pycuda", "importlib.metadata"])
def test_help_imports_nothing_heavy(heavy: str) -> None:
    code = (
        "import sys; sys.argv[1:] = ['--help']; from spgraph_bench.cli.main import run; run();"
        f"assert {heavy!r} not in sys.modules, sorted(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=PACKAGE.parent)
    assert done.returncode == 0, done.stderr[-300:]
