"""The whole line: matrix -> payload -> modules -> checked cells -> interleaved samples -> records."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Callable, Collection, Mapping, Sequence

from spgraph_bench.device.base import Limit
from spgraph_bench.errors import DeviceError
from spgraph_bench.matrix import Matrix
from spgraph_bench.paths import cache_dir
from spgraph_bench.problems import get_problem
from spgraph_bench.results.record import Record
from spgraph_bench.runner.assembly import assemble
from spgraph_bench.runner.baselines import run_baselines
from spgraph_bench.runner.building import build
from spgraph_bench.runner.contact import Contact
from spgraph_bench.runner.limits import limited
from spgraph_bench.runner.plan import Cell, planned_cells
from spgraph_bench.runner.recording import Recorder, surroundings
from spgraph_bench.runner.refusing import refused_by_format
from spgraph_bench.runner.rounds import time_cells
from spgraph_bench.runner.screening import OnAnswer, screen
from spgraph_bench.runner.session import Session
from spgraph_bench.runner.settings import Settings
from spgraph_bench.runner.tuned import any_tuned, load_tuned
from spgraph_bench.runner.worker import WorkerDiedError, WorkerHungError
from spgraph_bench.variants.base import Variant

__all__ = ["Progress", "run"]

Progress = Callable[[str], None]
"""Called with what is being done, often; showing it is the caller's affair."""


def run(
    session: Session,
    matrix: Matrix,
    problem: str,
    variants: Sequence[Variant],
    settings: Settings,
    on_record: Callable[[Record], None],
    progress: Progress = lambda text: None,
    on_answer: OnAnswer | None = None,
    on_kernels: Callable[[], None] = lambda: None,
    *,
    done: Collection[str] = (),
    run_id: str = "",
) -> None:
    """Check and time `variants` on `matrix`; `on_record` gets each record as its cell ends.

    `on_answer` gets the columns of the first right answer (of the first case), before anything is timed; the
    arrays are gone after that. For problems whose answer is one of vertices or rows. `on_kernels` is called when all
    kernels have their records and CPU baselines follow.

    Cells whose key is in `done` have their records already. `run_id`, which all records share, tells them from those
    of other runs; by default it is drawn.

    Whatever happens to a cell is a record (ok, skipped, failed, wrong) with its reason. Raises DeviceError
    when the device cannot be used at all. On KeyboardInterrupt every cell without a record gets one, from
    the samples it has, before the interrupt goes on.
    """
    wanted = get_problem(problem, settings.options)
    by_name = {v.name: v for v in variants}
    with contextlib.suppress(OSError):  # the compile step reports it
        cache_dir("modules")  # CacheError ends the run: code would be run out of it

    # Of a large matrix the hash takes seconds, on one core, while others compute.
    threading.Thread(target=lambda: matrix.sha256, name="hash", daemon=True).start()
    # Plan: the payload while the device gets ready, then what depends on it.
    assembled = assemble(matrix, wanted, settings, progress, keep_answer=on_answer is not None)
    info = session.info()
    tuned = load_tuned(problem, assembled.matrix.sha256, info) if any_tuned(problem) else {}
    task = dataclasses.replace(assembled.task, tuned=tuned)
    task, refused, failed = limited(
        task, assembled.payload, variants, settings.limits(), lambda limits: _refuse(session, limits)
    )
    cells = [cell for cell in planned_cells(variants, settings.dtypes, settings.reorder) if cell.key not in done]
    around = surroundings(session, assembled, by_name, run_id)
    records = Recorder(wanted, by_name, task, assembled, settings.seed, info, around, on_record)

    def timed(cell: Cell) -> bool:
        """Emulated kernels are only checked."""
        return info.kind == "cuda" or by_name[cell.variant].where == "cpu"

    try:
        with Contact(session, task, assembled.payload) as contact:
            refused_cells = {cell.key: refused[cell.variant] for cell in cells if cell.variant in refused}
            ready = records.without(cells, refused_cells, "skipped")
            failed_cells = {cell.key: failed[cell.variant] for cell in ready if cell.variant in failed}
            ready = records.without(ready, failed_cells, "failed")
            ready = records.without(ready, refused_by_format(ready, by_name, task, assembled.payload, info), "skipped")
            build(ready, by_name, task, info, progress)
            kernels = [cell for cell in ready if by_name[cell.variant].where == "gpu"]
            right = screen(contact, kernels, records, timed, progress, on_answer)
            if right:
                time_cells(contact, right, records, settings, info, progress)
            baselines = [cell for cell in ready if by_name[cell.variant].where == "cpu"]
            if kernels and baselines:
                on_kernels()
            run_baselines(
                contact, baselines, records, timed, settings, info, progress, on_answer, beside_kernels=bool(kernels)
            )
    except KeyboardInterrupt:
        for cell in cells:
            records.record_interrupted(cell)
        raise


def _refuse(session: Session, limits: Mapping[Limit, int]) -> str | None:
    """Why the device cannot have these limits, or None."""
    try:
        refusal: str | None = session.worker().call("refuse_limits", limits)
        return refusal
    except (WorkerDiedError, WorkerHungError) as error:
        raise DeviceError(
            f"{session.device} does not answer: {error}", remedy="try again; `spgraph doctor` shows what is there"
        ) from None
