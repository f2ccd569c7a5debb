"""The command line in this process: half a second less for each test that needs no process of its own."""

from __future__ import annotations

import contextlib
import io
import subprocess
from pathlib import Path

from spgraph_bench.cli.main import run


def spgraph(*args: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """What ``spgraph ARGS`` prints in the folder `cwd`, and its exit status. A traceback fails the test."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.chdir(cwd or Path.cwd()), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = run(list(args))
    assert "Traceback" not in err.getvalue()
    return subprocess.CompletedProcess(["spgraph", *args], status, out.getvalue(), err.getvalue())
