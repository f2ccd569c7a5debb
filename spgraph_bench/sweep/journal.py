"""The one file of a sweep's records: which cells it has, and adding to it.

A record is one line, written and flushed to the disk as its cell ends, with a field ``sweep``: ``id``, the sweep, and
``cell``, the key of the cell. A sweep that was killed goes on from what is in the file; a line that was cut off is
removed.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import stat
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any

from spgraph_bench.errors import InputError, UsageError
from spgraph_bench.results.record import Record
from spgraph_bench.results.store import append_line, record_of

__all__ = ["Done", "Journal"]


@dataclass(frozen=True)
class Done:
    """What is kept in memory of a record in the file."""

    cell: str
    status: str
    reason: str
    problem: str
    matrix: str
    variant: str
    dtype: str
    device: str
    """Its name."""
    code: str
    """Hash of the code that measured it."""
    where: str
    median_ms: float | None
    """Cold; None where it was not timed."""

    @classmethod
    def of(cls, record: Record) -> Done:
        """From a record, without its samples."""
        times = sorted(t for s in record.samples if s.cache == "cold" for t in s.times_ms)
        return cls(
            str(record.sweep.get("cell", "")),
            record.status,
            record.reason,
            record.problem,
            str(record.matrix.get("name", "")),
            record.variant,
            record.dtype,
            str(record.device.get("name", "")),
            str(record.environment.get("code", "")),
            record.where,
            times[len(times) // 2] / max(1, len(record.cases))
            if times and len(record.cases) < 2
            else _per_case(record),
        )


def _per_case(record: Record) -> float | None:
    """Of several sources, the mean over them of the median of each."""
    series = record.sampled("cold")
    if series is None or not series.times_ms:
        return None
    by_case: dict[int, list[float]] = {}
    for case, ms in zip(series.cases, series.times_ms, strict=True):
        by_case.setdefault(case, []).append(ms)
    medians = [sorted(times)[len(times) // 2] for times in by_case.values()]
    return sum(medians) / len(medians)


class Journal:
    """The file at `path`, or none (records are then kept in memory only, in :attr:`records`).

    Parameters
    ----------
    again : "" goes on from what is there; "all" moves an old file aside; "failed" removes what failed or was wrong, so
        that it is measured again.

    Opening it raises UsageError where it cannot be written or another sweep is writing to it, and InputError, with the
    line, where it is not a file of records.
    """

    def __init__(self, path: Path | None, again: str = "", warn: Callable[[str], None] = lambda text: None) -> None:
        self.path = path
        self.done: dict[tuple[str, str], Done] = {}
        """By the cell's key and the name of the device."""
        self.records: list[Record] = []
        """Those of this session, where there is no file."""
        self.id = uuid.uuid4().hex[:12]
        self.added = 0
        """Records added in this session."""
        self._fd = -1
        if path is None:
            return
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if again == "all" and path.exists():
                _move_aside(path)
            self._fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
        except OSError as error:
            raise UsageError(
                f"cannot write records there: {error.strerror or error}",
                place=str(path),
                remedy="choose another file with --output",
            ) from error
        try:
            if not stat.S_ISREG(os.fstat(self._fd).st_mode):
                raise UsageError("not a regular file", place=str(path), remedy="choose another file with --output")
            self._lock(path)
            self._read(path, warn)
            if again == "failed":
                self._drop_failed(path)
        except BaseException:
            os.close(self._fd)
            raise

    def _lock(self, path: Path) -> None:
        # flock, not filelock: the lock is the file of records itself, so that it also holds under another name or for
        # another user, and nothing is left beside the records.
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(
                "another sweep is writing to this file",
                place=str(path),
                remedy="wait for it, or choose another --output",
            ) from None
        except OSError:
            pass  # a file system without locks

    def _read(self, path: Path, warn: Callable[[str], None]) -> None:
        """Take in what is there; the end of a line that was cut off is removed."""
        whole = 0
        with open(path, "rb") as stream:
            for number, line in enumerate(stream, 1):
                place = f"{path}:{number}"
                if not line.endswith(b"\n"):
                    if not line.startswith(b"{"):
                        raise InputError("not a record", place=place, remedy="choose another file with --output")
                    warn(f"{place}: the last line was cut off (the sweep was killed?), its cell is measured again")
                    break
                whole += len(line)
                if line.strip():
                    self._take_in(line, place)
        if whole < os.fstat(self._fd).st_size:
            os.ftruncate(self._fd, whole)

    def _take_in(self, line: bytes, place: str) -> None:
        try:
            data = json.loads(line)
        except ValueError as error:
            raise InputError(
                f"not a record: {error}", place=place, remedy="remove this line, or choose another --output"
            ) from None
        record = record_of(data, place)
        if record.sweep:
            self.id = str(record.sweep.get("id") or self.id)
            self._note(record)

    def _note(self, record: Record) -> None:
        done = Done.of(record)
        self.done[done.cell, done.device] = done

    def _drop_failed(self, path: Path) -> None:
        """Write the file anew without cells that failed or were wrong, and go on with that one."""
        bad = {key for key, done in self.done.items() if done.status in ("failed", "wrong")}
        if not bad:
            return
        part = path.with_name(f".{path.name}.{os.getpid()}.part")
        with open(path, "rb") as old, open(part, "wb") as new:
            for line in old:
                data = json.loads(line) if line.strip() else {}
                cell = (data.get("sweep") or {}).get("cell", ""), (data.get("device") or {}).get("name", "")
                if cell not in bad:
                    new.write(line)
            new.flush()
            os.fsync(new.fileno())
        part.replace(path)
        for key in bad:
            del self.done[key]
        os.close(self._fd)
        self._fd = os.open(path, os.O_RDWR | os.O_APPEND)
        self._lock(path)

    def has(self, devices: set[str]) -> set[str]:
        """Keys of the cells that were measured on a device of one of these names."""
        return {cell for cell, device in self.done if device in devices}

    def run_id(self, block_key: str) -> str:
        """What the records of a block share as their ``run``, in all sessions."""
        return hashlib.sha256(f"{self.id}/{block_key}".encode()).hexdigest()[:12]

    def add(self, record: Record, cell: str, **about: Any) -> None:
        """Keep the record of a cell, once. `about` joins its field ``sweep``.

        Raises InputError where the disk does not take it; the file then ends with the last whole record.
        """
        record = replace(record, sweep={"id": self.id, "cell": cell, **about})
        if (cell, str(record.device.get("name", ""))) in self.done:
            return  # a worker that was thought lost has ended it after all
        if self._fd < 0:
            self.records.append(record)
        else:
            assert self.path is not None
            append_line(self._fd, record, self.path)
        self._note(record)
        self.added += 1

    def counts(self) -> Mapping[str, int]:
        """How many records have each status."""
        totals: dict[str, int] = {}
        for done in self.done.values():
            totals[done.status] = totals.get(done.status, 0) + 1
        return totals

    def close(self) -> None:
        """Close the file; one without records is removed."""
        if self._fd < 0:
            return
        empty = os.fstat(self._fd).st_size == 0
        if empty and self.path is not None:
            with contextlib.suppress(OSError):
                self.path.unlink()
        os.close(self._fd)
        self._fd = -1

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _move_aside(path: Path) -> None:
    """Give the file a name with the time of its last record."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(path.stat().st_mtime))
    target = path.with_name(f"{path.stem}-{stamp}{path.suffix}")
    serial = 2
    while target.exists():
        target = path.with_name(f"{path.stem}-{stamp}-{serial}{path.suffix}")
        serial += 1
    path.rename(target)
