"""A variant that kills the process that its worker belongs to, as a kernel's out-of-memory killer might."""

from __future__ import annotations

import os
import signal

from spgraph_bench.variants import Job, Launch, variant


@variant("spmv", "deadly", format="csr", source="spmv/csr_scalar.cu", about="kills its worker's parent")
def deadly(job: Job) -> Launch:
    os.kill(os.getppid(), signal.SIGKILL)
    raise AssertionError("still here")
