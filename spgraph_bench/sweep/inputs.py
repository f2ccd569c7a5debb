"""What a sweep runs on: files, folders, globs and recipes with ranges, each matrix as an :class:`Input`."""

from __future__ import annotations

import difflib
import glob
import hashlib
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Literal

from spgraph_bench import fetching, readers, recipes
from spgraph_bench.errors import InputError
from spgraph_bench.matrix import Matrix
from spgraph_bench.readers.common import ReadOptions
from spgraph_bench.readers.opening import matrix_name
from spgraph_bench.recipes.ranges import expand

__all__ = ["Input", "file_digest", "find_inputs", "with_digests"]

_PIECE = 1 << 20
_COMPRESSED = (".gz", ".bz2", ".xz", ".tgz", ".tbz2", ".txz")


@dataclass(frozen=True)
class Input:
    """One matrix of a sweep, before it is read; small enough to be sent to another machine."""

    kind: Literal["recipe", "file", "collection", "options"]
    """"collection": a file that is fetched when it is wanted; "options": the problem makes its own inputs."""
    text: str
    """The recipe, all parameters filled in; the path; the name in a collection; "" for options."""
    read: ReadOptions = field(default_factory=ReadOptions)
    digest: str = ""
    """Of a file's bytes: a worker must see the same file."""
    bytes: int = 0
    """Size of the file."""

    @property
    def name(self) -> str:
        """What tables call the matrix before it is read."""
        if self.kind == "recipe":
            recipe, values = recipes.parse(self.text)
            return recipe.short_name(values)
        if self.kind == "options":
            return ""
        return matrix_name(re.split("[/:]", self.text)[-1], readers.readers())

    @property
    def identity(self) -> list[object]:
        """What makes it this input and no other, wherever the file is."""
        if self.kind == "file":
            return ["file", os.path.basename(self.text), self.digest, asdict(self.read)]
        return [self.kind, self.text, asdict(self.read)] if self.kind == "collection" else [self.kind, self.text]

    def load(self, progress: Callable[[str, float | None], None] | None = None) -> Matrix:
        """The matrix. Raises InputError for what cannot be read, or is not what it was when the sweep was planned."""
        if self.kind == "recipe":
            return recipes.make(self.text, progress)
        if self.kind == "collection":
            return readers.read(str(fetching.fetch(self.text)), self.read, progress)
        if self.digest and file_digest(self.text) != self.digest:
            raise InputError(
                "the file has changed since the sweep was planned", place=self.text, remedy="start the sweep again"
            )
        return readers.read(self.text, self.read, progress)


def file_digest(path: str) -> str:
    """Hash of a file's bytes, 32 hex digits. Raises InputError where it cannot be read."""
    total = hashlib.blake2b(digest_size=16)
    try:
        with open(path, "rb") as stream:
            while piece := stream.read(_PIECE):
                total.update(piece)
    except OSError as error:
        raise InputError(
            f"cannot be read: {error.strerror or error}", place=path, remedy="check its permissions"
        ) from None
    return total.hexdigest()


def find_inputs(text: str, read: ReadOptions, base: Path | None = None) -> list[Input]:
    """The inputs that `text` names: a file, a folder of them, a glob, a name in a collection ("HB/1138_bus"), or a
    recipe, perhaps with ranges.

    Files get no digest here. `base` is the folder that paths are relative to, the current one if it is None.
    Raises InputError where there is nothing of that name, or nothing in the folder.
    """
    if not text.strip():
        raise InputError("the name of the file is empty", remedy="give a path, a folder, a glob or a recipe")
    path = _placed(text, base)
    if os.path.lexists(path):
        paths = _in_folder(path) if os.path.isdir(path) else [_regular(path)]
        return [Input("file", each, read, bytes=_size(each)) for each in paths]
    name = text.partition(":")[0]
    if name in recipes.names():
        if read != ReadOptions(seed=read.seed, parallel=read.parallel):
            raise InputError(
                f"options of reading do not apply to the recipe {name}",
                remedy="give a file, or set the recipe's own parameters (`spgraph list recipes`)",
            )
        return [_of_recipe(each) for each in expand(text)]
    if glob.has_magic(text):
        matched = sorted(each for each in glob.glob(path, recursive=True) if os.path.isfile(each))
        if not matched:
            raise InputError("no file matches", place=text, remedy="check the pattern and the folder")
        return [Input("file", each, read, bytes=_size(each)) for each in matched]
    if fetching.is_collection_name(text):
        return [Input("collection", text, read)]
    close = difflib.get_close_matches(name, recipes.names(), n=2)
    raise InputError(
        f"{text}: no such file or folder, and {name!r} is not a recipe",
        remedy=f"did you mean {' or '.join(close)}?"
        if close
        else "give a path, a folder, a glob or a recipe; `spgraph list recipes` names them",
    )


def _placed(text: str, base: Path | None) -> str:
    path = os.path.expanduser(text)
    return path if base is None or os.path.isabs(path) else os.path.join(base, path)


def _of_recipe(text: str) -> Input:
    """The input of one recipe, its parameters checked. Raises InputError where they contradict each other."""
    recipe, values = recipes.parse(text)
    recipes.size_of(recipe, values, text)
    return Input("recipe", recipe.text(values))


def _in_folder(folder: str) -> list[str]:
    """Regular files in `folder`, not below it, with a suffix that some reader has, sorted."""
    known = {suffix for reader in readers.readers().values() for suffix in reader.suffixes}
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        raise InputError(f"cannot be listed: {error.strerror}", place=folder, remedy="check its permissions") from None
    paths = [os.path.join(folder, name) for name in names if _suffix(name) in known or _suffix(name) in _COMPRESSED]
    if not (files := [path for path in paths if os.path.isfile(path)]):
        raise InputError(
            "no matrix files in this folder", place=folder, remedy="name the files; suffixes: `spgraph list readers`"
        )
    return files


def _suffix(name: str) -> str:
    stem, suffix = os.path.splitext(name.lower())
    return os.path.splitext(stem)[1] if suffix in _COMPRESSED[:3] and os.path.splitext(stem)[1] else suffix


def _regular(path: str) -> str:
    if not os.path.isfile(path):
        raise InputError("not a regular file", place=path, remedy="a sweep reads files more than once: save it to one")
    return path


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError:
        return 0  # gone since it was listed: loading it says so


def with_digests(inputs: Iterable[Input], unreadable: Callable[[Input, InputError], None]) -> list[Input]:
    """The inputs, files with their digests (1 s per GB or so), each file read once; `unreadable` hears of those that
    cannot be read, which keep an empty one."""
    known: dict[str, str] = {}
    done = []
    for each in inputs:
        if each.kind == "file" and each.text not in known:
            try:
                known[each.text] = file_digest(each.text)
            except InputError as error:
                known[each.text] = ""
                unreadable(each, error)
        done.append(replace(each, digest=known.get(each.text, "")))
    return done
