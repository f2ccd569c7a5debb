"""Time spgraph's Matrix Market reader against scipy's on the same files.

    python scripts/bench_readers.py [--entries N] [--repeat N] [FILE ...]

spgraph's reader ends with canonical CSR. scipy is timed to what mmread(path) gives (COO, both triangles of a
symmetric matrix) and to canonical CSR; it checks nothing that spgraph checks, and skips what it does not
understand. Without files, matrices of N uniformly random entries are written to a temporary folder. All take
turns, so that they meet the same load; the best of all is shown: wall-clock time, CPU time of all threads.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
import scipy.sparse as sp

from spgraph_bench.readers import read


def to_csr(path: str) -> Any:
    csr = sp.csr_array(scipy.io.mmread(path))
    csr.sum_duplicates()
    return csr


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
    wall, cpu = time.perf_counter(), time.process_time()
    kept = task(path)
    taken = time.perf_counter() - wall, time.process_time() - cpu
    del kept
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="*", metavar="FILE")
    parser.add_argument("--entries", type=int, default=4_000_000)
    parser.add_argument("--repeat", type=int, default=8)
    arguments = parser.parse_args()
    print(f"{os.cpu_count()} cores, best of {arguments.repeat}; seconds: wall (CPU)")
    heads = f"{'mmread':>16}{'mmread to CSR':>16}{'spgraph':>16}{'ratio to mmread':>18}{'to CSR':>14}"
    print(f"{'':40}{'MB':>4}{heads}")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["SPGRAPH_CACHE"] = folder  # or a file that takes long is read once only
        for path in arguments.files or written(Path(folder), arguments.entries):
            times = [
                [seconds(task, path) for task in (scipy.io.mmread, to_csr, read)]
                for _ in range(arguments.repeat)
            ]
            best = np.min(times, axis=0)
            (to_coo, to_csrs), ours = best[:2], best[2]
            print(
                f"{Path(path).stem:40}{os.path.getsize(path) / 1e6:4.0f}"
                + "".join(f"{wall:8.3f} ({cpu:5.3f})" for wall, cpu in best)
                + "".join(f"{wall:7.2f} ({cpu:4.2f})" for wall, cpu in (ours / to_coo, ours / to_csrs)),
                flush=True,
            )


if __name__ == "__main__":
    main()
