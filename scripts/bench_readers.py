"""Time spgraph's Matrix Market reader against scipy's on the same files; or edge lists, with their memory.

    python scripts/bench_readers.py [--entries N] [--repeat N] [FILE ...]
    python scripts/bench_readers.py --edge-lists [--repeat N] [FILE ...]

spgraph's reader ends with canonical CSR; it is timed as it is and without its compiled code. scipy is timed to what
mmread(path) gives (COO, both triangles of a symmetric matrix) and to canonical CSR; it checks nothing that spgraph
checks, and skips what it does not understand. Without files, matrices of N uniformly random entries are written to a
temporary folder. All take turns, so that they meet the same load; the best of all is shown: wall-clock time, CPU time
of all threads.

Edge lists (without files: generated ones of about 100 MB, as written and in no order) are read to canonical
CSR with each option, with and without compiled code, in processes of their own. Shown are the same times and
the most memory that a process took in addition to what it had before, over the size of the file. Aimed at: 6 s for
100 MB and a ratio of 5; what is over has a "!". Linux only.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
import scipy.sparse as sp

from spgraph_bench import writers
from spgraph_bench.errors import SpgraphError
from spgraph_bench.readers import ReadOptions, compiled, read, readers
from spgraph_bench.recipes import make

EDGE_LISTS = ("rmat:scale=20,edgefactor=8,values=none", "rmat:scale=20,edgefactor=6,values=integers")
OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"symmetrize": True},
    {"relabel": True},
    {"relabel": True, "symmetrize": True},
)
SECONDS = 6.0
MEMORY = 5.0


def to_csr(path: str) -> Any:
    """scipy's way: `mmread`, then CSR with duplicates summed."""
    csr = sp.csr_array(scipy.io.mmread(path))
    csr.sum_duplicates()
    return csr


def read_uncompiled(path: str) -> Any:
    """As ``read``, where there is no C++ compiler."""
    library = compiled.library
    compiled.library = lambda: None  # type: ignore[assignment]
    try:
        return read(path)
    finally:
        compiled.library = library


