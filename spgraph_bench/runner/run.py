"""The whole line: matrix -> oracle -> modules -> checked cells -> interleaved samples -> records.

:class:`Session` holds the worker that owns the device; it is started first, so that CUDA gets ready while the
matrix is read. :func:`run` takes a matrix through a session and hands out each record as its cell ends.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import math
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType, TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.device.base import DeviceInfo, Limit
from spgraph_bench.errors import DeviceError, InputError, SpgraphError, UsageError
from spgraph_bench.formats.common import INT32_ENTRIES
from spgraph_bench.matrix import CSR, Matrix, Source, label_arrays
from spgraph_bench.measure.floors import below_floor
from spgraph_bench.measure.sampling import Ended, Taken
from spgraph_bench.measure.stopping import StoppingRule
from spgraph_bench.memory import require_memory
from spgraph_bench.paths import cache_dir
from spgraph_bench.problems import Problem, filled_options, get_problem
from spgraph_bench.problems.traversal import pattern_is_symmetric
from spgraph_bench.reorder import reorder
from spgraph_bench.results.describe import describe_device, describe_environment, describe_matrix
from spgraph_bench.results.record import Ceiling, Record, Samples
from spgraph_bench.runner import guard
from spgraph_bench.runner.children import DEFAULT_LIMITS
from spgraph_bench.runner.figures import run_bytes
from spgraph_bench.runner.messages import At, Event, Message, Part, Verified, Wrong
from spgraph_bench.runner.payload import NO_MATRIX, Arrays, Payload, ReorderedMatrix, load_columns
from spgraph_bench.runner.plan import Cell, Outcome, Task
from spgraph_bench.runner.prepare import defines_for, filled_params
from spgraph_bench.runner.spool import Spool
from spgraph_bench.runner.tuned import load_tuned
from spgraph_bench.runner.worker import LocalWorker, ProcessWorker, Worker, WorkerDiedError, WorkerHungError
from spgraph_bench.toolchain.modules import Request, build_all
from spgraph_bench.validate import kernels
from spgraph_bench.variants.base import Limits, Sizes, Variant, loaders

__all__ = ["Progress", "Session", "Settings", "generated_matrix", "run"]

Progress = Callable[[str], None]
"""Called with what is being done, often; showing it is the caller's affair."""

_MEASURING = ("measure/clock.cu", guard.SOURCE)
"""Kernels that every run on a GPU needs."""


@dataclass(frozen=True)
class Settings:
    """What a user may ask of a run."""

    dtypes: tuple[str, ...] = ("float32",)
    params: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    seed: int = 1
    force_format: bool = False
    time_limit_s: float = 0.25
    offsets: str | None = None
    """"int32", "int64" or None: int64 from 2^31 nonzeros on."""
    options: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    """The problem's own (bfs: source, sources, any_component, oracle_seconds)."""
    reorder: tuple[str, ...] = ("none",)
    """Orders of rows and columns to run in, of spgraph_bench.reorder.ORDERS."""
    trace: bool = False
    """Keep the levels of the first case in the records."""
    pending_launches: int | None = None
    """How many launches from the device may wait at once; None: as many as the variants' bounds ask for."""
    heap_bytes: int | None = None
    """The heap of ``malloc`` on the device; None: as the variants' bounds ask for."""
    break_even: bool = True
    """Measure from where child launches pay, where a variant made some."""

    def limits(self) -> dict[Limit, int]:
        """The limits that were asked for."""
        asked: dict[Limit, int | None] = {
            "pending_launches": self.pending_launches,
            "malloc_heap_bytes": self.heap_bytes,
        }
        return {name: value for name, value in asked.items() if value is not None}


