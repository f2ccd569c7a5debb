"""Nsight Compute's counters of a variant's kernels, for `spgraph profile`."""

from __future__ import annotations

import csv
import math
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from spgraph_bench.errors import DeviceError

__all__ = ["Measured", "available", "measure", "parse"]

_METRICS = {
    "requests": "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "l1_hit": "l1tex__t_sector_hit_rate.pct",
    "l2_hit": "lts__t_sector_hit_rate.pct",
    "lanes": "smsp__thread_inst_executed_per_inst_executed.ratio",
}
_MOST_LAUNCHES = 100


@dataclass(frozen=True)
class Measured:
    """One kernel, over the launches that were counted. Hit rates in percent; NaN where ncu has no number."""

    kernel: str
    launches: int
    requests: float
    """Loads from global memory, one for each warp and instruction."""
    sectors: float
    l1_hit: float
    l2_hit: float
    lanes: float
    """Threads that an instruction has on average, of any kind."""

    @property
    def sectors_per_request(self) -> float:
        """Mean sectors of 32 bytes that a request moves; NaN without requests."""
        return self.sectors / self.requests if self.requests else math.nan


def available() -> bool:
    """Whether there is ncu to ask."""
    return shutil.which("ncu") is not None


def _number(text: str | None) -> float:
    try:
        return float((text or "").replace(",", ""))
    except ValueError:
        return math.nan


def parse(log: str) -> dict[str, Measured]:
    """By kernel's name, from what ``ncu --csv --page raw`` wrote."""
    rows = list(csv.DictReader(line for line in log.splitlines() if line.startswith('"')))
    launches: dict[str, list[dict[str, float]]] = {}
    for row in rows[1:]:  # the first has the units
        name = (row.get("Kernel Name") or "").removeprefix("void ").partition("<")[0].partition("(")[0]
        launches.setdefault(name, []).append({k: _number(row.get(m)) for k, m in _METRICS.items()})
    return {
        name: Measured(
            name,
            len(some),
            sum(r["requests"] for r in some),
            sum(r["sectors"] for r in some),
            *(sum(r[k] for r in some) / len(some) for k in ("l1_hit", "l2_hit", "lanes")),
        )
        for name, some in launches.items()
    }


def measure(problem: str, argument: str, variant: str, dtype: str, launches: int) -> dict[str, Measured]:
    """Run `variant` on the GPU under ncu and count its kernels, `launches` of which make a run.

    Raises DeviceError where ncu counted nothing.
    """
    first = ["--kernel-id", "::regex:.*:1"] if launches == 1 else ["--launch-count", str(_MOST_LAUNCHES)]
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "ncu.csv"
        command: Sequence[str] = [
            "ncu",
            "--csv",
            "--page",
            "raw",
            "--print-units",
            "base",
            "--log-file",
            str(log),
            "--metrics",
            ",".join(_METRICS.values()),
            "--clock-control",
            "none",
            *first,
            sys.executable,
            "-m",
            "spgraph_bench",
            "bench",
            problem,
            argument,
            "--variant",
            variant,
            "--dtype",
            dtype,
            "--device",
            "cuda",
            "--in-process",
            "--no-gate",
            "--no-save",
            "--time-limit",
            "0.01",
        ]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        text = log.read_text() if log.exists() else ""
    counters = parse(text)
    if not counters:
        lines = [x for x in (done.stdout + text).splitlines() if "ERROR" in x] or done.stdout.splitlines()[-1:]
        raise DeviceError(
            f"ncu counted nothing: {lines[0].strip() if lines else f'exit status {done.returncode}'}",
            remedy="run with --no-measured, or let ncu read counters (ERR_NVGPUCTRPERM: root, or a driver setting)",
        )
    return counters
