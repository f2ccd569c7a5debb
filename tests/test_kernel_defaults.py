"""What a kernel takes for itself where the host passes no -D is what the host, and so the record, says it has.

``changed`` and ``differing`` (variants/defines.py) omit what is at its default, which the kernel has too. Here
every variant is prepared on a device that only takes notes, and each macro omitted is compared with the kernel's own.
"""

from __future__ import annotations

import functools
import importlib.util
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from spgraph_bench.errors import SpgraphError
from spgraph_bench.paths import cuda_dir
from spgraph_bench.toolchain.cxx import find_compiler
from spgraph_bench.variants import Variant, variants

SCRIPTS = Path(__file__).resolve().parent.parent / "scripts"


def _kernel_modules() -> ModuleType:
    spec = importlib.util.spec_from_file_location("kernel_modules_of_defaults", SCRIPTS / "kernel_modules.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _value(text: str, value_bytes: int) -> Any:
    """A C expression of numbers, sizeof(value_t) and one conditional, as Python computes it."""
    text = text.replace("(int)", "").replace("sizeof(value_t)", str(value_bytes)).strip()
    if match := re.fullmatch(r"\((.+?) \? (.+?) : (.+?)\)", text):
        text = f"({match[2]} if {match[1]} else {match[3]})"
    return eval(text.replace("/", "//"), {"__builtins__": {}})


@functools.cache
def _defaults(cuda: Path, source: str, names: tuple[str, ...], value_bytes: int) -> dict[str, Any]:
    """What the preprocessor makes of the macros `names` at the end of `source`, where none was given."""
    compiler = find_compiler()
    assert compiler is not None
    asked = "".join(f"told_{name} {name}\n" for name in names)
    value = "float" if value_bytes == 4 else "double"
    done = subprocess.run(
        [
            *compiler,
            "-std=c++17",
            "-E",
            "-P",
            "-DSPG_HOST",
            f"-DSPG_VALUE={value}",
            f"-I{cuda}",
            f"-I{cuda}/host/include",
            "-x",
            "c++",
            "-",
        ],
        input=f'#include "{source}"\n{asked}',
        capture_output=True,
        text=True,
        check=True,
    )
    told = re.findall(r"^told_(\w+) (.+)$", done.stdout, re.MULTILINE)
    return {name: _value(text, value_bytes) for name, text in told if text != name}


class _Notes:
    """What the host left to the kernels while one variant was prepared."""

    def __init__(self) -> None:
        self.left: list[tuple[str, Mapping[str, Any], str]] = []

    def changed(self, params: Mapping[str, Any], tunables: Mapping[str, Any], **names: str) -> dict[str, str]:
        passed = {m: str(params[t]) for m, t in names.items() if params[t] != tunables[t].default}
        self.left += [(m, params, t) for m, t in names.items() if m not in passed]
        return passed

    def differing(self, defaults: Mapping[str, int], **macros: int) -> dict[str, str]:
        passed = {name: str(value) for name, value in macros.items() if value != defaults[name]}
        self.left += [(name, macros, name) for name in macros if name not in passed]
        return passed


def _disagreements(chosen: list[Variant], cuda: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    script, notes = _kernel_modules(), _Notes()
    for name, module in list(sys.modules.items()):
        if name.startswith("spgraph_bench.variants."):
            for function in ("changed", "differing"):
                if hasattr(module, function):
                    monkeypatch.setattr(module, function, getattr(notes, function))
    found: set[str] = set()
    for variant in chosen:
        for matrix, options in script._cases(variant):
            for dtype in variant.dtypes:
                notes.left.clear()
                try:
                    script._prepared(script.NotingDevice(), variant, matrix, dtype, "int32", options, {})
                except SpgraphError:
                    continue
                names = tuple(sorted({macro for macro, _, _ in notes.left}))
                own = _defaults(cuda, str(variant.source), names, np.dtype(dtype).itemsize)
                for macro, values, name in notes.left:
                    if own.get(macro) != values[name]:
                        found.add(f"{variant.name}, {dtype}: {macro} is {own.get(macro)}, the host says {values[name]}")
    return sorted(found)


def test_a_kernels_own_defaults_are_those_of_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = [v for v in variants() if v.source is not None]
    assert _disagreements(chosen, cuda_dir(), monkeypatch) == []


@pytest.mark.parametrize(
    ("file", "before", "after", "variant"),
    [
        ("spmv/ell_row.cuh", "#define SPG_AHEAD 6", "#define SPG_AHEAD 2", "ell"),
        ("spmv/adaptive.cuh", "#define SPG_THREADS 1024", "#define SPG_THREADS 2048", "csr-adaptive"),
    ],
)
def test_a_default_changed_in_the_kernel_alone_is_found(
    file: str, before: str, after: str, variant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "cuda"
    shutil.copytree(cuda_dir(), copy)
    text = (copy / file).read_text()
    assert text.count(before) == 1
    (copy / file).write_text(text.replace(before, after))
    chosen = [v for v in variants("spmv") if v.name == variant]
    assert _disagreements(chosen, copy, monkeypatch)
