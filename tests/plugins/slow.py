"""CPU baselines that take their time."""

from __future__ import annotations

import time

import numpy as np

from spgraph_bench.variants import Job, Launch, variant


def _sleeper(job: Job, seconds: float) -> Launch:
    import scipy.sparse

    a = job.packed
    matrix = scipy.sparse.csr_array((a.val, a.col, a.row_ptr), (a.rows, a.cols))
    y = np.empty(a.rows, job.dtype)

    def run() -> None:
        time.sleep(seconds)
        y[:] = matrix @ job.inputs["x"]

    return Launch(run=run, reset=lambda: y.fill(np.nan), output=lambda: y)


@variant("spmv", "slow-check", format="csr", library="test", where="cpu", about="a minute a run")
def slow_check(job: Job) -> Launch:
    return _sleeper(job, 60.0)


@variant("spmv", "slow-runs", format="csr", library="test", where="cpu", about="50 ms a run")
def slow_runs(job: Job) -> Launch:
    return _sleeper(job, 0.05)
