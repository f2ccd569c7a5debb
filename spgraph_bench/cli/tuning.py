"""`spgraph bfs --tune`: settings of a mode tried on one graph, the best kept for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from spgraph_bench.cli.running import Request, exit_status, opened
from spgraph_bench.cli.terminal import console, note
from spgraph_bench.errors import NothingRanError, UsageError

if TYPE_CHECKING:
    from spgraph_bench.results.record import Record

__all__ = ["tune"]

_ALPHAS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
_BETAS = (6.0, 24.0, 100.0, 200.0, 400.0)
_EDGES = (512, 1024, 2048, 4096, 8192, 32768)
_SWEEPS: Mapping[str, Sequence[tuple[str, Sequence[Any]]]] = {
    "auto": (
        ("alpha", _ALPHAS),
        ("beta", (*_BETAS, 1e4, 1e5)),
        ("small_vertices", (0, 64, 128, 256, 512, 1024)),
        ("small_edges", (16, 128, *_EDGES)),
        ("probes", (1, 2, 4, 8, 16)),
        ("shared_bitmap", (0, 1)),
    ),
    "direction": (("alpha", _ALPHAS), ("beta", _BETAS), ("probes", (1, 2, 4, 8, 16))),
    "one-block": (("small_vertices", (0, 64, 128, 256, 512, 1024)), ("small_edges", _EDGES), ("shared_bitmap", (0, 1))),
    "balanced": (
        ("warp_from", (4, 8, 16, 32, 64)),
        ("block_from", (256, 512, 1024, 4096)),
        ("grid_from", (8192, 65536, 1 << 20)),
    ),
}


def tune(request: Request, params: Mapping[str, Any]) -> int:
    """One setting after another of the one variant, each at its best before the next: the whole grid would take
    hours. The exit status.

    The first run is checked against plain searches as far as asked for, later ones are validated only. An
    interrupt shows what was tried so far and keeps nothing: what comes later in the sweep may undo it.
    """
    from spgraph_bench.device.base import DeviceInfo
    from spgraph_bench.report.traversal_table import render_tuning
    from spgraph_bench.results.cases import traversal
    from spgraph_bench.results.store import to_json_lines
    from spgraph_bench.results.tidy import derived
    from spgraph_bench.runner.tuned import save_tuned

    (variant,) = request.variants
    mode, options = variant.name, request.options
    if mode not in _SWEEPS:
        raise UsageError(f"{mode} has nothing to tune", remedy=f"--mode {', '.join(_SWEEPS)}")
    defaults = {name: variant.tunables[name].default for name, _ in _SWEEPS[mode]}
    best: dict[str, Any] = {**defaults, **{k: v for k, v in options.params.items() if k in defaults}}
    tried: dict[tuple[Any, ...], tuple[dict[str, Any], float | None]] = {}
    records: list[Record] = []

    def sweep() -> None:
        with opened(request) as bench:
            for name, values in _SWEEPS[mode]:
                for value in dict.fromkeys((best[name], *values)):  # what holds so far is in the running
                    setting = {**best, name: value}
                    key = tuple(setting.values())
                    if key not in tried:
                        own = {**bench.own, "check_seconds": 0} if records else bench.own
                        record = bench.run([variant], {**params, **setting}, options=own, echo=False)
                        assert record is not None
                        records.append(record)
                        tried[key] = (setting, traversal(record, "cold").mean)
                timed = [(ms, setting) for setting, ms in tried.values() if ms]
                if timed:
                    best.update(min(timed, key=lambda pair: pair[0])[1])

    def show() -> None:
        if options.json:
            click.echo(to_json_lines(records, derived(records)), nl=False)
        elif tried:
            out, rows = console(), list(tried.values())
            click.echo(render_tuning(mode, rows, out.width, out.is_terminal, defaults), nl=False)

    try:
        sweep()
    except KeyboardInterrupt:
        show()
        note(f"tuning was interrupted and nothing saved: {mode} keeps its old settings")
        raise
    if not any(ms for _, ms in tried.values()):
        bad = next((r for r in records if r.status in ("wrong", "failed")), None)
        if bad is not None:
            raise NothingRanError(f"no setting could be timed: {bad.reason}")
        raise NothingRanError(
            "nothing to tune by: kernels are timed on a GPU only", remedy="--device cuda, on a machine with one"
        )
    show()
    device = {k: v for k, v in records[0].device.items() if k in DeviceInfo.__dataclass_fields__}
    path = save_tuned(request.problem.name, str(records[0].matrix["sha256"]), DeviceInfo(**device), mode, best)
    note(f"saved for this graph and GPU in {path}; {mode} uses it from now on")
    return exit_status(records)
