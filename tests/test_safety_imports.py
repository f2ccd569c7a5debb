"""Nothing of the working folder is imported: not by the command, not by its worker, not by what it starts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from spgraph_bench.device import probe

ROOT = Path(__file__).resolve().parent.parent
BENCH = ("bench", "spmv", "grid:n=4", "--device", "host", "--variant", "csr-scalar", "--no-save")


@pytest.fixture
def trap(tmp_path: Path) -> Path:
    """A folder of modules that say that they were imported."""
    for name in ("numpy", "scipy", "click", "random", "secrets", "filelock", "rich", "ctypes", "json", "dis"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'sprung')!r}, 'a').write('{name} ')\n")
    package = tmp_path / "spgraph_bench" / "runner"
    package.mkdir(parents=True)
    for module in (package / "__init__.py", package / "worker.py", package / "serving.py"):
        module.write_text(f"open({str(tmp_path / 'sprung')!r}, 'a').write('spgraph ')\n")
    return tmp_path


def _sprung(trap: Path) -> str:
    result = trap / "sprung"
    return result.read_text() if result.exists() else ""


def _run(trap: Path, *python: str, path: str = str(ROOT)) -> None:
    done = subprocess.run(
        [sys.executable, *python, *BENCH],
        cwd=trap,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert done.returncode == 0, done.stderr
    assert "csr-scalar" in done.stdout
    assert _sprung(trap) == ""


def test_python_m_imports_nothing_of_the_working_folder(trap: Path) -> None:
    # The package itself is looked up by Python, before any of its code runs: there -P has to be given.
    (trap / "spgraph_bench").rename(trap / "other")
    _run(trap, "-m", "spgraph_bench")


@pytest.mark.parametrize("path", [f":{ROOT}", f"{ROOT}:.", f"{ROOT}::"])
def test_an_empty_entry_of_pythonpath_is_not_the_working_folder(trap: Path, path: str) -> None:
    (trap / "spgraph_bench").rename(trap / "other")
    start = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from spgraph_bench.__main__ import main; main()"
    script = trap.parent / f"{trap.name}-spgraph"  # as the console script does
    script.write_text(start)
    _run(trap, "-P", str(script), path=path)


def test_the_worker_is_of_the_package_that_started_it(trap: Path) -> None:
    script = trap.parent / f"{trap.name}-spgraph"
    script.write_text("from spgraph_bench.__main__ import main; main()")
    _run(trap, str(script))


def test_a_package_is_tried_without_the_working_folder(trap: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(trap)
    assert probe.try_import("numpy") is None
    assert _sprung(trap) == ""
    # The traps work: without -P they spring.
    subprocess.run([sys.executable, "-c", "import numpy"], check=True)
    assert _sprung(trap) == "numpy "
