"""The clocks of the standard library, held before any plug-in is loaded.

A plug-in shares the process with what times it. Every part that measures takes its clock from here, so that a
replaced ``time.perf_counter_ns`` measures nothing, and :func:`replaced_clocks` finds the replacement.
"""

from __future__ import annotations

import time

__all__ = ["monotonic", "perf_counter", "perf_counter_ns", "replaced_clocks"]

perf_counter_ns = time.perf_counter_ns
perf_counter = time.perf_counter
monotonic = time.monotonic

_CLOCKS = {
    name: getattr(time, name)
    for name in (
        "monotonic",
        "monotonic_ns",
        "perf_counter",
        "perf_counter_ns",
        "process_time",
        "process_time_ns",
        "sleep",
        "thread_time",
        "thread_time_ns",
        "time",
        "time_ns",
    )
}


def replaced_clocks() -> list[str]:
    """Names of functions of the module ``time`` that are not Python's own any more; they are put back."""
    names = [name for name, own in _CLOCKS.items() if getattr(time, name, None) is not own]
    for name in names:
        setattr(time, name, _CLOCKS[name])
    return [f"time.{name}" for name in names]
