"""A parameter of a kernel has one default, the host's: kernels have none of their own, and get each -D every time."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spgraph_bench.device import open_device
from spgraph_bench.errors import CompileError
from spgraph_bench.formats import get_format
from spgraph_bench.parameters import Parameter
from spgraph_bench.paths import cuda_dir
from spgraph_bench.recipes import make
from spgraph_bench.runner.prepare import described_modules, prepare
from spgraph_bench.toolchain.sources import source_files, tokens
from spgraph_bench.variants import Variant, get_variant, variants

KERNELS = [p for p in sorted(cuda_dir().rglob("*.cu*")) if p.relative_to(cuda_dir()).parts[0] != "host"]
TYPES = {"SPG_VALUE": "float", "SPG_OFFSET": "int"}


def own_defaults(text: str) -> list[str]:
    """The macros that `text` defines where the compiler was given no such one."""
    guard = re.compile(r"^[ \t]*#[ \t]*(?:ifndef[ \t]+|if[ \t]+!defined[ \t(]+)(SPG_\w+)", re.M)
    collected = []
    for match in guard.finditer(text):
        inside = text[match.end() :].partition("#endif")[0]
        if re.search(rf"^[ \t]*#[ \t]*define[ \t]+{match[1]}\b", inside, re.M):
            collected.append(match[1])
    return collected


@pytest.mark.parametrize("path", KERNELS, ids=lambda p: f"{p.parent.name}/{p.name}")
def test_no_kernel_file_has_defaults_of_its_own(path: Path) -> None:
    assert own_defaults(path.read_text(encoding="utf-8")) == []


def test_a_default_in_a_kernel_file_is_found() -> None:
    assert own_defaults("#ifndef SPG_AHEAD\n#define SPG_AHEAD 6\n#endif\n") == ["SPG_AHEAD"]
    assert own_defaults("#if !defined(SPG_AHEAD)\n# define SPG_AHEAD 6 // slots\n#endif\n") == ["SPG_AHEAD"]
    assert own_defaults("#ifndef SPG_AHEAD\n#ifdef SPG_B\n#define SPG_AHEAD 1\n#endif\n#endif\n") == ["SPG_AHEAD"]
    assert own_defaults('#ifndef SPG_AHEAD\n#error "no"\n#endif\n#define SPG_TILE SPG_AHEAD\n') == []


def _tuned() -> Iterator[Any]:
    for v in variants():
        for name, tunable in v.tunables.items():
            if tunable.macro:
                yield pytest.param(v, tunable, id=f"{v.problem}-{v.name}-{name}")


@pytest.mark.parametrize(("variant", "tunable"), list(_tuned()))
def test_a_macro_is_one_of_its_kernels_source(variant: Variant, tunable: Parameter) -> None:
    assert variant.source is not None
    files = source_files(cuda_dir() / variant.source, [cuda_dir()])
    assert any(tunable.macro in tokens(f.read_text(encoding="utf-8")) for f in files)


@pytest.mark.parametrize(
    ("source", "defines", "message"),
    [
        ("spmv/ell.cu", TYPES, "SPG_AHEAD"),
        ("spmv/csr_adaptive.cu", {**TYPES, "SPG_BLOCK": "128", "SPG_TILE": "512", "SPG_DEPTH": "2"}, "SPG_THREADS"),
        ("spmv/csr_scalar.cu", {"SPG_VALUE": "float"}, "offset_t"),
        ("spmv/csr_scalar.cu", {"SPG_OFFSET": "int"}, "value_t"),
    ],
)
def test_a_kernel_compiled_without_a_macro_is_an_error(source: str, defines: dict[str, str], message: str) -> None:
    with pytest.raises(CompileError) as caught:
        open_device("host").compile(source, defines)
    assert message in caught.value.cause
    assert str(caught.value.place).startswith(("spmv/", "common/"))


def _prepared(name: str, **params: Any) -> Any:
    variant, csr, dtype = get_variant("spmv", name), make("poisson2d:n=8").csr, np.dtype("float32")
    packed = get_format(variant.format).pack(csr, dtype)
    inputs = {"x": np.ones(csr.cols, dtype)}
    return prepare(open_device("host"), variant, packed, inputs, {"y": ((csr.rows,), dtype)}, params).job


@pytest.mark.parametrize(("params", "passed"), [({}, "-DSPG_AHEAD=6"), ({"ahead": 2}, "-DSPG_AHEAD=2")])
def test_what_the_record_says_is_what_the_kernel_got(params: dict[str, Any], passed: str) -> None:
    job = _prepared("ell", **params)
    assert f"-DSPG_AHEAD={job.params['ahead']}" == passed
    (module,) = described_modules(job)
    assert passed in module["options"]


def test_a_kernel_is_not_compiled_before_its_tunables_are_decided() -> None:
    job = _prepared("ell")
    job.params["ahead"] = "auto"
    with pytest.raises(ValueError, match="SPG_AHEAD must be decided"):
        job.kernel("ell", SPG_BLOCK=512)
    assert job.kernel("ell", SPG_BLOCK=512, SPG_AHEAD=6)


@pytest.mark.parametrize(
    ("module", "constant", "file", "macro"),
    [
        ("variants.sssp.kernels", "_SPARE", "graph/relax.cuh", "SPG_SPARE"),
        ("variants.quadtree.kernels", "_FINISH", "quadtree/hybrid.cu", "SPG_FINISH"),
        ("variants.refine.kernels", "_WARPS", "refine/level.cuh", "SPG_LEVEL_WARPS"),
        ("variants.bfs.whole_search", "_NEAR", "graph/one_block.cuh", "SPG_NEAR"),
        ("variants.launch.kernels", "_BLOCK", "launch/task.cuh", "SPG_TASK_BLOCK"),
    ],
)
def test_constants_of_host_and_kernel_agree(module: str, constant: str, file: str, macro: str) -> None:
    value = getattr(importlib.import_module(f"spgraph_bench.{module}"), constant)
    match = re.search(rf"^#define {macro} ([^/\n]+)", (cuda_dir() / file).read_text(encoding="utf-8"), re.M)
    assert match is not None
    assert eval(match[1], {"__builtins__": {}}) == value
