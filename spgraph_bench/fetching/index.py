"""The index of the SuiteSparse collection (ssstats.csv): what there is, and which of it fits a filter."""

from __future__ import annotations

import csv
import difflib
import fnmatch
import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from spgraph_bench.errors import InputError, SpgraphError
from spgraph_bench.fetching.download import Patience, Progress, download
from spgraph_bench.fetching.sites import SITES, base_url

__all__ = ["Entry", "Filter", "advice_for", "load_index", "parse_index"]

_FILE = "suitesparse/ssstats.csv"
_KEPT_SECONDS = 30 * 86400.0
"""An older index is fetched again; the collection changes a few times a year."""
_FIELDS = 12
Range = tuple[int, int]


@dataclass(frozen=True)
class Entry:
    """A matrix of the collection, as its index describes it."""

    group: str
    name: str
    rows: int
    cols: int
    nnz: int
    values: str
    """"real", "binary" (a pattern) or "complex"."""
    mesh: bool
    """Whether it comes from a problem in two or three dimensions."""
    positive_definite: bool
    pattern_symmetry: float
    """The share of entries off the diagonal whose mirror is an entry too."""
    numerical_symmetry: float
    """The same for entries whose mirror has the same value: 1 for symmetric matrices."""
    kind: str
    """"structural problem", "directed weighted graph", ..."""

    @property
    def full_name(self) -> str:
        """``GROUP/NAME``."""
        return f"{self.group}/{self.name}"

    @property
    def symmetric(self) -> bool:
        """Square, with equal values on both sides of the diagonal."""
        return self.rows == self.cols and self.numerical_symmetry == 1


@dataclass(frozen=True)
class Filter:
    """Which matrices are wanted; what is None or empty excludes nothing."""

    names: Sequence[str] = ()
    """Globs of GROUP/NAME; any of them."""
    rows: Range | None = None
    """Least and most, both included."""
    cols: Range | None = None
    nnz: Range | None = None
    kinds: Sequence[str] = ()
    """Parts of the kind or globs of it, in any case; any of them."""
    values: str | None = None
    symmetric: bool | None = None
    square: bool | None = None
    positive_definite: bool | None = None

    def __bool__(self) -> bool:
        return self != Filter()

    def fits(self, entry: Entry) -> bool:
        """Whether `entry` is wanted."""

        def within(value: int, bounds: Range | None) -> bool:
            return bounds is None or bounds[0] <= value <= bounds[1]

        def same(value: bool, wanted: bool | None) -> bool:
            return wanted is None or value == wanted

        kind = entry.kind.lower()
        return (
            within(entry.rows, self.rows)
            and within(entry.cols, self.cols)
            and within(entry.nnz, self.nnz)
            and same(entry.symmetric, self.symmetric)
            and same(entry.rows == entry.cols, self.square)
            and same(entry.positive_definite, self.positive_definite)
            and (self.values is None or entry.values == self.values)
            and (not self.names or any(fnmatch.fnmatchcase(entry.full_name, glob) for glob in self.names))
            and (not self.kinds or any(part in kind or fnmatch.fnmatchcase(kind, part) for part in self._kinds))
        )

    @property
    def _kinds(self) -> Iterable[str]:
        return (part.lower() for part in self.kinds)


def load_index(
    folder: Path,
    *,
    refresh: bool = False,
    patience: Patience | None = None,
    progress: Progress = lambda doing, fraction: None,
    warn: Callable[[str], None] = lambda text: None,
) -> list[Entry]:
    """All matrices of the SuiteSparse collection, by its index in `folder`, which is fetched if it is not there.

    One older than 30 days is fetched again; if that fails it is used, and `warn` is told. Raises InputError where
    there is none, or where it cannot be read (with its line).
    """
    path = folder / _FILE
    try:
        age = time.time() - path.stat().st_mtime
    except OSError:
        age = None
    if refresh or age is None or age > _KEPT_SECONDS:
        try:
            download(
                f"{base_url(SITES['suitesparse'])}/files/ssstats.csv",
                path,
                looks_right=_is_index,
                verify=_verify_index,
                patience=patience or Patience(),
                progress=progress,
            )
        except SpgraphError as error:
            if refresh or age is None:
                raise
            warn(f"the index is {age / 86400:.0f} days old, and a new one cannot be fetched: {error.cause}")
    return parse_index(path.read_bytes(), str(path))


def _is_index(head: bytes) -> str | None:
    first = head.split(b"\n", 1)[0].strip()
    return None if first.isdigit() else "is not the index of the collection: its first line is not a number"


def _verify_index(path: Path) -> str | None:
    try:
        entries = parse_index(path.read_bytes(), str(path))
    except InputError as error:
        return f"is not whole: {error.cause}"
    return None if entries else "names no matrices"


def parse_index(data: bytes, place: str) -> list[Entry]:
    """The entries of an index: a line with their number, one with a date, then one for each.

    Raises InputError with its line for one that is not such an entry, and where there are fewer than it says.
    """
    lines = data.decode("utf-8", "replace").splitlines()
    if not lines or not lines[0].strip().isdigit():
        raise InputError("the first line is not the number of matrices", place=f"{place}:1", remedy="--refresh")
    entries = []
    for number, fields in enumerate(csv.reader(lines[2:]), 3):
        if not fields:
            continue
        try:
            entries.append(_entry(fields))
        except ValueError as error:
            line_place = f"{place}:{number}"
            raise InputError(f"not a line of the index: {error}", place=line_place, remedy="--refresh") from None
    if len(entries) < int(lines[0]):
        raise InputError(f"{len(entries):,} of {int(lines[0]):,} matrices are there", place=place, remedy="--refresh")
    return entries


def _entry(fields: Sequence[str]) -> Entry:
    if len(fields) < _FIELDS:
        raise ValueError(f"{len(fields)} fields instead of {_FIELDS} or more")
    group, name, rows, cols, nnz, real, binary, mesh, definite, pattern, numerical, kind = fields[:_FIELDS]
    values = "binary" if int(binary) else "real" if int(real) else "complex"
    return Entry(
        group,
        name,
        int(rows),
        int(cols),
        int(nnz),
        values,
        bool(int(mesh)),
        int(definite) == 1,  # -1: not known
        float(pattern),
        float(numerical),
        kind,
    )


def advice_for(name: str, folder: Path) -> str | None:
    """What else may be meant by the GROUP/NAME `name`, by an index that is there already."""
    path = folder / _FILE
    if not os.path.isfile(path):
        return None
    try:
        entries = parse_index(path.read_bytes(), str(path))
    except (InputError, OSError):
        return None
    wanted = name.rpartition("/")[2].lower()
    same = [e.full_name for e in entries if e.name.lower() == wanted]
    close = same or difflib.get_close_matches(name, [e.full_name for e in entries], n=2)
    return f"did you mean {' or '.join(close[:3])}?" if close else None
