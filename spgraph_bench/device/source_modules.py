"""PyCUDA's source modules, made from cubins of our own cache.

They are used as PyCUDA's are (``get_function``, ``get_global``). What differs is where the machine code
comes from: PyCUDA's compile step keeps files that a second process can read half-written, and its linker
leaves no image to keep, so that kernels which launch children are linked again at every start (1.2 s).

This module imports PyCUDA: the `cuda` device loads it when it opens.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pycuda.compiler import DynamicSourceModule, SourceModule
from pycuda.driver import module_from_buffer

from spgraph_bench.toolchain.nvcc import cubin, uses_device_launch

__all__ = ["CachedDynamicSourceModule", "CachedModule", "CachedSourceModule", "source_module"]


class CachedSourceModule(SourceModule):  # type: ignore[misc]
    """The kernels of one ``.cu`` file.

    Parameters
    ----------
    source : a path below ``cuda/``, or an absolute one.
    defines : what ``-D`` gives the compiler, by name.
    arch : "sm_90".

    Raises CompileError when it does not compile, ``pycuda.driver.Error`` when it does not load.
    """

    def __init__(self, source: str, defines: Mapping[str, str], arch: str) -> None:
        self.path: Path = cubin(source, defines, arch)
        self.module = module_from_buffer(self.path.read_bytes())
        self._bind_module()


class CachedDynamicSourceModule(DynamicSourceModule):  # type: ignore[misc]
    """As :class:`CachedSourceModule`, for kernels that launch children: relocatable code, linked with
    cudadevrt."""

    def __init__(self, source: str, defines: Mapping[str, str], arch: str) -> None:
        self.path: Path = cubin(source, defines, arch)
        self.linker = None  # as after PyCUDA's own link()
        self.module = module_from_buffer(self.path.read_bytes())
        self._bind_module()


CachedModule = CachedSourceModule | CachedDynamicSourceModule


def source_module(source: str, defines: Mapping[str, str], arch: str) -> CachedModule:
    """`source` as the kind of module that its kernels need; see :class:`CachedSourceModule`."""
    if uses_device_launch(source):
        return CachedDynamicSourceModule(source, defines, arch)
    return CachedSourceModule(source, defines, arch)
