"""Row offsets beyond 2^31: the whole matrix on a GPU (18 GB, with csr-hubs 27), that with few rows on the host."""

from __future__ import annotations

import os
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from spgraph_bench.device import open_device
from spgraph_bench.errors import DeviceError
from spgraph_bench.formats import Packed
from spgraph_bench.problems import get_problem
from spgraph_bench.runner.prepare import prepare, upload_packed
from spgraph_bench.variants import get_variant

WIDTH = 512
COLS = 1 << 20
ROWS = (1 << 22) + 4096  # 2^31 + 2^21 nonzeros
NAMES = ("csr-scalar", "csr-vector", "csr-subwarp", "csr-adaptive", "csr-segmented", "csr-merge", "csr-hubs")


def _packed(rows: int) -> tuple[Packed, np.ndarray, np.ndarray]:
    """Rows of WIDTH neighbouring columns that all have one value, each row another; first columns and values.

    Built as arrays: the canonical CSR, with float64 values, would take another 17 GB.
    """
    row = np.arange(rows, dtype=np.int64)
    first = (row * 7919) % (COLS - WIDTH + 1)
    value = (1 + row % 7).astype(np.float32)
    nnz = rows * WIDTH
    col, val = np.empty(nnz, np.int32), np.empty(nnz, np.float32)
    for position in range(0, rows, 4096):
        part = slice(position, min(position + 4096, rows))
        entries = slice(part.start * WIDTH, part.stop * WIDTH)
        col[entries].reshape(-1, WIDTH)[:] = first[part, None] + np.arange(WIDTH)
        val[entries].reshape(-1, WIDTH)[:] = value[part, None]
    arrays = {"row_ptr": np.arange(rows + 1, dtype=np.int64) * WIDTH, "col": col, "val": val}
    packed = Packed("csr", rows, COLS, nnz, np.dtype(np.float32), MappingProxyType(arrays), offsets=np.dtype(np.int64))
    return packed, first, value


def _oracle(x: np.ndarray, first: np.ndarray, value: np.ndarray) -> dict[str, np.ndarray]:
    """By prefix sums of x, since every row is a run of it."""
    below = np.concatenate(([0.0], np.cumsum(x.astype(np.float64))))
    r = value * (below[first + WIDTH] - below[first])
    return {"r": r, "absax": r, "lengths": np.full(len(first), WIDTH, np.int64)}


def _run_all(device: Any, rows: int) -> None:
    problem, kind = get_problem("spmv"), np.dtype(np.float32)
    packed, first, value = _packed(rows)
    x = np.random.default_rng(3).random(COLS, np.float32)
    oracle = _oracle(x, first, value)
    arrays = upload_packed(device, packed)
    for name in NAMES:
        prepared = prepare(device, get_variant("spmv", name), packed, {"x": x}, {"y": ((rows,), kind)}, arrays=arrays)
        prepared.launch.reset()
        prepared.launch.run()
        device.synchronize()
        result = problem.check(prepared.launch.output(), oracle, kind)
        assert result.ok, f"{name}: {result.message}"


def test_the_same_matrix_with_few_rows() -> None:
    device = open_device("host")
    _run_all(device, 40)
    device.close()


@pytest.mark.gpu
@pytest.mark.gpu_alone
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_more_than_2_to_the_31_nonzeros() -> None:
    host = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if host < 30e9:
        pytest.skip(f"needs 30 GB of host memory, here are {host / 1e9:.0f} GB")
    try:
        device = open_device("cuda")
    except DeviceError as cause:
        pytest.skip(str(cause))
    try:
        if device.free_bytes() < 29e9:
            pytest.skip(f"needs 29 GB of device memory, {device.free_bytes() / 1e9:.0f} GB are free")
        assert ROWS * WIDTH > 2**31
        _run_all(device, ROWS)
    finally:
        device.close()
