"""The collections: what their names look like, and which URL and file a name is."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from urllib.parse import quote, urlsplit

from spgraph_bench.errors import UsageError

__all__ = ["SITES", "Remote", "Site", "base_url", "is_collection_name", "remote_of"]

_WORD = r"[A-Za-z0-9][A-Za-z0-9_.+-]*"
_SUITESPARSE = re.compile(rf"{_WORD}/{_WORD}")
_FILES = re.compile(
    r".*\.(mtx|mm|gz|bz2|xz|tar|tgz|zip|mat|rb|npz|txt|csv|tsv|edges|el|wel|sg|wsg|gr|graph|net|gml|graphml|jsonl|toml)",
    re.IGNORECASE,
)
"""Suffixes of files: such a word is a path, not a name of the collection."""


@dataclass(frozen=True)
class Site:
    """A collection on the web."""

    name: str
    title: str
    url: str
    """The base of its URLs."""
    variable: str
    """The environment variable that names another base: a mirror."""
    form: str
    """What a user writes."""
    pattern: re.Pattern[str]
    """What names are."""


@dataclass(frozen=True)
class Remote:
    """A file of a collection."""

    site: str
    name: str
    url: str
    file: str
    """Its path in the folder of fetched files."""

    def __str__(self) -> str:
        return self.name if self.site == "suitesparse" else f"{self.site}:{self.name}"


_ALL = (
    Site(
        "suitesparse",
        "the SuiteSparse Matrix Collection",
        "https://sparse.tamu.edu",
        "SPGRAPH_SUITESPARSE_URL",
        "GROUP/NAME",
        _SUITESPARSE,
    ),
    Site(
        "snap",
        "SNAP",
        "https://snap.stanford.edu/data",
        "SPGRAPH_SNAP_URL",
        "snap:NAME",
        re.compile(rf"(?:{_WORD}/){{0,3}}{_WORD}"),
    ),
    Site("konect", "KONECT", "http://konect.cc/files", "SPGRAPH_KONECT_URL", "konect:NAME", re.compile(_WORD)),
)
SITES: Mapping[str, Site] = MappingProxyType({site.name: site for site in _ALL})


def base_url(site: Site) -> str:
    """The base of its URLs, without a slash at its end: the mirror's where its variable names one.

    Raises UsageError for a mirror that is not an http or https URL.
    """
    url = os.environ.get(site.variable) or site.url
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(f"{site.variable} is not an http or https URL: {url!r}", remedy=f"for example {site.url}")
    return url.rstrip("/")


def is_collection_name(text: str) -> bool:
    """Whether `text`, which is not a file, names one of a collection: "HB/1138_bus", "snap:wiki-Vote".

    A path is not taken for a name: one that ends like a file, or whose folder is here.
    """
    site, colon, _ = text.partition(":")
    if colon:
        return site in SITES
    if not _SUITESPARSE.fullmatch(text) or _FILES.fullmatch(text):
        return False
    return not os.path.lexists(text.partition("/")[0])


def remote_of(text: str) -> Remote:
    """What `text` names. Raises UsageError where it can be no name of a collection."""
    prefix, colon, name = text.strip().partition(":")
    site = SITES.get(prefix if colon else "suitesparse")
    if site is None:
        known = ", ".join(s.form for s in SITES.values())
        raise UsageError(f"there is no collection {prefix!r}", remedy=f"a name has the form {known}")
    name = name if colon else prefix
    if not site.pattern.fullmatch(name) or ".." in name:
        raise UsageError(f"{text!r} is not a name of {site.title}", remedy=f"its form is {site.form}")
    if site.name == "suitesparse":
        path = f"MM/{name}.tar.gz"
        file = f"suitesparse/{name}.tar.gz"
    elif site.name == "snap":
        path = name if name.endswith(".gz") else f"{name}.txt.gz"
        file = f"snap/{path}"
    else:
        path = f"download.tsv.{name}.tar.bz2"
        file = f"konect/{path}"
    return Remote(site.name, name, f"{base_url(site)}/{quote(path)}", file)
