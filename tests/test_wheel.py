"""The wheel, installed without the checkout and run from an empty folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def _call(*args: str | Path, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *args], capture_output=True, text=True, cwd=cwd, timeout=240, env={**os.environ, **environment}
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    done = _call("-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Installed into a folder of its own; only the dependencies come from this environment."""
    folder = tmp_path_factory.mktemp("installed")
    done = _call("-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", folder, wheel, cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


def _spgraph(installed: Path, empty: Path, *args: str) -> subprocess.CompletedProcess[str]:
    script = installed / "bin" / "spgraph"
    return _call(script, *args, cwd=empty, PYTHONPATH=str(installed), SPGRAPH_CACHE=str(empty / "cache"))


def test_wheel_holds_kernels_and_configs_and_no_package_called_cuda(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    for folder in ("cuda", "configs"):
        for path in (ROOT / folder).rglob("*.*"):
            if path.is_file() and "__pycache__" not in path.parts:
                assert f"spgraph_bench/{path.relative_to(ROOT)}" in names
    assert "spgraph_bench/readers/entries.cpp" in names
    assert not any(name.startswith(("cuda/", "configs/", "tests/")) for name in names)
    assert "spgraph_bench/cuda/__init__.py" not in names


def test_it_is_the_installed_one_that_runs(installed: Path, tmp_path: Path) -> None:
    code = "import spgraph_bench, spgraph_bench.paths as p; print(spgraph_bench.__file__); print(p.cuda_dir())"
    done = _call("-c", code, cwd=tmp_path, PYTHONPATH=str(installed))
    assert [line.startswith(str(installed)) for line in done.stdout.split()] == [True, True]


def test_list_show_generate_info_from_an_empty_folder(installed: Path, tmp_path: Path) -> None:
    done = _spgraph(installed, tmp_path, "list", "--json")
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    assert all(data[kind] for kind in ("formats", "variants", "recipes", "readers", "configs"))
    done = _spgraph(installed, tmp_path, "show", "csr-vector")
    assert done.returncode == 0, done.stderr
    assert "lane_0_sum" in done.stdout
    done = _spgraph(installed, tmp_path, "generate", "poisson2d:n=4", "-o", "p.mtx")
    assert done.returncode == 0, done.stderr
    done = _spgraph(installed, tmp_path, "info", "p.mtx")
    assert done.returncode == 0, done.stderr
    assert "16" in done.stdout


@pytest.mark.slow
def test_bench_from_an_empty_folder(installed: Path, tmp_path: Path) -> None:
    done = _spgraph(
        installed,
        tmp_path,
        "bench",
        "spmv",
        "rmat:scale=5",
        "--device",
        "host",
        "--variant",
        "csr-*",
        "--variant",
        "scipy",
        "--time-limit",
        "0.2",
        "--json",
    )
    assert done.returncode == 0, done.stderr
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert {r["variant"] for r in records} >= {"csr-scalar", "csr-vector", "scipy"}
    assert {r["status"] for r in records} == {"ok"}
    assert list((tmp_path / "results").glob("*.jsonl"))
