"""The cuda device's modules are PyCUDA's source modules, loaded from our cache."""

from __future__ import annotations

import importlib
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spgraph_bench.device import open_device
from spgraph_bench.runner.prepare import defines_for
from spgraph_bench.toolchain.nvcc import uses_device_launch

DEFINES = defines_for(np.float32, np.int32)


@pytest.mark.parametrize(("source", "children"), [("spmv/csr_scalar.cu", False), ("launch/fire_and_forget.cu", True)])
def test_kernels_that_launch_children_are_dynamic_source_modules(
    source: str, children: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Against a stand-in for PyCUDA that refuses to compile or link."""
    compiler, driver = types.ModuleType("pycuda.compiler"), types.ModuleType("pycuda.driver")

    class Base:
        def __init__(self, *_: Any, **__: Any) -> None:
            raise AssertionError("PyCUDA's own compile step ran")

        def _bind_module(self) -> None:
            self.get_global = self.module.get_global

        def get_function(self, name: str) -> Any:
            return self.module.get_function(name)

    class Loaded:
        def __init__(self, image: bytes) -> None:
            self.image = image

        def get_function(self, name: str) -> str:
            return f"function {name}"

        def get_global(self, name: str) -> str:
            return f"global {name}"

    compiler.SourceModule = type("SourceModule", (Base,), {})  # type: ignore[attr-defined]
    compiler.DynamicSourceModule = type("DynamicSourceModule", (Base,), {})  # type: ignore[attr-defined]
    driver.module_from_buffer = Loaded  # type: ignore[attr-defined]
    for name, module in (
        ("pycuda", types.ModuleType("pycuda")),
        ("pycuda.compiler", compiler),
        ("pycuda.driver", driver),
    ):
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.delitem(sys.modules, "spgraph_bench.device.source_modules", raising=False)
    ours = importlib.import_module("spgraph_bench.device.source_modules")
    monkeypatch.delitem(sys.modules, "spgraph_bench.device.source_modules")
    image = tmp_path / "kernel.cubin"
    image.write_bytes(b"a cubin")
    monkeypatch.setattr(ours, "cubin", lambda *_: image)

    made = ours.source_module(source, DEFINES, "sm_90")
    base = compiler.DynamicSourceModule if children else compiler.SourceModule  # type: ignore[attr-defined]
    assert isinstance(made, base)
    assert uses_device_launch(source) == children
    assert made.module.image == b"a cubin"
    assert made.get_function("f") == "function f"
    assert made.get_global("g") == "global g"


@pytest.mark.gpu
@pytest.mark.parametrize("source", ["spmv/csr_scalar.cu", "launch/fire_and_forget.cu"])
def test_on_a_gpu_they_are_pycudas(source: str) -> None:
    from pycuda.compiler import DynamicSourceModule, SourceModule

    device = open_device("cuda")
    try:
        module = device.compile(source, DEFINES).source_module  # type: ignore[attr-defined]
        assert isinstance(module, DynamicSourceModule if uses_device_launch(source) else SourceModule)
        assert module.get_function(Path(source).stem).num_regs > 0
    finally:
        device.close()
