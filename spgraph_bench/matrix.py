"""The matrix that everything starts from: canonical CSR, and what was done to get there."""

from __future__ import annotations

import difflib
import functools
import hashlib
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex

import numpy as np
import numpy.typing as npt

from spgraph_bench.errors import UsageError
from spgraph_bench.units import quantity

if TYPE_CHECKING:
    import scipy.sparse as sp

__all__ = [
    "CSR",
    "ContentHash",
    "Duplicates",
    "Finding",
    "Matrix",
    "Policies",
    "Source",
    "VertexLabels",
    "called",
    "label_arrays",
    "labels_of",
    "scipy_offsets",
    "with_labels",
]

VertexLabels = npt.NDArray[np.int64] | Sequence[str]
"""What the input calls each vertex, ``[n]``: ids, which rise, or names."""


def called(labels: VertexLabels, vertex: SupportsIndex) -> int | str:
    """What the input calls `vertex` (counted from 0): its id or its name."""
    label = labels[vertex.__index__()]
    return label if isinstance(label, str) else int(label)


Symmetry = Literal["general", "symmetric", "skew-symmetric", "hermitian"]
Duplicates = Literal["sum", "min", "max", "first", "last", "error"]
"""What entries at the same place become: one entry, or an error."""


def scipy_offsets(row_ptr: npt.NDArray[np.int64]) -> npt.NDArray[np.signedinteger]:
    """`row_ptr` in 32 bits where these are enough. scipy widens columns to the type of offsets, and its searches and
    conversions then take twice the time and memory."""
    return row_ptr.astype(np.int32) if row_ptr[-1] < 2**31 else row_ptr


@dataclass(frozen=True)
class CSR:
    """Canonical compressed sparse rows on the host.

    Invariants: ``row_ptr`` is int64 ``[rows + 1]``, starts at 0, never falls and ends at nnz; ``col_idx`` is
    int32 ``[nnz]``, strictly rising within each row (sorted, no duplicates), all in ``[0, cols)``;
    ``values`` is float64 ``[nnz]``, or None for a pattern, whose values all count as 1. Explicit zeros are
    entries like any other.
    """

    rows: int
    cols: int
    row_ptr: npt.NDArray[np.int64]
    col_idx: npt.NDArray[np.int32]
    values: npt.NDArray[np.float64] | None
    symmetric: bool | None = None
    """Whether the pattern equals its transpose, if known."""

    @property
    def nnz(self) -> int:
        """Number of stored entries."""
        return int(self.row_ptr[-1])

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns)."""
        return (self.rows, self.cols)

    def row_lengths(self) -> npt.NDArray[np.int64]:
        """Nonzeros per row, int64 ``[rows]``."""
        return np.diff(self.row_ptr)

    def value_array(self, dtype: npt.DTypeLike = np.float64) -> npt.NDArray[np.floating]:
        """The values as `dtype` ``[nnz]``; ones for a pattern. A view where no conversion is needed."""
        if self.values is None:
            return np.ones(self.nnz, dtype)
        return self.values.astype(dtype, copy=False)

    def to_scipy(self, dtype: npt.DTypeLike = np.float64, values: npt.NDArray[Any] | None = None) -> sp.csr_array:
        """The same matrix as a scipy array, or its pattern with other `values` ``[nnz]``; columns and values are not
        copied where offsets have 32 bits (:func:`scipy_offsets`)."""
        import scipy.sparse as sp

        given = self.value_array(dtype) if values is None else values
        out = sp.csr_array((given, self.col_idx, scipy_offsets(self.row_ptr)), shape=self.shape)
        out.has_sorted_indices = True
        out.has_canonical_format = True
        return out

    def equals(self, other: CSR) -> bool:
        """Same shape, same positions, bit-equal values (NaN equals NaN; a pattern equals a pattern only)."""
        if self.shape != other.shape or (self.values is None) != (other.values is None):
            return False
        if not np.array_equal(self.row_ptr, other.row_ptr) or not np.array_equal(self.col_idx, other.col_idx):
            return False
        if self.values is None or other.values is None:
            return True
        return np.array_equal(self.values, other.values, equal_nan=True)

    def sha256(self) -> str:
        """Hash of the content (shape, positions, values), the same on every machine."""
        digest = hashlib.sha256(f"spgraph-csr-1 {self.rows} {self.cols} {self.nnz}".encode())
        digest.update(np.ascontiguousarray(self.row_ptr, "<i8").data)
        digest.update(np.ascontiguousarray(self.col_idx, "<i4").data)
        if self.values is not None:
            digest.update(np.ascontiguousarray(self.values, "<f8").data)
        return digest.hexdigest()


@dataclass(frozen=True)
class Source:
    """Where a matrix came from: a file, standard input, a recipe, arrays in memory, or a problem's options."""

    kind: Literal["file", "stdin", "recipe", "options", "array"]
    text: str
    """The path, the canonical recipe text, or what was made from the options."""
    format: str
    """"matrix-market", "edge-list", "recipe", ..."""


