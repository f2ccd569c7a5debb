"""Run Python with the host device's kernels under the address and undefined-behaviour sanitizers together:
``sanitized.py -m pytest tests/...``.

AddressSanitizer has to be loaded before Python, so this starts another one in its environment.
"""

from __future__ import annotations

import os
import sys

from spgraph_bench.device.host_compiler import sanitizer_env

if __name__ == "__main__":
    os.execve(sys.executable, [sys.executable, *sys.argv[1:]], sanitizer_env("address", "undefined"))
