"""`spgraph`: the group of commands, and the one place where an exception becomes an exit status.

Each command is a module of this package with a click command called ``command``; it is imported when it is
called. Exit status: 0 success; 1 a variant was wrong or failed, or nothing ran; 2 usage or unreadable
input; 3 no such device; 4 internal error; 130 interrupted; 141 the reader of stdout went away.
"""

from __future__ import annotations

import contextlib
import difflib
import errno
import importlib
import io
import os
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import click

from spgraph_bench import __version__
from spgraph_bench.cli.terminal import say
from spgraph_bench.errors import ISSUES, DeviceError, SpgraphError, UsageError

__all__ = ["COMMANDS", "group", "main", "run"]

COMMANDS = {
    "bench": "Check and time every fitting variant on one matrix: one table.",
    "spmv": "Sparse matrix times vector: y = A x for your A and x, checked, and its rate.",
    "spmm": "Sparse matrix times dense matrix: Y = A X, checked, and its rate.",
    "bfs": "Breadth-first search: one mode, its rate, its levels, tuning.",
    "bc": "Betweenness centrality: the vertices that most shortest paths pass.",
    "cc": "Connected components and the sizes of the largest.",
    "sssp": "Shortest paths from a vertex: one mode, its rate.",
    "pagerank": "PageRank: one mode, its result, its convergence.",
    "sweep": "Many matrices x problems x variants x types into one file, resumable.",
    "compare": "What became faster or slower between two sets of records: a verdict for CI.",
    "report": "Records as a page, or as CSV, Markdown, LaTeX or Parquet.",
    "claims": "What is taught about these kernels, measured again on this device: said, measured, verdict, why.",
    "smoke": "Check that everything works on this machine: every kernel, on small inputs. For CI.",
    "advise": "Which format and kernel, or mode, to take: predicted, then measured, in three sentences.",
    "info": "Statistics of a matrix, its picture, and its bytes in every format.",
    "formats": "Cost of every format on one matrix: bytes, padding, coalescing, divergence, atomics, conversion.",
    "list": "Problems, formats, variants, recipes, readers and configs.",
    "show": "A variant, format, problem or recipe explained; a matrix in a format.",
    "profile": "What each line of a kernel asks memory for, beside its source; no GPU is needed.",
    "fetch": "Get matrices from the SuiteSparse collection, SNAP or KONECT.",
    "convert": "Write a matrix or graph in another format.",
    "generate": "Write the matrix of a recipe to a file.",
    "doctor": "Show what this machine has, what is missing, and how to fix it.",
}
"""Command name -> its line in the help. Kept here, so that the help imports no command."""

_MODULES = {"list": "listing"}  # where the module is not called like the command
_SOLVERS = ("spmv", "spmm", "bfs", "bc", "cc", "sssp", "pagerank")
"""Commands that are made from a problem; a test holds them to the problems with an answer for each vertex."""


class _Group(click.Group):
    """A group that imports a command when it is called, not before."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        if name in _SOLVERS:
            from spgraph_bench.cli.solve import command_for

            return command_for(name)
        module = importlib.import_module(f"spgraph_bench.cli.{_MODULES.get(name, name)}")
        command = module.command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            from spgraph_bench.problems import problems

            if name in problems():
                raise UsageError(f"{name} is a problem, not a command", remedy=f"`spgraph bench {name}`")
            close = difflib.get_close_matches(name, COMMANDS, n=2, cutoff=0.5)
            hint = f" Did you mean {' or '.join(close)}?" if close else ""
            raise click.UsageError(f"No such command '{name}'.{hint}", ctx)
        resolved = super().resolve_command(ctx, args)
        if resolved[1] is not None and _runs_on_a_device(resolved[1], args):
            if sys.platform != "linux":
                say(f"warning: spgraph is tested on Linux only, and this is {sys.platform}")
            from spgraph_bench.runner.worker import start_spare

            start_spare()
        return resolved

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def _runs_on_a_device(command: click.Command, args: Sequence[str]) -> bool:
    """Whether `command` will want a worker process: it may run on a device, and --in-process is not given."""
    may = getattr(command, "runs_on_a_device", False) or any(p.name == "in_process" for p in command.params)
    return may and not {"--in-process", "--help", "-h"} & set(args)


@click.command(
    cls=_Group,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit status: 0 success; 1 a variant was wrong or failed, or nothing ran; 2 usage or unreadable "
    "input; 3 no such device; 4 internal error; 130 interrupted.",
)
@click.version_option(__version__, prog_name="spgraph")
def group() -> None:
    """Which sparse format, kernel or traversal is fastest for your own matrix on an NVIDIA GPU."""


def _complete_shell() -> int | None:
    """Answer a shell's request for completions (bash, zsh and fish set _SPGRAPH_COMPLETE), if it is one."""
    instruction = os.environ.get("_SPGRAPH_COMPLETE")
    if not instruction:
        return None
    from click.shell_completion import shell_complete

    return shell_complete(group, {}, "spgraph", "_SPGRAPH_COMPLETE", instruction)


def _unsupported(kind: str) -> str | None:
    """Why spgraph does not run on this kind of system (``os.name``), or None."""
    return None if kind == "posix" else f"spgraph needs a POSIX system, best Linux; this is {sys.platform}"


