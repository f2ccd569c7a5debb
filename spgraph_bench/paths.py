"""Where spgraph's own files and caches lie.

In the wheel ``cuda/`` and ``configs/`` are inside the package; in a checkout (and in editable installs,
where hatchling's force-include does nothing) they lie beside it. This is the only place that knows.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from spgraph_bench.errors import InputError

__all__ = ["cache_dir", "configs_dir", "cuda_dir", "temporary_dir"]

_PACKAGE = Path(__file__).resolve().parent


def _shipped(name: str) -> Path:
    inside = _PACKAGE / name
    if inside.is_dir():
        return inside
    beside = _PACKAGE.parent / name
    if beside.is_dir():
        return beside
    raise FileNotFoundError(
        f"spgraph's folder {name}/ is neither in {_PACKAGE} nor beside it: reinstall spgraph"
    )


def cuda_dir() -> Path:
    """The folder with the kernel sources."""
    return _shipped("cuda")


def configs_dir() -> Path:
    """The folder with the named runs."""
    return _shipped("configs")


def cache_dir(kind: str) -> Path:
    """The cache folder for `kind` ("modules", "matrices"), created if need be.

    ``SPGRAPH_CACHE`` wins, then ``XDG_CACHE_HOME/spgraph``, then ``~/.cache/spgraph``. Raises OSError where
    it cannot be made, or there is no home.
    """
    if override := os.environ.get("SPGRAPH_CACHE"):
        root = Path(override)
    else:
        try:
            root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "spgraph"
        except RuntimeError as error:  # neither HOME nor an entry in the system's list of users
            raise OSError("no home directory for the cache: set SPGRAPH_CACHE") from error
    folder = root / kind
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def temporary_dir() -> str:
    """The folder for temporary files. Raises InputError where none can be written to: a full disk, say."""
    try:
        return tempfile.gettempdir()
    except OSError:
        raise InputError(
            "no folder for temporary files can be written to",
            place=os.environ.get("TMPDIR") or "/tmp",
            remedy="free space there, or set TMPDIR to another folder",
        ) from None
