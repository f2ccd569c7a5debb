"""Plan: how much may wait or be allocated on the device, by the bounds of variants that launch or allocate."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from spgraph_bench.device.base import Limit
from spgraph_bench.errors import SpgraphError, UsageError
from spgraph_bench.runner.children import DEFAULT_LIMITS
from spgraph_bench.runner.payload import Payload
from spgraph_bench.runner.plan import Task
from spgraph_bench.runner.prepare import filled_params
from spgraph_bench.runner.verify import error_text
from spgraph_bench.variants.base import Limits, Sizes, Variant

__all__ = ["limited"]


def limited(
    task: Task,
    payload: Payload,
    variants: Sequence[Variant],
    requested: Mapping[Limit, int],
    refuse: Callable[[Mapping[Limit, int]], str | None],
) -> tuple[Task, dict[str, str], dict[str, str]]:
    """The task with the limits that the variants' bounds ask for; which variants need more than the device has, with
    the reason; and those whose own function for that failed.

    Parameters
    ----------
    requested : limits that the user asked for, which win.
    refuse : why the device cannot have these limits, or None.

    Raises UsageError when limits that were asked for do not fit, or that no variant uses.
    """
    bounds: dict[str, Limits] = {}
    failed: dict[str, str] = {}
    for variant in variants:
        if variant.limits is None:
            continue
        try:
            bounds[variant.name] = _bound(variant, task, payload)
        except SpgraphError:
            raise
        except (Exception, SystemExit) as error:  # a plug-in's
            failed[variant.name] = f"limits: {error_text(error)}"
    if not bounds:
        if requested:
            raise UsageError(
                f"no variant of {task.problem} here launches or allocates on the device",
                remedy="omit --pending-launches and --heap",
            )
        return task, {}, failed
    if requested and (refusal := refuse(requested)):
        raise UsageError(refusal, remedy="ask for less with --pending-launches or --heap")
    needs: dict[str, Mapping[Limit, int]] = {}
    refused: dict[str, str] = {}
    for name, bound in bounds.items():
        needs[name] = {"pending_launches": bound.pending_launches, "malloc_heap_bytes": bound.heap_bytes}
        if refusal := refuse({k: v for k, v in needs[name].items() if k not in requested}):
            refused[name] = f"it needs {refusal}"
    granted = [need for name, need in needs.items() if name not in refused]
    limits = {limit: max(default, *(need[limit] for need in granted), 0) for limit, default in DEFAULT_LIMITS.items()}
    return dataclasses.replace(task, needs=needs, limits={**limits, **requested}), refused, failed


def _bound(variant: Variant, task: Task, payload: Payload) -> Limits:
    """The largest bounds of `variant` over the types it runs in."""
    assert variant.limits is not None
    most = Limits()
    params = filled_params(variant, task.params_of(variant.name))
    for dtype in payload.inputs:
        if dtype not in variant.dtypes:
            continue
        bound = variant.limits(Sizes(payload.csr, payload.inputs[dtype], payload.oracles[dtype], params, task.options))
        most = Limits(max(most.pending_launches, bound.pending_launches), max(most.heap_bytes, bound.heap_bytes))
    return most
