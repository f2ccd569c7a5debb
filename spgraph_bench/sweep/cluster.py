"""Going through a plan on a Dask cluster: groups of blocks to workers, the largest first; records into one journal.

Dask (``distributed``) knows the workers, gives each one task at a time (the resource GPU=1 of a worker) and tells when
one is gone. What is measured where, and what becomes of cells whose worker died, is decided here.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import queue
import tempfile
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from spgraph_bench.errors import DeviceError, UsageError
from spgraph_bench.paths import cache_dir
from spgraph_bench.provenance import code_hash
from spgraph_bench.results.record import Record
from spgraph_bench.runner.run import Progress
from spgraph_bench.sweep.estimate import quick_estimate
from spgraph_bench.sweep.journal import Journal
from spgraph_bench.sweep.local import Ended
from spgraph_bench.sweep.pinning import CORES, shares
from spgraph_bench.sweep.plan import Block, Plan
from spgraph_bench.sweep.station import unmeasured
from spgraph_bench.timer import monotonic

if TYPE_CHECKING:
    from distributed import Client, Future

    from spgraph_bench.sweep.remote import Answer, Group, Probe

__all__ = ["Crew", "Tls", "connected", "gpu_environments", "local_crew", "sweep_on_cluster"]

RESOURCE = "GPU"
"""What a worker offers one of: a place that measures alone."""
_ATTEMPTS = 2
"""After so many workers that died of it, a block's cells are given out one by one."""
_LOST_S = 15.0
"""Seconds without an answer after which the scheduler counts as lost."""
_WORKERS_S = 60.0
"""Seconds to wait for a first worker, or for one when all are gone."""
_LOOK_S = 1.0
"""Seconds between two looks at scheduler and workers."""
_SETTINGS = {
    "distributed.nanny.pre-spawn-environ": {},  # spgraph sets the numbers of threads
    "distributed.worker.profile.enabled": False,  # which would look into what is timed
    "distributed.scheduler.http.routes": [],  # no page that tells other users what runs here
    "distributed.worker.http.routes": [],
}
"""Of Dask, for a cluster of this machine."""
_INSTALL = "pip install 'spgraph[cluster]'"


@dataclass(frozen=True)
class Tls:
    """Files of certificates, as Dask takes them; all or none."""

    ca: str = ""
    cert: str = ""
    key: str = ""


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

    def info(self) -> Any:
        """What some worker's device is."""
        return next(iter(self.probes.values())).device()


# ---- clusters ---------------------------------------------------------------------------------------------------


def gpu_environments(asked: str) -> list[dict[str, str]]:
    """An environment for each GPU of "all" or "0,2" (as CUDA counts those that are visible here).

    Raises DeviceError where there are none, UsageError for a number that there is not.
    """
    from spgraph_bench.device.probe import find_driver

    driver = find_driver()
    gpus = driver.gpus if driver is not None else ()
    if not gpus:
        raise DeviceError("there is no GPU to sweep on", remedy="`spgraph doctor`, or --workers N on the host device")
    try:
        chosen = list(range(len(gpus))) if asked == "all" else [int(number) for number in asked.split(",")]
    except ValueError:
        raise UsageError(f"--gpus {asked!r}: not a list of numbers", remedy="write all, or 0,1,2") from None
    if not chosen or len(set(chosen)) < len(chosen) or not set(chosen) <= set(range(len(gpus))):
        there = f"GPUs here are 0 to {len(gpus) - 1}" if len(gpus) > 1 else "the only GPU here is 0"
        raise UsageError(f"--gpus {asked}: no such GPUs, or one twice", remedy=there)
    return [{"CUDA_VISIBLE_DEVICES": gpus[number].uuid or str(gpus[number].index)} for number in chosen]


