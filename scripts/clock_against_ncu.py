"""Compare spgraph's medians with Nsight Compute's durations, kernel by kernel; needs a GPU and `ncu`.

    python scripts/clock_against_ncu.py [--variant GLOB]... [--launches N] [-o FILE.csv] RECIPE...

For each recipe `spgraph bench spmv` times the variants in its own way. Then the same launches run under ncu
(``gpu__time_duration.sum``, clocks and caches left alone), cold ones after the clock's own eviction, hot ones
back to back. spgraph's variants whose run is one kernel and nothing else are compared, by the median as spgraph
gives it less the empty-measurement time (``zero_ms`` of the record). Libraries are omitted:
what they enqueue beside a kernel, ncu does not time and they do not say. Hot, ncu's own work between two
launches leaves the caches in another state, which long kernels may feel.

Columns of the CSV, times in us: recipe, variant, kernel, cache, ncu (median), spgraph (median), zero,
difference (spgraph - zero - ncu), percent (of ncu), within (the difference is at most 1 us or 5 %).
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

METRIC = "gpu__time_duration.sum"
MARK = "(7,"
"""Grid of the empty kernel that is before each variant's launches."""
UNITS = {"ns": 1e-3, "nsecond": 1e-3, "us": 1.0, "usecond": 1.0, "ms": 1e3, "msecond": 1e3}
COLUMNS = ("recipe", "variant", "kernel", "cache", "ncu", "spgraph", "zero", "difference", "percent", "within")


def rows_of(log: str) -> list[dict[str, str]]:
    """The rows of what ``ncu --csv`` wrote, without what it says before and after them."""
    return list(csv.DictReader(line for line in log.splitlines() if line.startswith('"')))


def short_name(kernel: str) -> str:
    """A kernel's name without its arguments, template's ones included."""
    return kernel.removeprefix("void ").partition("<")[0].partition("(")[0] or kernel


def need_ncu(parser: argparse.ArgumentParser) -> None:
    """End with a usage error if ncu is not on PATH."""
    if not shutil.which("ncu"):
        parser.error("ncu is not on PATH: it comes with the CUDA toolkit and with Nsight Compute")


def timed(recipe: str, globs: Sequence[str]) -> list[dict[str, Any]]:
    """spgraph's records of the variants that ran on the GPU."""
    chosen = [word for glob in globs for word in ("--variant", glob)]
    command = [sys.executable, "-P", "-m", "spgraph_bench", "bench", "spmv", recipe, "--device", "cuda"]
    done = subprocess.run([*command, "--no-save", "--json", *chosen], stdout=subprocess.PIPE, text=True)
    records = [json.loads(line) for line in done.stdout.splitlines()]
    return [r for r in records if r["status"] == "ok" and r["where"] == "gpu"]


def launch(recipe: str, cache: str, count: int, names: Sequence[str]) -> None:
    """What runs under ncu: each variant `count` times, behind a marker. Prints its operations a run."""
    import numpy as np

    from spgraph_bench import recipes
    from spgraph_bench.device.cuda import CudaDevice
    from spgraph_bench.formats import get_format
    from spgraph_bench.measure.cuda_clock import CudaClock
    from spgraph_bench.problems import get_problem
    from spgraph_bench.runner.prepare import prepare
    from spgraph_bench.variants import get_variant

    matrix, problem, kind = recipes.make(recipe), get_problem("spmv"), np.dtype(np.float32)
    inputs, outputs = problem.inputs(matrix, kind, 1), problem.output_arrays(matrix, kind)
    device = CudaDevice(0)
    clock = CudaClock(device, gate=False)
    mark = device.compile("measure/clock.cu").kernel("spg_empty").bind(int(MARK[1:-1]), 32)
    operations = {}
    for name in names:
        variant = get_variant("spmv", name)
        packed = get_format(variant.format).pack(matrix.csr, kind, np.dtype(np.int32))
        run = prepare(device, variant, packed, inputs, outputs).launch
        run.reset()
        run.run()
        device.synchronize()
        device.driver.start_profiler()
        mark()
        for _ in range(count):
            if cache == "cold":
                clock.evict()
            run.run()
            device.synchronize()
        device.driver.stop_profiler()
        operations[name] = run.operations
    print(json.dumps(operations), flush=True)
    os._exit(0)  # libraries' handles are not taken down in any order


