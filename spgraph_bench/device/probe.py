"""What this machine has, detected without initialising CUDA: from NVML, files and compilers' output.

The parent process must stay free of a CUDA context (the GPU belongs to the worker), so nothing here imports
PyCUDA or calls the driver API.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from spgraph_bench.device import parse_device
from spgraph_bench.errors import DeviceError
from spgraph_bench.toolchain.nvcc import Nvcc, find_nvcc
from spgraph_bench.units import quantity

__all__ = [
    "DeviceChoice",
    "Driver",
    "Gpu",
    "Missing",
    "choose_device",
    "cuda_missing",
    "driver_command",
    "find_driver",
    "gpu_on_bus",
    "package_version",
    "pycuda_missing",
    "toolkit_command",
    "toolkit_root",
    "try_import",
]

GPU_EXTRA = "pip install 'spgraph[gpu]'"


@dataclass(frozen=True)
class Gpu:
    """One GPU that a program started now could use."""

    name: str
    uuid: str = ""
    memory_bytes: int = 0
    arch: str = ""
    """"sm_90", or "" where it is unknown."""
    index: int = 0
    """As the driver's tools count; CUDA_VISIBLE_DEVICES may make it another ``cuda:N``."""


@dataclass(frozen=True)
class Driver:
    """The NVIDIA driver, as far as it answers."""

    version: str
    """"580.65.06", or ""."""
    cuda: str
    """The newest CUDA it runs, "13.0", or ""."""
    gpus: tuple[Gpu, ...]
    """Those that CUDA_VISIBLE_DEVICES leaves visible."""
    hidden: int = 0
    """GPUs that it hides."""

    @property
    def cuda_major(self) -> int | None:
        """Major version of CUDA that the driver runs; None if unknown."""
        return int(self.cuda.split(".")[0]) if self.cuda else None


@dataclass(frozen=True)
class Missing:
    """Something missing, and the command that fixes it."""

    what: str
    remedy: str


@dataclass(frozen=True)
class DeviceChoice:
    """Where to run, and the note about it for stderr."""

    name: str
    """"host" or "cuda:N": what ``open_device`` takes."""
    note: str = ""
    """Why, if the device was not named by the user."""
    warning: str = ""
    """A GPU is there but cannot be used: the cause and its remedy."""


