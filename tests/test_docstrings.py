"""Public definitions say what they are: names in ``__all__`` and public methods of public classes.

An override without a docstring has that of the method it overrides. Fields of dataclasses are not looked at.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType, ModuleType

import pytest

import spgraph_bench

COVERED = (
    "device",
    "formats",
    "measure",
    "problems",
    "readers",
    "recipes",
    "report",
    "results",
    "toolchain",
    "validate",
    "variants",
)
"""Packages that are held to it, besides the modules beside them."""


def _members(cls: type) -> Iterator[str]:
    """Names of public methods and properties that `cls` itself defines."""
    kinds = (FunctionType, property, staticmethod, classmethod)
    fields = getattr(cls, "__dataclass_fields__", {})
    for name, value in vars(cls).items():
        if not name.startswith("_") and name not in fields and isinstance(value, kinds):
            yield name


def undocumented(module: ModuleType) -> list[str]:
    """Public definitions of `module` without a docstring, as ``name`` or ``Class.method``."""
    missing = []
    for name in getattr(module, "__all__", ()):
        value = getattr(module, name)
        if getattr(value, "__module__", None) != module.__name__ or not (
            inspect.isclass(value) or inspect.isfunction(value)
        ):
            continue
        if not value.__doc__ or value.__doc__.startswith(f"{name}("):  # what a dataclass makes of its fields
            missing.append(name)
        if inspect.isclass(value):
            missing += [f"{name}.{m}" for m in _members(value) if not inspect.getdoc(getattr(value, m))]
    return missing


ROOT = Path(spgraph_bench.__file__).parent
MODULES = [
    f"spgraph_bench.{path.relative_to(ROOT).with_suffix('').as_posix().replace('/', '.')}"
    for path in sorted([*ROOT.glob("*.py"), *(path for name in COVERED for path in (ROOT / name).rglob("*.py"))])
    if not path.stem.startswith("__")
]


@pytest.mark.parametrize("name", MODULES)
def test_public_definitions_have_docstrings(name: str) -> None:
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:  # of an extra, such as PyCUDA
        pytest.skip(f"{error.name} is not installed")
    assert undocumented(module) == []


PLANTED = '''
from dataclasses import dataclass

__all__ = ["Shape", "silent", "Fields", "Heir"]


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
