"""What every reader produces, and what a user may ask of reading."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from spgraph_bench.matrix import Finding, Symmetry

__all__ = ["Progress", "RawEntries", "ReadOptions"]

Progress = Callable[[str, float | None], None]
"""Called with what is being done and the fraction done (None: not known). Readers never print."""


@dataclass(frozen=True)
class ReadOptions:
    """How a file is to be read; None means: find out."""

    input_format: str | None = None
    """A name from the list of readers; None: by content and suffix."""
    base: Literal[0, 1] | None = None
    symmetrize: bool = False
    """Add the transpose of every entry (the diagonal once, an entry whose mirror is stored too once)."""
    duplicates: Literal["sum", "first", "error"] = "sum"
    drop_zeros: bool = False
    values: Literal["file", "ones", "random"] = "file"
    seed: int = 1
    relabel: bool = False
    """Close gaps in vertex ids."""
    part: Literal["real", "imag", "abs"] | None = None
    """Which part of complex values to take; complex input is refused without it."""


@dataclass
class RawEntries:
    """Entries as a file holds them, 0-based, unsorted, not yet mirrored or merged."""

    rows: int
    cols: int
    row: npt.NDArray[np.integer[Any]]
    """Row of each entry, int32 or int64 [entries], 0-based."""
    col: npt.NDArray[np.integer[Any]]
    values: npt.NDArray[np.floating[Any]] | npt.NDArray[np.complexfloating[Any, Any]] | None
    """None for patterns."""
    format: str
    """Name of the reader, kept in the matrix's source: "matrix-market", "edge-list", ..."""
    symmetry: Symmetry = "general"
    """One triangle is stored unless "general"; the reader checks that entries lie in one triangle's rules."""
    base: Literal[0, 1] | None = None
    base_from: Literal["format", "found", "option"] = "format"
    relabelled: bool = False
    findings: tuple[Finding, ...] = ()
    line_of: Callable[[int], int | None] = lambda entry: None
    """The input line of entry i (slow; only for messages)."""