def _run(*command: str, seconds: float = 20.0) -> str | None:
    """Standard output of `command`; None if it is not there, fails or hangs."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=True)
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return None
    return done.stdout


def _from_nvml() -> Driver | None:
    try:
        import pynvml as nvml
    except ImportError:
        return None
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return None

    def text(value: str | bytes) -> str:  # older pynvml gives bytes
        return value.decode() if isinstance(value, bytes) else value

    try:
        gpus = []
        for index in range(nvml.nvmlDeviceGetCount()):
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            major, minor = nvml.nvmlDeviceGetCudaComputeCapability(handle)
            memory = int(nvml.nvmlDeviceGetMemoryInfo(handle).total)
            name, uuid = text(nvml.nvmlDeviceGetName(handle)), text(nvml.nvmlDeviceGetUUID(handle))
            gpus.append(Gpu(name, uuid, memory, f"sm_{major}{minor}", index))
        cuda = int(nvml.nvmlSystemGetCudaDriverVersion())
        version = text(nvml.nvmlSystemGetDriverVersion())
        return Driver(version, f"{cuda // 1000}.{cuda % 1000 // 10}", tuple(gpus))
    except nvml.NVMLError:
        return None
    finally:
        nvml.nvmlShutdown()


def _from_nvidia_smi() -> Driver | None:
    fields = "index,name,uuid,memory.total,compute_cap,driver_version"
    rows = _run("nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits")
    if rows is None:
        return None
    gpus, version = [], ""
    for row in rows.splitlines():
        cells = [cell.strip() for cell in row.split(",")]
        if len(cells) != 6 or not cells[0].isdecimal():
            continue
        memory = int(cells[3]) * 1024**2 if cells[3].isdecimal() else 0
        arch = f"sm_{cells[4].replace('.', '')}" if re.fullmatch(r"\d+\.\d", cells[4]) else ""
        gpus.append(Gpu(cells[1], cells[2], memory, arch, int(cells[0])))
        version = cells[5]
    match = re.search(r"CUDA Version: *(\d+\.\d+)", _run("nvidia-smi") or "")
    return Driver(version, match[1] if match else "", tuple(gpus))


def _from_proc(root: Path = Path("/proc/driver/nvidia")) -> Driver | None:
    try:
        match = re.search(r"Kernel Module.*?(\d+\.\d+(?:\.\d+)?)", (root / "version").read_text())
    except OSError:
        return None
    gpus = []
    for index, file in enumerate(sorted(root.glob("gpus/*/information"))):
        model = re.search(r"Model:\s*(.+)", file.read_text())
        gpus.append(Gpu(model[1].strip() if model else "NVIDIA GPU", index=index))
    return Driver(match[1] if match else "", "", tuple(gpus))


def _visible(gpus: Iterable[Gpu], setting: str | None) -> tuple[Gpu, ...]:
    """What CUDA_VISIBLE_DEVICES = `setting` leaves: indices or UUID prefixes, up to the first invalid one."""
    there = list(gpus)
    if setting is None:
        return tuple(there)
    chosen: list[Gpu] = []
    for entry in (part.strip() for part in setting.split(",")):
        if entry.isdecimal():
            match = [g for g in there if g.index == int(entry)]
        elif entry.startswith("MIG-"):
            match = [Gpu("MIG instance", entry)]
        else:
            match = [g for g in there if entry and g.uuid.startswith(entry)]
        if not match:
            break
        chosen.append(match[0])
    return tuple(chosen)


def find_driver() -> Driver | None:
    """The driver and the GPUs it lets us use; None without a driver. Takes about 30 ms with NVML."""
    driver = _from_nvml() or _from_nvidia_smi() or _from_proc()
    if driver is None:
        return None
    gpus = _visible(driver.gpus, os.environ.get("CUDA_VISIBLE_DEVICES"))
    return replace(driver, gpus=gpus, hidden=len(driver.gpus) - len(gpus))


def package_version(name: str) -> str | None:
    """Version of the installed distribution `name`, or None."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def try_import(module: str) -> str | None:
    """Why ``import module`` fails, tried in a process of its own; None if it works."""
    code = f"try: import {module}\nexcept BaseException as e: raise SystemExit(f'{{type(e).__name__}}: {{e}}')"
    try:
        done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    if done.returncode == 0:
        return None
    return (done.stderr.strip().splitlines() or [f"ended with status {done.returncode}"])[-1]


def _nvcc() -> Nvcc | None:
    try:
        return find_nvcc()
    except DeviceError:
        return None


def toolkit_root() -> Path | None:
    """The toolkit's folder, as nvcc itself names it; None without nvcc."""
    if (nvcc := _nvcc()) is None:
        return None
    try:
        process = subprocess.run(
            [nvcc.path, "--dryrun", "-x", "cu", "-c", "-o", os.devnull, os.devnull],
            capture_output=True,
            text=True,
            timeout=20,
        )
    except (OSError, subprocess.SubprocessError):
        process = None
    match = re.search(r"TOP=(\S.*)", process.stderr) if process else None
    root = Path(match[1].strip()) if match else Path(nvcc.path).resolve().parent.parent
    return root.resolve()


def pycuda_missing(imported: str | None = None) -> Missing | None:
    """Why PyCUDA is not there or could not be built here, with the remedy; None if it is installed.

    `imported` is the result of :func:`try_import` for an installed one.
    """
    if package_version("pycuda") is not None and imported is None:
        return None
    if imported is not None and "libcuda" in imported:
        return Missing(f"PyCUDA needs the driver's libcuda.so.1: {imported}", driver_command())
    if imported is not None and package_version("pycuda") is not None:
        rebuild = "pip install --force-reinstall --no-cache-dir --no-binary pycuda pycuda"
        return Missing(f"PyCUDA is installed but cannot be imported: {imported}", rebuild)
    root = toolkit_root()
    if root is None:
        return Missing("PyCUDA is not installed, and its build needs the CUDA toolkit", toolkit_command())
    headers = root / "include"
    if not (headers / "cuda.h").is_file():
        return Missing(f"PyCUDA is not installed, and its build would fail: no cuda.h in {headers}", toolkit_command())
    # PyCUDA looks for headers beside the nvcc on PATH, which may be a wrapper somewhere else.
    on_path = shutil.which("nvcc")
    beside = on_path and (Path(on_path).parent.parent / "include" / "cuda.h").is_file()
    install = GPU_EXTRA if beside else f'PATH="{root / "bin"}:$PATH" {GPU_EXTRA}'
    if not (headers / "curand.h").is_file():
        what = f"PyCUDA is not installed, and its build would fail: no curand.h in {headers}"
        without = "echo 'CUDA_ENABLE_CURAND = False' >> ~/.aksetup-defaults.py"  # spgraph does not use it
        return Missing(what, f"{without} && {install}")
    return Missing("PyCUDA is not installed", install)


