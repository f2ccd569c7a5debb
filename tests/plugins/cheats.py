"""Variants that are right once and cheat after that; loaded through SPGRAPH_PLUGINS.

Each wraps an honest variant of a matrix problem and of a traversal, one that runs on the device and one that
runs on the CPU.
"""

from __future__ import annotations

import dataclasses
import os
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from spgraph_bench.variants.base import Job, Launch, get_variant, variant

SOURCE = str(Path(__file__).resolve().parent.parent / "kernels" / "cheats.cu")
OUTPUT = {"spmv": "y", "bfs": "level"}


class Honest:
    """An honest launch, and where its result is kept until it is asked for."""

    def __init__(self, job: Job, problem: str, launch: Launch) -> None:
        self.job, self.launch = job, launch
        self.buffer = job.buffers.get(OUTPUT[problem])
        self.result: Any = None
        self.case = 0

    def compute(self) -> Any:
        self.launch.reset()
        self.launch.run()
        return np.array(self.launch.output())

    def put(self, result: Any) -> None:
        if self.buffer is None:
            self.result = result
        else:
            self.job.device.write(self.buffer, result)

    def poisoned(self) -> Any:
        return np.full_like(self.compute(), -7)

    def select(self, case: int) -> None:
        self.case = case
        self.launch.select(case)

    def wrapped(self, run: Callable[[], None], **changes: Any) -> Launch:
        """As the honest one looks: reset poisons, output hands over what `run` has put."""
        poison = self.poisoned()
        on_cpu = {
            "reset": lambda: self.put(poison),
            "output": lambda: self.result if self.buffer is None else self.job.device.download(self.buffer),
        }
        return dataclasses.replace(
            self.launch, run=run, gated=False, select=self.select, parts={}, **{**on_cpu, **changes}
        )


def once(honest: Honest) -> Launch:
    first = honest.compute()
    return honest.wrapped(lambda: honest.put(first))


def once_without_poison(honest: Honest) -> Launch:
    saved: list[Any] = []

    def run() -> None:
        if not saved:
            saved.append(honest.compute())

    return honest.wrapped(run, reset=lambda: None, output=lambda: saved[0])


def previous(honest: Honest) -> Launch:
    last = [honest.compute()]

    def run() -> None:
        honest.put(last[0])
        result, new = honest.result, honest.compute()
        honest.put(last[0])
        honest.result, last[0] = result, new

    return honest.wrapped(run)


def remembers(honest: Honest) -> Launch:
    """Looks whether it knows the answer."""
    known: dict[Any, Any] = {}

    def run() -> None:
        x = honest.job.inputs.get("x")
        if honest.buffer is not None and x is not None:
            x = honest.job.device.download(honest.job.buffers["x"])
        key = honest.case if x is None else x.tobytes()
        if key not in known:
            time.sleep(0.05)  # as if it were much work
            known[key] = honest.compute()
        honest.put(known[key])

    return honest.wrapped(run)


def first_runs(honest: Honest) -> Launch:
    runs = 0
    right = 10 if honest.buffer is None else 2

    def run() -> None:
        nonlocal runs
        runs += 1
        if runs <= right:
            honest.put(honest.compute())

    return honest.wrapped(run)


def counter(honest: Honest) -> Launch:
    runs = 0

    def run() -> None:
        nonlocal runs
        result = honest.compute()
        result.flat[0] += runs  # never set back
        runs += 1
        honest.put(result)

    return honest.wrapped(run)


def in_output(honest: Honest) -> Launch:
    return honest.wrapped(lambda: None, output=honest.compute)


def clock(honest: Honest) -> Launch:
    real, lost = time.perf_counter_ns, [0]

    def run() -> None:
        begin = real()
        honest.put(honest.compute())
        lost[0] += real() - begin

    time.perf_counter_ns = lambda: real() - lost[0]
    return honest.wrapped(run)


def thread(honest: Honest) -> Launch:
    """The host does not wait for its work."""

    def work(case: int) -> None:
        time.sleep(0.02)
        honest.put(honest.compute())

    threads: list[threading.Thread] = []

    def run() -> None:
        threads.append(threading.Thread(target=work, args=[honest.case], daemon=True))
        threads[-1].start()

    return honest.wrapped(run)


