"""What takes time with large inputs, in compiled code and on all cores, where there is a C++ compiler.

``entries.cpp`` is compiled once, by the host device's compiler and into its cache. Where it cannot be
compiled, and for what it does not do, there is no answer, and numpy and scipy do the same, bit by bit.

The parser reads Matrix Market bodies that are to the letter an entry in every line, in bounds and finite, and
nothing else: what is wrong is for the readers in Python to say. A thread takes the next piece of the text,
counts its lines, which tells where the entries after it go, and parses it while it is in cache and the next
thread is at the next piece. That takes 0.8 ns of CPU time a byte for real values; scipy takes 1.4, and
the check that keeps from it what it would misread 5.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import threading
import weakref
from mmap import mmap
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.cores import usable_cores
from spgraph_bench.readers.common import Progress
from spgraph_bench.readers.matrix_market_text import Body, Header
from spgraph_bench.toolchain.library import address_of, compiled_library, in_threads

__all__ = ["WORTH_BYTES", "WORTH_ENTRIES", "by_row", "guard", "library", "read_entries", "was_cut"]

WORTH_BYTES = 1 << 22
"""For less, finding and loading the library (10 ms; 0.25 s to compile it, once) takes what it saves."""
WORTH_ENTRIES = 1 << 20
"""The same for entries that are sorted."""
_PIECE = 1 << 20  # in cache while it is counted and parsed
_MAX_THREADS = 8
_MAX_LINE = 1 << 12
_SOURCE = Path(__file__).with_name("entries.cpp")
_DTYPES: dict[str, Any] = {"real": np.float64, "integer": np.int64, "pattern": None}


@functools.cache
def library() -> ctypes.CDLL | None:
    """The compiled parser, or None where it cannot be compiled, kept or loaded: no error for its user."""
    loaded = compiled_library(_SOURCE)
    if loaded is None:
        return None
    pointer, count = ctypes.c_void_p, ctypes.c_int64
    loaded.spg_lines.argtypes, loaded.spg_lines.restype = [pointer, count], count
    loaded.spg_entries.argtypes = [
        pointer,
        count,
        count,
        count,
        count,
        ctypes.c_int,
        pointer,
        pointer,
        pointer,
        ctypes.c_char,
    ]
    loaded.spg_entries.restype = ctypes.c_int
    integer = ctypes.c_int
    loaded.spg_count.argtypes = [pointer, pointer, count, integer, pointer]
    loaded.spg_move.argtypes = [pointer, pointer, pointer, count, integer, integer, pointer, pointer, pointer]
    loaded.spg_count.restype = loaded.spg_move.restype = None
    loaded.spg_guard.argtypes, loaded.spg_guard.restype = [pointer, count], integer
    loaded.spg_cut.argtypes, loaded.spg_cut.restype = [integer], integer
    loaded.spg_unguard.argtypes, loaded.spg_unguard.restype = [integer], None
    return loaded


_guards: weakref.WeakKeyDictionary[mmap, int] = weakref.WeakKeyDictionary()


def guard(mapped: mmap) -> bool:
    """See to it that the file behind `mapped` may be cut while it is read: what is gone reads as zeros.

    Without this such a read ends the process by SIGBUS. False where it cannot be done: the file must not be
    mapped then. `was_cut` tells afterwards.
    """
    compiled = library()
    if compiled is None:
        return False
    view = np.frombuffer(mapped, np.uint8)
    number = int(compiled.spg_guard(address_of(view), len(view)))
    if number < 0:
        return False
    _guards[mapped] = number
    weakref.finalize(mapped, compiled.spg_unguard, number)
    return True


def was_cut(mapped: mmap) -> bool:
    """Whether the file behind `mapped` is shorter than when it was mapped, or was for a moment."""
    compiled = library()
    cut = compiled is not None and mapped in _guards and bool(compiled.spg_cut(_guards[mapped]))
    return cut or mapped.size() < len(mapped)


def _most_threads() -> int:
    return min(usable_cores(), _MAX_THREADS)


def read_entries(data: bytes | mmap, begin: int, end: int, head: Header, progress: Progress) -> Body | None:
    """The entries in ``data[begin:end]``, or None if they are not all plainly entries, or too few to matter.

    `end` is behind the last byte that is not blank. Nothing is allocated where the text is too short for the
    declared count.
    """
    size = end - begin
    least = WORTH_BYTES if head.base else 0  # scipy cannot count from 0
    if size < max(least, 2 * head.tokens - 1) or head.layout == "array" or head.field not in _DTYPES:
        return None
    last = data.rfind(b"\n", begin, end) + 1 or begin
    if end - last > _MAX_LINE or (compiled := library()) is None:
        return None
    work = _Work(compiled, data, begin, last, head, progress)
    threads = min(_most_threads(), 1 + size // _PIECE)
    in_threads(work.run, threads)
    line = np.frombuffer(data[last:end] + b"\n", np.uint8)
    if not work.sound or work.entries != head.count - 1 or not work.parse(line, 0, len(line), head.count - 1, 1):
        return None
    return Body(work.row, work.col, work.values, True)


class _Work:
    """The lines of a text, which threads take piece by piece."""

    def __init__(
        self, library: ctypes.CDLL, data: bytes | mmap, begin: int, end: int, head: Header, progress: Progress
    ) -> None:
        self.library, self.data, self.head, self.progress = library, data, head, progress
        self.text = np.frombuffer(data, np.uint8)
        self.begin, self.offset, self.end = begin, begin, end
        self.row, self.col = np.empty(head.count, np.int32), np.empty(head.count, np.int32)
        dtype = _DTYPES[head.field]
        self.values: npt.NDArray[Any] | None = None if dtype is None else np.empty(head.count, dtype)
        self.entries, self.lock = 0, threading.Lock()
        self.sound = True
        """Any thread may set it to False, none to True."""

    def run(self, thread: int) -> None:
        """Read pieces until there is none left, or one that is not sound; thread 0 tells how far it is."""
        try:
            while (piece := self.take()) is not None:
                if not self.parse(self.text, *piece):
                    self.sound = False
                if thread == 0:
                    self.progress("reading entries", (piece[0] - self.begin) / (self.end - self.begin))
        except BaseException:
            self.sound = False  # Ctrl-C: the other threads stop at their next piece
            raise

    def take(self) -> tuple[int, int, int, int] | None:
        """The next piece: its first byte and its bytes, its first entry and its entries."""
        with self.lock:
            if not self.sound or self.offset == self.end:
                return None
            begin, first = self.offset, self.entries
            self.offset = self.data.find(b"\n", min(begin + _PIECE, self.end) - 1, self.end) + 1
            count = self.library.spg_lines(address_of(self.text, begin), self.offset - begin)
            self.entries += count
            if self.entries < self.head.count:  # the last one is not among them
                return begin, self.offset - begin, first, count
            self.sound = False
            return None

    def parse(self, text: npt.NDArray[np.uint8], begin: int, size: int, first: int, count: int) -> bool:
        """Parse ``text[at : at + size]`` into `count` entries from `first` on; whether they are sound."""
        values = self.values
        return bool(
            self.library.spg_entries(
                address_of(text, begin),
                size,
                count,
                self.head.rows,
                self.head.cols,
                self.head.base,
                address_of(self.row, first),
                address_of(self.col, first),
                None if values is None else address_of(values, first),
                self.head.field[:1].encode(),
            )
        )


def by_row(
    rows: int, row: npt.NDArray[Any], col: npt.NDArray[Any], values: npt.NDArray[Any] | None, mirror: int = 0
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32], npt.NDArray[np.float64] | None] | None:
    """Entries sorted by row, those of a row in input order, on all cores; None where scipy has to do it.

    Parameters
    ----------
    rows : rows of the matrix; square if mirrored.
    row, col : int ``[entries]``, within the matrix: int32 is what is done here.
    values : float64 ``[entries]`` is what is done here, or None.
    mirror : 1: every entry off the diagonal once more after all of them, as (col, row); -1: with its value
        negated.

    Returns offsets int64 ``[rows + 1]``, columns and values ``[entries]`` (up to twice as many if mirrored).
    """
    entries = len(row)
    plain = all(a.dtype == np.int32 and a.flags.c_contiguous for a in (row, col)) and (
        values is None or (values.dtype == np.float64 and values.flags.c_contiguous)
    )
    if not plain or not WORTH_ENTRIES <= entries < 2**30 or (compiled := library()) is None:
        return None
    # Each thread counts its part of the entries, and so knows where they go among those of the others.
    threads = max(1, min(_most_threads(), 2 * entries // max(1, rows)))
    cuts = [entries * k // threads for k in range(threads + 1)]
    parts = [(a, b, False) for a, b in itertools.pairwise(cuts)]
    parts += [(a, b, True) for a, b, _ in parts] if mirror else []
    next_of = np.zeros((len(parts), rows), np.int32)

    def count(thread: int) -> None:
        for k in range(thread, len(parts), threads):
            a, b, mirrored = parts[k]
            keys = (col, row) if mirrored else (row, col)
            compiled.spg_count(*(address_of(x, a) for x in keys), b - a, mirrored, address_of(next_of[k]))

    in_threads(count, threads)
    ptr = np.zeros(rows + 1, np.int64)
    for counts in next_of:
        ptr[1:] += counts
    np.cumsum(ptr, out=ptr)
    next_place = ptr[:-1].astype(np.int32)
    for counts in next_of:
        next_place, counts[:] = next_place + counts, next_place
    total = int(ptr[-1])
    to_col = np.empty(total, np.int32)
    to_values = None if values is None else np.empty(total, np.float64)

    def move(thread: int) -> None:
        for k in range(thread, len(parts), threads):
            a, b, mirrored = parts[k]
            keys = (col, row) if mirrored else (row, col)
            given = None if values is None else address_of(values, a)
            to = (address_of(to_col), None if to_values is None else address_of(to_values))
            negate = mirrored and mirror < 0
            compiled.spg_move(
                *(address_of(x, a) for x in keys), given, b - a, mirrored, negate, address_of(next_of[k]), *to
            )

    in_threads(move, threads)
    return ptr, to_col, to_values
