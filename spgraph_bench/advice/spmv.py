"""SpMV: the time of every variant, predicted from counts; the one to take.

The model, in microseconds, with the constants of :class:`Cost` and counts of :func:`terms`::

    base + (bytes^4 + gathers^4 + work^4)^(1/4) + chain

*bytes*: the format's arrays with their padding, x and y, and what gathers of an x that outgrows the L2 bring from
memory, at the memory's bandwidth. *gathers*: sectors of x that entries move from L2 to L1. *work*: instructions for
entries and rows. The three overlap: the largest decides, and the fourth powers round the corner. *chain*: steps of the
longest row, which the GPU waits for. Constants of time for a multiprocessor scale with the number of these.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from spgraph_bench.advice.costs import Cost, Costs, fitted
from spgraph_bench.advice.facts import Facts
from spgraph_bench.gpus import GPU, H200
from spgraph_bench.variants import get_variant
from spgraph_bench.variants.spmv.csr import subwarp_shape

__all__ = [
    "MARGIN",
    "NOT_PREDICTED",
    "UPLOAD",
    "Choice",
    "Prediction",
    "Terms",
    "bandwidth",
    "choose",
    "decide",
    "predict",
    "predicted_us",
    "promising",
    "setup_ms",
    "stored_bytes",
    "terms",
]

MOST = 4
"""Variants in other formats than CSR that are worth measuring, the best predicted."""
_HOPELESS = 2.0
"""What is predicted to take so many times as long as the fastest is not worth measuring."""
MARGIN = 0.03
"""Another format is worth its conversion if it is predicted to gain more than this over CSR: less is within the
model's error."""
NOT_PREDICTED = {
    "csc-scatter": "it waits for the longest column, which is not counted; it was never the fastest",
    "coo-unsorted": "coo-atomic with twice the entries",
    "hyb-atomic": "atomics that meet on one row are not counted; hyb spends fewer",
    "ell-rows": "it is a contrast: ell with the same bytes, in an order that is read worse",
    "csr-scalar": "its threads read lines of their own, which is not counted; it was never the fastest, and at most "
    "7 % faster than the next that reads CSR",
}
"""Own variants without constants, and why. A new one, of which there are no records yet, need not be here."""
_SOLD = 0.94
"""Bandwidth that can be read, of what is sold: 4.52 of 4.8 TB/s on an H200 (the ceiling of its records)."""
_L2_OF_X = 0.6
"""Share of the L2 that x can use while A streams through. With it 256 M gathers from 64 MB of x take 3.6 ms on an H200
(60 MB of L2), as was measured."""
_LINE_BYTES = 64
"""What a sector that is not in the L2 brings from memory: two at a time."""
_TILE = 0.6
"""Share of a block's shared memory that binned-fused has a tile of x in (136 of 227 kB)."""
UPLOAD = 7.5e6
"""Bytes a ms to the device, from pageable memory: the median of the records."""

_WARP = 32
_LANES = {
    "csr-vector": _WARP,
    "ell": 1,
    "sell": 1,
    "jds": 1,
    "bsr": 1,
    "bsr-sliced": 1,
    "pattern-ell": 1,
    "pattern-sell": 1,
    "pattern-jds": 1,
    "coo-atomic": 1,
}
"""Threads that share a row; a step of coo-atomic is an atomic on one address."""
_TILED = {"csr-adaptive", "csr-16", "pattern-csr", "pattern-csr-16"}
"""Tiles of entries and rows; a row longer than half a tile is cut, and its pieces are added by the last block."""
_DIAGONALS = {"dia", "pattern-dia"}
_STEPS_OF_A_LAUNCH = 40
"""Steps of a row in ELL that take as long as another launch."""
_TAILED = {"hyb", "pattern-hyb"}
"""ELL and a rest in COO: with a rest there is another launch."""
_FREE_OF_GATHERS = {"binned", "binned-fused"}
"""Their gathers are from shared memory."""

_HUBS = {"csr-hubs"}
"""What they gather in the busiest columns is in shared memory."""
_BESIDE = {"csr-hubs": 4}
"""Bytes for each entry that a variant stores beside the arrays of its format."""


@dataclass(frozen=True)
class Terms:
    """What constants are multiplied with, in the units of :class:`Cost` on the GPU at hand."""

    bytes_us: float
    gathers: float
    entries: float
    rows: float
    chain: float
    far_us: float
    """Time for what gathers bring from memory."""