def written(folder: Path, entries: int) -> Iterator[str]:
    """One file for each order and kind that a reader treats in its own way."""
    rng = np.random.default_rng(1)
    size = max(1, entries // 8)
    row, col = rng.integers(0, size, (2, entries), np.int32)
    a = sp.csr_array(sp.coo_array((rng.standard_normal(entries), (row, col)), shape=(size, size)))
    columns, order = a.tocsc().tocoo(), rng.permutation(a.nnz)
    rows = a.tocoo()
    none = sp.coo_array((rows.data[order], (rows.row[order], rows.col[order])), shape=a.shape)
    lower = sp.tril(a + a.T).tocsc().tocoo()
    real = {"field": "real", "symmetry": "general"}
    for name, matrix, kind in (
        ("column-major", columns, real),
        ("row-major", rows, real),
        ("no-order", none, real),
        ("symmetric", lower, {"field": "real", "symmetry": "symmetric"}),
        ("pattern", columns, {"field": "pattern", "symmetry": "general"}),
        ("symmetric-pattern", lower, {"field": "pattern", "symmetry": "symmetric"}),
    ):
        path = str(folder / f"{name}.mtx")
        scipy.io.mmwrite(path, matrix, **kind)
        yield path
        os.unlink(path)


def seconds(task: Callable[[str], Any], path: str) -> tuple[float, float]:
    """Wall and CPU seconds of `task(path)`."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = task(path)
    taken = time.perf_counter() - wall, time.process_time() - cpu
    del result
    return taken


def write_list(recipe: str, path: Path, shuffled: bool) -> None:
    """The recipe's matrix as an edge list; `shuffled`: edges in no order, below the same header."""
    writers.save(make(recipe), path)
    if shuffled:
        lines = path.read_bytes().splitlines(keepends=True)
        head = sum(line.startswith(b"%") for line in lines)
        order = np.random.default_rng(1).permutation(len(lines) - head) + head
        path.write_bytes(b"".join([*lines[:head], *(lines[k] for k in order)]))


def lists_written(folder: Path) -> Iterator[str]:
    """Paths of the generated edge lists in `folder`, each sorted and in random order."""
    for recipe in EDGE_LISTS:
        for shuffled in (False, True):
            path = folder / f"{recipe.partition('values=')[2]}-{'no-order' if shuffled else 'row-major'}.txt"
            apart(write_list, recipe, path, shuffled)  # this process stays small, and so do those that read
            yield str(path)
            path.unlink()


def resident(field: str) -> int:
    """VmRSS or VmHWM (the most so far) of this process, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


def read_list(path: str, options: dict[str, Any], is_compiled: bool) -> tuple[float, float, int]:
    """Seconds of wall clock and CPU, and the most memory in addition to what was used before."""
    if not is_compiled:
        compiled.library = lambda: None  # type: ignore[assignment]
    Path("/proc/self/clear_refs").write_text("5")  # VmHWM starts again from what is resident now
    before = resident("VmRSS")
    taken = seconds(lambda path: read(path, ReadOptions(**options)), path)
    return *taken, resident("VmHWM") - before


def apart(task: Callable[..., Any], *arguments: Any) -> Any:
    """What `task` returns in a process of its own."""

    def send(to: Connection) -> None:
        to.send(task(*arguments))
        to.close()

    fork = multiprocessing.get_context("fork")
    here, there = fork.Pipe(duplex=False)
    process = fork.Process(target=send, args=(there,))
    process.start()
    there.close()
    try:
        return here.recv()
    except EOFError:
        raise SystemExit("a process was ended: out of memory?") from None
    finally:
        process.join()


def time_lists(paths: Iterator[str], repeat: int) -> None:
    """Print size, times and memory of reading each edge list, by spgraph."""
    readers(), compiled.library()  # loaded before memory is measured
    print(f"{'':56}{'MB':>4}{'wall':>8}{'CPU':>8}{'memory/file':>13}")
    for path in paths:
        size = os.path.getsize(path)
        for options in OPTIONS:
            for is_compiled in (True, False):
                runs = np.array([apart(read_list, path, options, is_compiled) for _ in range(repeat)])
                (wall, cpu, _), most = runs.min(axis=0), runs[:, 2].max() / size
                what = " ".join([Path(path).stem, *(f"--{name}" for name in options)])
                slow, large = wall > SECONDS * max(1.0, size / 1e8), most > MEMORY
                print(
                    f"{what + ('' if is_compiled else ', no compiler'):56}{size / 1e6:4.0f}{wall:8.2f}"
                    f"{'!' if slow else ' '}{cpu:7.2f}{most:13.2f}{'!' if large else ''}",
                    flush=True,
                )


def main(given: Sequence[str] | None = None) -> int:
    """Time the readers against scipy. Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", metavar="FILE")
    parser.add_argument("--entries", type=int, default=4_000_000)
    parser.add_argument("--repeat", type=int, default=8)
    parser.add_argument("--edge-lists", action="store_true")
    arguments = parser.parse_args(given)
    try:
        bench(arguments)
    except SpgraphError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_status
    except FileNotFoundError as error:
        print(f"error: {error}\n  remedy: name files that are there", file=sys.stderr)
        return 2
    except (OSError, ValueError) as error:  # scipy's own
        print(f"error: {error}\n  remedy: give files that scipy reads, too", file=sys.stderr)
        return 2
    return 0


def bench(arguments: argparse.Namespace) -> None:
    """Print the table. Raises what the readers raise."""
    if arguments.edge_lists:
        with tempfile.TemporaryDirectory() as folder:
            paths = iter(arguments.files) if arguments.files else lists_written(Path(folder))
            time_lists(paths, arguments.repeat)
        return
    print(f"{os.cpu_count()} cores, best of {arguments.repeat}; seconds: wall (CPU)")
    heads = f"{'mmread':>16}{'mmread to CSR':>16}{'spgraph':>16}{'no compiler':>16}"
    heads += f"{'ratio to mmread':>18}{'to CSR':>14}{'no compiler':>14}"
    print(f"{'':40}{'MB':>4}{heads}")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["SPGRAPH_CACHE"] = folder  # or a file that takes long is read once only
        for path in arguments.files or written(Path(folder), arguments.entries):
            tasks = (scipy.io.mmread, to_csr, read, read_uncompiled)
            times = [[seconds(task, path) for task in tasks] for _ in range(arguments.repeat)]
            best = np.min(times, axis=0)
            to_coo, to_csrs, ours, uncompiled = best
            print(
                f"{Path(path).stem:40}{os.path.getsize(path) / 1e6:4.0f}"
                + "".join(f"{wall:8.3f} ({cpu:5.3f})" for wall, cpu in best)
                + "".join(
                    f"{wall:7.2f} ({cpu:4.2f})" for wall, cpu in (ours / to_coo, ours / to_csrs, ours / uncompiled)
                ),
                flush=True,
            )


if __name__ == "__main__":
    sys.exit(main())
