"""`spgraph doctor`: what this machine has, what is missing, and the command that fixes it."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from spgraph_bench.cli.options import json_option
from spgraph_bench.cli.terminal import console, out_json

if TYPE_CHECKING:
    from spgraph_bench.device.probe import Driver

__all__ = ["Check", "checks", "command"]

State = Literal["ok", "missing", "optional"]


@dataclass(frozen=True)
class Check:
    """One thing looked at."""

    group: str
    name: str
    state: State
    """"missing" keeps a device from working, "optional" only narrows what can be done."""
    found: str
    remedy: str = ""


def _package(name: str, why: str, *, needed: bool, install: str) -> Check:
    from spgraph_bench.device.probe import package_version

    version = package_version(name)
    if version is not None:
        return Check("python", name, "ok", version)
    return Check("python", name, "missing" if needed else "optional", f"not installed ({why})", install)


def _python_checks() -> Iterator[Check]:
    version = platform.python_version()
    fits = sys.version_info >= (3, 11)
    yield Check("python", "python", "ok" if fits else "missing", version, "" if fits else "install Python 3.11")
    for name in ("numpy", "scipy", "click", "rich", "filelock"):
        yield _package(name, "spgraph needs it", needed=True, install=f"pip install {name}")
    yield _package("nvidia-ml-py", "clocks and throttling unseen", needed=False, install="pip install nvidia-ml-py")
    yield _package("matplotlib", "no picture files", needed=False, install="pip install 'spgraph[plot]'")
    yield _package("networkx", "no GML or GraphML", needed=False, install="pip install 'spgraph[graphs]'")
    if platform.machine().lower() in ("x86_64", "amd64"):  # there is none for others
        state = "no multi-threaded CPU library for SpMV; its licence is Intel's (Simplified Software License)"
        yield _package("mkl", state, needed=False, install="pip install mkl")
    if sys.version_info < (3, 14):  # nor is there of this, so far
        yield _package(
            "python-graphblas",
            "no multi-threaded CPU library for graphs",
            needed=False,
            install="pip install python-graphblas",
        )


def _library_checks(driver: Driver | None) -> Iterator[Check]:
    from spgraph_bench.device.probe import package_version
    from spgraph_bench.variants.base import library_versions

    major = driver.cuda_major if driver else None
    extra = f"cu{major}" if major else "cu13"
    install = f"pip install 'nvmath-python[{extra}]'"
    version = package_version("nvmath-python")
    if version is None:
        yield Check("python", "nvmath-python", "optional", "not installed (no cuSPARSE to compare with)", install)
    else:
        yield Check("python", "nvmath-python", "ok", version)
        loaded = library_versions(["cuSPARSE"]).get("cuSPARSE", "").partition(" ")[0]
        if loaded:
            yield Check("python", "cuSPARSE", "ok", loaded)
        else:
            yield Check("python", "cuSPARSE", "optional", "nvmath-python does not find it", install)
    bindings = package_version("cuda-bindings")
    fitting = f"pip install 'cuda-bindings=={major or 13}.*'"
    if bindings is None:
        state = "not installed (no cooperative launches, no graphs)"
        yield Check("python", "cuda-bindings", "optional", state, fitting)
        return
    theirs = int(bindings.split(".")[0])
    if major is not None and theirs > major:
        yield Check(
            "python",
            "cuda-bindings",
            "optional",
            f"{bindings} is for CUDA {theirs}, the driver runs CUDA {driver.cuda if driver else ''}: "
            "its calls may fail",
            fitting,
        )
    else:
        yield Check("python", "cuda-bindings", "ok", bindings)


def _first_line(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.SubprocessError):
        return ""
    return "" if done.returncode else (done.stdout.strip().splitlines() or [""])[0]


def _host_checks() -> Iterator[Check]:
    from spgraph_bench.device.host_compiler import available
    from spgraph_bench.toolchain.cxx import find_compiler

    dnf = shutil.which("dnf")
    install = "dnf install gcc-c++" if dnf else "apt-get install g++"
    compiler = find_compiler()
    if compiler is None:
        cause = (available() or "").partition(":")[0]
        remedy = "unset CXX" if os.environ.get("CXX") else install
        yield Check("host", "C++ compiler", "missing", f"{cause}: the host device cannot run", remedy)
        return
    output = _first_line(*compiler, "--version")
    if not output:
        cause = f"{' '.join(compiler)} does not report its version: the host device cannot run"
        remedy = "unset CXX" if os.environ.get("CXX") else install
        yield Check("host", "C++ compiler", "missing", cause, remedy)
        return
    version = re.search(r"\d+(\.\d+)+", output)
    yield Check("host", "C++ compiler", "ok", f"{' '.join(compiler)} {version[0] if version else ''}".strip())
    asan = _first_line(*compiler, "-print-file-name=libasan.so")
    if Path(asan).is_absolute() and Path(asan).exists():
        yield Check("host", "AddressSanitizer", "ok", asan)
    else:
        remedy = "dnf install libasan" if dnf else install
        yield Check("host", "AddressSanitizer", "optional", "no libasan.so (sanitised tests)", remedy)


def _gpu_checks(driver: Driver | None) -> Iterator[Check]:
    from spgraph_bench.device import probe
    from spgraph_bench.errors import DeviceError
    from spgraph_bench.toolchain.nvcc import find_nvcc

    missing = probe.cuda_missing(driver)
    if driver is None or not driver.gpus:
        assert missing is not None
        name = "driver" if driver is None else "GPUs"
        remedy = "" if missing.remedy.startswith("--") else missing.remedy  # no command brings a GPU
        yield Check("gpu", name, "missing", missing.what, remedy)
    if driver is not None:
        cuda = f", runs CUDA {driver.cuda}" if driver.cuda else ""
        yield Check("gpu", "driver", "ok", f"{driver.version}{cuda}")
        for number, gpu in enumerate(driver.gpus):
            details = [gpu.name, gpu.arch, f"{gpu.memory_bytes / 1e9:.0f} GB" if gpu.memory_bytes else ""]
            yield Check("gpu", f"cuda:{number}", "ok", ", ".join(d for d in details if d))
    nvcc = None
    try:
        nvcc = find_nvcc()
    except DeviceError as error:
        remedy = probe.toolkit_command(driver)
        yield Check("gpu", "nvcc", "missing", error.cause, remedy)
    if nvcc is not None:
        theirs = int(nvcc.version.split(".")[0]) if nvcc.version else None
        newer = theirs is not None and driver is not None and (driver.cuda_major or theirs) < theirs
        text = f"{nvcc.path} {nvcc.version}"
        if newer and driver is not None:
            text += f" is newer than the driver's CUDA {driver.cuda}: cubins of its major version may not load"
        yield Check("gpu", "nvcc", "missing" if newer else "ok", text, probe.driver_command() if newer else "")
    installed = probe.package_version("pycuda")
    problem = probe.pycuda_missing(probe.try_import("pycuda.driver") if installed else None)
    if problem is None:
        yield Check("gpu", "pycuda", "ok", installed or "")
    else:
        yield Check("gpu", "pycuda", "missing", problem.what, problem.remedy)


def _cache_check() -> Check:
    from spgraph_bench.errors import CacheError
    from spgraph_bench.paths import cache_dir

    try:
        folder = cache_dir("modules")
        probe = folder / f".write-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except (OSError, RuntimeError) as error:
        remedy = 'export SPGRAPH_CACHE="${TMPDIR:-/tmp}/spgraph"'
        return Check("host", "cache folder", "optional", f"cannot be written: {error}", remedy)
    except CacheError as error:
        return Check("host", "cache folder", "missing", f"{error.place}: {error.cause}", error.remedy or "")
    used = sum(file.stat().st_size for file in folder.parent.rglob("*") if file.is_file())
    return Check("host", "cache folder", "ok", f"{folder.parent} ({used / 1e6:.0f} MB)")


def _records_check() -> Check:
    from spgraph_bench.errors import UsageError
    from spgraph_bench.paths import results_folder

    try:
        folder = results_folder().absolute()
    except UsageError as error:
        return Check("host", "records folder", "missing", error.cause, 'export SPGRAPH_RESULTS="$PWD/results"')
    there = folder
    while not there.exists() and there != there.parent:
        there = there.parent
    if not (there.is_dir() and os.access(there, os.W_OK)):
        return Check(
            "host", "records folder", "missing", f"{folder} cannot be written", 'export SPGRAPH_RESULTS="$PWD/results"'
        )
    return Check("host", "records folder", "ok", str(folder))


def checks() -> list[Check]:
    """Everything looked at, grouped; takes a second or two, since compilers are asked."""
    from spgraph_bench.device.probe import find_driver

    driver = find_driver()
    return [
        *_python_checks(),
        *_library_checks(driver),
        *_host_checks(),
        _cache_check(),
        _records_check(),
        *_gpu_checks(driver),
    ]


def usable(results: list[Check]) -> dict[str, bool]:
    """Which devices work, judged by the checks: nothing is missing in python and in their own group."""
    missing = {check.group for check in results if check.state == "missing"}
    return {device: not missing & {"python", group} for device, group in (("cuda", "gpu"), ("host", "host"))}


@click.command("doctor")
@json_option
def command(as_json: bool) -> int:
    """Show what this machine has and what is missing, with the command that fixes it.

    Exit status 0 if a device works (cuda or host), 3 if none does.
    """
    results = checks()
    devices = usable(results)
    if as_json:
        out_json({"devices": devices, "checks": [asdict(check) for check in results]})
    else:
        _print(results, devices)
    return 0 if any(devices.values()) else 3


def _print(results: list[Check], devices: dict[str, bool]) -> None:
    from rich.markup import escape

    target = console()
    marks = {"ok": "[green]ok[/]", "missing": "[red]missing[/]", "optional": "[yellow]optional[/]"}
    width = max(len(check.name) for check in results)
    group = ""
    for check in results:
        if check.group != group:
            group = check.group
            target.print(f"[bold]{group}[/]")
        pad = " " * (len("optional") + 2 - len(check.state))
        text = f"  {marks[check.state]}{pad}{check.name:<{width}}  {escape(check.found)}"
        target.print(text, soft_wrap=True)
        if check.remedy:
            target.print(f"{'':12}{'':{width}}  fix: {escape(check.remedy)}", soft_wrap=True)
    works = [device for device, works in devices.items() if works]
    target.print(f"\nDevices that work here: {', '.join(works) if works else 'none'}")
