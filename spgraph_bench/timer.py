"""The clocks of the standard library, held before any plug-in is loaded.

A plug-in shares the process with what times it. Every part that measures takes its clock from here, so that a
replaced ``time.perf_counter_ns`` measures nothing. :mod:`spgraph_bench.tampering` finds the replacement.
"""

from __future__ import annotations

import time

__all__ = ["monotonic", "perf_counter", "perf_counter_ns"]

perf_counter_ns = time.perf_counter_ns
perf_counter = time.perf_counter
monotonic = time.monotonic
