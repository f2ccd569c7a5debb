"""Check, the parent's part: each cell alone, under the watchdog; those that are right will be timed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy.typing as npt

from spgraph_bench.errors import SpgraphError
from spgraph_bench.runner.contact import Contact
from spgraph_bench.runner.payload import Arrays, load_columns
from spgraph_bench.runner.plan import Cell, Outcome
from spgraph_bench.runner.recording import Recorder
from spgraph_bench.runner.worker import WorkerDiedError, WorkerHungError, WorkerLateError
from spgraph_bench.variants.base import get_variant

__all__ = ["OnAnswer", "screen"]

OnAnswer = Callable[[Mapping[str, npt.NDArray[Any]]], None]
"""Gets the columns of an answer by name; the arrays are gone after that."""


def screen(
    contact: Contact,
    cells: Sequence[Cell],
    records: Recorder,
    timed: Callable[[Cell], bool],
    progress: Callable[[str], None],
    on_answer: OnAnswer | None,
    *,
    ends: float = math.inf,
    late: str = "",
) -> list[Cell]:
    """Check `cells`; the ones that will be timed. All others are recorded.

    `on_answer` gets the first right answer, once. A check that has not ended when the monotonic clock shows `ends` is
    broken off, and its cell skipped for the reason `late`.
    """
    survivors = []
    for number, cell in enumerate(cells, 1):
        progress(f"checking {number} of {len(cells)}: {cell.variant} {cell.dtype}")
        wants_answer = on_answer is not None and not records.answered
        outcome, answer = _checked(contact, cell, ends, late, wants_answer=wants_answer)
        records.outcomes[cell.key] = outcome
        if on_answer is not None and answer is not None:
            on_answer(answer)
            records.answered = True
        if outcome.status == "ok" and timed(cell):
            survivors.append(cell)
        else:
            records.record(cell, outcome)
    return survivors


def _checked(
    contact: Contact, cell: Cell, ends: float, late: str, *, wants_answer: bool
) -> tuple[Outcome, Arrays | None]:
    """The outcome, and the first right answer where the worker has one.

    A failure in a worker that has run plug-ins before may be theirs: a thread that ends the process or spoils the
    matrix. It is the cell's own where it comes again in a new worker; for that a variant from elsewhere must have ended
    the worker.
    """
    from_elsewhere = get_variant(contact.task.problem, cell.variant).from_elsewhere
    suspects = contact.has_run_plugins
    outcome, answer, ended = _once(contact, cell, ends, late, wants_answer=wants_answer)
    contact.has_run_plugins |= from_elsewhere
    if not suspects or outcome.status not in ("wrong", "failed") or (from_elsewhere and not ended):
        return outcome, answer
    contact.drop()
    again, answer, _ = _once(contact, cell, ends, late, wants_answer=wants_answer)
    contact.has_run_plugins |= from_elsewhere
    if again.status == "ok":
        again.check["repeated"] = f"in a worker that had run plug-ins: {outcome.reason}"
    return again, answer


def _once(
    contact: Contact, cell: Cell, ends: float, late: str, *, wants_answer: bool
) -> tuple[Outcome, Arrays | None, bool]:
    """The outcome, an answer, and whether the worker has ended."""
    try:
        outcome: Outcome = contact.call("check", cell, ends=ends)
        if outcome.replace_worker:
            contact.drop()
        wants_answer = wants_answer and outcome.status == "ok"
        return outcome, _answer(contact) if wants_answer else None, False
    except WorkerLateError:
        contact.drop()
        return Outcome("skipped", late), None, False
    except (WorkerDiedError, WorkerHungError) as error:
        contact.drop()
        ended = isinstance(error, WorkerDiedError)
        return Outcome("failed", f"{error}{_too_small(contact, cell)}"), None, ended
    except SpgraphError as error:
        # The worker answered, but its context is of no more use.
        contact.drop()
        return Outcome("failed", str(error)), None, False


def _answer(contact: Contact) -> Arrays | None:
    columns: Arrays | list[str] | None = contact.call("answer", contact.folder)
    if isinstance(columns, list):
        assert contact.folder is not None
        return load_columns(contact.folder, columns)
    return columns


def _too_small(contact: Contact, cell: Cell) -> str:
    """What may be why it hangs: a launch that finds no place in the pool can do that to the next one."""
    pool = contact.task.limits.get("pending_launches", 0)
    need = contact.task.needs.get(cell.variant, {}).get("pending_launches", 0)
    if need <= pool:
        return ""
    return f"; the pool of {pool:,} waiting launches is below its bound of {need:,}: --pending-launches"
