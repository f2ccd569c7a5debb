"""Text that a terminal can be given: names, messages and contents of files come from anywhere.

An escape sequence in the name of a vertex, a recipe or a compiler's message could move the cursor, recolour
or retitle the terminal, or turn what is read around. All that the command prints goes through here: messages
by :func:`spgraph_bench.cli.terminal.say`, tables by :func:`spgraph_bench.report.text.console_class`, JSON by
:func:`json_printable`.
"""

from __future__ import annotations

import re

__all__ = ["json_printable", "message", "printable"]

_LINE = 200
"""Characters of a line of a message."""
_IN_JSON = re.compile("[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]")


def printable(text: str) -> str:
    r"""`text` with what does not print as escapes (``\x1b``, ``\u202e``); line feeds and tabs stay."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else _escape(c) for c in text)


def _escape(c: str) -> str:
    code = ord(c)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def json_printable(text: str) -> str:
    """JSON with what does not print within its strings as escapes; the values stay the same."""
    return _IN_JSON.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def message(text: str, lines: int = 2) -> str:
    """`text` as a message: printable, at most so many lines of 200 characters.

    A long line keeps its beginning, which says what and where, and its end, which often says why.
    """
    printed = [printable(line.rstrip()) for line in text.strip("\n").replace("\t", " ").split("\n")]
    return "\n".join(_shortened(line) for line in printed[:lines])


def _shortened(line: str) -> str:
    if len(line) <= _LINE:
        return line
    tail = _LINE // 5
    return f"{line[: _LINE - tail - 5]} ... {line[-tail:]}"
