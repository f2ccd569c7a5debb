"""What a sparse format is, and the list of them.

A format is one module in this package that calls :func:`register`; nothing else names it. Variants say
which format they read, and get its arrays on the device under the names given here.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from spgraph_bench.gpus import GPU, H200
from spgraph_bench.matrix import CSR
from spgraph_bench.parameters import Parameter
from spgraph_bench.registry import Registry
from spgraph_bench.stats import MatrixStats
from spgraph_bench.units import human_bytes

__all__ = ["Array", "Format", "Packed", "Replace", "formats", "get_format", "register"]

Array = npt.NDArray[Any]
Replace = Callable[[Array], Array]
"""New values for old ones, of the same shape and type."""


@dataclass(frozen=True)
class Packed:
    """A matrix in one format, on the host.

    ``arrays`` go to the device under the same names; ``meta`` holds the scalars a kernel needs (K, ...).
    Arrays and scalars read as attributes: ``packed.row_ptr``, ``packed.slots``.
    """

    format: str
    rows: int
    cols: int
    nnz: int
    dtype: np.dtype[Any]
    """Value type: float32, float64, in some formats float16."""
    arrays: Mapping[str, npt.NDArray[Any]]
    meta: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    pattern: bool = False
    """The matrix had no values of its own (they all count as 1)."""
    compulsory_bytes: int = 0
    """Bytes of this format's arrays that any kernel must read once: padding omitted, x and y not counted."""
    offsets: np.dtype[Any] = field(default_factory=lambda: np.dtype(np.int32))
    """Type of positions in the nonzero arrays, int32 or int64 (also where no array holds any): SPG_OFFSET."""

    def __getattr__(self, name: str) -> Any:
        # Only called for names that are not fields. Guard against lookups while unpickling.
        if name.startswith("__") or "arrays" not in self.__dict__:
            raise AttributeError(name)
        if name in self.arrays:
            return self.arrays[name]
        if name in self.meta:
            return self.meta[name]
        raise AttributeError(f"format {self.format} has no array or scalar named {name!r}")

    @property
    def stored_bytes(self) -> int:
        """Bytes of all arrays, padding included; an array with two names counts once."""
        return sum({id(a): int(a.nbytes) for a in self.arrays.values()}.values())


class Format(ABC):
    """One sparse format. The class docstring gives the arrays, their shapes, dtypes and invariants."""

    name: ClassVar[str]
    title: ClassVar[str]
    """One line for the lists."""
    tunables: ClassVar[Mapping[str, Parameter]] = MappingProxyType({})
    wins: ClassVar[str]
    """When it wins and when it loses, a line or two for `show` and the docs."""
    order: ClassVar[int] = 100
    """Position in lists and tables."""
    keeps_zeros: ClassVar[bool] = True
    """False where stored zeros cannot be distinguished from fill: round trips then hold after dropping zeros, and fill
    is multiplied, so that an Inf or NaN in x spreads (`show` and `list` say ``nonfinite: no``)."""
    keeps_values: ClassVar[bool] = True
    """False for formats of patterns: `unpack` then gives the pattern."""
    packs_all: ClassVar[bool] = True
    """False where some matrices cannot be stored at all: `refuse` says so whatever `force`, `pack` raises."""
    holds_matrix: ClassVar[bool] = True
    """False for `none`, which is in no list of formats: it is where a problem has no matrix."""
    predicts_exactly: ClassVar[bool] = True
    """False where the statistics do not tell how much is stored; `predict_bytes` is then an upper bound."""
    gpu: GPU = H200
    """What sizes are chosen by where they are "auto": see :meth:`on`."""

    def on(self, gpu: GPU) -> Self:
        """This format for `gpu`. What is packed differs only where a size depends on the GPU: in binned formats."""
        if gpu == self.gpu:
            return self
        other = copy.copy(self)
        other.gpu = gpu
        return other

    @abstractmethod
    def pack(
        self, csr: CSR, dtype: npt.DTypeLike = np.float32, offsets: npt.DTypeLike = np.int32, **params: Any
    ) -> Packed:
        """Convert; vectorised, no Python loop over rows or nonzeros. `offsets` is the row-offset type."""

    @abstractmethod
    def unpack(self, packed: Packed) -> CSR:
        """The canonical matrix again: ``unpack(pack(A, float64)).equals(A)`` (see :attr:`keeps_zeros`)."""

    @abstractmethod
    def predict_bytes(self, stats: MatrixStats, value_bytes: int = 4, offset_bytes: int = 4, **params: Any) -> int:
        """Exactly ``pack(...).stored_bytes``, from the statistics alone, before anything is allocated."""

    def refuse(
        self, stats: MatrixStats, free_bytes: int | None, value_bytes: int = 4, force: bool = False, **params: Any
    ) -> str | None:
        """Why this matrix should not be packed so (with the figures), or None.

        `free_bytes` is what the device has free (None: not known). `force` (``--force-format``) overrides
        refusals of waste, never those of memory.
        """
        need = self.predict_bytes(stats, value_bytes, **params)
        if free_bytes is not None and need > free_bytes:
            return f"{self.name} needs {human_bytes(need)}; device has {human_bytes(free_bytes)} free"
        return None

    def replaced(self, packed: Packed, array: Array, replace: Replace) -> Array:
        """`array`, one of floating point of `packed`, with other values in place of the matrix's: ``replace(array)``
        where its elements are values of entries, or fill."""
        return replace(array)


_FORMATS: Registry[str, Format] = Registry("format", "spgraph_bench.formats")


def register(cls: type[Format]) -> type[Format]:
    """Class decorator: enter one instance in the list. A duplicate name is an error at import."""
    _FORMATS.enter(cls.name, cls())
    return cls


def formats() -> dict[str, Format]:
    """All formats of matrices by name, in display order."""
    holding = {name: f for name, f in _FORMATS.entries().items() if f.holds_matrix}
    return dict(sorted(holding.items(), key=lambda item: (item[1].order, item[0])))


def get_format(name: str) -> Format:
    """The format called `name`, "none" too; KeyError if there is none."""
    return _FORMATS.get(name)
