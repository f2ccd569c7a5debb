"""Arrays handed between the processes: written once, mapped by every worker that is started."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.errors import InputError
from spgraph_bench.paths import temporary_dir

__all__ = ["Spool", "load", "save", "sweep"]

_SHM = Path("/dev/shm")
_PREFIX = "spgraph-"
_LOCK = "owner.lock"


class Spool:
    """A temporary folder of .npy files, in memory (/dev/shm) where that is at most half full afterwards.

    A lock is held on a file in it for as long as this process lives, however it ends: so the next run knows
    what a killed one left behind, and removes it (see `sweep`). Raises InputError where none can be made.
    """

    def __init__(self, expected_bytes: int) -> None:
        sweep(_SHM)
        with contextlib.suppress(InputError):
            sweep(Path(temporary_dir()))
        place = None
        try:
            if shutil.disk_usage(_SHM).free > 2 * expected_bytes:
                place = _SHM
        except OSError:
            pass
        place = place or Path(temporary_dir())
        try:
            self.path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=place))
        except OSError as error:
            raise _no_room(error, place) from None
        try:
            self._lock = _locked(self.path / _LOCK)
        except OSError as error:
            shutil.rmtree(self.path, ignore_errors=True)
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
            os.close(self._lock)
            self._lock = None


def save(folder: Path, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Write `arrays` into `folder`, each under its name. Raises InputError when the disk is full."""
    try:
        for name, array in arrays.items():
            np.save(folder / f"{name}.npy", array, allow_pickle=False)
    except OSError as error:
        raise _no_room(error, folder) from None


def load(folder: Path) -> dict[str, npt.NDArray[Any]]:
    """All arrays of a spool, mapped read-only."""
    return {path.stem: np.load(path, mmap_mode="r") for path in folder.glob("*.npy")}


def sweep(place: Path) -> None:
    """Remove the spools in `place` whose processes are gone, killed for want of memory, say.

    The lock says which: it holds across containers, where a process id would say nothing. Only folders that
    bear our name and belong to this user, with our lock file and nothing but arrays beside it. Safe for any
    number of processes at once; what cannot be removed stays.
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
    with contextlib.ExitStack() as stack:
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        stack.callback(os.close, folder)
        if os.fstat(folder).st_uid != os.geteuid():
            return
        lock = os.open(_LOCK, os.O_RDWR | os.O_NOFOLLOW, dir_fd=folder)
        stack.callback(os.close, lock)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Its owner writes there once it has the lock: a new one does not look like one left behind.
        if os.read(lock, 100) != _boot():
            return
        names = [name for name in os.listdir(folder) if name != _LOCK]
        if not all(name.endswith(".npy") for name in names):
            return
        for name in names:
            os.unlink(name, dir_fd=folder)
        os.unlink(_LOCK, dir_fd=folder)
        os.rmdir(path)


def _locked(file: Path) -> int | None:
    """A descriptor that holds the lock on `file`, which is made; None where there are no locks."""
    lock = os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)  # at most a sweep has it, for a moment
    except OSError:  # not on this file system: without its file the folder is never swept
        os.close(lock)
        file.unlink()
        return None
    os.write(lock, _boot())
    return lock


def _boot() -> bytes:
    """What tells this run of this machine from others: their locks may not be seen in a shared folder."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_bytes()
    except OSError:
        return b"?\n"


def _no_room(error: OSError, place: Path) -> InputError:
    return InputError(
        f"cannot hand arrays to another process: {error.strerror}",
        place=str(place),
        remedy="free space there, set TMPDIR to another folder, or use --in-process",
    )
