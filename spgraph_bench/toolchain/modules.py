"""The disk cache of compiled modules, shared by both devices, and what compilers say.

An entry is ``<key>.<suffix>`` with ``<key>.json`` beside it (sha256 of the artifact, compiler log, time to
compile). It appears by ``os.replace`` only, is checked against its sha256 whenever it is taken, and is built
under a lock, so that any number of processes may share the folder. Files are the user's alone (mode 0600 in
folders of 0700); those of others are refused (see :mod:`spgraph_bench.paths`).
"""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path

from spgraph_bench.cores import usable_cores
from spgraph_bench.errors import CompileError, SpgraphError
from spgraph_bench.paths import cache_dir, cache_lock, cuda_dir, private_folder, trusted

__all__ = [
    "Compiled",
    "Diagnostic",
    "Request",
    "build",
    "build_all",
    "cached",
    "compile_ms",
    "compiled",
    "compiler_identity",
    "digest",
    "first_error",
    "kernel_tokens",
    "run_compiler",
    "source_digest",
    "source_files",
    "source_place",
    "sweep",
    "token_digest",
]


@dataclass(frozen=True)
class Compiled:
    """How a module was compiled."""

    source: str
    """The ``.cu`` file below ``cuda/``; of a file of the user's own its name alone."""
    tokens: str
    """Hash of the tokens of the source with all that it includes: comments and layout do not count."""
    options: tuple[str, ...]
    """The compiler's options, ``-D`` included; paths omitted."""
    ms: float
    """How long it took, whenever that was: it is kept with the module in the disk cache."""


@dataclass(frozen=True)
class Request:
    """Something to compile, or to take from the cache.

    Parameters
    ----------
    parts : all that decides what comes out (sources' digest, options, compiler identity, architecture, ...).
    make : compiles to the path it is given and returns the compiler's log; raises CompileError.
    suffix : of the artifact, with its dot (".so", ".cubin").
    label : what progress shows, the source ("spmv/csr_vector.cu").
    """

    parts: tuple[bytes | str, ...]
    make: Callable[[Path], str | None] = field(compare=False)
    suffix: str
    label: str = ""
    options: tuple[str, ...] = field(default=(), compare=False)
    """The compiler's options for the record, ``-D`` included; no paths."""

    @property
    def key(self) -> str:
        """Its name in the cache: a sha256, in hexadecimal, of all that the result depends on."""
        return digest(*self.parts, self.suffix)


def digest(*parts: bytes | str) -> str:
    """sha256 of `parts`, each preceded by its length, so that no two lists of parts look alike."""
    total = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        total.update(len(data).to_bytes(8, "little"))
        total.update(data)
    return total.hexdigest()


# ---- sources ---------------------------------------------------------------------------------------------

_INCLUDE = re.compile(rb'^[ \t]*#[ \t]*include[ \t]*(["<])([^">\n]+)[">]', re.MULTILINE)


def source_files(path: Path, include_dirs: Sequence[Path] = ()) -> list[Path]:
    """`path` and every local header it includes, directly or not, in order of first appearance.

    A header in quotes is looked for beside the file that includes it, then, as one in angle brackets, in
    `include_dirs`. Conditionals are not evaluated: what might be included counts. Headers found in neither
    place are the compiler's own.
    """
    files: dict[Path, None] = {}
    waiting = [Path(os.path.abspath(path))]
    while waiting:
        current = waiting.pop(0)
        if current in files:
            continue
        files[current] = None
        for quote, name in _INCLUDE.findall(current.read_bytes()):
            for folder in (current.parent, *include_dirs) if quote == b'"' else include_dirs:
                header = Path(os.path.abspath(folder / os.fsdecode(name)))
                if header.is_file():
                    waiting.append(header)
                    break
    return list(files)


def source_digest(path: Path, include_dirs: Sequence[Path] = ()) -> str:
    """sha256 of `path` and of all local headers it includes; where they are installed does not matter.

    Raises CompileError when `path` cannot be read.
    """
    try:
        files = source_files(path, include_dirs)
        return digest(*(part for f in files for part in (f.name, f.read_bytes())))
    except OSError as error:
        raise CompileError(f"cannot read it: {error.strerror}", place=source_place(str(path))) from error


