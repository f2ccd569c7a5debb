"""What mkdocs does not do for the site by itself: pages from outside docs/, and links that lead out of it.

README.md, CONTRIBUTING.md and CHANGELOG.md become pages. A link from a page to a file that is not a page (a kernel, a
record) leads to that file in the repository; one to a file that is not there stays as it is, and mkdocs warns of it.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

__all__ = ["linked", "on_files", "on_page_markdown"]

ROOT = Path(__file__).resolve().parent.parent
PAGES = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
"""Files beside docs/ -> what they are called in the site."""
_REPOSITORY = "https://github.com/spgraph/spgraph"
_LINK = re.compile(r"(\]\()([^)\s:#]+)(#[^)\s]*)?(\))")
_FENCE = re.compile(r"^(```.*?^```)", re.DOTALL | re.MULTILINE)


def linked(text: str, source: str) -> str:
    """`text` of the file `source` ("docs/spmv.md") with links as the site has them."""
    here = posixpath.dirname(source)
    page = PAGES.get(source) or posixpath.relpath(source, "docs")

    def target(match: re.Match[str]) -> str:
        before, path, anchor, after = match[1], match[2], match[3] or "", match[4]
        place = posixpath.normpath(posixpath.join(here, path))
        if place in PAGES:
            there = PAGES[place]
        elif place.startswith("docs/") and not (ROOT / place).is_dir():
            there = posixpath.relpath(place, "docs")
        elif (ROOT / place).exists():
            kind = "tree" if (ROOT / place).is_dir() else "blob"
            return f"{before}{_REPOSITORY}/{kind}/main/{place}{anchor}{after}"
        else:
            return match[0]
        return f"{before}{posixpath.relpath(there, posixpath.dirname(page) or '.')}{anchor}{after}"

    parts = _FENCE.split(text)  # code stays as it is
    return "".join(part if part.startswith("```") else _LINK.sub(target, part) for part in parts)


def on_files(files: Any, config: Any) -> Any:
    """Add the pages from outside docs/."""
    from mkdocs.structure.files import File

    for name, page in PAGES.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=linked(text, name)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Links of a page in docs/; those of the others are done."""
    uri = page.file.src_uri
    return markdown if uri in PAGES.values() else linked(markdown, f"docs/{uri}")
