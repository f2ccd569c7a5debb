"""SpMM, row-major: the time of every variant, predicted from counts; the one to take.

The model is that of :mod:`spgraph_bench.advice.spmv`, with other counts: *bytes* has X and Y, *gathers* are the sectors
of rows of X that entries move from L2 to L1, *work* is for pieces of 16 bytes of these rows. Constants are fitted in
float32 with 8, 32 and 128 columns; float64 is predicted from the same ones, since bytes and pieces count its width.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from spgraph_bench.advice.costs import Costs, fitted
from spgraph_bench.advice.facts import SECTOR_BYTES, Facts
from spgraph_bench.advice.spmv import UPLOAD, Choice, Prediction, Terms, bandwidth, decide, predicted_us
from spgraph_bench.gpus import GPU, H200
from spgraph_bench.variants.spmm.kernels import RowSizes, row_shape

__all__ = ["COLUMN_MAJOR", "NOT_PREDICTED", "choose", "predict", "setup_ms", "terms"]

NOT_PREDICTED = {
    "csr-element": "it is the textbook's, and was never the fastest",
    "blocked-ell": "it multiplies in half precision only",
}
"""Own variants without constants, and why."""
COLUMN_MAJOR = "csr-tile"
"""What to take for column-major X and Y, for which nothing is fitted: it transposes them, so that columns of A that are
far apart cost no more than near ones."""
_L2_OF_X = 0.6
"""Share of the L2 that X can use while A and Y stream through."""
_PIECE = 16
"""Bytes of X that a lane loads at a time, at most."""
_LANES = 8
"""Pieces that count as one: a row of X of 32 values of float32."""


def terms(variant: str, format: str, value_bytes: int, k: int, facts: Facts, gpu: GPU) -> Terms:
    """The counts for one variant and `k` columns. The format must be one of `facts`."""
    speed = gpu.multiprocessors / H200.multiprocessors
    stored = facts.formats[format][value_bytes].bytes
    row_bytes = k * value_bytes
    pieces = max(1.0, row_bytes / _PIECE) / _LANES
    reads = facts.nnz / (_block_rows(facts, value_bytes) if format == "bsr" else 1.0)
    moved = reads * facts.sectors[SECTOR_BYTES] * max(1.0, row_bytes / SECTOR_BYTES)
    x_bytes = facts.cols * row_bytes
    missed = max(0.0, 1 - _L2_OF_X * gpu.l2_bytes / x_bytes) if x_bytes else 0.0
    rate = bandwidth(gpu)
    return Terms(
        bytes_us=(stored + (facts.cols + facts.rows) * row_bytes) / rate,
        gathers=moved / gpu.multiprocessors / 1e3,
        entries=facts.nnz * pieces / 1e6 / speed,
        rows=facts.rows * pieces / 1e6 / speed,
        chain=_chain(variant, value_bytes, k, facts, gpu),
        far_us=missed * moved * SECTOR_BYTES / rate,
    )


def _block_rows(facts: Facts, value_bytes: int) -> float:
    """Entries for which BSR reads a row of X once, about: from the bytes of its two value types."""
    four, eight = (facts.formats["bsr"][size].bytes for size in (4, 8))
    places = (eight - four) / 4
    blocks = max(1.0, (four - 4 * places) / 4 - facts.rows / 3)  # a column index for each, and row offsets
    return max(1.0, math.sqrt(places / blocks))


def _chain(variant: str, value_bytes: int, k: int, facts: Facts, gpu: GPU) -> float:
    """Batches of the longest row, which wait for each other."""
    if variant == "csr-row":
        sizes = RowSizes(facts.rows, facts.cols, facts.nnz)
        shape = row_shape({}, k, sizes, value_bytes, gpu.multiprocessors, gpu.l2_bytes)
        return facts.row_max / (shape["share"] * shape["slots"])
    return 0.0


def setup_ms(costs: Costs, variant: str, of_format: int, nnz: int) -> float:
    """Setup of a variant, once for each matrix, in ms. `of_format`: bytes of its format's arrays; they are uploaded."""
    known = costs.spmm_setup[variant]
    return known.fixed + known.entry * nnz / 1e6 + of_format / UPLOAD


def predict(
    facts: Facts, gpu: GPU, value_bytes: int, k: int, variants: Mapping[str, str], costs: Costs | None = None
) -> list[Prediction]:
    """What each variant takes on `gpu` for `k` columns: the fastest first, refused ones last. Parameters: see
    :func:`spgraph_bench.advice.spmv.predict`."""
    costs = costs or fitted()
    made = [_one(name, form, facts, gpu, value_bytes, k, costs) for name, form in variants.items()]
    return sorted(made, key=lambda p: (p.ms is None, p.ms or 0.0, p.variant))


def _one(name: str, form: str, facts: Facts, gpu: GPU, value_bytes: int, k: int, costs: Costs) -> Prediction:
    if name not in costs.spmm or form not in facts.formats:
        return Prediction(name, form, None, 0.0, 0, refused=NOT_PREDICTED.get(name, "no costs of it are known"))
    stored = facts.formats[form][value_bytes]
    refused = stored.refused
    if stored.bytes + (facts.rows + facts.cols) * k * value_bytes > gpu.memory_bytes:
        refused = refused or "more than the memory of the GPU"
    if refused:
        return Prediction(name, form, None, 0.0, stored.bytes, refused=refused)
    us, limit = predicted_us(costs.spmm[name], terms(name, form, value_bytes, k, facts, gpu))
    return Prediction(name, form, us / 1e3, setup_ms(costs, name, stored.bytes, facts.nnz), stored.bytes, limit)


def choose(
    facts: Facts, gpu: GPU, value_bytes: int, k: int, variants: Mapping[str, str], costs: Costs | None = None
) -> Choice | None:
    """The variant to take for `k` columns; None where none of `variants` can run. As
    :func:`spgraph_bench.advice.spmv.choose`."""
    return decide(predict(facts, gpu, value_bytes, k, variants, costs))
