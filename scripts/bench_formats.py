"""Time the conversion of a matrix into every format, and the memory that it takes at most.

    python scripts/bench_formats.py [--dtype TYPE] [--format GLOB ...] [--repeat N] [MATRIX ...]

A MATRIX is a recipe or a file. Each conversion runs in a process of its own, forked with the matrix in it, so
that none inherits the memory of another. Shown are wall-clock seconds, the best and the median of N; the same
for 100 million nonzeros; and the largest memory (input, output and all between) over input and output.
Aimed at: 15 s for 100 million nonzeros and a ratio of 3; from 10 million nonzeros on, what is over has a "!".
Formats without values get the pattern. Formats that refuse a matrix say why. Linux only.
"""

from __future__ import annotations

import argparse
import dataclasses
import fnmatch
import gc
import multiprocessing
import statistics
import sys
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from spgraph_bench.errors import SpgraphError
from spgraph_bench.formats import Format, formats
from spgraph_bench.matrix import CSR
from spgraph_bench.readers import read
from spgraph_bench.recipes import make
from spgraph_bench.stats import row_stats
from spgraph_bench.units import human_bytes

MATRICES = ("banded:n=4000000,diagonals=27", "rmat:scale=22,edgefactor=26")
"""About 100 million nonzeros each: rows all alike, and a few rows that hold much."""

SECONDS = 15.0
MEMORY = 3.0
JUDGED = 10_000_000


def resident(field: str) -> int:
    """VmRSS or VmHWM (the most so far) of this process, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


def convert(form: Format, csr: CSR, dtype: str, params: dict[str, str], to: Connection) -> None:
    """Send the seconds of one conversion, the memory it took in addition to `csr`, and the bytes that it stored."""
    gc.collect()  # what would be freed on the way hides what is taken
    Path("/proc/self/clear_refs").write_text("5")  # VmHWM starts again from what is resident now
    before = resident("VmRSS")
    start = time.perf_counter()
    packed = form.pack(csr, np.dtype(dtype), **params)
    seconds = time.perf_counter() - start
    to.send((seconds, resident("VmHWM") - before, packed.stored_bytes))
    to.close()


def measured(form: Format, csr: CSR, dtype: str, params: dict[str, str]) -> tuple[float, int, int] | None:
    """What :func:`convert` sends, None if the process ended without."""
    fork = multiprocessing.get_context("fork")
    here, there = fork.Pipe(duplex=False)
    process = fork.Process(target=convert, args=(form, csr, dtype, params, there))
    process.start()
    there.close()
    try:
        result: tuple[float, int, int] = here.recv()
    except EOFError:
        return None
    finally:
        process.join()
    return result


def line(form: Format, csr: CSR, dtype: str, given: dict[str, str], repeat: int) -> str:
    """Best time, added memory and size of one format, as a line of the table; the reason if it refuses `csr`."""
    params = {name: value for name, value in given.items() if name in form.tunables}
    if not form.keeps_values:
        csr = dataclasses.replace(csr, values=None)
    width = np.dtype(dtype).itemsize
    if why := form.refuse(row_stats(csr), None, width, **params):
        return f"{form.name:16}{why}"
    runs = [figures for _ in range(repeat) if (figures := measured(form, csr, dtype, params))]
    if len(runs) < repeat:
        return f"{form.name:16}the process was ended: out of memory?"
    seconds = [run[0] for run in runs]
    memory, stored = max(run[1] for run in runs), runs[0][2]
    arrays = [csr.row_ptr, csr.col_idx, *([] if csr.values is None else [csr.values])]
    source = sum(array.nbytes for array in arrays)
    scaled, ratio = min(seconds) * 1e8 / max(csr.nnz, 1), (source + memory) / (source + stored)
    slow, large = (csr.nnz >= JUDGED and over for over in (scaled > SECONDS, ratio > MEMORY))
    return (
        f"{form.name:16}{min(seconds):8.2f}{statistics.median(seconds):8.2f}{scaled:9.2f}"
        f"{'!' if slow else ' '}{human_bytes(stored):>9}{human_bytes(source + memory):>9}"
        f"{ratio:7.2f}{'!' if large else ''}"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a line per format for each matrix. Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("matrices", nargs="*", metavar="MATRIX")
    parser.add_argument("--dtype", choices=("float32", "float64"), default="float32")
    parser.add_argument("--format", action="append", metavar="GLOB", help="only formats of such names")
    parser.add_argument("--param", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--repeat", type=int, default=1)
    chosen = parser.parse_args(arguments)
    params: dict[str, Any] = dict(text.partition("=")[::2] for text in chosen.param)
    known = {name for form in formats().values() for name in form.tunables}
    if unknown := sorted(params.keys() - known):
        parser.error(f"no format has a parameter {unknown[0]!r}: take one of {', '.join(sorted(known))}")
    try:
        tables(chosen, params)
    except SpgraphError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_status
    return 0


def tables(chosen: argparse.Namespace, params: dict[str, Any]) -> None:
    """Print the tables. Raises SpgraphError for an argument that is not a matrix, or not a value of a parameter."""
    for text in chosen.matrices or MATRICES:
        csr = (read(text) if Path(text).exists() else make(text)).csr
        print(f"\n{text}: {csr.rows:,} x {csr.cols:,}, {csr.nnz:,} nonzeros, {chosen.dtype}")
        print(f"{'':16}{'s':>8}{'median':>8}{'s/100 M':>9} {'stored':>9}{'peak':>9}{'ratio':>7}", flush=True)
        for form in formats().values():
            if any(fnmatch.fnmatch(form.name, pattern) for pattern in chosen.format or ["*"]):
                print(line(form, csr, chosen.dtype, params, max(1, chosen.repeat)), flush=True)
        del csr


if __name__ == "__main__":
    sys.exit(main())