def pool(honest: Honest) -> Launch:
    """output() waits for the work."""
    workers, done = ThreadPoolExecutor(1), []

    def work() -> Any:
        time.sleep(0.02)
        return honest.compute()

    poison = honest.poisoned()
    return honest.wrapped(
        lambda: done.append(workers.submit(work)),
        reset=done.clear,
        output=lambda: done[-1].result() if done else poison,
    )


def spoils(honest: Honest) -> Launch:
    """Damages an array that others share, after its own result."""
    array = next(a for a in honest.job.packed.arrays.values() if a.size)

    def run() -> None:
        honest.put(honest.compute())
        if honest.buffer is None:
            array.setflags(write=True)
            array.reshape(-1)[-1] += 1
        else:
            name = next(n for n, a in honest.job.packed.arrays.items() if a is array)
            damaged = array.copy()
            damaged.reshape(-1)[-1] += 1
            honest.job.device.write(honest.job.arrays[name], damaged)

    return honest.wrapped(run)


def exits(honest: Honest) -> Launch:
    sys.exit(0)


def interrupts(honest: Honest) -> Launch:
    raise KeyboardInterrupt


def ends(honest: Honest) -> Launch:
    os._exit(0)


def exits_later(honest: Honest) -> Launch:
    runs = 0

    def run() -> None:
        nonlocal runs
        runs += 1
        if runs > 3:
            sys.exit(0)
        honest.put(honest.compute())

    return honest.wrapped(run)


CHEATS = {
    f.__name__.replace("_", "-"): f
    for f in (
        once,
        once_without_poison,
        previous,
        remembers,
        first_runs,
        counter,
        in_output,
        clock,
        thread,
        pool,
        spoils,
        exits,
        interrupts,
        ends,
        exits_later,
    )
}


def _register(problem: str, where: Any, name: str) -> None:
    base = get_variant(problem, name)

    def enter(cheat: str, spoil: Callable[[Honest], Launch]) -> None:
        @variant(
            problem,
            f"{where}-{cheat}",
            format=base.format,
            library="cheat",
            where=where,
            dtypes=base.dtypes,
            tunables=base.tunables,
            about=f"{name}, but {cheat}",
        )
        def prepare(job: Job) -> Launch:
            job = dataclasses.replace(job, variant=base)
            return spoil(Honest(job, problem, base.prepare(job)))

    for cheat, spoil in CHEATS.items():
        enter(cheat, spoil)


_register("spmv", "gpu", "csr-scalar")
_register("spmv", "cpu", "scipy")
_register("bfs", "gpu", "push")
_register("bfs", "cpu", "scipy")


def _kernel(name: str) -> None:
    @variant("spmv", f"kernel-{name}", format="csr", source=SOURCE, about=f"right, but {name}")
    def prepare(job: Job) -> Launch:
        a, arrays = job.packed, job.arrays
        counts = job.device.upload(np.zeros(1, np.int32))
        kernel = job.kernel(f"cheat_{name.replace('-', '_')}").bind(
            -(-a.rows // 128),
            128,
            np.int32(a.rows),
            arrays["row_ptr"],
            arrays["col"],
            arrays["val"],
            job.buffers["x"],
            job.buffers["y"],
            counts,
        )
        return job.launch(kernel, keep=counts)


for _name in ("beyond", "before", "reads-outside", "unreset", "poisoned-only", "in-order", "spoils"):
    _kernel(_name)


def _bfs_beyond(job: Job) -> Launch:
    launch = get_variant("bfs", "push").prepare(dataclasses.replace(job, variant=get_variant("bfs", "push")))
    level = job.buffers["level"]
    beyond = job.kernel("cheat_one_more").bind(1, 1, np.int32(job.packed.rows), level)
    honest = launch.run

    def run() -> None:
        honest()
        beyond()

    return dataclasses.replace(launch, run=run)


_PUSH = get_variant("bfs", "push")
variant(
    "bfs",
    "kernel-beyond",
    format=_PUSH.format,
    source=SOURCE,
    dtypes=_PUSH.dtypes,
    tunables=_PUSH.tunables,
    about="right, but one element beyond its levels",
)(_bfs_beyond)
