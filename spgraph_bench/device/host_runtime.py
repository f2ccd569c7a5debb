"""The host device's runtime library, ``cuda/host/spg_runtime.cpp``, as ctypes sees it."""

from __future__ import annotations

import ctypes
import os
from functools import cache
from pathlib import Path

from spgraph_bench.device.host_compiler import runtime_request
from spgraph_bench.errors import CompileError, DeviceError
from spgraph_bench.toolchain.modules import build

__all__ = ["KernelEntry", "RuntimeLimits", "RuntimeSettings", "load_library", "runtime_library"]


class RuntimeSettings(ctypes.Structure):
    """spg_device of spg_runtime.hpp."""

    counter_names = (
        "global_atomics",
        "shared_atomics",
        "kernel_launches",
        "child_launches",
        "barriers",
        "claims",
        "reservations",
    )
    _fields_ = [
        (name, ctypes.c_ulonglong)
        for name in ("seed", "pending_limit", "heap_limit", "strict", "traced", *counter_names)
    ]


class RuntimeLimits(ctypes.Structure):
    """Limits of spg_fibers.hpp."""

    _fields_ = [("live", ctypes.c_ulonglong), ("shared", ctypes.c_ulonglong)]


class KernelEntry(ctypes.Structure):
    """spg::export_entry of spg_host.hpp."""

    _fields_ = [
        ("call", ctypes.c_void_p),
        ("kernel", ctypes.c_void_p),
        ("parameters", ctypes.POINTER(ctypes.c_ubyte * 4)),
        ("count", ctypes.c_int),
    ]


@cache
def runtime_library(sanitizers: tuple[str, ...]) -> ctypes.CDLL:
    """The runtime, compiled if need be and loaded once. Raises DeviceError where a sanitizer is not loaded."""
    if "address" in sanitizers and not hasattr(ctypes.CDLL(None), "__asan_init"):
        raise DeviceError(
            "SPGRAPH_HOST_SANITIZE=address needs AddressSanitizer loaded before Python",
            remedy='run it with LD_PRELOAD="$(g++ -print-file-name=libasan.so)" '
            "ASAN_OPTIONS=detect_leaks=0:halt_on_error=0:suppress_equal_pcs=0",
        )
    # Global, so that kernel modules find its functions.
    library = load_library(build(runtime_request(sanitizers)), ctypes.RTLD_GLOBAL)
    pointer, size, integer = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    library.spg_launch.argtypes = [
        ctypes.c_char_p,
        pointer,
        pointer,
        pointer,
        pointer,
        ctypes.c_ulonglong,
        integer,
        pointer,
        pointer,
    ]
    library.spg_launch.restype = integer
    library.spg_message.restype = library.spg_place.restype = ctypes.c_char_p
    library.spg_alloc.argtypes, library.spg_alloc.restype = [size], pointer
    library.spg_free.argtypes, library.spg_free.restype = [pointer], None
    if "race" in sanitizers:
        library.spg_findings.restype = library.spg_trace_text.restype = ctypes.c_char_p
        library.spg_trace_reset.argtypes = [ctypes.c_uint, size, size]
        library.spg_trace_reset.restype = None
    return library


def load_library(path: Path, mode: int = ctypes.RTLD_LOCAL, source: str = "host/spg_runtime.cpp") -> ctypes.CDLL:
    """The library in `path`; `source` is what CompileError names where it does not load."""
    try:
        return ctypes.CDLL(str(path), mode=mode | os.RTLD_NOW)
    except OSError as error:
        cause = str(error).removeprefix(f"{path}: ")
        raise CompileError(f"the compiled kernel does not load: {cause}", place=source) from error
