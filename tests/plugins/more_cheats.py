"""Variants that cheat on what judges them, or spoil what comes after them; loaded through SPGRAPH_PLUGINS.

Each wraps an honest variant, one that runs on the device and one that runs on the CPU.
"""

from __future__ import annotations

import dataclasses
import os
import subprocess
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from spgraph_bench.variants.base import Job, Launch, get_variant, variant

OUTPUT = {"spmv": "y", "bfs": "level"}


class Honest:
    """An honest launch, and where its result is kept until it is asked for."""

    def __init__(self, job: Job, problem: str) -> None:
        base = get_variant(problem, BASES[problem, job.variant.where])
        self.given = job
        self.job = dataclasses.replace(job, variant=base)
        self.launch = base.prepare(self.job)
        self.buffer = job.buffers.get(OUTPUT[problem])
        self.result: Any = None

    def compute(self) -> Any:
        self.launch.reset()
        self.launch.run()
        return np.array(self.launch.output())

    def run(self) -> None:
        self.put(self.compute())

    def put(self, result: Any) -> None:
        if self.buffer is None:
            self.result = result
        else:
            self.job.device.write(self.buffer, result)

    def output(self) -> Any:
        return self.result if self.buffer is None else self.job.device.download(self.buffer)

    def x(self) -> Any:
        return self.job.device.download(self.job.buffers["x"]) if self.job.buffers else self.job.inputs["x"]

    def wrapped(self, **changes: Any) -> Launch:
        poison = np.full_like(self.compute(), -7)
        plain = {"run": self.run, "reset": lambda: self.put(poison), "output": self.output}
        return dataclasses.replace(self.launch, gated=False, parts={}, **{**plain, **changes})


def computes_in_output(honest: Honest) -> Launch:
    """reset() and output() know whether run() was called."""
    ran, poison = [False], np.full_like(honest.compute(), -7)
    return honest.wrapped(
        run=lambda: ran.__setitem__(0, True),
        reset=lambda: ran.__setitem__(0, False),
        output=lambda: honest.compute() if ran[0] else poison,
    )


def waits_in_output(honest: Honest) -> Launch:
    """Work in a thread that was there before, as short as it is."""
    workers, done, poison = ThreadPoolExecutor(1), [], np.full_like(honest.compute(), -7)
    return honest.wrapped(
        run=lambda: done.append(workers.submit(honest.compute)),
        reset=done.clear,
        output=lambda: done[-1].result() if done else poison,
    )


def knows_multiples(honest: Honest) -> Launch:
    """y of a multiple of x is a multiple of y."""
    known: list[Any] = []

    def run() -> None:
        x = honest.x()
        if not known:
            known[:] = [x.copy(), honest.compute()]
        honest.put((known[1] * (x[0] / known[0][0])).astype(known[1].dtype))

    return honest.wrapped(run=run)


class Agreeing(np.ndarray):
    """Every comparison with it finds no difference."""

    def __array_ufunc__(self, function: Any, method: str, *inputs: Any, **more: Any) -> Any:
        plain = [np.asarray(a) for a in inputs]
        return np.zeros_like(getattr(function, method)(*plain, **{k: v for k, v in more.items() if k != "out"}))

    def astype(self, *_: Any, **__: Any) -> Any:
        return self


def agrees(honest: Honest) -> Launch:
    wrong = np.full_like(honest.compute(), 5)
    return honest.wrapped(run=lambda: honest.put(wrong), output=lambda: honest.output().view(Agreeing))


def replaces_judge(honest: Honest) -> Launch:
    import spgraph_bench.runner.on_device.judging as judging
    from spgraph_bench.problems import CheckResult

    judging.Judge.result = lambda *_, **__: CheckResult(True)
    return honest.wrapped(run=lambda: honest.put(np.full_like(honest.compute(), 5)))


def replaces_sample(honest: Honest) -> Launch:
    import spgraph_bench.measure.cpu_clock as cpu_clock

    cpu_clock.perf_counter_ns = lambda: 0
    return honest.wrapped()


def changes_input(honest: Honest) -> Launch:
    def run() -> None:
        honest.run()
        array = next(iter(honest.job.inputs.values()))
        if honest.job.buffers:
            honest.job.device.fill(honest.job.buffers["x"], 0)
        else:
            array.base[...] = 0

    return honest.wrapped(run=run)


def states_other_bytes(honest: Honest) -> Launch:
    honest.given.packed = dataclasses.replace(honest.given.packed, compulsory_bytes=10**15)
    honest.given.params["invented"] = lambda: 0
    return honest.wrapped()


def many_iterations(honest: Honest) -> Launch:
    return honest.wrapped(facts=lambda: {"iterations": 10**9})


def odd_setup(honest: Honest) -> Launch:
    return honest.wrapped(preprocess_ms="none")


def odd_cases(honest: Honest) -> Launch:
    return honest.wrapped(cases=10**9)


def no_launch(honest: Honest) -> Any:
    return None


def no_array(honest: Honest) -> Launch:
    return honest.wrapped(output=lambda: honest.output().tolist())


class TextlessError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def textless(honest: Honest) -> Launch:
    raise TextlessError


def leaves(honest: Honest) -> Launch:
    raise GeneratorExit


def forks(honest: Honest) -> Launch:
    """Two workers answer from here on."""
    os.fork()
    return honest.wrapped()


def moves(honest: Honest) -> Launch:
    os.chdir("/")
    os.environ["PATH"] = ""
    return honest.wrapped()


def leaves_process(honest: Honest) -> Launch:
    subprocess.Popen(["sleep", "30"])
    return honest.wrapped()


def ends_later(honest: Honest) -> Launch:
    """Ends the worker when it is another's turn."""
    timer = threading.Timer(0.3, lambda: os._exit(3))
    timer.daemon = True
    timer.start()
    return honest.wrapped()


CHEATS: tuple[Callable[[Honest], Any], ...] = (
    computes_in_output,
    waits_in_output,
    knows_multiples,
    agrees,
    replaces_judge,
    replaces_sample,
    changes_input,
    states_other_bytes,
    many_iterations,
    odd_setup,
    odd_cases,
    no_launch,
    no_array,
    textless,
    leaves,
    forks,
    moves,
    leaves_process,
    ends_later,
)
BASES = {("spmv", "gpu"): "csr-scalar", ("spmv", "cpu"): "scipy", ("bfs", "gpu"): "push", ("bfs", "cpu"): "scipy"}


def _register(problem: str, where: Any) -> None:
    base = get_variant(problem, BASES[problem, where])

    def enter(spoil: Callable[[Honest], Any]) -> None:
        @variant(
            problem,
            f"{where}-{spoil.__name__.replace('_', '-')}",
            format=base.format,
            library="cheat",
            where=where,
            dtypes=base.dtypes,
            tunables=base.tunables,
            about=f"{base.name}, but {spoil.__name__}",
        )
        def prepare(job: Job) -> Launch:
            return spoil(Honest(job, problem))

    for spoil in CHEATS:
        enter(spoil)


for _problem, _where in BASES:
    _register(_problem, _where)
