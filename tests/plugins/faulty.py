"""Variants that go wrong on purpose; loaded through SPGRAPH_PLUGINS."""

from pathlib import Path

import numpy as np

from spgraph_bench.errors import LaunchError
from spgraph_bench.variants.base import Job, Launch, variant

SOURCE = str(Path(__file__).resolve().parent.parent / "kernels" / "faulty.cu")


def _rows(job: Job, kernel: str) -> Launch:
    a, arrays = job.packed, job.arrays
    run = job.kernel(kernel).bind(
        -(-a.rows // 128),
        128,
        np.int32(a.rows),
        arrays["row_ptr"],
        arrays["col"],
        arrays["val"],
        job.buffers["x"],
        job.buffers["y"],
    )
    return job.launch(run)


@variant("spmv", "faulty-short", format="csr", source=SOURCE, about="drops a nonzero of every row")
def faulty_short(job: Job) -> Launch:
    return _rows(job, "faulty_short")


@variant("spmv", "faulty-unwritten", format="csr", source=SOURCE, about="leaves a row unwritten")
def faulty_unwritten(job: Job) -> Launch:
    return _rows(job, "faulty_unwritten")


@variant("spmv", "faulty-hang", format="csr", source=SOURCE, about="never returns")
def faulty_hang(job: Job) -> Launch:
    return job.launch(job.kernel("faulty_hang").bind(1, 1, job.buffers["y"]))


@variant("spmv", "faulty-wild", format="csr", source=SOURCE, about="writes outside")
def faulty_wild(job: Job) -> Launch:
    return job.launch(job.kernel("faulty_wild").bind(1, 1, job.buffers["y"]))


@variant("spmv", "faulty-host", format="csr", source=SOURCE, about="its host function raises")
def faulty_host(job: Job) -> Launch:
    raise RuntimeError("no such plan")


@variant("spmv", "faulty-late", format="csr", library="test", where="cpu", about="fails in its 5th run")
def faulty_late(job: Job) -> Launch:
    runs = 0
    a = job.packed.val.astype(np.float64)
    rows = np.repeat(np.arange(job.packed.rows), np.diff(job.packed.row_ptr))
    y = np.empty(job.packed.rows, job.dtype)

    def run() -> None:
        nonlocal runs
        runs += 1
        if runs >= 5:
            raise LaunchError("out of luck")
        sums = np.zeros(job.packed.rows)
        np.add.at(sums, rows, a * job.inputs["x"].astype(np.float64)[job.packed.col])
        y[:] = sums

    return Launch(run=run, reset=lambda: y.fill(np.nan), output=lambda: y)


@variant("spmv", "faulty-late-hang", format="csr", library="test", where="cpu", about="hangs in its 5th run")
def faulty_late_hang(job: Job) -> Launch:
    import time

    good = faulty_late(job)
    runs = 0

    def run() -> None:
        nonlocal runs
        runs += 1
        if runs >= 5:
            time.sleep(1000)
        good.run()

    return Launch(run=run, reset=good.reset, output=good.output)
