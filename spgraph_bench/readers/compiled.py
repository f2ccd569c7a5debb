"""Entries of large Matrix Market files by a compiled parser, where there is a C++ compiler.

``entries.cpp`` is compiled once, by the host device's compiler and into its cache. It reads what is to the
letter an entry in every line, in bounds and finite, and nothing else: for any other text, and where it cannot
be compiled, there is no answer, and the readers in Python say what they say. Numbers are the same, bit by bit
(both are correctly rounded).

A thread takes the next piece of the text, counts its lines, which tells where the entries after it go, and
parses it while it is in cache and the next thread is at the next piece: 0.8 ns a byte and thread for real
values, half of scipy's parser with its check.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import platform
import shlex
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from mmap import mmap
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.errors import SpgraphError
from spgraph_bench.readers.common import Progress
from spgraph_bench.readers.matrix_market_text import Body, Header

__all__ = ["WORTH_BYTES", "library", "read_entries"]

WORTH_BYTES = 1 << 24
"""For less, finding and loading the library (10 ms; 0.2 s to compile it, once) takes what it saves."""
_PIECE = 1 << 20  # in cache while it is counted and parsed
_MAX_THREADS = 8
_MAX_LINE = 1 << 12
_SOURCE = Path(__file__).with_name("entries.cpp")
_FLAGS = ("-std=c++17", "-O3", "-fPIC", "-shared", "-fvisibility=hidden", "-fno-exceptions", "-fno-rtti")
_DTYPES: dict[str, Any] = {"real": np.float64, "integer": np.int64, "pattern": None}


@functools.cache
def library() -> ctypes.CDLL | None:
    """The compiled parser, or None where it cannot be compiled, kept or loaded: no error for its user."""
    from spgraph_bench.device.host import chosen_sanitizers, find_compiler
    from spgraph_bench.device.modules import Request, build, compiler_identity, run_compiler, source_digest

    try:
        compiler, chosen = find_compiler(), chosen_sanitizers()
        if compiler is None or ("address" in chosen and not hasattr(ctypes.CDLL(None), "__asan_init")):
            return None
        flags = [*_FLAGS, *(f"-fsanitize={s}" for s in chosen)]
        if "undefined" in chosen:
            flags.append("-fsanitize-undefined-trap-on-error")

        def make(target: Path) -> str:
            return run_compiler([*compiler, *flags, _SOURCE, "-o", target], _SOURCE.name)

        identity = compiler_identity(shlex.join(compiler))
        parts = (source_digest(_SOURCE), *flags, identity, platform.machine())
        found = ctypes.CDLL(str(build(Request(parts, make, ".so", _SOURCE.name))))
    except (SpgraphError, OSError):
        return None
    pointer, count = ctypes.c_void_p, ctypes.c_int64
    found.spg_lines.argtypes, found.spg_lines.restype = [pointer, count], count
    found.spg_entries.argtypes = [
        pointer, count, count, count, count, pointer, pointer, pointer, ctypes.c_char,
    ]  # fmt: skip
    found.spg_entries.restype = ctypes.c_int
    return found


def read_entries(data: bytes | mmap, begin: int, end: int, head: Header, progress: Progress) -> Body | None:
    """The entries in ``data[begin:end]``, or None if they are not all plainly entries, or too few to matter.

    `end` is behind the last byte that is not blank. Nothing is allocated where the text is too short for the
    declared count.
    """
    size = end - begin
    if size < max(WORTH_BYTES, 2 * head.tokens - 1) or head.layout == "array" or head.field not in _DTYPES:
        return None
    last = data.rfind(b"\n", begin, end) + 1 or begin
    if end - last > _MAX_LINE or (found := library()) is None:
        return None
    work = _Work(found, data, begin, last, head, progress)
    threads = min(len(os.sched_getaffinity(0)), _MAX_THREADS, 1 + size // _PIECE)
    others: list[Future[None]] = []
    with ThreadPoolExecutor(max(1, threads - 1)) as pool:
        try:
            with contextlib.suppress(RuntimeError):  # no more threads to be had: then with those there are
                others += (pool.submit(work.run) for _ in range(threads - 1))
            work.run(telling=True)
        except BaseException:
            work.sound = False  # Ctrl-C: the other threads stop at their next piece
            raise
        for other in others:
            other.result()
    line = np.frombuffer(data[last:end] + b"\n", np.uint8)
    if (
        not work.sound
        or work.entries != head.count - 1
        or not work.parse(line, 0, len(line), head.count - 1, 1)
    ):
        return None
    return Body(work.row, work.col, work.values, True)


class _Work:
    """The lines of a text, which threads take piece by piece."""

    def __init__(
        self, found: ctypes.CDLL, data: bytes | mmap, begin: int, end: int, head: Header, progress: Progress
    ) -> None:
        self.library, self.data, self.head, self.progress = found, data, head, progress
        self.text = np.frombuffer(data, np.uint8)
        self.begin, self.at, self.end = begin, begin, end
        self.row, self.col = np.empty(head.count, np.int32), np.empty(head.count, np.int32)
        dtype = _DTYPES[head.field]
        self.values: npt.NDArray[Any] | None = None if dtype is None else np.empty(head.count, dtype)
        self.entries, self.sound, self.lock = 0, True, threading.Lock()

    def run(self, telling: bool = False) -> None:
        """Read pieces until there is none left, or one that is not sound."""
        while (piece := self.take()) is not None:
            if not self.parse(self.text, *piece):
                self.sound = False
            if telling:
                self.progress("reading entries", (piece[0] - self.begin) / (self.end - self.begin))

    def take(self) -> tuple[int, int, int, int] | None:
        """The next piece: its first byte and its bytes, its first entry and its entries."""
        with self.lock:
            if not self.sound or self.at == self.end:
                return None
            at, first = self.at, self.entries
            self.at = self.data.find(b"\n", min(at + _PIECE, self.end) - 1, self.end) + 1
            count = self.library.spg_lines(self.text.ctypes.data + at, self.at - at)
            self.entries += count
            self.sound = self.entries < self.head.count  # the last one is not among them
            return (at, self.at - at, first, count) if self.sound else None

    def parse(self, text: npt.NDArray[np.uint8], at: int, size: int, first: int, count: int) -> bool:
        """Parse ``text[at : at + size]`` into `count` entries from `first` on; whether they are sound."""
        values = self.values
        return bool(
            self.library.spg_entries(
                text.ctypes.data + at, size, count, self.head.rows, self.head.cols,
                self.row.ctypes.data + 4 * first, self.col.ctypes.data + 4 * first,
                None if values is None else values.ctypes.data + 8 * first, self.head.field[:1].encode(),
            )
        )  # fmt: skip
