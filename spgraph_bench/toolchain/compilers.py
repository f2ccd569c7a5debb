"""Running compilers: which one it is, and the first error in what it prints."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shlex
import shutil
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from spgraph_bench.errors import CompileError
from spgraph_bench.toolchain.modules import Request, build
from spgraph_bench.toolchain.sources import source_place

__all__ = ["Diagnostic", "compiler_identity", "first_error", "run_compiler"]

_identities: dict[str, str] = {}
COMPILE_SECONDS = 300.0
"""A compiler that takes longer hangs: the slowest kernel takes a tenth of it on one core."""
_FULL = os.strerror(errno.ENOSPC)


def compiler_identity(command: str) -> str:
    """Which compiler `command` ("g++", "ccache g++", "/opt/cuda/bin/nvcc") is: its paths and ``--version``.

    The version is remembered on disk, keyed by the executables' paths, sizes and modification times: a warm
    start spawns no compiler. Raises CompileError when there is no such program or it does not answer.
    """
    if command in _identities:
        return _identities[command]
    words = shlex.split(command)
    stamps = []
    for word in words:
        if not word.startswith("-") and (program := shutil.which(word)):
            real = os.path.realpath(program)
            status = os.stat(real)
            stamps.append(f"{program} {real} {status.st_size} {status.st_mtime_ns}")
    if not words or not shutil.which(words[0]):
        raise CompileError(f"there is no compiler {command!r}", remedy="install it, or put it on PATH")

    def ask() -> str:
        try:
            answer = subprocess.run(
                [*words, "--version"], capture_output=True, text=True, timeout=60, check=True, env=_environment()
            )
        except (OSError, subprocess.SubprocessError) as error:
            status = getattr(error, "returncode", None)
            why = error if status is None else f"exit status {status}"
            raise CompileError(
                f"{command} --version does not answer: {why}",
                remedy="fix it, or name another one: CXX for C++, CUDA_HOME for nvcc",
            ) from error
        return "\n".join([*stamps, answer.stdout.strip()])

    def keep(target: Path) -> None:
        target.write_text(ask())

    try:
        identity = build(Request(("compiler", command, *stamps), keep, ".version")).read_text()
    except CompileError as error:
        if not isinstance(error.__cause__, OSError):
            raise
        identity = ask()  # a cache that cannot be written: the compile will report it
    _identities[command] = identity
    return identity


def _environment() -> dict[str, str]:
    # C locale: the parsers below know the English words only. A preloaded sanitizer is for us, not for nvcc.
    env = {**os.environ, "LC_ALL": "C"}
    env.pop("LD_PRELOAD", None)
    return env


@dataclass(frozen=True)
class Diagnostic:
    """A compiler's first error."""

    file: str | None
    line: int | None
    text: str


_ERRORS = (
    # g++, clang++:  file:12:5: error: text
    re.compile(r"^(?P<file>[^\s:][^:\n]*):(?P<line>\d+):(?:\d+:)? (?:fatal )?error: (?P<text>.+)$", re.M),
    # nvcc, cicc, NVRTC:  file(12): error: text,  file(12): error #20014-D: text
    re.compile(r"^(?P<file>[^\s(][^(\n]*)\((?P<line>\d+)\): (?:catastrophic )?error(?: #[\w-]+)?: (?P<text>.+)$", re.M),
)
_PLACELESS = re.compile(
    r"^(?:ptxas|nvlink|nvcc|cicc|fatbinary|[^\s:]*(?:ld|g\+\+|gcc|clang|cc1plus|collect2)(?:-[\d.]+)?)(?=[\s:])"
    r"[^\n]*?(?:fatal error|fatal|error)\s*: (?P<text>.+)$|"
    r"^[^\n]*?(?P<undefined>undefined reference to .+)$",
    re.M,
)


def first_error(log: str) -> Diagnostic | None:
    """The first error in the output of g++, clang++, nvcc, NVRTC, ptxas or a linker, or None."""
    hits = [match for pattern in _ERRORS if (match := pattern.search(log))]
    if hits:
        hit = min(hits, key=lambda match: match.start())
        return Diagnostic(hit["file"], int(hit["line"]), hit["text"].strip())
    if loose := _PLACELESS.search(log):
        return Diagnostic(None, None, (loose["text"] or loose["undefined"]).strip())
    return None


def _kill_tree(pid: int) -> None:
    """End a process and all that it started: a compiler is a program that runs others."""
    with contextlib.suppress(OSError, ValueError):
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            _kill_tree(int(child))
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def run_compiler(command: Sequence[str | Path], source: str, cwd: Path | None = None) -> str:
    """Run a compiler and return its log; `source` ("spmv/x.cu") is the place of errors that have none.

    Raises CompileError whose cause is the first error and whose place is its ``file:line``.
    """
    words = [str(word) for word in command]
    try:
        with subprocess.Popen(
            words,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=_environment(),
        ) as process:
            try:
                log = process.communicate(timeout=COMPILE_SECONDS)[0].strip()
            except BaseException as error:
                _kill_tree(process.pid)
                if isinstance(error, subprocess.TimeoutExpired):
                    raise CompileError(
                        f"{Path(words[0]).name} was ended after {COMPILE_SECONDS:g} s without a result",
                        place=source,
                        remedy="try it by hand; CXX names another compiler for C++, CUDA_HOME one for CUDA",
                    ) from None
                raise
    except OSError as error:
        raise CompileError(f"cannot run {words[0]}: {error.strerror}", place=source) from error
    if process.returncode == 0:
        return log
    program = Path(words[0]).name
    if _FULL in log:  # the linker says it, and then that it failed
        raise CompileError(f"{program}: {_FULL}", place=source, remedy="make room in SPGRAPH_CACHE and TMPDIR")
    first = first_error(log)
    if first is None:
        ended = f"killed by signal {-process.returncode}" if process.returncode < 0 else f"status {process.returncode}"
        last = log.splitlines()[-1] if log else "no output"
        raise CompileError(f"{program} failed ({ended}): {last}", place=source)
    raise CompileError(f"{program}: {first.text}", place=source_place(first.file, first.line) if first.file else source)
