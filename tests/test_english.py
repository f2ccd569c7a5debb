"""Words that messages, pages and comments do not use, each with what to write in its place."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

WORDS = {
    r"mend(?:s|ed|ing)?": "fix",
    r"lack(?:s|ed|ing)?": "missing, does not have",
    r"at fault|faults? of (?:ours|its own)": "the cause, an error",
    r"stands (?!for\b|in for\b|out\b|alone\b|still\b)|lies": "is",
    r"some \d[\d,]*(?! of\b)": "about",
    r"(?<!there )(?:is|are) no (?:number|integer|loop|entry|file|recipe|matrix|duplicate|root|parameter|edge|vertex"
    r"|key|page|vector|verdict)s?"
    r"(?! (?:is|are|has|have|was|were|can|may|in|of|from|to|that|with|without)\b)": "is not a",
    r"is none of|comes not": "is not one of, is not available",
    r"(?:leave|leaves|leaving|left) (?:[\w-]+ ){0,2}(?:out|away)": "omit, skip",
    r"at once": "together, in flight (loads), immediately",
    r"under way": "in flight",
    r"whoever|nobody|somebody|everybody": "the thread, another block, no thread",
    r"heads? of the table": "header",
    r"before the first run": "setup cost",
    r"(?:as|the|of) peers?": "reference libraries",
    r"lattices?": "grid",
    r"left to us|(?:is|are|of|from|than) ours": "auto, spgraph's",
    r"when nothing happens": "empty-kernel time, empty-measurement time",
    r"well enough": "settled",
    r"dearer": "costs more",
    r"for want of": "without",
    r"all well": "success",
    r"for ever": "forever",
    r"what it comes to|its kin": "say it plainly",
}
FORBIDDEN = re.compile(r"(?i)\b(?:" + "|".join(f"(?P<w{k}>{word})" for k, word in enumerate(WORDS)) + r")(?!\w)")

BETTER = {f"w{k}": text for k, text in enumerate(WORDS.values())}
NEWLINE = "\n"

PATTERNS = (
    "*.md",
    "Makefile",
    "docs/**/*.md",
    "results/**/*.md",
    "configs/*.toml",
    ".ci/*",
    ".github/**/*.yml",
    "cuda/**/*.*",
)
PYTHON = ("spgraph_bench/**/*.py", "scripts/*.py", "tests/**/*.py")
GENERATED = re.compile(r"(?s)<!-- mutants:.*?<!-- end of mutants -->")
"""Names of planted faults: keys of results."""
QUOTED = re.compile(r"`[^`\n]*`")
COMMENTS = re.compile(r"(?s)//[^\n]*|/\*.*?\*/")


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """(line, text) of what people read: comments and strings of code, all of a page but for `code`."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        if FORBIDDEN.search(text):  # most files need no tokens
            for token in tokenize.generate_tokens(io.StringIO(text).readline):
                if token.type in (tokenize.COMMENT, tokenize.STRING):
                    yield token.start[0], token.string
    elif path.suffix in (".cu", ".cuh", ".cpp", ".hpp", ".h"):
        for comment in COMMENTS.finditer(text):
            yield text.count("\n", 0, comment.start()) + 1, comment.group()
    else:
        blanked = GENERATED.sub(lambda match: "\n" * match.group().count("\n"), text)
        yield 1, QUOTED.sub("", blanked)


def forbidden(path: Path) -> list[str]:
    """``file:line: word: what to write`` of each word in `path`."""
    return [
        f"{path.name}:{line + text[: word.start()].count(NEWLINE)}: {word.group()!r}: write {BETTER[word.lastgroup]}"
        for line, text in prose(path)
        for word in FORBIDDEN.finditer(text)
    ]


def files() -> Iterator[Path]:
    """The files that are held to it."""
    for pattern in (*PATTERNS, *PYTHON):
        for path in sorted(ROOT.glob(pattern)):
            if path.is_file() and path != Path(__file__) and "data" not in path.relative_to(ROOT).parts:
                yield path


def test_usual_words() -> None:
    assert [line for path in files() for line in forbidden(path)] == []


@pytest.mark.parametrize(
    ("name", "content", "word"),
    [
        ("a.py", 'x = 1\nraise ValueError("leave --seed out")\n', "a.py:2: 'leave --seed out'"),
        ("a.py", "ours = 1  # a name; this lies\n", "a.py:1: 'lies'"),
        ("a.py", '"""Says.\n\nNobody waits."""\n', "a.py:3: 'Nobody'"),
        ("a.cu", "int lies;\n// loads under\n/* all\n asked for at once */\n", "a.cu:4: 'at once'"),
        ("a.md", "# A\n\nIt takes some 40 ms; `lies` is a name.\n", "a.md:3: 'some 40'"),
    ],
)
def test_planted_words_are_found(tmp_path: Path, name: str, content: str, word: str) -> None:
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    (line,) = forbidden(path)
    assert line.startswith(word)
    assert ": write " in line


NAMES = {"asked", "at", "found", "got", "had", "heard", "kept", "met", "peers", "said", "told"}
"""A name says what it holds, as a noun: records, place, stored, message, warnings, ..."""
PUBLISHED = {"spgraph_bench/cli/doctor.py": {"found"}}
"""Names that are keys of ``--json``, by file."""


def odd_names(source: str) -> list[str]:
    """``line: name`` of each variable, argument, attribute, function and class in NAMES."""
    collected = []
    for node in ast.walk(ast.parse(source)):
        name = ""
        if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Store):
            name = node.id if isinstance(node, ast.Name) else node.attr
        elif isinstance(node, ast.arg):
            name = node.arg
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            name = node.name
        if name.strip("_").lower() in NAMES:
            collected.append(f"{node.lineno}: {name}")  # type: ignore[attr-defined]
    return collected


def test_names_are_nouns() -> None:
    odd = [
        f"{name}:{entry}"
        for pattern in PYTHON
        for path in sorted(ROOT.glob(pattern))
        for name in [path.relative_to(ROOT).as_posix()]
        for entry in odd_names(path.read_text(encoding="utf-8"))
        if entry.split()[-1] not in PUBLISHED.get(name, ())
    ]
    assert not odd, "rename these, with nouns that say what they hold:\n" + "\n".join(odd)


@pytest.mark.parametrize(
    "source", ["found = 1", "def f(at): pass", "def kept(): pass", "self._said = 1", "for told in x: pass"]
)
def test_a_planted_name_is_found(source: str) -> None:
    assert len(odd_names(source)) == 1
