"""`spgraph profile VARIANT FILE|RECIPE`: a kernel's source with what each line asks memory for."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from spgraph_bench.cli import completing
from spgraph_bench.cli.inputs import load_matrix, warn_of_findings
from spgraph_bench.cli.options import input_options, json_option, matrix_argument
from spgraph_bench.cli.terminal import note, out, out_json
from spgraph_bench.errors import SkipError, UsageError
from spgraph_bench.paths import cuda_dir

if TYPE_CHECKING:
    from spgraph_bench.device.trace import Counts, KernelTrace
    from spgraph_bench.matrix import Matrix
    from spgraph_bench.measure.ncu import Measured
    from spgraph_bench.readers.common import ReadOptions
    from spgraph_bench.variants.base import Variant

__all__ = ["command"]

_RECIPE = "uniform:n=20000,degree=8"
_LARGE = 20_000_000
"""Nonzeros from which the trace takes minutes."""
_NEAR = 2
"""Lines shown before and after one that has numbers."""

_LEGEND = """\
requests  memory instructions, one per warp
sectors   32-byte sectors moved per request; in shared memory, passes over its banks
ideal     fewest sectors (passes) for the same bytes
lanes     active lanes, of 32
L1 L2     hit rate in percent, from a model of the caches: not a measurement
meet      lanes of a request at one address (atomics)"""


def _row(what: str, c: Counts) -> str:
    if what.startswith("shared"):
        sectors, ideal = c.passes / c.requests, c.ideal_passes / c.requests
        hits = f"{'':>5}{'':>5}"
    else:
        sectors, ideal = c.sectors_per_request, c.ideal_per_request
        behind = c.sectors - c.l1_hits
        l1, l2 = 100 * c.l1_hits / c.sectors, 100 * c.l2_hits / behind if behind else math.nan
        hits = f"{l1:5.0f}" + (f"{l2:5.0f}" if behind else "    -")
    meet = f"{c.lanes_per_address:6.1f}" if what.endswith("atomic") else f"{'':>6}"
    return f"{c.requests:>12,}{sectors:8.1f}{ideal:7.1f}{c.lanes_per_request:7.1f}{hits}{meet}  {what:<13}"


_HEAD = f"{'requests':>12}{'sectors':>8}{'ideal':>7}{'lanes':>7}{'L1':>5}{'L2':>5}{'meet':>6}  {'':<13}"


def _source(file: str) -> list[str]:
    try:
        return (cuda_dir() / file).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []


def _listing(kernel: KernelTrace) -> list[str]:
    """The source around every line that has numbers, with those before it."""
    by_file: dict[str, dict[int, list[tuple[str, Counts]]]] = {}
    for ((file, line), what), counts in sorted(kernel.lines.items()):
        by_file.setdefault(file, {}).setdefault(line, []).append((what, counts))
    # The kernel's own file first.
    lines: list[str] = []
    for file in sorted(by_file, key=lambda f: (not f.endswith(".cu"), f)):
        numbered, source = by_file[file], _source(file)
        lines += ["", file, f"{_HEAD} | line"]
        shown = sorted({n for center in numbered for n in range(center - _NEAR, center + _NEAR + 1)})
        before = None
        for n in shown:
            text = source[n - 1] if 1 <= n <= len(source) else ""
            if n not in numbered and not text.strip():
                continue
            if before is not None and n > before + 1:
                lines.append(f"{'':>{len(_HEAD)}} | ...")
            before = n
            rows = [_row(what, c) for what, c in numbered.get(n, ())] or [" " * len(_HEAD)]
            lines.append(f"{rows[0]} | {n:>4}  {text}".rstrip())
            lines += [f"{row} |" for row in rows[1:]]
    return lines


def _beside(kernels: Sequence[KernelTrace], measured: Mapping[str, Measured]) -> list[str]:
    lines = [
        "",
        "loads of global memory, modelled and measured (ncu)",
        f"{'kernel':<24}{'sectors/request':>26}{'L1 hits %':>20}{'L2 hits %':>20}",
    ]
    for k in kernels:
        loads, real = k.total("load"), measured.get(k.name)
        if real is None or not loads.requests:
            continue
        behind = loads.sectors - loads.l1_hits
        l1, l2 = 100 * loads.l1_hits / loads.sectors, 100 * loads.l2_hits / behind if behind else math.nan
        lines.append(
            f"{k.name:<24}{loads.sectors_per_request:>13.2f}{real.sectors_per_request:>13.2f}"
            f"{l1:>10.0f}{real.l1_hit:>10.0f}{l2:>10.0f}{real.l2_hit:>10.0f}"
        )
    return lines


def _measured(chosen: Variant, argument: str, dtype: str, kernels: Sequence[KernelTrace]) -> Mapping[str, Measured]:
    from spgraph_bench.measure import ncu

    if argument == "-":
        raise UsageError("standard input cannot be read a second time, under ncu", remedy="give a file")
    note("counting under ncu ...")
    launches = sum(k.launches for k in kernels)
    return ncu.measure(chosen.problem, argument, chosen.name, dtype, launches)


def _wanted(measured: bool | None) -> bool:
    if measured is not None:
        return measured
    from spgraph_bench.device.probe import find_driver
    from spgraph_bench.measure import ncu

    driver = find_driver() if ncu.available() else None
    return bool(driver and driver.gpus)


@click.command("profile")
@click.argument("variant", shell_complete=completing.variants)
@matrix_argument
@click.option(
    "--problem",
    metavar="NAME",
    shell_complete=completing.problems,
    help="Problem of the variant, if several problems have one of this name.",
)
@click.option("--dtype", metavar="TYPE", help="Type of the values  [default: the problem's first]")
@click.option(
    "--measured/--no-measured", default=None, help="Count on the GPU too, under ncu  [default: where there are both]"
)
@json_option
@input_options
def command(
    variant: str,
    argument: str | None,
    problem: str | None,
    dtype: str | None,
    measured: bool | None,
    as_json: bool,
    read_options: ReadOptions,
) -> None:
    """What each line of a kernel asks memory for, from a trace on the host device: no GPU is needed.

    Sectors, lanes, bank conflicts and atomics are counted from the accesses of every thread. Hits in L1 and L2
    are those of a model. At the end: what costs most, and a variant that avoids it, traced on the same matrix.
    """
    from spgraph_bench.cli.show import find_variant
    from spgraph_bench.runner.tracing import advise, trace_variant

    chosen = find_variant(variant, problem)
    matrix = load_matrix(argument, read_options, _RECIPE)
    warn_of_findings(matrix)
    if matrix.csr.nnz > _LARGE:
        note(f"{matrix.csr.nnz:,} nonzeros: the trace will take minutes; a smaller matrix shows the same")
    try:
        kernels = trace_variant(chosen, matrix, dtype, seed=read_options.seed)
    except SkipError as reason:
        raise UsageError(f"{chosen.name} cannot run on this: {reason}", remedy="another variant") from None
    value = dtype or _first_dtype(chosen)
    advice = advise(chosen, kernels, matrix, dtype, seed=read_options.seed)
    real = _measured(chosen, argument or _RECIPE, value, kernels) if _wanted(measured) else {}
    if as_json:
        out_json(_as_data(chosen, matrix, value, kernels, advice, real))
        return
    title = f"{chosen.problem} {chosen.name} on {matrix.name}, {value}"
    out(f"{title}\n\n{_LEGEND}")
    for k in kernels:
        some = f" ({k.traced:,} traced, counts scaled)" if k.traced < k.blocks else ""
        out(f"\nkernel {k.name}: launches {k.launches:,}, blocks {k.blocks:,}{some}, warps {k.warps:,}")
        for line in _listing(k):
            out(line)
        for what in ("load", "store", "atomic", "shared load", "shared store", "shared atomic"):
            if (total := k.total(what)).requests:
                out(f"{_row(what, total)} | all")
    for line in _beside(kernels, real) if real else ():
        out(line)
    out(f"\n{advice.words}")
    if advice.instead:
        out(f"{advice.instead} avoids it: {advice.evidence}.")


def _first_dtype(chosen: Variant) -> str:
    from spgraph_bench.problems import get_problem

    return get_problem(chosen.problem).dtypes[0]


def _as_data(
    chosen: Variant,
    matrix: Matrix,
    dtype: str,
    kernels: Sequence[KernelTrace],
    advice: Any,
    real: Mapping[str, Measured],
) -> dict[str, Any]:
    return {
        "problem": chosen.problem,
        "variant": chosen.name,
        "matrix": matrix.name,
        "dtype": dtype,
        "kernels": [
            {
                "name": k.name,
                "launches": k.launches,
                "blocks": k.blocks,
                "warps": k.warps,
                "threads": k.threads,
                "lines": [
                    {"file": Path(file).as_posix(), "line": line, "what": what, **asdict(counts)}
                    for ((file, line), what), counts in sorted(k.lines.items())
                ],
                "loads": asdict(k.total("load")),
                "measured": asdict(real[k.name]) if k.name in real else None,
            }
            for k in kernels
        ],
        "advice": asdict(advice),
    }
