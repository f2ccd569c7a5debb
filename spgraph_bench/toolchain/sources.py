"""Sources of kernels: which headers they include, and hashes of them, as they are and of their tokens alone."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
from collections.abc import Sequence
from pathlib import Path

from spgraph_bench.errors import CompileError
from spgraph_bench.paths import cuda_dir

__all__ = ["digest", "kernel_tokens", "source_digest", "source_files", "source_place", "token_digest", "tokens"]


def digest(*parts: bytes | str) -> str:
    """sha256 of `parts`, each preceded by its length, so that no two lists of parts look alike."""
    total = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        total.update(len(data).to_bytes(8, "little"))
        total.update(data)
    return total.hexdigest()


def source_place(file: str, line: int | None = None) -> str:
    """``file:line``; files below ``cuda/`` are named as variants name them: "spmv/csr_vector.cu:12"."""
    path = Path(os.path.abspath(cuda_dir() / file))
    with contextlib.suppress(ValueError, FileNotFoundError):
        path = path.relative_to(cuda_dir())
    return f"{path.as_posix()}:{line}" if line else path.as_posix()


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


def kernel_tokens(source: str) -> str:
    """:func:`token_digest` of a kernel file below ``cuda/``, without the shim of the host device."""
    root = cuda_dir()
    return token_digest(root / source, [root], root / "host")
