"""Compile the kernels with nvcc for the architectures we support: warnings and new spills are errors.

Needs nvcc, no GPU. What to compile is found by preparing every variant on a device that takes notes
(kernel_modules.py): so with what is compiled for a matrix, and with ``--all`` the extremes of tunables.

Per commit each source is compiled so often that every value of every define is there, once for sm_90 and then in turn
for the oldest and the newest. ``--all`` compiles every module for every architecture. Registers and spills of each
kernel are printed. A spill that known_spills.toml does not explain fails with default tunables (at an extreme it
is a result of the setting); so does a kernel that needs more registers than its largest block leaves it.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
from kernel_modules import Module, modules, of_validators

from spgraph_bench.errors import DeviceError
from spgraph_bench.paths import cache_dir, cuda_dir
from spgraph_bench.toolchain.nvcc import find_nvcc, uses_device_launch
from spgraph_bench.toolchain.sources import source_digest

ARCHITECTURES = (75, 80, 86, 89, 90, 100, 120)
IN_TURN = (90, 75, 120)
"""The architectures that the modules of a source are compiled for on each commit, in turn, the first two at least:
those measured on, the oldest, and the newest, whose multiprocessors hold as few threads as those of 86 and 89. What
takes time is the compiler's front end, which runs for each of them."""
REGISTERS = 65536
"""Of a multiprocessor, on all of them; a block must fit."""
KNOWN = Path(__file__).resolve().parent / "known_spills.toml"


@dataclass(frozen=True)
class Usage:
    """What ptxas says of one kernel in one module for one architecture."""

    module: Module
    kernel: str
    arch: int
    registers: int
    spilled: int
    """Bytes of spill stores, those of functions it calls included."""


_ENTRY = re.compile(r"Compiling entry function '(\w+)' for 'sm_(\d+)\w*'")
_SPILL = re.compile(r"(\d+) bytes spill stores")
_USED = re.compile(r"Used (\d+) registers")


def usages(module: Module, output: str) -> list[Usage]:
    """The kernels in what ``ptxas -v`` said."""
    entries, kernel, arch, spilled = [], "", 0, 0
    for line in output.splitlines():
        if entry := _ENTRY.search(line):
            kernel, arch, spilled = entry[1], int(entry[2]), 0
        elif spill := _SPILL.search(line):
            spilled += int(spill[1])
        elif (used := _USED.search(line)) and kernel:
            entries.append(Usage(module, kernel, arch, int(used[1]), spilled))
            kernel = ""
    return entries


def sources() -> set[str]:
    """All kernel files, as paths below cuda/."""
    return {str(path.relative_to(cuda_dir())) for path in cuda_dir().rglob("*.cu")}


def each_value(modules: Iterable[Module]) -> set[Module]:
    """Of the modules of each source so many that every value of every define is there, and every define's absence."""
    of_source: dict[str, list[Module]] = {}
    for module in sorted(modules):
        of_source.setdefault(module.source, []).append(module)
    chosen = set()
    for own in of_source.values():
        names = {name for module in own for name, _ in module.defines}
        values = {module: {(name, dict(module.defines).get(name)) for name in names} for module in own}
        missing = set().union(*values.values())
        while own:
            module = max(own, key=lambda m: len(values[m] & missing))  # the first of those with the most
            chosen.add(module)
            missing -= values[module]
            if not missing:
                break
    return chosen


def plan(modules: set[Module], archs: list[int], everything: bool) -> dict[Module, list[int]]:
    """The architectures each module is compiled for."""
    if everything:
        return dict.fromkeys(modules, archs)
    turn = [arch for arch in IN_TURN if arch in archs] or archs[-1:]
    of_source: dict[str, list[Module]] = {}
    for module in sorted(each_value(modules)):
        of_source.setdefault(module.source, []).append(module)
    todo: dict[Module, list[int]] = {}
    for own in of_source.values():
        # A source of one module has it for two architectures.
        for i in range(max(len(own), min(2, len(turn)))):
            todo.setdefault(own[i % len(own)], []).append(turn[i % len(turn)])
    return todo


def supported(nvcc: str) -> list[int]:
    """The architectures (compute capability times 10) of ARCHITECTURES that this nvcc compiles for."""
    output = subprocess.run([nvcc, "--list-gpu-arch"], capture_output=True, text=True, check=True).stdout
    return [arch for arch in ARCHITECTURES if f"compute_{arch}" in output.split()]


def _cached_path(key: str) -> Path | None:
    try:
        return cache_dir("compiled") / f"{key}.txt"
    except OSError:
        return None


def compile_one(nvcc: Any, archs: list[int], module: Module, folder: Path) -> tuple[bool, str]:
    """Whether `module` compiles without a warning for `archs`, and what nvcc said.

    What compiled once is not compiled again until the source, nvcc or the options change.
    """
    path = cuda_dir() / module.source
    command = ["-O3", "-std=c++17", "-Werror", "all-warnings", "-fatbin", "-Xptxas", "-v"]
    command += [f"-D{name}={value}" for name, value in module.defines]
    command += [f"-gencode=arch=compute_{arch},code=sm_{arch}" for arch in archs]
    command += ["-rdc=true"] * uses_device_launch(module.source)
    digest = hashlib.sha256(repr((source_digest(path, [cuda_dir()]), command, nvcc.identity)).encode())
    cached = _cached_path(digest.hexdigest())
    if cached is not None and cached.is_file():
        return True, cached.read_text(encoding="utf-8")
    output = folder / f"{digest.hexdigest()}.fatbin"
    done = subprocess.run([nvcc.path, *command, "-o", output, path], capture_output=True, text=True)
    output.unlink(missing_ok=True)
    nvcc_text = done.stderr + done.stdout
    if done.returncode:
        return False, nvcc_text or f"nvcc ended with {done.returncode}"
    if cached is not None:
        part = cached.with_suffix(f".{os.getpid()}.part")
        part.write_text(nvcc_text, encoding="utf-8")
        part.replace(cached)
    return True, nvcc_text