@dataclass(frozen=True)
class Prediction:
    """One variant on one matrix."""

    variant: str
    format: str
    ms: float | None
    """A product, cold caches; None where it is refused."""
    setup_ms: float
    """Conversion, upload and compiling for the matrix."""
    stored_bytes: int
    limit: str = ""
    """What takes most of the time: "bytes", "gathers", "work", "longest row" or "launch"."""
    refused: str | None = None


@dataclass(frozen=True)
class Choice:
    """The decision."""

    best: Prediction
    csr: Prediction | None
    """The fastest variant that reads plain CSR; None where none was a candidate."""
    ranked: tuple[Prediction, ...]
    """All that can run, the fastest first."""
    refused: tuple[Prediction, ...]


def terms(variant: str, format: str, value_bytes: int, facts: Facts, gpu: GPU) -> Terms:
    """The counts for one variant. The format must be one of `facts`."""
    speed = gpu.multiprocessors / H200.multiprocessors
    stored = facts.formats[format][value_bytes]
    moved = facts.nnz * (facts.far if variant in _HUBS else facts.sectors)[value_bytes]
    if variant in _FREE_OF_GATHERS:
        moved = 0.0
    x_bytes = facts.cols * value_bytes
    missed = max(0.0, 1 - _L2_OF_X * gpu.l2_bytes / x_bytes) if x_bytes else 0.0
    rate = bandwidth(gpu)
    return Terms(
        bytes_us=(stored.bytes + (facts.cols + facts.rows) * value_bytes) / rate,
        gathers=moved / gpu.multiprocessors / 1e3,
        entries=facts.nnz / 1e6 / speed,
        rows=facts.rows / 1e6 / speed,
        chain=_chain(variant, format, value_bytes, facts, gpu),
        far_us=missed * moved * _LINE_BYTES / rate,
    )


def bandwidth(gpu: GPU) -> float:
    """Bytes that `gpu` reads in a microsecond."""
    if gpu.bandwidth is None:  # of a GPU that is in no table: as much for a multiprocessor as on an H200
        assert H200.bandwidth is not None
        return _SOLD * H200.bandwidth * 1e3 * gpu.multiprocessors / H200.multiprocessors
    return _SOLD * gpu.bandwidth * 1e3


