"""Keeping a run's records on disk while it goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from spgraph_bench.cli.options import RunOptions
from spgraph_bench.cli.terminal import note, warn
from spgraph_bench.errors import InputError

if TYPE_CHECKING:
    from spgraph_bench.results.record import Record

__all__ = ["kept_records"]


@contextmanager
def kept_records(options: RunOptions, problem: str, matrix: str) -> Iterator[Callable[[Record], None]]:
    """A function that keeps a record in the results folder, or does nothing with --no-save.

    The file is opened immediately: a folder that cannot be written must not cost a result (UsageError). A disk
    that is full later costs the file, not the run: its InputError is printed immediately and raised at the end.
    """
    if not options.save:
        yield lambda record: None
        return
    from spgraph_bench.results.store import RecordFile

    count = 0
    lost: InputError | None = None
    with RecordFile(options.results, problem, matrix) as file:

        def keep(record: Record) -> None:
            nonlocal count, lost
            if lost is not None:
                return
            try:
                file.append(record)
                count += 1
            except InputError as error:
                lost = error
                warn(f"{error.place}: {error.cause}; going on without keeping records")

        try:
            yield keep
        finally:
            if count:
                note(f"records in {file.path}")
    if lost is not None:
        raise lost
