"""Whether labels are those of connected components."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from spgraph_bench.matrix import CSR
from spgraph_bench.problems.base import CheckResult
from spgraph_bench.stats import row_blocks
from spgraph_bench.validate.base import (
    EDGES_AT_ONCE,
    Checked,
    DeviceFaults,
    Faults,
    Graph,
    Rule,
    Validator,
    validates,
    verdict,
)

__all__ = ["CCValidator", "count_components", "find_faults"]

Labels = npt.NDArray[np.int32]

RANGE, ABOVE, UNNAMED, PARTED = range(4)
"""The rules, numbered as in cuda/check/cc.cu."""


def _has(v: int, label: Labels) -> str:
    return f"vertex {v:,} has the label of vertex {int(label[v]):,}"


_RULES = (
    Rule(lambda v, label: f"{_has(v, label)}, which is not a vertex"),
    Rule(lambda v, label: f"{_has(v, label)}, not the least vertex of its component"),
    Rule(lambda v, label: f"{_has(v, label)}, which itself has that of vertex {int(label[label[v]]):,}"),
    Rule(lambda v, label: f"{_has(v, label)}, and an edge joins it with one of another label"),
)


def find_faults(csr: CSR, label: Labels) -> tuple[Faults, int]:
    """The numpy form: errors, and how many labels name their own vertex. One pass over the edges."""
    n, faults = csr.rows, Faults.none(len(_RULES))
    vertex = np.arange(n, dtype=np.int32)
    outside = (label < 0) | (label >= n)
    faults.add(RANGE, vertex[outside])
    above = ~outside & (label > vertex)
    faults.add(ABOVE, vertex[above])
    rest = vertex[~outside & ~above]
    faults.add(UNNAMED, rest[label[label[rest]] != label[rest]])
    for block in row_blocks(csr, EDGES_AT_ONCE):
        ours = np.repeat(label[block.first : block.last], np.diff(block.row_ptr))
        if (bad := label[block.cols] != ours).any():
            faults.add(PARTED, block.cols[bad])
    return faults, int(np.count_nonzero(label == vertex))


def _on_device(graph: Graph, label: Labels) -> tuple[Faults, int]:
    """The same by kernels."""
    assert graph.device is not None
    faults, count = DeviceFaults(graph.device, len(_RULES)), graph.zeros(1, np.uint64)
    given = graph.upload(label)
    report = (faults.counts, faults.least)
    graph.per_vertex(graph.kernel("cc", "check_cc_vertices"), graph.n, given, count, *report)
    graph.per_row(graph.kernel("cc", "check_cc_edges"), graph.n, graph.row_ptr, graph.col, given, *report)
    return faults.read(), int(graph.download(count)[0])


def count_components(graph: Graph) -> int:
    """How many (weakly) connected components there are: by scipy, or on the device by a plain union of
    disjoint sets."""
    csr = graph.csr
    if graph.device is None:
        from scipy.sparse.csgraph import connected_components

        count, _ = connected_components(graph.as_scipy, directed=True, connection="weak")
        return int(count)
    parent, roots = graph.device.empty(csr.rows, np.int32), graph.zeros(1, np.uint64)
    graph.per_vertex(graph.kernel("cc", "check_cc_begin"), graph.n, parent)
    graph.per_row(graph.kernel("cc", "check_cc_join"), graph.n, graph.row_ptr, graph.col, parent)
    graph.per_vertex(graph.kernel("cc", "check_cc_roots"), graph.n, parent, roots)
    return int(graph.download(roots)[0])


@validates
class CCValidator(Validator):
    """Labels of weakly connected components.

    The rules: a label is a vertex, is not above its vertex, and has itself as its label; both ends of every
    edge have the same label; and as many vertices are their own label as a second plain algorithm finds
    components. By the edges a component has one label, and by the count no two have the same. A label has
    itself as its label, so it is a vertex of the component that it names, and the least one.
    """

    name = "cc"
    rules = _RULES
    bytes_per_vertex = 16
    _components: int | None = None

    @classmethod
    def sources(cls, dtype: np.dtype[Any]) -> list[tuple[str, dict[str, str]]]:
        return [("cc", {})]

    def faults(self, label: Labels) -> tuple[Faults, int]:
        """What breaks the rules in `label` (int32 [vertices]), and how many labels there are."""
        if self.graph.device is None:
            return find_faults(self.graph.csr, label)
        return _on_device(self.graph, label)

    def components(self) -> int:
        """Counted once."""
        if self._components is None:
            self._components = count_components(self.graph) if self.graph.csr.rows else 0
        return self._components

    def check(self, output: npt.NDArray[Any], source: int = -1) -> Checked:
        """`output`: labels int32 ``[n]``."""
        n = self.graph.csr.rows
        if output.dtype != np.int32 or output.shape != (n,):
            return Checked(CheckResult(False, f"labels are {output.dtype} {list(output.shape)}, not int32 [{n}]"))
        if not n:
            return Checked(CheckResult(True))
        faults, named = self.faults(output)
        result = verdict(_RULES, faults, output)
        if result.ok and named != self.components():
            result = CheckResult(
                False, f"there are {named:,} labels, and {self.components():,} components by a second count"
            )
        return Checked(result)
