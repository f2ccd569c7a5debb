"""Shared options, and the way from FILE|RECIPE to a matrix."""

from __future__ import annotations

import ast
import io
import os
import re
import time
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result
from commands import spgraph

from spgraph_bench.cli import inputs
from spgraph_bench.cli.inputs import load_matrix, progress_on_stderr
from spgraph_bench.cli.options import (
    RunOptions,
    input_options,
    matrix_argument,
    parameters_of,
    read_options_of,
    run_options_of,
    run_parameters,
)
from spgraph_bench.cli.terminal import console
from spgraph_bench.errors import InputError, UsageError
from spgraph_bench.problems import get_problem, problems
from spgraph_bench.readers import ReadOptions
from spgraph_bench.variants import select

ROOT = Path(__file__).resolve().parent.parent
_ERRORS = ("InputError", "UsageError", "DeviceError", "data.error")

SMALL = "%%MatrixMarket matrix coordinate real general\n2 3 2\n1 1 1.5\n2 3 -2\n"


@pytest.fixture
def parsed() -> Any:
    """Parse arguments as a command with all shared options would; gives (argument, run, read)."""
    taken: list[Any] = []

    running = run_parameters(("float32", "float64"))
    reading = [p for p in parameters_of(input_options) if p.name not in {r.name for r in running}]

    def callback(argument: str | None, **given: Any) -> None:
        taken[:] = [argument, run_options_of(given), read_options_of(given)]

    command = click.Command("all", params=[*parameters_of(matrix_argument), *running, *reading], callback=callback)

    def parse(*args: str) -> Any:
        result: Result = CliRunner().invoke(command, args)
        return taken if result.exit_code == 0 else result

    return parse


@pytest.mark.parametrize(("columns", "width"), [("60", 60), ("0", 100), ("-5", 100), ("wide", 100), ("", 100)])
def test_width_of_tables_that_go_to_no_terminal(columns: str, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setattr("sys.stdout", io.StringIO())
    monkeypatch.setattr("os.get_terminal_size", lambda fd: os.terminal_size((0, 0)))
    assert console().width == width


@pytest.mark.parametrize(
    "arguments",
    [
        ("bfs", "chain:n=4", "--results", ""),
        ("spmv", "chain:n=4", "--output", ""),
        ("report", ""),
        ("sweep", "chain:n=4", "-o", ""),
        ("compare", "a.jsonl", ""),
    ],
)
def test_an_empty_path_is_not_the_current_folder(arguments: tuple[str, ...]) -> None:
    done = spgraph(*arguments)
    assert done.returncode == 2
    assert "it is empty; name a file or folder." in done.stderr


@pytest.mark.parametrize("problem", problems())
def test_the_example_of_help_names_variants(problem: str) -> None:
    shown = spgraph("bench", problem, "--help").stdout
    if (example := re.search(r"--variant '(.*)'", shown)) is not None:
        assert select(problem, [example[1]])
    else:
        assert not get_problem(problem).needs_matrix


def test_every_error_of_a_user_has_a_remedy() -> None:
    without = []
    for path in sorted((ROOT / "spgraph_bench").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or ast.unparse(node.func) not in _ERRORS:
                continue
            if not any(keyword.arg in ("remedy", None) for keyword in node.keywords):
                without.append(f"{path.name}:{node.lineno}: {ast.unparse(node)}")
    assert without == []


def test_defaults_are_those_of_the_types(parsed: Any) -> None:
    assert parsed() == [None, RunOptions(), ReadOptions()]


def test_every_option_arrives(parsed: Any) -> None:
    argument, run, read = parsed(
        "a.mtx",
        "--variant",
        "csr-*",
        "--variant",
        "ell",
        "--format",
        "c*",
        "--dtype",
        "both",
        "--device",
        "CUDA:3",
        "--time-limit",
        "0.5",
        "--min-samples",
        "7",
        "--warmup",
        "2",
        "--json",
        "--no-save",
        "--results",
        "r",
        "--seed",
        "9",
        "--param",
        "block=128",
        "--param",
        "alpha=1.5",
        "--param",
        "mode=fast",
        "--force-format",
        "--in-process",
        "--watchdog",
        "7",
        "--limits",
        "t4",
        "--baseline-seconds",
        "3",
        "--input-format",
        "matrix-market",
        "--base",
        "0",
        "--symmetrize",
        "--duplicates",
        "first",
        "--drop-zeros",
        "--values",
        "random",
        "--relabel",
        "--part",
        "abs",
        "--weight-column",
        "4",
        "--bipartite",
    )
    assert argument == "a.mtx"
    assert run == RunOptions(
        ("csr-*", "ell"),
        ("c*",),
        ("float32", "float64"),
        "cuda:3",
        0.5,
        7,
        2,
        True,
        False,
        Path("r"),
        9,
        {"block": "128", "alpha": "1.5", "mode": "fast"},
        True,
        True,
        7.0,
        "T4",
        3.0,
    )
    assert read == ReadOptions("matrix-market", 0, True, "first", "sum", True, "random", 9, True, 4, True, "abs")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--device", "gpu"], "'gpu' is not one of auto, host, cuda, cuda:N"),
        (["--device", "cuda:-1"], "not one of"),
        (["--param", "block"], "'block' is not NAME=VALUE"),
        (["--param", "=3"], "not NAME=VALUE"),
        (["--param", "a=1", "--param", "a=2"], "a is given twice"),
        (["--time-limit", "nan"], "not a number above 0"),
        (["--time-limit", "inf"], "not a number above 0"),
        (["--time-limit", "0"], "not a number above 0"),
        (["--watchdog", "-1"], "not a number above 0"),
        (["--seed", "-1"], "not in 0.."),
        (["--dtype", "int8"], "float32"),
        (["--base", "2"], "'0', '1'"),
    ],
)
def test_wrong_values_are_usage(parsed: Any, args: list[str], message: str) -> None:
    result = parsed(*args)
    assert isinstance(result, Result), "it was accepted"
    assert result.exit_code == 2
    assert message in result.output