class Session:
    """A device, held by a worker process that can be replaced when it hangs or dies.

    Parameters
    ----------
    device : "host", "cuda" or "cuda:N".
    in_process : no worker and no watchdog (for profilers and sanitizers).
    watchdog : seconds that a launch may take before its worker is ended.
    gate : see :class:`spgraph_bench.measure.cuda_clock.CudaClock`.
    variants : what is going to run; a GPU's worker loads their libraries while the matrix is read.
    seed : of the order of blocks, threads and child grids on the host device; 0 is the natural order.
    """

    def __init__(
        self,
        device: str,
        *,
        in_process: bool = False,
        watchdog: float = 60.0,
        gate: bool | None = None,
        variants: Sequence[Variant] = (),
        seed: int = 0,
    ) -> None:
        self.device = device
        self.in_process = in_process
        self._watchdog = watchdog
        self._options: dict[str, Any] = {"gate": gate}
        if device == "host":
            self._options["device_options"] = {"seed": seed}
        self._early = () if device == "host" else loaders(variants)
        self._worker: Worker | None = None
        self._limits: Mapping[Limit, int] | None = None
        """Limits that the worker was given; None before its first task."""
        self._info: DeviceInfo | None = None
        if not in_process:
            self.worker()

    def worker(self) -> Worker:
        """The worker, started if there is none."""
        if self._worker is None:
            if self.in_process:
                self._worker = LocalWorker(self.device, self._options)
            else:
                self._worker = ProcessWorker(self.device, self._options, self._watchdog, self._early)
        return self._worker

    def worker_with(self, limits: Mapping[Limit, int]) -> Worker:
        """A worker for a task with these limits, which cannot change once something was launched."""
        if self._worker is not None and self._limits not in (None, limits):
            self.drop_worker()
        worker = self.worker()
        self._limits = dict(limits)
        return worker

    def info(self) -> DeviceInfo:
        """What the device is. Raises DeviceError when it cannot be used."""
        if self._info is None:
            try:
                self._info = DeviceInfo(**self.worker().call("hello"))
            except (WorkerDiedError, WorkerHungError) as error:
                raise DeviceError(f"{self.device} cannot be used: {error}", remedy="spgraph doctor") from None
        return self._info

    def drop_worker(self) -> None:
        """End a worker that is of no more use; the next call starts another."""
        if self._worker is not None:
            self._worker.kill()
            self._worker.close()
            self._worker = self._limits = None

    def release(self) -> None:
        """Nothing more will be run: the worker may end while results are shown."""
        if self._worker is not None:
            self._worker.release()

    def close(self) -> None:
        if self._worker is not None:
            self._worker.close()
            self._worker = None

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.drop_worker()


def generated_matrix(problem: Problem, options: Mapping[str, Any]) -> Matrix:
    """What stands in for a matrix where `problem` has none: 0 x 0, named after the problem and its options.

    Its hash and what it was made from follow when the inputs are made. Raises UsageError for a bad option.
    """
    filled = filled_options(problem, options)
    name = "-".join([problem.name, *(f"{name}-{value:g}" if isinstance(value, float) else f"{name}-{value}"
                                     for name, value in filled.items())])  # fmt: skip
    return Matrix(name, NO_MATRIX, Source("options", "", "generated"), weighted=False)


def run(
    session: Session,
    matrix: Matrix,
    problem: str,
    variants: Sequence[Variant],
    settings: Settings,
    on_record: Callable[[Record], None],
    progress: Progress = lambda text: None,
    on_answer: Callable[[Mapping[str, npt.NDArray[Any]]], None] | None = None,
) -> None:
    """Check and time `variants` on `matrix`; `on_record` gets each record as its cell ends.

    `on_answer` gets the columns of the first right answer (of the first case), before anything is timed; the
    arrays are gone after that. For problems whose answer is one of vertices.

    Whatever happens to a cell is a record (ok, skipped, failed, wrong) with its reason. Raises DeviceError
    when the device cannot be used at all. On KeyboardInterrupt every cell without a record gets one, from
    the samples it has, before the interrupt goes on.
    """
    _Run(session, matrix, problem, variants, settings, on_record, progress, on_answer).go()


