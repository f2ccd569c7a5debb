"""What a machine has, from made-up drivers, toolkits and packages; each missing part with its remedy."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from spgraph_bench.cli import doctor
from spgraph_bench.cli.main import run
from spgraph_bench.device import probe
from spgraph_bench.device.probe import Driver, Gpu, choose_device
from spgraph_bench.errors import DeviceError, UsageError
from spgraph_bench.toolchain.nvcc import Nvcc

H200 = Gpu("NVIDIA H200", "GPU-aaaa", 150_000_000_000, "sm_90", 0)
OTHER = Gpu("NVIDIA L4", "GPU-bbbb", 24_000_000_000, "sm_89", 1)


class Machine:
    """A machine to be probed, put together piece by piece."""

    def __init__(self, patch: pytest.MonkeyPatch, folder: Path) -> None:
        self.patch, self.folder = patch, folder
        self.packages: dict[str, str] = {}
        self.import_error: str | None = None
        patch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        for source in ("_from_nvml", "_from_nvidia_smi", "_from_proc"):
            patch.setattr(probe, source, lambda: None)
        patch.setattr(probe, "gpu_on_bus", lambda: False)
        patch.setattr(probe, "package_version", self.packages.get)
        patch.setattr(probe, "try_import", lambda module: self.import_error)
        self.toolkit(None)

    def driver(self, cuda: str = "13.0", *gpus: Gpu) -> None:
        self.patch.setattr(probe, "_from_nvml", lambda: Driver("580.65", cuda, gpus or (H200,)))

    def toolkit(self, version: str | None, *headers: str) -> None:
        def find() -> Nvcc:
            if version is None:
                raise DeviceError("nvcc is not found")
            return Nvcc(str(self.folder / "bin" / "nvcc"), "", version)

        self.patch.setattr(probe, "find_nvcc", find)
        self.patch.setattr("spgraph_bench.toolchain.nvcc.find_nvcc", find)
        if version is not None:
            for place in ("bin", "include"):
                (self.folder / place).mkdir(exist_ok=True)
            nvcc = self.folder / "bin" / "nvcc"
            nvcc.write_text(f"#!/bin/sh\necho '#$ TOP={self.folder}/bin/..' >&2\n")
            nvcc.chmod(0o755)
            for header in headers:
                (self.folder / "include" / header).touch()


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Machine:
    monkeypatch.setenv("SPGRAPH_CACHE", str(tmp_path / "cache"))
    return Machine(monkeypatch, tmp_path)


def _usable(machine: Machine) -> None:
    machine.driver()
    machine.toolkit("13.0", "cuda.h", "curand.h")
    machine.packages["pycuda"] = "2026.1"


def test_auto_takes_the_gpu(machine: Machine) -> None:
    _usable(machine)
    choice = choose_device("auto")
    assert (choice.name, choice.warning) == ("cuda:0", "")
    assert "NVIDIA H200" in choice.note


def test_auto_without_a_gpu_is_host_and_no_warning(machine: Machine) -> None:
    choice = choose_device("auto")
    assert (choice.name, choice.warning) == ("host", "")
    assert "no GPU found" in choice.note


@pytest.mark.parametrize(
    ("missing", "cause", "remedy"),
    [("pycuda", "PyCUDA is not installed", "spgraph[gpu]"), ("nvcc", "nvcc is not found", "toolkit")],
)
def test_auto_warns_of_a_gpu_that_cannot_be_used(machine: Machine, missing: str, cause: str, remedy: str) -> None:
    _usable(machine)
    if missing == "pycuda":
        machine.packages.clear()
    else:
        machine.toolkit(None)
    choice = choose_device("auto")
    assert choice.name == "host"
    assert cause in choice.warning
    assert remedy in choice.warning.split("remedy:")[1]


def test_auto_warns_of_a_gpu_without_driver(machine: Machine) -> None:
    machine.patch.setattr(probe, "gpu_on_bus", lambda: True)
    assert "no driver for it" in choose_device("auto").warning


def test_devices_by_name(machine: Machine) -> None:
    assert choose_device("host").name == "host"
    with pytest.raises(DeviceError, match="no NVIDIA GPU"):
        choose_device("cuda")
    _usable(machine)
    assert choose_device("cuda").name == "cuda:0"
    with pytest.raises(DeviceError, match="there is no cuda:1"):
        choose_device("cuda:1")
    with pytest.raises(UsageError):
        choose_device("tpu")


@pytest.mark.parametrize(
    ("setting", "names"),
    [
        (None, ["NVIDIA H200", "NVIDIA L4"]),
        ("1,0", ["NVIDIA L4", "NVIDIA H200"]),
        ("GPU-bb", ["NVIDIA L4"]),
        ("0,7,1", ["NVIDIA H200"]),
        ("", []),
        ("-1", []),
    ],
)
def test_visible_devices(setting: str | None, names: list[str]) -> None:
    assert [g.name for g in probe._visible((H200, OTHER), setting)] == names


def test_hidden_gpus_are_shown(machine: Machine) -> None:
    _usable(machine)
    machine.patch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(DeviceError, match="CUDA_VISIBLE_DEVICES hides 1 GPU"):
        choose_device("cuda")


@pytest.mark.parametrize(
    ("headers", "cause", "remedy"),
    [
        (None, "needs the CUDA toolkit", "toolkit"),
        ([], "no cuda.h", "toolkit"),
        (["cuda.h"], "no curand.h", "CUDA_ENABLE_CURAND = False"),
        (["cuda.h", "curand.h"], "PyCUDA is not installed", "spgraph[gpu]"),
    ],
)
def test_why_pycuda_is_not_there(machine: Machine, headers: list[str] | None, cause: str, remedy: str) -> None:
    machine.toolkit(None if headers is None else "13.0", *(headers or ()))
    missing = probe.pycuda_missing()
    assert missing is not None
    assert cause in missing.what
    assert remedy in missing.remedy
    assert "\n" not in missing.remedy


@pytest.mark.parametrize(
    ("error", "cause", "remedy"),
    [
        ("ImportError: libcuda.so.1: cannot open shared object file", "libcuda.so.1", "install"),
        ("ImportError: numpy.core.multiarray failed to import", "cannot be imported", "--force-reinstall"),
    ],
)
def test_pycuda_that_is_there_but_broken(machine: Machine, error: str, cause: str, remedy: str) -> None:
    machine.packages["pycuda"] = "2026.1"
    missing = probe.pycuda_missing(error)
    assert missing is not None
    assert cause in missing.what
    assert remedy in missing.remedy
    assert probe.pycuda_missing(None) is None


def _doctor(capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any]]:
    status = run(["doctor", "--json"])
    return status, json.loads(capsys.readouterr().out)


def _check(report: dict[str, Any], name: str) -> dict[str, Any]:
    (check,) = (c for c in report["checks"] if c["name"] == name)
    return dict(check)


@pytest.fixture
def python_is_complete(machine: Machine) -> Machine:
    machine.packages |= {"numpy": "2.4", "scipy": "1.17", "click": "8.2", "rich": "14", "filelock": "3.20"}
    return machine


def test_doctor_on_a_complete_machine(python_is_complete: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    _usable(python_is_complete)
    status, report = _doctor(capsys)
    assert status == 0
    assert report["devices"]["cuda"] is True
    assert "sm_90" in _check(report, "cuda:0")["found"]
    assert _check(report, "cuda-bindings")["remedy"] == "pip install 'cuda-bindings==13.*'"
    assert all(c["remedy"] for c in report["checks"] if c["state"] != "ok")


@pytest.mark.parametrize("body", ["exit 0", "echo 12.2; exit 1"])
def test_what_tells_no_version_is_not_a_compiler(
    body: str, python_is_complete: Machine, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    compiler = tmp_path / "c++"
    compiler.write_text(f"#!/bin/sh\n{body}\n")
    compiler.chmod(0o755)
    python_is_complete.patch.setenv("CXX", str(compiler))
    status, report = _doctor(capsys)
    assert status == 3
    assert report["devices"]["host"] is False
    check = _check(report, "C++ compiler")
    assert f"{compiler} does not report its version" in check["found"]
    assert check["remedy"] == "unset CXX"


def test_doctor_without_gpu_and_compiler_is_3(python_is_complete: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    python_is_complete.patch.setenv("CXX", "no-such-compiler")
    status, report = _doctor(capsys)
    assert status == 3
    assert report["devices"] == {"cuda": False, "host": False}
    assert _check(report, "C++ compiler")["remedy"] == "unset CXX"
    python_is_complete.patch.delenv("CXX")
    python_is_complete.patch.setenv("PATH", "/nowhere")
    _, report = _doctor(capsys)
    assert "install g++" in _check(report, "C++ compiler")["remedy"]
    assert run(["doctor"]) == 3
    assert "Devices that work here: none" in capsys.readouterr().out


def test_doctor_sees_a_driver_older_than_the_rest(
    python_is_complete: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    _usable(python_is_complete)
    python_is_complete.driver("12.4")
    python_is_complete.packages |= {"cuda-bindings": "13.0.1", "nvmath-python": "1.0"}
    _, report = _doctor(capsys)
    bindings = _check(report, "cuda-bindings")
    assert bindings["state"] == "optional"
    assert bindings["remedy"] == "pip install 'cuda-bindings==12.*'"
    assert "newer than the driver" in _check(report, "nvcc")["found"]


def test_doctor_with_a_cache_that_cannot_be_written(
    python_is_complete: Machine, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    python_is_complete.patch.setenv("SPGRAPH_CACHE", str(tmp_path / "file"))
    _, report = _doctor(capsys)
    check = _check(report, "cache folder")
    assert check["state"] == "optional"
    assert "SPGRAPH_CACHE" in check["remedy"]


def test_nvidia_smi_and_proc_are_understood(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    row = "0, NVIDIA H200, GPU-aaaa, 143771, 9.0, 580.65.06\n"
    banner = "| NVIDIA-SMI 580.65.06   Driver Version: 580.65.06   CUDA Version: 13.0 |"
    monkeypatch.setattr(probe, "_run", lambda *command, **more: row if len(command) > 1 else banner)
    result = probe._from_nvidia_smi()
    assert result == Driver("580.65.06", "13.0", (Gpu("NVIDIA H200", "GPU-aaaa", 143771 * 1024**2, "sm_90", 0),))
    (tmp_path / "gpus" / "0000:01:00.0").mkdir(parents=True)
    (tmp_path / "gpus" / "0000:01:00.0" / "information").write_text("Model: \t NVIDIA H200\nIRQ: 1\n")
    (tmp_path / "version").write_text("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Rel\n")
    assert probe._from_proc(tmp_path) == Driver("580.65.06", "", (Gpu("NVIDIA H200"),))


def test_try_import_says_why() -> None:
    assert probe.try_import("json") is None
    assert probe.try_import("no_such_module_at_all") == ("ModuleNotFoundError: No module named 'no_such_module_at_all'")


def test_probing_does_not_import_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("pycuda", "pycuda.driver", "cuda.bindings"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    doctor.checks()
    choose_device("auto")
    assert not {"pycuda", "pycuda.driver", "cuda.bindings"} & set(sys.modules)


def test_reference_libraries_on_the_cpu_are_listed(machine: Machine) -> None:
    machine.patch.setattr(doctor.platform, "machine", lambda: "x86_64")
    machine.packages["mkl"] = "2026.0"
    result = {check.name: (check.state, check.remedy) for check in doctor.checks()}
    assert result["mkl"] == ("ok", "")
    assert result["python-graphblas"] == ("optional", "pip install python-graphblas")
    machine.patch.setattr(doctor.platform, "machine", lambda: "aarch64")
    assert "mkl" not in {check.name for check in doctor.checks()}
    machine.patch.setattr(doctor.sys, "version_info", (3, 14, 0))
    assert "python-graphblas" not in {check.name for check in doctor.checks()}


def test_all_of_both_extras_is_listed(machine: Machine) -> None:
    """Of the extras that scripts/install_gpu.py installs."""
    machine.patch.setattr(doctor.platform, "machine", lambda: "x86_64")
    machine.patch.setattr(doctor.sys, "version_info", (3, 13, 0))
    project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = {re.split(r"[^\w-]", text)[0] for text in [*extras["gpu"], *extras["reference"]]}
    assert wanted <= {check.name for check in doctor.checks()}
