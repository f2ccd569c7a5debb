"""Formats of graphs: what they share, what relabelling does, what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from battery import csr, random_rows

from spgraph_bench.errors import UsageError
from spgraph_bench.formats import get_format

GRAPHS = ("pattern-csr", "pattern-coo", "adjacency")


def test_a_symmetric_pattern_has_its_edges_once() -> None:
    undirected = csr(4, 4, [0, 1, 1, 2], [1, 0, 2, 1])
    packed = get_format("adjacency").pack(undirected)
    assert packed.row is packed.col
    assert packed.col_ptr is packed.row_ptr
    assert packed.stored_bytes == 5 * 4 + 4 * 4
    directed = get_format("adjacency").pack(csr(4, 4, [0, 1, 3], [1, 2, 1]))
    assert directed.col_ptr.tolist() == [0, 0, 2, 3, 3]
    assert directed.row.tolist() == [0, 3, 1]


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("seed", [1, 2])
def test_relabelling_by_degree_is_undone(name: str, seed: int) -> None:
    lengths = np.random.default_rng(seed).integers(0, 30, 40)
    a = random_rows(lengths, 40, seed)
    packed = get_format(name).pack(a, reorder="degree")
    assert packed.stored_bytes <= get_format(name).predict_bytes(_stats(a), reorder="degree")
    assert np.array_equal(packed.new_id[packed.old_id], np.arange(40))
    degrees = (a.row_lengths() + np.bincount(a.col_idx, minlength=40))[packed.old_id]
    assert np.all(np.diff(degrees) <= 0)
    back = get_format(name).unpack(packed)
    assert np.array_equal(back.row_ptr, a.row_ptr)
    assert np.array_equal(back.col_idx, a.col_idx)


def _stats(a):  # type: ignore[no-untyped-def]
    from spgraph_bench.stats import row_stats

    return row_stats(a)


@pytest.mark.parametrize("name", GRAPHS)
def test_impossible_orders_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match="reorder=random is not possible"):
        get_format(name).pack(csr(2, 2, [0], [1]), reorder="random")
    with pytest.raises(UsageError, match="a 2 x 3 matrix cannot be renumbered"):
        get_format(name).pack(csr(2, 3, [0], [1]), reorder="degree")
