"""Claims about launches, child launches, and the CPU."""

from __future__ import annotations

from spgraph_bench.claims.base import Evidence, Figure, NotMeasuredError, Run, Verdict, claim, factor, over
from spgraph_bench.results.launch import costs

__all__: list[str] = []

_LAUNCH = Run("launch", ("host-loop", "host-readback", "graph", "one-block"), options={"items": 16384})


def _cost(e: Evidence, variant: str) -> float:
    last = costs(e.record(0, variant)).last
    if last is None:
        raise NotMeasuredError(f"{variant} was not timed")
    return last


@claim(
    "levels-launches",
    text="A search of 10,000 levels costs 50 to 100 ms in launches alone.",
    taught="chapters on graph search and on dynamic parallelism",
    runs=[_LAUNCH],
)
def levels_launches(e: Evidence) -> Verdict:
    """10,000 launches by the host, without and with a value read back after each."""
    loop = Figure("10,000 launches by the host", 10 * _cost(e, "host-loop"), unit="ms")
    back = Figure("10,000 launches with a read-back after each", 10 * _cost(e, "host-readback"), unit="ms")
    block = Figure("10,000 levels by one block, without launches", 10 * _cost(e, "one-block"), unit="ms")
    figures = (loop, back, block)
    if 50 <= loop.value <= 100 and back.value <= 125:
        return Verdict("holds", "with and without a read-back", figures)
    if 50 <= loop.value <= 100:
        why = f"the host reads nothing back; a search reads a counter after each level: {back.value:.0f} ms"
        return Verdict("holds if", why, figures)
    return Verdict(
        "does not", f"launches alone cost {loop.value:.0f} ms, with a read-back {back.value:.0f} ms", figures
    )


@claim(
    "child-launches",
    text="Child launches pay above so much work for each child, and below that they cost more than they save.",
    taught="chapters on dynamic parallelism",
    runs=[Run("launch", ("fire-and-forget", "inline"), options={"items": 16384})],
)
def child_launches(e: Evidence) -> Verdict:
    """The break-even that was measured, by the number of children at a time."""
    record = next((r for records in e.runs for r in records if r.break_even), None)
    if record is None:
        raise NotMeasuredError("from where child launches pay was not measured")
    e.used.append(record)
    figures = tuple(
        Figure(f"work of a child, {int(b['children']):,} at a time", b["us"], b.get("low_us"), b.get("high_us"), "us")
        for b in record.break_even
    )
    first, last = figures[0], figures[-1]
    if last.value > 2 * first.value:
        why = (
            f"the number of children is named with it: one pays from {factor(first.value, 3)} us of work of a thread, "
            f"{int(record.break_even[-1]['children']):,} at a time from {factor(last.value, 3)} us each"
        )
        return Verdict("holds if", why, figures)
    return Verdict("holds", f"from {factor(first.value, 3)} us of work of a thread", figures)


@claim(
    "adaptive-curves",
    text="Adaptive tessellation of Bezier curves needs a fifth of the points.",
    taught="the dynamic parallelism example of textbooks and of NVIDIA's guides",
    runs=[
        Run("bezier", ("uniform", "flattened"), small_options={"curves": 1000}),
        Run(
            "bezier",
            ("uniform", "flattened"),
            options={"curves": 1000, "straight": 0, "bent": 100},
            small_options={"curves": 1000, "straight": 0, "bent": 100},
        ),
    ],
    counted=True,
)
def adaptive_curves(e: Evidence) -> Verdict:
    """Points of 256 for each curve over those that curves need, with few bent curves and with bent ones only."""

    def saved(run: int, what: str) -> Figure:
        whole, own = (float(e.record(run, name).facts["points"]) for name in ("uniform", "flattened"))
        return over(f"points, uniform over adaptive, {what}", Figure("", whole), Figure("", own))

    mixed = saved(0, "30 % of the curves bent")
    try:
        bent = saved(1, "all bent")
    except NotMeasuredError:
        return Verdict("holds if" if mixed.value >= 4 else "does not", "most curves are straight", (mixed,))
    if mixed.value >= 4 and bent.value >= 4:
        return Verdict("holds", "whatever the curves", (mixed, bent))
    if mixed.value >= 4:
        why = (
            f"most curves are nearly straight ({factor(mixed.value)} times fewer points); of bent ones it is "
            f"{factor(bent.value)} times"
        )
        return Verdict("holds if", why, (mixed, bent))
    return Verdict("does not", f"{factor(mixed.value)} times fewer", (mixed, bent))


@claim(
    "gpu-cpu",
    text="A GPU is 5 to 30 times as fast as a CPU on sparse and graph problems.",
    taught="introductions to GPU computing",
    runs=[
        Run(
            "spmv", ("csr-*", "sell", "dia", "hyb", "mkl*", "scipy"), "poisson2d:n=2048,values=random", dtype="float32"
        ),
        Run("bfs", ("auto", "graphblas", "scipy"), "rmat:scale=20,symmetrize=1,values=none", options={"sources": 1}),
    ],
)
def gpu_cpu(e: Evidence) -> Verdict:
    """The best kernel against the best CPU library that is there, on all cores where that is MKL or GraphBLAS."""
    figures: list[Figure] = []
    cores: list[bool] = []
    for run, problem in ((0, "spmv"), (1, "bfs")):
        try:
            own = [r.variant for r in e.records(run, "*") if r.where == "gpu" and r.library is None]
            name, gpu = e.fastest(run, *own)
            library, cpu = e.fastest(run, "mkl*", "graphblas", "scipy")
        except NotMeasuredError:
            continue
        figures.append(over(f"{problem}: {library} on the CPU over {name}", cpu, gpu))
        cores.append(library != "scipy")
    if not figures:
        raise NotMeasuredError("no CPU library was timed beside a kernel")
    low, high = min(f.least for f in figures), max(f.most for f in figures)
    one = "" if all(cores) else " (scipy uses one core: install the extra `reference` for libraries on all cores)"
    if low >= 5 and high <= 30:
        return Verdict("holds", f"{factor(low)} to {factor(high)} times{one}", tuple(figures))
    if high >= 5 and low <= 30:
        return Verdict(
            "holds if", f"the problem fits: it is {factor(low)} to {factor(high)} times{one}", tuple(figures)
        )
    return Verdict("does not", f"it is {factor(low)} to {factor(high)} times{one}", tuple(figures))
