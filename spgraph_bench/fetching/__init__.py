"""Matrices and graphs from collections on the web: by name, into a folder, whole and checked.

`fetch` is the one entry; `sites.py` says what names mean, `index.py` what the SuiteSparse collection has,
`download.py` how a file gets here.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from spgraph_bench.errors import CacheError, InputError, UsageError
from spgraph_bench.fetching.download import (
    MissingFileError,
    Patience,
    Progress,
    digest_of,
    download,
    is_compressed,
    known_digest,
    whole_compressed,
)
from spgraph_bench.fetching.index import Entry, Filter, advice_for, load_index
from spgraph_bench.fetching.sites import SITES, Remote, Site, is_collection_name, remote_of
from spgraph_bench.paths import cache_dir, cache_lock

__all__ = [
    "SITES",
    "Entry",
    "Filter",
    "MissingFileError",
    "Patience",
    "Remote",
    "Site",
    "checked_sha256",
    "default_folder",
    "fetch",
    "is_collection_name",
    "load_index",
    "place_of",
    "remote_of",
]


def default_folder() -> Path:
    """Where files go unless another folder is named: ``fetched`` in the cache (``SPGRAPH_CACHE``).

    Raises CacheError.
    """
    try:
        return cache_dir("fetched")
    except OSError as error:
        cause = f"no cache for what is fetched: {error.strerror or error}"
        raise CacheError(cause, place=error.filename, remedy="set SPGRAPH_CACHE to a folder you can write to") from None


def place_of(remote: Remote, folder: Path | None = None) -> Path:
    """The file that `remote` is, or would be, in `folder` (None: :func:`default_folder`)."""
    return (folder or default_folder()) / remote.file


def fetch(
    name: str | Remote,
    folder: Path | None = None,
    *,
    sha256: str | None = None,
    refresh: bool = False,
    patience: Patience | None = None,
    progress: Progress = lambda doing, fraction: None,
    on_start: Callable[[Remote, Path], None] = lambda remote, place: None,
) -> Path:
    """The file of `name`, "HB/1138_bus", "snap:wiki-Vote" or "konect:moreno_zebra": fetched if it is not there yet.

    Parameters
    ----------
    folder : where to; None: :func:`default_folder`.
    sha256 : what the file's hash must be; else it is only noted beside the file (``FILE.sha256``), for
        ``sha256sum -c`` and for the next call.
    refresh : fetch even where the file is there.
    patience : how long to wait for a server, and how often to ask again.
    on_start : called before a server is asked.

    The file appears whole or not at all: its compression's checksums are verified before it gets its name. What an
    interrupted call has fetched is kept, and the next one goes on from there. Raises UsageError for a name that none
    can be, InputError (of kind MissingFileError: the collection has none of that name) for everything between here
    and the server, with the URL as its place.
    """
    remote = remote_of(name) if isinstance(name, str) else name
    target = place_of(remote, folder)
    with _locked(target):
        if target.is_file() and not refresh:
            _verify(target, sha256)
            return target
        on_start(remote, target)
        try:
            digest = download(
                remote.url,
                target,
                looks_right=is_compressed(target.name),
                verify=whole_compressed,
                sha256=sha256,
                patience=patience or Patience(),
                progress=progress,
            )
        except MissingFileError as error:
            advice = advice_for(remote.name, folder or default_folder()) if remote.site == "suitesparse" else None
            raise MissingFileError(
                f"{SITES[remote.site].title} has no {remote.name}", remedy=advice or error.remedy, place=error.place
            ) from None
        with contextlib.suppress(OSError):  # a note beside it, which the file does not depend on
            known_digest(target).write_text(f"{digest}  {target.name}\n", encoding="utf-8")
    return target


@contextlib.contextmanager
def _locked(target: Path) -> Iterator[None]:
    """One process at a time fetches `target`: the second finds it there."""
    name = hashlib.sha256(os.fsencode(os.path.abspath(target))).hexdigest()[:16]
    with cache_lock(f"fetch-{name}"):
        yield


def _verify(path: Path, sha256: str | None) -> None:
    """InputError if the hash of the file `path` is not `sha256`, or not the one noted when it was fetched."""
    noted = None
    with contextlib.suppress(OSError, UnicodeDecodeError):
        noted = known_digest(path).read_text(encoding="utf-8").partition(" ")[0]
    wanted = sha256 or noted
    if not wanted or digest_of(path) == wanted.lower():
        return
    what = "is not the one that was asked for" if sha256 else "has changed since it was fetched"
    raise InputError(f"the file {what} (sha256)", remedy="fetch it again: --refresh", place=str(path))


def checked_sha256(text: str) -> str:
    """`text` as a hash in lower case; UsageError if it is none."""
    digest = text.strip().lower().removeprefix("sha256:")
    if len(digest) != 64 or set(digest) - set("0123456789abcdef"):
        raise UsageError(f"{text!r} is not a sha256", remedy="it has 64 hexadecimal digits")
    return digest
