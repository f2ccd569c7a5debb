"""On which line of a TOML file a key or a value is: ``tomllib`` does not say."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

__all__ = ["Places", "places"]

_HEADER = re.compile(r"^\s*(\[\[?)\s*([^\[\]]+?)\s*\]\]?\s*(?:#.*)?$")
_KEY = re.compile(r"""^\s*("[^"]*"|'[^']*'|[A-Za-z0-9_-]+)\s*(?:\.[^=]*)?=""")
_STRINGS = re.compile(r'"""|\'\'\'|"(?:\\.|[^"\\])*"|\'[^\']*\'')


@dataclass
class Places:
    """Lines, counted from 1, of a file's tables and their keys."""

    tables: dict[tuple[str, int], int] = field(default_factory=dict)
    """(name, which of that name, from 0) -> the line of its header; ("", 0) is the file's beginning."""
    keys: dict[tuple[str, int], dict[str, tuple[int, int]]] = field(default_factory=dict)
    """The same -> key -> first and last line of the key with its value."""
    lines: list[str] = field(default_factory=list)

    def line(self, table: str, number: int = 0, key: str | None = None, value: object = None) -> int | None:
        """The line of a value within a key's value, else that of the key, else that of its table; None where the
        table is not there."""
        span = self.keys.get((table, number), {}).get(key or "")
        if span is None:
            return self.tables.get((table, number)) if key is None else None
        if isinstance(value, str):
            for line in range(span[0], span[1] + 1):
                if f'"{value}"' in self.lines[line - 1] or f"'{value}'" in self.lines[line - 1]:
                    return line
        return span[0]


def places(text: str) -> Places:
    """Where things are in `text`, which is TOML. Multi-line strings are not followed into."""
    result = Places({("", 0): 1}, {("", 0): {}}, text.splitlines())
    table, key, depth = ("", 0), "", 0
    counts: dict[str, int] = {}
    for number, line in enumerate(result.lines, 1):
        bare = _STRINGS.sub('""', line).partition("#")[0]
        if depth == 0 and (header := _HEADER.match(line)) and "=" not in bare:
            name = header[2]
            counts[name] = counts.get(name, -1) + 1 if header[1] == "[[" else 0
            table, key = (name, counts[name]), ""
            result.tables[table] = number
            result.keys[table] = {}
            continue
        if depth == 0 and (match := _KEY.match(line)):
            key = match[1].strip("\"'")
            result.keys[table][key] = (number, number)
        if key:
            result.keys[table][key] = (
                result.keys[table][key][0],
                number if bare.strip() else result.keys[table][key][1],
            )
        depth += sum(bare.count(c) for c in "[{") - sum(bare.count(c) for c in "]}")
    return result