_TOKEN = re.compile(
    r"""
    //[^\n]* | /\*.*?\*/                                       # comments
    | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*'                  # literals
    | [A-Za-z_$][\w$]* | \.?\d(?:'?[\w.]|(?<=[eEpP])[+-])*   # names, numbers
    | <<< | >>> | <<= | >>= | \.\.\. | ->\* | :: | -> | \+\+ | -- | && | \|\| | \#\# | << | >>
    | [-+*/%&|^<>=!]=
    | \n | [^\s]
    """,
    re.VERBOSE | re.DOTALL,
)


def tokens(text: str) -> list[str]:
    """The tokens of C++ or CUDA source: comments and layout do not count, but for the end of a directive."""
    words: list[str] = []
    directive, first = False, True
    for token in _TOKEN.findall(text.replace("\\\r\n", " ").replace("\\\n", " ")):
        if token == "\n":
            if directive:
                words.append(token)
            directive, first = False, True
        elif not token.startswith(("//", "/*")):
            directive = directive or (first and token == "#")
            first = False
            words.append(token)
    return words


@functools.lru_cache(maxsize=256)
def _tokens_in(file: Path, modified: int, size: int) -> str:
    """The tokens of a file; headers are those of many kernels."""
    return "\0".join(tokens(file.read_text(encoding="utf-8", errors="replace")))


def token_digest(path: Path, include_dirs: Sequence[Path] = (), without: Path | None = None) -> str:
    """sha256 of the tokens of `path` and of all local headers it includes, but for those in the folder
    `without`: what it is once comments and layout are gone.

    Raises CompileError when `path` cannot be read.
    """
    try:
        parts: list[str] = []
        for file in source_files(path, include_dirs):
            if without is None or without not in file.parents:
                status = file.stat()
                parts += [file.name, _tokens_in(file, status.st_mtime_ns, status.st_size)]
    except OSError as error:
        raise CompileError(f"cannot read it: {error.strerror}", place=source_place(str(path))) from error
    return digest(*parts)


# ---- compilers -------------------------------------------------------------------------------------------

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


def source_place(file: str, line: int | None = None) -> str:
    """``file:line``; files below ``cuda/`` are named as variants name them: "spmv/csr_vector.cu:12"."""
    path = Path(os.path.abspath(cuda_dir() / file))
    with contextlib.suppress(ValueError, FileNotFoundError):
        path = path.relative_to(cuda_dir())
    return f"{path.as_posix()}:{line}" if line else path.as_posix()


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


# ---- the cache -------------------------------------------------------------------------------------------


def _paths(request: Request) -> tuple[Path, Path]:
    key = request.key
    folder = private_folder(cache_dir("modules") / key[:2])
    return folder / f"{key}{request.suffix}", folder / f"{key}.json"


def _lock_name(folder: str) -> str:
    return f"modules-{folder}"


def _valid(artifact: Path, note: Path) -> bool:
    """Whether the entry is there and whole. Raises CacheError where it is not this user's own."""
    if not (trusted(artifact) and trusted(note)):
        return False
    try:
        return bool(json.loads(note.read_bytes())["sha256"] == hashlib.sha256(artifact.read_bytes()).hexdigest())
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return False


def sweep() -> None:
    """Remove what processes that were killed while compiling left in the cache: once a process, at first use.

    A folder ``building-*`` or a lock beside entries is left over where the lock of its folder can be had.
    """
    with contextlib.suppress(OSError):
        root = cache_dir("modules")
        if root in _swept:
            return
        _swept.add(root)
        for folder in root.iterdir():
            left = [*folder.glob("building-*"), *folder.glob("*.lock")] if folder.is_dir() else []
            if not left:
                continue
            with cache_lock(_lock_name(folder.name), wait=False) as ours:
                for path in left if ours else ():
                    if path.is_dir() and not path.is_symlink():
                        shutil.rmtree(path, ignore_errors=True)
                    else:
                        path.unlink(missing_ok=True)


_swept: set[Path] = set()


