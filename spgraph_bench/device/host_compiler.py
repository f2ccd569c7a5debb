"""Compiling kernels, and the runtime that runs them, for the host device.

Kernels are built with ``-O2``; without ``-march=native`` and with ``-ffp-contract=off``, so that the cache
can be shared between machines and every machine gives the same bits; with ``-fno-strict-aliasing``, because
nvcc lets kernels read arrays as vectors.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shlex
import subprocess
from collections.abc import Mapping
from pathlib import Path

from spgraph_bench.errors import DeviceError
from spgraph_bench.paths import cuda_dir
from spgraph_bench.toolchain.compilers import compiler_identity, run_compiler
from spgraph_bench.toolchain.cxx import chosen_sanitizers, find_compiler
from spgraph_bench.toolchain.modules import Request
from spgraph_bench.toolchain.sources import source_digest

__all__ = ["available", "module_request", "need_compiler", "runtime_request", "sanitizer_env"]

# A call before each load and store: cuda/host/spg_hooks.hpp. Structures are copied whole, as nvcc does it.
_HOOKS = (
    "-DSPG_HOOKS",
    "-fsanitize=thread",
    "--param=tsan-instrument-func-entry-exit=0",
    "--param=tsan-distinguish-volatile=1",
    "-fno-tree-vectorize",
    "-fno-tree-sra",
)
_FLAGS = (
    "-std=c++17",
    "-O2",
    "-g1",
    "-fPIC",
    "-fno-exceptions",
    "-fno-rtti",
    "-fno-strict-aliasing",
    "-ffp-contract=off",
    "-U_FORTIFY_SOURCE",
    "-fvisibility=hidden",
)
_MARK = re.compile(
    r'extern "C" __attribute__\(\(visibility\("default"\), used\)\) void\s+'
    r"(?:__attribute__\s*\(\(.*?\)\)\s*)*(\w+)\s*\("
)


def available() -> str | None:
    """Why the host device cannot be used here, with the remedy, or None if it can."""
    if find_compiler():
        return None
    if named := os.environ.get("CXX"):
        return f"CXX is {named!r}, which is not on PATH: set CXX to a C++17 compiler, or unset it"
    return "no C++ compiler (g++ or clang++): install one, for example with 'apt install g++'"


def need_compiler() -> list[str]:
    """The C++ compiler as a command. Raises DeviceError where there is none."""
    if reason := available():
        cause, _, remedy = reason.partition(": ")
        raise DeviceError(cause, remedy=remedy)
    compiler = find_compiler()
    assert compiler
    return compiler


def sanitizer_env(*sanitizers: str) -> dict[str, str]:
    """The environment in which a Python process can run sanitised kernels (AddressSanitizer has to be loaded
    before Python itself).

    Parameters
    ----------
    sanitizers : "address", "undefined", "race"; address alone by default.
    """
    chosen = sanitizers or ("address",)
    env = {**os.environ, "SPGRAPH_HOST_SANITIZE": ",".join(chosen)}
    if "address" in chosen:
        ask = [*need_compiler(), "-print-file-name=libasan.so"]
        library = subprocess.run(ask, capture_output=True, text=True, check=True).stdout.strip()
        if not os.path.isabs(library):
            raise DeviceError(f"{ask[0]} has no AddressSanitizer", remedy="install libasan, or use g++")
        env["LD_PRELOAD"] = library
        # Leaks are Python's business; an error becomes a LaunchError and need not end the process.
        env["ASAN_OPTIONS"] = "detect_leaks=0:halt_on_error=0:suppress_equal_pcs=0:detect_stack_use_after_return=0"
    return env


def _is_clang(compiler: list[str]) -> bool:
    return "clang" in compiler_identity(shlex.join(compiler)).lower()


def _options(compiler: list[str], sanitizers: tuple[str, ...]) -> list[str]:
    # Sources are named below cuda/, wherever that is: a cache may be shared between installations.
    checks = [f"-fsanitize={s}" for s in sanitizers if s != "race"]
    # g++ takes six times as long to optimise what both sanitizers have added, and the tests gain less than that.
    flags = [*_FLAGS, *checks, *["-Og"] * bool(checks), f"-fdebug-prefix-map={cuda_dir()}=."]
    if checks and not _is_clang(compiler):  # half of the rest goes into allocating registers loop by loop
        flags.append("-fira-region=one")
    if "race" in sanitizers:
        flags += _HOOKS
    if "address" in sanitizers:
        flags.append("-fsanitize-recover=address")
    if "undefined" in sanitizers:  # a trap becomes a LaunchError with its line
        flags.append("-fsanitize-undefined-trap-on-error")
    return flags


def _portable(options: list[str]) -> list[str]:
    return [option for option in options if not option.startswith("-fdebug-prefix-map")]


def _identity(compiler: list[str]) -> str:
    return f"{compiler_identity(shlex.join(compiler))}\n{platform.machine()}"


def _need_hooks(compiler: list[str]) -> None:
    # clang has such hooks too, but moves accesses to other lines and takes different parameters.
    if _is_clang(compiler):
        raise DeviceError(f"{shlex.join(compiler)} has no hooks for races and traces", remedy="use g++: CXX=g++")


def runtime_request(sanitizers: tuple[str, ...]) -> Request:
    """The request of the runtime library, built for these sanitizers."""
    compiler, root = need_compiler(), cuda_dir()
    defines_of = {"address": "-DSPG_ASAN", "race": "-DSPG_HOOKS"}
    options = [*_options(compiler, ()), *(word for name, word in defines_of.items() if name in sanitizers)]
    if "race" in sanitizers:
        _need_hooks(compiler)

    def make(target: Path) -> str:
        command: list[str | Path] = [*compiler, *options, "-shared", "host/spg_runtime.cpp", "-o", target, "-ldl"]
        return run_compiler(command, "host/spg_runtime.cpp", cwd=root)

    parts = (source_digest(root / "host/spg_runtime.cpp"), *_portable(options), _identity(compiler))
    return Request(parts, make, ".so", "host/spg_runtime.cpp")


def module_request(
    source: str, defines: Mapping[str, str] | None = None, sanitizers: tuple[str, ...] | None = None
) -> Request:
    """The request that has `source` ready before it is needed: for ``modules.build_all``.

    Parameters
    ----------
    source : a path below ``cuda/``, or an absolute one.
    defines : preprocessor definitions; "" defines a name without a value.
    sanitizers : None: what SPGRAPH_HOST_SANITIZE names.
    """
    compiler, root = need_compiler(), cuda_dir()
    sanitizers = chosen_sanitizers() if sanitizers is None else sanitizers
    include_dirs = [root, root / "host/include"]
    options = _options(compiler, sanitizers)
    defined = [f"-D{name}={value}" for name, value in sorted((defines or {}).items())]
    words = ["-DSPG_HOST", *defined, "-I.", "-Ihost/include"]

    def make(target: Path) -> str:
        # Preprocessed first: only then can every kernel be found that macros and conditionals make.
        text = target.with_suffix(".ii")
        run_compiler([*compiler, *options, *words, "-E", "-x", "c++", source, "-o", text], source, cwd=root)
        code = text.read_text(errors="surrogateescape")
        heads = {match[1]: match.end() for match in _MARK.finditer(code)}
        entries = "".join(
            f'extern "C" __attribute__((visibility("default"))) spg::export_entry spg_entry_{name};\n'
            f"spg::export_entry spg_entry_{name} = spg::entry({name});\n"
            for name in heads
        )
        if "race" in sanitizers:
            for name, start in heads.items():
                called, read_only = _parameters(code, start)
                entries += (
                    f'static spg::described spg_described_{name}("{name}", spg_entry_{name}, '
                    f'"{called}", {read_only}ull);\n'
                )
        with text.open("a", errors="surrogateescape") as file:
            file.write(f"\n# 1 {json.dumps(source)}\n{entries}")
        command: list[str | Path] = [*compiler, *options, "-x", "c++-cpp-output"]
        if "race" not in sanitizers:
            return run_compiler([*command, "-shared", text, "-o", target], source, cwd=root)
        # Linked without -fsanitize=thread: the hooks are the runtime's.
        code_of = target.with_suffix(".o")
        log = run_compiler([*command, "-c", text, "-o", code_of], source, cwd=root)
        return log + run_compiler([*compiler, "-shared", code_of, "-o", target], source, cwd=root)

    digest = source_digest(root / source, include_dirs)
    options_key = (Path(compiler[-1]).name, *_portable(options), *defined)
    return Request(
        (source, digest, *_portable(options), *defined, _identity(compiler)), make, ".so", source, options_key
    )


def _parameters(code: str, start: int) -> tuple[str, int]:
    """The names of parameters, a comma after each, and, as bits, which are ``const T* __restrict__``.

    nvcc may read those through the read-only cache. `start` is where the parameter list begins in `code`.
    """
    depth, parts = 0, [""]
    for c in code[start:]:
        if c in ")]}>" and depth == 0:
            break
        depth += (c in "([{<") - (c in ")]}>")
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    names, read_only = "", 0
    for i, part in enumerate(parts):
        match = re.search(r"(\w+)\s*(?:\[[^]]*\]\s*)?$", part)
        names += f"{match[1] if match and part.strip() != 'void' else ''},"
        target, star, rest = part.rpartition("*")
        if star and "__restrict" in rest and re.search(r"\bconst\b", target.rpartition("*")[2]):
            read_only |= 1 << i
    return names, read_only
