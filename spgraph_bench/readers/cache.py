"""Parsed matrices kept between runs, so that a file that takes long to read does so once.

An entry is one uncompressed .npz, named by the hash of the input's bytes, the options that change the result
and this module's version. Its CSR must have the hash that it was kept with. Entries are written beside and
moved into place, by one process at a time; anything that cannot be loaded counts as absent and is written
anew. The folder is kept below 16 GiB and below half of the disk's free space; the entries unused for longest
go first.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import mmap
import os
import shutil
import tempfile
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.matrix import CSR, ContentHash, Finding, Matrix, Policies, Source
from spgraph_bench.paths import cache_dir, cache_lock, trusted
from spgraph_bench.readers.common import ReadOptions

__all__ = ["MAX_BYTES", "WORTH_SECONDS", "key", "load", "store", "worth_looking"]

VERSION = 4
"""Part of every key: raise it whenever reading the same bytes may give another matrix."""
WORTH_SECONDS = 5.0
"""A file that takes longer than this to read is kept."""
MAX_BYTES = 16 * 2**30
"""The folder's bound."""
_UNFINISHED = ".new-*.tmp"
_LOCK = "matrices"  # held while an entry is written
_SMALL = 1 << 16  # no smaller file takes seconds to read, so its hash need not be looked up


def _folder() -> Path | None:
    try:
        return cache_dir("matrices")
    except OSError:
        return None


def worth_looking(size: int) -> bool:
    """Whether an input of `size` bytes can be in the cache at all (hashing it costs about 1 s per GB)."""
    folder = _folder()
    if size < _SMALL or folder is None:
        return False
    if any(folder.glob(_UNFINISHED)):
        with cache_lock(_LOCK, wait=False) as ours:
            if ours:
                _remove_unfinished(folder)
    return any(folder.glob("*.npz"))


def key(data: bytes | mmap.mmap, file_name: str, options: ReadOptions) -> str:
    """The name of the cache entry for these bytes read under these options.

    The file's suffixes belong to it, because they take part in choosing the reader.
    """
    digest = hashlib.blake2b(data, digest_size=20)
    request = json.dumps([VERSION, file_name.lower().split(".")[1:], asdict(options)], sort_keys=True)
    digest.update(request.encode())
    return digest.hexdigest()


def load(entry: str, name: str, source: Source) -> Matrix | None:
    """The matrix kept as `entry`, or None if there is none that can be loaded and is what was kept.

    Raises CacheError where the entry belongs to another user, or others may write to it.
    """
    folder = _folder()
    if folder is None:
        return None
    path = folder / f"{entry}.npz"
    if not trusted(path):
        return None
    try:
        with np.load(path, allow_pickle=False) as arrays:
            about = json.loads(bytes(arrays["about"]))
            csr = CSR(
                about["rows"],
                about["cols"],
                arrays["row_ptr"],
                arrays["col_idx"],
                arrays["values"] if about["weighted"] else None,
            )
            original_ids = arrays["original_ids"] if "original_ids" in arrays.files else None
        if csr.sha256() != about["sha256"]:
            return None
        matrix = Matrix(
            name,
            csr,
            replace(source, format=about["format"]),
            about["symmetry"],
            about["weighted"],
            Policies(**about["policies"]),
            tuple(Finding(**f) for f in about["findings"]),
            ContentHash(about["sha256"]),
            about["entries_sha256"],
            original_ids,
            about["names"],
        )
    except Exception:  # whatever zipfile, zlib, numpy or json make of a damaged file
        return None
    with contextlib.suppress(OSError):
        os.utime(path)  # the last use, for eviction
    return matrix


def store(entry: str, matrix: Matrix) -> None:
    """Keep `matrix` as `entry`. Nothing is kept, without an error, where the disk is full or not the user's."""
    folder = _folder()
    if folder is None:
        return
    csr = matrix.csr
    about = {
        "rows": csr.rows,
        "cols": csr.cols,
        "weighted": csr.values is not None,
        "symmetry": matrix.symmetry,
        "format": matrix.source.format,
        "policies": asdict(matrix.policies),
        "sha256": matrix.sha256,
        "findings": [asdict(f) for f in matrix.findings],
        "entries_sha256": matrix.entries_sha256,
        "names": None if matrix.names is None else list(matrix.names),
    }
    arrays: dict[str, npt.NDArray[Any]] = {"row_ptr": csr.row_ptr, "col_idx": csr.col_idx}
    if csr.values is not None:
        arrays["values"] = csr.values
    if matrix.original_ids is not None:
        arrays["original_ids"] = matrix.original_ids
    size = sum(a.nbytes for a in arrays.values())
    try:
        if size > (limit := min(MAX_BYTES, shutil.disk_usage(folder).free // 2)):
            return
        with cache_lock(_LOCK, wait=False) as ours:
            if not ours:  # another process writes one: this matrix is cached the next time
                return
            _remove_unfinished(folder)
            _evict(folder, limit - size)
            handle, temporary = tempfile.mkstemp(prefix=".new-", suffix=".tmp", dir=folder)
            try:
                with os.fdopen(handle, "wb") as file:
                    arrays["about"] = np.frombuffer(json.dumps(about).encode(), np.uint8)
                    np.savez(file, **arrays)  # type: ignore[arg-type]  # numpy's stub sees allow_pickle there
                os.replace(temporary, folder / f"{entry}.npz")
            except BaseException:
                os.unlink(temporary)
                raise
    except OSError:
        return


def _remove_unfinished(folder: Path) -> None:
    """Remove what processes that were killed while writing left; the lock must be held."""
    for path in folder.glob(_UNFINISHED):
        path.unlink(missing_ok=True)


def _evict(folder: Path, limit: int) -> None:
    """Remove the entries unused for longest until the rest take at most `limit` bytes."""
    entries = []
    for path in folder.glob("*.npz"):
        with contextlib.suppress(OSError):  # another process may evict at the same time
            about = path.stat()
            entries.append((about.st_mtime, about.st_size, path))
    total = sum(size for _, size, _ in entries)
    for _, size, path in sorted(entries):
        if total <= limit:
            return
        with contextlib.suppress(OSError):
            path.unlink()
        total -= size
