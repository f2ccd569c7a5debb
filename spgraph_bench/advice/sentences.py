"""The answer in three sentences: what to take; what it gains; what it costs and when that has paid off.

An :class:`Answer` comes from predictions (:func:`of_choice`, :func:`of_graph_choice`) or from the records of a run
(:func:`of_records`, :func:`of_graph_records`); :func:`sentences` says either in the same way.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from spgraph_bench.advice.graphs import BASELINE, DEFAULT, RULES, GraphChoice, GraphFacts, Mode
from spgraph_bench.advice.graphs import MARGIN as MODE_MARGIN
from spgraph_bench.advice.spmv import MARGIN, Choice, Prediction, stored_bytes
from spgraph_bench.results.cases import compare_traversals
from spgraph_bench.results.interval import Interval
from spgraph_bench.results.record import Record
from spgraph_bench.results.statistics import SETUP, Ratio, compare, ratio
from spgraph_bench.units import human_bytes, quantity

__all__ = ["Answer", "Way", "of_choice", "of_graph_choice", "of_graph_records", "of_records", "sentences", "timed"]


_UNITS = {"bfs": "a search", "pagerank": "an iteration"}


@dataclass(frozen=True)
class Way:
    """A variant with what is known of it."""

    variant: str
    format: str
    ms: float
    setup_ms: float
    stored_bytes: int | None


@dataclass(frozen=True)
class Answer:
    """What to take, and what it is held against."""

    problem: str
    unit: str
    """What is timed: "a product", "a search", "an iteration"."""
    take: Way
    baseline: Way | None
    """The best kernel of plain CSR, or a plain mode; None where there is none. `take` itself: stay with it."""
    gain: Ratio | None
    """Time of the baseline over that of `take`; with an interval where both were measured."""
    pays_after: float | None
    """Runs until the setup is paid back; inf: never; None without a baseline."""
    other: Way | None = None
    """The best of what was not taken in another format, where `take` is the baseline."""
    measured_on: str = ""
    """Name of the GPU; empty: predicted."""
    predicted_for: str = ""
    limit: str = ""
    about: str = ""
    """What the graph is like."""
    sooner: Way | None = None
    """The fastest in another format whose setup is paid back far sooner than that of `take`."""

    @property
    def stays(self) -> bool:
        """Whether the advice is to stay with the baseline."""
        return self.baseline is not None and self.take.variant == self.baseline.variant


def _way(p: Prediction) -> Way:
    assert p.ms is not None
    return Way(p.variant, p.format, p.ms, p.setup_ms, p.stored_bytes)


def _pays(take: Way, baseline: Way) -> float:
    """As :func:`spgraph_bench.results.statistics.break_even`."""
    extra, gained = take.setup_ms - baseline.setup_ms, baseline.ms - take.ms
    if gained <= 0:
        return math.inf
    return 0 if extra <= 0 else math.ceil(extra / gained)


def _sooner(take: Way, baseline: Way | None, ranked: Iterable[Way]) -> Way | None:
    """The first of `ranked` in another format that gains more than MARGIN over the baseline, too, after a tenth of the
    runs or fewer; None where there is none, or the setup of `take` is never paid back."""
    if baseline is None or take.variant == baseline.variant or not math.isfinite(pays := _pays(take, baseline)):
        return None
    return next(
        (
            way
            for way in ranked
            if way.format != "csr"
            and (1 + MARGIN) * way.ms < baseline.ms
            and _pays(way, baseline) < pays / 10
            and math.isfinite(_pays(take, way))
        ),
        None,
    )


def of_choice(choice: Choice, gpu: str, problem: str = "spmv") -> Answer:
    """The answer that predictions of SpMV or SpMM give."""
    take, csr = _way(choice.best), None if choice.csr is None else _way(choice.csr)
    other = next((p for p in choice.ranked if p.format != "csr"), None)
    return Answer(
        problem,
        "a product",
        take,
        csr,
        None if csr is None else Ratio(csr.ms / take.ms, csr.ms / take.ms, csr.ms / take.ms),
        None if csr is None else _pays(take, csr),
        None if other is None else _way(other),
        predicted_for=gpu,
        limit=choice.best.limit,
        sooner=_sooner(take, csr, map(_way, choice.ranked)),
    )


def of_records(records: Sequence[Record], gpu: str) -> Answer | None:
    """The answer that the records of one run of SpMV or SpMM give; None where nothing was timed. CSR stays unless the
    fastest is clearly faster, and by more than MARGIN."""
    ways = timed(records)
    if not ways:
        return None
    (take, mine), csr = ways[0], next((pair for pair in ways if pair[0].format == "csr"), None)
    other = next((way for way, _ in ways if way.format != "csr"), None)
    gain = None
    if csr is not None:
        base, its = csr
        if not mine.below(its) or its.median <= (1 + MARGIN) * mine.median:
            take, mine = base, its
        gain = ratio(its, mine)
    base_way = None if csr is None else csr[0]
    pays = None if base_way is None else _pays(take, base_way)
    sooner = _sooner(take, base_way, (way for way, _ in ways))
    return Answer(records[0].problem, "a product", take, base_way, gain, pays, other, measured_on=gpu, sooner=sooner)


def timed(records: Sequence[Record]) -> list[tuple[Way, Interval]]:
    """spgraph's own variants with a time that has an interval, the fastest first: of a product, a search, or an
    iteration of PageRank."""
    if any(record.cases for record in records):
        searches = [(s.record, s.mean, s.cycle) for s in compare_traversals(records)]
    else:
        searches = [(r.record, r.main.median, r.main.interval) for r in compare(records) if r.main is not None]
    ways = []
    for record, ms, span in searches:
        if ms and span is not None and record.where == "gpu" and not record.library:
            steps = record.result.get("iterations") or 1
            each = Interval(span.low / steps, span.median / steps, span.high / steps, span.coverage)
            stored = record.bytes.get("stored")
            if stored is not None:
                stored = stored_bytes(record.variant, stored, int(record.matrix["nnz"]))
            ways.append((Way(record.variant, record.format, ms / steps, _setup(record), stored), each))
    return sorted(ways, key=lambda pair: pair[0].ms)


def _setup(record: Record) -> float:
    return sum(record.times.get(f"{step}_ms", 0.0) for step in SETUP)


def of_graph_choice(problem: str, choice: GraphChoice, facts: GraphFacts, gpu: str) -> Answer:
    """The answer that predictions of BFS or PageRank give."""

    def way(mode: Mode) -> Way:
        return Way(mode.variant, "", mode.ms, mode.setup_ms, None)

    take, base = way(choice.best), way(choice.baseline)
    gain = base.ms / take.ms
    return Answer(
        problem,
        _UNITS[problem],
        take,
        base,
        Ratio(gain, gain, gain),
        _pays(take, base),
        way(choice.ranked[1]) if len(choice.ranked) > 1 else None,
        predicted_for=gpu,
        about=about_graph(problem, facts),
    )


def of_graph_records(records: Sequence[Record], facts: GraphFacts, gpu: str) -> Answer | None:
    """The answer that the records of one run of BFS or PageRank give; None where nothing was timed."""
    ways = timed(records)
    if not ways:
        return None
    problem, (take, mine) = records[0].problem, ways[0]
    usual = next((pair for pair in ways if pair[0].variant == DEFAULT[problem]), None)
    if usual is not None and (usual[1].overlaps(mine) or usual[0].ms <= (1 + MODE_MARGIN) * take.ms):
        take, mine = usual
    base = next((pair for pair in ways if pair[0].variant == BASELINE[problem]), None)
    return Answer(
        problem,
        _UNITS[problem],
        take,
        None if base is None else base[0],
        None if base is None else ratio(base[1], mine),
        None if base is None else _pays(take, base[0]),
        next((way for way, _ in ways if way.variant != take.variant), None),
        measured_on=gpu,
        about=about_graph(problem, facts),
    )


def about_graph(problem: str, facts: GraphFacts) -> str:
    """What decides on this graph, a clause."""
    if problem == "pagerank":
        if facts.hubs >= facts.vertices:
            return "the values of all vertices fit in shared memory"
        share = f"{100 * facts.hub_share:.0f} % of the edges leave the {facts.hubs:,} busiest vertices"
        return f"{share}, whose values fit in shared memory"
    kind = "road-like" if facts.road_like else "a small world"
    way = "both directions" if facts.undirected else "one direction"
    levels = quantity(facts.levels, "level")
    return (
        f"the graph is {kind}: {levels} from its busiest vertex, which reaches {facts.reached:,} of "
        f"{facts.vertices:,}; edges go in {way}"
    )


# ---- text -------------------------------------------------------------------------------------------------

_LIMITS = {
    "bytes": "most of it is reading the matrix",
    "gathers": "most of it is gathering {x} from the L2",
    "work": "most of it is instructions",
    "longest row": "most of it is waiting for the longest row",
    "launch": "most of it is the launch and first reads",
}


def _limit(answer: Answer) -> str:
    """What most of the time of a product is, a clause; empty where it was measured."""
    x = "x" if answer.problem == "spmv" else "rows of X"
    return f"; {_LIMITS[answer.limit].format(x=x)}" if answer.limit else ""


def _time(ms: float) -> str:
    if ms >= 1000:
        return f"{ms / 1000:.3g} s"
    return f"{ms:.3g} ms" if ms >= 0.1 else f"{ms * 1000:.3g} us"


def _how(answer: Answer) -> str:
    return f"measured on {answer.measured_on}" if answer.measured_on else f"predicted for the {answer.predicted_for}"


def sentences(answer: Answer) -> list[str]:
    """Three sentences."""
    if answer.problem in RULES:
        return _of_graph(answer)
    return _staying(answer) if answer.stays else _changing(answer)


def _times_as_fast(answer: Answer) -> str:
    gain = answer.gain
    assert gain is not None
    if answer.measured_on and gain.low != gain.high:
        return f"{gain.value:.3g} times ({gain.low:.3g} to {gain.high:.3g}) as fast as"
    return f"{gain.value:.3g} times as fast as"


def _changing(answer: Answer) -> list[str]:
    take, base = answer.take, answer.baseline
    limit = _limit(answer)
    first = f"Use {take.variant} (format {take.format}): {answer.unit} takes {_time(take.ms)}, {_how(answer)}{limit}."
    if base is None:
        stored = f"{human_bytes(take.stored_bytes)}; setup takes {_time(take.setup_ms)}"
        return [first, "No kernel of plain CSR was a candidate to compare it with.", f"It stores {stored}."]
    how = "" if answer.measured_on else ", as predicted"
    second = f"That is {_times_as_fast(answer)} {base.variant}, the best kernel of plain CSR ({_time(base.ms)}){how}."
    ratio_of = (take.stored_bytes or 0) / base.stored_bytes if base.stored_bytes else math.nan
    memory = f"it stores {human_bytes(take.stored_bytes)}, {ratio_of:.2g} times as much as {base.variant}"
    if answer.pays_after == 0:
        third = f"Its setup costs no more than CSR's ({_time(take.setup_ms)}), and {memory}."
    else:
        count, sooner = "product" if answer.pays_after == 1 else "products", answer.sooner
        fewer = f"stay with {base.variant} for fewer"
        if sooner is not None:
            fewer = f"for fewer than {_pays(take, sooner):,.0f} take {sooner.variant}, {_time(sooner.ms)}, whose setup "
            fewer += f"pays after {_pays(sooner, base):,.0f}"
        third = (
            f"Its setup of {_time(take.setup_ms)} pays after {answer.pays_after:,.0f} {count} ({fewer}), and {memory}."
        )
    return [first, second, third]


def _staying(answer: Answer) -> list[str]:
    take, other = answer.take, answer.other
    limit = _limit(answer)
    first = f"Stay with CSR: {take.variant} takes {_time(take.ms)} for {answer.unit}, {_how(answer)}{limit}."
    if other is None:
        second = "No variant in another format can run on this matrix."
    elif other.ms < take.ms:
        gains = 100 * (take.ms / other.ms - 1)
        second = (
            f"The fastest in another format, {other.variant} ({other.format}), takes {_time(other.ms)}: a gain of "
            f"{gains:.2g} % is too little or too uncertain for a conversion."
        )
    else:
        slower = other.ms / take.ms
        second = (
            f"The fastest in another format, {other.variant} ({other.format}), takes {_time(other.ms)}, "
            f"{slower:.3g} times as long."
        )
    third = (
        f"Nothing is converted: setup takes {_time(take.setup_ms)}, and {take.variant} stores "
        f"{human_bytes(take.stored_bytes)}."
    )
    return [first, second, third]


def _of_graph(answer: Answer) -> list[str]:
    take, base = answer.take, answer.baseline
    first = f"Use --mode {take.variant}: {answer.unit} takes {_time(take.ms)}, {_how(answer)}; {answer.about}."
    if base is None:
        second = "The mode that gains are counted against was not timed."
    elif answer.stays:
        nearest = f"; the next, {answer.other.variant}, takes {_time(answer.other.ms)}" if answer.other else ""
        second = f"It is the plain mode that others are compared with{nearest}."
    else:
        how = "" if answer.measured_on else ", as predicted"
        second = f"That is {_times_as_fast(answer)} {base.variant} ({_time(base.ms)}){how}."
    setup = _time(take.setup_ms)
    if base is None or answer.stays:
        third = f"Its setup takes {setup}."
    elif answer.pays_after == 0:
        third = f"Its setup takes {setup}, no more than that of {base.variant}."
    elif answer.pays_after is not None and math.isfinite(answer.pays_after):
        unit = answer.unit.split()[-1]
        plural = unit if answer.pays_after == 1 else {"search": "searches"}.get(unit, f"{unit}s")
        third = (
            f"Its setup of {setup}, for {base.variant} {_time(base.setup_ms)}, pays after "
            f"{answer.pays_after:,.0f} {plural}."
        )
    else:
        third = f"Its setup takes {setup}, for {base.variant} {_time(base.setup_ms)}: it does not pay."
    return [first, second, third]
