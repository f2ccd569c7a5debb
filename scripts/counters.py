"""What Nsight Compute's counters say about the kernels of a run; needs a GPU and `ncu`, or its CSV.

    python scripts/counters.py [-o FILE.csv] PROBLEM MATRIX [OPTION OF BENCH]...
    python scripts/counters.py [-o FILE.csv] --from FILE.csv...

The first runs ``spgraph bench PROBLEM MATRIX ...`` under ncu, for instance ``spmv rmat:scale=18 --variant
'csr*'``, and looks at the first launch of each kernel, with empty caches and the clocks as they are. Kernels
of one name (those of ``sell`` and ``pattern-sell``) count as one, so such variants take two runs. The second
reads what ``ncu --csv --page raw`` wrote before, or what this script did with ``-o``. Of the clock's own
kernels only ``spg_read`` is shown: it reads and does nothing else, which is the most that DRAM gives.

Columns of the table, in the CSV with the grid and every reason to stall (``stall_...``):

    us          duration
    DRAM L2 L1  throughput, in percent of the peak; DRAM's own traffic passes through L2, so L2 says something
                of its own only where it is well above DRAM
    read wrote  megabytes from and to DRAM
    hit         sectors found in L2 and in L1, in percent
    s/req       sectors of 32 bytes for one load of a warp: 4 where it reads 32 neighbouring floats, 16 where
                these are float4, 32 where each lane reads somewhere else
    warps       resident, in percent of the most there can be
    issue       cycles in which an instruction was issued, in percent
    stalls      the three things that warps waited for most, in percent of their time
"""

from __future__ import annotations

import argparse
import csv
import math
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from clock_against_ncu import METRIC, UNITS, need_ncu, rows_of, short_name

Row = dict[str, str | float]


class Column(NamedTuple):
    """A number of a kernel: name in the CSV, head and decimals in the table, ncu's metric and its units."""

    name: str
    head: str
    decimals: int
    metric: str
    units: dict[str, float] | None = None


MEGABYTES = {"byte": 1e-6, "Kbyte": 1e-3, "Mbyte": 1.0, "Gbyte": 1e3}
COLUMNS = (
    Column("us", "us", 1, METRIC, UNITS),
    Column("dram_percent", "DRAM", 0, "dram__throughput.avg.pct_of_peak_sustained_elapsed"),
    Column("read_mb", "read", 1, "dram__bytes_read.sum", MEGABYTES),
    Column("wrote_mb", "wrote", 1, "dram__bytes_write.sum", MEGABYTES),
    Column("l2_percent", "L2", 0, "lts__throughput.avg.pct_of_peak_sustained_elapsed"),
    Column("l2_hit_percent", "hit", 0, "lts__t_sector_hit_rate.pct"),
    Column("l1_percent", "L1", 0, "l1tex__throughput.avg.pct_of_peak_sustained_elapsed"),
    Column("l1_hit_percent", "hit", 0, "l1tex__t_sector_hit_rate.pct"),
    Column("sectors_per_request", "s/req", 1, "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio"),
    Column("warps_percent", "warps", 0, "sm__warps_active.avg.pct_of_peak_sustained_active"),
    Column("issue_percent", "issue", 0, "smsp__issue_active.avg.pct_of_peak_sustained_active"),
)
STALLS = (
    "barrier",
    "branch_resolving",
    "dispatch_stall",
    "drain",
    "lg_throttle",
    "long_scoreboard",
    "math_pipe_throttle",
    "membar",
    "mio_throttle",
    "no_instruction",
    "not_selected",
    "selected",
    "short_scoreboard",
    "sleeping",
    "tex_throttle",
    "wait",
)
STALL = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
FIELDS = ("kernel", "grid", "block", *(c.name for c in COLUMNS), *(f"stall_{s}" for s in STALLS))


class CountersError(Exception):
    """No counters; the message says why and what to do, a line each."""


def number(text: str | None) -> float:
    """A number as ncu writes it, NaN where it has none."""
    try:
        return float((text or "").replace(",", ""))
    except ValueError:
        return math.nan


def condensed(log: str, name: str) -> list[Row]:
    """A row with ``FIELDS`` for each kernel of `log`: ncu's raw page or this script's own CSV, called `name`.

    Numbers that are not there are NaN. Raises CountersError where `log` has no kernel.
    """
    own = log.startswith("kernel,grid,block,")
    table = list(csv.DictReader(log.splitlines())) if own else rows_of(log)
    if own and table:
        return [{f: (row[f] or "") if f in FIELDS[:3] else number(row.get(f)) for f in FIELDS} for row in table]
    if not table or not {"Kernel Name", METRIC} <= set(table[0]):
        raise CountersError(
            f"{name}: no kernels and their {METRIC} in it\n"
            "remedy: give what `ncu --csv --page raw` wrote with this script's metrics, or its own file"
        )
    units, *launches = table
    rows = []
    for launch in launches:
        row: Row = {"kernel": short_name(launch["Kernel Name"])}
        if row["kernel"] == "spg_empty":
            continue
        row |= {"grid": launch.get("Grid Size") or "", "block": launch.get("Block Size") or ""}
        for column in COLUMNS:
            scale = column.units.get(units.get(column.metric) or "", math.nan) if column.units else 1.0
            row[column.name] = number(launch.get(column.metric)) * scale
        stalls = {s: number(launch.get(STALL.format(s))) for s in STALLS}
        total = sum(v for v in stalls.values() if not math.isnan(v))
        row |= {f"stall_{s}": 100 * v / total if total else math.nan for s, v in stalls.items()}
        rows.append(row)
    return rows


