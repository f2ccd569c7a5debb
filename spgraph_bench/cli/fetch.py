"""`spgraph fetch NAME...`: files of the SuiteSparse Matrix Collection, SNAP and KONECT, by name or by filter."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from spgraph_bench.cli.inputs import progress_on_stderr
from spgraph_bench.cli.options import ParameterType, PathParam, Positive, TextParam, json_option
from spgraph_bench.cli.terminal import console, note, out, out_json, say, table, warn
from spgraph_bench.errors import InputError, SpgraphError, UsageError
from spgraph_bench.parameters import MAX_INDEX, Parameter, exact_number

if TYPE_CHECKING:
    from spgraph_bench.fetching import Entry, Filter, Remote

    RangeParam = click.ParamType[tuple[int, int]]
else:
    RangeParam = click.ParamType  # only late versions of click can be told what it converts to

__all__ = ["command"]

_MOST = 100
"""Matrices that a filter may choose without --limit: the whole collection takes hundreds of gigabytes."""


class _Range(RangeParam):
    """LOW..HIGH, either of which may be missing, or one number."""

    name = "range"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        if isinstance(value, tuple):
            return value
        low, dots, high = str(value).partition("..")
        bounds = (self._number(low, 0, param, ctx), self._number(high if dots else low, 2**63 - 1, param, ctx))
        if not (low.strip() or high.strip()) or bounds[0] > bounds[1]:
            self.fail(f"{value!r} is not LOW..HIGH, with LOW not above HIGH.", param, ctx)
        return bounds

    def _number(self, text: str, default: int, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if not text.strip():
            return default
        number = exact_number(text)
        if number is None or number.denominator != 1 or number < 0:
            self.fail(f"{text!r} is not a whole number from 0 on (k, M and G may follow).", param, ctx)
        return int(number)


class _Sha256(TextParam):
    name = "hash"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from spgraph_bench.fetching import checked_sha256

        return checked_sha256(str(value))


@click.command("fetch")
@click.argument("names", metavar="NAME...", nargs=-1)
@click.option("--rows", type=_Range(), metavar="LOW..HIGH", help="Number of rows; 1k..1M, 5000.., ..1e6.")
@click.option("--cols", type=_Range(), metavar="LOW..HIGH", help="Number of columns.")
@click.option("--nnz", type=_Range(), metavar="LOW..HIGH", help="Number of nonzeros.")
@click.option("--kind", "kinds", multiple=True, metavar="TEXT", help="Part of its kind: circuit, graph, structural.")
@click.option("--values", type=click.Choice(["real", "binary", "complex"]), help="Type of its entries.")
@click.option("--symmetric/--unsymmetric", default=None, help="Only matrices equal to their transpose, or only others.")
@click.option("--square/--rectangular", default=None, help="Only square matrices, or only others.")
@click.option("--positive-definite", is_flag=True, help="Only matrices known to be positive definite.")
@click.option(
    "--limit",
    type=ParameterType(Parameter(1, "", between=(1, MAX_INDEX))),
    metavar="N",
    help="Only the N matrices with the fewest nonzeros.",
)
@click.option("--list", "--dry-run", "listing", is_flag=True, help="Show what would be fetched; fetch nothing.")
@click.option(
    "--folder",
    type=PathParam(file_okay=False),
    metavar="DIR",
    help="Target folder [default: the folder fetched/ in SPGRAPH_CACHE or ~/.cache/spgraph].",
)
@click.option("--sha256", type=_Sha256(), metavar="HASH", help="Expected hash of the file; for one NAME.")
@click.option("--refresh", is_flag=True, help="Fetch again, including the index.")
@click.option(
    "--timeout",
    type=Positive(),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="Time to wait for a server; four attempts.",
)
@json_option
def command(
    names: Sequence[str],
    listing: bool,
    folder: Path | None,
    sha256: str | None,
    refresh: bool,
    limit: int | None,
    timeout: float,
    as_json: bool,
    **wanted: Any,
) -> int:
    """Get matrices and graphs from collections on the web, and print the path of each file.

    NAME is GROUP/NAME of the SuiteSparse Matrix Collection, or NAME alone where no other group has it, or a glob
    such as 'HB/*'; snap:NAME or konect:NAME. Filters choose from the SuiteSparse collection. A file that is
    there is not fetched again; a broken download is resumed. Commands that read a file take
    GROUP/NAME, snap:NAME and konect:NAME too, and fetch.

    \b
      spgraph fetch HB/1138_bus snap:wiki-Vote konect:moreno_zebra
      spgraph fetch --kind circuit --nnz 1M..10M --symmetric --list
      spgraph fetch 'HB/*' --rows 1k.. --limit 10 --folder matrices
    """
    from spgraph_bench import fetching
    from spgraph_bench.fetching import Filter, Patience

    filters = Filter(**_filters(wanted))
    patience = Patience(timeout)
    globs = [name for name in names if re.search(r"[*?\[]", name)]
    plain = [name for name in names if name not in globs]
    if not names and not filters:
        raise UsageError("fetch what?", remedy="GROUP/NAME, or a filter such as --nnz 1M..10M --list; see --help")
    if filters and plain:
        raise UsageError("filters choose from the collection; they do not go with a name", remedy=f"omit {plain[0]}")
    place = folder or fetching.default_folder()
    remotes = [_remote(name, place, patience, refresh) for name in plain]
    entries: list[Entry] = []
    if globs or filters:
        entries = _matching(replace(filters, names=tuple(globs)), place, patience, refresh)
        count = len(entries)
        entries = entries[:limit]
        if not listing and limit is None and count > _MOST:
            raise UsageError(
                f"{count:,} matrices match, with {sum(e.nnz for e in entries):,} nonzeros",
                remedy="a filter more, or --limit N; --list shows them",
            )
        remotes += [fetching.remote_of(entry.full_name) for entry in entries]
    elif limit is not None:
        raise UsageError("--limit belongs to filters and globs", remedy="omit it")
    remotes = list(dict.fromkeys(remotes))
    if sha256 is not None and len(remotes) != 1:
        raise UsageError(f"--sha256 is that of one file, and these are {len(remotes)}", remedy="fetch one at a time")
    if listing:
        _list(remotes, entries, place, as_json)
        return 0
    return _fetch(remotes, place, sha256, refresh, patience, as_json)


def _filters(wanted: dict[str, Any]) -> dict[str, Any]:
    definite = wanted.pop("positive_definite")
    return {**wanted, "kinds": tuple(wanted["kinds"]), "positive_definite": True if definite else None}


def _index(place: Path, patience: Any, refresh: bool) -> list[Entry]:
    from spgraph_bench.fetching import load_index

    with progress_on_stderr("fetching the index of the SuiteSparse collection") as progress:
        return load_index(place, refresh=refresh, patience=patience, progress=progress, warn=warn)


def _remote(name: str, place: Path, patience: Any, refresh: bool) -> Remote:
    """The file that `name` means; a name without its group is looked up in the index."""
    from spgraph_bench.fetching import remote_of

    if "/" in name or ":" in name:
        return remote_of(name)
    if not re.fullmatch(r"[\w.+-]+", name):
        raise UsageError(f"{name!r} is not a name", remedy="its form is GROUP/NAME, snap:NAME or konect:NAME")
    entries = _index(place, patience, refresh)
    same = [e.full_name for e in entries if e.name == name] or [
        e.full_name for e in entries if e.name.lower() == name.lower()
    ]
    if len(same) == 1:
        return remote_of(same[0])
    if same:
        raise UsageError(f"{name} is in several groups", remedy=f"say which: {', '.join(same[:5])}")
    close = difflib.get_close_matches(name, [e.name for e in entries], n=2)
    raise InputError(
        f"the SuiteSparse collection has no {name}",
        remedy=f"did you mean {' or '.join(close)}?" if close else f"perhaps in another: snap:{name}, konect:{name}",
    )


def _matching(filters: Filter, place: Path, patience: Any, refresh: bool) -> list[Entry]:
    matches = sorted(
        (e for e in _index(place, patience, refresh) if filters.fits(e)), key=lambda e: (e.nnz, e.full_name)
    )
    if not matches:
        raise InputError("no matrix of the collection matches", remedy="a wider range, or another glob")
    return matches


def _list(remotes: Sequence[Remote], entries: Sequence[Entry], place: Path, as_json: bool) -> None:
    from rich.text import Text

    from spgraph_bench.fetching import place_of

    known = {entry.full_name: entry for entry in entries}
    if as_json:
        out_json([_described(remote, known.get(remote.name), place_of(remote, place)) for remote in remotes])
        return
    target = console()
    drawn = table(target, "name", "rows", "columns", "nonzeros", "values", "symmetric", "here", "kind")
    for remote in remotes:
        here = "yes" if place_of(remote, place).is_file() else "no"
        entry = known.get(remote.name)
        cells = ("", "", "", "", "", here, "")
        if entry is not None:
            yes = "yes" if entry.symmetric else "no"
            sizes = (f"{entry.rows:,}", f"{entry.cols:,}", f"{entry.nnz:,}")
            cells = (*sizes, entry.values, yes, here, entry.kind)
        drawn.add_row(*map(Text, (str(remote), *cells)))
    target.print(drawn)
    note(f"{len(remotes):,} files; to {place}")


def _described(remote: Remote, entry: Entry | None, path: Path) -> dict[str, Any]:
    more = {} if entry is None else {**vars(entry), "symmetric": entry.symmetric}
    return {"name": str(remote), "url": remote.url, "path": str(path), "here": path.is_file(), "index": more or None}


def _fetch(
    remotes: Sequence[Remote], place: Path, sha256: str | None, refresh: bool, patience: Any, as_json: bool
) -> int:
    """All of `remotes`: one that fails does not keep the others from being fetched."""
    from spgraph_bench import fetching

    made: list[dict[str, Any]] = []
    status = failed = 0

    def started(remote: Remote, path: Path) -> None:
        note(f"fetching {remote.url} to {path}")

    for remote in remotes:
        try:
            with progress_on_stderr(f"fetching {remote}") as progress:
                path = fetching.fetch(
                    remote,
                    place,
                    sha256=sha256,
                    refresh=refresh,
                    patience=patience,
                    progress=progress,
                    on_start=started,
                )
        except SpgraphError as error:
            if len(remotes) == 1:
                raise
            say(f"error: {error}")
            status, failed = error.exit_status, failed + 1
            continue
        if not as_json:
            out(str(path))
        made.append({"name": str(remote), "url": remote.url, "path": str(path), "bytes": path.stat().st_size})
    if as_json:
        out_json(made)
    if failed:
        note(f"{failed} of {len(remotes)} could not be fetched; the same command tries those again")
    return status
