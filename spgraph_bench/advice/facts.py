"""What the advice is made from: counts of a matrix's rows, columns and formats. Nothing is timed.

Everything can be kept as JSON, so that advice can be judged on records without the matrices
(``scripts/judge_advice.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.formats import formats
from spgraph_bench.formats.common import offsets_for, one_value
from spgraph_bench.formats.hyb import choose_slots
from spgraph_bench.gpus import GPU, H200
from spgraph_bench.matrix import CSR
from spgraph_bench.stats import MatrixStats, row_blocks, row_stats, sample_blocks
from spgraph_bench.structure.compiled import column_counts
from spgraph_bench.variants.marked_rows import busiest_columns, hubs_on

__all__ = ["SECTOR_BYTES", "Facts", "Stored", "facts_of", "sectors_of", "short"]

SECTOR_BYTES = 32
"""What a GPU moves between L2 and L1 at least."""
WARP = 32
_WINDOW = 4096
"""Entries that the warps of a multiprocessor have in flight or in L1, roughly: a sector that two of them need is moved
once."""
_SAMPLE = 1 << 19
"""Entries that gathers are counted on; more are sampled in 32 pieces."""


@dataclass(frozen=True)
class Stored:
    """A matrix in one format and value type."""

    bytes: int
    """Of all arrays, padding included."""
    refused: str | None = None
    """Why it is not stored so."""


@dataclass(frozen=True)
class Facts:
    """A matrix, as advice sees it."""

    rows: int
    cols: int
    nnz: int
    row_max: int
    gini: float
    """Of row lengths, see :class:`spgraph_bench.stats.MatrixStats`."""
    uneven: float
    """Slots that 32 neighbouring rows take if all are as long as their longest, over nnz; 1 where rows are alike."""
    one_value: bool
    """All stored values are the same, or there are none."""
    sectors: Mapping[int, float]
    """Bytes of a value (4, 8) -> sectors of x that an entry moves into L1, on average: distinct sectors among 4,096
    neighbouring entries. 32: of an X with a sector for each row, which is how SpMM counts."""
    far: Mapping[int, float]
    """The same of the entries that are not in one of the columns that csr-hubs has in shared memory; sectors for one of
    all entries."""
    hyb_slots: Mapping[int, int]
    """Bytes of a value -> slots of a row in the ELL part of HYB."""
    formats: Mapping[str, Mapping[int, Stored]]
    """Format -> bytes of a value -> what it stores."""

    @property
    def row_mean(self) -> float:
        """Entries per row."""
        return self.nnz / self.rows if self.rows else 0.0

    def to_json(self) -> dict[str, Any]:
        """In JSON's types, short: numbers have six digits, and of a refusal only that there is one is kept."""
        bytes_of = {name: {size: each.bytes for size, each in sizes.items()} for name, sizes in self.formats.items()}
        refused = {
            name: [size for size, each in sizes.items() if each.refused]
            for name, sizes in self.formats.items()
            if any(each.refused for each in sizes.values())
        }
        made: dict[str, Any] = short({**asdict(self), "formats": bytes_of, "refused": refused})
        return made

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Facts:
        """What :meth:`to_json` gave, also after a trip through a file. The reason of each refusal is "refused"."""
        fields = dict(data)
        refused = fields.pop("refused")
        stored = {
            name: {int(k): Stored(n, "refused" if int(k) in refused.get(name, ()) else None) for k, n in sizes.items()}
            for name, sizes in fields["formats"].items()
        }
        sectors = {int(size): float(each) for size, each in fields["sectors"].items()}
        far = {int(size): float(each) for size, each in fields["far"].items()}
        slots = {int(size): int(each) for size, each in fields["hyb_slots"].items()}
        return cls(**{**fields, "formats": stored, "sectors": sectors, "far": far, "hyb_slots": slots})


def short(data: Any) -> Any:
    """`data` for JSON: fractions rounded to six digits, keys as texts."""
    if isinstance(data, dict):
        return {str(key): short(value) for key, value in data.items()}
    return float(f"{data:.6g}") if isinstance(data, float) else data


def facts_of(
    csr: CSR,
    names: Collection[str] | None = None,
    progress: Callable[[str], None] = lambda doing: None,
    gpu: GPU = H200,
) -> Facts:
    """Count. Linear in nnz; finding the block size of BSR takes most of it.

    Parameters
    ----------
    names : formats to look at; None: all.
    progress : hears what is being done.
    gpu : what formats are sized for.
    """
    stats = row_stats(csr)
    offset_bytes = offsets_for(csr.nnz).itemsize
    stored: dict[str, dict[int, Stored]] = {}
    for name, form in formats().items():
        if names is None or name in names:
            progress(name)
            form = form.on(gpu)
            stored[name] = {
                size: Stored(form.predict_bytes(stats, size, offset_bytes), form.refuse(stats, None, size))
                for size in (4, 8)
            }
    progress("columns")
    counts = column_counts(csr)
    if counts is None:
        counts = np.bincount(csr.col_idx, minlength=csr.cols)
    return Facts(
        rows=csr.rows,
        cols=csr.cols,
        nnz=csr.nnz,
        row_max=stats.row_max,
        gini=stats.gini,
        uneven=_uneven(csr, stats),
        one_value=one_value(csr) is not None,
        sectors={size: sectors_of(csr, size) for size in (4, 8, SECTOR_BYTES)},
        far={
            size: sectors_of(csr, size, busiest_columns(counts, hubs_on(gpu, size), gpu.multiprocessors, size))
            for size in (4, 8)
        },
        hyb_slots={size: choose_slots(stats, "auto", size) for size in (4, 8)},
        formats=stored,
    )


def _uneven(csr: CSR, stats: MatrixStats) -> float:
    if not csr.nnz:
        return 1.0
    lengths = csr.row_lengths()
    longest = np.maximum.reduceat(lengths, np.arange(0, csr.rows, WARP))
    return WARP * int(longest.sum()) / csr.nnz


def sectors_of(csr: CSR, value_bytes: int, near: npt.NDArray[np.integer] | None = None) -> float:
    """Distinct sectors of x an entry, each window of entries counted alone; entries in the columns `near` take none."""
    if not csr.nnz:
        return 0.0
    is_far = np.ones(csr.cols, bool)
    if near is not None:
        is_far[near] = False
    per_sector = SECTOR_BYTES // value_bytes
    distinct = entries = 0
    blocks = row_blocks(csr) if csr.nnz <= _SAMPLE else sample_blocks(csr, _SAMPLE, 32)
    for block in blocks:
        for start in range(0, len(block.cols), _WINDOW):
            part = block.cols[start : start + _WINDOW]
            distinct += len(np.unique(part[is_far[part]] // per_sector))
            entries += len(part)
    return distinct / max(entries, 1)