def test_file(tmp_path: Path) -> None:
    path = tmp_path / "a.mtx"
    path.write_text(SMALL)
    matrix = load_matrix(str(path), ReadOptions(), "chain:n=3")
    assert matrix.csr.shape == (2, 3)


def test_default_recipe_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert load_matrix(None, ReadOptions(), "chain:n=3").csr.rows == 3
    assert "no file given: using the recipe chain:n=3" in capsys.readouterr().err


def test_recipe_and_a_file_of_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert load_matrix("chain:n=4", ReadOptions(seed=5), "chain").csr.rows == 4
    Path("chain:n=4").write_text(SMALL)
    assert load_matrix("chain:n=4", ReadOptions(), "chain").csr.rows == 2


def test_options_of_reading_do_not_reach_a_recipe() -> None:
    with pytest.raises(UsageError, match="do not apply to the recipe chain"):
        load_matrix("chain:n=4", ReadOptions(symmetrize=True), "chain")


@pytest.mark.parametrize(
    ("argument", "remedy"),
    [
        ("poisonn2d:n=4", "poisson2d"),
        ("matrix.mtz", "matrix.mtx"),
        ("nothing/like/it", "spgraph list recipes"),
        ("", "spgraph list recipes"),
    ],
)
def test_neither_file_nor_recipe(argument: str, remedy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("matrix.mtx").write_text(SMALL)
    with pytest.raises(InputError) as caught:
        load_matrix(argument, ReadOptions(), "chain")
    assert remedy in str(caught.value.remedy)


def test_progress_is_one_plain_line_and_only_when_slow(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with progress_on_stderr("reading a.mtx") as progress:
        progress("parsing", 0.1)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(inputs, "_QUIET_SECONDS", 0.0)
    with progress_on_stderr("reading a.mtx") as progress:
        time.sleep(0.01)
        progress("parsing", 0.1)
        progress("parsing", 0.2)
    assert capsys.readouterr().err == "reading a.mtx ...\n"


def test_progress_in_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("sys.stderr", terminal := Terminal())
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(inputs, "_QUIET_SECONDS", 0.0)
    with progress_on_stderr("reading a.mtx") as progress:
        time.sleep(0.01)
        progress("sorting [x]", None)
        progress("sorting [x]", 0.5)
    assert "reading a.mtx: sorting [x]" in terminal.getvalue()