def _save_traceback(text: str) -> str:
    """Where the traceback `text` was kept, or why it could not be."""
    from spgraph_bench.paths import cache_dir
    from spgraph_bench.privacy import without_names

    name = f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.txt"
    for cached in (True, False):
        try:
            # A folder of our own in /tmp: a name that can be guessed there may be another user's link.
            path = (cache_dir("tracebacks") if cached else Path(tempfile.mkdtemp(prefix="spgraph-"))) / name
            path.touch(0o600, exist_ok=False)
            about = f"spgraph {__version__}, Python {sys.version}\n{sys.argv}\n\n{text}"
            path.write_text(without_names(about), errors="backslashreplace")
        except (OSError, SpgraphError):
            continue
        return f"traceback in {path}"
    return "the traceback could not be saved"


def _ready_streams() -> None:
    """Streams that can be written: a closed one swallows; characters that the encoding cannot write are escaped."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by the parent (>&-)
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        elif isinstance(stream, io.TextIOWrapper):
            whole = stream.errors == "surrogateescape" and stream.encoding.lower() in ("utf-8", "utf8")
            if not whole and stream.errors in ("strict", "surrogateescape"):
                stream.reconfigure(errors="backslashreplace")


def _close_stdout() -> None:
    # Python flushes stdout once more at exit and would complain about the pipe that is gone.
    with contextlib.suppress(OSError, ValueError):  # a stream without a file, in tests
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)


_NO_ARGUMENTS: Any = getattr(click.exceptions, "NoArgsIsHelpError", ())  # of click 8.2 and later
_NEEDED = ("numpy", "scipy", "rich", "filelock")
"""Packages without which commands cannot do, imported when they are wanted."""

_OF_THE_MACHINE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EMFILE, errno.ENFILE}
"""What an OSError without a file name says where the machine, not spgraph, is the cause."""


def run(args: Sequence[str] | None = None) -> int:
    """Run one command line (default: sys.argv) and return its exit status; never raises."""
    arguments = list(sys.argv[1:] if args is None else args)
    try:
        _ready_streams()
        if (completed := _complete_shell()) is not None:
            return completed
        if (why := _unsupported(os.name)) is not None:
            raise DeviceError(why, remedy="use Linux: a machine, a container, or WSL 2 (docs/commands.md)")
        with group.make_context("spgraph", arguments) as context:
            status = group.invoke(context)
        sys.stdout.flush()
        return status if isinstance(status, int) else 0
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.ClickException as error:
        if isinstance(error, _NO_ARGUMENTS):
            click.echo(error.format_message(), err=True)  # which is the help
        else:
            command = _told_by(error, arguments)
            what = " ".join(error.format_message().splitlines())
            say(f"error: {what}\n  remedy: `{command} --help` shows its options")
        return 2
    except SpgraphError as error:
        say(f"error: {error}")
        return error.exit_status
    except (KeyboardInterrupt, click.Abort):
        say("interrupted")
        return 130
    except BrokenPipeError:
        _close_stdout()
        return 141
    except MemoryError as error:
        say(f"error: not enough memory: {error or 'an allocation failed'}\n  remedy: use a smaller input")
        return 2
    except OSError as error:
        # A full disk, a read-only folder, a quota: the machine's state, not an error in spgraph.
        if error.filename is None and error.errno in _OF_THE_MACHINE:
            _close_stdout()
            say(f"error: cannot write: {error.strerror}\n  remedy: free disk space for the output")
            return 2
        if error.filename is None or isinstance(error, FileNotFoundError):
            return _internal(error)
        say(f"error: {error.filename}: {error.strerror}\n  remedy: look at this path, its folder and who may use them")
        return 2
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in _NEEDED:
            return _internal(error)
        say(f"error: the package {package} is missing\n  remedy: pip install {package}")
        return 2
    except Exception as error:  # the last line of defence: a traceback never reaches a user
        return _internal(error)
    finally:
        if worker := sys.modules.get("spgraph_bench.runner.worker"):
            worker.drop_spare()


def _told_by(error: click.ClickException, arguments: Sequence[str]) -> str:
    """The command that `error` is about, "spgraph bench spmv"; of some of a parser's errors click does not say."""
    if isinstance(error, click.UsageError) and error.ctx is not None:
        return error.ctx.command_path
    words = ["spgraph", *(name for name in arguments[:1] if name in COMMANDS)]
    if words[1:] == ["bench"]:
        from spgraph_bench.problems import problems

        words += [name for name in arguments[1:2] if name in problems()]
    return " ".join(words)


def _came_of_an_interrupt(error: BaseException | None) -> bool:
    """Whether `error` is what a library made of a KeyboardInterrupt (RuntimeError, by a class being made)."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def _internal(error: Exception) -> int:
    if _came_of_an_interrupt(error):
        say("interrupted")
        return 130
    where = _save_traceback("".join(traceback.format_exception(error)))
    first = (str(error).splitlines() or [""])[0]
    say(f"internal error: {type(error).__name__}: {first[:60]} ({where})\n  remedy: report it at {ISSUES}")
    return 4


def _interrupt(number: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt


def main() -> NoReturn:
    """Entry point of the `spgraph` command."""
    # As after Ctrl-C, what is finished is shown and arrays in shared memory are given back.
    signal.signal(signal.SIGTERM, _interrupt)
    if not sys.warnoptions:  # what a library warns of is not for users: paths of its sources, lines of its code
        warnings.simplefilter("ignore")
    try:
        status = run()
    except KeyboardInterrupt:  # a second one, while the first was dealt with
        status = 130
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # nothing but the end is left
    if status == 130:
        # Where the interrupt met a text being executed (a dataclass being made), Python remembers it, whatever
        # caught it, and would end by that signal instead of with a status.
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(status)
    sys.exit(status)
