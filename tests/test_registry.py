"""A registry imports its package at the first look, with the packages in it, and refuses a name twice."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from spgraph_bench.errors import UsageError
from spgraph_bench.registry import Registry
from spgraph_bench.variants import base, variants
from spgraph_bench.variants.plugins import load_files

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
    monkeypatch.setitem(sys.modules, "spgraph_registry_of_test", module)
    for name in [name for name in sys.modules if name.startswith("room_of_test")]:  # of the test before
        monkeypatch.delitem(sys.modules, name)
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


def test_a_thread_waits_until_another_has_filled_it(room: Registry[str, int], tmp_path: Path) -> None:
    slow = tmp_path / "room_of_test" / "one.py"
    slow.write_text(f"import time\n{HOST}time.sleep(0.2)\nROOM.enter('one', 1)\n")
    with ThreadPoolExecutor(4) as pool:
        assert [len(seen) for seen in pool.map(lambda _: dict(room.entries()), range(4))] == [3] * 4


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


_HEAD = "import os, time\nfrom spgraph_bench.variants import get_variant, variant\n"
_VARIANT = "@variant('spmv', 'mine', format='csr', library='l', where='cpu', about='a')\ndef f(job): ...\n"


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ("get_variant('spmv', 'no-such')\n", "no-such"),
        ("time.perf_counter_ns = lambda: 0\n", "it replaces time.perf_counter_ns"),
        (_VARIANT.replace("'spmv'", "'spam'"), "no problem is called 'spam'"),
        (_VARIANT.replace("'csr'", "'spam'"), "no format is called 'spam'"),
        (_VARIANT.replace("'cpu'", "'tpu'"), "where is 'tpu', not gpu or cpu"),
        (_VARIANT.replace("'mine'", "'my own\\x1b[31m'"), "a name has up to 80 letters"),
        (_VARIANT.replace("'a')", "'a\\nb')"), "not a line of text"),
        (_VARIANT.replace("'a')", "'a', tunables={'block': 5})"), "its tunable 'block' is 5, not a Parameter"),
    ],
)
def test_a_plugin_that_cannot_be_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: str, reason: str
) -> None:
    plugin = tmp_path / "mine.py"
    plugin.write_text(_HEAD + lines)
    monkeypatch.setenv("SPGRAPH_PLUGINS", str(plugin))
    with pytest.raises(UsageError) as error:
        load_files()
    assert reason in str(error.value)
    assert str(error.value).startswith(str(plugin))
    assert len(str(error.value).splitlines()) == 2


def test_a_plugin_prints_to_stderr_and_leaves_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    plugin = tmp_path / "mine.py"
    plugin.write_text(f"{_HEAD}print('hello')\nos.chdir('/')\n")
    monkeypatch.setenv("SPGRAPH_PLUGINS", str(plugin))
    folder = Path.cwd()
    load_files()
    assert Path.cwd() == folder
    assert capfd.readouterr() == ("", "hello\n")


def test_a_plug_in_that_fails_is_to_blame_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a notebook, say. The second time the file before it was: what it brings was there."""
    good, bad = tmp_path / "good.py", tmp_path / "bad.py"
    good.write_text(
        "from spgraph_bench.variants import variant\n"
        "@variant('spmv', 'brought', format='csr', library='x', where='cpu', about='x')\n"
        "def brought(job): ...\n"
    )
    bad.write_text("raise RuntimeError('boom')\n")
    known = variants("spmv")
    monkeypatch.setenv("SPGRAPH_PLUGINS", f"{good}:{bad}")
    for _ in range(2):
        with pytest.raises(UsageError, match="boom"):
            base._load_others()
    assert variants("spmv") == known
