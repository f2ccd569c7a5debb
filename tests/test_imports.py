"""Imports follow the layers that docs/architecture.md lists; and nothing below cli prints."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "spgraph_bench"
ARCHITECTURE = PACKAGE.parent / "docs" / "architecture.md"
MODULES = sorted(PACKAGE.rglob("*.py"))


def _layers(text: str) -> dict[str, int]:
    """The layer of each package and module, from the table of docs/architecture.md."""
    collected: dict[str, int] = {}
    for number, names in re.findall(r"^\| (\d+) \| ([^|]+) \|", text, re.MULTILINE):
        for name in re.findall(r"`(\w+)`", names):
            assert name not in collected, f"{name} is in two layers"
            collected[name] = int(number)
    return collected


LAYERS = _layers(ARCHITECTURE.read_text(encoding="utf-8"))


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


def _target(name: str, layers: Mapping[str, int]) -> str:
    """What ``spgraph_bench.x.y`` belongs to: "x", or "__init__" for ``spgraph_bench.__version__``."""
    parts = name.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in layers else "__init__"


def _wrong(unit: str, name: str, layers: Mapping[str, int] = LAYERS) -> str | None:
    """Why `unit` must not import `name`, or None."""
    target = _target(name, layers)
    if target == unit:
        return None
    if layers[target] >= layers[unit]:
        return f"{unit} (layer {layers[unit]}) must not import {name} (layer {layers[target]})"
    if unit == "problems" and target == "device":
        return f"problems must not import {name}: they are given a device"
    if unit == "report" and target != "results" and layers[target] > 2:
        return f"report must not import {name}: it knows records only"
    if unit == "variants" and target == "device" and not name.startswith("spgraph_bench.device.base"):
        return f"variants must not import {name}: they are given a device"
    return None


def test_every_module_has_a_layer() -> None:
    assert {_unit(path) for path in MODULES} == set(LAYERS)


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_direction(path: Path) -> None:
    wrong = [why for name in _imports(path) if (why := _wrong(_unit(path), name))]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("unit", "name"),
    [
        ("matrix", "spgraph_bench.cli.terminal.note"),
        ("readers", "spgraph_bench.device.host.HostDevice"),
        ("device", "spgraph_bench.formats.base.Packed"),
        ("problems", "spgraph_bench.device.base.Device"),
        ("variants", "spgraph_bench.device.open_device"),
        ("measure", "spgraph_bench.runner.run"),
        ("runner", "spgraph_bench.cli.main.run"),
        ("report", "spgraph_bench.problems.get_problem"),
        ("errors", "spgraph_bench.matrix.Matrix"),
    ],
)
def test_a_planted_violation_is_found(unit: str, name: str) -> None:
    assert _wrong(unit, name) is not None


def _violations() -> list[tuple[str, str]]:
    """For each unit one of a later layer, the nearest, and one of its own layer, where there is one."""
    collected = []
    for unit, layer in LAYERS.items():
        later = [u for u, n in LAYERS.items() if n > layer]
        beside = [u for u, n in LAYERS.items() if n == layer and u != unit]
        collected += [(unit, other) for other in (*later[:1], *beside[:1])]
    return collected


@pytest.mark.parametrize(("unit", "other"), _violations())
def test_a_violation_of_each_layer_is_found(unit: str, other: str, tmp_path: Path) -> None:
    planted = tmp_path / "planted.py"
    planted.write_text(
        f"def late() -> None:\n    from spgraph_bench.{other} import anything\n".replace(".__init__", "")
    )
    [name] = _imports(planted)
    assert _wrong(unit, name) == f"{unit} (layer {LAYERS[unit]}) must not import {name} (layer {LAYERS[other]})"


def test_each_layer_has_a_planted_violation() -> None:
    assert {LAYERS[unit] for unit, _ in _violations()} == set(LAYERS.values()) - {max(LAYERS.values())}


def _cycles(edges: Mapping[str, set[str]]) -> list[list[str]]:
    """Modules that import each other, directly or not: Tarjan's strongly connected components."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    collected: list[list[str]] = []

    def visit(node: str) -> None:
        number[node] = low[node] = len(number)
        stack.append(node)
        for other in edges.get(node, ()):
            if other not in number:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], number[other])
        if low[node] == number[node]:
            together = stack[stack.index(node) :]
            del stack[stack.index(node) :]
            if len(together) > 1:
                collected.append(sorted(together))

    for node in edges:
        if node not in number:
            visit(node)
    return collected


def test_no_circle() -> None:
    known = {
        ".".join(p.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__"): p for p in MODULES
    }

    def module(name: str) -> str:
        while name not in known:
            name = name.rpartition(".")[0]
        return name

    edges = {own: {module(n) for n in _imports(p, running=True)} - {own} for own, p in known.items()}
    # A package gathers what its modules offer, and a module may ask its package for the list of its siblings.
    for own, path in known.items():
        if path.name == "__init__.py":
            edges[own] = {n for n in edges[own] if not n.startswith(f"{own}.")}
    assert _cycles(edges) == []
    assert _cycles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [["a", "b", "c"]]


@pytest.mark.parametrize(
    "path", [p for p in MODULES if _unit(p) not in {"cli", "__main__"}], ids=lambda p: str(p.relative_to(PACKAGE))
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


@pytest.mark.parametrize("heavy", ["numpy", "scipy", "rich", "pycuda", "importlib.metadata"])
def test_help_imports_nothing_heavy(heavy: str) -> None:
    code = (
        "import sys; sys.argv[1:] = ['--help']; from spgraph_bench.cli.main import run; run();"
        f"assert {heavy!r} not in sys.modules, sorted(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=PACKAGE.parent)
    assert done.returncode == 0, done.stderr[-300:]


def test_rooms_mirror_problems() -> None:
    """Host functions are in the package of their problem, its kernels in the folder of that name."""
    from spgraph_bench.variants import variants

    for variant in variants():
        room, module = variant.prepare.__module__.split(".")[2:]
        assert variant.problem.removesuffix("-transposed").removesuffix("-batch") == room, variant
        assert variant.source is None or variant.source.split("/")[0] == room, variant
        order = getattr(sys.modules[f"spgraph_bench.variants.{room}"], "READING_ORDER", ())
        ours = {p.stem for p in (PACKAGE / "variants" / room).glob("*.py")}
        assert set(order) <= ours, f"{room}: READING_ORDER names a module that is not there"
        assert not order or not variant.kernel or module in order, f"{module} is not in {room}'s READING_ORDER"
