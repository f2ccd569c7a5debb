"""Record: what is known of each cell so far, and the record that is made of it once."""

from __future__ import annotations

import dataclasses
import functools
import uuid
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spgraph_bench.device.base import DeviceInfo
from spgraph_bench.errors import SpgraphError
from spgraph_bench.matrix import Matrix
from spgraph_bench.measure.sampling import Ended, Taken
from spgraph_bench.problems import Problem
from spgraph_bench.results.describe import describe_device, describe_environment, describe_matrix
from spgraph_bench.results.record import Ceiling, Record, Samples, Status
from spgraph_bench.runner.assembly import Assembled
from spgraph_bench.runner.plan import Cell, Outcome, Task
from spgraph_bench.runner.plausibility import impossible
from spgraph_bench.runner.session import Session
from spgraph_bench.runner.worker import WorkerDiedError, WorkerHungError
from spgraph_bench.variants.base import Variant

__all__ = ["Recorder", "Surroundings", "surroundings"]


@dataclass(frozen=True)
class Surroundings:
    """What all records of a run say of where and on what it was made."""

    input: Matrix
    device: Any
    environment: Mapping[str, Any]
    run: str
    """Tells records of one run from others."""

    @functools.cached_property
    def matrix(self) -> Mapping[str, Any]:
        """What the matrix is. Its hash takes time, and the first record comes late."""
        return describe_matrix(self.input)


def surroundings(
    session: Session, assembled: Assembled, variants: Mapping[str, Variant], run_id: str = ""
) -> Surroundings:
    """As they are now; with versions of this run's libraries, and whether the GPU is alone. `run_id` is drawn if it is
    empty."""
    libraries = {v.library for v in variants.values() if v.library}
    info = session.info()
    try:
        versions = session.worker().call("versions", sorted(libraries))
        alone = session.worker().call("alone")
    except (WorkerDiedError, WorkerHungError, SpgraphError):
        session.drop_worker()
        versions, alone = {}, None
    environment = {**describe_environment(info.toolkit), "libraries": versions, "gpu_alone": alone}
    return Surroundings(assembled.matrix, describe_device(info), environment, run_id or uuid.uuid4().hex[:12])


