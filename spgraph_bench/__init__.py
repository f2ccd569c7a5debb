"""spgraph: which sparse format, kernel or traversal is fastest for your own matrix on an NVIDIA GPU.

From Python: :func:`read`, :func:`bench` and :class:`Results` (docs/api.md).
"""

import importlib

__version__ = "0.1.0"

__all__ = ["Results", "__version__", "bench", "read"]


def __getattr__(name: str) -> object:
    # What they need takes a second to import: too long for `spgraph --help`.
    if name in ("Results", "bench", "read"):
        return getattr(importlib.import_module("spgraph_bench.api"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
