"""No control character of what is read reaches a terminal, and messages stay short."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest
from commands import in_a_terminal

from spgraph_bench.cli.main import run
from spgraph_bench.errors import InputError
from spgraph_bench.printable import json_printable, message, printable

ROOT = Path(__file__).resolve().parent.parent
NASTY = "a\x1b]0;title\x07b\x9b31mc\u202edrow\x7f\udc80"


def test_what_does_not_print_is_an_escape() -> None:
    assert printable(NASTY) == r"a\x1b]0;title\x07b\x9b31mc\u202edrow\x7f\udc80"
    assert printable("naïve 行列 é\n\tx") == "naïve 行列 é\n\tx"


def test_json_keeps_its_values() -> None:
    text = json.dumps({NASTY: "x"}, ensure_ascii=False)
    shown = json_printable(text)
    assert json.loads(shown) == json.loads(text)
    assert all(c.isprintable() for c in shown)


@pytest.mark.parametrize("place", ["x" * 5000 + "/name.mtx:12", "a\nb.mtx:12", NASTY + ":12"])
def test_messages_are_two_lines_of_200_characters(place: str) -> None:
    error = InputError("the\ncause " + "y" * 500 + " its end", remedy="the\nremedy" + "z" * 500, place=place)
    shown = message(f"error: {error}")
    lines = shown.split("\n")
    assert len(lines) == 2
    assert max(map(len, lines)) <= 200
    assert lines[0].startswith("error: ")
    assert ":12: the cause" in lines[0]
    assert lines[0].endswith("its end")
    assert lines[1].startswith("  remedy: the remedy")
    assert all(c.isprintable() for line in lines for c in line)
    assert message("a\nb\nc") == "a\nb"


ONE = ("--variant", "csr-scalar", "--no-save")
EVIL = "\x1b]2;owned\x07\x9b1m\u202e"


@pytest.fixture
def nasty_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / f"m{EVIL}.mtx").write_text("%%MatrixMarket matrix coordinate real general\n3 3 2\n1 1 5\n3 2 7\n")
    (tmp_path / f"bad{EVIL}.mtx").write_text(f"%%MatrixMarket matrix coordinate real {EVIL}\n3 3 1\n1 1 1\n")
    return tmp_path


def _escaped(text: str) -> bool:
    raw = [c for c in ("\x1b]", "\x07", "\x9b", "\u202e") if c in text]
    return not raw and (r"\x1b" in text or r"\u001b" in text)


@pytest.mark.parametrize(
    "args", [("info", f"m{EVIL}.mtx"), ("bench", "spmv", f"m{EVIL}.mtx", "--device", "host", *ONE)]
)
def test_nothing_of_an_input_reaches_a_terminal_raw(args: tuple[str, ...], nasty_files: Path) -> None:
    code, text = in_a_terminal(*args, cwd=nasty_files)
    assert code == 0, text
    assert _escaped(text), text


@pytest.mark.parametrize(
    "args",
    [
        ("info", f"no{EVIL}such.mtx"),
        ("info", f"bad{EVIL}.mtx"),
        ("info", f"rmat:scale={EVIL}"),
        ("bench", f"sp{EVIL}"),
        ("bench", "spmv", "--device", "host", "--variant", f"x{EVIL}"),
        (f"x{EVIL}",),
        ("list", f"x{EVIL}"),
        ("show", f"x{EVIL}"),
    ],
)
def test_nothing_of_a_command_line_comes_back_raw(
    args: tuple[str, ...], nasty_files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(list(args)) == 2
    assert _escaped(text := capsys.readouterr().err), text


def test_json_of_an_input_is_escaped(nasty_files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["info", f"m{EVIL}.mtx", "--json"]) == 0
    assert _escaped(text := capsys.readouterr().out)
    assert f"m{EVIL}" in json.loads(text)["matrix"].values()


def test_a_compilers_message_is_escaped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = tmp_path / "g++"
    compiler.write_text(
        "#!/bin/sh\ncase $1 in --version) echo 1.0; exit;; esac\n"
        "printf 'x.cu:1:1: error: \\033]2;owned\\007 wrong\\n' >&2; exit 1\n"
    )
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    monkeypatch.setenv("SPGRAPH_CACHE", str(tmp_path / "cache"))
    bench = ("bench", "spmv", "grid:n=4", "--device", "host", "--variant", "csr-scalar", "--no-save")
    code, text = in_a_terminal(*bench, cwd=tmp_path)
    assert code == 1, text
    assert r"\x1b]2;owned\x07" in text
    assert "\x1b]2" not in text


def test_the_command_prints_by_the_terminals_functions_only() -> None:
    """``click.echo`` is for text that was made printable: each call with what it is given."""
    safe = {
        "cli/terminal.py": {
            "message(without_home(text))",
            "printable(text)",
            "json_printable(json.dumps(value, indent=indent, default=str))",
        },
        "cli/report.py": {"data"},  # report.export and report.page clean each text
        "cli/main.py": {"error.format_message()"},  # the help, when there are no arguments
    }
    makes_printable = (
        "comparison_table",
        "render_result",
        "render_trace",
        "render_tuning",
        "to_json_lines",
        "histogram",
        "spy",
    )
    for path in (ROOT / "spgraph_bench" / "cli").glob("*.py"):
        allowed = safe.get(f"cli/{path.name}", set())
        source = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("click.echo", "print"):
                what = ast.unparse(node.args[0])
                named = what.startswith(makes_printable) or what in ("text", "f'\\n{text}'")
                assert what in allowed or named, f"{path.name}:{node.lineno}: {what}"
