"""C++ that Python calls: sources compiled once, by the host device's compiler and into its cache, and threads for it.

Where there is no compiler there is no library either: callers have numpy do the same, bit by bit.
"""

from __future__ import annotations

import contextlib
import ctypes
import platform
import shlex
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy.typing as npt

from spgraph_bench.errors import SpgraphError

__all__ = ["address_of", "compiled_library", "in_threads"]

_FLAGS = ("-std=c++17", "-O3", "-fPIC", "-shared", "-fvisibility=hidden", "-fno-exceptions", "-fno-rtti")


def compiled_library(source: Path, *options: str) -> ctypes.CDLL | None:
    """The library of `source`, or None where it cannot be compiled, kept or loaded: no error for its user.

    `options` are further ones of the compiler.

    It is compiled with the sanitizers of SPGRAPH_HOST_SANITIZE, but for races, which are the kernels'.
    """
    from spgraph_bench.toolchain.compilers import compiler_identity, run_compiler
    from spgraph_bench.toolchain.cxx import chosen_sanitizers, find_compiler
    from spgraph_bench.toolchain.modules import Request, build
    from spgraph_bench.toolchain.sources import source_digest

    try:
        compiler, sanitizers = find_compiler(), chosen_sanitizers()
        if compiler is None or ("address" in sanitizers and not hasattr(ctypes.CDLL(None), "__asan_init")):
            return None
        flags = [*_FLAGS, *options, *(f"-fsanitize={s}" for s in sanitizers if s != "race")]
        if "undefined" in sanitizers:
            flags.append("-fsanitize-undefined-trap-on-error")

        def make(target: Path) -> str:
            return run_compiler([*compiler, *flags, source, "-o", target], source.name)

        identity = compiler_identity(shlex.join(compiler))
        parts = (source_digest(source), *flags, identity, platform.machine())
        return ctypes.CDLL(str(build(Request(parts, make, ".so", source.name))))
    except (SpgraphError, OSError):
        return None


def in_threads(task: Callable[[int], None], count: int) -> None:
    """``task(0)`` in this thread, ``task(1)`` to ``task(count - 1)`` beside it in others."""
    failures: list[BaseException] = []

    def attempt(number: int) -> None:
        try:
            task(number)
        except BaseException as failure:
            failures.append(failure)

    others: list[threading.Thread] = []
    with contextlib.suppress(RuntimeError):  # no more threads to be had: this one does what is left
        for number in range(1, count):
            thread = threading.Thread(target=attempt, args=(number,))
            thread.start()
            others.append(thread)
    try:
        for number in (0, *range(len(others) + 1, count)):
            task(number)
    finally:
        for thread in others:
            thread.join()
    if failures:
        raise failures[0]


def address_of(array: npt.NDArray[Any], first: int = 0) -> int:
    """Where element `first` of an array is, which must be contiguous."""
    return array.ctypes.data + first * array.itemsize