class Recorder:
    """Outcomes and samples of a run's cells as they come in; each cell becomes one record.

    Parameters
    ----------
    on_record : gets the records.
    """

    def __init__(
        self,
        problem: Problem,
        variants: Mapping[str, Variant],
        task: Task,
        assembled: Assembled,
        seed: int,
        info: DeviceInfo,
        around: Surroundings,
        on_record: Callable[[Record], None],
    ) -> None:
        self._problem, self._variants, self._task, self._assembled = problem, variants, task, assembled
        self._seed, self._info, self._around, self._on_record = seed, info, around, on_record
        self.outcomes: dict[str, Outcome] = {}
        """Of cells that were checked, by key."""
        self.taken: defaultdict[str, list[Taken]] = defaultdict(list)
        """Samples, by the cell's key."""
        self.ended: defaultdict[str, dict[str, Ended]] = defaultdict(dict)
        """Ends of series, by the cell's key and the cache state."""
        self.answered = False
        """Whether the first right answer was handed on."""
        self.surveyed = False
        """Whether the next three were measured."""
        self.ceiling: Ceiling | None = None
        self.notes: tuple[str, ...] = ()
        self.break_even: tuple[Mapping[str, float], ...] = ()
        self.out_of_time = ""
        """Why a cell was not timed whose time was over before it had samples."""
        self._recorded: set[str] = set()

    def without(self, cells: Sequence[Cell], reasons: Mapping[str, object], status: Status) -> list[Cell]:
        """Record those of `cells` that there is a reason for, by key; the others."""
        for cell in cells:
            if cell.key in reasons:
                self.record(cell, Outcome(status, str(reasons[cell.key])))
        return [cell for cell in cells if cell.key not in reasons]

    def record_failed(self, cell: Cell, reason: str) -> None:
        """`cell` was checked, and failed afterwards."""
        outcome = self.outcomes[cell.key]
        self.record(cell, dataclasses.replace(outcome, status="failed", reason=reason))

    def record_out_of_time(self, cell: Cell) -> None:
        """`cell` was checked, and there is no time to sample it."""
        self.record(cell, dataclasses.replace(self.outcomes[cell.key], status="skipped", reason=self.out_of_time))

    def record_timed(self, cell: Cell) -> None:
        """Both series of `cell` have ended."""
        ends = [self.ended[cell.key][cache] for cache in ("cold", "hot")]
        samples = tuple(end.samples for end in ends)
        outcome = self.outcomes[cell.key]
        failures = [f"{end.cache}: {end.reason}" for end in ends if end.samples.stopped == "failed"]
        if outcome.status == "wrong":
            samples = ()  # times of wrong results mean nothing
        elif failures:
            outcome = dataclasses.replace(outcome, status="failed", reason="; ".join(failures))
        elif all(s.stopped == "interrupted" and not s.times_ms for s in samples):
            outcome = dataclasses.replace(outcome, status="skipped", reason="interrupted before it was timed")
        elif any(s.stopped == "time limit" and not s.times_ms for s in samples):
            outcome, samples = dataclasses.replace(outcome, status="skipped", reason=self.out_of_time), ()
        elif why := self._impossible(cell, outcome, samples):
            outcome = dataclasses.replace(outcome, status="failed", reason=why)
        self.record(cell, outcome, samples)

    def _impossible(self, cell: Cell, outcome: Outcome, samples: tuple[Samples, ...]) -> str | None:
        if self.ceiling is None or self._variants[cell.variant].where != "gpu":
            return None
        return impossible(
            cell, outcome, samples, self._problem, self._task, self._assembled.payload, self._info, self.ceiling
        )

    def record_interrupted(self, cell: Cell) -> None:
        """The run is broken off: `cell` gets a record from what it has, unless it has one."""
        if cell.key in self._recorded:
            return
        checked = self.outcomes.get(cell.key)
        # A worker that was interrupted ends its series with the samples they have; one that had to be killed
        # may have ended only some.
        ended = tuple(e.samples for e in self.ended[cell.key].values() if e.samples.times_ms)
        if checked and ended:
            self.record(cell, checked, ended)
            return
        when = "before it was timed" if checked else "before it was checked"
        outcome = dataclasses.replace(checked or Outcome("skipped"), status="skipped", reason=f"interrupted {when}")
        self.record(cell, outcome)

    def record(self, cell: Cell, outcome: Outcome, samples: tuple[Samples, ...] = ()) -> None:
        """Make the record of `cell`."""
        self._recorded.add(cell.key)
        variant, task, around = self._variants[cell.variant], self._task, self._around
        times = dict(outcome.times)
        if cell.reorder != "none":
            times["reorder_ms"] = self._assembled.reorder_ms.get(cell.reorder, 0.0)
        self._on_record(
            Record(
                problem=self._problem.name,
                variant=variant.name,
                format=variant.format,
                library=variant.library,
                where=variant.where,
                dtype=cell.dtype,
                matrix=around.matrix,
                device=around.device,
                environment=around.environment,
                run=around.run,
                status=outcome.status,
                reason=outcome.reason,
                offsets=task.offsets,
                params=outcome.params,
                reorder=cell.reorder,
                options=task.options,
                seed=self._seed,
                bytes=outcome.bytes,
                operations=outcome.operations,
                rate_unit=self._problem.rate_unit,
                times=times,
                modules=outcome.modules,
                samples=samples,
                check=outcome.check,
                counters=outcome.counters,
                children=outcome.children,
                limits={str(name): value for name, value in task.limits.items()},
                break_even=self.break_even,
                facts=outcome.facts,
                cases=outcome.cases,
                trace=outcome.trace,
                result=outcome.result,
                inspected=outcome.inspected,
                ceiling=self.ceiling,
                notes=self.notes,
            )
        )
