"""A right variant as libraries have them: it multiplies a copy of x, which its reset takes."""

from __future__ import annotations

import dataclasses

from spgraph_bench.variants.base import Job, Launch, get_variant, variant

_OWN = get_variant("spmv", "csr-scalar")


@variant("spmv", "copied-x", format="csr", source=_OWN.source, tunables=_OWN.tunables, about="multiplies a copy of x")
def copied_x(job: Job) -> Launch:
    copied = job.device.upload(job.inputs["x"])
    launch = _OWN.prepare(dataclasses.replace(job, buffers={**job.buffers, "x": copied}))

    def reset() -> None:
        launch.reset()
        job.device.write(copied, job.device.download(job.buffers["x"]))

    return dataclasses.replace(launch, reset=reset, keep=(launch.keep, copied))
