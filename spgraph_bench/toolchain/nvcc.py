"""From a ``.cu`` file to a cubin, through the disk cache. Needs nvcc, but neither a GPU nor PyCUDA.

Kernels that launch children are relocatable code linked with cudadevrt in two steps (``-rdc=true -cubin``,
then ``-dlink -cubin -lcudadevrt``), because a linked cubin can be cached: PyCUDA's DynamicSourceModule links
at every start, which takes 1.2 s.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from spgraph_bench.errors import DeviceError, SpgraphError
from spgraph_bench.paths import cuda_dir
from spgraph_bench.toolchain.compilers import compiler_identity, run_compiler
from spgraph_bench.toolchain.modules import Request, build
from spgraph_bench.toolchain.sources import source_digest, source_files

__all__ = ["Nvcc", "cubin", "cubin_request", "find_nvcc", "uses_device_launch"]


@dataclass(frozen=True)
class Nvcc:
    """The CUDA compiler."""

    path: str
    identity: str
    """What it says of itself. Its path and time of installation do not count: a cubin is the same
    whichever copy of one release makes it, so that modules can be compiled on another machine."""
    version: str
    """"13.0", or "" if it does not say."""


@functools.cache
def find_nvcc() -> Nvcc:
    """nvcc from ``CUDA_HOME``, ``PATH`` or ``/usr/local/cuda``. Raises DeviceError if there is none."""
    homes = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH")]
    places = [str(Path(h) / "bin" / "nvcc") for h in homes if h]
    for place in [*places, "nvcc", "/usr/local/cuda/bin/nvcc"]:
        if nvcc := shutil.which(place):
            version_text = compiler_identity(nvcc)
            match = re.search(r"release (\d+\.\d+)", version_text)
            built = re.search(r"^nvcc: NVIDIA.*", version_text, re.DOTALL | re.MULTILINE)
            return Nvcc(nvcc, built[0] if built else version_text, match[1] if match else "")
    raise DeviceError(
        "nvcc is not found, so the kernels cannot be compiled for the GPU",
        remedy="install the CUDA toolkit and put its bin folder on PATH, or --device host",
    )


_DEVICE_RUNTIME = re.compile(r"\b(SPG_LAUNCH|cudaGraphLaunch|cudaGetLastError)\(")
_NOT_CODE = re.compile(r"//[^\n]*|^[ \t]*#[ \t]*define(?:[^\n]*\\\n)*[^\n]*", re.M)


def uses_device_launch(source: str) -> bool:
    """Whether the kernels of `source`, or headers it includes, launch children or graphs: that needs
    relocatable code."""
    try:
        files = source_files(cuda_dir() / source, [cuda_dir()])
        texts = [p.read_text(encoding="utf-8") for p in files if p.parent != cuda_dir() / "host"]
    except (OSError, SpgraphError):
        return False  # the compiler's message will be the better one
    return any(_DEVICE_RUNTIME.search(_NOT_CODE.sub("", text)) for text in texts)


def cubin_request(source: str, defines: Mapping[str, str], arch: str) -> Request:
    """What the module cache needs to build `source` (a path below ``cuda/``) for `arch` ("sm_90")."""
    nvcc = find_nvcc()
    path = cuda_dir() / source
    linked = uses_device_launch(source)
    options = [
        "-O3",
        "-std=c++17",
        f"-arch={arch}",
        # Source lines for profilers and sanitizers; the machine code is the same.
        "-lineinfo",
        *(f"-D{name}={value}" for name, value in sorted(defines.items())),
    ]

    def make(target: Path) -> str:
        # Sources outside cuda/ (a user's own) include "common/spg.cuh".
        compile_: list[str | Path] = [nvcc.path, *options, f"-I{cuda_dir()}"]
        if not linked:
            return run_compiler([*compile_, "-cubin", "-o", target, path], source)
        relocatable = target.with_suffix(".rdc.cubin")
        output = run_compiler([*compile_, "-rdc=true", "-cubin", "-o", relocatable, path], source)
        link: list[str | Path] = [
            nvcc.path,
            f"-arch={arch}",
            "-dlink",
            "-cubin",
            "-o",
            target,
            relocatable,
            "-lcudadevrt",
        ]
        return output + run_compiler(link, source)

    return Request(
        (source_digest(path, [cuda_dir()]), *options, str(linked), nvcc.identity),
        make,
        ".cubin",
        source,
        ("nvcc", nvcc.version, *options, *(["-rdc=true"] if linked else [])),
    )


def cubin(source: str, defines: Mapping[str, str], arch: str) -> Path:
    """The cubin of `source`, from the cache or compiled now. Raises CompileError with file and line."""
    return build(cubin_request(source, defines, arch))
