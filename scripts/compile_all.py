"""Compile every kernel with nvcc for every architecture and type we support, warnings as errors.

Needs nvcc, no GPU. Several architectures share one call, so that the front end parses a file once. Each
value type and each offset type meets every architecture. Where a kernel has both, the combinations left over
meet one of them: nothing in the kernels depends on an architecture and a combination at once.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

import numpy as np

from spgraph_bench.errors import DeviceError
from spgraph_bench.paths import cuda_dir
from spgraph_bench.runner.prepare import defines_for
from spgraph_bench.toolchain.nvcc import find_nvcc, uses_device_launch
from spgraph_bench.variants import variants

ARCHITECTURES = (75, 80, 90, 100, 120)
EVERY_COMBINATION = 90
"""The architecture that every combination of types is compiled for."""


def jobs() -> list[tuple[str, str, str]]:
    """(source, value type, offset type); a type that a source does not mention is not varied.

    Value types are those that variants of the source come in; float and double where it is no variant's own.
    """
    types: dict[str, set[str]] = {}
    for variant in variants():
        if variant.source is not None:
            types.setdefault(variant.source, set()).update(variant.dtypes)
    found = []
    for path in sorted(cuda_dir().rglob("*.cu")):
        text, source = path.read_text(encoding="utf-8"), str(path.relative_to(cuda_dir()))
        values = ["float"]
        if "value_t" in text:
            kinds = sorted(types.get(source, ("float32", "float64")))
            values = [defines_for(kind, np.int32)["SPG_VALUE"] for kind in kinds]
        offsets = ["int", "long long"] if "offset_t" in text else ["int"]
        found += list(product([source], values, offsets))
    return found


def in_every_architecture(todo: list[tuple[str, str, str]]) -> set[tuple[str, str, str]]:
    """Of each source so many jobs that each value type and each offset type is among them."""
    found = set()
    for source in {job[0] for job in todo}:
        values = sorted({value for name, value, _ in todo if name == source})
        offsets = sorted({offset for name, _, offset in todo if name == source})
        for i in range(max(len(values), len(offsets))):
            found.add((source, values[i % len(values)], offsets[i % len(offsets)]))
    return found


def supported(nvcc: str) -> list[int]:
    said = subprocess.run([nvcc, "--list-gpu-arch"], capture_output=True, text=True, check=True).stdout
    return [arch for arch in ARCHITECTURES if f"compute_{arch}" in said.split()]


def compile_one(nvcc: str, archs: list[int], source: str, value: str, offset: str, folder: Path) -> str:
    """What nvcc said, empty if all is well."""
    output = folder / f"{source.replace('/', '_')}.{value}.{offset[:4]}.fatbin"
    command = [nvcc, "-O3", "-std=c++17", "-Werror", "all-warnings", "-fatbin"]
    command += [f"-DSPG_VALUE={value}", f"-DSPG_OFFSET={offset}"]
    command += [f"-gencode=arch=compute_{arch},code=sm_{arch}" for arch in archs]
    command += ["-rdc=true"] * uses_device_launch(source)
    done = subprocess.run([*command, "-o", output, cuda_dir() / source], capture_output=True, text=True)
    return "" if done.returncode == 0 else (done.stderr + done.stdout or f"nvcc ended with {done.returncode}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    try:
        nvcc = find_nvcc()
    except DeviceError:
        print("no nvcc here: kernels were not compiled for GPUs")
        return 0
    archs = supported(nvcc.path)
    if left_out := sorted(set(ARCHITECTURES) - set(archs)):
        print(f"nvcc {nvcc.version} does not know {', '.join(f'sm_{a}' for a in left_out)}")
    started, todo = time.monotonic(), jobs()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(max(1, arguments.jobs)) as pool:
        one = [EVERY_COMBINATION] if EVERY_COMBINATION in archs else archs[-1:]
        everywhere = in_every_architecture(todo)

        def compiled(job: tuple[str, str, str]) -> str:
            return compile_one(nvcc.path, archs if job in everywhere else one, *job, Path(folder))

        said = list(pool.map(compiled, todo))
    failed = [(job, text) for job, text in zip(todo, said, strict=True) if text]
    for (source, value, offset), text in failed:
        print(f"cuda/{source} ({value}, {offset}):\n{text}", file=sys.stderr)
    names = " ".join(f"sm_{arch}" for arch in archs)
    done, seconds = len(todo) - len(failed), time.monotonic() - started
    rest = len(todo) - len(everywhere)
    said_of_rest = f" ({rest} combinations of types for sm_{one[0]} alone)" if rest else ""
    print(f"nvcc {nvcc.version}: {done} of {len(todo)} compiled for {names}{said_of_rest} in {seconds:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
