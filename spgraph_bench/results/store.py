"""Records on disk: JSON Lines, one cell a line, each on the disk before the next cell starts."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any

from spgraph_bench.errors import InputError, UsageError
from spgraph_bench.printable import json_printable
from spgraph_bench.privacy import without_names
from spgraph_bench.results.record import SCHEMA, Record

__all__ = ["RecordFile", "append_line", "read_records", "record_of", "to_json_lines"]


def to_line(record: Record, derived: Mapping[str, Any] | None = None) -> str:
    """`record` as one line of JSON, newline included; with a key ``derived``, if that is given."""
    line = _without_names(record.to_json())
    if derived is not None:
        line["derived"] = derived
    text = json.dumps(line, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return json_printable(text) + "\n"


def _without_names(value: Any) -> Any:
    """`value` with every string in it as :func:`spgraph_bench.privacy.without_names` gives it."""
    match value:
        case str():
            return without_names(value)
        case dict():
            return {key: _without_names(item) for key, item in value.items()}
        case list() | tuple() if not value or not isinstance(value[0], int | float):  # samples, by the thousand
            return [_without_names(item) for item in value]
        case _:
            return value


def to_json_lines(records: Iterable[Record], derived: Sequence[Mapping[str, Any]] | None = None) -> str:
    """The lines of a file; with ``derived``, what :func:`spgraph_bench.results.tidy.derived` gives of the records, what
    ``--json`` prints. Reading skips it."""
    if derived is None:
        return "".join(map(to_line, records))
    return "".join(to_line(record, each) for record, each in zip(records, derived, strict=True))


def _slug(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._]+", "-", name).strip("-.")[:60].rstrip("-.") or "matrix"


def append_line(fd: int, record: Record, path: Path) -> None:
    """Write `record` to the open file `fd`, which is called `path`, and wait for the disk.

    Raises InputError where the disk does not take it; the file then ends with the last complete record.
    """
    line = to_line(record).encode(errors="backslashreplace")  # bytes of a file name that are not UTF-8
    size = os.fstat(fd).st_size
    try:
        written = os.write(fd, line)
        if written < len(line):  # a full disk takes a part
            raise OSError(28, "no space left on device")
        os.fsync(fd)
    except OSError as error:
        os.ftruncate(fd, size)
        raise InputError(
            f"result not saved: {error.strerror or error}",
            place=str(path),
            remedy="make room there, or pass --no-save or --json",
        ) from error


class RecordFile:
    """A new file ``<problem>-<matrix>-<UTC time>.jsonl`` in `folder`, open for appending.

    Opening it creates it, so that a folder that cannot be written is an error before anything is measured
    (UsageError). Each record is one write, then an fsync: a kill loses at most the cell in flight.
    A file that got no record is removed when closed.
    """

    def __init__(self, folder: str | os.PathLike[str], problem: str, matrix: str, now: datetime | None = None) -> None:
        stamp = (now or datetime.now(UTC)).astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")
        stem = f"{_slug(problem)}-{_slug(matrix)}-{stamp}"
        self._count = 0
        try:
            Path(folder).mkdir(parents=True, exist_ok=True)
            self.path, self._fd = self._create(Path(folder), stem)
        except OSError as error:
            raise UsageError(
                f"cannot write results there: {error.strerror or error}",
                place=str(folder),
                remedy="choose another folder with --results, or pass --no-save",
            ) from error

    @staticmethod
    def _create(folder: Path, stem: str) -> tuple[Path, int]:
        serial = 1
        while True:
            path = folder / (f"{stem}.jsonl" if serial == 1 else f"{stem}-{serial}.jsonl")
            try:
                return path, os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL, 0o666)
            except FileExistsError:
                serial += 1

    def append(self, record: Record) -> None:
        """Write `record`; InputError when the disk does not take it (the file then ends with the last
        complete record)."""
        append_line(self._fd, record, self.path)
        self._count += 1

    def close(self) -> None:
        """Close the file; a file without records is removed. Again is harmless."""
        if self._fd < 0:
            return
        os.close(self._fd)
        self._fd = -1
        if self._count == 0:
            self.path.unlink(missing_ok=True)

    def __enter__(self) -> RecordFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def read_records(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], warn: Callable[[str], None] = lambda message: None
) -> list[Record]:
    """All records of the files `paths`, in order; a folder stands for its ``*.jsonl`` (not those below it).

    A last line that was cut off (a run that was killed) is skipped, with a note to `warn`. Raises InputError with
    file and line for anything else that is not a record.
    """
    given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    return [record for path in given for file in _files(Path(path)) for record in _read(file, warn)]


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    paths = sorted(path.glob("*.jsonl"))
    if not paths:
        raise InputError(
            "no records (*.jsonl) in this folder", place=str(path), remedy="name a file, or run a bench first"
        )
    return paths


def _read(path: Path, warn: Callable[[str], None]) -> list[Record]:
    try:
        lines = path.read_bytes().splitlines(keepends=True)
    except OSError as error:
        raise InputError(
            f"cannot read records: {error.strerror or error}",
            place=str(path),
            remedy="name a .jsonl file that spgraph wrote, or a folder of them",
        ) from error
    records: list[Record] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        place = f"{path}:{number}"
        try:
            data = json.loads(line)
        except (ValueError, RecursionError) as error:  # JSONDecodeError and UnicodeDecodeError
            if number == len(lines) and not line.endswith(b"\n") and (records or line.startswith(b"{")):
                warn(f"{place}: the last line is cut off (the run was killed?), skipped")
                continue
            raise InputError(
                f"not a record: {error}", place=place, remedy="remove this line, or name the right file"
            ) from error
        records.append(record_of(data, place))
    return records


def record_of(data: object, place: str) -> Record:
    """The record that a line's JSON is. Raises InputError, with `place`, where it is none."""
    remedy = "name a .jsonl file that spgraph wrote"
    if not isinstance(data, dict) or not isinstance(data.get("schema"), int):
        raise InputError("JSON, but not a record of spgraph", place=place, remedy=remedy)
    if data["schema"] > SCHEMA:
        raise InputError(
            f"record of schema {data['schema']}; this spgraph knows up to {SCHEMA}",
            place=place,
            remedy="upgrade spgraph",
        )
    try:
        return Record.from_json(data)
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise InputError(f"not a complete record: {error}", place=place, remedy=remedy) from error
