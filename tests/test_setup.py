"""What belongs to the setup of a matrix is found by itself: kernels that are compiled for one matrix alone."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from spgraph_bench.device.host import HostDevice
from spgraph_bench.errors import SkipError
from spgraph_bench.formats import get_format
from spgraph_bench.problems import get_problem
from spgraph_bench.recipes import make
from spgraph_bench.runner.prepare import compile_times, prepare
from spgraph_bench.toolchain.modules import Compiled
from spgraph_bench.variants import Variant, variants


class _Kernel:
    """Does nothing."""

    def bind(self, *_: Any, **__: Any) -> Callable[[], None]:
        return lambda: None

    bind_packed = launcher = bind

    def __call__(self, *_: Any, **__: Any) -> None:
        pass

    def resident_blocks(self, *_: Any) -> int:
        return 132


class _Module:
    def __init__(self, source: str, defines: Mapping[str, str]) -> None:
        self.compiled = Compiled(source, "", tuple(f"-D{k}={v}" for k, v in sorted(defines.items())), 700.0)

    def kernel(self, name: str) -> _Kernel:
        return _Kernel()


class _Planning(HostDevice):
    """Compiles nothing, runs nothing: shows which modules a variant asks for."""

    def compile(self, source: str, defines: Mapping[str, str] | None = None) -> Any:
        return _Module(source, defines or {})


def of_a_matrix(value: str) -> bool:
    """Whether the value of a -D holds a matrix: a list, or a number that no shape of a block has."""
    return bool(re.search(r"[(){},]", value)) or any(int(n) > 2048 for n in re.findall(r"\d+", value))


_matrix = functools.cache(make)
PROBLEMS = ("spmv", "spmv-transposed", "spmm")


@pytest.mark.parametrize(
    "variant",
    [v for p in PROBLEMS for v in variants(p) if v.kernel and v.where == "gpu"],
    ids=lambda v: f"{v.problem}-{v.name}",
)
def test_a_module_that_holds_the_matrix_counts_as_setup(variant: Variant) -> None:
    seen = 0
    for recipe in ("poisson2d:n=160,values=ones", "rmat:scale=10,values=ones", "blocks:n=20,block=3"):
        whole, problem, dtype = _matrix(recipe), get_problem(variant.problem), np.dtype(variant.dtypes[0])
        device = _Planning()
        try:
            packed = get_format(variant.format).pack(whole.csr, dtype, np.dtype("int32"))
            inputs = problem.inputs(whole, dtype, 1)
            outputs = problem.output_arrays(whole, dtype)
            shapes = {name: (shape, np.dtype(kind)) for name, (shape, kind) in outputs.items()}
            options = {"k": 32, "layout": "row"} if variant.problem == "spmm" else {}
            job = prepare(device, variant, packed, inputs, shapes, {}, options=options).job
        except SkipError:
            continue
        for module, for_matrix in job.modules.items():
            values = [o.partition("=")[2] for o in module.options]
            holds = [v for v in values if of_a_matrix(v)]
            assert bool(holds) == for_matrix, f"{recipe}: {holds or 'nothing of the matrix'}"
        spent = compile_times(job)
        assert spent.get("matrix_compile_ms", 0.0) == (700.0 if variant.for_matrix else 0.0)
        seen += 1
    assert seen, "it was prepared for none of the matrices"


def test_the_check_can_fail() -> None:
    assert of_a_matrix("D(-300)D(0)")
    assert of_a_matrix("4096")
    assert not of_a_matrix("2048")
    assert not of_a_matrix("long long")
