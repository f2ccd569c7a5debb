"""Which code this is: a hash of package and kernels, and the commit they are of where that is known.

The hash exists everywhere: in a checkout, a copied tree and an installed wheel it is the same for the same
files. A commit is asked of git; where there is no repository (a copied tree), a note in the cache folder may
tell which commit has files of this hash (:func:`note_commit`).
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import spgraph_bench
from spgraph_bench.errors import SpgraphError
from spgraph_bench.paths import cache_dir, cuda_dir, trusted

__all__ = ["Commit", "code_hash", "commit", "note_commit"]

_SUFFIXES = {".py", ".cpp", ".cu", ".cuh", ".h", ".hpp"}
_GIT_SECONDS = 5


@dataclass(frozen=True)
class Commit:
    """A commit of the repository."""

    name: str
    """Its hash; "" where it is not known."""
    clean: bool | None
    """Whether package and kernels are as committed, no file more or less; None where it is not known."""


@functools.cache
def code_hash() -> str:
    """sha256 of the files of the package and of the kernels, by their place in the project: 64 hex digits."""
    import hashlib

    package, kernels = Path(spgraph_bench.__file__).resolve().parent, cuda_dir().resolve()
    files = {f"cuda/{p.relative_to(kernels).as_posix()}": p for p in kernels.rglob("*")}
    for path in package.rglob("*"):
        inside = path.relative_to(package)
        if inside.parts[0] not in ("cuda", "configs"):  # as in a wheel
            files[f"spgraph_bench/{inside.as_posix()}"] = path
    total = hashlib.sha256()
    for name in sorted(files):
        if files[name].suffix in _SUFFIXES:
            data = files[name].read_bytes()
            total.update(f"{name}\0{len(data)}\0".encode())
            total.update(data)
    return total.hexdigest()


@functools.cache
def commit() -> Commit:
    """The commit that the running code is of."""
    root = Path(spgraph_bench.__file__).resolve().parent.parent
    known = Commit("", None)
    if (root / ".git").exists():
        try:
            name = _git(root, "rev-parse", "HEAD")
            changed = _git(root, "status", "--porcelain", "--", "spgraph_bench", "cuda")
            known = Commit(name, not changed)
        except (OSError, subprocess.SubprocessError):
            pass  # no git, or it refuses: as without a repository
    if known.clean:
        return known
    # A note is of these very files, whatever a repository that was copied with them says.
    try:
        path = cache_dir("commits") / f"{code_hash()}.json"
        if trusted(path):
            return Commit(str(json.loads(path.read_text(encoding="utf-8"))["commit"]), True)
    except (OSError, ValueError, KeyError, TypeError, SpgraphError):
        pass
    return known


def note_commit() -> Path | None:
    """Note in the cache folder which commit this code is of, for copies of it without a repository.

    None, and no note, where the commit is not known or the files are not as committed. Raises OSError where
    the folder cannot be written.
    """
    known = commit()
    if not known.name or not known.clean:
        return None
    path = cache_dir("commits") / f"{code_hash()}.json"
    part = path.with_suffix(f".{os.getpid()}.part")
    part.write_text(json.dumps({"commit": known.name}), encoding="utf-8")
    part.chmod(0o600)
    part.replace(path)
    return path


def _git(root: Path, *arguments: str) -> str:
    # A repository of another user is refused otherwise ("dubious ownership"); nothing of it is run here.
    command = ["git", "-c", "safe.directory=*", "-c", "core.fsmonitor=false", "-C", str(root), *arguments]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    done = subprocess.run(command, capture_output=True, text=True, timeout=_GIT_SECONDS, check=True, env=environment)
    return done.stdout.strip()
