"""`spgraph sweep --dry-run`: what a sweep would do and take, without measuring anything."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from spgraph_bench.cli.sweep_messages import Lines, duration
from spgraph_bench.cli.sweep_running import SweepRequest, chosen_device, device_of, plan_of
from spgraph_bench.cli.terminal import console, note, out, out_json, table

if TYPE_CHECKING:
    from spgraph_bench.sweep.plan import Plan

__all__ = ["dry_run"]

_LARGEST_LOOK = 400 << 20
"""Bytes of a matrix that --dry-run reads; larger ones are estimated from their size alone."""


def dry_run(request: SweepRequest) -> int:
    """Print what a sweep would do: cells, seconds, bytes and refusals of each block; the exit status."""
    from spgraph_bench.errors import SpgraphError
    from spgraph_bench.sweep import estimate as rules
    from spgraph_bench.sweep.station import Station

    device = device_of(request)
    if request.crew is not None and device == "cuda":
        device = chosen_device("auto")  # of this machine, which need not have the workers' GPUs
    plan = plan_of(request, device)
    kind = device.partition(":")[0]
    estimates: list[rules.Estimate] = []
    with Station(device, **request.station) as station, Lines() as lines:
        info = station.info()
        memory = info.memory_bytes if kind == "cuda" else None
        missing: dict[str, dict[str, str]] = {}
        for block in plan.blocks:
            if block.problem not in missing:
                missing[block.problem] = station.missing(block.problem, [v.name for v in block.variants])
            lines.doing(block.title)
            if rules.bytes_to_read(block) > _LARGEST_LOOK or block.input.kind == "collection":
                estimates.append(rules.quick_estimate(block, kind))
                continue
            try:
                matrix = station.matrix(block, lines.doing)
                estimates.append(rules.estimate(block, matrix, kind, memory, missing[block.problem], info.gpu))
            except SpgraphError as error:
                estimates.append(
                    rules.failed_estimate(block, f"{error.place}: {error.cause}" if error.place else error.cause)
                )
    if request.json:
        out_json([_estimate_json(each) for each in estimates])
    else:
        _show_estimates(plan, estimates)
    return 0


def _estimate_json(each: Any) -> dict[str, Any]:
    return {
        "problem": each.block.problem,
        "matrix": each.block.input.name,
        "options": dict(each.block.options),
        "cells": [cell.key for cell in each.block.cells],
        "entries": each.entries,
        "seconds": round(each.seconds, 3),
        "host_bytes": each.host_bytes,
        "device_bytes": each.device_bytes,
        "looked": each.looked,
        "refused": {why: list(keys) for why, keys in each.refused.items()},
        "error": each.error,
    }


def _show_estimates(plan: Plan, estimates: Sequence[Any]) -> None:
    from rich.text import Text

    from spgraph_bench.sweep.estimate import schedule
    from spgraph_bench.units import human_bytes, quantity

    target = console()
    drawn = table(target, "matrix", "problem", "cells", "refused", "time", "each", "host", "device")
    for column in drawn.columns[2:]:
        column.justify = "right"
    for each in estimates:
        refused = sum(map(len, each.refused.values()))
        running = len(each.block.cells) - refused
        texts = [
            each.block.input.name,
            each.block.title.replace(f" {each.block.input.name}", "", 1) if each.block.input.name else each.block.title,
            f"{len(each.block.cells):,}",
            "all" if each.error else f"{refused:,}" if each.looked else "?",
            _short(each.seconds),
            _short(each.seconds / max(1, running)),
            human_bytes(each.host_bytes),
            human_bytes(each.device_bytes),
        ]
        drawn.add_row(*(Text(text) for text in texts))
    target.print(drawn)
    reasons: dict[tuple[str, str], list[str]] = {}
    for each in estimates:
        if each.error:
            out(f"will not run: {each.block.title}: {each.error}")
        for why, keys in each.refused.items():
            skipped = ", ".join(dict.fromkeys(key.partition("/")[0] for key in keys))
            reasons.setdefault((skipped, why), []).append(each.block.title)
    for (names, why), titles in reasons.items():
        some = ", ".join(titles[:3]) + (f" and {len(titles) - 3} more" if len(titles) > 3 else "")
        out(f"will skip {names}: {' '.join(why.split())} ({some})")
    if any(not each.looked for each in estimates):
        note("?: the matrix is large and was not read; what its formats refuse shows when it is measured")
    total = schedule(estimates, 1)
    blocks = quantity(len(plan.blocks), "block")
    out(
        f"{quantity(plan.cells, 'cell')} in {blocks}; about {duration(total)} on one device, "
        f"{duration(schedule(estimates, 2))} on 2, {duration(schedule(estimates, 8))} on 8"
    )


def _short(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds < 10 else duration(seconds)