@dataclass(frozen=True)
class Policies:
    """What was done to the input while reading; stated in the table's head and kept in the record."""

    base: Literal[0, 1] | None = None
    """Index base of the input, None where the format has none."""
    base_from: Literal["format", "found", "option"] = "format"
    mirrored: bool = False
    """Stored triangle mirrored, or ``--symmetrize`` given."""
    duplicates: Duplicates | Literal["merge"] = "sum"
    """How entries at the same place were joined; "merge" where values play no part."""
    duplicates_found: int = 0
    """Entries joined with another one."""
    mirrors_found: int = 0
    """Entries of a symmetric input whose equal mirror is stored too: each pair counts once."""
    self_loops: int = 0
    """Diagonal entries kept."""
    explicit_zeros: int = 0
    """Stored zeros kept (0 when they were dropped)."""
    zeros_dropped: int = 0
    values: Literal["file", "ones", "random", "integers"] = "file"
    bipartite: bool = False
    """Rows and columns taken as the two sides of a graph."""
    relabelled: bool = False
    """Gaps in the vertex ids were closed."""
    part: Literal["real", "imag", "abs"] | None = None

    def summary(self) -> list[str]:
        """Short phrases for the head of a table, only what is worth saying."""
        lines: list[str] = []
        if self.base is not None:
            lines.append(f"{self.base}-based ({'given' if self.base_from == 'option' else self.base_from})")
        if self.mirrored:
            lines.append("mirrored")
        if self.duplicates_found:
            how = "merged" if self.duplicates == "merge" else self.duplicates
            lines.append(f"{quantity(self.duplicates_found, 'duplicate')} ({how})")
        if self.mirrors_found:
            entries = quantity(self.mirrors_found, "entry", "entries")
            lines.append(f"{entries} stored on both sides of the diagonal, counted once")
        if self.self_loops:
            lines.append(f"{quantity(self.self_loops, 'diagonal entry', 'diagonal entries')} kept")
        if self.explicit_zeros:
            lines.append(f"{quantity(self.explicit_zeros, 'explicit zero')} kept")
        if self.zeros_dropped:
            lines.append(f"{quantity(self.zeros_dropped, 'zero')} dropped")
        if self.values != "file":
            lines.append(f"values {self.values}")
        if self.bipartite:
            lines.append("rows and columns as the two sides of a graph")
        if self.relabelled:
            lines.append("ids relabelled")
        if self.part:
            lines.append(f"{self.part} part")
        return lines


@dataclass(frozen=True)
class Finding:
    """One oddity of an input: what, where (1-based line, or None) and how often."""

    text: str
    line: int | None = None
    count: int = 1
    warning: bool = False
    """The input was read by guessing what it means: printed on stderr too."""


_hashing = threading.Lock()


class ContentHash:
    """The hash of a matrix's content: given as `text`, or worked out when first asked for (1 s per GB or so).

    It is that of the CSR it was bound to first, and is shared by all that have the same arrays.
    """

    def __init__(self, text: str = "") -> None:
        self._text = text
        self._csr: CSR | None = None

    def is_of(self, csr: CSR) -> bool:
        """Whether it is that of `csr`, by the arrays' identity. One that is bound to none yet is now."""
        own = self._csr = self._csr or csr
        return own.shape == csr.shape and all(
            getattr(own, name) is getattr(csr, name) for name in ("row_ptr", "col_idx", "values")
        )

    def text(self) -> str:
        """:meth:`CSR.sha256`, worked out once, whichever thread asks first."""
        with _hashing:
            if not self._text:
                assert self._csr is not None
                self._text = self._csr.sha256()
            return self._text