def cached(request: Request) -> Path | None:
    """The artifact of `request` if it is in the cache and whole, else None."""
    try:
        artifact, note = _paths(request)
    except OSError:  # there is no cache: the build will report it
        return None
    return artifact if _valid(artifact, note) else None


def compile_ms(artifact: Path) -> float:
    """How long `artifact` took to compile, on whatever machine that was; 0 where the cache does not say."""
    try:
        return float(json.loads(artifact.with_suffix(".json").read_bytes())["ms"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0.0


@functools.lru_cache(maxsize=256)
def _tokens_of(source: str, key: str) -> str:
    return kernel_tokens(source)


def kernel_tokens(source: str) -> str:
    """:func:`token_digest` of a kernel file below ``cuda/``, without the shim of the host device."""
    root = cuda_dir()
    return token_digest(root / source, [root], root / "host")


def compiled(request: Request, artifact: Path) -> Compiled:
    """What a record keeps of `artifact`, which `request` built from the source that it is labelled with."""
    name = Path(request.label).name if os.path.isabs(request.label) else request.label
    return Compiled(name, _tokens_of(request.label, request.key), request.options, compile_ms(artifact))


def build(request: Request) -> Path:
    """The artifact of `request`: from the cache, or compiled now. Safe for threads and processes.

    Raises what ``request.make`` raises, CompileError when the cache folder cannot be written, or CacheError
    when it is not this user's own.
    """
    try:
        sweep()
        artifact, note = _paths(request)
        if _valid(artifact, note):
            return artifact
        with cache_lock(_lock_name(artifact.parent.name)):
            if _valid(artifact, note):
                return artifact
            with tempfile.TemporaryDirectory(prefix="building-", dir=artifact.parent) as folder:
                fresh = Path(folder) / artifact.name
                start = time.perf_counter()
                log = request.make(fresh) or ""
                spent = round((time.perf_counter() - start) * 1e3, 1)
                if not fresh.exists():
                    raise CompileError(
                        f"{request.label}: the compiler succeeded, but wrote nothing",
                        remedy="is it a compiler? CXX names that for C++, CUDA_HOME and PATH that for nvcc",
                    )
                sha = hashlib.sha256(fresh.read_bytes()).hexdigest()
                draft = Path(folder) / note.name
                draft.write_text(json.dumps({"sha256": sha, "label": request.label, "ms": spent, "log": log}))
                draft.chmod(0o600)
                fresh.chmod(0o600)
                os.replace(draft, note)
                os.replace(fresh, artifact)
        return artifact
    except OSError as error:
        raise CompileError(
            f"cannot write the cache of compiled kernels: {error}",
            remedy="set SPGRAPH_CACHE to a folder you can write to",
        ) from error


def build_all(
    requests: Iterable[Request], jobs: int | None = None, progress: Callable[[int, int, str], None] | None = None
) -> list[Path | SpgraphError]:
    """Build many requests in parallel; results are in the order of the requests.

    Parameters
    ----------
    jobs : compilers at a time; the number of usable cores by default.
    progress : called in this thread with (done, total, label) when something was compiled or failed; total
        counts only what was not in the cache, so a warm start calls it never.

    A request that fails gives its error in place of a path; equal requests are built once.
    """
    with contextlib.suppress(OSError):
        sweep()
    wanted = list(requests)
    results: dict[str, Path | SpgraphError] = {}
    missing: dict[str, Request] = {}
    for request in wanted:
        if request.key in results or request.key in missing:
            continue
        if (hit := cached(request)) is not None:
            results[request.key] = hit
        else:
            missing[request.key] = request
    if missing:
        pool = ThreadPoolExecutor(min(len(missing), jobs or usable_cores()))
        try:
            futures = {pool.submit(build, request): request for request in missing.values()}
            for done, future in enumerate(as_completed(futures), 1):
                request = futures[future]
                try:
                    results[request.key] = future.result()
                except SpgraphError as error:
                    results[request.key] = error
                if progress:
                    progress(done, len(missing), request.label)
        finally:  # on Ctrl-C the compilers get the signal themselves; what waits is not started
            pool.shutdown(cancel_futures=True)
    return [results[request.key] for request in wanted]
