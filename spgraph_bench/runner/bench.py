"""What happens on a device: prepare, check, time. Runs in the worker process (or in ours, with --in-process)."""

from __future__ import annotations

import gc
import math
import os
import traceback
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.device import open_device, parse_device
from spgraph_bench.device.base import Buffer, Device, Limit
from spgraph_bench.errors import LaunchError, SkipError, SpgraphError
from spgraph_bench.formats import Packed, get_format
from spgraph_bench.matrix import CSR, VertexLabels, called, labels_of, with_labels
from spgraph_bench.measure.clocks import GpuMonitor
from spgraph_bench.measure.sampling import (
    Cache,
    Clock,
    CpuClock,
    Ended,
    Entry,
    Sample,
    Taken,
    sample_interleaved,
)
from spgraph_bench.measure.stopping import StoppingRule
from spgraph_bench.memory import available_memory
from spgraph_bench.problems import CheckResult, Problem, get_problem
from spgraph_bench.problems.exact import DRAWS, Draw, small_packed
from spgraph_bench.problems.traversal import LevelWork, level_work, levels_of
from spgraph_bench.results.record import Ceiling
from spgraph_bench.runner.break_even import measure_break_even
from spgraph_bench.runner.children import (
    DEFAULT_LIMITS,
    LIMIT_WORDS,
    ChildrenLostError,
    children_of,
)
from spgraph_bench.runner.figures import conversion_bytes
from spgraph_bench.runner.guard import checksum
from spgraph_bench.runner.messages import At, Event, Message, Part, Stage, Verified, Wrong
from spgraph_bench.runner.payload import NO_MATRIX, Arrays, Payload, save_columns
from spgraph_bench.runner.plan import Cell, Outcome, Task
from spgraph_bench.runner.prepare import (
    Prepared,
    compile_times,
    described_modules,
    filled_params,
    locked,
    prepare,
    upload_packed,
)
from spgraph_bench.runner.verify import (
    FACTORS,
    Memory,
    WrongOutputError,
    finished_output,
    fresh_sources,
    same_output,
)
from spgraph_bench.stats import MatrixStats, row_stats
from spgraph_bench.timer import monotonic, perf_counter, replaced_clocks
from spgraph_bench.units import human_bytes
from spgraph_bench.validate import Checked, Graph, Validator, make_validator
from spgraph_bench.variants.base import Launch, Variant, get_variant, library_versions

__all__ = ["Bench"]

_PART_SAMPLES = 9


class _AnnouncingClock:
    """Says which cell is about to run, so that the parent knows whom to blame for a hang."""

    def __init__(
        self, clock: Clock, cell: Cell, prepared: Prepared, announce: Callable[[Cell], None]
    ) -> None:
        self._clock, self._cell, self._prepared, self._announce = clock, cell, prepared, announce
        self.name = clock.name
        self.evict_bytes = clock.evict_bytes

    def gates(self, launch: Launch) -> bool:
        return self._clock.gates(launch)

    def sample(self, launch: Launch, cache: Any) -> Sample:
        self._announce(self._cell)
        self._prepared.runs += 1
        try:
            return self._clock.sample(launch, cache)
        except SystemExit as error:  # of a host function: it must not end us
            raise LaunchError(f"its host function raised SystemExit({error.code!r})") from None


def _host_sums(packed: Packed) -> dict[str, int]:
    return {
        name: zlib.crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
        for name, array in packed.arrays.items()
    }


class _Verifying:
    """The events of a timing call on their way to the parent, and the verifying runs between them.

    Each cell has three: after the last cold sample, after the last hot one, and one after a sample that is
    drawn from the seed, all taken as samples are. They are made between turns (:meth:`catch_up`), so that no
    hot sample finds its caches spoilt, and the end of a series goes out once its run was right.
    """

    def __init__(self, bench: Bench, cells: Sequence[Cell], rule: StoppingRule, seed: int) -> None:
        self.cells = {cell.key: cell for cell in cells}
        self._bench = bench
        self._memory = {key: Memory() for key in self.cells}
        self._middle: dict[str, int] = {}
        """After how many more samples the drawn one comes; gone when it was made."""
        for key in self.cells:
            drawn = int(np.random.PCG64([seed, zlib.crc32(key.encode())]).random_raw())
            self._middle[key] = 1 + drawn % (2 * rule.floor_samples - 1)
        self._due: list[tuple[str, Cache]] = []
        self._held: list[Ended] = []
        self._right: dict[str, list[str]] = {key: [] for key in self.cells}
        self._wrong: set[str] = set()

    def take(self, event: Taken | Ended) -> None:
        """A sample goes on; an end waits for its verifying run."""
        if isinstance(event, Ended):
            self._held.append(event)
            return
        if event.sample.valid:
            self._memory[event.key].seen(event.cache, event.sample.ms)
        if event.key in self._middle:
            self._middle[event.key] -= 1
            if self._middle[event.key] <= 0:
                del self._middle[event.key]
                self._due.append((event.key, event.cache))
        self._bench.pass_on(event)

    def catch_up(self) -> None:
        """Make the runs that are due."""
        due, self._due = self._due, []
        held, self._held = self._held, []
        for key, cache in due:
            self._run(key, cache, 0)
        for end in held:
            if end.samples.stopped not in ("failed", "interrupted"):
                if self._middle.pop(end.key, None) is not None:
                    self._run(end.key, end.cache, 0)
                self._run(end.key, end.cache, 1 if end.cache == "cold" else 2)
            self._bench.pass_on(end)

    def _run(self, key: str, cache: Cache, number: int) -> None:
        if key in self._wrong:
            return
        cell = self.cells[key]
        try:
            ms = self._bench.verify(cell, cache, number)
            self._memory[key].unseen(cache, ms)
            self._right[key].append(cache)
            self._bench.verified(cell, self._right[key])
        except WrongOutputError as error:
            self._wrong.add(key)
            self._bench.found_wrong(cell, str(error))


def _monitor(device: str) -> GpuMonitor | None:
    kind, index = parse_device(device)
    if kind != "cuda":
        return None
    from spgraph_bench.device.cuda import gpu_uuid

    uuid = gpu_uuid(index)
    return GpuMonitor.open(uuid, own=(os.getppid(),)) if uuid else None


