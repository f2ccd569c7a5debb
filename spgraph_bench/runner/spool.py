"""Arrays handed between the processes: written once, mapped by every worker that is started."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.cores import on_all_cores
from spgraph_bench.errors import InputError
from spgraph_bench.paths import temporary_dir

if TYPE_CHECKING:
    from filelock import BaseFileLock

__all__ = ["Spool", "load", "save", "sweep"]

_SHM = Path("/dev/shm")
_PREFIX = "spgraph-"
_LOCK = "owner.lock"
_BOOT = "boot"


class Spool:
    """A temporary folder of .npy files, in memory (/dev/shm) where that is at most half full afterwards.

    A lock is held on a file in it for as long as this process lives, however it ends: so the next run knows
    what a killed one left behind, and removes it (see `sweep`). Raises InputError where none can be made.
    """

    def __init__(self, expected_bytes: int) -> None:
        sweep(_SHM)
        with contextlib.suppress(InputError):
            sweep(Path(temporary_dir()))
        self.path, self._lock = self._made(expected_bytes)

    @staticmethod
    def _made(expected_bytes: int) -> tuple[Path, BaseFileLock | None]:
        with contextlib.suppress(OSError):  # /dev/shm may be missing, full or read-only
            if shutil.disk_usage(_SHM).free > 2 * expected_bytes:
                return _new_folder(_SHM)
        place = Path(temporary_dir())
        try:
            return _new_folder(place)
        except OSError as error:
            raise _no_room(error, place) from None

    def save(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Write `arrays`, each under its name. Raises InputError when the disk is full."""
        save(self.path, arrays)

    def close(self) -> None:
        """Remove the folder."""
        for file in self.path.glob("*.npy"):  # before the lock's file, without which no sweep looks at them
            with contextlib.suppress(OSError):
                file.unlink()
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock is not None:
            self._lock.release()
            self._lock = None


def save(folder: Path, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Write `arrays` into `folder`, each under its name. Raises InputError when the disk is full."""

    def write(item: tuple[str, npt.NDArray[Any]]) -> None:
        name, array = item
        np.save(folder / f"{name}.npy", array, allow_pickle=False)

    try:
        for _ in on_all_cores(write, arrays.items()):
            pass
    except OSError as error:
        raise _no_room(error, folder) from None


def load(folder: Path) -> dict[str, npt.NDArray[Any]]:
    """All arrays of a spool, mapped read-only."""
    return {path.stem: np.load(path, mmap_mode="r") for path in folder.glob("*.npy")}


def sweep(place: Path) -> None:
    """Remove the spools in `place` whose processes are gone, killed when memory ran out, say.

    The lock says which: it holds across containers, where a process id would say nothing. Only folders that
    bear our name and belong to this user, with our lock file and nothing but arrays beside it. Safe for any
    number of processes at the same time; what cannot be removed stays.
    """
    try:
        names = [name for name in os.listdir(place) if name.startswith(_PREFIX)]
    except OSError:
        return
    for name in names:
        with contextlib.suppress(OSError):  # among others BlockingIOError: its owner lives
            _remove_if_left(place / name)


def _remove_if_left(path: Path) -> None:
    """Remove one spool; raises OSError where it is none, or is in use."""
    from filelock import FileLock, Timeout

    about = path.lstat()
    if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.geteuid():
        return
    # The boot's file is written when the lock is held: a new spool does not look like one left behind.
    names = set(os.listdir(path))
    if not {_LOCK, _BOOT} <= names or not all(stat.S_ISREG((path / name).lstat().st_mode) for name in names):
        return
    if (path / _BOOT).read_bytes() != _boot() or not all(name.endswith(".npy") for name in names - {_LOCK, _BOOT}):
        return
    lock = FileLock(path / _LOCK, timeout=0, mode=0o600)
    try:
        lock.acquire()
    except (Timeout, NotImplementedError):  # its owner lives
        return
    try:
        # Another sweep may have removed all but what the lock made anew.
        for name in os.listdir(path):
            if name != _LOCK:
                (path / name).unlink()
        (path / _LOCK).unlink(missing_ok=True)
        path.rmdir()
    finally:
        lock.release()


def _new_folder(place: Path) -> tuple[Path, BaseFileLock | None]:
    """A new spool's folder in `place`, and the lock held on it: None where there are no locks.

    Raises OSError where it cannot be made; then nothing is left there.
    """
    from filelock import FileLock

    path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=place))
    try:
        lock = FileLock(path / _LOCK, mode=0o600, thread_local=False)
        try:
            lock.acquire()
        except NotImplementedError:  # no locks on this file system: never swept, for there is no file `boot`
            return path, None
        (path / _BOOT).write_bytes(_boot())
    except BaseException:
        shutil.rmtree(path, ignore_errors=True)
        raise
    return path, lock


def _boot() -> bytes:
    """What tells this run of this machine from others: their locks may not be seen in a shared folder."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_bytes()
    except OSError:
        return b"?\n"


def _no_room(error: OSError, place: Path) -> InputError:
    # numpy's own error has no number.
    why = error.strerror or f"there is no room ({error})"
    return InputError(
        f"cannot hand arrays to another process: {why}",
        place=str(place),
        remedy="free space there, set TMPDIR to another folder, or use --in-process",
    )
