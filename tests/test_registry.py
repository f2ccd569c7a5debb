"""A registry imports its package at the first look, with the packages in it, and refuses a name twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from spgraph_bench.registry import Registry

HOST = "from spgraph_registry_of_test import ROOM\n"


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registry[str, int]:
    """A registry whose package has a module and, in a package, another one."""
    package = tmp_path / "room_of_test"
    (package / "inner").mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "inner" / "__init__.py").touch()
    (package / "one.py").write_text(f"{HOST}ROOM.enter('one', 1)\n")
    (package / "inner" / "two.py").write_text(f"{HOST}ROOM.enter('two', 2)\n")
    made: Registry[str, int] = Registry("thing", "room_of_test", lambda: _enter(made, "more"))
    monkeypatch.syspath_prepend(tmp_path)
    module = type(pytest)("spgraph_registry_of_test")
    module.ROOM = made  # type: ignore[attr-defined]
    monkeypatch.setitem(__import__("sys").modules, "spgraph_registry_of_test", module)
    return made


def _enter(registry: Registry[str, int], name: str) -> None:
    registry.enter(name, 0)


def test_it_fills_itself_once_in_order(room: Registry[str, int]) -> None:
    assert len(room) == 0
    assert room.get("two") == 2
    assert dict(room.entries()) == {"two": 2, "one": 1, "more": 0}
    assert dict(room.entries()) == dict(room.entries())
    with pytest.raises(KeyError):
        room.get("three")


def test_what_is_entered_already_is_got_without_a_look(room: Registry[str, int]) -> None:
    room.enter("early", 3)
    assert (room.get("early"), len(room)) == (3, 1)


def test_a_name_is_taken_once() -> None:
    pairs: Registry[tuple[str, str], int] = Registry("variant", "nowhere")
    pairs.enter(("spmv", "ell"), 1)
    with pytest.raises(ValueError, match="variant 'spmv ell' is registered twice"):
        pairs.enter(("spmv", "ell"), 2)


def test_registries_are_written_once() -> None:
    package = Path(__file__).parents[1] / "spgraph_bench"
    homes = [p.name for p in package.rglob("*.py") if "registered twice" in p.read_text(encoding="utf-8")]
    assert homes == ["registry.py"]