class Bench:
    """A device with one task's arrays on it.

    Parameters
    ----------
    device : as :func:`spgraph_bench.device.open_device` takes it.
    emit : receives the messages.
    gate : queue short launches behind the gate; None: unless a profiler or sanitizer is attached.
    device_options : passed on to the device.
    """

    def __init__(
        self,
        device: str,
        emit: Callable[[Message], None],
        gate: bool | None = None,
        device_options: Mapping[str, Any] | None = None,
    ) -> None:
        self._emit = emit
        self._gate = gate
        self.stopping = False
        """Set from a signal handler: ends a `time` call after the sample in flight."""
        self.interrupted = False
        """Set from a signal handler: a KeyboardInterrupt is the user's, and not a host function's."""
        # Before the context is made: our own process must not count as another one on the GPU.
        self._monitor = _monitor(device)
        self.device: Device = open_device(device, **(device_options or {}))
        self._clocks: dict[str, Clock] = {}
        self._announced: tuple[Cell | None, float] = (None, 0.0)
        self._task: Task | None = None
        self._payload = Payload(NO_MATRIX)
        self._csr: CSR | None = None
        self._matrices: dict[str, tuple[CSR, MatrixStats]] = {}
        """The matrix in each order, "none" included."""
        self._packed: tuple[str, Packed, float] | None = None
        self._uploaded: dict[str, dict[str, Buffer]] = {}
        self._upload_ms: dict[str, float] = {}
        self._sums: dict[str, dict[str, int]] = {}
        """Checksums of what was uploaded, and of the packed matrix on the host: no variant may change it."""
        self._draws: dict[tuple[str, int], Draw | str] = {}
        self._drawn: tuple[tuple[str, int], dict[str, Buffer]] | None = None
        """The values of the draw used last, on the device."""
        self._ready: dict[str, Prepared] = {}
        self._limits: dict[Limit, int] = {}
        self._lost: list[Prepared] = []
        """Launches that lost children. Freeing their memory might hang, so it is kept until the end."""
        self._level_work: dict[str, LevelWork] = {}
        self._answer: dict[str, npt.NDArray[Any]] | None = None
        """Columns of the first right answer, if they are to be kept."""
        self._labels: VertexLabels | None = None
        self._validators: dict[str, Validator | None] = {}
        """By value type, as far as they were needed."""

    # ---- calls ------------------------------------------------------------------------------------------

    def hello(self) -> dict[str, Any]:
        """What the device is: DeviceInfo as a dict."""
        return asdict(self.device.info())

    def load(self, task: Task, payload: Payload | Path) -> None:
        """Take over a task; its payload, or the folder where it is."""
        self._release()
        for name, value in task.limits.items():
            if self._limits.get(name) != value:
                self.device.set_limit(name, value)
                self._limits[name] = value
        self._task = task
        self._payload = Payload.load(payload) if isinstance(payload, Path) else payload
        self._matrices.clear()
        self._csr, _ = self._matrix("none")

    def refuse_limits(self, limits: Mapping[Limit, int]) -> str | None:
        """Why one of these limits cannot be had, with figures, or None."""
        for name, value in limits.items():
            if self._limits.get(name) == value or value <= DEFAULT_LIMITS[name]:
                continue
            if lack := self.device.refuse_limit(name, value):
                return f"{LIMIT_WORDS[name].format(value)} {lack}"
        return None

    def check(self, cell: Cell) -> Outcome:
        """Prepare `cell`, run it on poisoned output and compare with the oracle, then see whether it is what
        it seems: see docs/measuring.md."""
        assert self._task is not None
        variant = get_variant(self._task.problem, cell.variant)
        outcome = self._check(variant, cell)
        if replaced := replaced_clocks():
            outcome = Outcome("failed", f"it replaced {' and '.join(replaced)}")
        if spoiled := self._spoiled(variant, cell):
            outcome = Outcome("failed", f"it changed {spoiled} of the matrix, which other variants read too")
        if outcome.status != "ok" or self.device.kind == "host" or self._memory_is_short():
            self._ready.pop(cell.key, None)
            if not self._lost:  # whose arrays might hang when they are freed
                self._drop_unused()
                if self.device.kind == "cuda" and self._memory_is_short():
                    self._drop_validators()
        return outcome

    def _check(self, variant: Variant, cell: Cell) -> Outcome:
        try:
            refused = self._refusal(variant, cell)
            if refused:
                return Outcome("skipped", refused)
            return self._checked(variant, cell)
        except SkipError as error:
            return Outcome("skipped", str(error))
        except LaunchError as error:
            # The context may be poisoned: whatever comes next must not be blamed for it.
            self._ready.pop(cell.key, None)
            if not self._alive():
                raise
            return Outcome("failed", str(error))
        except SpgraphError as error:
            return Outcome("failed", str(error))
        except MemoryError as error:
            return Outcome("failed", f"not enough host memory: {error}")
        except GeneratorExit:
            raise
        except (
            BaseException
        ) as error:  # a host function with a fault (a plugin's, say) is that variant's failure
            if isinstance(error, KeyboardInterrupt) and self.interrupted:
                raise
            where = traceback.extract_tb(error.__traceback__)[-1]
            place = f"{Path(where.filename).name}:{where.lineno}"
            return Outcome("failed", f"{place}: {type(error).__name__}: {error}")

    def answer(self, folder: Path | None) -> dict[str, npt.NDArray[Any]] | list[str] | None:
        """Columns of the first right answer by name, None while there is none.

        With `folder` they are left there and only the names are returned.
        """
        if self._answer is None or folder is None:
            return self._answer
        return save_columns(folder, self._answer)

    def ceiling(self) -> Ceiling | None:
        """The device's bandwidth and floor; None on the host device."""
        if self.device.kind != "cuda":
            return None
        self._emit(Stage("measuring the ceiling", True))
        from spgraph_bench.measure.cuda_clock import CudaClock

        clock = self._clock("gpu")
        assert isinstance(clock, CudaClock)
        return clock.ceiling()

    def break_even(self) -> tuple[dict[str, Any], ...]:
        """From how much work per child launches pay; nothing on the host device."""
        if self.device.kind != "cuda":
            return ()
        assert self._task is not None
        pool = self._task.limits.get("pending_launches", DEFAULT_LIMITS["pending_launches"])
        return measure_break_even(
            self.device, self._clock("gpu"), pool,
            lambda text: self._emit(Stage(f"measuring from where child launches pay: {text}", True)),
        )  # fmt: skip

    def versions(self, libraries: Sequence[str]) -> dict[str, str]:
        """Versions of these libraries, as they are loaded here."""
        return library_versions(libraries)

    def alone(self) -> bool | None:
        """Whether no other process computes on the GPU now; None where that cannot be told."""
        return None if self._monitor is None else not self._monitor.others()

    def busy(self) -> list[str]:
        """What disturbs measuring on this device now (other processes, clocks), in words."""
        return list(self._monitor.state().notes()) if self._monitor else []

    def time(
        self, cells: Sequence[Cell], rule: StoppingRule, seed: int, taken: Mapping[str, Sequence[Taken]]
    ) -> None:
        """Sample `cells` in interleaved rounds; `taken` holds samples from before a restart, by cell key."""
        wanted = {cell.key for cell in cells}
        self._drop_validators()
        for key in [k for k in self._ready if k not in wanted]:
            del self._ready[key]
        self._drop_drawn()
        self._drop_unused()
        entries = []
        assert self._task is not None
        for cell in cells:
            variant = get_variant(self._task.problem, cell.variant)
            self._emit(At(cell))
            prepared = self._prepared(variant, cell)
            clock = _AnnouncingClock(self._clock(variant.where), cell, prepared, self._announce)
            watched = variant.where == "gpu"
            entries.append(
                Entry(cell.key, prepared.launch, clock, taken=taken.get(cell.key, ()), watched=watched)
            )
            self._time_parts(cell, prepared.launch, clock)
        self._emit(Stage("timing", True))
        gc.collect()
        self.stopping = False
        self._announced = (None, 0.0)
        verifying = _Verifying(self, cells, rule, seed)
        for event in sample_interleaved(
            entries,
            rule,
            order_seed=seed,
            fatal=self._fatal,
            should_stop=lambda: self.stopping,
            watch=self._monitor.watch if self._monitor else None,
            between=verifying.catch_up,
        ):
            if isinstance(event, Ended):
                self._must_be_whole(verifying.cells[event.key])
            verifying.take(event)
        verifying.catch_up()

    def pass_on(self, event: Taken | Ended) -> None:
        """Send an event of the timing loop to the parent."""
        self._emit(Event(event))

    def verify(self, cell: Cell, cache: Cache, number: int) -> float:
        """Verifying run `number` of `cell`, as a sample in this cache state; its time in ms.

        Raises WrongOutputError for whatever is wrong, a failing launch included (LaunchError where the device
        is of no more use).
        """
        assert self._task is not None
        problem = get_problem(self._task.problem, self._task.options)
        variant = get_variant(self._task.problem, cell.variant)
        self._emit(At(cell))
        begin = perf_counter()
        prepared = self._ready[cell.key]
        try:
            ms = self._run_again(problem, prepared, variant, cell, number, cache)
            if perf_counter() - begin > 0.02:  # the device may have fallen asleep while the host compared
                self._clock(variant.where).sample(prepared.launch, "cold")
            return ms
        except WrongOutputError:
            raise
        except LaunchError as error:
            if not self._alive():
                raise
            raise WrongOutputError(f"after {prepared.runs:,} runs: {error}") from None
        except Exception as error:
            raise WrongOutputError(f"after {prepared.runs:,} runs: {type(error).__name__}: {error}") from None
        finally:
            self._announced = (None, 0.0)

    def verified(self, cell: Cell, caches: Sequence[str]) -> None:
        """Tell the parent which verifying runs of `cell` were right so far."""
        runs = self._ready[cell.key].runs
        details = {"verified": len(caches), "verified_as": list(caches), "runs": runs}
        self._emit(Verified(cell, details))

    def found_wrong(self, cell: Cell, reason: str) -> None:
        """Tell the parent that `cell` is wrong."""
        self._emit(Wrong(cell, reason))

    def _must_be_whole(self, cell: Cell) -> None:
        """Raise ChildrenLostError, the blame on `cell`, when one of its timed runs lost children.

        Its times are worth nothing then, and the next launch may hang: this worker has done its last.
        """
        assert self._task is not None
        if (prepared := self._ready.get(cell.key)) is None:
            return
        try:
            if (found := children_of(prepared.job)) is not None:
                found.must_be_whole(self._task.needs.get(prepared.job.variant.name, {}), self._task.limits)
        except ChildrenLostError as error:
            self._lost.append(prepared)
            self._emit(At(cell))
            raise ChildrenLostError(f"while it was timed: {error}") from None

    def _announce(self, cell: Cell) -> None:
        """Say that `cell` runs next, unless that was said less than a second ago: samples are short."""
        now = monotonic()
        if cell is not self._announced[0] or now - self._announced[1] > 1.0:
            self._announced = (cell, now)
            self._emit(At(cell))

    def _time_parts(self, cell: Cell, launch: Launch, clock: Clock) -> None:
        """Time the parts of `launch` alone, cold, on what a whole run of the first case left."""
        for name, part in launch.parts.items():
            launch.select(0)
            launch.reset()
            launch.run()
            alone = Launch(run=part, reset=lambda: None, output=launch.output, operations=8, gated=True)
            taken = [clock.sample(alone, "cold") for _ in range(_PART_SAMPLES)]
            if valid := [sample.ms for sample in taken if sample.valid]:
                self._emit(Part(cell, f"{name}_ms", float(np.median(valid))))

    def close(self) -> None:
        """Give everything back."""
        self._release()
        self._clocks.clear()
        self.device.close()

    # ---- steps ------------------------------------------------------------------------------------------

    def _matrix(self, reorder: str) -> tuple[CSR, MatrixStats]:
        """The matrix in this order, and its statistics."""
        if reorder not in self._matrices:
            csr = self._payload.matrix(reorder)
            self._matrices[reorder] = csr, row_stats(csr)
        return self._matrices[reorder]

    def _order(self, cell: Cell, buffer: str) -> tuple[npt.NDArray[np.int32], int] | None:
        """Which place each place of `buffer` (x, y) has in the matrix's own order, and which axis of it runs
        over places; None if they are the same."""
        assert self._task is not None
        problem = get_problem(self._task.problem, self._task.options)
        if cell.reorder == "none" or not problem.axes:
            return None
        axis, along = next((i, a) for i, a in enumerate(problem.axes[buffer]) if a in ("rows", "cols"))
        reordered = self._payload.orders[cell.reorder]
        return (reordered.rows if along == "rows" else reordered.cols), axis

    def _input(self, cell: Cell, name: str, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Input `array` in the order of the cell's matrix; contiguous, as libraries on the CPU want it."""
        found = self._order(cell, name)
        return array if found is None else np.take(array, *found)

    def _refusal(self, variant: Variant, cell: Cell) -> str | None:
        assert self._task is not None
        if cell.dtype not in variant.dtypes:
            return f"{variant.name} has no {cell.dtype}, only {' and '.join(variant.dtypes)}"
        if variant.missing and (lack := variant.missing(self.device)):
            return lack
        if variant.where == "cpu":
            return None
        form = get_format(variant.format)
        # Room for one more copy beside what is kept: what is kept can be dropped.
        free = self.device.info().memory_bytes if self.device.kind == "cuda" else self.device.free_bytes()
        outputs = self._task.outputs[cell.dtype].values()
        dense = sum(math.prod(shape) * np.dtype(kind).itemsize for shape, kind in outputs)
        dense += sum(array.nbytes for array in self._inputs(cell).values())
        if dense > free:
            return f"inputs and outputs need {human_bytes(dense)}; device has {human_bytes(free)}"
        free -= dense
        params = {k: v for k, v in self._task.params.items() if k in form.tunables}
        csr, stats = self._matrix(cell.reorder)
        size = np.dtype(cell.dtype).itemsize
        if refused := form.refuse(stats, free, size, self._task.force_format, **params):
            return refused
        stored = form.predict_bytes(stats, size, np.dtype(self._task.offsets).itemsize, **params)
        needed, there = conversion_bytes(stored, csr), available_memory()
        if needed > there:
            return (
                f"{form.name}: converting takes {human_bytes(needed)} of host memory, of {human_bytes(there)}"
            )
        return None

    def _checked(self, variant: Variant, cell: Cell) -> Outcome:
        assert self._task is not None
        problem = get_problem(self._task.problem, self._task.options)
        prepared = self._prepared(variant, cell)
        launch, packed = prepared.launch, prepared.job.packed
        _, convert_ms = self._pack(variant, cell)
        if problem.needs_matrix:
            work = problem.work(self._payload.csr.shape, packed)
        else:
            inputs = self._inputs(cell)
            work = problem.work_of(inputs, self._oracle(cell))
        outcome = Outcome(
            "ok",
            bytes={
                "compulsory": work.compulsory_bytes,
                "stored": work.stored_bytes,
                "gathered": work.gathered_bytes,
                "device": prepared.device_bytes,
            },
            operations=work.operations,
            times={
                "convert_ms": convert_ms,
                **self._upload_time(variant, cell),
                "preprocess_ms": launch.preprocess_ms,
                **compile_times(prepared.job),
            },
            modules=described_modules(prepared.job),
            params={**packed.meta, **prepared.job.params},
            device_bytes=prepared.device_bytes,
        )
        self._emit(Stage(f"checking {cell.key}", True))
        try:
            return self._compared(problem, prepared, variant, cell, outcome)
        except ChildrenLostError as error:
            self._lost.append(self._ready.pop(cell.key))
            outcome.status, outcome.reason = "failed", str(error)
            # On a GPU the launch after a refused one may hang.
            outcome.replace_worker = self.device.kind == "cuda"
            return outcome

    def _compared(
        self, problem: Problem, prepared: Prepared, variant: Variant, cell: Cell, outcome: Outcome
    ) -> Outcome:
        """Run and compare with the oracle. Raises ChildrenLostError."""
        assert self._task is not None
        launch = prepared.launch
        if problem.has_cases:
            result = self._check_cases(problem, prepared, variant, cell, outcome)
        else:
            raw = self._run_once(prepared, variant, outcome)
            self._emit(Stage(f"comparing {cell.key}", False))
            output = self._in_own_order(problem, cell, raw)
            result = self._judge(problem, cell, output, self._oracle(cell))
            if result.ok:
                self._sum_up(problem, launch, cell, output, outcome)
                if self._task.trace and launch.steps is not None:
                    self._watch(launch, variant, outcome)
        result = self._by_labels(problem, result)
        outcome.check = {"ok": result.ok, "message": result.message, **result.details}
        outcome.facts = dict(result.facts)
        if result.operations is not None:
            outcome.operations = result.operations
        if not result.ok:
            outcome.status, outcome.reason = "wrong", result.message
        else:
            try:
                self._look_closer(problem, prepared, variant, cell, outcome)
            except WrongOutputError as error:
                outcome.status, outcome.reason = "wrong", str(error)
                outcome.check |= {"ok": False, "message": str(error)}
        return outcome

    def _in_own_order(self, problem: Problem, cell: Cell, output: Any) -> Any:
        """`output` of a problem without cases, rows and columns in the matrix's own order."""
        if (found := self._order(cell, problem.outputs[0])) is None:
            return output
        order, axis = found
        moved = np.empty_like(output)
        moved[(slice(None),) * axis + (order,)] = output
        return moved

    # ---- beyond the first comparison --------------------------------------------------------------------

    def _look_closer(
        self, problem: Problem, prepared: Prepared, variant: Variant, cell: Cell, outcome: Outcome
    ) -> None:
        """What a right first output does not show. Raises WrongOutputError.

        Nothing was written around the outputs; a reset output is poison until the next run; work does not
        escape the stream; where kernels are not timed, two more runs on changed inputs are right, too; sums
        of integers are exact.
        """
        self._emit(Stage(f"verifying {cell.key}", True))
        if where := prepared.overrun():
            raise WrongOutputError(where)
        launch, emulated = prepared.launch, self.device.kind == "host" and variant.where == "gpu"
        launch.select(0)
        output = self._rerun(prepared, variant)
        launch.reset()
        self.device.synchronize()
        if same_output(output, self._output_of_nothing(launch)):
            self._must_be_right(problem, prepared, cell, output, 0)  # it may be poison itself
            raise WrongOutputError("its output is there without a run: reset() does not poison it")
        if variant.where == "gpu" and self.device.kind == "cuda":
            self._must_stay_in_stream(prepared)
        if emulated:
            for number in range(2):
                self._run_again(problem, prepared, variant, cell, number)
            outcome.check["verified"] = 2
        if problem.is_product:
            outcome.check["exact"] = self._exact_pass(problem, prepared, variant, cell)

    def _rerun(self, prepared: Prepared, variant: Variant) -> Any:
        """The output of one more run on poisoned buffers."""
        launch = prepared.launch
        launch.reset()
        self.device.synchronize()
        prepared.runs += 1
        begin = perf_counter()
        launch.run()
        run_ms = (perf_counter() - begin) * 1e3
        if variant.where == "cpu":
            return finished_output(launch, run_ms)
        self.device.synchronize()
        return launch.output()

    def _output_of_nothing(self, launch: Launch) -> Any:
        """What `launch` hands out when nothing has run since its reset."""
        try:
            return launch.output()
        except LaunchError:
            raise
        except Exception:  # it may refuse in its own way
            return np.empty(0)

    def _must_stay_in_stream(self, prepared: Prepared) -> None:
        from spgraph_bench.measure.cuda_clock import CudaClock

        clock = self._clock("gpu")
        assert isinstance(clock, CudaClock)
        assert self._task is not None
        problem = get_problem(self._task.problem, self._task.options)
        outputs = [prepared.job.buffers[name] for name in problem.outputs if name in prepared.job.buffers]
        if clock.escapes(prepared.launch, outputs):
            raise WrongOutputError("it writes its output outside the stream that it is timed on")

    @staticmethod
    def _case_after(prepared: Prepared, number: int) -> int:
        """The case of verifying run `number`: one that no other run has, if the graph has enough vertices."""
        launch = prepared.launch
        return launch.cases + number if number < prepared.fresh else (number + 1) % launch.cases

    def _run_again(
        self,
        problem: Problem,
        prepared: Prepared,
        variant: Variant,
        cell: Cell,
        number: int,
        cache: Cache | None = None,
    ) -> float:
        """Verifying run `number` (0, 1, 2), with inputs that were not there before; its time in ms.

        `cache`: taken as a sample in this state is taken; None: untimed. Raises WrongOutputError.
        """
        launch, oracle = prepared.launch, self._oracle(cell)
        inputs = self._inputs(cell)
        clock = None if cache is None else self._clock(variant.where)
        if clock is not None and cache == "hot":
            launch.select(0)
            clock.sample(launch, "hot")  # what was in the caches was another variant's
            prepared.runs += 1
        case, changed = 0, {}
        if problem.has_cases:
            case = self._case_after(prepared, number)
            if prepared.fresh:
                inputs["sources"] = np.concatenate((inputs["sources"], prepared.fresh_sources))
            launch.select(case)
        elif problem.is_product:
            given = inputs
            inputs, oracle = problem.scaled(inputs, oracle, FACTORS[number])
            changed = {name: array for name, array in inputs.items() if array is not given[name]}
        for name, array in changed.items():
            prepared.write_input(name, self._input(cell, name, array))
        try:
            ms = 0.0
            if clock is None or cache is None:
                output = self._rerun(prepared, variant)
            else:
                prepared.runs += 1
                ms = clock.sample(launch, cache).ms
                # On the job's own stream, without waiting for the device: what is unfinished elsewhere shows.
                output = finished_output(launch, ms) if variant.where == "cpu" else launch.output()
        finally:
            for name in changed:
                prepared.write_input(name, self._input(cell, name, given[name]))
            launch.select(0)
        if where := prepared.overrun():
            raise WrongOutputError(where)
        self._emit(Stage(f"comparing {cell.key}", False))
        self._must_be_right(problem, prepared, cell, output, case, inputs, oracle)
        self._emit(Stage("timing" if cache else f"verifying {cell.key}", True))
        return ms

    def _must_be_right(
        self,
        problem: Problem,
        prepared: Prepared,
        cell: Cell,
        output: Any,
        case: int,
        inputs: Mapping[str, npt.NDArray[Any]] | None = None,
        oracle: dict[str, npt.NDArray[Any]] | None = None,
    ) -> None:
        """Compare an `output` as the first one was. Raises WrongOutputError."""
        inputs = self._inputs(cell) if inputs is None else inputs
        oracle = self._oracle(cell) if oracle is None else oracle
        if problem.has_cases:
            result, _, _ = self._judge_case(problem, cell, case, output, inputs, oracle)
        else:
            result = self._judge(problem, cell, self._in_own_order(problem, cell, output), oracle)
        if not result.ok:
            raise WrongOutputError(f"wrong after {prepared.runs:,} runs: {result.message}")

    def _exact_pass(
        self, problem: Problem, prepared: Prepared, variant: Variant, cell: Cell
    ) -> dict[str, Any]:
        """Run on small integers and compare bit for bit; what the record keeps. Raises WrongOutputError."""
        assert self._task is not None
        task, job, dtype = self._task, prepared.job, np.dtype(cell.dtype)
        outputs = {name: (shape, np.dtype(kind)) for name, (shape, kind) in task.outputs[cell.dtype].items()}
        ranges: list[list[int]] = []
        if variant.where == "gpu" and prepared.device_bytes > (free := self.device.free_bytes()):
            need = human_bytes(prepared.device_bytes)
            return {
                "skipped": f"with other values it takes {need} again; device has {human_bytes(free)} free"
            }
        for number in range(DRAWS):
            draw = self._draw(problem, cell, number)
            if isinstance(draw, str):
                return {"skipped": draw}
            arrays, packed = self._with_small_values(variant, cell, number, draw, job.packed)
            inputs = {name: self._input(cell, name, array) for name, array in draw.inputs.items()}
            again = prepare(
                self.device, variant, packed, inputs, outputs, task.params_of(variant.name), arrays=arrays,
                options=task.options,
            )  # fmt: skip
            output = self._in_own_order(problem, cell, self._rerun(again, variant))
            self._emit(Stage(f"comparing {cell.key}", False))
            try:
                fault = draw.compare(output)
            except SkipError as error:
                return {"skipped": str(error)}
            self._emit(Stage(f"verifying {cell.key}", True))
            if fault:
                raise WrongOutputError(f"exact pass, draw {number + 1}: {fault}")
            ranges.append([draw.ranges.values, draw.ranges.x])
        return {"draws": DRAWS, "values_to": ranges[0][0], "x_to": ranges[0][1], "type": str(dtype)}

    def _draw(self, problem: Problem, cell: Cell, number: int) -> Draw | str:
        """Draw `number` for this type, the same for all variants and formats."""
        assert self._csr is not None
        if (cell.dtype, number) not in self._draws:
            self._emit(Stage(f"computing sums of integers, draw {number + 1}", False))
            self._draws[cell.dtype, number] = problem.exact(self._csr, np.dtype(cell.dtype), number)
            self._emit(Stage(f"verifying {cell.key}", True))
        return self._draws[cell.dtype, number]

    def _with_small_values(
        self, variant: Variant, cell: Cell, number: int, draw: Draw, packed: Packed
    ) -> tuple[dict[str, Buffer] | None, Packed]:
        """The packed matrix with the values of `draw`, and its arrays on the device: those of the structure
        are the ones that are there."""
        most = draw.ranges.values
        if variant.where == "cpu":
            return None, locked(small_packed(packed, draw.key, most))
        there, key = (
            self._uploaded[self._format_key(variant, cell)],
            (self._format_key(variant, cell), number),
        )
        small = small_packed(packed, draw.key, most)
        names = [name for name, array in packed.arrays.items() if small.arrays[name] is not array]
        if self._drawn is None or self._drawn[0] != key:
            if self._drawn is None or self._drawn[0][0] != key[0]:
                self._drop_drawn()
                self._drawn = key, {name: self.device.empty(there[name].shape, there[name].dtype)
                                    for name in names}  # fmt: skip
            for name in names:
                self.device.write(self._drawn[1][name], small.arrays[name])
            self._drawn = key, self._drawn[1]
        return {**there, **self._drawn[1]}, locked(small)

    def _drop_drawn(self) -> None:
        if self._drawn is not None:
            for buffer in self._drawn[1].values():
                buffer.free()
            self._drawn = None

    def _spoiled(self, variant: Variant, cell: Cell) -> str | None:
        """Which array of the packed matrix the variant has changed, or None. It is put right again."""
        key = self._format_key(variant, cell)
        if self._packed is None or self._packed[0] != key:
            return None
        packed = self._packed[1]
        if variant.where == "cpu":
            before = self._sums.get(f"host/{key}")
            if before is None:  # it ended before it was given the matrix
                return None
            changed = [n for n, total in _host_sums(packed).items() if before[n] != total]
            if changed:
                self._packed = None
            return changed[0] if changed else None
        if key not in self._uploaded or not self._alive():
            return None
        changed = [n for n, total in self._device_sums(key).items() if self._sums[key][n] != total]
        for name in changed:
            self.device.write(self._uploaded[key][name], packed.arrays[name])
        return changed[0] if changed else None

    def _device_sums(self, key: str) -> dict[str, int]:
        return {name: checksum(self.device, buffer) for name, buffer in self._uploaded[key].items()}

    def _run_once(self, prepared: Prepared, variant: Variant, outcome: Outcome) -> Any:
        """The output of one run on poisoned buffers; `outcome` gets the counters of the first.

        Raises ChildrenLostError when a launch or an allocation on the device failed.
        """
        launch = prepared.launch
        launch.reset()
        if prepared.job.child_words is not None:
            self.device.fill(prepared.job.child_words, 0)
        self.device.synchronize()
        self.device.reset_counters()
        prepared.runs += 1
        launch.run()
        self.device.synchronize()
        if outcome.counters is None and variant.where == "gpu":
            outcome.counters = self.device.counters()
        self._look_for_children(prepared, outcome)
        return launch.output()

    def _look_for_children(self, prepared: Prepared, outcome: Outcome) -> None:
        """Keep what was launched on the device. Raises ChildrenLostError when some of it was not run."""
        found = children_of(prepared.job)
        if found is None:
            return
        assert self._task is not None
        if outcome.children is None or found.refused or found.failed or found.allocations_failed:
            bound = self._task.needs.get(prepared.job.variant.name, {}).get("pending_launches", 0)
            outcome.children = {**found.words(), "bound": bound}
        found.must_be_whole(self._task.needs.get(prepared.job.variant.name, {}), self._task.limits)

    def _judge(
        self, problem: Problem, cell: Cell, output: Any, oracle: dict[str, npt.NDArray[Any]]
    ) -> CheckResult:
        """The outcome of a problem without cases: by the oracle where there is one, by the validator in any
        case. `output` is in the matrix's own order."""
        validator = self._validator(problem, cell)
        result = CheckResult(True)
        told: dict[str, Any] = {}
        if oracle or validator is None:
            told["by_oracle"] = 1
            csr = self._payload.csr
            if problem.is_graph:
                oracle = oracle | {"row_ptr": csr.row_ptr, "col_idx": csr.col_idx}
            if not problem.needs_matrix:
                oracle = oracle | self._inputs(cell)
            result = problem.check(output, oracle, np.dtype(cell.dtype))
        if validator is None or not result.ok:
            return result
        checked = self._validated(problem, cell, output).result
        details = {**checked.details, **result.details, **told, "by_validator": 1}
        return replace(checked, details=details)

    def _check_cases(
        self, problem: Problem, prepared: Prepared, variant: Variant, cell: Cell, outcome: Outcome
    ) -> CheckResult:
        """Run and check every case."""
        assert self._csr is not None
        launch = prepared.launch
        inputs = self._inputs(cell)
        oracle = self._oracle(cell)
        told: dict[str, Any] = {"by_oracle": 0, "by_validator": 0}
        found: list[dict[str, Any]] = []
        added: npt.NDArray[Any] | None = None
        for case in range(launch.cases):
            self._emit(Stage(f"checking {cell.key}, case {case + 1} of {launch.cases}", True))
            launch.select(case)
            output = self._run_once(prepared, variant, outcome)
            self._emit(Stage(f"comparing {cell.key}, case {case + 1} of {launch.cases}", False))
            result, by, known = self._judge_case(problem, cell, case, output, inputs, oracle)
            for name in by:
                told[name] += 1
            facts: dict[str, Any] = {}
            if result.ok:
                facts = {**problem.describe_case(case, output, self._csr, inputs, oracle), **known}
            if "source" in facts:
                facts["source_id"] = called(self._vertex_labels(), facts["source"])
            if not result.ok:
                source = f" (source {int(inputs['sources'][case])})" if "sources" in inputs else ""
                which = f"case {case + 1} of {launch.cases}{source}"
                return CheckResult(False, f"{which}: {result.message}", {**told, **result.details})
            found.append(facts)
            if problem.adds_up:
                added = output if added is None else added + output
            if case == 0:
                if not problem.adds_up:
                    self._sum_up(problem, launch, cell, output, outcome)
                if launch.trace is not None:
                    self._trace(launch, prepared, levels_of(output), outcome)
                elif launch.every_level:
                    work, nnz = (
                        self._work_of_levels(prepared, levels_of(output)),
                        prepared.job.packed.nnz,
                    )
                    depth = len(work.vertices)
                    outcome.inspected = sum(work.inspected(launch.every_level, k, nnz) for k in range(depth))
                elif self._task is not None and self._task.trace and launch.steps is not None:
                    self._watch(launch, variant, outcome)
        if problem.adds_up and added is not None:
            self._sum_up(problem, launch, cell, problem.total(added, inputs), outcome)
        outcome.cases = tuple(found)
        launch.select(0)
        return CheckResult(True, "", told)

    def _judge_case(
        self,
        problem: Problem,
        cell: Cell,
        case: int,
        output: Any,
        inputs: Mapping[str, npt.NDArray[Any]],
        oracle: Mapping[str, npt.NDArray[Any]],
    ) -> tuple[CheckResult, list[str], dict[str, Any]]:
        """The outcome of one case: by the oracle where it knows it, by the validator in any case.

        Returns the outcome, by whom ("by_oracle", "by_validator"), and what the validator learned on the way.
        """
        assert self._csr is not None
        result, known = problem.check_case(case, output, self._csr, inputs, oracle)
        by, facts = ["by_oracle"] if known else [], {}
        if result.ok and self._validator(problem, cell) is not None:
            checked = self._validated(problem, cell, output, int(inputs["sources"][case]))
            result, facts = checked.result, dict(checked.facts)
            by.append("by_validator")
        if not by:  # a problem must have one or the other
            result = CheckResult(False, f"nobody can tell whether the answer to case {case + 1} is right")
        return result, by, facts

    def _validator(self, problem: Problem, cell: Cell) -> Validator | None:
        """The validator of `problem`, which is made once for each type; it has the graph on the device."""
        assert self._csr is not None
        if cell.dtype not in self._validators:
            graph = next((v.graph for v in self._validators.values() if v is not None), None)
            inputs = self._inputs(cell)
            self._validators[cell.dtype] = make_validator(
                problem, self._csr, self.device, cell.dtype, inputs, graph
            )
        return self._validators[cell.dtype]

    def _validated(self, problem: Problem, cell: Cell, output: Any, source: int = -1) -> Checked:
        """What the validator says of `output`. A fault that kernels find is looked at again with the graph
        uploaded anew, since the variant may have spoilt it; where memory is short numpy looks."""
        assert self._csr is not None
        validator = self._validator(problem, cell)
        assert validator is not None
        if validator.graph.device is None:
            return validator.check(output, source)
        try:
            checked = validator.check(output, source)
            if not checked.result.ok:
                validator.graph.free()
                checked = validator.check(output, source)
            return checked
        except LaunchError:
            if not self._alive():
                raise
            self._drop_validators()
            inputs = self._inputs(cell)
            plain = make_validator(problem, self._csr, self.device, cell.dtype, inputs, Graph(self._csr))
            self._validators[cell.dtype] = plain
            assert plain is not None
            return plain.check(output, source)

    def _drop_validators(self) -> None:
        """Give their memory back."""
        for validator in self._validators.values():
            if validator is not None:
                validator.graph.free()
        self._validators.clear()

    def _sum_up(
        self, problem: Problem, launch: Launch, cell: Cell, output: npt.NDArray[Any], outcome: Outcome
    ) -> None:
        """What the problem says of a right `output`, and the work of a run of several iterations."""
        assert self._task is not None
        assert self._csr is not None
        facts = launch.facts()
        times = int(facts.get("iterations", 1))
        outcome.operations *= times
        outcome.bytes |= {name: outcome.bytes[name] * times for name in ("compulsory", "gathered")}
        self._emit(Stage(f"summing up {cell.key}", False))
        inputs = self._inputs(cell)
        outcome.result = problem.summary(
            output, facts, self._csr, inputs, self._oracle(cell), self._vertex_labels()
        )
        if self._task.keep_answer and self._answer is None:
            self._answer = problem.columns(output, self._csr, inputs) or None

    def _vertex_labels(self) -> VertexLabels:
        """What the input calls each vertex."""
        assert self._task is not None
        if self._labels is None:
            self._labels = labels_of(self._payload.labels, self._payload.csr.rows)
        return self._labels

    def _by_labels(self, problem: Problem, result: CheckResult) -> CheckResult:
        """`result` with vertices called as in the input."""
        if not problem.is_graph or result.ok:
            return result
        labels, details = self._vertex_labels(), dict(result.details)
        if 0 <= (worst := int(details.get("worst_vertex", -1))) < len(labels):
            details["worst_vertex_id"] = called(labels, worst)
        return replace(result, message=with_labels(result.message, labels), details=details)

    def _watch(self, launch: Launch, variant: Variant, outcome: Outcome) -> None:
        """What each step of the first case was."""
        assert launch.steps is not None
        self._emit(Stage(f"watching the steps of {variant.name}", True))
        launch.reset()
        outcome.trace = tuple(dict(step) for step in launch.steps())

    def _work_of_levels(self, prepared: Prepared, levels: npt.NDArray[Any]) -> LevelWork:
        packed = prepared.job.packed
        key = f"{packed.format}/{packed.meta.get('reorder')}"
        if key not in self._level_work:  # the levels are the same for all modes
            self._level_work[key] = level_work(packed, levels)
        return self._level_work[key]

    def _trace(self, launch: Launch, prepared: Prepared, levels: npt.NDArray[Any], outcome: Outcome) -> None:
        """What each level of the case at hand was, and how it was done."""
        assert launch.trace is not None
        assert self._task is not None
        packed, work = prepared.job.packed, self._work_of_levels(prepared, levels)
        self._emit(Stage(f"watching the levels of {prepared.job.variant.name}", True))
        launch.reset()
        done = launch.trace()
        self._emit(Stage("counting what was inspected", False))
        depth = len(work.vertices)
        # A mode notices the end by a level that finds nothing, or that it has no frontier for.
        looked = [work.inspected(t.how, k, packed.nnz) if k < depth else 0 for k, t in enumerate(done)]
        outcome.inspected = sum(looked)
        if self._task.trace:
            outcome.trace = tuple(
                {
                    "how": t.how, "ms": t.ms, "vertices": int(work.vertices[k]), "edges": int(work.edges[k]),
                    "inspected": looked[k],
                }
                for k, t in enumerate(done[:depth])
            )  # fmt: skip

    def _inputs(self, cell: Cell) -> Arrays:
        return dict(self._payload.inputs.get(cell.dtype, {}))

    def _oracle(self, cell: Cell) -> Arrays:
        return dict(self._payload.oracles.get(cell.dtype, {}))

    def _format_key(self, variant: Variant, cell: Cell) -> str:
        return f"{variant.format}/{cell.dtype}/{cell.reorder}"

    def _upload_time(self, variant: Variant, cell: Cell) -> dict[str, float]:
        """``upload_ms`` of the cell's format; nothing where no memory of a device is involved."""
        ms = self._upload_ms.get(self._format_key(variant, cell)) if variant.where == "gpu" else None
        return {} if ms is None or self.device.kind == "host" else {"upload_ms": ms}

    def _pack(self, variant: Variant, cell: Cell) -> tuple[Packed, float]:
        """The packed matrix and the time of its conversion; only the last one is kept on the host."""
        assert self._task is not None
        csr, _ = self._matrix(cell.reorder)
        key = self._format_key(variant, cell)
        if self._packed is None or self._packed[0] != key:
            self._packed = None
            form = get_format(variant.format)
            params = {k: v for k, v in self._task.params.items() if k in form.tunables}
            self._emit(Stage(f"converting to {variant.format}", False))
            start = perf_counter()
            packed = form.pack(csr, np.dtype(cell.dtype), np.dtype(self._task.offsets), **params)
            self._packed = (key, locked(packed), (perf_counter() - start) * 1e3)
            self._sums.pop(f"host/{key}", None)
        return self._packed[1], self._packed[2]

    def _prepared(self, variant: Variant, cell: Cell) -> Prepared:
        assert self._task is not None
        if cell.key in self._ready:
            return self._ready[cell.key]
        task = self._task
        # Before any work: a bad parameter is a usage error.
        filled_params(variant, task.params_of(variant.name))
        packed, _ = self._pack(variant, cell)
        arrays: dict[str, Buffer] | None = None
        key = self._format_key(variant, cell)
        if variant.where == "gpu":
            self._emit(Stage(f"uploading {variant.format}", True))
            if key not in self._uploaded:
                start = perf_counter()
                self._uploaded[key] = upload_packed(self.device, packed)
                self.device.synchronize()
                self._upload_ms[key] = (perf_counter() - start) * 1e3
                self._sums[key] = self._device_sums(key)
            arrays = self._uploaded[key]
        elif f"host/{key}" not in self._sums:
            self._sums[f"host/{key}"] = _host_sums(packed)
        self._emit(Stage(f"preparing {cell.key}", True))
        outputs = {name: (shape, np.dtype(kind)) for name, (shape, kind) in task.outputs[cell.dtype].items()}
        inputs = {name: self._input(cell, name, array) for name, array in self._inputs(cell).items()}
        params = task.params_of(variant.name)
        fresh = np.empty(0, np.int32)
        if "sources" in inputs:
            assert self._csr is not None
            fresh = fresh_sources(self._csr, inputs["sources"])
            inputs["sources"] = np.concatenate((inputs["sources"], fresh))
        prepared = prepare(
            self.device, variant, packed, inputs, outputs, params, arrays=arrays, options=task.options
        )
        prepared.hide_sources(fresh)
        self.device.synchronize()
        self._ready[cell.key] = prepared
        return prepared

    def _memory_is_short(self) -> bool:
        return self.device.free_bytes() < 0.4 * self.device.info().memory_bytes

    def _drop_unused(self) -> None:
        """Free device arrays of formats that no prepared launch uses."""
        used = {id(p.job.arrays) for p in self._ready.values()}
        for key in [k for k, arrays in self._uploaded.items() if id(arrays) not in used]:
            for buffer in self._uploaded.pop(key).values():
                buffer.free()
        gc.collect()

    def _release(self) -> None:
        self._ready.clear()
        self._drop_drawn()
        self._draws.clear()
        self._sums.clear()
        self._level_work.clear()
        self._drop_validators()
        self._answer = None
        self._labels = None
        self._packed = None
        self._upload_ms.clear()
        self._drop_unused()

    def _clock(self, where: str) -> Clock:
        if where not in self._clocks:
            clock: Clock
            if where == "cpu":
                clock = CpuClock()
            else:
                from spgraph_bench.device.cuda import CudaDevice
                from spgraph_bench.measure.cuda_clock import CudaClock

                assert isinstance(self.device, CudaDevice)
                clock = CudaClock(self.device, self._gate)
            self._clocks[where] = clock
        return self._clocks[where]

    def _alive(self) -> bool:
        """Whether the device still answers after a failed launch."""
        try:
            self.device.synchronize()
            self.device.free_bytes()
        except Exception:
            return False
        return True

    def _fatal(self, error: Exception) -> bool:
        return not self._alive()
