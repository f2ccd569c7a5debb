"""`spgraph bfs [FILE|RECIPE]`: one search, its rate, its levels; and tuning it to a graph."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from spgraph_bench.cli.options import RunOptions, ids_option, input_options, matrix_argument, run_options
from spgraph_bench.cli.terminal import console, note
from spgraph_bench.cli.traversal import (
    ModeName,
    output_option,
    run_modes,
    source_options,
    source_settings,
    statuses,
)
from spgraph_bench.errors import NothingRanError, UsageError

if TYPE_CHECKING:
    from spgraph_bench.readers.common import ReadOptions
    from spgraph_bench.results.record import Record

__all__ = ["command"]


@click.command("bfs")
@matrix_argument
@click.option("--mode", type=ModeName("bfs"), default="auto", show_default=True, help="How to search.")
@source_options
@click.option("--trace", is_flag=True, help="Show every level of the search from the first source.")
@click.option(
    "--all-modes",
    is_flag=True,
    help="With --trace: the other modes too, from that source; which is fastest in each level.",
)
@click.option(
    "--parents", is_flag=True, help="Find a parent of every vertex too; checked by Graph500's rules."
)
@click.option(
    "--reorder",
    type=click.Choice(["none", "degree"]),
    default="none",
    show_default=True,
    help="Number the vertices by degree first; results are by the input's ids.",
)
@output_option
@ids_option
@click.option("--tune", is_flag=True, help="Try settings of --mode on this graph and keep the best for it.")
@run_options
@input_options
def command(
    argument: str | None,
    mode: str,
    sources: Mapping[str, Any],
    trace: bool,
    all_modes: bool,
    parents: bool,
    reorder: str,
    output: Path | None,
    ids: str,
    tune: bool,
    options: RunOptions,
    read_options: ReadOptions,
) -> int:
    """Search a graph breadth-first: an entry in row u, column v is an edge from u to v.

    Levels are checked against a plain search before anything is timed. Without a file or recipe a built-in
    recipe is used.

    \b
      spgraph bfs graph.mtx --source 1 --trace --output levels.csv
      spgraph bfs rmat:scale=20,symmetrize=1 --sources 64 --mode auto
      spgraph bfs grid:n=1000 --tune
    """  # fmt: skip
    from spgraph_bench.report.result import render_result
    from spgraph_bench.report.traversal import render_trace

    if all_modes and not trace:
        raise UsageError("--all-modes says which mode is fastest in each level", remedy="add --trace")
    if options.variants or options.formats:
        raise UsageError("--variant and --format choose among many", remedy="--mode, or `spgraph bench bfs`")
    for name in ("parents", "reorder"):
        if name in options.params:
            raise UsageError(f"--param {name} is an option of its own here", remedy=f"--{name}")
    params = {**options.params, "parents": int(parents), "reorder": reorder}
    if tune:
        if output is not None:
            raise UsageError("--tune tries settings: there is no one answer", remedy="leave out --output")
        return _tune(argument, mode, sources, params, options, read_options, ids)
    others: list[str] = []
    if all_modes:
        from spgraph_bench.variants import variants

        others = [v.name for v in variants("bfs") if v.kernel and v.name != mode]
    own = functools.partial(source_settings, sources)
    records: list[Record] = []
    try:
        run_modes(
            "bfs", argument, [mode], own, params, options, read_options,
            into=records, trace=trace, then=others, output=output, ids=ids,
        )  # fmt: skip
    finally:  # an interrupt ends with what is finished
        found = next((r for r in records if r.variant == mode), None)
        if found is not None and not options.json:
            out = console()
            click.echo(render_result(found, out.width, out.is_terminal), nl=False)
            if trace and found.check.get("ok"):
                # An interrupt may leave modes that were watched, but not timed.
                told = [r for r in records if r.check.get("ok") or r.status in ("wrong", "failed")]
                text = render_trace(found, out.width, out.is_terminal, [r for r in told if r is not found])
                click.echo(f"\n{text}", nl=False)
    return statuses(records)


_ALPHAS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
_BETAS = (6.0, 24.0, 100.0, 200.0, 400.0)
_SWEEPS: Mapping[str, Sequence[tuple[str, Sequence[Any]]]] = {
    "auto": (
        ("alpha", _ALPHAS), ("beta", _BETAS), ("small_vertices", (0, 64, 128, 256, 512, 1024)),
        ("small_edges", (512, 1024, 2048, 4096, 8192, 32768)), ("probes", (1, 2, 4, 8, 16)),
        ("shared_bitmap", (0, 1)),
    ),
    "direction": (("alpha", _ALPHAS), ("beta", _BETAS), ("probes", (1, 2, 4, 8, 16))),
    "one-block": (
        ("small_vertices", (0, 64, 128, 256, 512, 1024)),
        ("small_edges", (512, 1024, 2048, 4096, 8192, 32768)), ("shared_bitmap", (0, 1)),
    ),
    "balanced": (
        ("warp_from", (4, 8, 16, 32, 64)), ("block_from", (256, 512, 1024, 4096)),
        ("grid_from", (8192, 65536, 1 << 20)),
    ),
}  # fmt: skip


def _tune(
    argument: str | None, mode: str, sources: Mapping[str, Any], params: Mapping[str, Any],
    options: RunOptions, read_options: ReadOptions, ids: str,
) -> int:  # fmt: skip
    """One setting after another, each at its best before the next: the whole grid would take hours.

    An interrupt shows what was tried so far and keeps nothing: what comes later in the sweep may undo it.
    """
    from spgraph_bench.device.base import DeviceInfo
    from spgraph_bench.report.traversal import render_tuning
    from spgraph_bench.results.traversal import traversal
    from spgraph_bench.runner.tuned import save_tuned
    from spgraph_bench.variants import get_variant

    if mode not in _SWEEPS:
        raise UsageError(f"{mode} has nothing to tune", remedy=f"--mode {', '.join(_SWEEPS)}")
    from spgraph_bench.results.store import to_json_lines

    defaults = {name: get_variant("bfs", mode).tunables[name].default for name, _ in _SWEEPS[mode]}
    best: dict[str, Any] = {**defaults, **{k: v for k, v in options.params.items() if k in defaults}}
    tried: dict[tuple[Any, ...], tuple[dict[str, Any], float | None]] = {}
    kept: list[Record] = []

    def measure(measured: Callable[[Mapping[str, Any]], Record]) -> None:
        for name, values in _SWEEPS[mode]:
            for value in dict.fromkeys((best[name], *values)):  # what holds so far is in the running
                setting = {**best, name: value}
                key = tuple(setting.values())
                if key not in tried:
                    record = measured({**params, **setting})
                    kept.append(record)
                    tried[key] = (setting, traversal(record, "cold").mean)
            timed = [(ms, setting) for setting, ms in tried.values() if ms]
            if timed:
                best.update(min(timed, key=lambda pair: pair[0])[1])

    def show() -> None:
        if options.json:
            click.echo(to_json_lines(kept), nl=False)
        elif tried:
            out, rows = console(), list(tried.values())
            click.echo(render_tuning(mode, rows, out.width, out.is_terminal, defaults), nl=False)

    own = functools.partial(source_settings, sources)
    try:
        run_modes("bfs", argument, [mode], own, params, options, read_options, sweep=measure, ids=ids)
    except KeyboardInterrupt:
        show()
        note(f"nothing was kept, since tuning was interrupted: {mode} goes on with what it had")
        raise
    if not any(ms for _, ms in tried.values()):
        bad = next((r for r in kept if r.status in ("wrong", "failed")), None)
        if bad is not None:
            raise NothingRanError(f"no setting could be timed: {bad.reason}")
        raise NothingRanError(
            "nothing to tune by: kernels are timed on a GPU only",
            remedy="--device cuda, on a machine with one",
        )
    show()
    device = {k: v for k, v in kept[0].device.items() if k in DeviceInfo.__dataclass_fields__}
    path = save_tuned("bfs", str(kept[0].matrix["sha256"]), DeviceInfo(**device), mode, best)
    note(f"kept for this graph and GPU in {path}; {mode} takes it from now on")
    return statuses(kept)
