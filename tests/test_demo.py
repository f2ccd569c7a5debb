"""`make demo`: its matrix, its conclusion, and that it runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse.linalg import eigsh

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

import demo  # noqa: E402
import plate  # noqa: E402
from test_report import make_record  # noqa: E402

import spgraph_bench  # noqa: E402


def test_the_matrix_is_small_and_what_it_says() -> None:
    """Symmetric, positive definite, and of the size that the script makes."""
    assert plate.FILE.stat().st_size < 100_000
    plate_read, made = spgraph_bench.read(plate.FILE), plate.plate()
    assert plate_read.csr.shape == made.shape
    assert plate_read.symmetry == "symmetric"
    matrix = plate_read.csr.to_scipy()
    assert abs(matrix - matrix.T).max() == 0
    assert eigsh(matrix, 1, sigma=0, return_eigenvectors=False)[0] > 0
    assert abs(plate_read.csr.nnz - made.nnz) < 50  # another triangulation, perhaps
    assert np.isclose(matrix.sum(), 2 - 0.2**2 * np.pi, rtol=0.02)  # of the mass: the plate's area


def test_conclusions() -> None:
    fast, slow = make_record("sell", 0.002), make_record("csr-scalar", 0.004)
    library = make_record("cusparse-csr-1", 0.003, library="cuSPARSE")
    text, then = demo.conclusion([slow, fast, library])
    assert text == (
        "sell is the fastest of these 2 kernels here: 2.0 us, 2.00 times as fast as a thread per row, "
        "and 1.50 times as fast as cusparse-csr-1. All answers are right."
    )
    assert then == "spgraph bench spmv YOUR_MATRIX.mtx"
    host = [make_record("sell", 1.0, samples=(), device={"kind": "host", "name": "C"})]
    assert "Without a GPU they are not timed" in demo.conclusion(host)[0]
    wrong = [fast, make_record("csr-vector", 1.0, samples=(), status="wrong", reason="row 1")]
    assert demo.conclusion(wrong) == (
        "Something is broken here: csr-vector did not give the right answer.",
        "spgraph doctor",
    )


@pytest.mark.slow
def test_it_ends_in_a_conclusion_and_a_command() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "demo.py")], capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stderr
    *_, conclusion, _, what, command = done.stdout.splitlines()
    assert conclusion.endswith((" counted.", " right."))
    assert what == "Next:"
    assert command.startswith("$ spgraph ")
