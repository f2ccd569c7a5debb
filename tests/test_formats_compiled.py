"""Compiled conversions store what numpy's do, bit by bit, with any number of threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from proportion import in_turn

from spgraph_bench import threads
from spgraph_bench.formats import compiled, get_format
from spgraph_bench.formats.base import Packed
from spgraph_bench.matrix import CSR
from spgraph_bench.recipes import make
from spgraph_bench.structure import compiled as counting

MATRICES = {
    "hubs": "rmat:scale=9,edgefactor=12",
    "banded": "banded:n=1500,diagonals=9",
    "one-long-row": "arrow:n=700",
    "no-values": "rmat:scale=8,symmetrize=1",
    "blocks": "blocks:n=13,block=3",
    "wide": "dense:rows=7,cols=60",
    "no-entries": "empty:n=70",
}
CHOICES: list[tuple[str, dict[str, Any]]] = [
    ("coo-unsorted", {}),
    ("dia", {}),
    ("dia", {"group": 3}),
    ("pattern-dia", {}),
    ("blocked-ell", {}),
    ("blocked-ell", {"ell_block": 32}),
    ("csc", {}),
    ("bsr", {}),
    ("bsr", {"block_size": "3x2"}),
    ("bsr-sliced", {}),
    ("bsr-sliced", {"block_size": "2x5"}),
    ("ell", {}),
    ("hyb", {"hyb_k": 3}),
    ("jds", {}),
    ("sell", {}),
    ("sell", {"sell_sigma": 1}),
    ("sell", {"sell_sigma": 48}),
    ("sell", {"sell_sigma": 100_000}),
    ("binned", {}),
    ("binned", {"tile_width": 100, "bin_entries": 64}),
    ("binned-chunks", {}),
    ("binned-chunks", {"tiles": 5, "bin_entries": 300, "chunk_bins": 3}),
    ("binned-chunks", {"tiles": 2, "bin_entries": 4096, "chunk_bins": 2}),
]


def _csr(recipe: str) -> CSR:
    if recipe.startswith("empty"):
        return CSR(70, 50, np.zeros(71, np.int64), np.zeros(0, np.int32), np.zeros(0))
    return make(recipe).csr


def _both(monkeypatch: pytest.MonkeyPatch, csr: CSR, name: str, dtype: str, params: dict[str, Any]) -> list[Packed]:
    by_numpy = get_format(name).pack(csr, dtype, **params)
    monkeypatch.setattr(threads, "WORTH_ENTRIES", 0)
    for module in (compiled, threads, counting):
        monkeypatch.setattr(module, "usable_cores", lambda: 3)
    return [by_numpy, get_format(name).pack(csr, dtype, **params)]


def _same(a: Packed, b: Packed) -> bool:
    assert a.meta == b.meta
    assert list(a.arrays) == list(b.arrays)
    return all(
        a.arrays[k].dtype == b.arrays[k].dtype and a.arrays[k].tobytes() == b.arrays[k].tobytes() for k in a.arrays
    )


@pytest.mark.parametrize(
    ("name", "params", "matrix", "dtype"),
    in_turn([(*choice, matrix) for choice in CHOICES for matrix in MATRICES], ["float32", "float64"]),
)
def test_the_same_bit_by_bit(
    monkeypatch: pytest.MonkeyPatch, name: str, params: dict[str, Any], matrix: str, dtype: str
) -> None:
    csr = _csr(MATRICES[matrix])
    if matrix == "hubs":
        csr.values[:] = np.random.default_rng(1).standard_normal(csr.nnz)
        csr.values[:4] = 1e300, np.nan, -0.0, 1e-42  # Inf, any payload, a sign and a subnormal in float32
    by_numpy, by_compiled = _both(monkeypatch, csr, name, dtype, params)
    assert _same(by_numpy, by_compiled)
    if name.startswith("binned"):
        stats = _stats(csr)
        value_bytes = np.dtype(dtype).itemsize
        need = get_format(name).predict_bytes(stats, value_bytes, **params)
        monkeypatch.undo()
        assert need == get_format(name).predict_bytes(stats, value_bytes, **params)


@pytest.mark.parametrize("matrix", MATRICES)
def test_whole_numbers_are_split_alike(matrix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    form, csr = get_format("coo-unsorted"), _csr(MATRICES[matrix])
    packed = form.pack(csr, "float32")

    def whole() -> Any:
        return form.replaced(packed, packed.val, lambda values: (np.arange(len(values)) % 7 - 3).astype(np.float32))

    by_numpy = whole()
    monkeypatch.setattr(threads, "WORTH_ENTRIES", 0)
    monkeypatch.setattr(counting, "usable_cores", lambda: 3)
    by_compiled = whole()
    assert by_compiled.dtype == by_numpy.dtype
    assert np.array_equal(by_compiled, by_numpy)


def _stats(csr: CSR) -> Any:
    from spgraph_bench.stats import row_stats

    return row_stats(csr)


def test_it_is_the_library_that_converts(monkeypatch: pytest.MonkeyPatch) -> None:
    csr = make("rmat:scale=8").csr
    called: list[str] = []
    real = compiled.call
    monkeypatch.setattr(
        compiled, "call", lambda function, *rest: (called.append(function.__name__), real(function, *rest))
    )
    monkeypatch.setattr(threads, "WORTH_ENTRIES", 0)
    for name in ("csc", "bsr", "bsr-sliced", "ell", "jds", "sell", "binned", "binned-chunks"):
        called.clear()
        get_format(name).pack(csr, "float32", **({"sell_sigma": 64} if name == "sell" else {}))
        assert called, name


def test_an_error_in_the_library_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    csr = make("rmat:scale=8").csr
    real = compiled.jagged

    def one_wrong(*given: Any) -> Any:
        if arrays := real(*given):
            arrays[1][17] += 1
        return arrays

    monkeypatch.setattr(compiled, "jagged", one_wrong)
    assert not _same(*_both(monkeypatch, csr, "jds", "float32", {}))


def test_without_a_compiler_numpy_converts(monkeypatch: pytest.MonkeyPatch) -> None:
    csr = make("rmat:scale=8").csr
    monkeypatch.setattr(threads, "WORTH_ENTRIES", 0)
    monkeypatch.setattr(compiled, "_library", lambda: None)
    assert get_format("sell").unpack(get_format("sell").pack(csr)).nnz == csr.nnz
