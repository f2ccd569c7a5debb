"""Public definitions say what they are: modules, functions, classes, and methods and properties of public classes.

An override without a docstring has that of the method it overrides; a variant or recipe has the `about` of
its decorator. Fields of dataclasses are not looked at.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType, ModuleType

import pytest

import spgraph_bench


def _members(cls: type) -> Iterator[str]:
    """Names of public methods and properties that `cls` itself defines."""
    kinds = (FunctionType, property, staticmethod, classmethod)
    fields = getattr(cls, "__dataclass_fields__", {})
    for name, value in vars(cls).items():
        if not name.startswith("_") and name not in fields and isinstance(value, kinds):
            yield name


def undocumented(module: ModuleType) -> list[str]:
    """Public definitions of `module` without a docstring, as ``name`` or ``Class.method``."""
    missing = [] if module.__doc__ else ["module"]
    for name, value in vars(module).items():
        if name.startswith("_") or getattr(value, "__module__", None) != module.__name__:
            continue
        if not (inspect.isclass(value) or inspect.isfunction(value)):
            continue
        if not value.__doc__ or value.__doc__.startswith(f"{name}("):  # what a dataclass makes of its fields
            missing.append(name)
        if inspect.isclass(value):
            missing += [f"{name}.{m}" for m in _members(value) if not inspect.getdoc(getattr(value, m))]
    return missing


ROOT = Path(spgraph_bench.__file__).parent
MODULES = [
    ".".join(["spgraph_bench", *path.relative_to(ROOT).with_suffix("").parts])
    for path in sorted(ROOT.rglob("*.py"))
    if not path.stem.startswith("__") and path.parent.name != "cuda"
]
SCRIPTS = sorted((ROOT.parent / "scripts").glob("*.py"))


@pytest.mark.parametrize("name", MODULES)
def test_public_definitions_have_docstrings(name: str) -> None:
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:  # of an extra, such as PyCUDA
        pytest.skip(f"{error.name} is not installed")
    assert undocumented(module) == []


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_scripts_have_docstrings(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(path.parent)
    spec = importlib.util.spec_from_file_location(f"script_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    try:
        spec.loader.exec_module(module)
    except ModuleNotFoundError as error:  # of the extra docs
        if error.name != "griffe":
            raise
        pytest.skip(f"{error.name} is not installed")
    assert undocumented(module) == []


PLANTED = '''"""A module."""

from dataclasses import dataclass


class Shape:
    """Has one."""

    def sides(self) -> int:
        """This, too."""
        return 4

    def silent(self) -> None:
        pass

    @property
    def area(self) -> int:
        return 1


class Heir(Shape):
    """An override has that of the method it overrides."""

    def sides(self) -> int:
        return 3


def silent() -> None:
    pass


@dataclass
class Fields:
    x: int
'''


def test_a_missing_docstring_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("planted")
    monkeypatch.setitem(sys.modules, "planted", module)  # where inspect looks for the overridden method
    exec(compile(PLANTED, "planted", "exec", dont_inherit=True), module.__dict__)
    assert undocumented(module) == ["Shape.silent", "Shape.area", "silent", "Fields"]
