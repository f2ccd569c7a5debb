"""The frame of the command line: exit statuses, suggestions, what goes where."""

from __future__ import annotations

import importlib
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from spgraph_bench import __version__, errors
from spgraph_bench.cli.main import COMMANDS, group, run

main_module = importlib.import_module("spgraph_bench.cli.main")  # the package's own `main` is the function
ROOT = Path(__file__).resolve().parent.parent


def spgraph(*args: str, **more: Any) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **more.pop("env", {})}
    return subprocess.run(
        [sys.executable, "-m", "spgraph_bench", *args],
        capture_output=True,
        text=True,
        timeout=60,
        env=environment,
        **more,
    )


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Make `spgraph list` raise the exception that is given."""
    monkeypatch.setenv("SPGRAPH_CACHE", str(tmp_path / "cache"))

    def arrange(exception: BaseException) -> None:
        @click.command("list")
        def failing() -> None:
            raise exception

        monkeypatch.setattr(main_module._Group, "get_command", lambda self, ctx, name: failing)

    return arrange


def test_every_command_is_a_module_with_a_command() -> None:
    context = click.Context(group)
    for name in COMMANDS:
        command = group.get_command(context, name)
        assert isinstance(command, click.Command)
        assert command.name == name
        assert "[FILE|RECIPE]" in command.get_help(context) or command.help


def test_version() -> None:
    done = spgraph("--version")
    assert (done.returncode, done.stdout) == (0, f"spgraph, version {__version__}\n")


def test_help_is_fast() -> None:
    best = 9.0
    for _ in range(5):  # the best of five, in CPU time: other processes share the machine
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = spgraph("--help")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        best = min(best, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert done.returncode == 0
    assert all(name in done.stdout for name in COMMANDS)
    assert best < 0.3


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["ben"], "Did you mean bench?"),
        (["zzz"], "No such command 'zzz'."),
        (["bezier"], "remedy: `spgraph bench bezier`"),
        (["--nonsense"], "No such option"),
        (["list", "formts"], "formts"),
        (["show"], "Missing argument"),
        (["show", "csr-vecor"], "did you mean csr-vector"),
        (["show", "csr-vector", "--problem", "nope"], "no problem is called 'nope'"),
    ],
)
def test_usage_is_status_2(args: list[str], message: str) -> None:
    done = spgraph(*args)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr


def _wrapped(cause: BaseException) -> Exception:
    """As Python 3.11 hands on what was raised while a class is made."""
    error = RuntimeError("Error calling __set_name__ on 'Field' instance")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("exception", "status", "message"),
    [
        (
            errors.InputError("bad index", place="a.mtx:7", remedy="--base 1"),
            2,
            "error: a.mtx:7: bad index\n  remedy: --base 1\n",
        ),
        (errors.UsageError("no"), 2, "error: no\n"),
        (errors.NothingRanError("nothing ran"), 1, "error: nothing ran\n"),
        (errors.DeviceError("no GPU"), 3, "error: no GPU\n"),
        (errors.LaunchError("lost"), 1, "error: lost\n"),
        (KeyboardInterrupt(), 130, "interrupted\n"),
        (_wrapped(KeyboardInterrupt()), 130, "interrupted\n"),
        (click.Abort(), 130, "interrupted\n"),
        (MemoryError("cannot have 3 TiB"), 2, "error: not enough memory: cannot have 3 TiB\n"),
        (
            OSError(28, "No space left on device", "results/x.jsonl"),
            2,
            "error: results/x.jsonl: No space left on device\n",
        ),
    ],
)
def test_exceptions_become_statuses(
    exception: BaseException, status: int, message: str, broken: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    broken(exception)
    assert run(["list"]) == status
    captured = capsys.readouterr()
    assert captured.err.startswith(message)
    assert captured.out == ""


def test_internal_error_is_two_lines_and_keeps_the_traceback(
    broken: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    broken(ZeroDivisionError("first line\nsecond line"))
    assert run(["list"]) == 4
    printed = capsys.readouterr().err
    assert printed.startswith("internal error: ZeroDivisionError: first line (traceback in ")
    assert printed.count("\n") == 2
    (saved,) = (tmp_path / "cache" / "tracebacks").iterdir()
    assert str(saved) in printed
    assert "in failing" in saved.read_text()


def test_internal_error_with_a_cache_that_cannot_be_written(
    broken: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken(ValueError("x"))
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setenv("SPGRAPH_CACHE", str(file))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert run(["list"]) == 4
    assert f"traceback in {tmp_path}" in capsys.readouterr().err
    (path,) = tmp_path.glob("spgraph-*")
    assert path.stat().st_mode & 0o777 == 0o700
    assert [p.stat().st_mode & 0o777 for p in path.iterdir()] == [0o600]


def test_status_of_the_command_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    @click.command("list")
    def wrong() -> int:
        return 1

    monkeypatch.setattr(main_module._Group, "get_command", lambda self, ctx, name: wrong)
    assert run(["list"]) == 1


def test_reader_of_stdout_gone() -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "spgraph_bench", "list", "formats"],
            stdout=write,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            timeout=60,
        )
    finally:
        os.close(write)
    assert done.returncode == 141
    assert done.stderr == ""


def test_completion_for_shells() -> None:
    environment = {"_SPGRAPH_COMPLETE": "bash_complete", "COMP_WORDS": "spgraph li", "COMP_CWORD": "1"}
    assert "plain,list" in spgraph(env=environment).stdout


def test_commands_do_without_what_only_late_versions_of_click_have() -> None:
    names = {"solve" if n in main_module._SOLVERS else main_module._MODULES.get(n, n) for n in COMMANDS}
    modules = ", ".join(f"spgraph_bench.cli.{name}" for name in names)
    code = f"import click; click.ParamType.__class_getitem__ = None; import {modules}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr


OPTIONAL = {
    "--variant",
    "--format",
    "--dtype",
    "--force-format",
    "--pending-launches",
    "--heap",
    "--offsets",
    "--reorder",
    "--transpose",
    "--hyb-k",
    "--ids",
    "--symmetrize",
}
"""Options that some problems have and some have not."""


def _options(command: click.Command | None) -> set[str]:
    assert command is not None
    return {flag for p in command.get_params(click.Context(command)) for flag in p.opts}


def test_only_options_that_work_are_offered() -> None:
    """Those of `bench PROBLEM` by what the problem is; another problem's own are not among them."""
    from spgraph_bench.problems import problems

    bench = group.get_command(click.Context(group), "bench")
    assert isinstance(bench, click.Group)
    result = {name: _options(bench.get_command(click.Context(bench), name)) for name in problems()}
    own = {name: {f"--{o.replace('_', '-')}" for o in p.options} for name, p in problems().items()}
    for name, flags in result.items():
        assert own[name] <= flags
        assert not (set().union(*own.values()) - own[name] - {"--source"}) & flags
    assert result["spmv"] & OPTIONAL == OPTIONAL - {"--ids", "--pending-launches", "--heap"}
    assert result["launch"] & OPTIONAL == {"--variant", "--pending-launches", "--heap"}
    assert result["bfs"] & OPTIONAL == {
        "--variant",
        "--format",
        "--force-format",
        "--pending-launches",
        "--heap",
        "--offsets",
        "--ids",
        "--symmetrize",
    }