def read(path: Path) -> list[Row]:
    """The kernels of the file; raises CountersError where it cannot be read or has none."""
    try:
        return condensed(path.read_text(encoding="utf-8"), str(path))
    except OSError as error:
        raise CountersError(f"{path}: {error.strerror}\nremedy: give a CSV file that ncu wrote") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise CountersError(f"{path}: {error}\nremedy: give a CSV file that ncu wrote") from error


def line(row: Row) -> str:
    """A row of the table."""
    cells = [f"{row['kernel']:<22}"]
    for column in COLUMNS:
        value = float(row[column.name])
        cells.append("-".rjust(6) if math.isnan(value) else f"{value:6.{column.decimals}f}")
    waits = {s: float(row[f"stall_{s}"]) for s in STALLS if s != "selected"}
    most = sorted((s for s in waits if waits[s] > 0), key=lambda s: -waits[s])[:3]
    return " ".join([*cells, " " + ", ".join(f"{s} {waits[s]:.0f}" for s in most)]).rstrip()


def heading() -> str:
    """Titles over the rows."""
    return " ".join([f"{'kernel':<22}", *(f"{c.head:>6}" for c in COLUMNS), " stalls"])


def profiled(words: Sequence[str]) -> tuple[list[Row], str]:
    """The kernels of ``spgraph bench WORDS``, and what to say of a run that failed ("" where it did not).

    Raises CountersError where ncu counted nothing.
    """
    metrics = [*(c.metric for c in COLUMNS), *(STALL.format(s) for s in STALLS)]
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "ncu.csv"
        done = subprocess.run(
            [
                "ncu",
                "--csv",
                "--page",
                "raw",
                "--print-units",
                "base",
                "--log-file",
                str(log),
                "--metrics",
                ",".join(metrics),
                "--clock-control",
                "none",
                "--kernel-id",
                "::regex:.*:1",
                sys.executable,
                "-P",
                "-m",
                "spgraph_bench",
                "bench",
                *words,
                "--in-process",
                "--no-gate",
                "--no-save",
                "--time-limit",
                "0.01",
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        text = log.read_text() if log.exists() else ""
    lines = done.stdout.strip().splitlines()
    errors = [x for x in [*lines, *text.splitlines()] if x.startswith("==ERROR==")] or lines[-5:]
    try:
        rows = condensed(text, "ncu")
    except CountersError:
        rows = []
    if not rows:
        raise CountersError(
            "\n".join(["ncu counted nothing; what was said last:", *errors])
            + "\nremedy: see that `spgraph bench` runs these variants on the GPU, and that ncu may read its"
            " counters (ERR_NVGPUCTRPERM: it takes root, or a driver that lets everyone)"
        )
    failed = "\n".join([f"the run ended with status {done.returncode}:", *errors]) if done.returncode else ""
    return rows, failed


def main(words: Sequence[str] | None = None) -> int:
    """Run ncu and print the counters of each kernel, or print those of CSV files. Returns the exit status."""
    parser = argparse.ArgumentParser(
        usage="%(prog)s [-h] [-o FILE.csv] (PROBLEM MATRIX [OPTION OF BENCH]... | --from FILE.csv...)",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("-o", "--output", type=Path, metavar="FILE.csv")
    parser.add_argument("--from", dest="logs", nargs="+", type=Path, metavar="FILE.csv", default=[])
    parser.add_argument("bench", nargs=argparse.REMAINDER, metavar="PROBLEM MATRIX [OPTION OF BENCH]...")
    arguments = parser.parse_args(words)
    if bool(arguments.logs) == bool(arguments.bench):
        parser.error("give either what to run (PROBLEM MATRIX ...) or --from FILE.csv...")
    tables: dict[str, list[Row]] = {}
    failed = ""
    try:
        if arguments.bench:
            need_ncu(parser)
            tables[" ".join(arguments.bench)], failed = profiled(arguments.bench)
        for log in arguments.logs:
            tables[log.name] = read(log)
        for title, rows in tables.items():
            print(title, heading(), *map(line, rows), sep="\n")
        if arguments.output:
            with arguments.output.open("w", newline="", encoding="utf-8") as file:
                out = csv.writer(file, lineterminator="\n")
                out.writerow(FIELDS)
                for row in (row for rows in tables.values() for row in rows):
                    values = [row[f] for f in FIELDS]
                    out.writerow(f"{v:.4g}".replace("nan", "") if isinstance(v, float) else v for v in values)
    except (CountersError, OSError) as error:
        print(f"counters.py: {error}", file=sys.stderr)
        return 1
    if failed:
        print(f"counters.py: {failed}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
