"""Calls into cuda-bindings against a driver that only says what it was called with."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("cuda.bindings.driver")
COMPILER = shutil.which("gcc") or shutil.which("cc")
SOURCE = Path(__file__).parent / "kernels" / "fake_driver.c"

PROGRAM = """
import sys
from pathlib import Path
import numpy as np
from spgraph_bench.device.cuda_driver import Library, capture, repeat_while
from spgraph_bench.errors import SpgraphError

class Memory:
    ptr = 0xdeadbeef

said = lambda text: print(text, flush=True)
library = Library(Path(sys.argv[1]))
said(library.blocks_per_multiprocessor("bfs", 1000, 24))
for blocks in (132, 2000):
    args = (np.int32(-7), Memory(), None, np.float64(2.5))
    try:
        library.cooperative("bfs", (blocks, 1, 1), (1024, 1, 1), 0x1234, args, 16)()
    except SpgraphError as error:
        said(error)
capture(0x1234, lambda: said("work"))()
try:
    repeat_while(0x1234, lambda handle: lambda: said(f"body of {handle:x}, {type(handle).__name__}"))()
except SpgraphError as error:
    said(f"{type(error).__name__}: {error}")
"""


def _run(folder: Path, driver: int) -> list[str]:
    if COMPILER is None:
        pytest.skip("no C compiler")
    library = folder / "libcuda.so.1"
    subprocess.run(
        [
            COMPILER,
            "-shared",
            "-fPIC",
            "-w",
            f"-DDRIVER={driver}",
            SOURCE,
            "-o",
            library,
            "-ldl",
            "-Wl,-soname,libcuda.so.1",
        ],
        check=True,
    )
    image = folder / "kernels.cubin"
    image.write_bytes(b"ELF?" + bytes(60))
    done = subprocess.run(
        ["stdbuf", "-o0", sys.executable, "-u", "-c", PROGRAM, str(image)],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "LD_LIBRARY_PATH": str(folder)},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_what_the_driver_is_asked(tmp_path: Path) -> None:
    assert _run(tmp_path, 13000) == [
        "load ELF?",
        "function bfs",
        "attribute 8 of 0x22: 24",  # shared memory, asked for once: 24 bytes hold 16 too
        "1024",
        "function bfs",
        "cooperative 132,1,1 1024,1,1 16 0x1234: -7 deadbeef (nil) 2.5",
        "function bfs",
        "cooperative 2000,1,1 1024,1,1 16 0x1234: -7 deadbeef (nil) 2.5",
        "bfs<<<(2000, 1, 1), (1024, 1, 1), cooperative>>>: CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE",
        "capture on 0x1234",
        "work",
        "instantiate 0x33",
        "launch 0x44 on 0x1234",
        "condition of 0x55 in 0x66, first 1, flags 1",
        "node 13: condition 77, kind 1, size 1, context 0x66",
        "capture into 0x88",
        "body of 77, uint64",
        "instantiate 0x55",
        "launch 0x44 on 0x1234",
    ]


def test_drivers_before_conditional_nodes(tmp_path: Path) -> None:
    assert _run(tmp_path, 12020)[-1] == ("SkipError: conditional nodes need CUDA 12.4; the driver offers 12.2")
