"""How well the memory trace agrees with Nsight Compute's counters; needs a GPU and `ncu`.

    python scripts/profile_against_ncu.py [-o FILE.md] [--matrix RECIPE] [VARIANT]...

For each variant (of spmv; eight by default, whose loads are plain) ``spgraph profile --json --measured`` runs, and the
sectors per request of its loads from global memory are compared: modelled from the accesses of every thread on the host
device, and measured. Prints a table in Markdown, for docs/profile.md, and ends with status 1 if one differs by more
than 5 percent.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

VARIANTS = ("csr-scalar", "csr-vector", "csr-subwarp", "coo-atomic", "ell", "sell", "jds", "csr-adaptive")
MATRIX = "uniform:n=200000,degree=16"
ALLOWED = 0.05


def rows_of(profile: dict[str, Any]) -> list[tuple[str, str, float, float]]:
    """Variant, kernel, modelled and measured sectors per request, of kernels that load and were counted."""
    rows = []
    for kernel in profile["kernels"]:
        loads, measured = kernel["loads"], kernel["measured"]
        if measured and loads["requests"] and measured["requests"]:
            modelled = loads["sectors"] / loads["requests"]
            rows.append((profile["variant"], kernel["name"], modelled, measured["sectors"] / measured["requests"]))
    return rows


def table(rows: Sequence[tuple[str, str, float, float]]) -> list[str]:
    """Lines of a Markdown table of (variant, kernel, sectors modelled, sectors measured)."""
    lines = ["| variant | kernel | modelled | measured | difference |", "| --- | --- | --- | --- | --- |"]
    for variant, kernel, modelled, measured in rows:
        lines.append(f"| {variant} | {kernel} | {modelled:.2f} | {measured:.2f} | {modelled / measured - 1:+.1%} |")
    return lines


def main(words: Sequence[str] | None = None) -> int:
    """Trace and measure each variant, and print the table. Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, metavar="FILE.md")
    parser.add_argument("--matrix", default=MATRIX, metavar="RECIPE")
    parser.add_argument("variants", nargs="*", default=VARIANTS, metavar="VARIANT")
    given = parser.parse_args(words)
    rows = []
    for variant in given.variants:
        command = [sys.executable, "-m", "spgraph_bench", "profile", variant, given.matrix, "--problem", "spmv"]
        done = subprocess.run([*command, "--json", "--measured"], stdout=subprocess.PIPE, text=True)
        if done.returncode:
            print(f"profile_against_ncu.py: {variant} failed (see above)", file=sys.stderr)
            return 1
        rows += rows_of(json.loads(done.stdout))
    text = "\n".join([f"Sectors per request of loads, {given.matrix}, float32:", "", *table(rows)])
    print(text)
    if given.output:
        given.output.write_text(text + "\n", encoding="utf-8")
    far = [r for r in rows if abs(r[2] / r[3] - 1) > ALLOWED]
    for variant, kernel, modelled, measured in far:
        print(f"{variant}: {kernel} is modelled as {modelled:.2f}, measured as {measured:.2f}", file=sys.stderr)
    return 1 if far or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
