"""Variants from elsewhere: Python files that ``SPGRAPH_PLUGINS`` names, and installed packages.

A package brings variants with an entry point of the group ``spgraph.variants``, whose value is a module that registers
them when it is imported. Both are found anew in every process: the worker registers what its parent did.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Callable
from contextlib import AbstractContextManager

from spgraph_bench.errors import SpgraphError, UsageError
from spgraph_bench.tampering import note_functions, replaced_functions

__all__ = ["GROUP", "PLUGINS", "load_files", "load_installed"]

PLUGINS = "SPGRAPH_PLUGINS"
"""Environment variable: Python files with variants of the user's own, separated like PATH."""

GROUP = "spgraph.variants"
"""Group of the entry points that name modules with variants."""


def _fault(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())


def load_files() -> None:
    """Run the files in ``SPGRAPH_PLUGINS``. Raises UsageError with the file and line of what is wrong in one."""
    for number, path in enumerate(filter(None, os.environ.get(PLUGINS, "").split(os.pathsep))):
        _load_file(path, number)


def _load_file(path: str, number: int) -> None:
    spec = importlib.util.spec_from_file_location(f"spgraph_plugin_{number}", path)
    if spec is None or spec.loader is None or (os.path.exists(path) and not os.path.isfile(path)):
        raise UsageError(f"{PLUGINS}: {path} is not a Python file", remedy=f"unset {PLUGINS}, or name .py files")
    note_functions()
    folder = os.getcwd()
    try:
        # stdout is for data.
        with contextlib.redirect_stdout(sys.stderr):
            spec.loader.exec_module(importlib.util.module_from_spec(spec))
    except (Exception, SystemExit) as error:
        own = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == os.path.abspath(path)]
        number_of_line = error.lineno if isinstance(error, SyntaxError) else own[-1] if own else None
        line = f":{number_of_line}" if number_of_line else ""
        cause = error.cause if isinstance(error, SpgraphError) else _fault(error)
        raise UsageError(cause, place=f"{path}{line}", remedy=f"fix it, or unset {PLUGINS}") from None
    finally:
        os.chdir(folder)  # where the user's names are looked up
    if replaced := replaced_functions():
        # By no variant's doing: there is no row to say it in.
        raise UsageError(f"it replaces {', '.join(replaced[:3])}", place=path, remedy=f"fix it, or unset {PLUGINS}")


def load_installed(undone_on_error: Callable[[], AbstractContextManager[None]]) -> None:
    """Import what entry points of the group name, each in a context that takes back what it registered where it fails.
    Raises UsageError with the package whose module does."""
    from importlib.metadata import entry_points

    for point in entry_points(group=GROUP):
        try:
            with undone_on_error():
                point.load()
        except (Exception, SystemExit) as error:
            package = point.dist.name if point.dist is not None else point.value
            raise UsageError(
                _fault(error),
                place=f"{package}: entry point {point.name} = {point.value} ({GROUP})",
                remedy=f"fix or uninstall {package}",
            ) from None
