"""Files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from spgraph_bench.errors import UsageError

__all__ = ["check_place", "whole_file"]


def check_place(path: Path, overwrite: bool) -> None:
    """UsageError if no file can be made at `path`."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as error:  # a link to itself, a name too long, a folder that cannot be entered
        raise UsageError(
            f"cannot be written: {error.strerror}", place=str(path), remedy="choose another place"
        ) from None
    if path.exists() and not path.is_file():
        raise UsageError("is not a regular file", place=str(path), remedy="name a file")
    if path.exists() and not overwrite:
        raise UsageError("exists already", place=str(path), remedy="--force overwrites it")
    if not path.parent.is_dir():
        raise UsageError(f"there is no folder {path.parent}", place=str(path), remedy="make it first")
    if not os.access(path.parent, os.W_OK):
        raise UsageError(
            f"the folder {path.parent} cannot be written to", place=str(path), remedy="choose another place"
        )


@contextmanager
def whole_file(path: Path, overwrite: bool) -> Iterator[BinaryIO]:
    """A file to write, which appears at `path` whole when the block ends, or not at all.

    Raises UsageError when it cannot be written, or is there by then and `overwrite` is not given.
    """
    path = path.resolve()  # a link stays a link
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if overwrite:
            part.replace(path)
        else:
            try:
                os.link(part, path)  # unlike a rename, fails if another process made the file meanwhile
            except FileExistsError:
                raise UsageError("exists already", place=str(path), remedy="--force overwrites it") from None
            except OSError:  # a file system without hard links
                part.replace(path)
    except OSError as error:  # a full disk, a quota, a folder in which no file can be made
        raise UsageError(
            f"cannot be written: {error.strerror or error}",
            place=str(path),
            remedy="make room there, or choose another place",
        ) from None
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
