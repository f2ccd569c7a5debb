"""Reading matrices and graphs from files: one module per format, found by content and suffix.

`read` is the one entry; `readers` lists the formats.
"""

from __future__ import annotations

import importlib
import pkgutil

from spgraph_bench.matrix import Matrix
from spgraph_bench.readers.common import Progress, Reader, ReadOptions, registered

__all__ = ["Progress", "ReadOptions", "Reader", "read", "readers"]


def readers() -> dict[str, Reader]:
    """All readers by name, in the order of their names."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    return dict(sorted(registered().items()))


def read(path: str, options: ReadOptions | None = None, progress: Progress | None = None) -> Matrix:
    """The matrix in the file `path` ("-": standard input).

    Raises InputError, with place and remedy, for anything that keeps the file from being read.
    """
    from spgraph_bench.readers.opening import read_input

    return read_input(path, options or ReadOptions(), progress or (lambda what, fraction: None), readers())
