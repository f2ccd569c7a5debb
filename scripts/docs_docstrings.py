"""Docstrings as Markdown, for the site (an extension of griffe, which reads them for mkdocstrings).

The headings of numpydoc (``Parameters`` over dashes) become lists, and roles such as ``:meth:`save` `` code.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

__all__ = ["AsMarkdown", "as_markdown"]

_SECTION = re.compile(r"^(\w+)\n-{3,}\n((?:\S.*\n?|[ \t]+\S.*\n?)+)", re.MULTILINE)
_ITEM = re.compile(r"^(\S[^:\n]*?) : ", re.MULTILINE)
_ROLE = re.compile(r":\w+:`~?([^`]+)`")


def as_markdown(text: str) -> str:
    """`text` with its sections as lists."""

    def section(match: re.Match[str]) -> str:
        return f"**{match[1]}**\n\n{_ITEM.sub(lambda item: f'- `{item[1]}`: ', match[2])}"

    return _ROLE.sub(r"`\1`", _SECTION.sub(section, text))


class AsMarkdown(griffe.Extension):
    """Applies :func:`as_markdown` to every docstring."""

    def on_object(self, *, obj: Any, **kwargs: Any) -> None:
        """griffe calls this for each object that it has read."""
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)