def _chain(variant: str, format: str, value_bytes: int, facts: Facts, gpu: GPU) -> float:
    if variant == "csr-subwarp":  # a thread reads four entries at a time
        plain = {name: parameter.default for name, parameter in get_variant("spmv", variant).tunables.items()}
        shape = subwarp_shape(plain, facts.rows, facts.nnz, value_bytes, gpu.multiprocessors)
        return facts.row_max / (4 * shape["threads"])
    if variant in _LANES:
        return facts.row_max / _LANES[variant]
    if variant in _TILED:
        return float(facts.row_max > 4096 // value_bytes)  # half a tile of 8 kB
    if format in _DIAGONALS:  # a row has a slot on each diagonal
        slots = facts.formats[format][value_bytes].bytes / max(facts.rows, 1)
        return slots / value_bytes if format == "dia" else 8 * slots
    if variant in _TAILED:
        slots = facts.hyb_slots[value_bytes]
        return slots / _STEPS_OF_A_LAUNCH + (slots < facts.row_max)
    return 0.0


def predicted_us(cost: Cost, counted: Terms) -> tuple[float, str]:
    """Microseconds of a product, and what takes most of them."""
    parts = {
        "bytes": cost.bytes * (counted.bytes_us + counted.far_us),
        "gathers": cost.gathers * counted.gathers + counted.far_us,
        "work": cost.entries * counted.entries + cost.rows * counted.rows,
    }
    streamed = math.sqrt(math.hypot(*(part * part for part in parts.values())))
    waiting = cost.chain * counted.chain
    largest = max(parts, key=lambda name: parts[name])
    limit = {cost.base: "launch", waiting: "longest row", streamed: largest}[max(cost.base, waiting, streamed)]
    return cost.base + streamed + waiting, limit


def stored_bytes(variant: str, of_format: int, nnz: int) -> int:
    """Bytes that a variant keeps on the device for a matrix, of which its format's arrays have `of_format`."""
    return of_format + _BESIDE.get(variant, 0) * nnz


def setup_ms(costs: Costs, variant: str, of_format: int, nnz: int) -> float:
    """Setup of a variant, once for each matrix, in ms. `of_format`: bytes of its format's arrays; they are uploaded."""
    known = costs.setup[variant]
    return known.fixed + known.compile + known.entry * nnz / 1e6 + of_format / UPLOAD


def predict(
    facts: Facts, gpu: GPU, value_bytes: int, variants: Mapping[str, str], costs: Costs | None = None
) -> list[Prediction]:
    """What each variant takes on `gpu`: the fastest first, refused ones last.

    Parameters
    ----------
    value_bytes : 4 or 8.
    variants : name -> the format that it reads. What has no constants, or a format without facts, is refused.
    costs : None: those that come with spgraph.
    """
    costs = costs or fitted()
    made = [_one(name, form, facts, gpu, value_bytes, costs) for name, form in variants.items()]
    return sorted(made, key=lambda p: (p.ms is None, p.ms or 0.0, p.variant))


def _one(name: str, form: str, facts: Facts, gpu: GPU, value_bytes: int, costs: Costs) -> Prediction:
    if name not in costs.spmv or form not in facts.formats:
        return Prediction(name, form, None, 0.0, 0, refused=NOT_PREDICTED.get(name, "no costs of it are known"))
    arrays = facts.formats[form][value_bytes].bytes
    stored = stored_bytes(name, arrays, facts.nnz)
    if why := _refused(name, form, facts, gpu, value_bytes):
        return Prediction(name, form, None, 0.0, stored, refused=why)
    us, limit = predicted_us(costs.spmv[name][value_bytes], terms(name, form, value_bytes, facts, gpu))
    if limit == "longest row" and name in _TAILED:
        limit = "launch"
    return Prediction(name, form, us / 1e3, setup_ms(costs, name, arrays, facts.nnz), stored, limit)


def _refused(name: str, form: str, facts: Facts, gpu: GPU, value_bytes: int) -> str | None:
    """Why the variant `name`, whose format is one of `facts`, is not a candidate; None if it is."""
    stored = facts.formats[form][value_bytes]
    if stored.refused:
        return stored.refused
    if form.startswith("pattern-") and not facts.one_value:
        return "values differ"
    if stored_bytes(name, stored.bytes, facts.nnz) + (facts.rows + facts.cols) * value_bytes > gpu.memory_bytes:
        return "more than the memory of the GPU"
    tiles = gpu.multiprocessors * _TILE * gpu.shared_per_block
    if name == "binned-fused" and facts.cols * value_bytes > tiles:
        return "x is larger than the shared memory of all multiprocessors: it loses to CSR"
    return None


def choose(
    facts: Facts, gpu: GPU, value_bytes: int, variants: Mapping[str, str], costs: Costs | None = None
) -> Choice | None:
    """The variant to take; None where none of `variants` can run. Parameters: see :func:`predict`.

    The fastest of all, but one that reads CSR where none is more than MARGIN faster. For a matrix that stays as it is,
    give variants that read CSR only; `facts` need no other format then.
    """
    return decide(predict(facts, gpu, value_bytes, variants, costs))


def decide(made: Iterable[Prediction]) -> Choice | None:
    """The choice among predictions, sorted as :func:`predict` gives them; None where nothing can run."""
    made = list(made)
    ranked = tuple(p for p in made if p.ms is not None)
    refused = tuple(p for p in made if p.ms is None)
    if not ranked:
        return None
    csr = next((p for p in ranked if p.format == "csr"), None)
    first = ranked[0]
    stay = csr is not None and csr.ms is not None and first.ms is not None and csr.ms <= (1 + MARGIN) * first.ms
    return Choice(csr if stay and csr is not None else first, csr, ranked, refused)


def promising(choice: Choice, budget: float = math.inf) -> tuple[list[str], list[str], float]:
    """What to measure: the two best of CSR, and the MOST best in other formats that are at all near. Half the budget is
    for setup: what takes more is omitted.

    Parameters
    ----------
    budget : in seconds.

    Returns
    -------
    The variants; those that were omitted; seconds of setup of the first.
    """
    chosen: list[str] = []
    omitted: list[str] = []
    setup = 0.0
    fastest = choice.ranked[0].ms or 0.0
    for p in (p for p in choice.ranked if p.format != "csr" and (p.ms or 0.0) <= _HOPELESS * fastest):
        if setup + p.setup_ms / 1e3 <= budget / 2:
            setup += p.setup_ms / 1e3
            chosen.append(p.variant)
        elif len(omitted) < MOST:
            omitted.append(p.variant)
        if len(chosen) == MOST:
            break
    csr = [p for p in choice.ranked if p.format == "csr"][:2]
    return [p.variant for p in csr] + chosen, omitted, setup
