"""The workers of a Dask cluster: those that can measure, and what their devices are."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from spgraph_bench.device.base import DeviceInfo
from spgraph_bench.errors import DeviceError, UsageError
from spgraph_bench.provenance import code_hash
from spgraph_bench.timer import monotonic

if TYPE_CHECKING:
    from distributed import Client

    from spgraph_bench.sweep.remote import Probe

__all__ = ["INSTALL", "LOST_S", "RESOURCE", "WORKERS_S", "Crew", "find_workers", "offering", "use_dask"]

RESOURCE = "GPU"
"""What a worker offers one of: a place that measures alone."""
LOST_S = 15.0
"""Seconds without an answer after which the scheduler counts as lost."""
WORKERS_S = 60.0
"""Seconds to wait for a first worker, or for one when all are gone."""
_BUSY_S = 20.0
"""Seconds for a worker to say what it is; it imports spgraph first."""
INSTALL = "pip install 'spgraph[cluster]'"


@dataclass
class Crew:
    """A cluster that was reached, and what its workers are."""

    client: Client
    device: str
    """"host" or "cuda"."""
    session: Mapping[str, Any]
    """Further arguments of each worker's Station."""
    probes: dict[str, Probe] = field(default_factory=dict)
    """By the worker's address; those whose device can be used."""
    deaths: list[str] = field(default_factory=list)
    """What became of worker processes, in words; of a local cluster only."""

    @property
    def devices(self) -> set[str]:
        """Names of the workers' devices."""
        return {probe.device().name for probe in self.probes.values()}

    def info(self) -> DeviceInfo:
        """What some worker's device is."""
        return next(iter(self.probes.values())).device()

    def cause(self, what: str, process: int = 0) -> str:
        """`what`, with how the worker's process ended where that is known; `process`: its id, 0 if unknown."""
        texts = [text for text in self.deaths if not process or f"process {process} " in text]
        return f"{what}: {texts[-1]}" if texts else what


def use_dask(deaths: list[str]) -> None:
    """Keep Dask's log off the terminal. What it says of a worker process that ended goes to `deaths`.

    Raises UsageError where Dask is not installed.
    """
    try:
        import distributed  # noqa: F401 (it configures its loggers when it is imported)
    except ImportError:
        raise UsageError("sweeps over several GPUs or hosts need Dask", remedy=INSTALL) from None

    class Deaths(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            text = record.getMessage()
            if "Worker process" in text:
                deaths.append(text[:1].lower() + text[1:])

    for name in ("distributed", "distributed.client", "tornado", "tornado.application", "asyncio"):
        logger = logging.getLogger(name)
        logger.handlers = [logging.NullHandler()]
        logger.propagate = False
    logger = logging.getLogger("distributed.nanny")
    logger.handlers, logger.propagate = [Deaths()], False
    logger.setLevel(logging.INFO)


def find_workers(crew: Crew, wanted: int, warn: Callable[[str], None] = lambda text: None) -> None:
    """Wait for workers that offer the resource, and ask what each is. Raises DeviceError where none can be used."""
    until = monotonic() + WORKERS_S
    while len(addresses := offering(crew.client)) < wanted and monotonic() < until:
        time.sleep(0.05)
    if not addresses:
        raise DeviceError(
            f"no worker of the cluster offers {RESOURCE}=1", remedy="dask worker ADDRESS --nthreads 1 --resources GPU=1"
        )
    probes = _probe(crew, addresses, warn)
    others = sorted({p.version for p in probes.values() if p.code != code_hash()})
    if others:
        raise DeviceError(
            f"workers run other code than this (spgraph {', '.join(others)})",
            remedy="install the same spgraph everywhere",
        )
    crew.probes = {address: each for address, each in probes.items() if not each.error}
    broken = [f"worker {each.name}: {each.error}" for each in probes.values() if each.error]
    if not crew.probes:
        cause = broken[0] if broken else "all have left"
        raise DeviceError(f"no worker can be used: {cause}", remedy="`spgraph doctor` where the workers run")
    for text in broken:
        warn(text)


def _probe(crew: Crew, addresses: Sequence[str], warn: Callable[[str], None]) -> dict[str, Probe]:
    """What the workers at `addresses` are, without those that leave meanwhile."""
    from spgraph_bench.sweep.remote import probe

    futures = {
        address: crew.client.submit(
            probe, crew.device, dict(crew.session), workers=[address], resources={RESOURCE: 1}, pure=False, retries=0
        )
        for address in addresses
    }
    warn_at = monotonic() + _BUSY_S
    while busy := {address for address, future in futures.items() if not future.done()}:
        time.sleep(0.05)
        for gone in busy.difference(offering(crew.client)):
            del futures[gone]
        if warn_at and monotonic() > warn_at:
            warn(f"waiting for workers that are busy with something else: {len(busy)}")
            warn_at = 0.0
    try:
        probes: dict[str, Probe] = crew.client.gather(futures)
    except Exception as error:  # the worker's Python has no spgraph, or another one
        raise DeviceError(
            f"the workers cannot run spgraph: {type(error).__name__}: {error}",
            remedy="install the same spgraph where they run",
        ) from None
    return probes


def offering(client: Client) -> list[str]:
    """Addresses of workers that offer the resource."""
    workers = client.scheduler_info(n_workers=-1)["workers"]
    return [address for address, about in workers.items() if about.get("resources", {}).get(RESOURCE, 0) >= 1]
