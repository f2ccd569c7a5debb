"""Install the extras `gpu` and `reference`, where there is a GPU and a toolkit to use it.

A failure is a warning, not an error: the packages do not need each other, and the host device works without them.
PyCUDA is built from source, which takes about two minutes the first time. The CPU libraries are about 350 MB.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from spgraph_bench.device.probe import find_driver, toolkit_root

PROJECT = Path(__file__).resolve().parent.parent / "pyproject.toml"


def requirements(cuda_major: int | None, toolkit: Path) -> list[str]:
    """The packages of both extras, as pyproject.toml names them; pip skips those whose markers fail.

    NVIDIA's follow the driver's major version, and are skipped where that is not known. cuSPARSE comes from
    the toolkit if it is there, else from the registry.
    """
    extras = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    own = any(toolkit.glob("lib*/libcusparse.so*")) or any(toolkit.glob("targets/*/lib/libcusparse.so*"))
    chosen = []
    for requirement in [*extras["gpu"], *extras["reference"]]:
        name, rest = re.fullmatch(r"([\w-]+)(.*)", requirement).groups()
        if name == "cuda-bindings":
            rest = f"=={cuda_major}.*"
        elif name == "nvmath-python":
            rest = f"[{'sysctk' if own else 'cu'}{cuda_major}]{rest}"
        else:
            chosen.append(requirement)
            continue
        if cuda_major is not None:
            chosen.append(name + rest)
    return chosen


def main() -> None:
    """Install the packages for the GPU of this machine, if it has one."""
    driver, toolkit = find_driver(), toolkit_root()
    if driver is None or not driver.gpus:
        print("no GPU: kernels will run on the host device")
        return
    if toolkit is None:
        print("warning: there is a GPU, but no nvcc; see `spgraph doctor`", file=sys.stderr)
        return
    print(f"{driver.gpus[0].name} found: building PyCUDA for it, and installing reference libraries ...", flush=True)
    print("of these, mkl is under the Intel Simplified Software License, NVIDIA's wheels under the CUDA EULA")
    with tempfile.TemporaryDirectory() as home:
        # PyCUDA's build reads this file; spgraph uses nothing of curand, whose headers are often missing.
        settings = f"CUDA_ROOT = {str(toolkit)!r}\nCUDA_ENABLE_CURAND = False\n"
        (Path(home) / ".aksetup-defaults.py").write_text(settings)
        old = Path.home()
        environment = {
            "XDG_CONFIG_HOME": str(old / ".config"),
            "XDG_CACHE_HOME": str(old / ".cache"),
            **os.environ,
            "HOME": home,
            "PATH": f"{toolkit / 'bin'}{os.pathsep}{os.environ['PATH']}",
        }
        pip = [sys.executable, "-P", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        for requirement in requirements(driver.cuda_major, toolkit):
            if subprocess.run([*pip, requirement], env=environment).returncode:
                print(f"warning: could not install {requirement}; see `spgraph doctor`", file=sys.stderr)


if __name__ == "__main__":
    main()