class _Run:
    def __init__(
        self,
        session: Session,
        matrix: Matrix,
        problem: str,
        variants: Sequence[Variant],
        settings: Settings,
        on_record: Callable[[Record], None],
        progress: Progress,
        on_answer: Callable[[Mapping[str, npt.NDArray[Any]]], None] | None,
    ) -> None:
        self.on_answer = on_answer
        self.answer: Arrays | list[str] | None = None
        """Columns of the first right answer until they are handed over; of a worker, their names."""
        self.session, self.matrix, self.settings = session, matrix, settings
        self.problem = get_problem(problem, settings.options)
        self.variants = {v.name: v for v in variants}
        self.on_record, self.progress = on_record, progress
        # Cells of one format and type follow each other, so that each conversion happens once.
        self.cells = [
            Cell(v.name, dtype, order)
            for dtype in settings.dtypes
            for order in settings.reorder
            for v in sorted(variants, key=lambda v: (v.where == "cpu", v.format))
        ]
        self.outcomes: dict[str, Outcome] = {}
        self.taken: defaultdict[str, list[Taken]] = defaultdict(list)
        self.ended: defaultdict[str, dict[str, Ended]] = defaultdict(dict)
        self.recorded: set[str] = set()
        self.reorder_ms: dict[str, float] = {}
        self.at: Cell | None = None
        self.ceiling: Ceiling | None = None
        self.notes: tuple[str, ...] = ()
        self.break_even: tuple[Mapping[str, float], ...] = ()
        self.loaded: Worker | None = None
        self.spool: Spool | None = None
        self.run_id = uuid.uuid4().hex[:12]
        self.info: DeviceInfo
        self.task: Task
        self.shared: dict[str, Any] = {}
        self.inputs: dict[str, dict[str, npt.NDArray[Any]]] = {}
        """Inputs that were made before their turn, by type."""

    def go(self) -> None:
        with contextlib.suppress(OSError):  # whoever compiles will say so
            cache_dir("modules")  # CacheError ends the run: code would be run out of it
        try:
            try:
                self._prepare_arrays()
            except InputError as error:  # problems do not know where the matrix came from
                source = self.matrix.source
                if error.place is None and source.kind != "options":
                    error.place = "<stdin>" if source.kind == "stdin" else source.text
                raise
            self.info = self.session.info()
            tuned = load_tuned(self.problem.name, self.matrix.sha256, self.info)
            self.task = dataclasses.replace(self.task, tuned=tuned)
            refused = self._set_limits()
            self.shared = {
                "matrix": describe_matrix(self.matrix),
                "device": describe_device(self.info),
                "environment": self._environment(),
            }
            if not self.session.in_process:
                self.spool = Spool(self.payload.nbytes)
                self.spool.save(self.payload.named_arrays())
            for cell in self.cells:
                if cell.variant in refused:
                    self._record(cell, Outcome("skipped", refused[cell.variant]))
            self.cells = [cell for cell in self.cells if cell.variant not in refused]
            survivors = self._check_all(self._compile())
            self._time_all(survivors)
        except KeyboardInterrupt:
            if self.shared:
                for cell in self.cells:
                    self._record_interrupted(cell)
            raise
        finally:
            if self.spool:
                self.spool.close()

    def _environment(self) -> dict[str, Any]:
        """``Record.environment``: also versions of this run's libraries, and whether the GPU was alone."""
        libraries = {v.library for v in self.variants.values() if v.library}
        try:
            versions = self.session.worker().call("versions", sorted(libraries))
            alone = self.session.worker().call("alone")
        except (WorkerDiedError, WorkerHungError, SpgraphError):
            self.session.drop_worker()
            versions, alone = {}, None
        return {**describe_environment(self.info.toolkit), "libraries": versions, "gpu_alone": alone}

    # ---- inputs -----------------------------------------------------------------------------------------

    def _prepare_arrays(self) -> None:
        """The task and every array the worker needs: the matrix, inputs and oracle in each value type."""
        settings, problem = self.settings, self.problem
        self._require_memory()
        symmetric: bool | None = None
        if problem.is_graph:
            self.progress("looking whether the graph is undirected")
            symmetric = pattern_is_symmetric(self.matrix)
            csr = dataclasses.replace(self.matrix.csr, symmetric=symmetric)
            self.matrix = dataclasses.replace(self.matrix, csr=csr)
        csr = self.matrix.csr
        offsets = settings.offsets or ("int64" if csr.nnz > INT32_ENTRIES else "int32")
        orders = {order: self._reorder(csr, order) for order in settings.reorder if order != "none"}
        if not problem.needs_matrix:
            self._describe_inputs(problem)
        made: dict[str, Arrays] = {}
        oracles: dict[str, Arrays] = {}
        outputs: dict[str, dict[str, tuple[tuple[int, ...], str]]] = {}
        for dtype in settings.dtypes:
            self.progress(f"computing the {dtype} oracle")
            kind = np.dtype(dtype)
            inputs = self.inputs.pop(dtype, None) or problem.inputs(
                self.matrix, kind, settings.seed, **settings.options
            )
            oracles[dtype] = problem.oracle(self.matrix, inputs, kind, **settings.options)
            made[dtype] = inputs
            outputs[dtype] = {
                name: (shape, str(out))
                for name, (shape, out) in problem.output_arrays(self.matrix, kind).items()
            }
        labels = label_arrays(self.matrix) if problem.is_graph else {}
        self.payload = Payload(csr, labels, orders, made, oracles)
        self.task = Task(
            problem=problem.name,
            outputs=outputs,
            params=dict(settings.params),
            force_format=settings.force_format,
            offsets=offsets,
            trace=settings.trace,
            keep_answer=self.on_answer is not None,
            options=filled_options(problem, settings.options),
        )

    def _describe_inputs(self, problem: Problem) -> None:
        """Give the matrix that stands in for none the hash of the inputs, and say what they are."""
        dtype = problem.dtypes[0]  # whatever types are run, so that the same inputs have the same hash
        self.progress("making the inputs")
        inputs = problem.inputs(self.matrix, np.dtype(dtype), self.settings.seed, **self.settings.options)
        digest = hashlib.sha256()
        for name, array in sorted(inputs.items()):
            digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
            digest.update(np.ascontiguousarray(array).data)
        self.matrix = dataclasses.replace(
            self.matrix,
            sha256=digest.hexdigest(),
            source=Source("options", problem.describe_inputs(inputs), "generated"),
        )
        self.inputs[dtype] = inputs

    def _needs(self, variant: Variant) -> Limits:
        """The largest bounds of `variant` over the types it runs in."""
        assert variant.limits is not None
        most, payload = Limits(), self.payload
        params = filled_params(variant, self.task.params_of(variant.name))
        for dtype in dict.fromkeys(cell.dtype for cell in self.cells if cell.variant == variant.name):
            if dtype not in variant.dtypes:
                continue
            bound = variant.limits(
                Sizes(payload.csr, payload.inputs[dtype], payload.oracles[dtype], params, self.task.options)
            )
            most = Limits(
                max(most.pending_launches, bound.pending_launches), max(most.heap_bytes, bound.heap_bytes)
            )
        return most

    def _set_limits(self) -> dict[str, str]:
        """Put the limits that the variants' bounds ask for into the task.

        Returns variants that need more than the device has, with the reason. Raises UsageError when limits
        that were asked for do not fit, or are nobody's.
        """
        bounds = {name: self._needs(v) for name, v in self.variants.items() if v.limits is not None}
        asked = self.settings.limits()
        if not bounds:
            if asked:
                raise UsageError(
                    f"none of these variants of {self.problem.name} launches or allocates on the device",
                    remedy="leave out --pending-launches and --heap",
                )
            return {}
        if asked and (lack := self._refuse(asked)):
            raise UsageError(lack, remedy="ask for less with --pending-launches or --heap")
        needs: dict[str, dict[Limit, int]] = {}
        refused: dict[str, str] = {}
        for name, bound in bounds.items():
            needs[name] = {
                "pending_launches": bound.pending_launches,
                "malloc_heap_bytes": bound.heap_bytes,
            }
            if lack := self._refuse({k: v for k, v in needs[name].items() if k not in asked}):
                refused[name] = f"it needs {lack}"
        kept = [need for name, need in needs.items() if name not in refused]
        limits = {
            limit: max(default, *(need[limit] for need in kept), 0)
            for limit, default in DEFAULT_LIMITS.items()
        }
        self.task = dataclasses.replace(self.task, needs=needs, limits={**limits, **asked})
        return refused

    def _refuse(self, limits: Mapping[Limit, int]) -> str | None:
        try:
            lack: str | None = self.session.worker().call("refuse_limits", limits)
            return lack
        except (WorkerDiedError, WorkerHungError) as error:
            raise DeviceError(f"{self.session.device} does not answer: {error}") from None

    def _reorder(self, csr: CSR, order: str) -> ReorderedMatrix:
        """The matrix in another order. Raises UsageError where there is none."""
        self.progress(f"reordering: {order}")
        new = reorder(csr, order)
        self.reorder_ms[order] = new.ms
        same = dataclasses.replace(new.csr, symmetric=csr.symmetric)
        return ReorderedMatrix(same, new.row_order, new.col_order)

    def _require_memory(self) -> None:
        """Raises InputError where inputs, oracle and checks take more than there is, before they are made."""
        if not self.problem.needs_matrix:
            return
        csr, settings = self.matrix.csr, self.settings
        options = filled_options(self.problem, settings.options)
        needed = run_bytes(
            self.problem.name, csr, options, len(settings.dtypes), len(set(settings.reorder) | {"none"})
        )
        what = f"{self.problem.name} on {csr.rows:,} x {csr.cols:,} with {csr.nnz:,} entries"
        require_memory(needed, what, None)

    def _worker(self) -> Worker:
        """A worker that has the task."""
        worker = self.session.worker_with(self.task.limits)
        if worker is not self.loaded:
            worker.call("load", self.task, self.spool.path if self.spool else self.payload)
            self.loaded = worker
        return worker

    # ---- modules ----------------------------------------------------------------------------------------

    def _request(self, source: str, defines: Mapping[str, str]) -> Request:
        if self.info.kind == "cuda":
            from spgraph_bench.toolchain.nvcc import cubin_request

            return cubin_request(source, defines, self.info.arch)
        from spgraph_bench.device.host import module_request

        return module_request(source, dict(defines))

    def _validating(self) -> list[tuple[tuple[str, str], Request]]:
        """Kernels that validate answers on a GPU, each once."""
        found = {}
        for dtype in dict.fromkeys(cell.dtype for cell in self.cells):
            for source, defines in kernels(self.problem.name, dtype):
                found[source, *defines.items()] = self._request(source, defines)
        return [(("", request.label), request) for request in found.values()]

    def _compile(self) -> list[Cell]:
        """Compile what is not in the cache, in parallel; cells whose kernel does not compile are recorded."""
        plan: dict[tuple[str, str], Request] = {}
        broken: dict[tuple[str, str], SpgraphError] = {}
        for cell in self.cells:
            variant = self.variants[cell.variant]
            source = variant.source if cell.dtype in variant.dtypes else None
            if source is not None and (source, cell.dtype) not in plan:
                try:
                    defines = defines_for(cell.dtype, self.task.offsets)
                    plan[source, cell.dtype] = self._request(source, defines)
                except SpgraphError as error:
                    broken[source, cell.dtype] = error
        wanted = list(plan.items())
        if self.info.kind == "cuda":
            wanted += [(("", source), self._request(source, {})) for source in _MEASURING]
            wanted += self._validating()
        results = build_all(
            [request for _, request in wanted],
            progress=lambda done, total, label: self.progress(f"compiling {done} of {total}: {label}"),
        )
        for (key, _), result in zip(wanted, results, strict=True):
            if isinstance(result, SpgraphError):
                if not key[0]:
                    raise result
                broken[key] = result
        good = []
        for cell in self.cells:
            failure = broken.get((self.variants[cell.variant].source or "", cell.dtype))
            if failure is None:
                good.append(cell)
            else:
                self._record(cell, Outcome("failed", str(failure)))
        return good

    # ---- checking ---------------------------------------------------------------------------------------

    def _check_all(self, cells: Sequence[Cell]) -> list[Cell]:
        """Check each cell alone, under the watchdog; the ones that will be timed."""
        survivors = []
        for number, cell in enumerate(cells, 1):
            self.progress(f"checking {number} of {len(cells)}: {cell.variant} {cell.dtype}")
            outcome = self.outcomes[cell.key] = self._check(cell)
            self._hand_over()
            timed = self.info.kind == "cuda" or self.variants[cell.variant].where == "cpu"
            if outcome.status == "ok" and timed:
                survivors.append(cell)
            else:
                self._record(cell, outcome)
        return survivors

    def _check(self, cell: Cell) -> Outcome:
        try:
            outcome: Outcome = self._worker().call("check", cell)
            if outcome.replace_worker:
                self.session.drop_worker()
            if outcome.status == "ok" and self.on_answer is not None and self.answer is None:
                self.answer = self._worker().call("answer", self.spool.path if self.spool else None)
            return outcome
        except (WorkerDiedError, WorkerHungError) as error:
            self.session.drop_worker()
            return Outcome("failed", f"{error}{self._too_small(cell)}")
        except SpgraphError as error:
            # The worker answered, but its context is of no more use.
            self.session.drop_worker()
            return Outcome("failed", str(error))

    def _hand_over(self) -> None:
        """Give the first right answer to whoever asked for it, once."""
        if self.on_answer is None or self.answer is None:
            return
        if self.spool:
            self.answer = load_columns(self.spool.path, list(self.answer))
        assert isinstance(self.answer, dict)
        self.on_answer(self.answer)
        self.on_answer = self.answer = None

    def _too_small(self, cell: Cell) -> str:
        """What may be why it hangs: a launch that finds no place in the pool can do that to the next one."""
        pool = self.task.limits.get("pending_launches", 0)
        need = self.task.needs.get(cell.variant, {}).get("pending_launches", 0)
        if need <= pool:
            return ""
        return f"; the pool of {pool:,} waiting launches is below its bound of {need:,}: --pending-launches"

    # ---- timing -----------------------------------------------------------------------------------------

    def _time_all(self, cells: Sequence[Cell]) -> None:
        if not cells:
            return
        self.progress("measuring the ceiling")
        try:
            self.ceiling = self._worker().call("ceiling")
            self.notes = tuple(self._worker().call("busy"))
        except (WorkerDiedError, WorkerHungError, SpgraphError) as error:
            self.session.drop_worker()
            self.notes = (f"the ceiling could not be measured: {error}",)
        self._measure_break_even(cells)
        for group in self._groups(cells):
            self._time_group(group)

    def _measure_break_even(self, cells: Sequence[Cell]) -> None:
        """From where child launches pay, if any of `cells` made some."""
        launched = ((self.outcomes[cell.key].children or {}).get("launched", 0) for cell in cells)
        if not self.settings.break_even or self.info.kind != "cuda" or not any(launched):
            return
        self.progress("measuring from where child launches pay")
        try:
            self.break_even = tuple(self._worker().call("break_even"))
        except (WorkerDiedError, WorkerHungError, SpgraphError) as error:
            self.session.drop_worker()
            self.notes = (*self.notes, f"from where child launches pay could not be measured: {error}")

    def _groups(self, cells: Sequence[Cell]) -> Iterable[list[Cell]]:
        """Cells that fit in device memory together; interleaving happens within a group."""
        room = 0.6 * self.info.memory_bytes
        group: list[Cell] = []
        held = 0
        for cell in cells:
            need = self.outcomes[cell.key].device_bytes
            if group and held + need > room:
                yield group
                group, held = [], 0
            group.append(cell)
            held += need
        if group:
            yield group

    def _time_group(self, cells: Sequence[Cell]) -> None:
        rule = StoppingRule(time_limit_s=self.settings.time_limit_s)
        pending = {cell.key: cell for cell in cells}

        def on_message(message: Message) -> None:
            if isinstance(message, At):
                self.at = message.cell
            elif isinstance(message, Part):
                self.outcomes[message.cell.key].times[message.name] = message.ms
            elif isinstance(message, Verified):
                outcome = self.outcomes[message.cell.key]
                outcome.check = {**outcome.check, **message.details}
            elif isinstance(message, Wrong):
                outcome = self.outcomes[message.cell.key]
                outcome.status, outcome.reason = "wrong", message.reason
                outcome.check = {**outcome.check, "ok": False, "message": message.reason}
            elif isinstance(message, Event):
                event = message.event
                if isinstance(event, Taken):
                    self.taken[event.key].append(event)
                    samples = sum(map(len, self.taken.values()))
                    self.progress(f"timing: {len(pending)} of {len(cells)} to go, {samples} samples")
                    return
                self.ended[event.key][event.cache] = event
                if len(self.ended[event.key]) == 2 and event.key in pending:
                    self._record_timed(pending.pop(event.key))

        while pending:
            self.at = None
            try:
                self._worker().call(
                    "time",
                    list(pending.values()),
                    rule,
                    self.settings.seed,
                    dict(self.taken),
                    on_message=on_message,
                )
                lost = [(cell, "the worker did not time it") for cell in pending.values()]
            except (WorkerDiedError, WorkerHungError, SpgraphError) as error:
                self.session.drop_worker()
                culprit = self._at()
                if culprit is None:
                    lost = [(cell, str(error)) for cell in pending.values()]
                else:
                    lost = [(culprit, str(error))] if culprit.key in pending else []
            for cell, reason in lost:
                del pending[cell.key]
                self._record(
                    cell, dataclasses.replace(self.outcomes[cell.key], status="failed", reason=reason)
                )

    def _at(self) -> Cell | None:
        """The cell whose launch was under way when the worker ended."""
        return self.at

    # ---- records ----------------------------------------------------------------------------------------

    def _record_timed(self, cell: Cell) -> None:
        ends = [self.ended[cell.key][cache] for cache in ("cold", "hot")]
        samples = tuple(end.samples for end in ends)
        outcome = self.outcomes[cell.key]
        failures = [f"{end.cache}: {end.reason}" for end in ends if end.samples.stopped == "failed"]
        if outcome.status == "wrong":
            samples = ()  # times of wrong results are nobody's
        elif failures:
            outcome = dataclasses.replace(outcome, status="failed", reason="; ".join(failures))
        elif all(s.stopped == "interrupted" and not s.times_ms for s in samples):
            outcome = dataclasses.replace(outcome, status="skipped", reason="interrupted before it was timed")
        elif why := self._impossible(cell, outcome, samples):
            outcome = dataclasses.replace(outcome, status="failed", reason=why)
        self._record(cell, outcome, samples)

    def _impossible(self, cell: Cell, outcome: Outcome, samples: tuple[Samples, ...]) -> str | None:
        """Why the cold time cannot be that of the whole work, or None. Of products only: other problems need
        not read all of their graph, or read it again from the cache."""
        if self.ceiling is None or self.variants[cell.variant].where != "gpu":
            return None
        if not self.problem.is_product:
            return None
        written = sum(
            math.prod(shape) * np.dtype(kind).itemsize
            for shape, kind in self.task.outputs[cell.dtype].values()
        )
        cold, compulsory = next(s for s in samples if s.cache == "cold"), outcome.bytes["compulsory"]
        l2 = self.info.l2_bytes
        spared = min(written, l2)
        if below_floor(cold, compulsory, spared, self.ceiling, l2):  # only then is a look at all columns due
            spared += self._unread_bytes(cell.dtype)
        return below_floor(cold, compulsory, spared, self.ceiling, l2)

    def _unread_bytes(self, dtype: str) -> int:
        """Bytes of x that no entry of the matrix meets."""
        x, csr = self.payload.inputs[dtype]["x"], self.matrix.csr
        if "rows" in self.problem.axes["x"]:
            unread = int(np.count_nonzero(csr.row_lengths() == 0))
        else:
            unread = csr.cols - int(np.count_nonzero(np.bincount(csr.col_idx, minlength=csr.cols)))
        places = csr.rows if "rows" in self.problem.axes["x"] else csr.cols
        return unread * (x.nbytes // max(places, 1))

    def _record_interrupted(self, cell: Cell) -> None:
        if cell.key in self.recorded:
            return
        checked = self.outcomes.get(cell.key)
        # A worker that was interrupted ends its series with the samples they have; one that had to be killed
        # may have ended only some.
        ended = tuple(e.samples for e in self.ended[cell.key].values() if e.samples.times_ms)
        if checked and ended:
            self._record(cell, checked, ended)
            return
        when = "before it was timed" if checked else "before it was checked"
        outcome = dataclasses.replace(
            checked or Outcome("skipped"), status="skipped", reason=f"interrupted {when}"
        )
        self._record(cell, outcome)

    def _record(self, cell: Cell, outcome: Outcome, samples: tuple[Samples, ...] = ()) -> None:
        self.recorded.add(cell.key)
        variant = self.variants[cell.variant]
        times = dict(outcome.times)
        if cell.reorder != "none":
            times["reorder_ms"] = self.reorder_ms.get(cell.reorder, 0.0)
        self.on_record(
            Record(
                problem=self.problem.name,
                variant=variant.name,
                format=variant.format,
                library=variant.library,
                where=variant.where,
                dtype=cell.dtype,
                run=self.run_id,
                status=outcome.status,
                reason=outcome.reason,
                offsets=self.task.offsets,
                params=outcome.params,
                reorder=cell.reorder,
                options=self.task.options,
                seed=self.settings.seed,
                bytes=outcome.bytes,
                operations=outcome.operations,
                rate_unit=self.problem.rate_unit,
                times=times,
                modules=outcome.modules,
                samples=samples,
                check=outcome.check,
                counters=outcome.counters,
                children=outcome.children,
                limits={str(name): value for name, value in self.task.limits.items()},
                break_even=self.break_even,
                facts=outcome.facts,
                cases=outcome.cases,
                trace=outcome.trace,
                result=outcome.result,
                inspected=outcome.inspected,
                ceiling=self.ceiling,
                notes=self.notes,
                **self.shared,
            )
        )
