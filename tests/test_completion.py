"""What a shell is offered: files everywhere an input may be, and names of recipes, variants, modes and the rest."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import BashComplete, ShellComplete, ZshComplete

from spgraph_bench.cli.main import group


def _offered(line: str, shell: type[ShellComplete] = ZshComplete) -> list[tuple[str, str]]:
    """(type, value) of what is offered at the end of `line`."""
    words = line.split(" ")
    completion = shell(group, {}, "spgraph", "_SPGRAPH_COMPLETE")
    return [(item.type, item.value) for item in completion.get_completions(words[1:-1], words[-1])]


def _values(line: str) -> list[str]:
    return [value for kind, value in _offered(line) if kind == "plain"]


INPUTS = [
    "bench spmv ",
    "spmv ",
    "bfs ",
    "info ",
    "advise ",
    "convert ",
    "convert a.mtx ",
    "profile csr-scalar ",
    "show ",
    "sweep ",
]


@pytest.mark.parametrize(
    "command", [*INPUTS, "report ", "compare ", "spmv a.mtx --output ", "generate -o ", "bfs --plot "]
)
def test_files_are_completed_by_the_shell(command: str) -> None:
    for incomplete in ("", "ma", "data/m"):
        assert ("file", incomplete) in _offered(f"spgraph {command}{incomplete}")


@pytest.mark.parametrize(
    ("line", "some", "never"),
    [
        ("bench spmv rm", {"rmat"}, {"poisson2d"}),
        ("bench spmv rmat:scale=9,", {"rmat:scale=9,edgefactor="}, {"rmat:scale=9,scale="}),
        ("bfs gri", {"grid"}, set()),
        ("bench spmv --variant csr-", {"csr-vector", "csr-scalar"}, {"sell"}),
        ("bench spmv --variant ", {"csr-vector", "dia"}, {"auto", "push"}),
        ("bench spmv --format ", {"csr", "sell"}, {"adjacency"}),
        ("bench spmv --param ", {"block="}, set()),
        ("bench spmv --param block=", {"block=256"}, set()),
        ("bench spmv --device ", {"auto", "cuda", "host"}, set()),
        ("bench spmv --input-format ma", {"matlab", "matrix-market"}, {"npz"}),
        ("bfs --mode ", {"auto"}, {"csr-vector"}),
        ("spmv --mode csr-", {"csr-adaptive"}, {"auto"}),
        ("spmv --mode a", {"auto"}, set()),
        ("bench ", {"spmv", "bfs"}, set()),
        ("show csr", {"csr-vector", "csr"}, {"sell"}),
        ("profile csr-sc", {"csr-scalar"}, set()),
        ("sweep sm", {"small"}, set()),
        ("sweep --problem s", {"spmv", "sssp"}, {"bfs"}),
        ("fe", {"fetch"}, set()),
        ("advise --problem ", {"spmv", "bfs", "pagerank"}, {"sssp"}),
        ("advise --gpu H", {"H200"}, {"A100"}),
        ("claims hy", {"hyb-csr"}, {"direction"}),
    ],
)
def test_names_are_completed(line: str, some: set[str], never: set[str]) -> None:
    values = set(_values(f"spgraph {line}"))
    assert some <= values
    assert not never & values
    assert all(value.startswith(line.rpartition(" ")[2]) for value in values)


def test_bash_is_offered_either_files_or_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It completes file names only where no word is offered."""
    monkeypatch.setenv("_SPGRAPH_COMPLETE", "bash_complete")
    monkeypatch.chdir(tmp_path)
    assert _offered("spgraph info rma", BashComplete) == [("plain", "rmat")]
    assert _offered("spgraph info ", BashComplete) == [("file", "")]
    (tmp_path / "rmatrix.mtx").touch()
    assert _offered("spgraph info rma", BashComplete) == [("file", "rma")]
    assert _offered("spgraph info xyz", BashComplete) == [("file", "xyz")]


def test_the_shell_asks_the_command() -> None:
    environment = {
        **os.environ,
        "_SPGRAPH_COMPLETE": "zsh_complete",
        "COMP_WORDS": "spgraph bfs --mode p",
        "COMP_CWORD": "3",
    }
    done = subprocess.run(
        [sys.executable, "-m", "spgraph_bench"], env=environment, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert "plain\npush" in done.stdout
