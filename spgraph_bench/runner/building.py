"""Compile: what is not in the cache, in parallel."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence

from spgraph_bench.device.base import DeviceInfo
from spgraph_bench.errors import SpgraphError
from spgraph_bench.runner import guard
from spgraph_bench.runner.plan import Cell, Task
from spgraph_bench.runner.prepare import defines_for, filled_params
from spgraph_bench.runner.rehearsal import rehearsed
from spgraph_bench.toolchain.modules import Request, build_all
from spgraph_bench.validate import kernels
from spgraph_bench.variants.base import Variant

__all__ = ["build"]

_MEASURING = ("measure/clock.cu", guard.SOURCE)
"""Kernels that every run on a GPU needs."""

_Key = tuple[str, tuple[tuple[str, str], ...]]
"""Source and macros of a module; an empty source for what every run needs."""

_built: set[tuple[str, str, _Key]] = set()
"""Device, architecture and key of what was built in this process: the next matrix of a sweep need not read the sources
again to learn that it is there."""


def build(
    cells: Sequence[Cell],
    variants: Mapping[str, Variant],
    task: Task,
    info: DeviceInfo,
    progress: Callable[[str], None],
) -> None:
    """Compile the kernels that `cells` will most likely take, before a worker prepares them.

    A failure is not an error here: the worker compiles it again, and reports it. Raises SpgraphError for kernels that
    every run needs.
    """
    wanted: dict[_Key, Request] = {}
    for name, dtype in dict.fromkeys((cell.variant, cell.dtype) for cell in cells):
        variant = variants[name]
        if variant.source is None or dtype not in variant.dtypes:
            continue
        for source, defines in _ahead(variant, dtype, task, info):
            key = source, tuple(sorted(defines.items()))
            if key not in wanted and (info.kind, info.arch, key) not in _built:
                with contextlib.suppress(SpgraphError):
                    wanted[key] = _request(source, defines, info)
    requests = list(wanted.items())
    if info.kind == "cuda":
        dtypes = dict.fromkeys(cell.dtype for cell in cells)
        requests += [(("", ((request.label, ""),)), request) for request in _common(task.problem, dtypes, info)]
    results = build_all(
        [request for _, request in requests],
        progress=lambda done, total, label: progress(f"compiling {done} of {total}: {label}"),
    )
    for (key, _), result in zip(requests, results, strict=True):
        if not isinstance(result, SpgraphError):
            _built.add((info.kind, info.arch, key))
        elif not key[0]:
            raise result


def _ahead(variant: Variant, dtype: str, task: Task, info: DeviceInfo) -> list[tuple[str, dict[str, str]]]:
    """What `variant` will most likely compile: source and -D of each module."""
    if variant.format != "none" and variant.prepare.__module__.startswith("spgraph_bench."):
        return [(module.source, dict(module.defines)) for module in rehearsed(variant, dtype, task, info)]
    # Host functions of plug-ins are for a worker, and inputs of problems without a matrix take long to make. A tunable
    # that a host function decides is left to the worker.
    params = filled_params(variant, task.params_of(variant.name))
    values = {t.macro: params[name] for name, t in variant.tunables.items() if t.macro}
    if variant.source is None or "auto" in values.values():
        return []
    return [(variant.source, defines_for(dtype, task.offsets) | {macro: str(value) for macro, value in values.items()})]


def _request(source: str, defines: Mapping[str, str], info: DeviceInfo) -> Request:
    if info.kind == "cuda":
        from spgraph_bench.toolchain.nvcc import cubin_request

        return cubin_request(source, defines, info.arch)
    from spgraph_bench.device.host_compiler import module_request

    return module_request(source, dict(defines))


def _common(problem: str, dtypes: Sequence[str] | Mapping[str, None], info: DeviceInfo) -> list[Request]:
    """Kernels that measure, and that validate answers on a GPU, each once."""
    measuring = [_request(source, {}, info) for source in _MEASURING]
    validating: dict[tuple[object, ...], Request] = {}
    for dtype in dtypes:
        for source, defines in kernels(problem, dtype):
            validating[source, *defines.items()] = _request(source, defines, info)
    return [*measuring, *validating.values()]
