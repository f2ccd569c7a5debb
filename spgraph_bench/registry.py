"""A registry: what the modules of a package enter when they are imported, each under a name."""

from __future__ import annotations

import contextlib
import importlib
import pkgutil
import threading
from collections.abc import Callable, Hashable, Iterator
from types import MappingProxyType, ModuleType
from typing import Generic, TypeVar

__all__ = ["Registry"]

Key = TypeVar("Key", bound=Hashable)
Entry = TypeVar("Entry")


class Registry(Generic[Key, Entry]):
    """Entries by key, in the order of registration. The first look imports the package, and so fills it.

    Parameters
    ----------
    what : what an entry is called in messages: "format".
    package : full name of the package whose modules, and packages below it, register entries.
    more : called after that, for entries from elsewhere.
    """

    def __init__(self, what: str, package: str, more: Callable[[], None] = lambda: None) -> None:
        self._what, self._package, self._more = what, package, more
        self._entries: dict[Key, Entry] = {}
        self._filling = self._filled = False
        self._lock = threading.RLock()

    def enter(self, key: Key, entry: Entry) -> Entry:
        """Register `entry`, and return it. Raises ValueError where the key is taken."""
        if key in self._entries:
            name = " ".join(key) if isinstance(key, tuple) else key
            raise ValueError(f"{self._what} {name!r} is registered twice")
        self._entries[key] = entry
        return entry

    @contextlib.contextmanager
    def undone_on_error(self) -> Iterator[None]:
        """What is entered within is taken back where that raises: code that is run again enters it again."""
        before = dict(self._entries)
        try:
            yield
        except BaseException:
            self._entries = before
            raise

    def entries(self) -> MappingProxyType[Key, Entry]:
        """All entries by key: a view. What importing the package, or `more`, raises is raised."""
        if not self._filled:
            with self._lock:  # another thread waits until all are there
                self._fill()
        return MappingProxyType(self._entries)

    def _fill(self) -> None:
        if self._filling or self._filled:  # what is imported may ask for an entry that is not there
            return
        self._filling = True
        try:
            _import_all(importlib.import_module(self._package))
            self._more()
            self._filled = True
        finally:
            self._filling = False

    def get(self, key: Key) -> Entry:
        """The entry of `key`: of the package all, or what is registered so far. KeyError where there is none."""
        return self._entries[key] if key in self._entries else self.entries()[key]

    def __len__(self) -> int:
        """How many are registered so far."""
        return len(self._entries)


def _import_all(package: ModuleType) -> None:
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        imported = importlib.import_module(module.name)
        if module.ispkg:
            _import_all(imported)
