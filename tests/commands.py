"""The command line in this process, half a second less for each test that needs no process of its own; and in one that
has a terminal."""

from __future__ import annotations

import contextlib
import io
import os
import pty
import subprocess
import sys
import threading
from pathlib import Path

from spgraph_bench.cli.main import run

ROOT = Path(__file__).resolve().parent.parent


def spgraph(*args: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """What ``spgraph ARGS`` prints in the folder `cwd`, and its exit status. A traceback fails the test."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.chdir(cwd or Path.cwd()), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = run(list(args))
    assert "Traceback" not in err.getvalue()
    return subprocess.CompletedProcess(["spgraph", *args], status, out.getvalue(), err.getvalue())


def in_a_terminal(*args: str, cwd: Path, **environment: str) -> tuple[int, str]:
    """Status and everything that the command writes to a terminal."""
    ours, theirs = pty.openpty()
    read: list[bytes] = []

    def drain() -> None:
        try:
            while piece := os.read(ours, 65536):
                read.append(piece)
        except OSError:  # the other side is closed
            pass

    reader = threading.Thread(target=drain, daemon=True)
    reader.start()
    env = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm", "COLUMNS": "150", **environment}
    done = subprocess.run(
        [sys.executable, "-m", "spgraph_bench", *args],
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
        env=env,
        timeout=120,
    )
    os.close(theirs)
    reader.join(20)
    os.close(ours)
    return done.returncode, b"".join(read).decode(errors="surrogateescape")
