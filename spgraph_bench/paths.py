"""Where spgraph's own files and caches are kept.

In the wheel ``cuda/`` and ``configs/`` are inside the package; in a checkout (and in editable installs,
where hatchling's force-include does nothing) they are beside it. This is the only place that knows.
"""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from spgraph_bench.errors import CacheError, InputError, UsageError

if TYPE_CHECKING:
    from filelock import BaseFileLock

__all__ = [
    "cache_dir",
    "cache_lock",
    "configs_dir",
    "cuda_dir",
    "data_dir",
    "private_folder",
    "results_folder",
    "temporary_dir",
    "trusted",
]

_PACKAGE = Path(__file__).resolve().parent


def _shipped(name: str) -> Path:
    inside = _PACKAGE / name
    if inside.is_dir():
        return inside
    beside = _PACKAGE.parent / name
    if beside.is_dir():
        return beside
    raise FileNotFoundError(f"spgraph's folder {name}/ is neither in {_PACKAGE} nor beside it: reinstall spgraph")


def cuda_dir() -> Path:
    """The folder with the kernel sources."""
    return _shipped("cuda")


def configs_dir() -> Path:
    """The folder with the named runs."""
    return _shipped("configs")


def cache_dir(kind: str) -> Path:
    """The cache folder for `kind` ("modules", "matrices"), created if need be, for this user alone.

    ``SPGRAPH_CACHE`` wins, then ``XDG_CACHE_HOME/spgraph``, then ``~/.cache/spgraph``. Raises OSError where
    it cannot be made, or there is no home; CacheError where it belongs to another user or others may write
    to it: code is run out of it.
    """
    return _own_folder("SPGRAPH_CACHE", "XDG_CACHE_HOME", Path(".cache"), kind)


def data_dir(kind: str) -> Path:
    """The folder for what users keep ("baselines"), created if need be, for this user alone.

    ``SPGRAPH_DATA`` wins, then ``XDG_DATA_HOME/spgraph``, then ``~/.local/share/spgraph``. Raises as `cache_dir`
    does.
    """
    return _own_folder("SPGRAPH_DATA", "XDG_DATA_HOME", Path(".local") / "share", kind)


def results_folder() -> Path:
    """The folder for records where a command names none: ``SPGRAPH_RESULTS``, else ``results`` where ``data_dir`` is.

    It is not made here. Raises UsageError where there is no home folder either.
    """
    if named := os.environ.get("SPGRAPH_RESULTS"):
        return Path(named)
    if override := os.environ.get("SPGRAPH_DATA"):
        return Path(os.path.abspath(override)) / "results"
    if xdg := os.environ.get("XDG_DATA_HOME"):
        return Path(os.path.abspath(xdg)) / "spgraph" / "results"
    try:
        return Path.home() / ".local" / "share" / "spgraph" / "results"
    except RuntimeError:  # neither HOME nor an entry in the system's list of users
        raise UsageError("no folder for records: there is no home folder", remedy="set SPGRAPH_RESULTS") from None


def _own_folder(variable: str, xdg: str, below_home: Path, kind: str) -> Path:
    if override := os.environ.get(variable):
        root = Path(os.path.abspath(override))
    else:
        try:
            home = os.environ.get(xdg) or Path.home() / below_home
        except RuntimeError as error:  # neither HOME nor an entry in the system's list of users
            raise OSError(f"no home directory: set {variable}") from error
        root = Path(os.path.abspath(home)) / "spgraph"
    root.parent.mkdir(parents=True, exist_ok=True)
    return private_folder(private_folder(root, variable) / kind, variable)


def private_folder(path: Path, variable: str = "SPGRAPH_CACHE") -> Path:
    """`path`, made as a folder of mode 0700 if it is not there, for what `variable` names. Raises CacheError as
    `cache_dir` does."""
    with contextlib.suppress(FileExistsError):
        path.mkdir(0o700)
    status = path.stat()
    if not stat.S_ISDIR(status.st_mode):
        raise NotADirectoryError(20, "Not a directory", str(path))
    what = "the cache folder" if variable == "SPGRAPH_CACHE" else "the folder for data"
    _check_owner(status, path, what, f"set {variable} to a folder of your own")
    return path


def trusted(path: Path) -> bool:
    """Whether the cache entry `path` is there, as a file.

    Raises CacheError where it belongs to another user or others may write to it.
    """
    try:
        status = path.lstat()
    except OSError:
        return False
    if not stat.S_ISREG(status.st_mode):
        return False
    _check_owner(status, path, "the cache entry", f"look at how it came there, then: rm {path}")
    return True


def _check_owner(status: os.stat_result, path: Path, what: str, remedy: str) -> None:
    if status.st_uid != os.geteuid():
        raise CacheError(f"{what} belongs to another user", place=str(path), remedy=remedy)
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise CacheError(f"other users may write to {what}", place=str(path), remedy=f"chmod go-w {path}, or {remedy}")


@contextlib.contextmanager
def cache_lock(name: str, *, wait: bool = True) -> Iterator[bool]:
    """Hold the cache's lock `name`, as one thread of one process; gives whether it is held.

    Parameters
    ----------
    wait : for another holder. Without it False is returned immediately where there is one.

    On a file system without locks nothing is held, and True is given: work is then done twice, never half.
    Lock files are empty, stay in the folder ``locks``, and say nothing by being there.
    """
    from filelock import FileLock, Timeout

    lock: BaseFileLock = FileLock(cache_dir("locks") / name, timeout=-1 if wait else 0, mode=0o600)
    try:
        lock.acquire(poll_interval=0.02)
    except Timeout:
        yield False
        return
    except (OSError, NotImplementedError):
        yield True
        return
    try:
        yield True
    finally:
        lock.release()


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