def test_problems_with_an_answer_per_vertex_have_a_command() -> None:
    from spgraph_bench.cli.solve import has_answer
    from spgraph_bench.problems import problems

    solved = {name for name, problem in problems().items() if has_answer(problem)}
    assert set(main_module._SOLVERS) == solved
    context = click.Context(group)
    for name in solved:
        flags = _options(group.get_command(context, name))
        assert {"--mode", "--output"} <= flags
        assert ("--trace" in flags) == problems()[name].is_graph  # a product has no steps
        assert not {"--variant", "--format"} & flags
        assert ("--dtype" in flags) == (len(problems()[name].dtypes) > 1)


def test_bench_lists_the_problems_with_a_line_each() -> None:
    from spgraph_bench.problems import problems

    done = spgraph("bench")
    assert done.returncode == 2
    for name, problem in problems().items():
        assert f"{name} {problem.title}." in " ".join(done.stderr.split())


def test_systems_that_are_not_supported(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert main_module._unsupported("posix") is None
    monkeypatch.setattr(main_module, "_unsupported", lambda kind: "spgraph needs a POSIX system")
    assert main_module.run(["list"]) == 3
    assert "remedy: use Linux" in capsys.readouterr().err
    monkeypatch.undo()
    monkeypatch.setattr("sys.platform", "darwin")
    assert main_module.run(["bench", "spmv", "chain:n=4", "--variant", "nope", "--in-process"]) == 2
    assert "tested on Linux only" not in capsys.readouterr().err  # nothing would run in a worker
    monkeypatch.setattr("spgraph_bench.runner.worker.start_spare", lambda: None)
    assert main_module.run(["bench", "spmv", "chain:n=4", "--variant", "nope"]) == 2
    assert "tested on Linux only, and this is darwin" in capsys.readouterr().err
