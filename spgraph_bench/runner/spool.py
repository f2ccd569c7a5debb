"""Arrays handed between the processes: written once, mapped by every worker that is started."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.errors import InputError
from spgraph_bench.paths import temporary_dir

__all__ = ["Spool", "load", "save"]

_SHM = Path("/dev/shm")


class Spool:
    """A temporary folder of .npy files, in memory (/dev/shm) where that is at most half full afterwards."""

    def __init__(self, expected_bytes: int) -> None:
        place = None
        try:
            if shutil.disk_usage(_SHM).free > 2 * expected_bytes:
                place = _SHM
        except OSError:
            pass
        self.path = Path(tempfile.mkdtemp(prefix="spgraph-", dir=place or temporary_dir()))

    def save(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Write `arrays`, each under its name. Raises InputError when the disk is full."""
        save(self.path, arrays)

    def close(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.path, ignore_errors=True)


def save(folder: Path, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Write `arrays` into `folder`, each under its name. Raises InputError when the disk is full."""
    try:
        for name, array in arrays.items():
            np.save(folder / f"{name}.npy", array, allow_pickle=False)
    except OSError as error:
        raise InputError(
            f"cannot hand arrays to another process: {error.strerror}",
            place=str(folder),
            remedy="free space there, set TMPDIR to another folder, or use --in-process",
        ) from None


def load(folder: Path) -> dict[str, npt.NDArray[Any]]:
    """All arrays of a spool, mapped read-only."""
    return {path.stem: np.load(path, mmap_mode="r") for path in folder.glob("*.npy")}