@contextmanager
def local_crew(
    environments: Sequence[Mapping[str, str]], device: str, session: Mapping[str, Any], threads: int | None
) -> Iterator[Crew]:
    """A cluster on this machine, a worker process with each of these environments, which ends with us.

    It listens on loopback, and with a certificate of its own, since other users can reach that, too. Raises UsageError
    where Dask is not installed.
    """
    deaths: list[str] = []
    _quiet(deaths)
    import dask
    from distributed import Client, Nanny, Scheduler, SpecCluster

    os.environ["PYTHONSAFEPATH"] = "1"  # workers start with "python -c": nothing of the working folder is imported
    security = _own_certificate()
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))
    parts = shares(cores, len(environments), threads)
    common = {"host": "127.0.0.1", "protocol": "tls", "security": security, "dashboard": False}
    with _scratch() as folder:
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
            _muster(crew, len(environments))
            yield crew


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


@contextmanager
def connected(
    address: str, device: str, session: Mapping[str, Any], tls: Tls, *, insecure: bool, told: Callable[[str], None]
) -> Iterator[Crew]:
    """The Dask cluster whose scheduler is at `address`.

    Raises DeviceError where it does not answer or none of its workers offers GPU=1, UsageError for an address that
    others can listen to (`insecure` lets that pass).
    """
    _quiet([])
    from distributed import Client, Security

    protocol, _, place = address.rpartition("://")
    host = place.rpartition(":")[0].strip("[]")
    if protocol not in ("tls", "tcp", "ucx") or not host:
        raise UsageError(
            f"--scheduler {address!r}: not an address", remedy="write tls://HOST:PORT, or tcp://127.0.0.1:PORT"
        )
    if protocol != "tls" and host not in ("127.0.0.1", "localhost", "::1") and not insecure:
        raise UsageError(
            f"{address} is not encrypted: anyone who can reach it can run programs as you",
            remedy="use tls:// (docs/cluster.md), or --insecure where the network is your own",
        )
    given = [name for name in (tls.ca, tls.cert, tls.key) if name]
    if given and len(given) < 3:
        raise UsageError("TLS needs three files", remedy="give --tls-ca, --tls-cert and --tls-key")
    security = None
    if given:
        for name in given:
            if not os.path.isfile(name):
                raise UsageError("no such file", place=name, remedy="check the path of the certificate")
        security = Security(
            tls_ca_file=tls.ca, tls_client_cert=tls.cert, tls_client_key=tls.key, require_encryption=True
        )

    class Reached(Client):  # type: ignore[misc]
        """A client that is closed where it cannot connect: Dask's own waits for an answer when it is collected."""

        def start(self, **more: Any) -> None:
            try:
                super().start(**more)
            except BaseException:
                self.status = "closed"
                raise

    try:
        client = Reached(address, timeout=_LOST_S, security=security, set_as_default=False)
    except (OSError, TimeoutError, ValueError, RuntimeError, TypeError) as error:
        raise DeviceError(
            f"the scheduler at {address} does not answer: {str(error).splitlines()[0] if str(error) else 'no answer'}",
            remedy="start it, or check the address and the certificates (docs/cluster.md)",
        ) from None
    with client:
        crew = Crew(client, device, session)
        _muster(crew, 1, told)
        yield crew