def toolkit_command(driver: Driver | None = None) -> str:
    """The command that installs a CUDA toolkit here."""
    if shutil.which("apt-get"):
        return "apt-get install nvidia-cuda-toolkit"
    if shutil.which("dnf"):
        return "dnf install cuda-toolkit"
    version = f"={driver.cuda}" if driver and driver.cuda else ""
    return f"conda install -c nvidia cuda-toolkit{version}"


def gpu_on_bus(devices: Path = Path("/sys/bus/pci/devices")) -> bool:
    """Whether a display or compute controller of NVIDIA's is plugged in, driver or not."""
    for device in devices.glob("*"):
        try:
            vendor, kind = (device / "vendor").read_text(), (device / "class").read_text()
        except OSError:
            continue
        if vendor.strip() == "0x10de" and kind.startswith("0x03"):
            return True
    return False


def driver_command() -> str:
    """The command that installs (or renews) the driver here."""
    if shutil.which("ubuntu-drivers"):
        return "ubuntu-drivers install"
    return f"{'dnf' if shutil.which('dnf') else 'apt-get'} install nvidia-driver"


def cuda_missing(driver: Driver | None) -> Missing | None:
    """The first thing that keeps this machine's GPU from being used, or None."""
    if driver is None and gpu_on_bus():
        return Missing("there is an NVIDIA GPU, but no driver for it", driver_command())
    if driver is None:
        return Missing("there is no NVIDIA GPU here", "--device host")
    if not driver.gpus:
        if driver.hidden:
            hidden = quantity(driver.hidden, "GPU")
            return Missing(f"CUDA_VISIBLE_DEVICES hides {hidden}", "unset CUDA_VISIBLE_DEVICES")
        return Missing("the NVIDIA driver sees no GPU", "--device host")
    if _nvcc() is None:
        return Missing("nvcc is not found, so no kernel can be compiled", toolkit_command(driver))
    return pycuda_missing()


def choose_device(text: str) -> DeviceChoice:
    """The device for ``--device`` `text`.

    "auto" takes a GPU where PyCUDA, nvcc and a driver are found, else host. Raises DeviceError for a GPU
    asked for by name that cannot be used, UsageError for a name that is none.
    """
    if text == "auto":
        driver = find_driver()
        missing = cuda_missing(driver)
        if missing is None and driver is not None:
            return DeviceChoice("cuda:0", f"running on {driver.gpus[0].name} (--device auto)")
        there = (driver is not None and (driver.gpus or driver.hidden)) or gpu_on_bus()
        if there and missing is not None:
            warning = f"the GPU cannot be used: {missing.what}\n  remedy: {missing.remedy}"
            return DeviceChoice("host", "running on the host, which gives no GPU times", warning)
        return DeviceChoice("host", "no GPU found: running on the host, which gives no GPU times")
    kind, index = parse_device(text)
    if kind == "host":
        return DeviceChoice("host")
    driver = find_driver()
    if (missing := cuda_missing(driver)) is not None:
        raise DeviceError(f"{text} cannot be used: {missing.what}", remedy=missing.remedy)
    assert driver is not None
    if index >= len(driver.gpus):
        raise DeviceError(
            f"there is no cuda:{index}, the last one is cuda:{len(driver.gpus) - 1}", remedy="--device cuda:0"
        )
    return DeviceChoice(f"cuda:{index}")
