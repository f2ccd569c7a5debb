"""A Dask cluster of this machine, for one sweep: a worker process for each GPU, or several on the host device."""

from __future__ import annotations

import contextlib
import logging
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from spgraph_bench.errors import DeviceError, UsageError
from spgraph_bench.paths import cache_dir
from spgraph_bench.sweep.crew import INSTALL, RESOURCE, Crew, find_workers, use_dask
from spgraph_bench.sweep.pinning import CORES, shares

__all__ = ["gpu_environments", "local_crew"]

_SETTINGS = {
    "distributed.nanny.pre-spawn-environ": {},  # spgraph sets the numbers of threads
    "distributed.worker.profile.enabled": False,  # which would look into what is timed
    "distributed.scheduler.http.routes": [],  # no page that tells other users what runs here
    "distributed.worker.http.routes": [],
}
"""Of Dask, for a cluster of this machine."""


def gpu_environments(requested: str) -> list[dict[str, str]]:
    """An environment for each GPU of "all" or "0,2" (as CUDA counts those that are visible here).

    Raises DeviceError where there are none, UsageError for a number that there is not.
    """
    from spgraph_bench.device.probe import find_driver

    driver = find_driver()
    gpus = driver.gpus if driver is not None else ()
    if not gpus:
        raise DeviceError("there is no GPU to sweep on", remedy="`spgraph doctor`, or --workers N on the host device")
    try:
        chosen = list(range(len(gpus))) if requested == "all" else [int(number) for number in requested.split(",")]
    except ValueError:
        raise UsageError(f"--gpus {requested!r}: not a list of numbers", remedy="write all, or 0,1,2") from None
    if not chosen or len(set(chosen)) < len(chosen) or not set(chosen) <= set(range(len(gpus))):
        there = f"GPUs here are 0 to {len(gpus) - 1}" if len(gpus) > 1 else "the only GPU here is 0"
        raise UsageError(f"--gpus {requested}: no such GPUs, or one twice", remedy=there)
    return [{"CUDA_VISIBLE_DEVICES": gpus[number].uuid or str(gpus[number].index)} for number in chosen]


@contextmanager
def local_crew(
    environments: Sequence[Mapping[str, str]],
    device: str,
    session: Mapping[str, Any],
    threads: int | None,
    warn: Callable[[str], None] = lambda text: None,
) -> Iterator[Crew]:
    """A cluster on this machine, a worker process with each of these environments, which ends with us.

    It listens on loopback, and with a certificate of its own, since other users can reach that, too. `threads`: cores
    of each worker; None: an equal share. Raises UsageError where Dask is not installed, or there are fewer cores.
    """
    deaths: list[str] = []
    use_dask(deaths)
    import dask
    from distributed import Client, Nanny, Scheduler, SpecCluster

    security = _own_certificate()
    parts = _cores_of_each(len(environments), threads, warn)
    common = {"host": "127.0.0.1", "protocol": "tls", "security": security, "dashboard": False}
    with _safe_path(), _scratch() as folder:
        workers = {}
        for number, (environment, part) in enumerate(zip(environments, parts, strict=True)):
            several = str(len(part) or 1)
            env = {
                **environment,
                CORES: ",".join(map(str, part)),
                **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), several),
            }
            options = {
                **common,
                "name": str(number),
                "nthreads": 1,
                "resources": {RESOURCE: 1},
                "memory_limit": 0,
                "local_directory": folder,
                "env": env,
                "silence_logs": logging.CRITICAL,
                "preload": ["spgraph_bench.sweep.pinning"],
            }
            workers[number] = {"cls": Nanny, "options": options}
        with (
            dask.config.set(_SETTINGS),
            SpecCluster(
                workers=workers,
                scheduler={"cls": Scheduler, "options": {**common, "port": 0}},
                security=security,
                silence_logs=False,
            ) as cluster,
            Client(cluster, timeout=30) as client,
        ):
            crew = Crew(client, device, session, deaths=deaths)
            find_workers(crew, len(environments))
            yield crew


def _cores_of_each(workers: int, threads: int | None, warn: Callable[[str], None]) -> list[list[int]]:
    """The cores of each worker. Raises UsageError where each is to have `threads` and there are too few."""
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))
    if threads is not None and threads * workers > len(cores):
        raise UsageError(
            f"{workers} workers of {threads} cores each: there are {len(cores)} cores",
            remedy="give fewer --threads, or ask for fewer workers",
        )
    if workers > len(cores):
        warn(f"{workers} workers share {len(cores)} cores: times of CPU baselines will suffer")
    return shares(cores, workers, threads)


@contextmanager
def _safe_path() -> Iterator[None]:
    """Processes that are started here import nothing of the working folder: workers start with ``python -c``."""
    before = os.environ.get("PYTHONSAFEPATH")
    os.environ["PYTHONSAFEPATH"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONSAFEPATH"]
        else:
            os.environ["PYTHONSAFEPATH"] = before


@contextmanager
def _scratch() -> Iterator[str]:
    """A folder for Dask's files: in the cache, where it removes what a killed one left, or else a temporary one."""
    cached = None
    with contextlib.suppress(OSError):
        cached = str(cache_dir("dask"))
    if cached is not None:
        yield cached
    else:
        with tempfile.TemporaryDirectory(prefix="spgraph-dask-", ignore_cleanup_errors=True) as folder:
            yield folder


def _own_certificate() -> Any:
    from distributed import Security

    try:
        return Security.temporary()
    except ImportError:
        raise UsageError("workers need the package cryptography", remedy=INSTALL) from None
