"""The site of the pages (`make docs`), as far as it can be looked at without mkdocs: links, pages, docstrings."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

import docs_site  # noqa: E402

CONFIG = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
GITHUB = "https://github.com/spgraph/spgraph"


@pytest.mark.parametrize(
    ("source", "text", "expected"),
    [
        ("README.md", "[a](docs/spmv.md#x) ![b](docs/pictures/readme.svg)", "[a](spmv.md#x) ![b](pictures/readme.svg)"),
        ("README.md", "[a](CONTRIBUTING.md) [b](cuda)", f"[a](contributing.md) [b]({GITHUB}/tree/main/cuda)"),
        ("docs/spmv.md", "[a](../README.md) [b](bfs.md)", "[a](index.md) [b](bfs.md)"),
        ("docs/spmv.md", "[a](../pyproject.toml)", f"[a]({GITHUB}/blob/main/pyproject.toml)"),
        ("docs/tuning/csr-16.md", "[a](../spmv.md) [b](../../README.md)", "[a](../spmv.md) [b](../index.md)"),
        (
            "docs/spmv.md",
            "[a](https://x.org/a) [b](#here) [c](../none.md)",
            "[a](https://x.org/a) [b](#here) [c](../none.md)",
        ),
        ("docs/spmv.md", "```c\nx[i](../cuda)\n```\n", "```c\nx[i](../cuda)\n```\n"),
    ],
)
def test_links(source: str, text: str, expected: str) -> None:
    assert docs_site.linked(text, source) == expected


def test_every_page_has_its_place_in_the_navigation() -> None:
    """mkdocs would warn of one that has none, and of one that is not there."""
    nav = CONFIG.split("\nnav:\n")[1]
    named = set(re.findall(r"([\w-]+\.md)$", nav, re.MULTILINE))
    pages = {path.name for path in (ROOT / "docs").glob("*.md")} | set(docs_site.PAGES.values())
    assert named == pages


def test_the_names_of_the_api_are_there() -> None:
    import importlib

    for name in re.findall(r"^::: ([\w.]+)$", (ROOT / "docs" / "reference.md").read_text(), re.MULTILINE):
        module, _, attribute = name.rpartition(".")
        try:
            importlib.import_module(name)
        except ModuleNotFoundError:
            assert hasattr(importlib.import_module(module), attribute), name


def test_docstrings_become_markdown() -> None:
    pytest.importorskip("griffe")
    from docs_docstrings import as_markdown

    text = (
        "Do it.\n\nParameters\n----------\na, b : numbers, as\n    :meth:`~x.y` says.\nc : more.\n\nRaises UsageError."
    )
    assert as_markdown(text) == (
        "Do it.\n\n**Parameters**\n\n- `a, b`: numbers, as\n    `x.y` says.\n- `c`: more.\n\nRaises UsageError."
    )