def _quiet(deaths: list[str]) -> None:
    """Keep Dask's log off the terminal, all but what it says of a worker process that ended, which goes to `deaths`.

    Raises UsageError where Dask is not installed.
    """
    try:
        import distributed
    except ImportError:
        raise UsageError("sweeps over several GPUs or hosts need Dask", remedy=_INSTALL) from None

    class Ear(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            text = record.getMessage()
            if "Worker process" in text:
                deaths.append(text[:1].lower() + text[1:])

    assert distributed is not None
    for name in ("distributed", "distributed.client", "tornado", "tornado.application", "asyncio"):
        logger = logging.getLogger(name)
        logger.handlers = [logging.NullHandler()]
        logger.propagate = False
    logger = logging.getLogger("distributed.nanny")
    logger.handlers, logger.propagate = [Ear()], False
    logger.setLevel(logging.INFO)


def _own_certificate() -> Any:
    from distributed import Security

    try:
        return Security.temporary()
    except ImportError:
        raise UsageError("workers need the package cryptography", remedy=_INSTALL) from None


def _muster(crew: Crew, wanted: int, told: Callable[[str], None] = lambda text: None) -> None:
    """Wait for workers that offer the resource, and ask what each is. Raises DeviceError where none can be used."""
    from spgraph_bench.sweep.remote import probe

    until = monotonic() + _WORKERS_S
    while len(addresses := _offering(crew.client)) < wanted:
        if monotonic() > until:
            if addresses:
                break
            raise DeviceError(
                f"no worker of the cluster offers {RESOURCE}=1",
                remedy="dask worker ADDRESS --nthreads 1 --resources GPU=1",
            )
        time.sleep(0.05)
    asked = {
        address: crew.client.submit(
            probe, crew.device, dict(crew.session), workers=[address], resources={RESOURCE: 1}, pure=False, retries=0
        )
        for address in addresses
    }
    try:
        probes: dict[str, Probe] = crew.client.gather(asked)
    except Exception as error:  # the worker's Python has no spgraph, or another one
        raise DeviceError(
            f"the workers cannot run spgraph: {type(error).__name__}: {error}",
            remedy="install the same spgraph where they run",
        ) from None
    others = sorted({p.version for p in probes.values() if p.code != code_hash()})
    if others:
        raise DeviceError(
            f"workers run other code than this (spgraph {', '.join(others)})",
            remedy="install the same spgraph everywhere",
        )
    crew.probes = {address: each for address, each in probes.items() if not each.error}
    broken = [f"worker {each.name}: {each.error}" for each in probes.values() if each.error]
    if not crew.probes:
        raise DeviceError(f"no worker can be used: {broken[0]}", remedy="`spgraph doctor` where the workers run")
    for text in broken:
        told(text)


def _offering(client: Client) -> list[str]:
    """Addresses of workers that offer the resource."""
    workers = client.scheduler_info(n_workers=-1)["workers"]
    return [address for address, about in workers.items() if about.get("resources", {}).get(RESOURCE, 0) >= 1]


# ---- the sweep --------------------------------------------------------------------------------------------------


def sweep_on_cluster(
    plan: Plan,
    journal: Journal,
    crew: Crew,
    on_end: Callable[[Ended], None],
    progress: Progress = lambda text: None,
    told: Callable[[str], None] = lambda text: None,
) -> None:
    """Measure all cells of `plan` that `journal` has no record of on a device of the crew.

    `told` hears of workers that were lost. Raises DeviceError where the scheduler is lost or no worker is left: the
    journal then has every cell that was finished, and the same command goes on from there.
    """
    _Sweep(plan, journal, crew, on_end, progress, told).run()


class _Sweep:
    """One sweep while it goes on."""

    def __init__(
        self,
        plan: Plan,
        journal: Journal,
        crew: Crew,
        on_end: Callable[[Ended], None],
        progress: Progress,
        told: Callable[[str], None],
    ) -> None:
        self._journal, self._crew, self._on_end, self._progress, self._told = journal, crew, on_end, progress, told
        self._session = uuid.uuid4().hex[:12]
        """Of this session: a sweep that goes on has tasks of other names."""
        self._blocks = {block.key: block for block in plan.blocks}
        self._records: dict[str, list[Record]] = {}
        """Of blocks that have not ended, by key."""
        self._ended: set[str] = set()
        self._running: dict[Future[Answer], Group] = {}
        self._inbox: queue.SimpleQueue[Mapping[str, Any]] = queue.SimpleQueue()
        self._waiting: deque[Group] = deque()
        """The longest first; as many are given out as there are workers: who is free takes the next."""
        self._done: set[str] = set()
        """Keys of cells that were measured in this session, on whatever device."""
        self._broken: set[str] = set()
        """Addresses of workers that cannot measure."""
        self._slots = len(crew.probes)
        self._after: dict[str, str] = {}
        """By the block's key: what became of the worker that had it first."""
        self._serial = 0

    def run(self) -> None:
        from spgraph_bench.sweep.remote import topic_of

        topic, client = topic_of(self._session), self._crew.client
        client.subscribe_topic(topic, lambda event: self._inbox.put(event[1]))
        try:
            self._waiting.extend(self._groups())
            alone_since = silent_since = None
            looked = monotonic()
            while self._running or self._waiting:
                while self._waiting and len(self._running) < self._slots:
                    self._submit(self._waiting.popleft())
                self._hear(0.5)
                for future in [f for f in self._running if f.done()]:
                    self._finish(future)
                if monotonic() - looked < _LOOK_S:
                    continue
                looked, there = monotonic(), None
                with contextlib.suppress(Exception):  # the scheduler does not answer
                    there = self._usable() if client.status == "running" else None
                if there:
                    self._slots = len(there)
                silent_since = self._watch(silent_since, there is not None, _LOST_S, "the scheduler is lost")
                alone_since = self._watch(alone_since, there != [], _WORKERS_S, "no worker is left")
        finally:
            with contextlib.suppress(Exception):
                client.cancel(list(self._running), force=True)
                client.unsubscribe_topic(topic)
            self._drain()

    def _watch(self, since: float | None, well: bool, limit: float, what: str) -> float | None:
        """Since when something is not well, None if it is. Raises DeviceError when that is too long."""
        if well:
            return None
        since = since or monotonic()
        if monotonic() - since > limit:
            raise DeviceError(what, remedy="start it again, and give the same command: what is measured is kept")
        return since

    # -- giving out

    def _groups(self) -> list[Group]:
        """What is to be measured, the longest first."""
        done = self._journal.has(self._crew.devices)
        by_matrix: dict[tuple[str, str], list[Block]] = {}
        for whole in self._blocks.values():
            if (block := whole.without(done)) is not None:
                key = (block.input.kind, block.input.text or block.key)
                by_matrix.setdefault(key, []).append(block)
        kind = self._crew.device
        seconds = {key: sum(quick_estimate(b, kind).seconds for b in blocks) for key, blocks in by_matrix.items()}
        order = sorted(by_matrix, key=lambda key: -seconds[key])
        return [self._group(by_matrix[key]) for key in order]

    def _group(self, blocks: Sequence[Block], attempt: int = 1) -> Group:
        from spgraph_bench.sweep.remote import Group

        self._serial += 1
        # What another worker goes on with is a table of its own: ratios never mix two devices.
        marks = {b.key: "" if b.key not in self._after else f"/{self._session}/{self._serial}" for b in blocks}
        return Group(
            f"spgraph-{self._session}-{self._serial}",
            self._session,
            tuple(blocks),
            {key: self._journal.run_id(f"{key}{mark}") for key, mark in marks.items()},
            self._crew.device,
            dict(self._crew.session),
            code_hash(),
            attempt,
        )

    def _submit(self, group: Group) -> None:
        from spgraph_bench.sweep.remote import measure_group

        # Any worker that offers the resource, those that join later as well, unless some are known to be broken.
        usable = self._usable() if self._broken else None
        if usable == []:
            raise DeviceError("no worker's device can be used any more", remedy="`spgraph doctor` on their hosts")
        future = self._crew.client.submit(
            measure_group, group, key=group.name, resources={RESOURCE: 1}, workers=usable, retries=0, pure=False
        )
        future.add_done_callback(lambda done: self._inbox.put({"kind": "done"}))
        self._running[future] = group

    def _usable(self) -> list[str]:
        """Addresses of workers that can be given something."""
        return [address for address in _offering(self._crew.client) if address not in self._broken]

    # -- taking in

    def _hear(self, seconds: float) -> None:
        """Take in what workers say, waiting at most so long for the first word."""
        try:
            self._take(self._inbox.get(timeout=seconds))
        except queue.Empty:
            return
        self._drain()

    def _drain(self) -> None:
        while True:
            try:
                self._take(self._inbox.get_nowait())
            except queue.Empty:
                return

    def _take(self, event: Mapping[str, Any]) -> None:
        if event["kind"] == "record":
            self._keep(str(event["block"]), str(event["cell"]), str(event["line"]), str(event["by"]))
        elif event["kind"] == "ended":
            self._end(str(event["block"]), float(event["seconds"]), str(event["by"]))
        elif event["kind"] == "doing":
            self._progress(str(event["text"]))

    def _keep(self, block: str, cell: str, line: str, worker: str) -> None:
        """A record, unless it came before."""
        record = Record.from_json(json.loads(line))
        before = self._journal.added
        about = {"worker": worker} | ({"after": self._after[block]} if block in self._after else {})
        self._journal.add(record, cell, **about)
        self._done.add(cell)
        if self._journal.added > before:
            self._records.setdefault(block, []).append(record)

    def _end(self, key: str, seconds: float, worker: str) -> None:
        """Tell of a block that has all its records, once."""
        done = self._journal.has(self._crew.devices) | self._done
        if key not in self._ended and self._blocks[key].without(done) is None:
            self._ended.add(key)
            self._on_end(Ended(self._blocks[key], tuple(self._records.pop(key, ())), seconds, worker))

    def _finish(self, future: Future[Answer]) -> None:
        """A task has ended, one way or another."""
        group = self._running.pop(future)
        self._drain()
        if future.status == "finished":
            answer: Answer = future.result()
            for key, cell, line in answer.records:
                self._keep(key, cell, line, answer.by)
            if answer.lost_by:
                self._lost(group, f"worker {answer.lost_by} was lost")
            elif answer.broken:
                self._broken.add(answer.address)
                self._slots = max(1, self._slots - 1)
                self._lost(group, f"worker {answer.by} cannot measure: {answer.broken}", blame=False)
            else:
                for block in group.blocks:
                    self._end(block.key, 0.0, answer.by)
            return
        if future.status == "error":
            error = future.exception()
            if type(error).__name__ == "KilledWorker":
                self._lost(group, "its worker was lost")
            else:
                self._fail(group.blocks, f"internal error: {type(error).__name__}: {error}")
            return
        self._waiting.appendleft(self._group(self._left(group), group.attempt))  # cancelled: the scheduler forgot it

    def _left(self, group: Group) -> list[Block]:
        """The blocks of `group` with the cells that have no record."""
        done = self._journal.has(self._crew.devices) | self._done
        return [left for block in group.blocks if (left := block.without(done)) is not None]

    def _lost(self, group: Group, what: str, *, blame: bool = True) -> None:
        """The worker of `group` is gone, or cannot measure. What was not measured goes to another worker.

        A block that costs two workers is given out cell by cell; a cell that costs one more is a failure. `blame`:
        whether what was measured may be why.
        """
        cause = f"{what}: {self._crew.deaths[-1]}" if blame and self._crew.deaths else what
        left = self._left(group)
        for block in group.blocks:
            self._end(block.key, 0.0, "")
        if not left:
            return
        current, others = left[0], left[1:]
        self._told(f"{cause}, while it measured {current.title}")
        attempt = (group.attempt if group.blocks[0].key == current.key else 1) + blame
        self._after[current.key] = cause
        if attempt <= _ATTEMPTS:
            self._waiting.appendleft(self._group(left, attempt))
            return
        if others:
            self._waiting.appendleft(self._group(others))
        if len(current.cells) == 1:
            self._fail([current], cause)
            return
        alone = [self._group([replace(current, cells=(cell,))], _ATTEMPTS) for cell in current.cells]
        self._waiting.extendleft(reversed(alone))

    def _fail(self, blocks: Sequence[Block], reason: str) -> None:
        """Records of cells that no worker could measure."""
        done = self._journal.has(self._crew.devices) | self._done
        for whole in blocks:
            block = whole.without(done)
            for cell in block.cells if block is not None else ():
                run_id = self._journal.run_id(whole.key)
                record = unmeasured(whole, cell, self._crew.info(), "failed", reason, run_id)
                self._journal.add(record, whole.cell_key(cell))
                self._done.add(whole.cell_key(cell))
                self._records.setdefault(whole.key, []).append(record)
            self._end(whole.key, 0.0, "")
