"""What a variant changes in the process that checks and times it.

A plug-in shares its process with what judges it, and with all variants that come after it. So functions that it
replaces (a clock, a comparison), and state of the process (the working folder, limits, a process that it leaves
running) are looked at after it: :func:`replaced_functions` and :class:`ProcessState`. Both put right what they can.
"""

from __future__ import annotations

import contextlib
import gc
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

__all__ = ["ProcessState", "note_functions", "replaced_functions"]

_LIBRARIES = (
    "builtins",
    "concurrent.futures.thread",
    "gc",
    "math",
    "numpy",
    "numpy.linalg",
    "numpy.random",
    "os",
    "threading",
    "time",
    "zlib",
)
"""Modules other than spgraph's whose functions checks and clocks use."""

_Key = tuple[Any, str]
_originals: dict[int, dict[_Key, Any]] = {}
"""Of each module, by its id: what its functions and classes, and the methods of those, were when it was first seen."""
_modules: dict[str, ModuleType] = {}


def _functions(module: ModuleType) -> dict[_Key, Any]:
    """The functions and classes of `module` by (owner, name), and of spgraph's classes their methods."""
    own = module.__name__.startswith("spgraph_bench")
    functions: dict[_Key, Any] = {}
    for name, value in list(vars(module).items()):
        if callable(value):
            functions[module, name] = value
        if own and isinstance(value, type) and value.__module__ == module.__name__:
            methods = vars(value).items()
            functions |= {(value, n): m for n, m in methods if callable(m) or isinstance(m, (classmethod, property))}
    return functions


def _differences() -> list[tuple[Any, str, Any]]:
    """(owner, name, original) of functions that are not what they were."""
    return [
        (owner, name, original)
        for module in _modules.values()
        for (owner, name), original in _originals[id(module)].items()
        if vars(owner).get(name) is not original
    ]


def note_functions() -> None:
    """Take functions, classes and methods of spgraph, numpy and Python as they are now for what they have to be."""
    for owner, name, _ in _differences():
        originals = next(o for o in _originals.values() if (owner, name) in o)
        del originals[owner, name]
        if name in vars(owner):
            originals[owner, name] = vars(owner)[name]
    for name, module in list(sys.modules.items()):
        known = name in _LIBRARIES or name.partition(".")[0] == "spgraph_bench"
        if known and isinstance(module, ModuleType) and _modules.get(name) is not module:
            _modules[name], _originals[id(module)] = module, _functions(module)


def replaced_functions() -> list[str]:
    """What is not as :func:`note_functions` has last seen it, as ``module.name``; it is put back."""
    names = []
    for name, module in _modules.items():
        if sys.modules.get(name) is not module:
            names.append(f"module {name}")
            sys.modules[name] = module
    for owner, name, original in _differences():
        names.append(f"{owner.__name__}.{name}")
        setattr(owner, name, original)
    return names


def _children() -> set[int]:
    """Processes that this one has started and that have not ended (Linux; elsewhere none are known)."""
    pids: set[int] = set()
    with contextlib.suppress(OSError, ValueError):
        for listed in Path("/proc/self/task").glob("*/children"):
            pids |= {int(word) for word in listed.read_text().split()}
    return {pid for pid in pids if not _has_ended(pid)}


def _has_ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except (OSError, IndexError):
        return True


_LIMITS = tuple(sorted({getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")}))
_SIGNALS = tuple(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP})


def _working_folder() -> str:
    try:
        return os.getcwd()
    except OSError:
        return ""


def _set_signals(handlers: dict[Any, Any]) -> None:
    for number, handler in handlers.items():
        if handler is not None and signal.getsignal(number) is not handler:
            signal.signal(number, handler)


def _set_limits(limits: dict[int, tuple[int, int]]) -> None:
    for number, limit in limits.items():
        if resource.getrlimit(number) != limit:
            resource.setrlimit(number, limit)


def _set_environment(values: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(values)


def _set_streams(streams: tuple[Any, ...]) -> None:
    sys.stdout, sys.stderr = streams[0], streams[1]
    for name in ("stdout", "stderr"):
        if getattr(getattr(sys, name), "closed", False):
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 (as long as the process)


_STATE: tuple[tuple[str, Callable[[], Any], Callable[[Any], object]], ...] = (
    ("the working folder", _working_folder, os.chdir),
    ("environment variables", lambda: dict(os.environ), _set_environment),
    ("resource limits", lambda: {n: resource.getrlimit(n) for n in _LIMITS}, _set_limits),
    ("signal handlers", lambda: {n: signal.getsignal(n) for n in _SIGNALS}, _set_signals),
    (
        "an interval timer",
        lambda: [signal.getitimer(n) != (0.0, 0.0) for n in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL)],
        lambda _: [signal.setitimer(n, 0.0) for n in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL)],
    ),
    ("numpy's error handling", np.geterr, lambda kinds: np.seterr(**kinds)),
    ("the recursion limit", sys.getrecursionlimit, sys.setrecursionlimit),
    ("garbage collection", gc.isenabled, lambda on: gc.enable() if on else gc.disable()),
    ("the trace function", sys.gettrace, sys.settrace),
    ("the profile function", sys.getprofile, sys.setprofile),
    (
        "standard streams",
        lambda: (sys.stdout, sys.stderr, *(getattr(s, "closed", False) for s in (sys.stdout, sys.stderr))),
        _set_streams,
    ),
)
"""What is looked at, how it is read, and how it is put right."""

_ENDING_S = 0.1


class ProcessState:
    """The state of this process that all variants share, as it is now."""

    def __init__(self) -> None:
        self._before = [read() for _, read, _ in _STATE]
        self._children = _children()

    def changes(self) -> list[str]:
        """What is different now, in words: "it changed the working folder", "it left 2 processes running". It is put
        right, as far as that is possible; processes are ended."""
        changed = []
        for (what, read, restore), before in zip(_STATE, self._before, strict=True):
            if read() != before:
                changed.append(what)
                with contextlib.suppress(Exception):
                    restore(before)
        reasons = [f"it changed {' and '.join(changed)} of the process"] if changed else []
        if left := self._left():
            reasons.append(f"it left {len(left)} process{'es' * (len(left) > 1)} running")
            for pid in left:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
        return reasons

    def _left(self) -> set[int]:
        """Processes that were started since; those that are just ending have a moment."""
        if not (left := _children() - self._children):
            return left
        time.sleep(_ENDING_S)
        return _children() - self._children
