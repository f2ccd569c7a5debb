"""`make demo`: a small matrix with visible structure, a short table of SpMV on it, one conclusion, the next command.

The matrix is scripts/plate.mtx.gz (see plate.py). Commands are shown as typed. Exit status: that of the bench.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import spgraph_bench
from spgraph_bench.report.plots import spy
from spgraph_bench.results.record import Record

__all__ = ["conclusion"]

ROOT = Path(__file__).resolve().parent.parent
_RESULTS = "build/demo"
MATRIX = "scripts/plate.mtx.gz"
VARIANTS = ("csr-scalar", "csr-vector", "csr-adaptive", "sell", "cusparse-csr-*", "scipy")
"""One thread a row, one warp a row, a choice by row length, another format; and what others have."""


def conclusion(records: Sequence[Record]) -> tuple[str, str]:
    """A conclusion from the records, in a sentence or two, and the command to type next."""
    wrong = [r.variant for r in records if r.status in ("wrong", "failed")]
    if wrong:
        return f"Something is broken here: {', '.join(wrong)} did not give the right answer.", "spgraph doctor"
    kernels = [r for r in records if r.status == "ok" and r.where == "gpu" and not r.library]
    results = spgraph_bench.Results(records)
    timed = {row["variant"]: row for row in results.rows() if row["median_ms"] and row["where"] == "gpu"}
    own = {name: row for name, row in timed.items() if not row["library"]}
    if not own:
        text = f"All {len(kernels)} kernels give the right answer, row by row. Without a GPU they are not timed; what "
        return text + "each line asks memory for can be counted.", f"spgraph profile csr-scalar {MATRIX}"
    best = min(own.values(), key=lambda row: float(row["median_ms"]))
    text = f"{best['variant']} is the fastest of these {len(own)} kernels here: {1000 * best['median_ms']:.1f} us"
    naive = own.get("csr-scalar")
    if naive and naive is not best:
        text += f", {naive['median_ms'] / best['median_ms']:.2f} times as fast as a thread per row"
    if others := [row for row in timed.values() if row["library"]]:
        other = min(others, key=lambda row: float(row["median_ms"]))
        text += f", and {other['median_ms'] / best['median_ms']:.2f} times as fast as {other['variant']}"
    return f"{text}. All answers are right.", "spgraph bench spmv YOUR_MATRIX.mtx"


def main() -> int:
    """Run the demo; the exit status."""
    matrix = spgraph_bench.read(ROOT / MATRIX)
    csr = matrix.csr
    ascii_only = not (sys.stdout.isatty() and "utf" in (sys.stdout.encoding or "").lower())
    print(f"{MATRIX}: heat conduction in a plate with a hole, {csr.rows:,} unknowns, {csr.nnz:,} nonzeros.")
    print("Each quarter of the plate is a band on the diagonal; what is between quarters comes last:\n")
    print(spy(csr.row_ptr, csr.col_idx, *csr.shape, 56, 24, ascii_only))
    words = ["bench", "spmv", MATRIX, *(word for name in VARIANTS for word in ("--variant", name))]
    shown = " ".join(f"'{word}'" if "*" in word else word for word in words)
    print(f"$ spgraph {shown}\n", flush=True)
    for file in (ROOT / _RESULTS).glob("*.jsonl"):  # of an earlier demo
        file.unlink()
    command = [sys.executable, "-m", "spgraph_bench", *_known(words), "--results", _RESULTS, "--time-limit", "0.5"]
    status = subprocess.run(command, cwd=ROOT).returncode
    if status not in (0, 1):
        return status
    text, then = conclusion(list(spgraph_bench.Results.load(ROOT / _RESULTS)))
    print(f"\n{text}\n\nNext:\n$ {then}")
    return status


def _known(words: Sequence[str]) -> list[str]:
    """`words` without globs of variants that there are none of here (cuSPARSE is a package of its own)."""
    from spgraph_bench.variants import select

    words_known: list[str] = []
    for word in words:
        if words_known and words_known[-1] == "--variant" and not select("spmv", [word]):
            words_known.pop()
            continue
        words_known.append(word)
    return words_known


if __name__ == "__main__":
    sys.exit(main())