def profiled(recipe: str, cache: str, count: int, names: Sequence[str]) -> dict[str, tuple[str, float]]:
    """By variant of one kernel a run: the kernel's name and the median of ncu's durations, in us."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "ncu.csv"
        done = subprocess.run(
            [
                "ncu",
                "--csv",
                "--log-file",
                log,
                "--metrics",
                METRIC,
                "--clock-control",
                "none",
                "--cache-control",
                "none",
                "--profile-from-start",
                "off",
                sys.executable,
                __file__,
                "--launch",
                cache,
                "--launches",
                str(count),
                recipe,
                *names,
            ],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        operations = json.loads(done.stdout.splitlines()[-1])
        table = rows_of(log.read_text())
    groups: list[list[tuple[str, float]]] = []
    for row in table:
        kernel, grid = row["Kernel Name"], row["Grid Size"].replace(" ", "")
        if kernel.startswith("spg_empty") and grid.startswith(MARK):
            groups.append([])
        elif not kernel.startswith("spg_read"):
            us = float(row["Metric Value"].replace(",", "")) * UNITS[row["Metric Unit"]]
            groups[-1].append((short_name(kernel), us))
    times = {}
    for name, group in zip(operations, groups, strict=True):
        if operations[name] == 1 and len(group) == count and len({kernel for kernel, _ in group}) == 1:
            times[name] = group[0][0], median(us for _, us in group)
    return times


def compared(recipe: str, globs: Sequence[str], count: int) -> list[dict[str, Any]]:
    """Rows of the table, for the variants that `globs` match: the clock's and ncu's medians in us, cold and hot."""
    records = timed(recipe, globs)
    rows = []
    for cache in ("cold", "hot"):
        by_ncu = profiled(recipe, cache, count, [r["variant"] for r in records])
        for record in records:
            if record["variant"] not in by_ncu:
                continue
            kernel, ncu = by_ncu[record["variant"]]
            (samples,) = (s for s in record["samples"] if s["cache"] == cache)
            ours, zero = median(samples["times_ms"]) * 1e3, record["ceiling"]["zero_ms"] * 1e3
            difference = ours - zero - ncu
            within = abs(difference) <= max(1.0, 0.05 * ncu)
            values = (
                recipe,
                record["variant"],
                kernel,
                cache,
                ncu,
                ours,
                zero,
                difference,
                100 * difference / ncu,
                within,
            )
            rows.append(dict(zip(COLUMNS, values, strict=True)))
    return rows


def main() -> int:
    """Print the table, and write it as CSV with -o. Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--variant", action="append", default=[], metavar="GLOB")
    parser.add_argument("--launches", type=int, default=15, metavar="N", help="launches of each under ncu")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE.csv")
    parser.add_argument("--launch", choices=["cold", "hot"], help=argparse.SUPPRESS)
    parser.add_argument("recipe", nargs="+", metavar="RECIPE")
    arguments = parser.parse_args()
    if arguments.launch:
        recipe, *names = arguments.recipe
        launch(recipe, arguments.launch, arguments.launches, names)
    need_ncu(parser)
    rows = [row for r in arguments.recipe for row in compared(r, arguments.variant, arguments.launches)]
    for row in rows:
        print("  ".join(f"{v:9.3f}" if isinstance(v, float) else str(v) for v in row.values()))
    if arguments.output:
        with arguments.output.open("w", newline="", encoding="utf-8") as file:
            out = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            out.writeheader()
            for row in rows:
                out.writerow({k: round(v, 3) if isinstance(v, float) else v for k, v in row.items()})
    outside = sum(not row["within"] for row in rows)
    print(f"{len(rows) - outside} of {len(rows)} medians agree within 1 us or 5 %")
    return 1 if outside else 0


if __name__ == "__main__":
    sys.exit(main())
