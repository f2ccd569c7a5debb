"""What a record keeps of matrix, device and environment.

Kept out on purpose: host name, user name, working folder, environment variables. A matrix read from a file
keeps the path as it was given on the command line.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import fields
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

import spgraph_bench
from spgraph_bench.cores import usable_cores
from spgraph_bench.matrix import Matrix
from spgraph_bench.provenance import code_hash, commit

__all__ = ["describe_device", "describe_environment", "describe_matrix"]


def describe_matrix(matrix: Matrix) -> dict[str, Any]:
    """The mapping ``Record.matrix``."""
    return {
        "name": matrix.name,
        "sha256": matrix.sha256,
        "entries_sha256": matrix.entries_sha256,
        "rows": matrix.csr.rows,
        "cols": matrix.csr.cols,
        "nnz": matrix.csr.nnz,
        "symmetry": matrix.symmetry,
        "weighted": matrix.weighted,
        "source": _fields(matrix.source),
        "policies": _fields(matrix.policies),
        "said": matrix.policies.summary(),
        "findings": [_fields(f) for f in matrix.findings],
    }


def describe_device(info: Any) -> dict[str, Any]:
    """The mapping ``Record.device`` of a ``DeviceInfo``."""
    return _fields(info)


def _fields(value: Any) -> dict[str, Any]:
    values = {f.name: getattr(value, f.name) for f in fields(value)}
    return {k: dict(v) if isinstance(v, Mapping) else v for k, v in values.items()}


@lru_cache(maxsize=4)
def _fixed(compiler: str) -> tuple[tuple[str, Any], ...]:
    return (
        ("spgraph", spgraph_bench.__version__),
        ("git_commit", commit().name),
        ("git_clean", commit().clean),
        ("code", code_hash()),
        ("python", platform.python_version()),
        ("numpy", _version("numpy")),
        ("scipy", _version("scipy")),
        ("os", platform.system()),
        ("kernel", platform.release()),
        ("machine", platform.machine()),
        ("cpu", _cpu_name()),
        ("compiler", compiler),
    )


def describe_environment(compiler: str = "") -> dict[str, Any]:
    """The mapping ``Record.environment``; `compiler` is what compiled the kernels, with its version."""
    return {**dict(_fixed(compiler)), "cores": usable_cores()}


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def _cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
