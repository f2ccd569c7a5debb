"""What vertices are called: by the input's ids or names, there and back."""

from __future__ import annotations

import numpy as np
import pytest

from spgraph_bench.errors import UsageError
from spgraph_bench.matrix import CSR, Matrix, Policies, Source, called


def graph(**fields: object) -> Matrix:
    csr = CSR(3, 3, np.array([0, 1, 1, 1]), np.array([2], np.int32), None)
    return Matrix("g", csr, Source("file", "g.txt", "edge-list"), **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("matrix", "labels"),
    [
        (graph(), ["0", "1", "2"]),
        (graph(policies=Policies(base=1)), ["1", "2", "3"]),
        (graph(original_ids=np.array([4, 70, 2**62])), ["4", "70", str(2**62)]),
        (graph(names=("b", "a", "ü x")), ["b", "a", "ü x"]),
    ],
)
def test_labels_there_and_back(matrix: Matrix, labels: list[str]) -> None:
    assert [str(called(matrix.labels(), v)) for v in range(3)] == labels
    assert [matrix.vertex_index(f" {label} ") for label in labels] == [0, 1, 2]


@pytest.mark.parametrize(
    ("matrix", "label", "message"),
    [
        (graph(policies=Policies(base=1)), "0", "there is no vertex 0 .*\n.*1 to 3"),
        (graph(), "3", "there is no vertex 3 .*\n.*0 to 2"),
        (graph(), "1.0", "is not a vertex id"),
        (graph(original_ids=np.array([4, 70, 90])), "5", "there is no vertex 5 .*\n.*between 4 and 90"),
        (graph(original_ids=np.array([4, 70, 90])), "91", "there is no vertex 91"),
        (graph(names=("Paris", "Rome", "Oslo")), "Pari", "no vertex is called 'Pari' .*\n.*Paris"),
    ],
)
def test_labels_that_there_are_not(matrix: Matrix, label: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        matrix.vertex_index(label)


def test_scipy_gets_the_columns_as_they_are() -> None:
    """With offsets of 64 bits it copied them into 64 bits, too: 42 bytes an entry for components of a graph, not 20."""
    csr = graph().csr
    for there in (csr.to_scipy(), csr.to_scipy(values=np.array([2.5]))):
        assert (there.indptr.dtype, there.indices.dtype) == (np.int32, np.int32)
        assert np.shares_memory(there.indices, csr.col_idx)
    assert csr.to_scipy(values=np.array([2.5])).toarray().tolist() == [[0, 0, 2.5], [0, 0, 0], [0, 0, 0]]