@dataclass(frozen=True)
class Matrix:
    """A matrix or a graph (edge u -> v is the entry in row u, column v), ready for every problem."""

    name: str
    csr: CSR
    source: Source
    symmetry: Symmetry = "general"
    """As the input declares it; the CSR always holds both triangles."""
    weighted: bool = True
    """False for patterns and unweighted edge lists (csr.values is None)."""
    policies: Policies = field(default_factory=Policies)
    findings: tuple[Finding, ...] = ()
    content_hash: ContentHash = field(default_factory=ContentHash, compare=False, repr=False)
    """Where :attr:`sha256` is from. Of a copy with another CSR it is another one."""
    entries_sha256: str = ""
    """Hash of the entries as the file holds them, before duplicates are joined and anything is mirrored; with
    `policies` it identifies the matrix. Empty for recipes."""
    original_ids: npt.NDArray[np.int64] | None = None
    """If ``policies.relabelled``: the id that vertex i has in the input, int64 ``[rows]``, rising."""
    names: Sequence[str] | None = None
    """The name that vertex i has in the input ``[rows]``, where vertices have names."""
    locate: Callable[[int, int], int | None] | None = field(default=None, compare=False, repr=False)
    """The line of the input that an entry comes from, by row and column; slow, only for messages."""

    def __post_init__(self) -> None:
        if not self.content_hash.is_of(self.csr):
            fresh = ContentHash()
            fresh.is_of(self.csr)
            object.__setattr__(self, "content_hash", fresh)

    @property
    def sha256(self) -> str:
        """Hash of the CSR (:meth:`CSR.sha256`), worked out when first asked for, unless it was given."""
        return self.content_hash.text()

    def with_symmetry(self, symmetric: bool) -> Matrix:
        """The same matrix, with what is now known of its pattern."""
        return replace(self, csr=replace(self.csr, symmetric=symmetric))

    def line_of(self, row: int, col: int) -> int | None:
        """The 1-based line of the input that holds this entry, where that is known; slow: for messages."""
        return self.locate(row, col) if self.locate else None

    @property
    def first_id(self) -> int:
        """The number that the input gives its first row or vertex: 1 where it counts from 1, otherwise 0."""
        return self.policies.base or 0

    def vertex_ids(self) -> npt.NDArray[np.int64]:
        """The id that each vertex has in the input, int64 ``[rows]``: counted from 1 where the input does."""
        if self.original_ids is not None:
            return self.original_ids
        return np.arange(self.csr.rows, dtype=np.int64) + self.first_id

    def labels(self) -> VertexLabels:
        """What the input calls each vertex: names where it has names, else ids."""
        return self.vertex_ids() if self.names is None else self.names

    def counted_from_0(self) -> Matrix:
        """The same graph with vertices called by their numbers inside, which count from 0."""
        return replace(self, original_ids=np.arange(self.csr.rows, dtype=np.int64), names=None)

    def vertex_index(self, label: str) -> int:
        """The vertex (counted from 0) that the input calls `label`; of two with the same name the first.

        UsageError where there is none, with names or ids that there are.
        """
        label = label.strip()
        if self.names is not None:
            if (index := self._index_of_name.get(label)) is not None:
                return index
            close = difflib.get_close_matches(label, self._index_of_name, n=2) if len(self.names) < 10**5 else []
            shown = close or list(self.names[:3])
            remedy = f"did you mean {' or '.join(close)}?" if close else f"names are such as {', '.join(shown)}"
            raise UsageError(f"no vertex is called {label!r} in {self.name}", remedy=remedy)
        if not re.fullmatch(r"[+-]?[0-9]{1,19}", label):
            raise UsageError(f"{label!r} is not a vertex id", remedy=self._ids_there())
        number = int(label)
        if self.original_ids is None:
            vertex = number - self.first_id
            if 0 <= vertex < self.csr.rows:
                return vertex
        elif len(self.original_ids) and number <= int(self.original_ids[-1]):
            vertex = int(np.searchsorted(self.original_ids, number))
            if int(self.original_ids[vertex]) == number:
                return vertex
        raise UsageError(f"there is no vertex {number} in {self.name}", remedy=self._ids_there())

    @functools.cached_property
    def _index_of_name(self) -> dict[str, int]:
        names = list(self.names or ())
        return {name: len(names) - 1 - i for i, name in enumerate(reversed(names))}

    def _ids_there(self) -> str:
        if self.original_ids is not None and len(self.original_ids):
            low, high = int(self.original_ids[0]), int(self.original_ids[-1])
            return f"its {len(self.original_ids):,} ids are between {low} and {high}, with gaps"
        if not self.csr.rows:
            return "it has no vertices"
        return f"ids are {self.first_id} to {self.csr.rows - 1 + self.first_id}, as in the input"


def label_arrays(matrix: Matrix) -> dict[str, npt.NDArray[Any]]:
    """:meth:`Matrix.labels` as arrays that another process may map; none where they just count from 0."""
    labels = matrix.labels()
    if not isinstance(labels, np.ndarray):
        coded = [name.encode() for name in labels]
        ends = np.cumsum([len(name) for name in coded], dtype=np.int64)
        return {"names.text": np.frombuffer(b"".join(coded), np.uint8), "names.end": ends}
    if not len(labels) or (labels[0] == 0 and labels[-1] == len(labels) - 1):  # they rise
        return {}
    return {"ids": labels}


def labels_of(arrays: Mapping[str, npt.NDArray[Any]], rows: int) -> VertexLabels:
    """What :func:`label_arrays` put among `arrays`."""
    if "names.end" in arrays:
        text, ends = arrays["names.text"].tobytes(), arrays["names.end"].tolist()
        return [text[begin:end].decode() for begin, end in zip([0, *ends], ends, strict=False)]
    return arrays["ids"] if "ids" in arrays else np.arange(rows, dtype=np.int64)


_VERTEX = re.compile(r"\b(vertex|source|parent|edge) ([0-9][0-9,]*)( -> ([0-9][0-9,]*))?")


def with_labels(text: str, labels: VertexLabels) -> str:
    """`text`, which says "vertex 1,234", "edge 5 -> 6" and so on, with `labels` in place of the numbers."""

    def word(number: str) -> str:
        vertex = int(number.replace(",", ""))
        return str(called(labels, vertex)) if vertex < len(labels) else number

    def replaced(match: re.Match[str]) -> str:
        number = match[2].rstrip(",")  # a comma of the sentence
        rest = match[2][len(number) :]
        return f"{match[1]} {word(number)}{rest}" + (f" -> {word(match[4])}" if match[4] else "")

    return _VERTEX.sub(replaced, text)