def known_spills() -> list[dict[str, Any]]:
    """The entries of the list of accepted spills, each with its pattern and its reason."""
    return tomllib.loads(KNOWN.read_text(encoding="utf-8")).get("spill", []) if KNOWN.is_file() else []


def explains(known: Mapping[str, Any], usage: Usage) -> bool:
    """Whether an entry of known_spills.toml is of this kernel and of no fewer bytes."""
    defines = {name.removeprefix("SPG_").lower(): value for name, value in usage.module.defines}
    return (
        known["kernel"] == usage.kernel
        and usage.spilled <= known["bytes"]
        and usage.arch in known.get("archs", ARCHITECTURES)
        and all(defines.get(name) in values for name, values in known.get("defines", {}).items())
    )


def most_registers(threads: int) -> int:
    """Registers a thread may have so that a block of `threads` can be launched at all."""
    return REGISTERS // (-(-threads // 32) * 32) // 8 * 8


def table(usages: Iterable[Usage]) -> str:
    """A line for each kernel: registers over all its modules, and the largest spill."""
    by_kernel: dict[tuple[str, str], list[Usage]] = {}
    for usage in usages:
        by_kernel.setdefault((usage.module.source, usage.kernel), []).append(usage)
    lines = [f"{'source':34} {'kernel':30} {'registers':>9} {'spilled':>8}"]
    for (source, kernel), own in sorted(by_kernel.items()):
        low, high = min(u.registers for u in own), max(u.registers for u in own)
        registers = f"{low}-{high}" if low < high else str(low)
        spilled = max(u.spilled for u in own)
        lines.append(f"{source:34} {kernel:30} {registers:>9} {f'{spilled} B' if spilled else '-':>8}")
    return "\n".join(lines)


def faults(
    usages: Iterable[Usage], blocks: Mapping[tuple[Module, str], int], chosen: set[Module] | None = None
) -> list[str]:
    """New spills (of `chosen` modules only, if that is given), and kernels whose largest block cannot be
    launched, a line each."""
    known, messages = known_spills(), []
    for usage in sorted(usages, key=lambda u: (u.module, u.kernel, u.arch)):
        place = f"cuda/{usage.module.label}: {usage.kernel} for sm_{usage.arch}"
        counts = chosen is None or usage.module in chosen
        if usage.spilled and counts and not any(explains(entry, usage) for entry in known):
            messages.append(f"{place} spills {usage.spilled} bytes, which {KNOWN.name} does not explain")
        threads = blocks.get((usage.module, usage.kernel), 0)
        if threads and usage.registers > most_registers(threads):
            messages.append(
                f"{place} needs {usage.registers} registers, {most_registers(threads)} are left for each of "
                f"{threads} threads: __launch_bounds__({threads})"
            )
    return messages


def main() -> int:
    """Compile, and print spills and unexplained ones. Exit status 1 if a module fails or a spill has no reason."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument(
        "--all", action="store_true", help="every module, with extremes of tunables, for every architecture"
    )
    parser.add_argument("--source", default="", help="only sources that contain this")
    arguments = parser.parse_args()
    try:
        nvcc = find_nvcc()
    except DeviceError:
        print("no nvcc here: kernels were not compiled for GPUs")
        return 0
    archs = supported(nvcc.path)
    if left_out := sorted(set(ARCHITECTURES) - set(archs)):
        print(f"nvcc {nvcc.version} does not know {', '.join(f'sm_{a}' for a in left_out)}")
    started = time.monotonic()
    noted = modules()
    usual = set(noted.compiled)
    if arguments.all:
        noted = modules(with_extremes=True)
    there = sources()
    # Sources that neither variants nor validators compile (measure/clock.cu) need no types.
    wanted = {m for m in noted.compiled | of_validators() if m.source in there}
    alone = {Module(s, ()) for s in there - {m.source for m in wanted}}
    wanted, usual = wanted | alone, usual | of_validators() | alone
    wanted = {m for m in wanted if arguments.source in m.source}
    todo = plan(wanted, archs, arguments.all)
    order = sorted(todo, key=lambda m: (-len(todo[m]), m))  # long ones first
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(max(1, arguments.jobs)) as pool:
        outcomes = list(pool.map(lambda m: compile_one(nvcc, todo[m], m, Path(folder)), order))
    used, failed = [], 0
    for module, (compiled, text) in zip(order, outcomes, strict=True):
        if compiled:
            used += usages(module, text)
        else:
            failed += 1
            print(f"cuda/{module.label}:\n{text}", file=sys.stderr)
    print(table(used))
    wrong = faults(used, noted.blocks, usual)
    for line in wrong:
        print(line, file=sys.stderr)
    pairs, seconds = sum(map(len, todo.values())), time.monotonic() - started
    names = " ".join(f"sm_{arch}" for arch in sorted({a for own in todo.values() for a in own}))
    print(
        f"nvcc {nvcc.version}: {len(todo) - failed} of {len(todo)} compiled for {names} "
        f"({pairs} pairs) in {seconds:.0f} s"
    )
    return 1 if failed or wrong else 0


if __name__ == "__main__":
    sys.exit(main())
