"""A variant under the memory trace of the host device: what its kernels ask memory for, and what that costs."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from spgraph_bench.device.host import HostDevice
from spgraph_bench.device.trace import Counts, KernelTrace, Key, added
from spgraph_bench.errors import SkipError, SpgraphError, UsageError
from spgraph_bench.formats.base import get_format
from spgraph_bench.matrix import Matrix
from spgraph_bench.problems import filled_options, get_problem
from spgraph_bench.problems.sources import pattern_is_symmetric
from spgraph_bench.runner.assembly import placed_errors
from spgraph_bench.runner.prepare import prepare
from spgraph_bench.stats import row_stats
from spgraph_bench.variants.base import Variant, variants

__all__ = ["Advice", "advise", "trace_variant"]

_WARP = 32


def trace_variant(variant: Variant, matrix: Matrix, dtype: str | None = None, *, seed: int = 1) -> list[KernelTrace]:
    """Run `variant` once on `matrix` under the trace; of a search the first case.

    Parameters
    ----------
    dtype : of the values; None: the problem's first.
    seed : of the inputs (x, sources).

    Raises UsageError for what has no kernel or no matrix, SkipError where the format or variant refuses, and
    what compiling and launching raise.
    """
    problem = get_problem(variant.problem)
    if variant.where != "gpu" or variant.source is None:
        raise UsageError(f"{variant.name} has no kernel of its own", remedy="profile one of spgraph's kernels")
    if not problem.needs_matrix:
        raise UsageError(
            f"{variant.name} is of {variant.problem}, which has no matrix",
            remedy="profile a variant of a problem on a matrix (spmv, spmm, bfs, ...)",
        )
    named = dtype or problem.dtypes[0]
    if named not in variant.dtypes:
        raise UsageError(f"{variant.name} has no {named}", remedy=f"take {' or '.join(variant.dtypes)}")
    value = np.dtype(named)
    device = HostDevice(traced=True)
    if variant.missing and (why := variant.missing(device)):
        raise SkipError(why)
    if problem.is_graph:
        matrix = matrix.with_symmetry(pattern_is_symmetric(matrix))
    csr = matrix.csr
    form = get_format(variant.format)
    if refused := form.refuse(row_stats(csr), device.free_bytes(), value.itemsize):
        raise SkipError(str(refused))
    options = filled_options(problem, {})
    with placed_errors(matrix.source):
        inputs = problem.inputs(matrix, value, seed, **options)
    packed = form.pack(csr, value, np.dtype("int32"))
    outputs = problem.output_arrays(matrix, value)
    launch = prepare(device, variant, packed, inputs, outputs, options=options).launch
    if problem.has_cases:
        launch.select(0)
    launch.reset()
    device.synchronize()
    device.reset_trace()
    launch.run()
    device.synchronize()
    return device.trace()


# ---- what costs ------------------------------------------------------------------------------------------

_CANDIDATES: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("spmv", "scattered"): ("csr-vector", "csr-subwarp", "sell", "csr-adaptive"),
    ("spmv", "idle"): ("csr-subwarp", "csr-adaptive", "jds"),
    ("spmv", "atomics"): ("coo-segmented", "csr-adaptive"),
    ("bfs", "scattered"): ("balanced", "edge-balanced"),
    ("bfs", "idle"): ("balanced", "edge-balanced"),
    ("bfs", "atomics"): ("frontier-private", "frontier-warp"),
    ("pagerank", "scattered"): ("pull", "pull-hubs"),
    ("pagerank", "atomics"): ("pull", "pull-hubs"),
    ("pagerank", "idle"): ("pull", "pull-hubs"),
}


@dataclass(frozen=True)
class Advice:
    """What costs most (`cause`: "scattered", "idle", "atomics", "banks", or "" for nothing), in words, and a variant
    that avoids it with what it was seen to do, also in words."""

    cause: str
    words: str
    instead: str | None = None
    evidence: str = ""


def _by_line(kernels: Sequence[KernelTrace], *kinds: str) -> dict[Key, Counts]:
    return {key: c for k in kernels for key, c in k.lines.items() if key[1] in kinds}


def _moved(kernels: Sequence[KernelTrace]) -> Counts:
    return added(_by_line(kernels, "load", "store").values())


def _scattered(moved: Counts, sectors: float, place: tuple[str, int], worst: Counts) -> tuple[float, Advice]:
    share = (moved.sectors - moved.ideal) / sectors
    words = (
        f"Scattered accesses cost most: {place[0]}:{place[1]} moves {worst.sectors_per_request:.1f} sectors a "
        f"request where {worst.ideal_per_request:.1f} could hold what is asked for, since neighbouring lanes ask "
        f"for addresses that are apart. Of all sectors moved, {share:.0%} are not needed."
    )
    return share, Advice("scattered", words)


def _idle(moved: Counts) -> tuple[float, Advice]:
    words = (
        f"Idle lanes cost most: {moved.lanes_per_request:.1f} of {_WARP} lanes take part in an access, the others "
        f"wait or have no work."
    )
    return 0.8 * (1 - moved.lanes / (_WARP * moved.requests)), Advice("idle", words)


def _crowded(moved: Counts, atomics: Counts) -> tuple[float, Advice]:
    crowd = atomics.lanes_per_address
    turns = atomics.lanes if crowd > 1.5 else atomics.requests  # lanes at one address take turns
    meet = "most at addresses of their own"
    if crowd > 1.5:
        meet = (
            f"on average {crowd:.1f} lanes of a warp meet at one address, at most {atomics.most}, and those are done "
            f"one after another"
        )
    return turns / (moved.requests + turns), Advice("atomics", f"Atomics cost most: {atomics.lanes:,} in all; {meet}.")


def _conflicting(moved: Counts, shared: Counts) -> tuple[float, Advice]:
    times = shared.passes / shared.ideal_passes
    words = (
        f"Bank conflicts cost most: an access to shared memory takes {times:.1f} times the passes it would take if "
        f"lanes asked for different banks."
    )
    return (shared.passes - shared.ideal_passes) / (shared.passes + moved.requests), Advice("banks", words)


def _worst(kernels: Sequence[KernelTrace]) -> Advice:
    moved, loads = _moved(kernels), _by_line(kernels, "load", "store")
    atomics = added(_by_line(kernels, "atomic").values())
    shared = added(_by_line(kernels, "shared load", "shared store").values())
    sectors = moved.sectors + atomics.sectors
    if not sectors:
        return Advice("", "It touches no global memory.")
    causes: list[tuple[float, Advice]] = []
    if loads:
        (place, _), worst = max(loads.items(), key=lambda item: item[1].sectors - item[1].ideal)
        causes += [_scattered(moved, sectors, place, worst), _idle(moved)]
    if atomics.requests:
        causes.append(_crowded(moved, atomics))
    if shared.ideal_passes:
        causes.append(_conflicting(moved, shared))
    weight, advice = max(causes, key=lambda c: c[0])
    if weight >= 0.2:
        return advice
    words = (
        f"Nothing stands out: {moved.sectors_per_request:.1f} sectors a request where {moved.ideal_per_request:.1f} "
        f"would do, {moved.lanes_per_request:.1f} of {_WARP} lanes. What remains is the number of bytes."
    )
    return Advice("", words)


def _measure(cause: str, kernels: Sequence[KernelTrace]) -> float:
    """What to have less of."""
    moved = _moved(kernels)
    if cause == "idle":
        return _WARP - moved.lanes_per_request
    if cause == "atomics":
        return added(_by_line(kernels, "atomic").values()).lanes
    if cause == "banks":
        shared = added(_by_line(kernels, "shared load", "shared store").values())
        return shared.passes - shared.ideal_passes
    return moved.sectors - moved.ideal


def advise(
    variant: Variant, kernels: Sequence[KernelTrace], matrix: Matrix, dtype: str | None = None, *, seed: int = 1
) -> Advice:
    """What costs most in `kernels`, the trace of `variant` on `matrix`, and which variant avoids it.

    Candidates are traced on the same matrix: what is reported of them was observed.
    """
    advice = _worst(kernels)
    if not advice.cause:
        return advice
    known = {v.name: v for v in variants(variant.problem) if v.where == "gpu" and v.source and v.name != variant.name}
    names = _CANDIDATES.get((variant.problem, advice.cause), tuple(known)[:4])
    before, sectors = _measure(advice.cause, kernels), _moved(kernels).sectors
    best: tuple[float, str, list[KernelTrace]] | None = None
    for name in names:
        if name not in known:
            continue
        try:
            traced = trace_variant(known[name], matrix, dtype, seed=seed)
        except SpgraphError:  # a format that refuses, a type that is not there
            continue
        now = _measure(advice.cause, traced)
        if now < 0.8 * before and _moved(traced).sectors < 1.1 * sectors:
            cost = _moved(traced).sectors
            if best is None or cost < best[0]:
                best = (cost, name, traced)
    if best is None:
        return advice
    moved = _moved(best[2])
    if advice.cause == "atomics":
        evidence = f"{added(_by_line(best[2], 'atomic').values()).lanes:,} atomics"
    else:
        evidence = f"{moved.lanes_per_request:.1f} lanes an access"
    return dataclasses.replace(
        advice,
        instead=best[1],
        evidence=f"{evidence}, {moved.sectors:,} sectors in place of {sectors:,} on this matrix",
    )
