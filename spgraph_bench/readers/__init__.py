"""Reading matrices and graphs from files: one module per format, found by content and suffix.

`read` is the one entry; `readers` lists the formats.
"""

from __future__ import annotations

from spgraph_bench.matrix import Matrix
from spgraph_bench.readers.common import Progress, Reader, ReadOptions, readers

__all__ = ["Progress", "ReadOptions", "Reader", "read", "readers"]


def read(path: str, options: ReadOptions | None = None, progress: Progress | None = None) -> Matrix:
    """The matrix in the file `path` ("-": standard input).

    Raises InputError, with place and remedy, for anything that keeps the file from being read.
    """
    from spgraph_bench.readers.opening import read_input

    return read_input(path, options or ReadOptions(), progress or (lambda what, fraction: None), readers())
